"""Who waits, and whether the database answers: deadlines for requests, and what `/ready` says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
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


def attend(item: Asked, future: asyncio.Future[Any], patience: float) -> None:
    """See to it that nothing is begun for a client that has gone, or after it has waited for too long."""
    item.until = time.monotonic() + patience
    receive = CONNECTION.get()
    if receive is not None:
        future.get_loop().call_later(min(NOTICE, patience), _look, item, future, receive)


def _look(item: Asked, future: asyncio.Future[Any], receive: Receive) -> None:
    if not future.done():
        watch = asyncio.ensure_future(_watch(item, future, receive))
        future.add_done_callback(lambda _: watch.cancel())


async def _watch(item: Asked, future: asyncio.Future[Any], receive: Receive) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(item.until - time.monotonic()):
            while (await receive())["type"] != "http.disconnect":
                pass
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
