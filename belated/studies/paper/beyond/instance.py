"""Which free instance BOLD hands out: the lowest, or a random one."""

from __future__ import annotations

from belated.delays import Constant, Geometric, Pareto, Uniform
from belated.forecasters import BOLD
from belated.games import Switching
from belated.learners import UCB1, Exp3
from belated.protocols import Delays
from belated.report.page import Block, Drawing
from belated.report.prose import Prose
from belated.studies.paper.beyond.shared import (
    ARMS,
    Grid,
    Pairing,
    Plays,
    exactly,
    pair,
    paired,
    pairing_rows,
    ratio_panel,
    same_play,
    together,
)
from belated.studies.run import Done
from belated.studies.variants import RandomBOLD

WORDS = Prose(__name__)
LEARNERS = {"Exp3": Exp3(5), "UCB1": UCB1(5)}
CHOICES: dict[str, type[BOLD]] = {"lowest": BOLD, "random": RandomBOLD}


def laws(mean: int) -> dict[str, Delays]:
    return {"geometric": Geometric(mean=mean), "uniform": Uniform(0, 2 * mean), "Pareto": Pareto(mean=mean)}


def instance_plays(grid: Grid) -> Plays:
    """(learner, law, mean delay, choice) on Bernoulli arms; and Exp3 against an adversary, under its law's name."""
    middle = grid.means[len(grid.means) // 2]
    switching = Switching(5, probability=20 / grid.rounds)
    plays: Plays = {}
    for choice, kind in CHOICES.items():
        for name, learner in LEARNERS.items():
            for mean in grid.means:
                for law, delays in laws(mean).items():
                    plays[name, law, mean, choice] = grid.play(kind(learner), ARMS, delays)
        for law, delays in laws(middle).items():
            plays["switching", law, middle, choice] = grid.play(kind(Exp3(5)), switching, delays)
        plays["Exp3", "constant", middle, choice] = grid.play(kind(Exp3(5)), ARMS, Constant(middle))
    return plays


def instance_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    pairs = paired(done, instance_plays(grid), *CHOICES)
    tested = [key for key in pairs if key[1] != "constant"]
    pairings = [pair(f"{a}, {law}, mean delay {mean}", *pairs[a, law, mean], len(tested)) for a, law, mean in tested]
    lines = [
        (f"{name}, {law}", style, [pairs[name, law, mean] for mean in grid.means])
        for name, style in (("Exp3", "-"), ("UCB1", ":"))
        for law in laws(1)
    ]
    return [
        WORDS.text("claim", grid=grid),
        together(WORDS("lowest"), pairings),
        exactly(WORDS("constant"), [same_play(*both) for key, both in pairs.items() if key not in tested]),
        Drawing(
            "beyond-instance",
            ratio_panel("BOLD: random over lowest", "regret, times that of the lowest", grid.means, lines),
            WORDS("caption"),
        ),
        pairing_rows(pairings, *CHOICES),
    ], pairings
