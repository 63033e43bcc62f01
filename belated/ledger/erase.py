"""What belonged to a deleted experiment goes, a few thousand rows at a time, so that nobody waits long.

`meta` has the experiments that are being erased under the key `deleted`: for each how far the tables were read that
have no order by experiment. A process that ends on the way leaves the rest to the next.
"""

from __future__ import annotations

import json
from typing import Any

from belated.ledger.store import Reader, Writer

DELETED = "deleted"
#: Tables that are in order by experiment, with what follows in their keys.
ORDERED = {
    "events": "place",
    "decisions": "round",
    "states": "instance",
    "checkpoints": "instance, seq",
    "queue": "cell, position",
    "keys": "key",
}
#: Tables that are read from end to end, with their keys.
READ = {"remarks": "id"}
#: Tables with a few rows of an experiment.
SMALL = ("counters", "folds")


def deleted(session: Reader) -> dict[str, dict[str, Any]]:
    """The experiments that are being erased, by number."""
    found: dict[str, dict[str, Any]] = json.loads(session.meta(DELETED) or "{}")
    return found


def begin(session: Writer, experiment: int) -> None:
    """Remove an experiment; `step` will do the rest."""
    session.remove_experiment(experiment)
    session.set_meta(DELETED, json.dumps(deleted(session) | {str(experiment): {}}))


def step(session: Writer, limit: int) -> bool:
    """Delete at most about so many rows; whether more are left."""
    left = deleted(session)
    for number, places in list(left.items()):
        done = _ordered(session, int(number), limit) and _read(session, int(number), places, limit)
        if done:
            for table in SMALL:
                session.tell(f"DELETE FROM {table} WHERE experiment = ?", (int(number),))
            for key in ("checkpointed", "checking", "covered"):
                session.tell("DELETE FROM meta WHERE key = ?", (f"{key} {number}",))
            del left[number]
        session.set_meta(DELETED, json.dumps(left))
        return bool(left)
    return False


def _ordered(session: Writer, experiment: int, limit: int) -> bool:
    """Whether nothing is left in these tables."""
    for table, key in ORDERED.items():
        sql = f"SELECT experiment, {key} FROM {table} WHERE experiment = ? ORDER BY experiment, {key} LIMIT ?"
        deleting = f"DELETE FROM {table} WHERE (experiment, {key}) IN ({sql}) RETURNING 1"
        if len(session.ask(deleting, (experiment, limit))) == limit:
            return False
    return True


def _read(session: Writer, experiment: int, places: dict[str, Any], limit: int) -> bool:
    """Whether these tables were read to their ends; `places` is how far."""
    for table, key in READ.items():
        if places.get(table) == "end":
            continue
        after = places.get(table, 0)
        sql = f"SELECT {key}, experiment FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT ?"
        rows = session.ask(sql, (after, limit))
        for place, number in rows:
            if number == experiment:
                session.tell(f"DELETE FROM {table} WHERE {key} = ?", (place,))
        if len(rows) == limit:
            places[table] = rows[-1][0]
            return False
        places[table] = "end"
    return True
