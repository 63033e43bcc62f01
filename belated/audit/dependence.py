"""Do delays depend on the action, on the outcome, or on when the decision was made?

On actions and outcomes the theorems do not apply, or not all of them; where the law drifts, one curve for the whole log
describes no part of it. Up to four log-rank tests (`compare.py`) share one level by Holm's rule. Two ask whether
feedback comes, and when, at the same rates: for all actions, and early and late in the log. Two look at when, of what
came, with time running backwards, so that the share that never comes plays no part and young decisions do no harm:
for all actions, and for all outcomes, which are compared within actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from belated.audit.compare import Comparison, Counts, compare
from belated.audit.delays import Delays
from belated.audit.log import Log
from belated.logs import show_moment
from belated.report.stats import corrected

#: A dependence is small where the share of feedback that has come by any delay surely differs by less between groups.
SMALL = 0.05
#: Where it may be larger than that, the log tells nothing about its size.
TOLD = 0.9995

On = Literal["action", "outcome", "time"]
Word = Literal["depends", "depends slightly", "no sign", "too few"]


@dataclass(frozen=True)
class Dependence:
    """One test, and how large the dependence is."""

    on: On
    question: str
    test: str
    groups: int  #: that were compared, after small ones were put together
    statistic: float | None
    freedom: int | None
    p_value: float | None
    p_corrected: float | None  #: by Holm, over all tests made
    word: Word
    sizes: dict[str, int]  #: how much feedback came in each group
    medians: dict[str, int | None]  #: of the delays of what comes, in each group
    difference: int | None  #: between the largest and the smallest of them
    distance: float | None  #: the largest difference between groups of the share that has come by some delay
    distance_low: float | None  #: its 95% interval
    distance_high: float | None
    until: int | None  #: the longest delay at which shares were compared

    @property
    def most(self) -> float:
        """How large the dependence may be; 1 where that cannot be told."""
        return 1.0 if self.distance_high is None or self.distance_high > TOLD else self.distance_high


def tests(log: Log, delays: Delays, middle: int, level: float) -> list[Dependence]:
    """All tests that the log allows; its decisions before `middle` are the early ones."""
    made = [*_of_actions(log, delays), *_of_outcomes(log, delays), *_of_time(log, delays, middle)]
    ranks = [found.rank for _, _, _, found in made]
    holm = iter(corrected([rank.p_value for rank in ranks if rank is not None]))
    return [_judged(*each, None if rank is None else next(holm), level) for each, rank in zip(made, ranks, strict=True)]


_Made = tuple[On, str, str, Comparison]


def _of_actions(log: Log, delays: Delays) -> list[_Made]:
    if len(log.actions) < 2:
        return []
    came, limits = delays.came.sum(axis=2), delays.limits.sum(axis=2)
    return [
        (
            "action",
            "Does feedback come, and as soon, for all actions alike?",
            "log-rank, right-censored",
            _compared(log.actions, delays, [Counts(came, limits, delays.censored)]),
        ),
        (
            "action",
            "Of the feedback that comes, does it come at the same speed for all actions?",
            "log-rank in reverse time, of what came",
            _compared(log.actions, delays, [Counts(came, limits)]),
        ),
    ]


def _of_outcomes(log: Log, delays: Delays) -> list[_Made]:
    count = len(log.classes)
    if count < 2:
        return []
    strata = [Counts(delays.came[:, i, :count], delays.limits[:, i, :count]) for i in range(delays.came.shape[1])]
    test = "log-rank in reverse time, of what came" + (", within actions" if len(strata) > 1 else "")
    question = "Does feedback come at the same speed whatever the outcome?"
    return [("outcome", question, test, _compared(log.classes, delays, strata))]


def _of_time(log: Log, delays: Delays, middle: int) -> list[_Made]:
    if log.first == log.last:
        return []
    names = [f"{word} {show_moment(log.kind, middle)}" for word in ("before", "from")]
    question = "Does feedback come, and as soon, early and late in the log alike?"
    return [("time", question, "log-rank, right-censored", _compared(names, delays, [delays.halves]))]


def _compared(names: Sequence[str], delays: Delays, strata: Sequence[Counts]) -> Comparison:
    return compare(names, delays.at, strata, delays.shortest is not None)


def _judged(on: On, question: str, test: str, found: Comparison, p: float | None, level: float) -> Dependence:
    """A dependence is called slight only where it surely is: where all of the interval is small."""
    rank, gap = found.rank, found.gap
    word: Word = "no sign"
    if p is None:
        word = "too few"
    elif p < level:
        word = "depends slightly" if gap is not None and gap.high < SMALL else "depends"
    known = [median for median in found.medians if median is not None]
    return Dependence(
        on=on,
        question=question,
        test=test,
        groups=len(found.names),
        statistic=None if rank is None else rank.statistic,
        freedom=None if rank is None else rank.freedom,
        p_value=None if rank is None else rank.p_value,
        p_corrected=p,
        word=word,
        sizes=dict(zip(found.names, found.sizes, strict=True)),
        medians=dict(zip(found.names, found.medians, strict=True)),
        difference=max(known) - min(known) if known else None,
        distance=None if gap is None else gap.value,
        distance_low=None if gap is None else gap.low,
        distance_high=None if gap is None else gap.high,
        until=None if gap is None else gap.until,
    )
