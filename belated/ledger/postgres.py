"""The ledger's verbs on PostgreSQL: many processes on many machines, no other coordination.

Processes meet only in the database. A writing transaction holds a shared advisory lock (an exclusive one where it must
be `alone`) and the heads of the experiments that it is about: those are its own until the end, and so are their logs.
All that a batch needs comes by one round trip, and what it writes goes out in one with its COMMIT.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from belated.errors import InvalidArgument, InvalidState
from belated.ledger import schema
from belated.ledger.errors import Raced, StorageError
from belated.ledger.files import make_private
from belated.ledger.past import PATIENCE
from belated.ledger.session import SCHEMA_LOCK, Session
from belated.ledger.store import day_of
from belated.ledger.turns import Turns

#: Statements that stay prepared: some for each day that feedback may come from.
PREPARED = 1000
#: Connections for reading, at most.
READERS = 4
#: Days for which there are tables ahead.
AHEAD = 2

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
        self._turns = Turns()
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
        return Session(connection, self._days, self._ends, self._turns)

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
            session = Session(connection, self._days, self._ends, self._turns)
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
