"""The log of an experiment in its order, for `verify`: it has no gaps, its rounds follow each other, and where it leads
is what the head, the decisions and the statistics say.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.gently import slice_of
from belated.ledger.replica import check
from belated.ledger.store import DecisionRow, Event, Head, Reader, Store
from belated.spelling import counted

#: Events that are read at a time.
CHUNK = 2000
#: Decisions on record up to which the open ones are counted: that is one statement, and holds its moment until its end.
COUNTED = 1_000_000


class Moment(NamedTuple):
    """What is on record beside the log, and where that ended."""

    head: Head
    open: int | None  #: decisions; None where there are too many to count them at a stroke
    instances: int  #: of which states are on record
    folded: Any  #: up to which place there are statistics, if there are any


def moment(session: Reader, experiment: Experiment) -> Moment:
    """As it is now."""
    number = experiment.id
    head = session.heads([number]).get(number)
    if head is None:
        raise Damaged("it has no log")
    check(head, experiment.forecaster.seats)
    oldest = session.ask("SELECT min(round) FROM decisions WHERE experiment = ?", (number,))[0][0]
    open_ = None
    if head.rounds - (oldest or 0) < COUNTED:
        sql = "SELECT count(*) FROM decisions WHERE experiment = ? AND state = 'open'"
        open_ = session.ask(sql, (number,))[0][0]
    last = session.ask("SELECT max(instance) FROM states WHERE experiment = ?", (number,))
    folded = session.ask("SELECT upto FROM folds WHERE experiment = ?", (number,))
    return Moment(head, open_, 1 + (-1 if last[0][0] is None else last[0][0]), folded[0][0] if folded else None)


class Order:
    """The log up to a moment, read by its places. What has been deleted from its beginning is not asked for."""

    def __init__(self, experiment: Experiment, known: Moment) -> None:
        self.experiment, self.known, self.head = experiment, known, known.head
        self.since, self.place = self.head.last + 1, 0  # the events that were seen without a gap
        self.round: int | None = None
        self.rounds: int | None = None  # as many as there were where the head counted
        self.open = self.head.outstanding
        self.instances = max(known.instances, experiment.forecaster.seats)

    def check(self, store: Store, first: int) -> None:
        """Read on from its first event; Damaged says what is not in order."""
        place, at = first, 0.0
        while self.place < self.head.last:
            with slice_of(store) as session:  # from the last one on again: that is gone only if all before the next are
                events = session.events_since(self.experiment.id, place - 1, CHUNK, at)
                rows = session.decisions([each.ticket for each in events if each.kind == "decide" and each.ticket])
            if not events or events[0].place > self.place:
                self._begin(events[0].place if events else self.head.last + 1)
            for event in events:
                if self.place < event.place <= self.head.last:
                    self._add(event, None if event.ticket is None else rows.get(event.ticket))
            if events and len(events) < CHUNK and self.place < self.head.last:  # the first go before the last
                raise Damaged(f"its log ends at {self.place}, its head counts {counted(self.head.last, 'event')}")
            if len(events) < CHUNK:
                break
            place, at = events[-1].place, events[-1].at
        self._compare()

    def _begin(self, place: int) -> None:
        """All before that place has been deleted."""
        self.since, self.place = place, place - 1
        self.round, self.rounds = 0 if place == 1 else None, None

    def _add(self, event: Event, row: DecisionRow | None) -> None:
        if event.place != self.place + 1:
            raise Damaged(f"event {self.place + 1} of its log is missing")
        self.place = event.place
        decides = event.kind == "decide"
        if event.ticket is not None and event.place > self.head.counted:
            self.open += 1 if decides else -1
        if not decides or row is None:
            return
        if self.round is not None and row.round != self.round + 1:
            raise Damaged(f"event {event.place} of its log: round {row.round} is recorded, {self.round + 1} comes out")
        self.round = row.round
        if event.place <= self.head.counted:
            self.rounds = row.round
            self.instances = max(self.instances, row.instance + 1)

    def _compare(self) -> None:
        """What is said elsewhere of the log must be what it leads to, where all that this needs is left of it."""
        head, known = self.head, self.known
        if self.rounds not in (None, head.rounds):
            raise Damaged(f"its head counts {counted(head.rounds, 'round')}, its log {self.rounds}")
        if self.since <= head.written + 1 and self.instances != head.instances:
            raise Damaged(f"its head counts {counted(head.instances, 'instance')}, its log {self.instances}")
        if known.open is not None and self.since <= head.counted + 1 and self.open != known.open:
            raise Damaged(f"open on record: {counted(known.open, 'decision')}, its log leaves {self.open}")
        turn = max((each.place for each in self.experiment.turns), default=0)
        folded = known.folded if isinstance(known.folded, int) else 0
        for place, what in ((turn, "an action was replaced or added"), (folded, "its statistics are saved")):
            if place > head.last:
                raise Damaged(f"its log ends at {head.last}, and {what} at {place}")
