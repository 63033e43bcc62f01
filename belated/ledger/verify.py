"""Every learner state again from its events: what is stored must come out.

Each state is replayed by its own sequence of events, from zero or from a checkpoint: the recorded actions and
probabilities must come out again, and on the way the state that is on record. Another machine may round the last digit
differently: then it is 'equal to rounding'. All is read in slices, so that nobody waits, and from a standby if need be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any, Literal

import numpy as np

from belated.imports import hinted
from belated.kernels.states import state_dtype
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.follow import follow
from belated.ledger.gently import slice_of
from belated.ledger.items import read_value
from belated.ledger.order import Order, moment
from belated.ledger.player import Memory, Player
from belated.ledger.store import ALL, OWN, Checkpoint, DecisionRow, Event, ExperimentRow, Queued, State, Store
from belated.ledger.upkeep import mismatch, queues_of
from belated.spelling import counted

Verdict = Literal["identical", "equal to rounding", "different", "not replayed"]

#: An event with the decision that it is about.
Told = tuple[Event, DecisionRow | None]
#: How far rounding may carry.
NEAR = 1e-9
#: Events and states that are read at a time; bytes of states.
CHUNK = 2000
#: How often an experiment is replayed that others change meanwhile.
TRIES = 5
BYTES = 16 << 20


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
        said = f"{self.experiment}: {self.verdict}, {counted(self.states, 'state')}, {counted(self.events, 'event')}"
        return f"{said}; {self.message}" if self.message else said


class Different(Exception):
    """What is stored is not what comes out."""


def verify(store: Store) -> Iterator[Report]:
    """A report for each experiment."""
    with store.read() as session:
        names = {row.id: row.name for row in session.experiments()}
    for number, name in names.items():
        try:
            report = _as_it_is(number, store)
        except store.spoils:
            raise
        except Exception as error:  # damaged rows may fail in any way
            report = Report(name, "different", 0, 0, f"what is stored cannot be read: {error!r}")
        if report is not None:
            yield report


def _as_it_is(number: int, store: Store) -> Report | None:
    """The report of an experiment; None if it was deleted. One that changed meanwhile is replayed again."""
    row = _row(number, store)
    for _ in range(TRIES):
        if row is None:
            return None
        report, before = _replay(row, store), row
        row = _row(number, store)
        if report.good or row == before:
            break
    return report


def _row(number: int, store: Store) -> ExperimentRow | None:
    with store.read() as session:
        return next((row for row in session.experiments() if row.id == number), None)


def _replay(row: ExperimentRow, store: Store) -> Report:
    try:
        experiment = Experiment.from_row(row)
    except Exception as error:
        return Report(row.name, "not replayed", 0, 0, f"it cannot be opened: {hinted(error)}")
    if experiment.stored is not None:
        return Report(row.name, "not replayed", 0, 0, mismatch(experiment))
    for tries in (2, 1) if experiment.retention is not None else (1,):
        replay = Replay(experiment, store)
        try:
            replay.run()
            break
        except (Different, Damaged) as error:
            if tries == 1:  # else events may just have been deleted
                return Report(row.name, "different", replay.states, replay.events, str(error))
    verdict: Verdict = "identical" if replay.exact else "equal to rounding"
    return Report(row.name, verdict, replay.states, replay.events)


class Replay:
    """One experiment: state by state where each has a life of its own, else all states together."""

    def __init__(self, experiment: Experiment, store: Store) -> None:
        self.experiment = experiment
        self.store = store
        self.players = {len(experiment.actions): Player(experiment)}
        self.states = 0
        self.events = 0
        self.exact = True
        self._first = 1 << 62  # the place of the first event that may go

    def run(self) -> None:
        """Replay all that is in the log now; Different names the first difference."""
        number = self.experiment.id
        with self.store.read() as session:
            known = moment(session, self.experiment)
            # Actions that were added before logs had places are told of by the events of each state.
            found = session.growths(number)
        self._head = known.head
        new = set(self.experiment.added)
        self.growths = {at: [each[:2] for each in some if each[2] not in new] for at, some in found.items()}
        self._rules()
        if self.experiment.apart:
            self._apart()
        else:
            self._all()
        Order(self.experiment, known).check(self.store, self._first)

    def _noted(self, events: Iterator[Told]) -> Iterator[Told]:
        """The same, of which the first is known then."""
        for event, row in events:
            self._first = min(self._first, event.place)
            yield event, row

    # --- what is read ---

    def _slices(self, instance: int, seq: int) -> Iterator[list[Told]]:
        """The events after that one, by instance and sequence number, with their decisions."""
        while True:
            with slice_of(self.store) as session:
                events = session.events_of(self.experiment.id, instance, seq, CHUNK)
                rows = session.decisions(sorted({each.ticket for each in events if each.ticket is not None}))
            if not events:
                return
            yield [(event, None if event.ticket is None else rows.get(event.ticket)) for event in events]
            instance, seq = events[-1].instance, events[-1].seq

    def _events(self, instance: int, seq: int = 0) -> Iterator[Told]:
        return chain.from_iterable(self._slices(instance, seq))

    def _stored(self) -> Iterator[tuple[State, list[Checkpoint]]]:
        """The states on record with their checkpoints, some at a time."""
        last, size = -1, len(self.players[len(self.experiment.actions)].fresh(0).data)
        limit = max(1, min(CHUNK, BYTES // (1 + size)))
        while True:
            with slice_of(self.store) as session:
                states = session.states_after(self.experiment.id, last, limit)
                kept = session.checkpoints(self.experiment.id, [each.instance for each in states])
            if not states:
                return
            for state in states:
                yield state, kept.get(state.instance, [])
            last = states[-1].instance

    # --- what is replayed ---

    def _rules(self) -> None:
        """The experiment's own rules must come out of its own events."""
        known, rules = 0, dict[str, Any]()
        for event, _ in self._events(ALL - 1, 1 << 62):
            if event.instance == ALL:
                self._first = min(self._first, event.place)
                continue
            if event.instance != OWN:
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
        with self.store.read() as session:  # it may have changed since
            row = next((row for row in session.experiments() if row.id == self.experiment.id), None)
        stored = self.experiment.spec()
        if row is None or row.spec != self.experiment.row().spec:
            return
        for name, value in rules.items():
            if stored[name] != value:
                raise Different(f"{name} is {stored[name]!r}, {value!r} comes out")
        if known != self.experiment.changes:
            raise Different(f"the rules were changed {counted(self.experiment.changes, 'time')}, on record: {known}")

    def _apart(self) -> None:
        """State by state. Those made since they were last put on record have events only."""
        stored = self._stored()
        known = next(stored, None)
        for instance, own in groupby(self._noted(self._events(OWN, 1 << 62)), lambda pair: pair[0].instance):
            while known is not None and known[0].instance < instance:
                self._one(*known, iter(()))
                known = next(stored, None)
            if known is not None and known[0].instance == instance:
                self._one(*known, own)
                known = next(stored, None)
            else:
                self._one(State(instance, 0, True, b""), [], own, on_record=False)
        while known is not None:
            self._one(*known, iter(()))
            known = next(stored, None)

    def _one(
        self, stored: State, checkpoints: list[Checkpoint], events: Iterator[Told], on_record: bool = True
    ) -> None:
        """A state by itself, of a rule that takes whichever is free."""
        first = next(events, None)
        chosen = _from(checkpoints, None if first is None else first[0].seq)
        if chosen is not None:
            place = chosen.state.place
        else:  # the first ones are made with the experiment, others where they are first used
            place = 0
            if first is not None and stored.instance >= self.experiment.forecaster.seats:
                place = first[0].place - 1
        room = self._room(stored.instance, place, 0 if chosen is None else chosen.state.seq)
        room.next = stored.instance
        state = room.player.fresh(stored.instance, stored.pool) if chosen is None else chosen.state
        state.place = place
        room.states[stored.instance] = state
        if not on_record:
            self.states += 1
            if first is not None and first[0].place <= self._head.written:
                raise Different(f"state {stored.instance} is missing")
        elif state.seq == stored.seq:
            self._meet(room, [stored])
        # What is on record may be younger than the events that were read before it.
        for event, row in chain(() if first is None else (first,), events, self._more(state, stored)):
            before, room.place = state.seq, event.place - 1
            self._resize(room, stored.instance, state.seq)
            self._step(room, event, row)
            if before < state.seq == stored.seq:
                self._meet(room, [stored])
        self._missed(state.seq, stored)

    def _more(self, state: State, stored: State) -> Iterator[Told]:
        """The events from there to what is on record."""
        while state.seq < stored.seq:
            with self.store.read() as session:
                events = session.events_of(self.experiment.id, state.instance, state.seq, 1)
                rows = session.decisions([each.ticket for each in events if each.ticket is not None])
            if not events or events[0].instance != state.instance:
                return
            yield events[0], None if events[0].ticket is None else rows.get(events[0].ticket)

    def _all(self) -> None:
        """The states of a rule that looks at all of them: one sequence of events, that of the first."""
        with self.store.read() as session:  # of one moment: they are put on record together
            stored: list[State] = []
            while some := session.states_after(self.experiment.id, stored[-1].instance if stored else -1, CHUNK):
                stored += some
            checkpoints = session.checkpoints(self.experiment.id)
            self._queued = _by_cell(session.queued(self.experiment.id))
        events = self._noted(self._events(OWN, 1 << 62))
        first = next(events, None)
        chosen = _from(checkpoints.get(0, []), None if first is None else first[0].seq)
        place = 0 if chosen is None else chosen.state.place
        room = self._room(0, place, 0 if chosen is None else chosen.state.seq)
        if chosen is None:
            room.start()
        else:
            room.queues = queues_of(self.experiment, chosen)
            for instance, kept in checkpoints.items():
                for each in kept:
                    if each.state.seq <= chosen.state.seq:
                        room.states[instance] = each.state
        if not stored or 0 not in room.states:
            raise Different("its first state is missing")
        at = stored[0].seq
        if room.states[0].seq == at:
            self._meet_all(room, stored)
        for event, row in chain(() if first is None else (first,), events):
            if event.place > self._head.last and event.seq > at:
                break  # the log goes on while it is read
            before, room.place = room.states[0].seq, event.place - 1
            room.next = None if row is None else row.instance
            self._step(room, event, row)
            if before < room.states[0].seq == at:
                self._meet_all(room, stored)
        self._missed(room.states[0].seq, stored[0])

    def _missed(self, seq: int, stored: State) -> None:
        """The events must lead at least to what is on record."""
        if seq < stored.seq:
            raise Different(f"instance {stored.instance} after event {stored.seq}: its events end at {seq}")

    def _meet_all(self, room: Memory, stored: list[State]) -> None:
        """All states as they are on record, and the queues."""
        if _by_cell(row for queue in room.queues.values() for row in queue) != self._queued:
            raise Different(f"after event {stored[0].seq}: the stored queues are not what its events lead to")
        if len(room.states) != len(stored):
            raise Different(f"{len(stored)} instances are stored, {len(room.states)} come out")
        self._meet(room, stored)

    def _meet(self, room: Memory, stored: list[State]) -> None:
        """What comes out, where the replay reaches what is on record."""
        if any(room.states[each.instance].seq < each.seq for each in stored):
            return
        room.settle()
        for each in stored:
            found = room.states[each.instance]
            if found.seq == each.seq or not self.experiment.apart:
                self._compare(each, found, room)

    def _room(self, instance: int, place: int, seq: int) -> Memory:
        """Where to begin."""
        room = Memory(self._player_at(instance, place, seq), place)
        room.experiment, room.sizes = self.experiment, self.players
        return room

    def _player_at(self, instance: int, place: int, seq: int) -> Player:
        """Who plays as many actions as there were then."""
        later = [action for at, action in self.growths.get(instance, ()) if at > seq]
        return self._of(later[0] if later else self.experiment.size_at(place))

    def _resize(self, room: Memory, instance: int, seq: int) -> None:
        """Actions that were added by an event of all states are there from then on."""
        player = self._player_at(instance, room.place, seq)
        if player is not room.player:
            room.play_on(player)

    def _of(self, actions: int) -> Player:
        """Who plays so many actions."""
        if actions not in self.players:
            self.players[actions] = Player(self.experiment.sized(self.experiment.actions[:actions]))
        return self.players[actions]

    def _step(self, room: Memory, event: Event, row: DecisionRow | None) -> None:
        state = room.states[event.instance if self.experiment.apart else 0]
        if event.seq <= state.seq:
            return
        where = f"instance {event.instance}, event {event.seq} ({event.kind})"
        if event.instance and not self.experiment.apart:
            raise Different(f"{where}: every event is of the first instance here")
        if event.seq != state.seq + 1:
            raise Different(f"{where}: event {state.seq + 1} is missing")
        self.events += 1
        if event.kind in ("replace", "grow") and not any(turn.place == event.place for turn in self.experiment.turns):
            self._change(where, room, state, event)
            return
        if event.kind == "grow":
            if event.action != self.experiment.size_at(event.place) - 1:
                raise Different(
                    f"{where}: action {event.action} is added to {self.experiment.size_at(event.place) - 1}"
                )
            room.play_on(self._of(self.experiment.size_at(event.place)))
        if row is not None and event.kind in ("feedback", "stale", "default") and row.value != event.value:
            raise Different(f"{where}: the value is {event.value}, its decision says {row.value}")
        made = follow(room, event, row)
        if made is not None and self.experiment.learner.states_probability and made.probability != event.probability:
            self.exact = False
            if event.probability is None or abs(made.probability - event.probability) > NEAR:
                raise Different(f"{where}: probability {event.probability} is recorded, {made.probability} comes out")

    def _change(self, where: str, room: Memory, state: State, event: Event) -> None:
        """An action is replaced or added, in every state at once, as it was before logs had places."""
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
            room.touch(each)
        room.step(state)

    def _compare(self, stored: State, state: State, room: Memory) -> None:
        self.states += 1
        where = f"instance {stored.instance} after event {stored.seq}"
        seq = state.seq if self.experiment.apart or not stored.instance else stored.seq
        if (stored.seq, bool(stored.free), stored.steps) != (seq, state.free, state.steps):
            raise Different(f"{where}: its events end at {state.seq}, or leave it busy where it is free")
        if stored.data == state.data and stored.held == state.held:
            return
        self.exact = False
        layout = self.experiment.forecaster.layout()
        dtype = state_dtype(room.player.experiment.learner)
        for one, two, kind in ((stored.data, state.data, dtype), (stored.held, state.held, layout)):
            if one == two:
                continue
            if one is None or two is None or kind is None or len(one) != len(two) or len(one) % kind.itemsize:
                raise Different(f"{where}: the stored state is not what its events lead to")
            if not _near(*(np.frombuffer(data, kind) for data in (one, two))):
                raise Different(f"{where}: the stored state is not what its events lead to")


def _from(kept: list[Checkpoint], first: int | None) -> Checkpoint | None:
    """None, which is zero, where all events are there; else the newest that nothing goes behind, or the oldest that the
    first event is not behind: older ones may be left where events were deleted."""
    floors = [checkpoint for checkpoint in kept if checkpoint.floor]
    if floors:
        return floors[-1]
    if first == 1 or not kept:
        return None
    return next((each for each in kept if first is not None and each.state.seq >= first - 1), kept[-1])


def _by_cell(rows: Iterable[Queued]) -> dict[int, list[bytes]]:
    """What waits in each queue, in order."""
    found: dict[int, list[bytes]] = {}
    for row in rows:
        found.setdefault(row.cell, []).append(row.value)
    return found


def _near(one: Any, two: Any) -> bool:
    """Whether two records agree up to rounding."""
    if one.dtype.names:
        return all(_near(one[name], two[name]) for name in one.dtype.names)
    if one.dtype.kind == "f":
        return bool(np.allclose(one, two, rtol=NEAR, atol=NEAR, equal_nan=True))
    return bool(np.array_equal(one, two))
