"""What each theorem says that delay costs, with the peaks of the log, for a learner and a gap of one's choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from belated import catalog, notation, require
from belated.audit.dependence import Dependence
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters import Forecaster
from belated.learners import KLUCB, UCB1
from belated.protocols import Floats, Learner
from belated.theory import case as theory

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
    """The chosen learner under the paper's forecasters, and the two learners that the paper plays directly."""
    on_action = any(d.word == "depends" and d.on == "action" for d in dependence)
    on_outcome = any(d.word == "depends" and d.on == "outcome" for d in dependence)
    found = [_cost(case, catalog.FORECASTERS[name](case.learner), on_action, on_outcome) for name in ("bold", "qpmd")]
    actions = case.learner.actions
    for learner in dict.fromkeys((case.learner, UCB1(actions), KLUCB(actions))):
        if learner.tolerates_delay:
            found.append(_cost(case, catalog.FORECASTERS["direct"](learner), on_action, on_outcome))
    return found


def _cost(case: Case, rule: Forecaster, on_action: bool, on_outcome: bool) -> Cost:
    """What the theorem of a forecaster says with the delays of the log, and without any."""
    doubts = []
    if on_action and "action" in rule.excludes:
        doubts.append("delays depend on the action")
    if on_outcome and "reward" in rule.excludes:
        doubts.append("delays depend on the outcome")
    # Where the theorem excludes it, that is a doubt; where it allows it, the theorem may say another thing.
    by_action = on_action and "action" not in rule.excludes
    late, prompt = (
        rule.theorem(
            theory.Case(
                learner=rule.learner,
                n=case.n,
                peak=np.array([share * case.peak], float),
                peaks=share * case.peaks[np.newaxis],
                means=case.means,
                by_action=by_action and share > 0,
            )
        )
        for share in (1.0, 0.0)
    )
    name = notation.text("forecaster", rule)
    if isinstance(late, str) or isinstance(prompt, str):
        return Cost(name, "no bound", None, None, None, None, str(late), tuple(doubts))
    whole, alone = late.bound(case.n), prompt.bound(case.n)
    if late.vacuous(case.n):
        return Cost(name, "vacuous", whole, alone, None, None, None, tuple(doubts))
    factor = whole / alone if alone else None
    return Cost(name, "bound", whole, alone, whole - alone, factor, None, tuple(doubts))
