"""Hints: a guess of what is still missing, from what is in. What `DORM`, `DORMPlus` and `AdaHedgeD` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.kernels.simplex import pick
from belated.protocols import Learner

#: What is missing counts as nothing, as so many times what was told last, or as so many times the mean.
HINTS = ("none", "last", "mean")
LAST, MEAN = 1, 2


@dataclass(frozen=True)
class Hinted(Learner):
    """A learner of full information with a hint. `total` and `last` are sums and the last of what it adds up."""

    actions: int
    hint: str = "none"
    feedback = "full"
    counts_open = True
    reads_answering = False

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.one_of("hint", self.hint, HINTS)

    #: Vectors of the state beside those that all have.
    more: ClassVar[tuple[str, ...]] = ("weight",)

    def layout(self) -> np.dtype[Any]:
        vectors = ("total", "last", "hint", *self.more)
        return np.dtype([("told", "i8"), *((name, "f8", (self.actions,)) for name in vectors)])

    def params(self) -> dict[str, Any]:
        return {"hint": HINTS.index(self.hint)}


@kernel
def guess(params, state):
    """Fill state.hint for all that is missing, the round in progress included."""
    missing = float(state.open + 1)
    for i in range(len(state.hint)):
        if params.hint == LAST:
            state.hint[i] = missing * state.last[i]
        elif params.hint == MEAN:
            state.hint[i] = missing * (state.total[i] / float(max(state.told, 1)))


@kernel
def draw_weighted(state, draw):
    """Make the weights sum to one, all alike if there are none; draw an action by them."""
    whole = 0.0
    for i in range(len(state.weight)):
        whole += state.weight[i]
    for i in range(len(state.weight)):
        state.weight[i] = state.weight[i] / whole if whole > 0.0 else 1.0 / float(len(state.weight))
    action = pick(state.weight, 1.0, uniform(draw, 0))
    return action, state.weight[action]


@kernel
def add_regrets(state, feedback):
    """Add the regrets <g, w> - g_i of a round to what was told; w is in the memo, g = 1 - rewards."""
    paid = 0.0
    for i in range(len(state.total)):
        paid += (1.0 - feedback[i]) * state.memo[i]
    state.told += 1
    for i in range(len(state.total)):
        state.last[i] = paid - (1.0 - feedback[i])
        state.total[i] += state.last[i]
