"""AdaptiveRevision: AdaGrad that takes back what it would have done otherwise."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.sets import FAR, width
from belated.learners.descent import Points, show
from belated.protocols import Game, Learner
from belated.theory import related
from belated.theory.case import unit_of

#: Gradients are cut at this: products of their sums are finite.
LARGE = 1e75
#: What stands for sums that are not above 0: the rate is what it was then.
TINY = 1e-300


@dataclass(frozen=True)
class AdaptiveRevision(Points):
    """Descent with a rate for each number of the point, which falls with what came and with what was outstanding.

    Each number by itself: Z is the sum of all gradients so far, and the memo of a prediction keeps what it was then.
    When the gradient g of a prediction comes, b = Z - Z(then) is the sum of those that came in between. Then

        z <- z + g^2 + 2 g b,   eta <- min(eta, a / sqrt z),   x <- x - eta_new g + (eta_old - eta_new) b,   Z <- Z + g,

    and x is cut at +-`radius`: beside the step for g, the steps for what came in between are made again with the new
    rate. z starts at `initial`, eta at a / sqrt(initial); a is `rate`, or else sqrt 2 radius. Without delay b is 0, and
    this is AdaGrad with a diagonal matrix, whose bound it has (`bounds.adagrad`; as under BOLD).

    Under delay no bound is stated, because none was proved here: g b may be below 0, so that z need not grow with what
    is outstanding, and where the box has cut x, what is made again is not what was done. Use `GradientDescent` where a
    promise is wanted.

    McMahan, Streeter, *Delay-tolerant algorithms for asynchronous distributed online learning*, 2014.

    >>> import belated as bl
    >>> f = bl.Direct(bl.AdaptiveRevision(size=1, rate=1.0))
    >>> first, second = f.predict(), f.predict()
    >>> f.update(first.ticket, [0.5])
    >>> f.update(second.ticket, [0.5])  # 1 + 0.25 + 0.25 + 2 * 0.25 = 2, for both steps
    >>> round(float(f.predict().action[0]) * 2**0.5, 9)
    -1.0
    """

    guarantee = "(2 R^2 / a + a) sqrt(d (d z + L^2 n)) without delay, in a box; under delay none"
    size: int
    radius: float = 1.0
    rate: float | None = None
    initial: float = 1.0
    domain = "box"
    #: In the game that it faces: the longest gradient, and what regret is measured in.
    met: ClassVar[tuple[float, float] | None] = None

    def __post_init__(self) -> None:
        require.integer("size", self.size, low=1)
        require.real("radius", self.radius, above=0, infinite=True)
        require.real("initial", self.initial, above=0)
        if self.rate is not None:
            require.real("rate", self.rate, above=0)
        elif math.isinf(self.radius):
            raise InvalidArgument("radius inf needs a rate: nothing says how long a step may be")

    @classmethod
    def example(cls) -> AdaptiveRevision:
        """Points of three numbers."""
        return cls(3)

    @property
    def memo(self) -> int:  # type: ignore[override]
        return 2 * self.size

    @property
    def step(self) -> float:
        """a."""
        return width("ball", 1, self.radius) if self.rate is None else float(self.rate)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([(name, "f8", (self.size,)) for name in ("total", "squares", "rate", "point")])

    def start(self, state: Any) -> None:
        state["squares"][:] = self.initial
        state["rate"][:] = self.step / math.sqrt(self.initial)

    def params(self) -> dict[str, Any]:
        return {"step": self.step, "radius": min(float(self.radius), FAR)}

    @staticmethod
    def predict(params, state, context, draw):
        show(state)
        size = len(state.point)
        for i in range(size):
            state.memo[size + i] = state.total[i]
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        size = len(state.point)
        for i in range(size):
            gradient = min(max(feedback[i], -LARGE), LARGE)
            between = state.total[i] - state.memo[size + i]
            state.squares[i] += gradient * (gradient + 2.0 * between)
            rate = min(state.rate[i], params.step / math.sqrt(max(state.squares[i], TINY)))
            moved = state.point[i] - rate * gradient + (state.rate[i] - rate) * between
            state.point[i] = min(max(moved, -params.radius), params.radius)
            state.rate[i] = rate
            state.total[i] += gradient

    def facing(self, game: Game) -> Learner | str:
        reason = self.elsewhere(game)
        if reason is not None:
            return reason
        longest = getattr(game, "lipschitz", None)
        if longest is None or math.isinf(self.radius):
            return f"{type(game).__name__} does not say how long its gradients are at most (lipschitz), in a box"
        learner = copy.copy(self)
        object.__setattr__(learner, "met", (float(longest), unit_of(game)))
        return learner

    def bound(self, n: float) -> float | None:
        if self.met is None:
            return None
        longest, unit = self.met
        return related.adagrad(n, self.size, self.radius, self.step, longest, self.initial) / unit

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        return self.bound(n) if peak == 0.0 else None
