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
from belated.report.page import Block, Drawing, Finding, Rows, Section, finding, worst
from belated.report.prose import Prose
from belated.report.stats import power_fit
from belated.studies.cells import Cell, Play
from belated.studies.paper.part import STRETCH, Part, added, penalty_plays, ratios, undecided
from belated.studies.results import cell_frame, replication_frame
from belated.studies.run import Done
from belated.theory.verdicts import Verdict

WORDS = Prose(__name__)
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
        WORDS.text("claim"),
        WORDS.formula("formula"),
        WORDS.text("experiment", grid=grid, longest=max(grid.delays), stretch=STRETCH),
        finding(WORDS("bold"), bold.values()),
        finding(WORDS("added"), adds.values(), undecided(adds)),
        *(_drawing(place, name, late, grid) for place, name in enumerate(games(), start=1)),
        _growth(along, grid),
        _exponents(late, along, grid),
        _table(late, bold),
    ]
    pairs = [(cell, done[cell]) for cell in [*delay_cells(grid).values(), *horizon_cells(grid).values()]]
    frames = {"monitoring-cells": cell_frame(pairs), "monitoring-replications": replication_frame(pairs)}
    return Section(PART.name, PART.title, blocks, frames, _short(bold, adds))


def _short(bold: dict[Key, Verdict], adds: dict[Any, Verdict]) -> Finding:
    least, most = ratios(adds.values())
    vacuous = [v.word for v in bold.values()].count("vacuous")
    words = (finding("", each).word for each in (bold.values(), adds.values()))
    return Finding(WORDS("short", least=least, most=most, vacuous=vacuous, count=len(bold)), worst(words))


def _drawing(place: int, name: str, late: dict[Key, Result], grid: Grid) -> Drawing:
    figure, axes = figures.panel(name, "delay", "regret at the horizon", xscale="symlog", yscale="log")
    for number, rule in enumerate(forecasters(games()[name])):
        samples = [late[name, rule, delay].regret[:, -1] for delay in grid.delays]
        figures.means(axes, grid.delays, samples, number, rule)
    axes.set_xlim(left=-0.1)
    figures.legend(axes)
    caption = WORDS("delay caption", name=name, rounds=grid.rounds)
    return Drawing(f"monitoring-{place}", figure, caption)


def _growth(along: dict[Key, Result], grid: Grid) -> Drawing:
    figure, axes = figures.panel("without delay", "rounds n", "regret", xscale="log", yscale="log")
    for place, name in enumerate(games()):
        for rule, base, style in ((BOLD_RULE, "GlobalExp3", "-"), (QPMD_RULE, "CBP", "--")):
            samples = [along[name, rule, n].regret[:, -1] for n in grid.horizons]
            figures.means(axes, grid.horizons, samples, place, f"{base}, {name}", linestyle=style)
    figures.legend(axes)
    return Drawing("monitoring-growth", figure, WORDS("growth caption"))


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
    return Rows(header, rows, WORDS("exponents caption"))


def _table(late: dict[Key, Result], bold: dict[Key, Verdict]) -> Rows:
    rows = [
        [*key, r.mean_regret, float(r.peak.mean()), bold[key].bound if key in bold else None, bold.get(key, "no bound")]
        for key, r in late.items()
    ]
    header = ("game", "forecaster", "delay", "regret", "G*", "bound", "verdict")
    return Rows(header, rows, WORDS("cells caption", count=len(rows)), folded=True)


PART = Part("monitoring", "Partial monitoring under delay", cells, section)
