"""OTFLinUCB: linear bandits whose conversions come late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from belated import require
from belated.kernels.compile import kernel, plain
from belated.kernels.elementary import log
from belated.kernels.ties import largest_among, largest_index
from belated.learners.linear_model import add, check_sizes, limit, square, transpose, turn
from belated.protocols import Learner


@dataclass(frozen=True)
class OTFLinUCB(Learner):
    """Every action has a feature vector x, and its rate of conversions is linear in it; these come late or never.

    The context is the actions' vectors one after the other: actions x features numbers. Plays the largest
    theta . x + (2 f_t + sum of |x_s| over the last `window` predictions s) |x|, where |x| = sqrt(x^T V^-1 x), V =
    lam I + the sum of x x^T over **all** predictions, theta = V^-1 times the sum of y x over the feedback y that came
    at most `window` predictions late, and f_t = sqrt(2 ln(1 / delta) + d ln((d lam + t) / (d lam))), d features. What
    is missing counts as 0, so that zeros need not be reported; theta then goes for what is reported in the window.

    With form "released" |x| is x^T V^-1 x, without the root, in both places: so it is in the code that its authors
    released, and only so do the published curves come out. "paper" is the rule as it is printed, whose bound
    (`bounds.otf_lin_ucb`) holds with probability 1 - 2 delta.

    Vernade, Carpentier, Lattimore, Zappella, Ermis, Brueckner, *Linear bandits with stochastic delayed feedback*, 2020.

    >>> import belated as bl
    >>> f = bl.Direct(bl.OTFLinUCB(actions=2, features=2, window=10))
    >>> for _ in range(4):
    ...     d = f.predict([1.0, 0.0, 0.0, 1.0])
    ...     f.update(d.ticket, float(d.action))
    >>> f.predict([1.0, 0.0, 0.0, 1.0]).action
    1
    """

    guarantee = "explicit with probability 1 - 2 delta (bounds.otf_lin_ucb), as stated by its authors; none in play"
    version = 2  # the matrix is kept the other way round
    migrate = staticmethod(transpose)
    actions: int
    features: int
    window: int
    lam: float = 1.0
    delta: float = 0.1
    form: Literal["paper", "released"] = "paper"

    def __post_init__(self) -> None:
        check_sizes(self.actions, self.features)
        require.integer("window", self.window, low=1)
        require.real("lam", self.lam, above=0, high=1e300)
        require.real("delta", self.delta, above=0, below=1)
        require.one_of("form", self.form, ("paper", "released"))

    @classmethod
    def example(cls) -> OTFLinUCB:
        """Three actions, two features, a window of 10."""
        return cls(3, 2, 10)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.actions * self.features

    @property
    def context_limit(self) -> float:  # type: ignore[override]
        return limit(self.lam)

    def layout(self) -> np.dtype[Any]:
        k, d, ring = self.actions, self.features, self.window
        return np.dtype(
            [
                ("root", "f8", (d, d)),  # R, V^-1 = R R^T
                ("sum", "f8", (d,)),
                ("along", "f8", (2 * d,)),
                ("index", "f8", (k,)),
                ("predicted", "i8", (k,)),
                ("recent", "f8", (ring, d)),  # the vectors of the last predictions
                ("square", "f8", (ring,)),  # and x^T V^-1 x of each
            ]
        )

    def params(self) -> dict[str, Any]:
        ridge = self.features * float(self.lam)
        return {"ridge": ridge, "first": -2.0 * plain(log)(float(self.delta)), "rooted": int(self.form == "paper")}

    def start(self, state: Any) -> None:
        state["root"][:] = np.eye(self.features) / math.sqrt(self.lam)

    @staticmethod
    def predict(params, state, context, draw):
        weigh(params, state, context)
        action = largest_index(state.index, state.predicted)
        go_on(state, context, action)
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        weigh(params, state, context)
        action = largest_among(state.index, state.predicted, allowed)
        go_on(state, context, action)
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.predictions - state.answering <= len(state.square):
            features = len(state.sum)
            for i in range(features):
                state.sum[i] += feedback[0] * context[action * features + i]


@kernel
def length(params, value):
    """|x| from x^T V^-1 x."""
    return math.sqrt(max(value, 0.0)) if params.rooted == 1 else max(value, 0.0)


@kernel
def weigh(params, state, context):
    """The index of every action."""
    features = len(state.sum)
    t = float(state.predictions)
    width = 2.0 * math.sqrt(params.first + features * log((params.ridge + t) / params.ridge))
    for place in range(len(state.square)):
        width += length(params, state.square[place])
    along = state.along  # R^T b, then theta = R R^T b
    turn(state.root, state.sum, along[features:])
    for i in range(features):
        along[i] = 0.0
        for j in range(features):
            along[i] += state.root[i, j] * along[features + j]
    for action in range(len(state.index)):
        x = context[action * features : (action + 1) * features]
        mean = 0.0
        for i in range(features):
            mean += along[i] * x[i]
        state.index[action] = mean + width * length(params, square(state.root, x, along[features:]))


@kernel
def go_on(state, context, action):
    """The action is predicted: V gets its vector, which takes the place of the oldest of those kept."""
    features = len(state.sum)
    x = context[action * features : (action + 1) * features]
    state.predicted[action] += 1
    size = 1.0 + square(state.root, x, state.along)
    add(state.root, x, state.along)  # the first half is V^-1 x now, from which V^-1 lost its square times `size`
    window = len(state.square)
    for place in range(window):
        along = 0.0
        for i in range(features):
            along += state.recent[place, i] * state.along[i]
        state.square[place] -= along * along * size
    place = state.predictions % window
    for i in range(features):
        state.recent[place, i] = x[i]
    state.square[place] = square(state.root, x, state.along)
