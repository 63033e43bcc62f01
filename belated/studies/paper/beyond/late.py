"""Delays that depend on the action: the best or the worst one is late."""

from __future__ import annotations

from typing import Any

from belated.delays import Constant, PerAction
from belated.engine.result import Result
from belated.learners import Exp3
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, Text, finding
from belated.report.stats import number
from belated.studies.paper.beyond.shared import (
    ARMS,
    BOLD_EXP3,
    OTHERS,
    PLAYERS,
    Grid,
    Pairing,
    Plays,
    draw_regrets,
    pair,
    ticks,
    together,
)
from belated.studies.run import Done
from belated.theory import bounds

SIDES = {"best": 4, "worst": 0}


def late_plays(grid: Grid) -> Plays:
    """(player, which action is late, its delay)."""
    return {
        (name, side, late): grid.play(
            player, ARMS, PerAction([Constant(late if i == action else grid.soon) for i in range(5)])
        )
        for name, player in PLAYERS.items()
        for side, action in SIDES.items()
        for late in grid.late
    }


def late_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    plays = late_plays(grid)
    found: dict[Any, Result] = {key: done[play] for key, play in plays.items()}
    longer = [late for late in grid.late if late > grid.soon]
    family = len(PLAYERS) * len(longer)
    pairings: dict[str, list[Pairing]] = {}
    for name in PLAYERS:
        # The side that is said to hurt less comes first.
        less, more = ("worst", "best") if name == BOLD_EXP3 else ("best", "worst")
        pairings[name] = [
            pair(f"{name}, delay {late:,}", found[name, less, late], found[name, more, late], family) for late in longer
        ]
    # Where no action is late, both sides are the same cell.
    covered = {plays[key].key: result for key, result in found.items() if key[0] in OTHERS}.values()
    bold = [result for (name, _, late), result in found.items() if name == BOLD_EXP3 and late in longer]
    shares = [result.mean_regret / would_be(result) for result in bold]
    return [
        Text(
            "<h3>Delays that depend on the action</h3><p>Four actions answer after "
            f"{grid.soon} rounds, one is later: the best or the worst of five Bernoulli arms. The theorems of QPM-D "
            "and Delayed-UCB1 allow this; BOLD's does not, because an instance that plays a quick action is free "
            "sooner and so predicts more often.</p>"
        ),
        finding(
            "QPM-D and Delayed-UCB1 keep their bounds, which charge a late action by its gap.",
            [result.judge(family=len(covered)) for result in covered],
        ),
        Finding(
            f"BOLD has no bound here: {bold[0].bound_reason}. For comparison only, what the theorem would give if it "
            "applied.",
            "shown",
            f"regret / that number {number(min(shares))} to {number(max(shares))}; not a verdict on the theorem",
        ),
        together("BOLD suffers more from a late best action than from a late worst one.", pairings[BOLD_EXP3]),
        *(
            together(f"{name} suffers more from a late worst action than from a late best one.", pairings[name])
            for name in OTHERS
        ),
        *(
            Drawing(
                f"beyond-late-{side}",
                _panel(found, grid, side),
                f"The {side} action is late: regret against its delay; 95% bands. Dashed: BOLD's bound as if it "
                "applied, which it does not.",
            )
            for side in SIDES
        ),
        Rows(
            ("player", "late action", "its delay", "regret", "G*", "instances", "bound", "BOLD's, not applicable"),
            [
                [*key, r.mean_regret, r.peak.mean(), r.instances.mean(), r.bound, _told(key[0], r)]
                for key, r in found.items()
            ],
            "All players.",
            folded=True,
        ),
    ], [p for each in pairings.values() for p in each]


def would_be(result: Result) -> float:
    """BOLD's bound with the measured peaks, though its condition on delays does not hold."""
    return bounds.bold(Exp3(5).bound, result.rounds, result.peak)


def _told(name: str, result: Result) -> float | None:
    return would_be(result) if name == BOLD_EXP3 else None


def _panel(found: dict[Any, Result], grid: Grid, side: str) -> Any:
    figure, axes = figures.panel(
        f"the {side} of five actions is late", f"its delay (the others: {grid.soon})", "regret", yscale="log"
    )
    lines = {name: [found[name, side, late] for late in grid.late] for name in PLAYERS}
    draw_regrets(axes, grid.late, lines)
    bound = [would_be(result) for result in lines[BOLD_EXP3]]
    figures.line(axes, grid.late, bound, 0, "BOLD's bound, not applicable")
    ticks(axes, grid.late)
    axes.set_ylim(top=4 * grid.rounds)
    figures.legend(axes, ncols=2)
    return figure
