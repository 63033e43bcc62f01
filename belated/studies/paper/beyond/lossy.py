"""Feedback that never comes, with and without expiry."""

from __future__ import annotations

from typing import Any

from belated.delays import Constant, Lossy
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding, identity
from belated.report.prose import Prose
from belated.report.stats import matching, mean_interval, number
from belated.studies.paper.beyond.shared import (
    ARMS,
    BOLD_EXP3,
    OTHERS,
    PLAYERS,
    Grid,
    Pairing,
    Plays,
    draw_regrets,
    exactly,
    pair,
    same_play,
    ticks,
    together,
)
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

WORDS = Prose(__name__)


def lossy_plays(grid: Grid) -> Plays:
    """(player, p, expiry, horizon); only BOLD at all horizons."""
    return {
        (name, p, expiry, n): grid.play(player, ARMS, Lossy(Constant(grid.wait), p), rounds=n, expiry=expiry)
        for name, player in PLAYERS.items()
        for p in grid.losses
        for expiry in (None, grid.expiry)
        for n in (grid.horizons if name == BOLD_EXP3 else grid.horizons[-1:])
    }


def expected_open(grid: Grid, p: float, expiry: int | None, n: int) -> float:
    """E G_{n+1} for n > expiry > wait: a lost ticket is open until it expires, any other for as long as it waits."""
    return (1 - p) * grid.wait + p * (n if expiry is None else expiry)


def lossy_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    n = grid.rounds
    last = {key[:3]: done[play] for key, play in lossy_plays(grid).items() if key[3] == n}
    pairings = [
        pair(f"p = {p}", last[BOLD_EXP3, p, grid.expiry], last[BOLD_EXP3, p, None], len(grid.losses))
        for p in grid.losses
    ]
    alike = [same_play(last[name, p, None], last[name, p, grid.expiry]) for name in OTHERS for p in grid.losses]
    unexpired = [result for (_, _, expiry), result in last.items() if expiry is None]
    return [
        WORDS.text("claim", grid=grid),
        WORDS.formula("formula"),
        open_finding(done, grid),
        together(WORDS("expiry"), pairings),
        exactly(WORDS("alike"), alike),
        finding(WORDS("bounds"), [result.judge(family=len(unexpired)) for result in unexpired]),
        Drawing("beyond-lossy-instances", _instances_panel(done, grid), WORDS("instances caption")),
        Drawing("beyond-lossy-regret", _regret_panel(last, grid), WORDS("regret caption", rounds=n)),
        Rows(
            ("player", "p", "expiry", "regret", "instances", "open at the end", "bound"),
            [
                [name, p, str(e or "none"), r.mean_regret, r.instances.mean(), r.outstanding.mean(), r.bound]
                for (name, p, e), r in last.items()
            ],
            WORDS("cells caption", rounds=n),
            folded=True,
        ),
    ], pairings


def open_finding(done: Done, grid: Grid) -> Finding:
    """Whether as many tickets are open as expected."""
    found = {key[1:]: done[play] for key, play in lossy_plays(grid).items() if key[0] == BOLD_EXP3}
    intervals = {key: mean_interval(result.outstanding, family=len(found)) for key, result in found.items()}
    word, inside = matching(list(intervals.values()), [expected_open(grid, *key) for key in intervals])
    wide = max((i.high - i.mean) / i.mean for i in intervals.values())
    most = max(grid.losses)
    never, expiring = (number(found[most, e, grid.rounds].instances.mean()) for e in (None, grid.expiry))
    counts = {"inside": sum(inside), "count": len(inside), "level": LEVEL, "wide": wide, "p": most}
    detail = WORDS("open detail", rounds=grid.rounds, never=never, expiring=expiring, **counts)
    return identity(WORDS("open"), word, detail)


def _instances_panel(done: Done, grid: Grid) -> Any:
    figure, axes = figures.panel("BOLD(Exp3) under loss", "rounds", "instances", yscale="log")
    plays = lossy_plays(grid)
    for at, p in enumerate(grid.losses):
        for expiry, name, style in ((None, "no expiry", "-"), (grid.expiry, f"expiry {grid.expiry}", ":")):
            counts = [done[plays[BOLD_EXP3, p, expiry, n]].instances for n in grid.horizons]
            figures.means(axes, grid.horizons, counts, at, f"p = {p}, {name}", linestyle=style)
            expected = [1 + expected_open(grid, p, expiry, n) for n in grid.horizons]
            figures.line(axes, grid.horizons, expected, at, color="black", linewidth=0.8)
    ticks(axes, grid.horizons)
    axes.set_ylim(top=10 * max(grid.losses) * grid.rounds)
    figures.legend(axes, ncols=2)
    return figure


def _regret_panel(last: dict[Any, Any], grid: Grid) -> Any:
    figure, axes = figures.panel("regret under loss", "share of feedback that is lost", "regret at the horizon")
    shown = {"BOLD(Exp3), no expiry": (BOLD_EXP3, None), "BOLD(Exp3), expiry": (BOLD_EXP3, grid.expiry)}
    shown |= {f"{name}, either": (name, None) for name in OTHERS}
    lines = {label: [last[name, p, expiry] for p in grid.losses] for label, (name, expiry) in shown.items()}
    draw_regrets(axes, grid.losses, lines)
    ticks(axes, grid.losses)
    axes.set_yscale("log")
    figures.legend(axes)
    return figure
