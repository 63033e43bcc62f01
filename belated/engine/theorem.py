"""Which theorem speaks about a run, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from belated import bounds
from belated.engine.workspace import Setting, Tables
from belated.forecasters import BOLD, QPMD
from belated.protocols import Floats, Learner

#: A bound at n rounds, or the reason why there is none.
Theorem = Callable[[int], float] | str


def theorem(setting: Setting, tables: Tables) -> Theorem:
    """The bound on the mean regret as a function of n, with the measured peaks in it; or why there is none.

    The peaks are those of the whole run. For fewer rounds than it had, they make the bound larger, never wrong.
    """
    learner = setting.forecaster.learner
    if not isinstance(learner, Learner):
        return "a plain learner has no stated bound"
    if tables.tally["cancelled"].any():
        return "tickets were cancelled, which the theorems do not cover"
    if isinstance(setting.forecaster, BOLD):
        return _bold(setting, learner, tables.summary["peak"])
    if not setting.game.stochastic or setting.game.means is None:
        return f"{type(setting.forecaster).__name__} has a bound for i.i.d. rewards only"
    means = np.asarray(setting.game.means, float)
    peaks = tables.tally["peak"].mean(axis=0)
    if isinstance(setting.forecaster, QPMD):
        return _qpmd(learner, means, peaks)
    peak = None if setting.delays.depends_on_action else float(tables.summary["peak"].mean())
    return _direct(learner, means, peaks, peak)


def _bold(setting: Setting, learner: Learner, peak: Floats) -> Theorem:
    if setting.delays.depends_on_action:
        return "the delays depend on the action, which BOLD's theorem excludes"
    if learner.bound(1.0) is None:
        return f"{type(learner).__name__} has no known bound against an oblivious adversary"

    def base(n: float) -> float:
        value = learner.bound(n)
        assert value is not None
        return value

    return lambda n: bounds.bold(base, n, np.asarray(peak, float))


def _qpmd(learner: Learner, means: Floats, peaks: Floats) -> Theorem:
    gaps = means.max() - means

    def value(n: int) -> float:
        known = [f for f in (learner.stochastic_bound(n, means), learner.bound(n)) if f is not None]
        return min(float(n), bounds.qpmd(min(known, default=float(n)), gaps, peaks))

    if learner.stochastic_bound(10, means) is None and learner.bound(10) is None:
        return f"{type(learner).__name__} has no known bound without delay"
    return value


def _direct(learner: Learner, means: Floats, peaks: Floats, peak: float | None) -> Theorem:
    def value(n: int) -> float:
        known = learner.delayed_bound(n, means, peaks, peak)
        return float(n) if known is None else min(float(n), known)

    if learner.delayed_bound(10, means, peaks, peak) is None:
        if peak is None and learner.delayed_bound(10, means, peaks, 0.0) is not None:
            return f"the theorem for {type(learner).__name__} needs delays that do not depend on the action"
        return f"no theorem bounds {type(learner).__name__} played directly under delay"
    return value
