"""Modules of the user's own on the command line, and specs that name what they do not know."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from typer.testing import CliRunner

import belated as bl
from belated import imports
from belated.cli import app
from belated.errors import InvalidArgument
from belated.ledger.experiment import make
from belated.ledger.items import Create, Decide, Upkeep
from belated.ledger.ledger import Ledger
from belated.ledger.sqlite import SQLite
from belated.studies import Results, Study, StudyProblems

OWN = '''
import belated as bl

@bl.catalog.add
class Ownrule(bl.Forecaster):
    """Direct again."""

    every: int = 2

    def choose(self, room, context):
        return room.seat(), *room.seat().ask(context)

    def deliver(self, room, letter, feedback):
        room.seat().answer(letter, feedback)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a module of one's own; nothing of it is known afterwards."""
    (tmp_path / "own_module_of_a_test.py").write_text(OWN)
    (tmp_path / "bad_module_of_a_test.py").write_text("import math\nmath.sqrt(-1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(imports.VARIABLE, "")
    yield tmp_path
    sys.modules.pop("own_module_of_a_test", None)
    bl.catalog.FORECASTERS.pop("ownrule", None)


def said(*arguments, code=0):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def stored(file):
    """A database with an experiment of one's own forecaster."""
    store = SQLite(str(file), serve=True)
    try:
        ledger = Ledger(store)
        experiment = make("ads", ["a", "b"], "ownrule(exp3, every=3)", (0.0, 1.0))
        (created,) = ledger.serve([Create(experiment, ledger.prepare(experiment))])
        assert created.plays == "Ownrule(every=3) over Exp3"
    finally:
        store.close()


@pytest.mark.parametrize("name", ["own_module_of_a_test", "own_module_of_a_test.py", "./own_module_of_a_test.py"])
def test_a_module_of_ones_own_is_known_on_the_command_line(folder, name):
    assert "no forecaster is called 'ownrule'" in said("play", "ownrule(ucb1)", code=1)
    assert "Direct again." in said("catalog", "ownrule", "--import", name)
    assert os.environ[imports.VARIABLE] == name, "processes that are started from here know it too"


def test_verify_says_how_an_experiment_of_ones_own_is_opened(folder):
    imports.bring(["own_module_of_a_test"])
    stored(folder / "x.db")
    bl.catalog.FORECASTERS.pop("ownrule")
    sys.modules.pop("own_module_of_a_test")
    os.environ[imports.VARIABLE] = ""
    text = said("verify", "--database", "x.db", code=1)
    assert "ads: not replayed" in text and "--import MODULE" in text
    assert "ads: identical, 1 state, 0 events" in said(
        "verify", "--database", "x.db", "--import", "own_module_of_a_test"
    )


def test_one_experiment_that_cannot_be_opened_does_not_hide_the_others(folder):
    imports.bring(["own_module_of_a_test"])
    store = SQLite(str(folder / "x.db"), serve=True)
    try:
        ledger, made = Ledger(store), {}
        for name, text in (("own", "ownrule(exp3)"), ("ours", "bold(exp3)")):
            experiment = make(name, ["a", "b"], text, (0.0, 1.0))
            (made[name],) = ledger.serve([Create(experiment, ledger.prepare(experiment))])
            ledger.serve([Decide(made[name], [None] * 3)])
        rule = bl.catalog.FORECASTERS.pop("ownrule")
        for _ in range(2):
            without = Ledger(store)
            assert without.statistics(made["ours"])["decisions"] == 3
            assert [each["decisions"] for each in without.folder.overview(without.experiments())["experiments"]] == [3]
            assert "--import MODULE" in without.unopened()["own"]
            without.serve([Upkeep()])
        bl.catalog.add(rule)
        assert Ledger(store).statistics(made["own"])["decisions"] == 3, "its events were not lost"
    finally:
        store.close()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing_of_a_test", "there is no module 'nothing_of_a_test' to import"),
        ("nothing.py", "there is no file 'nothing.py' to import"),
        ("bad_module_of_a_test", "bad_module_of_a_test.py, line 2: ValueError"),
    ],
)
def test_what_cannot_be_imported_is_told_in_a_line(folder, name, says):
    text = said("catalog", "--import", name, code=1)
    assert text.startswith("error: ") and says in text


def test_workers_import_what_the_environment_names(folder, monkeypatch):
    monkeypatch.setenv(imports.VARIABLE, "own_module_of_a_test")
    imports.bring_named()
    assert bl.catalog.find("forecaster", "ownrule")


# --- studies that name modules ---

MINE = """
from dataclasses import dataclass

import numpy as np

import belated as bl


@dataclass(frozen=True)
class Mineofatest(bl.Learner):
    actions: int

    def layout(self):
        return np.dtype([("total", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]


@dataclass(frozen=True)
class Latelyofatest(bl.delays.Constant):
    pass
"""
STUDY = """
import = "mine_of_a_test.py"
rounds = 20
replications = 2
forecasters = "bold(mineofatest)"
games = "bernoulli([0.2, 0.9])"
delays = "latelyofatest(3)"
"""


@pytest.fixture
def study(folder):
    """A study beside a module of one's own, in another folder than the one to work in."""
    there = folder / "studies"
    there.mkdir()
    (there / "mine_of_a_test.py").write_text(MINE)
    (there / "study.toml").write_text(STUDY)
    yield there / "study.toml"
    sys.modules.pop("mine_of_a_test", None)
    imports.BROUGHT.pop("mine_of_a_test", None)
    for table in (bl.catalog.LEARNERS, bl.catalog.DELAYS):
        for name in ("mineofatest", "latelyofatest"):
            table.pop(name, None)


def test_a_study_imports_what_stands_beside_it(study, monkeypatch):
    made = Study.read(study)
    assert repr(made.cells[0].forecaster) == "BOLD(Mineofatest(actions=2))" and made.cells[0].delays.mean == 3
    module = study.with_name("mine_of_a_test.py")
    assert os.environ[imports.VARIABLE] == str(module), "workers are told where it is"
    results = made.run(study.parent / "out")
    assert Results.load(study.parent / "out").frame()["key"].to_list() == [made.cells[0].key]
    for table, name in ((bl.catalog.LEARNERS, "mineofatest"), (bl.catalog.DELAYS, "latelyofatest")):
        monkeypatch.delitem(table, name)
    with pytest.raises(
        InvalidArgument, match=r"no learner is called 'mineofatest'.*belated\.imports\.bring\(\['.*mine_of"
    ):
        Results.load(study.parent / "out")
    assert results.pairs[0][1].pulls.tolist() == [[20, 0]] * 2


def test_changed_kernels_make_another_cell(study):
    before = Study.read(study).cells[0].key
    assert Study.read(study).cells[0].key == before
    module = study.with_name("mine_of_a_test.py")
    module.write_text(MINE.replace("return 0, 1.0", "return 1, 1.0"))
    changed = Study.read(study)
    assert (
        changed.cells[0].key != before and changed.run(study.parent / "out").pairs[0][1].pulls.tolist() == [[0, 20]] * 2
    )


@pytest.mark.parametrize(
    ("text", "given", "says"),
    [
        ("import belated\n\n1 / 0\n", None, r"import: .*mine_of_a_test\.py, line 3: ZeroDivisionError"),
        ("def broken(:\n", None, r"import: .*mine_of_a_test\.py, line 1: SyntaxError"),
        (MINE, '"nothing.py"', r"import: there is no file '.*nothing\.py' to import"),
        (MINE, "3", "import: must be text such as"),
        (MINE, '"json.py"', "there is another module 'json' already: rename the file"),
    ],
)
def test_what_a_study_cannot_import_is_told_with_file_and_line(study, text, given, says):
    study.with_name("mine_of_a_test.py").write_text(text)
    study.with_name("json.py").write_text(MINE)
    if given is not None:
        study.write_text(STUDY.replace('"mine_of_a_test.py"', given))
    with pytest.raises(StudyProblems, match=says):
        Study.read(study)


def test_cells_of_a_brought_module_go_along_to_workers_that_do_not_have_it(study):
    pytest.importorskip("ray")
    from belated.studies.on_ray import pack

    packed = pack(Study.read(study).cells[0])
    code = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).forecaster)"
    done = subprocess.run([sys.executable, "-c", code], input=packed, capture_output=True, cwd="/")
    assert done.stdout.decode().strip() == "BOLD(Mineofatest(actions=2))", done.stderr.decode()


# --- misspelled arguments ---


@dataclass(frozen=True)
class Base(bl.Delays):
    days: int = 3

    def params(self):
        return np.zeros(1)

    @property
    def kernel(self):
        return None


class Derived(Base):
    """A class of somebody's own that only states something."""

    iid = False


class Bare(bl.Delays):
    """Without any argument."""

    params, kernel = Base.params, Base.kernel


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: bl.UCB1(action=3), "UCB1 has no argument 'action'; did you mean 'actions'?"),
        (lambda: bl.BOLD(bl.Exp3(3), pols="value"), "BOLD has no argument 'pols'; did you mean 'pools'?"),
        (lambda: bl.games.Bernoulli(mean=[0.5]), "Bernoulli has no argument 'mean'; did you mean 'means'?"),
        (lambda: bl.delays.Geometric(men=3), "Geometric has no argument 'men'; did you mean 'mean'?"),
        (lambda: bl.DelayedHedge(3, zzz=1), "DelayedHedge has no argument 'zzz'; it takes actions"),
        (lambda: Derived(dys=3), "Derived has no argument 'dys'; did you mean 'days'?"),
        (lambda: Bare(days=3), "Bare has no argument 'days'; it takes no arguments"),
        (lambda: Bare(3), "Bare takes no arguments, got 3"),
    ],
)
def test_a_misspelled_argument_is_named_with_the_nearest(make, says):
    with pytest.raises(TypeError) as caught:
        make()
    assert str(caught.value) == says


def test_arguments_are_still_seen_from_outside():
    assert list(inspect.signature(Derived).parameters) == ["days"]
    assert list(inspect.signature(Bare).parameters) == []
    assert list(inspect.signature(bl.BOLD).parameters) == ["learner", "pools", "seed", "reward_range"]
    for spec in (bl.KLUCB(3), bl.games.Bernoulli([0.5]), Derived(4)):
        assert copy.copy(spec) == spec == pickle.loads(pickle.dumps(spec))


@pytest.mark.parametrize("thing", [3, bl.UCB1(2), dict, "ucb1"])
def test_the_catalog_takes_classes(thing):
    with pytest.raises(InvalidArgument, match="the catalog takes classes of learners"):
        bl.catalog.add(thing)
