"""Uniform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.random import uniform
from belated.protocols import Learner


@dataclass(frozen=True)
class Uniform(Learner):
    """Plays every action with probability 1/K and learns nothing: the reference to beat.

    >>> import belated as bl
    >>> bl.Direct(bl.Uniform(actions=5), seed=0).predict().probability
    0.2
    """

    guarantee = "none: it learns nothing"
    can_grow = True
    reads_answering = False
    actions: int
    feedback = "any"

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions}

    @staticmethod
    def predict(params, state, context, draw):
        return int(uniform(draw, 0) * params.actions), 1.0 / params.actions

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        pass

    @staticmethod
    def replace(params, state, action):
        pass
