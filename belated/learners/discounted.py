"""Rewards that are weighed by discount^age. What `DiscountedUCB` and `DiscountedThompson` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.elementary import exp, log
from belated.protocols import Learner


@dataclass(frozen=True)
class Discounted(Learner):
    """A learner whose state has the sums `total` and `seen` of the weighed rewards, and of their weights."""

    guarantee = "none stated under delay"
    can_grow = True
    actions: int
    discount: float

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("discount", self.discount, above=0, high=1)

    @classmethod
    def example(cls) -> Self:
        """Three actions, of which a reward counts half after 14 rounds."""
        return cls(3, 0.95)

    def params(self) -> dict[str, Any]:
        return {"discount": float(self.discount)}

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        enter_faded(params, state, action, feedback[0])


@kernel
def fade(params, state):
    """All that was told is one prediction older."""
    for i in range(len(state.seen)):
        state.total[i] *= params.discount
        state.seen[i] *= params.discount


@kernel
def enter_faded(params, state, action, reward):
    """A reward, with the weight of its age."""
    age = state.predictions - state.answering
    weight = 1.0 if age == 0 else exp(float(age) * log(params.discount))
    state.total[action] += weight * reward
    state.seen[action] += weight
