"""Drawing an action from weights."""

from __future__ import annotations

import math

from belated.kernels.compile import kernel


@kernel
def pick(weights, total, u):
    """The action whose share of `total` holds the uniform number u; never one of weight zero.

    >>> import numpy as np
    >>> int(pick(np.array([1.0, 0.0, 3.0]), 4.0, 0.25))
    2
    """
    target = u * total
    reached = 0.0
    chosen = 0
    for i in range(len(weights)):
        if weights[i] > 0.0:
            chosen = i
            reached += weights[i]
            if target < reached:
                break
    return chosen


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
    total = 0.0
    for i in range(len(losses)):
        weights[i] = math.exp(-rate * (losses[i] - least))
        total += weights[i]
    return total
