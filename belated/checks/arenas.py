"""Games that checks play where the catalog has none: losses of points, and rewards of any range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.games import LinearLosses, RewardTable
from belated.kernels.compile import kernel
from belated.kernels.pointers import behind
from belated.kernels.random import uniform
from belated.protocols import Feedback, Floats, Game, Learner


@dataclass(frozen=True, eq=False, repr=False)
class RangedLosses(LinearLosses):
    """Linear losses whose gradients are said to lie in a range."""

    smallest: float = -math.inf
    largest: float = math.inf


pay = kernel(RewardTable.outcome)
account = kernel(RewardTable.regret)
show = kernel(RewardTable.observe)


@dataclass(frozen=True, eq=False)
class Stretched(Game):
    """A table of rewards, stretched from [0, 1] to another range."""

    inner: RewardTable
    smallest: float
    largest: float

    @property
    def actions(self) -> int:
        return self.inner.actions

    @property
    def feedback(self) -> Feedback:  # type: ignore[override]
        return self.inner.feedback

    @property
    def scale(self) -> float:  # type: ignore[override]
        return self.largest - self.smallest

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.inner.context_size

    @property
    def values(self) -> int:  # type: ignore[override]
        return self.inner.values

    @property
    def contexts(self) -> Any:
        return self.inner.contexts

    @property
    def table(self) -> Floats:
        """What is paid."""
        return self.smallest + self.scale * np.asarray(self.inner.table)

    def longest(self) -> int:
        return self.inner.longest()

    def params(self) -> Floats:
        return np.concatenate([[self.smallest, self.scale, float(self.feedback_size)], self.inner.params()])

    def memory(self) -> int:
        return self.inner.memory()

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        earned = pay(behind(params, 3), memory, k0, k1, round_, action, feedback)
        for i in range(int(params[2])):
            feedback[i] = params[0] + params[1] * feedback[i]
        return params[0] + params[1] * earned

    @staticmethod
    def regret(params, memory):
        return params[1] * account(behind(params, 3), memory)

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        show(behind(params, 3), memory, k0, k1, round_, context)


@dataclass(frozen=True)
class Wanders(Learner):
    """Plays points at random, each number in [0, 1 / size], and learns nothing: for games of points."""

    point_size: int
    actions = 1
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.point_size

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("told", "i8")])

    @staticmethod
    def predict(params, state, context, draw):
        for i in range(len(state.memo)):
            state.memo[i] = uniform(draw, i) / len(state.memo)
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.told += 1


def ends(learner: Learner) -> tuple[float, float]:
    """Between which numbers an arena's feedback lies: the learner's range, or a part of it where that is infinite."""
    low = float(learner.smallest) if math.isfinite(learner.smallest) else min(-1.0, float(learner.largest) - 2.0)
    high = float(learner.largest) if math.isfinite(learner.largest) else max(1.0, low + 2.0)
    return low, high
