"""Round robin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.protocols import Learner


@dataclass(frozen=True)
class RoundRobin(Learner):
    """Plays 0, 1, ..., K-1, 0, ... one step per prediction and learns nothing.

    >>> import belated as bl
    >>> f = bl.Direct(bl.RoundRobin(actions=2))
    >>> [f.predict().action for _ in range(5)]
    [0, 1, 0, 1, 0]
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
        return (state.predictions - 1) % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        pass

    @staticmethod
    def replace(params, state, action):
        pass
