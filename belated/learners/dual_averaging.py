"""Dual averaging, told late."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from belated import require
from belated.kernels.sets import FAR, into_ball
from belated.learners.descent import Points, show
from belated.protocols import Game, Learner
from belated.theory import related
from belated.theory.case import unit_of

DAMPINGS = ("proved", "theirs")


@dataclass(frozen=True)
class DualAveraging(Points):
    """Adds up all gradients z and plays the nearest point of the ball to -alpha z: for one smooth loss seen with noise.

    After m gradients 1 / alpha = `smoothness` (tau + 1)^2 + `noise` sqrt(2 (m + 1)) / radius. With damping "theirs" the
    first part is `smoothness` alone: much faster under long delays, and without a bound here. `noise` is the deviation
    of a gradient, `tau` the delay. At the constant delay tau, E sum f(x_t) - f* is at most `bounds.dual_averaging`.

    Agarwal, Duchi, *Distributed delayed stochastic optimization*, 2011.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DualAveraging(size=2, radius=1.0, smoothness=1.0, noise=0.0, tau=0))
    >>> first = f.predict()
    >>> f.update(first.ticket, [0.5, -0.25])
    >>> f.predict().action.tolist()
    [-0.5, 0.25]
    """

    guarantee = "min(n, tau + 1)(f(x_1) - f*) + beta R^2 (tau + 1)^2 / 2 + sqrt(2 n) sigma R at the constant delay tau"
    size: int
    radius: float
    smoothness: float
    noise: float
    tau: int
    damping: str = "proved"
    domain = "ball"

    def __post_init__(self) -> None:
        require.integer("size", self.size, low=1)
        require.real("radius", self.radius, above=0)
        require.real("smoothness", self.smoothness, above=0)
        require.real("noise", self.noise, low=0)
        require.integer("tau", self.tau, low=0)
        require.one_of("damping", self.damping, DAMPINGS)

    #: In the game that it faces: f(0) - f*, and what regret is measured in.
    begins: ClassVar[tuple[float, float] | None] = None

    def facing(self, game: Game) -> Learner | str:
        smooth, above = getattr(game, "smooth", None), getattr(game, "above", None)
        if smooth is None or above is None:
            return f"{type(game).__name__} does not say how smooth its loss is"
        theirs, mine = smooth, (self.smoothness, self.radius, self.noise)
        if self.damping != "proved" or any(x > y * (1 + 1e-12) for x, y in zip(theirs, mine, strict=True)):
            return (
                "its bound is for the damping that is proved, and for a loss as smooth, noisy and near as it was told"
            )
        learner = copy.copy(self)
        object.__setattr__(learner, "begins", (float(above), unit_of(game)))
        return learner

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        if self.begins is None or not constant or not (peak == self.tau or n <= peak + 1 <= self.tau + 1):
            return None
        start, unit = self.begins
        return related.dual_averaging(n, start, self.smoothness, self.radius, self.noise, self.tau) / unit

    def bound(self, n: float) -> float | None:
        return self.bound_at_peak(int(n), 0.0, True) if self.tau == 0 else None

    @classmethod
    def example(cls) -> DualAveraging:
        """Points of three numbers."""
        return cls(3, 1.0, 1.0, 0.5, 2)

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
        show(state)
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.updates += 1
        damping = params.firm + params.shaky * math.sqrt(float(state.updates) + 1.0)
        for i in range(len(state.point)):
            state.total[i] = min(max(state.total[i] + feedback[i], -FAR), FAR)
            state.point[i] = -state.total[i] / damping
        into_ball(state.point, params.radius)
