# ruff: noqa: F811  (fixtures are imported)
"""PostgreSQL: several processes (here: ledgers in threads, each with its own connections) on one database."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import psycopg
import pytest
from typer.testing import CliRunner

from belated.cli import app
from belated.errors import InvalidState
from belated.ledger import erase, experiment, reads, schema
from belated.ledger import replica as replica_module
from belated.ledger.arrays import array
from belated.ledger.database import open_store, shown
from belated.ledger.errors import Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.items import (
    Archive,
    Cancel,
    Change,
    Create,
    Decide,
    Decided,
    Feedback,
    Replace,
    Save,
    Sweep,
    Upkeep,
)
from belated.ledger.ledger import Ledger
from belated.ledger.postgres import Postgres
from belated.ledger.verify import verify
from tests.postgres import Cluster, cluster, database  # noqa: F401
from tests.serving import PROGRAM, children

REAL_TIME = time.time
BOLD = {"name": "bold", "learner": {"name": "exp3"}}
QPMD = {"name": "qpmd", "learner": {"name": "ucb1"}}
DIRECT = {"name": "direct", "learner": {"name": "ucb1"}}


@contextmanager
def ledgers(database: str, count: int) -> Iterator[list[Ledger]]:
    """So many ledgers on one database, as if in so many processes."""
    made = [Ledger(open_store(database, serve=True)) for _ in range(count)]
    try:
        yield made
    finally:
        for ledger in made:
            ledger.store.close()


def create(ledger: Ledger, name: str = "ads", forecaster: Any = None, **more: Any) -> Experiment:
    wanted = experiment.make(name, ["a", "b", "c"], forecaster or BOLD, seed=5, **more)
    (made,) = ledger.serve([Create(wanted, ledger.prepare(wanted))])
    assert isinstance(made, Experiment), made
    return made


def find(ledger: Ledger, name: str = "ads") -> Experiment:
    """An experiment, as it is now."""
    ledger.refresh()
    return ledger.find(name)


def at_once(*works: Callable[[], None]) -> None:
    """Run them in threads, and pass on what goes wrong."""
    wrong: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def query(database: str, sql: str) -> list[Any]:
    with psycopg.connect(database, autocommit=True) as connection:
        found = connection.execute(sql)
        return list(found.fetchall()) if found.description else []


def assert_clean(ledger: Ledger) -> None:
    reports = list(verify(ledger.store))
    assert reports and {report.verdict for report in reports} == {"identical"}, [str(report) for report in reports]


class Peak:
    """Decisions open or in flight, as the clients see them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = 0

    def add(self, by: int) -> None:
        with self._lock:
            self._now += by
            self.most = max(self.most, self._now)


def play(ledger: Ledger, name: str, seed: int, batches: int, peak: Peak, seen: list[Decided]) -> None:
    """Decide in batches; give feedback in any order, cancel some, keep some."""
    draws = random.Random(seed)
    waiting: list[Decided] = []
    for _ in range(batches):
        made = find(ledger, name)
        draws.shuffle(waiting)
        cut = draws.randrange(12)
        ending, waiting = waiting[:cut], waiting[cut:]
        count = draws.randrange(1, 9)
        peak.add(count)
        items: list[Any] = [Decide(made, [None] * count)]
        for d in ending:
            ticket = bytes.fromhex(d.ticket)
            cancelled = draws.random() < 0.1
            items.append(Cancel(made, [ticket]) if cancelled else Feedback(made, [(ticket, draws.random())]))
        draws.shuffle(items)
        for item, answer in zip(items, ledger.serve(items), strict=True):
            if isinstance(item, Decide):
                waiting += answer
                seen += answer
            else:
                assert answer in (["applied"], ["cancelled"])
        peak.add(-len(ending))


def test_two_writers_never_hand_out_the_same_instance_or_round(database: str) -> None:
    with ledgers(database, 2) as both:
        made = create(both[0])
        peak = Peak()
        seen: list[Decided] = []
        at_once(*(lambda i=i: play(both[i], "ads", i, 60, peak, seen) for i in range(2)))  # type: ignore[misc]
        assert len({d.round for d in seen}) == len({d.ticket for d in seen}) == len(seen)
        busy = query(database, "SELECT instance, count(*) FROM decisions WHERE state = 'open' GROUP BY 1 ORDER BY 1")
        assert all(count == 1 for _, count in busy)
        both[0].serve([Save()])
        assert busy == query(database, "SELECT instance, 1 FROM states WHERE free = 0 ORDER BY 1")
        found = both[1].statistics(made)
        assert found["decisions"] == len(seen) and found["outstanding"] == len(busy)
        (states,) = query(database, "SELECT count(*) FROM states")[0]
        assert found["instances"] == states == found["peak"] + 1 <= peak.most + 1
        with both[0].store.read() as session:
            head = session.heads([made.id])[made.id]
        assert (head.outstanding, head.instances, head.rounds) == (len(busy), states, len(seen))
        assert_clean(both[0])


@pytest.mark.parametrize("forecaster", [QPMD, DIRECT], ids=["qpmd", "direct"])
def test_one_state_under_two_writers_replays(database: str, forecaster: dict[str, Any]) -> None:
    with ledgers(database, 2) as both:
        made = create(both[0], forecaster=forecaster)
        seen: list[Decided] = []
        at_once(*(lambda i=i: play(both[i], "ads", i, 50, Peak(), seen) for i in range(2)))  # type: ignore[misc]
        assert len({d.round for d in seen}) == len(seen) == both[0].statistics(made)["decisions"]
        one, two = ({**ledger.statistics(made), "at": 0} for ledger in both)
        assert one == two
        assert_clean(both[0])


def test_no_deadlock_whatever_the_order_of_items(cluster: Cluster, database: str) -> None:
    with ledgers(database, 2) as both:
        made = [create(both[0], f"e{i}", DIRECT, expiry_seconds=0.05) for i in range(3)]

        def work(ledger: Ledger, seed: int) -> None:
            draws = random.Random(seed)
            for _ in range(60):
                order = draws.sample([find(ledger, each.name) for each in made], 3)
                decided = ledger.serve([Decide(each, [None, None]) for each in order])
                mixed: list[Any] = [
                    Feedback(each, [(bytes.fromhex(d.ticket), 0.5) for d in some])
                    for each, some in zip(order, decided, strict=True)
                ]
                draws.shuffle(mixed)
                for answer in ledger.serve([*mixed, Sweep()])[:3]:
                    assert set(answer) <= {"applied", "late"}

        before = len(cluster.log)
        at_once(lambda: work(both[0], 1), lambda: work(both[1], 2))
        assert "deadlock" not in cluster.log[before:]
        assert_clean(both[0])


def test_nobody_waits_for_transactions_of_others(database: str) -> None:
    with ledgers(database, 2) as (one, two), psycopg.connect(database) as other:
        made = create(one)
        other.execute("SELECT pg_current_xact_id()")  # open, and older than what comes
        one.serve([Decide(made, [None])])
        assert one.statistics(made)["decisions"] == two.statistics(made)["decisions"] == 1


def states(ledger: Ledger, made: Experiment) -> list[Any]:
    """What a replica has in memory, all caught up."""
    ledger.serve([Decide(made, [])])
    replica = ledger._running[made.id].replica
    assert replica is not None
    replica.settle()
    queues = {cell: list(queue) for cell, queue in replica.queues.items() if queue}
    counts = (replica.place, replica.rounds, replica.instances, replica.outstanding)
    return [counts, queues, sorted(replica.states.items())]


@pytest.mark.parametrize("forecaster", [BOLD, QPMD, DIRECT], ids=["bold", "qpmd", "direct"])
def test_replicas_of_three_machines_are_alike(database: str, forecaster: dict[str, Any]) -> None:
    with ledgers(database, 3) as all_:
        create(all_[0], forecaster=forecaster)
        seen: list[Decided] = []
        at_once(*(lambda i=i: play(all_[i], "ads", i, 30, Peak(), seen) for i in range(3)))  # type: ignore[misc]
        one, two, three = (states(ledger, find(ledger)) for ledger in all_)
        known = [dict(each[-1]) for each in (one, two, three)]
        common = set.intersection(*(set(each) for each in known))
        assert common and all(known[0][number] == known[1][number] == known[2][number] for number in common)
        assert one[:-1] == two[:-1] == three[:-1]
        all_[1].serve([Save()])
        with ledgers(database, 1) as (late,):  # one that starts now
            fourth = states(late, find(late))
            assert fourth[:-1] == one[:-1]
            assert all(state == known[0].get(number, state) for number, state in fourth[-1])
        assert_clean(all_[2])


def test_a_writer_that_lags_and_one_that_dies(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "BEHIND", 30)
    with ledgers(database, 2) as (one, two):
        made = create(one, forecaster=QPMD)
        ((first,),) = two.serve([Decide(find(two), [None])])
        seen: list[Decided] = []
        play(one, "ads", 1, 20, Peak(), seen)  # two is far behind, and nothing is on record but the log
        assert two.serve([Feedback(find(two), [(bytes.fromhex(first.ticket), 1.0)])]) == [["applied"]]
        play(one, "ads", 2, 20, Peak(), seen)
        one.serve([Save()])  # now what is on record is the shorter way
        (later,) = two.serve([Decide(find(two), [None])])
        assert later[0].round == len(seen) + 2
        with pytest.raises(RuntimeError, match="dies"), one.store.write(lock=[made.id]) as session:
            session.look([made.id], [], [])
            raise RuntimeError("it dies in the middle")
        play(two, "ads", 3, 5, Peak(), seen)
        assert_clean(two)


def test_what_another_freed_and_put_on_record_is_free_here(database: str) -> None:
    """The events of a state that is on record as it is after them are passed over; M = G* + 1 all the same."""
    with ledgers(database, 2) as (one, two):
        made = create(one)
        (first,) = one.serve([Decide(made, [None] * 3)])
        one.serve([Save()])
        two.serve([Decide(find(two), [])])
        one.serve([Feedback(made, [(bytes.fromhex(d.ticket), 1.0) for d in first[:2]])])
        one.serve([Save()])
        (later,) = two.serve([Decide(find(two), [None] * 2)])
        assert query(database, "SELECT instance FROM decisions WHERE round > 3 ORDER BY round") == [(0,), (1,)]
        assert len(later) == 2 and states(two, find(two))[0][2] == 3
        assert_clean(one)


def test_a_key_that_two_processes_use_at_once(database: str) -> None:
    with ledgers(database, 2) as both:
        create(both[0])
        answers: list[list[Any]] = [[], []]
        barrier = threading.Barrier(2, timeout=20)

        def work(place: int) -> None:
            ledger = both[place]
            made = find(ledger)
            for n in range(25):
                keys = [f"{n} {i}" for i in range(3)]
                if place:
                    keys.reverse()
                barrier.wait()
                found = ledger.serve([Decide(made, [None], key=key, digest=b"d") for key in keys])
                answers[place].append({key: answer[0] for key, answer in zip(keys, found, strict=True)})

        at_once(lambda: work(0), lambda: work(1))
        assert answers[0] == answers[1]
        assert query(database, "SELECT count(*) FROM decisions") == [(75,)]
        (refusal,) = both[0].serve([Decide(find(both[0]), [None], key="0 0", digest=b"other")])
        assert isinstance(refusal, Refused) and refusal.kind == "key_reused"


def test_a_lost_connection_costs_one_batch(database: str) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'belated'"
    with ledgers(database, 1) as (ledger,):
        made = create(ledger)
        ((first,),) = ledger.serve([Decide(made, [None])])
        with pytest.raises(StorageError), ledger.store.write() as session:
            session.heads([made.id])
            query(database, end)
            session.heads([made.id])
        assert ledger.serve([Feedback(made, [(bytes.fromhex(first.ticket), 1.0)])]) == [["applied"]]
        query(database, end)
        lost = ledger.serve([Decide(made, [None]), Decide(made, [None])])
        assert [refusal.kind for refusal in lost] == ["storage", "storage"]
        assert len(ledger.serve([Decide(made, [None, None])])[0]) == 2
        query(database, end)
        assert ledger.statistics(made)["decisions"] == 3
        assert_clean(ledger)


def test_what_is_answered_survives_a_crash_of_the_server(cluster: Cluster, database: str) -> None:
    with ledgers(database, 1) as (ledger,):
        made = create(ledger)
        (decided,) = ledger.serve([Decide(made, [None] * 5)])
        cluster.stop("immediate")
        (refusal,) = ledger.serve([Decide(made, [None])])
        assert refusal.kind == "storage"
        cluster.start()
        entries = [(bytes.fromhex(d.ticket), 1.0) for d in decided]
        assert ledger.serve([Feedback(made, entries)]) == [["applied"] * 5]
        (later,) = ledger.serve([Decide(made, [None])])
        assert later[0].round == 6
        assert ledger.statistics(made)["instances"] == 5
        assert_clean(ledger)


def test_several_may_start_at_once(database: str) -> None:
    made: list[Postgres] = []
    at_once(*(lambda: made.append(Postgres(database, serve=True)) for _ in range(4)))
    assert query(database, "SELECT value FROM meta WHERE key = 'schema'") == [(str(schema.SCHEMA),)]
    for store in made:
        store.close()


def test_what_is_not_ours_or_newer_is_refused(cluster: Cluster, database: str) -> None:
    with pytest.raises(InvalidState, match="there is no database of belated"):
        Postgres(database)
    query(database, "CREATE TABLE meta (key text)")
    with pytest.raises(InvalidState, match="something else"):
        Postgres(database, serve=True)
    with pytest.raises(InvalidState, match="cannot be used as a database"):
        Postgres(cluster.url("nowhere"))
    query(database, "DROP TABLE meta")
    Postgres(database, serve=True).close()
    query(database, f"UPDATE meta SET value = '{schema.SCHEMA + 1}' WHERE key = 'schema'")
    with pytest.raises(InvalidState, match=f"has schema {schema.SCHEMA + 1}, this version"):
        Postgres(database)


def test_others_learn_of_changes_at_once(database: str) -> None:
    with ledgers(database, 2) as (one, two):
        create(one, forecaster=DIRECT)
        made = find(two)
        ((old,),) = two.serve([Decide(made, [None], allowed=None)])
        (changed,) = one.serve([Replace(find(one), "b", "new")])
        assert changed.actions == ("a", "new", "c")
        (some,) = two.serve([Decide(made, [None] * 12)])
        assert {d.name for d in some} <= {"a", "new", "c"} and "new" in {d.name for d in some}
        assert find(two).name_of(1, old.round) == "b"
        (refusal,) = two.serve([Decide(made, [None], allowed=["b"])])
        assert refusal.kind == "invalid" and "'b'" in str(refusal)
        ((only,),) = two.serve([Decide(made, [None], allowed=["new"])])
        assert only.name == "new"
        one.serve([Archive(find(one))])
        (refusal,) = two.serve([Decide(made, [None])])
        assert refusal.kind == "archived"
        (refusal,) = two.serve([Create(made, two.prepare(made))])
        assert refusal.kind == "exists"
        with pytest.raises(Refused, match="no experiment called 'other'"):
            find(two, "other")
        assert_clean(one)


@pytest.mark.parametrize("forecaster", [BOLD, DIRECT])
def test_the_limit_of_open_decisions_holds_for_all_together(database: str, forecaster: dict[str, Any]) -> None:
    with ledgers(database, 2) as both:
        create(both[0], forecaster=forecaster, limits={"outstanding": 7})
        made = []
        for number in range(20):
            (answer,) = both[number % 2].serve([Decide(find(both[number % 2]), [None])])
            made.append(answer[0].ticket if isinstance(answer, list) else answer.kind)
        assert made[7:] == ["too_many_outstanding"] * 13 and len(set(made[:7])) == 7
        both[1].serve([Cancel(find(both[1]), [bytes.fromhex(made[0])])])
        (answer,) = both[0].serve([Decide(find(both[0]), [None])])  # at once, whoever freed it
        assert isinstance(answer, list)


def test_what_expires_is_learned_once(database: str) -> None:
    with ledgers(database, 2) as both:
        made = create(both[0], forecaster=QPMD, expiry_seconds=0.01, on_expiry=0.25)
        both[0].serve([Decide(made, [None] * 300)])
        find(both[1])
        time.sleep(0.05)

        def sweep(ledger: Ledger) -> None:
            for _ in range(10):
                ledger.serve([Sweep(limit=50)])

        at_once(*(lambda ledger=ledger: sweep(ledger) for ledger in both))  # type: ignore[misc]
        found = both[0].statistics(made)
        assert found["expired"] == 300 and found["outstanding"] == 0
        assert_clean(both[0])


def test_who_looks_and_who_creates_at_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader saw before an experiment was made here does not mean that it is gone."""
    with ledgers(database, 2) as (one, two):
        create(two, "other")
        threads: list[threading.Thread] = []

        def deleted(session: Any, before: Any = erase.deleted) -> Any:
            if not threads:  # the rows are read, and nothing is known of them yet
                threads.append(threading.Thread(target=lambda: create(one)))
                threads[0].start()
                threads[0].join(0.5)
            return before(session)

        monkeypatch.setattr(erase, "deleted", deleted)
        one.refresh()
        threads[0].join()
        (made,) = one.serve([Decide(one.find("ads"), [None])])
        assert not isinstance(made, Refused), made


def test_statistics_are_folded_once_for_all(database: str) -> None:
    with ledgers(database, 2) as (one, two):
        made = create(one, retention_seconds=60)
        find(two)
        (decided,) = one.serve([Decide(made, [None] * 20)])
        one.serve([Feedback(made, [(bytes.fromhex(d.ticket), 1.0) for d in decided])])
        assert two.statistics(made)["decisions"] == 20
        query(database, "UPDATE experiments SET created_at = created_at - 100")
        query(database, "UPDATE meta SET value = '100' WHERE key = 'changes'")
        one.refresh()
        one.folder.catch_up()
        while one.serve([Upkeep()])[0] is True:
            pass
        query(database, "UPDATE checkpoints SET at = at - 100")
        query(database, "UPDATE events SET at = at - 200")
        query(database, "UPDATE meta SET value = '[[1.0, 1000]]' WHERE key LIKE 'covered %'")
        while one.serve([Upkeep()])[0] is True:
            pass
        assert query(database, "SELECT count(*) FROM events") == [(0,)]
        one.serve([Decide(made, [None])])
        with Ledgers(database) as three:
            assert three.statistics(made)["decisions"] == 21
        assert two.statistics(made)["decisions"] == one.statistics(made)["decisions"] == 21
        assert_clean(two)


class Ledgers:
    """One ledger that was not there before."""

    def __init__(self, database: str) -> None:
        self._ledger = Ledger(open_store(database))

    def __enter__(self) -> Ledger:
        return self._ledger

    def __exit__(self, *_: object) -> None:
        self._ledger.store.close()


def at_day(database: str, days: float) -> None:
    """Let the clocks be so many days away, for who writes."""
    reads.time.time = lambda: REAL_TIME() + days * 86400.0  # type: ignore[attr-defined]
    (body,) = query(database, "SELECT pg_get_functiondef('belated_lock'::regproc)")[0]
    clock = "extract(epoch FROM clock_timestamp())"
    query(database, re.sub(re.escape(clock) + r"[^;]*;", f"{clock} + {days * 86400.0};", body))


@pytest.mark.parametrize("forecaster", [BOLD, QPMD, DIRECT], ids=["bold", "qpmd", "direct"])
def test_old_days_go_with_their_tables_and_what_is_open_stays(
    database: str, forecaster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "time", SimpleNamespace())
    rules = {"retention_seconds": 86400.0, "limits": {"outstanding": 500}}
    with ledgers(database, 2) as (one, two):
        at_day(database, -5)
        made = create(one, forecaster=forecaster, **rules)
        short = create(one, "short", forecaster=forecaster, **rules)
        ((open_,),) = one.serve([Decide(made, [None])])
        seen: list[Decided] = []
        for name in ("ads", "short"):
            play(one, name, 1, 20, Peak(), seen)
        one.serve([Change(made, {"limits": {"outstanding": 400}})])
        day = int.from_bytes(bytes.fromhex(open_.ticket)[:2])
        tables = f"SELECT count(*) FROM pg_tables WHERE tablename ~ '_{day}$' AND schemaname = current_schema()"
        at_day(database, -4.4)
        while one.serve([Upkeep()])[0] is True:  # checkpoints
            pass
        at_day(database, -3)
        play(two, "ads", 2, 5, Peak(), seen)
        before = two.statistics(made)
        assert query(database, tables) == [(4,)]
        at_day(database, 0)
        with two.store.read() as session:
            kept = session.heads()[short.id]
        while one.serve([Upkeep(limit=7)])[0] is True:
            pass
        assert query(database, tables) == [(0,)]
        left = query(database, "SELECT count(*) FROM decisions_0 WHERE state <> 'open'")
        assert left == query(database, f"SELECT count(*) FROM decisions_0 WHERE closed_at > {time.time() - 4e5}")
        assert query(database, "SELECT count(*), max(kind) FROM events_0") == [(1, "change")]
        found = two.statistics(find(two))
        assert {**found, "at": 0} == {**before, "at": 0}
        with two.store.read() as session:
            assert session.heads()[short.id].last == kept.last
        for ledger in (one, two):
            assert_clean(ledger)
        ((answer,),) = two.serve([Feedback(find(two), [(bytes.fromhex(open_.ticket), 1.0)])])
        assert answer == "applied" and two.decision(find(two), bytes.fromhex(open_.ticket))["state"] == "closed"
        play(two, "short", 3, 5, Peak(), seen)
        assert_clean(one)


def test_a_copy_is_made_once(database: str, tmp_path: Any) -> None:
    with ledgers(database, 1) as (ledger,):
        made = create(ledger)
        ledger.serve([Decide(made, [None])])
        ledger.store.backup(str(tmp_path / "copy"))
        assert (tmp_path / "copy").stat().st_size > 1000
        with pytest.raises(InvalidState, match="exists already"):
            ledger.store.backup(str(tmp_path / "copy"))


def test_text_of_arrays_comes_back(database: str) -> None:
    texts = ["", "NULL", None, 'a"b\\c{},', " ", "é\n"]
    blobs = [b"", None, b'\\x"{}', bytes(range(256))]
    numbers = [0.1, None, -1e300, 5e-324, float("inf")]
    with psycopg.connect(database) as connection:
        for kind, values in (("text", texts), ("bytea", blobs), ("float8", numbers), ("bigint", [1, None, -(2**63)])):
            found = connection.execute(f"SELECT %s::{kind}[]", (array(kind, values),)).fetchall()
            assert found[0][0] == values


@pytest.mark.parametrize("writes", [False, True])
def test_the_end_of_a_log_is_found_without_looking_at_all_of_it(database: str, writes: bool) -> None:
    """On a day that is new too, of which PostgreSQL does not know yet how much there is."""
    asked: list[tuple[str, Any]] = []
    with ledgers(database, 1) as (ledger,):
        made = create(ledger)
        store: Any = ledger.store
        with store.write() if writes else store.read() as session:
            run, session.run = session.run, lambda sql, values=(): asked.append((sql, values)) or run(sql, values)
            session.heads([made.id])
            (plan,) = [run(f"EXPLAIN {sql}", values).fetchall() for sql, values in asked if "greatest" in sql]
            del session.run
    said = "\n".join(line for (line,) in plan)
    assert "Backward" in said and "Aggregate" not in said, said


def test_passwords_are_not_shown() -> None:
    assert shown("postgresql://u:p@w:1/x?host=/a:b@c") == "postgresql://u@w:1/x?host=/a:b@c"


@contextmanager
def served(database: str, workers: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", PROGRAM.format(8), "serve", "--database", database, "--port", "0"]
    process = subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http://" in line
        yield process, line.split()[-1]
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout is not None:
            process.stdout.close()


def post(url: str, body: Any) -> tuple[int, Any]:
    """Ask on a connection of its own, so any worker."""
    where = urlsplit(url)
    connection = HTTPConnection(where.netloc, timeout=30)
    try:
        connection.request("POST", where.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def decisions_by_prometheus(url: str, at_least: int) -> int:
    """What any worker says that all decided, once it is as much; workers tell each other every second."""
    deadline = time.monotonic() + 10
    while True:
        with urlopen(f"{url}/metrics") as answer:
            said = re.search(r'belated_outcomes_total\{kind="decided"\} (\d+)', answer.read().decode())
        if (found := int(said[1]) if said else 0) >= at_least:
            return found
        assert time.monotonic() < deadline, f"{found} decisions are told of, not {at_least}"
        time.sleep(0.05)


def test_workers_share_a_port_and_one_may_die(database: str) -> None:
    body = {"name": "ads", "actions": ["a", "b"], "forecaster": BOLD, "seed": 1}
    with served(database, 2) as (process, url):
        assert post(f"{url}/v1/experiments", body)[0] == 201
        answered: list[str] = []

        def decide(count: int) -> None:
            for _ in range(count):
                try:
                    status, answer = post(f"{url}/v1/experiments/ads/decisions", {"count": 3})
                except (OSError, HTTPException):
                    continue
                if status == 201:
                    answered.extend(d["ticket"] for d in answer["decisions"])

        decide(5)
        assert len(answered) == 15
        assert [decisions_by_prometheus(url, 15) for _ in range(10)] == [15] * 10  # whichever worker answers
        first = children(process.pid)
        assert len(first) == 3 and len(children(process.pid, "writer")) == 1
        victim, other = children(process.pid, "worker")
        threads = [threading.Thread(target=decide, args=(40,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        os.kill(victim, signal.SIGKILL)
        for thread in threads:
            thread.join()
        deadline = time.monotonic() + 15
        while len(now := children(process.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(now) == 3 and victim not in now and other in now
        before = len(answered)
        decide(2)
        assert len(answered) == before + 6
        told = [decisions_by_prometheus(url, 21) for _ in range(10)]
        assert told == sorted(told) and told[0] >= 21  # what a worker had told is not lost with it
        stored = {ticket for (ticket,) in query(database, "SELECT encode(ticket, 'hex') FROM decisions")}
        assert len(set(answered)) == len(answered) and set(answered) <= stored
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
        assert time.monotonic() - started < 10 and not [pid for pid in now if os.path.exists(f"/proc/{pid}")]
    with Ledgers(database) as ledger:
        assert_clean(ledger)


def test_more_workers_need_postgresql(tmp_path: Any) -> None:
    command = [sys.executable, "-m", "belated.cli", "serve", "--workers", "2", "--database", str(tmp_path / "a.db")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "more need PostgreSQL" in done.stderr and "Traceback" not in done.stderr


def test_verify_and_tokens_from_the_command_line(database: str) -> None:
    with ledgers(database, 1) as (ledger,):
        made = create(ledger)
        ledger.serve([Decide(made, [None] * 3)])

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--database", database])
        assert done.exit_code == 0, done.output
        return done.output

    assert "identical" in call("verify")
    assert call("token", "create", "web").startswith("belated_")
    assert "web\tdecide feedback read\tin use" in call("token", "list")
    assert call("token", "revoke", "web") == "web is revoked\n"
