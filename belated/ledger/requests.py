"""What is asked of one experiment in one transaction: feedback and cancellations first, then decisions.

All of it is worked out in memory: until `Work.flush` nothing is written, and an experiment that fails can be left out
while the others of the batch go on.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any

from belated.errors import InvalidArgument
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import Again, Cancel, Decide, Decided, Feedback, Item, Outcome, write_value
from belated.ledger.store import DecisionRow, Key
from belated.ledger.work import Work

#: An item with its place in the batch.
Placed = tuple[int, Decide | Feedback | Cancel]
#: Keys that were used before, by experiment and key.
Keys = dict[tuple[int, str], Key]


class Requests:
    """What a batch asks of one experiment, with the stored rows that it is about."""

    def __init__(self, asked: Sequence[Placed], rows: dict[bytes, DecisionRow], known: Keys) -> None:
        self.asked = asked
        self.rows = {ticket: rows[ticket] for _, item in asked for ticket in tickets(item) if ticket in rows}
        self._before = dict(self.rows)
        self.known = known
        #: What came of it.
        self.answers: dict[int, Any] = {}
        self.keys: list[Key] = []

    def alone(self) -> Iterator[Requests]:
        """The same, one by one; each is to be served before the next is taken."""
        rows = self._before
        for each in self.asked:
            one = Requests([each], rows, self.known)
            yield one
            rows |= one.rows

    def refuse(self, refusal: Refused) -> None:
        """All of it; but a key that was used before gets its answer."""
        self.rows = self._before
        for at, item in self.asked:
            again = self._again(item)
            self.answers[at] = refusal if again is None else again

    def serve(self, work: Work) -> None:
        """All of it."""
        open_rows = (row for row in self.rows.values() if row.state == "open" and row.experiment == work.experiment.id)
        work.load([row.instance for row in open_rows])
        decide: list[tuple[int, Decide]] = []
        for at, item in self.asked:
            if isinstance(item, Feedback):
                self.answers[at] = [self._feedback(work, ticket, value) for ticket, value in item.entries]
            elif isinstance(item, Cancel):
                self.answers[at] = [self._cancel(work, ticket) for ticket in item.tickets]
            else:
                decide.append((at, item))
        self._decisions(work, decide)

    # --- what ends ---

    def _feedback(self, work: Work, ticket: bytes | None, value: Any) -> Outcome:
        if isinstance(value, Refused):
            return value
        row = self._row(work, ticket)
        if isinstance(row, Refused):
            return row
        if row.state == "open" and (row.expires_at is None or work.now < row.expires_at):
            try:
                self.rows[row.ticket] = work.end(row, "feedback", value)
            except InvalidArgument as error:
                return Refused("invalid", str(error))
            return "applied"
        if row.state in ("open", "expired"):
            work.remark("late", row.ticket, value)
            return "late"
        if row.state == "closed" and row.value == write_value(value):
            work.counts["duplicate"] += 1
            return "duplicate"
        work.remark("conflict", row.ticket, value)
        if row.state == "cancelled":
            return Refused("cancelled", f"the decision {row.ticket.hex()} was cancelled before")
        return Refused(
            "conflict", f"the decision {row.ticket.hex()} has another feedback already: {row.value}, which stays"
        )

    def _cancel(self, work: Work, ticket: bytes | None) -> Outcome:
        row = self._row(work, ticket)
        if isinstance(row, Refused):
            return row
        if row.state == "cancelled":
            return "cancelled"
        if row.state == "closed":
            return Refused("closed", f"the decision {row.ticket.hex()} has its feedback already")
        if row.state == "expired" or (row.expires_at is not None and work.now >= row.expires_at):
            return Refused("expired", f"the decision {row.ticket.hex()} has expired")
        self.rows[row.ticket] = work.end(row, "cancel")
        return "cancelled"

    def _row(self, work: Work, ticket: bytes | None) -> DecisionRow | Refused:
        row = self.rows.get(ticket) if ticket is not None else None
        if row is None or row.experiment != work.experiment.id:
            work.counts["unknown"] += 1
            return unknown(work.experiment)
        return row

    # --- what begins ---

    def _again(self, item: Item) -> Any:
        """The answer to a key that was used before, if it was."""
        if not isinstance(item, Decide) or item.key is None:
            return None
        known = self.known.get((item.experiment.id, item.key))
        if known is None:
            return None
        if known.digest != item.digest:
            return _other_body(item)
        try:
            return Again(Decided(*made) for made in json.loads(known.answer))
        except (ValueError, TypeError):
            return Refused("damaged", f"{item.experiment.name} is damaged: what the key {item.key!r} was answered")

    def _decisions(self, work: Work, asked: Sequence[tuple[int, Decide]]) -> None:
        """Those of new keys, then those that repeat them."""
        first: set[str] = set()
        new, repeated = [], []
        for at, item in asked:
            again = self._again(item)
            if again is not None:
                self.answers[at] = again
            elif item.key is not None and item.key in first:
                repeated.append((at, item))
            elif work.experiment.archived_at is not None:
                self.answers[at] = Refused(
                    "archived", f"{work.experiment.name} is archived: it makes no more decisions"
                )
            else:
                first |= {item.key} if item.key is not None else set()
                new.append((at, item))
        self._decide(work, new)
        for key in self.keys:
            self.known[key.experiment, key.key] = key
        for at, item in repeated:
            said = self._again(item)  # None where the first was refused: so is this
            self.answers[at] = self._refusal_of(item, new) if said is None else said

    def _refusal_of(self, item: Decide, new: Sequence[tuple[int, Decide]]) -> Any:
        at, first = next(pair for pair in new if pair[1].key == item.key)
        return self.answers[at] if first.digest == item.digest else _other_body(item)

    def _decide(self, work: Work, asked: Sequence[tuple[int, Decide]]) -> None:
        granted: list[tuple[int, Decide, tuple[int, ...] | None]] = []
        total = 0
        limit = work.experiment.outstanding
        for at, item in asked:
            try:
                allowed = work.experiment.numbers(item.allowed)
            except InvalidArgument as error:
                self.answers[at] = Refused("invalid", str(error))
                continue
            if work.outstanding() + total + len(item.contexts) > limit:
                self.answers[at] = Refused(
                    "too_many_outstanding", f"{work.experiment.name} may have {limit} open decisions at most"
                )
                continue
            granted.append((at, item, allowed))
            total += len(item.contexts)
        if not total:
            return
        work.expect([context for _, item, _ in granted for context in item.contexts])
        round_ = work.session.take_rounds(work.experiment.id, total)
        random = secrets.token_bytes(16 * total)
        used = 0
        for at, item, allowed in granted:
            made = []
            for context in item.contexts:
                ticket = random[16 * used : 16 * used + 16]
                made.append(work.make(context, allowed, ticket, round_ + used))
                used += 1
            self.answers[at] = made
            if item.key is not None:
                answer = json.dumps([astuple(each) for each in made])
                self.keys.append(Key(work.experiment.id, item.key, item.digest, answer, work.now))


def _other_body(item: Decide) -> Refused:
    return Refused("key_reused", f"the key {item.key!r} was used before with another body")


def tickets(item: Item) -> Sequence[bytes | None]:
    """The tickets that an item is about."""
    if isinstance(item, Feedback):
        return [ticket for ticket, _ in item.entries]
    return item.tickets if isinstance(item, Cancel) else ()


def unknown(experiment: Experiment) -> Refused:
    """A ticket that is not the experiment's."""
    return Refused("unknown_ticket", f"{experiment.name} never gave out this ticket")
