"""The ledger's verbs on SQLite: one file, one writer, readers that never wait.

WAL with synchronous=FULL: what is committed survives a crash of the process and of the machine. A server holds a lock
of the operating system on FILE.lock, which ends with the process however it ends.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from belated.errors import InvalidState
from belated.ledger import schema
from belated.ledger.common import DECISION, EVENT, EXPERIMENT, HEADS, STATE, TOKEN, Common, state_of
from belated.ledger.errors import StorageError
from belated.ledger.files import make_private
from belated.ledger.store import (
    OWN,
    Checkpoint,
    Closing,
    DecisionRow,
    Event,
    ExperimentRow,
    Head,
    Key,
    Old,
    Queued,
    Remark,
    State,
    Token,
    ended,
    state_row,
)

#: Milliseconds that a statement waits for another process, such as `belated token`.
PATIENCE = 10_000
#: Most values in one `IN (...)`, and rows in one `INSERT`.
MOST = 512
TOGETHER = 128
#: Pages of the log after which the writer itself moves them into the file; see `SQLite.tend`.
LOG = 16_000

NOW = "SELECT (julianday('now') - 2440587.5) * 86400.0"


def _marks(count: int) -> str:
    return ", ".join("?" * count)


class Session(Common):
    """One connection; in a `write`, one transaction."""

    def __init__(self, file: str, *, make: bool = False, write: bool = True) -> None:
        path = Path(file).absolute().as_uri() + ("?mode=rwc" if make else "?mode=rw")
        self.connection = sqlite3.connect(
            path,
            timeout=PATIENCE / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            uri=True,
        )
        self.run = self.connection.execute
        self.many = self.connection.executemany
        try:
            self.run("PRAGMA cache_size = -65536")
            self.run("PRAGMA temp_store = MEMORY")
            if not write:
                self.run("PRAGMA query_only = ON")
        except BaseException:
            self.connection.close()
            raise

    def _among(self, sql: str, before: tuple[Any, ...], values: Sequence[Any]) -> Iterator[Any]:
        """Rows of a statement that ends in `IN`, for any number of values."""
        for at in range(0, len(values), MOST):
            some = list(values[at : at + MOST])
            room = 1 << (len(some) - 1).bit_length()  # few different statements, so that they stay prepared
            some += some[-1:] * (room - len(some))
            yield from self.run(f"{sql} ({_marks(room)})", (*before, *some))

    def _insert(self, into: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows, many by one statement: the interpreter is given away at every one, and waited for again.

        Statements take 128 rows, 120, ..., 8, or 7, 6, ..., so that there are few of them and they stay prepared.
        """
        all_, at = list(rows), 0
        while at < len(all_):
            left = len(all_) - at
            count = min(left & -8 or left, TOGETHER)
            some = all_[at : at + count]
            at += count
            row = f"({_marks(len(some[0]))})"
            self.run(f"{into} VALUES {', '.join([row] * count)}", list(chain.from_iterable(some)))

    # --- reading ---

    def now(self) -> float:
        return float(self.run(NOW).fetchone()[0])

    @property
    def turn(self) -> int:
        return 0

    @property
    def since(self) -> int:
        return 1  # nothing is known of others

    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self.run(sql, values).fetchall()

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.run(sql, values)

    def written(self) -> int:
        return 0

    def generation(self) -> int:
        return 0

    def experiments(self) -> list[ExperimentRow]:
        rows = (ExperimentRow(*row) for row in self.run(f"SELECT {EXPERIMENT} FROM experiments ORDER BY id"))
        return [row._replace(name=str(row.name)) for row in rows]  # a damaged one is named like the others

    def decisions(self, tickets: Sequence[bytes]) -> dict[bytes, DecisionRow]:
        rows = self._among(f"SELECT {DECISION} FROM decisions WHERE ticket IN", (), tickets)
        return {row[0]: DecisionRow._make(row) for row in rows}

    def states(self, experiment: int, instances: Sequence[int]) -> dict[int, State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = ? AND instance IN"
        return {row[0]: state_of(row) for row in self._among(sql, (experiment,), instances)}

    def free(self, experiment: int) -> list[tuple[int, int]]:
        # Left to itself SQLite looks through all states in order, the busy ones too.
        sql = "SELECT pool, instance FROM states INDEXED BY states_free WHERE experiment = ? AND free = 1"
        return self.run(sql, (experiment,)).fetchall()

    def heads(self, experiments: Sequence[int] | None = None) -> dict[int, Head]:
        last = "max(counted, coalesce((SELECT max(place) FROM events e WHERE e.experiment = heads.experiment), 0))"
        sql = f"SELECT {HEADS}, {last} FROM heads"
        rows = self.run(sql) if experiments is None else self._among(f"{sql} WHERE experiment IN", (), experiments)
        return {row[0]: Head._make(row) for row in rows}

    def events_since(self, experiment: int, place: int, limit: int, at: float = 0.0) -> list[Event]:
        sql = f"SELECT {EVENT} FROM events WHERE experiment = ? AND place > ? ORDER BY place LIMIT ?"
        return [Event._make(row) for row in self.run(sql, (experiment, place, limit))]

    def remarks(self, tickets: Sequence[bytes]) -> list[Remark]:
        rows = self._among("SELECT id, experiment, ticket, kind, value, at FROM remarks WHERE ticket IN", (), tickets)
        return [Remark._make(row[1:]) for row in sorted(set(rows))]

    def checkpoints(self, experiment: int, instances: Sequence[int] | None = None) -> dict[int, list[Checkpoint]]:
        found: dict[int, list[Checkpoint]] = {}
        sql = f"SELECT {STATE}, queue, floor, at FROM checkpoints WHERE experiment = ?"
        some = (experiment,)
        rows = self.run(sql, some) if instances is None else self._among(f"{sql} AND instance IN", some, instances)
        for *state, queue, floor, at in sorted(set(rows)):
            found.setdefault(state[0], []).append(Checkpoint(experiment, state_of(state), queue, bool(floor), at))
        return found

    # --- writing ---

    def look(
        self, experiments: Sequence[int], tickets: Sequence[bytes], keys: Sequence[tuple[int, str]]
    ) -> tuple[dict[int, Head], dict[bytes, DecisionRow], dict[tuple[int, str], Key]]:
        return self.heads(experiments), self.decisions(tickets), self._keys(keys)

    def add_experiment(self, row: ExperimentRow) -> int | None:
        sql = "INSERT INTO experiments (name, spec, version, layout, created_at, archived_at) VALUES (?, ?, ?, ?, ?, ?)"
        found = self.run(f"{sql} ON CONFLICT (name) DO NOTHING RETURNING id", row[1:]).fetchall()
        if not found:
            return None
        self.put_heads([Head(int(found[0][0]))])
        return int(found[0][0])

    def change_experiment(self, row: ExperimentRow) -> None:
        sql = "UPDATE experiments SET spec = ?, version = ?, layout = ?, archived_at = ? WHERE id = ?"
        self.run(sql, (row.spec, row.version, row.layout, row.archived_at, row.id))

    def remove_experiment(self, experiment: int) -> None:
        self.run("DELETE FROM experiments WHERE id = ?", (experiment,))
        self.run("DELETE FROM heads WHERE experiment = ?", (experiment,))

    def put_heads(self, rows: Iterable[Head]) -> None:
        self._insert(f"INSERT OR REPLACE INTO heads ({HEADS})", (row[:-1] for row in rows))

    def put_states(self, states: Iterable[tuple[int, State]]) -> None:
        rows = ((experiment, *state_row(state)) for experiment, state in states)
        self._insert(f"INSERT OR REPLACE INTO states (experiment, {STATE})", rows)

    def add_decisions(self, rows: Sequence[DecisionRow]) -> None:
        self._insert(f"INSERT INTO decisions ({DECISION})", rows)

    def end(self, rows: Iterable[Closing]) -> None:
        self.many("UPDATE decisions SET state = ?, value = ?, closed_at = ?, stale = ? WHERE ticket = ?", rows)

    def due(self, now: float, limit: int, besides: Sequence[int] = ()) -> list[tuple[int, bytes]]:
        sql = (
            "SELECT experiment, ticket FROM decisions INDEXED BY decisions_due WHERE state = 'open' AND expires_at <= ?"
        )
        sql += f" AND experiment NOT IN ({_marks(len(besides))}) ORDER BY expires_at LIMIT ?"
        return self.run(sql, (now, *besides, limit)).fetchall()

    def add_events(self, rows: Sequence[Event]) -> None:
        self._insert(f"INSERT INTO events ({EVENT})", rows)

    def add_remarks(self, rows: Iterable[Remark]) -> None:
        self._insert("INSERT INTO remarks (experiment, ticket, kind, value, at)", rows)

    def count(self, counts: dict[tuple[int, str], int]) -> None:
        sql = "INSERT INTO counters VALUES (?, ?, ?) ON CONFLICT (experiment, kind)"
        self.many(f"{sql} DO UPDATE SET count = count + excluded.count", [(*key, by) for key, by in counts.items()])

    def push(self, rows: Iterable[Queued]) -> None:
        self._insert("INSERT OR IGNORE INTO queue (experiment, cell, position, value)", rows)

    def pull(self, rows: Iterable[tuple[int, int, int]]) -> None:
        self.many("DELETE FROM queue WHERE experiment = ? AND cell = ? AND position = ?", rows)

    def _keys(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Key]:
        found = {}
        sql = "SELECT experiment, key, digest, answer, at FROM keys WHERE experiment = ? AND key = ?"
        for pair in wanted:
            for row in self.run(sql, pair):
                found[pair] = Key._make(row)
        return found

    def add_keys(self, rows: Iterable[Key]) -> None:
        self._insert("INSERT INTO keys (experiment, key, digest, answer, at)", rows)

    def extend_key(self, row: Key) -> None:
        self.run("UPDATE keys SET answer = ? WHERE experiment = ? AND key = ?", (row.answer, row.experiment, row.key))

    def purge_keys(self, before: float, limit: int) -> int:
        sql = "SELECT experiment, key FROM keys WHERE at < ? ORDER BY at LIMIT ?"
        old = self.run(sql, (before, limit)).fetchall()
        self.many("DELETE FROM keys WHERE experiment = ? AND key = ?", old)
        return len(old)

    def put_folds(self, rows: Iterable[tuple[int, int, str]]) -> None:
        self.many("INSERT OR REPLACE INTO folds (experiment, upto, counters) VALUES (?, ?, ?)", rows)

    def add_token(self, token: Token) -> None:
        self._insert(f"INSERT INTO tokens ({TOKEN})", [token])

    def revoke(self, name: str, at: float) -> int:
        sql = "UPDATE tokens SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL"
        return self.run(sql, (at, name)).rowcount

    def unchecked(self, experiment: int, instance: int, limit: int) -> list[State]:
        columns = ", ".join(f"s.{name}" for name in STATE.split(", "))
        rows = self.run(
            f"SELECT {columns} FROM states s LEFT JOIN checkpoints c "
            "ON c.experiment = s.experiment AND c.instance = s.instance AND c.seq = s.seq "
            "WHERE s.experiment = ? AND s.instance > ? AND s.seq > 0 AND c.seq IS NULL ORDER BY s.instance LIMIT ?",
            (experiment, instance, limit),
        )
        return [State(*row) for row in rows]

    def add_checkpoints(self, rows: Iterable[Checkpoint]) -> None:
        self.many(
            f"INSERT OR REPLACE INTO checkpoints (experiment, {STATE}, queue, floor, at) VALUES ({_marks(12)})",
            ((c.experiment, *state_row(c.state), c.queue, int(c.floor), c.at) for c in rows),
        )

    def purge(self, old: dict[int, Old], now: float, limit: int) -> int:
        gone = 0
        for experiment, (before, place) in old.items():
            gone += self._purge({"experiment": experiment, "before": before, "place": place, "limit": limit - gone})
            if gone >= limit:
                break
        return gone

    def _purge(self, values: dict[str, Any]) -> int:
        sql = "SELECT place FROM events WHERE experiment = :experiment AND place <= :place"
        sql = f"place IN ({sql} AND instance <> {OWN} ORDER BY place LIMIT :limit) RETURNING ticket, kind"
        gone = self.run(f"DELETE FROM events WHERE experiment = :experiment AND {sql}", values).fetchall()
        self.many("DELETE FROM decisions WHERE ticket = ?", ended(gone))
        count = len(gone)
        if count < values["limit"]:
            count += self.run("DELETE FROM remarks WHERE experiment = :experiment AND at < :before", values).rowcount
            self.run(
                "DELETE FROM checkpoints WHERE experiment = :experiment AND seq < (SELECT max(seq) FROM checkpoints k "
                "WHERE k.experiment = :experiment AND k.instance = checkpoints.instance AND k.at <= :before)",
                values,
            )
        return count


class SQLite:
    """A database in one file.

    With `serve` it is created where missing and held against other servers; without it and `write` nothing is written.
    An earlier schema is brought up to date with `migrate`, read as it is with `earlier`, and otherwise refused.
    """

    exclusive = True
    spoils: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(
        self,
        file: str | Path,
        *,
        serve: bool = False,
        write: bool = False,
        migrate: bool = False,
        earlier: bool = False,
    ) -> None:
        self.file = str(file)
        self.migrates = migrate
        if not serve and not Path(file).is_file():
            raise InvalidState(f"there is no database {self.file}")
        self._writes = serve or write
        self._lock = _take_lock(f"{self.file}.lock") if serve else None
        self._readers: list[Session] = []
        self._guard = threading.Lock()
        try:
            if not Path(file).exists():
                make_private(self.file)
            self._writer = Session(self.file, make=serve, write=self._writes)
            try:
                self._prepare(serve, earlier)
            except BaseException:
                self._writer.connection.close()
                raise
        except sqlite3.DatabaseError as error:
            self._unlock()
            raise InvalidState(f"{self.file} cannot be used as a database: {error}") from None
        except BaseException:
            self._unlock()
            raise

    def _prepare(self, serve: bool, earlier: bool) -> None:
        schema.refuse(self.file, self._version(), serve=serve, migrate=self.migrates or earlier)
        if not self._writes:
            return
        run = self._writer.run
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA wal_autocheckpoint = {LOG}")
        if self._version() == schema.SCHEMA:
            return
        with self.write() as session:
            version = self._version()
            for statement in schema.statements("sqlite", version):
                session.run(statement)
            session.set_meta("schema", str(schema.SCHEMA))

    def _version(self) -> int:
        tables = self._writer.run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        if not tables:
            return 0
        if ("meta",) not in tables or ("decisions",) not in tables:
            raise InvalidState(f"{self.file} is a database of something else")
        found = self._writer.meta("schema") or ""
        if not found.isdigit():
            raise InvalidState(f"{self.file} is damaged: its table meta says that its schema is {found!r}")
        return int(found)

    @contextmanager
    def write(self, *, alone: bool = False, lock: Sequence[int] = ()) -> Iterator[Session]:
        session = self._writer
        try:
            session.run("BEGIN IMMEDIATE")
            try:
                yield session
                session.run("COMMIT")
            except BaseException:
                if session.connection.in_transaction:
                    session.run("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            raise StorageError(f"{self.file}: {error}") from error

    @contextmanager
    def _reader(self) -> Iterator[Session]:
        with self._guard:
            session = self._readers.pop() if self._readers else None
        session = session or Session(self.file, write=self._writes)
        try:
            yield session
        finally:
            with self._guard:
                self._readers.append(session)

    @contextmanager
    def read(self) -> Iterator[Session]:
        try:
            with self._reader() as session:
                session.run("BEGIN")
                try:
                    yield session
                finally:
                    session.run("ROLLBACK")
        except sqlite3.DatabaseError as error:
            raise StorageError(f"{self.file}: {error}") from error

    def tend(self) -> None:
        """Move what is committed from the log into the file, beside the writer: little is left for it to do."""
        with self._reader() as session:
            session.run("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def backup(self, file: str) -> None:
        """A copy of one moment, while others go on writing."""
        make_private(file)
        session = Session(self.file)
        try:
            session.run("VACUUM INTO ?", (file,))
        finally:
            session.connection.close()
        with open(file, "rb+") as copy:
            os.fsync(copy.fileno())

    def close(self) -> None:
        for session in (*self._readers, self._writer):
            session.connection.close()
        self._readers.clear()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _take_lock(file: str) -> int:
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InvalidState(f"another server has {file.removesuffix('.lock')} open") from None
    return handle
