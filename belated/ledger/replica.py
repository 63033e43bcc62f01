"""An experiment in memory: its log is the state, and a replica follows it.

Every process that writes keeps one. Before it decides it has the log to itself, reads what others appended, and lives
through it; so all replicas are alike, byte for byte. What is on record of the states is older, by seconds: it saves
time at a start, and is made good from the log.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Sequence
from itertools import islice

from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.follow import follow
from belated.ledger.player import Player, Rows
from belated.ledger.store import OWN, DecisionRow, Event, Head, Queued, Reader, State

#: Events that are read at a time.
CHUNK = 2000
#: Events behind which a replica is made anew from what is on record, where that is younger.
BEHIND = 20_000
#: Bytes of states that may be in memory though they are on record: of one experiment.
ROOM = 64 << 20
#: What a state costs beside its bytes, about.
BESIDE = 400


def check(head: Head, seats: int) -> None:
    """Refuse a head that cannot be right."""
    numbers = (head.written, head.counted, head.last, head.rounds, head.instances, head.outstanding)
    sound = all(isinstance(each, int) for each in numbers) and 0 <= head.written <= head.counted <= head.last
    if not (sound and 0 <= head.outstanding <= head.rounds and head.instances >= seats):
        raise Damaged("its head (where its log stands, and how many decisions there are) cannot be right")


class Replica(Rows):
    """One experiment, as its log has it up to `place`."""

    def __init__(self, player: Player, head: Head, session: Reader) -> None:
        check(head, player.experiment.forecaster.seats)
        super().__init__(player, head.written)
        self.at = head.written_at
        self.written = head.written
        self.counted = head.counted
        self.rounds, self.instances, self.outstanding = head.rounds, head.instances, head.outstanding
        self.session = session
        self.had = -1  # the last turn at which the log was locked and lived through, see `Writer`
        #: States that are not on record as they are: since which event, in this order.
        self.dirty: dict[int, int] = {}
        self._idle: dict[int, list[int]] = {}  # numbers of free instances, of each pool, as heaps; some may be taken
        self._put: deque[tuple[int, Queued]] = deque()  # what came into the queues, and by which event
        self._pulled: deque[tuple[int, Queued]] = deque()  # what left them
        self._begin()

    # --- from what is on record ---

    def _begin(self) -> None:
        size = self.experiment.size_at(self.place)
        self._whole = self.player  # who plays once the log is lived through
        if size != self.player.actions:
            self.play_on(self.sized(size))
        number = self.experiment.id
        if self.apart:
            for pool, instance in self.session.free(number):
                self._idle.setdefault(pool, []).append(instance)
            for heap in self._idle.values():
                heapq.heapify(heap)
        else:
            last = -1
            while rows := self.session.states_after(number, last, CHUNK):
                self.states.update((row.instance, row) for row in rows)
                last = rows[-1].instance
            self._note_free()
            for row in self.session.queued(number):
                self.queues.setdefault(row.cell, deque()).append(row)

    def start(self) -> None:
        super().start()
        self.instances = len(self.states)
        self._note_free()

    def _note_free(self) -> None:
        for state in self.states.values():
            if state.free:
                heapq.heappush(self._idle.setdefault(state.pool, []), state.instance)

    def load(self, instances: Collection[int]) -> None:
        """Have these states in memory."""
        missing = {number for number in instances if number not in self.states} if self.apart else None
        if missing:
            self.states.update(self.session.states(self.experiment.id, sorted(missing)))

    def missing(self, number: int) -> State:
        self.load([number])
        if number not in self.states:
            raise Damaged(f"state {number} is missing")
        return self.states[number]

    # --- what others appended ---

    def is_far_behind(self, head: Head) -> bool:
        """Whether what is on record is the shorter way."""
        return head.last - self.place > BEHIND and head.written > self.place

    def catch_up(self, head: Head) -> None:
        """Live through the log up to its end; nobody else may write to it meanwhile."""
        while self.place < head.last:
            limit = min(CHUNK, head.last - self.place)  # no day after that is looked at
            events = self.session.events_since(self.experiment.id, self.place, limit, self.at)
            if not events:
                raise Damaged(f"its log ends at {self.place}, and {head.last} events were appended")
            self._follow(events)
        self.saved(head.written)

    def _follow(self, events: Sequence[Event]) -> None:
        rows = self.session.decisions(sorted({event.ticket for event in events if event.ticket is not None}))
        self.load({row.instance for row in rows.values()} | {each.instance for each in events if each.instance >= 0})
        for event in events:
            if event.place != self.place + 1:
                raise Damaged(f"event {self.place + 1} of its log is missing")
            row = None if event.ticket is None else rows.get(event.ticket)
            state = self.states.get(event.instance)
            if event.instance == OWN or (self.apart and state is not None and event.seq <= state.seq):
                self.place = event.place  # of no state, or in what is on record
                if state is not None and event.place > state.place:
                    raise Damaged(f"state {state.instance} is on record after event {state.seq}, at {state.place}")
                if state is not None and state.free and event.kind != "decide":
                    heapq.heappush(self._idle.setdefault(state.pool, []), state.instance)
            else:
                if row is not None and event.kind == "decide":
                    self.next = row.instance
                try:
                    follow(self, event, row)
                finally:
                    self.next = None
                self._check(event)
            self._count(event, row)
            self.at = event.at
            size = self.experiment.size_at(self.place) if event.kind == "grow" else 0
            if size:
                self.play_on(self._whole if size == self._whole.actions else self.sized(size))

    def _check(self, event: Event) -> None:
        """The event must be the next of its state."""
        state = self.states.get(event.instance) if self.apart or event.instance == 0 else None
        if event.instance >= 0 and (state is None or state.seq != event.seq):
            raise Damaged(f"event {event.place} of its log is not the next of state {event.instance}")

    def _count(self, event: Event, row: DecisionRow | None) -> None:
        if event.ticket is None or row is None or event.place <= self.counted:
            return
        if event.kind == "decide":
            self.rounds = max(self.rounds, row.round)
            self.instances = max(self.instances, row.instance + 1)
            self.outstanding += 1
        else:
            self.outstanding -= 1

    def change(self, experiment: Experiment, player: Player) -> None:
        """The experiment changed, by this process or another."""
        self.experiment, self._whole = experiment, player
        if self.experiment.size_at(self.place) == player.actions:
            self.play_on(player)

    # --- the room ---

    def lowest(self, pool: int) -> int:
        idle = self._idle.get(pool)
        while idle:
            number = heapq.heappop(idle)
            if self.state(number).free:
                return number
        self.instances += 1
        return self.instances - 1

    def free(self, seat: int) -> None:
        super().free(seat)
        heapq.heappush(self._idle.setdefault(self.state(seat).pool, []), seat)

    def expect(self, pools: dict[int, int]) -> None:
        """So many decisions will be made of each pool: have the states for them in memory."""
        for pool, count in pools.items():
            idle = self._idle.get(pool, [])
            first = [heapq.heappop(idle) for _ in range(min(count, len(idle)))]
            self.load(first)
            for number in first:
                if self.state(number).free:
                    heapq.heappush(idle, number)

    # --- what is not on record ---

    def stepped(self, touched: dict[int, State]) -> None:
        for number in touched:
            self.dirty.setdefault(number, self.place)

    def put(self, row: Queued) -> None:
        self._put.append((self.place + 1, row))

    def popped(self, row: Queued) -> None:
        self._pulled.append((self.place + 1, row))

    def unsaved(self) -> int:
        """How many events are not in what is on record of the states."""
        return self.place - self.written

    def to_save(self, limit: int) -> list[State]:
        """States that are not on record as they are: all where they go together, else so many."""
        self.settle()
        numbers = islice(self.dirty, limit if self.apart else None)
        return [self.states[number] for number in numbers]

    def queue_changes(self) -> tuple[list[Queued], list[tuple[int, int, int]]]:
        """What came into the queues since they were written, and is still there; and what left them."""
        gone = {row[:3] for _, row in self._pulled}
        return [row for _, row in self._put if row[:3] not in gone], sorted(gone)

    def saved_these(self, states: Sequence[State]) -> int:
        """These are on record as they are, and the queues too; up to which place all are."""
        for state in states:
            del self.dirty[state.instance]
        self._is_written(next(iter(self.dirty.values()), self.place + 1) - 1)
        return self.written

    def saved(self, written: int) -> None:
        """Others put all states on record as they were at that place, or later."""
        if written > self.written:
            later = ((number, max(since, written + 1)) for number, since in self.dirty.items())
            self.dirty = {number: since for number, since in later if self.states[number].place > written}
            self._is_written(written)

    def _is_written(self, place: int) -> None:
        self.written = max(self.written, place)
        for moved in (self._put, self._pulled):
            while moved and moved[0][0] <= self.written:
                moved.popleft()
        self._make_room()

    def _make_room(self) -> None:
        """Forget states that are on record, where there are too many."""
        size = BESIDE + len(self.player.fresh(1).data)
        if self.apart and (len(self.states) - len(self.dirty)) * size > ROOM:
            self.player.settle()
            self.states = {number: self.states[number] for number in self.dirty}
