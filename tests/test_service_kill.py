"""kill -9 under load: what was acknowledged survives, and each feedback changes the learner at most once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from tests.postgres import cluster, database  # noqa: E402, F401
from tests.serving import Load, Server, check, check_counts, children, memory  # noqa: E402

#: A pool of states, a single state with queues, and one that expires and then learns a default while it is killed.
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "bold": {"forecaster": "bold(exp3)"},
    "bold-short": {"forecaster": "bold(thompsonbernoulli)", "expiry_seconds": 1.5},
    "qpmd": {"forecaster": "qpmd(ucb1)"},
    "direct": {"forecaster": "direct(ucb1)", "expiry_seconds": 0.4, "on_expiry": 0.5},
}


def create(server: Server) -> None:
    for name, body in EXPERIMENTS.items():
        answer = httpx.post(
            f"{server.url}/v1/experiments",
            json={"name": name, "actions": ["a", "b", "c"], "seed": 3} | body,
            timeout=30,
        )
        assert answer.status_code == 201, answer.text


def torture(server: Server, kills: int, every: int = 1) -> Load:
    """Kill under load, so often; the database is looked at `every` few.

    With several workers it is the writer or one of them, in turn, and each fifth time everything.
    """
    draws = random.Random(0)
    server.start()
    create(server)
    several = server.workers > 1
    load = Load(server, [*EXPERIMENTS, "bold", "bold", "bold"], threads=8 if several else 3)
    running = True
    try:
        for number in range(kills):
            if not running:
                server.start()
            pids = server.pids
            some = children(server.pid, "worker" if number % 2 else "writer") if several and number % 5 < 4 else []
            running = bool(some)
            load.arm(draws.randrange(20, 300 if several else 100), [draws.choice(some)] if some else pids)
            load.go()
            assert load.struck.wait(60) or load.wrong, "no answers"
            if not running:
                server.reap()
            load.pause()
            if number % every == every - 1:
                check(load)
    finally:
        load.end()
        server.stop()
    check(load)
    check_counts(load)
    command = [sys.executable, "-m", "belated.cli", "verify", "--database", server.database]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("identical") == len(EXPERIMENTS), done.stdout + done.stderr
    statuses = {status for status, _ in load.ended.values()}
    assert {"applied", "cancelled"} <= statuses
    return load


def test_sqlite_survives_kills(tmp_path: Path) -> None:
    torture(Server(str(tmp_path / "a.db")), 3)


@pytest.mark.parametrize("processors", [2, 8])
def test_postgresql_survives_kills_of_writers_and_workers(database: str, processors: int) -> None:  # noqa: F811
    torture(Server(database, workers=4, processors=processors), 3)


@pytest.mark.soak
def test_sqlite_survives_a_thousand_kills(tmp_path: Path) -> None:
    torture(Server(str(tmp_path / "a.db")), 1000, every=50)


@pytest.mark.soak
@pytest.mark.parametrize("processors", [2, 8])
def test_postgresql_survives_a_thousand_kills_of_writers_and_workers(
    database: str,  # noqa: F811
    processors: int,
) -> None:
    torture(Server(database, workers=4, processors=processors), 1000, every=50)


@pytest.mark.soak
def test_memory_stays_flat_under_minutes_of_load(tmp_path: Path) -> None:
    """What grows is SQLite's page cache: as the file does, and 64 MiB a connection at most."""
    file = tmp_path / "a.db"
    server = Server(str(file))
    server.start()
    create(server)
    load = Load(server, list(EXPERIMENTS))
    seen = []
    try:
        load.go()
        for _ in range(36):
            time.sleep(10)
            seen.append((memory(server.pid), file.stat().st_size // 1024))
        load.pause()
    finally:
        load.end()
        server.stop()
    check(load)
    (warm, before), (end, after) = seen[5], seen[-1]
    assert end - warm < after - before + 10_000, seen  # kilobytes
