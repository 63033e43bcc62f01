"""KL-UCB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log
from belated.kernels.kl import TINY, kl, kl_upper
from belated.kernels.lead import LEAD, SHARE, leads
from belated.kernels.natural import lowest_bit, natural
from belated.kernels.target import on_gpu
from belated.kernels.ties import MARGIN, largest_among
from belated.protocols import Floats, Learner
from belated.theory import bounds

#: How far ahead of its time an upper bound is computed, and what covers the rounding of one that is solved.
AHEAD = 0.05
SOLVED = 1e-11


@dataclass(frozen=True)
class KLUCB(Learner):
    """KL-UCB: plays the largest q in [mean, 1] with s d(mean, q) <= ln t + c ln(max(ln t, 1)).

    d is the Bernoulli divergence, s the observations of the action; without one its index is +inf. Played directly
    under delay it is the paper's Delayed-KL-UCB.

    Not every index is solved every round: the index for a slightly larger right-hand side is an upper bound that stays
    good until the right-hand side has grown that far or the action is observed again. Only actions whose bound reaches
    the best index are looked at; and none at all as long as it is sure that the leader is ahead of all others. The
    decision is that of the plain rule.

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
    unused_on_gpu = ("until", "most", "enough", "rival", "end")
    version = 3  # most rounds look at one action; before that, elementary functions of our own
    actions: int
    c: float = 3.0

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("c", self.c, low=0)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        floats = [(name, "f8", k) for name in ("mean", "total", "index", "below", "good")]
        counts = [(name, "i8", k) for name in ("seen", "predicted", "solved")]
        return np.dtype([*LEAD, ("rival", "f8"), ("end", "f8"), *floats, *counts])

    @staticmethod
    def migrate(version: int, old: Any, state: Any) -> None:
        """What was `until` before version 3 is `good`."""
        for name in old.dtype.names:
            state["good" if version < 3 and name == "until" else name] = old[name]

    def params(self) -> dict[str, Any]:
        return {"c": float(self.c)}

    @staticmethod
    def predict(params, state, context, draw):
        if not on_gpu() and state.predictions <= state.until:
            chosen = natural(state.leader)
        else:
            chosen = natural(leading(params, state))
        state.predicted[chosen] += 1
        return chosen, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        catch_up(state)
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
        if on_gpu():
            weigh(state, action)
        elif not (state.until > 0 and action == state.leader and leads(state)):
            before = state.mean[action]
            weigh(state, action)
            if state.until > 0:
                # Its index is smaller than before if its mean is.
                smaller = state.mean[action] <= before and state.seen[action] > 1
                if action == state.leader or not (smaller or reaches_not(state, action, state.rival, state.end)):
                    catch_up(state)

    @staticmethod
    def replace(params, state, action):
        catch_up(state)
        state.mean[action] = 0.0
        state.total[action] = 0.0
        state.index[action] = 0.0
        state.below[action] = 0.0
        state.good[action] = 0.0
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


@kernel
def weigh(state, action):
    """The mean of an action, of which nothing else is known any more."""
    state.mean[action] = state.total[action] / float(state.seen[action])
    state.good[action] = -1.0


@kernel
def catch_up(state):
    """Follow no leader any more."""
    if state.until > 0:
        state.until = 0
        if state.seen[natural(state.leader)] > 0:
            weigh(state, natural(state.leader))


@kernel
def reaches_not(state, action, q, level):
    """Whether the index of an action is q at most, where the right-hand side is `level` at most."""
    if state.good[action] >= level and state.below[action] <= q:
        return True
    return state.seen[action] > 0 and q > state.mean[action] and state.seen[action] * kl(state.mean[action], q) >= level


@kernel
def leading(params, state):
    """The action with the largest index; one that was the leader before may be followed, see `lead.py`."""
    if not on_gpu():
        catch_up(state)
    log_t = log(float(state.predictions))
    level = log_t + params.c * log(max(log_t, 1.0))
    mean = state.mean
    seen = state.seen
    predicted = state.predicted
    chosen = -1
    for i in range(len(mean)):
        if seen[i] == 0 and (chosen < 0 or predicted[i] < predicted[chosen]):
            chosen = i
    if chosen >= 0:
        return chosen
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
            past = (i == leader) | ((level <= state.good[i]) & (state.below[i] < best - MARGIN))
            waiting |= 0 if past else 1 << i
    i = 0
    while True:
        if in_word:
            left = waiting >> i << i
            i = lowest_bit(left) if left else len(mean)
        while i < len(mean) and (i == leader or (level <= state.good[i] and state.below[i] < best - MARGIN)):
            i += 1
        if i == len(mean):
            break
        floor = best - MARGIN
        old = state.good[i] < level
        if not old and floor > mean[i] and seen[i] * kl(mean[i], floor) > level:
            i += 1
            continue
        most = level + AHEAD if old else level
        value = kl_upper(mean[i], most / seen[i], state.below[i] if old else state.index[i])
        if old:
            state.good[i] = most
            state.below[i] = value + SOLVED
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
    if not on_gpu() and chosen == leader and level > 0.0:
        follow(state, level, (1.0 + params.c / max(log_t, 1.0)) / float(state.predictions))
    return chosen


@routine
def follow(state, level, pace):
    """Say for how long the leader is sure to lead. `pace`: the right-hand side does not grow faster than that.

    A part of its lead is for what the others gain as it grows, another for what the leader loses as it is seen more
    often, and the rest, two such parts, for its mean.
    """
    leader = natural(state.leader)
    mean, seen, own = state.mean[leader], float(state.seen[leader]), state.index[leader]
    second, slope = 0.0, 1.0
    for i in range(len(state.mean)):
        upper = state.index[i] if state.solved[i] else state.below[i]
        if i != leader and upper > second:
            second, slope = upper, float(state.seen[i]) * (upper - state.mean[i]) / max(upper * (1.0 - upper), TINY)
    part = SHARE * (own - second - 2.0 * MARGIN)
    if not 2.0 * part * seen >= 1.0:
        return
    state.rival = second + part
    state.end = level + min(part * slope, AHEAD)
    for i in range(len(state.mean)):
        if i != leader and not reaches_not(state, i, state.rival, state.end):
            return
    bend = (own - mean) / max(own * (1.0 - own), TINY)
    more = part * seen * seen * bend / level
    state.most = state.seen[leader] + int(min(more, seen))
    floor = state.rival + MARGIN + 3.0 * SOLVED
    for parts in range(2, 0, -1):
        state.enough = mean - parts * part
        if state.enough >= floor or float(state.most) * kl(state.enough, floor) <= level:
            state.until = state.predictions + int((state.end - level) / pace)
            return
