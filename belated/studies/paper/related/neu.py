"""Neu, Gyorgy, Szepesvari and Antos 2010: a Markov decision process whose rewards change and come late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import Direct
from belated.games import MDP, grid_world
from belated.learners import MDPExp3
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows
from belated.report.prose import Prose
from belated.report.stats import mean_interval, number
from belated.studies.cells import Cell, Play
from belated.studies.paper.beyond.shared import exactly, same_play
from belated.studies.paper.related.shared import STATED, System, experiment, late_panel
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

WORDS = Prose(__name__)
ROWS, COLUMNS, SLIP, LAG, MIXING, SEED = 2, 3, 0.2, 5, 0.05, 15
#: The share of rounds in which the first cell pays; in the others it is the last.
SHARE = 0.6
#: Below the lag all delays play the same.
LATE = (0, 2, 4, 5, 50, 200, 1000)
FREE = tuple(tau for tau in LATE if tau < LAG)


@dataclass(frozen=True)
class Size:
    """Rounds, the rate for them, and runs."""

    rounds: int = 20_000
    rate: float = 0.003
    runs: int = 12


def game(rounds: int) -> MDP:
    """Reward 1 in the first cell of the grid in six rounds of ten, spread evenly, and else in the last."""
    cells = ROWS * COLUMNS
    rewards = np.zeros((2, cells, 4))
    rewards[0, 0], rewards[1, cells - 1] = 1.0, 1.0
    place = np.arange(1, rounds + 1) * (math.sqrt(5.0) - 1.0) / 2.0 % 1.0
    return MDP(grid_world(ROWS, COLUMNS, SLIP), rewards, np.where(place < SHARE, 0, 1))


def plays(size: Size) -> dict[int, Play]:
    grid = grid_world(ROWS, COLUMNS, SLIP).tolist()
    learner = MDPExp3(grid, LAG, size.rate, MIXING, window=max(LATE))
    world = game(size.rounds)
    return {tau: Play(Direct(learner), world, Constant(tau), size.rounds, size.runs, SEED) for tau in LATE}


def blocks(done: Done, size: Size) -> list[Block]:
    found: dict[int, Result] = {tau: done[play] for tau, play in plays(size).items()}
    world = game(size.rounds)
    uniform = 1.0 / (ROWS * COLUMNS)
    idle = world.best - uniform
    longest = LATE[-1]
    more = mean_interval(found[longest].regret[:, -1] - found[0].regret[:, -1])
    told = {"rows": ROWS, "columns": COLUMNS, "slip": SLIP, "share": SHARE, "lag": LAG, "mixing": MIXING}
    listed = "; ".join(f"τ = {tau:,}: {number(r.mean_regret)}" for tau, r in found.items())
    longer = {"listed": listed, "longest": longest, "more": more, "level": LEVEL, "idle": longest * idle}
    return [
        WORDS.text("claim", stated=STATED),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", size=size, best=world.best, uniform=uniform, **told)),
        Finding(WORDS("no bound"), "no bound", WORDS("no bound detail", stated=STATED)),
        exactly(
            WORDS("free", lag=LAG),
            [same_play(found[0], found[tau]) for tau in FREE if tau],
            WORDS("free detail", delays=", ".join(map(str, FREE)), runs=size.runs),
        ),
        Finding(WORDS("longer"), "shown", WORDS("longer detail", runs=size.runs, **longer)),
        Drawing("related-states", _panel(found, size), WORDS("caption", size=size, lag=LAG)),
        Rows(
            ("τ", "regret", "± 95%", "median"),
            [[tau, r.mean_regret, r.spread, float(np.median(r.regret[:, -1]))] for tau, r in found.items()],
            WORDS("cells caption", size=size),
            folded=True,
        ),
    ]


def _panel(found: dict[int, Result], size: Size) -> Any:
    figure, axes = late_panel("a Markov decision process", "regret", LATE, yscale="linear")
    figures.means(axes, [tau + 1 for tau in LATE], [r.regret[:, -1] for r in found.values()], 0, "MDP-Exp3")
    axes.axvline(LAG + 0.5, color="black", linewidth=1.0, linestyle="--", label=f"N = {LAG}")
    axes.set_ylim(bottom=0.0)
    figures.legend(axes)
    return figure


def cells(size: Size) -> list[Cell]:
    return list(plays(size).values())


SYSTEM = System("neu", Size(), Size(80_000, 0.0015, 30), cells, blocks)
