"""An audit: everything that was found in a log, as data, as frames, in words and as a page."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import logs, notation, require
from belated.audit import advice, cost, delays, dependence, expiry, outstanding
from belated.audit.dependence import Dependence
from belated.audit.log import Log, read
from belated.audit.survival import Curve
from belated.report.stats import number

if TYPE_CHECKING:
    import polars

#: Shares whose delays are given.
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
#: Columns of the table of expiries, which may be empty.
EXPIRY = dict.fromkeys(("length", "lost", "lost_low", "lost_high", "peak_low", "peak_high"), float)
#: A length that is not known.
UNKNOWN = "-"
#: What rests on fewer decisions is called so.
THIN = 30
#: A p-value below it is only said to be.
LEAST = 1e-16
#: Units of time for people, in seconds.
SPANS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def run(
    source: Any,
    decided: str | None,
    observed: str | None,
    action: str | None,
    reward: str | None,
    learner: Any,
    gap: float,
    as_of: Any,
    level: float,
    file_format: str | None,
    **reading: Any,
) -> Audit:
    """See `belated.audit.audit`."""
    began = time.perf_counter()
    require.real("level", level, above=0, below=1)
    require.real("gap", gap, above=0, high=1)
    cost.learner_of(learner, cost.FEWEST)  # a mistake is better told before a long log is read
    with logs.plain_reading(source):
        log = read(source, decided, observed, action, reward, as_of, file_format, **reading)
        out = outstanding.measure(log)
        waits = delays.measure(log, out.middle)
        curve = waits.curve()
        tried = expiry.expiries(log, curve)
    found = dependence.tests(log, waits, out.middle, level)
    peaks = [peak.low for peak in out.peaks]
    if len(peaks) < cost.FEWEST:
        peaks = [out.peak.low] * cost.FEWEST
    case = cost.case(learner, gap, log.decisions, out.peak.low, peaks, log.means)
    return Audit(
        log, waits, curve, out, tried, found, level, case, cost.costs(case, found), time.perf_counter() - began
    )


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """What delay costs, from a log.

    `to_json()` has these keys. Lengths of time are in `unit`: "seconds" or "rounds"; moments are seconds since 1970 or
    rounds; shares are from 0 to 1; what is not known is null. `low` and `high`, by themselves or at the end of a name,
    are the ends of a 95% interval, each for itself.

    - `unit`, `decisions`, `came` (feedback), `first` (decision), `as_of`, `ended` (decisions without
      feedback that were no longer watched then), `excluded` (rows left out, by reason)
    - `delay`: `quantiles` (`share`, `delay`, `low`, `high`; `high` and `delay` are null where the log does not tell),
      `median`, `never` (share that takes longer than `never_after`) with `never_low`, `never_high`, `never_watched`
      (how many decisions were watched for so long), `grid` (relative width of the cells in which delays were counted,
      and given as the longest of theirs, `low` as the shortest; 0 if exact), `error` (of the curve by that, at most)
    - `outstanding`: `peak`, `peak_at`, `mean` (of G over the decisions, as if those of a short time were spread evenly
      in it), `at_end`
    - `actions`: of each `action`, `decisions`, `came`, `peak`, `median` (as that of `delay`: of all its decisions, null
      if less than half get feedback, or too few are known) with `median_low`, `median_high`, `median_of_what_came` (of
      those that get feedback; an estimate alone), `never`, `never_low`, `never_high`, `never_after`, `mean_reward` (of
      what came; an average alone)
    - `expiry`: of each `length`, `lost` (share of what comes by `never_after`), `lost_low`, `lost_high`, `peak_low`,
      `peak_high` (equal where exact)
    - `dependence`: `level` (of all tests together, by Holm's rule) and `tests`: each `on` (action, outcome, time: early
      against late), `question`, `test`, `groups` (after small ones were put together), `statistic`, `freedom`,
      `p_value`, `p_corrected`, `word` (depends, depends slightly, no sign, too few), `sizes` (feedback by group),
      `medians` (of what came, by group), `difference` (of these), `distance` (the largest difference between groups of
      the share that has come by some delay up to `until`) with `distance_low`, `distance_high`
    - `cost`: `learner`, `gap`, `actions`, `best` and `theorems`: each `forecaster`, `word` (bound, vacuous, no bound),
      `with_delay`, `without_delay`, `added`, `factor`, `reason`, `doubts`
    - `advice`: each `question`, `found`, `use`, `why`
    - `seconds`: how long the audit took
    """

    log: Log
    delays: delays.Delays
    curve: Curve  #: Kaplan-Meier of all delays
    outstanding: outstanding.Outstanding
    expiries: list[expiry.Expiry]
    dependence: list[Dependence]
    level: float
    case: cost.Case
    costs: list[cost.Cost]
    seconds: float

    @property
    def peak(self) -> int:
        """G*."""
        return self.outstanding.peak.low

    @property
    def peaks(self) -> tuple[int, ...]:
        """G*_i, in the order of `log.actions`."""
        return tuple(peak.low for peak in self.outstanding.peaks)

    @property
    def watched(self) -> int:
        """The longest delay that the log can show: longer than all seen, or one that enough were watched for."""
        return int(self.curve.delays[self.curve.end])

    @property
    def advice(self) -> list[advice.Advice]:
        lengths = [self.show(each.length) for each in self.expiries]
        return advice.advice(
            self.case, self.outstanding.mean, self.costs, self.dependence, self.curve, self.expiries, lengths
        )

    def show(self, length: int | None) -> str:
        """A length of time as people read it."""
        if length is None:
            return UNKNOWN
        if self.log.kind == "rounds":
            return logs.many(length, "round")
        seconds = length / 1e6
        name, size = next(((n, s) for n, s in SPANS if seconds >= s), SPANS[-1])
        return f"{number(seconds / size)} {name}" if length else "0 s"

    def moment(self, at: int) -> str:
        """A time or a round as people read it."""
        return logs.show_moment(self.log.kind, at)

    def _length(self, value: int | None) -> float | int | None:
        return value if value is None or self.log.kind == "rounds" else value / self.log.scale

    def data(self) -> dict[str, Any]:
        """Everything as plain data."""
        log, curve, out = self.log, self.curve, self.outstanding
        never_low, never_high = curve.never_band
        return {
            "unit": log.unit,
            "decisions": log.decisions,
            "came": log.came,
            "first": self._length(log.first),
            "as_of": self._length(log.as_of),
            "ended": log.ended,
            "excluded": log.excluded,
            "delay": {
                "quantiles": [self._quantile(share, curve) for share in QUANTILES],
                "median": self._length(curve.quantile(0.5)),
                "never": curve.never,
                "never_low": never_low,
                "never_high": never_high,
                "never_after": self._length(self.watched),
                "never_watched": int(curve.watched[curve.end]),
                "grid": self.delays.grid,
                "error": curve.grid_error if self.delays.grid else 0.0,
            },
            "outstanding": {
                "peak": out.peak.low,
                "peak_at": self._length(out.peak.at),
                "mean": out.mean,
                "at_end": log.open,
            },
            "actions": self._actions,
            "expiry": [
                {
                    "length": self._length(e.length),
                    "lost": e.lost,
                    "lost_low": e.lost_low,
                    "lost_high": e.lost_high,
                    "peak_low": e.peak.low,
                    "peak_high": e.peak.high,
                }
                for e in self.expiries
            ],
            "dependence": {
                "level": self.level,
                "tests": [
                    asdict(d)
                    | {
                        "medians": {name: self._length(median) for name, median in d.medians.items()},
                        "difference": self._length(d.difference),
                        "until": self._length(d.until),
                    }
                    for d in self.dependence
                ],
            },
            "cost": {
                "learner": notation.text("learner", self.case.learner),
                "gap": self.case.gap,
                "actions": len(self.case.peaks),
                "best": log.actions[self.case.best] if self.peaks_known else None,
                "theorems": [asdict(each) | {"doubts": list(each.doubts)} for each in self.costs],
            },
            "advice": [asdict(each) for each in self.advice],
            "seconds": self.seconds,
        }

    @property
    def peaks_known(self) -> bool:
        """Whether the theorems were asked with peaks of each action; else G* stands for them."""
        return len(self.log.actions) >= cost.FEWEST

    def _quantile(self, share: float, curve: Curve) -> dict[str, float | int | None]:
        names, values = ("delay", "low", "high"), curve.quantile_with_band(share)
        return {"share": share} | dict(zip(names, map(self._length, values), strict=True))

    @cached_property
    def _actions(self) -> list[dict[str, Any]]:
        rows = []
        for i, name in enumerate(self.log.actions):
            curve = self.delays.curve(i)
            median = self._quantile(0.5, curve)
            rows.append(
                {
                    "action": name,
                    "decisions": self.log.counts[i],
                    "came": int(self.delays.came[:, i].sum()),
                    "peak": self.outstanding.peaks[i].low,
                    "median": median["delay"],
                    "median_low": median["low"],
                    "median_high": median["high"],
                    "median_of_what_came": self._length(curve.median_of_came),
                    "never": curve.never,
                    "never_low": curve.never_band[0],
                    "never_high": curve.never_band[1],
                    "never_after": self._length(int(curve.delays[curve.end])),
                    "mean_reward": None if self.log.means is None else self.log.means[i],
                }
            )
        return rows

    def to_json(self) -> str:
        """Everything as JSON."""
        return json.dumps(self.data(), indent=2, allow_nan=False)

    def frame(self, name: str = "delays") -> polars.DataFrame:
        """A table: delays, outstanding, actions, expiry, tests or theorems."""
        names = ("delays", "outstanding", "actions", "expiry", "tests", "theorems")
        return self.frames()[require.one_of("name", name, names)]

    def frames(self) -> dict[str, polars.DataFrame]:
        """All tables by name."""
        import polars as pl

        data, curve, out = self.data(), self.curve, self.outstanding
        low, high = curve.band
        scale = self.log.scale if self.log.kind == "times" else 1
        places = thinned(out.level)
        lists = {"tests": data["dependence"]["tests"], "theorems": data["cost"]["theorems"]}
        return {
            "delays": pl.DataFrame(
                {
                    "delay": curve.delays / scale,
                    "waiting": curve.waiting,
                    "came": curve.came,
                    "censored": curve.censored,
                    "survival": curve.survival,
                    "low": low,
                    "high": high,
                }
            ),
            "outstanding": pl.DataFrame({"at": out.edges[places] / scale, "outstanding": out.level[places]}),
            "actions": pl.DataFrame(data["actions"]),
            "expiry": pl.DataFrame(data["expiry"], schema=None if self.expiries else EXPIRY),
            **{name: _flat(rows) for name, rows in lists.items()},
        }

    def summary(self) -> str:
        """A few lines for the terminal."""
        log, curve = self.log, self.curve
        lines = [
            f"{logs.many(log.decisions, 'decision')} from {self.moment(log.first)} to {self.moment(log.last)}; "
            f"feedback came for {log.came:,} ({log.came / log.decisions:.1%}) by {self.moment(log.as_of)}",
            *([f"watched no longer, without feedback: {logs.many(log.ended, 'decision')}"] if log.ended else []),
            *(f"left out: {logs.many(count, 'row')}, {reason}" for reason, count in log.excluded.items()),
            "delay: " + ", ".join(f"{q:.0%} {self.within(curve, q)}" for q in QUANTILES[2::2]),
            f"never: {self.never_said}" + (f". {advice.UNSEEN}" if advice.some_never(curve) else ""),
            f"outstanding: G* = {self.peak:,} near {self.moment(self.outstanding.peak.at)}; {log.open:,} at the end",
        ]
        for each in self.expiries[-3:]:
            lines.append(
                f"expiry of {self.show(each.length)}: loses {share(each.lost, each.lost_low, each.lost_high)} of what "
                f"comes, G* {_range(each.peak)}"
            )
        for test in self.dependence:
            lines.append(f"{test.on}: {test.word} ({self.test_said(test)})")
        for each_cost in self.costs:
            lines.append(f"{each_cost.forecaster}: {said(each_cost)}")
        lines += [f"{a.question} {a.found or '(yours to say; if yes)'} -> {a.use}" for a in self.advice]
        return "\n".join([*lines, "intervals (a to b) are 95%, each by itself"])

    def within(self, curve: Curve, wanted: float) -> str:
        """By when that share of all feedback has come, in words."""
        delay, low, high = map(self.show, curve.quantile_with_band(wanted))
        return f"not known, at least {low}" if high == UNKNOWN else f"within {delay} ({low} to {high})"

    @property
    def never_said(self) -> str:
        """How much does not come, in words, and on how much that rests."""
        curve = self.curve
        count = int(curve.watched[curve.end])
        return (
            f"{share(curve.never, *curve.never_band)} does not come within {self.show(self.watched)}, for which "
            f"{logs.many(count, 'decision')} {'was' if count == 1 else 'were'} watched"
            + (" (few: take it as a hint)" if count < THIN else "")
        )

    def test_said(self, test: Dependence) -> str:
        """What a test says, in words."""
        if test.p_corrected is None:
            return f"too little feedback came to compare: {sum(test.sizes.values()):,} in {len(test.sizes):,} groups"
        p = f"p = {test.p_corrected:.2g}" if test.p_corrected >= LEAST else f"p < {LEAST:g}"
        told = f"{p} corrected, {test.test}, {logs.many(test.groups, 'group')}"
        nothing = test.word == "no sign" and test.most == 1
        if nothing or test.distance_high is None or test.distance is None or test.distance_low is None:
            return f"by how much cannot be told from so little; {told}"
        apart = f"the share that has come by some delay up to {self.show(test.until)} differs by "
        if test.word == "no sign":
            return f"{apart}at most {test.distance_high:.1%} (95%); {told}"
        return f"{apart}{share(test.distance, test.distance_low, test.distance_high)} between groups; {told}"

    def __repr__(self) -> str:
        made = logs.many(self.log.decisions, "decision")
        return f"<Audit of {made}: G* = {self.peak:,}, {self.curve.never:.1%} not within {self.show(self.watched)}>"

    def page(self, out: str | Path) -> Path:
        """Write index.html, audit.json, figures and tables into a folder; the path of the page."""
        from belated.audit.page import write

        return write(self, out)


def share(value: float, low: float, high: float) -> str:
    """A share with its interval.

    >>> share(0.1, 0.05, 0.2)
    '10.0% (5.0% to 20.0%)'
    """
    return f"{value:.1%} ({low:.1%} to {high:.1%})"


def said(found: cost.Cost) -> str:
    """A theorem in one line."""
    if found.word == "no bound":
        text = f"no bound: {found.reason}"
    elif found.word == "vacuous":
        text = "vacuous: the bound is not below what everybody has"
    else:
        text = f"at most {number(found.with_delay)} regret, {number(found.without_delay)} without delay"
        text += f" (+{number(found.added)}" + (f", x{number(found.factor)})" if found.factor is not None else ")")
    doubtful = found.word == "bound" and found.doubts
    return text + (f"; doubtful, as {' and '.join(found.doubts)}" if doubtful else "")


def thinned(level: Any, most: int = 1000) -> Any:
    """Places of a curve that are enough to draw it: the highest and the lowest of each stretch."""
    if len(level) <= 2 * most:
        return np.arange(len(level))
    stretches = np.array_split(np.arange(len(level)), most)
    return np.unique([place for s in stretches for place in (s[level[s].argmax()], s[level[s].argmin()])])


def _range(peak: outstanding.Peak) -> str:
    return f"{peak.low:,}" if peak.exact else f"{peak.low:,} to {peak.high:,}"


def _flat(rows: list[dict[str, Any]]) -> polars.DataFrame:
    """Rows as a frame, with what is nested as JSON."""
    import polars as pl

    return pl.DataFrame(
        [{k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()} for row in rows],
        infer_schema_length=None,
    )
