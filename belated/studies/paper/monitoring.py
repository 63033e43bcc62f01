"""Partial monitoring, the paper's own setting: easy and hard games under delay, by BOLD and by QPM-D."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Monitoring, apple_tasting, bartok, label_efficient
from belated.learners import CBP, GlobalExp3
from belated.report import figures
from belated.report.page import Block, Drawing, Formula, Rows, Section, Text, finding
from belated.report.stats import power_fit
from belated.studies.cells import Cell, Play
from belated.studies.paper.part import STRETCH, Part, added, penalty_plays, undecided
from belated.studies.results import cell_frame, replication_frame
from belated.studies.run import Done
from belated.theory.verdicts import Verdict

SEED = 37
BOLD_RULE, QPMD_RULE, DIRECT_RULE = "BOLD(GlobalExp3)", "QPM-D(CBP)", "CBP directly"


def games() -> dict[str, Monitoring]:
    """Two easy games and a hard one, each with a law at which the choice is not too clear."""
    return {
        "apple tasting (easy)": apple_tasting(law=(0.4, 0.6)),
        "Bartok's 3 x 3 (easy)": bartok(law=(0.5, 0.3, 0.2)),
        "label-efficient (hard)": label_efficient(law=(0.4, 0.6)),
    }


def forecasters(game: Monitoring) -> dict[str, Forecaster]:
    """The adversarial learner under BOLD; the stochastic one under QPM-D and directly."""
    return {
        BOLD_RULE: BOLD(GlobalExp3(game.loss, game.symbols)),
        QPMD_RULE: QPMD(CBP(game.loss, game.symbols)),
        DIRECT_RULE: Direct(CBP(game.loss, game.symbols)),
    }


@dataclass(frozen=True)
class Grid:
    """What is played: delays at one horizon, and horizons without delay."""

    rounds: int = 10_000
    replications: int = 24
    often: int = 160  #: replications of CBP, whose penalty is small
    delays: tuple[int, ...] = (0, 9, 29, 99, 299, 999)
    horizons: tuple[int, ...] = (300, 1_000, 3_000, 10_000)

    def play(self, rule: str, forecaster: Forecaster, game: Monitoring, delay: int, rounds: int) -> Play:
        count = self.replications if rule == BOLD_RULE else self.often
        return Play(forecaster, game, Constant(delay), rounds, count, SEED)


def grid(full: bool) -> Grid:
    return Grid(100_000, 100, 1000, horizons=(1_000, 3_000, 10_000, 100_000)) if full else Grid()


Key = tuple[str, str, int]


def delay_cells(grid: Grid) -> dict[Key, Play]:
    """By game, forecaster and constant delay."""
    return {
        (name, rule, delay): grid.play(rule, forecaster, game, delay, grid.rounds)
        for name, game in games().items()
        for rule, forecaster in forecasters(game).items()
        for delay in grid.delays
    }


def horizon_cells(grid: Grid) -> dict[Key, Play]:
    """By game, forecaster and horizon, without delay (where QPM-D and the learner itself are the same)."""
    return {
        (name, rule, n): grid.play(rule, forecaster, game, 0, n)
        for name, game in games().items()
        for rule, forecaster in forecasters(game).items()
        if rule != DIRECT_RULE
        for n in grid.horizons
    }


def cells_of(grid: Grid) -> list[Cell]:
    pairs = (cell for both in penalty_cells(grid).values() for cell in both)
    return [*delay_cells(grid).values(), *horizon_cells(grid).values(), *pairs]


def penalty_cells(grid: Grid) -> dict[tuple[str, int], tuple[Play, Play]]:
    """By game and delay, CBP under QPM-D and without delay."""
    return {
        (name, delay): penalty_plays(CBP(game.loss, game.symbols), game, delay, grid.rounds, grid.often, SEED)
        for name, game in games().items()
        for delay in grid.delays
        if delay > 0
    }


def cells(full: bool) -> list[Cell]:
    return cells_of(grid(full))


def section(done: Done, full: bool) -> Section:
    return describe(done, grid(full))


def describe(done: Done, grid: Grid) -> Section:
    """The section of a grid."""
    late = {key: done[cell] for key, cell in delay_cells(grid).items()}
    along = {key: done[cell] for key, cell in horizon_cells(grid).items()}
    bold = {key: r.judge(family=len(late)) for key, r in late.items() if key[1] == BOLD_RULE}
    both = penalty_cells(grid)
    adds = {key: added(done[delayed], done[base], len(both)) for key, (delayed, base) in both.items()}
    blocks: list[Block] = [
        Text(
            "<p>In partial monitoring the player sees a symbol that depends on action and outcome, and not the loss. "
            "What can be learned, and how fast, follows from the two matrices alone: regret grows like √<i>n</i> in "
            "easy games and like <i>n</i><sup>2/3</sup> in hard ones. BOLD needs a learner against adversaries, here "
            "GlobalExp3; QPM-D a stochastic one, here CBP.</p>"
        ),
        Formula(
            "GlobalExp3: <i>f</i>(<i>n</i>) = 4 <i>A n</i><sup>2/3</sup> + <i>A</i><sup>3</sup>, &nbsp; "
            "<i>A</i> = (<i>kN</i>)<sup>2/3</sup> ((e - 2) ln <i>N</i>)<sup>1/3</sup>"
        ),
        Text(
            f"<p>Experiment: {grid.rounds:,} rounds, {grid.replications} replications ({grid.often} of CBP), i.i.d. "
            f"outcomes, constant delays up to {max(grid.delays):,}. What short delays add is measured over fewer "
            f"rounds, {STRETCH} for each round of delay, and more often.</p>"
        ),
        finding("BOLD(GlobalExp3): mean regret is at most the bound of Theorem 1.", bold.values()),
        finding(
            "QPM-D(CBP): the extra regret over CBP without delay is at most Σ Δ<sub>i</sub> G*<sub>i</sub>.",
            adds.values(),
            undecided(adds),
        ),
        *(_drawing(place, name, late, grid) for place, name in enumerate(games(), start=1)),
        _growth(along, grid),
        _exponents(late, along, grid),
        _table(late, bold),
    ]
    pairs = [(cell, done[cell]) for cell in [*delay_cells(grid).values(), *horizon_cells(grid).values()]]
    frames = {"monitoring-cells": cell_frame(pairs), "monitoring-replications": replication_frame(pairs)}
    return Section(PART.name, PART.title, blocks, frames)


def _drawing(place: int, name: str, late: dict[Key, Result], grid: Grid) -> Drawing:
    figure, axes = figures.panel(name, "delay", "regret at the horizon", xscale="symlog", yscale="log")
    for number, rule in enumerate(forecasters(games()[name])):
        samples = [late[name, rule, delay].regret[:, -1] for delay in grid.delays]
        figures.means(axes, grid.delays, samples, number, rule)
    axes.set_xlim(left=-0.1)
    figures.legend(axes)
    caption = f"{name}: regret after {grid.rounds:,} rounds against the delay, 95% bands."
    return Drawing(f"monitoring-{place}", figure, caption)


def _growth(along: dict[Key, Result], grid: Grid) -> Drawing:
    figure, axes = figures.panel("without delay", "rounds n", "regret", xscale="log", yscale="log")
    for place, name in enumerate(games()):
        for rule, base, style in ((BOLD_RULE, "GlobalExp3", "-"), (QPMD_RULE, "CBP", "--")):
            samples = [along[name, rule, n].regret[:, -1] for n in grid.horizons]
            figures.means(axes, grid.horizons, samples, place, f"{base}, {name}", linestyle=style)
    figures.legend(axes)
    return Drawing("monitoring-growth", figure, "Regret without delay against the horizon, 95% bands.")


def _exponents(late: dict[Key, Result], along: dict[Key, Result], grid: Grid) -> Rows:
    rows: list[list[Any]] = []
    for name, game in games().items():
        for rule in forecasters(game):
            alone = QPMD_RULE if rule == DIRECT_RULE else rule
            growth = power_fit(grid.horizons, [along[name, alone, n].regret[:, -1] for n in grid.horizons])
            own = [late[name, rule, delay] for delay in grid.delays]
            price = power_fit([float(1 + r.peak.mean()) for r in own], [r.regret[:, -1] for r in own])
            rows.append([name, rule, str(growth), str(price)])
    header = ("game", "forecaster", "exponent in n, no delay", "exponent in G* + 1")
    return Rows(
        header,
        rows,
        "Fitted exponents with 99% intervals, by the bootstrap (the bound of BOLD(GlobalExp3): 2/3 and 1/3)",
    )


def _table(late: dict[Key, Result], bold: dict[Key, Verdict]) -> Rows:
    rows = [
        [*key, r.mean_regret, float(r.peak.mean()), bold[key].bound if key in bold else None, bold.get(key, "no bound")]
        for key, r in late.items()
    ]
    header = ("game", "forecaster", "delay", "regret", "G*", "bound", "verdict")
    return Rows(header, rows, f"All {len(rows)} cells with delays", folded=True)


PART = Part("monitoring", "Partial monitoring under delay", cells, section)
