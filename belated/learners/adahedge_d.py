"""AdaHedgeD: exponential weights that find their own rate, told late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.simplex import exp_minus, exponential_weights
from belated.learners.hints import Hinted, draw_weighted, guess

#: Up to here lambda is as good as 0.
TINY = 1e-8


@dataclass(frozen=True)
class AdaHedgeD(Hinted):
    """AdaHedge, told late: p_i ~ exp(-(L_i + h_i) / lambda), lambda growing with what the delay has cost so far.

    L is the sum of the losses g = 1 - rewards that are in, and h guesses the sum of those that are missing, the round
    in progress included: 0 (`hint` "none"), so many times the last one that came ("last"), or their mean ("mean").
    lambda starts at 0, where all actions of the least L + h are alike. The feedback g of a round whose memo has L, h
    and lambda of then (m, say), adds max(0, min(drift, aux, mixed)) / ln K to lambda. With o = L + g - L(then), what
    was missing then; p the weights of then, p' those of L + g at m; A(h, p) = m ln sum_i p_i e^((h_i - o_i) / m) - <h
    - o, p>:

        drift = <g, p - p'>,   aux = A(h, p),   mixed = A(h^, p^) + <g, p - p^>,

    where h^ is the hint drawn towards o until it is not farther from it than |g|, and p^ are the weights with it. It is
    told in the order of its predictions. No bound is stated: none was proved here.

    Flaspohler et al., *Online learning with optimism and delay*, 2021; weights are those of their package poold.

    >>> import belated as bl
    >>> f = bl.Direct(bl.AdaHedgeD(actions=2), seed=1)
    >>> f.update(f.predict().ticket, [1.0, 0.0])  # drift is 1/2: lambda is 1 / (2 ln 2)
    >>> round(f.predict().probability, 9)
    0.8
    """

    guarantee = "none proved here"
    in_order = True
    more = ("weight", "sum", "then", "leader", "missing", "mixed")

    @property
    def memo(self) -> int:  # type: ignore[override]
        return (1 if self.hint == "none" else 2) * self.actions + 1

    def layout(self) -> np.dtype[Any]:
        return np.dtype([*super().layout().descr, ("scale", "f8")])

    @staticmethod
    def predict(params, state, context, draw):
        guess(params, state)
        count = len(state.weight)
        for i in range(count):
            state.sum[i] = state.total[i] + state.hint[i]
        soften(state.sum, state.scale, state.weight)
        for i in range(count):
            state.memo[1 + i] = state.total[i]
            if params.hint:
                state.memo[1 + count + i] = state.hint[i]
        state.memo[0] = state.scale
        return draw_weighted(state, draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        count, scale = len(state.total), state.memo[0]
        largest = 0.0
        farthest = 0.0
        for i in range(count):
            state.last[i] = 1.0 - feedback[i]
            state.total[i] += state.last[i]
            hint = state.memo[1 + count + i] if params.hint else 0.0
            state.hint[i] = hint
            state.missing[i] = state.total[i] - state.memo[1 + i]
            state.sum[i] = state.memo[1 + i] + hint
            largest = max(largest, abs(state.last[i]))
            farthest = max(farthest, abs(hint - state.missing[i]))
        state.told += 1
        if count == 1:
            return
        share = min(largest / farthest, 1.0) if farthest > 0.0 else 1.0
        soften(state.sum, scale, state.then)
        soften(state.total, scale, state.leader)
        drift = against(state.last, state.then, state.leader)
        aux = ahead(state, state.then, 1.0, scale)
        for i in range(count):
            near = state.missing[i] + share * (state.hint[i] - state.missing[i])
            state.sum[i] = state.total[i] - state.missing[i] + near
        soften(state.sum, scale, state.mixed)
        mixed = ahead(state, state.mixed, share, scale) + against(state.last, state.then, state.mixed)
        state.scale += max(min(drift, aux, mixed), 0.0) / log(float(count))


@kernel
def soften(losses, scale, weights):
    """Weights ~ exp(-losses / scale) with the sum 1; all least ones alike if the scale is 0."""
    if scale > TINY:
        total = exponential_weights(losses, 1.0 / scale, weights)
    else:
        least = losses[0]
        for i in range(1, len(losses)):
            least = min(least, losses[i])
        total = 0.0
        for i in range(len(losses)):
            weights[i] = 1.0 if losses[i] == least else 0.0
            total += weights[i]
    for i in range(len(losses)):
        weights[i] /= total


@kernel
def against(losses, weights, others):
    """<losses, weights - others>."""
    found = 0.0
    for i in range(len(losses)):
        found += losses[i] * (weights[i] - others[i])
    return found


@kernel
def ahead(state, weights, share, scale):
    """A of the hint that is `share` of the way from what was missing to the hint of then."""
    count = len(weights)
    mean = 0.0
    if scale <= TINY:
        least = state.total[0]
        for i in range(count):
            least = min(least, state.total[i])
            mean += state.total[i] * weights[i]
        return mean - least
    most = -math.inf
    for i in range(count):
        if weights[i] > 0.0:
            most = max(most, share * (state.hint[i] - state.missing[i]))
    whole = 0.0
    for i in range(count):
        off = share * (state.hint[i] - state.missing[i])
        mean += off * weights[i]
        if weights[i] > 0.0:
            whole += weights[i] * exp_minus((most - off) / scale)
    return scale * log(whole) + most - mean
