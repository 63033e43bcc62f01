"""Cells of a notebook are run again: the newest definition of a class counts, in studies and in saved bytes."""

import pickle
import sys
import types

import pytest

import belated as bl
from belated import catalog, checks
from belated.errors import InvalidArgument
from belated.studies import Results, Study

HEAD = """
from dataclasses import dataclass
import numpy as np
import belated as bl
"""
LEARNER = """
@dataclass(frozen=True)
class Own(bl.Learner):
    actions: int
    more: float = 0.0

    def layout(self):
        return np.dtype([("total", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
"""
ADD = "bl.catalog.add(Own)"
GAME = """
@bl.catalog.add
@dataclass(frozen=True)
class Pays(bl.Game):
    actions = 2
    feedback = "bandit"

    def params(self):
        return np.zeros(1)

    def memory(self):
        return 1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 0.5
        memory[0] += 1.0
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return 1.0 * memory[0]
"""
LAW = """
@bl.catalog.add
@dataclass(frozen=True)
class Waits(bl.delays.Constant):
    @property
    def mean(self):
        return 1.0
"""


@pytest.fixture(params=["__main__", "some_notebook"])
def notebook(request, monkeypatch):
    """A module that runs cells, as the shell of a notebook does; the catalog is put back after it."""
    module = types.ModuleType(request.param)
    monkeypatch.setitem(sys.modules, request.param, module)
    for table in (catalog.LEARNERS, catalog.GAMES, catalog.DELAYS):
        for name in ("own", "pays", "waits", "ucb1"):
            if name in table:
                monkeypatch.setitem(table, name, table[name])
            else:
                monkeypatch.setitem(table, name, None)
                del table[name]

    def run(source):
        exec(compile(source, "<cell>", "exec"), module.__dict__)
        return module

    run(HEAD)
    return run


def study(learner, **options):
    given = {"games": ["bernoulli([0.2, 0.9])"], "delays": ["constant(2)"], "rounds": 50, "replications": 2}
    return Study.make(forecasters=[bl.BOLD(learner)], **given | options)


def pulls(learner, folder, **options):
    return study(learner, **options).run(folder).pairs[0][1].pulls.tolist()


def test_a_cell_that_is_run_twice_changes_nothing(notebook, tmp_path):
    for _ in range(2):
        own = notebook(LEARNER + ADD).Own
        assert pulls(own(2), tmp_path) == [[50, 0]] * 2
    assert study(own(2)).run(tmp_path).state.reused == 1


@pytest.mark.parametrize("again", [ADD, ""], ids=["entered again", "entered once"])
def test_the_newest_definition_counts(notebook, tmp_path, again):
    old = notebook(LEARNER + ADD).Own(2)
    assert pulls(old, tmp_path) == [[50, 0]] * 2
    new = notebook(LEARNER.replace("return 0, 1.0", "return 1, 1.0") + again).Own(2)
    assert pulls(new, tmp_path) == [[0, 50]] * 2
    assert pulls(old, tmp_path) == [[0, 50]] * 2, "a spec that was made before is made anew"
    assert (
        Study.make(forecasters=["bold(own)"], games=["bernoulli([0.2, 0.9])"], delays=["constant(2)"], rounds=50)
        .cells[0]
        .forecaster.learner
        == new
    )
    cell = study(new).cells[0]
    assert pickle.loads(pickle.dumps(cell)).key == cell.key
    assert Results.load(tmp_path).pairs[0][1].pulls.tolist() == [[0, 50]] * 2


def test_so_it_does_with_other_fields(notebook, tmp_path):
    old = notebook(LEARNER + ADD).Own(2)
    new = notebook(LEARNER.replace("more: float = 0.0", "rate: float = 0.5")).Own(2, rate=0.25)
    assert study(new).cells[0].forecaster.learner == new
    assert (
        Study.make(
            forecasters=["bold(own(rate=0.25))"], games=["bernoulli([0.2, 0.9])"], delays=["constant(2)"], rounds=50
        )
        .cells[0]
        .forecaster.learner
        == new
    )
    with pytest.raises(InvalidArgument, match=r"Own was defined again, with other fields, since Own\(.*make it anew"):
        study(old)
    with pytest.raises(InvalidArgument, match="Own was defined again"):
        study(bl.PerContext(old, 2))


def test_so_it_does_for_saved_bytes_and_their_check(notebook):
    old = bl.BOLD(notebook(LEARNER + ADD).Own(2), seed=1)
    old.predict()
    new = notebook(LEARNER.replace("return 0, 1.0", "return 1, 1.0")).Own(2)
    again = bl.from_bytes(old.to_bytes())
    assert again.learner == new and again.predict().action == 1
    checks.learner.saved_continues(new)


def test_games_and_laws_alike(notebook, tmp_path):
    notebook(GAME + LAW)
    first = study(bl.UCB1(2), games=["pays"], delays=["waits(3)"]).run(tmp_path).pairs
    module = notebook(GAME.replace("@bl.catalog.add\n", "").replace("1.0 *", "2.0 *"))
    notebook(LAW.replace("@bl.catalog.add\n", "").replace("1.0", "2.0"))
    for game, law in (("pays", "waits(3)"), (module.Pays(), module.Waits(3))):
        ((cell, result),) = study(bl.UCB1(2), games=[game], delays=[law]).run(tmp_path).pairs
        assert (result.regret == 2 * first[0][1].regret).all() and cell.delays.mean == 2.0


def test_what_is_not_in_the_catalog_is_told_how_to_enter(notebook):
    own = notebook(LEARNER).Own
    with pytest.raises(InvalidArgument, match=r"Own is not in the catalog: enter it with @bl\.catalog\.add"):
        study(own(2))


def test_a_learner_with_a_name_of_the_catalog_is_not_taken_for_that_one(notebook):
    own = notebook(LEARNER.replace("class Own", "class UCB1")).UCB1
    with pytest.raises(InvalidArgument, match=r"another learner called 'ucb1': give .*\.UCB1 another name"):
        study(own(2))


def test_where_nobody_knows_which_is_the_newest_it_says_so(notebook):
    notebook(LEARNER + ADD)
    lost = notebook(LEARNER).Own(2)
    notebook("del Own")
    with pytest.raises(InvalidArgument, match=r"Own was defined more than once.*enter the one that counts"):
        study(lost)
