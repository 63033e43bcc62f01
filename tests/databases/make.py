"""Makes a small database of the schema as it is now, to be kept: later versions must open it.

    python -m tests.databases.make

It writes vN.sqlite, vN.sql (PostgreSQL, by pg_dump) and vN.json (what must be found in both), where N is the number of
the schema. Files of earlier versions stay as they are.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from belated.ledger import experiment, schema
from belated.ledger.database import open_store
from belated.ledger.items import Archive, Cancel, Change, Create, Decide, Feedback, Grow, Replace, Sweep, Upkeep
from belated.ledger.ledger import Ledger
from belated.ledger.store import Store
from belated.service import auth
from tests.postgres import Cluster, binaries

HERE = Path(__file__).parent
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "pool": {"forecaster": "bold(exp3)", "expiry_seconds": 3600.0, "reward_range": [-1.0, 1.0]},
    "default": {"forecaster": "bold(ucb1)", "expiry_seconds": 0.001, "on_expiry": 0.5},
    "queues": {"forecaster": "qpmd(percontext(ucb1, contexts=2))"},
    "line": {"forecaster": "direct(linucb(features=2))", "limits": {"outstanding": 100}},
    "replaced": {"forecaster": "bold(thompsonbernoulli)", "retention_seconds": 60.0},
    "full": {"forecaster": "bold(hedge)"},
    "archived": {"forecaster": "direct(klucb)"},
    # Since schema 3.
    "values": {"forecaster": "bold(percontext(exp3, contexts=2), pools=value)"},
    "paced": {"forecaster": "paced(hedge)"},
    "second": {"forecaster": "sdb(ucb1, prior=[[0, 1.0], [2, 0.0]])"},
    "counts": {"forecaster": "direct(delayedhedge)"},
    # Since schema 4.
    "changed": {"forecaster": "bold(ucb1)"},
    # Since schema 5.
    "grown": {"forecaster": "bold(klucb)"},
}
#: Those that learn from the rewards of all actions.
FULL = ("full", "paced", "counts")
#: What of the statistics must stay.
KEPT = ("decisions", "feedback", "outstanding", "peak", "instances", "late", "expired", "cancelled", "conflicts")
KEPT += ("duplicates", "unknown", "pulls", "queues", "replacements", "dropped")


def context(name: str, number: int) -> list[float] | None:
    """The context of a decision, where there is one."""
    value = [float(number % 2)]
    return {"queues": value, "values": value, "line": [number / 10, 1.0]}.get(name)


def play(ledger: Ledger, name: str, **more: Any) -> None:
    """Some of everything."""
    new = experiment.make(name, ["a", "b", "c"], seed=7, **more)
    (made,) = ledger.serve([Create(new, ledger.prepare(new))])
    contexts = [made.context(context(name, number)) for number in range(12)]
    (decided,) = ledger.serve([Decide(made, contexts, None, "a key", b"its digest")])
    time.sleep(0.005)
    tickets = [bytes.fromhex(each.ticket) for each in decided]
    values = [[0.25, 0.5, 1.0] if name in FULL else number % 5 / 4 for number in range(12)]
    ledger.serve([Feedback(made, [(tickets[i], values[i]) for i in (3, 1, 2, 5, 5, 6, 7, 8)])])
    ledger.serve([Feedback(made, [(tickets[3], values[4]), (b"none of our own.", values[0])])])
    if name == "replaced":
        made = ledger.serve([Replace(made, "b", "new")])[0]
    if name == "grown":
        made = ledger.serve([Grow(made, "d", ledger.prepare(made.grown("d")))])[0]
    ledger.serve([Cancel(made, tickets[9:10]), Sweep(), Decide(made, contexts[:3])])
    ledger.serve([Feedback(made, [(tickets[i], values[i]) for i in (0, 10)])])
    if name == "archived":
        ledger.serve([Archive(made)])
    if name == "changed":
        rules = {"expiry_seconds": 1800.0, "on_expiry": 0.25, "limits": {"outstanding": 50}, "retention_seconds": 60.0}
        for part in rules:
            ledger.serve([Change(made, {part: rules[part]})])


def fill(store: Store) -> None:
    """All experiments, a token, saved statistics, a checkpoint."""
    ledger = Ledger(store)
    for name, more in EXPERIMENTS.items():
        play(ledger, name, **more)
    auth.create(store, "web", ["decide", "feedback"], ["pool"], 1e9, 100.0)
    ledger.folder.catch_up()
    ledger.serve([Upkeep()])
    with store.write() as session:
        session.set_meta("checkpointed 5", "0.0")
    ledger.serve([Upkeep()])
    ledger.serve([Decide(ledger.find("replaced"), [None])])


def found(store: Store) -> dict[str, Any]:
    """What a database holds, and what its experiments decide next. It changes by that."""
    ledger = Ledger(store)
    known: dict[str, Any] = {}
    for each in ledger.experiments():
        statistics = ledger.statistics(each)
        (decided,) = ledger.serve([Decide(each, [each.context(context(each.name, number)) for number in range(3)])])
        said = [[one.action, one.probability] for one in decided] if isinstance(decided, list) else decided.kind
        (again,) = ledger.serve([Decide(each, [], None, "a key", b"its digest")])
        known[each.name] = {
            "spec": json.loads(each.row().spec),
            "statistics": {name: statistics[name] for name in KEPT},
            "next": said,
            "key": [one.action for one in again],
        }
    return known


def main() -> None:
    stem = HERE / f"v{schema.SCHEMA}"
    stem.with_suffix(".sqlite").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/a.db", serve=True)
        fill(store)
        store.backup(str(stem.with_suffix(".sqlite")))
        stem.with_suffix(".json").write_text(json.dumps(found(store), indent=1) + "\n")
        store.close()
    programs = binaries()
    assert programs is not None
    cluster = Cluster(programs)
    try:
        store = open_store(url := cluster.new(), serve=True)
        fill(store)
        with store.write() as session:
            session.tell("UPDATE keys SET day = 0")  # those of other days than the last are not looked for
        store.close()
        command = [str(programs / "pg_dump"), "--inserts", "--no-owner", "--no-comments", f"--dbname={url}"]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # Without what is for psql, for this version of PostgreSQL, or for this schema only.
        text = re.sub(r"(?m)^(\\.*|SET .*|--.*|CREATE SCHEMA .*|SELECT .*search_path.*|)\n", "", text)
        stem.with_suffix(".sql").write_text(re.sub(r"\btest_\d+\.", "", text))
    finally:
        cluster.remove()


if __name__ == "__main__":
    main()
