"""Draws from the usual laws, and the tail of the Beta law.

Each sampler takes a draw (see `belated.kernels.random`) and the index of the first Philox block it may use;
it returns its value and the index of the first block it left untouched, so that samplers follow one another
in one draw. A rejection loop gives up after `TRIES` rounds and returns the middle of its law: that never
happens (each round accepts with probability above 0.3), but it keeps every kernel finite.
"""

from __future__ import annotations

import math

import numpy as np

from belated.kernels.compile import COMPILED, kernel, routine
from belated.kernels.elementary import bits_of, cosine_turns, exp, log, log1p, log_parts, log_sum, sin_cos_turns
from belated.kernels.random import BITS_5, BITS_6, SPACING, block, uniform

TRIES = 1000
#: The largest whole number a sampler gives.
CAP = 2**62
LARGEST = float(CAP)
TINY = 1e-300
HALF_BLOCK = np.uint64(67108864)
#: Tries of `large_gamma` that are drawn at once: as many numbers as a vector register holds (in plain Python one).
AHEAD = 8 if COMPILED else 1
BOTH, LAST = 2 * AHEAD, AHEAD - 1


@kernel
def pair(draw, index):
    """Two uniform numbers on [0, 1) from one block: `uniform(draw, 2 * index)` and the next."""
    w0, w1, w2, w3 = block(draw, index)
    first = float((w0 >> BITS_5) * HALF_BLOCK + (w1 >> BITS_6)) * SPACING
    second = float((w2 >> BITS_5) * HALF_BLOCK + (w3 >> BITS_6)) * SPACING
    return first, second


@kernel
def word(draw, index):
    """The index-th 32-bit word of a draw, as uint64: 32 fair coins."""
    w0, w1, w2, w3 = block(draw, index // 4)
    place = index % 4
    if place == 0:
        return w0
    if place == 1:
        return w1
    if place == 2:
        return w2
    return w3


@kernel
def normals(draw, index):
    """Two independent standard normal numbers from one block (Box and Muller)."""
    u, v = pair(draw, index)
    radius = math.sqrt(-2.0 * log(1.0 - u))
    sine, cosine = sin_cos_turns(v)
    return radius * cosine, radius * sine


@routine
def large_gamma(draw, index, shape):
    """A Gamma(shape) number for shape >= 1, a spare uniform number on (0, 1], and the next index.

    Marsaglia, Tsang, *A simple method for generating gamma variables*, 2000.
    """
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for _ in range(TRIES):
        z, _other = normals(draw, index)
        u, spare = pair(draw, index + 1)
        index += 2
        v = 1.0 + c * z
        if v > 0.0:
            v = v * v * v
            u = 1.0 - u
            square = z * z
            if u < 1.0 - 0.0331 * square * square or log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                return d * v, 1.0 - spare, index
    return shape, 0.5, index


@routine
def gamma(draw, index, shape):
    """A Gamma(shape) number with scale 1, for any shape > 0; below 1 as Gamma(shape + 1) * U^(1 / shape)."""
    value, spare, index = large_gamma(draw, index, shape if shape >= 1.0 else shape + 1.0)
    if shape < 1.0:
        value *= exp(log(spare) / shape)
    return value, index


@routine
def beta(draw, index, a, b):
    """A Beta(a, b) number: X / (X + Y) with X ~ Gamma(a), Y ~ Gamma(b). Small shapes do not underflow."""
    x = 0.0
    y = 0.0
    boost_x = 0.0
    boost_y = 0.0
    for part in range(2):
        x = y
        boost_x = boost_y
        shape = a if part == 0 else b
        y, spare, index = large_gamma(draw, index, shape if shape >= 1.0 else shape + 1.0)
        boost_y = 0.0 if shape >= 1.0 else max(log(spare) / shape, -1e300)
    if a < 1.0 or b < 1.0:
        larger = max(boost_x, boost_y)
        x *= exp(boost_x - larger)
        y *= exp(boost_y - larger)
    return x / (x + y), index


@routine
def look_ahead(draw, first, tries):
    """The normal and uniform numbers of `AHEAD` tries of `large_gamma`, which do not depend on its shape.

    Several in vector instructions take little longer than one; bit for bit they are those that `normals` and `pair`
    give (1 - u is a normal number, at most 1: none of the cases in which `log` takes another way).
    """
    for i in range(AHEAD):
        u, v = pair(draw, 2 * (first + i))
        whole, r, rest = log_parts(bits_of(1.0 - u), 0)
        tries[i] = math.sqrt(-2.0 * log_sum(whole, r, rest)) * cosine_turns(v)
        u, v = pair(draw, 2 * (first + i) + 1)
        tries[AHEAD + i] = 1.0 - u


@kernel
def large_beta(draw, at, tries, a, b):
    """A Beta(a, b) number for a, b >= 1, and the next try: `beta`, where many follow one another from try 0 on.

    `tries` is room for them, handed on from one to the next: `local(BOTH)`.
    """
    x = 0.0
    y = 0.0
    for part in range(2):
        x = y
        y = a if part == 0 else b
        d = y - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        for _ in range(TRIES):
            place = at & LAST
            if place == 0:
                look_ahead(draw, at, tries)
            at += 1
            z = tries[place]
            u = tries[AHEAD + place]
            v = 1.0 + c * z
            if v > 0.0:
                v = v * v * v
                square = z * z
                if u < 1.0 - 0.0331 * square * square or log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                    y = d * v
                    break
    return x / (x + y), at


@routine
def truncated_normal(draw, index, mu, sigma):
    """A normal number given that it lies in [0, 1], for mu in [0, 1] and sigma > 0.

    Normal proposals where sigma is small, uniform ones where it is large: either accepts above 0.3.
    """
    wide = sigma >= 0.4
    for _ in range(TRIES):
        u, v = pair(draw, index)
        index += 1
        if wide:
            power = (u - mu) / sigma
            power *= 0.5 * power
            # exp(-x) >= 1 - x: the first test mostly saves the second.
            if v < 1.0 - power or v < exp(-power):
                return u, index
        else:
            radius = sigma * math.sqrt(-2.0 * log(1.0 - u))
            sine, cosine = sin_cos_turns(v)
            value = mu + radius * cosine
            if not 0.0 <= value <= 1.0:
                value = mu + radius * sine
            if 0.0 <= value <= 1.0:
                return value, index
    return mu, index


@kernel
def geometric(draw, index, log_q):
    """Failures before the first success: P(X >= k) = q^k on {0, 1, ...}, given log q (-inf gives 0)."""
    if log_q >= 0.0:
        return CAP, index + 1
    return int(min(log(1.0 - uniform(draw, 2 * index)) / log_q, LARGEST)), index + 1


@routine
def poisson(draw, index, mean):
    """A Poisson number: by inversion for a small mean, else by PTRS.

    Hoermann, *The transformed rejection method for generating Poisson random variables*, 1993.
    """
    if mean < 10.0:
        u = uniform(draw, 2 * index)
        mass = exp(-mean)
        below = mass
        k = 0
        while u >= below and mass > 1e-18:
            k += 1
            mass *= mean / k
            below += mass
        return k, index + 1
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = 0.02483 * b - 0.059
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    inside = 0.9277 - 3.6224 / (b - 2.0)
    for _ in range(TRIES):
        u, v = pair(draw, index)
        index += 1
        u -= 0.5
        v = 1.0 - v
        edge = 0.5 - abs(u)
        if edge > 0.0:
            k = math.floor((2.0 * a / edge + b) * u + mean + 0.43)
            if edge >= 0.07 and v <= inside:
                return k, index
            if k >= 0 and (edge >= 0.013 or v <= edge):
                height = log(v * inverse_alpha / (a / (edge * edge) + b))
                if height <= log_poisson(k, mean):
                    return k, index
    return int(mean), index


@routine
def log_poisson(k, mean):
    """log P(X = k) for X ~ Poisson(mean), without cancellation for large k."""
    if k == 0:
        return -mean
    at = float(k)
    return -at * excess(mean / at, (mean - at) / at) - 0.5 * log(6.283185307179586 * at) - stirling(at)


@routine
def excess(ratio, u):
    """u - log(1 + u) with ratio = 1 + u > 0: never negative, and accurate near 0."""
    if abs(u) > 0.3:
        return u - log(max(ratio, 5e-324))
    r = u / (2.0 + u)
    square = r * r
    series = 0.0
    for k in range(12, 0, -1):
        series = series * square + 1.0 / (2 * k + 1)
    return r * (u - 2.0 * square * series)


@routine
def stirling(z):
    """log Gamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2) for z > 0."""
    total = 0.0
    while z < 10.0:
        total += (z + 0.5) * log1p(1.0 / z) - 1.0
        z += 1.0
    w = 1.0 / (z * z)
    series = 1.0 / 1188.0 - w * (691.0 / 360360.0 - w / 156.0)
    series = 1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w * series)))
    return total + series / z


@routine
def beta_tail(x, a, b):
    """P(X > x) for X ~ Beta(a, b): the regularised incomplete beta function I_{1-x}(b, a).

    By its continued fraction, in about sqrt(max(a, b)) steps. The relative error is below 1e-10 where
    the tail is not tiny; far out the value becomes 0 only where float64 does.

    >>> round(beta_tail(0.5, 2.0, 3.0), 12)
    0.3125
    """
    if x <= 0.0:
        return 1.0
    if x >= 1.0:
        return 0.0
    whole = a + b
    apart = b * x - a * (1.0 - x)
    power = a * excess(x * (whole / a), apart / a) + b * excess((1.0 - x) * (whole / b), -apart / b)
    correction = stirling(whole) - stirling(a) - stirling(b)
    front = math.sqrt(a / whole * b / 6.283185307179586) * exp(correction - power)
    if x > (a + 1.0) / (whole + 2.0):
        return front / beta_fraction(1.0 - x, b, a, apart)
    return max(1.0 - front / beta_fraction(x, a, b, -apart), SPACING)


@routine
def beta_fraction(x, a, b, apart):
    """The continued fraction F with I_x(a, b) = x^a (1-x)^b / (B(a, b) F), given apart = a (1-x) - b x.

    DiDonato, Morris, *Algorithm 708: significant digit computation of the incomplete beta function ratios*,
    1992, by Lentz's method.
    """
    value = a * (apart + 1.0) / (a + 1.0)
    value = value if abs(value) > TINY else TINY
    c = value
    d = 0.0
    for step in range(1, 100_000):
        m = float(step)
        odd = a + 2.0 * m - 1.0
        top = (a + m - 1.0) / odd * ((a + b + m - 1.0) / odd) * m * (b - m) * x * x
        bottom = m + m * (b - m) * x / odd + (a + m) * (apart + 1.0 + m * (2.0 - x)) / (odd + 2.0)
        d = bottom + top * d
        d = 1.0 / (d if abs(d) > TINY else TINY)
        c = bottom + top / c
        c = c if abs(c) > TINY else TINY
        value *= c * d
        if abs(c * d - 1.0) < 4e-16:
            break
    return value
