"""UCB1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log
from belated.kernels.lead import AHEAD, LEAD, SHARE, SLACK, leads
from belated.kernels.natural import natural
from belated.kernels.target import on_gpu
from belated.kernels.ties import MARGIN, fewer, larger, smaller
from belated.learners.upgrade import keep
from belated.protocols import Floats, Learner
from belated.theory import bounds


@dataclass(frozen=True)
class UCB1(Learner):
    """UCB1: plays the largest mean + sqrt(2 ln t / s), with s observations of the action.

    An action without an observation has index +inf. Played directly under delay it is the paper's Delayed-UCB1.

    Not every index is computed every round: as long as it is sure that the leader is ahead of all others, it is played.
    The decision is that of the plain rule.

    Auer, Cesa-Bianchi, Fischer, *Finite-time analysis of the multiarmed bandit problem*, 2002.

    >>> import belated as bl
    >>> f = bl.Direct(bl.UCB1(actions=3))
    >>> [f.predict().action for _ in range(4)]
    [0, 1, 2, 0]
    """

    guarantee = "sum_i min(n gap_i, 8 ln n / gap_i + (1 + pi^2/3) gap_i), i.i.d. rewards"
    can_grow = True
    reads_answering = False
    counters = ("seen", "predicted")
    unused_on_gpu = ("leader", "until", "most", "enough", "beside", "end")
    version = 2  # most rounds look at one action
    migrate = staticmethod(keep)
    actions: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        clock = [(name, "f8") for name in ("since", "per", "width", "first", "second", "third", "beside", "end")]
        sums = [(name, "f8", k) for name in ("mean", "radius", "total")]
        return np.dtype([*clock, *LEAD, *sums, ("seen", "i8", k), ("predicted", "i8", k)])

    def start(self, state: Any) -> None:
        state["mean"][:] = math.inf
        state["per"] = math.inf

    @staticmethod
    def predict(params, state, context, draw):
        if on_gpu():  # neighbours would wait for the one that has to look at all actions
            action = widest(state.mean, state.radius, state.predicted, width_now(state))
        elif state.predictions <= state.until:
            action = natural(state.leader)
        else:
            catch_up(state)
            width = width_now(state)
            best, second = two_largest(state.mean, state.radius, width)
            action = natural(first_of(state.mean, state.radius, state.predicted, width, best - MARGIN))
            if action == state.leader and best < math.inf and second > -math.inf and width > 0.0:
                part = SHARE * (best - second - 2.0 * MARGIN)
                if 2.0 * part * float(state.seen[action]) >= 1.0:  # its mean may lose a reward
                    follow(state, width, second, part)
            state.leader = action
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        catch_up(state)
        width = width_now(state)
        best = -math.inf
        for i in allowed:
            best = max(best, state.mean[i] + width * state.radius[i])
        action = -1
        for i in allowed:
            tied = state.mean[i] + width * state.radius[i] >= best - MARGIN
            if tied and (action < 0 or state.predicted[i] < state.predicted[action]):
                action = i
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1
        if on_gpu():
            weigh(state, action)
        elif not (state.until > 0 and action == state.leader and leads(state)):
            weigh(state, action)
            if state.until > 0:
                if action != state.leader:
                    index = state.mean[action] + state.end * state.radius[action]
                    state.enough = larger(state.enough, index + state.beside)
                if not leads(state):
                    catch_up(state)

    @staticmethod
    def replace(params, state, action):
        catch_up(state)
        state.mean[action] = math.inf
        state.radius[action] = 0.0
        state.total[action] = 0.0
        state.seen[action] = 0
        state.predicted[action] = 0

    def stochastic_bound(self, n: float, means: Floats) -> float | None:
        return bounds.ucb1(n, means.max() - means)

    def delayed_bound(self, n: int, means: Floats, peaks: Floats, peak: float | None) -> float:
        return bounds.delayed_ucb1(n, means.max() - means, peaks)


@kernel
def weigh(state, action):
    """The mean of an action, and what its index has of the width."""
    seen = float(state.seen[action])
    state.mean[action] = state.total[action] / seen
    state.radius[action] = 1.0 / math.sqrt(seen)


@kernel
def catch_up(state):
    """Follow no leader any more."""
    if state.until > 0:
        state.until = 0
        if state.seen[natural(state.leader)] > 0:
            weigh(state, natural(state.leader))


@routine
def follow(state, width, second, part):
    """Say for how long the leader is sure to lead; see `lead.py`. `second` is the largest index of the others.

    A part of its lead is for what the others gain as the width grows (a tangent bounds that), another for what it
    loses itself as it is seen more often, and the rest, two such parts, for its mean.
    """
    leader = natural(state.leader)
    slope = 1.0
    for i in range(len(state.mean)):
        if i != leader and state.mean[i] + width * state.radius[i] == second:
            slope = state.radius[i]
    own, seen = width * state.radius[leader], state.seen[leader]
    growth = min(part / slope, AHEAD)
    state.end = width + growth
    best = -math.inf
    for i in range(len(state.mean)):
        best = larger(best, -math.inf if i == leader else state.mean[i] + state.end * state.radius[i])
    state.most = seen + int(min(2.0 * part / own, 1.0) * float(seen))
    state.beside = MARGIN + SLACK * (1.0 + abs(best)) - width * (1.0 / math.sqrt(float(state.most)))
    state.enough = best + state.beside
    if leads(state):
        # The width grows by 1 / (t width) a round, and ever more slowly.
        state.until = state.predictions + int(growth * float(state.predictions) * max(width, 1.0))


@kernel
def width_now(state):
    """sqrt(2 ln t) to 1e-12, from its series in x = t / since - 1 around a recent round.

    Each round of the simulator waits for this number, and a logarithm and a root take as long as all the rest of it.
    The next term of the series is below x^4 / 4, so a thousandth of the way is as far as it goes.
    """
    t = float(state.predictions)
    x = (t - state.since) * state.per
    if not x < 0.001:
        x = 0.0
        state.since = t
        state.per = 1.0 / t
        state.width = math.sqrt(2.0 * log(t))
        if state.width > 0.0:
            slope = 1.0 / state.width
            bend = -(1.0 + slope * slope) / state.width
            state.first = slope
            state.second = bend / 2.0
            state.third = (2.0 - 3.0 * slope * bend) / (6.0 * state.width)
    return state.width + x * (state.first + x * (state.second + x * state.third))


@kernel
def two_largest(mean, radius, width):
    """The two largest of the indices mean + width * radius."""
    best, second = mean[0] + width * radius[0], -math.inf
    for i in range(1, len(mean)):
        index = mean[i] + width * radius[i]
        second = larger(second, smaller(best, index))
        best = larger(best, index)
    return best, second


@kernel
def first_of(mean, radius, predicted, width, floor):
    """Of the actions with an index from a floor on the one predicted fewest times, then that with the lowest number."""
    chosen = -1
    for i in range(len(mean)):
        if mean[i] + width * radius[i] >= floor and (chosen < 0 or predicted[i] < predicted[chosen]):
            chosen = i
    return chosen


@kernel
def widest(mean, radius, predicted, width):
    """The action of `largest_index` for the indices mean + width * radius, which need no room of their own."""
    if on_gpu():
        last = len(mean) - 1
        best, other = mean[0] + width * radius[0], mean[last] + width * radius[last]
        for i in range(1, (len(mean) + 1) // 2):
            best = larger(best, mean[i] + width * radius[i])
            other = larger(other, mean[last - i] + width * radius[last - i])
        floor = larger(best, other) - MARGIN
        first, fewest = np.int32(-1), predicted[0]
        for i in range(len(mean)):
            first, fewest = fewer(mean[i] + width * radius[i] >= floor, i, predicted[i], first, fewest)
        return natural(first)
    best, _ = two_largest(mean, radius, width)
    return first_of(mean, radius, predicted, width, best - MARGIN)
