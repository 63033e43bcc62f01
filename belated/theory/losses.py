"""Losses of a predicted number: what they are, their slopes, and the labels that they take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """l(p, y) and dl/dp, in plain Python; the games have them as kernels."""

    value: Callable[[float, float], float]
    slope: Callable[[float, float], float]
    takes: Callable[[float], bool]
    labels: str  #: which labels it takes, in words


def _sigmoid(p: float) -> float:
    return 1.0 / (1.0 + math.exp(-p)) if p >= 0.0 else 1.0 - 1.0 / (1.0 + math.exp(p))


def _softplus(p: float) -> float:
    """ln(1 + e^p)."""
    return max(p, 0.0) + math.log1p(math.exp(-abs(p)))


LOSSES = {
    "squared": Loss(lambda p, y: (p - y) ** 2, lambda p, y: 2.0 * (p - y), math.isfinite, "a finite number"),
    "logistic": Loss(
        lambda p, y: _softplus(-p if y == 1.0 else p),
        lambda p, y: _sigmoid(p) - y,
        lambda y: y in (0.0, 1.0),
        "0 or 1",
    ),
    "absolute": Loss(
        lambda p, y: abs(p - y), lambda p, y: float(p > y) - float(p < y), math.isfinite, "a finite number"
    ),
}
