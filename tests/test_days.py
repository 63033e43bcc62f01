# ruff: noqa: F811  (fixtures are imported)
"""Days that come and go on PostgreSQL: clocks that are set back, processes that slept, tables that others dropped."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from belated.ledger import reads
from belated.ledger.database import open_store
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.export import export
from belated.ledger.items import Decide, Feedback, Save, Upkeep
from belated.ledger.ledger import Ledger
from belated.ledger.store import DAY, day_of
from belated.ledger.verify import verify
from tests.postgres import Cluster, cluster, database  # noqa: F401
from tests.rows import all_events
from tests.test_postgres import (
    BOLD,
    DIRECT,
    QPMD,
    REAL_TIME,
    Peak,
    assert_clean,
    at_day,
    create,
    find,
    ledgers,
    play,
    query,
    states,
)

DAYS = {"retention_seconds": DAY}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "time", SimpleNamespace(time=REAL_TIME))


def midnight(days: int = 0) -> float:
    """How many days from now the next midnight is, or one before it."""
    return day_of(REAL_TIME()) + 1 + days - REAL_TIME() / DAY


def tend(ledger: Ledger) -> None:
    while (more := ledger.serve([Upkeep()])[0]) is True:
        pass
    assert more is False, more


def one_of(ledger: Ledger, experiment: Experiment, **more: Any) -> Any:
    (answer,) = ledger.serve([Decide(experiment, [None], **more)])
    assert not isinstance(answer, Refused), answer
    return answer[0]


def aged(database: str, one: Ledger, made: Experiment) -> None:
    """What was decided five days ago is past its retention, and its tables are gone."""
    at_day(database, -4.4)
    tend(one)
    at_day(database, -3)
    tend(one)
    at_day(database, 0)
    tend(one)


@pytest.mark.parametrize("forecaster", [BOLD, QPMD, DIRECT], ids=["bold", "qpmd", "direct"])
def test_a_clock_that_is_set_back_over_midnight(database: str, forecaster: dict[str, Any]) -> None:
    """Later events are of an earlier day then; the log is in order all the same."""
    with ledgers(database, 2) as (one, two):
        at_day(database, midnight(-1) - 0.01)
        made = create(one, forecaster=forecaster)
        seen: list[Any] = []
        play(one, "ads", 1, 4, Peak(), seen)
        at_day(database, midnight(-1) + 0.01)
        play(one, "ads", 2, 4, Peak(), seen)
        at_day(database, midnight(-1) - 0.02)
        play(one, "ads", 3, 4, Peak(), seen)
        at_day(database, midnight(-1) + 0.005)
        play(two, "ads", 4, 4, Peak(), seen)
        with two.store.read() as session:
            places = [event.place for event in all_events(session, made.id)]
            some = [event.place for event in session.events_since(made.id, 3, 5)]
        assert places == list(range(1, len(places) + 1)) and some == [4, 5, 6, 7, 8]
        assert sorted(each.round for each in seen) == list(range(1, len(seen) + 1))
        assert two.statistics(made)["decisions"] == len(seen)
        assert_clean(two)


def test_who_slept_for_days_knows_of_the_others(database: str) -> None:
    """It does not know the tables of the days between, and must not take the log to end before them."""
    with ledgers(database, 2) as (one, two):
        at_day(database, -6)
        made = create(one)
        find(two)
        one_of(two, made)
        two.store._days -= {day_of(REAL_TIME()) + n for n in range(-4, 3)}  # as it was then
        at_day(database, -1)
        seen: list[Any] = []
        play(one, "ads", 1, 5, Peak(), seen)
        at_day(database, 0)
        assert one_of(two, find(two)).round == len(seen) + 2
        assert states(one, find(one))[0] == states(two, find(two))[0]
        assert_clean(two)


def test_who_lags_behind_what_was_deleted_begins_anew(database: str) -> None:
    """Its replica and its statistics are older than the oldest event that is left."""
    with ledgers(database, 2) as (one, two):
        at_day(database, -5)
        made = create(one, **DAYS)
        find(two)
        first = one_of(two, made)
        assert two.statistics(made)["decisions"] == 1
        seen: list[Any] = []
        play(one, "ads", 1, 5, Peak(), seen)
        aged(database, one, made)
        assert one.statistics(made)["decisions"] == two.statistics(made)["decisions"] == len(seen) + 1
        assert two.serve([Feedback(find(two), [(bytes.fromhex(first.ticket), 1.0)])]) == [["applied"]]
        assert one_of(two, find(two)).round == len(seen) + 2
        assert_clean(two)


def test_a_ticket_of_a_day_that_another_dropped(database: str) -> None:
    with ledgers(database, 2) as (one, two):
        at_day(database, -5)
        made = create(one, **DAYS)
        find(two)
        ended, open_ = (bytes.fromhex(one_of(two, made).ticket) for _ in range(2))
        two.serve([Feedback(made, [(ended, 1.0)])])
        aged(database, one, made)
        day = int.from_bytes(ended[:2])
        assert day not in one.store._days and day in two.store._days
        with pytest.raises(Refused, match=r"has no decision [0-9a-f]{32}, or none any more: its retention may be over"):
            two.decision(made, ended)
        assert two.decision(made, open_)["state"] == "open"
        for ticket in (ended, bytes(16), b"\xff" * 16, day_of(REAL_TIME()).to_bytes(2) + bytes(14)):
            ((answer,),) = two.serve([Feedback(made, [(ticket, 1.0)])])
            assert isinstance(answer, Refused) and answer.kind == "unknown_ticket"
        assert two.serve([Feedback(made, [(open_, 1.0)])]) == [["applied"]]


def test_a_key_outlives_its_decision_over_midnight(database: str) -> None:
    """Keys live for a day, however short the retention is."""
    with ledgers(database, 1) as (one,):
        at_day(database, midnight(-1) - 0.01)
        made = create(one, retention_seconds=60)
        first = one_of(one, made, key="k", digest=b"d")
        one.serve([Feedback(made, [(bytes.fromhex(first.ticket), 1.0)])])
        for later in (0.1, 0.2, 0.3, 0.9):
            at_day(database, midnight(-1) + later)
            tend(one)
            assert one_of(one, made, key="k", digest=b"d") == first
        at_day(database, midnight(-1) + 2.2)
        tend(one)
        day = int.from_bytes(bytes.fromhex(first.ticket)[:2])
        assert query(database, f"SELECT to_regclass('keys_{day}')::text") == [(None,)]
        assert one_of(one, made, key="k", digest=b"d") != first


def test_a_day_that_somebody_has_in_hand_goes_another_time(database: str) -> None:
    """A dump has locks on all tables: nothing fails for it, and what is done next time is done by prepared statements
    that are there."""
    with ledgers(database, 1) as (one,):
        at_day(database, -5)
        made = create(one, **DAYS)
        day = int.from_bytes(bytes.fromhex(one_of(one, made).ticket)[:2])
        play(one, "ads", 1, 5, Peak(), [])
        at_day(database, -4.4)
        tend(one)
        at_day(database, 0)
        with psycopg.connect(database) as dump:
            dump.execute(f"LOCK TABLE events_{day} IN ACCESS SHARE MODE")
            replica = one._running[made.id].replica
            tend(one)
            assert replica is not None and one._running[made.id].replica is replica
        exists = f"SELECT to_regclass('decisions_{day}') IS NOT NULL"
        assert query(database, exists) == [(True,)]
        tend(one)
        assert query(database, exists) == [(False,)]
        play(one, "ads", 2, 5, Peak(), [])
        tend(one)
        assert_clean(one)


def test_a_decision_stays_as_long_as_the_event_that_ended_it(database: str) -> None:
    """Its day goes; the event is of a later one, and not behind a checkpoint yet."""
    with ledgers(database, 1) as (one,):
        at_day(database, -5)
        made = create(one, **DAYS)
        ticket = bytes.fromhex(one_of(one, made).ticket)
        at_day(database, -4.4)
        tend(one)
        at_day(database, -4)
        one.serve([Feedback(made, [(ticket, 1.0)])])
        at_day(database, -2.5)
        tend(one)
        assert query(database, f"SELECT to_regclass('decisions_{int.from_bytes(ticket[:2])}') IS NULL") == [(True,)]
        assert [kind for (kind,) in query(database, "SELECT kind FROM events")] == ["feedback"]
        assert_clean(one)
        at_day(database, 0)
        tend(one)
        assert query(database, "SELECT count(*) FROM decisions") == query(database, "SELECT count(*) FROM events")
        assert query(database, "SELECT count(*) FROM events") == [(0,)]
        assert_clean(one)


def test_events_from_before_there_were_days_are_folded(database: str) -> None:
    """A migrated log is of no day. Its statistics may have been saved in the middle of it."""
    with ledgers(database, 1) as (one,):
        made = create(one)
        seen: list[Any] = []
        play(one, "ads", 1, 5, Peak(), seen)
        tend(one)
        play(one, "ads", 2, 5, Peak(), seen)
        one.serve([Save()])
        before = one.statistics(made)
    query(database, "UPDATE events SET day = 0")
    with ledgers(database, 1) as (one,):
        assert {**one.statistics(made), "at": 0} == {**before, "at": 0}
        play(one, "ads", 3, 5, Peak(), seen)
        assert one.statistics(made)["decisions"] == len(seen)
        assert_clean(one)


@pytest.mark.minutes
def test_a_standby_is_verified_exported_and_backed_up_while_the_primary_is_written_to(
    cluster: Cluster, database: str, tmp_path: Path
) -> None:
    with ledgers(database, 1) as (one,):
        for name, forecaster in {"bold": BOLD, "qpmd": QPMD, "direct": DIRECT}.items():
            create(one, name, forecaster=forecaster, retention_seconds=60)
            play(one, name, 1, 20, Peak(), [])
        standby = cluster.standby()
        over = threading.Event()

        def write() -> None:
            seed = 2
            while not over.is_set():
                for name in ("bold", "qpmd", "direct"):
                    play(one, name, seed, 3, Peak(), [])
                one.serve([Save(limit=5)])
                tend(one)
                seed += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            url = database.replace(str(cluster.folder), str(standby.folder))
            for number in range(5):
                with closing(open_store(url)) as store:
                    reports = list(verify(store))
                    assert [each.verdict for each in reports] == ["identical"] * 3, reports
                    assert export(store, "bold", tmp_path / "all.parquet") >= 20
                    store.backup(str(tmp_path / f"copy-{number}"))
            command = [sys.executable, "-m", "belated.cli"]
            for more in (["serve"], ["serve", "--workers", "2"], ["token", "create", "x"], ["migrate"]):
                done = subprocess.run([*command, *more, "--database", url], capture_output=True, text=True, timeout=60)
                assert done.returncode == 1 and done.stdout == "", done
                assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done
                assert "takes no writes" in done.stderr and "target_session_attrs=primary" in done.stderr, done
        finally:
            over.set()
            thread.join()
            standby.remove()
        assert_clean(one)
