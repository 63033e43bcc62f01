"""The price of delay so far: what the theorems say with the delays that were met, and without any; in words, too.

BOLD over a learner with a bound against any adversary needs nothing but the peak. The other theorems ask for the
expected rewards: the estimates take their place, and the answer is called an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from belated import bounds
from belated.ledger.experiment import Experiment
from belated.protocols import Learner

#: A bound; one with estimates in place of expectations; what a bound would be if all feedback had come; one that is not
#: below what everybody has; none.
Kind = Literal["bound", "estimate", "guide", "vacuous", "none"]


@dataclass(frozen=True)
class Met:
    """What an experiment met: decisions, the peak, that of each action, and mean rewards scaled to [0, 1]."""

    decisions: int
    peak: int
    peaks: tuple[int, ...]
    means: tuple[float, ...] | None
    #: What the theorems do not cover, such as "3 decisions expired".
    uncovered: str | None = None


@dataclass(frozen=True)
class Price:
    """What the theorem says, in units of reward."""

    kind: Kind
    text: str
    with_delay: float | None = None
    without_delay: float | None = None
    price: float | None = None


def price(experiment: Experiment, met: Met) -> Price:
    """The price of delay so far, or the reason why there is none."""
    if not met.decisions:
        return Price("none", "There are no decisions yet.")
    learner = experiment.learner
    scale = float(np.ptp(learner.loss)) if learner.feedback == "symbol" else experiment.high - experiment.low
    if experiment.pooled:
        return _pooled(learner, met, scale)
    return _alone(learner, met, scale, experiment.queued)


def _pooled(learner: Learner, met: Met, scale: float) -> Price:
    """BOLD: (G* + 1) f(n / (G* + 1)) against f(n)."""
    base, estimated = _base(learner, met)
    if base is None:
        return Price("none", _unbounded(learner))
    n, instances = met.decisions, met.peak + 1
    whole, alone = bounds.bold(base, n, met.peak), bounds.bold(base, n, 0)
    if bounds.is_vacuous(whole, n):
        start = _start(base)
        text = (
            f"{_count(n, 'decision')} {'is' if n == 1 else 'are'} too few for a bound over "
            f"{_count(instances, 'instance')}: it is not below {_short(scale * n)}, which everybody has."
        )
        if start is not None:
            text += (
                f" With this peak it begins to say something at about {_short(math.ceil(start * instances))} decisions."
            )
        return Price("vacuous", text, scale * whole, scale * alone)
    text = (
        f"At most {_count(met.peak, 'decision')} {'was' if met.peak == 1 else 'were'} open when another was made, so "
        f"BOLD spreads the learning over {_count(instances, 'instance')}. The expected regret of "
        f"{_count(n, 'decision')} is at most {_short(scale * whole)}; without delay it would be "
        f"{_short(scale * alone)}. This holds if delays depend neither on actions nor on outcomes."
    )
    return _judged(text, scale * whole, scale * alone, scale * (whole - alone), estimated, met)


def _unbounded(learner: Learner) -> str:
    """Why BOLD's theorem, which needs the learner's f(n), says nothing."""
    name = type(learner).__name__
    if learner.context_size:
        return f"No bound is known for {name} that holds against any adversary, so BOLD's theorem says nothing."
    means = np.linspace(0.25, 0.75, learner.actions)
    first, later = learner.stochastic_bound(1.0, means), learner.stochastic_bound(3.0, means)
    if later is None:
        return (
            f"No bound is known for {name}, with the gaps between the actions or without: BOLD's theorem says nothing."
        )
    said = f"No bound is known for {name} that holds against any adversary, or without the gaps between the actions"
    if first is None:
        return f"{said}. The one with the gaps is not for every number of decisions, as BOLD's theorem needs it."
    return f"{said}. There is an action without feedback to estimate the gaps by, so BOLD's theorem says nothing yet."


def _alone(learner: Learner, met: Met, scale: float, queued: bool) -> Price:
    """QPM-D and Direct: a bound without delay, and about sum_i gap_i G*_i on top."""
    name, n = type(learner).__name__, _upward(met.decisions)
    if learner.context_size:
        return Price("none", f"The theorem speaks of fixed expected rewards; those of {name} change with the context.")
    if met.means is None:
        return Price(
            "none", "The theorem needs the gaps between the actions, and there is one without feedback to estimate by."
        )
    means = tuple(round(mean, 2) for mean in met.means)
    pair = _queued(learner, n, means, met.peaks) if queued else _direct(learner, n, means, met.peaks, met.peak)
    if isinstance(pair, str):
        return Price("none", f"There is no bound: {pair}.")
    whole, alone = pair
    added = scale * (whole - alone)
    text = (
        f"Delay adds about {_short(added)} to the bound on the regret: for each action its gap to the best, times the "
        f"most decisions for it that were open at once. The learner's bound without delay is {_short(scale * alone)}"
    )
    if bounds.is_vacuous(whole, n):
        text += f", and both together are not below {_short(scale * n)}, which everybody has: the bound says nothing."
        return Price("vacuous", text, scale * whole, scale * alone, added)
    return _judged(f"{text} after {_short(n)} decisions.", scale * whole, scale * alone, added, True, met)


def _judged(text: str, whole: float, alone: float, added: float, estimated: bool, met: Met) -> Price:
    if met.uncovered is not None:
        text = f"No guarantee: {met.uncovered}, which the theorems do not cover. If all feedback had come: {text}"
        return Price("guide", text, whole, alone, added)
    if estimated:
        text += " Estimated means stand for the true ones, which nobody knows."
    return Price("estimate" if estimated else "bound", text, whole, alone, added)


Base = Callable[[float], float]


def _base(learner: Learner, met: Met) -> tuple[Base | None, bool]:
    """f for BOLD's theorem: against any adversary, or else for i.i.d. rewards, lifted so that f(1) >= 1."""
    if learner.bound(1.0) is not None:
        return lambda n: learner.bound(n) or 0.0, False
    if met.means is None or learner.context_size:
        return None, False
    means = np.array(met.means)
    first = learner.stochastic_bound(1.0, means)
    if first is None:
        return None, False
    return lambda n: (learner.stochastic_bound(n, means) or 0.0) + max(0.0, 1.0 - first), True


@lru_cache(maxsize=256)
def _queued(learner: Learner, n: int, means: tuple[float, ...], peaks: tuple[int, ...]) -> tuple[float, float] | str:
    values = np.array(means)
    known = [f for f in (learner.stochastic_bound(n, values), learner.bound(n)) if f is not None]
    if not known:
        return f"{type(learner).__name__} has no known bound without delay"
    return bounds.qpmd(min(known), values.max() - values, peaks), min(known)


@lru_cache(maxsize=256)
def _direct(
    learner: Learner, n: int, means: tuple[float, ...], peaks: tuple[int, ...], peak: int
) -> tuple[float, float] | str:
    values = np.array(means)
    whole = learner.delayed_bound(n, values, np.array(peaks, float), float(peak))
    alone = learner.delayed_bound(n, values, np.zeros(len(peaks)), 0.0)
    if isinstance(whole, str) or isinstance(alone, str):
        return str(whole)
    return whole, alone


def _start(base: Base) -> float | None:
    """The first number of rounds, nearly, at which f says something."""
    steps = (1.1**k for k in range(300))
    return next((m for m in steps if base(m) < m), None)


def _upward(n: int) -> int:
    """n, up to two digits: bounds grow with n, and are worked out anew only now and then.

    >>> [_upward(n) for n in (7, 137, 1_000_001)]
    [7, 140, 1100000]
    """
    unit: int = 10 ** max(0, len(str(n)) - 2)
    return -(-n // unit) * unit


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _short(number: float) -> str:
    """Three digits, as people read them; none behind the point of a whole number.

    >>> [_short(x) for x in (0.0, 0.01234, 12.345, 87, 1234.5, 12_345_678.0)]
    ['0', '0.0123', '12.3', '87', '1,230', '12,300,000']
    """
    if number == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(number)))
    if number == round(number):
        digits = min(digits, 0)
    return f"{round(number, digits):,.{max(0, digits)}f}"
