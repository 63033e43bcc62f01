"""Theorems as objects: a bound on the mean regret as a function of n, with the measured peaks in it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.protocols import Floats, Learner
from belated.theory import bounds


@dataclass(frozen=True, eq=False)
class Theorem(ABC):
    """A bound on the mean regret as a function of n, with the measured peaks in it.

    The peaks are those of the whole run. For fewer rounds than it had, they make the bound larger, never wrong.
    Learners state their bounds for rewards in [0, 1]; `scale` is the range of the game's, in which its regret is.
    """

    learner: Learner
    scale: float = field(default=1.0, kw_only=True)

    @abstractmethod
    def bound(self, n: int) -> float:
        """The bound at n rounds, at most `trivial(n)`."""

    @property
    def most(self) -> float:
        """The most that a round may cost, rewards in [0, 1]: the largest gap where the bound is made of gaps."""
        return 1.0

    def trivial(self, n: int) -> float:
        """What n rounds cost at most, whoever plays."""
        return self.scale * self.most * n

    def vacuous(self, n: int) -> bool:
        """Whether the bound at n rounds says no more than that."""
        return bounds.is_vacuous(self.bound(n), n, self.scale * self.most)

    def error(self, n: int) -> float:
        """The standard error of the bound: its peaks were measured too."""
        return 0.0

    @property
    def adds(self) -> bool:
        """Whether delay adds a term; else it multiplies."""
        return False


@dataclass(frozen=True, eq=False)
class BoldTheorem(Theorem):
    """E R_n <= E[(G* + 1) f~(n / (G* + 1))], the mean over the replications."""

    peak: Floats
    means: Floats | None

    @property
    def most(self) -> float:
        return 1.0 if self.means is None or self.learner.bound(1.0) is not None else largest_gap(self.means)

    def bound(self, n: int) -> float:
        return self._bold(n, self.peak)

    def error(self, n: int) -> float:
        peaks, which = np.unique(self.peak, return_inverse=True)
        return error_of(np.array([self._bold(n, peak) for peak in peaks])[which])

    def _bold(self, n: int, peak: Floats) -> float:
        """In units of the most that a round may cost: in these f~(m) <= m."""
        return self.scale * self.most * bounds.bold(lambda m: self.base(m) / self.most, n, peak)

    def base(self, n: float) -> float:
        """f: against any adversary, or else for i.i.d. rewards, lifted so that f(1) is not below what a round costs."""
        value = self.learner.bound(n)
        if value is None and self.means is not None:
            value, first = (self.learner.stochastic_bound(m, self.means) or 0.0 for m in (n, 1.0))
            value += max(0.0, self.most - first)
        assert value is not None
        return value


@dataclass(frozen=True, eq=False)
class TurnsTheorem(Theorem):
    """BOLD under a constant delay: `turns` instances in turn, each with a bound for exactly the rounds that it has."""

    turns: int

    def bound(self, n: int) -> float:
        return self.scale * min(float(n), stated(self.learner, "bound_in", self.raw(n)))

    def raw(self, n: int) -> float | None:
        """The sum over the instances, rewards in [0, 1]; None where one of them has no bound."""
        rounds, more = divmod(n, self.turns)
        most, least = self.learner.bound_in(rounds + 1) if more else 0.0, self.learner.bound_in(rounds)
        return None if most is None or least is None else more * most + (self.turns - more) * least


@dataclass(frozen=True, eq=False)
class PoolsTheorem(Theorem):
    """A pool for each value: E R_n <= E[sum_c (G*_c + 1) f~(n_c / (G*_c + 1))], f that of one value's learner.

    For fewer rounds than the run had, n_c is taken as large as it can be for the bound: in proportion to G*_c + 1.
    """

    pool_rounds: Floats  #: n_c, (replications, values)
    pool_peaks: Floats  #: G*_c, likewise
    n: int

    def bound(self, n: int) -> float:
        return self.scale * float(self._terms(n).mean())

    def error(self, n: int) -> float:
        return self.scale * error_of(self._terms(n))

    def _terms(self, n: int) -> Floats:
        """One number a replication."""
        if n < self.n:
            instances = ((self.pool_peaks + 1) * (self.pool_rounds > 0)).sum(axis=1)
            return np.array([bounds.bold(self.base, n, each - 1) for each in instances.tolist()])
        rows = zip(self.pool_rounds, self.pool_peaks, strict=True)
        return np.array([bounds.bold_pools(self.base, *row) for row in rows])

    def base(self, n: float) -> float:
        """f, that of the learner of one value."""
        inner: Learner = getattr(self.learner, "learner", self.learner)
        value = inner.bound(n)
        assert value is not None
        return value


@dataclass(frozen=True, eq=False)
class TotalTheorem(Theorem):
    """What a learner says of itself when it is told late, by the sum of G_t."""

    total: Floats

    def bound(self, n: int) -> float:
        known = self.learner.bound_under_delay(n, float(self.total.mean()))
        return self.scale * min(float(n), stated(self.learner, "bound_under_delay", known))

    def error(self, n: int) -> float:
        low, high = (self.learner.bound_under_delay(n, max(0.0, float(self.total.mean()) + by)) for by in self._reach)
        return self.scale * ((high or 0.0) - (low or 0.0)) / 2

    @property
    def _reach(self) -> tuple[float, float]:
        error = error_of(self.total)
        return -error, error


@dataclass(frozen=True, eq=False)
class PeakTheorem(Theorem):
    """What a learner says of itself when it is told late, by G*: the mean over the replications."""

    peak: Floats
    constant: bool

    @property
    def most(self) -> float:
        return self.learner.worst

    def bound(self, n: int) -> float:
        return self.scale * min(self.most * n, float(self._terms(n).mean()))

    def error(self, n: int) -> float:
        return self.scale * error_of(self._terms(n))

    def _terms(self, n: int) -> Floats:
        peaks, which = np.unique(self.peak, return_inverse=True)
        known = [self.learner.bound_at_peak(n, peak, self.constant) for peak in peaks.tolist()]
        most = self.most * n
        terms = [most if each is None else stated(self.learner, "bound_at_peak", each) for each in known]
        return np.array(terms)[which]


@dataclass(frozen=True, eq=False)
class Additive(Theorem):
    """One that adds sum_i Delta_i E G*_i, or more, to a regret without delay."""

    means: Floats

    @property
    def gaps(self) -> Floats:
        return np.asarray(self.means.max(axis=-1, keepdims=True) - self.means)

    @property
    def adds(self) -> bool:
        return True

    @property
    def most(self) -> float:
        return largest_gap(self.means)

    @abstractmethod
    def raw(self, n: int) -> float:
        """The bound for rewards in [0, 1], not cut at what everybody has."""

    def bound(self, n: int) -> float:
        return self.scale * min(self.most * n, self.raw(n))

    def base(self, n: int) -> float:
        """The learner's bound without delay: the better of the two that it may have."""
        both = {"stochastic_bound": self.learner.stochastic_bound(n, self.means), "bound": self.learner.bound(n)}
        known = [stated(self.learner, name, f) for name, f in both.items() if f is not None]
        return min(known, default=float(n))


@dataclass(frozen=True, eq=False)
class QpmdTheorem(Additive):
    """E R_n <= E R^base_n + sum_i Delta_i E G*_i."""

    peaks: Floats  #: (replications, ...)

    def raw(self, n: int) -> float:
        return bounds.qpmd(self.base(n), self.gaps.ravel(), self.peaks.mean(axis=0).ravel())

    def error(self, n: int) -> float:
        return self.scale * error_of((self.peaks * self.gaps).reshape(len(self.peaks), -1).sum(axis=1))


@dataclass(frozen=True, eq=False)
class SdbTheorem(Additive):
    """E R_n <= E R^base_n + sum_i Delta_i (E G* + 1)."""

    peak: Floats  #: (replications,)

    def raw(self, n: int) -> float:
        return bounds.sdb(self.base(n), self.gaps.ravel(), float(self.peak.mean()))

    def error(self, n: int) -> float:
        return self.scale * float(self.gaps.sum()) * error_of(self.peak)


@dataclass(frozen=True, eq=False)
class DirectTheorem(Additive):
    """What the learner says of itself under delay: Delayed-UCB1, Delayed-KL-UCB."""

    peaks: Floats  #: (replications, ...)
    peak: Floats | None  #: (replications,); None where the actions decide on it

    def raw(self, n: int) -> float:
        return self._said(n, 0.0)

    def error(self, n: int) -> float:
        """From the peaks that the learner's bound uses, whichever they are; those of all actions may err together."""
        return self.scale * (self._said(n, 1.0) - self._said(n, -1.0)) / 2

    def _said(self, n: int, errors: float) -> float:
        """The bound with all peaks so many standard errors higher."""
        peaks, peak = (
            None if known is None else np.maximum(known.mean(axis=0) + errors * errors_of(known), 0.0)
            for known in (self.peaks, self.peak)
        )
        assert peaks is not None
        known = self.learner.delayed_bound(n, self.means, peaks, None if peak is None else float(peak))
        return float(n) if isinstance(known, str) else stated(self.learner, "delayed_bound", known)


def stated(learner: Learner, name: str, value: Any) -> float:
    """A bound that a learner states, which must be a number: beside another, NaN would pass for that one."""
    if not isinstance(value, int | float | np.number) or math.isnan(value):
        raise InvalidArgument(f"{name} of {learner!r} must be a number, got {value!r}")
    return float(value)


def largest_gap(means: Floats) -> float:
    """The most that an action loses against the best (with the same side information); 1 if none loses anything."""
    return float((means.max(axis=-1, keepdims=True) - means).max()) or 1.0


def errors_of(values: Floats) -> Floats:
    """The standard errors of means over the first axis; 0 of single values."""
    count = len(values)
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(values.shape[1:]))


def error_of(values: Floats) -> float:
    """The standard error of a mean; 0 of a single value."""
    return float(errors_of(values.ravel()))
