"""The tables, in a form that SQLite and PostgreSQL share.

Times are seconds since 1970 on the database's clock. A `value` is JSON text: a number, a list, or a symbol. Contexts,
queued feedback and learner states are the bytes of float64 numbers and of records.

On PostgreSQL the tables that grow are divided by day: what is old goes with its table. Day 0 keeps what must stay.
"""

from __future__ import annotations

from belated.errors import InvalidState

#: Raised whenever a table changes; `MIGRATIONS[n]` leads from n to n + 1.
SCHEMA = 6

#: Where the dialects differ.
WORDS = {
    "sqlite": {
        "blob": "BLOB",
        "real": "REAL",
        "big": "INTEGER",
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "clustered": "WITHOUT ROWID",
        "ticket": "id INTEGER PRIMARY KEY AUTOINCREMENT, ticket BLOB NOT NULL UNIQUE",
        "of_ticket": "",
        "remark": "id INTEGER PRIMARY KEY AUTOINCREMENT",
        "of_remark": "",
        "day": "",
        "by_day": "",
        "in_days": "WITHOUT ROWID",
        "divided": "",
        "busy": "",
    },
    "postgresql": {
        "blob": "BYTEA",
        "real": "DOUBLE PRECISION",
        "big": "BIGINT",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "clustered": "",
        "ticket": "ticket BYTEA NOT NULL",
        "of_ticket": ", PRIMARY KEY (ticket, day)",
        "remark": "id BIGINT NOT NULL DEFAULT nextval('remark_ids')",
        "of_remark": ", PRIMARY KEY (id, day)",
        "day": ", day BIGINT NOT NULL",
        "by_day": ", day",
        "in_days": "PARTITION BY LIST (day)",
        "divided": "PARTITION BY LIST (day)",
        "busy": "WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)",
    },
}

#: Tables that are divided by day.
DIVIDED = ("decisions", "events", "remarks", "keys")

_STATE = "state {blob} NOT NULL, held {blob}, steps {big} NOT NULL, pool {big} NOT NULL DEFAULT 0"
_FREE = "CREATE INDEX states_free ON states (experiment, pool, instance) WHERE free = 1"
_LOG = """CREATE TABLE log (
        id {serial}, at {real} NOT NULL, who TEXT NOT NULL, address TEXT NOT NULL, what TEXT NOT NULL,
        experiment TEXT, detail TEXT NOT NULL
    )"""
# Tickets are random but for their day; with an index of their own rows stay in order, and a commit touches few pages.
_DECISIONS = (
    """CREATE TABLE decisions (
        {ticket}, experiment {big} NOT NULL, round {big} NOT NULL, instance {big} NOT NULL,
        number {big} NOT NULL, action {big} NOT NULL, probability {real} NOT NULL, allowed TEXT, context {blob},
        decided_at {real} NOT NULL, expires_at {real}, state TEXT NOT NULL, value TEXT, closed_at {real},
        stale {big} NOT NULL, memo {blob}{day}{of_ticket}
    ) {divided}""",
    "CREATE INDEX decisions_due ON decisions (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL",
    "CREATE INDEX decisions_by_round ON decisions (experiment, round)",
)
# The log of each experiment: every change of a learner state. `seq` counts within that state.
_EVENTS = (
    """CREATE TABLE events (
        experiment {big} NOT NULL, place {big} NOT NULL, instance {big} NOT NULL, seq {big} NOT NULL,
        kind TEXT NOT NULL, ticket {blob}, action {big}, probability {real}, value TEXT, delay {real},
        at {real} NOT NULL{day}, PRIMARY KEY (experiment, place{by_day})
    ) {in_days}""",
    "CREATE INDEX events_of_a_state ON events (experiment, instance, seq)",
)
# What is on record and was not learned.
_REMARKS = (
    """CREATE TABLE remarks (
        {remark}, experiment {big} NOT NULL, ticket {blob}, kind TEXT NOT NULL, value TEXT,
        at {real} NOT NULL{day}{of_remark}
    ) {divided}""",
    "CREATE INDEX remarks_of_a_ticket ON remarks (ticket)",
)
_KEYS = (
    """CREATE TABLE keys (
        experiment {big} NOT NULL, key TEXT NOT NULL, digest {blob} NOT NULL, answer TEXT NOT NULL,
        at {real} NOT NULL{day}, PRIMARY KEY (experiment, key{by_day})
    ) {in_days}""",
)
_COUNTERS = """CREATE TABLE counters (
        experiment {big} NOT NULL, kind TEXT NOT NULL, count {big} NOT NULL, PRIMARY KEY (experiment, kind)
    ) {clustered} {busy}"""
_HEADS = """CREATE TABLE heads (
        experiment {big} PRIMARY KEY, counted {big} NOT NULL, written {big} NOT NULL, written_at {real} NOT NULL,
        rounds {big} NOT NULL, instances {big} NOT NULL, outstanding {big} NOT NULL
    ) {clustered} {busy}"""

#: The events of an experiment of an earlier schema in order, of which the first may have been deleted.
_PLACED = """SELECT e.experiment, row_number() OVER (PARTITION BY e.experiment ORDER BY id) + coalesce(gone, 0),
        instance, seq, kind, ticket, action, probability, value, delay, at{zero}
    FROM {old} e LEFT JOIN (
        SELECT experiment, sum(first - 1) AS gone FROM (
            SELECT experiment, min(seq) AS first FROM {old} WHERE instance >= 0 GROUP BY experiment, instance
        ) AS firsts GROUP BY experiment
    ) AS before ON before.experiment = e.experiment"""
_UPTO = """UPDATE folds SET upto = (
        SELECT coalesce(max(n.place), 0) FROM {old} o JOIN events n
        ON n.experiment = o.experiment AND n.instance = o.instance AND n.seq = o.seq
        WHERE o.experiment = folds.experiment AND o.id <= folds.upto
    )"""
_FIRST_HEADS = """INSERT INTO heads SELECT x.id, coalesce(e.last, 0), coalesce(e.last, 0), coalesce(e.at, 0), {rounds},
        coalesce((SELECT max(instance) + 1 FROM states s WHERE s.experiment = x.id), 0),
        (SELECT count(*) FROM decisions d WHERE d.experiment = x.id AND d.state = 'open')
    FROM experiments x LEFT JOIN (
        SELECT experiment, max(place) AS last, max(at) AS at FROM events GROUP BY experiment
    ) e ON e.experiment = x.id"""
_UNNOTED = "DELETE FROM meta WHERE key LIKE 'unfolded %'"
_PLACES = tuple(f"ALTER TABLE {name} ADD COLUMN place {{big}} NOT NULL DEFAULT 0" for name in ("states", "checkpoints"))

_DAYS = (
    "CREATE SEQUENCE remark_ids",
    # A day's tables: made aside and attached, so that nobody who reads or writes waits.
    """CREATE FUNCTION belated_day(day bigint) RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            name text;
        BEGIN
            PERFORM pg_advisory_xact_lock(2, 0);
            FOREACH name IN ARRAY ARRAY['decisions', 'events', 'remarks', 'keys'] LOOP
                IF to_regclass(name || '_' || day) IS NULL THEN
                    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', name || '_' || day, name);
                    EXECUTE format(
                        'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES IN (%s)', name, name || '_' || day, day
                    );
                END IF;
            END LOOP;
        END $$""",
)
#: Who writes locks the logs that it is about, and then draws a number: see `turns.py`.
_LOCK = (
    "CREATE SEQUENCE turns",
    """CREATE FUNCTION belated_lock(
            write_lock bigint, alone boolean, experiments bigint[],
            OUT now float8, OUT changes bigint, OUT turn bigint, OUT server text
        ) LANGUAGE plpgsql AS $$
        BEGIN
            IF alone THEN
                PERFORM pg_advisory_xact_lock(write_lock);
            ELSE
                PERFORM pg_advisory_xact_lock_shared(write_lock);
            END IF;
            PERFORM FROM heads WHERE experiment = ANY(experiments) ORDER BY experiment FOR UPDATE;
            turn := nextval('turns');
            server := extract(epoch FROM pg_postmaster_start_time()) || ' ' || 'turns'::regclass::oid;
            now := extract(epoch FROM clock_timestamp());
            changes := value FROM meta WHERE key = 'changes';
        END $$""",
)
_COPIED = {
    "decisions": "ticket, experiment, round, instance, number, action, probability, allowed, context, decided_at, "
    "expires_at, state, value, closed_at, stale, memo",
    "remarks": "experiment, ticket, kind, value, at",
    "keys": "experiment, key, digest, answer, at",
}


def _filled(step: str, **words: str) -> str:
    """A statement with these words put in; those of the dialect are left to `statements`."""
    for name, word in words.items():
        step = step.replace(f"{{{name}}}", word)
    return step


#: What leads from one schema to the next, for both dialects or for each.
MIGRATIONS: dict[int, tuple[str, ...] | dict[str, tuple[str, ...]]] = {
    1: ("CREATE INDEX remarks_of_a_ticket ON remarks (ticket)",),
    2: (
        "ALTER TABLE states ADD COLUMN pool {big} NOT NULL DEFAULT 0",
        "ALTER TABLE checkpoints ADD COLUMN pool {big} NOT NULL DEFAULT 0",
        "ALTER TABLE decisions ADD COLUMN memo {blob}",
        "DROP INDEX states_free",
        _FREE,
    ),
    3: (
        "ALTER TABLE tokens ADD COLUMN experiments TEXT",
        "ALTER TABLE tokens ADD COLUMN rate {real}",
        "ALTER TABLE tokens ADD COLUMN expires_at {real}",
        "ALTER TABLE tokens ADD COLUMN used_at {real}",
        _LOG,  # who changed what, and who was turned away
    ),
    # The log of events became the state: every writer is a replica that follows it.
    4: {
        "sqlite": (
            *_PLACES,
            _HEADS,
            "DROP INDEX events_of_a_state",
            "ALTER TABLE events RENAME TO old_events",
            "CREATE INDEX old_of_a_state ON old_events (experiment, instance, seq)",
            *_EVENTS,
            "INSERT INTO events " + _filled(_PLACED, old="old_events", zero=""),
            _filled(_UPTO, old="old_events"),
            "DROP TABLE old_events",
            _filled(_FIRST_HEADS, rounds="x.rounds"),
            "DROP INDEX decisions_open",
            *_DECISIONS[1:],
            _UNNOTED,
        ),
        "postgresql": (
            *_PLACES,
            _HEADS,
            *_DAYS,
            "DROP INDEX events_of_a_state",
            "DROP INDEX decisions_open",
            "DROP INDEX keys_by_age",
            "DROP INDEX remarks_of_a_ticket",
            *(f"ALTER TABLE {name} RENAME TO old_{name}" for name in DIVIDED),
            "CREATE INDEX old_of_a_state ON old_events (experiment, instance, seq)",
            *(_DECISIONS + _EVENTS + _REMARKS + _KEYS),
            "SELECT belated_day(0)",
            "INSERT INTO events " + _filled(_PLACED, old="old_events", zero=", 0"),
            *(
                f"INSERT INTO {name} ({columns}, day) SELECT {columns}, 0 FROM old_{name} ORDER BY {order}"
                for (name, columns), order in zip(_COPIED.items(), ("ticket", "id", "key"), strict=True)
            ),
            _filled(_UPTO, old="old_events"),
            *(f"DROP TABLE old_{name}" for name in DIVIDED),
            _filled(_FIRST_HEADS, rounds="coalesce((SELECT max(round) FROM decisions d WHERE d.experiment = x.id), 0)"),
            "ALTER TABLE counters RENAME TO old_counters",
            _COUNTERS,
            "INSERT INTO counters SELECT experiment, kind, sum(count) FROM old_counters WHERE kind <> 'open' "
            "GROUP BY experiment, kind",
            "DROP TABLE old_counters",
            """DO $$
            DECLARE
                name text;
            BEGIN
                FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema()
                        AND sequencename ~ '^(rounds|instances)_[0-9]+$' LOOP
                    EXECUTE format('DROP SEQUENCE %I', name);
                END LOOP;
            END $$""",
            "DROP FUNCTION belated_take",
            "DROP FUNCTION belated_begin",
            "DELETE FROM meta WHERE key = 'base'",
            _UNNOTED,
        ),
    },
    # Who of an earlier version is still at work draws numbers too: it calls the function by its name.
    5: {"sqlite": (), "postgresql": ("DROP FUNCTION IF EXISTS belated_lock", *_LOCK)},
}

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) {clustered}",
    """CREATE TABLE experiments (
        id {serial}, name TEXT NOT NULL UNIQUE, spec TEXT NOT NULL, version {big} NOT NULL, layout TEXT NOT NULL,
        rounds {big} NOT NULL DEFAULT 0, created_at {real} NOT NULL, archived_at {real}
    )""",
    _HEADS,
    # One row a learner state. `held` are the notes of the forecaster's rule, with the first one; `pool` is where an
    # instance is free.
    f"""CREATE TABLE states (
        experiment {{big}} NOT NULL, instance {{big}} NOT NULL, seq {{big}} NOT NULL, free {{big}} NOT NULL, {_STATE},
        place {{big}} NOT NULL DEFAULT 0, PRIMARY KEY (experiment, instance)
    ) {{clustered}} {{busy}}""",
    _FREE,
    # The queues of a forecaster's rule; for QPM-D a cell is value of the side information * actions + action.
    """CREATE TABLE queue (
        experiment {big} NOT NULL, cell {big} NOT NULL, position {big} NOT NULL, value {blob} NOT NULL,
        PRIMARY KEY (experiment, cell, position)
    ) {clustered}""",
    *_DECISIONS,
    *_EVENTS,
    *_REMARKS,
    _COUNTERS,
    *_KEYS,
    """CREATE TABLE tokens (
        digest {blob} PRIMARY KEY, name TEXT NOT NULL, scopes TEXT NOT NULL, created_at {real} NOT NULL,
        revoked_at {real}, experiments TEXT, rate {real}, expires_at {real}, used_at {real}
    ) {clustered}""",
    _LOG,
    # Statistics as far as the event at place `upto`.
    "CREATE TABLE folds (experiment {big} PRIMARY KEY, upto {big} NOT NULL, counters TEXT NOT NULL) {clustered}",
    # A state as it was after event `seq`, with the queues. `floor`: nothing before it can be replayed.
    f"""CREATE TABLE checkpoints (
        experiment {{big}} NOT NULL, instance {{big}} NOT NULL, seq {{big}} NOT NULL, free {{big}} NOT NULL, {_STATE},
        queue {{blob}} NOT NULL, floor {{big}} NOT NULL, at {{real}} NOT NULL, place {{big}} NOT NULL DEFAULT 0,
        PRIMARY KEY (experiment, instance, seq)
    ) {{clustered}}""",
)

#: What only one dialect has, before the tables and after; `changes` grows with every change of an experiment.
BEFORE: dict[str, tuple[str, ...]] = {"sqlite": (), "postgresql": (*_DAYS, *_LOCK)}
AFTER: dict[str, tuple[str, ...]] = {
    "sqlite": ("CREATE INDEX keys_by_age ON keys (at)",),
    "postgresql": ("SELECT belated_day(0)", "INSERT INTO meta (key, value) VALUES ('changes', '0')"),
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
    if not version:
        steps = [*BEFORE[dialect], *TABLES, *AFTER[dialect]]
    else:
        later = [MIGRATIONS[n] for n in range(version, SCHEMA)]
        steps = [step for each in later for step in (each[dialect] if isinstance(each, dict) else each)]
    return [_filled(step, **WORDS[dialect]) for step in steps]
