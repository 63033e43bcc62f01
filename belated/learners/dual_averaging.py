"""Dual averaging, told late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.sets import into_ball
from belated.protocols import Learner

DAMPINGS = ("proved", "theirs")


@dataclass(frozen=True)
class DualAveraging(Learner):
    """Adds up all gradients z and plays the nearest point of the ball to -alpha z: for one smooth loss seen with noise.

    After m gradients 1 / alpha = `smoothness` (tau + 1)^2 + `noise` sqrt(2 (m + 1)) / radius. With damping "theirs" the
    first part is `smoothness` alone: much faster under long delays, and without a bound here. `noise` is the deviation
    of a gradient, `tau` the delay. At the constant delay tau, E sum f(x_t) - f* is at most `bounds.dual_averaging`.

    Agarwal, Duchi, *Distributed delayed stochastic optimization*, 2011.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DualAveraging(size=2, radius=1.0, smoothness=1.0, noise=0.0, tau=0))
    >>> first = f.predict()
    >>> f.update(first.ticket, [0.5, 0.0])
    >>> f.predict().action.tolist()
    [-0.5, 0.0]
    """

    guarantee = "min(n, tau + 1)(f(x_1) - f*) + beta R^2 (tau + 1)^2 / 2 + sqrt(2 n) sigma R at the constant delay tau"
    size: int
    radius: float
    smoothness: float
    noise: float
    tau: int
    damping: str = "proved"
    actions = 1
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    reads_answering = False

    def __post_init__(self) -> None:
        require.integer("size", self.size, low=1)
        require.real("radius", self.radius, above=0)
        require.real("smoothness", self.smoothness, above=0)
        require.real("noise", self.noise, low=0)
        require.integer("tau", self.tau, low=0)
        require.one_of("damping", self.damping, DAMPINGS)

    @classmethod
    def example(cls) -> DualAveraging:
        """Points of three numbers."""
        return cls(3, 1.0, 1.0, 0.5, 2)

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.size

    @property
    def point_size(self) -> int:  # type: ignore[override]
        return self.size

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("updates", "i8"), ("total", "f8", (self.size,)), ("point", "f8", (self.size,))])

    def params(self) -> dict[str, Any]:
        late = self.tau + 1.0 if self.damping == "proved" else 1.0
        return {
            "firm": self.smoothness * late * late,
            "shaky": self.noise * math.sqrt(2.0) / self.radius,
            "radius": float(self.radius),
        }

    @staticmethod
    def predict(params, state, context, draw):
        for i in range(len(state.point)):
            state.memo[i] = state.point[i]
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.updates += 1
        damping = params.firm + params.shaky * math.sqrt(float(state.updates) + 1.0)
        for i in range(len(state.point)):
            state.total[i] += feedback[i]
            state.point[i] = -state.total[i] / damping
        into_ball(state.point, params.radius)
