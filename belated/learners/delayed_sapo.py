"""DelayedSAPO: elimination with checks, and an algorithm for adversaries when they fail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels import hybrid
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.kernels.simplex import pick
from belated.learners.hybrid_ftrl import draw_hybrid
from belated.protocols import Learner

#: What the memo has of an action that was active, and of every action once it has switched.
ACTIVE, SWITCHED = -1.0, -2.0


@dataclass(frozen=True)
class DelayedSAPO(Learner):
    """Elimination as if rewards were i.i.d., with checks; from when one fails on, HybridFTRL.

    T is `horizon`, losses are 1 - rewards. With width_i = min(1, sqrt(2 ln T / n_i)) an active action is eliminated
    when mean_i - 9 width_i > ucb*, the least upper bound that any action ever had, by its mean or by its importance
    weighted mean (width min(1, sqrt(2 K ln T / n))). An eliminated one is still played, at first with p = 1 / (2 K) +
    n_i / (2 T), in phases of 1280 / (p gap^2) observed rounds, gap = 8 width_i: p is halved after each phase, and
    doubled, up to what it was at first, when the importance weighted losses of a phase fall behind the mean by gap / 4
    times its length. The other actions share what is left evenly. It switches for good when there are 3 ln T such
    errors of an action; when an importance weighted mean leaves the bounds of an active action by more than a width;
    when losses exceed ucb* by 272 sqrt(K T ln T) + 10 G* ln K in all; or when nothing is active any more.

    Where this differs from the paper: importance weighted means are looked at from 3 K ln T observed rounds on, since
    before, with three actions or more, one loss of 1 is enough to switch; and rounds that were played with another p
    than that of the phase in which they are observed, and count in a later one, count by their mean. Its authors prove
    a rate for i.i.d. rewards and adversaries at once; no bound is stated here. For those who study it: with so wide
    margins nothing is eliminated for thousands of rounds.

    Schlisselberg, Lancewicki, Auer, Mansour, *Improved best-of-both-worlds regret for bandits with delayed feedback*,
    2025.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DelayedSAPO(actions=2, horizon=10_000), seed=1)
    >>> f.update(f.predict().ticket, 0.0)
    >>> f.predict().probability
    0.5
    """

    weighs = True
    guarantee = "none proved here"
    counts_open = True
    reads_answering = False
    actions: int
    horizon: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("horizon", self.horizon, low=2, high=2**50)

    @classmethod
    def example(cls) -> DelayedSAPO:
        """Three actions, a thousand rounds."""
        return cls(3, 1000)

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.actions

    @property
    def halvings(self) -> int:
        """How often p may be halved: phases double, so that more do not fit into the horizon."""
        return int(self.horizon).bit_length() + 1

    def layout(self) -> np.dtype[Any]:
        one, many = (self.actions,), (self.actions, self.halvings)
        counts = [(name, "i8") for name in ("switched", "observed", "peak", "before", "began")]
        sums = [(name, "f8") for name in ("total", "lost_in_all")]
        checks = [(name, "f8", one) for name in ("seen", "paid", "estimated", "lower", "upper", "least")]
        phases = [(name, "f8", one) for name in ("out", "errors", "mean", "gap", "first", "inside", "weighed")]
        banks = [("halved", "i8", one), ("banked", "f8", many), ("bank", "f8", many)]
        return np.dtype([*counts, *sums, *hybrid.fields(self.actions), *checks, *phases, *banks])

    def start(self, state: Any) -> None:
        hybrid.start(state, self.actions)
        state["lower"][:] = -math.inf
        state["upper"][:] = state["least"][:] = math.inf

    def params(self) -> dict[str, Any]:
        k, t = float(self.actions), float(self.horizon)
        return {
            "horizon": t,
            "logarithm": log(t),
            "too_much": 272.0 * math.sqrt(k * t * log(t)),
            "weight": math.sqrt(2.0 / log(max(k, 2.0))),
        }

    @staticmethod
    def predict(params, state, context, draw):
        count = len(state.loss)
        state.peak = max(state.peak, state.open)
        if state.switched == 1:
            state.switched = 2
            state.began = state.predictions - 1
            state.before = state.open
        if state.switched:
            state.total += float(state.open - state.before)
            for i in range(count):
                state.memo[i] = SWITCHED
            own = float(state.predictions - state.began)
            return draw_hybrid(state, math.sqrt(own), params.weight * math.sqrt(state.total), draw)
        left = 1.0
        active = 0
        for i in range(count):
            if state.out[i] > 0.0:
                state.weight[i] = chance(state, i)
                state.memo[i] = float(state.halved[i])
                left -= state.weight[i]
            else:
                active += 1
        for i in range(count):
            if state.out[i] == 0.0:
                state.weight[i] = left / float(active)
                state.memo[i] = ACTIVE
        action = pick(state.weight, 1.0, uniform(draw, 0))
        return action, state.weight[action]

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        loss = 1.0 - feedback[0]
        if state.memo[0] == SWITCHED:
            state.loss[action] += loss / probability
        elif state.switched:
            state.before -= 1
        else:
            observe(params, state, action, probability, loss)
            if not as_if_independent(params, state):
                state.switched = 1
            for i in range(len(state.loss)):
                if state.memo[i] >= 0.0:
                    place = int(state.memo[i])
                    state.banked[i, place] += 1.0
                    if i == action:
                        state.bank[i, place] += loss / probability
                if state.out[i] > 0.0:
                    go_through_phases(params, state, i)

    @staticmethod
    def lost(params, state, context, action, probability):
        if state.switched and state.memo[0] != SWITCHED:
            state.before -= 1


@kernel
def chance(state, i):
    """p of an eliminated action in its phase."""
    return state.first[i] / float(1 << state.halved[i])


@kernel
def width_of(params, number):
    """min(1, sqrt(2 ln T / number))."""
    return min(math.sqrt(2.0 * params.logarithm / number), 1.0)


@kernel
def observe(params, state, action, probability, loss):
    """Count a loss of an action, and bound its mean."""
    state.observed += 1
    state.lost_in_all += loss
    state.seen[action] += 1.0
    state.paid[action] += loss
    state.estimated[action] += loss / probability
    mean, width = state.paid[action] / state.seen[action], width_of(params, state.seen[action])
    state.lower[action] = max(state.lower[action], mean - width)
    state.upper[action] = min(state.upper[action], mean + width)


@kernel
def as_if_independent(params, state):
    """Whether all that was observed fits i.i.d. rewards; eliminates actions on the way."""
    count, number = len(state.loss), float(state.observed)
    wide = width_of(params, number / float(count))
    late_enough = number >= 3.0 * float(count) * params.logarithm
    best = math.inf
    for i in range(count):
        mean = state.estimated[i] / number
        if late_enough:
            state.least[i] = min(state.least[i], mean + wide)
            apart = mean < state.lower[i] - wide or mean > state.upper[i] + wide
            if apart and state.out[i] == 0.0:
                return False
        best = min(best, state.upper[i], state.least[i])
    allowed = params.too_much + 10.0 * float(state.peak) * log(float(count))
    if state.lost_in_all - number * best > allowed:
        return False
    active = 0
    for i in range(count):
        if state.out[i] == 0.0 and state.seen[i] > 0.0:
            width = width_of(params, state.seen[i])
            if state.paid[i] / state.seen[i] - 9.0 * width > best:
                state.out[i] = 1.0
                state.mean[i] = state.paid[i] / state.seen[i]
                state.gap[i] = 8.0 * width
                share = state.seen[i] / max(params.horizon, number)
                state.first[i] = 0.5 / float(count) + 0.5 * share
        if state.out[i] == 0.0:
            active += 1
    return active > 0


@kernel
def go_through_phases(params, state, i):
    """Take what was observed with the p of the phase, and go on to the next phase where it ends."""
    while state.banked[i, state.halved[i]] > 0.0:
        place = state.halved[i]
        length = 1280.0 / (chance(state, i) * state.gap[i] * state.gap[i])
        room = max(math.floor(length), 1.0) - state.inside[i]
        taken = min(room, state.banked[i, place])
        part = state.bank[i, place] * (taken / state.banked[i, place])
        state.bank[i, place] -= part
        state.banked[i, place] -= taken
        state.inside[i] += taken
        state.weighed[i] += part
        behind = state.inside[i] * state.mean[i] - state.weighed[i]
        failed = behind >= 0.25 * state.gap[i] * length
        if failed or taken == room:
            state.inside[i] = 0.0
            state.weighed[i] = 0.0
        if failed:
            state.errors[i] += 1.0
            state.halved[i] = max(place - 1, 0)
            if state.errors[i] >= 3.0 * params.logarithm:
                state.switched = 1
                return
        elif taken == room:
            state.halved[i] = min(place + 1, state.banked.shape[1] - 1)
