"""Delays of which some have not ended: Kaplan-Meier and log-rank, on counts.

All functions take counts at rising delays: how many ended there, and how many were last seen waiting there (censored;
they still count as waiting at that delay itself). Columns are groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from belated.protocols import Floats

Whole = NDArray[np.int64]

#: The end of a curve, where fewer than that are waiting, says little.
FEW = 10


@dataclass(frozen=True, eq=False)
class Curve:
    """Kaplan-Meier: S(x), the share whose feedback takes longer than x, with a pointwise band.

    Greenwood's variance on the scale of log(-log S), which keeps the band within 0 and 1.
    """

    delays: Whole
    came: Whole
    censored: Whole
    level: float = 0.95
    shortest: Whole | None = None  #: on a grid, where `delays` are the longest of their cells, the shortest of them

    @cached_property
    def waiting(self) -> Whole:
        """How many were waiting just before each delay."""
        return at_risk(self.came, self.censored)

    @cached_property
    def survival(self) -> Floats:
        return np.asarray(np.cumprod(1 - self.came / np.maximum(self.waiting, 1)), np.float64)

    @cached_property
    def band(self) -> tuple[Floats, Floats]:
        return self._band(self.survival, self.waiting)

    def _band(self, survival: Floats, waiting: Whole) -> tuple[Floats, Floats]:
        from scipy.special import ndtri

        left = (waiting - self.came).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.sqrt(np.cumsum(np.where(self.came > 0, self.came / (waiting * left), 0.0)))
            width = ndtri((1 + self.level) / 2) * spread / np.log(survival)
            low, high = survival ** np.exp(-width), survival ** np.exp(width)
        flat = (survival >= 1) | (survival <= 0)
        return np.where(flat, survival, low), np.where(flat, survival, high)

    @cached_property
    def _early(self) -> tuple[Floats, Whole]:
        """S, and how many were waiting, if all that were censored in a cell of a grid had left before its feedback."""
        waiting = np.maximum(self.waiting - self.censored, 1)
        return np.asarray(np.cumprod(1 - np.minimum(self.came / waiting, 1)), np.float64), waiting

    @cached_property
    def grid_error(self) -> float:
        """How far S can be off, at most, because delays in one cell of a grid were counted as one.

        The truth lies between what comes out if all that were censored in a cell had left before, and after, the
        feedback in it.
        """
        return float(np.max(self.survival - self._early[0]))

    def at(self, delay: float) -> float:
        """S at a delay."""
        place = int(np.searchsorted(self.delays, delay, side="right")) - 1
        return float(self.survival[place]) if place >= 0 else 1.0

    def quantile(self, share: float) -> int | None:
        """The delay by which that share of all feedback has come; None if the log does not reach so far."""
        return _reached(self.delays, 1 - self.survival, share)

    def quantile_band(self, share: float) -> tuple[int | None, int | None]:
        """Where the band crosses that share; not known from fewer than two. On a grid it is as wide as it may be."""
        if self.came.sum() < 2:
            return None, None
        low, high = self.band
        if self.shortest is not None:
            early, waiting = self._early
            low, high = self._band(early, waiting)[0], self._band(self.survival, waiting)[1]
        first = self.delays if self.shortest is None else self.shortest
        return _reached(first, 1 - low, share), _reached(self.delays, 1 - high, share)

    @property
    def end(self) -> int:
        """The place of the last delay that enough were waiting for."""
        enough = np.flatnonzero(self.waiting >= FEW)
        return int(enough[-1]) if enough.size else len(self.delays) - 1

    @property
    def never(self) -> float:
        """The share whose feedback takes longer than the log can show: S at `end`."""
        return float(self.survival[self.end])

    @property
    def never_band(self) -> tuple[float, float] | None:
        """The band there; None where it says nothing: with fewer than two that came, or all, or none, by then."""
        if self.came.sum() < 2 or not 0 < self.never < 1:
            return None
        low, high = self.band
        return float(low[self.end]), float(high[self.end])

    @property
    def median_of_came(self) -> int | None:
        """The median delay of what comes within the log's span."""
        return self.quantile((1 - self.never) / 2) if self.never < 1 else None


def _reached(delays: Whole, shares: Floats, share: float) -> int | None:
    reached = np.flatnonzero(shares >= share - 1e-12)
    return int(delays[reached[0]]) if reached.size else None


def at_risk(came: Whole, censored: Whole) -> Whole:
    """How many are waiting just before each delay, in each column."""
    return np.asarray(np.cumsum((came + censored)[::-1], axis=0)[::-1], np.int64)


def at_risk_backwards(came: Whole, limits: Whole) -> Whole:
    """The same with time running backwards, among feedback that came: delays up to x that would have been seen at x.

    `limits` are counts of the longest delay that could have been seen. What came soon after late decisions is all that
    could come from those: this takes such a choice into account, whatever share never comes.
    """
    before = np.cumsum(limits, axis=0) - limits
    return np.asarray(np.cumsum(came, axis=0) - before, np.int64)


def backwards_share(came: Whole, waiting: Whole) -> Floats:
    """The distribution of the delays of what comes, P(delay <= x), from backward risk sets (one column)."""
    factors = 1 - came / np.maximum(waiting, 1)
    later = np.append(np.cumprod(factors[::-1])[::-1][1:], 1.0)
    return np.asarray(later, np.float64)


@dataclass(frozen=True)
class LogRank:
    """The log-rank test: do groups end at the same rates? Strata are compared each within itself."""

    statistic: float
    freedom: int
    p_value: float


def log_rank(strata: list[tuple[Whole, Whole]]) -> LogRank:
    """Each stratum is (ended, at risk), delays x groups."""
    from scipy.special import chdtrc

    groups = strata[0][0].shape[1]
    difference, variance = np.zeros(groups), np.zeros((groups, groups))
    for ended, waiting in strata:
        rows = ended.sum(axis=1) > 0
        ended, waiting = ended[rows].astype(float), waiting[rows].astype(float)
        all_ended, all_waiting = ended.sum(axis=1), waiting.sum(axis=1)
        shares = waiting / all_waiting[:, None]
        difference += (ended - shares * all_ended[:, None]).sum(axis=0)
        weights = all_ended * (all_waiting - all_ended) / np.maximum(all_waiting - 1, 1)
        variance += np.diag(weights @ shares) - shares.T @ (shares * weights[:, None])
    inverse = np.linalg.pinv(variance, rcond=1e-10, hermitian=True)
    freedom = int(np.linalg.matrix_rank(variance, tol=1e-10 * max(float(np.max(np.abs(variance))), 1e-300)))
    statistic = float(difference @ inverse @ difference)
    return LogRank(statistic, freedom, float(chdtrc(freedom, statistic)) if freedom else 1.0)
