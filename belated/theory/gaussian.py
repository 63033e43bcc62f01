"""Bounds for Gaussian processes on finitely many points, whose rewards come late."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from belated import require
from belated.errors import InvalidArgument
from belated.protocols import Floats

#: Indices this close to the largest are tied.
_TIE = 1e-9
#: Steps towards the points that tell most.
_STEPS = 100


def span(actions: int, variance: float = 1.0) -> float:
    """What max f - min f is at most on average, f normal on K points with no variance above s^2: 2 s sqrt(2 ln K).

    >>> round(span(40), 3)
    5.432
    """
    return 2.0 * math.sqrt(2.0 * require.real("variance", variance, low=0) * math.log(actions))


def gp_information(covariance: ArrayLike, noise: float, n: int) -> float:
    """gamma_n, or a little more: the most that n rewards can tell of f, in nats, whichever points they are of.

    A share w_a of the n for each point tells g(w) = ln det(I + n W S / v) / 2, with W the diagonal matrix of w. g is
    concave in w, with slope n sigma_w^2(a) / (2 v), sigma_w^2(a) the posterior variance of f(a): so gamma_n <=
    g(w) + n (max_a sigma_w^2(a) - sum_a w_a sigma_w^2(a)) / (2 v) whatever w is. It starts even and is moved towards
    points with a large variance.

    >>> round(gp_information([[1.0, 0.0], [0.0, 1.0]], 1.0, 2), 6), round(math.log(2.0), 6)
    (0.693147, 0.693147)
    """
    rows = np.asarray(covariance, np.float64)
    if rows.ndim != 2 or rows.shape[0] != rows.shape[1] or not rows.size:
        raise InvalidArgument(f"covariance must be a square matrix, got shape {rows.shape}")
    noise = require.real("noise", noise, above=0)
    return _information(rows.tobytes(), len(rows), noise, require.integer("n", n, low=0))


@lru_cache(maxsize=4096)
def _information(data: bytes, size: int, noise: float, n: int) -> float:
    covariance = np.frombuffer(data).reshape(size, size)
    share = np.full(size, 1.0 / size)
    found = math.inf
    for _ in range(_STEPS):
        least = float(_total(covariance, noise, n, share))
        slope = 0.5 * n / noise * _left(covariance, noise, n, share)
        spent = float(share @ slope)
        found = min(found, least + max(float(slope.max()) - spent, 0.0))
        if spent <= 0.0 or found - least <= 1e-3 * least:
            break
        share = share * slope / spent
    return found


def _inner(covariance: Floats, noise: float, n: int, share: Floats) -> tuple[Floats, Floats]:
    """I + n W^(1/2) S W^(1/2) / v, and what W^(1/2) S is."""
    half = np.sqrt(n * share / noise)
    scaled = half[:, None] * covariance
    return np.eye(len(share)) + scaled * half, scaled


def _total(covariance: Floats, noise: float, n: int, share: Floats) -> Any:
    return 0.5 * np.linalg.slogdet(_inner(covariance, noise, n, share)[0])[1]


def _left(covariance: Floats, noise: float, n: int, share: Floats) -> Floats:
    """The posterior variances."""
    inner, scaled = _inner(covariance, noise, n, share)
    told = np.einsum("ij,ij->j", scaled, np.linalg.solve(inner, scaled))
    return np.asarray(np.maximum(np.diagonal(covariance) - told, 0.0), np.float64)


def gp_width(n: float, actions: int, delta: float) -> float:
    """alpha_n = 2 ln(K n^2 pi^2 / (6 delta)).

    >>> round(gp_width(400, 40, 0.1), 2)
    36.94
    """
    return 2.0 * math.log(actions * n * n * math.pi**2 / (6.0 * delta))


def gp_ucb(
    n: int,
    actions: int,
    noise: float,
    delta: float,
    inflation: float,
    information: float,
    late: int,
    span: float,
    variance: float = 1.0,
) -> float:
    """GP-BUCB told late, one run, with probability 1 - delta: span min(n, late) + e^C sqrt(C_1 n alpha_n I_n).

    `information` is I_n, the sum of iota_t, and `late` the number of rounds with C_t above C = `inflation`, both of the
    run (`GPUCB.information`), `span` max f - min f. C_1 = 8 s^2 / ln(1 + s^2 / v), with s^2 the largest variance, is
    8 / ln(1 + 1 / v) where that is 1. Any delays that look at neither f nor the noise; rules "bucb" and, with any
    C > 0, "stale".

    Where C_t <= C: sigma of what has come is at most e^C sigma of all that was chosen, since what is out says no more
    of f(x) than of f; so f(x) is within the widths for all t and x but with probability delta, and a round costs at
    most 2 e^C sqrt(alpha_t) sigma_t. The sigma_t^2 sum up to at most s^2 / ln(1 + s^2 / v) times 2 I_n. And since a
    point that is out for tau_s rounds adds at most iota_s to C_t in each, sum_t C_t <= sum_s tau_s iota_s: `late` is at
    most tau_max I_n / C.

    Desautels, Krause, Burdick 2012 ask that C_t <= C always.

    >>> round(gp_ucb(5000, 40, 0.01, 0.1, 0.35, information=25.0, late=300, span=4.0), 1)
    5730.8
    """
    least = require.real("span", span, low=0) * min(n, late)
    deviations = _deviations(n, noise, variance, require.real("information", information, low=0))
    return least + 2.0 * math.exp(inflation) * math.sqrt(gp_width(n, actions, delta)) * deviations + n * _TIE


def gp_ucb_mean(
    n: int, covariance: ArrayLike, noise: float, delta: float, inflation: float, delay: float, stale: bool = False
) -> float:
    """The same on average over f and the noise, for the constant delay tau and before the run.

    E R_n <= D min(n, tau gamma_n / C) + e^C sqrt(2 n alpha_n gamma_n s^2 / ln(1 + s^2 / v)) + delta s / sqrt(2 pi), and
    at most n E span. D is s sqrt(2 ln K), for the rule "stale" twice that, which is E span at most (`span`); gamma_n as
    in `gp_information`.

    Given what has come, f is normal. Where C_t <= C, E f(x*) - f(x_t) is at most the sum over x of
    E (f(x) - index(x))^+, which is at most s exp(-alpha_t / 2) / sqrt(2 pi) each, and index(x_t) - mu(x_t), which is
    e^C sqrt(alpha_t) sigma_t: one width, not two. The other rounds are at most tau gamma_n / C whatever happens. Of
    these one costs at most E max (f - mu) <= s sqrt(2 ln K) and that width, since index(x*) <= index(x_t); or, where
    the width is that of what has come, the span.

    >>> round(gp_ucb_mean(1000, [[1.0, 0.0], [0.0, 1.0]], 1.0, 0.1, 0.35, 0), 1)
    1118.3
    """
    rows = np.asarray(covariance, np.float64)
    size, variance = len(rows), float(np.diagonal(rows).max())
    worst, known = span(size, variance), gp_information(rows, noise, n)
    late = 0.0 if delay == 0 else min(float(n), delay * known / inflation)
    deviations = _deviations(n, noise, variance, known)
    good = math.exp(inflation) * math.sqrt(gp_width(n, size, delta)) * deviations
    cost = late * worst * (1.0 if stale else 0.5)
    return min(worst * n, cost + good + delta * math.sqrt(variance / (2.0 * math.pi)) + n * _TIE)


def _deviations(n: int, noise: float, variance: float, information: float) -> float:
    """sum_t sigma_t at most, by what the points have told."""
    if variance == 0.0:
        return 0.0
    return math.sqrt(2.0 * n * information * variance / math.log1p(variance / noise))
