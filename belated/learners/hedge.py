"""Hedge."""

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
class Hedge(Learner):
    """Exponential weights for full information: p_i ~ exp(-eta_t L_i), eta_t = 2 sqrt(ln K / t), loss = 1 - reward.

    Regret at most sqrt(n ln K) for all n at once.

    Cesa-Bianchi, Lugosi, *Prediction, Learning, and Games*, 2006, chapter 2.

    >>> import belated as bl
    >>> f = bl.BOLD(bl.Hedge(actions=2), seed=1)
    >>> f.update(f.predict().ticket, [1.0, 0.0])
    >>> round(bl.Hedge(actions=10).bound(10_000), 1)
    151.7
    """

    guarantee = "sqrt(n ln K), any adversary"
    reads_answering = False
    actions: int
    feedback = "full"

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("loss", "f8", (self.actions,)), ("weight", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        rate = 2.0 * math.sqrt(log(float(len(state.loss))) / float(state.predictions))
        total = exponential_weights(state.loss, rate, state.weight)
        action = pick(state.weight, total, uniform(draw, 0))
        return action, state.weight[action] / total

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        for i in range(len(state.loss)):
            state.loss[i] += 1.0 - feedback[i]

    def bound(self, n: float) -> float:
        return bounds.hedge(n, self.actions)
