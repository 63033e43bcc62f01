"""UCB1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.natural import natural
from belated.kernels.target import on_gpu
from belated.kernels.ties import MARGIN, fewer, larger
from belated.protocols import Floats, Learner
from belated.theory import bounds


@dataclass(frozen=True)
class UCB1(Learner):
    """UCB1: plays the largest mean + sqrt(2 ln t / s), with s observations of the action.

    An action without an observation has index +inf. Played directly under delay it is the paper's Delayed-UCB1.

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
    actions: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        clock = [(name, "f8") for name in ("since", "per", "width", "first", "second", "third")]
        sums = [(name, "f8", k) for name in ("mean", "radius", "total")]
        return np.dtype([*clock, *sums, ("seen", "i8", k), ("predicted", "i8", k)])

    def start(self, state: Any) -> None:
        state["mean"][:] = math.inf
        state["per"] = math.inf

    @staticmethod
    def predict(params, state, context, draw):
        width = width_now(state)
        action = widest(state.mean, state.radius, state.predicted, width)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
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
        seen = float(state.seen[action])
        state.mean[action] = state.total[action] / seen
        state.radius[action] = 1.0 / math.sqrt(seen)

    @staticmethod
    def replace(params, state, action):
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
    best = mean[0] + width * radius[0]
    for i in range(1, len(mean)):
        best = max(best, mean[i] + width * radius[i])
    floor = best - MARGIN
    chosen = -1
    for i in range(len(mean)):
        if mean[i] + width * radius[i] >= floor and (chosen < 0 or predicted[i] < predicted[chosen]):
            chosen = i
    return chosen
