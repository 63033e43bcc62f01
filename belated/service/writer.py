"""The desk of a machine with workers: they ask it over a socket, from processes of their own."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from belated.ledger.errors import Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.items import Asked, waited
from belated.ledger.ledger import Ledger
from belated.service import api
from belated.service.batch import Busy
from belated.service.desk import SWEEP, Desk
from belated.service.health import CONNECTION
from belated.service.metrics import Metrics
from belated.service.running import running
from belated.service.tracing import Tracer
from belated.service.wire import Line, News, received, told
from belated.service.workers import grace_left

log = logging.getLogger("belated")

#: What workers may ask beside items, each a method of the desk.
READ = ("decision", "statistics", "overview", "lines", "numbers", "tokens", "trouble")
WORDS = ("refresh", "create", "grow", "delete", "record", *READ)
ITEMS = ("submit", "submit_list")
#: Seconds between looks whether all workers have hung up.
TICK = 0.02
#: Failures that are told as they are.
TOLD = (Refused, Busy, StorageError, api.Malformed)


class Asker:
    """Somebody who waits at a worker: where an answer goes, and a connection of ASGI that can only end.

    Most are answered at once and never asked whether they left.
    """

    __slots__ = ("_answer", "_done", "_gone", "_left", "item", "serial")

    def __init__(self, serial: int, answer: Callable[[int, bool, Any], None]) -> None:
        self.serial = serial
        self.item: Asked | None = None  #: what goes with them, if it was not begun
        self._answer = answer
        self._done = self._left = False
        self._gone: asyncio.Event | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, answer: Any) -> None:
        self.end(True, answer)

    def end(self, good: bool, answer: Any) -> None:
        """The answer, or why there is none."""
        self._done = True
        self._answer(self.serial, good, answer)

    def leave(self) -> None:
        self._left = True
        if self._gone is not None:
            self._gone.set()
        if self.item is not None and self.item.leave() and not self._done:
            self.set_result(waited())

    async def __call__(self) -> dict[str, Any]:
        if not self._left:
            self._gone = self._gone or asyncio.Event()
            await self._gone.wait()
        return {"type": "http.disconnect"}


class Clerk:
    """Answers one worker."""

    def __init__(self, desk: Desk, clerks: set[Clerk]) -> None:
        self.line = Line(self._receive, self._end)
        self._desk = desk
        self._clerks = clerks
        self._known: dict[int, Experiment] = {}
        self._broken: dict[str, str] | None = None
        self._asking: dict[int, Asker] = {}
        clerks.add(self)

    def tell(self) -> None:
        """What of the experiments the worker does not know yet."""
        now = {each.id: each for each in self._desk.experiments()}
        broken = self._desk.unopened()
        changed = [told(each) for each in now.values() if self._known.get(each.id) is not each]
        gone = [each.name for each in self._known.values() if each.id not in now]
        if changed or gone or broken != self._broken:
            self._known, self._broken = now, broken
            self.line.say((0, True, News(changed, gone, broken)))

    def _receive(self, line: Line, messages: list[Any]) -> None:
        for serial, word, given in messages:
            if word == "leave":
                if serial in self._asking:
                    self._asking[serial].leave()
                continue
            asker = self._asking[serial] = Asker(serial, self._answer)
            try:
                self._begin(asker, word, given)
            except Exception as error:
                asker.end(False, error)

    def _begin(self, asker: Asker, word: str, given: tuple[Any, ...]) -> None:
        CONNECTION.set(asker)
        if word in ITEMS:
            kind, number, name, parts = given
            item = received(kind, self._find(number, name), parts)
            future = getattr(self._desk, word)(item, asker)
            if future is asker:
                asker.item = item
                return
        elif word in WORDS:
            future = asyncio.ensure_future(getattr(self._desk, word)(*given))
        else:
            raise ValueError(f"{word!r} cannot be asked")
        future.add_done_callback(partial(_pass_on, asker))

    def _find(self, number: int, name: str) -> Experiment:
        found = self._known.get(number)
        if found is None:
            raise Refused("unknown_experiment", f"{name} was deleted")
        return found

    def _answer(self, serial: int, good: bool, value: Any) -> None:
        del self._asking[serial]
        if not good and not isinstance(value, TOLD):
            log.error("a request failed", exc_info=value)
            value = Refused("internal", "this request failed")
        if value is None or isinstance(value, Experiment):  # what was changed is known before it is said to be
            for clerk in self._clerks:
                clerk.tell()
        self.line.say((serial, good, told(value) if isinstance(value, Experiment) else value))

    def _end(self, line: Line) -> None:
        """The worker is gone, and so is everybody who waited there."""
        self._clerks.discard(self)
        for asker in list(self._asking.values()):
            asker.leave()


def _pass_on(asker: Asker, future: asyncio.Future[Any]) -> None:
    error = asyncio.CancelledError() if future.cancelled() else future.exception()
    asker.end(error is None, future.result() if error is None else error)


class Host(Desk):
    """A desk that workers ask too."""

    def __init__(
        self, ledger: Ledger, close: Callable[[], None], patience: float, tracer: Tracer | None, inside: socket.socket
    ) -> None:
        super().__init__(ledger, close, patience, tracer)
        self._inside = inside

    @asynccontextmanager
    async def open(self, metrics: Metrics) -> AsyncIterator[None]:
        """Until the workers have hung up, for which they have the grace."""
        clerks = set[Clerk]()
        async with super().open(metrics), running(accept(self, self._inside, clerks), _tell(clerks)):
            yield
            while clerks and grace_left() > 0.0:
                await asyncio.sleep(TICK)


async def accept(desk: Desk, listening: socket.socket, clerks: set[Clerk]) -> None:
    """The socket stays the parent's: who comes while there is no writer waits there for the next."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    while True:
        try:
            connection, _ = await loop.sock_accept(listening)
        except OSError as error:  # no more files may be open, say
            log.error("a worker waits: %s", error.strerror)
            await asyncio.sleep(SWEEP)
            continue
        clerk = Clerk(desk, clerks)
        await loop.connect_accepted_socket(lambda clerk=clerk: clerk.line, connection)  # type: ignore[misc]
        clerk.tell()


async def _tell(clerks: set[Clerk]) -> None:
    """What other machines changed is known here about a second later, and then at the workers."""
    while True:
        await asyncio.sleep(SWEEP)
        try:
            for clerk in clerks:
                clerk.tell()
        except Exception as error:  # the next may be told
            log.error("workers are not told of experiments", exc_info=error)
