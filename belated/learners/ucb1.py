"""UCB1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import bounds, require
from belated.kernels.compile import kernel
from belated.kernels.ties import MARGIN
from belated.protocols import Floats, Learner

NO_NAN = frozenset({"nnan", "nsz"})


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

    actions: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        return np.dtype(
            [("mean", "f8", k), ("radius", "f8", k), ("total", "f8", k), ("seen", "i8", k), ("predicted", "i8", k)]
        )

    def start(self, state: Any) -> None:
        state["mean"][:] = math.inf

    @staticmethod
    def predict(params, state, context, draw):
        width = math.sqrt(2.0 * math.log(float(state.predictions)))
        action = widest(state.mean, state.radius, state.predicted, width)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1
        seen = float(state.seen[action])
        state.mean[action] = state.total[action] / seen
        state.radius[action] = 1.0 / math.sqrt(seen)

    def stochastic_bound(self, n: int, means: Floats) -> float | None:
        return bounds.ucb1(n, means.max() - means)

    def delayed_bound(self, n: int, means: Floats, peaks: Floats) -> float | None:
        return bounds.delayed_ucb1(n, means.max() - means, peaks)


def _widest(mean, radius, predicted, width):
    """`largest_index` of mean + width * radius, without room for the indices."""
    best = mean[0] + width * radius[0]
    for i in range(1, len(mean)):
        best = max(best, mean[i] + width * radius[i])
    floor = best - MARGIN
    chosen = -1
    for i in range(len(mean)):
        if mean[i] + width * radius[i] >= floor and (chosen < 0 or predicted[i] < predicted[chosen]):
            chosen = i
    return chosen


widest = kernel(_widest, fastmath=NO_NAN)
