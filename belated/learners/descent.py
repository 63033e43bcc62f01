"""What the learners that walk against gradients share: the length of a step, and what that proves."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.sets import set_of
from belated.protocols import Game, Learner
from belated.theory import related
from belated.theory.case import unit_of

FIXED, CURVED, SLOWED, ADAPTIVE = 0, 1, 2, 3


class Points(Learner):
    """Its action is a point of `size` numbers, `point` in its state; its feedback the gradient of the loss there."""

    actions = 1
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    reads_answering = False
    size: int

    @property
    def memo(self) -> int:  # type: ignore[override]
        return self.size

    @property
    def point_size(self) -> int:  # type: ignore[override]
        return self.size

    def elsewhere(self, game: Game) -> str | None:
        """Why the regret of a game is not against the best point of the set that this plays in; None if it is."""
        if getattr(game, "against", None) != "point":
            return f"the regret of {type(game).__name__} is not against the best fixed point"
        mine, its = set_of(self), set_of(game)
        if its is None or mine != its:
            where = "a set that it does not name" if its is None else f"a {its[0]} of radius {its[1]:g}"
            return f"regret is against the best point of {where}, it plays in another set"
        return None


@kernel
def show(state):
    """The point is what is played: it comes first in the memo."""
    for i in range(len(state.point)):
        state.memo[i] = state.point[i]


class Descent(Points):
    """Walks against gradients. Steps are, the first that is given:

    * `rate`: always of that length;
    * `curvature` > 0: 1 / (curvature m) at the m-th gradient, for losses that are so strongly convex;
    * `tau`: F / (L sqrt((1 + 2 tau) m)), for a delay that is known;
    * none of them: F / (L sqrt(t + 2 D_t)), D_t the sum of G_1..G_t, which it counts itself.

    F is the width of the set (the largest distance of two points over sqrt 2), L = `lipschitz` the longest gradient.
    """

    counts_open = True

    radius: float
    lipschitz: float
    tau: int | None
    curvature: float
    rate: float | None
    #: How it measures gradients: a name that games have, too.
    measure = "lipschitz"
    #: What the game that it faces measures regret in: the largest that one round can cost.
    unit: float = 1.0
    #: In a game of quadratic losses, what they are: see `bounds.smooth_descent`.
    smooth: tuple[float, float, float] | None = None

    @property
    @abstractmethod
    def width(self) -> float:
        """F."""

    def check_steps(self) -> None:
        """Refuse what makes no sense."""
        require.real("radius", self.radius, above=0, infinite=True)
        require.real("lipschitz", self.lipschitz, above=0)
        require.real("curvature", self.curvature, low=0)
        if self.tau is not None:
            require.integer("tau", self.tau, low=0)
        if self.rate is not None:
            require.real("rate", self.rate, above=0)
        elif math.isinf(self.radius) and not self.curvature:
            raise InvalidArgument("radius inf needs a rate: nothing says how long a step may be")

    def step_params(self) -> dict[str, Any]:
        """What `step_length` reads."""
        rule, length = ADAPTIVE, 1.0
        if self.rate is not None:
            rule, length = FIXED, float(self.rate)
        elif self.curvature:
            rule, length = CURVED, 1.0 / self.curvature
        else:
            length = self.width / self.lipschitz
            if self.tau is not None:
                rule, length = SLOWED, length / math.sqrt(1.0 + 2.0 * self.tau)
        return {"rule": rule, "length": length}

    # --- what is proved ---

    def facing(self, game: Game) -> Learner | str:
        learner = copy.copy(self)
        object.__setattr__(learner, "unit", unit_of(game))
        smooth = getattr(game, "smooth", None)
        if self.rate is not None:
            if smooth is None or not math.isinf(self.radius):
                return "a bound for steps of one length is known for smooth losses without a border only"
            object.__setattr__(learner, "smooth", smooth)
            return learner
        longest = getattr(game, self.measure, None)
        if longest is None:
            return f"{type(game).__name__} does not say how long its gradients are at most ({self.measure})"
        if longest > self.lipschitz * (1 + 1e-12):
            return f"gradients are up to {longest:.6g} long, the steps are made for lipschitz={self.lipschitz:g}"
        if self.curvature > getattr(game, "curvature", 0.0):
            return f"the losses of {type(game).__name__} are not known to be {self.curvature:g}-strongly convex"
        return learner

    def bound(self, n: float) -> float | None:
        return self._without_delay(n)

    def _without_delay(self, n: float) -> float | None:
        known = self.bound_at_peak(n, 0.0, True)
        return known if known is not None or self.rate is not None else self.bound_under_delay(n, 0.0)

    def bound_under_delay(self, n: float, total: float) -> float | None:
        if self.rate is not None or self.curvature or self.tau is not None:
            return None
        return related.delayed_descent(n, self.width, self.lipschitz, total) / self.unit

    def bound_at_peak(self, n: float, peak: float, constant: bool) -> float | None:
        if self.smooth is not None and self.rate is not None:
            known = related.smooth_descent(n, *self.smooth, self.rate, peak) if constant else None
        elif self.rate is not None:
            known = None
        elif self.curvature:
            known = related.curved_descent(n, self.curvature, self.lipschitz, self.width, peak, constant)
        elif self.tau is not None:
            known = related.slowed_descent(n, self.width, self.lipschitz, self.tau, peak)
        else:
            known = None
        return None if known is None else known / self.unit


#: The fields of a state that `step_length` reads and writes.
STEPS = [("clock", "f8"), ("updates", "i8")]


@kernel
def tick(state):
    """A prediction: the clock t + 2 D_t goes on."""
    state.clock += 1.0 + 2.0 * float(state.open)


@kernel
def step_length(params, state):
    """How far the next gradient goes; it is counted."""
    state.updates += 1
    if params.rule == FIXED:
        return params.length
    if params.rule == CURVED:
        return params.length / float(state.updates)
    if params.rule == SLOWED:
        return params.length / math.sqrt(float(state.updates))
    return params.length / math.sqrt(state.clock)
