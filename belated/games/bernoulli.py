"""Bernoulli bandits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.games.account import check_feedback, gaps, head, pseudo_regret
from belated.kernels.random import outcome_draw, uniform
from belated.kernels.sampling import pair
from belated.protocols import Feedback, Floats, Game


@dataclass(frozen=True)
class Bernoulli(Game):
    """Action i pays 1 with probability p_i, else 0, independently of everything else.

    Regret is the pseudo-regret sum_i (max p - p_i) T_i, with T_i plays of action i. The reward of an action
    in a round is the same whether or not it is played, and under either kind of feedback.

    >>> import belated as bl
    >>> game = bl.games.Bernoulli([0.2, 0.5, 0.9])
    >>> print(game.means().max() - game.means().min())
    0.7
    """

    stochastic = True
    probabilities: Sequence[float]
    feedback: Feedback = "bandit"

    def __post_init__(self) -> None:
        values = require.reals("means", self.probabilities, low=0, high=1)
        object.__setattr__(self, "probabilities", values)
        check_feedback(self.feedback)

    @property
    def actions(self) -> int:
        return len(self.probabilities)

    def means(self) -> Floats:
        return np.array(self.probabilities)

    def params(self) -> Floats:
        return head(self.actions, self.feedback, gaps(self.means()), self.means())

    def memory(self) -> int:
        return self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        memory[action] += 1.0
        count = int(params[0])
        draw = outcome_draw(k0, k1, round_, 0)
        if params[1] == 0.0:
            feedback[0] = 1.0 if uniform(draw, action) < params[2 + count + action] else 0.0
            return feedback[0]
        for i in range(0, count, 2):
            u, v = pair(draw, i // 2)
            feedback[i] = 1.0 if u < params[2 + count + i] else 0.0
            if i + 1 < count:
                feedback[i + 1] = 1.0 if v < params[3 + count + i] else 0.0
        return feedback[action]

    regret = staticmethod(pseudo_regret)
