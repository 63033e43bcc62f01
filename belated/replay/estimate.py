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
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.protocols import Floats
from belated.replay.columns import Whole
from belated.studies.stats import Interval

ESTIMATORS = ("dr", "ips", "snips", "replay")
#: Bets of a test are the best one if the variance were as large as it can be, times these powers of two.
POWERS = np.arange(-3, 13)
#: The share of the stake that goes to each.
SHARES = 1.0 / ((1.0 + abs(POWERS)) * (2.0 + abs(POWERS)))
LOG_SHARES = np.log(SHARES / SHARES.sum())
#: No bet risks more than this part of what it has.
RISK = 0.9
#: An end of an interval is looked for among so many points, so many times over.
POINTS, TIMES = 33, 6


@dataclass(frozen=True, eq=False)
class Parts:
    """An estimator: what its interval needs to know beside `top` and `bottom`.

    For the true value v, top - v bottom is 0 in expectation in each round (on average over the rounds, if what is
    played changes), is at least -(under[0] + under[1] v + slack) and at most over[0] + over[1] v. The slack of a round
    is known before its action is drawn.
    """

    top: Floats
    bottom: Floats
    under: tuple[float, float]
    over: tuple[float, float]
    scale: float  #: about the largest second moment of `bottom`, for the choice of bets
    slack: Floats | None = None

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
        slack = None if self.slack is None else self.slack[which]
        return Parts(self.top[which], self.bottom[which], self.under, self.over, self.scale, slack)


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
    run: Whole  #: the life that each belongs to
    age: Whole  #: how many rounds that life had lived through

    @property
    def estimators(self) -> tuple[str, ...]:
        without = {"dr": self.expected, "replay": self.accepted}
        return tuple(name for name in ESTIMATORS if without.get(name, self.reward) is not None)

    def parts(self, name: str) -> Parts:
        most, ones = self.largest, np.ones(len(self.reward))
        if name == "replay":
            assert self.accepted is not None
            top = np.where(self.accepted, self.reward, 0.0)
            return Parts(top, self.accepted.astype(np.float64), (0.0, 1.0), (1.0, -1.0), 1.0 / most)
        if name == "dr":
            assert self.expected is not None and self.highest is not None
            top = self.expected + self.weight * (self.reward - self.expected_logged)
            slack = np.maximum(most * self.highest - self.expected, 0.0)
            return Parts(top, ones, (0.0, 1.0), (most + 1.0, -1.0), most, slack)
        if name == "ips":
            return Parts(self.weight * self.reward, ones, (0.0, 1.0), (most, -1.0), most)
        return Parts(self.weight * self.reward, self.weight, (0.0, most), (most, -most), most)

    def only(self, which: Any) -> Rounds:
        """Some of the rounds."""
        chosen = {each.name: getattr(self, each.name) for each in fields(self)}
        return Rounds(**{name: x[which] if isinstance(x, np.ndarray) else x for name, x in chosen.items()})

    @property
    def effective(self) -> float:
        """How many rounds with equal weights would tell as much: (sum w)^2 / sum w^2."""
        squares = float((self.weight**2).sum())
        return float(self.weight.sum()) ** 2 / squares if squares else 0.0


def holds(parts: Parts, level: float, least: float = 0.0, most: float = 1.0) -> Interval:
    """An interval for the value as the rounds were, which needs no normal approximation: empirical Bernstein.

    It is for the average over the rounds of what they pay in expectation, which lies in [least, most]. For the true v,
    z = top - v bottom, and c the most that z can fall below 0, exp(lambda sum z - psi_c(lambda) sum z^2) with
    psi_c(lambda) = (-ln(1 - lambda c) - lambda c) / c^2 is a supermartingale (Fan, Grama, Liu 2015; Howard, Ramdas,
    McAuliffe, Sekhon 2021), and so is an average over lambdas: it exceeds 2 / (1 - level) with chance (1 - level) / 2
    at most. All v at which it does are left out, from below by z and from above by -z, whose c is how far z can rise.
    So rare rewards with large weights, of which the next may always come, widen the upper side alone; and where no
    reward was seen the interval ends about where Clopper's and Pearson's does.
    """
    value = parts.value
    if math.isnan(value):
        return Interval(math.nan, math.nan, math.nan)
    sums = _Sums(parts, math.log(2.0 / (1.0 - level)), most - least)
    low = _end(lambda v: sums.against(v - least, v, 1.0), min(value, least), value)
    high = _end(lambda v: sums.against(v - least, v, -1.0), max(value, most), value)
    return Interval(value, low, high)


class _Sums:
    """The sums over rounds that tests of all values need; rounds with about the same slack are one."""

    def __init__(self, parts: Parts, enough: float, width: float) -> None:
        self.parts, self.enough, self.width = parts, enough, width
        self.count = len(parts.top)
        slack = parts.slack if parts.slack is not None else np.zeros(1)
        powers = np.where(slack > 1e-9, np.ceil(np.log2(np.maximum(slack, 1e-9))), -31.0)
        steps, kind = np.unique(powers, return_inverse=True)
        self.slack = np.where(steps > -31.0, 2.0**steps, 0.0)
        kind = kind if parts.slack is not None else np.zeros(self.count, np.int64)
        top, bottom = parts.top, parts.bottom
        self.squares = [np.bincount(kind, each, len(steps)) for each in (top * top, top * bottom, bottom * bottom)]
        self.total = float(top.sum()), float(bottom.sum())

    def against(self, place: Floats, value: Floats, sign: float) -> NDArray[np.bool_]:
        """Which values are left out: too small ones with sign 1, too large ones with -1."""
        first, mixed, last = self.squares
        v = value[:, None]
        squares = np.maximum(first - 2.0 * v * mixed + v * v * last, 0.0)  # values x kinds of rounds
        total = sign * (self.total[0] - value * self.total[1])
        start, slope = self.parts.under if sign > 0 else self.parts.over
        fall = start + slope * v + (self.slack if sign > 0 else np.zeros(1))
        guess = self.count * self.parts.scale * place * (self.width - place)
        once = self.parts.over[0] ** 2  # what a single reward with the largest weight adds
        logs = evidence(total, squares, np.maximum(fall, 0.0), np.maximum(guess, once), self.enough)
        return np.asarray(logs > self.enough)


def evidence(total: Floats, squares: Floats, fall: Floats, guess: Floats, enough: float) -> Floats:
    """The logarithm of the capital of somebody who bets that a sum of differences, each at least -fall, is not 0 on
    average. Rows are tests; `squares` and `fall` have a column for each kind of round; `guess` is what the sum of all
    squares is expected to be at most, `enough` the capital that is hoped for.
    """
    best = np.sqrt(2.0 * enough / guess)[:, None]
    least = np.maximum(fall.min(axis=1, keepdims=True), 1e-12)
    bets = np.minimum(best * 2.0**POWERS, RISK / least)[:, :, None]  # tests x bets x 1
    risks = bets * fall[:, None, :]
    inside = np.minimum(risks, RISK)
    small = inside < 1e-4
    steep = (-np.log1p(-inside) - inside) / np.where(small, 1.0, inside * inside)
    psi = bets * bets * np.where(small, 0.5 + inside / 3.0, steep)
    there = (squares > 0.0)[:, None, :]
    # A bet that may lose everything in some round is over.
    over = (there & (risks > RISK + 1e-9)).any(axis=2)
    logs = bets[:, :, 0] * total[:, None] - np.where(there, psi * squares[:, None, :], 0.0).sum(axis=2)
    logs = np.where(over, -np.inf, logs + LOG_SHARES)
    highest = np.maximum(logs.max(axis=1), -1e300)
    result: Floats = highest + np.log(np.exp(logs - highest[:, None]).sum(axis=1))
    return result


def _end(out: Callable[[Floats], NDArray[np.bool_]], far: float, near: float) -> float:
    """Where, on the way from afar to the estimate, the first value is that is not left out."""
    for _ in range(TIMES):
        points = np.linspace(far, near, POINTS)
        inside = np.flatnonzero(~out(points))
        first = int(inside[0]) if len(inside) else POINTS - 1
        if first == 0:
            break
        far, near = float(points[first - 1]), float(points[first])
    return far


def with_luck(found: Interval, moved: Floats, run: Whole | None, level: float) -> Interval:
    """The same for the expected value of a life, whose luck is seen in how lives differ.

    Lives are independent, so Student's interval over them is right where their sums are about normal; on either side
    the wider one counts.
    """
    if run is None or math.isnan(found.mean):
        return found
    from scipy.special import stdtrit

    sums = np.bincount(run, weights=moved)
    count = len(sums)
    width = math.sqrt(float((sums**2).sum()) * count / (count - 1)) * float(stdtrit(count - 1, (1 + level) / 2))
    return Interval(found.mean, min(found.low, found.mean - width), max(found.high, found.mean + width))


def difference(parts: Parts, there: NDArray[np.bool_], rewards: Floats) -> Parts:
    """The estimate minus the mean of all rewards, round by round; `there` are the rounds that the estimate has.

    A ratio is taken as what it is about: its value, and what each round moves it by.
    """
    value, mean, factor = parts.value, float(parts.bottom.mean()), len(rewards) / len(parts.top)
    top = -rewards
    top[there] += factor * (value + (parts.top - value * parts.bottom) / mean)
    falls, rises = (start + slope * value for start, slope in (parts.under, parts.over))
    slack = np.zeros(len(rewards))
    slack[there] = factor * np.maximum((falls + (0.0 if parts.slack is None else parts.slack)) / mean - value, 0.0)
    over = factor * (rises / mean + value)
    return Parts(top, np.ones(len(rewards)), (1.0, 1.0), (over, -1.0), 0.25 * factor * parts.scale / mean, slack)


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
