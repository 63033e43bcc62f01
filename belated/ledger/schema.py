"""The tables, in a form that SQLite and PostgreSQL share.

Times are seconds since 1970 on the database's clock. A `value` is JSON text: a number, a list, or a symbol. Contexts,
queued feedback and learner states are the bytes of float64 numbers and of records.
"""

from __future__ import annotations

from belated.errors import InvalidState

#: Raised whenever a table changes; `MIGRATIONS[n]` leads from n to n + 1.
SCHEMA = 4
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: ("CREATE INDEX remarks_of_a_ticket ON remarks (ticket)",),
    2: (
        "ALTER TABLE states ADD COLUMN pool {big} NOT NULL DEFAULT 0",
        "ALTER TABLE checkpoints ADD COLUMN pool {big} NOT NULL DEFAULT 0",
        "ALTER TABLE decisions ADD COLUMN memo {blob}",
        "DROP INDEX states_free",
        "CREATE INDEX states_free ON states (experiment, pool, instance) WHERE free = 1",
    ),
    3: (
        "ALTER TABLE tokens ADD COLUMN experiments TEXT",
        "ALTER TABLE tokens ADD COLUMN rate {real}",
        "ALTER TABLE tokens ADD COLUMN expires_at {real}",
        "ALTER TABLE tokens ADD COLUMN used_at {real}",
        # Who changed what, and who was turned away.
        """CREATE TABLE log (
        id {serial}, at {real} NOT NULL, who TEXT NOT NULL, address TEXT NOT NULL, what TEXT NOT NULL,
        experiment TEXT, detail TEXT NOT NULL
    )""",
    ),
}

#: Where the dialects differ.
WORDS = {
    "sqlite": {
        "blob": "BLOB",
        "real": "REAL",
        "big": "INTEGER",
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "clustered": "WITHOUT ROWID",
        "ticket": "id INTEGER PRIMARY KEY AUTOINCREMENT, ticket BLOB NOT NULL UNIQUE",
        "event": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "writer": "",
        "by_writer": "",
        "busy": "",
    },
    "postgresql": {
        "blob": "BYTEA",
        "real": "DOUBLE PRECISION",
        "big": "BIGINT",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "clustered": "",
        "ticket": "ticket BYTEA PRIMARY KEY",
        "event": "BIGINT PRIMARY KEY",
        "writer": "writer BIGINT NOT NULL, ",
        "by_writer": ", writer",
        "busy": "WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)",
    },
}

_STATE = "state {blob} NOT NULL, held {blob}, steps {big} NOT NULL, pool {big} NOT NULL DEFAULT 0"

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) {clustered}",
    """CREATE TABLE experiments (
        id {serial}, name TEXT NOT NULL UNIQUE, spec TEXT NOT NULL, version {big} NOT NULL, layout TEXT NOT NULL,
        rounds {big} NOT NULL DEFAULT 0, created_at {real} NOT NULL, archived_at {real}
    )""",
    # One row a learner state. `held` are the notes of the forecaster's rule, with the first one; `pool` is where an
    # instance is free.
    f"""CREATE TABLE states (
        experiment {{big}} NOT NULL, instance {{big}} NOT NULL, seq {{big}} NOT NULL, free {{big}} NOT NULL, {_STATE},
        PRIMARY KEY (experiment, instance)
    ) {{clustered}} {{busy}}""",
    MIGRATIONS[2][-1],
    # The queues of a forecaster's rule; for QPM-D a cell is value of the side information * actions + action.
    """CREATE TABLE queue (
        experiment {big} NOT NULL, cell {big} NOT NULL, position {big} NOT NULL, value {blob} NOT NULL,
        PRIMARY KEY (experiment, cell, position)
    ) {clustered}""",
    # Tickets are random; with an index of their own the rows stay in order, and a commit touches few pages.
    """CREATE TABLE decisions (
        {ticket}, experiment {big} NOT NULL, round {big} NOT NULL, instance {big} NOT NULL,
        number {big} NOT NULL, action {big} NOT NULL, probability {real} NOT NULL, allowed TEXT, context {blob},
        decided_at {real} NOT NULL, expires_at {real}, state TEXT NOT NULL, value TEXT, closed_at {real},
        stale {big} NOT NULL, memo {blob}
    )""",
    "CREATE INDEX decisions_open ON decisions (experiment, expires_at) WHERE state = 'open'",
    # Every change of a learner state; `seq` counts within that state.
    """CREATE TABLE events (
        id {event}, experiment {big} NOT NULL, instance {big} NOT NULL, seq {big} NOT NULL, kind TEXT NOT NULL,
        ticket {blob}, action {big}, probability {real}, value TEXT, delay {real}, at {real} NOT NULL
    )""",
    "CREATE UNIQUE INDEX events_of_a_state ON events (experiment, instance, seq)",
    # What is on record and was not learned.
    """CREATE TABLE remarks (
        id {serial}, experiment {big} NOT NULL, ticket {blob}, kind TEXT NOT NULL, value TEXT, at {real} NOT NULL
    )""",
    *MIGRATIONS[1],
    """CREATE TABLE counters (
        experiment {big} NOT NULL, kind TEXT NOT NULL, {writer}count {big} NOT NULL,
        PRIMARY KEY (experiment, kind{by_writer})
    ) {clustered} {busy}""",
    """CREATE TABLE keys (
        experiment {big} NOT NULL, key TEXT NOT NULL, digest {blob} NOT NULL, answer TEXT NOT NULL, at {real} NOT NULL,
        PRIMARY KEY (experiment, key)
    ) {clustered}""",
    "CREATE INDEX keys_by_age ON keys (at)",
    """CREATE TABLE tokens (
        digest {blob} PRIMARY KEY, name TEXT NOT NULL, scopes TEXT NOT NULL, created_at {real} NOT NULL,
        revoked_at {real}, experiments TEXT, rate {real}, expires_at {real}, used_at {real}
    ) {clustered}""",
    MIGRATIONS[3][-1],
    # Statistics as far as event `upto`.
    "CREATE TABLE folds (experiment {big} PRIMARY KEY, upto {big} NOT NULL, counters TEXT NOT NULL) {clustered}",
    # A state as it was after event `seq`, with the queues. `floor`: nothing before it can be replayed.
    f"""CREATE TABLE checkpoints (
        experiment {{big}} NOT NULL, instance {{big}} NOT NULL, seq {{big}} NOT NULL, free {{big}} NOT NULL, {_STATE},
        queue {{blob}} NOT NULL, floor {{big}} NOT NULL, at {{real}} NOT NULL,
        PRIMARY KEY (experiment, instance, seq)
    ) {{clustered}}""",
)

#: What only one dialect has. PostgreSQL takes rounds and instance numbers from sequences (`rounds_ID`, `instances_ID`),
#: several in a row at a time; `changes` grows with every change of an experiment.
MORE: dict[str, tuple[str, ...]] = {
    "sqlite": (),
    "postgresql": (
        """CREATE FUNCTION belated_take(numbers regclass, count bigint) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE
            first bigint;
        BEGIN
            PERFORM pg_advisory_lock(1, numbers::oid::bigint::bit(32)::int);
            first := nextval(numbers);
            PERFORM setval(numbers, greatest(first + count - 1, 1), first + count > 1);
            PERFORM pg_advisory_unlock(1, numbers::oid::bigint::bit(32)::int);
            RETURN first;
        END $$""",
        """CREATE FUNCTION belated_begin(lock bigint, alone boolean, OUT now float8, OUT changes bigint)
        LANGUAGE plpgsql AS $$
        BEGIN
            IF alone THEN
                PERFORM pg_advisory_xact_lock(lock);
            ELSE
                PERFORM pg_advisory_xact_lock_shared(lock);
            END IF;
            now := extract(epoch FROM clock_timestamp());
            changes := value FROM meta WHERE key = 'changes';
        END $$""",
        "INSERT INTO meta (key, value) VALUES ('changes', '0')",
    ),
}


def refuse(name: str, version: int, *, serve: bool, migrate: bool) -> None:
    """Say why a database of that version cannot be used, if it cannot; version 0 is an empty one."""
    if version > SCHEMA:
        raise InvalidState(f"{name} has schema {version}, this version of belated reads up to {SCHEMA}")
    if version == 0 and not serve:
        raise InvalidState(f"{name} is empty: there is no database of belated in it")
    if 0 < version < SCHEMA and not migrate:
        raise InvalidState(
            f"{name} has schema {version}, this version of belated needs {SCHEMA}: make a backup (`belated backup`), "
            "then bring it up to date by `belated migrate` or `belated serve --migrate`"
        )


def statements(dialect: str, version: int = 0) -> list[str]:
    """What brings a database of that version up to date; version 0 is an empty one."""
    later = [step for n in range(version, SCHEMA) for step in MIGRATIONS[n]] if version else []
    steps = later if version else [*TABLES, *MORE[dialect]]
    return [step.format(**WORDS[dialect]) for step in steps]
