"""Online gradient descent, told late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.sets import FAR, SETS, SIMPLEX, into_set, width
from belated.kernels.simplex import exponential_weights
from belated.learners.descent import FIXED, SLOWED, STEPS, Descent, show, step_length, tick
from belated.protocols import Game, Learner

STEPPED = ("euclidean", "entropic")


@dataclass(frozen=True)
class GradientDescent(Descent):
    """Walks against each gradient as it comes, from the middle of its set: x <- nearest(x - eta g).

    The set is the ball of the radius around 0, the box [-radius, radius]^size or the simplex {x >= 0, sum x = radius}
    (`domain`). The default steps know nothing of the delays: regret against the best fixed point is at most
    2 F L sqrt(n + 2 D), D the sum of G_t, F the width of the set (sqrt 2 radius for the ball). See `Descent` for the
    other steps: `tau` for a known delay, `curvature` for strongly convex losses, `rate` for a fixed length.

    With `steps="entropic"`, on the simplex, the point is radius times the weights of Hedge: x_i ~ exp(-eta_t Z_i), Z
    the sum of the gradients that have come, eta_t = sqrt(ln size) / (L sqrt(t + 2 D_t)), with (1 + 2 tau) t below the
    root if `tau` is given. The bounds are the same with F = radius sqrt(ln size), and L half the largest difference of
    two numbers of a gradient (nothing else of it matters on the simplex), at most the largest of them: far less than
    its length if it has many. At L = 1/2 and radius 1 these are the probabilities of `DelayedHedge`, to the bit.

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
    steps: str = "euclidean"

    def __post_init__(self) -> None:
        require.integer("size", self.size, low=1)
        require.one_of("domain", self.domain, SETS)
        require.one_of("steps", self.steps, STEPPED)
        if self.entropic and (self.domain != SETS[SIMPLEX] or self.curvature):
            raise InvalidArgument(
                "entropic steps are for the simplex and take no curvature, got "
                f"domain={self.domain!r}, curvature={self.curvature!r}"
            )
        if math.isinf(float(self.radius)) and self.domain != "ball":
            raise InvalidArgument(f"a {self.domain} needs a finite radius, got {self.radius!r}")
        self.check_steps()

    @classmethod
    def example(cls) -> GradientDescent:
        """Points of three numbers."""
        return cls(3)

    @property
    def entropic(self) -> bool:
        """Whether its steps are."""
        return self.steps == STEPPED[1]

    @property
    def width(self) -> float:
        if self.entropic:
            return self.radius * math.sqrt(math.log(self.size))
        return width(self.domain, self.size, self.radius)

    @property
    def measure(self) -> str:  # type: ignore[override]
        return "spread" if self.entropic else "lipschitz"

    def layout(self) -> np.dtype[Any]:
        return np.dtype([*STEPS, ("point", "f8", (self.size,))])

    def start(self, state: Any) -> None:
        if self.domain == SETS[SIMPLEX] and not self.entropic:
            state["point"][:] = self.radius / self.size

    def params(self) -> dict[str, Any]:
        known = {**self.step_params(), "domain": SETS.index(self.domain), "radius": float(self.radius)}
        if self.entropic and self.rate is None:
            known["length"] = 1.0 / self.lipschitz
        slow = 1.0 + 2.0 * (self.tau or 0)
        return {**known, "entropic": int(self.entropic), "entropy": float(log(float(self.size))), "slow": slow}

    @staticmethod
    def predict(params, state, context, draw):
        tick(state)
        if params.entropic:
            weigh(params, state)
        else:
            show(state)
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if params.entropic:
            for i in range(len(state.point)):
                state.point[i] = min(max(state.point[i] + feedback[i], -FAR), FAR)
        else:
            step = step_length(params, state)
            for i in range(len(state.point)):
                state.point[i] -= step * feedback[i]
            into_set(state.point, params.domain, params.radius)

    def facing(self, game: Game) -> Learner | str:
        reason = self.elsewhere(game) if self.rate is None else None
        return reason or super().facing(game)


@kernel
def weigh(params, state):
    """Entropic steps: `point` is the sum of the gradients, what is played the weights that fall with it."""
    rate = params.length
    if params.rule != FIXED:
        time = params.slow * float(state.predictions) if params.rule == SLOWED else state.clock
        rate *= math.sqrt(params.entropy / time)
    total = exponential_weights(state.point, rate, state.memo)
    for i in range(len(state.memo)):
        state.memo[i] = params.radius * (state.memo[i] / total)
