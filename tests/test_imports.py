"""Modules of the user's own on the command line, and specs that name what they do not know."""

import copy
import inspect
import os
import pickle
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
