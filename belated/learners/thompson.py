"""Thompson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.sampling import BOTH, beta_tail, large_beta
from belated.kernels.scratch import local
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
        action, second = largest(state, draw, range(len(state.total)))
        return action, 1.0 if params.unread else chance(state, action, second)

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        action, second = largest(state, draw, allowed)
        return action, 1.0 if params.unread else chance(state, action, second)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1.0

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.seen[action] = 0.0


@kernel
def largest(state, draw, actions):
    """The action whose drawn mean is the largest, and the second largest of these means."""
    tries = local(BOTH)
    at = 0
    action = -1
    best = -1.0
    second = -1.0
    for i in actions:
        value, at = large_beta(draw, at, tries, 1.0 + state.total[i], 1.0 + state.seen[i] - state.total[i])
        second = max(second, min(best, value))
        action = i if value > best else action
        best = max(best, value)
    return action, second


@kernel
def chance(state, action, second):
    """That the mean drawn for an action exceeds the largest of the others."""
    if second <= 0.0:
        return 1.0
    tail = beta_tail(second, 1.0 + state.total[action], 1.0 + state.seen[action] - state.total[action])
    return min(max(tail, 1e-300), 1.0)
