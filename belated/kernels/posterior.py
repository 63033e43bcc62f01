"""A normal law given that it lies in the simplex.

The law has a mean and a precision matrix for the first d coordinates; the last coordinate is one less their sum.
Simply drawing until the point lies in the simplex takes for ever where a direction is not known: a coordinate of
standard deviation s hits [0, 1] once in 2.5 s tries. So the coordinates are drawn one by one, the last first, each
within what the others have left of [0, 1], and the weight of the point is what that has changed.
"""

from __future__ import annotations

import math

from belated.kernels.compile import routine
from belated.kernels.elementary import erf, erfc, exp, expm1, log, log1p
from belated.kernels.sampling import normals, pair

ROOT_2 = 1.4142135623730951
ROOT_2_PI = 2.5066282746310002
TRIES = 1000
LEAST = -1e300


@routine
def factor(matrix, vector, size):
    """Turn a precision matrix B into its Cholesky factor (lower), and b into the mean B^-1 b; both in place.

    >>> import numpy as np
    >>> matrix, vector = np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([8.0, 12.0])
    >>> factor(matrix, vector, 2)
    >>> vector.tolist(), matrix[1].tolist()
    ([1.0, 2.0], [1.0, 2.0])
    """
    for i in range(size):
        for j in range(i + 1):
            left = matrix[i, j]
            for k in range(j):
                left -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(max(left, 1e-300)) if i == j else left / matrix[j, j]
    for i in range(size):
        for k in range(i):
            vector[i] -= matrix[i, k] * vector[k]
        vector[i] /= matrix[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            vector[i] -= matrix[k, i] * vector[k]
        vector[i] /= matrix[i, i]


@routine
def propose(draw, index, mean, lower, point):
    """Fill `point` with a point of the simplex; return the logarithm of its weight, at most 0, and the next index.

    A point that is accepted with probability exp(weight) has the normal law given the simplex. Given the coordinates
    drawn before, one has a normal law of deviation s; its part of the weight is the mass of the interval that is left
    over the most that an interval of length 1 can have, erf(1 / (2 sqrt 2 s)).
    """
    last = len(point) - 1
    room = 1.0
    weight = 0.0
    for i in range(last - 1, -1, -1):
        centre = mean[i]
        for j in range(i + 1, last):
            centre -= lower[j, i] * (point[j] - mean[j]) / lower[i, i]
        low = -centre * lower[i, i]
        high = (room - centre) * lower[i, i]
        weight += log_mass(low, high) - log(erf(0.5 * lower[i, i] / ROOT_2))
        z, index = interval_normal(draw, index, low, high)
        point[i] = min(max(centre + z / lower[i, i], 0.0), room)
        room -= point[i]
    point[last] = room
    return min(max(weight, LEAST), 0.0), index


@routine
def log_mass(low, high):
    """log(Phi(high) - Phi(low)), however far out; -1e300 for an empty interval.

    >>> round(float(log_mass(-1.0, 1.0)), 6), round(float(log_mass(30.0, 40.0)), 4)
    (-0.381715, -454.3212)
    """
    if low > 0.0 or high < 0.0:
        a = low if low > 0.0 else -high
        b = high if low > 0.0 else -low
    else:
        a = low
        b = high
    if not a < b:
        return LEAST
    if (b - a) * max(1.0, abs(a), abs(b)) < 1e-4:
        middle = 0.5 * (a + b)
        return log(b - a) - log(ROOT_2_PI) - 0.5 * middle * middle
    if a <= 0.0:
        return log(0.5 * (erf(b / ROOT_2) - erf(a / ROOT_2)))
    if a < 20.0:
        return log(0.5 * (erfc(a / ROOT_2) - erfc(b / ROOT_2)))
    near = 1.0 / (a * a)
    beyond = 1.0 - exp(-0.5 * (b - a) * (b + a))
    return -0.5 * a * a - log(a * ROOT_2_PI) + log(beyond * (1.0 - near * (1.0 - 3.0 * near)))


@routine
def interval_normal(draw, index, low, high):
    """A standard normal number given that it lies in [low, high], and the next index.

    Around 0 from normal or uniform proposals, in a tail from exponential ones (Robert, *Simulation of truncated normal
    variables*, 1995), each accepted above 0.3.
    """
    if low <= 0.0 and high >= 0.0:
        wide = high - low > ROOT_2_PI
        for _ in range(TRIES):
            if wide:
                z, other = normals(draw, index)
                index += 1
                if not low <= z <= high:
                    z = other
                if low <= z <= high:
                    return z, index
            else:
                u, v = pair(draw, index)
                index += 1
                z = low + (high - low) * u
                if v < exp(-0.5 * z * z):
                    return z, index
        return 0.0, index
    sign = 1.0 if low > 0.0 else -1.0
    a = low if low > 0.0 else -high
    width = max(high - low, 0.0)
    rate = 0.5 * (a + math.sqrt(a * a + 4.0))
    mass = -expm1(-rate * width)
    for _ in range(TRIES):
        u, v = pair(draw, index)
        index += 1
        z = a + min(-log1p(-u * mass) / rate, width)
        if v < exp(-0.5 * (z - rate) * (z - rate)):
            return sign * z, index
    return sign * a, index
