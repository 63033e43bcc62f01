"""Several processes that serve one port: a parent that holds the sockets, some workers, and one writer.

The kernel spreads connections over the sockets evenly (on a socket that all share, one process takes nearly all of
them), over those that it is told to choose from (`steering`). The parent keeps them open: where a process died,
connections wait for the next. Workers hand what they are asked to the writer, over a socket in a folder that nobody
else can enter: so requests of all connections share transactions, and no two processes of a machine wait for the same
rows. What a writer that dies had in hand is rolled back.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

from belated.errors import BelatedError, InvalidState
from belated.service.listening import BACKLOG, listen_together
from belated.service.metrics import Place
from belated.service.steering import Steering

log = logging.getLogger("belated")

#: After SIGTERM, and the grace that requests under way have to end: seconds after which a process ends in any case, and
#: after which it is killed.
LAST = 1.5
KILLED = 2.0
#: Seconds between looks.
TICK = 0.5
#: Seconds before one that could not even start is tried again, at first and at most: the database may be gone for long.
PAUSE = 1.0
LONGEST = 8.0
#: Seconds without a sign after which a worker gets no connections if others can, and after which it counts as stopped.
DOUBT = 2.0
SILENT = 5.0
#: What workers have in their environment: they run no kernels, and the compiler would take a third of their memory.
LIGHT = {"NUMBA_DISABLE_JIT": "1"}
#: What a process does: serve these sockets, leave its numbers at this place, and say when it is ready.
Work = Callable[[list[socket.socket], Place, Callable[[str], None]], None]


class Job(NamedTuple):
    """What a process is for."""

    name: str
    work: Work
    sockets: list[socket.socket]
    place: Place
    environment: Mapping[str, str] = {}


class Worker:
    """One process."""

    def __init__(self, job: Job, pause: float = PAUSE) -> None:
        context = multiprocessing.get_context("spawn")
        job.place.begin()
        self._said, said = context.Pipe(duplex=False)
        self._place, self._beat, self._since = job.place, job.place.beats(), time.monotonic()
        self.process: SpawnProcess = context.Process(target=_child, args=(job, said), name=f"belated {job.name}")
        with _environment(job.environment):
            self.process.start()
        said.close()
        self.url: str | None = None
        self._pause = pause
        self._ended: float | None = None

    def look(self) -> None:
        """Learn whether it is ready."""
        if self.url is None and self._said.poll():
            try:
                self.url = self._said.recv()
            except EOFError:
                self.url = None

    def silent(self) -> float:
        """For how long it has given no sign, since it was ready."""
        beat = self._place.beats()
        if beat != self._beat or self.url is None:
            self._beat, self._since = beat, time.monotonic()
        return time.monotonic() - self._since

    def is_over(self) -> bool:
        """Whether another may take the place of one that has ended; it is said once why there will be one."""
        pause = self._pause if self.url is None else 0.0
        if self._ended is None:
            self._ended = time.monotonic()
            later = f" in {pause:g} s" if pause else ""
            ended = _end_of(self.process.exitcode)
            log.error("%s, process %s, %s: replaced%s", self.process.name, self.process.pid, ended, later)
        return time.monotonic() >= self._ended + pause

    def pause_of_next(self) -> float:
        """For how long the next is waited for if that cannot start either."""
        return min(2.0 * self._pause, LONGEST) if self.url is None else PAUSE

    def excuse(self) -> None:
        """Nobody was there to see a sign."""
        self._since = time.monotonic()

    @property
    def able(self) -> bool:
        """Whether it can serve, as far as one can see."""
        here = self.url is not None and self.process.is_alive()
        return here and not self._place.ends() and self.silent() < DOUBT

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


def supervise(
    write: Work, answer: Work, host: str, port: int, count: int, started: Callable[[str], None], grace: float
) -> None:
    """Keep a writer and so many workers until SIGTERM or Ctrl-C; then requests have so many seconds to end.

    The writer is given its sockets of the port and the one for workers, a worker only those of the port.
    """
    stop = threading.Event()

    asked: list[int] = []

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        stop.set()

    public = listen_together(host, port, 1 + count)
    handlers = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    workers: list[Worker] = []
    shared = TemporaryDirectory(prefix="belated-")  # which is private
    folder = Path(shared.name)
    places = [Place(folder, number) for number in range(1 + count)]
    steering = [Steering(of_one_address) for of_one_address in zip(*public, strict=True)]
    inside = _listen_inside(places[0].writer)
    jobs = [Job("writer", write, [*public[0], inside], places[0])]
    jobs += [Job("worker", answer, own, place, LIGHT) for own, place in zip(public[1:], places[1:], strict=True)]
    try:
        workers += map(Worker, jobs)
        _until_ready(workers, stop)
        if not stop.is_set():
            started(workers[-1].url or "")
        looked = time.monotonic()
        while not stop.is_set():
            multiprocessing.connection.wait([w.process.sentinel for w in workers if w.process.is_alive()], TICK)
            before, looked = looked, time.monotonic()
            if looked > before + TICK + DOUBT:  # this process was stopped, and perhaps all of them
                for worker in workers:
                    worker.excuse()
            for each in steering:
                each.choose([number for number, worker in enumerate(workers) if worker.able])
            if not stop.is_set():
                _replace_dead(workers, jobs)
    finally:
        for listening in (inside, *chain(*public)):  # nobody can wait there any more
            listening.close()
        good = _end(workers, grace + KILLED)
        shared.cleanup()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if not good:
        sys.exit(1)
    if signal.SIGINT in asked:
        signal.raise_signal(signal.SIGINT)


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


def _replace_dead(workers: list[Worker], jobs: list[Job]) -> None:
    for number, worker in enumerate(workers):
        worker.look()
        if worker.process.is_alive() and worker.silent() > SILENT:
            worker.kill()
        if not worker.process.is_alive() and worker.is_over():
            workers[number] = Worker(jobs[number], worker.pause_of_next())


def _end(workers: list[Worker], patience: float) -> bool:
    """All at once: the writer goes on until the workers have hung up. Whether all ended in order."""
    deadline = time.monotonic() + patience
    running = [worker for worker in workers if worker.process.is_alive()]
    for worker in running:
        worker.process.terminate()
    for worker in running:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            log.error("process %s did not end in %g s and is killed", worker.process.pid, patience)
            worker.process.kill()
            worker.process.join()
    return all(worker.process.exitcode in (0, -signal.SIGTERM) for worker in running)  # that: before it had begun


#: When this process ends in any case.
_end_at = math.inf


def end_in_time(grace: float) -> None:
    """End in any case soon after the grace, should the database not answer any more."""
    global _end_at
    _end_at = time.monotonic() + grace + LAST
    last = threading.Timer(grace + LAST, _leave, (grace + LAST,))
    last.daemon = True
    last.start()


def grace_left() -> float:
    """Seconds that requests under way have, once the process was told to end."""
    return _end_at - LAST - time.monotonic()


def _leave(seconds: float) -> None:
    log.error("the service did not end in %g s; what was not committed is rolled back", seconds)
    os._exit(1)


def _child(job: Job, said: multiprocessing.connection.Connection) -> None:
    with suppress(OSError):
        Path("/proc/self/comm").write_text(f"belated {job.name}")  # what `ps` and `top` show
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's: it tells the others
    threading.Thread(target=_end_with_parent, name="belated parent watch", daemon=True).start()
    try:
        job.work(job.sockets, job.place, said.send)
    except BelatedError as error:
        sys.exit(f"error: {error}")
    finally:
        if not _parent().is_alive():  # it was killed, and could not do that itself
            shutil.rmtree(job.place.folder, ignore_errors=True)


def _end_with_parent() -> None:
    multiprocessing.connection.wait([_parent().sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _parent() -> multiprocessing.process.BaseProcess:
    parent = multiprocessing.parent_process()
    assert parent is not None
    return parent
