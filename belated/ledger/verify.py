"""Every learner state again from its events: what is stored must come out.

Each state is replayed by its own sequence of events, from zero or from a checkpoint, and the recorded actions and
probabilities must come out again. Another machine may round the last digit differently: then it is 'equal to rounding'.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np

from belated.errors import BelatedError
from belated.kernels.states import state_dtype
from belated.ledger.experiment import Experiment
from belated.ledger.items import read_value
from belated.ledger.player import HELD, InMemory, Player, Queues, vector
from belated.ledger.store import Checkpoint, DecisionRow, Event, ExperimentRow, Reader, State, Store
from belated.ledger.upkeep import mismatch, queues_of

Verdict = Literal["identical", "equal to rounding", "different", "not replayed"]

#: How far rounding may carry.
NEAR = 1e-9


@dataclass(frozen=True)
class Report:
    """What became of one experiment."""

    experiment: str
    verdict: Verdict
    states: int
    events: int
    message: str = ""

    def __str__(self) -> str:
        said = f"{self.experiment}: {self.verdict}, {self.states} states, {self.events} events"
        return f"{said}; {self.message}" if self.message else said


class Different(Exception):
    """What is stored is not what comes out."""


def verify(store: Store) -> Iterator[Report]:
    """A report for each experiment."""
    with store.read() as session:
        for row in session.experiments():
            yield _replay(row, session)


def _replay(row: ExperimentRow, session: Reader) -> Report:
    try:
        experiment = Experiment.from_row(row)
    except BelatedError as error:
        return Report(row.name, "not replayed", 0, 0, str(error))
    if experiment.stored is not None:
        return Report(row.name, "not replayed", 0, 0, mismatch(experiment))
    replay = Replay(experiment, session.checkpoints(experiment.id))
    try:
        replay.run(session)
    except Different as error:
        return Report(row.name, "different", replay.states, replay.events, str(error))
    verdict: Verdict = "identical" if replay.exact else "equal to rounding"
    return Report(row.name, verdict, replay.states, replay.events)


class Replay:
    """One experiment, state by state."""

    def __init__(self, experiment: Experiment, checkpoints: dict[int, list[Checkpoint]]) -> None:
        self.experiment = experiment
        self.player = Player(experiment)
        self.players = {len(experiment.actions): self.player}
        self.growths: dict[int, list[tuple[int, int]]] = {}
        self.dtype = state_dtype(experiment.learner)
        self.checkpoints = checkpoints
        self.states = 0
        self.events = 0
        self.exact = True

    def run(self, session: Reader) -> None:
        """Replay all; Different names the first difference."""
        self.growths = session.growths(self.experiment.id)
        stored = session.all_states(self.experiment.id)
        for instance, events in groupby(session.events_of(self.experiment.id), lambda pair: pair[0].instance):
            self._one(self._next(stored, instance), events)
        for state in stored:
            self._one(state, iter(()))

    def _next(self, stored: Iterator[State], instance: int) -> State:
        """The state of that instance; those before it have no events."""
        for state in stored:
            if state.instance == instance:
                return state
            self._one(state, iter(()))
        raise Different(f"instance {instance} has events and no state")

    def _one(self, stored: State, events: Iterator[tuple[Event, DecisionRow | None]]) -> None:
        first = next(events, None)
        state, queues = self._start(stored.instance, None if first is None else first[0].seq)
        if first is not None:
            self._step(state, *first, queues)
        for event, row in events:
            self._step(state, event, row, queues)
        self.player.settle()
        self.states += 1
        self._compare(stored, state)

    def _start(self, instance: int, first: int | None) -> tuple[State, Queues]:
        """Zero where all events are there; else the oldest checkpoint, or the newest that nothing goes behind."""
        kept = self.checkpoints.get(instance, [])
        floors = [checkpoint for checkpoint in kept if checkpoint.floor]
        if floors:
            chosen = floors[-1]
        elif first == 1 or not kept:
            self.player = self._of(self._actions(instance, 0))
            return self.player.fresh(instance), InMemory()
        else:
            chosen = kept[0]
        self.player = self._of(self._actions(instance, chosen.state.seq))
        return chosen.state, queues_of(chosen)

    def _actions(self, instance: int, seq: int) -> int:
        """How many actions a state had after that event: as many as the number of the next that was added."""
        later = (action for at, action in self.growths.get(instance, ()) if at > seq)
        return next(later, len(self.experiment.actions))

    def _of(self, actions: int) -> Player:
        """Who plays so many actions."""
        if actions not in self.players:
            self.players[actions] = Player(self.experiment.sized(self.experiment.actions[:actions]))
        return self.players[actions]

    def _step(self, state: State, event: Event, row: DecisionRow | None, queues: Queues) -> None:
        if event.seq <= state.seq:
            return
        where = f"instance {event.instance}, event {event.seq} ({event.kind})"
        if event.seq != state.seq + 1:
            raise Different(f"{where}: event {state.seq + 1} is missing")
        self.events += 1
        if event.kind == "replace":
            self.player.replace(state, event.action or 0)
        elif event.kind == "grow":
            self._grow(where, state, event)
        elif row is None:
            raise Different(f"{where}: its decision is missing")
        elif event.kind == "decide":
            self._decide(where, state, event, row, queues)
        elif event.kind in ("feedback", "default"):
            feedback = self.experiment.feedback(read_value(event.value), row.action)
            self.player.feed(state, row.number, vector(row.context), row.action, row.probability, feedback, queues)
        else:
            self.player.release(state)

    def _grow(self, where: str, state: State, event: Event) -> None:
        before = self.player
        if event.action != before.actions or before is self._of(len(self.experiment.actions)):
            raise Different(f"{where}: action {event.action} is added to {before.actions}")
        before.settle()
        self.player = self._of(before.actions + 1)
        self.player.grow(state, state_dtype(before.experiment.learner))

    def _decide(self, where: str, state: State, event: Event, row: DecisionRow, queues: Queues) -> None:
        allowed = None if row.allowed is None else json.loads(row.allowed)
        action, probability, number = self.player.decide(state, vector(row.context), allowed, queues)
        if (action, number) != (event.action, row.number) or row.action != event.action:
            raise Different(f"{where}: action {event.action} is recorded, {action} comes out")
        if probability != event.probability:
            self.exact = False
            if event.probability is None or abs(probability - event.probability) > NEAR:
                raise Different(f"{where}: probability {event.probability} is recorded, {probability} comes out")

    def _compare(self, stored: State, state: State) -> None:
        where = f"instance {stored.instance} after event {stored.seq}"
        if (stored.seq, bool(stored.free), stored.steps) != (state.seq, state.free, state.steps):
            raise Different(f"{where}: its events end at {state.seq}, or leave it busy where it is free")
        if stored.data == state.data and stored.held == state.held:
            return
        self.exact = False
        records = (np.frombuffer(data, self.dtype) for data in (stored.data, state.data))
        if len(stored.data) != len(state.data) or not _near(*records) or not _held_near(stored.held, state.held):
            raise Different(f"{where}: the stored state is not what its events lead to")


def _near(one: Any, two: Any) -> bool:
    """Whether two records agree up to rounding."""
    if one.dtype.names:
        return all(_near(one[name], two[name]) for name in one.dtype.names)
    if one.dtype.kind == "f":
        return bool(np.allclose(one, two, rtol=NEAR, atol=NEAR, equal_nan=True))
    return bool(np.array_equal(one, two))


def _held_near(one: bytes | None, two: bytes | None) -> bool:
    if one is None or two is None:
        return one == two
    pairs = zip(HELD.iter_unpack(one), HELD.iter_unpack(two), strict=True)
    return len(one) == len(two) and all(a[0] == b[0] and abs(a[1] - b[1]) <= NEAR for a, b in pairs)
