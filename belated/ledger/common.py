"""What both databases are asked by the same words: the columns of rows, and what is read without looking at days."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from belated.ledger.store import HEAD, DecisionRow, Event, Queued, State, Token

EXPERIMENT = "id, name, spec, version, layout, created_at, archived_at"
STATE = "instance, seq, free, state, held, steps, pool, place"
HEADS = ", ".join(HEAD)
EVENT = ", ".join(Event._fields)
DECISION = ", ".join(DecisionRow._fields)
TOKEN = ", ".join(Token._fields)


def state_of(row: Sequence[Any]) -> State:
    """A state as it is stored."""
    instance, seq, free, *rest = row
    return State(instance, seq, bool(free), *rest)


class Common(ABC):
    """A session."""

    @abstractmethod
    def ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a statement, with `?` where values are."""

    @abstractmethod
    def tell(self, sql: str, values: Sequence[Any] = ()) -> None:
        """A statement that has no rows."""

    def meta(self, key: str) -> str | None:
        found = self.ask("SELECT value FROM meta WHERE key = ?", (key,))
        return str(found[0][0]) if found else None

    def set_meta(self, key: str, value: str) -> None:
        self.tell("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))

    def states_after(self, experiment: int, instance: int, limit: int) -> list[State]:
        sql = f"SELECT {STATE} FROM states WHERE experiment = ? AND instance > ? ORDER BY instance LIMIT ?"
        return [state_of(row) for row in self.ask(sql, (experiment, instance, limit))]

    def events_of(self, experiment: int, instance: int, seq: int, limit: int) -> list[Event]:
        sql = f"SELECT {EVENT} FROM events WHERE experiment = ? AND (instance, seq) > (?, ?)"
        rows = self.ask(f"{sql} ORDER BY instance, seq LIMIT ?", (experiment, instance, seq, limit))
        return [Event._make(row) for row in rows]

    def growths(self, experiment: int) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = {}
        sql = "SELECT instance, seq, action, place FROM events WHERE experiment = ? AND kind = 'grow'"
        for instance, *grown in self.ask(f"{sql} ORDER BY instance, seq", (experiment,)):
            found.setdefault(instance, []).append(tuple(grown))
        return found

    def decisions_after(self, experiment: int, round_: int, limit: int, since: float = 0.0) -> list[DecisionRow]:
        sql = f"SELECT {DECISION} FROM decisions WHERE experiment = ? AND round > ?"
        if since:
            sql += " AND (coalesce(closed_at, decided_at) >= ? OR ticket IN (SELECT ticket FROM remarks WHERE at >= ?))"
        rows = self.ask(f"{sql} ORDER BY round LIMIT ?", (experiment, round_, *([since] * 2 if since else ()), limit))
        return [DecisionRow._make(row) for row in rows]

    def counters(self, experiment: int) -> dict[str, int]:
        return dict(self.ask("SELECT kind, count FROM counters WHERE experiment = ?", (experiment,)))

    def queued(self, experiment: int) -> list[Queued]:
        sql = "SELECT experiment, cell, position, value FROM queue WHERE experiment = ? ORDER BY cell, position"
        return [Queued._make(row) for row in self.ask(sql, (experiment,))]

    def folds(self) -> dict[int, tuple[int, str]]:
        return {row[0]: (row[1], row[2]) for row in self.ask("SELECT experiment, upto, counters FROM folds")}

    def tokens(self) -> list[Token]:
        return [Token._make(row) for row in self.ask(f"SELECT {TOKEN} FROM tokens ORDER BY created_at")]
