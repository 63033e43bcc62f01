"""The rule of ties (design rule 2): the largest index, and within 1e-9 of it the action predicted fewest times."""

from __future__ import annotations

import math

import numpy as np

from belated.kernels.compile import kernel
from belated.kernels.natural import natural
from belated.kernels.target import on_gpu

#: Indices this close to the largest are tied, so that every honest solver agrees.
MARGIN = 1e-9


@kernel
def larger(one, two):
    """`max` of two numbers, neither of which is NaN."""
    return two if two > one else one


@kernel
def smaller(one, two):
    """`min` of two numbers, neither of which is NaN."""
    return two if two < one else one


@kernel
def fewer(tied, action, predicted, first, fewest):
    """Who is ahead among the tied with the fewest predictions, so far (-1: nobody), and how many these are."""
    ahead = tied & ((first < 0) | (predicted < fewest))
    return np.int32(action if ahead else first), predicted if ahead else fewest


@kernel
def largest_index(index, predicted):
    """The action with the largest index; ties go to the one predicted fewest times, then to the lowest number.

    >>> import numpy as np
    >>> int(largest_index(np.array([0.5, 0.7, 0.7]), np.array([0, 4, 3])))
    2
    """
    if on_gpu():
        # Without branches, in few registers, and the maximum from both ends at once.
        best, other = index[0], index[len(index) - 1]
        for i in range(1, (len(index) + 1) // 2):
            best = larger(best, index[i])
            other = larger(other, index[len(index) - 1 - i])
        floor = larger(best, other) - MARGIN
        first, fewest = np.int32(-1), predicted[0]
        for i in range(len(index)):
            first, fewest = fewer(index[i] >= floor, i, predicted[i], first, fewest)
        return natural(first)
    best = index[0]
    for i in range(1, len(index)):
        best = max(best, index[i])
    floor = best - MARGIN
    chosen = -1
    for i in range(len(index)):
        if index[i] >= floor and (chosen < 0 or predicted[i] < predicted[chosen]):
            chosen = i
    return chosen


@kernel
def largest_among(index, predicted, allowed):
    """The same among some actions.

    >>> import numpy as np
    >>> int(largest_among(np.array([0.5, 0.7, 0.7]), np.array([0, 4, 3]), np.array([0, 1])))
    1
    """
    best = index[allowed[0]]
    for i in allowed:
        best = max(best, index[i])
    floor = best - MARGIN
    chosen = -1
    for i in allowed:
        if index[i] >= floor and (chosen < 0 or predicted[i] < predicted[chosen]):
            chosen = i
    return chosen


@kernel
def remaining(upper, lower, predicted):
    """Of the actions that are not out, the one predicted fewest times, then that with the lowest number.

    An action is out, for good, whose upper bound is below the largest lower bound; both are -inf from then on. (That
    with the largest lower bound stays: its upper bound is no lower.)

    >>> import numpy as np
    >>> upper, lower = np.array([0.5, 0.7, 0.9]), np.array([0.1, 0.2, 0.6])
    >>> int(remaining(upper, lower, np.array([0, 4, 3]))), upper.tolist()
    (2, [-inf, 0.7, 0.9])
    """
    best = lower[0]
    for i in range(1, len(lower)):
        best = max(best, lower[i])
    chosen = -1
    for i in range(len(upper)):
        if upper[i] < best:
            upper[i] = -math.inf
            lower[i] = -math.inf
        elif chosen < 0 or predicted[i] < predicted[chosen]:
            chosen = i
    return chosen
