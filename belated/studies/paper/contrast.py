"""Multiplicative against additive: one stochastic problem, three ways to meet the delay.

Under a constant delay BOLD's expected regret is exactly (tau + 1) times that of its base after n / (tau + 1) rounds.
QPM-D and the base played directly pay the regret without delay once, and add what the delay hides from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Bernoulli
from belated.learners import KLUCB, UCB1
from belated.protocols import Learner
from belated.report import figures
from belated.report.page import Drawing, Finding, Rows, Section, counted, finding, identity, worst
from belated.report.prose import Prose
from belated.report.stats import Fit, Interval, line_fit, matching
from belated.studies.cells import Cell, Play
from belated.studies.paper.part import STRETCH, Part, added, penalty_plays, undecided
from belated.studies.results import cell_frame, replication_frame
from belated.studies.run import Done
from belated.theory.intervals import Ends, reach
from belated.theory.verdicts import LEVEL, Verdict, side

WORDS = Prose(__name__)
MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
GAPS = np.array([max(MEANS) - mean for mean in MEANS])
SEED = 1
RULES: dict[str, Callable[[Learner], Forecaster]] = {"BOLD": BOLD, "QPM-D": QPMD, "direct": Direct}
BASES: dict[str, Learner] = {"UCB1": UCB1(len(MEANS)), "KL-UCB": KLUCB(len(MEANS))}
#: Replications of a base alone, at most.
MOST = 8000


@dataclass(frozen=True)
class Scale:
    """How much is played: rounds, and for each base the values of tau + 1, which divide them, and replications."""

    rounds: int
    spans: dict[str, tuple[int, ...]]
    replications: dict[str, int]


SHORT = Scale(
    32_768,
    {"UCB1": (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024), "KL-UCB": (1, 16, 64, 256, 1024)},
    {"UCB1": 100, "KL-UCB": 40},
)
FULL = Scale(
    65_536,
    {name: (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024) for name in BASES},
    {"UCB1": 300, "KL-UCB": 100},
)


class Point(NamedTuple):
    """A cell and what figures and tables call it; "alone" is the base without delay, for n / (tau + 1) rounds."""

    base: str
    rule: str
    delay: int
    cell: Play


Table = dict[tuple[str, str, int], Result]


def grid(scale: Scale) -> list[Point]:
    """All that is played."""
    game = Bernoulli(MEANS)
    points = []
    for base, spans in scale.spans.items():
        learner, count = BASES[base], scale.replications[base]
        for span in spans:
            for rule, forecaster in RULES.items():
                cell = Play(forecaster(learner), game, Constant(span - 1), scale.rounds, count, SEED)
                points.append(Point(base, rule, span - 1, cell))
            alone = Play(Direct(learner), game, Constant(0), scale.rounds // span, min(count * span, MOST), SEED + span)
            points.append(Point(base, "alone", span - 1, alone))
    return points


def penalty_cells(scale: Scale) -> dict[tuple[str, int], tuple[Play, Play]]:
    """By base and delay, under QPM-D and without delay."""
    return {
        (base, span - 1): penalty_plays(
            BASES[base], Bernoulli(MEANS), span - 1, scale.rounds, scale.replications[base], SEED
        )
        for base, spans in scale.spans.items()
        for span in spans
        if span > 1
    }


def cells_of(scale: Scale) -> list[Cell]:
    pairs = (cell for both in penalty_cells(scale).values() for cell in both)
    return list({cell.key: cell for cell in (*(point.cell for point in grid(scale)), *pairs)}.values())


def cells(full: bool) -> list[Cell]:
    return cells_of(FULL if full else SHORT)


def section(done: Done, full: bool) -> Section:
    return describe(done, FULL if full else SHORT)


def describe(done: Done, scale: Scale) -> Section:
    """The section of a grid of any scale."""
    points = grid(scale)
    results: Table = {point[:3]: done[point.cell] for point in points}
    delayed = [point for point in points if point.rule != "alone"]
    pairs = [(point.cell, results[point[:3]]) for point in delayed]
    verdicts = {point[:3]: results[point[:3]].judge(family=len(delayed)) for point in delayed}
    blocks: list[Any] = [
        WORDS.text("claim"),
        WORDS.formula("bold formula"),
        WORDS.formula("qpmd formula"),
        _experiment(scale),
    ]
    for rule in RULES:
        blocks.append(_bounds(rule, [v for (_, own, _), v in verdicts.items() if own == rule]))
    adds = {key: (done[late], done[base]) for key, (late, base) in penalty_cells(scale).items()}
    blocks += [multiplies(results), penalty(adds), slopes(results), dearer(results)]
    for base in scale.spans:
        blocks += [regret_panel(results, base), price_panel(results, base)]
    blocks += [_compared(results), _table(delayed, results, verdicts)]
    frames = {"contrast-cells": cell_frame(pairs), "contrast-replications": replication_frame(pairs)}
    main = f"contrast-regret-{next(iter(scale.spans)).lower()}"
    return Section(PART.name, PART.title, blocks, frames, _short(results), [main])


def _experiment(scale: Scale) -> Any:
    return WORDS.text(
        "experiment",
        means=", ".join(map(str, MEANS)),
        gaps=GAPS.sum(),
        rounds=scale.rounds,
        longest=max(max(spans) for spans in scale.spans.values()) - 1,
        counts=", ".join(f"{count} over {base}" for base, count in scale.replications.items()),
    )


# Verdicts.


def _bounds(rule: str, verdicts: Sequence[Verdict]) -> Finding:
    covered = [v for v in verdicts if v.bound is not None]
    missing = len(verdicts) - len(covered)
    notes = [WORDS("no bound", missing=missing)] if missing else []
    if any(v.word == "vacuous" for v in covered):
        notes.append(WORDS("vacuous"))
    named = {"BOLD": "BOLD", "QPM-D": "QPM-D", "direct": "The base played directly"}[rule]
    return finding(WORDS("bounds", rule=named), covered, "; ".join(notes))


def multiplies(results: Table) -> Finding:
    """Whether BOLD's regret is (tau + 1) times that of its base after n / (tau + 1) rounds."""
    keys = [key for key in results if key[1] == "BOLD" and key[2] > 0]
    differences = [_gap(results[key], results[key[0], "alone", key[2]], key[2] + 1, len(keys)) for key in keys]
    word, agree = matching(differences, [0.0] * len(keys))
    off = max(abs(d.mean) / results[key].mean_regret for d, key in zip(differences, keys, strict=True))
    wide = max((d.high - d.mean) / results[key].mean_regret for d, key in zip(differences, keys, strict=True))
    detail = WORDS("multiplies detail", agree=sum(agree), count=len(agree), off=off, wide=wide, level=LEVEL)
    return identity(WORDS("multiplies"), word, detail)


def _gap(bold: Result, alone: Result, times: int, family: int) -> Interval:
    """BOLD less `times` its base, which met other rewards."""
    mean = bold.mean_regret - times * alone.mean_regret
    widths = [reach(each.regret[:, -1], LEVEL, family) for each in (bold, alone)]
    width = math.hypot(widths[0], times * widths[1])
    return Interval(mean, mean - width, mean + width)


def extra(results: Table, base: str, rule: str, delay: int) -> Any:
    """Regret above that without delay, in each replication."""
    return results[base, rule, delay].regret[:, -1] - results[base, rule, 0].regret[:, -1]


def penalty(adds: dict[tuple[str, int], tuple[Result, Result]]) -> Finding:
    """Whether QPM-D adds at most sum_i Delta_i G*_i to what its base pays without delay, as measured."""
    verdicts = {key: added(late, base, len(adds)) for key, (late, base) in adds.items()}
    return finding(WORDS("penalty"), verdicts.values(), undecided(verdicts) or WORDS("penalty note", stretch=STRETCH))


def slopes(results: Table) -> Finding:
    """Whether QPM-D and the base played directly pay at most sum_i Delta_i for a round of delay."""
    fits = {_label(rule, base): slope(results, base, rule) for base in _bases(results) for rule in ("QPM-D", "direct")}
    listed = "; ".join(f"{name} {fit}" for name, fit in fits.items())
    return Finding(
        WORDS("slopes", gaps=GAPS.sum()),
        worst(slope_word(fit) for fit in fits.values()),
        WORDS("slopes detail", listed=listed, level=_level(len(fits))),
    )


def slope(results: Table, base: str, rule: str) -> Fit | None:
    """The extra regret in the delay, as a line; intervals hold together for all that are judged."""
    delays = _delays(results, base)
    family = 2 * len(_bases(results))
    return line_fit(delays, [extra(results, base, rule, d) for d in delays], _level(family))


def slope_word(fit: Fit | None) -> str:
    return "unclear" if fit is None else fit.word(float(GAPS.sum()))


def differences(results: Table) -> dict[tuple[str, str, int], tuple[str, Ends]]:
    """On which side of 0 BOLD's regret less that of the others lies, paired; the intervals hold together."""
    keys = [key for key in results if key[1] in ("QPM-D", "direct") and key[2] > 0]
    found = {}
    for base, rule, delay in keys:
        bold, other = results[base, "BOLD", delay], results[base, rule, delay]
        most = bold.regret_range[1]
        found[base, rule, delay] = side(bold.regret[:, -1] - other.regret[:, -1], -most, most, family=len(keys))
    return found


def dearer(results: Table) -> Finding:
    """Whether BOLD's regret exceeds that of the others at all delays."""
    found = differences(results)
    words = [word.replace("above", "holds").replace("below", "fails") for word, _ in found.values()]
    least, most = _times(results)
    detail = WORDS("dearer detail", counted=counted(words), least=least, most=most, level=LEVEL)
    return Finding(WORDS("dearer"), worst(words), detail)


def _times(results: Table) -> tuple[float, float]:
    """How many times the regret of another BOLD's is, at least and at most."""
    times = [
        results[base, "BOLD", delay].mean_regret / results[base, rule, delay].mean_regret
        for base, rule, delay in differences(results)
    ]
    return min(times), max(times)


def _short(results: Table) -> Finding:
    least, most = _times(results)
    longest = max(delay for _, _, delay in results)
    return Finding(WORDS("short", longest=longest, least=least, most=most), dearer(results).word)


def _level(family: int) -> float:
    return 1 - (1 - LEVEL) / family


def _bases(results: Table) -> list[str]:
    return list(dict.fromkeys(base for base, _, _ in results))


def _delays(results: Table, base: str) -> list[int]:
    return [delay for own, rule, delay in results if (own, rule) == (base, "BOLD")]


# Figures and tables.


def regret_panel(results: Table, base: str) -> Drawing:
    """Regret against the delay, with what multiplying and adding would give."""
    delays = _delays(results, base)
    figure, axes = figures.panel(f"regret over {base}", "delay", "regret at the horizon", xscale="symlog", yscale="log")
    for number_, rule in enumerate(RULES):
        samples = [results[base, rule, delay].regret[:, -1] for delay in delays]
        figures.means(axes, delays, samples, number_, _label(rule, base))
    multiplied = [(d + 1) * results[base, "alone", d].mean_regret for d in delays]
    figures.line(axes, delays, multiplied, 6, "(τ + 1) times base after n / (τ + 1)", zorder=3)
    start = results[base, "QPM-D", 0].mean_regret
    added = [start + float((results[base, "QPM-D", d].peaks @ GAPS).mean()) for d in delays]
    figures.line(axes, delays, added, 6, "base without delay + Σ Δᵢ G*ᵢ", linestyle=":", zorder=3)
    _ticks(axes, delays)
    figures.legend(axes)
    caption = WORDS("regret caption", rounds=results[base, "BOLD", 0].rounds, base=base)
    return Drawing(f"contrast-regret-{base.lower()}", figure, caption)


def price_panel(results: Table, base: str) -> Drawing:
    """The extra regret for a round of delay."""
    delays = [d for d in _delays(results, base) if d > 0]
    figure, axes = figures.panel(
        f"the price of a round of delay over {base}", "delay", "extra regret / delay", xscale="log"
    )
    for number_, rule in enumerate(RULES):
        samples = [extra(results, base, rule, d) / d for d in delays]
        figures.means(axes, delays, samples, number_, _label(rule, base))
    figures.line(axes, delays, [GAPS.sum()] * len(delays), 6, "Σ Δᵢ")
    axes.set_yscale("symlog", linthresh=1.0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
    figures.legend(axes, ncols=4, columnspacing=1.0, loc="upper center", bbox_to_anchor=(0.45, -0.17))
    return Drawing(f"contrast-price-{base.lower()}", figure, WORDS("price caption"))


def _label(rule: str, base: str) -> str:
    return f"Delayed-{base}" if rule == "direct" else f"{rule}({base})"


def _ticks(axes: Any, delays: Sequence[int]) -> None:
    axes.set_xlim(left=-0.1)
    axes.set_xticks([0, *(10**i for i in range(4) if 10**i <= max(delays))])
    low, high = axes.get_ylim()
    axes.set_yticks([y for y in (d * 10**i for i in range(5) for d in (1, 2, 5)) if low <= y <= high])
    axes.set_yticks([], minor=True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")


def _compared(results: Table) -> Rows:
    rows = []
    for (base, rule, delay), (_, d) in differences(results).items():
        bold, other = results[base, "BOLD", delay].mean_regret, results[base, rule, delay].mean_regret
        rows.append([_label(rule, base), delay, bold, other, bold / other, d.low, d.high])
    header = ("against", "delay", "BOLD", "other", "ratio", "difference, low", "high")
    return Rows(header, rows, WORDS("compared caption"), folded=True)


def _table(points: Sequence[Point], results: Table, verdicts: dict[tuple[str, str, int], Verdict]) -> Rows:
    rows = []
    for point in points:
        key, v = point[:3], verdicts[point[:3]]
        allowed = float((results[key].peaks @ GAPS).mean())
        added = float(extra(results, *key).mean())
        rows.append(
            [_label(point.rule, point.base), point.delay, v.measured, v.low, v.high, added, allowed, v.bound, v]
        )
    header = ("forecaster", "delay", "regret", "low", "high", "extra", "Σ Δᵢ G*ᵢ", "bound", "verdict")
    return Rows(header, rows, WORDS("cells caption", count=len(rows)), folded=True)


PART = Part("contrast", "Multiplicative against additive", cells, section)
