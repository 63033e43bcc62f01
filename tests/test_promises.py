"""The checks of what learners ask for: everything that asks passes them, and each fails on its broken twin."""

from __future__ import annotations

import pytest

import belated as bl
from belated import checks
from belated.checks import CheckFailed, promises
from belated.checks import learner as learners
from tests import broken_promises as broken
from tests import ticket_learners as own
from tests.test_ticket import LEARNERS

FORECASTERS = [
    bl.Direct(bl.DelayedHedge(3)),
    bl.BOLD(bl.UCB1(3)),
    bl.BOLD(bl.PerContext(bl.UCB1(3), 2), pools="value"),
    bl.QPMD(bl.UCB1(3)),
    bl.Paced(bl.Hedge(3)),
    bl.SDB(bl.UCB1(3)),
    bl.SDB(bl.UCB1(3), prior=[(0, 1.0)]),
]
OWED = (promises.gives_back_the_memo, promises.ends_every_prediction, promises.keeps_the_order)
ASKING = [
    own.Diary(),
    own.BanditDiary(),
    own.OrderedDiary(),
    own.Descends(),
    own.Wide(3),
    bl.PerContext(own.Recalls(), 2),
]


#: Compiled they are compared in test_ticket.py and test_ticket_games.py.
PLAINLY = [check for check in checks.LEARNER_CHECKS if check is not learners.compiled_is_python]


@pytest.mark.parametrize("check", PLAINLY, ids=lambda c: c.__name__)
@pytest.mark.parametrize("learner", ASKING, ids=lambda s: type(s).__name__)
def test_learner(learner, check, monkeypatch):
    for each in (*LEARNERS, own.Descends, own.Wide):  # so that they can be saved
        monkeypatch.setitem(bl.catalog.LEARNERS, each.__name__.lower(), each)
    check(learner)


@pytest.mark.parametrize("check", checks.GAME_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("game", [own.Targets(), own.Lift(), own.Prices()], ids=lambda g: type(g).__name__)
def test_game(game, check):
    check(game)


@pytest.mark.parametrize("check", checks.DELAY_CHECKS, ids=lambda c: c.__name__)
def test_delays(check):
    check(own.GoodNewsLast(20))


@pytest.mark.parametrize("check", OWED, ids=lambda c: c.__name__)
@pytest.mark.parametrize("forecaster", FORECASTERS, ids=repr)
def test_forecaster(forecaster, check):
    check(forecaster)


@pytest.mark.parametrize(("check", "wrong"), broken.TWINS, ids=lambda x: getattr(x, "__name__", type(x).__name__))
def test_check_fails_on_its_broken_twin(check, wrong):
    with pytest.raises(CheckFailed):
        check(wrong)
