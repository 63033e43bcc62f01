"""What is past its retention goes, on PostgreSQL: whole days with their tables, and else row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from belated.ledger.schema import DIVIDED
from belated.ledger.store import DAY, OWN, DecisionRow, Event, Old, day_of

if TYPE_CHECKING:
    import psycopg

#: Seconds that a statement waits for a lock, and that a process may be silent within a transaction.
PATIENCE = 15
#: Where what must stay is kept when its day goes, and what is older than days.
KEPT = 0
EVENT = ", ".join(Event._fields)
DECISION = ", ".join(DecisionRow._fields)


class Past:
    """What a session deletes."""

    connection: psycopg.Connection[Any]
    days: set[int]
    _dropped: set[int]

    def run(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """A statement that stays prepared."""
        return self.connection.execute(sql, values, prepare=True, binary=True)

    def purge_keys(self, before: float, limit: int) -> int:
        """Whole days of them."""
        for day in sorted(self.days - {KEPT}):
            if day < day_of(before) and self.run(f"SELECT 1 FROM keys_{day} LIMIT 1").fetchall():
                self._alone_with(("keys",), day, f"TRUNCATE keys_{day}")
        sql = f"SELECT experiment, key FROM keys_{KEPT} WHERE at < %s LIMIT %s"
        sql = f"DELETE FROM keys_{KEPT} WHERE (experiment, key) IN ({sql}) RETURNING 1"
        return len(self.run(sql, (before, limit)).fetchall())

    def purge(self, old: dict[int, Old], now: float, limit: int) -> int:
        """Days on which all is past go with their tables. What must stay of them is kept elsewhere before."""
        gone, today = 0, day_of(now)
        for day in sorted(self.days - {KEPT}):
            if day >= today or gone >= limit:
                break
            ends = {number: each for number, each in old.items() if (day + 1) * DAY <= each.before}
            gone += self._drop(day, ends, limit - gone)
        for experiment, (before, place) in old.items():
            if gone >= limit:
                break
            if now - before >= DAY:  # what is left of days that others still need
                before = day_of(before) * DAY
            gone += self._purge({"experiment": experiment, "before": before, "place": place, "limit": limit - gone})
        return gone

    def _drop(self, day: int, old: dict[int, Old], limit: int) -> int:
        """Drop the tables of a day on which nothing is left that must stay; how many rows were moved for that."""
        if self.run(f"SELECT 1 FROM keys_{day} LIMIT 1").fetchall():  # these have a time of their own
            return 0
        sql = " UNION ALL ".join(
            f"(SELECT 1 FROM {name}_{day} WHERE experiment = x.id LIMIT 1)" for name in DIVIDED[:3]
        )
        present = [row[0] for row in self.run(f"SELECT id FROM experiments x WHERE EXISTS ({sql})").fetchall()]
        if not set(present) <= old.keys():
            return 0
        sql = f"SELECT max(place) FROM events_{day} WHERE experiment = %s"
        for number in present:
            last = self.run(sql, (number,)).fetchall()[0][0]
            if last is not None and last > old[number].place:
                return 0
        moved = self._move("events", day, f"instance = {OWN}", (), limit)
        for number in present:
            if moved < limit:
                open_ = "experiment = %s AND (state = 'open' OR closed_at >= %s)"
                sql = f"SELECT at FROM events WHERE experiment = %s AND day <> {day} AND instance <> {OWN}"
                left = [row[0] for row in self.run(f"{sql} ORDER BY place LIMIT 1", (number,)).fetchall()]
                before = min([old[number].before, *left])  # later events tell of what ended since then
                moved += self._move("decisions", day, open_, (number, before), limit - moved)
        if moved < limit:
            self._alone_with(DIVIDED, day, "DROP TABLE " + ", ".join(f"{name}_{day}" for name in DIVIDED))
            if self.run("SELECT to_regclass(%s) IS NULL", (f"decisions_{day}",)).fetchall()[0][0]:
                self._dropped.add(day)
        return moved

    def _alone_with(self, names: Sequence[str], day: int, work: str) -> None:
        """Do something to tables of a day unless somebody reads them for long, such as a dump: then another time.

        In a block: where psycopg sees a DROP in a pipeline it takes statements for prepared that the server forgets.
        """
        tables = ", ".join([*names, *(f"{name}_{day}" for name in names)])
        self.run(
            f"DO $$ BEGIN SET LOCAL lock_timeout = '100ms'; LOCK TABLE ONLY {tables.replace(', ', ', ONLY ')} "
            f"IN ACCESS EXCLUSIVE MODE; {work}; SET LOCAL lock_timeout = '{PATIENCE}s'; "
            "EXCEPTION WHEN lock_not_available THEN NULL; END $$"
        )

    def _move(self, table: str, day: int, which: str, values: tuple[Any, ...], limit: int) -> int:
        """Keep rows beyond their day."""
        columns = DECISION if table == "decisions" else EVENT
        key = "ticket" if table == "decisions" else "experiment, place"
        sql = f"DELETE FROM {table}_{day} WHERE ({key}) IN (SELECT {key} FROM {table}_{day} WHERE {which} LIMIT %s)"
        sql = f"WITH old AS ({sql} RETURNING {columns}) INSERT INTO {table}_{KEPT} ({columns}, day)"
        return len(self.run(f"{sql} SELECT {columns}, {KEPT} FROM old RETURNING 1", (*values, limit)).fetchall())

    def _purge(self, values: dict[str, Any]) -> int:
        def gone(sql: str, values: dict[str, Any]) -> int:
            return len(self.connection.execute(f"{sql} RETURNING 1", values, prepare=True).fetchall())

        old = (
            "WITH old AS (SELECT place, day FROM events WHERE experiment = %(experiment)s AND place <= %(place)s "
            f"AND at < %(before)s AND instance <> {OWN} ORDER BY place LIMIT %(limit)s) "
        )
        sql = f"{old} DELETE FROM events e USING old WHERE e.experiment = %(experiment)s"
        count = gone(f"{sql} AND e.place = old.place AND e.day = old.day", values)
        if count < values["limit"]:  # no event tells of what ended before the oldest that is left
            sql = f"SELECT at FROM events WHERE experiment = %s AND instance <> {OWN} ORDER BY place LIMIT 1"
            first = [row[0] for row in self.run(sql, (values["experiment"],)).fetchall()]
            ended = values | {"before": min([values["before"], *first])}
            sql = "SELECT ticket, day FROM decisions WHERE experiment = %(experiment)s AND state <> 'open' "
            sql += "AND closed_at < %(before)s ORDER BY round LIMIT %(limit)s"
            sql = (
                f"WITH old AS ({sql}) DELETE FROM decisions d USING old WHERE d.ticket = old.ticket AND d.day = old.day"
            )
            count += gone(sql, ended)
        if count < values["limit"]:
            count += gone("DELETE FROM remarks WHERE experiment = %(experiment)s AND at < %(before)s", ended)
            gone(
                "DELETE FROM checkpoints c WHERE experiment = %(experiment)s AND seq < "
                "(SELECT max(seq) FROM checkpoints k WHERE k.experiment = c.experiment AND k.instance = c.instance "
                "AND k.at <= %(before)s)",
                values,
            )
        return count
