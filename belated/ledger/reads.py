"""What a session reads, on PostgreSQL, and which days it knows of.

The tables that grow are divided by day (see `schema.py`); a ticket begins with its day. They are addressed by day: a
plan over all of them would lock each, and there may be a thousand.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from belated.ledger.arrays import array, columns, unnest
from belated.ledger.common import DECISION, EVENT, EXPERIMENT, HEADS, STATE, state_of
from belated.ledger.past import KEPT, Past
from belated.ledger.store import (
    DAY,
    Checkpoint,
    DecisionRow,
    Event,
    ExperimentRow,
    Head,
    Key,
    Remark,
    State,
    day_of,
)
from belated.ledger.turns import Turns

if TYPE_CHECKING:
    import psycopg

#: Seconds by which clocks may be wrong, or be set back.
WRONG = 2 * 3600.0
#: Days on which an idempotency key that is good may have been used, back from today.
KEY_DAYS = 3

CLOCK = "extract(epoch FROM clock_timestamp())::float8"


def _unbroken(place: int, events: Sequence[Event]) -> int:
    """How many of these follow that place without a gap: all, or what is before the first gap."""
    if not events or events[-1].place == place + len(events):
        return len(events)
    return next(n for n, event in enumerate(events) if event.place != place + n + 1)


class Reads(Past):
    """One connection, and what it reads."""

    def __init__(self, connection: psycopg.Connection[Any], days: set[int], ends: dict[int, Any], turns: Turns) -> None:
        self.connection = connection
        self.days = days  # those that have tables, as far as is known; shared by all sessions
        self.ends = ends  # the last events of logs that rest, see `_with_end`; shared too
        self._begun: psycopg.Cursor[Any] | None = None
        self._clock: float | None = None
        self._changes = 0
        self._turns = turns  # shared too
        self._made: set[int] = set()  # days whose tables this transaction made
        self._dropped: set[int] = set()
        self._kept: set[bytes] = set()  # tickets whose decisions are kept, though their day may have tables

    def _settled(self) -> bool:
        """Whether this is a transaction that writes; its clock and the number of changes are known then."""
        if self._begun is not None and self._clock is None:
            self._clock, self._changes, turn, server = self._begun.fetchall()[0]
            self._turns.draw(turn, server)
        return self._begun is not None

    # --- days ---

    def _today(self) -> int:
        """Today, which has tables from now on."""
        return self.make_day(day_of(self.now()))

    def make_day(self, day: int) -> int:
        """Have tables for a day."""
        if day not in self.days and day not in self._made:
            self.run("SELECT belated_day(%s)", (day,))
            self._made.add(day)
        return day

    def _of_days(self, tickets: Iterable[bytes]) -> dict[int, list[bytes]]:
        """Tickets by the day whose table has them, unless what must stay has."""
        found: dict[int, list[bytes]] = {}
        for ticket in tickets:
            day = int.from_bytes(ticket[:2])
            found.setdefault(KEPT if ticket in self._kept or day not in self.days else day, []).append(ticket)
        return found

    def _of(self, table: str, day: int) -> str:
        """A day's table. Who reads asks for it by the whole, where it does not matter that another process dropped it;
        who writes would wait for that, and is told at once."""
        return f"{table}_{day}" if self._begun is not None else f"(SELECT * FROM {table} WHERE day = {day}) AS {table}"

    # --- reading ---

    def now(self) -> float:
        if self._settled():
            assert self._clock is not None
            return self._clock
        return float(self.run(f"SELECT {CLOCK}").fetchall()[0][0])

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.run(sql.replace("?", "%s"), values).fetchall()

    def written(self) -> int:
        position = "CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_current_wal_insert_lsn() - '0/0'::pg_lsn END"
        return int(self.run(f"SELECT {position}").fetchall()[0][0])

    def generation(self) -> int:
        return self._changes if self._settled() else int(self.meta("changes") or 0)

    def experiments(self) -> list[ExperimentRow]:
        return [ExperimentRow._make(row) for row in self.run(f"SELECT {EXPERIMENT} FROM experiments ORDER BY id")]

    def heads(self, experiments: Sequence[int] | None = None) -> dict[int, Head]:
        return self._heads(*self._ask_heads(experiments))

    def _ask_heads(self, experiments: Sequence[int] | None) -> tuple[psycopg.Cursor[Any], int]:
        """With the last events of these days; and the first of them."""
        now = time.time()  # of this machine: its clock may be wrong, but not by so much
        around = sorted({day_of(now - WRONG), day_of(now), day_of(now + WRONG)})
        if not self.days.issuperset(around):  # others may have made tables since `tend`, of yesterday too
            self.learn_days()
        days = [day for day in around if day in self.days]
        # Not max(place): as long as nobody has counted a day's rows, PostgreSQL would look at all of them.
        last = [
            f"(SELECT place FROM {self._of('events', day)} WHERE experiment = h.experiment ORDER BY place DESC LIMIT 1)"
            for day in days
        ]
        sql = f"SELECT {HEADS}, greatest({', '.join(['counted', *last])}) FROM heads h"
        if experiments is None:
            return self.run(sql), around[0]
        return self.run(f"{sql} WHERE experiment = ANY(%s::bigint[])", (array("bigint", experiments),)), around[0]

    def _heads(self, rows: psycopg.Cursor[Any], first: int) -> dict[int, Head]:
        recent = first * DAY + WRONG
        heads = {row[0]: Head(*row) for row in rows.fetchall()}
        old = [head for head in heads.values() if head.written_at and head.written_at < recent]
        return heads | {head.experiment: self._with_end(head, first) for head in old}

    def _with_end(self, head: Head, first: int) -> Head:
        """Where nobody put states on record for days, the last event may be older: that is looked for once."""
        since = day_of(head.written_at - WRONG)
        known, upto, last = self.ends.get(head.experiment, (0.0, 0, 0))
        if (known, upto) != (head.written_at, first):
            begin = upto if known == head.written_at else since
            sql = f"SELECT max(place) FROM events WHERE experiment = %s AND day >= {begin} AND day < {first}"
            last = max(self.run(sql, (head.experiment,)).fetchall()[0][0] or 0, last if begin == upto else 0)
            self.ends[head.experiment] = (head.written_at, first, last)
        return head._replace(last=max(head.last, last))

    def look(
        self, experiments: Sequence[int], tickets: Sequence[bytes], keys: Sequence[tuple[int, str]]
    ) -> tuple[dict[int, Head], dict[bytes, DecisionRow], dict[tuple[int, str], Key]]:
        heads = self._ask_heads(experiments) if experiments else None
        decisions = self._ask_decisions(tickets)
        # Two days are enough, but for clocks: this is before the database's is known.
        found = self._ask_keys(keys) if keys else []
        return (
            {} if heads is None else self._heads(*heads),
            self._decisions(tickets, decisions),
            {(row[0], row[1]): Key._make(row) for row in found},
        )

    def decisions(self, tickets: Sequence[bytes]) -> dict[bytes, DecisionRow]:
        return self._decisions(tickets, self._ask_decisions(tickets))

    def _ask_decisions(self, tickets: Sequence[bytes]) -> list[psycopg.Cursor[Any]]:
        sql = f"SELECT {DECISION} FROM %s WHERE ticket = ANY(%%s::bytea[])"
        days = sorted(self._of_days(tickets).items())
        return [self.run(sql % self._of("decisions", day), (array("bytea", some),)) for day, some in days]

    def _decisions(self, tickets: Sequence[bytes], asked: list[psycopg.Cursor[Any]]) -> dict[bytes, DecisionRow]:
        found = {row[0]: DecisionRow._make(row) for each in asked for row in each.fetchall()}
        left = [ticket for ticket in tickets if ticket not in found and int.from_bytes(ticket[:2]) in self.days]
        if left:
            sql = f"SELECT {DECISION} FROM decisions_{KEPT} WHERE ticket = ANY(%s::bytea[])"
            kept = {row[0]: DecisionRow._make(row) for row in self.run(sql, (array("bytea", left),))}
            self._kept |= kept.keys()
            found |= kept
        return found

    def _ask_keys(self, wanted: Sequence[tuple[int, str]]) -> Iterator[Any]:
        names = ("experiment", "key")
        today = day_of(time.time()) + 1  # of this machine, whose clock may be behind
        days = [KEPT, *(day for day in range(today - KEY_DAYS - 1, today + 1) if day in self.days)]
        given = columns(names, wanted)
        sql = f"SELECT k.experiment, k.key, digest, answer, at FROM {unnest(names)} JOIN keys_"
        asked = [self.run(f"{sql}{day} k ON k.experiment = r.experiment AND k.key = r.key", given) for day in days]
        return (row for each in asked for row in each.fetchall())

    def states(self, experiment: int, instances: Sequence[int]) -> dict[int, State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = %s AND instance = ANY(%s::bigint[])"
        return {row[0]: state_of(row) for row in self.run(sql, (experiment, array("bigint", instances)))}

    def free(self, experiment: int) -> list[tuple[int, int]]:
        return self.run(
            "SELECT pool, instance FROM states WHERE experiment = %s AND free = 1", (experiment,)
        ).fetchall()

    def events_since(self, experiment: int, place: int, limit: int, at: float = 0.0) -> list[Event]:
        found = self._events_since(experiment, place, limit, at)
        if not _unbroken(place, found):  # others may have made tables, or it is from before there were days
            self.learn_days()
            found = self._events_since(experiment, place, limit, 0.0)
        return found

    def _events_since(self, experiment: int, place: int, limit: int, at: float) -> list[Event]:
        """From day to day. Where the clock was set back over midnight later events are of an earlier day: days are read
        on until there is no gap."""
        found: list[Event] = []
        first = day_of(at) - 1
        sql = f"SELECT {EVENT} FROM %s WHERE experiment = %%s AND place > %%s ORDER BY place LIMIT %%s"
        for day in sorted(day for day in self.days if day >= first or (day == KEPT and first <= 1)):
            after = place + _unbroken(place, found)
            rows = self.run(sql % self._of("events", day), (experiment, after, limit))
            found = sorted([*found, *map(Event._make, rows)], key=lambda event: event.place)[:limit]
            if _unbroken(place, found) == limit:
                break
        return found

    def due(self, now: float, limit: int, besides: Sequence[int] = ()) -> list[tuple[int, bytes]]:
        sql = "SELECT experiment, ticket FROM decisions WHERE state = 'open' AND expires_at <= %s"
        sql += " AND experiment <> ALL(%s::bigint[]) ORDER BY expires_at LIMIT %s"
        return self.run(sql, (now, array("bigint", besides), limit)).fetchall()

    def remarks(self, tickets: Sequence[bytes]) -> list[Remark]:
        sql = "SELECT experiment, ticket, kind, value, at FROM remarks WHERE ticket = ANY(%s::bytea[]) ORDER BY id"
        return [Remark._make(row) for row in self.run(sql, (array("bytea", tickets),))]

    def checkpoints(self, experiment: int, instances: Sequence[int] | None = None) -> dict[int, list[Checkpoint]]:
        found: dict[int, list[Checkpoint]] = {}
        sql = f"SELECT {STATE}, queue, floor, at FROM checkpoints WHERE experiment = %s"
        values: tuple[Any, ...] = (experiment,)
        if instances is not None:
            sql += " AND instance = ANY(%s::bigint[])"
            values += (array("bigint", instances),)
        for *state, queue, floor, at in self.run(f"{sql} ORDER BY instance, seq", values):
            found.setdefault(state[0], []).append(Checkpoint(experiment, state_of(state), queue, bool(floor), at))
        return found
