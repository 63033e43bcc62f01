"""Requests that wait are served together: one thread gathers them, the ledger serves them in one transaction."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from belated.ledger.errors import Refused
from belated.ledger.items import Item
from belated.ledger.ledger import Ledger

log = logging.getLogger("belated")

#: Decisions and feedback that may wait, and that one transaction takes at most.
WAITING = 20_000
TOGETHER = 2_000
#: Seconds to wait for as many as came before, where a transaction costs much more than what is in it: on PostgreSQL.
LINGER = 0.001


class Busy(Exception):
    """Too much is waiting."""


class Batcher:
    """Hands items to the ledger from one thread, and their answers back to the event loop."""

    def __init__(self, ledger: Ledger, watch: Callable[[int, int, float], None] = lambda items, weight, seconds: None):
        self.ledger = ledger
        self._watch = watch
        self._queue: queue.SimpleQueue[tuple[Item, int, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._weight = 0
        self._linger = 0.0 if ledger.store.exclusive else LINGER
        self._before = 0
        self._thread = threading.Thread(target=self._run, name="belated writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many decisions and feedback wait or are being served."""
        return self._weight

    @property
    def alive(self) -> bool:
        """Whether the thread works."""
        return self._thread.is_alive()

    def submit(self, item: Item, weight: int = 1, *, always: bool = False) -> asyncio.Future[Any]:
        """The answer to come; Busy if too much waits. Call it from the event loop."""
        if self._weight + weight > WAITING and not always and self._weight > 0:
            raise Busy
        self._weight += weight
        future = self._loop.create_future()
        self._queue.put((item, weight, future))
        return future

    async def stop(self) -> None:
        """Serve what waits, then end the thread."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, last = self._gather(first)
            self._before = len(batch)
            started = time.perf_counter()
            answers = self._serve([item for item, _, _ in batch])
            weight = sum(weight for _, weight, _ in batch)
            self._watch(len(batch), weight, time.perf_counter() - started)
            self._loop.call_soon_threadsafe(self._resolve, batch, answers, weight)
            if last:
                return

    def _serve(self, items: list[Item]) -> list[Any]:
        """The ledger's answers; whatever happens, everybody gets one and the thread goes on."""
        try:
            return self.ledger.serve(items)
        except Exception as error:
            log.error("a batch failed", exc_info=error)
            return [Refused("internal", "this request failed")] * len(items)

    def _gather(self, first: Any) -> tuple[list[tuple[Item, int, asyncio.Future[Any]]], bool]:
        if self._linger and self._queue.qsize() + 1 < self._before:
            time.sleep(self._linger)
        batch, weight = [first], first[1]
        while weight < TOGETHER:
            try:
                entry = self._queue.get_nowait()
            except queue.Empty:
                break
            if entry is None:
                return batch, True
            batch.append(entry)
            weight += entry[1]
        return batch, False

    def _resolve(self, batch: Sequence[tuple[Item, int, asyncio.Future[Any]]], answers: list[Any], weight: int) -> None:
        self._weight -= weight
        for (_, _, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
