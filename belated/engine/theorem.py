"""Which theorem speaks about a run, and what it says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from belated import bounds
from belated.engine.workspace import Setting, Tables
from belated.forecasters import BOLD, QPMD
from belated.protocols import Floats, Learner


@dataclass(frozen=True, eq=False)
class Theorem(ABC):
    """A bound on the mean regret as a function of n, with the measured peaks in it.

    The peaks are those of the whole run. For fewer rounds than it had, they make the bound larger, never wrong.
    Learners state their bounds for rewards in [0, 1]; `scale` is the range of the game's, in which its regret is.
    """

    learner: Learner
    scale: float = field(default=1.0, kw_only=True)

    @abstractmethod
    def bound(self, n: int) -> float:
        """The bound at n rounds, at most scale * n."""

    def error(self, n: int) -> float:
        """The standard error of the bound: its peaks were measured too."""
        return 0.0


@dataclass(frozen=True, eq=False)
class BoldTheorem(Theorem):
    """E R_n <= E[(G* + 1) f~(n / (G* + 1))], the mean over the replications."""

    peak: Floats
    means: Floats | None

    def bound(self, n: int) -> float:
        return self.scale * bounds.bold(self.base, n, self.peak)

    def error(self, n: int) -> float:
        peaks, which = np.unique(self.peak, return_inverse=True)
        terms = np.array([bounds.bold(self.base, n, [peak]) for peak in peaks.tolist()])
        return self.scale * error_of(terms[which])

    def base(self, n: float) -> float:
        """f: against any adversary, or else for i.i.d. rewards, lifted so that f(1) >= 1."""
        value = self.learner.bound(n)
        if value is None and self.means is not None:
            value, first = (self.learner.stochastic_bound(m, self.means) or 0.0 for m in (n, 1.0))
            value += max(0.0, 1.0 - first)
        assert value is not None
        return value


@dataclass(frozen=True, eq=False)
class Additive(Theorem):
    """One that adds sum_i Delta_i E G*_i, or more, to a regret without delay."""

    means: Floats  #: on the game's scale
    peaks: Floats
    penalty_error: float  #: the standard error of sum_i Delta_i G*_i

    @property
    def unit_means(self) -> Floats:
        """As learners count them."""
        return self.means / (self.scale or 1.0)

    def error(self, n: int) -> float:
        return self.penalty_error


@dataclass(frozen=True, eq=False)
class QpmdTheorem(Additive):
    """E R_n <= E R^base_n + sum_i Delta_i E G*_i."""

    def bound(self, n: int) -> float:
        both = (self.learner.stochastic_bound(n, self.unit_means), self.learner.bound(n))
        known = [self.scale * f for f in both if f is not None]
        if not known:
            return self.scale * n
        gaps = self.means.max(axis=-1, keepdims=True) - self.means
        return min(self.scale * n, bounds.qpmd(min(known), gaps.ravel(), self.peaks.ravel()))


@dataclass(frozen=True, eq=False)
class DirectTheorem(Additive):
    """What the learner says of itself under delay: Delayed-UCB1, Delayed-KL-UCB."""

    peak: float | None

    def bound(self, n: int) -> float:
        known = self.learner.delayed_bound(n, self.unit_means, self.peaks, self.peak)
        return self.scale * (n if isinstance(known, str) else min(float(n), known))


_COMPARATORS = {
    "action": "the best action",
    "expert": "the best expert",
    "map": "the best map from values of the side information to actions",
}


def theorem(setting: Setting, tables: Tables) -> Theorem | str:
    """The theorem that covers a run, or the reason why none does."""
    learner, game = setting.forecaster.learner, setting.game
    if not isinstance(learner, Learner):
        return "a plain learner has no stated bound"
    if tables.tally["cancelled"].any():
        return "tickets were cancelled, which the theorems do not cover"
    if tables.tally["dropped"].any():
        return "actions were replaced and their feedback dropped, which the theorems do not cover"
    if getattr(game, "law", None) is not None and getattr(game, "trace", None) is not None:
        return "the regret is that under the law, the outcomes are a given sequence: no theorem speaks of both"
    if game.comparator is None:
        return f"{type(game).__name__} does not say what its regret is against (comparator)"
    if game.comparator == "changing":
        return f"the regret of {type(game).__name__} is against a changing action, the theorems are about a fixed one"
    name = type(learner).__name__
    if learner.comparator != game.comparator:
        theirs, ours = _COMPARATORS[learner.comparator], _COMPARATORS[game.comparator]
        return f"the bound of {name} is against {theirs}, the regret of {type(game).__name__} is against {ours}"
    scale = float(game.scale)
    means = np.asarray(game.means, float) if game.stochastic and game.means is not None else None  # of each value, too
    unit_means = None if means is None else means / (scale or 1.0)
    if isinstance(setting.forecaster, BOLD):
        if setting.delays.depends_on_action:
            return "the delays depend on the action, which BOLD's theorem excludes"
        if learner.bound(1.0) is not None or (
            unit_means is not None and learner.stochastic_bound(1.0, unit_means) is not None
        ):
            return BoldTheorem(learner, np.asarray(tables.summary["peak"], float), unit_means, scale=scale)
        return f"{name} has no known bound {'of the form needed' if game.stochastic else 'against an adversary'}"
    if means is None or unit_means is None:
        return f"{type(setting.forecaster).__name__} has a bound for i.i.d. rewards only"
    measured = np.asarray((tables.groups if learner.values else tables.tally)["peak"], float)
    peaks = measured.mean(axis=0)
    gaps = means.max(axis=-1, keepdims=True) - means
    penalty_error = error_of((measured * gaps).reshape(len(measured), -1).sum(axis=1))
    if isinstance(setting.forecaster, QPMD):
        if learner.stochastic_bound(setting.rounds, unit_means) is None and learner.bound(setting.rounds) is None:
            return f"{name} has no known bound without delay"
        return QpmdTheorem(learner, means, peaks, penalty_error, scale=scale)
    peak = None if setting.delays.depends_on_action else float(tables.summary["peak"].mean())
    known = learner.delayed_bound(setting.rounds, unit_means, peaks, peak)
    return known if isinstance(known, str) else DirectTheorem(learner, means, peaks, penalty_error, peak, scale=scale)


def error_of(values: Floats) -> float:
    """The standard error of a mean; 0 of a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
