"""What one transaction does to one experiment, worked out in memory and written by a few statements."""

from __future__ import annotations

import heapq
import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from belated.forecasters.process import check_grows
from belated.forecasters.room import Letter
from belated.kernels.states import state_dtype
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.items import Decided, write_value
from belated.ledger.player import Player, Rows, Stool, read_queued, vector, write_queued
from belated.ledger.store import Closing, DecisionRow, Event, Queued, Remark, State, Writer
from belated.protocols import Floats, Learner

#: States that a replacement or a new action has in memory at a time, and queued feedback that is read at a time.
CHUNK = 512
#: Where other processes decide too, a count of open decisions is taken anew after so many seconds; and in every
#: transaction where it is so near to the limit that they might reach it meanwhile.
RECOUNT = 1.0
NEAR = 100_000
#: What the table of decisions, which wants a number, has for a probability that is not stated.
NOT_STATED = 0.0
#: Bits of a position in a queue that tell apart what one event puts there.
PLACES = 20


class Running:
    """An experiment in memory: its player, and how many decisions are open."""

    def __init__(self, experiment: Experiment, player: Player) -> None:
        self.experiment = experiment
        self.player = player
        self.outstanding: int | None = None
        self.counted_at = 0.0

    def forget(self) -> None:
        """Drop what is in hand: it was not written, or was rolled back."""
        self.player.forget()
        self.outstanding = None


class StoredQueues:
    """A rule's queues in a transaction: read as far as they are needed, written at the end."""

    def __init__(self, session: Writer, experiment: Experiment) -> None:
        self._session = session
        self._experiment = experiment
        self._read: dict[int, deque[Queued]] = {}
        self._last: dict[int, int] = {}  # the last position that was read; absent when all were
        self._new: dict[int, deque[Queued]] = {}
        self._pulled: list[Queued] = []

    def push(self, cell: int, position: int, letter: Letter, feedback: Any) -> None:
        """Put a letter at the end of a queue; positions rise."""
        value = write_queued(self._experiment, letter, feedback)
        self._new.setdefault(cell, deque()).append(Queued(self._experiment.id, cell, position, value))

    def pop(self, cell: int) -> tuple[Letter, Any] | None:
        known = self._read.get(cell)
        if not known and (known is None or cell in self._last):
            known = self._more(cell)
        if known:
            row = known.popleft()
            self._pulled.append(row)
            return read_queued(self._experiment, row.value)
        new = self._new.get(cell)
        return read_queued(self._experiment, new.popleft().value) if new else None

    def _more(self, cell: int) -> deque[Queued]:
        rows = self._session.queued(self._experiment.id, cell, self._last.pop(cell, -1), CHUNK)
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


class Work(Rows):
    """What one transaction does to one experiment."""

    def __init__(self, running: Running, experiment: Experiment, session: Writer, now: float, exclusive: bool) -> None:
        super().__init__(running.player)
        self.exclusive = exclusive
        self.running = running
        self.experiment = experiment
        self.session = session
        self.now = now
        self.queues = StoredQueues(session, experiment)
        self.events: list[Event] = []
        self.decisions: list[DecisionRow] = []
        self.closings: list[Closing] = []
        self.remarks: list[Remark] = []
        self.counts: Counter[str] = Counter()
        self.delta = 0
        self._idle: dict[int, list[int]] = {}  # free states in hand, of each pool, as heaps
        self._numbers: deque[int] = deque()  # of new instances, taken before they are needed
        self._pushed = 0

    # --- the room ---

    def state(self, number: int) -> State:
        if number not in self.states:
            self.load([number])
        if number not in self.states:
            raise Damaged(f"state {number} is missing")
        return self.states[number]

    def expect(self, contexts: Sequence[Floats | None]) -> None:
        """So many decisions will be made: have the lowest-numbered free states for them, and numbers of new ones."""
        if not self.rule.grows:
            return
        missing = 0
        for pool, count in sorted(Counter(self.rule.pool(context) for context in contexts).items()):
            missing += count - self._have(pool, count)
        if missing and self.apart:  # other rules may free some before they ask
            first = self.session.next_instance(self.experiment.id, missing)
            self._numbers.extend(range(first, first + missing))

    def _have(self, pool: int, count: int) -> int:
        """Have the lowest-numbered free states of a pool in hand: so many, or as many as there are."""
        stored = self.session.take_free(self.experiment.id, pool, count, list(self.states))
        self.states.update((state.instance, state) for state in stored)
        mine = (number for number, state in self.states.items() if state.free and state.pool == pool)
        self._idle[pool] = heapq.nsmallest(count, mine)
        return len(self._idle[pool])

    def lowest_free(self, pool: int = 0) -> Stool:
        if not self.apart and not self._idle.get(pool):
            self._have(pool, 1)  # freed in this transaction, or of a pool that `pool(context)` did not name
        idle = self._idle.get(pool)
        if idle:
            state = self.states[heapq.heappop(idle)]
        else:
            check_grows(self.rule)
            number = self._numbers.popleft() if self._numbers else self._next_number()
            state = self.states[number] = self.player.fresh(number, pool)
        state.free = False
        return Stool(self, state)

    def _next_number(self) -> int:
        """Of one more instance. A store may know of those only that are written, and some are not yet."""
        return max(self.session.next_instance(self.experiment.id, 1), max(self.states, default=-1) + 1)

    def free(self, seat: int) -> None:
        super().free(seat)
        idle = self._idle.get(self.state(seat).pool)
        if idle and not self.apart:
            heapq.heappush(idle, seat)

    def push(self, queue: int, letter: Letter, feedback: Any) -> None:
        self.check_queues()
        self._pushed += 1
        position = ((self.state(0).seq + 1) << PLACES) + self._pushed
        self.queues.push(queue, position, letter, feedback)

    def pop(self, queue: int) -> tuple[Letter, Any] | None:
        return self.queues.pop(queue)

    def create(self) -> None:
        """The states that an experiment starts with."""
        for number in range(self.rule.seats):
            self.states[number] = self.changed[number] = self.player.fresh(number)
        self.begin()

    # --- decisions that end ---

    def load(self, instances: Sequence[int]) -> None:
        """Have these states in hand, and those that a rule over several cannot do without."""
        wanted = instances if self.apart else {*instances, *range(max(1, self.rule.seats))}
        missing = sorted({number for number in wanted if number not in self.states})
        if missing:
            self.states.update(self.session.states(self.experiment.id, missing))

    def end(self, row: DecisionRow, kind: str, value: Any = None) -> DecisionRow:
        """A decision ends: with feedback, by default, dropped, or cancelled. Its state must be loaded."""
        state = self.state(row.instance)
        if kind == "feedback" and row.stale:
            kind = "stale"
        if kind == "default" and row.stale:
            kind, value = "drop", None
        letter = letter_of(row, self.experiment)
        if kind in ("feedback", "default"):
            self.feed(letter, self.experiment.feedback(value, row.action))
        else:
            self.release(letter)
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
        home = self.home(state)
        self.changed[home.instance] = home
        self.events.append(
            Event(
                self.experiment.id, home.instance, home.seq, kind, ticket, action, probability, value, delay, self.now
            )
        )

    def remark(self, kind: str, ticket: bytes, value: Any) -> None:
        """Put on record what is not learned."""
        self.remarks.append(Remark(self.experiment.id, ticket, kind, write_value(value), self.now))
        self.counts[kind] += 1

    def expire(self, rows: Sequence[DecisionRow]) -> None:
        """These decisions end without feedback."""
        self.load([row.instance for row in rows])
        default = self.experiment.on_expiry
        for row in rows:
            self.end(row, "drop" if default is None else "default", default)

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

    def make(self, context: Floats | None, allowed: tuple[int, ...] | None, ticket: bytes, round_: int) -> Decided:
        """One decision; `expect` has been told of it."""
        experiment = self.experiment
        seat, number, action, probability, memo = self.decide(context, allowed, round_)
        stated = experiment.stated(probability)
        expires = None if experiment.expiry is None else self.now + experiment.expiry
        self.decisions.append(
            DecisionRow(
                ticket,
                experiment.id,
                round_,
                seat,
                number,
                action,
                NOT_STATED if stated is None else stated,
                None if allowed is None else json.dumps(allowed),
                None if context is None else context.tobytes(),
                self.now,
                expires,
                memo=None if memo is None else memo.tobytes(),
            )
        )
        state = self.states[seat]
        self._event(state, "decide", ticket, action, stated, None, None)
        self.delta += 1
        return Decided(ticket.hex(), action, experiment.actions[action], stated, round_, expires)

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
        for at in range(0, total, CHUNK if self.apart else max(total, 1)):
            some = self.session.states(self.experiment.id, range(at, min(at + CHUNK, total) if self.apart else total))
            self.states.update(some)
            self.changed.update(some)
            for state in some.values():
                change(state)
                if self.apart:
                    self._note(state, kind, action)
            if not self.apart:
                self._note(self.state(0), kind, action)
            self.flush()
            self.changed, self.events, self.states, self._book = {}, [], {}, None

    def _note(self, state: State, kind: str, action: int) -> None:
        self._step(state)
        self._event(state, kind, None, action, None, None, None)

    def finish(self) -> None:
        """Write everything; what comes after in the same transaction counts with it."""
        self.flush()
        if self.running.outstanding is not None:
            self.running.outstanding += self.delta

    def flush(self) -> None:
        """Write everything."""
        self.settle()
        session = self.session
        if self.changed:
            session.put_states(self.experiment.id, self.changed.values())
        if self.events:
            session.add_events(self.events)
        if self.decisions:
            session.add_decisions(self.decisions)
        if self.closings:
            session.end(self.closings)
        self.queues.flush()
        if self.remarks:
            session.add_remarks(self.remarks)
        for kind, count in self.counts.items():
            session.count(self.experiment.id, kind, count)


def letter_of(row: DecisionRow, experiment: Experiment) -> Letter:
    """A decision as its feedback will need it; a damaged one must not come near compiled code."""
    learner = experiment.learner
    try:
        letter = Letter(
            row.round,
            row.action,
            row.probability,
            vector(row.context),
            row.instance,
            row.number,
            vector(row.memo),
            bool(row.stale),
        )
        context, memo = (0 if each is None else len(each) for each in (letter.context, letter.memo))
        sound = context == learner.context_size and memo in (0, learner.memo)
        sound = sound and 0 <= row.action < len(experiment.actions)
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged(f"the decision {row.ticket.hex()} cannot be what was decided")
    return letter
