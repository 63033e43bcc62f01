"""Do delays depend on the action, or on the outcome? There the theorems do not apply, or not all of them.

Three log-rank tests, Holm's correction over those that can be made. The first asks whether feedback comes, and when, at
the same rates for all actions. The others look at when, of what came, with time running backwards, so that the share
that never comes plays no part and young decisions do no harm. Outcomes are compared within actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from belated.audit.delays import Delays
from belated.audit.log import Log
from belated.audit.survival import FEW, LogRank, Whole, at_risk, at_risk_backwards, backwards_share, log_rank
from belated.protocols import Floats
from belated.studies.stats import corrected

#: A dependence is small where the share of feedback that has come by any delay differs by less between groups.
SMALL = 0.05

Word = Literal["depends", "depends slightly", "no sign"]


@dataclass(frozen=True)
class Dependence:
    """One test, and how large the dependence is."""

    on: Literal["action", "outcome"]
    question: str
    test: str
    statistic: float
    freedom: int
    p_value: float
    p_corrected: float  #: by Holm, over all tests made
    word: Word
    medians: dict[str, int | None]  #: of the delays of what comes, in each group
    difference: int | None  #: between the largest and the smallest of them
    distance: float  #: the largest difference between groups of the share that has come by some delay


@dataclass(frozen=True)
class _Made:
    on: Literal["action", "outcome"]
    question: str
    test: str
    result: LogRank
    medians: dict[str, int | None]
    distance: float


def tests(log: Log, delays: Delays, level: float) -> list[Dependence]:
    """All tests that the log allows."""
    made = []
    if len(log.actions) > 1:
        came = delays.came.sum(axis=2)
        made.append(_forwards(log.actions, delays, came))
        limits = delays.limits.sum(axis=2)
        question = "Of the feedback that comes, does it come at the same speed for all actions?"
        made.append(_backwards("action", question, log.actions, delays.at, [(came, limits)]))
    if len(log.classes) > 1:
        count = len(log.classes)
        strata = [(delays.came[:, i, :count], delays.limits[:, i, :count]) for i in range(delays.came.shape[1])]
        question = "Does feedback come at the same speed whatever the outcome?"
        made.append(_backwards("outcome", question, log.classes, delays.at, strata))
    holm = corrected([each.result.p_value for each in made])
    return [_judged(each, p, level) for each, p in zip(made, holm, strict=True)]


def _judged(made: _Made, p: float, level: float) -> Dependence:
    word: Word = "no sign" if p >= level else "depends" if made.distance >= SMALL else "depends slightly"
    known = [median for median in made.medians.values() if median is not None]
    difference = max(known) - min(known) if known else None
    rank = made.result
    return Dependence(
        made.on,
        made.question,
        made.test,
        rank.statistic,
        rank.freedom,
        rank.p_value,
        p,
        word,
        made.medians,
        difference,
        made.distance,
    )


def _forwards(names: tuple[str, ...], delays: Delays, came: Whole) -> _Made:
    waiting = at_risk(came, delays.censored)
    curves = [delays.curve(i) for i in range(len(names))]
    shares = np.stack([1 - curve.survival for curve in curves], axis=1)
    medians = {name: curve.median_of_came for name, curve in zip(names, curves, strict=True)}
    return _Made(
        "action",
        "Does feedback come, and as soon, for all actions alike?",
        "log-rank, right-censored",
        log_rank([(came, waiting)]),
        medians,
        _distance(shares, waiting),
    )


def _backwards(
    on: Literal["action", "outcome"],
    question: str,
    names: tuple[str, ...],
    at: Whole,
    strata: list[tuple[Whole, Whole]],
) -> _Made:
    rank = log_rank([(came, at_risk_backwards(came, limits)) for came, limits in strata])
    came = np.sum([came for came, _ in strata], axis=0)
    waiting = at_risk_backwards(came, np.sum([limits for _, limits in strata], axis=0))
    shares = np.stack([backwards_share(came[:, i], waiting[:, i]) for i in range(len(names))], axis=1)
    medians = {
        name: int(at[np.searchsorted(shares[:, i], 0.5)]) if came[:, i].any() else None for i, name in enumerate(names)
    }
    test = "log-rank in reverse time, of what came" + (", within actions" if len(strata) > 1 else "")
    return _Made(on, question, test, rank, medians, _distance(shares, waiting))


def _distance(shares: Floats, waiting: Whole) -> float:
    """The largest difference between groups, where at least two have enough to tell."""
    known = waiting >= FEW * FEW
    rows = known.sum(axis=1) > 1
    if not rows.any():
        return 0.0
    high = np.where(known, shares, -np.inf)[rows].max(axis=1)
    low = np.where(known, shares, np.inf)[rows].min(axis=1)
    return float(np.max(high - low))
