"""Dudik et al. 2011: choosing among given policies, by the rewards of contexts with a known law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import BOLD, Direct, Forecaster
from belated.games import Bernoulli, Grouped
from belated.learners import PolicyElimination
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
from belated.report.stats import number
from belated.studies.cells import Cell, Play
from belated.studies.paper.related.shared import PROVED, STATED, Entry, System, experiment, late_panel
from belated.studies.run import Done
from belated.studies.variants import PolicyExp4
from belated.theory.verdicts import judge

WORDS = Prose(__name__)
CONTEXTS, ACTIONS, COUNT, SEED = 6, 2, 20, 15
GOOD, BAD = 0.9, 0.1
DROPS, POOL, TOLD = "PolicyElimination", "BOLD(Exp4)", "Exp4 told directly"
LATE = (0, 10, 100, 1_000, 10_000)
#: The delay of the row of table 1.
ROW = 1_000
#: What uniform play loses a round.
UNIFORM = (GOOD - BAD) * (1.0 - 1.0 / ACTIONS)


@dataclass(frozen=True)
class Size:
    """Rounds and runs."""

    rounds: int = 40_000
    runs: int = 16


def policies() -> tuple[tuple[int, ...], ...]:
    """The first is the best; the others were drawn."""
    drawn = np.random.default_rng(SEED).integers(0, ACTIONS, (COUNT - 1, CONTEXTS)).tolist()
    return tuple(context % ACTIONS for context in range(CONTEXTS)), *map(tuple, drawn)


def game() -> Grouped:
    """In each context one action pays more than the others."""
    best, *_ = policies()
    arms = [Bernoulli([GOOD if action == each else BAD for action in range(ACTIONS)]) for each in best]
    return Grouped(arms, policies=policies())


def players() -> dict[str, Forecaster]:
    return {
        DROPS: Direct(PolicyElimination(policies(), None, ACTIONS)),
        POOL: BOLD(PolicyExp4(policies(), ACTIONS)),
        TOLD: Direct(PolicyExp4(policies(), ACTIONS)),
    }


def plays(size: Size) -> dict[tuple[str, int], Play]:
    """(player, delay)."""
    world = game()
    return {
        (name, tau): Play(player, world, Constant(tau), size.rounds, size.runs, SEED)
        for name, player in players().items()
        for tau in LATE
    }


def blocks(done: Done, size: Size) -> list[Block]:
    found: dict[tuple[str, int], Result] = {key: done[play] for key, play in plays(size).items()}
    late = [tau for tau in LATE if tau >= ROW]
    extra = {tau: (found[DROPS, tau].regret[:, -1] - found[DROPS, 0].regret[:, -1]) / tau for tau in late}
    told = {"contexts": CONTEXTS, "actions": ACTIONS, "count": COUNT, "good": GOOD, "bad": BAD}
    listed = "; ".join(f"{number(float(each.mean()))} a round at τ = {tau:,}" for tau, each in extra.items())
    return [
        WORDS.text("claim", stated=STATED),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", size=size, **told)),
        finding(
            WORDS("bound"),
            [found[DROPS, tau].judge(family=len(LATE)) for tau in LATE],
            WORDS("bound detail", rounds=size.rounds),
        ),
        finding(WORDS("pool"), [found[POOL, tau].judge(family=len(LATE)) for tau in LATE]),
        finding(
            WORDS("uniform"),
            [judge(each, UNIFORM, -1.0, 1.0, family=len(late)) for each in extra.values()],
            WORDS("uniform detail", listed=listed, cost=UNIFORM),
        ),
        _overtaken(found),
        Drawing("related-policies", _panel(found, size), WORDS("caption", size=size, count=COUNT)),
        Rows(
            ("player", "τ", "regret", "± 95%", "bound", "verdict"),
            [
                [name, tau, r.mean_regret, r.spread, r.bound, r.judge(family=len(LATE))]
                for (name, tau), r in found.items()
            ],
            WORDS("cells caption", runs=size.runs),
            folded=True,
        ),
    ]


def _overtaken(found: dict[tuple[str, int], Result]) -> Finding:
    """From which delay on the one that adds has less regret than the one that multiplies."""
    fewer = [tau for tau in LATE if found[DROPS, tau].mean_regret < found[POOL, tau].mean_regret]
    when = f"from τ = {fewer[0]:,} on" if fewer else "at none of these delays"
    listed = "; ".join(
        f"τ = {tau:,}: {', '.join(f'{number(found[name, tau].mean_regret)} ({name})' for name in (DROPS, POOL, TOLD))}"
        for tau in LATE
    )
    return Finding(WORDS("overtaken", when=when), "shown", listed)


def _panel(found: dict[tuple[str, int], Result], size: Size) -> Any:
    figure, axes = late_panel("policies", "regret", LATE)
    x = [tau + 1 for tau in LATE]
    for at, name in enumerate((DROPS, POOL, TOLD)):
        figures.means(axes, x, [found[name, tau].regret[:, -1] for tau in LATE], at, name)
    base = found[DROPS, 0].mean_regret
    figures.line(axes, x, [base + UNIFORM * tau for tau in LATE], 6, "plus τ rounds of uniform play", linestyle=":")
    figures.legend(axes, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    return figure


def cells(size: Size) -> list[Cell]:
    return list(plays(size).values())


def rows(size: Size) -> dict[str, Any]:
    late, now = (plays(size)[DROPS, tau] for tau in (ROW, 0))

    def entry(done: Done) -> Entry:
        result, base = done[late], done[now]
        what = f"Direct(PolicyElimination), {COUNT} policies, Constant({ROW:,}), {size.rounds:,} rounds"
        side = f"G* + 17 √(2 n K ln(4 N n²/δ)) + δ n, {PROVED}; the row itself is {STATED}"
        return Entry(what, result.mean_regret, base.mean_regret, result.bound, result.judge().word, side)

    return {"dudik": ([late, now], entry)}


SYSTEM = System("dudik", Size(), Size(100_000, 20), cells, blocks, rows)
