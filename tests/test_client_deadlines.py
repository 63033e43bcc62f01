# ruff: noqa: F811  (fixtures are imported)
"""Clients that must have an answer in time, against a service that is killed, stopped, slow or busy."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

import belated as bl
from belated.client import AsyncClient, Client
from belated.client.calls import FALLBACKS
from belated.errors import InvalidArgument, ServiceError
from tests.test_client import Awaited, Between, Kind, Process, answer, kind  # noqa: F401
from tests.test_service import said
from tools import both_clients

#: Longer than any of this may take on a busy machine, and shorter than what it would take without a deadline.
LONG = 8.0


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process(tmp_path_factory.mktemp("deadlines"))
    with Client(process.url) as client:
        client.create("ads", ["a", "b", "c"], "bold(exp3)")
    yield process
    process.stop()


def counted(service: Process, kind: str) -> int:
    """How many outcomes of a kind /metrics has."""
    import httpx

    for line in httpx.get(f"{service.url}/metrics").text.splitlines():
        if line.startswith(f'belated_experiment_outcomes_total{{experiment="ads",kind="{kind}"}}'):
            return int(float(line.split()[-1]))
    return 0


# --- the two clients are one ---


def test_the_second_client_is_made_from_the_first() -> None:
    assert both_clients.made() == (both_clients.FOLDER / "awaited.py").read_text(), "run tools/both_clients.py"


def test_both_have_the_same_verbs() -> None:
    verbs = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]
    assert len(verbs) == 16
    for name in verbs:
        one, other = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(other) and not inspect.iscoroutinefunction(one)
        assert inspect.getdoc(one) == inspect.getdoc(other)
        assert inspect.signature(one).parameters == inspect.signature(other).parameters
    assert bl.AsyncClient is AsyncClient and repr(bl.AsyncClient("http://x")) == "AsyncClient('http://x')"


def test_many_at_once(service: Process) -> None:
    async def work() -> int:
        async with AsyncClient(service.url) as client:
            before = await client.statistics("ads")
            made = await asyncio.gather(*(client.decide("ads") for _ in range(50)))
            said = await client.feedback("ads", [(each, 0.5) for each in made])
            assert {each.status for each in said} == {"applied"} and len({each.ticket for each in made}) == 50
            return (await client.statistics("ads")).decisions - before.decisions

    assert asyncio.run(work()) == 50


# --- deadlines ---


class Drip:
    """A service that answers a byte at a time, and not to the end."""

    def __init__(self, first: bytes, pause: float = 0.05) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._first, self._pause, self._over = first, pause, threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Drip:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                with self._listener.accept()[0] as client, suppress(OSError):
                    client.recv(65536)
                    client.sendall(self._first)
                    for _ in range(200):  # so that who waits for the end fails, and does not hang
                        if self._over.wait(self._pause):
                            break
                        client.sendall(b"x")


@pytest.mark.parametrize(
    "first", [b"HTTP/1.1 200 OK\r\nx-long: ", b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"]
)
def test_a_drip_ends_in_time(kind: Kind, first: bytes) -> None:
    with Drip(first) as drip, kind(drip.url, deadline=0.4) as client:
        began = time.monotonic()
        with pytest.raises(ServiceError, match=r"within 0\.4 s") as caught:
            client.health()
        assert caught.value.kind == "unreachable" and 0.3 < time.monotonic() - began < LONG
    with (
        Drip(first) as drip,
        kind(drip.url, timeout=0.3, retries=0) as client,
        pytest.raises(ServiceError, match="timed"),
    ):
        client.health()  # each try is limited too


def test_a_deadline_is_for_all_tries(service: Process, kind: Kind) -> None:
    with Between(service.port, lambda n: "lose") as proxy, kind(proxy.url, deadline=1.0, retries=1000) as client:
        began = time.monotonic()
        with pytest.raises(ServiceError) as caught:
            client.decide("ads")
        assert caught.value.kind == "unreachable" and 1 < proxy.seen < 6 and time.monotonic() - began < LONG
    with Between(service.port, lambda n: "hang") as proxy, kind(proxy.url) as client:
        with pytest.raises(ServiceError, match=r"within 0\.2 s"):
            client.decide("ads", deadline=0.2)
        with pytest.raises(InvalidArgument, match="deadline"):
            client.decide("ads", deadline=-1)
        assert proxy.seen == 1


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_who_is_told_to_wait_too_long_does_not_wait(service: Process, kind: Kind, status: str) -> None:
    later = answer(status, '{"error": {"kind": "busy", "message": "later"}}', "retry-after: 20\r\n")
    with Between(service.port, lambda n: later) as proxy, kind(proxy.url, deadline=5.0) as client:
        began = time.monotonic()
        with pytest.raises(ServiceError, match="later") as caught:
            client.decide("ads")
        assert caught.value.status == int(status[:3]) and proxy.seen == 1 and time.monotonic() - began < 4.0


def test_a_proxy_may_say_until_when(service: Process, kind: Kind) -> None:
    def fate(n: int) -> str | bytes:
        when = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        return answer("503 Busy", "<html>", f"retry-after: {when}\r\n") if n == 1 else "pass"

    with Between(service.port, fate) as proxy, kind(proxy.url) as client:
        began = time.monotonic()
        assert client.decide("ads").ticket and proxy.seen == 2
        assert time.monotonic() - began > 0.8  # dates have whole seconds


# --- fallbacks ---


BUSY = answer("503 Busy", '{"error": {"kind": "busy", "message": "later"}}', "retry-after: 1\r\n")
FAST = answer("429 Fast", '{"error": {"kind": "too_fast", "message": "slower"}}', "retry-after: 1\r\n")
BROKEN = answer("500 Oh", '{"error": {"kind": "internal", "message": "this request failed"}}')
GATEWAY = answer("502 Bad Gateway", "<html>")


@pytest.mark.parametrize("fate", ["hang", "lose", BUSY, FAST, BROKEN, GATEWAY])
def test_without_an_answer_the_fallback_is_played(
    service: Process,
    kind: Kind,
    fate: str | bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = True

    def fates(n: int) -> str | bytes:
        return fate if outage else "pass"

    before = counted(service, "fallback")
    with Between(service.port, fates) as proxy, kind(proxy.url, deadline=0.3) as client:
        with caplog.at_level(logging.WARNING, "belated.client"):
            one = client.decide("ads", fallback="b")
            assert (one.name, one.fallback, one.ticket, one.action, one.probability) == ("b", True, "", -1, None)
            many = client.decide("ads", count=3, fallback="c", allowed=["b", "c"])
        assert [each.name for each in many] == ["c"] * 3 and all(each.fallback for each in many)
        assert client.fallbacks == 4 and [each.levelname for each in caplog.records] == ["WARNING"]
        assert "ads: no decision (" in caplog.text and "'b' is played; fallbacks until now: 1" in caplog.text

        for refused in (client.feedback, client.cancel):
            with pytest.raises(InvalidArgument, match="is a fallback"):
                refused("ads", one, *([1.0] if refused == client.feedback else []))
        with pytest.raises(InvalidArgument, match="is a fallback"):
            client.feedback("ads", one.ticket, 1.0)
        seen = proxy.seen
        assert [each.status for each in client.feedback("ads", [(one, 1.0)])] == ["error"]
        assert proxy.seen == seen  # none of it was sent

        outage = False
        two = client.decide("ads", fallback="b", deadline=5.0)
        assert two.ticket and not two.fallback and client.fallbacks == 4
        mixed = client.feedback("ads", [(one, 1.0), (two, 1.0)])
        assert [each.status for each in mixed] == ["error", "applied"]
        assert mixed[0].error is not None and mixed[0].error.kind == "fallback"
    # A report whose answer never came is sent again: at least once, not once.
    assert counted(service, "fallback") == before + (5 if fate == "lose" else 4)


def test_what_is_wrong_with_the_call_is_an_error_still(service: Process, kind: Kind) -> None:
    with kind(service.url) as client:
        for wrong, word in ((("nothing",), "unknown_experiment"), (("ads", [1.0]), "invalid")):
            with pytest.raises(ServiceError) as caught:
                client.decide(*wrong, fallback="a")
            assert caught.value.kind == word
        with pytest.raises(InvalidArgument, match="'a' is not among the allowed"):
            client.decide("ads", allowed=["b"], fallback="a")
        assert client.fallbacks == 0
    for wrong in ("ftp://127.0.0.1", "127.0.0.1:8000", ""):
        with pytest.raises(InvalidArgument, match=f"url must begin with http:// or https://, got '{wrong}'"):
            kind(wrong)


def test_a_report_whose_answer_is_lost_counts_once(service: Process, kind: Kind) -> None:
    before = counted(service, "fallback")
    fates = {1: "hang", 2: "lose"}
    with Between(service.port, lambda n: fates.get(n, "pass")) as proxy, kind(proxy.url) as client:
        assert client.decide("ads", fallback="a", deadline=0.3).fallback
        assert not client.decide("ads").fallback and proxy.seen == 3
        assert not client.decide("ads").fallback
    assert counted(service, "fallback") == before + 1


def test_a_count_that_is_none_is_refused(service: Process) -> None:
    import httpx

    before = counted(service, "fallback")
    for wrong in ("many", "-1", "1" * 10, ""):
        told = httpx.post(f"{service.url}/v1/experiments/ads/decisions", json={}, headers={FALLBACKS: wrong})
        assert told.status_code == 400 and "must be a number of decisions" in told.text, wrong
    assert counted(service, "fallback") == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_service_that_is_killed_or_stopped(tmp_path: Path, kind: Kind, how: signal.Signals) -> None:
    process = Process(tmp_path)
    try:
        with kind(process.url) as client:
            client.create("ads", ["a", "b"], "bold(exp3)")
            one = client.decide("ads", fallback="a")
            assert not one.fallback
            if how is signal.SIGKILL:
                process.stop(how)
            else:
                process._process.send_signal(how)
            began = time.monotonic()
            assert client.decide("ads", fallback="a", deadline=0.4).fallback and time.monotonic() - began < LONG
            if how is signal.SIGKILL:
                process.start()
            else:
                process._process.send_signal(signal.SIGCONT)
            two = client.decide("ads", fallback="a")
            assert not two.fallback and client.fallbacks == 1
            assert {each.status for each in client.feedback("ads", [(one, 1.0), (two, 0.0)])} == {"applied"}
            until = time.monotonic() + 20.0
            while "decided without us" not in (log := said("log", "--database", process.file)):
                assert time.monotonic() < until, log
                time.sleep(0.3)
            assert "decisions of ads made by clients that got no answer: 1" in log
    finally:
        process.stop()


def test_nothing_is_decided_twice_for_a_client_in_a_hurry(service: Process, kind: Kind) -> None:
    """Answers are lost at random; every decision that was made for a key is that of the key."""
    fates: Callable[[int], str | bytes] = lambda n: "lose" if n % 3 else "pass"  # noqa: E731
    with kind(service.url) as direct:
        before = direct.statistics("ads").decisions
        with Between(service.port, fates) as proxy, kind(proxy.url, deadline=20.0) as client:
            made = [client.decide("ads", fallback="a") for _ in range(5)]
        assert direct.statistics("ads").decisions == before + 5 and not any(each.fallback for each in made)
