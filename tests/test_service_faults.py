"""The service while something is broken: deadlines, readiness, numbers, commands that only read, backups."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from typer.testing import CliRunner  # noqa: E402

from belated.cli import app  # noqa: E402
from belated.ledger import schema  # noqa: E402
from belated.ledger.database import open_store  # noqa: E402
from belated.ledger.errors import StorageError  # noqa: E402
from belated.ledger.items import Decide, Feedback, ticket_of  # noqa: E402
from belated.ledger.sqlite import SQLite  # noqa: E402
from belated.ledger.verify import verify  # noqa: E402
from belated.service import desk as desks  # noqa: E402
from belated.service import health, workers  # noqa: E402
from belated.service.app import FALLBACKS, Service  # noqa: E402
from belated.service.auth import Guard  # noqa: E402
from belated.service.desk import Asks, Desk  # noqa: E402
from belated.service.metrics import Place  # noqa: E402
from tests.databases.make import HERE  # noqa: E402
from tests.postgres import Cluster, binaries, cluster, database  # noqa: E402, F401
from tests.serving import Server, behind_a_socket, children  # noqa: E402
from tests.test_faults import created, plain  # noqa: E402

ADS = {"name": "ads", "actions": ["a", "b"], "forecaster": "direct(ucb1)"}


@pytest.fixture(params=["one process", "a writer"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Ask a service, which has one experiment: ads. Its routes are where the ledger is, or at the end of a socket."""

    def run(work: Callable[[Any, Service, Desk], Awaitable[Any]], patience: float = 10.0) -> Any:
        async def inside() -> Any:
            async with AsyncExitStack() as stack:
                store = stack.enter_context(closing(SQLite(tmp_path / "a.db", serve=True)))
                desk = Desk(plain(store), patience=patience)
                far = request.param == "a writer"
                address = tmp_path / "writer"
                asked: Asks = await stack.enter_async_context(behind_a_socket(desk, address)) if far else desk
                service = Service(asked, Guard(None, False))
                application = service.application()
                await stack.enter_async_context(service.lifespan())
                client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost")
                http = await stack.enter_async_context(client)
                assert (await http.post("/v1/experiments", json=ADS)).status_code == 201
                return await work(http, service, desk)

        return asyncio.run(inside())

    return run


@contextmanager
def held(file: Path) -> Any:
    """Somebody else has the file and does not let go."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# --- whether it can do its work ---


def test_alive_is_not_ready(served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH", 0.0)
    monkeypatch.setattr(health, "PROBE", 0.1)

    async def ask(http: Any, service: Service, desk: Desk) -> None:
        async def both() -> list[tuple[int, str]]:
            answers = [await http.get(path) for path in ("/health", "/ready")]
            return [(answer.status_code, answer.json()["status"]) for answer in answers]

        assert await both() == [(200, "ok"), (200, "ok")]
        with held(tmp_path / "a.db"):
            assert await both() == [(200, "ok"), (503, "the database has not answered for 0 s")]
        while (await both())[1][0] == 503:
            await asyncio.sleep(0.05)
        desk.ledger.store._writer.run("PRAGMA query_only = ON")  # type: ignore[attr-defined]
        assert (await both())[1] == (503, "the database does not take writes: attempt to write a readonly database")
        desk.ledger.store._writer.run("PRAGMA query_only = OFF")  # type: ignore[attr-defined]
        assert (await both())[1] == (200, "ok")

    served(ask)


def test_a_database_that_does_not_answer_is_said_to_be_so(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> Any:
        raise StorageError("a.db: disk I/O error")

    async def ask(http: Any, service: Service, desk: Desk) -> None:
        assert "belated_database_up 1.0" in (await http.get("/metrics")).text
        for read in (gone, lambda: time.sleep(0.4)):  # it is gone, or hangs
            monkeypatch.setattr(desk.ledger.store, "read", read)
            metrics = await http.get("/metrics")
            assert metrics.status_code == 200 and "belated_database_up 0.0" in metrics.text
            assert "belated_requests_total{" in metrics.text and 'experiment="ads"' not in metrics.text
            for path in ("/v1/overview", "/v1/experiments", "/v1/experiments/ads/statistics"):
                answer = await http.get(path)
                assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
                assert answer.json()["error"]["message"].startswith("the database does not answer")
            assert (await http.get("/health")).status_code == 200
            monkeypatch.undo()

    served(ask, patience=0.2)


def test_an_experiment_that_fails_is_shown(served: Any, tmp_path: Path) -> None:
    async def ask(http: Any, service: Service, desk: Desk) -> None:
        assert (await http.post("/v1/experiments", json=ADS | {"name": "well"})).status_code == 201
        desk.ledger.store._writer.run("UPDATE states SET state = x'00' WHERE experiment = 1")  # type: ignore[attr-defined]
        desk.ledger._running[1].forget()  # as after a restart
        for _ in range(4):
            answer = await http.post("/v1/experiments/ads/decisions", json={})
            assert answer.status_code == 409 and answer.json()["error"]["kind"] == "damaged"
            assert (await http.post("/v1/experiments/well/decisions", json={})).status_code == 201
        (shown,) = (await http.get("/v1/overview")).json()["unopened"]
        assert shown["name"] == "ads" and "ads is damaged: state 0 has 1 bytes" in shown["reason"]
        metrics = (await http.get("/metrics")).text
        assert 'belated_experiment_usable{experiment="ads"} 0.0' in metrics
        assert 'belated_experiment_usable{experiment="well"} 1.0' in metrics

    served(ask)


# --- deadlines ---


def test_who_waits_too_long_is_refused_and_not_decided_for(served: Any, tmp_path: Path) -> None:
    async def ask(http: Any, service: Service, desk: Desk) -> Any:
        with held(tmp_path / "a.db"):
            waiting = [http.post("/v1/experiments/ads/decisions", json={}) for _ in range(20)]
            answers = await asyncio.gather(*waiting)
        assert {(answer.status_code, answer.json()["error"]["kind"]) for answer in answers} == {(503, "waited")}
        assert answers[0].headers["retry-after"] == "1"
        assert (await http.post("/v1/experiments/ads/decisions", json={})).json()["round"] == 1

    served(ask, patience=0.3)


def test_who_left_is_not_decided_for(served: Any, tmp_path: Path) -> None:
    async def ask(http: Any, service: Service, desk: Desk) -> Any:
        application = service.application()
        sent: list[Any] = []

        async def request(stays: bool) -> None:
            left = asyncio.Event()
            messages = [{"type": "http.request", "body": b"{}", "more_body": False}]

            async def receive() -> Any:
                if messages:
                    return messages.pop()
                await (asyncio.sleep(0.1) if not stays else left.wait())
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "POST", "path": "/v1/experiments/ads/decisions", "headers": []}
            await application(scope, receive, send)

        with held(tmp_path / "a.db"):
            tasks = [asyncio.create_task(request(stays=number == 0)) for number in range(5)]
            await asyncio.sleep(0.8)
        await asyncio.gather(*tasks)
        told = (await http.get("/v1/experiments/ads/statistics")).json()
        assert told["decisions"] == 1
        assert sorted(each["status"] for each in sent if "status" in each) == [201, 503, 503, 503, 503]

    served(ask)


def test_what_is_told_by_a_client_that_has_left_does_not_count(served: Any) -> None:
    """It tells again. A service that is slower than its clients wait would count 1, 2, 3, ... otherwise."""

    async def ask(http: Any, service: Service, desk: Desk) -> Any:
        application = service.application()

        async def request(told: int, stays: bool) -> None:
            messages = [{"type": "http.request", "body": b"{}", "more_body": False}]

            async def receive() -> Any:
                if messages:
                    return messages.pop()
                if stays:
                    await asyncio.Event().wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                assert message.get("status", 201) == 201  # it had begun

            path = "/v1/experiments/ads/decisions"
            headers = [(FALLBACKS, b"%d" % told)]
            await application({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)

        for told in (1, 2, 3):
            await request(told, stays=False)
        await request(3, stays=True)
        assert 'outcomes_total{experiment="ads",kind="fallback"} 3.0' in (await http.get("/metrics")).text

    served(ask)


def test_a_worker_that_gives_no_sign_counts_as_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, clock = Place(tmp_path, 0), [0.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: clock[0])
    worker = object.__new__(workers.Worker)
    worker._place, worker._beat, worker._since, worker.url = place, place.beats(), 0.0, None
    clock[0] = 100.0
    assert worker.silent() < workers.SILENT and not worker.able  # it is not ready yet
    worker.url = "http://"
    assert worker.silent() < workers.SILENT
    for _ in range(10):
        time.sleep(0.002)
        place.beat()
        clock[0] += 0.9 * workers.SILENT
        assert worker.silent() < workers.SILENT
    clock[0] += 1.1 * workers.SILENT
    assert worker.silent() > workers.SILENT


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["worker", "writer"])
def test_what_a_stopped_process_did_is_taken_over(database: str, kind: str) -> None:  # noqa: F811
    server = Server(database, workers=2)
    server.start()
    try:
        assert httpx.post(f"{server.url}/v1/experiments", json=ADS, timeout=30).status_code == 201
        first = children(server.pid, kind)[0]
        signal_at = time.monotonic()
        os.kill(first, signal.SIGSTOP)

        def decide() -> bool:
            try:
                return httpx.post(f"{server.url}/v1/experiments/ads/decisions", json={}, timeout=1).status_code == 201
            except httpx.TransportError:
                return False

        while first in children(server.pid):
            assert time.monotonic() - signal_at < 30
            decide()
        deadline = time.monotonic() + 20
        while not all(decide() for _ in range(20)):
            assert time.monotonic() < deadline
    finally:
        server.stop()
    assert server.process is not None and server.process.returncode == 0
    with closing(open_store(database)) as store:
        assert [report.verdict for report in verify(store)] == ["identical"]


@pytest.mark.minutes
def test_after_a_pause_of_all_nobody_counts_as_stopped(cluster: Cluster) -> None:  # noqa: F811
    server = Server(cluster.new(), workers=2)
    server.start()
    try:
        before = children(server.pid)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in [server.pid, *before]:
                os.kill(pid, number)
            time.sleep(workers.SILENT + 2.0)
        assert children(server.pid) == before
        assert httpx.get(f"{server.url}/ready", timeout=10).status_code == 200
    finally:
        server.stop()


@pytest.mark.minutes
@pytest.mark.parametrize("count", [1, 2])
def test_an_end_that_is_not_in_order_has_another_exit_code(cluster: Cluster, count: int) -> None:  # noqa: F811
    server = Server(cluster.new(), count, "--grace", "1")
    server.start()
    pids = cluster.pids
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        server.stop()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert server.process is not None and server.process.returncode == 1


@pytest.mark.minutes
@pytest.mark.parametrize(("count", "processors"), [(1, 2), (2, 2), (2, 4)])
def test_while_it_ends_nobody_waits_at_its_port(cluster: Cluster, count: int, processors: int) -> None:  # noqa: F811
    server = Server(cluster.new(), count, "--grace", "3", processors=processors)
    server.start()
    assert server.process is not None
    where = urlsplit(server.url)
    with socket.create_connection((where.hostname, where.port)) as slow:
        head = f"POST /v1/experiments HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-length: 100\r\n\r\n"
        slow.sendall(head.encode() + b"{")
        time.sleep(0.3)
        server.process.terminate()
        refused = False
        while not refused:  # once all have heard of the end
            time.sleep(0.1)
            assert server.process.poll() is None, "what is under way has its grace"
            try:
                socket.create_connection((where.hostname, where.port), timeout=1.0).close()
            except ConnectionError:
                refused = True
    server.stop()
    assert server.process.returncode == 0


@pytest.mark.minutes
@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_is_an_end_in_order(cluster: Cluster, count: int) -> None:  # noqa: F811
    """A terminal sends it to all processes of a group."""
    server = Server(cluster.new(), count)
    server.start()
    for pid in reversed(server.pids):
        os.kill(pid, signal.SIGINT)
    server.reap()
    assert server.process is not None and server.process.returncode == 130


@pytest.mark.soak
def test_a_paused_database_leaves_no_orphans(cluster: Cluster) -> None:  # noqa: F811
    """PostgreSQL stops for a while under load; clients give up after a second, and nothing is decided for them."""
    server = Server(cluster.new())
    server.start()
    got, pids = 0, []
    try:
        assert httpx.post(f"{server.url}/v1/experiments", json=ADS, timeout=30).status_code == 201
        pids = cluster.pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)

        async def crowd() -> list[Any]:
            async with httpx.AsyncClient(timeout=1.0, limits=httpx.Limits(max_connections=400)) as http:
                asked = [http.post(f"{server.url}/v1/experiments/ads/decisions", json={}) for _ in range(300)]
                return await asyncio.gather(*asked, return_exceptions=True)

        answers = asyncio.run(crowd())
        got = sum(getattr(answer, "status_code", 0) == 201 for answer in answers)
        time.sleep(0.5)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert httpx.post(f"{server.url}/v1/experiments/ads/decisions", json={}, timeout=30).status_code == 201
    told = httpx.get(f"{server.url}/v1/experiments/ads/statistics", timeout=30).json()
    server.stop()
    assert told["decisions"] <= got + 1 + 1, (told["decisions"], got)  # one may have been begun


# --- what is counted ---


def test_replays_are_no_decisions_and_routes_have_labels(served: Any, tmp_path: Path) -> None:
    async def ask(http: Any, service: Service, desk: Desk) -> None:
        for _ in range(3):
            made = await http.post(
                "/v1/experiments/ads/decisions", json={"count": 2}, headers={"Idempotency-Key": "again"}
            )
            assert made.status_code == 201
        ticket = made.json()["decisions"][0]["ticket"]
        for _ in range(2):
            await http.post("/v1/experiments/ads/feedback", json={"ticket": ticket, "value": 1.0})
        metrics = (await http.get("/metrics")).text
        for line in (
            'belated_outcomes_total{kind="decided"} 2.0',
            'belated_outcomes_total{kind="replayed"} 4.0',
            'belated_experiment_outcomes_total{experiment="ads",kind="applied"} 1.0',
            'belated_experiment_outcomes_total{experiment="ads",kind="duplicate"} 1.0',
            'belated_experiment_decisions_total{experiment="ads"} 2.0',
            'belated_request_seconds_count{route="POST /v1/experiments/{name}/feedback"} 2.0',
            "belated_statistics_lag_seconds 0.0",
        ):
            assert line in metrics, line
        same = [http.post("/v1/experiments/ads/decisions", json={}, headers={"Idempotency-Key": "b"}) for _ in range(5)]
        assert len({answer.json()["ticket"] for answer in await asyncio.gather(*same)}) == 1
        assert 'belated_outcomes_total{kind="decided"} 3.0' in (await http.get("/metrics")).text

    served(ask)


# --- commands that read, and those that change ---


def said(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


READING = (["verify"], ["export", "ads", "x.parquet"], ["token", "list"])


def test_reading_makes_and_migrates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    shutil.copy(HERE / "v1.sqlite", tmp_path / "old.db")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for command in READING:
        assert "there is no database none.db" in said(*command, "--database", "none.db", code=1)
        assert "empty.db is empty" in said(*command, "--database", "empty.db", code=1)
        text = said(*command, "--database", "old.db", code=1)
        assert f"old.db has schema 1, this version of belated needs {schema.SCHEMA}" in text and "migrate" in text
    assert "has schema 1" in said("token", "create", "x", "--database", "old.db", code=1)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert "has schema 1" in said("serve", "--database", "old.db", "--port", 0, code=1)
    assert "schema 1 becomes" in said("migrate", "--check", "--database", "old.db", code=1)
    assert "is empty" in said("migrate", "empty.db", code=1) and "no database" in said("migrate", "none.db", code=1)
    (tmp_path / "old.db.lock").unlink()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_migrate_is_explicit(tmp_path: Path) -> None:
    file = shutil.copy(HERE / "v1.sqlite", tmp_path / "old.db")
    said("backup", tmp_path / "copy.db", "--database", file)  # which reads earlier schemas too
    text = said("migrate", file)
    assert f"schema 1 becomes {schema.SCHEMA}" in text and "line: states of LinUCB" in text
    again = [said("migrate", *more).strip() for more in ([file], ["--check", file], ["--database", file])]
    assert again == ["nothing is to be done"] * 3
    assert "the database is given twice" in said("migrate", file, "--database", file, code=1)
    assert "FILE|URL" in said("migrate", "--help") and "[named]" not in said("migrate", "--help")
    assert "line: identical" in said("verify", "--database", file)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT value FROM meta WHERE key = 'schema'").fetchall() == [("1",)]


def test_reading_postgresql_makes_and_migrates_nothing(cluster: Cluster) -> None:  # noqa: F811
    import psycopg

    empty, old = cluster.new(), cluster.new()
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute((HERE / "v1.sql").read_text().encode())
    for command in (["verify"], ["token", "list"]):
        assert "is empty" in said(*command, "--database", empty, code=1)
        assert "has schema 1" in said(*command, "--database", old, code=1)
    assert "has schema 1" in said("serve", "--database", old, code=1)
    with psycopg.connect(empty, autocommit=True) as connection:
        assert connection.execute("SELECT to_regclass('meta')").fetchall() == [(None,)]
    assert f"schema 1 becomes {schema.SCHEMA}" in said("migrate", old)
    assert "pool: " in said("verify", "--database", old)


def test_a_store_for_reading_cannot_write(tmp_path: Path, cluster: Cluster) -> None:  # noqa: F811
    for address in (str(tmp_path / "a.db"), cluster.new()):
        open_store(address, serve=True).close()
        with closing(open_store(address)) as store, pytest.raises(Exception, match=r"read-?only"), store.write() as to:
            to.set_meta("x", "y")


# --- backup and restore ---


def used(address: str) -> list[bytes | None]:
    """Some decisions, and feedback for some of them; the tickets of those that are open."""
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        ads = created(ledger, "ads", "bold(exp3)")
        (made,) = ledger.serve([Decide(ads, [None] * 6)])
        tickets = [ticket_of(each.ticket) for each in made]
        ledger.serve([Feedback(ads, [(ticket, 1.0) for ticket in tickets[:3]])])
        return tickets[3:]


def goes_on(address: str, tickets: list[bytes | None]) -> None:
    """A restored copy knows what is open, and goes on."""
    with closing(open_store(address)) as store:
        assert [report.verdict for report in verify(store)] == ["identical"]
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        ads = ledger.find("ads")
        assert ledger.serve([Feedback(ads, [(ticket, 0.5) for ticket in tickets])]) == [["applied"] * 3]
        ledger.serve([Decide(ads, [None] * 2)])
        told = ledger.statistics(ads)
        assert (told["decisions"], told["feedback"], told["outstanding"]) == (8, 6, 2)
        assert [report.verdict for report in verify(store)] == ["identical"]


def test_a_backup_of_sqlite_is_restored(tmp_path: Path) -> None:
    tickets = used(str(tmp_path / "a.db"))
    said("backup", tmp_path / "copy.db", "--database", tmp_path / "a.db")
    (tmp_path / "b.db").write_bytes((tmp_path / "copy.db").read_bytes())
    goes_on(str(tmp_path / "b.db"), tickets)


def test_a_backup_of_postgresql_is_restored(cluster: Cluster, tmp_path: Path) -> None:  # noqa: F811
    import psycopg

    with psycopg.connect(cluster.url("postgres"), autocommit=True) as connection:
        for name in ("drill", "restored"):
            connection.execute(f"CREATE DATABASE {name}".encode())
    tickets = used(cluster.url("drill"))
    said("backup", tmp_path / "copy.dump", "--database", cluster.url("drill"))
    programs = binaries()
    assert programs is not None
    restore = [str(programs / "pg_restore"), f"--dbname={cluster.url('restored')}", str(tmp_path / "copy.dump")]
    subprocess.run(restore, check=True, capture_output=True)
    goes_on(cluster.url("restored"), tickets)


def test_sigterm_closes_the_store(tmp_path: Path) -> None:
    server = Server(str(tmp_path / "a.db"))
    server.start()
    assert httpx.post(f"{server.url}/v1/experiments", json=ADS, timeout=30).status_code == 201
    assert json.loads(httpx.get(f"{server.url}/ready").text)["status"] == "ok"
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    server.reap()
    assert server.process.returncode == 0
    assert {file.name for file in tmp_path.iterdir()} == {"a.db", "a.db.lock"}  # no log is left


def test_decisions_expire_while_many_states_go_on_record(tmp_path, monkeypatch):
    """And who asks is served first, as long as the states get fewer."""
    monkeypatch.setattr(desks, "SWEEP", 0.02)
    monkeypatch.setattr(desks, "BEHIND", 100)
    monkeypatch.setattr(desks, "Save", partial(desks.Save, limit=1))
    seen = []

    async def run():
        with closing(SQLite(tmp_path / "a.db", serve=True)) as store:
            desk = Desk(plain(store))
            service = Service(desk, Guard(None, False))
            application = service.application()
            async with service.lifespan():
                transport = httpx.ASGITransport(application)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                    rules = ADS | {"forecaster": "bold(ucb1)", "expiry_seconds": 0.1}
                    assert (await http.post("/v1/experiments", json=rules)).status_code == 201
                    made = await http.post("/v1/experiments/ads/decisions", json={"count": 2000})
                    assert made.status_code == 201
                    ticket = made.json()["decisions"][0]["ticket"]
                    while not seen or seen[-1][1] == "open":
                        known = await http.get(f"/v1/experiments/ads/decisions/{ticket}")
                        seen.append((desk.ledger.changed(), known.json()["state"]))
                        await asyncio.sleep(0.01)
                    decided = await http.get("/v1/experiments/ads/statistics")
                    while decided.json()["expired"] < 500:
                        decided = await http.get("/v1/experiments/ads/statistics")
                    seen.append((desk.ledger.changed(), "swept"))
            return [report.verdict for report in verify(store)], desk.ledger.changed()

    assert asyncio.run(run()) == (["identical"], 0)
    assert seen[-1][0] > 500, "all states were on record before anything expired"
