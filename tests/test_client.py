"""The client against a service in a process of its own, with a network that fails on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.client import AsyncClient, Client, Decided, Outcome
from belated.errors import InvalidArgument, ServiceError

ROOT = Path(__file__).parent.parent
BELATED = [sys.executable, "-c", "from belated.cli import app; app()"]


class Process:
    """A service on a file, always at the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.file = folder / "decisions.db"
        self._options = options
        self.start()

    def start(self) -> None:
        options = ["--database", str(self.file), "--port", str(self.port), *self._options]
        self._process = subprocess.Popen([*BELATED, "serve", *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self.url in self._process.stdout.readline()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(how)
        self._process.wait(15)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("service"))
    yield process
    process.stop()


class Between:
    """Stands between client and service. `fate` says what becomes of the n-th request.

    "pass" lets it through; "lose" lets the request through and drops the answer; "hang" never answers; bytes are
    answered as they are.
    """

    def __init__(self, port: int, fate: Callable[[int], str | bytes]) -> None:
        self._port = port
        self._fate = fate
        self.seen = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Between:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for each in self._open:
            each.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._open.append(self._listener.accept()[0])
                threading.Thread(target=self._serve, args=(self._open[-1],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := _message(client):
                self.seen += 1
                fate = self._fate(self.seen)
                if fate == "hang":
                    return
                if isinstance(fate, bytes):
                    client.sendall(fate)
                    continue
                with socket.create_connection(("127.0.0.1", self._port)) as onward:
                    onward.sendall(request)
                    answer = _message(onward)
                if fate == "lose":
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(answer)


def _message(stream: socket.socket) -> bytes:
    """One HTTP message; empty at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := stream.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    missing = int(lengths[0]) - len(body) if lengths else 0
    while missing > 0:
        data += (more := stream.recv(65536))
        missing -= len(more)
    return data


def answer(status: str, body: str, more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{more}\r\n{body}".encode()


class Awaited:
    """The other client, as if its calls waited: both are asked the same here."""

    def __init__(self, *given: object, **named: object) -> None:
        self.client = AsyncClient(*given, **named)  # type: ignore[arg-type]
        self._loop = asyncio.Runner()

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self.client.close())
        self._loop.close()

    def __getattr__(self, name: str) -> object:
        found = getattr(self.client, name)
        return (lambda *given, **named: self._loop.run(found(*given, **named))) if callable(found) else found


Kind = type[Client]


@pytest.fixture(params=[Client, Awaited])
def kind(request: pytest.FixtureRequest) -> Kind:
    """Either client."""
    return request.param


names = iter(f"experiment-{n}" for n in range(1000))


@pytest.fixture
def name(service: Process) -> str:
    """A new experiment."""
    new = next(names)
    with Client(service.url) as client:
        client.create(new, ["a", "b", "c"], "bold(exp3)")
    return new


def test_every_verb(service: Process, kind: Kind) -> None:
    with kind(service.url + "/") as client:
        assert client.health().status == "ok" and client.health().version == bl.__version__
        ads = next(names)
        made = client.create(ads, ["a", "b", "c"], bl.BOLD(bl.UCB1(actions=3), seed=7), expiry_seconds=3600)
        assert made.actions == ["a", "b", "c"] and made.data["seed"] == 7 and made.data["expiry_seconds"] == 3600
        assert made.forecaster == {"name": "bold", "learner": {"name": "ucb1", "actions": 3}} and made.warnings
        assert client.experiment(ads) == made and made in client.experiments()

        one = client.decide(ads)
        assert isinstance(one, Decided) and one.name == made.actions[one.action] and one.expires_at is not None
        more = client.decide(ads, count=3)
        assert [each.round for each in more] == [2, 3, 4] and len({each.ticket for each in more}) == 3
        assert client.decide(ads, key="k") == client.decide(ads, key="k")
        assert client.decide(ads, allowed=["b"]).name == "b"

        assert client.feedback(ads, one, 1.0) == Outcome(one.ticket, "applied")
        assert client.feedback(ads, one.ticket, 1.0).status == "duplicate"
        assert client.cancel(ads, more[0]) == Outcome(more[0].ticket, "cancelled")
        assert [each.status for each in client.cancel(ads, [more[0], one])] == ["cancelled", "error"]
        said = client.feedback(ads, [(more[1], 0.5), (more[2].ticket, 7.0), ("nonsense", 0.0)])
        assert [each.status for each in said] == ["applied", "error", "error"]
        assert said[1].error is not None and said[1].error.kind == "invalid" and "7.0" in str(said[1].error)
        assert said[2].error is not None and said[2].error.kind == "unknown_ticket"

        record = client.decision(ads, one)
        assert (record.state, record.value, record.name) == ("closed", 1.0, one.name)
        assert client.decision(ads, more[2]).state == "open"
        found = client.statistics(ads)
        assert (found.decisions, found.feedback, found.duplicates, sum(found.pulls)) == (6, 2, 1, 6)
        assert found.outstanding == 3 and found.data["cancelled"] == 1

        assert client.replace(ads, "c", "d").actions == ["a", "b", "d"]
        assert client.add_action(ads, "e").actions == ["a", "b", "d", "e"]
        assert client.archive(ads).archived_at is not None
        with pytest.raises(ServiceError, match="archived") as caught:
            client.decide(ads)
        assert (caught.value.kind, caught.value.status) == ("archived", 409)


def test_contexts(service: Process, kind: Kind) -> None:
    linear = next(names)
    with kind(service.url) as client:
        client.create(linear, ["a", "b"], {"name": "bold", "learner": {"name": "linucb", "features": 2}})
        one = client.decide(linear, np.array([0.5, 1.0]))
        more = client.decide(linear, contexts=[[0.0, 1.0], np.array([1.0, 0.0])])
        assert client.decision(linear, one).context == [0.5, 1.0] and len(more) == 2
        assert client.feedback(linear, one, np.float64(0.25)).status == "applied"
        with pytest.raises(ServiceError, match="context"):
            client.decide(linear, [1.0])


def test_errors_say_what_the_service_says(service: Process, name: str, kind: Kind) -> None:
    with kind(service.url, retries=0) as client:
        with pytest.raises(ServiceError, match="no experiment called 'a b'") as caught:
            client.experiment("a b")
        assert (caught.value.kind, caught.value.status) == ("unknown_experiment", 404)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.kind, again.status, str(again)) == ("unknown_experiment", 404, str(caught.value))
        one = client.decide(name)
        client.feedback(name, one, 1.0)
        with pytest.raises(ServiceError) as caught:
            client.feedback(name, one, 0.0)
        assert caught.value.kind == "conflict"
        with pytest.raises(ServiceError, match="nan"):
            client.feedback(name, one, float("nan"))
    with pytest.raises(InvalidArgument, match="got 'ftp://127"):
        kind("ftp://127.0.0.1")
    for wrong in ({"timeout": 0}, {"timeout": "soon"}, {"retries": -1}, {"retries": 1.5}, {"deadline": 0}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            kind(service.url, **wrong)  # type: ignore[arg-type]


def test_a_lost_answer_does_not_decide_twice(service: Process, name: str, kind: Kind) -> None:
    with Between(service.port, lambda n: "lose" if n <= 2 else "pass") as proxy, kind(proxy.url) as client:
        one = client.decide(name)
        assert proxy.seen == 3
    with Between(service.port, lambda n: "lose" if n == 1 else "pass") as proxy, kind(proxy.url) as client:
        assert client.feedback(name, one, 1.0).status == "duplicate"
    with Between(service.port, lambda n: "lose" if n == 1 else "pass") as proxy, kind(proxy.url) as client:
        many = client.decide(name, count=5)
        found = client.statistics(name)
        assert (found.decisions, found.feedback) == (6, 1)
        assert client.decision(name, one).state == "closed"
        assert all(client.decision(name, each).round == each.round for each in many)


def test_what_could_happen_twice_is_not_repeated(service: Process, kind: Kind) -> None:
    once = next(names)
    with Between(service.port, lambda n: "lose") as proxy, kind(proxy.url) as client:
        with pytest.raises(ServiceError) as caught:
            client.create(once, ["a", "b"], "bold(exp3)")
        assert caught.value.kind == "unreachable" and caught.value.status is None and proxy.seen == 1
    with kind(service.url) as client:
        assert client.experiment(once).actions == ["a", "b"]
    broken = answer("503 Busy", '{"error": {"kind": "storage", "message": "who knows"}}')
    with Between(service.port, lambda n: broken) as proxy, kind(proxy.url) as client:
        with pytest.raises(ServiceError, match="who knows"):
            client.replace(once, "a", "c")
        assert proxy.seen == 1


def test_a_busy_service_is_asked_again_when_it_says(service: Process, name: str, kind: Kind) -> None:
    busy = answer("503 Busy", '{"error": {"kind": "busy", "message": "try again"}}', "retry-after: 1\r\n")
    with Between(service.port, lambda n: busy if n == 1 else "pass") as proxy, kind(proxy.url) as client:
        started = time.monotonic()
        client.decide(name)
        assert proxy.seen == 2 and 1.0 <= time.monotonic() - started < 20.0
        client.create(f"{name}-other", ["a", "b"], "bold(exp3)")
    with Between(service.port, lambda n: busy) as proxy, kind(proxy.url, retries=1) as client:
        with pytest.raises(ServiceError, match="try again") as caught:
            client.create(f"{name}-third", ["a", "b"], "bold(exp3)")
        assert (caught.value.kind, caught.value.status, proxy.seen) == ("busy", 503, 2)


def test_timeouts(service: Process, name: str, kind: Kind) -> None:
    with Between(service.port, lambda n: "hang") as proxy, kind(proxy.url, timeout=0.2, retries=2) as client:
        started = time.monotonic()
        with pytest.raises(ServiceError, match="timed out") as caught:
            client.decide(name)
        assert caught.value.kind == "unreachable" and proxy.seen == 3
        assert 0.6 <= time.monotonic() - started < 20.0
    with Between(service.port, lambda n: "hang" if n == 1 else "pass") as proxy, kind(proxy.url, timeout=1) as client:
        client.decide(name)
        assert proxy.seen == 2 and client.statistics(name).decisions == 1


def test_strangers(service: Process, kind: Kind) -> None:
    for said, line, status in (("<html>", "404 Not Found", 404), ("hello", "200 OK", 200)):
        page = answer(line, said)
        with Between(service.port, lambda n, page=page: page) as proxy, kind(proxy.url) as client:
            with pytest.raises(ServiceError, match=said) as caught:
                client.health()
            assert (caught.value.kind, caught.value.status) == ("unexpected", status)


def test_a_full_experiment_is_asked_again(service: Process) -> None:
    with Client(service.url) as client:
        client.create("full", ["a", "b"], "bold(exp3)", limits={"outstanding": 1})
        one = client.decide("full")
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(client.decide, "full")
            time.sleep(0.3)
            assert not later.done()
            client.feedback("full", one, 1.0)
            assert later.result(10).round == 2
    with Client(service.url, retries=0) as client, pytest.raises(ServiceError) as caught:
        client.decide("full")
    assert (caught.value.kind, caught.value.status) == ("too_many_outstanding", 429)


def test_threads_share_a_client(service: Process, name: str) -> None:
    with Client(service.url) as client, ThreadPoolExecutor(8) as pool:

        def work(_: int) -> str:
            one = client.decide(name)
            assert client.feedback(name, one, 0.5).status == "applied"
            return one.ticket

        assert len(set(pool.map(work, range(80)))) == 80
        found = client.statistics(name)
        assert (found.decisions, found.feedback, found.outstanding) == (80, 80, 0)


def test_a_restart_in_mid_call(tmp_path: Path) -> None:
    process = Process(tmp_path)
    try:
        with Client(process.url, retries=10) as client, ThreadPoolExecutor(1) as pool:
            client.create("ads", ["a", "b"], "bold(exp3)")
            one = client.decide("ads")
            process.stop(signal.SIGKILL)
            later = pool.submit(client.decide, "ads")
            time.sleep(0.5)
            assert not later.done()
            process.start()
            two = later.result(60)
            assert two.round == 2 and client.feedback("ads", [(one, 1.0), (two, 0.0)])[1].status == "applied"
            assert client.statistics("ads").decisions == 2
    finally:
        process.stop()


def test_a_token_that_no_header_takes_is_not_printed() -> None:
    for token in ("belated_secret\n", "belated_s\u00e9cret"):
        with pytest.raises(InvalidArgument, match="printable ASCII") as caught:
            Client("http://127.0.0.1:1", token)
        assert "belated_s" not in str(caught.value)


def test_tokens(tmp_path: Path) -> None:
    make = [*BELATED, "token", "create", "test", "--scope", "decide", "--database", str(tmp_path / "decisions.db")]
    token = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    process = Process(tmp_path, "--require-token")
    try:
        with Client(process.url) as client:
            assert client.health().status == "ok"
            with pytest.raises(ServiceError) as caught:
                client.experiments()
            assert (caught.value.kind, caught.value.status) == ("unauthorized", 401)
        with Client(process.url, token) as client:
            with pytest.raises(ServiceError, match="'read'") as caught:
                client.experiments()
            assert (caught.value.kind, caught.value.status) == ("forbidden", 403)
            assert token not in repr(client)
    finally:
        process.stop()


def test_import() -> None:
    """`import belated` does without httpx, and `bl.Client` says what is missing."""
    program = (
        "import sys, belated as bl\n"
        "assert 'httpx' not in sys.modules\n"
        "sys.modules['httpx'] = None\n"
        "try:\n    bl.Client\n"
        "except ImportError as error:\n    print(error)\n"
        "assert not hasattr(bl, 'Klient')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout == "bl.Client needs httpx: pip install 'belated[client]'\n"


def test_the_shop(service: Process) -> None:
    """The example runs, and loses nobody but those who vanish."""
    shop = [sys.executable, "examples/shop.py", "--visitors", "40", "--pause", "0", "--seed", "1"]
    done = subprocess.run([*shop, "--url", service.url], capture_output=True, text=True, check=True, cwd=ROOT)
    vanished = done.stdout.count("and vanishes")
    assert done.stdout.count(" sees ") == 40 and 0 < vanished < 20
    with Client(service.url) as client:
        name = done.stdout.split()[1].rstrip(":")
        found = client.statistics(name)
    assert (found.decisions, found.feedback, found.outstanding) == (40, 40 - vanished, vanished)
    nobody = subprocess.run([*shop, "--url", "http://127.0.0.1:9"], capture_output=True, text=True, cwd=ROOT)
    assert nobody.returncode == 1 and "belated serve" in nobody.stderr and "Traceback" not in nobody.stderr
