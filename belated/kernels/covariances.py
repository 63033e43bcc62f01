"""Covariances on points, for Gaussian processes: how alike the values of a function are that nobody knows yet."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from belated import require
from belated.errors import InvalidArgument
from belated.protocols import Floats

#: The smoothest of Matern's that is not infinite: Bessel's functions overflow beyond, where points are near.
SMOOTHEST = 50.0
Matrix = tuple[tuple[float, ...], ...]
#: What rounding may do to a covariance, as a share of its largest variance.
ROUNDING = 1e-9


def squared_exponential(points: ArrayLike, scale: ArrayLike = 1.0, variance: float = 1.0) -> Floats:
    """S_ij = variance exp(-|x_i - x_j|^2 / (2 scale^2)): functions that are smooth.

    `points` are rows of numbers, or numbers; `scale` is how far apart two points are until they say little of each
    other: one number, or one a column.

    >>> squared_exponential([0.0, 1.0, 2.0]).round(3).tolist()
    [[1.0, 0.607, 0.135], [0.607, 1.0, 0.607], [0.135, 0.607, 1.0]]
    """
    apart = distances(points, scale)
    return _scaled(variance) * np.exp(-0.5 * apart * apart)


def matern(points: ArrayLike, scale: ArrayLike = 1.0, variance: float = 1.0, smoothness: float = 2.5) -> Floats:
    """Matern's: functions that have as many derivatives as the largest whole number below `smoothness` says.

    With r = |x_i - x_j| / scale: exp(-r) for 1/2, (1 + s) exp(-s), s = sqrt(3) r, for 3/2, (1 + s + s^2 / 3) exp(-s),
    s = sqrt(5) r, for 5/2; others up to 50 by Bessel's functions. The larger it is, the nearer it comes to
    `squared_exponential`, which is that of infinity.

    Rasmussen, Williams, *Gaussian processes for machine learning*, 2006 (section 4.2).

    >>> matern([0.0, 1.0], smoothness=0.5).round(4).tolist()
    [[1.0, 0.3679], [0.3679, 1.0]]
    """
    nu = require.real("smoothness", smoothness, above=0, infinite=True)
    if math.isinf(nu):
        return squared_exponential(points, scale, variance)
    s = math.sqrt(2.0 * nu) * distances(points, scale)
    if nu in (0.5, 1.5, 2.5):
        factor = 1.0 + (s if nu > 0.5 else 0.0) + (s * s / 3.0 if nu > 1.5 else 0.0)
        return np.asarray(_scaled(variance) * factor * np.exp(-s), np.float64)
    from scipy.special import gammaln, kv

    require.real("smoothness", nu, high=SMOOTHEST)
    with np.errstate(divide="ignore"):  # kv is infinite where points are equal, and 0 where they are far apart
        known = (1.0 - nu) * math.log(2.0) - gammaln(nu) + nu * np.log(np.maximum(s, 1e-100)) + np.log(kv(nu, s))
    return np.asarray(_scaled(variance) * np.exp(np.minimum(known, 0.0)), np.float64)


def distances(points: ArrayLike, scale: ArrayLike = 1.0) -> Floats:
    """|x_i - x_j| / scale for every two points."""
    rows = _rows(points)
    try:
        each = np.broadcast_to(np.asarray(scale, np.float64), rows.shape[1:])
    except (TypeError, ValueError):
        raise InvalidArgument(f"scale must be one number, or {rows.shape[1]}, one a column, got {scale!r}") from None
    if not (np.isfinite(each) & (each > 0)).all():
        raise InvalidArgument(f"scale must be finite and > 0, got {scale!r}")
    rows = rows / each
    squares = np.zeros((len(rows), len(rows)))
    for column in rows.T:
        squares += (column[:, None] - column[None, :]) ** 2
    return np.asarray(np.sqrt(squares), np.float64)


def checked(covariance: Any, name: str = "covariance") -> Matrix:
    """A covariance as nested tuples; refused if it is not square, finite, symmetric and positive semidefinite.

    >>> checked([[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
    belated.errors.InvalidArgument: covariance must be positive semidefinite, its least eigenvalue is -1
    """
    try:
        given = np.array(covariance, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} must be rows of numbers, all of one length: {error}") from None
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not given.size:
        raise InvalidArgument(f"{name} must be a square matrix, a row and a column a point, got shape {given.shape}")
    if not (np.abs(given) <= 1e100).all():
        i, j = np.argwhere(~(np.abs(given) <= 1e100))[0]
        raise InvalidArgument(f"{name}[{i}][{j}] must be finite (1e100 at most), got {float(given[i, j])!r}")
    largest = float(np.abs(np.diagonal(given)).max())
    uneven = np.argwhere(np.abs(given - given.T) > ROUNDING * largest)
    if len(uneven):
        i, j = uneven[0]
        one, two = float(given[i, j]), float(given[j, i])
        raise InvalidArgument(f"{name} must be symmetric, got {one!r} at [{i}][{j}] and {two!r} at [{j}][{i}]")
    given = (given + given.T) / 2.0 + 0.0
    least = float(np.linalg.eigvalsh(given)[0])
    if least < -ROUNDING * largest:
        raise InvalidArgument(f"{name} must be positive semidefinite, its least eigenvalue is {least:.6g}")
    return tuple(map(tuple, given.tolist()))


def root(covariance: Matrix) -> Floats:
    """L, lower triangular, with L L^T = S; a column is 0 where S has no more to give.

    Made by taking away one outer product after another: nothing is summed up, so that the bits are the same everywhere.

    >>> root(((4.0, 2.0), (2.0, 1.0))).tolist()
    [[2.0, 0.0], [1.0, 0.0]]
    """
    left = np.array(covariance, np.float64)
    lower = np.zeros_like(left)
    least = 1e-14 * float(np.diagonal(left).max())
    for j in range(len(left)):
        if left[j, j] > least:
            lower[j:, j] = left[j:, j] / math.sqrt(left[j, j])
            left[j:, j:] -= lower[j:, j, None] * lower[None, j:, j]
    return lower


def _rows(points: ArrayLike) -> Floats:
    try:
        rows = np.array(points, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"points must be rows of numbers, all of one length: {error}") from None
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or not rows.size:
        raise InvalidArgument(f"points must be numbers, or rows of numbers, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InvalidArgument(f"points must be finite, got {rows[~np.isfinite(rows)][0]!r}")
    return rows


def _scaled(variance: float) -> float:
    return require.real("variance", variance, above=0)
