"""Online gradient descent, told late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.sets import SETS, SIMPLEX, into_set, width
from belated.learners.descent import STEPS, Descent, show, step_length, tick
from belated.protocols import Game, Learner


@dataclass(frozen=True)
class GradientDescent(Descent):
    """Walks against each gradient as it comes, from the middle of its set: x <- nearest(x - eta g).

    The set is the ball of the radius around 0, the box [-radius, radius]^size or the simplex {x >= 0, sum x = radius}
    (`domain`). The default steps know nothing of the delays: regret against the best fixed point is at most
    2 F L sqrt(n + 2 D), D the sum of G_t, F the width of the set (sqrt 2 radius for the ball). See `Descent` for the
    other steps: `tau` for a known delay, `curvature` for strongly convex losses, `rate` for a fixed length.

    Zinkevich 2003; under delay Langford, Smola, Zinkevich, *Slow learners are fast*, 2009; with the sum of G_t as
    McMahan, Streeter 2014 and Quanrud, Khashabi 2015.

    >>> import belated as bl
    >>> f = bl.Direct(bl.GradientDescent(size=2))
    >>> first = f.predict()
    >>> first.action.tolist()
    [0.0, 0.0]
    >>> f.update(first.ticket, [0.6, -0.8])
    >>> [round(x, 3) for x in f.predict().action.tolist()]
    [-0.6, 0.8]
    """

    guarantee = "2 F L sqrt(n + 2 D) told directly, D the sum of G_t, F the set's width; any convex losses"
    size: int
    radius: float = 1.0
    lipschitz: float = 1.0
    tau: int | None = None
    curvature: float = 0.0
    rate: float | None = None
    domain: str = "ball"

    def __post_init__(self) -> None:
        require.integer("size", self.size, low=1)
        require.one_of("domain", self.domain, SETS)
        if math.isinf(float(self.radius)) and self.domain != "ball":
            raise InvalidArgument(f"a {self.domain} needs a finite radius, got {self.radius!r}")
        self.check_steps()

    @classmethod
    def example(cls) -> GradientDescent:
        """Points of three numbers."""
        return cls(3)

    @property
    def width(self) -> float:
        return width(self.domain, self.size, self.radius)

    @property
    def reach(self) -> float:
        """How far from 0 its points may be."""
        return self.radius * (math.sqrt(self.size) if self.domain == "box" else 1.0)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([*STEPS, ("point", "f8", (self.size,))])

    def start(self, state: Any) -> None:
        if self.domain == SETS[SIMPLEX]:
            state["point"][:] = self.radius / self.size

    def params(self) -> dict[str, Any]:
        return {**self.step_params(), "domain": SETS.index(self.domain), "radius": float(self.radius)}

    @staticmethod
    def predict(params, state, context, draw):
        tick(state)
        show(state)
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        step = step_length(params, state)
        for i in range(len(state.point)):
            state.point[i] -= step * feedback[i]
        into_set(state.point, params.domain, params.radius)

    def facing(self, game: Game) -> Learner | str:
        if getattr(game, "against", None) != "point":
            return f"the regret of {type(game).__name__} is not against the best fixed point"
        theirs = getattr(game, "domain", None), float(getattr(game, "radius", math.inf))
        if self.rate is None and theirs != (self.domain, float(self.radius)):
            return f"regret is against the best point of a {theirs[0]} of radius {theirs[1]:g}, it plays in another set"
        return super().facing(game)
