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
        return drawn(params, state.total, state.seen, draw, range(len(state.total)))

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        return drawn(params, state.total, state.seen, draw, allowed)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1.0

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.seen[action] = 0.0


@kernel
def drawn(params, total, seen, draw, actions):
    """The action whose number drawn from Beta(1 + total, 1 + seen - total) is largest, and its probability.

    That is the probability that its number exceeds the largest of the others. Below 1, a last bit less, a number is
    drawn in another way: rounding must not lead there.
    """
    tries = local(BOTH)
    at = 0
    action = 0
    best = -1.0
    second = -1.0
    for i in actions:
        value, at = large_beta(draw, at, tries, 1.0 + total[i], max(1.0 + seen[i] - total[i], 1.0))
        second = max(second, min(best, value))
        action = i if value > best else action
        best = max(best, value)
    if params.unread or second <= 0.0:
        return action, 1.0
    tail = beta_tail(second, 1.0 + total[action], max(1.0 + seen[action] - total[action], 1.0))
    return action, min(max(tail, 1e-300), 1.0)
