"""What a log itself shows against its use: wrong probabilities, selected rounds, a world that changes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from belated.errors import Unsupported
from belated.protocols import Floats
from belated.replay.estimate import bets, reach
from belated.replay.log import Log, per_action

#: The chance that a good log is refused, by all tests of a kind together; and that it is warned about.
REFUSED, WARNED = 1e-6, 1e-4
#: Means are compared where what varies adds up to so much on either side: five rewards of many are too few.
ENOUGH = 25.0


def check_balance(log: Log) -> None:
    """Refuse probabilities that cannot be true: the weights 1 / p of an action must be 1 a round on average.

    They are also not where rounds were left out because of the action that was taken in them. The weights of all
    actions that were more likely than not are 1 a round at most, as there was at most one of them in a round.
    """
    rows, count, most = log.rows, len(log.rows), 1.0 / log.least
    weights = 1.0 / log.probability[rows]
    sums = per_action(log, rows, weights)
    squares = per_action(log, rows, (weights - 1.0) ** 2) + count - per_action(log, rows)
    words = [f"with action {label!r} would be about" for label in log.labels]
    _check_weights(log, sums, squares, words, 1.0, 1.0)
    _check_weights(log, sums, squares, words, -1.0, max(most - 1.0, 1.0))
    likely = np.where(weights < 2.0, weights, 0.0)
    words = ["whose action was more likely than not would be at most"]
    _check_weights(log, np.array([likely.sum()]), np.array([((likely - 1.0) ** 2).sum()]), words, 1.0, 1.0)


def _check_weights(log: Log, sums: Floats, squares: Floats, words: list[str], sign: float, fall: float) -> None:
    count = len(log.rows)
    enough = math.log(2.0 * len(sums) / REFUSED)
    room = reach(squares[:, None], np.array([fall]), bets(count, 1.0 / log.least, fall, enough), enough)
    beyond = sign * (sums - count) - room
    worst = int(beyond.argmax())
    if beyond[worst] > 0.0:
        raise Unsupported(
            f"the recorded probabilities cannot be those of the decisions: if they were, 1/probability summed over the "
            f"rounds {words[worst]} {count}, the number of rounds that can be weighed, but is {sums[worst]:.4g}"
            f"{_selected(log)}"
        )


def _selected(log: Log) -> str:
    left = len(log) - len(log.rows)
    return f"; or which {left} decisions could not be weighed depends on the action that was taken" if left else ""


def check_same_world(log: Log) -> None:
    """Refuse a log in which the decisions that cannot be weighed are of another kind than the others."""
    usable = np.zeros(len(log), bool)
    usable[log.rows] = True
    if usable.all():
        return
    known = ~np.isnan(log.reward)
    remedy = (
        f"the {int((~usable).sum())} decisions that cannot be weighed (certain, or among some of the actions) are not "
        "like the others, so that these cannot speak for all: {}. Replay the others as a log of their own; what it "
        "says is then about them alone"
    )
    groups = [usable & known, ~usable & known]
    worst, early, late = _largest_gap(log, groups, REFUSED)
    if worst is not None:
        raise Unsupported(
            remedy.format(f"action {log.labels[worst]!r} earned {late} in them and {early} in the others")
        )
    if log.context is None:
        return
    for number, feature in enumerate(log.context.T):
        one, two = feature[usable], feature[~usable]
        error = math.sqrt(one.var() / len(one) + two.var() / len(two))
        gap = abs(one.mean() - two.mean())
        if min(len(one), len(two)) >= ENOUGH and gap > _bar(REFUSED, log.context.shape[1]) * error + 1e-12:
            means = f"{two.mean():.3g} in them and {one.mean():.3g} in the others"
            raise Unsupported(remedy.format(f"number {number} of the side information is on average {means}"))


def drift(log: Log) -> list[str]:
    """Actions whose rewards are not the same in the two halves of the log."""
    rows = log.rows[~np.isnan(log.reward[log.rows])]
    half = np.arange(len(log)) < (log.rows[len(log.rows) // 2])
    there = np.zeros(len(log), bool)
    there[rows] = True
    worst, early, late = _largest_gap(log, [there & half, there & ~half], WARNED)
    if worst is None:
        return []
    return [
        f"action {log.labels[worst]!r} earned {early} and {late} in the two halves: the world changed, the estimates "
        "mix both"
    ]


def _bar(chance: float, tests: int) -> float:
    """How many standard errors are too many for `tests` tests together."""
    from scipy.special import ndtri

    return -float(ndtri(chance / 2.0 / tests))


def _largest_gap(log: Log, groups: list[NDArray[np.bool_]], chance: float) -> tuple[int | None, str, str]:
    """The action whose mean rewards in two groups of rounds differ most, if they do by more than chance."""
    counts, sums, squares = (np.stack(each) for each in zip(*(_moments(log, g) for g in groups), strict=True))
    total = np.maximum(counts.sum(axis=0), 1)
    variance = np.maximum(squares.sum(axis=0) / total - (sums.sum(axis=0) / total) ** 2, 0.0)
    compared = np.flatnonzero(variance * counts.min(axis=0) >= ENOUGH)
    if not len(compared):
        return None, "", ""
    means = sums[:, compared] / counts[:, compared]
    errors = np.sqrt(variance[compared] * (1.0 / counts[:, compared]).sum(axis=0))
    gaps = abs(means[0] - means[1]) / errors
    place = int(gaps.argmax())
    if gaps[place] <= _bar(chance, len(compared)):
        return None, "", ""
    one, two = (f"{log.low + (log.high - log.low) * x:.3g}" for x in means[:, place])
    return int(compared[place]), one, two


def _moments(log: Log, group: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    rows = np.flatnonzero(group)
    rewards = log.reward[rows]
    return per_action(log, rows), per_action(log, rows, rewards), per_action(log, rows, rewards**2)
