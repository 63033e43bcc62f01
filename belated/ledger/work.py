"""What one transaction does to one experiment: worked out on its replica, and appended to its log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import Any

from belated.kernels.states import state_dtype
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.follow import letter_of
from belated.ledger.items import Decided, write_value
from belated.ledger.player import Player
from belated.ledger.replica import Replica
from belated.ledger.store import ALL, OWN, Closing, DecisionRow, Event, Head, Key, Queued, Remark, State, Writer
from belated.protocols import Floats

#: What the table of decisions, which wants a number, has for a probability that is not stated.
NOT_STATED = 0.0
#: Bytes of states of an experiment that one transaction puts on record, and after which a statement has enough.
SAVED = 4 << 20


class Running:
    """An experiment at work in this process: who plays it, and the replica, once there is one."""

    def __init__(self, experiment: Experiment, player: Player) -> None:
        self.experiment = experiment
        self.player = player
        self.replica: Replica | None = None

    def forget(self) -> None:
        """Drop what is in memory: it was not written, or was rolled back."""
        self.player.forget()
        self.replica = None

    def follow(self, head: Head, session: Writer) -> Replica:
        """The replica, with all that is in the log, which nobody else may write to meanwhile."""
        replica = self.replica
        if replica is not None and replica.place == head.last and replica.written >= head.written:
            replica.session, replica.had = session, session.turn  # nobody else has written anything
            return replica
        if replica is None or replica.place > head.last or replica.is_far_behind(head):
            replica = self._anew(head, session)
        replica.session = session
        try:
            try:
                replica.catch_up(head)
            except Damaged:
                if replica.place >= head.written:
                    raise
                replica = self._anew(head, session)  # what it did not read yet may have been deleted since
                replica.catch_up(head)
        except BaseException:
            self.forget()
            raise
        self.replica = replica
        replica.had = session.turn
        return replica

    def _anew(self, head: Head, session: Writer) -> Replica:
        self.forget()
        return Replica(self.player, head, session)

    def change(self, experiment: Experiment, player: Player | None = None) -> None:
        """The experiment is another now: others changed it, and its log will say so."""
        self.experiment = experiment
        self.player = player or self.player
        self.player.experiment = experiment
        if self.replica is not None:
            self.replica.change(experiment, self.player)

    def turn(self, experiment: Experiment, player: Player | None) -> None:
        """The experiment is another from the next event on, and that has just been reached."""
        self.change(experiment, player)
        if self.replica is not None:
            self.replica.play_on(self.player)

    def begin(self, page: Page) -> None:
        """The experiment is new: put its first states on record."""
        first = Head(self.experiment.id, instances=self.experiment.forecaster.seats)
        replica = self.replica = Replica(self.player, first, page.session)
        replica.start()
        head = Head(self.experiment.id, written_at=page.now, instances=replica.instances)
        page.save(head, replica.states.values(), *replica.queue_changes())

    def unsaved(self) -> int:
        """How many events are not in what is on record of the states."""
        return 0 if self.replica is None else self.replica.unsaved()

    def save(self, head: Head, page: Page, limit: int) -> tuple[int, bool]:
        """Put states on record; how many they were, and whether all are as they should be."""
        replica = self.follow(head, page.session)
        size = state_dtype(self.experiment.learner).itemsize
        states = replica.to_save(max(1, min(limit, SAVED // size)))
        put, pulled = ((), ()) if replica.apart else replica.queue_changes()
        written = replica.saved_these(states)
        at = page.now if written == replica.place else head.written_at
        counts = (replica.rounds, replica.instances, replica.outstanding)
        page.save(Head(self.experiment.id, replica.place, written, at, *counts), states, put, pulled)
        return len(states), written == replica.place


class Page:
    """What a transaction writes: the rows of all its experiments, by a few statements."""

    def __init__(self, session: Writer, heads: dict[int, Head], now: float) -> None:
        self.session = session
        self.heads = heads
        self.now = now
        self.turn, self.since = session.turn, session.since
        self.worked: set[Hashable] = set()  # who did what was asked, which counts once it is committed
        self._clear()

    def _clear(self) -> None:
        self.events: list[Event] = []
        self.decisions: list[DecisionRow] = []
        self.closings: list[Closing] = []
        self.remarks: list[Remark] = []
        self.counts: list[tuple[int, str]] = []
        self.keys: list[Key] = []
        self.extended: list[Key] = []
        self.states: list[tuple[int, State]] = []
        self.saved: list[Head] = []
        self.pushed: list[Queued] = []
        self.pulled: list[tuple[int, int, int]] = []
        self.weight = 0  # bytes of these states

    def save(
        self,
        head: Head,
        states: Collection[State],
        pushed: Sequence[Queued],
        pulled: Sequence[tuple[int, int, int]],
    ) -> None:
        """States of an experiment go on record, and what changed in its queues."""
        self.weight += sum([len(state.data) for state in states])
        self.states += [(head.experiment, state) for state in states]
        self.saved.append(head)
        self.pushed += pushed
        self.pulled += pulled

    def drop(self, experiment: int) -> None:
        """What is not written yet of this experiment will not be, and where its log ends is looked up again."""
        ended = {event.ticket for event in self.events if event.experiment == experiment}
        self.closings[:] = [row for row in self.closings if row.ticket not in ended]
        self.counts[:] = [row for row in self.counts if row[0] != experiment]
        self.remarks[:] = [row for row in self.remarks if row.experiment != experiment]
        self.decisions[:] = [row for row in self.decisions if row.experiment != experiment]
        self.events[:] = [row for row in self.events if row.experiment != experiment]
        for keys in (self.keys, self.extended):
            keys[:] = [row for row in keys if row.experiment != experiment]
        self.states[:] = [row for row in self.states if row[0] != experiment]
        self.saved[:] = [row for row in self.saved if row.experiment != experiment]
        self.pushed[:] = [row for row in self.pushed if row.experiment != experiment]
        self.pulled[:] = [row for row in self.pulled if row[0] != experiment]
        self.heads.pop(experiment, None)

    def flush(self) -> None:
        """All of it is written, and where logs end is looked up again."""
        self.write()
        self.heads.clear()

    def head(self, experiment: int) -> Head | None:
        """Where a log stands."""
        if experiment not in self.heads:
            self.heads |= self.session.heads([experiment])
        return self.heads.get(experiment)

    def write(self) -> None:
        """All of it."""
        session = self.session
        if self.decisions:
            session.add_decisions(self.decisions)
        if self.closings:
            session.end(self.closings)
        if self.events:
            session.add_events(self.events)
        if self.remarks:
            session.add_remarks(self.remarks)
        if self.counts:
            session.count(Counter(self.counts))
        if self.keys:
            session.add_keys(self.keys)
        for row in self.extended:
            session.extend_key(row)
        if self.states:
            session.put_states(self.states)
        if self.pushed:
            session.push(self.pushed)
        if self.pulled:
            session.pull(self.pulled)
        if self.saved:
            session.put_heads(self.saved)
        self._clear()


class Work:
    """What one transaction does to one experiment; it goes onto the page at once."""

    def __init__(self, page: Page, replica: Replica, experiment: Experiment) -> None:
        self.page = page
        self.replica = replica
        self.experiment = experiment
        self.now = replica.at = page.now

    # --- decisions that end ---

    def end(self, row: DecisionRow, kind: str, value: Any = None) -> DecisionRow:
        """A decision ends: with feedback, by default, dropped, or cancelled."""
        replica = self.replica
        letter = letter_of(row, self.experiment, replica.place + 1)
        if letter.stale and kind == "feedback":
            kind = "stale"
        if letter.stale and kind == "default":
            kind, value = "drop", None
        if kind in ("feedback", "default"):
            replica.feed(letter, self.experiment.feedback(value, row.action))
        else:
            replica.release(letter)
        text = None if value is None else write_value(value)
        self._event(replica.state(row.instance), kind, row.ticket, row.action, None, text, self.now - row.decided_at)
        ended = {"feedback": "closed", "stale": "closed", "cancel": "cancelled"}.get(kind, "expired")
        stale = int(letter.stale)
        self.page.closings.append(Closing(ended, text, self.now, stale, row.ticket))
        replica.outstanding -= 1
        return row._replace(state=ended, value=text, closed_at=self.now, stale=stale)

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
        """What the replica has just done."""
        home, place = self.replica.home(state), self.replica.place
        told = (kind, ticket, action, probability, value, delay, self.now)
        self.page.events.append(Event(self.experiment.id, place, home.instance, home.seq, *told))

    def remark(self, kind: str, ticket: bytes, value: Any) -> None:
        """Put on record what is not learned."""
        self.page.remarks.append(Remark(self.experiment.id, ticket, kind, write_value(value), self.now))
        self.count(kind)

    def count(self, kind: str) -> None:
        """This happened once more."""
        self.page.counts.append((self.experiment.id, kind))

    def expire(self, rows: Sequence[DecisionRow]) -> None:
        """These decisions end without feedback."""
        self.replica.load([row.instance for row in rows])
        default = self.experiment.on_expiry
        for row in rows:
            self.end(row, "drop" if default is None else "default", default)

    # --- decisions that begin ---

    def expect(self, contexts: Sequence[Floats | None]) -> None:
        """So many decisions will be made."""
        rule = self.experiment.forecaster
        if rule.grows:
            self.replica.expect(Counter(rule.pool(context) for context in contexts))

    def make(self, context: Floats | None, allowed: tuple[int, ...] | None, ticket: bytes) -> Decided:
        """One decision."""
        experiment, replica = self.experiment, self.replica
        round_ = replica.rounds + 1
        seat, number, action, probability, memo = replica.decide(context, allowed, round_)
        replica.rounds = round_
        replica.outstanding += 1
        stated = experiment.stated(probability)
        expires = None if experiment.expiry is None else self.now + experiment.expiry
        self.page.decisions.append(
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
        self._event(replica.states[seat], "decide", ticket, action, stated, None, None)
        return Decided(ticket.hex(), action, experiment.actions[action], stated, round_, expires)

    # --- all of it ---

    def turn(self, kind: str, action: int) -> None:
        """An action was replaced or added; the replica knows the experiment as it is after that."""
        replica = self.replica
        replica.turn()
        instance, seq = (ALL, replica.place) if replica.apart else (0, replica.state(0).seq)
        told = (kind, None, action, None, None, None, self.now)
        self.page.events.append(Event(self.experiment.id, replica.place, instance, seq, *told))

    def note(self, number: int, text: str) -> None:
        """A change of the experiment's own rules, which leaves the learner as it was."""
        self.replica.place += 1
        told = ("change", None, None, None, text, None, self.now)
        self.page.events.append(Event(self.experiment.id, self.replica.place, OWN, number, *told))
