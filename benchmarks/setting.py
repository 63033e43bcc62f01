"""The one game that every UCB1 cell plays, ours and the peers' (reference.cpp repeats these numbers)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

ARMS = 10
DELAY = 100
MEANS = [0.05 * (ARMS - arm) for arm in range(ARMS)]
"""Bernoulli means 0.50, 0.45, ... 0.05: arm 0 is the best."""


def regret(counts: Sequence[float] | Mapping[int, float]) -> float:
    """Pseudo-regret of a table of pulls: a sign that the measured loop really learns."""
    return sum(float(counts[arm]) * (MEANS[0] - MEANS[arm]) for arm in range(ARMS))


def best_of(repeats: int, once: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Run a cell several times and keep its fastest run: noise of the machine only ever slows a run down."""
    return min((once() for _ in range(repeats)), key=lambda result: result["seconds"])
