"""Who waits, and whether the database answers: deadlines for requests, and what `/ready` says."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from starlette.types import Receive

from belated.ledger.items import Asked, Probe, waited

#: Seconds that a request may wait before it is begun; and after which it is watched whether its client is still there.
PATIENCE = 10.0
NOTICE = 0.25
#: Seconds that `/ready` waits for the database, and for which an answer is good.
PROBE = 3.0
FRESH = 1.0

#: The connection of the request that is being answered.
CONNECTION: ContextVar[Receive | None] = ContextVar("CONNECTION", default=None)
SILENT = "the database does not answer; try again in a second"


class Attendant:
    """Sees to it that nothing is begun for a client that has gone, or after it has waited for too long."""

    def __init__(self, patience: float, leave: Callable[[Asked, asyncio.Future[Any]], None] | None = None) -> None:
        self._patience = patience
        self._leave = leave or _leave
        self._notice = min(NOTICE, patience)
        #: Those who came last, oldest first: hardly any of them still waits when it is looked at.
        self._new: deque[tuple[float, Asked, asyncio.Future[Any], Receive]] = deque()

    def attend(self, item: Asked, future: asyncio.Future[Any]) -> None:
        """Somebody waits for this."""
        now = time.monotonic()
        item.until = min(item.until, now + self._patience)  # another process may have set it before
        receive = CONNECTION.get()
        if receive is not None:
            if not self._new:
                future.get_loop().call_later(self._notice, self._look)
            self._new.append((now + self._notice, item, future, receive))

    def _look(self) -> None:
        now = time.monotonic()
        while self._new and self._new[0][0] <= now:
            _, item, future, receive = self._new.popleft()
            if not future.done():
                watch = asyncio.ensure_future(self._watch(item, future, receive))
                future.add_done_callback(partial(_end, watch))
        if self._new:
            asyncio.get_running_loop().call_later(self._notice, self._look)

    async def _watch(self, item: Asked, future: asyncio.Future[Any], receive: Receive) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(item.until - time.monotonic()):
                while (await receive())["type"] != "http.disconnect":
                    pass
        self._leave(item, future)


def _end(watch: asyncio.Future[None], _: object) -> None:
    watch.cancel()


def _leave(item: Asked, future: asyncio.Future[Any]) -> None:
    if item.leave() and not future.done():
        future.set_result(waited())


class Readiness:
    """Whether the database answers and takes writes, found out once a second at most."""

    def __init__(self, submit: Callable[[Probe], asyncio.Future[Any]]) -> None:
        self._submit = submit
        self._asked: asyncio.Future[Any] | None = None
        self._at = float("-inf")

    async def trouble(self) -> str | None:
        """Why the service cannot do its work now; None if it can."""
        if self._asked is None or (self._asked.done() and time.monotonic() > self._at + FRESH):
            self._at = time.monotonic()
            self._asked = self._submit(Probe())
        done, _ = await asyncio.wait({self._asked}, timeout=PROBE)
        if not done:
            return f"the database has not answered for {time.monotonic() - self._at:.0f} s"
        answer = self._asked.result()
        return None if answer is True else str(answer)
