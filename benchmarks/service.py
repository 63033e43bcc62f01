"""The decision service against a bare endpoint, against itself, and against Optuna: one table.

    python benchmarks/service.py [--seconds 4] [--rounds 5] [--quick] [--only PART]

The parts about scale, each a figure or two, are in `scale.py`.

All servers run side by side and are loaded in turn, round after round, by `load.py` in a process of its own, 64
connections that are kept open. A figure is the median over the rounds of what one round says. Disks change their mind
and machines have other things to do: an fsync is timed before and after, and the load is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from install import HERE, SERVICE, MissingError, last_line
from rows import table
from scale import Scale
from serving import DECISIONS, HEADER, Row, Table, cluster, fsync, load, opened, ours, server

from belated.client import Client

LATEST = HERE / "results" / "service.json"
OUTSTANDING = 1_000_000
#: The same service, but every request has a transaction of its own.
ONE_BY_ONE = "import belated.service.batch as batch; batch.TOGETHER = 1; from belated.cli import app; app()"


def pairs(url: str, seconds: float) -> float:
    """Decisions, each followed by its feedback, a second: one client that waits for every answer."""
    count = 0
    with Client(url) as client:
        started = time.perf_counter()
        while time.perf_counter() < started + seconds:
            client.feedback("ads", client.decide("ads"), 1.0)
            count += 1
    return count / (time.perf_counter() - started)


def optuna(file: Path, seconds: float) -> float:
    """Ask, then tell, a second."""
    SERVICE.prepare()
    if "optuna" in SERVICE.failed:
        raise MissingError(SERVICE.failed["optuna"])
    command = [str(SERVICE.python), str(HERE / "ask_tell.py"), str(file), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(last_line(done.stderr))
    return float(json.loads(done.stdout)["pairs"])


def fill(file: Path) -> None:
    """A database with many open decisions, as the service would have left it."""
    with ours(file) as url, Client(url) as client:
        client.decide("ads")
    database = sqlite3.connect(file)
    with database:
        database.executescript(
            f"""
            CREATE TEMP TABLE n AS
                WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {OUTSTANDING})
                SELECT i, randomblob(16) AS ticket FROM c;
            INSERT INTO states (experiment, instance, seq, free, state, held, steps, place)
                SELECT experiment, i, seq, free, state, held, steps, 1 + i FROM states, n WHERE instance = 0;
            INSERT INTO decisions
                (ticket, experiment, round, instance, number, action, probability, decided_at, state, stale)
                SELECT n.ticket, experiment, 1 + i, i, number, action, probability, decided_at, state, stale
                FROM n, decisions WHERE round = 1;
            INSERT INTO events (experiment, place, instance, seq, kind, ticket, action, probability, at)
                SELECT experiment, 1 + i, i, seq, kind, n.ticket, action, probability, at
                FROM n, events WHERE place = 1;
            UPDATE heads SET counted = 1 + {OUTSTANDING}, written = 1 + {OUTSTANDING}, rounds = 1 + {OUTSTANDING},
                instances = 1 + {OUTSTANDING}, outstanding = 1 + {OUTSTANDING};
            """
        )
    database.close()
    with opened(file) as url, Client(url, timeout=300) as client:
        assert client.statistics("ads").outstanding == OUTSTANDING + 1


def restart(file: Path) -> tuple[float, float]:
    """Seconds from the start of the process to the first decision, and of CPU that the process took in all."""
    before = os.times()
    started = time.perf_counter()
    with opened(file) as url, Client(url) as client:
        client.decide("ads")
        taken = time.perf_counter() - started
    after = os.times()
    return taken, after.children_user + after.children_system - before.children_user - before.children_system


class Bench(Scale, Table):
    """The service beside others; and at scale."""

    def throughput(self) -> None:
        """64 connections on SQLite, and how even the answers are at half of the load."""
        with ExitStack() as stack:
            bare = stack.enter_context(server(sys.executable, str(HERE / "bare.py"), str(self.folder / "bare.db")))
            urls = {
                "bare": f"{bare}/decisions",
                "ours": stack.enter_context(ours(self.folder / "ours.db")) + DECISIONS,
                "direct": stack.enter_context(ours(self.folder / "direct.db", forecaster="direct(exp3)")) + DECISIONS,
                "one by one": stack.enter_context(ours(self.folder / "one.db", program=ONE_BY_ONE)) + DECISIONS,
            }
            hundred = stack.enter_context(ours(self.folder / "hundred.db")) + DECISIONS
            sides = {name: lambda url=url: float(load(url, self.seconds)["rate"]) for name, url in urls.items()}
            sides["hundred"] = lambda: 100.0 * float(load(hundred, self.seconds, '{"count": 100}')["rate"])
            self.rates(sides)
            self.against("durable decisions, 64 connections, SQLite: a bare endpoint", "ours", "bare", 0.5, 0.9)
            self.against("the same with Direct, which has one state", "direct", "bare", None, None)
            self.against("the same, ours with a commit for each request", "ours", "one by one", 3, 8)
            self.against("100 decisions in one request: one in each", "hundred", "ours", 3, 10)
            half = {name: self.middle(name) / 2 for name in ("ours", "bare")}
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in half}
            for _ in range(self.rounds):
                for name, rate in half.items():
                    found[name].append(load(urls[name], self.seconds, rate=rate))
        spread = {name: [each["p99"] / each["p50"] for each in all_] for name, all_ in found.items()}
        value = statistics.median(a / b for a, b in zip(spread["ours"], spread["bare"], strict=True))
        said = [
            "/".join(f"{statistics.median(each[q] for each in found[name]):.1f}" for q in ("p99", "p50")) + " ms"
            for name in ("ours", "bare")
        ]
        self.add(Row("p99 / p50 at half of the load: the bare endpoint", *said, value, 2, 1.3, small=True))

    def client(self) -> None:
        """One client that waits."""
        with ours(self.folder / "client.db") as url:
            numbers = iter(range(self.rounds))
            self.rates(
                {
                    "pairs": lambda: pairs(url, self.seconds),
                    "optuna": lambda: optuna(self.folder / f"optuna{next(numbers)}.db", self.seconds),
                }
            )
        self.against("one client, decide then feedback: Optuna ask then tell", "pairs", "optuna", 3, 8)

    def postgres(self) -> None:
        """Four workers on PostgreSQL."""
        with cluster() as new, ours(new(), "--workers", "4") as many, ours(self.folder / "beside.db") as one:
            self.rates(
                {
                    "postgres": lambda: float(load(many + DECISIONS, self.seconds)["rate"]),
                    "sqlite": lambda: float(load(one + DECISIONS, self.seconds)["rate"]),
                }
            )
        self.against("PostgreSQL, 4 workers: SQLite, one process", "postgres", "sqlite", 0.4, 0.7)

    def restart(self) -> None:
        """A restart with many open decisions."""
        file = self.folder / "large.db"
        fill(file)
        found = [restart(file) for _ in range(self.rounds)]
        self.cells["restart"], self.cells["restart cpu"] = ([each[n] for each in found] for n in (0, 1))
        taken, cpu = self.middle("restart"), self.middle("restart cpu")
        what = f"restart to first answer, {OUTSTANDING:,} outstanding"
        self.add(Row(what, f"{taken:.2f} s ({cpu:.2f} of CPU)", "-", taken, 5, 1, unit=" s", small=True))


PARTS = ["throughput", "client", "postgres", "restart", *Scale.PARTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="how long one load lasts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round of two seconds")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; several times")
    parser.add_argument("--outstanding", type=int, default=OUTSTANDING, help="open decisions of the part outstanding")
    args = parser.parse_args()
    if args.quick:
        args.seconds, args.rounds = 2.0, 1
    Bench.outstanding_most = args.outstanding
    with tempfile.TemporaryDirectory(prefix="belated-bench-") as name:
        folder = Path(name)
        bench = Bench(folder, args.seconds, args.rounds)
        before, busy = fsync(folder), os.getloadavg()[0]
        bench.run(args.only or PARTS)
        probe = f"fsync: {before:.2f} ms before, {fsync(folder):.2f} ms after"
        probe += f"; load of the machine's {os.cpu_count()} CPUs: {busy:.1f} before, {os.getloadavg()[0]:.1f} after"
    print(table([row.line() for row in bench.rows], HEADER))
    print(probe)
    if not args.only and not args.quick:
        LATEST.parent.mkdir(exist_ok=True)
        content = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
            "machine": probe,
            "header": HEADER,
            "table": [row.line() for row in bench.rows],
            "rounds": bench.cells,
        }
        LATEST.write_text(json.dumps(content, indent=2) + "\n")
        print(f"saved to {LATEST.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
