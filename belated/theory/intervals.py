"""Intervals for a mean: some that hold whatever the law, as long as its range is known, and Student's, which need not.

Regret is bounded: by n times the largest gap, or n times the range of the rewards. That is all that `sure` uses.
`reach` is an approximation for many values that are not too skewed. Where one replication in a hundred goes badly
wrong, thirty of them as a rule show nothing of it, and no interval that looks at the values alone can cover.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from belated.protocols import Floats

#: The shares of what can be lost that are bet, and the logarithms of what each begins with.
SHARES = 0.5 ** np.arange(24)
STAKES = -np.log(np.arange(1.0, 25.0) * np.arange(2.0, 26.0))
#: Halvings of an interval until its end is known.
HALVINGS = 40
#: Squares below this are rounded to few digits or none.
SMALLEST = 1e-290


class Ends(NamedTuple):
    """Where an interval ends."""

    low: float
    high: float


UNKNOWN = Ends(-math.inf, math.inf)


def sure(values: Floats, least: float, most: float, level: float, family: int = 1) -> Ends:
    """An interval for the mean of independent values with one law on [least, most]; it holds for every such law.

    Somebody who does not believe that the mean is m bets on the values, one after another: 1 is multiplied by
    1 + share (m - x) / (most - m) for each x. If the mean is m, the expected capital is 1 at all times, and the chance
    that it ever reaches 1 / chance is at most that chance (Ville). So all m are left out at which somebody who bets
    several shares becomes that rich (Waudby-Smith, Ramdas 2024). This holds at all times together: more values may be
    drawn because those so far did not decide. `family` intervals hold together. Values outside the range tell nothing.
    A range of one number leaves nothing to tell: it is the mean.

    >>> [round(end, 3) for end in sure(np.zeros(100), 0.0, 1.0, 0.99)]
    [0.0, 0.058]
    """
    data = np.asarray(values, float)
    if not math.isfinite(most - least):
        return UNKNOWN
    slack = 1e-9 * (most - least)
    if not len(data) or least > most or data.min() < least - slack or data.max() > most + slack:
        return UNKNOWN
    if least == most:
        return Ends(least, most)
    wanted = math.log(2.0 * family / (1.0 - level))
    return Ends(-_above(-data, -least, wanted), _above(data, most, wanted))


def _above(values: Floats, most: float, wanted: float) -> float:
    """A number that the mean is hardly above."""
    data = np.minimum(values, most)
    return _edge(float(data.mean()), most, lambda mean: wealth(data, mean, most) >= wanted)


def _edge(inside: float, outside: float, refused: Callable[[float], bool]) -> float:
    """Where what is refused begins, on the way from one number to another."""
    for _ in range(HALVINGS):
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        inside, outside = (inside, middle) if refused(middle) else (middle, outside)
    return outside


def wealth(values: Floats, mean: float, most: float) -> float:
    """The logarithm of what somebody has who bet on values below this mean."""
    logs = _bets(values, mean, most).sum(axis=1) + STAKES
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if math.isfinite(top) else top


def _bets(values: Floats, mean: float, most: float) -> Floats:
    """How each value multiplies the capital of each share, in logarithms."""
    with np.errstate(divide="ignore"):
        return np.log1p(np.outer(SHARES, (mean - values) / (most - mean)))


def enough(values: Floats, mean: float, least: float, most: float, level: float, family: int = 1) -> int | None:
    """About how many values like these `sure` needs to tell their mean from this one; None where none are enough."""
    data, end = np.asarray(values, float), most
    if data.mean() > mean:
        data, mean, end = -data, -mean, -least
    if not mean < end < math.inf or data.max() > end:
        return None
    growth = _bets(data, mean, end).mean(axis=1)
    known = growth > 0
    if not known.any():
        return None
    return math.ceil(float(((math.log(2.0 * family / (1.0 - level)) - STAKES)[known] / growth[known]).min()))


def half_width(error: float, count: int, level: float, family: int = 1) -> float:
    """How far Student's interval reaches from a mean of `count` values with this standard error, an approximation.

    One value has no interval, and neither have values that are all alike: what they may be else was not seen.
    """
    if count < 2 or error == 0.0:
        return math.inf
    from scipy.special import stdtrit

    return error * float(stdtrit(count - 1, 1.0 - (1.0 - level) / (2.0 * family)))


def reach(values: Floats, level: float, family: int = 1) -> float:
    """How far an approximate interval reaches from the mean of values: Student's, longer where they are skewed.

    The correction is Johnson's (1978), here to both sides.
    """
    data = np.asarray(values, float)
    spread = float(data.std()) if len(data) > 1 else 0.0
    if spread <= 1e-12 * float(np.abs(data).max(initial=0.0)):
        return math.inf
    error = spread / math.sqrt(len(data) - 1)
    width = half_width(error, len(data), level, family)
    skew = float((((data - data.mean()) / spread) ** 3).mean())
    return width + error * abs(skew) * (1 + 2 * (width / error) ** 2) / (6 * math.sqrt(len(data)))


def from_sums(count: int, total: float, squares: float, low: float, high: float, level: float) -> Ends:
    """An interval for the mean of values in [low, high], of which only sums are known; it holds at all times together.

    Two at half the chance each. One looks at the mean only, and holds because no law on the range has larger
    exponential moments than one on its ends: (q / m)^S ((1 - q) / (1 - m))^(n - S), averaged over q with the law
    Beta(1/2, 1/2). The other is the empirical Bernstein bound of Maurer and Pontil (2009), with the level divided
    among all n. So it does not matter that a learner plays more often what has paid.

    >>> [round(end, 3) for end in from_sums(100, 0.0, 0.0, 0.0, 1.0, 0.95)]
    [0.0, 0.064]
    """
    if not count or not math.isfinite(total):
        return Ends(low, high)
    width = high - low
    mean = min(1.0, max(0.0, (total / count - low) / width))
    spread = _spread(count, total / width, squares / width / width, mean, width)
    chance = (1.0 - level) / 2
    found = Ends(*(_edge(mean, end, lambda m: _told(count, mean, m) >= -math.log(chance)) for end in (0.0, 1.0)))
    if count > 1:
        log = math.log(4.0 * count * (count + 1) / chance)
        about = math.sqrt(2 * spread * log / (count - 1)) + 7 * log / (3 * (count - 1))
        found = Ends(max(found.low, mean - about), min(found.high, mean + about))
    off = count * sys.float_info.epsilon * abs(total / count / width)  # by so much the mean may be rounded
    return Ends(low + width * max(0.0, found.low - off), low + width * min(1.0, found.high + off))


def _spread(count: int, total: float, squares: float, mean: float, width: float) -> float:
    """The variance of values in [0, 1] with this mean; where sums are rounded, the most that it can be."""
    most = mean * (1.0 - mean)
    middle, square = total / count, squares / count
    found = square - middle * middle + 4 * count * sys.float_info.epsilon * square
    if not math.isfinite(found) or width * width < SMALLEST:
        return most
    return min(most, max(0.0, found))


def _told(count: int, seen: float, mean: float) -> float:
    """How much values in [0, 1] of this average speak against a mean: the logarithm of a capital."""
    ones, noughts = count * seen, count * (1.0 - seen)
    beta = math.lgamma(ones + 0.5) + math.lgamma(noughts + 0.5) - math.lgamma(count + 1.0) - math.log(math.pi)
    return beta - sum(k * math.log(p) if p else -math.inf for k, p in ((ones, mean), (noughts, 1.0 - mean)) if k)
