"""DelayedHedge: exponential weights that know how much is outstanding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.kernels.simplex import exponential_weights, pick
from belated.protocols import Learner
from belated.theory import bounds


@dataclass(frozen=True)
class DelayedHedge(Learner):
    """Hedge told late, with a rate that falls with what is outstanding: eta_t = 2 sqrt(ln K / (t + 2 D_t)).

    D_t is the sum of G_1..G_t, which the learner counts itself. Under Direct regret is at most sqrt((n + 2 D_n) ln K)
    for all n at once, with nothing known of the delays before; without delay it plays exactly what Hedge plays.

    How the constants come about stands in `bounds.delayed_hedge`.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DelayedHedge(actions=2), seed=1)
    >>> first, second = f.predict(), f.predict()
    >>> f.update(first.ticket, [1.0, 0.0])
    >>> round(bl.DelayedHedge(actions=10).bound_under_delay(10_000, 200_000), 1)
    971.6
    """

    guarantee = "sqrt((n + 2 D) ln K) told directly, D the sum of G_t; sqrt(n ln K) without delay; any adversary"
    actions: int
    feedback = "full"
    counts_open = True
    reads_answering = False

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("total", "f8"), ("loss", "f8", (self.actions,)), ("weight", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        state.total += float(state.open)
        time = float(state.predictions) + 2.0 * state.total
        rate = 2.0 * math.sqrt(log(float(len(state.loss))) / time)
        total = exponential_weights(state.loss, rate, state.weight)
        action = pick(state.weight, total, uniform(draw, 0))
        return action, state.weight[action] / total

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        for i in range(len(state.loss)):
            state.loss[i] += 1.0 - feedback[i]

    def bound(self, n: float) -> float:
        return bounds.hedge(n, self.actions)

    def bound_under_delay(self, n: int, total: float) -> float:
        return bounds.delayed_hedge(n, self.actions, total)
