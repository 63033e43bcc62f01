"""Games, delay laws and learners of one's own."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated import checks
from belated.engine.lanes import ROOM, _room
from belated.engine.workspace import Setting
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported
from belated.kernels.compile import kernel


@dataclass(frozen=True)
class Coins(bl.Game):
    """Pays what its only field says; the field is called actions, as anybody would."""

    actions: int
    pay: float = 1.0
    feedback = "bandit"

    def params(self):
        return np.array([self.pay])

    def memory(self):
        return 1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = params[0]
        memory[0] += 1.0
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return 0.0


@dataclass(frozen=True)
class Steady(bl.Delays):
    """A law with a field called mean."""

    mean: int

    def params(self):
        return np.array([float(self.mean)])

    @property
    def kernel(self):
        return steady


@kernel
def steady(params, k0, k1, round_, action):
    return int(params[0])


@dataclass(frozen=True)
class Weighted(bl.UCB1):
    weights: tuple[tuple[float, ...], ...] = ((1.0, 2.0), (3.0, 4.0))


@dataclass(frozen=True)
class NeedsContext(bl.UCB1):
    context_size = 2

    @staticmethod
    def predict(params, state, context, draw):
        return int(context[1]), 1.0


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_game_and_a_law_written_from_the_protocol_play(engine):
    r = bl.play(bl.DelayedUCB1(3), Coins(3), Steady(4), rounds=50, engine=engine)
    assert r.peak[0] == 4 and r.observed.sum() == 46


def test_they_pass_the_shipped_checks():
    checks.check_game(Coins(3))
    checks.check_delays(Steady(4))


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_negative_delay_and_feedback_out_of_range_are_named(engine):
    with pytest.raises(InvalidArgument, match=r"Steady\(mean=-3\) gave a delay below 0, in round 1 of"):
        bl.play(bl.DelayedUCB1(2), Coins(2), Steady(-3), rounds=5, engine=engine)
    with pytest.raises(InvalidFeedback, match=r"Coins\(actions=2, pay=7.0\).*7.0.*in round 1"):
        bl.play(bl.DelayedUCB1(2), Coins(2, 7.0), Steady(0), rounds=5, engine=engine)
    with pytest.raises(InvalidFeedback, match="nan"):
        bl.play(bl.DelayedUCB1(2), Coins(2, float("nan")), Steady(0), rounds=5, engine=engine)


def test_a_learner_with_a_matrix_comes_back_with_tuples(monkeypatch):
    monkeypatch.setitem(bl.catalog.LEARNERS, "weighted", Weighted)
    f = bl.BOLD(Weighted(3))
    f.predict()
    g = bl.from_bytes(f.to_bytes())
    assert g.learner == f.learner and hash(g.learner) == hash(f.learner)
    checks.learner.is_a_spec(Weighted(3))


def test_the_catalog_takes_games_and_laws_and_keeps_its_own(monkeypatch):
    monkeypatch.setattr(bl.catalog, "GAMES", dict(bl.catalog.GAMES))
    assert bl.catalog.add(Coins) is Coins
    with pytest.raises(InvalidArgument, match="ucb1"):
        bl.catalog.add(type("UCB1", (bl.UCB1,), {}))
    with pytest.raises(InvalidArgument, match="takes classes of learners"):
        bl.catalog.add(int)


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_learner_that_needs_a_context_is_refused_where_there_is_none(engine):
    with pytest.raises(Unsupported, match="needs a context"):
        bl.play(bl.Direct(NeedsContext(3)), Coins(3), Steady(1), rounds=5, engine=engine)
    with pytest.raises(Unsupported, match="QPM-D cannot play"):
        bl.QPMD(NeedsContext(3))
    f = bl.BOLD(NeedsContext(3))
    assert f.predict([0.0, 2.0]).action == 2
    for wrong in (None, [1.0], [1.0, float("nan")], "ab"):
        with pytest.raises(InvalidArgument, match="context"):
            f.predict(wrong)
    g = pickle.loads(pickle.dumps(f))
    assert g.predict([0.0, 1.0]).action == 1


def test_learners_that_learn_nothing_take_any_feedback():
    full = bl.games.Block(3, 2)
    for learner in (bl.Uniform(3), bl.RoundRobin(3)):
        for forecaster in (bl.Direct, bl.QPMD):
            one, two = (
                bl.play(forecaster(learner), full, bl.delays.Geometric(mean=3), rounds=40, record=True, engine=e)
                for e in ("compiled", "python")
            )
            assert np.array_equal(one.actions, two.actions)
        f = bl.QPMD(learner)
        f.update(f.predict().ticket, [0.0, 1.0, 0.5])
        f.update(f.predict().ticket, 0.5)
        assert bl.from_bytes(f.to_bytes()).queued == f.queued


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD, bl.QPMD])
def test_forecasters_and_results_can_be_copied_and_pickled(kind):
    f = kind(bl.Exp3(3), seed=5)
    for _ in range(5):
        f.predict()
    f.update(2, 1.0)
    for again in (copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        g = again(f)
        assert g.to_bytes() == f.to_bytes()
        assert [f.predict() for _ in range(5)] == [g.predict() for _ in range(5)]
        g.update(3, 0.5)
        assert g.outstanding == f.outstanding - 1
    r = bl.play(kind(bl.UCB1(2)), bl.games.Bernoulli([0.2, 0.8]), bl.delays.Constant(2), rounds=50)
    again = pickle.loads(pickle.dumps(r))
    assert again.bound == r.bound and np.array_equal(again.regret, r.regret) and repr(again) == repr(r)
    assert r == r and r != again


class Plain:
    actions = 2

    def predict(self, context):
        return 0, 1.0

    def update(self, context, action, probability, feedback):
        pass


def test_a_function_that_returns_the_same_learner_twice_is_refused():
    shared = Plain()
    f = bl.BOLD(lambda: shared)
    f.predict()
    with pytest.raises(InvalidArgument, match="new object each time"):
        f.predict()
    assert f.instances == 1


def test_a_function_that_returns_something_else_is_refused_by_name():
    with pytest.raises(InvalidArgument, match=r"must return an object .*got 3"):
        bl.BOLD(lambda: 3)
    with pytest.raises(InvalidArgument, match=r"got .*UCB1"):
        bl.BOLD(bl.UCB1)


def test_plain_learners_are_told_nothing_that_is_nan():
    f = bl.BOLD(Plain)
    f.predict()
    for nan in (float("nan"), np.float32("nan"), None):
        with pytest.raises(InvalidFeedback):
            f.update(1, nan)
    f.update(1, "any object will do")


@pytest.mark.parametrize(
    ("law", "most"),
    [
        (bl.delays.Lossy(bl.delays.Constant(5), 0.001), ROOM),
        (bl.delays.Constant(10**9), 2**20),
        (bl.delays.Geometric(mean=10_000), 2**14),
        (bl.delays.Trace([3] * 10**6), ROOM),
    ],
    ids=repr,
)
def test_a_fresh_mailbox_is_as_large_as_needed_and_no_larger(law, most):
    setting = Setting(bl.DelayedUCB1(2), Coins(2), law, 10**6, 0, np.array([10**6]))
    assert ROOM <= _room(setting, 48) <= most
    assert _room(setting, 2**20) == ROOM
