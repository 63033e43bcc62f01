"""BOLD against adversaries (Theorem 1 and its corollary): the delay multiplies the regret.

Two adversaries wander, and one, the block adversary, is as hard as any can be under constant delay: there the expected
regret of every forecaster is known exactly, and stands beside the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.protocols import Learner
from belated.report import figures
from belated.report.page import Drawing, Finding, Rows, Section, finding, identity, worst
from belated.report.prose import Prose
from belated.report.stats import Fit, Interval, matching, mean_interval, number, power_fit
from belated.studies.cells import Cell
from belated.studies.paper import adversaries
from belated.studies.paper.adversaries import FULL, GAMES, LAWS, SHORT, Played, Scale, grid, judged
from belated.studies.paper.part import Part, ratios
from belated.studies.results import cell_frame, curve_frame, replication_frame
from belated.studies.run import Done
from belated.theory import bounds
from belated.theory.verdicts import LEVEL, judge

WORDS = Prose(__name__)
#: An exponent known less well than this says nothing.
WIDEST = 0.2


def cells(full: bool) -> list[Cell]:
    return [point.cell for point in grid(FULL if full else SHORT)]


def section(done: Done, full: bool) -> Section:
    return describe(done, FULL if full else SHORT)


def describe(done: Done, scale: Scale) -> Section:
    """The section of a grid of any scale."""
    played = judged(done, scale)
    block = [p for p in played if p.point.game == "block"]
    pairs = [(p.point.cell, p.result) for p in played]
    blocks = [
        WORDS.text("claim"),
        WORDS.formula("theorem formula"),
        WORDS.text("corollary claim"),
        WORDS.formula("corollary formula"),
        _experiment(scale),
        *(_theorem(game, [p for p in played if p.point.game == game]) for game in GAMES),
        _corollary(played),
        exactness(block),
        growth(block),
        _tightness(block),
        _tails(played),
        *_wandering(played),
        ratio_panel(played),
        block_panel(block),
        exact_panel(block),
        *_exponents(played),
        _table(played),
    ]
    frames = {
        "bold-cells": cell_frame(pairs),
        "bold-curves": curve_frame(pairs),
        "bold-replications": replication_frame(pairs),
    }
    return Section(PART.name, PART.title, blocks, frames, _short(played), ["bold-block"])


def _experiment(scale: Scale) -> Any:
    return WORDS.text(
        "experiment",
        scale=scale,
        actions=adversaries.ACTIONS,
        means=", ".join(map(str, scale.means)),
        step=adversaries.STEP,
        good=adversaries.GOOD,
        bad=adversaries.BAD,
        every=1 / adversaries.SWITCH,
        replications=", ".join(f"{count} ({name})" for name, count in scale.replications.items()),
    )


# Verdicts.


def _short(played: Sequence[Played]) -> Finding:
    verdicts = [p.verdict for p in played]
    least, most = ratios(verdicts)
    return finding(WORDS("short", least=least, most=most, games=len(GAMES)), verdicts)


def _theorem(game: str, played: Sequence[Played]) -> Finding:
    own = {name: [p.verdict.ratio or 0.0 for p in played if p.point.learner == name] for name in adversaries.learners()}
    listed = ", ".join(f"{name} {number(min(r))} to {number(max(r))}" for name, r in own.items() if r)
    return finding(WORDS("theorem", game=game), [p.verdict for p in played], f"by base: {listed}")


def corollary_bound(played: Played) -> float:
    """(B + 2) f(n / (B + 2)): the bound that knows only the mean of the delays."""
    learner, mean = played.point.cell.forecaster.learner, played.point.cell.delays.mean
    assert isinstance(learner, Learner) and mean is not None
    return bounds.bold_iid(lambda n: learner.bound(n) or 0.0, played.result.rounds, mean)


def _corollary(played: Sequence[Played]) -> Finding:
    verdicts = [judge(p.samples, corollary_bound(p), *p.result.regret_range, family=len(played)) for p in played]
    return finding(WORDS("corollary"), verdicts)


def exactness(block: Sequence[Played]) -> Finding:
    """Whether measured regret is the exact expectation: in every cell, and in all of them together."""
    family = len(block) + 1
    together = pooled(block, family)
    intervals = [mean_interval(p.samples, family=family) for p in block]
    word, (_, *agree) = matching([together, *intervals], [1.0, *(p.exact for p in block)])
    detail = WORDS("exactness detail", agree=sum(agree), count=len(agree), together=together, level=LEVEL)
    return identity(WORDS("exactness"), word, detail)


def pooled(block: Sequence[Played], family: int) -> Interval:
    """Measured / exact, the mean over cells of each replication: bases share coins, replications do not."""
    return mean_interval(np.mean([p.samples / p.exact for p in block], axis=0), family=family)


def growth(block: Sequence[Played]) -> Finding:
    """Whether regret on the block adversary grows like (G* + 1)^(1/2), for all bases together."""
    own = {name: [p for p in block if p.point.learner == name] for name in adversaries.learners()}
    level = 1 - (1 - LEVEL) / len(own)
    fits = {name: _fit(group, level) for name, group in own.items()}
    listed = "; ".join(f"{name} {fit}" for name, fit in fits.items())
    law = power_fit([p.instances for p in block], [[p.exact] for p in block])
    shown = "-" if law is None else format(law.slope, ".4f")
    detail = WORDS("growth detail", listed=listed, law=shown, level=LEVEL)
    return identity(WORDS("growth"), worst(growth_word(fit) for fit in fits.values()), detail)


def growth_word(fit: Fit | None) -> str:
    """Whether the interval contains 1/2; unclear where it is wide."""
    if fit is None or (fit.contains(0.5) and fit.high - fit.low > WIDEST):
        return "unclear"
    return matching([fit], [0.5])[0]


def _fit(group: Sequence[Played], level: float = LEVEL) -> Fit | None:
    return power_fit([p.instances for p in group], [p.samples for p in group], level)


def _tightness(block: Sequence[Played]) -> Finding:
    """How many times the exact lower bound the bound is, at the longest blocks."""
    last = {p.point.learner: (p.verdict.bound or 0.0) / p.exact for p in block}
    listed = ", ".join(f"{number(times)} for {name}" for name, times in last.items())
    return Finding(WORDS("tightness", listed=listed), "shown", WORDS("tightness detail"))


def _tails(played: Sequence[Played]) -> Finding:
    """Pareto against constant delays of the same mean, on the same outcomes."""
    known = {
        (p.point.learner, p.point.game, p.point.cell.delays.mean, p.point.law): p
        for p in played
        if p.point.game != "block"
    }
    both = [(p, known[*key[:3], "constant"]) for key, p in known.items() if key[3] == "Pareto"]
    extra = [mean_interval(p.samples - other.samples, family=len(both)) for p, other in both]
    less, more = sum(i.high < 0 for i in extra), sum(i.low > 0 for i in extra)
    peaks = [p.instances / other.instances for p, other in both]
    none = len(extra) - less - more
    return Finding(
        WORDS("tails", less=less, more=more, count=len(extra)),
        "shown",
        WORDS("tails detail", least=min(peaks), most=max(peaks), none=none, level=LEVEL),
    )


# Figures and tables.


def _wandering(played: Sequence[Played]) -> list[Drawing]:
    drawings = []
    for game in GAMES[:2]:
        for learner in adversaries.learners():
            own = [p for p in played if (p.point.game, p.point.learner) == (game, learner)]
            drawings.append(delay_panel(game, learner, own))
    return drawings


def delay_panel(game: str, learner: str, own: Sequence[Played]) -> Drawing:
    """Regret against G* + 1 under all laws, with the bound, which depends on G* only."""
    figure, axes = figures.panel(
        f"BOLD({learner}), {game}", "mean of G* + 1", "regret at the horizon", xscale="log", yscale="log"
    )
    for number_, law in enumerate(LAWS):
        line = sorted((p for p in own if p.point.law == law), key=lambda p: p.instances)
        line = [p for p in line if p.samples.mean() > 0]
        figures.means(axes, [p.instances for p in line], [p.samples for p in line], number_, law)
    _bound_line(axes, own, 6, "bound of Theorem 1")
    shown = [float(p.samples.mean()) for p in own if p.samples.mean() > 0]
    axes.set_ylim(bottom=0.4 * min(shown, default=1.0))
    figures.legend(axes)
    hidden = len(own) - len(shown)
    left_out = " " + WORDS("hidden", hidden=hidden, count=len(own)) if hidden else ""
    name = f"bold-{game.replace(' ', '-')}-{learner.lower()}"
    caption = WORDS("delay caption", learner=learner, game=game, rounds=own[0].result.rounds, hidden=left_out)
    return Drawing(name, figure, caption)


def _bound_line(axes: Any, own: Sequence[Played], number_: int, label: str | None = None) -> None:
    result = own[0].result
    learner = own[0].point.cell.forecaster.learner
    assert isinstance(learner, Learner)
    at = np.geomspace(1.0, max(p.instances for p in own), 40)
    f = learner.bound
    figures.line(axes, at, [bounds.bold(lambda n: f(n) or 0.0, result.rounds, x - 1.0) for x in at], number_, label)


def ratio_panel(played: Sequence[Played]) -> Drawing:
    """Measured over bound in all cells."""
    figure, axes = figures.panel("all cells", "mean of G* + 1", "measured / bound", xscale="log")
    for number_, game in enumerate(GAMES):
        for learner, marker in zip(adversaries.learners(), figures.MARKERS, strict=False):
            own = [p for p in played if (p.point.game, p.point.learner) == (game, learner)]
            axes.plot(
                [p.instances for p in own],
                [p.verdict.ratio or 0.0 for p in own],
                linestyle="",
                marker=marker,
                alpha=0.7,
                color=figures.COLORS[number_],
                label=f"{learner}, {game}",
            )
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--")
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.05)
    figures.legend(axes, ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.17))
    return Drawing("bold-ratio", figure, WORDS("ratio caption"))


def block_panel(block: Sequence[Played]) -> Drawing:
    """Measured, exact lower bound and upper bounds on the block adversary."""
    figure, axes = figures.panel(
        "block adversary", "G* + 1 = length of a block", "regret at the horizon", xscale="log", yscale="log"
    )
    for number_, learner in enumerate(adversaries.learners()):
        own = [p for p in block if p.point.learner == learner]
        figures.means(axes, [p.instances for p in own], [p.samples for p in own], number_, learner, linestyle="")
        _bound_line(axes, own, number_)
    own = [p for p in block if p.point.learner == block[0].point.learner]
    figures.line(axes, [p.instances for p in own], [p.exact for p in own], 6, "exact expectation", linestyle="-")
    figures.legend(axes)
    return Drawing("bold-block", figure, WORDS("block caption", rounds=block[0].result.rounds))


def exact_panel(block: Sequence[Played]) -> Drawing:
    """Measured over exact on the block adversary, with the intervals of the verdict."""
    figure, axes = figures.panel(
        "block adversary", "G* + 1 = length of a block", "measured / exact expectation", xscale="log"
    )
    for number_, learner in enumerate(adversaries.learners()):
        own = [p for p in block if p.point.learner == learner]
        intervals = [mean_interval(p.samples / p.exact, family=len(block) + 1) for p in own]
        axes.errorbar(
            [p.instances * 1.06 ** (number_ - 1) for p in own],
            [i.mean for i in intervals],
            [[i.mean - i.low for i in intervals], [i.high - i.mean for i in intervals]],
            linestyle="",
            marker=figures.MARKERS[number_],
            color=figures.COLORS[number_],
            capsize=2,
            label=learner,
        )
    axes.axhline(1.0, color="black", linewidth=1.0)
    figures.legend(axes)
    return Drawing("bold-exact", figure, WORDS("exact caption", level=LEVEL))


def _exponents(played: Sequence[Played]) -> list[Any]:
    groups: dict[tuple[str, str, str], list[Played]] = {}
    for p in sorted(played, key=lambda p: GAMES.index(p.point.game)):
        groups.setdefault((p.point.learner, p.point.game, p.point.law), []).append(p)
    rows = []
    for key, group in groups.items():
        fit = _fit(group)
        left_out = sum(float(p.samples.mean()) <= 0 for p in group)
        rows.append([*key, "-" if fit is None else str(fit), len(group) - left_out, left_out])
    header = ("base", "adversary", "delays", "exponent (99% interval, bootstrap)", "points", "left out")
    return [WORDS.text("exponents"), Rows(header, rows, WORDS("exponents caption"))]


def _table(played: Sequence[Played]) -> Rows:
    rows = []
    for p in played:
        v = p.verdict
        exact = p.exact if p.point.game == "block" else None
        place = [p.point.learner, p.point.game, p.point.law, p.point.cell.delays.mean, p.instances]
        rows.append([*place, v.measured, v.low, v.high, exact, v.bound, corollary_bound(p), v.ratio, v])
    header = (
        *("base", "adversary", "delays", "mean delay", "G* + 1", "regret", "low", "high", "exact"),
        *("Theorem 1", "corollary", "measured / bound", "verdict"),
    )
    return Rows(header, rows, f"All {len(rows)} cells, with intervals that hold together", folded=True)


PART = Part("bold", "BOLD against adversaries: the delay multiplies", cells, section)
