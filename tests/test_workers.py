# ruff: noqa: F811  (fixtures are imported)
"""A parent, a writer and workers: on all addresses of a host, told to end alone, and left by their parent."""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

pytest.importorskip("psycopg", reason="PostgreSQL needs belated[postgres]")

from belated.errors import InvalidState
from belated.service import workers
from belated.service.listening import listen, listen_together
from tests.postgres import cluster, database  # noqa: F401
from tests.serving import Server, children

ADS = {"name": "ads", "actions": ["a", "b"], "forecaster": "bold(exp3)"}


def addresses(host="localhost"):
    """Those of the host that this machine has."""
    with ExitStack() as held:
        return sorted({held.enter_context(each).getsockname()[0] for each in listen(host, 0)})


def test_processes_share_one_port_on_all_addresses_and_nobody_else_gets_it():
    made = listen_together("localhost", 0, 3)
    try:
        ports = {each.getsockname()[1] for own in made for each in own}
        assert len(ports) == 1 and len({len(own) for own in made}) == 1
        assert {each.getsockname()[0] for each in made[0]} == set(addresses())
        (port,) = ports
        with pytest.raises(InvalidState, match=f"cannot listen on localhost, port {port}"):
            listen_together("localhost", port, 2)
    finally:
        for own in made:
            for each in own:
                each.close()


@pytest.mark.parametrize("processors", [2, 8])
def test_workers_answer_at_all_addresses_of_a_host(database, processors):
    server = Server(database, 2, "--host", "localhost", processors=processors)
    server.start()
    try:
        port = urlsplit(server.url).port
        for host in addresses():
            where = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
            for _ in range(5):  # connections of their own
                assert httpx.get(f"{where}/ready", timeout=10).status_code == 200
    finally:
        server.stop()


def test_a_writer_that_is_told_to_end_alone_has_the_grace(database, tmp_path):
    """It goes on for the workers until then; nobody takes it for stopped, and it ends by itself. It had the
    connections; new ones go to a worker."""
    log = tmp_path / "log"
    with log.open("w") as said:
        server = Server(database, 2, "--grace", "7", processors=2)
        server.start(stderr=said)
        try:
            assert httpx.post(f"{server.url}/v1/experiments", json=ADS, timeout=30).status_code == 201
            (writer,) = children(server.pid, "writer")
            os.kill(writer, signal.SIGTERM)
            begun, codes = time.monotonic(), set()
            time.sleep(1.5)  # the parent looks twice a second
            asked = time.monotonic()
            assert httpx.get(f"{server.url}/health", timeout=10).status_code == 200 and time.monotonic() < asked + 3.0
            while writer in children(server.pid) and time.monotonic() < begun + 30:
                codes.add(httpx.post(f"{server.url}/v1/experiments/ads/decisions", json={}, timeout=10).status_code)
                time.sleep(0.05)
            assert codes <= {201, 503} and time.monotonic() - begun > 6.0
            until = time.monotonic() + 30
            while httpx.get(f"{server.url}/ready", timeout=10).status_code != 200 and time.monotonic() < until:
                time.sleep(0.1)
            assert httpx.post(f"{server.url}/v1/experiments/ads/decisions", json={}, timeout=30).status_code == 201
        finally:
            server.stop()
    assert "gives no sign" not in log.read_text() and "ended with exit code 0" in log.read_text(), log.read_text()


def test_who_loses_the_parent_leaves_no_folder(database, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = Server(database, 2)
    server.start()
    pids = children(server.pid)
    assert len(list(tmp_path.glob("belated-*"))) == 1
    os.kill(server.pid, signal.SIGKILL)
    server.reap()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(tmp_path.glob("belated-*"))


def test_who_cannot_start_is_tried_again_less_and_less_often(monkeypatch, caplog):
    clock = [0.0]
    monkeypatch.setattr(workers.time, "monotonic", lambda: clock[0])
    tried = []

    class Gone:
        name, pid, exitcode = "belated writer", 7, 1

        @staticmethod
        def is_alive():
            return False

    def begin(self, job, pause=workers.PAUSE):
        tried.append(clock[0])
        self.process, self.url, self._pause, self._ended = Gone, "here" if job == "well" else None, pause, None

    monkeypatch.setattr(workers.Worker, "__init__", begin)
    monkeypatch.setattr(workers.Worker, "look", lambda self: None)
    running = [workers.Worker("ill")]
    while clock[0] < 40.0:
        workers._replace_dead(running, ["ill"])
        clock[0] += 0.5
    assert np.diff(tried).tolist() == [1.0, 2.5, 4.5, 8.5, 8.5, 8.5]  # a look between
    assert [each.message for each in caplog.records[:2]] == [
        "belated writer, process 7, ended with exit code 1: replaced in 1 s",
        "belated writer, process 7, ended with exit code 1: replaced in 2 s",
    ]
    assert len(caplog.records) == len(tried)
    running[0].url = "here"  # the next ones start: at once, and from the shortest pause on
    workers._replace_dead(running, ["well"])
    assert tried[-1] == clock[0] and running[0]._pause == workers.PAUSE
