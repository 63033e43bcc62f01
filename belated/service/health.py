"""Who waits, and whether the database answers: deadlines for requests, and what `/ready` says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from belated.ledger.items import Asked, Probe, waited
from belated.service.asgi import Receive

#: Seconds that a request may wait before it is begun; and after which it is watched whether its client is still there.
PATIENCE = 10.0
NOTICE = 0.25
#: Seconds that `/ready` waits for the database, and for which an answer is good.
PROBE = 3.0
FRESH = 1.0

#: The connection of the request that is being answered.
CONNECTION: ContextVar[Receive | None] = ContextVar("CONNECTION", default=None)
SILENT = "the database does not answer; try again in a second"


async def has_left() -> bool:
    """Whether the client of the request that is being answered has gone, as far as is known now."""
    receive = CONNECTION.get()
    try:
        async with asyncio.timeout(0.0):
            return receive is not None and (await receive())["type"] == "http.disconnect"
    except TimeoutError:
        return False


class Attendant:
    """Sees to it that nothing is begun for a client that has gone, or after it has waited for too long."""

    def __init__(self, patience: float, leave: Callable[[Asked, asyncio.Future[Any]], None] | None = None) -> None:
        self._patience = patience
        self._leave = leave or _leave
        self._notice = min(NOTICE, patience)
        #: Who waits and was not looked at yet, oldest first. Hardly anybody is here for long, and what is not kept is
        #: not in the way: a moment's requests are megabytes.
        self._new: dict[Any, tuple[float, Asked, Receive]] = {}
        self._looking = False

    def attend(self, item: Asked, future: asyncio.Future[Any]) -> None:
        """Somebody waits for this."""
        now = time.monotonic()
        if item.until > now + self._patience:  # else another process has set it before
            item.until = now + self._patience
        receive = CONNECTION.get()
        if receive is not None:
            self._new[future] = now + self._notice, item, receive
            if not self._looking:
                self._look_later(future.get_loop())

    def dismiss(self, futures: Iterable[object]) -> None:
        """Nobody waits for these any more: there are answers."""
        for each in futures:
            self._new.pop(each, None)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking = True
        loop.call_later(self._notice, self._look)

    def _look(self) -> None:
        now = time.monotonic()
        self._looking = False
        for future, (at, item, receive) in list(self._new.items()):
            if at > now:
                break
            del self._new[future]
            if not future.done():
                watch = asyncio.ensure_future(self._watch(item, future, receive))
                future.add_done_callback(partial(_end, watch))
        if self._new:
            self._look_later(asyncio.get_running_loop())

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
