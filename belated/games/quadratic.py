"""One quadratic loss, seen through noisy gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.random import outcome_draw
from belated.kernels.sampling import normals
from belated.protocols import Floats, Game


@dataclass(frozen=True)
class Quadratic(Game):
    """The loss of a point x is sum_i A_i (x_i - c_i)^2 / 2 in every round, A the curvatures and c the centre.

    The feedback is its gradient, plus a normal vector of variance noise^2 in all (noise^2 / size in each number).
    Regret is sum_t f(x_t): the best point, the centre, loses nothing. With a `radius`, points are those of that ball,
    the centre must be one of them, and gradients without noise have a largest length: then steps for strongly convex
    losses have a bound, with `curvature` the least of the curvatures.

    >>> import belated as bl
    >>> game = bl.games.Quadratic([1.0, 0.5], [0.5, -0.5], noise=1.0)
    >>> game.point_size, game.smooth
    (2, (1.0, 0.7071067811865476, 1.0))
    """

    any_round = True
    actions = 1
    comparator = "action"
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    against = "point"
    domain = "ball"
    curvatures: Sequence[float]
    centre: Sequence[float]
    noise: float = 0.0
    radius: float = math.inf

    def __post_init__(self) -> None:
        curvatures = require.reals("curvatures", self.curvatures, low=0, high=1e300)
        centre = require.reals("centre", self.centre, low=-1e300, high=1e300)
        if len(centre) != len(curvatures):
            raise InvalidArgument(f"centre must have {len(curvatures)} numbers as curvatures, got {len(centre)}")
        object.__setattr__(self, "curvatures", curvatures)
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "noise", require.real("noise", self.noise, low=0))
        object.__setattr__(self, "radius", require.real("radius", self.radius, above=0, infinite=True))
        if self.smooth[1] > self.radius * (1 + 1e-12):
            raise InvalidArgument(
                f"centre must lie in the ball of radius {self.radius:g}, it is {self.smooth[1]:g} away from 0: "
                f"{list(centre)}"
            )

    @property
    def point_size(self) -> int:  # type: ignore[override]
        return len(self.centre)

    @property
    def smooth(self) -> tuple[float, float, float]:
        """The largest curvature, how far the best point is from 0, and the noise."""
        return max(self.curvatures), math.sqrt(sum(c * c for c in self.centre)), float(self.noise)

    @property
    def curvature(self) -> float:
        """The least curvature: the loss is so strongly convex."""
        return min(self.curvatures)

    @property
    def lipschitz(self) -> float | None:
        """No gradient is longer; None where there is no longest."""
        most, away, noise = self.smooth
        return None if noise or math.isinf(self.radius) else most * (self.radius + away)

    @property
    def scale(self) -> float:  # type: ignore[override]
        """What a round can cost at most."""
        most, away, _ = self.smooth
        return most * (self.radius + away) ** 2 / 2.0 or 1.0

    @property
    def above(self) -> float:
        """How much the loss at 0 is above the least."""
        return sum(a * c * c / 2.0 for a, c in zip(self.curvatures, self.centre, strict=True))

    def params(self) -> Floats:
        size = float(self.point_size)
        return np.array([size, self.noise / math.sqrt(size), *self.curvatures, *self.centre])

    def memory(self) -> int:
        """The loss so far."""
        return 1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        size = int(params[0])
        loss = 0.0
        for i in range(size):
            away = feedback[i] - params[2 + size + i]
            feedback[i] = params[2 + i] * away
            loss += feedback[i] * away / 2.0
        if params[1] > 0.0:
            draw = outcome_draw(k0, k1, round_, 0)
            for i in range(0, size, 2):
                first, second = normals(draw, i // 2)
                feedback[i] += params[1] * first
                if i + 1 < size:
                    feedback[i + 1] += params[1] * second
        memory[0] += loss
        return -loss

    @staticmethod
    def regret(params, memory):
        return memory[0]
