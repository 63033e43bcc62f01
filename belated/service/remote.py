"""The desk as a worker has it: everything is asked of the writer, which is another process.

A worker knows the experiments, so that it can check what it is asked, and nothing else: it has no database. What was
asked of a writer that is gone is refused; the line is taken up again as soon as there is another.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from belated.errors import InvalidState
from belated.imports import hinted
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import Asked, By, Cancel, Decide, Feedback, Item, Record
from belated.ledger.known import Names
from belated.ledger.store import Token
from belated.service.health import PATIENCE, PROBE, Attendant
from belated.service.metrics import Metrics, Numbers
from belated.service.running import running
from belated.service.wire import Line, News, Told, opened, sent

log = logging.getLogger("belated")

#: Seconds between tries to reach the writer.
RETRY = 0.1
AWAY = "the writer does not answer; it is safe to ask again with the same key or feedback"


def wait_for(address: str) -> None:
    """Until there is a writer, however long that takes."""
    while True:
        with socket.socket(socket.AF_UNIX) as line, contextlib.suppress(OSError):
            line.settimeout(PATIENCE)
            line.connect(address)
            if line.recv(1):
                return
        time.sleep(RETRY)


class Remote(Names):
    """The writer's desk, from another process of the machine."""

    alone = False
    alive = True

    def __init__(self, address: str, patience: float = PATIENCE) -> None:
        super().__init__()
        self._address = address
        self._attendant = Attendant(patience, self._leave)
        self._line: Line | None = None  # once the writer has said something
        self._here = asyncio.Event()
        self._gone = asyncio.Event()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serials = itertools.count(1)

    # --- what is asked ---

    def _expect(self) -> tuple[Line, int, asyncio.Future[Any]]:
        """An answer, by a number."""
        if self._line is None:
            raise Refused("storage", AWAY)
        serial = next(self._serials)
        future = self._waiting[serial] = asyncio.get_running_loop().create_future()
        return self._line, serial, future

    def _ask(self, word: str, *given: Any) -> asyncio.Future[Any]:
        line, serial, future = self._expect()
        line.say((serial, word, given))
        return future

    def submit(self, item: Item) -> asyncio.Future[Any]:
        return self._attended("submit", item)

    def submit_list(self, item: Decide | Feedback | Cancel) -> asyncio.Future[Any]:
        return self._attended("submit_list", item)

    def _attended(self, word: str, item: Any) -> asyncio.Future[Any]:
        line, serial, future = self._expect()
        self._attendant.attend(item, future)
        line.say((serial, word, sent(item)))
        return future

    def _leave(self, item: Asked, future: asyncio.Future[Any]) -> None:
        """Nobody waits any more, or for too long. The writer says whether it has begun: it answers in any case."""
        serial = next((number for number, each in self._waiting.items() if each is future), None)
        if serial is not None and self._line is not None:
            self._line.say((serial, "leave", ()))

    async def refresh(self) -> None:
        await self._ask("refresh")

    async def create(self, body: bytes, by: By) -> Experiment:
        made: Experiment = await self._ask("create", body, by)
        return made

    async def grow(self, name: str, action: str, by: By) -> Experiment:
        changed: Experiment = await self._ask("grow", name, action, by)
        return changed

    async def delete(self, name: str, by: By) -> None:
        await self._ask("delete", name, by)

    async def decision(self, name: str, ticket: bytes | None) -> dict[str, Any]:
        found: dict[str, Any] = await self._ask("decision", name, ticket)
        return found

    async def statistics(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._ask("statistics", name)
        return found

    async def overview(self, only: Collection[str] | None) -> dict[str, Any]:
        found: dict[str, Any] = await self._ask("overview", only)
        return found

    async def lines(self, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._ask("lines", limit)
        return found

    async def numbers(self) -> Numbers:
        found: Numbers = await self._ask("numbers")
        return found

    async def tokens(self) -> tuple[Sequence[Token], float]:
        found: tuple[Sequence[Token], float] = await self._ask("tokens")
        return found

    async def record(self, record: Record) -> None:
        await self._ask("record", record)

    async def trouble(self) -> str | None:
        if self._line is None:
            return "the writer is away; another is being started"
        try:
            why: str | None = await asyncio.wait_for(self._ask("trouble"), PROBE + 1.0)
        except TimeoutError:
            return f"the writer has not answered for {PROBE + 1.0:.0f} s"
        except Refused as refusal:
            return str(refusal)
        return why

    # --- what the writer says ---

    def _receive(self, line: Line, messages: list[Any]) -> None:
        for serial, good, value in messages:
            if isinstance(value, News):
                self._learn(value)
                self._line = line
                self._here.set()
                continue
            future = self._waiting.pop(serial, None)
            if future is None:
                continue
            self._attendant.dismiss((future,))
            if future.done():
                continue
            if not good:
                future.set_exception(value)
                continue
            try:
                future.set_result(opened(value) if isinstance(value, Told) else value)
            except Exception as error:
                future.set_exception(error)

    def _learn(self, news: News) -> None:
        for name in news.gone:
            self._named.pop(name, None)
        self._broken = dict(news.broken)
        for told in news.changed:
            name = told.row.name
            try:
                self._named[name] = opened(told)
            except Exception as error:
                self._named.pop(name, None)
                self._broken[name] = f"{name} cannot be opened: {hinted(error)}"
                log.error(self._broken[name])

    def _lost(self, line: Line) -> None:
        """The writer is gone: nobody knows what it did of what it was asked."""
        self._line = None
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Refused("storage", AWAY))
        self._gone.set()

    # --- from start to end ---

    @asynccontextmanager
    async def open(self, metrics: Metrics) -> AsyncIterator[None]:
        try:
            async with running(self._keep()):
                try:
                    await asyncio.wait_for(self._here.wait(), PATIENCE)
                except TimeoutError:
                    raise InvalidState("the writer does not answer") from None
                yield
        finally:
            if self._line is not None:
                self._line.close()

    async def _keep(self) -> None:
        """Have a line to the writer, again and again. The next one tells everything anew."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(OSError):
                self._gone.clear()
                await loop.create_unix_connection(lambda: Line(self._receive, self._lost), self._address)
                await self._gone.wait()
            await asyncio.sleep(RETRY)
