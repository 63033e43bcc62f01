"""Linear Thompson sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated import require
from belated.kernels.elementary import erfc
from belated.kernels.sampling import TINY, normals
from belated.learners.linear_model import add, check_sizes, forget, learn, limit, migrate, model, square, value
from belated.protocols import Learner

ROOT_2 = 1.4142135623730951


@dataclass(frozen=True)
class LinearThompson(Learner):
    """Draws a linear model for each action, N(theta_a, scale^2 A_a^-1), and plays the one that is best for context x.

    A_a = ridge I + sum x x^T and theta_a = A_a^-1 sum r x, over the rounds in which action a was played and its reward
    r is known (of their own contexts, however late). Only the values at x matter, so these are drawn: independent
    normal numbers of mean theta_a . x and variance scale^2 x^T A_a^-1 x. Equal values, as at x = 0, go to the lowest
    number. Features beyond 1e10 sqrt(ridge) are refused.

    The probability of a decision is that of the action **given the values drawn for the others**, as with
    `ThompsonBernoulli`: exact, and dividing by it is unbiased.

    Agrawal, Goyal, *Thompson sampling for contextual bandits with linear payoffs*, ICML 2013 (there with one theta for
    all actions).

    >>> import belated as bl
    >>> f = bl.Direct(bl.LinearThompson(actions=2, features=3), seed=1)
    >>> f.update(f.predict([1.0, 0.5, 0.2]).ticket, 1.0)
    """

    guarantee = "none claimed for this scale"
    can_grow = True
    version = 4  # the matrix is kept the other way round; before that, elementary functions of our own
    migrate = staticmethod(migrate)
    reads_answering = False
    actions: int
    features: int
    scale: float = field(default=0.5, kw_only=True)
    ridge: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        check_sizes(self.actions, self.features)
        object.__setattr__(self, "scale", require.real("scale", self.scale, above=0))
        object.__setattr__(self, "ridge", require.real("ridge", self.ridge, above=0))

    @classmethod
    def example(cls) -> LinearThompson:
        """Three actions, four features."""
        return cls(3, 4)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.features

    @property
    def context_limit(self) -> float:  # type: ignore[override]
        return limit(self.ridge)

    def layout(self) -> np.dtype[Any]:
        return np.dtype(model(self.features, self.actions))

    def params(self) -> dict[str, Any]:
        return {"scale": self.scale, "ridge": self.ridge}

    def start(self, state: Any) -> None:
        state["root"][:] = np.eye(self.features) / math.sqrt(self.ridge)

    @staticmethod
    def predict(params, state, context, draw):
        action = 0
        centre = 0.0
        spread = 0.0
        best = -math.inf
        second = -math.inf
        z = 0.0
        other = 0.0
        for a in range(state.theta.shape[0]):
            if a % 2 == 0:
                z, other = normals(draw, a // 2)
            else:
                z = other
            mean = value(state.theta[a], context)
            deviation = params.scale * math.sqrt(square(state.root[a], context, state.along))
            drawn = mean + deviation * z
            if drawn > best:
                second = best
                best = drawn
                action = a
                centre = mean
                spread = deviation
            elif drawn > second:
                second = drawn
        if params.unread or spread <= 0.0 or second == -math.inf:
            return action, 1.0
        probability = 0.5 * erfc((second - centre) / (spread * ROOT_2))
        return action, min(max(probability, TINY), 1.0)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        add(state.root[action], context, state.along)
        learn(state.theta[action], context, state.along, feedback[0])

    @staticmethod
    def replace(params, state, action):
        forget(params, state, action)
