"""What a theorem is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from belated.protocols import Floats, Game, Learner

#: What stands for a range without end: no bound is ever cut at it, and multiplying by it is exact.
ENDLESS = 2.0**200


def unit_of(game: Game) -> float:
    """What the regret of a game is measured in."""
    return min(float(game.scale), ENDLESS)


@dataclass(frozen=True, eq=False)
class Case:
    """A learner under delays that were met, or are supposed. Rows are replications; one is enough.

    Rewards are on the learner's scale, 0 to 1; `scale` is the range of the game's, in which its regret is.
    """

    learner: Learner
    n: int
    peak: Floats  #: G*, (replications,)
    peaks: Floats  #: G*_i, (replications, actions), or (replications, values, actions) with side information
    means: Floats | None = None  #: the expected rewards where they are i.i.d., (actions,) or (values, actions)
    scale: float = 1.0
    total: Floats | None = None  #: the sum of G_1..G_n, (replications,)
    pool_rounds: Floats | None = None  #: n_c, (replications, values)
    pool_peaks: Floats | None = None  #: G*_c, (replications, values)
    by_action: bool = False  #: whether delays depend on the action
    by_reward: bool = False  #: whether they depend on the reward
    constant: bool = False  #: whether all delays are the same
    longest: int | None = None  #: the longest delay there may be, where that is known

    @property
    def has_base(self) -> bool:
        """Whether the learner has a bound without delay."""
        if self.learner.bound(self.n) is not None:
            return True
        return self.means is not None and self.learner.stochastic_bound(self.n, self.means) is not None


@dataclass(frozen=True, eq=False)
class Counts:
    """What was counted in a run, by the names of the engine's records. Rows are replications."""

    n: int
    tally: Any  #: of each action
    cells: (
        Any  #: of each action, or of each value of the side information and action where the learner tells them apart
    )
    pools: Any  #: of each value of the side information
    summary: Any
