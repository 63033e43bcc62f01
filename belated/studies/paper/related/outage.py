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
from belated.report.page import Block, Drawing, Finding, Formula, Text, finding
from belated.report.stats import number
from belated.studies.cells import Cell, Play
from belated.studies.paper.beyond.shared import pair, together
from belated.studies.paper.related.shared import Found, Series, System, experiment
from belated.studies.run import Done
from belated.theory.verdicts import certain

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
    return [
        Text(
            "<h3>An outage: full information should be told directly</h3><p><b>Claim.</b> With full information what "
            "comes back does not depend on what was played, so that one learner can be told of all of it. Its bound "
            "goes by the sum of G<sub>t</sub>; that of BOLD by the peak G*, and every instance that a burst makes "
            "starts from nothing. As Σ G ≤ n G*, the first is never above √2 times the second; where most feedback is "
            "prompt and some of it is very late, it is far below. Both are proved here.</p>"
        ),
        Formula("2 F L √(n + 2 Σ G) told directly, &nbsp; 2 F L √((G* + 1) n) under BOLD"),
        experiment(
            f"No delay, but rounds {FIRST:,} to {LAST:,} are answered together at the end of round "
            f"{LAST:,}. {ROUNDS:,} rounds; gradients (½ + ½ cos a, ½ sin a) with a = t²/10, which leaves nothing to "
            f"chance; and five Bernoulli arms {MEANS} whose rewards are all shown, {size.replications} replications."
        ),
        finding(
            "Gradient descent keeps its bound through the outage, told directly and under BOLD.",
            [certain(last[name], float(found[name].bound[-1]), most=2.0 * ROUNDS) for name in PLAYERS],
        ),
        Finding(
            "Through the outage BOLD's gradient descent has many times the regret of the one told directly.",
            "holds" if last[POOL] > 2 * last[TOLD] else "fails",
            f"{number(last[POOL])} against {number(last[TOLD])} after {ROUNDS:,} rounds, "
            f"{number(last[POOL] / last[TOLD])} times; bounds "
            f"{number(float(found[POOL].bound[-1]))} and {number(float(found[TOLD].bound[-1]))}",
        ),
        together(
            "So has Hedge: less regret told directly (DelayedHedge) than under BOLD, on the same arms.",
            [pair("Hedge", told, pool)],
        ),
        finding("Hedge keeps its bounds.", [each.judge(family=2) for each in (told, pool)]),
        Drawing(
            "related-outage",
            _panel(found, cells),
            f"Regret of gradient descent along the way. Grey: rounds {FIRST:,} to {LAST:,}, answered together at their "
            "end. BOLD plays an instance that knows nothing in each of them, and goes on with the first afterwards. "
            "Nothing is left to chance.",
        ),
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
