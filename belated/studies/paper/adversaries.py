"""What BOLD plays: bases, adversaries, laws of delays, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from belated.delays import Constant, Geometric, Pareto, Uniform
from belated.engine.result import Result
from belated.forecasters import BOLD
from belated.games import Block, RandomWalk, Switching
from belated.learners import Exp3, Hedge, TsallisINF
from belated.protocols import Delays, Feedback, Game, Learner
from belated.studies.cells import Play
from belated.studies.run import Done
from belated.theory import bounds
from belated.theory.verdicts import Verdict

ACTIONS = 5
SEED = 1
STEP = 0.05  #: of the random walk
SWITCH, GOOD, BAD = 0.001, 0.6, 0.4  #: how often the best action changes, what it pays, what others pay
GAMES = ("random walk", "switching", "block")
LAWS = ("constant", "uniform", "geometric", "Pareto")


@dataclass(frozen=True)
class Scale:
    """How much is played: mean delays, and for the block adversary the lengths tau + 1 of its blocks."""

    rounds: int
    means: tuple[int, ...]
    replications: dict[str, int]  #: by learner: the smaller the bound, the more it takes to be sure
    block_rounds: int
    lengths: tuple[int, ...]
    block_replications: int


# Blocks are short beside the horizon: with 512 of them and more, the exact law has the exponent 1/2 to three digits.
SHORT = Scale(
    20_000,
    (3, 10, 31, 100),
    {"Hedge": 300, "Exp3": 160, "Tsallis-INF": 96},
    16_384,
    (1, 2, 4, 8, 16, 32),
    400,
)
FULL = Scale(
    100_000,
    (3, 10, 31, 100, 316),
    {"Hedge": 600, "Exp3": 240, "Tsallis-INF": 130},
    65_536,
    (1, 2, 4, 8, 16, 32, 64, 128),
    900,
)


class Point(NamedTuple):
    """A cell and what figures and tables call it."""

    learner: str
    game: str
    law: str
    cell: Play


class Played(NamedTuple):
    """A point with its result and the verdict on Theorem 1."""

    point: Point
    result: Result
    verdict: Verdict

    @property
    def instances(self) -> float:
        """The mean of G* + 1."""
        return float(self.result.peak.mean()) + 1.0

    @property
    def samples(self) -> Any:
        """The regret of each replication at the horizon."""
        return self.result.regret[:, -1]

    @property
    def exact(self) -> float:
        """The expected regret of every forecaster, on the block adversary."""
        game = self.point.cell.game
        assert isinstance(game, Block)
        return bounds.block_adversary(self.result.rounds, game.length - 1, ACTIONS)


def learners() -> dict[str, Learner]:
    return {"Hedge": Hedge(ACTIONS), "Exp3": Exp3(ACTIONS), "Tsallis-INF": TsallisINF(ACTIONS)}


def sight(learner: Learner) -> Feedback:
    """What the learner is to be shown."""
    return "full" if learner.feedback == "full" else "bandit"


def wanderers(learner: Learner) -> dict[str, Game]:
    """Adversaries that wander fast enough for regret to be positive, slowly enough for something to be learnt."""
    seen = sight(learner)
    return {
        "random walk": RandomWalk(ACTIONS, step=STEP, feedback=seen),
        "switching": Switching(ACTIONS, probability=SWITCH, good=GOOD, bad=BAD, feedback=seen),
    }


def laws(means: Sequence[int]) -> list[tuple[str, Delays]]:
    """Laws of the same means; no delay at all is a constant."""
    listed: list[tuple[str, Delays]] = [("constant", Constant(0))]
    for mean in means:
        listed += [
            ("constant", Constant(mean)),
            ("uniform", Uniform(0, 2 * mean)),
            ("geometric", Geometric(mean=mean)),
            ("Pareto", Pareto(mean=mean)),
        ]
    return listed


def grid(scale: Scale) -> list[Point]:
    """All that is played."""
    points = []
    for name, learner in learners().items():
        for game_name, game in wanderers(learner).items():
            for law, delays in laws(scale.means):
                cell = Play(BOLD(learner), game, delays, scale.rounds, scale.replications[name], SEED)
                points.append(Point(name, game_name, law, cell))
        for length in scale.lengths:
            block = Block(ACTIONS, length, feedback=sight(learner))
            delays = Constant(length - 1)
            # Blocks of different lengths would share coins under one seed.
            cell = Play(BOLD(learner), block, delays, scale.block_rounds, scale.block_replications, SEED + length)
            points.append(Point(name, "block", "constant", cell))
    return points


def judged(done: Done, scale: Scale) -> list[Played]:
    """All cells with their verdicts, which hold together."""
    points = grid(scale)
    return [Played(point, done[point.cell], done[point.cell].judge(family=len(points))) for point in points]
