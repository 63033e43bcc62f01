"""KL-UCB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.elementary import log
from belated.kernels.kl import kl, kl_upper
from belated.kernels.natural import lowest_bit
from belated.kernels.target import on_gpu
from belated.kernels.ties import MARGIN, largest_among
from belated.learners.upgrade import keep
from belated.protocols import Floats, Learner
from belated.theory import bounds

#: How far ahead of its time an upper bound is computed, and what covers its rounding.
AHEAD = 0.05
SLACK = 1e-11


@dataclass(frozen=True)
class KLUCB(Learner):
    """KL-UCB: plays the largest q in [mean, 1] with s d(mean, q) <= ln t + c ln(max(ln t, 1)).

    d is the Bernoulli divergence, s the observations of the action; without one its index is +inf. Played directly
    under delay it is the paper's Delayed-KL-UCB.

    Not every index is solved every round: the index for a slightly larger right-hand side is an upper bound that stays
    good until the right-hand side has grown that far or the action is observed again. Only actions whose bound reaches
    the best index are looked at. The decision is that of the plain rule.

    Garivier, Cappe, *The KL-UCB algorithm for bounded stochastic bandits and beyond*, COLT 2011.

    >>> import belated as bl
    >>> f = bl.Direct(bl.KLUCB(actions=2))
    >>> for reward in (1.0, 0.0):
    ...     f.update(f.predict().ticket, reward)
    >>> f.predict().action
    0
    """

    guarantee = "explicit, near sum_i gap_i ln n / d(mu_i, mu*), i.i.d. rewards, c = 3"
    can_grow = True
    reads_answering = False
    counters = ("leader", "seen", "predicted", "solved")
    version = 2  # elementary functions of our own: the last bits differ
    migrate = staticmethod(keep)
    actions: int
    c: float = 3.0

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("c", self.c, low=0)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        floats = [(name, "f8", k) for name in ("mean", "total", "index", "below", "until")]
        return np.dtype([("leader", "i8"), *floats, ("seen", "i8", k), ("predicted", "i8", k), ("solved", "i8", k)])

    def params(self) -> dict[str, Any]:
        return {"c": float(self.c)}

    @staticmethod
    def predict(params, state, context, draw):
        log_t = log(float(state.predictions))
        level = log_t + params.c * log(max(log_t, 1.0))
        mean = state.mean
        seen = state.seen
        predicted = state.predicted
        chosen = -1
        for i in range(len(mean)):
            if seen[i] == 0 and (chosen < 0 or predicted[i] < predicted[chosen]):
                chosen = i
        if chosen < 0:
            leader = state.leader
            best = kl_upper(mean[leader], level / seen[leader], state.index[leader])
            state.index[leader] = best
            for i in range(len(mean)):
                state.solved[i] = i == leader
            # Who needs no equation solved is passed: neighbours on a GPU then solve theirs together, and see at once
            # who may be next.
            in_word, waiting = on_gpu() and len(mean) < 63, 0
            if in_word:
                for i in range(len(mean)):
                    past = (i == leader) | ((level <= state.until[i]) & (state.below[i] < best - MARGIN))
                    waiting |= 0 if past else 1 << i
            i = 0
            while True:
                if in_word:
                    left = waiting >> i << i
                    i = lowest_bit(left) if left else len(mean)
                while i < len(mean) and (i == leader or (level <= state.until[i] and state.below[i] < best - MARGIN)):
                    i += 1
                if i == len(mean):
                    break
                floor = best - MARGIN
                old = state.until[i] < level
                if not old and floor > mean[i] and seen[i] * kl(mean[i], floor) > level:
                    i += 1
                    continue
                most = level + AHEAD if old else level
                value = kl_upper(mean[i], most / seen[i], state.below[i] if old else state.index[i])
                if old:
                    state.until[i] = most
                    state.below[i] = value + SLACK
                else:
                    state.solved[i] = True
                    state.index[i] = value
                    best = max(best, value)
                    i += 1
            floor = best - MARGIN
            for i in range(len(mean)):
                if state.solved[i] and state.index[i] >= floor and (chosen < 0 or predicted[i] < predicted[chosen]):
                    chosen = i
            state.leader = chosen
        predicted[chosen] += 1
        return chosen, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        log_t = log(float(state.predictions))
        level = log_t + params.c * log(max(log_t, 1.0))
        for i in allowed:
            seen = state.seen[i]
            state.index[i] = kl_upper(state.mean[i], level / seen, state.index[i]) if seen > 0 else math.inf
        action = largest_among(state.index, state.predicted, allowed)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1
        state.mean[action] = state.total[action] / float(state.seen[action])
        state.until[action] = -1.0

    @staticmethod
    def replace(params, state, action):
        state.mean[action] = 0.0
        state.total[action] = 0.0
        state.index[action] = 0.0
        state.below[action] = 0.0
        state.until[action] = 0.0
        state.seen[action] = 0
        state.predicted[action] = 0
        state.solved[action] = 0
        if state.leader == action:
            state.leader = 0

    def stochastic_bound(self, n: float, means: Floats) -> float | None:
        bound = self.delayed_bound(int(n), means, np.zeros(self.actions), 0.0)
        return None if isinstance(bound, str) else bound

    def delayed_bound(self, n: int, means: Floats, peaks: Floats, peak: float | None) -> float | str:
        if self.c != 3.0:
            return f"the theorem for KLUCB is proved for c = 3, here c = {self.c:g}"
        if n < 3:
            return "the theorem for KLUCB needs 3 rounds"
        if peak is None:
            return "the theorem for KLUCB needs delays that do not depend on the action: its proof multiplies by E G*"
        return bounds.delayed_klucb(n, means, peak)
