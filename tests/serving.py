"""The service in processes of its own, for tests: started, asked, killed at any moment, and started again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import httpx

from belated.ledger.database import open_store
from belated.ledger.ledger import Ledger
from belated.ledger.store import Event
from belated.ledger.verify import verify
from belated.service.desk import Desk
from belated.service.metrics import Metrics
from belated.service.remote import Remote
from belated.service.writer import accept
from tests.rows import all_decisions, all_events


def children(pid: int, kind: str = "") -> list[int]:
    """The processes of a server: all, or its workers, or its writer."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{entry}/cmdline") as file:
                ours = "spawn_main" in file.read()
            with open(f"/proc/{entry}/comm") as file:
                ours = ours and file.read().strip().endswith(kind)
        except OSError:
            continue
        if parent == pid and ours:
            found.append(int(entry))
    return sorted(found)


@asynccontextmanager
async def behind_a_socket(desk: Desk, address: Path) -> AsyncIterator[Remote]:
    """A desk as another process would have it."""
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(address))
        listening.listen()
        async with desk.open(Metrics()):
            accepting = asyncio.create_task(accept(desk, listening, set()))
            yield Remote(str(address), desk.patience)
            accepting.cancel()


def kill(pids: list[int]) -> None:
    """kill -9."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def memory(pid: int) -> int:
    """Kilobytes of memory that a process really has."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


#: The service as if there were so many processors.
PROGRAM = """
import os
os.sched_getaffinity = lambda pid: set(range({}))
from belated.cli import app
app()
"""


class Server:
    """`belated serve` on a free port, as if there were so many processors: on fewer than three workers do nothing."""

    def __init__(self, database: str, workers: int = 1, *options: str, processors: int = 8) -> None:
        self.database = database
        self.workers = workers
        self.options = options
        self.program = PROGRAM.format(processors)
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self, stderr: Any = subprocess.DEVNULL) -> None:
        command = [sys.executable, "-c", self.program, "serve", "--database", self.database, "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--workers", str(self.workers), *self.options],
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " at http://" in line, "the server did not start"
        self.url = line.split()[-1]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """The server's process, and its workers."""
        return [self.pid, *children(self.pid)]

    def reap(self) -> None:
        """It was killed, and is gone when this returns."""
        self._wait()

    def stop(self) -> None:
        """SIGTERM, which drains within 10 s."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        self._wait()

    def _wait(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.wait(20)
        self.process.stdout.close()


class Load:
    """Clients in threads that decide, give feedback, cancel and ask again, and keep what was acknowledged."""

    def __init__(self, server: Server, experiments: list[str], threads: int = 4, most: int = 15) -> None:
        self.server = server
        self.experiments = experiments
        self.most = most
        self.decided: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, tuple[str, float | None]] = {}  # ticket: status that was acknowledged, value
        self.answers = 0
        self.peaks: Counter[str] = Counter()
        self.wrong: list[BaseException] = []
        self.struck = threading.Event()
        self._strike: tuple[int, list[int]] | None = None
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._go = threading.Event()
        self._over = threading.Event()
        self._steps = [threading.Lock() for _ in range(threads)]
        self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(threads)]
        for thread in self._threads:
            thread.start()

    def go(self) -> None:
        """Start, or go on."""
        self._go.set()

    def pause(self) -> None:
        """Nothing is under way when this returns."""
        self._go.clear()
        for lock in self._steps:
            lock.acquire()
            lock.release()
        if self.wrong:
            raise self.wrong[0]

    def arm(self, answers: int, pids: list[int]) -> None:
        """Kill these processes in the moment in which so many more answers have come: not a millisecond is given."""
        self.struck.clear()
        self._strike = self.answers + answers, pids

    def _answered(self) -> None:
        self.answers += 1
        if self._strike is not None and self.answers >= self._strike[0]:
            kill(self._strike[1])
            self._strike = None
            self.struck.set()

    def end(self) -> None:
        self._over.set()
        self._go.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _run(self, number: int) -> None:
        client = Client(self, number)
        try:
            while not self._over.is_set():
                self._go.wait()
                with self._steps[number]:
                    if self._go.is_set() and not self._over.is_set():
                        client.step()
        except BaseException as error:
            self.wrong.append(error)
        finally:
            client.http.close()

    # --- what is open or in flight, and what was acknowledged ---

    def asked(self, experiment: str, count: int) -> None:
        with self._lock:
            self._open[experiment] += count
            self.peaks[experiment] = max(self.peaks[experiment], self._open[experiment])

    def was_decided(self, experiment: str, made: list[dict[str, Any]]) -> None:
        with self._lock:
            self._answered()
            for each in made:
                assert each["ticket"] not in self.decided, "a ticket was given out twice"
                self.decided[each["ticket"]] = each | {"experiment": experiment}

    def has_ended(self, experiment: str, ticket: str, status: str, value: float | None) -> None:
        with self._lock:
            self._answered()
            self.ended[ticket] = (status, value)
            if status not in ("late", "expired"):  # those are open until they are swept
                self._open[experiment] -= 1


class Client:
    """One of them. What got no answer is asked again, the same."""

    def __init__(self, load: Load, number: int) -> None:
        self.load = load
        self.draws = random.Random(number)
        self.http = httpx.Client(timeout=15)
        self.waiting: dict[str, list[str]] = {name: [] for name in load.experiments}
        self.unsure: list[tuple[str, list[tuple[str, float | None]]]] = []
        self.keys = (f"{number}-{n}" for n in range(10**9))
        self.known: tuple[str, str, dict[str, Any], list[Any]] | None = None
        self.lost: tuple[str, str, dict[str, Any]] | None = None

    def step(self) -> None:
        """One request. A server that is gone, or too busy, answers nothing that counts."""
        try:
            if self.lost is not None:
                self.decide(*self.lost)
            elif self.unsure:
                self.end(*self.unsure.pop())
            else:
                self.something()
        except httpx.TransportError:
            self.http.close()
            self.http = httpx.Client(timeout=15)
            time.sleep(0.01)

    def something(self) -> None:
        name = self.draws.choice(self.load.experiments)
        waiting = self.waiting[name]
        if len(waiting) > self.load.most or (waiting and self.draws.random() < 0.5):
            self.draws.shuffle(waiting)
            count = self.draws.randrange(1, 6)
            some, self.waiting[name] = waiting[:count], waiting[count:]
            if self.draws.random() < 0.15:
                self.end(name, [(ticket, None) for ticket in some])
            else:
                self.end(name, [(ticket, self.draws.randrange(5) / 4) for ticket in some])
        elif self.known is not None and self.draws.random() < 0.1:
            name, key, body, before = self.known
            assert self._decisions(name, key, body) in (before, None), "the same key got another answer"
        else:
            body = {"count": self.draws.randrange(1, 5)}
            self.load.asked(name, body["count"])
            self.decide(name, next(self.keys), body)

    def decide(self, name: str, key: str, body: dict[str, Any]) -> None:
        self.lost = name, key, body
        made = self._decisions(name, key, body)
        if made is not None:
            self.lost, self.known = None, (name, key, body, made)
            self.load.was_decided(name, made)
            self.waiting[name] += [each["ticket"] for each in made]

    def _decisions(self, name: str, key: str, body: dict[str, Any]) -> list[Any] | None:
        answer = self.http.post(
            f"{self.load.server.url}/v1/experiments/{name}/decisions", json=body, headers={"Idempotency-Key": key}
        )
        assert answer.status_code in (201, 503), answer.text
        made: list[Any] | None = answer.json().get("decisions")
        return made

    def end(self, name: str, entries: list[tuple[str, float | None]]) -> None:
        """Feedback, or cancellations where the values are None."""
        self.unsure.append((name, entries))
        what = "cancellations" if entries[0][1] is None else "feedback"
        body = [{"ticket": t} if value is None else {"ticket": t, "value": value} for t, value in entries]
        answer = self.http.post(f"{self.load.server.url}/v1/experiments/{name}/{what}", json=body)
        if answer.status_code == 503:
            return
        assert answer.status_code == 200, answer.text
        self.unsure.pop()
        for (ticket, value), result in zip(entries, answer.json()["results"], strict=True):
            status = result["status"]
            if status == "error" and result["error"]["kind"] == "storage":
                self.unsure.append((name, [(ticket, value)]))
                continue
            if status == "error":
                assert result["error"]["kind"] == "expired", result
                status = "expired"
            assert status in ("applied", "duplicate", "late", "cancelled", "expired"), result
            self.load.has_ended(name, ticket, status, value)


def check(load: Load) -> None:
    """What was acknowledged is there, once, and every state comes out again from its events."""
    store = open_store(load.server.database)
    try:
        tickets = [bytes.fromhex(ticket) for ticket in load.decided]
        rounds: dict[str, list[int]] = defaultdict(list)
        with store.read() as session:
            names = {row.id: row.name for row in session.experiments()}
            found = session.decisions(tickets)
            events = {name: all_events(session, number) for number, name in names.items()}
            heads = {names[number]: head for number, head in session.heads().items()}
            given = {name: [row.round for row in all_decisions(session, number)] for number, name in names.items()}
        for ticket, made in load.decided.items():
            row = found.get(bytes.fromhex(ticket))
            assert row is not None, f"the acknowledged decision {made} is lost"
            assert (names[row.experiment], row.action, row.probability, row.round) == (
                made["experiment"], made["action"], made["probability"], made["round"]
            )  # fmt: skip
            rounds[made["experiment"]].append(row.round)
            status, value = load.ended.get(ticket, ("", None))
            if status in ("applied", "duplicate"):
                assert row.state == "closed" and row.value == repr(value), f"feedback {value} for {row} is lost"
            elif status:
                assert row.state in {"cancelled": ("cancelled",)}.get(status, ("open", "expired")), (status, row)
        assert all(len(set(each)) == len(each) for each in rounds.values()), "a round was given out twice"
        for name, all_ in events.items():
            ends = Counter(event.ticket for event in all_ if event.kind != "decide")
            assert not ends or max(ends.values()) == 1, "a decision ended twice"
            assert [event.place for event in all_] == list(range(1, heads[name].last + 1)), "the log has gaps"
            decided = [event.instance for event in all_ if event.kind == "decide"]
            assert sorted(given[name]) == list(range(1, len(decided) + 1)), "rounds have gaps"
            if name.startswith("bold"):
                check_pool(load, name, all_, max(decided, default=0) + 1)
        reports = list(verify(store))
        assert {report.verdict for report in reports} == {"identical"}, [str(report) for report in reports]
    finally:
        store.close()


def check_counts(load: Load) -> None:
    """Statistics, folded from the events, tell what the rows tell. The server must be down."""
    store = open_store(load.server.database)
    try:
        ledger = Ledger(store)
        for experiment in ledger.experiments():
            with store.read() as session:
                rows = all_decisions(session, experiment.id)
            assert [row.round for row in rows] == list(range(1, len(rows) + 1))
            states = Counter(row.state for row in rows)
            pulls = Counter(row.action for row in rows)
            told = ledger.statistics(experiment)
            assert (told["decisions"], told["feedback"]) == (len(rows), states["closed"])
            assert (told["cancelled"], told["expired"]) == (states["cancelled"], states["expired"])
            assert told["outstanding"] == states["open"]
            assert told["pulls"] == [pulls[action] for action in range(len(experiment.actions))]
    finally:
        store.close()


def check_pool(load: Load, name: str, events: list[Event], instances: int) -> None:
    """No instance was handed out twice, and there are as many of them as decisions were open at once."""
    busy: dict[int, bytes | None] = {}
    open_ = peak = 0
    for event in events:
        before = busy.get(event.instance)
        if event.kind == "decide":
            assert before is None, f"instance {event.instance} was handed out while it was busy"
        else:
            assert before == event.ticket, f"instance {event.instance} was freed by another decision"
        busy[event.instance] = event.ticket if event.kind == "decide" else None
        open_ += 1 if event.kind == "decide" else -1
        peak = max(peak, open_)
    assert instances == len(busy) == peak <= load.peaks[name], (instances, peak, load.peaks[name])
