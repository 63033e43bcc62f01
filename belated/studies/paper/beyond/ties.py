"""How Delayed-UCB1 breaks ties: by fewest predictions, or by the lowest number."""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.delays import Constant
from belated.forecasters import Direct
from belated.games import Bernoulli
from belated.learners import UCB1
from belated.report import figures
from belated.report.page import Block, Drawing, Finding
from belated.report.prose import Prose
from belated.studies.paper.beyond.shared import (
    Grid,
    Pairing,
    Plays,
    draw_regrets,
    exactly,
    pair,
    paired,
    pairing_rows,
    together,
)
from belated.studies.run import Done
from belated.studies.variants import LowestUCB1
from belated.theory.verdicts import LEVEL

WORDS = Prose(__name__)
#: Two games of ten actions: means far apart, and close together.
FAR = Bernoulli(tuple(np.linspace(0.1, 0.9, 10).round(2).tolist()))
CLOSE = Bernoulli(tuple(np.linspace(0.25, 0.7, 10).round(2).tolist()))
GAMES = {"0.1 to 0.9": FAR, "0.25 to 0.7": CLOSE}
RULES = {"fewest predictions": UCB1(10), "lowest number": LowestUCB1(10)}


def tie_plays(grid: Grid) -> Plays:
    """(game, delay, rule)."""
    return {
        (name, wait, rule): grid.play(Direct(learner), game, Constant(wait))
        for name, game in GAMES.items()
        for wait in grid.waits
        for rule, learner in RULES.items()
    }


def first_phase_plays(grid: Grid) -> Plays:
    """(delay, rule): so many rounds as the first phase is said to take."""
    rounds = {"fewest predictions": lambda wait: wait + 10, "lowest number": lambda wait: 10 * (wait + 1)}
    return {
        (wait, rule): grid.play(Direct(learner), FAR, Constant(wait), rounds=rounds[rule](wait), replications=2)
        for wait in grid.waits
        for rule, learner in RULES.items()
    }


def tie_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    pairs = paired(done, tie_plays(grid), *RULES)
    found = {key: pair(f"means {key[0]}, delay {key[1]:,}", *both, len(pairs)) for key, both in pairs.items()}
    pairings = list(found.values())
    last = max(grid.waits)
    ends = [bool((done[play].observed.min(axis=1) == 1).all()) for play in first_phase_plays(grid).values()]
    words = [p.word for (_, wait), p in found.items() if wait != last]
    less, more = (sum(word.endswith(end) for word in words) for end in ("holds", "fails"))
    counts = f"less at {less}, more at {more}, unclear at {words.count('unclear')}"
    return [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        exactly(WORDS("first phase"), ends, WORDS("first phase detail")),
        together(WORDS("longest", delay=last), [p for (_, wait), p in found.items() if wait == last]),
        Finding(WORDS("shorter", counts=counts, count=len(words)), "shown", WORDS("shorter detail", level=LEVEL)),
        *(
            Drawing(f"beyond-ties-{at}", _panel(done, grid, name), WORDS("caption", name=name))
            for at, name in enumerate(GAMES, start=1)
        ),
        pairing_rows(pairings, *RULES),
    ], pairings


def _panel(done: Done, grid: Grid, name: str) -> Any:
    figure, axes = figures.panel(f"ten arms, means {name}", "constant delay", "regret at the horizon")
    plays = tie_plays(grid)
    lines = {f"ties: {rule}": [done[plays[name, wait, rule]] for wait in grid.waits] for rule in RULES}
    draw_regrets(axes, grid.waits, lines)
    axes.set_ylim(bottom=0.0)
    figures.legend(axes)
    return figure
