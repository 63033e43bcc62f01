"""Bandits with expert advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.games.account import head, pseudo_regret
from belated.kernels.random import outcome_draw, uniform
from belated.protocols import Floats, Game


@dataclass(frozen=True)
class Advice(Game):
    """Action i pays 1 with probability mu_i, else 0, and before each round every expert advises a law over the actions.

    `experts` has one row an expert, of one probability an action: its advice xi_e, the same each round. The context is
    all of it, row by row, as `Exp4` takes it.

    Regret is the pseudo-regret against the best expert, sum_t (max_e xi_e . mu - mu_{a_t}). One fixed expert is what
    the theorem of Exp4 compares with. No expert is better than the best action, so bounds against that hold here too,
    and a forecaster that plays it has negative regret where no expert does.

    >>> import belated as bl
    >>> game = bl.games.Advice([0.2, 0.5, 0.9], experts=[[1, 0, 0], [0, 0.5, 0.5]])
    >>> game.actions, game.context_size
    (3, 6)
    """

    feedback = "bandit"
    comparator = "expert"
    means: Sequence[float]
    experts: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", require.reals("means", self.means, low=0, high=1))
        rows = require.sequence("experts", self.experts)
        known = tuple(require.reals(f"experts[{e}]", row, low=0, high=1) for e, row in enumerate(rows))
        for e, row in enumerate(known):
            if len(row) != self.actions:
                raise InvalidArgument(f"experts[{e}] must have {self.actions} numbers, one an action, got {len(row)}")
            if abs(sum(row) - 1.0) > 1e-9:
                raise InvalidArgument(f"experts[{e}] must sum to 1, got {sum(row)!r}")
        object.__setattr__(self, "experts", known)

    @property
    def actions(self) -> int:
        return len(self.means)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return len(self.experts) * self.actions

    def params(self) -> Floats:
        means, advice = np.asarray(self.means), np.asarray(self.experts)
        return head(self.actions, "bandit", (advice @ means).max() - means, means, self.context_size, advice)

    def memory(self) -> int:
        """Plays of each action."""
        return self.actions

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        at = 2 + 2 * int(params[0])
        for i in range(int(params[at])):
            context[i] = params[at + 1 + i]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        memory[action] += 1.0
        mean = params[2 + int(params[0]) + action]
        feedback[0] = 1.0 if uniform(outcome_draw(k0, k1, round_, 0), action) < mean else 0.0
        return feedback[0]

    regret = staticmethod(pseudo_regret)
