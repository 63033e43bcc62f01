"""A learner whose predictions need something that Python must compute: the round is played as if nothing had been."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated.checks.contract import COMPARED
from belated.errors import BadPrediction
from belated.forecasters.instance import PATIENCE, Instance
from belated.kernels.random import key_of, uniform
from belated.protocols import NEEDED

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
kinds = pytest.mark.parametrize("kind", KINDS)
engines = pytest.mark.parametrize("engine", ["compiled", "python"])
asked: list[int] = []


@dataclass(frozen=True)
class Ready(bl.Learner):
    """Plays at random, by a table of offsets that changes with the feedback."""

    actions: int

    def layout(self):
        return np.dtype([("place", "i8")])

    def params(self):
        return {"offset": (np.arange(16) * 7) % 5, "known": np.ones(16, np.int64), "wanted": 0}

    @staticmethod
    def predict(params, state, context, draw):
        if params.known[state.place] == 0:
            params.wanted = state.place
            return NEEDED, 0.5
        return (int(uniform(draw, 0) * 3.0) + params.offset[state.place]) % 3, 1.0 / 3.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.place = (2 * state.place + action + (1 if feedback[0] > 0.5 else 0) + state.answering % 2) % 16

    @staticmethod
    def replace(params, state, action):
        state.place = action


@dataclass(frozen=True)
class Needy(Ready):
    """The same, but each place of the table must be computed first, and only two are kept."""

    def params(self):
        return {"offset": np.zeros(16, np.int64), "known": np.zeros(16, np.int64), "wanted": 0}

    def supply(self, params, state):
        wanted = int(params["wanted"])
        assert wanted == state["place"]
        asked.append(wanted)
        if params["known"].sum() > 1:
            params["known"][:] = 0
        params["known"][wanted] = 1
        params["offset"][wanted] = (7 * wanted) % 5


@dataclass(frozen=True)
class Stubborn(Needy):
    """Its supply gives nothing."""

    def supply(self, params, state):
        asked.append(0)


@dataclass(frozen=True)
class Helpless(Ready):
    """Asks, and has no supply."""

    def params(self):
        return {"offset": np.zeros(16, np.int64), "known": np.zeros(16, np.int64), "wanted": 0}


def play(forecaster, engine, delays=None, game=None, expiry=None, **options):
    return bl.play(
        forecaster,
        game or bl.games.Bernoulli([0.2, 0.5, 0.9]),
        delays or bl.delays.Geometric(mean=6),
        rounds=400,
        replications=3,
        seed=5,
        record=True,
        engine=engine,
        expiry=expiry,
        **options,
    )


@kinds
@engines
@pytest.mark.parametrize("expiry", [None, 8])
def test_asking_leaves_no_trace(kind, engine, expiry):
    for law in (bl.delays.Constant(0), bl.delays.Constant(3), bl.delays.Geometric(mean=6), bl.delays.Batched(9)):
        asked.clear()
        one = play(kind(Needy(3)), engine, law, expiry=expiry)
        assert len(asked) > 50
        two = play(kind(Ready(3)), engine, law, expiry=expiry)
        for name in COMPARED:
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
@engines
def test_an_event_is_asked_for_once_a_round(kind, engine):
    game = bl.games.Replaced(3, 0.05, announced=True)
    one, two = (play(kind(learner), engine, game=game) for learner in (Needy(3), Ready(3)))
    for name in COMPARED:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    assert one.dropped.sum() > 0


def test_threads_have_tables_of_their_own():
    one, two = (
        bl.play(bl.BOLD(Needy(3)), bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.delays.Geometric(mean=6), 300, 16, threads=n)
        for n in (1, 3)
    )
    np.testing.assert_array_equal(one.regret, two.regret)


@kinds
@engines
def test_one_that_asks_without_end_is_named(kind, engine):
    asked.clear()
    with pytest.raises(BadPrediction, match=r"Stubborn\(actions=3\) asks again and again"):
        play(kind(Stubborn(3)), engine, threads=1)
    assert len(asked) == PATIENCE


@kinds
@engines
def test_one_that_has_no_supply_is_named(kind, engine):
    with pytest.raises(BadPrediction, match=r"Helpless\(actions=3\) chose action -2, .* no supply"):
        play(kind(Helpless(3)), engine)


@kinds
def test_a_forecaster_is_untouched_by_one_that_fails(kind):
    f = kind(Stubborn(3), seed=1)
    before = [x.state.tobytes() for x in f._instances]
    with pytest.raises(BadPrediction):
        f.predict()
    assert [x.state.tobytes() for x in f._instances] == before
    assert (f.outstanding, f.instances) == (0, 1)


def test_the_default_says_so():
    with pytest.raises(NotImplementedError, match="UCB1 has no supply"):
        bl.UCB1(2).supply(None, None)


def test_instances_share_what_was_supplied():
    first = Instance(Needy(3), key_of(0, 0), 0)
    second = Instance(Needy(3), key_of(0, 0), 1, first)
    asked.clear()
    first.predict(None)
    second.predict(None)
    assert asked == [0] and first.predictions == second.predictions == 1
