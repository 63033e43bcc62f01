"""What the benchmarks of the service share: servers in processes of their own, load for them, and a table."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from install import HERE, MissingError, last_line

sys.path.insert(0, str(HERE.parent))

from belated.client import Client

CONNECTIONS = 64
FORECASTER = "bold(exp3)"
DECISIONS = "/v1/experiments/ads/decisions"
PLAINLY = "from belated.cli import app; app()"

HEADER = ["what", "ours", "other", "figure", "at least", "aim", "verdict"]


class Row(NamedTuple):
    """A line of the table."""

    what: str
    ours: str
    other: str
    value: float | None
    least: float | None
    aim: float | None
    unit: str = "x"
    small: bool = False

    def line(self) -> list[str]:
        """Column by column; small figures are good ones where `small` says so."""
        sign = -1 if self.small else 1
        verdict = "no result" if self.value is None else "for reading"
        if self.value is not None and self.least is not None and self.aim is not None:
            reached = [sign * self.value >= sign * limit for limit in (self.least, self.aim)]
            verdict = "aim" if reached[1] else "ok" if reached[0] else "MISSED"
        figures = ["-" if f is None else f"{f:.3g}{self.unit}" for f in (self.value, self.least, self.aim)]
        return [self.what, self.ours, self.other, *figures, verdict]


# --- servers ---


class Address(str):
    """Where a server is, and the number of its process."""

    pid: int

    def processor(self) -> float:
        """Seconds that its processes took of the processor up to now."""
        taken, tree = 0.0, {self.pid}
        for process in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if process in tree or int(words[1]) in tree:
                tree.add(process)
                taken += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return taken


@contextmanager
def server(*command: str) -> Iterator[Address]:
    """A process that says its address in its first line."""
    environ = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words:
            raise MissingError(f"{command[0]} did not start")
        address = Address(words[-1])
        address.pid = process.pid
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def opened(database: object, *options: str, program: str = PLAINLY) -> AbstractContextManager[Address]:
    """Our service; its address."""
    return server(sys.executable, "-c", program, "serve", "--database", str(database), "--port", "0", *options)


@contextmanager
def ours(database: object, *options: str, program: str = PLAINLY, forecaster: str = FORECASTER) -> Iterator[Address]:
    """The same with a new experiment called ads."""
    with opened(database, *options, program=program) as url:
        with Client(url) as client:
            client.create("ads", ["a", "b", "c"], forecaster)
        time.sleep(2.0)  # what has to be compiled is, beside the service
        yield url


@contextmanager
def cluster() -> Iterator[Callable[[], str]]:
    """What gives addresses of new databases, on a PostgreSQL server of its own; fsync is on."""
    from tests.postgres import MISSING, Cluster, binaries

    programs = binaries()
    if programs is None:
        raise MissingError(MISSING)
    made = Cluster(programs)
    try:
        yield made.new
    finally:
        made.remove()


# --- what is measured ---


def load(url: str, seconds: float, body: str = "{}", rate: float = 0.0) -> dict[str, Any]:
    """Load for a server, from a process of its own."""
    return loaded(loading(url, body, CONNECTIONS, seconds, rate))


def loading(url: str, *given: object) -> subprocess.Popen[str]:
    """The process: see load.py for what it is given."""
    command = [sys.executable, str(HERE / "load.py"), url, *map(str, given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def loaded(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says at its end."""
    out, err = process.communicate()
    if process.returncode:
        raise MissingError(last_line(err))
    result: dict[str, Any] = json.loads(out)
    if result["errors"]:
        raise MissingError(f"{result['errors']} of {result['requests']} requests failed")
    return result


def fsync(folder: Path, times: int = 200) -> float:
    """Milliseconds of an fsync after 4 kB, in the middle."""
    taken = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(b"\0" * 4096)
            started = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(1000 * (time.perf_counter() - started))
    return statistics.median(taken)


# --- the table ---


class Table:
    """Measures group by group; a group is a method."""

    def __init__(self, folder: Path, seconds: float, rounds: int) -> None:
        self.folder = folder
        self.seconds = seconds
        self.rounds = rounds
        self.rows: list[Row] = []
        self.cells: dict[str, list[float]] = {}

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print("  ".join(row.line()), flush=True)

    def rates(self, sides: dict[str, Callable[[], float]]) -> None:
        """Measure sides in turn, round after round."""
        for _ in range(self.rounds):
            for name, measure in sides.items():
                self.cells.setdefault(name, []).append(measure())

    def middle(self, name: str) -> float:
        return statistics.median(self.cells[name])

    def against(
        self, what: str, one: str, other: str, least: float | None, aim: float | None, unit: str = "/s"
    ) -> None:
        """A row: the median of the rounds' ratios."""
        ratio = statistics.median(a / b for a, b in zip(self.cells[one], self.cells[other], strict=True))
        self.add(Row(what, *(f"{self.middle(side):,.0f}{unit}" for side in (one, other)), ratio, least, aim))

    def run(self, parts: list[str]) -> None:
        """All parts; one that cannot be measured is a line that says why."""
        for part in parts:
            try:
                getattr(self, part)()
            except MissingError as error:
                self.add(Row(f"{part}: {error}", "-", "-", None, None, None))
