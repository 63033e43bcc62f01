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
from belated.report.page import Block, Drawing, Finding, Rows, Section, finding, identity, worst
from belated.report.prose import Prose
from belated.report.stats import Fit, line_fit, number
from belated.studies.cells import Cell, Play
from belated.studies.paper import reordering
from belated.studies.paper.part import Part, added, extra, penalty, ratios
from belated.studies.paper.reordering import MEANS
from belated.studies.results import Pairs, cell_frame, replication_frame
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL, Verdict

WORDS = Prose(__name__)
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
    least, most = ratios(exact.values())
    short = finding(WORDS("short", least=least, most=most), exact.values())
    return Section(PART.name, PART.title, blocks, frames, short, ["stochastic-extra-1"])


def _opening(grid: Grid) -> list[Block]:
    sizes = {"means": ", ".join(map(str, MEANS)), "longest": max(grid.delays), "shortest": min(grid.delays)}
    formulas = (WORDS.formula("qpmd formula"), WORDS.formula("ucb formula"))
    return [WORDS.text("claim"), *formulas, WORDS.text("experiment", grid=grid, **sizes)]


def _additive_blocks(done: Done, grid: Grid, exact: Verdicts) -> list[Block]:
    common = [v for key, v in exact.items() if key[2]]
    special = {key: v for key, v in exact.items() if not key[2]}
    costs = "; ".join(f"{name}, {law}: extra {number(v.measured)}" for (name, law, _), v in special.items())
    return [
        finding(WORDS("additive"), common),
        finding(WORDS("by action"), special.values(), WORDS("by action detail", costs=costs)),
        *(
            Drawing(f"stochastic-extra-{at}", _extra_panel(done, grid, name), WORDS("extra caption", name=name))
            for at, name in enumerate(grid.learners, start=1)
        ),
        Drawing("stochastic-long", _long_panel(done, grid), WORDS("long caption", delay=grid.long_delay)),
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
            WORDS("white", name=name),
            [v for key, v in white.items() if key[0] == name and v.bound is not None],
        )
        for name in direct(grid)
    ]
    if listed:
        made.append(WORDS.text("no bound", listed=listed))
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
    return Rows(header, rows, WORDS("cells caption"), folded=True)


def _slope_blocks(done: Done, grid: Grid) -> list[Block]:
    fits = {(name, law): _slope(done, grid, name, law) for name in [*queued(grid), *direct(grid)] for law in laws(1)}
    total = float(GAPS.sum())
    rows = [[name, law, fit.slope, fit.low, fit.high, total] for (name, law), fit in fits.items()]
    ends = [choose(fits, key=lambda key: fits[key].slope) for choose in (min, max)]
    flat, steep = (f"{fits[key]} ({' '.join(key)})" for key in ends)
    return [
        _price(done, grid),
        Finding(
            WORDS("slopes"),
            worst(fit.word(total) for fit in fits.values()),
            WORDS("slopes detail", flat=flat, steep=steep, total=total, level=LEVEL, count=len(fits)),
        ),
        *(
            Drawing(f"stochastic-regret-{at}", _regret_panel(done, grid, name), WORDS("regret caption", name=name))
            for at, name in enumerate(grid.learners, start=1)
        ),
        Rows(
            ("forecaster", "delays", "slope", "low", "high", "Σ Δ"),
            rows,
            WORDS("slopes caption", longest=max(grid.delays)),
        ),
    ]


def _price(done: Done, grid: Grid) -> Block:
    """What the longest delays cost each forecaster."""
    cells, longest = delay_cells(grid), max(grid.delays)
    items = []
    for player, learner in {**queued(grid), **direct(grid)}.items():
        base = done[base_cells(grid)[learner]]
        costs = [f"{number(extra(done[cells[player, law, longest]], base).mean())} ({law})" for law in laws(1)]
        items.append(f"<li>{escape(player)}: {', '.join(costs)}</li>")
    return WORDS.text("price", longest=longest, items="".join(items))


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
    count = sum(result.replications for result in results)
    return [
        WORDS.text("counting"),
        identity(
            WORDS("counting finding"),
            "holds" if fine else "fails",
            WORDS("counting detail", count=count, used=used, asked=asked),
        ),
    ]


PART = Part(
    "stochastic",
    "QPM-D, Delayed-UCB1 and Delayed-KL-UCB: an additive penalty",
    lambda full: cells_of(grid(full)),
    lambda done, full: section_of(done, grid(full)),
)
