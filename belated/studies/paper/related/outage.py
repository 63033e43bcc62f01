"""An outage: nothing is late, then a thousand rounds are answered at once. Why full information is told directly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Trace
from belated.forecasters import BOLD, Direct, Forecaster
from belated.games import Bernoulli, LinearLosses
from belated.learners import DelayedHedge, GradientDescent, Hedge
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, finding
from belated.report.prose import Prose
from belated.studies.cells import Cell, Play
from belated.studies.paper.beyond.shared import pair, together
from belated.studies.paper.related.shared import Found, Series, System, experiment
from belated.studies.run import Done
from belated.theory.verdicts import certain

WORDS = Prose(__name__)
ROUNDS = 10_000
#: The rounds that are answered at the end of the last of them.
FIRST, LAST = 4_001, 5_000
TOLD, POOL = "told directly", "BOLD"
MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
SEED = 15


@dataclass(frozen=True)
class Size:
    """How many points of the curve, and how often Hedge plays."""

    points: int = 100
    replications: int = 100


def late() -> Trace:
    """The delays."""
    rounds = np.arange(1, ROUNDS + 1)
    return Trace(np.where((rounds >= FIRST) & (rounds <= LAST), LAST - rounds, 0))


@dataclass(frozen=True)
class Circle:
    """Gradients (.5 + .5 cos a, .5 sin a), a = .1 t^2; so many of them."""

    def rounds(self, number: int) -> int:
        return number

    def __call__(self, number: int) -> LinearLosses:
        angle = 0.1 * np.arange(1.0, number + 1.0) ** 2
        return LinearLosses(np.stack([0.5 + 0.5 * np.cos(angle), 0.5 * np.sin(angle)], axis=1))


PLAYERS: dict[str, Forecaster] = {TOLD: Direct(GradientDescent(2)), POOL: BOLD(GradientDescent(2))}


def curves(size: Size) -> dict[str, Series]:
    """The regret after n rounds for many n: each is the beginning of the same play."""
    lengths = tuple(int(n) for n in np.linspace(0, ROUNDS, size.points + 1)[1:])
    return {name: Series(player, Circle(), late(), lengths) for name, player in PLAYERS.items()}


def hedges(size: Size) -> dict[str, Play]:
    """Hedge on five arms whose rewards are all shown."""
    arms = Bernoulli(MEANS, "full")
    players = {TOLD: Direct(DelayedHedge(len(MEANS))), POOL: BOLD(Hedge(len(MEANS)))}
    return {name: Play(player, arms, late(), ROUNDS, size.replications, SEED) for name, player in players.items()}


def blocks(done: Done, size: Size) -> list[Block]:
    cells = curves(size)
    found: dict[str, Found] = {name: done[cell] for name, cell in cells.items()}
    last = {name: float(f.regret[-1]) for name, f in found.items()}
    told, pool = (done[play] for play in hedges(size).values())
    when = {"first": FIRST, "last": LAST}
    bound = {name: float(f.bound[-1]) for name, f in found.items()}
    times = last[POOL] / last[TOLD]
    numbers = {
        "times": times,
        "pool": last[POOL],
        "told": last[TOLD],
        "pool_bound": bound[POOL],
        "told_bound": bound[TOLD],
    }
    return [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", rounds=ROUNDS, means=MEANS, replications=size.replications, **when)),
        finding(WORDS("bounds"), [certain(last[name], bound[name], most=2.0 * ROUNDS) for name in PLAYERS]),
        Finding(
            WORDS("dearer"),
            "holds" if times > 2 else "fails",
            WORDS("dearer detail", rounds=ROUNDS, **numbers),
        ),
        together(WORDS("hedge"), [pair("Hedge", told, pool)]),
        finding(WORDS("hedge bounds"), [each.judge(family=2) for each in (told, pool)]),
        Drawing("related-outage", _panel(found, cells), WORDS("caption", **when)),
    ]


def _panel(found: dict[str, Found], cells: dict[str, Series]) -> Any:
    figure, axes = figures.panel("an outage of 1,000 rounds", "round", "regret")
    for at, (name, each) in enumerate(found.items()):
        axes.plot(cells[name].numbers, each.regret, color=figures.COLORS[at], label=name)
    axes.axvspan(FIRST, LAST, color="0.9", zorder=0)
    axes.set_ylim(bottom=min(0.0, *(float(f.regret.min()) for f in found.values())))
    figures.legend(axes, loc="upper left")
    return figure


def cells(size: Size) -> list[Cell]:
    return [*curves(size).values(), *hedges(size).values()]


SYSTEM = System("outage", Size(), Size(200, 1000), cells, blocks)
