"""What one transaction does to one experiment, worked out in memory and written by a few statements."""

from __future__ import annotations

import heapq
import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from belated.kernels.states import state_dtype
from belated.ledger.experiment import Experiment
from belated.ledger.items import Decided, write_value
from belated.ledger.player import Player, vector
from belated.ledger.store import Closing, DecisionRow, Event, Queued, Remark, State, Writer
from belated.protocols import Floats, Learner

#: States that a replacement or a new action has in memory at a time, and queued feedback that is read at a time.
CHUNK = 512
#: Where other processes decide too, a count of open decisions is taken anew after so many seconds; and in every
#: transaction where it is so near to the limit that they might reach it meanwhile.
RECOUNT = 1.0
NEAR = 100_000


class Running:
    """An experiment in memory: its player, and how many decisions are open."""

    def __init__(self, experiment: Experiment, player: Player) -> None:
        self.experiment = experiment
        self.player = player
        self.outstanding: int | None = None
        self.counted_at = 0.0


class StoredQueues:
    """QPM-D's queues in a transaction: read as far as they are needed, written at the end."""

    def __init__(self, session: Writer, experiment: int) -> None:
        self._session = session
        self._experiment = experiment
        self._read: dict[int, deque[Queued]] = {}
        self._last: dict[int, int] = {}  # the last position that was read; absent when all were
        self._new: dict[int, deque[Queued]] = {}
        self._pulled: list[Queued] = []

    def push(self, cell: int, position: int, feedback: Floats) -> None:
        row = Queued(self._experiment, cell, position, feedback.tobytes())
        self._new.setdefault(cell, deque()).append(row)

    def pop(self, cell: int) -> Floats | None:
        known = self._read.get(cell)
        if not known and (known is None or cell in self._last):
            known = self._more(cell)
        if known:
            row = known.popleft()
            self._pulled.append(row)
            return vector(row.value)
        new = self._new.get(cell)
        return vector(new.popleft().value) if new else None

    def _more(self, cell: int) -> deque[Queued]:
        rows = self._session.queued(self._experiment, cell, self._last.pop(cell, -1), CHUNK)
        if len(rows) == CHUNK:
            self._last[cell] = rows[-1].position
        self._read[cell] = deque(rows)
        return self._read[cell]

    def flush(self) -> None:
        if self._pulled:
            self._session.pull(self._pulled)
        rows = [row for queue in self._new.values() for row in queue]
        if rows:
            self._session.push(rows)


class Work:
    """What one transaction does to one experiment."""

    def __init__(self, running: Running, experiment: Experiment, session: Writer, now: float, exclusive: bool) -> None:
        self.exclusive = exclusive
        self.running = running
        self.experiment = experiment
        self.player = running.player
        self.session = session
        self.now = now
        self.states: dict[int, State] = {}
        self.fresh: list[int] = []
        self.changed: dict[int, State] = {}
        self.queues = StoredQueues(session, self.experiment.id)
        self.events: list[Event] = []
        self.decisions: list[DecisionRow] = []
        self.closings: list[Closing] = []
        self.remarks: list[Remark] = []
        self.counts: Counter[str] = Counter()
        self.delta = 0

    # --- decisions that end ---

    def load(self, instances: Sequence[int]) -> None:
        """Have these states in hand."""
        missing = sorted({number for number in instances if number not in self.states})
        if missing:
            self.states.update(self.session.states(self.experiment.id, missing))

    def end(self, row: DecisionRow, kind: str, value: Any = None) -> DecisionRow:
        """A decision ends: with feedback, by default, dropped, or cancelled. Its state must be loaded."""
        state = self.states[row.instance]
        if kind == "feedback" and row.stale:
            kind = "stale"
        if kind == "default" and row.stale:
            kind, value = "drop", None
        if kind in ("feedback", "default"):
            feedback = self.experiment.feedback(value, row.action)
            self.player.feed(state, row.number, vector(row.context), row.action, row.probability, feedback, self.queues)
        else:
            self.player.release(state)
        text = None if value is None else write_value(value)
        delay = self.now - row.decided_at
        self._event(state, kind, row.ticket, row.action, None, text, delay)
        ended = {"feedback": "closed", "stale": "closed", "cancel": "cancelled"}.get(kind, "expired")
        self.closings.append(Closing(ended, text, self.now, row.ticket))
        self.delta -= 1
        return row._replace(state=ended, value=text, closed_at=self.now)

    def _event(
        self,
        state: State,
        kind: str,
        ticket: bytes | None,
        action: int,
        probability: float | None,
        value: str | None,
        delay: float | None,
    ) -> None:
        self.changed[state.instance] = state
        self.events.append(
            Event(
                self.experiment.id, state.instance, state.seq, kind, ticket, action, probability, value, delay, self.now
            )
        )

    def remark(self, kind: str, ticket: bytes, value: Any) -> None:
        """Put on record what is not learned."""
        self.remarks.append(Remark(self.experiment.id, ticket, kind, write_value(value), self.now))
        self.counts[kind] += 1

    # --- decisions that begin ---

    def outstanding(self) -> int:
        """How many decisions are open, with what this transaction did so far."""
        running = self.running
        if running.outstanding is None or (not self.exclusive and self._is_old(running.outstanding)):
            running.outstanding = self.session.outstanding(self.experiment.id)
            running.counted_at = self.now
        return running.outstanding + self.delta

    def _is_old(self, count: int) -> bool:
        """Whether a count that was taken before this transaction will not do."""
        near = count + self.delta + NEAR > self.experiment.outstanding
        return self.running.counted_at + (0.0 if near else RECOUNT) < self.now

    def take(self, count: int) -> list[State]:
        """States for so many decisions: BOLD's lowest-numbered free ones, then new ones; else the only one."""
        if not self.experiment.pooled:
            self.load([0])
            return [self.states[0]] * count
        stored = self.session.take_free(self.experiment.id, count, list(self.states))
        self.states.update((state.instance, state) for state in stored)
        free = heapq.nsmallest(count, (number for number, state in self.states.items() if state.free))
        if len(free) < count:
            missing = count - len(free)
            first = self.session.next_instance(self.experiment.id, missing)
            for number in range(first, first + missing):
                self.states[number] = self.player.fresh(number)
                free.append(number)
        return [self.states[number] for number in free]

    def decide(
        self, state: State, context: Floats | None, allowed: tuple[int, ...] | None, ticket: bytes, round_: int
    ) -> Decided:
        """One decision by a state that `take` gave."""
        experiment = self.experiment
        action, probability, number = self.player.decide(state, context, allowed, self.queues)
        expires = None if experiment.expiry is None else self.now + experiment.expiry
        self.decisions.append(
            DecisionRow(
                ticket,
                experiment.id,
                round_,
                state.instance,
                number,
                action,
                probability,
                None if allowed is None else json.dumps(allowed),
                None if context is None else context.tobytes(),
                self.now,
                expires,
            )
        )
        self._event(state, "decide", ticket, action, probability, None, None)
        self.delta += 1
        return Decided(ticket.hex(), action, experiment.actions[action], probability, round_, expires)

    # --- all of it ---

    def replace(self, action: int) -> None:
        """A new action takes the number of an old one in every state."""
        self._everywhere("replace", action, lambda state: self.player.replace(state, action))
        self.session.make_stale(self.experiment.id, action)

    def grow(self, before: Learner) -> None:
        """The last action is new in every state; they were those of `before`."""
        layout = state_dtype(before)
        self._everywhere("grow", before.actions, lambda state: self.player.grow(state, layout))

    def _everywhere(self, kind: str, action: int, change: Callable[[State], None]) -> None:
        total = self.session.next_instance(self.experiment.id, 0)
        for at in range(0, total, CHUNK):
            some = self.session.states(self.experiment.id, range(at, min(at + CHUNK, total)))
            for state in some.values():
                change(state)
                self._event(state, kind, None, action, None, None, None)
            self.flush()
            self.changed, self.events = {}, []

    def flush(self) -> None:
        """Write everything."""
        self.player.settle()
        session = self.session
        if self.changed:
            session.put_states(self.experiment.id, self.changed.values())
        if self.events:
            session.add_events(self.events)
        if self.decisions:
            session.add_decisions(self.decisions)
        if self.closings:
            session.end(self.closings)
        if self.experiment.queued:
            self.queues.flush()
        if self.remarks:
            session.add_remarks(self.remarks)
        for kind, count in self.counts.items():
            session.count(self.experiment.id, kind, count)
