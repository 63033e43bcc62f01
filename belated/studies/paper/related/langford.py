"""Langford, Smola and Zinkevich 2009: gradients told late. Slow steps are fast enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Constant
from belated.forecasters import BOLD, Direct, Forecaster
from belated.games import LinearLosses
from belated.learners import GradientDescent
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
from belated.report.stats import number
from belated.studies.cells import Cell
from belated.studies.paper.related.shared import (
    PROVED,
    Entry,
    Found,
    Series,
    System,
    draw,
    experiment,
    late_panel,
    text,
)
from belated.studies.run import Done
from belated.theory.verdicts import Verdict, certain

WORDS = Prose(__name__)
FAST, SLOWED, ADAPTIVE, POOL = "not slowed", "τ known", "adaptive", "BOLD(adaptive)"
RULES: dict[str, Callable[[int], Forecaster]] = {
    FAST: lambda tau: Direct(GradientDescent(1, tau=0)),
    SLOWED: lambda tau: Direct(GradientDescent(1, tau=tau)),
    ADAPTIVE: lambda tau: Direct(GradientDescent(1)),
    POOL: lambda tau: BOLD(GradientDescent(1)),
}
KEPT = (SLOWED, ADAPTIVE, POOL)
#: The least delay of a fit: before it τ + 1 and 2 τ + 1 differ too much.
FITTED = 3


@dataclass(frozen=True)
class Size:
    """Rounds, delays, and the half periods that are tried."""

    rounds: int = 4096
    delays: tuple[int, ...] = (0, 3, 7, 15, 31, 63)
    halves: tuple[int, ...] = tuple(np.unique(np.geomspace(1, 1024, 70).round().astype(int)).tolist())


@dataclass(frozen=True)
class Waves:
    """A gradient of 1 for so many rounds, then of -1 for as many, and so on."""

    length: int

    def rounds(self, number: int) -> int:
        return self.length

    def __call__(self, number: int) -> LinearLosses:
        return LinearLosses((1.0 - 2.0 * ((np.arange(self.length) // number) % 2))[:, None])


def plays(size: Size) -> dict[tuple[str, int], Series]:
    """(rule, delay)."""
    return {
        (name, d): Series(rule(d), Waves(size.rounds), Constant(d), size.halves)
        for name, rule in RULES.items()
        for d in size.delays
    }


def blocks(done: Done, size: Size) -> list[Block]:
    found: dict[tuple[str, int], Found] = {key: done[cell] for key, cell in plays(size).items()}
    slopes = {name: slope(found, size, name) for name in RULES}
    waves = {"rounds": size.rounds, "count": len(size.halves)}
    listed = ", ".join(f"{name} {exponent:.3f}" for name, exponent in slopes.items())
    return [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", first=min(size.halves), last=max(size.halves), **waves)),
        *(finding(WORDS("keeps", name=name), [_verdict(found[name, d], size) for d in size.delays]) for name in KEPT),
        _breaks(found, size),
        finding(
            WORDS("slopes", fitted=FITTED),
            [certain(slopes[name], 0.5) for name in KEPT],
            WORDS("slopes detail", listed=listed),
        ),
        Drawing("related-gradients", _panel(found, size), WORDS("caption", **waves)),
        Rows(
            ("rule", "τ", "worst regret", "its half period", "bound", "verdict"),
            [
                [name, d, float(f.regret.max()), size.halves[f.worst], float(f.bound[f.worst]), _verdict(f, size).word]
                for (name, d), f in found.items()
            ],
            WORDS("cells caption"),
            folded=True,
        ),
    ]


def slope(found: dict[tuple[str, int], Found], size: Size, name: str) -> float:
    """The exponent of the worst regret in tau + 1."""
    delays = [d for d in size.delays if d >= FITTED]
    x, y = np.log([d + 1 for d in delays]), np.log([found[name, d].regret.max() for d in delays])
    return float(np.polyfit(x, y, 1)[0])


def _verdict(found: Found, size: Size) -> Verdict:
    return certain(float(found.regret.max()), float(found.bound[found.worst]), most=2.0 * size.rounds)


def _breaks(found: dict[tuple[str, int], Found], size: Size) -> Finding:
    """From which delay on the steps that are not slowed pay more than slowed ones ever do."""
    late = [d for d in size.delays if d]
    over = [d for d in late if found[FAST, d].regret.max() > float(found[SLOWED, d].bound[0])]
    listed = ", ".join(
        f"{number(float(found[FAST, d].regret.max()))} against {number(float(found[SLOWED, d].bound[0]))} at τ = {d}"
        for d in late
    )
    start = f" from τ = {over[0]} on" if over else ""
    word = "holds" if over and over == late[late.index(over[0]) :] else "fails"
    return Finding(WORDS("breaks", start=start), word, listed)


def _panel(found: dict[tuple[str, int], Found], size: Size) -> Any:
    figure, axes = late_panel("gradients told late: the worst square wave", "regret", size.delays)
    x = [d + 1 for d in size.delays]
    for at, name in enumerate(RULES):
        draw(axes, x, [float(found[name, d].regret.max()) for d in size.delays], at, name)
    for name, label in ((SLOWED, "bound, steps slowed"), (POOL, "bound, BOLD")):
        bound = [float(found[name, d].bound[0]) for d in size.delays]
        figures.line(axes, x, bound, list(RULES).index(name), label)
    axes.set_ylim(top=8 * max(float(f.regret.max()) for f in found.values()))
    figures.legend(axes, ncols=2, loc="upper left")
    return figure


def cells(size: Size) -> list[Cell]:
    return list(plays(size).values())


def rows(size: Size) -> dict[str, Any]:
    """Steps that are slowed, at the longest delay."""
    known, d = plays(size), max(size.delays)
    late, now = known[SLOWED, d], known[SLOWED, 0]

    def entry(done: Done) -> Entry:
        found: Found = done[late]
        verdict = _verdict(found, size)
        what = (
            f"{text(late.forecaster)}, Constant({d}), the worst of {len(size.halves):,} square waves of {size.rounds:,}"
        )
        side = f"2 F L √((1 + 2τ) n), {PROVED}"
        return Entry(what, verdict.measured, float(done[now].regret.max()), verdict.bound, verdict.word, side)

    return {"langford": ([late, now], entry)}


#: All half periods up to 1,024, and every eighth one up to 4,096.
LONG = Size(16_384, (0, 3, 7, 15, 31, 63, 127), (*range(1, 1024), *range(1024, 4097, 8)))
SYSTEM = System("langford", Size(), LONG, cells, blocks, rows)
