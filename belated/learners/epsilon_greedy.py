"""Epsilon-greedy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.random import uniform
from belated.kernels.ties import largest_among, largest_index
from belated.protocols import Learner


@dataclass(frozen=True)
class EpsilonGreedy(Learner):
    """Plays any action with probability epsilon, else the one with the largest mean (unobserved ones first).

    Epsilon is constant, so the regret grows with n: no bound.

    >>> import belated as bl
    >>> f = bl.Direct(bl.EpsilonGreedy(actions=4, epsilon=0.2), seed=0)
    >>> f.predict()
    Decision(ticket=1, action=0, probability=0.8500000000000001)
    """

    guarantee = "none: epsilon is constant"
    can_grow = True
    reads_answering = False
    actions: int
    epsilon: float = 0.1

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("epsilon", self.epsilon, low=0, high=1)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        return np.dtype([("mean", "f8", k), ("total", "f8", k), ("seen", "i8", k), ("predicted", "i8", k)])

    def params(self) -> dict[str, Any]:
        return {"epsilon": float(self.epsilon)}

    def start(self, state: Any) -> None:
        state["mean"][:] = math.inf

    @staticmethod
    def predict(params, state, context, draw):
        count = len(state.mean)
        greedy = largest_index(state.mean, state.predicted)
        action = greedy
        if uniform(draw, 0) < params.epsilon:
            action = int(uniform(draw, 1) * count)
        probability = params.epsilon / count
        if action == greedy:
            probability += 1.0 - params.epsilon
        state.predicted[action] += 1
        return action, probability

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        count = len(allowed)
        greedy = largest_among(state.mean, state.predicted, allowed)
        action = greedy
        if uniform(draw, 0) < params.epsilon:
            action = allowed[int(uniform(draw, 1) * count)]
        probability = params.epsilon / count
        if action == greedy:
            probability += 1.0 - params.epsilon
        state.predicted[action] += 1
        return action, probability

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1
        state.mean[action] = state.total[action] / float(state.seen[action])

    @staticmethod
    def replace(params, state, action):
        state.mean[action] = math.inf
        state.total[action] = 0.0
        state.seen[action] = 0
        state.predicted[action] = 0
