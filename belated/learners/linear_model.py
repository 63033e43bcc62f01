"""Ridge regression kept up to date: A = ridge I + sum x x^T and theta = A^-1 sum y x predict y as theta . x.

A^-1 itself is kept and changed by the formula of Sherman and Morrison: an observation takes d^2 steps. Several numbers
that are regressed on the same x share one matrix.
"""

from __future__ import annotations

from typing import Any

from belated import require
from belated.kernels.compile import kernel


def check_sizes(actions: int, features: int) -> None:
    """Refuse a linear model without actions or features."""
    require.integer("actions", actions, low=1)
    require.integer("features", features, low=1)


def model(features: int, *models: int) -> list[Any]:
    """The fields of a state: A^-1 for each action, theta for each of the `models` (actions first), room for one vector.

    >>> model(3, 2)
    [('inverse', 'f8', (2, 3, 3)), ('theta', 'f8', (2, 3)), ('along', 'f8', (3,))]
    """
    d = features
    return [("inverse", "f8", (models[0], d, d)), ("theta", "f8", (*models, d)), ("along", "f8", (d,))]


@kernel
def value(theta, x):
    """theta . x."""
    total = 0.0
    for i in range(len(x)):
        total += theta[i] * x[i]
    return total


@kernel
def square(inverse, x):
    """x^T A^-1 x, never below 0."""
    total = 0.0
    for i in range(len(x)):
        along = 0.0
        for j in range(len(x)):
            along += inverse[i, j] * x[j]
        total += along * x[i]
    return max(total, 0.0)


@kernel
def add(inverse, x, gain):
    """Add x x^T to A, and put A^-1 x into `gain`: with v = A^-1 x and s = 1 + x . v, A^-1 loses v v^T / s.

    Both halves of the matrix are written from one number, so that it stays symmetric.
    """
    size = 1.0
    for i in range(len(x)):
        along = 0.0
        for j in range(len(x)):
            along += inverse[i, j] * x[j]
        gain[i] = along
        size += along * x[i]
    size = max(size, 1.0)
    for i in range(len(x)):
        part = gain[i] / size
        for j in range(i + 1):
            entry = inverse[i, j] - part * gain[j]
            inverse[i, j] = entry
            inverse[j, i] = entry
    for i in range(len(x)):
        gain[i] /= size


@kernel
def learn(theta, x, gain, y):
    """After `add`: y was observed with x."""
    miss = y
    for i in range(len(x)):
        miss -= theta[i] * x[i]
    for i in range(len(x)):
        theta[i] += gain[i] * miss


@kernel
def forget(params, state, action):
    """The model of an action of which nothing is known."""
    for i in range(len(state.along)):
        state.theta[action, i] = 0.0
        for j in range(len(state.along)):
            state.inverse[action, i, j] = 1.0 / params.ridge if i == j else 0.0
