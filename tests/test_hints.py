"""DORM, DORMPlus and AdaHedgeD beside poold, the package of their authors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.errors import InvalidArgument
from tests.plainly import plain

pytestmark = plain

#: "learner hint delay": the four weights in rounds 5, 13, 30 and 59 (from 0) on `losses`. Computed by poold itself
#: (github.com/geflaspohler/poold at 2807683), `update_and_play` with one loss a round at that delay, and as hint so
#: many times the last, or the mean, of the losses (AdaHedgeD) or regrets (the others) that it had been given by then.
POOLD = json.loads((Path(__file__).parent / "poold.json").read_text())
SHOWN = (5, 13, 30, 59)
SPECS = [make(3, hint) for make in (bl.DORM, bl.DORMPlus, bl.AdaHedgeD) for hint in ("none", "last", "mean")]


def losses(t):
    """Losses of four experts in round t: sixty-fourths, so that nothing is rounded on the way through 1 - loss."""
    return np.array([((t * t * (i + 3) + 7 * t * (i + 1) + 5 * i) % 64) / 64 for i in range(4)])


@pytest.mark.parametrize("case", POOLD)
def test_weights_are_those_of_poold(case):
    name, hint, delay = case.split()
    f = bl.Direct(getattr(bl, name)(4, hint), seed=1)
    found = []
    for t in range(60):
        d = f.predict()
        weights = f._room.seats[0].learner.state["weight"][0].copy()
        assert d.probability == weights[d.action]
        if t in SHOWN:
            found.append(weights)
        if t >= int(delay):
            f.update(t - int(delay) + 1, 1 - losses(t - int(delay)))
    np.testing.assert_allclose(found, POOLD[case], rtol=0, atol=1e-12)


@pytest.mark.parametrize("hint", ["none", "last", "mean"])
def test_the_order_within_a_round_makes_no_difference_to_regret_matching(hint):
    for make in (bl.DORM, bl.DORMPlus):
        said = []
        for order in (1, -1):
            f = bl.Direct(make(4, hint), seed=3)
            for t in range(0, 60, 3):
                tickets = [f.predict().ticket for _ in range(3)]
                for k in (0, 1, 2)[::order] if hint != "last" else (0, 1, 2):
                    f.update(tickets[k], 1 - losses(t + k))
            said.append(f.predict())
        assert said[0].action == said[1].action
        assert said[0].probability == pytest.approx(said[1].probability, rel=1e-12)


def test_adahedge_is_told_in_order():
    one, two = (bl.Direct(bl.AdaHedgeD(4, "mean"), seed=3) for _ in range(2))
    for t in range(0, 60, 3):
        for f, order in ((one, 1), (two, -1)):
            tickets = [f.predict().ticket for _ in range(3)]
            for k in (0, 1, 2)[::order]:
                f.update(tickets[k], 1 - losses(t + k))
        assert one.predict() == two.predict()


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_one_action_and_no_loss(spec):
    """Nothing is divided by nothing."""
    for count in (1, 3):
        f = bl.Direct(type(spec)(count, spec.hint), seed=0)
        for _ in range(20):
            d = f.predict()
            f.update(d.ticket, [1.0] * count)
        assert d.probability == pytest.approx(1 / count)


def test_hints_have_names():
    with pytest.raises(InvalidArgument, match="hint must be one of none, last, mean, got 'recent'"):
        bl.DORM(3, "recent")
