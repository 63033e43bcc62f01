"""Several processes that serve one port: a parent that holds the sockets, and a worker for each.

The kernel spreads connections over the sockets evenly (on a socket that all share, one worker takes nearly all of
them). The parent keeps them open: where a worker died, connections wait for the next. Workers meet in the database
only; what one that dies had in hand is rolled back there.
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
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from belated.errors import BelatedError, InvalidState
from belated.service.metrics import Place

log = logging.getLogger("belated")

#: Seconds between looks, and before a worker that could not start is replaced.
TICK = 0.5
PAUSE = 1.0
#: Seconds without a sign after which a worker counts as stopped.
SILENT = 5.0
#: Connections that may wait.
BACKLOG = 2048

#: What a worker does: serve this socket, leave its numbers at this place, and say when it is ready.
Work = Callable[[socket.socket, Place, Callable[[str], None]], None]


class Worker:
    """One process."""

    def __init__(self, work: Work, listening: socket.socket, place: Place) -> None:
        context = multiprocessing.get_context("spawn")
        self._said, said = context.Pipe(duplex=False)
        self._place, self._beat, self._since = place, place.beats(), time.monotonic()
        given = (work, listening, place, said)
        self.process: SpawnProcess = context.Process(target=_child, args=given, name="belated worker")
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
        log.error("worker %s gives no sign for %g s and is killed", self.process.pid, SILENT)
        self.process.kill()
        self.process.join()


def supervise(work: Work, host: str, port: int, count: int, started: Callable[[str], None], patience: float) -> None:
    """Keep so many workers until SIGTERM or Ctrl-C; then they have so many seconds to end."""
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    workers: list[Worker] = []
    sockets = _listen(host, port, count)
    shared = TemporaryDirectory(prefix="belated-metrics-")
    places = [Place(Path(shared.name), number) for number in range(count)]
    try:
        workers += [Worker(work, *given) for given in zip(sockets, places, strict=True)]
        _until_ready(workers, stop)
        if not stop.is_set():
            started(workers[0].url or "")
        while not stop.is_set():
            multiprocessing.connection.wait([worker.process.sentinel for worker in workers], TICK)
            _replace_dead(workers, work, sockets, places, stop)
    finally:
        _end(workers, patience)
        shared.cleanup()
        for listening in sockets:
            listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)


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
                raise InvalidState(f"a worker ended before it was ready, with exit code {worker.process.exitcode}")


def _replace_dead(
    workers: list[Worker], work: Work, sockets: list[socket.socket], places: list[Place], stop: threading.Event
) -> None:
    for number, worker in enumerate(workers):
        worker.look()
        if worker.process.is_alive() and worker.stopped():
            worker.kill()
        if worker.process.is_alive() or stop.is_set():
            continue
        log.error("worker %s died with exit code %s and is replaced", worker.process.pid, worker.process.exitcode)
        if worker.url is None:  # it could not even start: the database may be gone for a while
            stop.wait(PAUSE)
        workers[number] = Worker(work, sockets[number], places[number])


def _end(workers: list[Worker], patience: float) -> None:
    deadline = time.monotonic() + patience
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            log.error("worker %s did not end in %g s and is killed", worker.process.pid, patience)
            worker.process.kill()
            worker.process.join()


def _child(work: Work, listening: socket.socket, place: Place, said: multiprocessing.connection.Connection) -> None:
    threading.Thread(target=_end_with_parent, name="belated parent watch", daemon=True).start()
    try:
        work(listening, place, said.send)
    except BelatedError as error:
        sys.exit(f"error: {error}")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
