"""LinUCB."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated import require
from belated.kernels.ties import largest_index
from belated.learners.linear_model import add, check_sizes, forget, learn, limit, migrate, model, square, value
from belated.protocols import Learner


@dataclass(frozen=True)
class LinUCB(Learner):
    """A linear model for each action; plays the largest theta_a . x + width sqrt(x^T A_a^-1 x), x the context.

    A_a = ridge I + sum x x^T and theta_a = A_a^-1 sum r x, over the rounds in which action a was played and its reward
    r is known. Played directly under delay, an update uses the context of the round that it answers. A root of A_a^-1
    is kept: a prediction takes K d^2 steps, an update d^2. Features should be of the order of 1 (those beyond
    1e10 sqrt(ridge) are refused): d of them, and one that is always 1 where a constant is wanted.

    Li, Chu, Langford, Schapire, *A contextual-bandit approach to personalized news article recommendation*, 2010
    (algorithm 1, with ridge = 1 and width = alpha).

    >>> import belated as bl
    >>> f = bl.Direct(bl.LinUCB(actions=2, features=2))
    >>> late, soon = f.predict([1.0, 0.0]), f.predict([0.0, 1.0])
    >>> f.update(soon.ticket, 1.0)
    >>> late.action, soon.action, f.predict([0.0, 1.0]).action
    (0, 1, 1)
    """

    guarantee = "none claimed for this width"
    can_grow = True
    version = 3  # the matrix is kept the other way round
    migrate = staticmethod(migrate)
    reads_answering = False
    actions: int
    features: int
    width: float = field(default=1.0, kw_only=True)
    ridge: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        check_sizes(self.actions, self.features)
        object.__setattr__(self, "width", require.real("width", self.width, low=0))
        object.__setattr__(self, "ridge", require.real("ridge", self.ridge, above=0))

    @classmethod
    def example(cls) -> LinUCB:
        """Three actions, four features."""
        return cls(3, 4)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.features

    @property
    def context_limit(self) -> float:  # type: ignore[override]
        return limit(self.ridge)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        return np.dtype([*model(self.features, self.actions), ("index", "f8", k), ("predicted", "i8", k)])

    def params(self) -> dict[str, Any]:
        return {"width": self.width, "ridge": self.ridge}

    def start(self, state: Any) -> None:
        state["root"][:] = np.eye(self.features) / math.sqrt(self.ridge)

    @staticmethod
    def predict(params, state, context, draw):
        for a in range(len(state.index)):
            deviation = math.sqrt(square(state.root[a], context, state.along))
            state.index[a] = value(state.theta[a], context) + params.width * deviation
        action = largest_index(state.index, state.predicted)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        add(state.root[action], context, state.along)
        learn(state.theta[action], context, state.along, feedback[0])

    @staticmethod
    def replace(params, state, action):
        forget(params, state, action)
        state.index[action] = 0.0
        state.predicted[action] = 0
