"""Follow the regularised leader with two entropies at once: the weights.

x minimises <L, x> - 2 a sum sqrt(x_i) + b sum x_i ln x_i over the simplex, a > 0, b >= 0. With levels s_i = -ln
sqrt(x_i), c_i = L_i - min L and a multiplier nu it solves a e^{s_i} + 2 b s_i + nu = c_i and sum e^{-2 s_i} = 1. Then
nu <= -a, and s_i <= ln(c_i / a - nu / a): no weight is ever lost in rounding.
"""

from __future__ import annotations

import math
from typing import Any

from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log
from belated.kernels.simplex import exp_minus

#: A step as short as this is the last one: what is left is its square.
SHORT = 1e-7
#: A step up to here is made by a series; the longest change of a level in one step.
NEAR, STRIDE = 0.25, 3.0
#: Steps for all levels at once before they are found one by one; and of each search then.
STEPS, MORE = 12, 200
#: After so many predictions roots are taken from levels again, so that rounding does not add up.
FRESH = 256
#: How far the sum of the weights may be off that are found one by one.
SUM = 1e-13


def fields(actions: int) -> list[Any]:
    """What a state has for it: e^-s, e^s, s, the multiplier, and scratch."""
    vectors = ("loss", "weight", "root", "rise", "level", "slope", "change")
    return [("multiplier", "f8"), *((name, "f8", (actions,)) for name in vectors)]


def start(state: Any, actions: int) -> None:
    """All actions alike, for a = 1 and b = 0."""
    state["multiplier"] = -math.sqrt(actions)
    state["level"][:] = 0.5 * log(float(actions))
    state["root"][:] = 1.0 / math.sqrt(actions)
    state["rise"][:] = math.sqrt(actions)


@kernel
def hybrid_weights(state, a, b):
    """Fill state.weight with the weights of state.loss; return their sum, 1 up to rounding.

    Newton's method for all levels and the multiplier together, from those of the last time, which are in the state: two
    or three steps are enough as a rule. Where twelve are not, one level after the other is found within a search for
    the multiplier, which never fails.
    """
    losses, levels, weights, slope, change = state.loss, state.level, state.weight, state.slope, state.change
    least = losses[0]
    for i in range(1, len(losses)):
        least = min(least, losses[i])
    nu = state.multiplier
    if state.predictions % FRESH == 0:
        take_roots(state)
    for _ in range(STEPS):
        for i in range(len(losses)):
            steep = a * state.rise[i]
            slope[i] = 1.0 / (steep + 2.0 * b)
            change[i] = (steep + 2.0 * b * levels[i] + (nu - (losses[i] - least))) * slope[i]
            weights[i] = state.root[i] * state.root[i]
        total = 0.0
        pull = 0.0
        give = 0.0
        for i in range(len(losses)):
            total += weights[i]
            pull += weights[i] * change[i]
            give += weights[i] * slope[i]
        wanted = (0.5 * (1.0 - total) - pull) / give
        step = min(wanted, -a - nu)
        nu += step
        worst = 0.0
        for i in range(len(losses)):
            change[i] += step * slope[i]
            worst = max(worst, abs(change[i]))
        if worst > NEAR:
            for i in range(len(losses)):
                levels[i] = levels[i] - min(max(change[i], -STRIDE), STRIDE)
            take_roots(state)
            continue
        for i in range(len(losses)):
            move_near(state, i)
        if worst <= SHORT and step == wanted:
            state.multiplier = nu
            total = 0.0
            for i in range(len(losses)):
                total += weights[i]
            return total
    return nested_weights(state, a, b)


@kernel
def take_roots(state):
    """Roots from levels, which are at least 0."""
    for i in range(len(state.level)):
        state.level[i] = max(state.level[i], 0.0)
        state.root[i] = exp_minus(state.level[i])
        state.rise[i] = 1.0 / state.root[i]


@kernel
def move_near(state, i):
    """Lower a level by a change of at most 1/4: with the even and the odd part of e^x, to 1e-16."""
    x = state.change[i]
    y = x * x
    even = 1.0 + y * (1 / 2 + y * (1 / 24 + y * (1 / 720 + y * (1 / 40320 + y * (1 / 3628800)))))
    odd = x * (1.0 + y * (1 / 6 + y * (1 / 120 + y * (1 / 5040 + y * (1 / 362880)))))
    state.level[i] -= x
    state.root[i] *= even + odd
    state.rise[i] *= even - odd
    state.weight[i] = state.root[i] * state.root[i]


@routine
def nested_weights(state, a, b):
    """The same from scratch, slowly: Newton's method for the multiplier, and within it for each level.

    The sum of the weights grows with nu and is convex in it: from -a, where it is at least 1, steps come down without
    passing the root.
    """
    losses, levels, weights = state.loss, state.level, state.weight
    least = losses[0]
    for i in range(1, len(losses)):
        least = min(least, losses[i])
    nu = -a
    total = 0.0
    for _ in range(MORE):
        total = 0.0
        give = 0.0
        for i in range(len(losses)):
            levels[i] = level_at(losses[i] - least - nu, a, b)
        take_roots(state)
        for i in range(len(losses)):
            weights[i] = state.root[i] * state.root[i]
            total += weights[i]
            give += weights[i] / (a * state.rise[i] + 2.0 * b)
        if total - 1.0 <= SUM:
            break
        nu -= 0.5 * (total - 1.0) / give
    state.multiplier = nu
    return total


@kernel
def level_at(y, a, b):
    """The s with a e^s + 2 b s = y >= a; from the right, where the left side is convex and too large."""
    s = log(y / a)
    if b > 0.0:
        s = min(s, y / (2.0 * b))
    for _ in range(MORE):
        steep = a / exp_minus(s)
        step = (steep + 2.0 * b * s - y) / (steep + 2.0 * b)
        s -= step
        if step <= 1e-15 * max(s, 1.0):
            break
    return max(s, 0.0)
