"""How the ledger uses SQLite: rows in any number, and no statement that looks through everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from belated.ledger.experiment import make
from belated.ledger.items import Cancel, Create, Decide, Decided, Feedback, Save, Sweep, ticket_of
from belated.ledger.ledger import Ledger
from belated.ledger.sqlite import SQLite
from belated.ledger.store import Remark


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 127, 128, 129, 300])
def test_any_number_of_rows(tmp_path: Path, count: int) -> None:
    store = SQLite(tmp_path / "a.db", serve=True)
    rows = [Remark(1, number.to_bytes(16, "big"), "late", repr(number), float(number)) for number in range(count)]
    with store.write() as session:
        session.add_remarks(iter(rows))
        found = session.run("SELECT experiment, ticket, kind, value, at FROM remarks ORDER BY id").fetchall()
    store.close()
    assert found == rows


@pytest.mark.parametrize("forecaster", ["bold(ucb1)", "qpmd(ucb1)", "direct(ucb1)"])
def test_no_statement_looks_through_everything(tmp_path: Path, forecaster: str) -> None:
    """Else the time of a batch would grow with what is stored. BOLD's free states are found among themselves."""
    store = SQLite(tmp_path / "a.db", serve=True)
    ledger = Ledger(store)
    experiment = make("ads", ["a", "b"], forecaster, expiry_seconds=60)
    made = ledger.serve([Create(experiment, ledger.prepare(experiment))])[0]
    seen: set[str] = set()
    connection = store._writer.connection
    connection.set_trace_callback(seen.add)
    for number in range(3):
        ledger._running[made.id].forget()  # it begins again, with what is on record
        answers: list[list[Decided]] = ledger.serve([Decide(made, [None] * 9, key=f"key {number}"), Sweep()])[:1]
        tickets = [ticket_of(each.ticket) for each in answers[0]]
        ledger.serve([Feedback(made, [(ticket, 1.0) for ticket in tickets[:4]] * 2), Cancel(made, tickets[4:6])])
        ledger.serve([Save(3)])
    connection.set_trace_callback(None)
    plans = {}
    for statement in seen:
        if statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
            rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            plans[statement] = [row[3] for row in rows if "CONSTANT ROW" not in row[3]]
    store.close()
    assert not [plan for plan in plans.values() if any("SCAN" in step and "VALUES" not in step for step in plan)]
    free = [plan for statement, plan in plans.items() if "free = 1" in statement]
    assert all("states_free" in plan[0] for plan in free) and bool(free) == ("bold" in forecaster)


def test_the_log_is_emptied_beside_the_writer(tmp_path: Path) -> None:
    store = SQLite(tmp_path / "a.db", serve=True)
    rows = [Remark(1, bytes(16), "late", "1.0", 0.0)] * 1000
    with store.write() as session:
        session.add_remarks(rows)
    before = (tmp_path / "a.db").stat().st_size
    with store.write() as session:
        session.add_remarks(rows[:1])
        store.tend()
    assert (tmp_path / "a.db").stat().st_size > before
    with store.read() as session:
        assert session.run("SELECT count(*) FROM remarks").fetchone() == (1001,)
    store.close()
