"""What is asked of one experiment in one transaction: feedback and cancellations first, then decisions.

All of it is worked out in memory: until `Page.write` nothing is written, and an experiment that fails can be left out
while the others of the batch go on. A ticket begins with the day on which it was given out (see `schema.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from belated.errors import InvalidArgument
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import (
    SHARED,
    Again,
    Asked,
    Cancel,
    Decide,
    Feedback,
    Item,
    Outcome,
    waited,
    write_value,
)
from belated.ledger.parts import Part, other_body, same_answer
from belated.ledger.store import DecisionRow, Key, day_of
from belated.ledger.work import Work

#: Random bytes of a ticket, and so many as are fetched beside those that are needed.
RANDOM, MORE = 14, 1000
#: An item with its place in the batch.
Placed = tuple[int, Decide | Feedback | Cancel]
#: Keys that were used before, by experiment and key.
Keys = dict[tuple[int, str], Key]
#: Those that are used in this batch for the first time: by which item, and its answer.
Fresh = dict[tuple[int, str], tuple[Decide, Any]]


class Random:
    """Random bytes: those for a batch are fetched at once, for it is the asking that takes time."""

    def __init__(self) -> None:
        self._left = b""

    def take(self, count: int, more: int = 0) -> bytes:
        """So many bytes, of which nobody else is given any; so many more will be asked for."""
        if len(self._left) < count:
            self._left = secrets.token_bytes(count + more)
        taken, self._left = self._left[:count], self._left[count:]
        return taken


class Batch:
    """What is asked for together: by experiment as it is now, with the tickets and the keys that it is about."""

    def __init__(self, items: Sequence[Item], named: dict[str, Experiment]) -> None:
        self.groups: dict[int, tuple[Experiment, list[Placed]]] = {}
        self.tickets: set[bytes] = set()
        self.keys: list[tuple[int, str]] = []
        self.random = Random()
        known: dict[int, list[Placed]] = {}  # by the number that the experiment had when it was asked
        for at, item in enumerate(items):
            if not isinstance(item, SHARED):
                continue
            number = item.experiment.id
            group = known.get(number)
            if group is None:
                now = named.get(item.experiment.name, item.experiment)
                group = known[number] = self.groups.setdefault(now.id, (now, []))[1]
            group.append((at, item))
            if not isinstance(item, Decide):
                self.tickets.update(given(item))
            elif item.key is not None:
                self.keys.append((number, item.key))

    def begin(self, answers: list[Any]) -> Iterator[tuple[Experiment, list[Placed]]]:
        """What each experiment is asked by those who still wait, in the order of the experiments' numbers."""
        groups = [group for _, group in sorted(self.groups.items())]
        all_ = [placed for _, asked in groups for placed in asked]
        waits = Asked.begin_all([item for _, item in all_])
        gone = {at for (at, _), wait in zip(all_, waits, strict=True) if not wait}
        for at in gone:
            answers[at] = waited()
        for experiment, asked in groups:
            left = [placed for placed in asked if placed[0] not in gone] if gone else asked
            if left:
                yield experiment, left


class Requests:
    """What a batch asks for, experiment by experiment, with the stored rows that it is about."""

    def __init__(
        self, now: float, rows: dict[bytes, DecisionRow], known: Keys, random: Random, answers: list[Any]
    ) -> None:
        self.rows = rows
        self.known = known
        self.fresh: Fresh = {}
        self.answers = answers
        self._random = random
        self._day = day_of(now).to_bytes(2)
        self.settle()

    def settle(self) -> None:
        """What was served so far stays."""
        self._before = dict(self.rows)

    def forget(self, asked: Sequence[Placed]) -> None:
        """What was worked out of these does not count."""
        for _, item in asked:
            self.rows |= {ticket: self._before[ticket] for ticket in given(item) if ticket in self._before}

    def refuse(self, asked: Sequence[Placed], refusal: Refused) -> None:
        """All of these; but a key that was used before gets its answer."""
        for at, item in asked:
            part = self._part(at, item) if isinstance(item, Decide) else None
            self.answers[at] = Again(part.answer([])) if isinstance(part, Part) and part.done else refusal

    def serve(self, work: Work, asked: Sequence[Placed]) -> None:
        """All that is asked of an experiment."""
        if work.replica.apart:
            here = [self.rows.get(ticket) for _, item in asked for ticket in given(item)]
            work.replica.load([row.instance for row in here if row is not None and _is_open(row, work)])
        decide: list[tuple[int, Decide]] = []
        for at, item in asked:
            if isinstance(item, Decide):
                decide.append((at, item))
            elif isinstance(item, Feedback):
                self.answers[at] = [self._feedback(work, ticket, value) for ticket, value in item.entries]
            else:
                self.answers[at] = [self._cancel(work, ticket) for ticket in item.tickets]
        if decide:
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
            work.count("duplicate")
            return "duplicate"
        work.remark("conflict", row.ticket, value)
        if row.state == "cancelled":
            return Refused("cancelled", f"the decision {row.ticket.hex()} was cancelled before")
        return Refused(
            "conflict", f"the decision {row.ticket.hex()} has another feedback already: {row.value}, which stays"
        )

    def _cancel(self, work: Work, ticket: bytes | Refused | None) -> Outcome:
        if isinstance(ticket, Refused):
            return ticket
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
            work.count("unknown")
            return unknown(work.experiment, ticket)
        return row

    # --- what begins ---

    def _part(self, at: int, item: Decide) -> Part | Refused:
        """What of an item is on record under its key."""
        if item.key is None:
            return Part(at, item, None)
        known = self.known.get((item.experiment.id, item.key))
        if known is not None and known.digest != item.digest:
            return other_body(item)
        try:
            return Part(at, item, known)
        except (ValueError, TypeError):
            return Refused("damaged", f"{item.experiment.name} is damaged: what the key {item.key!r} was answered")

    def _decisions(self, work: Work, asked: Sequence[tuple[int, Decide]]) -> None:
        """Those of new keys, then those that repeat them."""
        first: dict[str, int] = {}
        new, repeated = [], []
        archived = work.experiment.archived_at is not None
        for at, item in asked:
            part = self._part(at, item)
            if isinstance(part, Refused):
                self.answers[at] = part
            elif part.done:
                self.answers[at] = Again(part.answer([]))
            elif item.key is not None and (item.experiment.id, item.key) in self.fresh:
                self.answers[at] = _repeated(item, *self.fresh[item.experiment.id, item.key])
            elif item.key is not None and item.key in first:
                repeated.append((at, item))
            elif archived and not item.before:  # one that has begun is served to its end
                name = work.experiment.name
                self.answers[at] = Refused("archived", f"{name} is archived: it makes no more decisions")
            else:
                if item.key is not None:
                    first[item.key] = at
                new.append(part)
        self._decide(work, new)
        for part in new if first else ():
            if part.item.key is not None:
                self.fresh[work.experiment.id, part.item.key] = (part.item, self.answers[part.at])
        for at, item in repeated:
            self.answers[at] = _repeated(item, *self.fresh[work.experiment.id, item.key or ""])

    def _decide(self, work: Work, asked: Sequence[Part]) -> None:
        granted: list[tuple[Part, tuple[int, ...] | None]] = []
        total = 0
        limit = work.experiment.outstanding
        for one in asked:
            try:
                allowed = work.experiment.numbers(one.item.allowed)
            except InvalidArgument as error:
                self.answers[one.at] = Refused("invalid", str(error))
                continue
            wanted = len(one.contexts) + one.item.after
            if not one.item.before and work.replica.outstanding + total + wanted > limit:
                self.answers[one.at] = Refused(
                    "too_many_outstanding", f"{work.experiment.name} may have {limit} open decisions at most"
                )
                continue
            granted.append((one, allowed))
            total += len(one.contexts)
            self.answers[one.at] = None
        if not total:
            return
        work.expect([context for one, _ in granted for context in one.contexts])
        day, random, used = self._day, self._random.take(RANDOM * total, MORE), 0
        for one, allowed in granted:
            made = []
            for context in one.contexts:
                made.append(work.make(context, allowed, day + random[used : used + RANDOM]))
                used += RANDOM
            self.answers[one.at] = one.answer(made)
            if one.item.key is not None:
                one.keep(work, made)


def _is_open(row: DecisionRow, work: Work) -> bool:
    return row.state == "open" and row.experiment == work.experiment.id


def _repeated(item: Decide, one: Decide, answer: Any) -> Any:
    """What is asked again in the same batch."""
    said = same_answer(item, one, answer)
    return Again(said) if isinstance(said, list) else said


def given(item: Item) -> list[bytes]:
    """The tickets that an item is about: those that can be some."""
    if isinstance(item, Feedback):
        return [ticket for ticket, _ in item.entries if ticket is not None]
    return [ticket for ticket in item.tickets if isinstance(ticket, bytes)] if isinstance(item, Cancel) else []


def unknown(experiment: Experiment, ticket: bytes | None) -> Refused:
    """A ticket that is not the experiment's."""
    if ticket is None:
        return Refused("unknown_ticket", "this is no ticket: those are texts of 32 hexadecimal digits")
    gone = "" if experiment.retention is None else ", or none any more: its retention may be over"
    return Refused("unknown_ticket", f"{experiment.name} has no decision {ticket.hex()}{gone}")
