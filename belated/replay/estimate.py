"""Estimates of a mean reward from weighted rounds, with intervals that hold on thin data too.

Every estimator is a ratio: the sum of `top` over the sum of `bottom`, with one number of each for a round.

| name | top | bottom | bias |
|---|---|---|---|
| ips | w r | 1 | none |
| dr | m(A) + w (r - m(a)) | 1 | none, whatever the model m, which is fitted to earlier rounds |
| replay | r where accepted | 1 where accepted | none |
| snips | w r | w | of the order of 1 / effective sample size |

A is the action that the forecaster proposed, a the logged one, and w = 1{A = a} / p. A policy whose probabilities q are
known has w = q(a) / p, and the expectation of m under q in place of m(A). With clipped weights all of them are biased,
ips and dr most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.protocols import Floats
from belated.replay.log import Whole
from belated.report.stats import Interval

ESTIMATORS = ("dr", "ips", "snips", "replay")
#: No bet risks more than this part of what it has.
RISK = 0.9
#: The smallest fall that is told from 0, as a power of two.
SMALLEST = -30


@dataclass(frozen=True, eq=False)
class Parts:
    """An estimator, round by round. The estimate is a ratio of sums; its interval comes from what was not foreseen.

    `hat` is known before the action of a round is drawn; `surprise` has the expectation each x (true value of the
    round - hat), and lies in [-under, over], where `under` is known beforehand too. `each` is how much a round counts.
    """

    top: Floats
    bottom: Floats
    hat: Floats
    surprise: Floats
    under: Floats
    over: float
    each: Floats

    @property
    def value(self) -> float:
        total = float(self.bottom.sum())
        return float(self.top.sum()) / total if total else math.nan

    @property
    def moved(self) -> Floats:
        """What each round moves the estimate by."""
        total = float(self.bottom.sum())
        return (self.top - self.value * self.bottom) / total if total else np.zeros(len(self.top))

    def only(self, which: Any) -> Parts:
        top, bottom, hat = self.top[which], self.bottom[which], self.hat[which]
        return Parts(top, bottom, hat, self.surprise[which], self.under[which], self.over, self.each[which])


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of one forecaster or policy that have a reward, in the order of the log."""

    reward: Floats
    weight: Floats
    largest: float  #: the largest weight there can be
    expected: Floats | None  #: m(A), or its expectation under the policy
    expected_logged: Floats  #: m(a)
    highest: Floats | None  #: the largest m(a) that can come with a weight
    accepted: NDArray[np.bool_] | None  #: None for a policy
    cut: bool  #: whether there were larger weights
    run: Whole  #: the life that each belongs to
    age: Whole  #: how many rounds that life had lived through

    @property
    def estimators(self) -> tuple[str, ...]:
        without = {"dr": self.expected, "replay": self.accepted}
        return tuple(name for name in ESTIMATORS if without.get(name, self.reward) is not None)

    def parts(self, name: str) -> Parts:
        reward, weight, most, ones = self.reward, self.weight, self.largest, np.ones(len(self.reward))
        if name == "dr":
            assert self.expected is not None and self.highest is not None
            surprise = weight * (reward - self.expected_logged)
            return Parts(self.expected + surprise, ones, self.expected, surprise, most * self.highest, most, ones)
        if name == "ips":
            hat = before(weight * reward, ones)
            return Parts(weight * reward, ones, hat, weight * reward - hat, hat, most, ones)
        if name == "replay":
            assert self.accepted is not None
            weight, most = self.accepted.astype(np.float64), 1.0
        hat = before(weight * reward, weight)
        # Weights that were cut are not 1 on average: then a round counts by its weight.
        each = weight if self.cut or name == "replay" else ones
        return Parts(weight * reward, weight, hat, weight * (reward - hat), most * hat, most, each)

    def only(self, which: Any) -> Rounds:
        """Some of the rounds."""
        chosen = {each.name: getattr(self, each.name) for each in fields(self)}
        return Rounds(**{name: x[which] if isinstance(x, np.ndarray) else x for name, x in chosen.items()})

    @property
    def effective(self) -> float:
        """How many rounds with equal weights would tell as much: (sum w)^2 / sum w^2."""
        squares = float((self.weight**2).sum())
        return float(self.weight.sum()) ** 2 / squares if squares else 0.0


def plain(values: Floats) -> Parts:
    """The mean of values from 0 to 1."""
    ones = np.ones(len(values))
    hat = before(values, ones)
    return Parts(values, ones, hat, values - hat, hat, 1.0, ones)


def before(top: Floats, bottom: Floats) -> Floats:
    """The ratio of the sums up to each round, without it: between 0 and 1, and 0 while there is nothing."""
    sums, counts = (np.concatenate([[0.0], np.cumsum(x)[:-1]]) for x in (top, bottom))
    result: Floats = np.clip(sums / np.maximum(counts, 1e-300), 0.0, 1.0)
    return result


def holds(parts: Parts, level: float, least: float = 0.0, most: float = 1.0) -> Interval:
    """An interval for the value as the rounds were, which needs no normal approximation: empirical Bernstein.

    It is for the average over the rounds of what they pay in expectation, which lies in [least, most]. For surprises y
    that are at least -c, their sum S, its expectation E given each time the rounds before, and
    psi_c(lambda) = (-ln(1 - lambda c) - lambda c) / c^2, exp(lambda (S - E) - sum psi_c(lambda) y^2) is a
    supermartingale (Fan, Grama, Liu 2015; Howard, Ramdas, McAuliffe, Sekhon 2021), and so is an average over lambdas:
    it exceeds 2 / (1 - level) with chance (1 - level) / 2 at most. That bounds E from below; -y, whose c is how far y
    can rise, bounds it from above. So rare rewards with large weights, of which the next may always come, widen the
    upper side alone; and where no reward was seen the interval ends not far from where Clopper's and Pearson's does.
    """
    value, count, total = parts.value, int((parts.each > 0.0).sum()), float(parts.each.sum())
    if math.isnan(value):
        return Interval(math.nan, math.nan, math.nan)
    middle = float((parts.each * parts.hat + parts.surprise).sum()) / total
    enough = math.log(2.0 / (1.0 - level))
    power = (
        np.clip(np.ceil(np.log2(np.maximum(parts.under, 2.0**SMALLEST))), SMALLEST, None).astype(np.int64) - SMALLEST
    )
    squares: Any = np.bincount(power, parts.surprise**2)
    falls: Any = 2.0 ** (np.arange(len(squares)) + SMALLEST)
    below = reach(squares[None], falls, bets(count, parts.over, 1.0, enough), enough)
    above = reach(
        np.array([[squares.sum()]]), np.array([parts.over]), bets(count, parts.over, parts.over, enough), enough
    )
    low, high = middle - float(below[0]) / total, middle + float(above[0]) / total
    return Interval(value, min(value, max(low, least)), max(value, min(high, most)))


def bets(count: int, most: float, fall: float, enough: float) -> Floats:
    """The lambdas that are tried: from what a fall allows down to the best one if the variance were the largest.

    Where falls differ, up to `most`, the smallest is allowed by all.
    """
    smallest = math.sqrt(8.0 * enough / (count * most))
    if fall < most:
        smallest = min(smallest, 0.5 * RISK / most)
    halvings = max(math.ceil(math.log2(RISK / fall / smallest)), 0)
    return np.asarray(RISK / fall * 0.5 ** np.arange(halvings + 1), np.float64)


def reach(squares: Floats, falls: Floats, tried: Floats, enough: float) -> Floats:
    """How far a sum of surprises can be above its expectation, but for a chance of exp(-enough).

    Rows of `squares` are sums, columns are kinds of rounds, in which surprises can fall by `falls`.
    """
    risks = tried[:, None] * falls
    inside = np.minimum(risks, RISK)
    small = inside < 1e-4
    steep = (-np.log1p(-inside) - inside) / np.where(small, 1.0, inside * inside)
    psi = tried[:, None] ** 2 * np.where(small, 0.5 + inside / 3.0, steep)
    # A bet that might lose everything in some round is over.
    psi = np.where(risks > RISK * (1 + 1e-9), np.inf, psi)
    with np.errstate(invalid="ignore"):
        spent = np.where(squares[:, None, :] > 0.0, squares[:, None, :] * psi, 0.0).sum(axis=2)
    spent += math.log(len(tried))
    high = ((enough + spent) / tried).min(axis=1)
    low = np.zeros(len(high))
    for _ in range(40):
        middle = 0.5 * (low + high)
        logs = middle[:, None] * tried - spent
        most = logs.max(axis=1)
        over = most + np.log(np.exp(logs - most[:, None]).sum(axis=1)) > enough
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.asarray(high, np.float64)


def with_luck(found: Interval, moved: Floats, run: Whole | None, level: float, least: float = 0.0) -> Interval:
    """The same for the expected value of a life, whose luck is seen in how lives differ.

    Lives are independent, so Student's interval over them is right where their sums are about normal; on either side
    the wider one counts.
    """
    if run is None or math.isnan(found.mean):
        return found
    from scipy.special import stdtrit

    sums = np.bincount(run, weights=moved)
    count = len(sums)
    if count < 2:
        return found
    width = math.sqrt(float((sums**2).sum()) * count / (count - 1)) * float(stdtrit(count - 1, (1 + level) / 2))
    low, high = max(found.mean - width, least), min(found.mean + width, 1.0)
    return Interval(found.mean, min(found.low, low), max(found.high, high))


def difference(parts: Parts, there: NDArray[np.bool_], rewards: Floats) -> Parts:
    """The estimate minus the mean of all rewards, round by round; `there` are the rounds that the estimate has."""
    own, factor = plain(rewards), len(rewards) / float(parts.each.sum())
    value, mean = parts.value, float(parts.bottom.mean())
    top, hat, surprise, under = -rewards, -own.hat, -own.surprise, np.ones(len(rewards))
    top[there] += len(rewards) / len(parts.top) * (value + (parts.top - value * parts.bottom) / mean)
    hat[there] += factor * parts.each * parts.hat
    surprise[there] += factor * parts.surprise
    under[there] += factor * parts.under
    return Parts(top, own.bottom, hat, surprise, under, factor * parts.over + 1.0, own.each)


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
