"""Thompson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.sampling import beta, beta_tail
from belated.learners.upgrade import keep
from belated.protocols import Learner


@dataclass(frozen=True)
class ThompsonBernoulli(Learner):
    """Draws a mean for each action from its Beta posterior, prior Beta(1, 1), and plays the largest.

    Rewards between 0 and 1 count as parts of a success: Beta(1 + sum, 1 + count - sum).

    The probability of a decision is that of the action **given the values drawn for the others**: the chance that its
    own draw exceeds them all. The chance over all draws has no closed form; this one is exact, and dividing by it is
    unbiased just the same, though with more variance.

    Thompson 1933; Agrawal, Goyal, *Analysis of Thompson sampling for the multi-armed bandit problem*, COLT 2012.

    >>> import belated as bl
    >>> f = bl.Direct(bl.ThompsonBernoulli(actions=2), seed=1)
    >>> f.update(f.predict().ticket, 1.0)
    """

    guarantee = "none with explicit constants"
    can_grow = True
    reads_answering = False
    version = 2  # elementary functions of our own: the last bits differ
    migrate = staticmethod(keep)
    actions: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("total", "f8", (self.actions,)), ("seen", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        index = 0
        action = 0
        best = -1.0
        second = -1.0
        for i in range(len(state.total)):
            value, index = beta(draw, index, 1.0 + state.total[i], 1.0 + state.seen[i] - state.total[i])
            if value > best:
                second = best
                best = value
                action = i
            elif value > second:
                second = value
        if second <= 0.0:
            return action, 1.0
        probability = beta_tail(second, 1.0 + state.total[action], 1.0 + state.seen[action] - state.total[action])
        return action, min(max(probability, 1e-300), 1.0)

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        index = 0
        action = allowed[0]
        best = -1.0
        second = -1.0
        for i in allowed:
            value, index = beta(draw, index, 1.0 + state.total[i], 1.0 + state.seen[i] - state.total[i])
            if value > best:
                second = best
                best = value
                action = i
            elif value > second:
                second = value
        if second <= 0.0:
            return action, 1.0
        probability = beta_tail(second, 1.0 + state.total[action], 1.0 + state.seen[action] - state.total[action])
        return action, min(max(probability, 1e-300), 1.0)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1.0

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.seen[action] = 0.0
