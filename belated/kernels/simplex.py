"""Drawing an action from weights."""

from __future__ import annotations

import numpy as np

from belated.kernels.compile import kernel

LOG2_E = 1.4426950408889634
#: ln 2 in two parts, so that k ln 2 is exact in the first.
LN_2_HIGH = 0.6931471803691238
LN_2_LOW = 1.9082149292705877e-10


@kernel
def pick(weights, total, u):
    """The action whose share of `total` holds the uniform number u; never one of weight zero.

    >>> import numpy as np
    >>> int(pick(np.array([1.0, 0.0, 3.0]), 4.0, 0.25))
    2
    """
    target = u * total
    reached = 0.0
    passed = 0
    for i in range(len(weights)):  # without a branch, which nobody could predict
        reached += weights[i]
        passed += 0 if target < reached else 1
    if passed < len(weights):
        return passed
    chosen = 0
    for i in range(len(weights)):  # rounding: the last that has a weight
        if weights[i] > 0.0:
            chosen = i
    return chosen


@kernel
def exp_minus(x):
    """exp(-x) for x >= 0, to 1e-15; 0 from x = 700 on.

    Unlike the library's function it runs on vectors, and gives the same bits on every machine. With k the nearest
    whole number to x / ln 2, exp(-x) = 2^-k exp(r), |r| <= ln 2 / 2, and exp(r) is a polynomial of degree 13.

    >>> abs(float(exp_minus(1.0)) - 0.36787944117144233) < 1e-15
    True
    """
    near = x < 700.0
    k = int(x * LOG2_E + 0.5) if near else 0
    r = (k * LN_2_HIGH - x) + k * LN_2_LOW if near else 0.0
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
    middle = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    high = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    top = 1 / 479001600 + r * (1 / 6227020800)
    power = np.int64((1023 - k) << 52).view(np.float64)
    return ((low + r4 * middle) + r4 * r4 * (high + r4 * top)) * power if near else 0.0


@kernel
def exponential_weights(losses, rate, weights):
    """Fill weights with exp(-rate * (loss - least loss)); return their sum, at least 1.

    >>> import numpy as np
    >>> float(exponential_weights(np.array([5.0, 5.0]), 0.1, np.zeros(2)))
    2.0
    """
    least = losses[0]
    for i in range(1, len(losses)):
        least = min(least, losses[i])
    for i in range(len(losses)):
        weights[i] = exp_minus(rate * (losses[i] - least))
    total = 0.0
    for i in range(len(losses)):
        total += weights[i]
    return total
