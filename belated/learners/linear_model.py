"""Ridge regression kept up to date: A = ridge I + sum x x^T and theta = A^-1 sum y x predict y as theta . x.

What is kept is a root R of the inverse, A^-1 = R^T R, which an observation changes in d^2 steps (Potter 1963): so A^-1
cannot lose its sign by rounding, as it does when it is kept itself and contexts are large (from 10^8 or so). Several
numbers that are regressed on the same x share one matrix.

R has entries of 1 / sqrt(ridge) as long as some direction was not seen, and in a direction that was, R x is near 1 for
all that: with s = |x| / sqrt(ridge) the entries cancel to 1 / s, and a rounding of 1e-16 of them is s 1e-16 of R x.
Measured against exact fractions, x^T A^-1 x is off by a share of up to 1e-15 s after some observations, and 1e-17 n s
after n equal ones: 1e-5 and (n = 10^6) 0.1 at s = 1e10, half of it or more at 1e15. No way to keep numbers of 53 bits
would do much better: the last bit of a context of 1e15 is 0.1, which is as much as the ridge. So contexts are refused
beyond `limit`; features should be of the order of 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.learners.upgrade import keep


def check_sizes(actions: int, features: int) -> None:
    """Refuse a linear model without actions or features."""
    require.integer("actions", actions, low=1)
    require.integer("features", features, low=1)


def limit(ridge: float) -> float:
    """How large the numbers of a context may be: so large that x^T A^-1 x is right to 1e-5, and squares are finite.

    >>> limit(0.01)
    1000000000.0
    """
    return min(1e10 * math.sqrt(ridge), 1e100)


def model(features: int, *models: int) -> list[Any]:
    """The fields of a state: R for each action, theta for each of the `models` (actions first), room for two vectors.

    >>> model(3, 2)
    [('root', 'f8', (2, 3, 3)), ('theta', 'f8', (2, 3)), ('along', 'f8', (6,))]
    """
    d = features
    return [("root", "f8", (models[0], d, d)), ("theta", "f8", (*models, d)), ("along", "f8", (2 * d,))]


def migrate(version: int, old: Any, state: Any) -> None:
    """Version 1 kept A^-1 itself. Where it has lost its sign, what is left of it is taken."""
    if version > 1:
        keep(version, old, state)
        return
    for name in set(old.dtype.names) & set(state.dtype.names) - {"along"}:
        state[name] = old[name]
    for inverse, root in zip(old["inverse"], state["root"], strict=True):
        values, vectors = np.linalg.eigh(inverse)
        root[:] = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T


@kernel
def value(theta, x):
    """theta . x."""
    total = 0.0
    for i in range(len(x)):
        total += theta[i] * x[i]
    return total


@kernel
def square(root, x):
    """x^T A^-1 x = |R x|^2."""
    total = 0.0
    for i in range(len(x)):
        along = 0.0
        for j in range(len(x)):
            along += root[i, j] * x[j]
        total += along * along
    return total


@kernel
def add(root, x, gain):
    """Add x x^T to A, and put A^-1 x into the first half of `gain`.

    With u = R x, v = R^T u and s = 1 + u . u, R loses u v^T / (s + sqrt(s)), and the new A^-1 x is v / s.
    """
    d = len(x)
    size = 1.0
    for i in range(d):
        gain[i] = 0.0
    for i in range(d):
        along = 0.0
        for j in range(d):
            along += root[i, j] * x[j]
        gain[d + i] = along
        size += along * along
        for j in range(d):
            gain[j] += root[i, j] * along
    less = 1.0 / (size + math.sqrt(size))
    for i in range(d):
        part = gain[d + i] * less
        for j in range(d):
            root[i, j] -= part * gain[j]
    for i in range(d):
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
    for i in range(state.theta.shape[1]):
        state.theta[action, i] = 0.0
        for j in range(state.theta.shape[1]):
            state.root[action, i, j] = 1.0 / math.sqrt(params.ridge) if i == j else 0.0
