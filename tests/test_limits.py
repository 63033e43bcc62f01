"""Nobody brings it down: slow connections and too many of them, large lists; and experiments take turns."""

import asyncio
import json
import logging
import os
import resource
import socket
import threading
import time
from contextlib import suppress

import httpx
import pytest

from belated.ledger import experiment
from belated.ledger.ledger import Ledger
from belated.ledger.sqlite import SQLite
from belated.service import api, batch, openapi, seldom
from belated.service.app import Service
from belated.service.auth import Guard
from belated.service.connections import Connection, most_connections
from belated.service.desk import Desk
from belated.service.limits import Rate
from tests.serving import memory
from tests.test_service import ADS, Server

#: A server in a hurry, for few.
HURRY = ("--read-timeout", "0.6", "--connections", "8")


@pytest.fixture(scope="module")
def hurried(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("limits") / "limits.db", *HURRY)
    made.create("ads")
    yield made
    made.end()


def connect(server):
    made = socket.create_connection(("127.0.0.1", server.http.base_url.port))
    made.settimeout(10)
    return made


def heard(connection):
    """Everything that comes until the end."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


POST = b"POST /v1/experiments/ads/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: local", POST % 12 + b'{"coun'])
def test_what_does_not_come_in_time_is_ended(hurried, sent):
    before = hurried.statistics("ads")["decisions"]
    with connect(hurried) as connection:
        connection.sendall(sent)
        began = time.monotonic()
        answer = heard(connection)
    assert time.monotonic() - began < 9
    assert answer.startswith(b"HTTP/1.1 408 ") and b'"kind": "malformed"' in answer
    assert hurried.statistics("ads")["decisions"] == before


def test_a_byte_now_and_then_is_no_request(hurried):
    began = time.monotonic()
    with connect(hurried) as connection, pytest.raises(OSError):
        for _ in range(100):
            connection.sendall(b"G")
            time.sleep(0.1)
    assert time.monotonic() - began < 9


def test_half_a_body_is_not_an_empty_one(hurried):
    """Where the other side is gone before its body has come, nothing may be decided."""
    before = hurried.statistics("ads")["decisions"]
    for sent in (POST % 12, POST % 12 + b'{"coun'):
        with connect(hurried) as connection:
            connection.sendall(sent)
            time.sleep(0.1)
    time.sleep(0.2)
    assert hurried.statistics("ads")["decisions"] == before


def test_a_head_may_not_be_endless(hurried):
    with connect(hurried) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(OSError):
            for i in range(70):
                connection.sendall(b"x-%d: %s\r\n" % (i, b"x" * 1000))
        answer = heard(connection)
        assert not answer or answer.startswith(b"HTTP/1.1 431 ")  # a reset may overtake it
    before = hurried.statistics("ads")["decisions"]
    with connect(hurried) as connection:  # all at once, whole
        connection.sendall(POST.replace(b"%d\r\n", b"2\r\nx: " + b"x" * 70_000 + b"\r\n") + b"{}")
        answer = heard(connection)
        assert not answer or answer.startswith(b"HTTP/1.1 431 ")
    assert hurried.statistics("ads")["decisions"] == before
    with connect(hurried) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert b'{"error": {"kind": "malformed"' in heard(connection)
    with connect(hurried) as connection:
        connection.sendall(POST.replace(b"%d", b"9" * 5000))
        assert heard(connection)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413")


def test_who_waits_between_requests_or_for_an_answer_is_left_alone(hurried):
    with connect(hurried) as connection:
        body = b'{"count": 3000}'
        for _ in range(2):
            connection.sendall(POST % len(body) + body + POST[:20])  # and the next one has begun
            assert connection.recv(12) == b"HTTP/1.1 201"
            read = b""
            while not read.endswith(b"]}"):
                read += connection.recv(1 << 20)
            connection.sendall(POST[20:] % 2 + b"{}")
            while not read.endswith(b"}") or b"HTTP/1.1 201 Created" not in read:
                read += connection.recv(1 << 20)
            time.sleep(0.8)


def test_too_many_connections_are_said(hurried):
    def ends():
        """Whether a new connection is turned away."""
        with connect(hurried) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = heard(connection)
            return answer.startswith(b"HTTP/1.1 503 ") and b"too many connections" in answer

    many = [connect(hurried) for _ in range(12)]
    try:
        time.sleep(0.2)
        assert ends()
    finally:
        for each in many:
            each.close()
    for _ in range(50):
        if not ends():
            break
        time.sleep(0.1)
    assert hurried.http.get("/health").status_code == 200
    for line in hurried.process.stderr:
        if "connections are open" in line:
            assert "8 connections are open, which is the most; 1 was turned away" in line
            break
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        most = most_connections()
        files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert 1 <= most <= max(files - 500, 1) and hard == before[1] and Connection.seconds == 20.0
        assert files >= min(before[1], 2500), "what may be open is raised as far as it is needed"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


# --- large requests ---


@pytest.fixture
def service(tmp_path):
    """A service in this process, and a client."""
    store = SQLite(tmp_path / "a.db", serve=True)
    made = Service(Desk(Ledger(store)), Guard(store, False))

    def run(work):
        async def inside():
            application = made.application()
            async with made.lifespan():
                transport = httpx.ASGITransport(application)
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
                    for name in ("ads", "other"):
                        assert (await http.post("/v1/experiments", json=ADS | {"name": name})).status_code == 201
                    return await work(http)

        return asyncio.run(inside())

    yield run
    store.close()


def test_lists_have_a_limit(service):
    async def work(http):
        for path, item in (("feedback", {"ticket": "x", "value": 1}), ("cancellations", {"ticket": "x"})):
            answer = await http.post(f"/v1/experiments/ads/{path}", json=[item] * 10_001)
            assert answer.status_code == 422 and "a list may have 10000 items, got 10001" in answer.text
        ones = b"[" + b"1," * 400_000 + b"1]"
        assert (await http.post("/v1/experiments/ads/feedback", content=ones)).status_code == 422
        answer = await http.post("/v1/experiments/ads/cancellations", json=[1] * 10_000)
        assert answer.status_code == 200 and len(answer.json()["results"]) == 10_000

    service(work)
    lists = [
        operation["post"]["requestBody"]["content"]["application/json"]["schema"]["anyOf"][1]
        for path, operation in openapi.document()["paths"].items()
        if path.endswith(("/feedback", "/cancellations"))
    ]
    assert [each["maxItems"] for each in lists] == [10_000] * 2


def test_large_bodies_are_read_by_other_threads(service, monkeypatch):
    seen = []
    for name in ("feedback", "cancel", "decide", "decided"):
        original = getattr(api, name)

        def watched(*given, name=name, original=original):
            seen.append((name, threading.current_thread() is threading.main_thread()))
            return original(*given)

        monkeypatch.setattr(api, name, watched)

    async def work(http):
        path = "/v1/experiments/ads"
        many = (await http.post(f"{path}/decisions", json={"count": 600})).json()["decisions"]
        one = (await http.post(f"{path}/decisions", json={})).json()
        tickets = [{"ticket": each["ticket"]} for each in many]
        await http.post(f"{path}/feedback", json=[each | {"value": 1.0} for each in tickets[:500]])
        await http.post(f"{path}/cancellations", json=tickets)
        await http.post(f"{path}/feedback", json={"ticket": one["ticket"], "value": 1.0})

    service(work)
    assert seen == [
        ("decide", True), ("decided", False), ("decide", True), ("decided", True),
        ("feedback", False), ("cancel", False), ("feedback", True),
    ]  # fmt: skip


def test_experiments_take_turns(service, monkeypatch):
    monkeypatch.setattr(experiment, "TOGETHER", 4)
    monkeypatch.setattr(batch, "TOGETHER", 4)

    async def work(http):
        order = []

        async def ask(name, count):
            answer = await http.post(f"/v1/experiments/{name}/decisions", json={"count": count})
            order.append(name)
            return answer

        large = [asyncio.create_task(ask("ads", 200)) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert (await ask("other", 3)).status_code == 201
        answers = [await each for each in large]
        assert order == ["other", "ads", "ads", "ads"]
        rounds = [each["round"] for answer in answers for each in answer.json()["decisions"]]
        assert sorted(rounds) == list(range(1, 601))
        assert rounds[:200] != list(range(1, 201))  # large requests let each other go between too

    service(work)


def test_one_experiment_does_not_take_all_places(service, monkeypatch):
    monkeypatch.setattr(batch, "WAITING", 10)

    async def work(http):
        async def ask(name, count):
            return (await http.post(f"/v1/experiments/{name}/decisions", json={"count": count})).status_code

        answers = await asyncio.gather(*(ask("ads", 3) for _ in range(12)), *(ask("other", 1) for _ in range(3)))
        assert set(answers[:12]) == {201, 503} and answers[12:] == [201] * 3

    service(work)


def test_what_cannot_be_served_to_its_end_says_so(service, monkeypatch):
    """Of a list some slices may fail: their items say so, and the others count."""
    monkeypatch.setattr(experiment, "TOGETHER", 4)

    async def work(http):
        path = "/v1/experiments/ads"
        made = (await http.post(f"{path}/decisions", json={"count": 8})).json()["decisions"]
        original, calls = Ledger.serve, []

        def failing(self, items):
            calls.append(items)
            if len(calls) == 2:
                raise OSError("the disk is gone")
            return original(self, items)

        monkeypatch.setattr(Ledger, "serve", failing)
        fed = [{"ticket": each["ticket"], "value": 1.0} for each in made]
        results = (await http.post(f"{path}/feedback", json=fed)).json()["results"]
        assert [each["status"] for each in results] == ["applied"] * 4 + ["error"] * 4
        results = (await http.post(f"{path}/feedback", json=fed)).json()["results"]
        assert [each["status"] for each in results] == ["duplicate"] * 4 + ["applied"] * 4

    service(work)


def test_nonsense_does_not_fill_the_log():
    nonsense = seldom.Seldom()

    def lets(level, message):
        return nonsense.filter(logging.LogRecord("uvicorn.error", level, "", 0, message, (), None))

    assert [lets(logging.WARNING, "nonsense") for _ in range(3)] == [True, False, False]
    assert lets(logging.WARNING, "another") and all(lets(logging.ERROR, "failed") for _ in range(3))


def test_an_outage_does_not_fill_the_log(monkeypatch):
    now = 100.0
    monkeypatch.setattr(seldom.time, "monotonic", lambda: now)
    repeated = seldom.Repeated()

    def said(level, text, *given, name="belated", error=None):
        record = logging.LogRecord(name, level, "", 0, text, given, (OSError, error, None) if error else None)
        return record.getMessage() if repeated.filter(record) else None

    assert said(logging.ERROR, "%s", "no database") == "no database"
    assert [said(logging.ERROR, "%s", "no database") for _ in range(2)] == [None, None]
    assert said(logging.ERROR, "%s", "another") and said(logging.WARNING, "no database", name="belated.x") is None
    assert all(said(logging.ERROR, "failed", error=OSError()) for _ in range(2)), "tracebacks differ"
    assert all(said(logging.INFO, "created") for _ in range(2))
    assert all(said(logging.ERROR, "theirs", name="psycopg") for _ in range(2))
    now += seldom.SAID
    assert said(logging.ERROR, "no database") == "no database (and 3 times before this)"
    assert said(logging.ERROR, "no database") is None
    for number in range(2 * seldom.KNOWN):
        assert said(logging.WARNING, f"{number} is new")
    assert len(repeated._said) == seldom.KNOWN


def test_the_longest_wait_can_be_told():
    rate = Rate(5e-324)
    assert rate.wait() == 0.0 and rate.wait() == 1e10


def test_a_rate_fills_up_again():
    now = [0.0]
    rate = Rate(10.0, lambda: now[0])
    assert [rate.wait() for _ in range(10)] == [0.0] * 10
    assert rate.wait() == pytest.approx(0.1)
    now[0] = 0.2
    assert [rate.wait(), rate.wait()] == [0.0, 0.0] and rate.wait() > 0
    now[0] = 100.0
    assert rate.wait() == 0.0
    rate.owe(29)
    assert rate.wait() == pytest.approx(2.1)
    slow = Rate(0.1, lambda: now[0])
    assert slow.wait() == 0.0 and slow.wait() == pytest.approx(10.0)


@pytest.mark.soak
def test_attacks_hold_up_nobody_else(tmp_path):
    """Large lists, wrong lists, many contexts on large states, slow connections: others go on, and memory stays."""
    server = Server(tmp_path / "soak.db")
    server.create("small")
    server.create("large", forecaster="bold(linucb(features=100))", actions=list("abcde"))
    server.http.timeout = 120
    before, over, waits, answers = memory(server.process.pid), threading.Event(), [], []
    ones = b"[" + b"1," * 400_000 + b"1]"
    wrong = json.dumps([{"ticket": "x", "value": "y"}] * 10_000).encode()
    contexts = json.dumps({"contexts": [[0.5] * 100] * 300}).encode()
    bodies = [
        ("small/feedback", ones),
        ("small/feedback", wrong),
        ("small/cancellations", wrong),
        ("large/decisions", contexts),
    ]

    def attack(path, body):
        with httpx.Client(base_url=server.http.base_url, timeout=120) as http:
            while not over.is_set():
                answers.append(http.post(f"/v1/experiments/{path}", content=body).status_code)

    def idle():
        many = [connect(server) for _ in range(300)]
        over.wait()
        for each in many:
            each.close()

    threads = [threading.Thread(target=attack, args=each) for each in bodies] + [threading.Thread(target=idle)]
    server.create("victim")
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        began = time.monotonic()
        server.feed("victim", server.decide("victim")["ticket"])
        waits.append(time.monotonic() - began)
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join()
    after = memory(server.process.pid)
    server.end()
    waits.sort()
    print(f"{len(answers)} attacks; the victim waited {waits[len(waits) // 2]:.2f} s, at most {waits[-1]:.2f} s")
    assert set(answers) <= {200, 201, 422, 503}
    assert waits[len(waits) // 2] < 1.0 and waits[-1] < 5.0 * max(1.0, os.getloadavg()[0] / 4)
    assert after - before < 300_000  # kilobytes
