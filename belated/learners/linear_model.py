"""Ridge regression kept up to date: A = ridge I + sum x x^T and theta = A^-1 sum y x predict y as theta . x.

What is kept is a root R of the inverse, A^-1 = R R^T, which an observation changes in d^2 steps (Potter 1963): so A^-1
cannot lose its sign by rounding, as it does when it is kept itself and contexts are large (from 10^8 or so). Several
numbers that are regressed on the same x share one matrix. Predictions need R^T x: row by row, that is the sum of the
rows of R, each as often as x says, and a processor adds several numbers of a row at a time.

R has entries of 1 / sqrt(ridge) as long as some direction was not seen, and in a direction that was, R^T x is near 1
for all that: with s = |x| / sqrt(ridge) the entries cancel to 1 / s, and a rounding of 1e-16 of them is s 1e-16 of
R^T x. Measured against exact fractions, x^T A^-1 x is off by a share of up to 1e-15 s after some observations, and
1e-17 n s after n equal ones: 1e-5 and (n = 10^6) 0.1 at s = 1e10, half of it or more at 1e15. No way to keep numbers
of 53 bits would do much better: the last bit of a context of 1e15 is 0.1, which is as much as the ridge. So contexts
are refused beyond `limit`; features should be of the order of 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.eight import eight_at, eight_plus, eight_put, eight_zeros
from belated.kernels.target import on_gpu


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


def transpose(version: int, old: Any, state: Any) -> None:
    """A `migrate` for states in which R^T was kept."""
    for name in set(old.dtype.names) & set(state.dtype.names) - {"along", "root"}:
        state[name] = old[name]
    if "root" in old.dtype.names:
        state["root"][:] = np.swapaxes(old["root"], -1, -2)


def migrate(version: int, old: Any, state: Any) -> None:
    """The same, and version 1 kept A^-1 itself: where it has lost its sign, what is left of it is taken."""
    transpose(version, old, state)
    for inverse, root in zip(old["inverse"] if version == 1 else (), state["root"], strict=False):
        values, vectors = np.linalg.eigh(inverse)
        root[:] = np.sqrt(np.maximum(values, 0.0)) * vectors


@kernel
def value(theta, x):
    """theta . x."""
    total = 0.0
    for i in range(len(theta)):
        total += theta[i] * x[i]
    return total


@kernel
def turn(root, x, turned):
    """Put R^T x into `turned`."""
    d = len(root)
    i = 0
    while not on_gpu() and i + 8 <= d:
        some = eight_zeros()
        for j in range(d):
            some = eight_plus(some, eight_at(root, (j, i)), x[j])
        eight_put(turned, (i,), some)
        i += 8
    while i < d:
        along = 0.0
        for j in range(d):
            along += root[j, i] * x[j]
        turned[i] = along
        i += 1


@kernel
def square(root, x, turned):
    """x^T A^-1 x = |R^T x|^2; there must be room for R^T x."""
    turn(root, x, turned)
    total = 0.0
    for i in range(len(root)):
        total += turned[i] * turned[i]
    return total


@kernel
def add(root, x, gain):
    """Add x x^T to A, and put A^-1 x into the first half of `gain`.

    With u = R^T x, v = R u and s = 1 + u . u, R loses v u^T / (s + sqrt(s)), and the new A^-1 x is v / s.
    """
    d = len(root)
    size = 1.0 + square(root, x, gain[d:])
    for i in range(d):
        along = 0.0
        for j in range(d):
            along += root[i, j] * gain[d + j]
        gain[i] = along
    less = 1.0 / (size + math.sqrt(size))
    for j in range(d):
        gain[d + j] *= less
    for i in range(d):
        along = gain[i]
        j = 0
        while not on_gpu() and j + 8 <= d:
            eight_put(root, (i, j), eight_plus(eight_at(root, (i, j)), eight_at(gain, (d + j,)), -along))
            j += 8
        while j < d:
            root[i, j] -= gain[d + j] * along
            j += 1
    for i in range(d):
        gain[i] /= size


@kernel
def learn(theta, x, gain, y):
    """After `add`: y was observed with x."""
    miss = y
    for i in range(len(theta)):
        miss -= theta[i] * x[i]
    for i in range(len(theta)):
        theta[i] += gain[i] * miss


@kernel
def forget(params, state, action):
    """The model of an action of which nothing is known."""
    for i in range(state.theta.shape[1]):
        state.theta[action, i] = 0.0
        for j in range(state.theta.shape[1]):
            state.root[action, i, j] = 1.0 / math.sqrt(params.ridge) if i == j else 0.0
