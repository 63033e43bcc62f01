"""Bernoulli Kullback-Leibler divergence and the KL-UCB index; the same for Poisson."""

from __future__ import annotations

import math

from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import expm1, log, log1p

#: A mean this small is none: its ratio to anything else may overflow.
TINY = 1e-290


@kernel
def kl(p, q):
    """d(p, q) = p ln(p/q) + (1-p) ln((1-p)/(1-q)); written with log1p, so that it stays exact for q near p.

    >>> round(float(kl(0.5, 0.25)), 6)
    0.143841
    """
    apart = q - p
    value = 0.0
    if p > TINY:
        if q <= 0.0:
            return math.inf
        value -= p * log1p(apart / p)
    if p < 1.0:
        if q >= 1.0:
            return math.inf
        value -= (1.0 - p) * log1p(-apart / (1.0 - p))
    return value


@kernel
def kl_limit(mean, budget):
    """A number at or above every q with d(mean, q) <= budget, for 0 <= mean < 1 and budget > 0.

    The smaller of Pinsker's bound and of 1 - exp(-(budget + H(mean)) / (1 - mean)), which is sharp near 1.
    """
    entropy = -(1.0 - mean) * log1p(-mean)
    if mean > TINY:
        entropy -= mean * log(mean)
    return min(mean + math.sqrt(0.5 * budget), -expm1(-(budget + entropy) / (1.0 - mean)))


@routine
def kl_upper(mean, budget, start):
    """The largest q in [mean, 1] with d(mean, q) <= budget, to 1e-12; `start` is a guess (any number will do).

    d is convex in q: Newton's method from the right of the root never passes it, and from the left it lands on the
    right, or beyond 1; then it begins again at `kl_limit`. A step of 1e-7 of the way to either end is the last, since
    the next would square it.

    >>> round(float(kl_upper(0.5, 0.143841036226, 0.0)), 9)
    0.75
    """
    if mean >= 1.0 or budget <= 0.0:
        return min(mean, 1.0)
    q = start
    least = mean + 1e-13
    for _ in range(100):
        if not least < q < 1.0:
            q = kl_limit(mean, budget)
            if not least < q < 1.0:
                break
        excess = kl(mean, q) - budget
        if excess == math.inf:  # beside 1, as far as rounding tells, and so is the root if q is not beyond it
            limit = kl_limit(mean, budget)
            if q <= limit:
                break
            q = limit
            continue
        step = excess * q * (1.0 - q) / (q - mean)
        q -= step
        if abs(step) <= max(1e-7 * min(q - mean, 1.0 - q), 1e-15):
            break
    return min(max(q, mean), 1.0)


@kernel
def poisson_limit(mean, budget):
    """A number at or above every q in [mean, 1] with mean ln(mean / q) + q - mean <= budget.

    With q = mean (1 + u) that is u - ln(1 + u) <= budget / mean, and ln(1 + u) is at most u (6 + u) / (6 + 4 u).

    >>> round(float(poisson_limit(0.1, 0.03)), 6)
    0.2
    """
    return min(mean + budget / 1.5 + math.sqrt(budget * (budget / 2.25 + 2.0 * mean)), 1.0)


@kernel
def poisson_within(mean, q, budget):
    """Whether mean ln(mean / q) + q - mean <= budget, for q > mean.

    >>> poisson_within(0.1, 0.19, 0.03), poisson_within(0.1, 0.2, 0.03), poisson_within(0.0, 0.2, 0.2)
    (True, False, True)
    """
    apart = q - mean
    return apart - mean * log1p(apart / max(mean, TINY)) <= budget


@routine
def poisson_upper(mean, budget):
    """The largest q in [mean, 1] with mean ln(mean / q) + q - mean <= budget, to 1e-12.

    Newton's method from the right of the root never passes it; mean + budget + sqrt(2 mean budget) is there.

    >>> round(float(poisson_upper(0.1, 0.03)), 9), float(poisson_upper(0.0, 0.25)), float(poisson_upper(0.5, 9.0))
    (0.198624686, 0.25, 1.0)
    """
    if mean <= TINY:
        return min(budget, 1.0)
    if mean * log(mean) + 1.0 - mean <= budget:
        return 1.0
    if budget <= 0.0:
        return mean
    q = mean + budget + math.sqrt(2.0 * mean * budget)
    for _ in range(100):
        apart = q - mean
        if not apart > 1e-14:
            break
        step = (apart - mean * log1p(apart / mean) - budget) * q / apart
        q -= step
        if abs(step) <= 1e-7 * apart:
            break
    return min(max(q, mean), 1.0)
