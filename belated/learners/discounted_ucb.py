"""UCB with discounted rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.ties import largest_among, largest_index
from belated.learners.discounted import Discounted, fade


@dataclass(frozen=True)
class DiscountedUCB(Discounted):
    """For rewards that drift: plays the largest mean + 2 sqrt(0.6 ln W / N), every reward weighed by discount^age.

    N is the sum of the weights of an action's rewards, W that of all actions, 1 at least; with N = 0 the index is
    +inf. The age of a reward is the number of predictions since its own: what comes late is discounted already.

    Garivier, Moulines, *On upper-confidence bound policies for switching bandit problems*, 2011.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DiscountedUCB(actions=2, discount=0.9))
    >>> for reward in (1.0, 0.0):
    ...     f.update(f.predict().ticket, reward)
    >>> f.predict().action
    0
    """

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        return np.dtype([*((name, "f8", k) for name in ("total", "seen", "index")), ("predicted", "i8", k)])

    @staticmethod
    def predict(params, state, context, draw):
        weigh(state)
        action = largest_index(state.index, state.predicted)
        state.predicted[action] += 1
        fade(params, state)
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        weigh(state)
        action = largest_among(state.index, state.predicted, allowed)
        state.predicted[action] += 1
        fade(params, state)
        return action, 1.0

    @staticmethod
    def replace(params, state, action):
        state.total[action] = 0.0
        state.seen[action] = 0.0
        state.index[action] = 0.0
        state.predicted[action] = 0


@kernel
def weigh(state):
    """The index of every action."""
    whole = 0.0
    for i in range(len(state.seen)):
        whole += state.seen[i]
    width = 2.0 * math.sqrt(0.6 * log(max(whole, 1.0)))
    for i in range(len(state.seen)):
        seen = state.seen[i]
        state.index[i] = state.total[i] / seen + width / math.sqrt(seen) if seen > 0.0 else math.inf
