"""Numbers to be predicted from features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from belated import require
from belated.errors import InvalidArgument
from belated.games.reward_table import checked_contexts, same_arrays
from belated.kernels.compile import kernel
from belated.kernels.elementary import exp, log1p
from belated.protocols import Floats, Game
from belated.theory.losses import LOSSES

SQUARED, LOGISTIC = 0, 1


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Game):
    """Row t of X is shown, a number p is predicted, and l(p, y[t]) is charged; the game ends with its last row.

    Losses are "squared", (p - y)^2; "logistic", ln(1 + exp(-p)) for label 1 and ln(1 + exp(p)) for label 0; "absolute",
    |p - y|. The point is p, the feedback dl/dp. Regret is against p = w x with one w of the ball of that radius, the
    best for **all** rows: with fewer rounds than rows it is against the same w.

    >>> import belated as bl
    >>> game = bl.games.Regression([[1.0], [2.0]], [1.0, 2.0], radius=2.0)
    >>> game, [round(w, 6) for w in game.best.tolist()]
    (Regression(2 x 1, loss='squared', radius=2.0), [1.0])
    """

    any_round = True
    actions = 1
    point_size = 1
    comparator = "action"
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    against = "weights"
    X: ArrayLike
    y: ArrayLike
    loss: str = "squared"
    radius: float = 1.0

    def __post_init__(self) -> None:
        try:
            labels = np.array(self.y, dtype=np.float64, order="C") + 0.0
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"y must be one number a row: {error}") from None
        if labels.ndim != 1 or len(labels) < 1:
            raise InvalidArgument(f"y must be one number a row, got shape {labels.shape}")
        require.one_of("loss", self.loss, tuple(LOSSES))
        known = LOSSES[self.loss]
        wrong = [t for t, label in enumerate(labels.tolist()) if not known.takes(label)]
        if wrong:
            raise InvalidArgument(f"y[{wrong[0]}] must be {known.labels}, got {float(labels[wrong[0]])!r}")
        labels.flags.writeable = False
        object.__setattr__(self, "y", labels)
        object.__setattr__(self, "X", checked_contexts(self.X, len(labels), "X"))
        object.__setattr__(self, "radius", require.real("radius", self.radius, above=0))
        object.__setattr__(self, "_best", None)

    @property
    def _rows(self) -> Floats:
        return cast(Floats, self.X)

    @property
    def _labels(self) -> Floats:
        return cast(Floats, self.y)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return int(self._rows.shape[1])

    @property
    def best(self) -> Floats:
        """The w of the ball with the least loss on all rows."""
        found: Floats | None = self._best
        if found is None:
            found = best_weights(self._rows, self._labels, self.loss, self.radius)
            object.__setattr__(self, "_best", found)
        return found

    @property
    def lipschitz(self) -> float:
        """The largest |slope| |x| of a prediction with a w of the ball."""
        lengths = np.sqrt((self._rows * self._rows).sum(axis=1))
        slopes = 2.0 * (self.radius * lengths + np.abs(self._labels)) if self.loss == "squared" else 1.0
        return float((slopes * lengths).max())

    @property
    def scale(self) -> float:  # type: ignore[override]
        """What a round can cost at most."""
        lengths = np.sqrt((self._rows * self._rows).sum(axis=1))
        reach = self.radius * lengths
        if self.loss == "squared":
            most = (reach + np.abs(self._labels)) ** 2
        elif self.loss == "logistic":
            most = reach + math.log(2.0)
        else:
            most = reach + np.abs(self._labels)
        return float(most.max()) or 1.0

    def longest(self) -> int:
        return len(self._rows)

    def params(self) -> Floats:
        rule = float(tuple(LOSSES).index(self.loss))
        against = self._rows @ self.best
        return np.concatenate(
            [[rule, float(self.context_size), float(len(self._rows))], self._labels, against, self._rows.ravel()]
        )

    def memory(self) -> int:
        """The regret so far."""
        return 1

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        size = int(params[1])
        row = 3 + 2 * int(params[2]) + (round_ - 1) * size
        for i in range(size):
            context[i] = params[row + i]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        rule = int(params[0])
        label = params[2 + round_]
        guess = feedback[0]
        loss = charge(rule, guess, label)
        feedback[0] = slope(rule, guess, label)
        memory[0] += loss - charge(rule, params[2 + int(params[2]) + round_], label)
        return -loss

    @staticmethod
    def regret(params, memory):
        return memory[0]

    def __eq__(self, other: object) -> bool:
        return same_arrays(self, other)

    def __hash__(self) -> int:
        return hash((self._rows.shape, self._rows.tobytes(), self._labels.tobytes(), self.loss, self.radius))

    def __repr__(self) -> str:
        rows, features = self._rows.shape
        return f"Regression({rows} x {features}, loss={self.loss!r}, radius={self.radius!r})"


@kernel
def charge(rule, guess, label):
    """l(p, y)."""
    if rule == SQUARED:
        return (guess - label) * (guess - label)
    if rule == LOGISTIC:
        wrong = -guess if label == 1.0 else guess
        return max(wrong, 0.0) + log1p(exp(-abs(wrong)))
    return abs(guess - label)


@kernel
def slope(rule, guess, label):
    """dl/dp."""
    if rule == SQUARED:
        return 2.0 * (guess - label)
    if rule == LOGISTIC:
        small = exp(-abs(guess))
        chance = 1.0 / (1.0 + small) if guess >= 0.0 else small / (1.0 + small)
        return chance - label
    return 1.0 if guess > label else -1.0 if guess < label else 0.0


def best_weights(rows: Floats, labels: Floats, loss: str, radius: float) -> Floats:
    """The w with |w| <= radius and the least loss."""
    if loss == "squared":
        return _least_squares(rows, labels, radius)
    from scipy.optimize import minimize

    size = rows.shape[1]

    def total(w: Floats) -> tuple[float, Floats]:
        p = rows @ w
        if loss == "logistic":
            wrong = np.where(labels == 1.0, -p, p)
            value = np.logaddexp(0.0, wrong).sum()
            steep = np.exp(-np.logaddexp(0.0, -p)) - labels
        else:  # |z| rounded off within 1e-6 of 0
            z = p - labels
            value = np.sqrt(z * z + 1e-12).sum()
            steep = z / np.sqrt(z * z + 1e-12)
        return float(value) / len(labels), rows.T @ steep / len(labels)

    border = {"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2.0 * w}
    found = minimize(
        total, np.zeros(size), jac=True, method="SLSQP", constraints=[border], options={"maxiter": 1000, "ftol": 1e-14}
    )
    w: Floats = np.asarray(found.x)
    length = float(np.linalg.norm(w))
    return w if length <= radius else w * (radius / length)


def _least_squares(rows: Floats, labels: Floats, radius: float) -> Floats:
    """Ridge regression with the least ridge that brings w into the ball, found by bisection."""
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    kept = values > np.finfo(float).eps * max(rows.shape) * values[0]
    values, target, right = values[kept], (left.T @ labels)[kept], right[kept]

    def solve(ridge: float) -> Floats:
        found: Floats = target / (values + ridge / values)
        return found

    w = solve(0.0)
    if float(np.linalg.norm(w)) > radius:
        low, high = 0.0, float(np.linalg.norm(values * target)) / radius
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.linalg.norm(solve(middle)) > radius else (low, middle)
        w = solve(high)
    found: Floats = right.T @ w
    return found
