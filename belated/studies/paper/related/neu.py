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
from belated.report.page import Block, Drawing, Finding, Formula, Rows, Text
from belated.report.stats import mean_interval, number
from belated.studies.cells import Cell, Play
from belated.studies.paper.beyond.shared import exactly, same_play
from belated.studies.paper.related.shared import STATED, System, experiment, late_panel
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

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
    idle = world.best - 1.0 / (ROWS * COLUMNS)
    longest = LATE[-1]
    more = mean_interval(found[longest].regret[:, -1] - found[0].regret[:, -1])
    return [
        Text(
            "<h3>Neu, György, Szepesvári, Antos 2010: states</h3><p><b>Claim.</b> The dynamics are known, rewards "
            "change from round to round and only that of the present state and action is seen. MDP-Exp3 runs Exp3 in "
            "every state on estimates of how good an action is in the long run. The estimate of round t needs the law "
            "of its state as of N rounds before, so that it is used N rounds later at the earliest: rewards that come "
            "less than N late change nothing at all. Its regret against the best stationary policy, of the order "
            f"√n ln n, is {STATED}, and no constant is known.</p>"
        ),
        Formula(
            "w<sub>t</sub>(x, a) = exp(η Σ<sub>s ≤ t - max(N, τ + 1)</sub> q̂<sub>s</sub>(x, a)), &nbsp; "
            "E[q̂<sub>s</sub> | what was known N rounds before] = q<sub>s</sub>"
        ),
        experiment(
            f"A {ROWS} x {COLUMNS} grid, moves that go any way with probability {SLIP}; reward 1 in the "
            f"first cell in {SHARE:.0%} of the rounds, spread evenly, and in the last cell in the others. N = {LAG}, "
            f"mixing {MIXING}, rate {size.rate}; {size.rounds:,} rounds, {size.runs} runs. The best policy earns "
            f"{world.best:.6f} a round, uniform play {1.0 / (ROWS * COLUMNS):.6f}."
        ),
        Finding("No bound is stated for MDP-Exp3, with or without delay.", "no bound", f"√n ln n is {STATED}"),
        exactly(
            f"Delays below N = {LAG} change no action.",
            [same_play(found[0], found[tau]) for tau in FREE if tau],
            f"regret along the way and plays of each action, delays {', '.join(map(str, FREE))}, {size.runs} runs",
        ),
        Finding(
            "Longer delays cost little: what they add to regret.",
            "shown",
            "; ".join(f"τ = {tau:,}: {number(r.mean_regret)}" for tau, r in found.items())
            + f" (means of {size.runs} runs); delay {longest:,} adds {more}, approximate {LEVEL:.0%} interval; "
            f"{longest:,} rounds of uniform play cost {number(longest * idle)}",
        ),
        Drawing(
            "related-states",
            _panel(found, size),
            f"Regret of MDP-Exp3 after {size.rounds:,} rounds against the delay, means of {size.runs} runs, 95% bands. "
            f"Left of the line delays are below N = {LAG}, and the plays are the same.",
        ),
        Rows(
            ("τ", "regret", "± 95%", "median"),
            [[tau, r.mean_regret, r.spread, float(np.median(r.regret[:, -1]))] for tau, r in found.items()],
            f"All delays, {size.runs} runs of {size.rounds:,} rounds. Now and then a run locks in: medians tell too.",
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
