"""Intervals, fits and tests. All levels are two-sided; seeds are fixed, so a report is the same each time.

The intervals here are approximations, for many values that are not too skewed: Student's, and the bootstrap's. What
decides a verdict for sure is in `belated.theory.intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from belated.protocols import Floats
from belated.theory.intervals import reach
from belated.theory.verdicts import LEVEL

#: Resamples of a bootstrap.
RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def known(self) -> bool:
        """Whether it ends on both sides."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def __str__(self) -> str:
        return f"{number(self.mean)} ({number(self.low)} to {number(self.high)})"


def number(value: float | None) -> str:
    """A number as people read it: three or four digits.

    >>> number(12345.678), number(0.012345), number(None)
    ('12,346', '0.0123', '-')
    """
    if value is None or not math.isfinite(value):
        return "-" if value is None or math.isnan(value) else ("∞" if value > 0 else "-∞")
    if abs(value) >= 1e7:
        return f"{value:.3g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def mean_interval(values: Any, level: float = LEVEL, family: int = 1) -> Interval:
    """The mean of independent values with an approximate interval (`reach`); `family` intervals hold together."""
    data = np.asarray(values, float)
    mean, width = float(data.mean()), reach(data, level, family)
    return Interval(mean, mean - width, mean + width)


def matching(intervals: Sequence[Interval | Fit], truths: Sequence[float]) -> tuple[str, list[bool]]:
    """Whether numbers are what they should be: "matches", "likely fails" or, where some are not known, "unclear"."""
    agree = [interval.contains(truth) for interval, truth in zip(intervals, truths, strict=True)]
    known = all(interval.known for interval in intervals)
    return "likely fails" if not all(agree) else "matches" if known else "unclear", agree


@dataclass(frozen=True)
class Fit:
    """The slope of a line through means, with a bootstrap interval; `left_out` points could not be used."""

    slope: float
    low: float
    high: float
    intercept: float
    used: int
    left_out: int = 0

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def known(self) -> bool:
        """Whether the interval ends on both sides, and is more than a point."""
        return math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high

    def word(self, most: float) -> str:
        """Whether the slope is at most so much: by the bootstrap, an approximation."""
        if not self.known or self.low <= most < self.high:
            return "unclear"
        return "likely holds" if self.high <= most else "likely fails"

    def __str__(self) -> str:
        return f"{self.slope:.3f} ({self.low:.3f} to {self.high:.3f})"


def line_fit(x: Sequence[float], samples: Sequence[Any], level: float = LEVEL) -> Fit | None:
    """Fit mean(samples[j]) = a + b x[j]; resamples replications, the same ones at every x (they share their draws)."""
    return _fit(np.asarray(x, float), samples, level, logs=False)


def power_fit(x: Sequence[float], samples: Sequence[Any], level: float = LEVEL) -> Fit | None:
    """Fit mean(samples[j]) = c x[j]^b. Points whose mean is not positive are left out, and counted."""
    return _fit(np.asarray(x, float), samples, level, logs=True)


def _fit(x: Floats, samples: Sequence[Any], level: float, logs: bool) -> Fit | None:
    data = [np.asarray(s, float) for s in samples]
    used = [j for j, s in enumerate(data) if not logs or (s.mean() > 0 and x[j] > 0)]
    if len(used) < 2:
        return None
    at = np.log(x[used]) if logs else x[used]
    means = np.array([data[j].mean() for j in used])
    slope, intercept = _least_squares(at, (np.log(means) if logs else means)[None])
    size = len(data[used[0]])
    paired = all(len(data[j]) == size for j in used)
    resampled = np.stack([_weights(len(data[j]), 0 if paired else j) @ data[j] for j in used], axis=1)
    if logs:
        resampled = np.where(resampled > 0, np.log(np.maximum(resampled, 1e-300)), np.nan)
    slopes, _ = _least_squares(at, resampled)
    low, high = np.nanquantile(slopes, [(1 - level) / 2, (1 + level) / 2])
    return Fit(float(slope[0]), float(low), float(high), float(intercept[0]), len(used), len(data) - len(used))


@lru_cache(maxsize=4)
def _weights(size: int, seed: int) -> Floats:
    """How often each of `size` values is in each resample, as shares; a resample is a row."""
    counts = np.random.default_rng(seed + 1).multinomial(size, np.full(size, 1 / size), RESAMPLES)
    return np.asarray(counts / size, np.float64)


def _least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Slopes and intercepts; a row of y is one data set. What is NaN is left out; fewer than two points give NaN."""
    there = ~np.isnan(y)
    count = np.maximum(there.sum(axis=1), 1)
    known = np.where(there, y, 0.0)
    middle = (there @ x) / count
    centred = np.where(there, x - middle[:, None], 0.0)
    spread = (centred * centred).sum(axis=1)
    slope = (known * centred).sum(axis=1) / np.where(spread > 0, spread, np.nan)
    return slope, known.sum(axis=1) / count - slope * middle


def poisson_binomial(chances: Any) -> Floats:
    """The distribution of a sum of independent indicators: entry g is P(sum = g).

    >>> poisson_binomial([0.5, 0.5]).tolist()
    [0.25, 0.5, 0.25]
    """
    law = np.ones(1)
    for p in np.asarray(chances, float):
        law = np.convolve(law, [1 - p, p])
        last = np.flatnonzero(law > 1e-18)
        law = law[: last[-1] + 1]
    return law


def fits_law(counts: Any, law: Any, least: float = 5.0) -> float:
    """The p-value of a chi-square test of integer samples against P(g); cells are joined until `least` are expected."""
    from scipy.stats import chisquare

    samples = np.asarray(counts, np.int64)
    chances = np.asarray(law, float)
    size = max(len(chances), int(samples.max()) + 1)
    observed = np.bincount(samples, minlength=size).astype(float)
    expected = np.zeros(size)
    expected[: len(chances)] = chances * len(samples)
    if observed[expected < 1e-12].any():
        return 0.0
    joined: list[tuple[float, float]] = []
    seen, hoped = 0.0, 0.0
    for o, e in zip(observed, expected, strict=True):
        seen, hoped = seen + o, hoped + e
        if hoped >= least:
            joined.append((seen, hoped))
            seen, hoped = 0.0, 0.0
    if joined:
        joined[-1] = (joined[-1][0] + seen, joined[-1][1] + hoped)
    if len(joined) < 2:
        return 1.0
    table = np.array(joined)
    return float(chisquare(table[:, 0], table[:, 1] * table[:, 0].sum() / table[:, 1].sum()).pvalue)


def corrected(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: a test is refused at a family-wise level if its corrected p-value is below it.

    >>> corrected([0.01, 0.04, 0.5])
    [0.03, 0.08, 0.5]
    """
    order = np.argsort(p_values)
    result, running = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * float(p_values[at])))
        result[int(at)] = running
    return result
