"""The contract of plain learners, adapters included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isnan, sqrt
from typing import Any

import numpy as np

from belated.checks.contract import demand
from belated.errors import BadPrediction, Unsupported
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.forecasters.process import check_prediction
from belated.protocols import PlainLearner

ROUNDS = 60
#: Learners that draw for themselves, and how many of them must have lived through the same to be compared.
CROWD, ENOUGH = 600, 100
#: How long those live.
SHORT = 4


@dataclass(frozen=True)
class Trial:
    """A function that makes plain learners, and what they are to meet."""

    factory: Callable[..., PlainLearner]
    contexts: Sequence[Any]
    feedback: Callable[[int, Any, Any], Any]
    rounds: int

    def make(self, number: int = 0) -> PlainLearner:
        """The learner with that number; without numbers they are all alike."""
        return self.factory(number) if getattr(self.factory, "numbered", False) else self.factory()

    def context(self, t: int) -> Any:
        return self.contexts[t % len(self.contexts)]

    def drive(self, learner: PlainLearner, rounds: Iterable[int]) -> list[Any]:
        """Predict and update in turn on the given rounds; return the predictions."""
        judge = BOLD(self.factory)
        said = []
        for t in rounds:
            action, probability = self.ask(judge, learner, t)
            learner.update(self.context(t), action, probability, self.feedback(t, self.context(t), action))
            said.append(action)
        return said

    def ask(self, judge: Forecaster, learner: PlainLearner, t: int) -> tuple[Any, float]:
        """One prediction, if it is one."""
        try:
            return check_prediction(judge, learner.predict(self.context(t)))
        except BadPrediction as error:
            demand(False, f"round {t + 1}: {error}")
            raise

    def under(self, forecaster: Forecaster, delay: int) -> list[Any]:
        """What the forecaster predicts when all feedback comes `delay` rounds late."""
        said: list[Any] = []
        tickets: list[int] = []
        for t in range(self.rounds):
            decision = forecaster.predict(self.context(t))
            said.append(decision.action)
            tickets.append(decision.ticket)
            s = t - delay
            if s >= 0:
                forecaster.update(tickets[s], self.feedback(s, self.context(s), said[s]))
        return said


def makes_fresh_ones(trial: Trial) -> None:
    """Each call makes a new object, which knows nothing of what others have met, and predicts as the first did."""
    one, two = trial.make(), trial.make()
    demand(one is not two, f"the same object was made twice: {one!r}")
    demand(one.actions == two.actions, f"one was made with {one.actions} actions, one with {two.actions}")
    rounds = range(trial.rounds)
    first = trial.drive(one, rounds)
    for other in (two, trial.make()):
        said = trial.drive(other, rounds)
        _demand_same(first, said, "two that meet the same part ways (do they share anything, or draw without a seed?)")


def keeps_to_itself(trial: Trial) -> None:
    """Two that take turns, each on rounds of its own, predict what each predicts alone: their class holds no state."""
    paths = (range(trial.rounds), range(trial.rounds - 1, -1, -1))
    alone = [trial.drive(trial.make(number), path) for number, path in enumerate(paths)]
    both, judge = [trial.make(number) for number in range(2)], BOLD(trial.factory)
    together: list[list[Any]] = [[], []]
    for turn in zip(*paths, strict=True):
        made = [trial.ask(judge, learner, t) for learner, t in zip(both, turn, strict=True)]
        for number in (1, 0):  # who predicted last learns first
            t, (action, probability) = turn[number], made[number]
            both[number].update(trial.context(t), action, probability, trial.feedback(t, trial.context(t), action))
            together[number].append(action)
    for said, expected in zip(together, alone, strict=True):
        message = "beside another one it predicts otherwise than alone (is there state in the class, which all share?)"
        _demand_same(said, expected, message)


def predicts_honestly(trial: Trial) -> None:
    """Where learners draw for themselves: among those with the same past 1{a} / p averages to one for each action."""
    first = trial.make()
    if not getattr(trial.factory, "numbered", False) or not getattr(first, "states_probability", True):
        return
    if first.actions is None:
        return
    judge = BOLD(trial.factory)
    crowds: dict[tuple[Any, ...], list[PlainLearner]] = {(): [trial.make(number) for number in range(CROWD)]}
    for t in range(SHORT):
        split: defaultdict[tuple[Any, ...], list[PlainLearner]] = defaultdict(list)
        for past, crowd in crowds.items():
            weights: defaultdict[int, list[float]] = defaultdict(list)
            for learner in crowd:
                action, probability = trial.ask(judge, learner, t)
                demand(not isnan(probability), f"round {t + 1}: a probability that is not stated")
                weights[action].append(1.0 / probability)
                learner.update(trial.context(t), action, probability, trial.feedback(t, trial.context(t), action))
                split[(*past, action)].append(learner)
            for action, found in weights.items():
                mean = sum(found) / len(crowd)
                error = sqrt(max(sum(w * w for w in found) / len(crowd) - mean**2, 0.0) / len(crowd))
                demand(
                    abs(mean - 1.0) <= 6.0 * error + 0.02,
                    f"round {t + 1}: of {len(crowd)} with the same past {len(found)} chose action {action}, "
                    f"and 1{{a}} / p averages to {mean:.3f}, not 1",
                )
        crowds = {past: crowd for past, crowd in split.items() if len(crowd) >= ENOUGH}


def accepts_skipped_rounds(trial: Trial) -> None:
    """Predict after predict is a cancelled round: still in range, still learning afterwards."""
    learner, judge = trial.make(), BOLD(trial.factory)
    for t in range(trial.rounds):
        if t % 3:
            trial.drive(learner, [t])
        trial.ask(judge, learner, t)


def no_delay_is_the_base(trial: Trial) -> None:
    """At delay 0 every forecaster that takes it plays what it plays alone."""
    alone = trial.drive(trial.make(), range(trial.rounds))
    for forecaster in allowed(trial):
        said = trial.under(forecaster(trial.factory), 0)
        _demand_same(said, alone, f"{forecaster.__name__} at delay 0 leaves the learner")


def bold_interleaves(trial: Trial, bold: type[Forecaster] = BOLD, delay: int = 4) -> None:
    """BOLD at constant delay d is d + 1 runs of the learner, taking turns."""
    turns = delay + 1
    expected: list[Any] = [None] * trial.rounds
    for number in range(turns):
        expected[number::turns] = trial.drive(trial.make(number), range(number, trial.rounds, turns))
    said = trial.under(bold(trial.factory), delay)
    _demand_same(said, expected, f"BOLD is not {turns} interleaved runs")


def is_refused_where_it_must(trial: Trial) -> None:
    """Direct refuses a learner that does not tolerate delay, QPM-D one that predicts anything; nothing else."""
    learner = trial.make()
    tolerant = bool(getattr(learner, "tolerates_delay", True))
    for forecaster, fits in ((Direct, tolerant), (QPMD, learner.actions is not None), (BOLD, True)):
        try:
            forecaster(trial.factory)
        except Unsupported as error:
            demand(not fits, f"{forecaster.__name__} refuses it: {error}")
        else:
            demand(fits, f"{forecaster.__name__} accepts what is outside its conditions")


def allowed(trial: Trial) -> list[type[Forecaster]]:
    """The forecasters that may play it, on these contexts."""
    learner = trial.make()
    refused: set[type[Forecaster]] = set()
    if not getattr(learner, "tolerates_delay", True):
        refused.add(Direct)
    if learner.actions is None or any(context is not None for context in trial.contexts):
        refused.add(QPMD)
    return [forecaster for forecaster in (Direct, BOLD, QPMD) if forecaster not in refused]


def _demand_same(one: list[Any], two: list[Any], message: str) -> None:
    for t, (a, b) in enumerate(zip(one, two, strict=True), start=1):
        demand(np.all(a == b), f"{message}: in round {t} {a!r} and {b!r}")


PLAIN_CHECKS: tuple[Callable[[Trial], None], ...] = (
    makes_fresh_ones,
    keeps_to_itself,
    predicts_honestly,
    accepts_skipped_rounds,
    no_delay_is_the_base,
    bold_interleaves,
    is_refused_where_it_must,
)


def reward(t: int, context: Any, action: Any) -> float:
    """Feedback for bandits: 0 or 1, fixed for each round and action, more often 1 for higher actions."""
    return float((7919 * t + 104729 * action) % 997 < 300 + 100 * (action % 5))


def check_plain(
    factory: Callable[..., PlainLearner],
    contexts: Sequence[Any] = (None,),
    feedback: Callable[[int, Any, Any], Any] = reward,
    rounds: int = ROUNDS,
) -> None:
    """All of them, for what a forecaster is given as learner: a function that makes plain learners.

    `contexts` are given one after the other, again and again; `feedback(round, context, action)` says what is told of
    an action (or of a prediction) in a round, counted from 0, always the same. A learner that draws must have a seed.

    It raises `CheckFailed` with what is wrong.

    >>> class Sticky:
    ...     actions = 3
    ...
    ...     def __init__(self):
    ...         self.action = 0
    ...
    ...     def predict(self, context):
    ...         return self.action, 1.0
    ...
    ...     def update(self, context, action, probability, feedback):
    ...         self.action = action if feedback >= 0.5 else (action + 1) % 3
    >>> check_plain(Sticky)
    """
    trial = Trial(factory, contexts, feedback, rounds)
    for check in PLAIN_CHECKS:
        check(trial)
