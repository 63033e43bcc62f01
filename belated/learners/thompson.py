"""Thompson sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel, routine
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
        return largest_draw(draw, state.total, state.seen)

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        return largest_draw_among(draw, state.total, state.seen, allowed)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1.0

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.seen[action] = 0.0


@routine
def largest_draw(draw, total, seen):
    """The action whose number drawn from Beta(1 + total, 1 + seen - total) is largest, and its probability.

    Below 1, a last bit less, a number is drawn in another way: rounding must not lead there.
    """
    index = 0
    action = 0
    best = -1.0
    second = -1.0
    for i in range(len(total)):
        value, index = beta(draw, index, 1.0 + total[i], max(1.0 + seen[i] - total[i], 1.0))
        if value > best:
            second = best
            best = value
            action = i
        elif value > second:
            second = value
    return action, exceeds(second, total[action], seen[action])


@routine
def largest_draw_among(draw, total, seen, allowed):
    """The same among some actions."""
    index = 0
    action = allowed[0]
    best = -1.0
    second = -1.0
    for i in allowed:
        value, index = beta(draw, index, 1.0 + total[i], max(1.0 + seen[i] - total[i], 1.0))
        if value > best:
            second = best
            best = value
            action = i
        elif value > second:
            second = value
    return action, exceeds(second, total[action], seen[action])


@kernel
def exceeds(second, total, seen):
    """The probability that an action's number exceeds the largest of the others."""
    if second <= 0.0:
        return 1.0
    return min(max(beta_tail(second, 1.0 + total, max(1.0 + seen - total, 1.0)), 1e-300), 1.0)
