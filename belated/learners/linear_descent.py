"""Gradient descent for linear predictions, told late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidFeedback
from belated.kernels.sets import into_ball, width
from belated.learners.descent import STEPS, Descent, step_length, tick
from belated.protocols import Game, Learner
from belated.theory.losses import LOSSES


@dataclass(frozen=True)
class LinearDescent(Descent):
    """Predicts the number w x from the features x, and moves w against slope times x: for labels that come late.

    The slope is that of the loss at the prediction; w x itself is the action, a point of one number, and w stays in the
    ball of the radius. With `loss` ("squared", "logistic" or "absolute") `update` takes the label and finds the slope
    itself: (p - y)^2; ln(1 + exp(-p)) for label 1 and ln(1 + exp(p)) for label 0; |p - y|. Without it, and in `play`,
    it takes the slope. Steps are those of `GradientDescent`; `lipschitz` is the largest |slope| |x|.

    >>> import belated as bl
    >>> f = bl.Direct(bl.LinearDescent(features=2, loss="squared", lipschitz=10.0))
    >>> late = f.predict([1.0, 0.0])
    >>> f.update(late.ticket, 0.5)  # the label
    >>> [round(float(x), 3) for x in f.predict([1.0, 0.0]).action]
    [0.141]
    """

    guarantee = "2 F L sqrt(n + 2 D) told directly, D the sum of G_t, F = sqrt 2 radius; any convex losses of w x"
    features: int
    radius: float = 1.0
    lipschitz: float = 1.0
    tau: int | None = None
    curvature: float = 0.0
    rate: float | None = None
    loss: str | None = None  # type: ignore[assignment]
    memo = 1
    point_size = 1

    def __post_init__(self) -> None:
        require.integer("features", self.features, low=1)
        if self.loss is not None:
            require.one_of("loss", self.loss, tuple(LOSSES))
        self.check_steps()

    @classmethod
    def example(cls) -> LinearDescent:
        """Three features."""
        return cls(3)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.features

    @property
    def width(self) -> float:
        return width("ball", self.features, self.radius)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([*STEPS, ("weight", "f8", (self.features,))])

    def params(self) -> dict[str, Any]:
        return {**self.step_params(), "radius": float(self.radius)}

    @staticmethod
    def predict(params, state, context, draw):
        tick(state)
        score = 0.0
        for i in range(len(state.weight)):
            score += state.weight[i] * context[i]
        state.memo[0] = score
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        step = step_length(params, state) * feedback[0]
        for i in range(len(state.weight)):
            state.weight[i] -= step * context[i]
        into_ball(state.weight, params.radius)

    @property
    def translates(self) -> bool:  # type: ignore[override]
        return self.loss is not None

    def translate(self, memo: Any, given: Any) -> Any:
        assert self.loss is not None
        known = LOSSES[self.loss]
        try:
            label = math.nan if isinstance(given, str | bytes) else float(given)
        except (TypeError, ValueError):
            label = math.nan
        if not known.takes(label):
            raise InvalidFeedback(f"the label must be {known.labels}, got {given!r}")
        return known.slope(float(memo[0]), label)

    def facing(self, game: Game) -> Learner | str:
        if getattr(game, "against", None) != "weights" or game.context_size != self.features:
            return f"the regret of {type(game).__name__} is not against the best weights of its features"
        theirs = float(getattr(game, "radius", math.inf))
        if self.rate is None and theirs != float(self.radius):
            return f"regret is against the best w of length {theirs:g}, it plays those of length {self.radius:g}"
        return super().facing(game)
