"""Arms whose means are drawn from a Gaussian process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.games.account import head
from belated.kernels import covariances
from belated.kernels.compile import kernel, plain
from belated.kernels.random import event_draw, key_of, outcome_draw
from belated.kernels.sampling import normals
from belated.protocols import Floats, Game

#: As many points as `repr` shows the covariance of.
SHOWN = 4


@dataclass(frozen=True, repr=False)
class GaussianProcess(Game):
    """Action a pays f(a) and normal noise; f is drawn anew in each replication, normal with mean 0 and this covariance.

    `noise` is a variance. Rewards may be any number. Regret is sum_t max f - f(a_t).

    >>> import belated as bl
    >>> game = bl.games.GaussianProcess(bl.kernels.squared_exponential([0.0, 0.1, 1.0], scale=0.2), noise=0.01)
    >>> game.actions, game.function(seed=0, replication=3).round(3).tolist()
    (3, [0.706, 1.143, 0.872])
    """

    comparator = "action"
    feedback = "bandit"
    smallest = -math.inf
    largest = math.inf
    scale = math.inf
    covariance: Any
    noise: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", covariances.checked(self.covariance))
        object.__setattr__(self, "noise", require.real("noise", self.noise, low=0, high=1e100))

    @property
    def actions(self) -> int:
        return len(self.covariance)

    def function(self, seed: int = 0, replication: int = 0) -> Floats:
        """f, as `play` draws it under that seed in that replication."""
        memory = np.zeros(self.memory())
        plain(draw_function)(self.params(), memory, *key_of(seed, replication))
        return memory[2:]

    def params(self) -> Floats:
        return head(self.actions, "bandit", math.sqrt(self.noise), covariances.root(self.covariance))

    def memory(self) -> int:
        """The regret so far, the largest f, and f."""
        return 2 + self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        if round_ == 1:
            draw_function(params, memory, k0, k1)
        z, _other = normals(outcome_draw(k0, k1, round_, action), 0)
        feedback[0] = memory[2 + action] + params[2] * z
        memory[0] += memory[1] - memory[2 + action]
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[0]

    def __repr__(self) -> str:
        shown = self.covariance if self.actions <= SHOWN else f"<{self.actions} x {self.actions}>"
        return f"GaussianProcess(covariance={shown}, noise={self.noise!r})"


@kernel
def draw_function(params, memory, k0, k1):
    """f = L z with independent normal z, and its largest value."""
    size = int(params[0])
    draw = event_draw(k0, k1, 0)
    for i in range(size):
        memory[2 + i] = 0.0
    for j in range(0, size, 2):
        first, second = normals(draw, j // 2)
        for i in range(j, size):
            memory[2 + i] += params[3 + i * size + j] * first
        for i in range(j + 1, size):
            memory[2 + i] += params[3 + i * size + j + 1] * second
    memory[1] = memory[2]
    for i in range(1, size):
        memory[1] = max(memory[1], memory[2 + i])
