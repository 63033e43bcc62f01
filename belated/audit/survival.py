"""Delays of which some have not ended: Kaplan-Meier, on counts, with limits that hold where little is known too.

All functions take counts at rising delays: how many ended there, and how many were last seen waiting there (censored;
they still count as waiting at that delay itself). Columns are groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from belated.protocols import Floats

Whole = NDArray[np.int64]

#: A curve ends where fewer decisions than that (or than half of all) were watched for so long.
FEW = 10
#: The level of every interval, each by itself.
LEVEL = 0.95
#: A band over more places than that is interpolated.
MOST = 10_000


@dataclass(frozen=True, eq=False)
class Product:
    """A share that falls step by step: at each, `ended` of those `waiting` end. An estimate of it, and limits.

    The limits are those of the beta product confidence procedure (Fay, Brittain, Proschan 2013), by its first two
    moments. Each step multiplies by a beta variable, Beta(waiting - ended + 1, ended); for the lower limit one more of
    those left ends at once, which is Beta(left, 1). Where nothing is censored they are the limits of Clopper and
    Pearson. So they hold for a handful too, and where all or none have ended.
    """

    ended: Whole
    waiting: Whole
    fewest: Whole  #: on a grid, how many were waiting if what was censored in a cell had left before; else `waiting`

    @cached_property
    def share(self) -> Floats:
        """The estimate after each step."""
        return np.asarray(np.cumprod(1 - self.ended / np.maximum(self.waiting, 1)), np.float64)

    @cached_property
    def _sums(self) -> list[Floats]:
        """Of the logarithms of means, for the lower and the upper limit, and of relative variances; zero at first."""
        left = self.fewest - self.ended + 1.0
        low, high = np.log(left / (self.fewest + 1)), np.log1p(-self.ended / (self.waiting + 1.0))
        spread = np.log1p(self.ended / ((self.fewest + 2.0) * left))
        return [np.concatenate([[0.0], np.cumsum(part)]) for part in (low, high, spread)]

    def moments(self, places: Whole, left: Whole, after: Whole | int = -1) -> tuple[Floats, Floats, Floats, Floats]:
        """Mean and variance for the lower limit, and for the upper one, after the steps at `places`.

        `left` is how many are known to be left there. Only steps later than those at `after` are multiplied.
        """
        low, high, spread = (part[places + 1] - part[np.asarray(after) + 1] for part in self._sums)
        some = np.maximum(left, 1)
        low, high = np.where(left > 0, np.exp(low) * some / (some + 1), 0.0), np.exp(high)
        more = spread + np.log1p(1 / (some * (some + 2.0)))
        return low, low**2 * np.expm1(more), high, high**2 * np.expm1(spread)

    def limits(self, places: Whole, left: Whole, level: float, after: Whole | int = -1) -> tuple[Floats, Floats]:
        """Of the share after the steps at `places`; see `moments`."""
        low, low_variance, high, high_variance = self.moments(places, left, after)
        return beta(low, low_variance, (1 - level) / 2), beta(high, high_variance, (1 + level) / 2)


def beta(mean: Floats, variance: Floats, share: float) -> Floats:
    """The quantiles of beta variables; those that do not vary are their means."""
    from scipy.special import betaincinv

    varies, first, second = _shape(mean, variance)
    return np.where(varies, betaincinv(first, second, share), mean)


def beta_below(mean: Floats, variance: Floats, share: float, value: float) -> NDArray[np.bool_]:
    """Whether these quantiles are at most a value, which is quicker to tell than what they are."""
    from scipy.special import betainc

    varies, first, second = _shape(mean, variance)
    return np.where(varies, betainc(first, second, value) >= share, mean <= value)


def _shape(mean: Floats, variance: Floats) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """Which of them vary, and their parameters."""
    varies = (variance > 0) & (mean < 1)
    size = np.where(varies, mean * (1 - mean), 2) / np.where(varies, variance, 1) - 1
    return varies, np.where(varies, mean, 0.5) * size, np.where(varies, 1 - mean, 0.5) * size


@dataclass(frozen=True, eq=False)
class Curve:
    """Kaplan-Meier: S(x), the share whose feedback takes longer than x, with limits for each x by itself."""

    delays: Whole
    came: Whole
    censored: Whole
    limits: Whole  #: what came, by the longest delay that could have been seen
    shortest: Whole | None = None  #: on a grid, where `delays` are the longest of their cells, the shortest of them
    level: float = LEVEL

    @cached_property
    def waiting(self) -> Whole:
        """How many were waiting just before each delay."""
        return at_risk(self.came, self.censored)

    @cached_property
    def watched(self) -> Whole:
        """How many were watched for so long, whether their feedback had come or not."""
        return watched(self.limits + self.censored, self.shortest is not None)

    @cached_property
    def product(self) -> Product:
        gone = self.censored if self.shortest is not None else 0
        return Product(self.came, self.waiting, np.maximum(self.waiting - gone, self.came))

    @property
    def survival(self) -> Floats:
        return self.product.share

    def band_at(self, places: Whole) -> tuple[Floats, Floats]:
        """Limits of S from each of these delays to the next; -1 is before the first."""
        return self.product.limits(places, self._next(places), self.level)

    def _next(self, places: Whole) -> Whole:
        """How many are waiting just before the delay after each."""
        last = len(self.waiting) - 1
        return np.where(places < last, self.waiting[np.minimum(places + 1, last)], 0)

    @cached_property
    def band(self) -> tuple[Floats, Floats]:
        """Limits of S from each delay to the next."""
        every = np.arange(len(self.delays))
        some = np.unique(np.linspace(0, len(every) - 1, MOST).astype(np.int64))
        low, high = (np.interp(every, some, side) for side in self.band_at(some))
        return low, high

    @cached_property
    def grid_error(self) -> float:
        """How far S can be off, at most, because delays in one cell of a grid were counted as one.

        The truth lies between what comes out if all that were censored in a cell had left before, and after, the
        feedback in it.
        """
        early = np.cumprod(1 - self.came / np.maximum(self.product.fewest, 1))
        return float(np.max(self.survival - early))

    def place(self, delay: float) -> int:
        """The last place at which the delay is not longer; -1 if there is none."""
        return int(np.searchsorted(self.delays, delay, side="right")) - 1

    def at(self, delay: float) -> float:
        """S at a delay."""
        place = self.place(delay)
        return float(self.survival[place]) if place >= 0 else 1.0

    def reached(self, share: float) -> int | None:
        """The delay by which the curve says that that share of all feedback has come; None if not by its end."""
        place = self._falls_to(1 - share)
        return int(self.delays[place]) if place is not None and place <= self.end else None

    def _falls_to(self, share: float) -> int | None:
        return first(lambda places: self.survival[places] <= share + 1e-12, len(self.delays))

    def quantile(self, share: float) -> int | None:
        """The delay by which that share of all feedback has come; None if its interval has no upper end."""
        return self.quantile_with_band(share)[0]

    def quantile_with_band(self, share: float) -> tuple[int | None, int | None, int | None]:
        """`quantile` and `quantile_band`."""
        place, (low, high) = self._falls_to(1 - share), self.quantile_band(share)
        return (None if place is None or high is None else int(self.delays[place])), low, high

    def quantile_band(self, share: float) -> tuple[int | None, int | None]:
        """Limits of it, None where there is none. On a grid they are as wide as they may be."""
        count, target, tail = len(self.delays), 1 - share + 1e-12, (1 - self.level) / 2

        def falls(places: Whole, side: int) -> NDArray[np.bool_]:
            mean, variance = self.product.moments(places, self._next(places))[2 * side : 2 * side + 2]
            return beta_below(mean, variance, 1 - tail if side else tail, target)

        low, high = first(lambda places: falls(places - 1, 0), count + 1), first(lambda places: falls(places, 1), count)
        shortest = self.delays if self.shortest is None else self.shortest
        return (
            None if low is None else int(shortest[low - 1]) if low else 0,
            None if high is None else int(self.delays[high]),
        )

    @cached_property
    def end(self) -> int:
        """The place of the longest delay that enough decisions were watched for."""
        enough = np.flatnonzero(self.watched >= min(FEW, -(-int((self.came + self.censored).sum()) // 2)))
        return int(enough[-1]) if enough.size else 0

    def _known(self, places: Whole) -> Whole:
        """How many are known to take longer than those delays."""
        return np.asarray(self.product.fewest[places] - self.came[places])

    @property
    def never(self) -> float:
        """The share whose feedback takes longer than the log can show: S at `end`."""
        return float(self.survival[self.end])

    @cached_property
    def never_band(self) -> tuple[float, float]:
        """Limits of it."""
        at = np.array([self.end])
        low, high = self.product.limits(at, self._known(at), self.level)
        return float(low[0]), float(high[0])

    @property
    def median_of_came(self) -> int | None:
        """The median delay of what comes within the log's span."""
        return self.reached((1 - self.never) / 2) if self.never < 1 else None

    def later(self, delay: float) -> tuple[float, float, float]:
        """Of what comes by `end`, the share that comes after a delay, and its limits.

        It is s (1 - r) / (1 - s r), s = S(delay) and r = S(end) / s; limits of both, that hold together, give its own.
        """
        place, end = self.place(delay), np.array([self.end])
        value = max(0.0, (self.at(delay) - self.never) / (1 - self.never)) if self.never < 1 else 0.0
        if place >= self.end:
            return value, value, value
        at, level = np.array([place]), (1 + self.level) / 2
        s_low, s_high = (np.ones(1), np.ones(1))
        if place >= 0:
            s_low, s_high = self.product.limits(at, self._known(at), level)
        r_low, r_high = self.product.limits(end, self._known(end), level, after=at)

        def share(s: float, r: float) -> float:
            return s * (1 - r) / (1 - s * r) if s * r < 1 else 1.0

        return value, share(float(s_low[0]), float(r_high[0])), share(float(s_high[0]), float(r_low[0]))


def first(holds: Callable[[Whole], NDArray[np.bool_]], count: int) -> int | None:
    """The first of `count` places at which something holds that holds from there on."""
    low, high = 0, count
    while low < high:
        places = np.unique(np.linspace(low, high - 1, 33).astype(np.int64))
        yes = np.flatnonzero(holds(places))
        if not yes.size:
            break
        high = int(places[yes[0]])
        low = int(places[yes[0] - 1]) + 1 if yes[0] else high
    return high if high < count else None


def at_risk(came: Whole, censored: Whole) -> Whole:
    """How many are waiting just before each delay, in each column."""
    return np.asarray(np.cumsum((came + censored)[::-1], axis=0)[::-1], np.int64)


def watched(limits: Whole, grid: bool) -> Whole:
    """How many were watched for as long as each delay; on a grid, for as long as all of its cell."""
    longer = np.cumsum(limits[::-1], axis=0)[::-1]
    return np.asarray(longer - limits if grid else longer, np.int64)


def at_risk_backwards(came: Whole, limits: Whole) -> Whole:
    """The same with time running backwards, among feedback that came: delays up to x that would have been seen at x.

    `limits` are counts of the longest delay that could have been seen. What came soon after late decisions is all that
    could come from those: this takes such a choice into account, whatever share never comes.
    """
    before = np.cumsum(limits, axis=0) - limits
    return np.asarray(np.cumsum(came, axis=0) - before, np.int64)
