"""QPM-D, Delayed-UCB1 and Delayed-KL-UCB on i.i.d. rewards: delay costs an additive penalty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np

from belated.delays import Constant, Geometric, Law, Pareto, PerAction
from belated.engine.result import Result
from belated.forecasters import QPMD, Direct, Forecaster
from belated.games import Bernoulli
from belated.learners import KLUCB, UCB1
from belated.protocols import Learner
from belated.report import figures
from belated.report.page import ORDER, Block, Drawing, Finding, Formula, Rows, Section, Text, finding
from belated.report.stats import Fit, line_fit, number
from belated.studies.cells import Cell, Play
from belated.studies.paper import reordering
from belated.studies.paper.part import Part, added, extra, penalty
from belated.studies.paper.reordering import MEANS
from belated.studies.results import Pairs, cell_frame, replication_frame
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL, Verdict

SEED = 2013
GAPS = max(MEANS) - np.array(MEANS)

#: By forecaster, law and mean delay.
Verdicts = dict[tuple[str, str, int], Verdict]


@dataclass(frozen=True)
class Grid:
    """What is played. Cells of one length share their outcomes, and the one without delay is their base."""

    learners: Mapping[str, Learner] = field(default_factory=lambda: {"UCB1": UCB1(5), "KL-UCB": KLUCB(5)})
    delays: tuple[int, ...] = (30, 100, 300, 1000)
    rounds: int = 10_000
    replications: int = 300
    long_delay: int = 300
    long_rounds: int = 200_000
    long_replications: int = 30
    reordering: reordering.Grid = field(default_factory=reordering.Grid)


def grid(full: bool) -> Grid:
    short = Grid()
    if not full:
        return short
    return replace(
        short,
        replications=10 * short.replications,
        long_replications=10 * short.long_replications,
        reordering=replace(short.reordering, parts=10 * short.reordering.parts),
    )


def laws(mean: int) -> dict[str, Law]:
    return {"constant": Constant(mean), "geometric": Geometric(mean=mean), "Pareto": Pareto(mean=mean)}


def per_action() -> dict[str, Law]:
    """Delays that depend on the action: these theorems allow them, BOLD's does not."""
    soon, late = Geometric(mean=10), Geometric(mean=1000)
    return {"best late": PerAction([soon] * 4 + [late]), "worst late": PerAction([late] + [soon] * 4)}


def queued(grid: Grid) -> dict[str, str]:
    """The forecasters of theorem 6, and their learners."""
    return {f"QPM-D({name})": name for name in grid.learners}


def direct(grid: Grid) -> dict[str, str]:
    """The white-box forecasters, and their learners."""
    return {f"Delayed-{name}": name for name in grid.learners}


def forecaster(grid: Grid, name: str) -> Forecaster:
    if name in queued(grid):
        return QPMD(grid.learners[queued(grid)[name]])
    return Direct(grid.learners[direct(grid)[name]])


def _cell(player: Forecaster, law: Law, rounds: int, replications: int) -> Play:
    return Play(player, Bernoulli(MEANS), law, rounds, replications, SEED)


def base_cells(grid: Grid) -> dict[str, Play]:
    """The learners without delay."""
    return {
        name: _cell(Direct(learner), Constant(0), grid.rounds, grid.replications)
        for name, learner in grid.learners.items()
    }


def delay_cells(grid: Grid) -> dict[tuple[str, str, int], Play]:
    """By forecaster, law and mean delay."""
    return {
        (name, law, mean): _cell(forecaster(grid, name), spec, grid.rounds, grid.replications)
        for name in [*queued(grid), *direct(grid)]
        for mean in grid.delays
        for law, spec in laws(mean).items()
    }


def action_cells(grid: Grid) -> dict[tuple[str, str, int], Play]:
    """By forecaster and law; the delay 0 stands for none in common."""
    return {
        (name, law, 0): _cell(forecaster(grid, name), spec, grid.rounds, grid.replications)
        for name in [*queued(grid), *direct(grid)]
        for law, spec in per_action().items()
    }


def long_cells(grid: Grid) -> dict[str, tuple[Play, Play]]:
    """For each forecaster a long play under delay, and that of its learner without."""
    law, size = Geometric(mean=grid.long_delay), (grid.long_rounds, grid.long_replications)
    return {
        name: (_cell(forecaster(grid, name), law, *size), _cell(Direct(grid.learners[base]), Constant(0), *size))
        for name, base in {**queued(grid), **direct(grid)}.items()
    }


def cells_of(grid: Grid) -> list[Cell]:
    plays = [*base_cells(grid).values(), *delay_cells(grid).values(), *action_cells(grid).values()]
    feedback = [cell for parts in reordering.cells_of(grid.reordering).values() for cell in parts]
    return [*plays, *(cell for pair in long_cells(grid).values() for cell in pair), *feedback]


def section_of(done: Done, grid: Grid) -> Section:
    cells = {**delay_cells(grid), **action_cells(grid)}
    bases = {name: done[cell] for name, cell in base_cells(grid).items()}
    mine = {key: cell for key, cell in cells.items() if key[0] in queued(grid)}
    exact = {key: added(done[cell], bases[queued(grid)[key[0]]], len(mine)) for key, cell in mine.items()}
    others = {key: cell for key, cell in cells.items() if key[0] in direct(grid)}
    white = {key: done[cell].judge(family=len(others)) for key, cell in others.items()}
    lemma, frames = reordering.blocks(done, grid.reordering)
    blocks = [
        *_opening(grid),
        *_additive_blocks(done, grid, exact),
        *_white_blocks(done, grid, exact, white),
        *_slope_blocks(done, grid),
        *lemma,
        *_counting_blocks([done[cell] for cell in mine.values()]),
    ]
    pairs: Pairs = [(cell, done[cell]) for cell in [*base_cells(grid).values(), *cells.values()]]
    frames |= {"stochastic-cells": cell_frame(pairs), "stochastic-replications": replication_frame(pairs)}
    return Section(PART.name, PART.title, blocks, frames)


def _opening(grid: Grid) -> list[Block]:
    return [
        Text(
            "Claim: where outcomes are i.i.d., delay costs an additive penalty, not a factor. QPM-D turns any learner "
            "into one for delayed feedback (theorem 6); UCB1 and KL-UCB can be played on what has been observed "
            "(section 4 and the appendix)."
        ),
        Formula(
            "E R<sub>n</sub> ≤ E R<sub>n</sub><sup>base</sup> + Σ<sub>i</sub> Δ<sub>i</sub> E G*<sub>i,n</sub> "
            "&nbsp; (QPM-D)"
        ),
        Formula(
            "E R<sub>n</sub> ≤ Σ<sub>Δ<sub>i</sub> &gt; 0</sub> [8 ln n / Δ<sub>i</sub> + 3.5 Δ<sub>i</sub>] + "
            "Σ<sub>i</sub> Δ<sub>i</sub> E G*<sub>i,n</sub> &nbsp; (Delayed-UCB1)"
        ),
        Text(
            f"Experiment: five coins with chances {', '.join(map(str, MEANS))} for {grid.rounds:,} rounds, "
            f"{grid.replications:,} replications, constant, geometric and Pareto delays (infinite variance) with means "
            f"up to {max(grid.delays):,}, and delays that depend on the action. The penalty is tested in its sharpest "
            "form: with the measured regret of the same learner without delay in place of a bound on it. G* is "
            f"measured too. Delays start at {min(grid.delays)}: with so many replications the penalty of shorter ones "
            "is lost in noise. For Delayed-KL-UCB the bound is the explicit one with the slips of the appendix mended."
        ),
    ]


def _additive_blocks(done: Done, grid: Grid, exact: Verdicts) -> list[Block]:
    common = [v for key, v in exact.items() if key[2]]
    special = {key: v for key, v in exact.items() if not key[2]}
    costs = "; ".join(f"{name}, {law}: extra {number(v.measured)}" for (name, law, _), v in special.items())
    return [
        finding(
            "QPM-D: the extra regret over the learner without delay is at most Σ Δ<sub>i</sub> E G*<sub>i</sub>.",
            common,
        ),
        finding(
            "QPM-D: the same where delays depend on the action.",
            special.values(),
            f"{costs}; waiting for the best action is free, its gap is 0",
        ),
        *(
            Drawing(
                f"stochastic-extra-{number_of}",
                _extra_panel(done, grid, name),
                f"Extra regret of QPM-D over {name} (solid) and the penalty that the theorem allows (dashed).",
            )
            for number_of, name in enumerate(grid.learners, start=1)
        ),
        Drawing(
            "stochastic-long",
            _long_panel(done, grid),
            f"Extra regret along the way (geometric delays, mean {grid.long_delay}) and the penalty at the horizon "
            "(dashed): an additive penalty does not grow with the rounds.",
        ),
    ]


def _extra_panel(done: Done, grid: Grid, learner: str) -> Any:
    cells, base = delay_cells(grid), done[base_cells(grid)[learner]]
    player = f"QPM-D({learner})"
    figure, axes = figures.panel(player, "mean delay", "extra regret", xscale="log")
    axes.set_yscale("symlog", linthresh=10)
    for at, law in enumerate(laws(1)):
        own = [done[cells[player, law, mean]] for mean in grid.delays]
        figures.means(axes, grid.delays, [extra(result, base) for result in own], at, law)
        figures.line(axes, grid.delays, [penalty(result).mean() for result in own], at)
    figures.legend(axes)
    return figure


def _long_panel(done: Done, grid: Grid) -> Any:
    title = f"{grid.long_rounds:,} rounds, mean delay {grid.long_delay}"
    figure, axes = figures.panel(title, "round", "extra regret", xscale="log")
    for at, (name, (cell, base)) in enumerate(long_cells(grid).items()):
        result = done[cell]
        figures.band(axes, result.checkpoints, result.regret - done[base].regret, at, name)
        figures.line(axes, result.checkpoints[[0, -1]], [penalty(result).mean()] * 2, at)
    axes.set_ylim(top=1.5 * max(penalty(done[cell]).mean() for cell, _ in long_cells(grid).values()))
    figures.legend(axes, loc="upper left", ncols=2)
    return figure


def _white_blocks(done: Done, grid: Grid, exact: Verdicts, white: Verdicts) -> list[Block]:
    cells = {**delay_cells(grid), **action_cells(grid)}
    reasons = {key: done[cells[key]].bound_reason for key in white}
    listed = "".join(
        f"<li>{escape(name)}, {escape(law)}: {escape(reason)}</li>"
        for (name, law, _), reason in reasons.items()
        if reason
    )
    made: list[Block] = [
        finding(
            f"{name}: mean regret is at most the theorem's bound.",
            [v for key, v in white.items() if key[0] == name and v.bound is not None],
        )
        for name in direct(grid)
    ]
    if listed:
        made.append(Text(f"<p>No bound where:</p><ul>{listed}</ul>"))
    return [*made, _table(done, grid, {**exact, **white})]


def _table(done: Done, grid: Grid, verdicts: Verdicts) -> Rows:
    """All cells: what the delay added, beside the penalty; and for the white-box forecasters the whole bound."""
    header = ("forecaster", "delays", "E τ", "regret", "extra", "penalty", "extra / penalty", "bound", "verdict")
    bases = {name: done[cell] for name, cell in base_cells(grid).items()}
    learner = {**queued(grid), **direct(grid)}
    rows: list[list[Any]] = [
        [name, "none", 0, result.mean_regret, None, None, None, result.bound, result.judge()]
        for name, result in bases.items()
    ]
    for key, cell in {**delay_cells(grid), **action_cells(grid)}.items():
        result = done[cell]
        base = bases[learner[key[0]]]
        cost, allowed = float(extra(result, base).mean()), float(penalty(result).mean())
        bound = base.mean_regret + allowed if key[0] in queued(grid) else result.bound
        share = cost / allowed if allowed else None
        rows.append([*key[:2], key[2] or None, result.mean_regret, cost, allowed, share, bound, verdicts[key]])
    caption = (
        "All cells. The bound of QPM-D is the measured regret without delay plus the penalty; those of the others are "
        "the theorems'. Extra regret beside the penalty is no claim of the paper for the latter, but worth a look."
    )
    return Rows(header, rows, caption, folded=True)


def _slope_blocks(done: Done, grid: Grid) -> list[Block]:
    fits = {(name, law): _slope(done, grid, name, law) for name in [*queued(grid), *direct(grid)] for law in laws(1)}
    total = float(GAPS.sum())
    rows = [[name, law, fit.slope, fit.low, fit.high, total] for (name, law), fit in fits.items()]
    steep = max(fits, key=lambda key: fits[key].slope)
    flat = min(fits, key=lambda key: fits[key].slope)
    return [
        _price(done, grid),
        Finding(
            "Regret grows by less than Σ Δ<sub>i</sub> for each round of mean delay (slope of a fitted line).",
            min((fit.word(total) for fit in fits.values()), key=ORDER.index),
            f"fitted slopes from {fits[flat]} ({' '.join(flat)}) to {fits[steep]} ({' '.join(steep)}), "
            f"beside Σ Δ<sub>i</sub> = {number(total)}; approximate confidence {LEVEL:.0%} for the "
            f"{len(fits)} together (bootstrap)",
        ),
        *(
            Drawing(
                f"stochastic-regret-{number_of}",
                _regret_panel(done, grid, name),
                f"Regret at the horizon, {name}: QPM-D (solid) and played on what was observed (dotted).",
            )
            for number_of, name in enumerate(grid.learners, start=1)
        ),
        Rows(
            ("forecaster", "delays", "slope", "low", "high", "Σ Δ"),
            rows,
            f"Slope of the regret in the mean delay, 0 to {max(grid.delays):,}, with intervals that hold together",
        ),
    ]


def _price(done: Done, grid: Grid) -> Text:
    """What the longest delays cost each forecaster."""
    cells, longest = delay_cells(grid), max(grid.delays)
    items = []
    for player, learner in {**queued(grid), **direct(grid)}.items():
        base = done[base_cells(grid)[learner]]
        costs = [f"{number(extra(done[cells[player, law, longest]], base).mean())} ({law})" for law in laws(1)]
        items.append(f"<li>{escape(player)}: {', '.join(costs)}</li>")
    return Text(
        "<h3>The price of a round of delay</h3><p>With constant delays QPM-D holds a new action until its first "
        "feedback comes: all of that is lost once the delay is longer than the learner would have played the action "
        "anyway. On what was observed, the same learner goes round the actions meanwhile. Of random delays with the "
        "same mean some are short, so the first feedback of an action comes early, and few feedbacks of bad actions "
        f"are ever outstanding. Extra regret at mean delay {longest:,}:</p><ul>{''.join(items)}</ul>"
    )


def _slope(done: Done, grid: Grid, name: str, law: str) -> Fit:
    base = base_cells(grid)[{**queued(grid), **direct(grid)}[name]]
    cells = [base, *(delay_cells(grid)[name, law, mean] for mean in grid.delays)]
    family = len(laws(1)) * 2 * len(grid.learners)
    fit = line_fit([0, *grid.delays], [done[cell].regret[:, -1] for cell in cells], 1 - (1 - LEVEL) / family)
    assert fit is not None
    return fit


def _regret_panel(done: Done, grid: Grid, learner: str) -> Any:
    cells, base = delay_cells(grid), done[base_cells(grid)[learner]]
    figure, axes = figures.panel(f"regret at the horizon, {learner}", "mean delay", "regret", yscale="log")
    axes.axhline(base.mean_regret, color="black", linewidth=0.8, linestyle="--", label="no delay")
    for at, law in enumerate(laws(1)):
        for player, style in ((f"QPM-D({learner})", "-"), (f"Delayed-{learner}", ":")):
            own = [done[cells[player, law, mean]].regret[:, -1] for mean in grid.delays]
            label = f"{player}, {law}"
            figures.means(axes, [0, *grid.delays], [base.regret[:, -1], *own], at, label, linestyle=style)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlim(left=-1)
    figures.legend(axes, loc="upper left")
    return figure


def _counting_blocks(results: list[Result]) -> list[Block]:
    """The lemma on outstanding feedback: certified in every replication, counted here once more."""
    held = [result.pulls - result.base_pulls for result in results]
    fine = all(
        ((ahead >= 0) & (ahead <= result.peaks)).all() and (result.steps <= result.rounds).all()
        for ahead, result in zip(held, results, strict=True)
    )
    used = sum(float(ahead.sum()) for ahead in held) / sum(float(result.peaks.sum()) for result in results)
    asked = np.mean([float(result.steps.mean()) / result.rounds for result in results])
    return [
        Text(
            "<h3>The lemma on outstanding feedback</h3><p>The step from the base to QPM-D: in n rounds the base makes "
            "n' ≤ n steps, and QPM-D plays an action at most G*<sub>i</sub> times more often than the base asked for "
            "it. This is true of every run, not of the mean.</p>"
        ),
        Finding(
            "n' ≤ n and 0 ≤ T<sub>i</sub>(n) - T'<sub>i</sub>(n') ≤ G*<sub>i,n</sub> in every replication.",
            "holds" if fine else "fails",
            f"{sum(result.replications for result in results):,} replications; T - T' is {used:.0%} of G*, n' is "
            f"{asked:.1%} of n on average",
        ),
    ]


PART = Part(
    "stochastic",
    "QPM-D, Delayed-UCB1 and Delayed-KL-UCB: an additive penalty",
    lambda full: cells_of(grid(full)),
    lambda done, full: section_of(done, grid(full)),
)
