"""Estimates of a mean reward from weighted rounds, with intervals.

Every estimator is a ratio: the sum of `top` over the sum of `bottom`, with one number of each for a round.

| name | top | bottom | bias |
|---|---|---|---|
| ips | w r | 1 | none |
| dr | m(A) + w (r - m(a)) | 1 | none, whatever the model m, which is fitted to earlier rounds |
| replay | r where accepted | 1 where accepted | none |
| snips | w r | w | of the order of 1 / effective sample size |

A is the action that the forecaster proposed, a the logged one, and w = 1{A = a} / p. With clipped weights
all of them are biased, ips and dr most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from belated.protocols import Floats
from belated.replay.log import Whole
from belated.studies.stats import Interval
from belated.theory.verdicts import half_width

ESTIMATORS = ("dr", "ips", "snips", "replay")


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of one forecaster that have a reward, in the order of the log."""

    reward: Floats
    weight: Floats
    accepted: NDArray[np.bool_]
    expected: Floats  #: m(A)
    expected_logged: Floats  #: m(a)
    run: Whole  #: the life that each belongs to
    age: Whole  #: how many rounds that life had lived through
    largest: float  #: the largest weight there can be

    def parts(self, name: str) -> tuple[Floats, Floats]:
        """`top` and `bottom` of an estimator."""
        if name == "replay":
            return np.where(self.accepted, self.reward, 0.0), self.accepted.astype(np.float64)
        if name == "dr":
            return self.expected + self.weight * (self.reward - self.expected_logged), np.ones(len(self.reward))
        return self.weight * self.reward, self.weight if name == "snips" else np.ones(len(self.reward))

    @property
    def effective(self) -> float:
        """How many rounds with equal weights would tell as much: (sum w)^2 / sum w^2."""
        squares = float((self.weight**2).sum())
        return float(self.weight.sum()) ** 2 / squares if squares else 0.0


def mean(top: Floats, bottom: Floats, run: Whole | None, level: float) -> tuple[Interval, Floats]:
    """A ratio of sums with its interval, and what each round moves it by.

    With runs: Student's interval over lives, which are independent, so that it holds for the expected reward of the
    forecaster, the luck of its lives included. Without: the normal interval of a martingale, whose variance is the
    sum of squared differences; it holds for the rounds as they were lived through, and only for these.
    """
    total = float(bottom.sum())
    if total == 0.0:
        return Interval(math.nan, math.nan, math.nan), np.zeros(len(top))
    value = float(top.sum()) / total
    moved = (top - value * bottom) / total
    return around(value, moved, run, level), moved


def around(value: float, moved: Floats, run: Whole | None, level: float) -> Interval:
    """The interval of an estimate that each round moves by so much."""
    sums = moved if run is None else np.bincount(run, weights=moved)
    count = len(sums)
    error = math.sqrt(float((sums**2).sum()) * count / (count - 1)) if count > 1 else math.inf
    width = half_width(error, count, level) if count > 1 else math.inf
    return Interval(value, value - width, value + width)


def sure(values: Floats, width: float, level: float) -> Interval:
    """An interval for the average of the conditional means of values in a range of that width: empirical Bernstein.

    It needs no normal approximation: exp(lambda S - psi(lambda) V) is a supermartingale for the sum S of
    differences from the conditional means, V the sum of squared differences from the running mean, and
    psi(lambda) = (-ln(1 - lambda width) - lambda width) / width^2 (Howard, Ramdas, McAuliffe, Sekhon 2021). A grid of
    lambdas shares the level.
    """
    count = len(values)
    if count == 0:
        return Interval(math.nan, math.nan, math.nan)
    before = np.concatenate([[0.5], np.cumsum(values)[:-1] / np.arange(1, count)])
    spread = float(((values - before) ** 2).sum())
    steps = 2 + math.ceil(0.5 * math.log2(count + 1))
    grid = 0.5 ** np.arange(1, steps + 1) / width
    psi = (-np.log1p(-grid * width) - grid * width) / width**2
    reach = float(((math.log(2 * steps / (1 - level)) + psi * spread) / grid).min()) / count
    middle = float(values.mean())
    return Interval(middle, middle - reach, middle + reach)
