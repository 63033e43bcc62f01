"""Delays that depend on the action: the best or the worst one is late."""

from __future__ import annotations

from typing import Any

from belated.delays import Constant, PerAction
from belated.engine.result import Result
from belated.learners import Exp3
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
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

WORDS = Prose(__name__)
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
        WORDS.text("claim", soon=grid.soon),
        finding(WORDS("kept"), [result.judge(family=len(covered)) for result in covered]),
        Finding(
            WORDS("no bound", reason=bold[0].bound_reason),
            "shown",
            WORDS("no bound detail", least=min(shares), most=max(shares)),
        ),
        together(WORDS("best"), pairings[BOLD_EXP3]),
        *(together(WORDS("worst", name=name), pairings[name]) for name in OTHERS),
        *(Drawing(f"beyond-late-{side}", _panel(found, grid, side), WORDS("caption", side=side)) for side in SIDES),
        Rows(
            ("player", "late action", "its delay", "regret", "G*", "instances", "bound", "BOLD's, not applicable"),
            [
                [*key, r.mean_regret, r.peak.mean(), r.instances.mean(), r.bound, _told(key[0], r)]
                for key, r in found.items()
            ],
            WORDS("cells caption"),
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
