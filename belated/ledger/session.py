"""What a session writes, on PostgreSQL: many rows by one statement, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from belated.ledger.arrays import array, columns, unnest
from belated.ledger.common import DECISION, EVENT, HEADS, STATE, TOKEN, state_of
from belated.ledger.reads import Reads
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
    state_row,
)

#: What advisory locks are about (they are the database's own, not the cluster's).
SCHEMA_LOCK, WRITE_LOCK = 0x62656C61, 0x62656C62

STATE_COLUMNS = ("instance", "seq", "free", "state_data", "held", "steps", "pool", "place")
CHECKPOINT_COLUMNS = ("experiment", *STATE_COLUMNS, "blob", "floor", "at")


class Session(Reads):
    """One connection; in a `write`, one transaction, in pipeline mode."""

    def begin(self, *, alone: bool, lock: Sequence[int]) -> None:
        """Start to write, with the logs of these experiments. The clock stands still until the end."""
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED")
        sql = "SELECT now, changes, turn, server FROM belated_lock(%s, %s, %s::bigint[])"
        self._begun = self.run(sql, (WRITE_LOCK, alone, array("bigint", lock)))

    @property
    def turn(self) -> int:
        return self._turns.mine

    @property
    def since(self) -> int:
        return self._turns.since

    def over(self, committed: bool) -> None:
        """The transaction has ended."""
        if committed:
            self.days |= self._made
            self.days -= self._dropped
        self._made, self._dropped, self._kept = set(), set(), set()
        self._begun = self._clock = None

    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        self.run(sql.replace("?", "%s"), values)

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

    def put_states(self, states: Iterable[tuple[int, State]]) -> None:
        names = ("experiment", *STATE_COLUMNS)
        self.run(
            f"INSERT INTO states (experiment, {STATE}) SELECT * FROM {unnest(names)} "
            "ON CONFLICT (experiment, instance) DO UPDATE SET seq = excluded.seq, free = excluded.free, "
            "state = excluded.state, held = excluded.held, steps = excluded.steps, pool = excluded.pool, "
            "place = excluded.place",
            columns(names, [(experiment, *state_row(state)) for experiment, state in states]),
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
        return [state_of(row) for row in self.run(sql, (experiment, instance, limit))]

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
