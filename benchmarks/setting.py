"""The games that cells play, ours and the peers' alike (reference.cpp repeats the numbers of the first)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

ARMS = 10
DELAY = 100
MEANS = [0.05 * (ARMS - arm) for arm in range(ARMS)]
"""Bernoulli means 0.50, 0.45, ... 0.05: arm 0 is the best."""

CHOICES = 5
FEATURES = 10
"""Arms and features of the linear game."""


def regret(counts: Sequence[float] | Mapping[int, float]) -> float:
    """Pseudo-regret of a table of pulls: a sign that the measured loop really learns."""
    return sum(float(counts[arm]) * (MEANS[0] - MEANS[arm]) for arm in range(ARMS))


def linear(rounds: int, features: int = FEATURES) -> tuple[Any, Any]:
    """The linear game, drawn beforehand: contexts (rounds x features), and what each arm would pay (0 or 1).

    Features are uniform on [0, 1], and the chance of a 1 is linear in them. Every process draws the same numbers.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    theta = rng.random((CHOICES, features)) ** 3
    contexts = rng.random((rounds, features))
    chances = contexts @ (theta / theta.sum(axis=1, keepdims=True)).T
    return contexts, (rng.random((rounds, CHOICES)) < chances).astype(np.float64)


def best_of(repeats: int, once: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Run a cell several times and keep its fastest run: noise of the machine only ever slows a run down."""
    return min((once() for _ in range(repeats)), key=lambda result: result["seconds"])
