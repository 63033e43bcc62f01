"""New connections go to as many workers as pay, or to the writer; others stand by, and take the place of who dies."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from belated.service import steering  # noqa: E402
from tests.postgres import Cluster, cluster  # noqa: E402, F401
from tests.serving import Server, children  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere connections go to all")


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_server(("127.0.0.1", 0), reuse_port=True))]
        where = made[0].getsockname()
        made += [stack.enter_context(socket.create_server(where, reuse_port=True)) for _ in range(3)]
        for each in made:
            each.setblocking(False)
        yield made


def taken(sockets: list[socket.socket]) -> list[int]:
    """How many of forty connections each of them gets."""
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(sockets[0].getsockname()))
        counts = []
        for each in sockets:
            counts.append(0)
            while True:
                try:
                    each.accept()[0].close()
                except BlockingIOError:
                    break
                counts[-1] += 1
    assert sum(counts) == 40
    return counts


def test_connections_go_where_they_are_steered(sockets: list[socket.socket]) -> None:
    assert all(taken(sockets)), "without steering they go to all"
    for chosen in ([0], [2], [1, 3], [0, 1, 2, 3], [3, 0, 1]):
        steering.steer(sockets[0], chosen)
        assert {number for number, count in enumerate(taken(sockets)) if count} == set(chosen)


def chosen(sockets: list[socket.socket], steered: steering.Steering, able: list[int]) -> set[int]:
    steered.choose(able)
    return {number for number, count in enumerate(taken(sockets)) if count}


def test_the_first_workers_that_are_able_are_chosen(
    sockets: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "spare", lambda: 2)
    steered = steering.Steering(sockets)
    cases = [([0, 1, 2, 3], {1, 2}), ([1, 2, 3], {1, 2}), ([0, 3], {3}), ([], {3}), ([0, 1, 3], {1, 3}), ([0], {0})]
    for able, expected in cases:
        assert chosen(sockets, steered, able) == expected


def test_where_no_worker_pays_the_writer_is_chosen(
    sockets: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "spare", lambda: 0)
    steered = steering.Steering(sockets)
    for able, expected in (([0, 1, 2, 3], {0}), ([1, 2, 3], {1}), ([], {1}), ([0, 3], {0})):
        assert chosen(sockets, steered, able) == expected


def test_a_worker_pays_from_three_processors_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for processors, expected in ((1, 0), (2, 0), (3, 2), (4, 3)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, count=processors: set(range(count)), raising=False)
        assert steering.spare() == expected


def test_no_more_processors_than_a_container_has_time_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(steering, "GROUP", tmp_path / "cgroup")
    monkeypatch.setattr(steering, "LIMITS", tmp_path)
    assert steering.processors() == 16
    for group in ("", "system.slice/belated.service"):
        (tmp_path / "cgroup").write_text(f"0::/{group}\n")
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        for text, expected in (("max 100000", 16), ("200000 100000", 2), ("250000 100000", 3), ("50000 100000", 1)):
            (tmp_path / group / "cpu.max").write_text(text + "\n")
            assert steering.processors() == expected


def test_where_the_system_cannot_steer_all_get_connections(
    sockets: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "ATTACH", 9999)
    steering.Steering(sockets)
    assert all(taken(sockets))


def held(pid: int) -> int:
    """Sockets that a process has open."""
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += os.readlink(each).startswith("socket:")
        except OSError:
            continue
    return found


def busy(server: Server) -> list[int]:
    """Who gets twenty connections, which are answered."""
    began, processes = time.monotonic(), []
    while len(processes) != 1 + server.workers:
        assert time.monotonic() < began + 30, "those that stand by are there"
        time.sleep(0.05)
        processes = children(server.pid, "writer") + children(server.pid, "worker")
    before = [held(pid) for pid in processes]
    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(httpx.Client(base_url=server.url))
            assert client.get("/ready").status_code == 200
        more = [held(pid) - was for pid, was in zip(processes, before, strict=True)]
    assert sum(more) >= 20
    return [pid for pid, count in zip(processes, more, strict=True) if count >= 2]


@pytest.mark.parametrize("processors", [2, 3])
def test_others_take_the_place_of_one_that_dies(cluster: Cluster, processors: int) -> None:  # noqa: F811
    server = Server(cluster.new(), 3, processors=processors)
    server.start()
    try:
        began = time.monotonic()
        while True:  # on a busy machine signs are late, and others get connections for a moment
            writer, at_work = children(server.pid, "writer"), busy(server)
            if at_work == writer if processors == 2 else len(at_work) == 2 and not set(writer) & set(at_work):
                break
            assert time.monotonic() < began + 20, at_work
        os.kill(at_work[0], signal.SIGKILL)
        began, said = time.monotonic(), set()
        while said.isdisjoint({200}):
            assert time.monotonic() < began + 30
            with suppress(httpx.TransportError):  # it was in the hands of the one that died, or waits for the next
                said.add(httpx.get(f"{server.url}/ready", timeout=1.0).status_code)
            time.sleep(0.01)
        assert said == ({200, 503} if processors == 2 else {200}), "a worker says that there is no writer"
        while True:
            now = busy(server)
            if now == children(server.pid, "writer") if processors == 2 else len(now) == 2:
                break
            assert time.monotonic() < began + 30, "the next one has connections again"
    finally:
        server.stop()
