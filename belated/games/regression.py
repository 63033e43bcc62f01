"""Numbers to be predicted from features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belated import require
from belated.games.rows import Rows
from belated.kernels.compile import kernel
from belated.kernels.elementary import exp, log1p
from belated.protocols import Floats
from belated.theory.losses import LOSSES

SQUARED, LOGISTIC = 0, 1


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Rows):
    """Row t of X is shown, a number p is predicted, and l(p, y[t]) is charged; the game ends with its last row.

    Losses are "squared", (p - y)^2; "logistic", ln(1 + exp(-p)) for label 1 and ln(1 + exp(p)) for label 0; "absolute",
    |p - y|. The point is p, the feedback dl/dp. Regret is against p = w x with one w of the ball of that radius, the
    best for **all** rows: with fewer rounds than rows it is against the same w.

    >>> import belated as bl
    >>> game = bl.games.Regression([[1.0], [2.0]], [1.0, 2.0], radius=2.0)
    >>> game, [round(w, 6) for w in game.best.tolist()]
    (Regression(2 x 1, loss='squared', radius=2.0), [1.0])
    """

    actions = 1
    point_size = 1
    comparator = "action"
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    against = "weights"
    loss: str = "squared"
    radius: float = 1.0

    def __post_init__(self) -> None:
        require.one_of("loss", self.loss, tuple(LOSSES))
        object.__setattr__(self, "radius", require.real("radius", self.radius, above=0))
        super().__post_init__()

    def takes(self) -> tuple[Any, str]:
        return LOSSES[self.loss].takes, LOSSES[self.loss].labels

    @cached_property
    def best(self) -> Floats:
        """The w of the ball with the least loss on all rows."""
        return best_weights(self.rows, self.truth, self.loss, self.radius)

    @cached_property
    def _lengths(self) -> Floats:
        found: Floats = np.sqrt(np.einsum("ij,ij->i", self.rows, self.rows))
        return found

    @cached_property
    def _least(self) -> Floats:
        """What the best weights are charged for each row."""
        p, y = self.rows @ self.best, self.truth
        if self.loss == "squared":
            return np.square(p - y)
        return np.logaddexp(0.0, np.where(y == 1.0, -p, p)) if self.loss == "logistic" else np.abs(p - y)

    @property
    def lipschitz(self) -> float:
        """The largest |slope| |x| of a prediction with a w of the ball."""
        slopes = 2.0 * (self.radius * self._lengths + np.abs(self.truth)) if self.loss == "squared" else 1.0
        return float((slopes * self._lengths).max())

    @property
    def scale(self) -> float:  # type: ignore[override]
        """What a round can cost at most."""
        reach = self.radius * self._lengths
        if self.loss == "squared":
            most = (reach + np.abs(self.truth)) ** 2
        elif self.loss == "logistic":
            most = reach + math.log(2.0)
        else:
            most = reach + np.abs(self.truth)
        return float(most.max()) or 1.0

    def params(self) -> Floats:
        return self.row_params(float(tuple(LOSSES).index(self.loss)), 0.0, self._least)

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        rule = int(params[0])
        rows = int(params[3])
        at = 3 + rows * int(params[2]) + round_
        loss, feedback[0] = charge(rule, feedback[0], params[at])
        memory[0] += loss - params[at + rows]
        return -loss

    def __repr__(self) -> str:
        rows, features = self.rows.shape
        return f"Regression({rows} x {features}, loss={self.loss!r}, radius={self.radius!r})"


@kernel
def charge(rule, guess, label):
    """l(p, y) and dl/dp."""
    if rule == SQUARED:
        return (guess - label) * (guess - label), 2.0 * (guess - label)
    if rule == LOGISTIC:
        small = exp(-abs(guess))
        chance = 1.0 / (1.0 + small) if guess >= 0.0 else small / (1.0 + small)
        return max(-guess if label == 1.0 else guess, 0.0) + log1p(small), chance - label
    return abs(guess - label), 1.0 if guess > label else -1.0 if guess < label else 0.0


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
