"""Thompson sampling with discounted rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.learners.discounted import Discounted, fade
from belated.learners.thompson import drawn


@dataclass(frozen=True)
class DiscountedThompson(Discounted):
    """For rewards that drift: Thompson sampling from Beta(1 + S, 1 + F), every reward r weighed by discount^age.

    S is the sum of weight r of an action's rewards, F that of weight (1 - r). The age of a reward is the number of
    predictions since its own: what comes late is discounted already. The probability of a decision is that of
    `ThompsonBernoulli`.

    Raj, Kalyani, *Taming non-stationary bandits: a Bayesian approach*, 2017.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DiscountedThompson(actions=2, discount=0.9), seed=1)
    >>> f.update(f.predict().ticket, 1.0)
    """

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("total", "f8", (self.actions,)), ("seen", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        action, probability = drawn(params, state.total, state.seen, draw, range(len(state.total)))
        fade(params, state)
        return action, probability

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        action, probability = drawn(params, state.total, state.seen, draw, allowed)
        fade(params, state)
        return action, probability

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.seen[action] = 0.0
