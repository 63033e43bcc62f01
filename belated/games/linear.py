"""Bandits whose means are linear in side information."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.games.account import head
from belated.kernels.compile import kernel
from belated.kernels.random import event_draw, outcome_draw, uniform
from belated.protocols import Floats, Game

NOISES = ("bernoulli", "none")


@dataclass(frozen=True)
class Linear(Game):
    """Before each round a context x is shown, d numbers uniform on [0, 1], all independent; action a pays theta_a . x.

    With noise "bernoulli" it pays 1 with probability theta_a . x, else 0; with "none" theta_a . x itself. `theta` has
    one row an action, of one number a feature. So that theta_a . x lies in [0, 1] whatever x is, the numbers of a row
    may not be negative, nor their sum above 1.

    Regret is the pseudo-regret sum_t (max_a theta_a . x_t - theta_{a_t} . x_t): the comparator is the best action
    **given x**, another one each round, and not one fixed action. The theorems for a fixed action say nothing about it.

    >>> import belated as bl
    >>> game = bl.games.Linear([[1.0, 0.0], [0.2, 0.6]])
    >>> game.actions, game.context_size
    (2, 2)
    """

    feedback = "bandit"
    comparator = "changing"
    theta: Sequence[Sequence[float]]
    noise: str = "bernoulli"

    def __post_init__(self) -> None:
        rows = require.sequence("theta", self.theta)
        known = tuple(require.reals(f"theta[{a}]", row, low=0, high=1) for a, row in enumerate(rows))
        for a, row in enumerate(known):
            if len(row) != len(known[0]):
                raise InvalidArgument(f"theta[{a}] must have {len(known[0])} numbers as theta[0], got {len(row)}")
            if sum(row) > 1.0 + 1e-9:
                raise InvalidArgument(f"theta[{a}] must have a sum <= 1 (rewards lie in [0, 1]), got {sum(row)!r}")
        object.__setattr__(self, "theta", known)
        require.one_of("noise", self.noise, NOISES)

    @property
    def actions(self) -> int:
        return len(self.theta)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return len(self.theta[0])

    def params(self) -> Floats:
        return head(self.actions, "bandit", self.context_size, NOISES.index(self.noise), np.asarray(self.theta))

    def memory(self) -> int:
        """The regret so far, the round that the context is of, the context."""
        return 2 + self.context_size

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        show(params, memory, k0, k1, round_)
        for i in range(int(params[2])):
            context[i] = memory[2 + i]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        if memory[1] != round_:
            # nobody looked: the context is there all the same
            show(params, memory, k0, k1, round_)
        best = 0.0
        mean = 0.0
        for a in range(int(params[0])):
            value = expected(params, memory, a)
            best = max(best, value)
            if a == action:
                mean = value
        memory[0] += best - mean
        feedback[0] = mean
        if params[3] == 0.0:
            feedback[0] = 1.0 if uniform(outcome_draw(k0, k1, round_, 0), action) < mean else 0.0
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[0]


@kernel
def show(params, memory, k0, k1, round_):
    """Draw the context of a round into memory."""
    draw = event_draw(k0, k1, round_)
    for i in range(int(params[2])):
        memory[2 + i] = uniform(draw, i)
    memory[1] = round_


@kernel
def expected(params, memory, action):
    """theta_a . x, in [0, 1] whatever rounding does."""
    size = int(params[2])
    value = 0.0
    for i in range(size):
        value += params[4 + action * size + i] * memory[2 + i]
    return min(value, 1.0)
