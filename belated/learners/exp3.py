"""Exp3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.kernels.simplex import exp_minus, exponential_weights, pick
from belated.protocols import Learner
from belated.theory import bounds


@dataclass(frozen=True)
class Exp3(Learner):
    """Exponential weights over estimated losses: p_i ~ exp(-eta_t L_i), eta_t = sqrt(ln K / (t K)).

    The loss 1 - reward of the played action is divided by the probability it was played with. Regret at most
    2 sqrt(n K ln K) for all n at once.

    Auer, Cesa-Bianchi, Freund, Schapire 2002; in this form Bubeck, Cesa-Bianchi, *Regret analysis of stochastic and
    nonstochastic multi-armed bandit problems*, 2012, theorem 3.1.

    >>> import belated as bl
    >>> round(bl.Exp3(actions=10).bound(10_000), 1)
    959.7
    """

    weighs = True
    guarantee = "2 sqrt(n K ln K), any adversary"
    reads_answering = False
    actions: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("loss", "f8", (self.actions,)), ("weight", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        count = float(len(state.loss))
        rate = math.sqrt(log(count) / (count * float(state.predictions)))
        return draw_by(state, rate, draw)

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        count = float(len(state.loss))
        rate = math.sqrt(log(count) / (count * float(state.predictions)))
        return draw_among(state, rate, allowed, draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.loss[action] += (1.0 - feedback[0]) / probability

    def bound(self, n: float) -> float:
        return bounds.exp3(n, self.actions)


@kernel
def draw_by(state, rate, draw):
    """An action by exponential weights of the losses, and its probability."""
    total = exponential_weights(state.loss, rate, state.weight)
    action = pick(state.weight, total, uniform(draw, 0))
    return action, state.weight[action] / total


@kernel
def draw_among(state, rate, allowed, draw):
    """The same among the allowed actions."""
    least = math.inf
    for i in range(len(state.loss)):
        state.weight[i] = 0.0
    for i in allowed:
        least = min(least, state.loss[i])
    total = 0.0
    for i in allowed:
        state.weight[i] = exp_minus(rate * (state.loss[i] - least))
        total += state.weight[i]
    action = pick(state.weight, total, uniform(draw, 0))
    return action, state.weight[action] / total
