"""The price of delay so far: what the theorems say with the delays that were met, and without any; in words, too.

BOLD over a learner with a bound against any adversary needs nothing but the peak. The other theorems ask for the
expected rewards: the estimates take their place, and the answer is called an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from belated.forecasters import Forecaster
from belated.ledger.experiment import Experiment
from belated.protocols import Learner
from belated.theory.case import Case
from belated.theory.theorems import Additive, Theorem

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
    #: The sum of G_t, where it was counted.
    total: int | None = None


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
    learner, rule = experiment.learner, experiment.forecaster
    scale = float(np.ptp(learner.loss)) if learner.feedback == "symbol" else experiment.high - experiment.low
    means = None if met.means is None or learner.context_size else tuple(round(mean, 2) for mean in met.means)
    found = _ask(rule, _upward(met.decisions), met.peak, met.peaks, met.total, means)
    if isinstance(found, str):
        return Price("none", _reason(rule, learner, met, found))
    late, prompt, whole, alone = found
    if isinstance(late, Additive):
        return _added(late, whole, alone, met, scale)
    return _multiplied(rule, late, prompt, met, scale)


@lru_cache(maxsize=256)
def _ask(
    rule: Forecaster,
    n: int,
    peak: int,
    peaks: tuple[int, ...],
    total: int | None,
    means: tuple[float, ...] | None,
) -> tuple[Theorem, Theorem, float, float] | str:
    """The theorem with the delays that were met and without any, and where delay adds what both say, not cut."""
    zero = (0, (0,) * len(peaks), None if total is None else 0)
    late, prompt = (_theorem(rule, n, *each, means) for each in ((peak, peaks, total), zero))
    if isinstance(late, str) or isinstance(prompt, str):
        return str(late)
    if isinstance(late, Additive) and isinstance(prompt, Additive):
        return late, prompt, late.raw(n), prompt.raw(n)
    return late, prompt, 0.0, 0.0


def _theorem(
    rule: Forecaster, n: int, peak: int, peaks: tuple[int, ...], total: int | None, means: tuple[float, ...] | None
) -> Theorem | str:
    return rule.theorem(
        Case(
            learner=rule.learner,
            n=n,
            peak=np.array([float(peak)]),
            peaks=np.array([peaks], float),
            means=None if means is None else np.array(means),
            total=None if total is None else np.array([float(total)]),
        )
    )


def _reason(rule: Forecaster, learner: Learner, met: Met, said: str) -> str:
    """Why there is no bound."""
    if learner.context_size:
        name = type(learner).__name__
        return f"There is no bound: {said}. (The expected rewards of {name} change with the context.)"
    guess = tuple(np.linspace(0.25, 0.75, learner.actions).tolist())
    if met.means is None and not isinstance(_theorem(rule, met.decisions, met.peak, met.peaks, met.total, guess), str):
        return "The theorem needs the gaps between the actions, and there is one without feedback to estimate by."
    return f"There is no bound: {said}."


def _multiplied(rule: Forecaster, late: Theorem, prompt: Theorem, met: Met, scale: float) -> Price:
    """Delay multiplies: (G* + 1) f(n / (G* + 1)) against f(n), and the like."""
    n, instances, name = met.decisions, met.peak + 1, type(rule).__name__
    whole, alone = late.bound(n), prompt.bound(n)
    if late.vacuous(n):
        over = f" over {_count(instances, 'instance')}" if rule.grows else ""
        text = (
            f"{_count(n, 'decision')} {'is' if n == 1 else 'are'} too few for a bound{over}: it is not below "
            f"{_short(scale * late.trivial(n))}, which everybody has."
        )
        start = _start(prompt)
        if start is not None and rule.grows:
            text += (
                f" With this peak it begins to say something at about {_short(math.ceil(start * instances))} decisions."
            )
        return Price("vacuous", text, scale * whole, scale * alone)
    spread = f", so {name} spreads the learning over {_count(instances, 'instance')}" if rule.grows else ""
    text = (
        f"At most {_count(met.peak, 'decision')} {'was' if met.peak == 1 else 'were'} open when another was made"
        f"{spread}. The expected regret of {_count(n, 'decision')} is at most {_short(scale * whole)}; without delay "
        f"it would be {_short(scale * alone)}. This holds if delays depend neither on actions nor on outcomes."
    )
    estimated = late.learner.bound(1.0) is None
    return _judged(text, scale * whole, scale * alone, scale * (whole - alone), estimated, met)


def _added(late: Theorem, whole: float, alone: float, met: Met, scale: float) -> Price:
    """Delay adds: a bound without delay, and about sum_i gap_i G*_i on top."""
    n = _upward(met.decisions)
    added = scale * (whole - alone)
    text = (
        f"Delay adds about {_short(added)} to the bound on the regret: for each action its gap to the best, times the "
        f"most decisions for it that were open at once. The learner's bound without delay is {_short(scale * alone)}"
    )
    if late.vacuous(n):
        everybody = _short(scale * late.trivial(n))
        text += f", and both together are not below {everybody}, which everybody has: the bound says nothing."
        return Price("vacuous", text, scale * whole, scale * alone, added)
    return _judged(f"{text} after {_short(n)} decisions.", scale * whole, scale * alone, added, True, met)


def _judged(text: str, whole: float, alone: float, added: float, estimated: bool, met: Met) -> Price:
    if met.uncovered is not None:
        text = f"No guarantee: {met.uncovered}, which the theorems do not cover. If all feedback had come: {text}"
        return Price("guide", text, whole, alone, added)
    if estimated:
        text += " Estimated means stand for the true ones, which nobody knows."
    return Price("estimate" if estimated else "bound", text, whole, alone, added)


def _start(prompt: Theorem) -> float | None:
    """The first number of rounds, nearly, at which the bound without delay says something."""
    base = getattr(prompt, "base", None)
    if base is None:
        return None
    steps = (1.1**k for k in range(300))
    return next((m for m in steps if base(m) < prompt.most * m), None)


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

    >>> [_short(x) for x in (0.0, 0.01234, 12.345, 87, 1234.5, 12_345_678.0, 1.5e200)]
    ['0', '0.0123', '12.3', '87', '1,230', '12,300,000', '1.5e+200']
    """
    if number == 0 or not 1e-6 <= abs(number) < 1e15:
        return f"{number:.3g}"
    digits = 2 - math.floor(math.log10(abs(number)))
    if number == round(number):
        digits = min(digits, 0)
    return f"{round(number, digits):,.{max(0, digits)}f}"
