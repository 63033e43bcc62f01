"""Bounds of the rules that eliminate actions, told directly under delay.

T is the horizon that a rule was told of, n <= T the rounds, Delta_i the gaps, G_i the most feedback of action i that
was outstanding at once. Rewards lie in [0, 1] and are i.i.d. for each action.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated import require
from belated.errors import InvalidArgument
from belated.theory.arguments import lost, per_action, vector, whole


def successive_elimination(
    n: float,
    gaps: ArrayLike,
    peaks: ArrayLike,
    horizon: int,
    c: float = 2.0,
    extra: float = 1.0,
    peak: float = math.inf,
) -> float:
    """SuccessiveElimination: E R_n <= sum_i Delta_i (A ln T / Delta_i^2 + 1 + E max(G_i, G_1)) + 2 K n T^(1-2c).

    1 is a best action, A = c (3 + e)^2, e = `extra` >= 1, c >= 1. With c = 2 and e = 1, A is 32, and the last term at
    most 2 K / T^2.
    `peaks` are E G_i; E max(G_i, G_1) is taken as E G_i + E G_1, or as `peak` (E G*, of all actions) if that is less.

    Sketch: the s rewards of an action that came first are i.i.d. where delays do not look at rewards, so by Hoeffding
    all means are within their widths w, but for 2 K T T^(-2c) (then a round costs 1 at most). Then a best action is
    never out, and when i is played last, Delta_i <= (1 + e) w_i + 2 w_1 <= (3 + e) w at s = min(seen_i, seen_1). Action
    i was predicted at most as often as action 1, so at most s + max(G_i, G_1) times before.

    Conditions: those of `delayed_ucb1`, and n <= T. Lancewicki, Segal, Koren, Mansour, 2021, have the rule.

    >>> round(successive_elimination(10_000, [0, 0.2], 100, 10_000), 1)
    1513.9
    >>> round(successive_elimination(10_000, [0, 0.2], 100, 10_000, peak=120), 1)
    1497.9
    """
    n, gaps, horizon = _checked(n, gaps, horizon)
    extra, c = require.real("extra", extra, low=1), require.real("c", c, low=1)
    peaks = per_action("peaks", peaks, gaps.size)
    out = np.minimum(peaks + peaks[gaps == 0].min(), require.real("peak", peak, low=0, infinite=True))
    samples = c * (3 + extra) * (3 + extra) * math.log(horizon)
    return _regret(n, gaps, samples, out, 2 * gaps.size * n * math.pow(horizon, 1 - 2 * c))


def optimistic_pessimistic(n: float, gaps: ArrayLike, peaks: ArrayLike, horizon: int) -> float:
    """OptimisticPessimistic: E R_n <= sum_i (128 ln T / Delta_i + 2 E (G_i + G_1) + Delta_i) + 2 K n / T^3.

    1 is a best action. Delays may be anything, even look at rewards: what is missing of m rewards is taken for ones in
    the upper bound and for zeros in the lower, so that both hold wherever the mean of all m would be within its width.

    Sketch: when i is played last, Delta_i <= 4 w(m) + (G_i + G_1) / m for its m plays before, and action 1 has no
    fewer: so 4 w(m) >= Delta_i / 2, which is m <= 128 ln T / Delta_i^2, or m <= 2 (G_i + G_1) / Delta_i.

    Conditions: n <= T. Lancewicki, Segal, Koren, Mansour, 2021, have the rule.

    >>> round(optimistic_pessimistic(100_000, [0, 0.2], 100, 100_000), 1)
    7768.5
    """
    n, gaps, horizon = _checked(n, gaps, horizon)
    peaks = per_action("peaks", peaks, gaps.size)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        out = 2 * (peaks + peaks[gaps == 0].min()) / gaps
    return _regret(n, gaps, 128 * math.log(horizon), out, 2 * gaps.size * n * math.pow(horizon, -3))


def phased_elimination(n: float, gaps: ArrayLike, peaks: ArrayLike, horizon: int) -> float:
    """PhasedElimination: E R_n <= sum_i Delta_i (n_l + E G_i) + 2 K n / T^3, where l is the first phase with
    2^(1-l) < Delta_i, and n_l = ceil(8 ln T 4^l), which is at most 128 ln T / Delta_i^2 + 1.

    Sketch: with n_l rewards a mean is within 2^-l / 2, but for 2 K / T^3. Then a best action is never out, and i is out
    after phase l at the latest. It is played only while fewer than n_l of its rewards are in.

    Conditions: those of `delayed_ucb1`, and n <= T. Lancewicki, Segal, Koren, Mansour, 2021, have the rule.

    >>> round(phased_elimination(100_000, [0, 0.2], 100, 100_000), 1)
    4735.8
    """
    n, gaps, horizon = _checked(n, gaps, horizon)
    peaks, needed = per_action("peaks", peaks, gaps.size), np.zeros(gaps.size)
    for i in np.flatnonzero(gaps).tolist():
        phase = 1
        while 2.0 ** (1 - phase) >= gaps[i] and needed[i] < n:
            phase += 1
            needed[i] = math.ceil(8 * math.log(horizon) * 4.0**phase)
    return _cut(n, gaps, lost(n, gaps, needed + peaks) + 2 * gaps.size * n * math.pow(horizon, -3))


def _checked(n: float, gaps: ArrayLike, horizon: int) -> tuple[float, NDArray[np.float64], int]:
    horizon = whole("horizon", horizon, 2)
    known = vector("gaps", gaps, most=1)
    if known.min() > 0:
        raise InvalidArgument(f"gaps must have a 0, that of the best action, the least is {known.min()}")
    return require.real("n", n, low=1, high=horizon), known, horizon


def _regret(n: float, gaps: NDArray[np.float64], samples: float, out: NDArray[np.float64], failed: float) -> float:
    """sum_i Delta_i (samples / Delta_i^2 + 1 + out_i) + failed, cut where no play can lose more."""
    worse = gaps > 0
    with np.errstate(divide="ignore", over="ignore"):
        plays = samples / gaps[worse] ** 2 + 1 + out[worse]
    return _cut(n, gaps, lost(n, gaps[worse], plays) + failed)


def _cut(n: float, gaps: NDArray[np.float64], bound: float) -> float:
    return min(bound, n * float(gaps.max()))
