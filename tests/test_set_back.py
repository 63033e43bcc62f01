# ruff: noqa: F811  (fixtures are imported)
"""A clock that was set back, and retention: what is old goes by its place in the log, whatever the times say."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from belated.ledger import reads
from belated.ledger import sqlite as sqlite_module
from belated.ledger.items import Cancel, Decide, Feedback, Upkeep
from belated.ledger.ledger import Ledger
from belated.ledger.store import DAY, OWN, day_of
from belated.ledger.verify import verify
from tests.postgres import cluster  # noqa: F401
from tests.test_ledger import create, file, ledger, own_file  # noqa: F401
from tests.test_postgres import REAL_TIME, at_day

Clock = Callable[[float], None]
NOW = sqlite_module.NOW
HOUR = 3600.0


@pytest.fixture
def clock(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Sets the clock of the database: so many seconds from now."""
    monkeypatch.setattr(reads, "time", SimpleNamespace(time=REAL_TIME))

    def set_(seconds: float) -> None:
        if ledger.store.exclusive:
            monkeypatch.setattr(sqlite_module, "NOW", f"{NOW} + {seconds}")
        else:
            at_day(ledger.store._url, seconds / DAY)

    return set_


class Some:
    """Decisions of which some end, in any order; what is left ends later."""

    def __init__(self, ledger: Ledger, name: str = "ads") -> None:
        self.ledger, self.name, self.draws = ledger, name, random.Random(1)
        self.open: list[bytes] = []

    def go_on(self, steps: int = 12) -> None:
        for _ in range(steps):
            made = self.ledger.find(self.name)
            (decided,) = self.ledger.serve([Decide(made, [None] * 2)])
            self.open += [bytes.fromhex(each.ticket) for each in decided]
            self.draws.shuffle(self.open)
            for kind in (Feedback, Feedback, Cancel)[: self.draws.randrange(4)]:
                if len(self.open) > 4:
                    ticket = self.open.pop()
                    given: Any = (ticket, 1.0) if kind is Feedback else ticket
                    assert self.ledger.serve([kind(made, [given])])[0][0] in ("applied", "cancelled")


def tended(ledger: Ledger, limit: int = 7) -> None:
    """All that upkeep has to do; whoever looks between two of its transactions finds all in order."""
    while (more := ledger.serve([Upkeep(limit)])[0]) is True:
        clean(ledger)
    assert more is False, more
    clean(ledger)


def clean(ledger: Ledger) -> None:
    assert [str(report) for report in verify(ledger.store) if report.verdict != "identical"] == []


def counts(ledger: Ledger, experiment: int) -> tuple[int, int]:
    """Events but of the rules, and decisions that ended, that are there."""
    with ledger.store.read() as session:
        events = session.ask(f"SELECT 1 FROM events WHERE experiment = ? AND instance <> {OWN}", (experiment,))
        ended = session.ask("SELECT 1 FROM decisions WHERE experiment = ? AND state <> 'open'", (experiment,))
    return len(events), len(ended)


@pytest.mark.parametrize("kind", ["bold(ucb1)", "qpmd(exp3)", "direct(ucb1)"])
@pytest.mark.parametrize("days", [False, True], ids=["hours", "days"])
def test_a_clock_that_was_set_back_while_data_goes(ledger: Ledger, clock: Clock, kind: str, days: bool) -> None:
    """It goes on in order, `verify` is content all the time, and in the end everything has gone."""
    unit = DAY if days else HOUR
    start = (day_of(REAL_TIME()) - 40) * DAY + 0.6 * DAY - REAL_TIME()
    at = [0.0, 0.3, 0.9, 0.45, -0.35, 0.0, 0.4, 2.5, 0.8, 1.1, 1.3, 1.6, 2.2, 2.6, 3.0, 3.4]  # units; it is set back
    clock(start)
    made = create(ledger, kind, retention_seconds=unit)
    some = Some(ledger)
    for moment in at:
        clock(start + moment * unit)
        some.go_on()
        tended(ledger)
    assert counts(ledger, made.id)[0] > 0
    most = counts(ledger, made.id)
    for more in (4.0, 4.6, 5.2, 5.8, 6.4, 7.0):
        clock(start + more * unit)
        tended(ledger)
    assert counts(ledger, made.id) == (0, 0), most
    for ticket in some.open:
        assert ledger.serve([Feedback(ledger.find("ads"), [(ticket, 0.0)])]) == [["applied"]]
    clean(ledger)
