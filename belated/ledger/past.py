"""What is past its retention goes, on PostgreSQL: whole days with their tables, and else row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from belated.ledger.arrays import array
from belated.ledger.common import DECISION, EVENT, Common
from belated.ledger.schema import DIVIDED
from belated.ledger.store import DAY, OWN, Old, day_of, ended

if TYPE_CHECKING:
    import psycopg

#: Seconds that a statement waits for a lock, and that a process may be silent within a transaction.
PATIENCE = 15
#: Where what must stay is kept when its day goes, and what is older than days.
KEPT = 0


class Past(Common):
    """What a session deletes."""

    connection: psycopg.Connection[Any]
    days: set[int]
    _dropped: set[int]

    def run(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """A statement that stays prepared."""
        return self.connection.execute(sql, values, prepare=True, binary=True)

    def learn_days(self) -> None:
        """Which days have tables."""
        sql = "SELECT relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        sql += " WHERE i.inhparent = to_regclass('decisions')"
        found = {int(row[0].rpartition("_")[2]) for row in self.run(sql).fetchall()}
        self.days |= found
        self.days &= found

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
        self.learn_days()  # others may have made some
        for day in sorted(self.days - {KEPT}):
            if day >= today or gone >= limit:
                break
            ends = {number: each for number, each in old.items() if (day + 1) * DAY <= each.before}
            gone += self._drop(day, ends, limit - gone)
        for experiment, (before, place) in old.items():
            if gone >= limit:
                break
            if now - before >= DAY:  # what is left of days that others still need
                first = self._end(experiment, f"day BETWEEN {day_of(before)} AND {today}")
                before, place = day_of(before) * DAY, place if first is None else min(place, first - 1)
            gone += self._purge({"experiment": experiment, "before": before, "place": place, "limit": limit - gone})
        return gone

    def _end(self, experiment: int, which: str, order: str = "ASC") -> int | None:
        """The place of the first of some events that may go, or of the last; None where there are none."""
        sql = f"SELECT place FROM events WHERE experiment = %s AND instance <> {OWN} AND {which}"
        found = self.run(f"{sql} ORDER BY place {order} LIMIT 1", (experiment,)).fetchall()
        return None if not found else int(found[0][0])

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
        for number in present:  # where the clock was set back over midnight days overlap: these go row by row
            last = self._end(number, f"day = {day}", "DESC")
            if last is not None and last > min(old[number].place, self._end(number, f"day <> {day}") or last):
                return 0
        moved = self._move("events", day, f"instance = {OWN}", (), limit)
        stay = "experiment = %s AND (state = 'open' OR closed_at < %s OR closed_at >= %s)"  # ended by a later event
        for number in present:
            if moved < limit:
                moved += self._move("decisions", day, stay, (number, day * DAY, (day + 1) * DAY), limit - moved)
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
        def gone(sql: str, what: str = "1") -> list[Any]:
            return self.connection.execute(f"{sql} RETURNING {what}", values, prepare=True).fetchall()

        old = (
            "WITH old AS (SELECT place, day FROM events WHERE experiment = %(experiment)s AND place <= %(place)s "
            f"AND instance <> {OWN} ORDER BY place LIMIT %(limit)s) "
        )
        sql = f"{old} DELETE FROM events e USING old WHERE e.experiment = %(experiment)s"
        found = gone(f"{sql} AND e.place = old.place AND e.day = old.day", "e.ticket, e.kind")
        self._forget([ticket for (ticket,) in ended(found)])
        count = len(found)
        if count < values["limit"]:  # what a day that was dropped told of
            sql = "SELECT ticket, day FROM decisions WHERE experiment = %(experiment)s AND state <> 'open' "
            sql += "AND closed_at < %(before)s AND closed_at < %(first)s ORDER BY round LIMIT %(limit)s"
            sql = f"WITH old AS ({sql}) DELETE FROM decisions d USING old WHERE d.ticket = old.ticket"
            values["first"] = self._first_day(values["experiment"]) * DAY
            count += len(gone(f"{sql} AND d.day = old.day"))
        if count < values["limit"]:
            count += len(gone("DELETE FROM remarks WHERE experiment = %(experiment)s AND at < %(before)s"))
            gone(
                "DELETE FROM checkpoints c WHERE experiment = %(experiment)s AND seq < "
                "(SELECT max(seq) FROM checkpoints k WHERE k.experiment = c.experiment AND k.instance = c.instance "
                "AND k.at <= %(before)s)"
            )
        return count

    def _first_day(self, experiment: int) -> float:
        """The first day that has events which may go. They tell of nothing that ended before it: an event is in the
        tables of the day on which it happened."""
        sql = f"SELECT 1 FROM events e WHERE e.day = d AND experiment = %s AND instance <> {OWN} LIMIT 1"
        sql = f"SELECT d FROM unnest(%s::bigint[]) d WHERE EXISTS ({sql}) ORDER BY d LIMIT 1"
        found = self.run(sql, (array("bigint", sorted(self.days)), experiment)).fetchall()
        return found[0][0] if found else math.inf

    def _forget(self, tickets: Sequence[bytes]) -> None:
        """Delete these decisions, which are with their day or kept beyond it."""
        days = {int.from_bytes(ticket[:2]) for ticket in tickets} & (self.days - self._dropped)
        for day in sorted(days | {KEPT}) if tickets else ():
            self.run(f"DELETE FROM decisions_{day} WHERE ticket = ANY(%s::bytea[])", (array("bytea", tickets),))
