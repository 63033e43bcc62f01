"""Several processes that serve one port: a parent that holds the sockets, a worker for each, and one writer.

There are no more workers than can run beside the writer.

The kernel spreads connections over the sockets evenly (on a socket that all share, one worker takes nearly all of
them). The parent keeps them open: where a process died, connections wait for the next. Workers hand what they are asked
to the writer, over a socket in a folder that nobody else can enter: so requests of all connections share transactions,
and no two processes of a machine wait for the same rows. What a writer that dies had in hand is rolled back.
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

from belated.errors import BelatedError, InvalidState
from belated.service.metrics import Place

log = logging.getLogger("belated")

#: After SIGTERM, and the grace that requests under way have to end: seconds after which a process ends in any case, and
#: after which it is killed.
LAST = 1.5
KILLED = 2.0
#: Seconds between looks, and before a worker that could not start is replaced.
TICK = 0.5
PAUSE = 1.0
#: Seconds without a sign after which a worker counts as stopped.
SILENT = 5.0
#: What workers have in their environment: they run no kernels, and the compiler would take a third of their memory.
LIGHT = {"NUMBA_DISABLE_JIT": "1"}
#: Connections that may wait.
BACKLOG = 2048

#: What a process does: serve this socket, leave its numbers at this place, and say when it is ready.
Work = Callable[[socket.socket, Place, Callable[[str], None]], None]


class Job(NamedTuple):
    """What a process is for."""

    name: str
    work: Work
    listening: socket.socket
    place: Place
    environment: Mapping[str, str] = {}


class Worker:
    """One process."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self._said, said = context.Pipe(duplex=False)
        self._place, self._beat, self._since = job.place, job.place.beats(), time.monotonic()
        self.process: SpawnProcess = context.Process(target=_child, args=(job, said), name=f"belated {job.name}")
        with _environment(job.environment):
            self.process.start()
        said.close()
        self.url: str | None = None

    def look(self) -> None:
        """Learn whether it is ready."""
        if self.url is None and self._said.poll():
            try:
                self.url = self._said.recv()
            except EOFError:
                self.url = None

    def stopped(self) -> bool:
        """Whether it serves no more, though it lives: it was ready, and has given no sign for too long."""
        beat = self._place.beats()
        if beat != self._beat or self.url is None:
            self._beat, self._since = beat, time.monotonic()
        return time.monotonic() - self._since > SILENT

    def kill(self) -> None:
        """End it at once: what it had in hand is rolled back, and whoever waits at its socket is served by the next."""
        log.error("%s, process %s, gives no sign for %g s: killed", self.process.name, self.process.pid, SILENT)
        self.process.kill()
        self.process.join()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """For processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({name: value} if value is not None else {})


def spare() -> int:
    """How many workers this machine has processors for, beside the writer's; one at least.

    More of them only take turns, and each finds the caches full of what the one before had there: on two processors
    four answered a fifth less than one, and took a third more time for it.
    """
    known = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return max(1, len(known) - 1)


def supervise(
    write: Work, answer: Work, host: str, port: int, count: int, started: Callable[[str], None], grace: float
) -> None:
    """Keep a writer and up to so many workers until SIGTERM or Ctrl-C; then requests have so many seconds to end."""
    stop = threading.Event()
    if count > spare():
        log.info("workers are %d, not %d: as many as there are processors beside the writer's", spare(), count)
        count = spare()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    workers: list[Worker] = []
    shared = TemporaryDirectory(prefix="belated-")  # which is private
    folder = Path(shared.name)
    places = [Place(folder, number) for number in range(1 + count)]
    sockets = [_listen_inside(places[0].writer), *_listen(host, port, count)]
    jobs = [Job("writer", write, sockets[0], places[0])]
    jobs += [Job("worker", answer, *given, LIGHT) for given in zip(sockets[1:], places[1:], strict=True)]
    try:
        workers += map(Worker, jobs)
        _until_ready(workers, stop)
        if not stop.is_set():
            started(workers[-1].url or "")
        while not stop.is_set():
            multiprocessing.connection.wait([worker.process.sentinel for worker in workers], TICK)
            _replace_dead(workers, jobs, stop)
    finally:
        _end(workers, grace + KILLED)
        shared.cleanup()
        for job in jobs:
            job.listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen_inside(address: str) -> socket.socket:
    """The socket of the writer."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise InvalidState(f"cannot listen on {address}: {error}") from None
    listening.listen(BACKLOG)
    return listening


def _listen(host: str, port: int, count: int) -> list[socket.socket]:
    """So many sockets on one port, which nobody else may have."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as alone:
        port = alone.getsockname()[1]
    return [socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=True) for _ in range(count)]


def _until_ready(workers: list[Worker], stop: threading.Event) -> None:
    while not stop.is_set() and not all(worker.url for worker in workers):
        multiprocessing.connection.wait([worker.process.sentinel for worker in workers], 0.05)
        for worker in workers:
            worker.look()
            if not worker.process.is_alive():
                raise InvalidState(f"a process {_end_of(worker.process.exitcode)} before it was ready")


def _end_of(code: int | None) -> str:
    """How a process ended.

    >>> _end_of(-9), _end_of(1)
    ('was killed by SIGKILL', 'ended with exit code 1')
    """
    try:
        return f"was killed by {signal.Signals(-(code or 0)).name}"
    except ValueError:
        return f"ended with exit code {code}"


def _replace_dead(workers: list[Worker], jobs: list[Job], stop: threading.Event) -> None:
    for number, worker in enumerate(workers):
        process = worker.process
        worker.look()
        if process.is_alive() and worker.stopped():
            worker.kill()
        if process.is_alive() or stop.is_set():
            continue
        log.error("%s, process %s, %s: replaced", process.name, process.pid, _end_of(process.exitcode))
        if worker.url is None:  # it could not even start: the database may be gone for a while
            stop.wait(PAUSE)
        workers[number] = Worker(jobs[number])


def _end(workers: list[Worker], patience: float) -> None:
    """All at once: the writer goes on until the workers have hung up."""
    deadline = time.monotonic() + patience
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            log.error("process %s did not end in %g s and is killed", worker.process.pid, patience)
            worker.process.kill()
            worker.process.join()


def end_in_time(grace: float) -> None:
    """End in any case soon after the grace, should the database not answer any more."""
    last = threading.Timer(grace + LAST, _leave, (grace + LAST,))
    last.daemon = True
    last.start()


def _leave(seconds: float) -> None:
    log.error("the service did not end in %g s; what was not committed is rolled back", seconds)
    os._exit(1)


def _child(job: Job, said: multiprocessing.connection.Connection) -> None:
    with suppress(OSError):
        Path("/proc/self/comm").write_text(f"belated {job.name}")  # what `ps` and `top` show
    threading.Thread(target=_end_with_parent, name="belated parent watch", daemon=True).start()
    try:
        job.work(job.listening, job.place, said.send)
    except BelatedError as error:
        sys.exit(f"error: {error}")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
