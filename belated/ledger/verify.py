"""Every learner state again from its events: what is stored must come out.

Each state is replayed by its own sequence of events, from zero or from a checkpoint, and the recorded actions and
probabilities must come out again. Another machine may round the last digit differently: then it is 'equal to rounding'.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Literal

import numpy as np

from belated.imports import hinted
from belated.kernels.states import state_dtype
from belated.ledger.experiment import Experiment
from belated.ledger.items import read_value
from belated.ledger.player import Memory, Player, vector
from belated.ledger.store import OWN, Checkpoint, DecisionRow, Event, ExperimentRow, Reader, State, Store
from belated.ledger.upkeep import mismatch, queues_of
from belated.ledger.work import letter_of

Verdict = Literal["identical", "equal to rounding", "different", "not replayed"]

#: An event with the decision that it is about.
Told = tuple[Event, DecisionRow | None]
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

    @property
    def good(self) -> bool:
        """Whether all states came out."""
        return self.verdict in ("identical", "equal to rounding")

    def __str__(self) -> str:
        states, events = ("" if count == 1 else "s" for count in (self.states, self.events))
        said = f"{self.experiment}: {self.verdict}, {self.states} state{states}, {self.events} event{events}"
        return f"{said}; {self.message}" if self.message else said


class Different(Exception):
    """What is stored is not what comes out."""


def verify(store: Store) -> Iterator[Report]:
    """A report for each experiment."""
    with store.read() as session:
        for row in session.experiments():
            try:
                yield _replay(row, session)
            except store.spoils:
                raise
            except Exception as error:  # damaged rows may fail in any way
                yield Report(row.name, "different", 0, 0, f"what is stored cannot be read: {error!r}")


def _replay(row: ExperimentRow, session: Reader) -> Report:
    try:
        experiment = Experiment.from_row(row)
    except Exception as error:
        return Report(row.name, "not replayed", 0, 0, f"it cannot be opened: {hinted(error)}")
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
    """One experiment: state by state where each has a life of its own, else all states together."""

    def __init__(self, experiment: Experiment, checkpoints: dict[int, list[Checkpoint]]) -> None:
        self.experiment = experiment
        self.players = {len(experiment.actions): Player(experiment)}
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
        events = self._rules(session.events_of(self.experiment.id))
        if not self.experiment.apart:
            self._all(list(stored), events)
            return
        for instance, own in groupby(events, lambda pair: pair[0].instance):
            self._one(self._next(stored, instance), own)
        for state in stored:
            self._one(state, iter(()))

    def _rules(self, events: Iterator[Told]) -> Iterator[Told]:
        """The events of the states. Those of the experiment itself come first: its rules must come out."""
        known, rules = 0, dict[str, Any]()
        for event, row in events:
            if event.instance != OWN:
                events = chain(((event, row),), events)
                break
            where = f"change {event.seq} of the rules"
            if event.seq != known + 1:
                raise Different(f"{where}: change {known + 1} is missing")
            for name, (before, now) in read_value(event.value).items():
                if rules.get(name, before) != before:
                    raise Different(f"{where}: {name} was {before!r} before, {rules[name]!r} comes out")
                rules[name] = now
            known = event.seq
            self.events += 1
        else:
            events = iter(())
        stored = self.experiment.spec()
        for name, value in rules.items():
            if stored[name] != value:
                raise Different(f"{name} is {stored[name]!r}, {value!r} comes out")
        if known != self.experiment.changes:
            raise Different(f"the rules were changed {self.experiment.changes} times, {known} are on record")
        return events

    def _next(self, stored: Iterator[State], instance: int) -> State:
        """The state of that instance; those before it have no events."""
        for state in stored:
            if state.instance == instance:
                return state
            self._one(state, iter(()))
        raise Different(f"instance {instance} has events and no state")

    def _one(self, stored: State, events: Iterator[Told]) -> None:
        """A state by itself, of a rule that takes whichever is free."""
        first = next(events, None)
        chosen = self._from(stored.instance, None if first is None else first[0].seq)
        room = Memory(self._of(self._actions(stored.instance, 0 if chosen is None else chosen.state.seq)))
        room.next = stored.instance
        fresh = room.player.fresh(stored.instance, stored.pool)
        room.states[stored.instance] = fresh if chosen is None else chosen.state
        for event, row in chain(() if first is None else (first,), events):
            self._step(room, room.states[stored.instance], event, row)
        room.settle()
        self._compare(stored, room.states[stored.instance])

    def _all(self, stored: list[State], events: Iterator[Told]) -> None:
        """The states of a rule that looks at all of them: one sequence of events, that of the first."""
        first = next(events, None)
        chosen = self._from(0, None if first is None else first[0].seq)
        room = Memory(self._of(self._actions(0, 0 if chosen is None else chosen.state.seq)))
        if chosen is None:
            room.start()
        else:
            room.queues = queues_of(self.experiment, chosen)
            for instance, kept in self.checkpoints.items():
                for each in kept:
                    if each.state.seq <= chosen.state.seq:
                        room.states[instance] = each.state
        for event, row in chain(() if first is None else (first,), events):
            room.next = None if row is None else row.instance
            self._step(room, room.states[0], event, row)
        room.settle()
        if len(room.states) != len(stored):
            raise Different(f"{len(stored)} instances are stored, {len(room.states)} come out")
        home = room.states[0]
        for state in stored:
            found = room.states[state.instance]
            if found is not home and state.seq <= home.seq:
                found.seq = state.seq  # the events after that, if there were any, left it as it was
            self._compare(state, found)

    def _from(self, instance: int, first: int | None) -> Checkpoint | None:
        """None, which is zero, where all events are there; else the oldest checkpoint, or the newest that nothing goes
        behind."""
        kept = self.checkpoints.get(instance, [])
        floors = [checkpoint for checkpoint in kept if checkpoint.floor]
        if floors:
            return floors[-1]
        return None if first == 1 or not kept else kept[0]

    def _actions(self, instance: int, seq: int) -> int:
        """How many actions a state had after that event: as many as the number of the next that was added."""
        later = (action for at, action in self.growths.get(instance, ()) if at > seq)
        return next(later, len(self.experiment.actions))

    def _of(self, actions: int) -> Player:
        """Who plays so many actions."""
        if actions not in self.players:
            self.players[actions] = Player(self.experiment.sized(self.experiment.actions[:actions]))
        return self.players[actions]

    def _step(self, room: Memory, state: State, event: Event, row: DecisionRow | None) -> None:
        if event.seq <= state.seq:
            return
        where = f"instance {event.instance}, event {event.seq} ({event.kind})"
        if event.seq != state.seq + 1:
            raise Different(f"{where}: event {state.seq + 1} is missing")
        self.events += 1
        if event.kind in ("replace", "grow"):
            self._change(where, room, state, event)
        elif row is None:
            raise Different(f"{where}: its decision is missing")
        elif event.kind == "decide":
            self._decide(where, room, event, row)
        elif event.kind in ("feedback", "default"):
            room.feed(letter_of(row, self.experiment), self.experiment.feedback(read_value(event.value), row.action))
        else:
            room.release(letter_of(row, self.experiment))

    def _change(self, where: str, room: Memory, state: State, event: Event) -> None:
        """An action is replaced or added, in every state that is lived through."""
        before = room.player
        if event.kind == "grow":
            if event.action != before.actions or before is self._of(len(self.experiment.actions)):
                raise Different(f"{where}: action {event.action} is added to {before.actions}")
            room.play_on(self._of(before.actions + 1))
        for each in room.states.values():
            if event.kind == "grow":
                room.player.grow(each, state_dtype(before.experiment.learner))
            else:
                room.player.replace(each, event.action or 0)
            room.changed[each.instance] = each
        room.step(state)

    def _decide(self, where: str, room: Memory, event: Event, row: DecisionRow) -> None:
        allowed = None if row.allowed is None else json.loads(row.allowed)
        made = room.decide(vector(row.context), allowed, row.round)
        if (made.action, made.number) != (event.action, row.number) or row.action != event.action:
            raise Different(f"{where}: action {event.action} is recorded, {made.action} comes out")
        if self.experiment.learner.states_probability and made.probability != event.probability:
            self.exact = False
            if event.probability is None or abs(made.probability - event.probability) > NEAR:
                raise Different(f"{where}: probability {event.probability} is recorded, {made.probability} comes out")

    def _compare(self, stored: State, state: State) -> None:
        self.states += 1
        where = f"instance {stored.instance} after event {stored.seq}"
        if (stored.seq, bool(stored.free), stored.steps) != (state.seq, state.free, state.steps):
            raise Different(f"{where}: its events end at {state.seq}, or leave it busy where it is free")
        if stored.data == state.data and stored.held == state.held:
            return
        self.exact = False
        layout = self.experiment.forecaster.layout()
        for one, two, dtype in ((stored.data, state.data, self.dtype), (stored.held, state.held, layout)):
            if one == two:
                continue
            if one is None or two is None or dtype is None or len(one) != len(two):
                raise Different(f"{where}: the stored state is not what its events lead to")
            if not _near(*(np.frombuffer(data, dtype) for data in (one, two))):
                raise Different(f"{where}: the stored state is not what its events lead to")


def _near(one: Any, two: Any) -> bool:
    """Whether two records agree up to rounding."""
    if one.dtype.names:
        return all(_near(one[name], two[name]) for name in one.dtype.names)
    if one.dtype.kind == "f":
        return bool(np.allclose(one, two, rtol=NEAR, atol=NEAR, equal_nan=True))
    return bool(np.array_equal(one, two))
