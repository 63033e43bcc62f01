"""The ledger's verbs on PostgreSQL: many processes on many machines, no other coordination.

Processes meet only in the database. A writing transaction holds a shared advisory lock (an exclusive one where it must
be `alone`), locks decisions by ticket, then states by experiment and instance, and waits for nobody after that: free
instances and due decisions that others have in hand are skipped, and numbers come from sequences. All that a batch
writes goes out in one round trip with its COMMIT.

An event's id is made of its transaction's number and its place in it. Readers see the events of transactions that are
older than any still running: nothing can come before them any more.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from belated.errors import InvalidArgument, InvalidState
from belated.ledger import schema
from belated.ledger.errors import Raced, StorageError
from belated.ledger.files import make_private
from belated.ledger.store import (
    Checkpoint,
    Closing,
    DecisionRow,
    Event,
    ExperimentRow,
    Key,
    NumberedEvent,
    Queued,
    Remark,
    State,
    Token,
    state_row,
)

#: Seconds that a statement waits for a lock, and that a process may be silent within a transaction.
PATIENCE = 15
#: Connections for reading, at most.
READERS = 4
#: Seconds to wait until what is committed has its place in the order of events.
SETTLE = 0.25
#: Rows that are read at a time.
CHUNK = 2000
#: Bits of an event's id for its place in its transaction.
PLACES = 22
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
RACES = (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
#: The server is gone, ended the session, or became read-only.
LOST = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)

CLOCK = "extract(epoch FROM clock_timestamp())::float8"
EXPERIMENT = "id, name, spec, version, layout, created_at, archived_at"
STATE = "instance, seq, free, state, held, steps, pool"
EVENT = ", ".join(Event._fields)
DECISION = ", ".join(DecisionRow._fields)
TOKEN = ", ".join(Token._fields)

#: Columns by name, as PostgreSQL types.
TYPES = {
    **dict.fromkeys(("ticket", "state_data", "held", "context", "memo", "digest", "blob"), "bytea"),
    **dict.fromkeys(("kind", "state", "value", "allowed", "answer", "key", "text"), "text"),
    **dict.fromkeys(("probability", "delay", "at", "decided_at", "expires_at", "closed_at"), "float8"),
}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


WRITTEN: dict[str, Callable[[Any], str]] = {
    "bytea": lambda data: f'"\\\\x{data.hex()}"',
    "text": _quoted,
    "float8": repr,
    "bigint": str,
}


def array(kind: str, values: Iterable[Any]) -> str:
    r"""Values as the text of a PostgreSQL array: a third of what psycopg's own lists cost, and always of one type.

    >>> print(array("bigint", [1, None]), array("bytea", [b"a"]), array("text", ['say "\\"']))
    {1,NULL} {"\\x61"} {"say \"\\\""}
    """
    written = WRITTEN[kind]
    return "{" + ",".join(["NULL" if value is None else written(value) for value in values]) + "}"


@cache
def _unnest(names: tuple[str, ...]) -> str:
    arrays = ", ".join(f"%s::{TYPES.get(name, 'bigint')}[]" for name in names)
    return f"unnest({arrays}) AS r({', '.join(names)})"


def _columns(names: tuple[str, ...], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows as one array a column, for `_unnest` of the same names."""
    columns: Iterable[Iterable[Any]] = zip(*rows, strict=True)
    found = [array(TYPES.get(name, "bigint"), column) for name, column in zip(names, columns, strict=False)]
    return found or ["{}"] * len(names)


STATE_COLUMNS = ("instance", "seq", "free", "state_data", "held", "steps", "pool")
EVENT_COLUMNS = ("place", *Event._fields)
CHECKPOINT_COLUMNS = ("experiment", *STATE_COLUMNS, "blob", "floor", "at")


class Session:
    """One connection; in a `write`, one transaction, in pipeline mode."""

    def __init__(self, connection: psycopg.Connection[Any], base: int) -> None:
        self.connection = connection
        self.base = base
        self.places = 0
        self.clock: float | None = None
        self.changes = 0
        self.locking = ""
        self._streams = 0

    def run(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        return self.connection.execute(sql, values, prepare=True, binary=True)

    def begin(self, *, alone: bool) -> None:
        """Start to write. The clock stands still until the end."""
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED")
        sql = "SELECT now, changes FROM belated_begin(%s, %s)"
        self.clock, self.changes = self.run(sql, (WRITE_LOCK, alone)).fetchall()[0]
        self.places = 0
        self.locking = " FOR UPDATE"

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Rows of a large answer, in a `read`."""
        self._streams += 1
        with self.connection.cursor(name=f"stream_{self._streams}") as cursor:
            cursor.itersize = CHUNK
            yield from cursor.execute(sql, values)

    # --- reading ---

    def now(self) -> float:
        return self.clock if self.clock is not None else float(self.run(f"SELECT {CLOCK}").fetchall()[0][0])

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.run(sql.replace("?", "%s"), values).fetchall()

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.run(sql.replace("?", "%s"), values)

    def generation(self) -> int:
        return self.changes if self.clock is not None else int(self.meta("changes") or 0)

    def meta(self, key: str) -> str | None:
        found = self.run("SELECT value FROM meta WHERE key = %s", (key,)).fetchall()
        return str(found[0][0]) if found else None

    def experiments(self) -> list[ExperimentRow]:
        return [ExperimentRow._make(row) for row in self.run(f"SELECT {EXPERIMENT} FROM experiments ORDER BY id")]

    def decisions(self, tickets: Sequence[bytes]) -> dict[bytes, DecisionRow]:
        sql = f"SELECT {DECISION} FROM decisions WHERE ticket = ANY(%s::bytea[]) ORDER BY ticket{self.locking}"
        return {row[0]: DecisionRow._make(row) for row in self.run(sql, (array("bytea", tickets),))}

    def states(self, experiment: int, instances: Sequence[int]) -> dict[int, State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = %s AND instance = ANY(%s::bigint[])"
        rows = self.run(f"{sql} ORDER BY instance{self.locking}", (experiment, array("bigint", instances)))
        return {row[0]: _state(row) for row in rows}

    def all_states(self, experiment: int) -> Iterator[State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = %s AND instance > %s ORDER BY instance LIMIT {CHUNK}"
        last = -1
        while rows := self.run(sql, (experiment, last)).fetchall():
            yield from map(_state, rows)
            last = rows[-1][0]

    def events_of(self, experiment: int) -> Iterator[tuple[Event, DecisionRow | None]]:
        columns = ", ".join([*(f"e.{name}" for name in Event._fields), *(f"d.{name}" for name in DecisionRow._fields)])
        sql = f"SELECT {columns} FROM events e LEFT JOIN decisions d ON d.ticket = e.ticket WHERE e.experiment = %s"
        width = len(Event._fields)
        for row in self._stream(f"{sql} ORDER BY e.instance, e.seq", (experiment,)):
            yield Event._make(row[:width]), DecisionRow._make(row[width:]) if row[width] is not None else None

    def growths(self, experiment: int) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        sql = "SELECT instance, seq, action FROM events WHERE experiment = %s AND kind = 'grow' ORDER BY instance, seq"
        for instance, seq, action in self.run(sql, (experiment,)):
            found.setdefault(instance, []).append((seq, action))
        return found

    def settled(self) -> int:
        """No event below this id can be added any more."""
        sql = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        return (self.base + int(self.run(sql).fetchall()[0][0])) << PLACES

    def last_event(self) -> int:
        return int(self.run("SELECT coalesce(max(id), 0) FROM events").fetchall()[0][0])

    def events_after(self, id_: int, limit: int) -> list[NumberedEvent]:
        sql = f"SELECT id, {EVENT} FROM events WHERE id > %s AND id < %s ORDER BY id LIMIT %s"
        rows = self.run(sql, (id_, self.settled(), limit))
        return [NumberedEvent(row[0], Event._make(row[1:])) for row in rows]

    def has_events(self, experiment: int, upto: int) -> bool:
        sql = "SELECT 1 FROM events WHERE experiment = %s AND id <= %s LIMIT 1"
        return bool(self.run(sql, (experiment, upto)).fetchall())

    def decisions_of(self, experiment: int, size: int) -> Iterator[list[DecisionRow]]:
        sql = f"SELECT {DECISION} FROM decisions WHERE experiment = %s ORDER BY round"
        some: list[DecisionRow] = []
        for row in self._stream(sql, (experiment,)):
            some.append(DecisionRow._make(row))
            if len(some) == size:
                yield some
                some = []
        if some:
            yield some

    def counters(self, experiment: int) -> dict[str, int]:
        sql = "SELECT kind, sum(count)::bigint FROM counters WHERE experiment = %s AND kind <> 'open' GROUP BY kind"
        return dict(self.run(sql, (experiment,)).fetchall())

    def queue_lengths(self, experiment: int) -> dict[int, int]:
        sql = "SELECT cell, count(*) FROM queue WHERE experiment = %s GROUP BY cell"
        return dict(self.run(sql, (experiment,)).fetchall())

    def queued(self, experiment: int, cell: int, after: int, limit: int) -> list[Queued]:
        sql = "SELECT experiment, cell, position, value FROM queue WHERE experiment = %s AND cell = %s"
        rows = self.run(f"{sql} AND position > %s ORDER BY position LIMIT %s", (experiment, cell, after, limit))
        return [Queued._make(row) for row in rows]

    def outstanding(self, experiment: int) -> int:
        sql = "SELECT coalesce(sum(count), 0)::bigint FROM counters WHERE experiment = %s AND kind = 'open'"
        return int(self.run(sql, (experiment,)).fetchall()[0][0])

    def remarks(self, ticket: bytes) -> list[Remark]:
        sql = "SELECT experiment, ticket, kind, value, at FROM remarks WHERE ticket = %s ORDER BY id"
        return [Remark._make(row) for row in self.run(sql, (ticket,))]

    def folds(self, after: int = -1) -> dict[int, tuple[int, str]]:
        rows = self.run("SELECT experiment, upto, counters FROM folds WHERE upto > %s", (after,))
        return {row[0]: (row[1], row[2]) for row in rows}

    def lag(self) -> float:
        sql = "SELECT at FROM events WHERE id >= %s ORDER BY id LIMIT 1"
        waiting = self.run(sql, (self.settled(),)).fetchall()
        return max(0.0, self.now() - waiting[0][0]) if waiting else 0.0

    def tokens(self) -> list[Token]:
        return [Token._make(row) for row in self.run(f"SELECT {TOKEN} FROM tokens ORDER BY created_at")]

    def checkpoints(self, experiment: int) -> dict[int, list[Checkpoint]]:
        found: dict[int, list[Checkpoint]] = {}
        sql = f"SELECT {STATE}, queue, floor, at FROM checkpoints WHERE experiment = %s ORDER BY instance, seq"
        for *state, queue, floor, at in self.run(sql, (experiment,)):
            found.setdefault(state[0], []).append(Checkpoint(experiment, _state(state), queue, bool(floor), at))
        return found

    # --- writing ---

    def set_meta(self, key: str, value: str) -> None:
        sql = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        self.run(sql, (key, value))

    def _changed(self) -> None:
        """Other processes will look at the experiments again."""
        self.run("UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'changes'")

    def add_experiment(self, row: ExperimentRow, seats: int = 1) -> int | None:
        sql = "INSERT INTO experiments (name, spec, version, layout, created_at, archived_at)"
        sql += " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING RETURNING id"
        found = self.run(sql, row[1:]).fetchall()
        if not found:
            return None
        number = int(found[0][0])
        self.connection.execute(f"CREATE SEQUENCE rounds_{number}")
        self.connection.execute(f"CREATE SEQUENCE instances_{number} MINVALUE 0 START {int(seats)}")
        self._changed()
        return number

    def change_experiment(self, row: ExperimentRow) -> None:
        sql = "UPDATE experiments SET spec = %s, version = %s, layout = %s, archived_at = %s WHERE id = %s"
        self.run(sql, (row.spec, row.version, row.layout, row.archived_at, row.id))
        self._changed()

    def remove_experiment(self, experiment: int) -> None:
        self.run("DELETE FROM experiments WHERE id = %s", (experiment,))
        for numbers in ("rounds", "instances"):
            self.connection.execute(f"DROP SEQUENCE {numbers}_{int(experiment)}")
        self._changed()

    def _take(self, sequence: str, count: int) -> int:
        return int(self.run("SELECT belated_take(%s::regclass, %s)", (sequence, count)).fetchall()[0][0])

    def take_rounds(self, experiment: int, count: int) -> int:
        return self._take(f"rounds_{experiment}", count)

    def take_free(self, experiment: int, pool: int, count: int, besides: Sequence[int]) -> list[State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = %s AND pool = %s AND free = 1"
        sql += " AND instance <> ALL(%s::bigint[]) ORDER BY instance LIMIT %s FOR UPDATE SKIP LOCKED"
        return [_state(row) for row in self.run(sql, (experiment, pool, array("bigint", besides), count))]

    def next_instance(self, experiment: int, count: int) -> int:
        if count:
            return self._take(f"instances_{experiment}", count)
        sql = "SELECT coalesce(max(instance) + 1, 0) FROM states WHERE experiment = %s"
        return int(self.run(sql, (experiment,)).fetchall()[0][0])

    def put_states(self, experiment: int, states: Iterable[State]) -> None:
        rows = map(state_row, states)
        self.run(
            f"INSERT INTO states (experiment, {STATE}) SELECT %s, r.* FROM {_unnest(STATE_COLUMNS)} "
            "ON CONFLICT (experiment, instance) DO UPDATE SET seq = excluded.seq, free = excluded.free, "
            "state = excluded.state, held = excluded.held, steps = excluded.steps, pool = excluded.pool",
            (experiment, *_columns(STATE_COLUMNS, rows)),
        )

    def add_decisions(self, rows: Iterable[DecisionRow]) -> None:
        names = DecisionRow._fields
        self.run(
            f"WITH made AS (INSERT INTO decisions ({DECISION}) SELECT * FROM {_unnest(names)} RETURNING experiment) "
            f"{_counting('made', 1)}",
            _columns(names, rows),
        )

    def end(self, rows: Iterable[Closing]) -> None:
        names = Closing._fields
        self.run(
            "WITH ended AS (UPDATE decisions d SET state = r.state, value = r.value, closed_at = r.closed_at "
            f"FROM {_unnest(names)} WHERE d.ticket = r.ticket RETURNING d.experiment) {_counting('ended', -1)}",
            _columns(names, rows),
        )

    def make_stale(self, experiment: int, action: int) -> None:
        sql = "UPDATE decisions SET stale = 1 WHERE experiment = %s AND state = 'open' AND action = %s"
        self.run(sql, (experiment, action))

    def due(self, experiment: int, now: float, limit: int) -> list[DecisionRow]:
        sql = f"SELECT {DECISION} FROM decisions WHERE experiment = %s AND state = 'open' AND expires_at <= %s"
        rows = self.run(f"{sql} ORDER BY expires_at LIMIT %s FOR UPDATE SKIP LOCKED", (experiment, now, limit))
        return [DecisionRow._make(row) for row in rows]

    def add_events(self, rows: Iterable[Event]) -> None:
        placed = [(self.places + n, *row) for n, row in enumerate(rows)]
        self.places += len(placed)
        if self.places >> PLACES:
            raise InvalidState(f"one transaction can change {1 << PLACES} states at most")
        sql = f"INSERT INTO events (id, {EVENT}) SELECT "
        sql += f"((%s + pg_current_xact_id()::text::bigint) << {PLACES}) + place, {EVENT} FROM {_unnest(EVENT_COLUMNS)}"
        self.run(sql, (self.base, *_columns(EVENT_COLUMNS, placed)))

    def add_remarks(self, rows: Iterable[Remark]) -> None:
        names = Remark._fields
        self.run(
            f"INSERT INTO remarks ({', '.join(names)}) SELECT * FROM {_unnest(names)}",
            _columns(names, rows),
        )

    def count(self, experiment: int, kind: str, by: int) -> None:
        self.run(
            "INSERT INTO counters (experiment, kind, writer, count) VALUES (%s, %s, pg_backend_pid(), %s) "
            "ON CONFLICT (experiment, kind, writer) DO UPDATE SET count = counters.count + excluded.count",
            (experiment, kind, by),
        )

    def push(self, rows: Iterable[Queued]) -> None:
        names = ("experiment", "cell", "position", "blob")
        sql = f"INSERT INTO queue (experiment, cell, position, value) SELECT * FROM {_unnest(names)}"
        self.run(sql, _columns(names, rows))

    def pull(self, rows: Iterable[Queued]) -> None:
        names = ("experiment", "cell", "position")
        self.run(
            f"DELETE FROM queue q USING {_unnest(names)} "
            "WHERE q.experiment = r.experiment AND q.cell = r.cell AND q.position = r.position",
            _columns(names, (row[:3] for row in rows)),
        )

    def find_keys(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Key]:
        names = ("experiment", "key")
        sql = f"SELECT k.experiment, k.key, digest, answer, at FROM {_unnest(names)} JOIN keys k"
        rows = self.run(f"{sql} ON k.experiment = r.experiment AND k.key = r.key", _columns(names, wanted))
        return {(row[0], row[1]): Key._make(row) for row in rows}

    def add_keys(self, rows: Iterable[Key]) -> None:
        names = Key._fields
        sql = f"INSERT INTO keys ({', '.join(names)}) SELECT * FROM {_unnest(names)}"
        self.run(sql, _columns(names, sorted(rows)))

    def extend_key(self, row: Key, before: str) -> None:
        sql = "UPDATE keys SET answer = %s WHERE experiment = %s AND key = %s AND answer = %s RETURNING 1"
        if not self.run(sql, (row.answer, row.experiment, row.key, before)).fetchall():
            raise Raced(f"another process went on with the key {row.key!r}")

    def purge_keys(self, before: float, limit: int) -> int:
        sql = "SELECT experiment, key FROM keys WHERE at < %s ORDER BY at LIMIT %s"
        return self.run(f"DELETE FROM keys WHERE (experiment, key) IN ({sql})", (before, limit)).rowcount

    def put_folds(self, rows: Iterable[tuple[int, int, str]]) -> None:
        names = ("experiment", "upto", "text")
        self.run(
            f"INSERT INTO folds (experiment, upto, counters) SELECT * FROM {_unnest(names)} ON CONFLICT (experiment) "
            "DO UPDATE SET upto = excluded.upto, counters = excluded.counters WHERE folds.upto < excluded.upto",
            _columns(names, rows),
        )

    def add_token(self, token: Token) -> None:
        self.run(f"INSERT INTO tokens ({TOKEN}) VALUES ({', '.join(['%s'] * len(token))})", token)

    def revoke(self, name: str, at: float) -> int:
        sql = "UPDATE tokens SET revoked_at = %s WHERE name = %s AND revoked_at IS NULL RETURNING 1"
        return len(self.run(sql, (at, name)).fetchall())

    def changed_since_checkpoint(self, experiment: int) -> Iterator[State]:
        columns = ", ".join(f"s.{name}" for name in STATE.split(", "))
        sql = (
            f"SELECT {columns} FROM states s LEFT JOIN checkpoints c "
            "ON c.experiment = s.experiment AND c.instance = s.instance AND c.seq = s.seq "
            "WHERE s.experiment = %s AND s.instance > %s AND s.seq > 0 AND c.seq IS NULL "
            f"ORDER BY s.instance LIMIT {CHUNK}"
        )
        last = -1
        while rows := self.run(sql, (experiment, last)).fetchall():
            yield from map(_state, rows)
            last = rows[-1][0]

    def add_checkpoints(self, rows: Iterable[Checkpoint]) -> None:
        written = [(c.experiment, *state_row(c.state), c.queue, int(c.floor), c.at) for c in rows]
        self.run(
            f"INSERT INTO checkpoints (experiment, {STATE}, queue, floor, at) "
            f"SELECT * FROM {_unnest(CHECKPOINT_COLUMNS)} ON CONFLICT (experiment, instance, seq) DO UPDATE SET "
            "free = excluded.free, state = excluded.state, held = excluded.held, steps = excluded.steps, "
            "pool = excluded.pool, queue = excluded.queue, floor = excluded.floor, at = excluded.at",
            _columns(CHECKPOINT_COLUMNS, written),
        )

    def purge(self, experiment: int, before: float, limit: int) -> int:
        kept = (
            "WITH kept AS (SELECT instance, max(seq) AS seq FROM checkpoints WHERE experiment = %s AND at <= %s "
            "GROUP BY instance) "
        )
        sql = (
            "SELECT e.id, e.kind, e.ticket FROM kept k JOIN events e ON e.experiment = %s AND e.instance = k.instance "
            "AND e.seq <= k.seq WHERE e.id <= "
            "(SELECT coalesce(max(upto), 0) FROM folds WHERE experiment = %s) "
            "ORDER BY e.instance, e.seq LIMIT %s"
        )
        if not self.run("SELECT pg_try_advisory_xact_lock(%s)", (PURGE_LOCK,)).fetchall()[0][0]:
            return 0  # another process is at it
        old = self.run(kept + sql, (experiment, before, experiment, experiment, limit)).fetchall()
        closed = array("bytea", (ticket for _, kind, ticket in old if kind != "decide" and ticket is not None))
        self.run("SELECT FROM decisions WHERE ticket = ANY(%s::bytea[]) ORDER BY ticket FOR UPDATE", (closed,))
        self.run("UPDATE decisions SET context = NULL, memo = NULL WHERE ticket = ANY(%s::bytea[])", (closed,))
        self.run("DELETE FROM events WHERE id = ANY(%s::bigint[])", (array("bigint", (row[0] for row in old)),))
        if len(old) < limit:
            sql = "DELETE FROM checkpoints c USING kept k WHERE c.experiment = %s AND c.instance = k.instance"
            self.run(f"{kept}{sql} AND c.seq < k.seq", (experiment, before, experiment))
        return len(old)


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
    instance, seq, free, data, held, steps, pool = row
    return State(instance, seq, bool(free), data, held, steps, pool)


def _counting(rows: str, by: int) -> str:
    """Open decisions are counted by each connection for itself: no row that all decisions change."""
    return (
        "INSERT INTO counters (experiment, kind, writer, count) "
        f"SELECT experiment, 'open', pg_backend_pid(), {by} * count(*) FROM {rows} GROUP BY experiment "
        "ON CONFLICT (experiment, kind, writer) DO UPDATE SET count = counters.count + excluded.count"
    )


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
        self._base = 0
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
        settings = SETTINGS if self._writes else SETTINGS | {"default_transaction_read_only": "on"}
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        given = conninfo_to_dict(self._url).get("options") or ""
        return psycopg.connect(
            self._url, options=f"{given} {options}", autocommit=True, application_name="belated", connect_timeout=10,
            keepalives_idle=10, keepalives_interval=5, keepalives_count=3, tcp_user_timeout=30_000,
        )  # fmt: skip

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
        return Session(connection, self._base)

    def _prepare(self, connection: psycopg.Connection[Any], serve: bool, earlier: bool) -> None:
        """Tables of this version, whoever of several processes makes them."""
        if connection.info.server_version < 130000:
            raise InvalidState(f"{self.name} is PostgreSQL {connection.info.server_version // 10000}; 13 is the oldest")
        with connection.transaction():
            connection.execute(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
            session = Session(connection, 0)
            version = self._version(session)
            schema.refuse(self.name, version, serve=serve, migrate=self.migrates or earlier)
            if version < schema.SCHEMA and self._writes:
                for statement in schema.statements("postgresql", version):
                    connection.execute(statement.encode())
                session.set_meta("schema", str(schema.SCHEMA))
            self._base = self._check_base(session)

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

    def _check_base(self, session: Session) -> int:
        """What is added to transaction numbers: in a restored copy they start anew, and events must not."""
        noted = session.meta("base") or "0"
        base = int(noted) if noted.lstrip("-").isdigit() else 0  # a damaged one is found again below
        here = int(session.run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchall()[0][0])
        before = session.last_event() >> PLACES
        before = max(before, *(upto >> PLACES for upto, _ in session.folds().values()), 0)
        if before >= base + here:
            base = before + 1 - here
            if self._writes:
                session.set_meta("base", str(base))
        return base

    @contextmanager
    def write(self, *, alone: bool = False) -> Iterator[Session]:
        with self._writing:
            try:
                session = self._writer = self._writer or self._open()
                try:
                    with session.connection.pipeline():
                        session.begin(alone=alone)
                        yield session
                        session.run("COMMIT")
                except BaseException:
                    self._undo(session)
                    raise
                finally:
                    session.clock, session.locking = None, ""
            except RACES as error:
                raise Raced(f"{self.name}: {str(error).strip()}") from error
            except LOST as error:
                raise StorageError(f"{self.name}: {str(error).strip()}") from error

    def _undo(self, session: Session) -> None:
        """Roll back, or let the connection go: the server then rolls back by itself."""
        try:
            session.connection.execute("ROLLBACK")
            session.connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            session.connection.close()
            self._writer = None

    @contextmanager
    def read(self) -> Iterator[Session]:
        with self._places:
            try:
                session = self._begin_read()
                try:
                    yield session
                    session.connection.execute("ROLLBACK")
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

    def settle(self) -> None:
        """Wait a moment until what is committed has its place in the order of events."""
        deadline, pause = time.monotonic() + SETTLE, 0.001
        with self.read() as session:
            last, settled = session.last_event(), session.settled()
        while settled <= last and time.monotonic() < deadline:
            time.sleep(pause)
            pause *= 2
            with self.read() as session:
                settled = session.settled()

    def tend(self) -> None:
        """The server looks after itself."""

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
