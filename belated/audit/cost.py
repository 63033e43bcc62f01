"""What each theorem says that delay costs, with the peaks of the log, for a learner and a gap of one's choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from belated import bounds, catalog, notation, require
from belated.audit.dependence import Dependence
from belated.engine.theorem import BoldTheorem, DirectTheorem, QpmdTheorem, Theorem
from belated.errors import InvalidArgument, Unsupported
from belated.learners import KLUCB, UCB1
from belated.protocols import Floats, Learner

#: A bound that says something; one that everybody has; none.
Word = Literal["bound", "vacuous", "no bound"]
#: Actions that the theorems are asked about where the log does not tell them apart.
FEWEST = 2


@dataclass(frozen=True)
class Cost:
    """What the theorem of one forecaster says, in units of the range of rewards."""

    forecaster: str
    word: Word
    with_delay: float | None
    without_delay: float | None
    added: float | None  #: the difference
    factor: float | None  #: the quotient
    reason: str | None  #: why there is no bound
    doubts: tuple[str, ...]  #: conditions that do not seem to hold


@dataclass(frozen=True, eq=False)
class Case:
    """What the theorems are asked about."""

    learner: Learner
    n: int
    peak: int
    peaks: Floats  #: of each action
    gap: float
    best: int  #: the action that is taken for the best

    @property
    def means(self) -> Floats:
        """The best action's mean is above one half by as much as those of the others, all equal, are below."""
        means = np.full(len(self.peaks), 0.5 - self.gap / 2)
        means[self.best] = 0.5 + self.gap / 2
        return means


def case(learner: Any, gap: float, n: int, peak: int, peaks: Sequence[int], means: Sequence[float] | None) -> Case:
    """Without rewards the action with the lowest peak is taken for the best, which is the worst case."""
    gap = require.real("gap", gap, above=0, high=1)
    chosen = learner_of(learner, len(peaks))
    best = int(np.argmin(peaks)) if means is None else int(np.argmax(means))
    return Case(chosen, n, peak, np.asarray(peaks, float), gap, best)


def learner_of(given: Any, actions: int) -> Learner:
    """A learner by name (or itself) that can be asked: one of bandit feedback without side information."""
    text = given if isinstance(given, str) else notation.text("learner", given)
    name = text.partition("(")[0].strip().lower()
    if name in catalog.TABLES["forecaster"] and name not in catalog.LEARNERS:
        raise InvalidArgument(f"learner must be a learner, such as ucb1, got the forecaster {text}")
    learner = notation.forecaster(f"bold({text})", actions).learner
    if not isinstance(learner, Learner):
        raise Unsupported(f"learner must be one of the catalog, got {given!r}")
    if learner.context_size or learner.feedback == "symbol":
        raise Unsupported(f"{text} needs side information or a game, of which a log of delays says nothing")
    if learner.actions != actions:
        raise Unsupported(f"the log has {actions} actions, {text} has {learner.actions}")
    return learner


def costs(case: Case, dependence: Sequence[Dependence]) -> list[Cost]:
    """The chosen learner under every forecaster, and the two learners that the paper plays directly."""
    on_action = [d.on for d in dependence if d.word == "depends" and d.on == "action"]
    on_outcome = [d.on for d in dependence if d.word == "depends" and d.on == "outcome"]
    outcome = ("delays depend on the outcome",) if on_outcome else ()
    action = ("delays depend on the action",) if on_action else ()
    name = notation.text("learner", case.learner)
    found = [_bold(case, f"bold({name})", action + outcome), _qpmd(case, f"qpmd({name})", outcome)]
    actions = case.learner.actions
    for learner in dict.fromkeys((case.learner, UCB1(actions), KLUCB(actions))):
        found.append(_direct(case, learner, not on_action, outcome))
    return found


def _bold(case: Case, name: str, doubts: tuple[str, ...]) -> Cost:
    learner = case.learner
    if learner.bound(1.0) is None and learner.stochastic_bound(1.0, case.means) is None:
        return _none(name, f"{type(learner).__name__} has no known bound of the form that BOLD's theorem needs", doubts)
    late, prompt = (BoldTheorem(learner, np.array([float(peak)]), case.means) for peak in (case.peak, 0))
    return _cost(name, case.n, late, prompt, doubts)


def _qpmd(case: Case, name: str, doubts: tuple[str, ...]) -> Cost:
    learner = case.learner
    if learner.stochastic_bound(case.n, case.means) is None and learner.bound(case.n) is None:
        return _none(name, f"{type(learner).__name__} has no known bound without delay", doubts)
    late, prompt = (QpmdTheorem(learner, case.means, peaks, 0.0) for peaks in (case.peaks, 0 * case.peaks))
    return _cost(name, case.n, late, prompt, doubts)


def _direct(case: Case, learner: Learner, free: bool, doubts: tuple[str, ...]) -> Cost:
    name = f"direct({notation.text('learner', learner)})"
    peak = float(case.peak) if free else None
    known = learner.delayed_bound(case.n, case.means, case.peaks, peak)
    if isinstance(known, str):
        return _none(name, known, doubts)
    late = DirectTheorem(learner, case.means, case.peaks, 0.0, peak)
    prompt = DirectTheorem(learner, case.means, 0 * case.peaks, 0.0, 0.0)
    return _cost(name, case.n, late, prompt, doubts)


def _none(name: str, reason: str, doubts: tuple[str, ...]) -> Cost:
    return Cost(name, "no bound", None, None, None, None, reason, doubts)


def _cost(name: str, n: int, late: Theorem, prompt: Theorem, doubts: tuple[str, ...]) -> Cost:
    whole, alone = late.bound(n), prompt.bound(n)
    if bounds.is_vacuous(whole, n):
        return Cost(name, "vacuous", whole, alone, None, None, None, doubts)
    return Cost(name, "bound", whole, alone, whole - alone, whole / alone if alone else None, None, doubts)
