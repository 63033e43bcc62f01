"""UCB1 and KL-UCB look at few actions; their decisions are those of the rules that look at all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated.forecasters.instance import Instance
from belated.games import laws
from belated.kernels.kl import kl_upper
from belated.kernels.random import key_of
from belated.kernels.ties import largest_index
from belated.learners.ucb1 import weigh, width_now


@dataclass(frozen=True)
class ThoroughKL(bl.KLUCB):
    """Every index, every round."""

    predict_among = bl.KLUCB.predict_among

    @staticmethod
    def predict(params, state, context, draw):
        log_t = math.log(float(state.predictions))
        level = log_t + params.c * math.log(max(log_t, 1.0))
        for i in range(len(state.mean)):
            state.index[i] = math.inf if state.seen[i] == 0 else kl_upper(state.mean[i], level / state.seen[i], 0.0)
        action = largest_index(state.index, state.predicted)
        state.predicted[action] += 1
        return action, 1.0


@dataclass(frozen=True)
class Thorough(bl.UCB1):
    """The same for UCB1; and what was learned is worked out at once."""

    predict_among = bl.UCB1.predict_among

    def layout(self):
        return np.dtype([*super().layout().descr, ("index", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        width = width_now(state)
        for i in range(len(state.mean)):
            state.index[i] = state.mean[i] + width * state.radius[i]
        action = largest_index(state.index, state.predicted)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1
        weigh(state, action)


GAMES = [
    bl.games.Bernoulli([0.5, 0.45, 0.4, 0.05]),
    bl.games.Bernoulli([0.5, 0.5, 0.5, 0.501]),
    bl.games.Bernoulli([1.0, 0.999, 0.0, 0.0]),
    bl.games.Arms([laws.Beta(9, 1), laws.Beta(30, 2), laws.Beta(1, 9), laws.Uniform(0.9, 1.0)]),
]
LAWS = [bl.delays.Constant(0), bl.delays.Geometric(mean=200)]


def differ(lazy: bl.Forecaster, thorough: bl.Forecaster, game: bl.Game, law: bl.delays.Delays, **how) -> np.ndarray:
    """The rounds in which two forecasters decide differently."""
    one, two = (bl.play(each, game, law, record=True, **({"rounds": 60_000} | how)) for each in (lazy, thorough))
    return np.flatnonzero((one.actions != two.actions).any(axis=0)) + 1


@pytest.mark.parametrize("game", GAMES, ids=range(4))
@pytest.mark.parametrize("c", [3.0, 0.0])
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_klucb_decides_as_the_plain_rule(game, c, law):
    found = differ(bl.Direct(bl.KLUCB(4, c)), bl.Direct(ThoroughKL(4, c)), game, law)
    assert found.size == 0, f"first in round {found[0]}"


@pytest.mark.parametrize("game", GAMES, ids=range(4))
@pytest.mark.parametrize("law", [*LAWS, bl.delays.Batched(50)], ids=repr)
def test_ucb1_decides_as_the_plain_rule(game, law):
    found = differ(bl.Direct(bl.UCB1(4)), bl.Direct(Thorough(4)), game, law, replications=3)
    assert found.size == 0, f"first in round {found[0]}"


@pytest.mark.parametrize(("lazy", "thorough"), [(bl.UCB1, Thorough), (bl.KLUCB, ThoroughKL)])
def test_so_they_do_where_actions_are_replaced_and_tickets_end(lazy, thorough):
    replaced = bl.games.Replaced(4, probability=0.002, announced=True)
    found = differ(bl.Direct(lazy(4)), bl.Direct(thorough(4)), replaced, LAWS[1], expiry=400, replications=3)
    assert found.size == 0, f"first in round {found[0]}"


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("learner", [bl.UCB1(2), bl.KLUCB(2), bl.KLUCB(2, c=0)])
def test_who_has_seen_all_actions_before_the_first_round_follows_nobody(learner, plain):
    """Then what indices have for exploring is 0."""
    instance = Instance(learner, key_of(0, 0), 0, plain=plain)
    for action in [0] * 4 + [1] * 4:
        instance.answer(1, None, action, 1.0, np.array([1.0 - action]))
    assert instance.predict(None)[0] == 0 and instance.state["until"][0] == instance.state["most"][0] == 0
    assert instance.predict(None)[0] == 0


def test_ucb1_with_many_actions():
    game, many = bl.games.Bernoulli(np.linspace(0.1, 0.9, 60).tolist()), bl.delays.Geometric(mean=50)
    found = differ(bl.QPMD(bl.UCB1(60)), bl.QPMD(Thorough(60)), game, many)
    assert found.size == 0, f"first in round {found[0]}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("lazy", "thorough"), [(bl.UCB1, Thorough), (bl.KLUCB, ThoroughKL)])
def test_whatever_is_asked_between(lazy, thorough, seed):
    """Choices among some, replaced actions, saved states, and feedback in any order."""
    draws = np.random.default_rng(seed)
    two = [Instance(make(5), key_of(0, 0), 0) for make in (lazy, thorough)]
    left: list[tuple[int, int]] = []
    for round_ in range(1, 8001):
        some = np.sort(draws.choice(5, 2, replace=False)) if draws.random() < 0.05 else None
        asked = [each.predict(None) if some is None else each.predict_among(None, some) for each in two]
        assert asked[0] == asked[1], f"round {round_}"
        left.append((round_, asked[0][0]))
        while len(left) > 30 or (left and draws.random() < 0.5):
            number, action = left.pop(int(draws.integers(len(left))))
            told = np.array([float(draws.random() < 0.8 - 0.05 * action)])
            for each in two:
                each.answer(number, None, action, 1.0, told)
        if draws.random() < 0.001:
            old = int(draws.integers(5))
            left = [each for each in left if each[1] != old]
            for each in two:
                each.replace(old)
        if draws.random() < 0.01:
            two[0].become(0, two[0].state.tobytes())


def ucb1_index(mean: float, seen: float, t: float) -> float:
    return mean + math.sqrt(2.0 * math.log(t) / seen)


def kl_index(mean: float, seen: float, t: float) -> float:
    return float(kl_upper(mean, (math.log(t) + 3.0 * math.log(max(math.log(t), 1.0))) / seen, 0.0))


def mean_for(index, target: float, seen: float, t: float) -> float:
    """The mean with which an action has this index, if there is one."""
    low, high = 0.0, target
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if index(middle, seen, t) < target else (low, middle)
    return low


@pytest.mark.parametrize(("make", "index"), [(bl.UCB1, ucb1_index), (bl.KLUCB, kl_index)])
def test_who_is_followed_leads_even_if_all_goes_as_badly_as_allowed(make, index):
    """From states in which all are close: the others as late as they are held against, the leader with all that it may
    lose at once."""
    draws, followed = np.random.default_rng(1), 0
    for _ in range(1500):
        size = int(draws.integers(2, 6))
        seen = np.exp(draws.uniform(1.0, 12.0, size)).astype(int) + 1
        t = int(seen.sum()) + int(draws.integers(1, 50))
        best = draws.uniform(0.02, 0.98)
        lead = np.exp(draws.uniform(-9.0, -2.0, size)) * best
        if draws.random() < 0.5:  # the others lie close together, and those that were seldom seen gain faster
            lead[1:] = lead[1] * draws.uniform(1.0, 1.1, size - 1)
        lead[0] = 0.0
        means = np.array([mean_for(index, best - gap, s, t) for gap, s in zip(lead, seen, strict=True)])
        instance = Instance(make(size), key_of(0, 0), 0)
        state = instance.state
        state["seen"][0], state["total"][0], state["mean"][0] = seen, means * seen, means
        if make is bl.UCB1:
            state["radius"][0] = 1.0 / np.sqrt(seen)
        state["predictions"][0] = t - 1
        leader = int(np.argmax([index(m, s, t) for m, s in zip(means, seen, strict=True)]))
        state["leader"][0] = leader
        if instance.predict(None)[0] != leader:
            continue  # too close
        last, most, enough = (state[name][0] for name in ("until", "most", "enough"))
        if last == 0:
            continue
        followed += last > t
        between = state["rival"][0] if make is bl.KLUCB else enough - state["beside"][0]
        assert index(max(enough, 0.0), most, t) > between + 1e-9, state
        for other in range(size):
            assert other == leader or index(means[other], seen[other], last) < between + 1e-11, (state, other)
    assert followed > 200
