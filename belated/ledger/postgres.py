"""The ledger's verbs on PostgreSQL: many processes on many machines, no other coordination.

Processes meet only in the database. A writing transaction holds a shared advisory lock (an exclusive one where it must
be `alone`) and the heads of the experiments that it is about: those are its own until the end, and so are their logs.
All that a batch needs comes by one round trip, and what it writes goes out in one with its COMMIT.

The tables that grow are divided by day (see `schema.py`); a ticket begins with its day. They are addressed by day: a
plan over all of them would lock each, and there may be a thousand.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from belated.errors import InvalidArgument, InvalidState
from belated.ledger import schema
from belated.ledger.arrays import array, columns, unnest
from belated.ledger.errors import Raced, StorageError
from belated.ledger.files import make_private
from belated.ledger.past import DECISION, EVENT, KEPT, PATIENCE, Past
from belated.ledger.store import (
    HEAD,
    Checkpoint,
    Closing,
    DecisionRow,
    Event,
    ExperimentRow,
    Head,
    Key,
    Queued,
    Remark,
    State,
    Token,
    day_of,
    state_row,
)

#: Statements that stay prepared: some for each day that feedback may come from.
PREPARED = 1000
#: Connections for reading, at most.
READERS = 4
#: Rows that are read at a time.
CHUNK = 2000
#: Seconds by which clocks may be wrong, or be set back.
WRONG = 2 * 3600.0
#: Days for which there are tables ahead.
AHEAD = 2
#: Days on which an idempotency key that is good may have been used, back from today.
KEY_DAYS = 3
#: What advisory locks are about (they are the database's own, not the cluster's).
SCHEMA_LOCK, WRITE_LOCK, PURGE_LOCK = 0x62656C61, 0x62656C62, 0x62656C63

#: No plan may depend on how small a table was when it was first used.
SETTINGS = {
    "enable_seqscan": "off",
    "jit": "off",
    "lock_timeout": f"{PATIENCE}s",
    "idle_in_transaction_session_timeout": f"{PATIENCE}s",
}
#: Another process was faster, or the database broke a circle: the same again will do.
RACES = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.UndefinedTable,  # a day is gone
)
#: The server is gone, ended the session, or became read-only.
LOST = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)


CLOCK = "extract(epoch FROM clock_timestamp())::float8"
EXPERIMENT = "id, name, spec, version, layout, created_at, archived_at"
STATE = "instance, seq, free, state, held, steps, pool, place"
HEADS = ", ".join(HEAD)
TOKEN = ", ".join(Token._fields)


def _unbroken(place: int, events: Sequence[Event]) -> int:
    """How many of these follow that place without a gap: all, or what is before the first gap."""
    if not events or events[-1].place == place + len(events):
        return len(events)
    return next(n for n, event in enumerate(events) if event.place != place + n + 1)


STATE_COLUMNS = ("instance", "seq", "free", "state_data", "held", "steps", "pool", "place")
CHECKPOINT_COLUMNS = ("experiment", *STATE_COLUMNS, "blob", "floor", "at")


class Session(Past):
    """One connection; in a `write`, one transaction, in pipeline mode."""

    def __init__(self, connection: psycopg.Connection[Any], days: set[int], ends: dict[int, Any]) -> None:
        self.connection = connection
        self.days = days  # those that have tables, as far as is known; shared by all sessions
        self.ends = ends  # the last events of logs that rest, see `_with_end`; shared too
        self._begun: psycopg.Cursor[Any] | None = None
        self._clock: float | None = None
        self._changes = 0
        self._made: set[int] = set()  # days whose tables this transaction made
        self._dropped: set[int] = set()
        self._kept: set[bytes] = set()  # tickets whose decisions are kept, though their day may have tables

    def begin(self, *, alone: bool, lock: Sequence[int]) -> None:
        """Start to write, with the logs of these experiments. The clock stands still until the end."""
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED")
        sql = "SELECT now, changes FROM belated_lock(%s, %s, %s::bigint[])"
        self._begun = self.run(sql, (WRITE_LOCK, alone, array("bigint", lock)))

    def over(self, committed: bool) -> None:
        """The transaction has ended."""
        if committed:
            self.days |= self._made
            self.days -= self._dropped
        self._made, self._dropped, self._kept = set(), set(), set()
        self._begun = self._clock = None

    def _settled(self) -> bool:
        """Whether this is a transaction that writes; its clock and the number of changes are known then."""
        if self._begun is not None and self._clock is None:
            self._clock, self._changes = self._begun.fetchall()[0]
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

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.run(sql.replace("?", "%s"), values)

    def generation(self) -> int:
        return self._changes if self._settled() else int(self.meta("changes") or 0)

    def meta(self, key: str) -> str | None:
        found = self.run("SELECT value FROM meta WHERE key = %s", (key,)).fetchall()
        return str(found[0][0]) if found else None

    def experiments(self) -> list[ExperimentRow]:
        return [ExperimentRow._make(row) for row in self.run(f"SELECT {EXPERIMENT} FROM experiments ORDER BY id")]

    def heads(self, experiments: Sequence[int] | None = None) -> dict[int, Head]:
        return self._heads(*self._ask_heads(experiments))

    def _ask_heads(self, experiments: Sequence[int] | None) -> tuple[psycopg.Cursor[Any], int]:
        """With the last events of these days; and the first of them."""
        now = time.time()  # of this machine: its clock may be wrong, but not by so much
        if day_of(now) not in self.days:  # others may have made tables since `tend`
            self.learn_days()
        around = sorted({day_of(now - WRONG), day_of(now), day_of(now + WRONG)})
        days = [day for day in around if day in self.days]
        last = [f"(SELECT max(place) FROM {self._of('events', day)} WHERE experiment = h.experiment)" for day in days]
        sql = f"SELECT {HEADS}, greatest({', '.join(['counted', *last])}) FROM heads h"
        if experiments is None:
            return self.run(sql), around[0]
        return self.run(f"{sql} WHERE experiment = ANY(%s::bigint[])", (array("bigint", experiments),)), around[0]

    def _heads(self, rows: Iterable[Sequence[Any]], first: int) -> dict[int, Head]:
        return {row[0]: self._with_end(Head._make(row), first) for row in rows}

    def _with_end(self, head: Head, first: int) -> Head:
        """Where nobody put states on record for days, the last event may be older: that is looked for once."""
        since = day_of(head.written_at - WRONG)
        if since >= first or not head.written_at:
            return head
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
        heads = self._ask_heads(experiments)
        decisions = self._ask_decisions(tickets)
        # Two days are enough, but for clocks: this is before the database's is known.
        found = self._ask_keys(keys) if keys else []
        return (
            self._heads(*heads),
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
        return {row[0]: _state(row) for row in self.run(sql, (experiment, array("bigint", instances)))}

    def states_after(self, experiment: int, instance: int, limit: int) -> list[State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = %s AND instance > %s ORDER BY instance LIMIT %s"
        return [_state(row) for row in self.run(sql, (experiment, instance, limit))]

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

    def events_of(self, experiment: int, instance: int, seq: int, limit: int) -> list[Event]:
        sql = f"SELECT {EVENT} FROM events WHERE experiment = %s AND (instance, seq) > (%s, %s)"
        rows = self.run(f"{sql} ORDER BY instance, seq LIMIT %s", (experiment, instance, seq, limit))
        return [Event._make(row) for row in rows]

    def growths(self, experiment: int) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = {}
        sql = "SELECT instance, seq, action, place FROM events WHERE experiment = %s AND kind = 'grow'"
        for instance, *grown in self.run(f"{sql} ORDER BY instance, seq", (experiment,)):
            found.setdefault(instance, []).append(tuple(grown))
        return found

    def decisions_after(self, experiment: int, round_: int, limit: int, since: float = 0.0) -> list[DecisionRow]:
        sql = f"SELECT {DECISION} FROM decisions WHERE experiment = %s AND round > %s"
        if since:
            sql += " AND (coalesce(closed_at, decided_at) >= %s"
            sql += " OR ticket IN (SELECT ticket FROM remarks WHERE at >= %s))"
        rows = self.run(f"{sql} ORDER BY round LIMIT %s", (experiment, round_, *([since] * 2 if since else ()), limit))
        return [DecisionRow._make(row) for row in rows]

    def due(self, now: float, limit: int, besides: Sequence[int] = ()) -> list[tuple[int, bytes]]:
        sql = "SELECT experiment, ticket FROM decisions WHERE state = 'open' AND expires_at <= %s"
        sql += " AND experiment <> ALL(%s::bigint[]) ORDER BY expires_at LIMIT %s"
        return self.run(sql, (now, array("bigint", besides), limit)).fetchall()

    def counters(self, experiment: int) -> dict[str, int]:
        return dict(self.run("SELECT kind, count FROM counters WHERE experiment = %s", (experiment,)).fetchall())

    def queued(self, experiment: int) -> list[Queued]:
        sql = "SELECT experiment, cell, position, value FROM queue WHERE experiment = %s ORDER BY cell, position"
        return [Queued._make(row) for row in self.run(sql, (experiment,))]

    def remarks(self, tickets: Sequence[bytes]) -> list[Remark]:
        sql = "SELECT experiment, ticket, kind, value, at FROM remarks WHERE ticket = ANY(%s::bytea[]) ORDER BY id"
        return [Remark._make(row) for row in self.run(sql, (array("bytea", tickets),))]

    def folds(self) -> dict[int, tuple[int, str]]:
        return {row[0]: (row[1], row[2]) for row in self.run("SELECT experiment, upto, counters FROM folds")}

    def tokens(self) -> list[Token]:
        return [Token._make(row) for row in self.run(f"SELECT {TOKEN} FROM tokens ORDER BY created_at")]

    def checkpoints(self, experiment: int, instances: Sequence[int] | None = None) -> dict[int, list[Checkpoint]]:
        found: dict[int, list[Checkpoint]] = {}
        sql = f"SELECT {STATE}, queue, floor, at FROM checkpoints WHERE experiment = %s"
        values: tuple[Any, ...] = (experiment,)
        if instances is not None:
            sql += " AND instance = ANY(%s::bigint[])"
            values += (array("bigint", instances),)
        for *state, queue, floor, at in self.run(f"{sql} ORDER BY instance, seq", values):
            found.setdefault(state[0], []).append(Checkpoint(experiment, _state(state), queue, bool(floor), at))
        return found

    # --- writing ---

    def set_meta(self, key: str, value: str) -> None:
        sql = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        self.run(sql, (key, value))

    def _changed(self) -> None:
        """Other processes will look at the experiments again."""
        self.run("UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'changes'")

    def add_experiment(self, row: ExperimentRow) -> int | None:
        sql = "INSERT INTO experiments (name, spec, version, layout, created_at, archived_at)"
        sql += " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING RETURNING id"
        found = self.run(sql, row[1:]).fetchall()
        if not found:
            return None
        self.put_heads([Head(int(found[0][0]))])
        self._changed()
        return int(found[0][0])

    def change_experiment(self, row: ExperimentRow) -> None:
        sql = "UPDATE experiments SET spec = %s, version = %s, layout = %s, archived_at = %s WHERE id = %s"
        self.run(sql, (row.spec, row.version, row.layout, row.archived_at, row.id))
        self._changed()

    def remove_experiment(self, experiment: int) -> None:
        self.run("DELETE FROM experiments WHERE id = %s", (experiment,))
        self.run("DELETE FROM heads WHERE experiment = %s", (experiment,))
        self._changed()

    def put_heads(self, rows: Iterable[Head]) -> None:
        others = ", ".join(f"{name} = excluded.{name}" for name in HEAD[1:])
        self.run(
            f"INSERT INTO heads ({HEADS}) SELECT * FROM {unnest(HEAD)} ON CONFLICT (experiment) DO UPDATE SET {others}",
            columns(HEAD, (row[:-1] for row in rows)),
        )

    def put_states(self, experiment: int, states: Iterable[State]) -> None:
        rows = map(state_row, states)
        self.run(
            f"INSERT INTO states (experiment, {STATE}) SELECT %s, r.* FROM {unnest(STATE_COLUMNS)} "
            "ON CONFLICT (experiment, instance) DO UPDATE SET seq = excluded.seq, free = excluded.free, "
            "state = excluded.state, held = excluded.held, steps = excluded.steps, pool = excluded.pool, "
            "place = excluded.place",
            (experiment, *columns(STATE_COLUMNS, rows)),
        )

    def add_decisions(self, rows: Sequence[DecisionRow]) -> None:
        names, day = DecisionRow._fields, self._today()
        sql = f"INSERT INTO decisions_{day} ({DECISION}, day) SELECT r.*, {day} FROM {unnest(names)}"
        self.run(sql, columns(names, rows))

    def end(self, rows: Iterable[Closing]) -> None:
        names = Closing._fields
        known = {row.ticket: row for row in rows}
        for day, tickets in sorted(self._of_days(known).items()):
            self.run(
                f"UPDATE decisions_{day} d SET state = r.state, value = r.value, closed_at = r.closed_at, "
                f"stale = r.stale FROM {unnest(names)} WHERE d.ticket = r.ticket",
                columns(names, [known[ticket] for ticket in tickets]),
            )

    def add_events(self, rows: Sequence[Event]) -> None:
        names, day = Event._fields, self._today()
        sql = f"INSERT INTO events_{day} ({EVENT}, day) SELECT r.*, {day} FROM {unnest(names)}"
        self.run(sql, columns(names, rows))

    def add_remarks(self, rows: Iterable[Remark]) -> None:
        names, day = Remark._fields, self._today()
        sql = f"INSERT INTO remarks_{day} ({', '.join(names)}, day) SELECT r.*, {day} FROM {unnest(names)}"
        self.run(sql, columns(names, rows))

    def count(self, counts: dict[tuple[int, str], int]) -> None:
        names = ("experiment", "kind", "count")
        self.run(
            f"INSERT INTO counters (experiment, kind, count) SELECT * FROM {unnest(names)} "
            "ON CONFLICT (experiment, kind) DO UPDATE SET count = counters.count + excluded.count",
            columns(names, [(*key, by) for key, by in sorted(counts.items())]),
        )

    def push(self, rows: Iterable[Queued]) -> None:
        names = ("experiment", "cell", "position", "blob")
        sql = f"INSERT INTO queue (experiment, cell, position, value) SELECT * FROM {unnest(names)}"
        self.run(f"{sql} ON CONFLICT DO NOTHING", columns(names, rows))

    def pull(self, rows: Iterable[tuple[int, int, int]]) -> None:
        names = ("experiment", "cell", "position")
        self.run(
            f"DELETE FROM queue q USING {unnest(names)} "
            "WHERE q.experiment = r.experiment AND q.cell = r.cell AND q.position = r.position",
            columns(names, rows),
        )

    def add_keys(self, rows: Iterable[Key]) -> None:
        names, day = Key._fields, self._today()
        sql = f"INSERT INTO keys_{day} ({', '.join(names)}, day) SELECT r.*, {day} FROM {unnest(names)}"
        self.run(sql, columns(names, rows))

    def extend_key(self, row: Key) -> None:
        sql = "UPDATE keys SET answer = %s WHERE experiment = %s AND key = %s"
        self.run(sql, (row.answer, row.experiment, row.key))

    def put_folds(self, rows: Iterable[tuple[int, int, str]]) -> None:
        names = ("experiment", "upto", "text")
        self.run(
            f"INSERT INTO folds (experiment, upto, counters) SELECT * FROM {unnest(names)} ON CONFLICT (experiment) "
            "DO UPDATE SET upto = excluded.upto, counters = excluded.counters WHERE folds.upto < excluded.upto",
            columns(names, rows),
        )

    def add_token(self, token: Token) -> None:
        self.run(f"INSERT INTO tokens ({TOKEN}) VALUES ({', '.join(['%s'] * len(token))})", token)

    def revoke(self, name: str, at: float) -> int:
        sql = "UPDATE tokens SET revoked_at = %s WHERE name = %s AND revoked_at IS NULL RETURNING 1"
        return len(self.run(sql, (at, name)).fetchall())

    def unchecked(self, experiment: int, instance: int, limit: int) -> list[State]:
        columns = ", ".join(f"s.{name}" for name in STATE.split(", "))
        sql = (
            f"SELECT {columns} FROM states s LEFT JOIN checkpoints c "
            "ON c.experiment = s.experiment AND c.instance = s.instance AND c.seq = s.seq "
            "WHERE s.experiment = %s AND s.instance > %s AND s.seq > 0 AND c.seq IS NULL ORDER BY s.instance LIMIT %s"
        )
        return [_state(row) for row in self.run(sql, (experiment, instance, limit))]

    def add_checkpoints(self, rows: Iterable[Checkpoint]) -> None:
        written = [(c.experiment, *state_row(c.state), c.queue, int(c.floor), c.at) for c in rows]
        self.run(
            f"INSERT INTO checkpoints (experiment, {STATE}, queue, floor, at) "
            f"SELECT * FROM {unnest(CHECKPOINT_COLUMNS)} ON CONFLICT (experiment, instance, seq) DO UPDATE SET "
            "free = excluded.free, state = excluded.state, held = excluded.held, steps = excluded.steps, "
            "pool = excluded.pool, place = excluded.place, queue = excluded.queue, floor = excluded.floor, "
            "at = excluded.at",
            columns(CHECKPOINT_COLUMNS, written),
        )


def _address(url: str) -> dict[str, Any]:
    """What an address says. Of one that is wrong nothing is shown: a part of its password might be taken for a port."""
    try:
        known = conninfo_to_dict(url)
        if all(port.isdigit() for port in str(known.get("port") or 0).split(",")):
            return known
    except psycopg.ProgrammingError:
        pass
    raise InvalidArgument(
        "this is not the address of a database: it is written postgresql://USER:PASSWORD@HOST:PORT/NAME, where other "
        "characters than letters and digits are written %XX"
    )


def _state(row: Sequence[Any]) -> State:
    instance, seq, free, *rest = row
    return State(instance, seq, bool(free), *rest)


class Postgres:
    """A database on a PostgreSQL server.

    With `serve` the tables are made where they are missing; without it and `write` nothing is written. An earlier
    schema is brought up to date with `migrate`, read as it is with `earlier`, and otherwise refused.
    """

    exclusive = False
    spoils: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(
        self, url: str, *, serve: bool = False, write: bool = False, migrate: bool = False, earlier: bool = False
    ) -> None:
        known = _address(url)
        #: The address as it may be shown.
        self.name = make_conninfo("", **{key: known[key] for key in ("host", "port", "dbname") if key in known})
        self._url = url
        self._writes = serve or write
        self.migrates = migrate
        self._days: set[int] = set()
        self._ends: dict[int, Any] = {}
        self._writer: Session | None = None
        self._idle: list[Session] = []
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._places = threading.BoundedSemaphore(READERS)
        try:
            with self._connect() as connection:
                self._prepare(connection, serve, earlier)
        except psycopg.Error as error:
            raise InvalidState(f"{self.name} cannot be used as a database: {str(error).strip()}") from None

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(
            self._url, autocommit=True, application_name="belated", connect_timeout=10,
            keepalives_idle=10, keepalives_interval=5, keepalives_count=3, tcp_user_timeout=30_000,
        )  # fmt: skip
        connection.prepared_max = PREPARED
        try:  # not as options of the connection, which a pooler between does not pass on
            settings = SETTINGS if self._writes else SETTINGS | {"default_transaction_read_only": "on"}
            sql = ", ".join(["set_config(%s, %s, false)"] * len(settings))
            connection.execute(f"SELECT {sql}", [word for pair in settings.items() for word in pair])
        except BaseException:
            connection.close()
            raise
        return connection

    def _open(self) -> Session:
        connection = self._connect()
        try:
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        except BaseException:
            connection.close()
            raise
        return Session(connection, self._days, self._ends)

    def _prepare(self, connection: psycopg.Connection[Any], serve: bool, earlier: bool) -> None:
        """Tables of this version, whoever of several processes makes them."""
        if connection.info.server_version < 130000:
            raise InvalidState(f"{self.name} is PostgreSQL {connection.info.server_version // 10000}; 13 is the oldest")
        with connection.transaction():
            if self._writes and connection.execute("SHOW transaction_read_only").fetchall() == [("on",)]:
                raise InvalidState(
                    f"{self.name} takes no writes: it is a standby, or was set to be read only. Give the address of "
                    "the primary, or of all with target_session_attrs=primary; verify, export, backup, log and token "
                    "list work here too"
                )
            connection.execute(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
            session = Session(connection, self._days, self._ends)
            version = self._version(session)
            schema.refuse(self.name, version, serve=serve, migrate=self.migrates or earlier)
            if version < schema.SCHEMA and self._writes:
                for statement in schema.statements("postgresql", version):
                    connection.execute(statement.encode())
                session.set_meta("schema", str(schema.SCHEMA))
            if version == schema.SCHEMA or self._writes:
                session.learn_days()
            if self._writes:
                today = day_of(session.now())
                self._days.update(session.make_day(day) for day in range(today, today + AHEAD + 1))

    def _version(self, session: Session) -> int:
        sql = "SELECT to_regclass('meta') IS NOT NULL, to_regclass('decisions') IS NOT NULL"
        meta, decisions = session.run(sql).fetchall()[0]
        if not meta and not decisions:
            return 0
        if not (meta and decisions):
            raise InvalidState(f"{self.name} is a database of something else")
        found = session.meta("schema") or ""
        if not found.isdigit():
            raise InvalidState(f"{self.name} is damaged: its table meta says that its schema is {found!r}")
        return int(found)

    @contextmanager
    def write(self, *, alone: bool = False, lock: Sequence[int] = ()) -> Iterator[Session]:
        with self._writing:
            try:
                session = self._writer = self._writer or self._open()
                try:
                    with session.connection.pipeline():
                        session.begin(alone=alone, lock=lock)
                        yield session
                        session.run("COMMIT")
                    session.over(True)
                except BaseException as error:
                    session.over(False)
                    self._undo(session, isinstance(error, psycopg.Error))
                    raise
            except RACES as error:
                raise Raced(f"{self.name}: {str(error).strip()}") from error
            except LOST as error:
                raise StorageError(f"{self.name}: {str(error).strip()}") from error

    def _undo(self, session: Session, spoiled: bool) -> None:
        """Roll back, or let the connection go: the server then rolls back by itself.

        After an error of the server statements may be taken for prepared that it left out: then it must go.
        """
        try:
            session.connection.execute("ROLLBACK")
            session.learn_days()  # another process may have dropped some
        except psycopg.Error:
            spoiled = True
        if spoiled:
            session.connection.close()
            self._writer = None

    @contextmanager
    def read(self) -> Iterator[Session]:
        with self._places:
            try:
                session = self._begin_read()
                try:
                    yield session
                    session.connection.execute("COMMIT")  # at ROLLBACK psycopg forgets all prepared statements
                except BaseException:
                    session.connection.close()
                    raise
            except LOST as error:
                raise StorageError(f"{self.name}: {str(error).strip()}") from error
            with self._guard:
                self._idle.append(session)

    def _begin_read(self) -> Session:
        """A session with a view of one moment. Connections that were lost while idle are replaced."""
        while True:
            with self._guard:
                known = self._idle.pop() if self._idle else None
            session = known or self._open()
            try:
                session.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                return session
            except LOST:
                session.connection.close()
                if known is None:
                    raise

    def tend(self) -> None:
        """Have tables for the days to come."""
        with self.read() as session:
            today = day_of(session.now())
            if today + AHEAD in self._days:
                return
            session.learn_days()
        if self._writes:
            with self.write() as writer:
                for day in range(today, today + AHEAD + 1):
                    writer.make_day(day)

    def backup(self, file: str) -> None:
        """A copy of one moment by `pg_dump`, for `pg_restore`."""
        make_private(file)
        known = conninfo_to_dict(self._url)
        password = known.pop("password", None)
        environment = os.environ | ({"PGPASSWORD": str(password)} if password else {})
        command = ["pg_dump", "--format=custom", f"--file={file}", f"--dbname={make_conninfo('', **known)}"]
        try:
            subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            os.unlink(file)
            raise InvalidState("pg_dump was not found; it comes with the package postgresql-client") from None
        except subprocess.CalledProcessError as error:
            os.unlink(file)
            raise StorageError(f"{self.name}: {error.stderr.strip()}") from None

    def close(self) -> None:
        with self._guard:
            sessions, self._idle = self._idle, []
        for session in [*sessions, *([self._writer] if self._writer else [])]:
            session.connection.close()
        self._writer = None
