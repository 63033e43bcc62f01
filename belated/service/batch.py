"""Requests that wait are served together: one thread gathers them, the ledger serves them in one transaction.

Experiments take turns (`turns.py`), and a large request comes in slices (`limits.py`): what one transaction takes is
bounded, by the size of states too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, cast

from belated.ledger import experiment
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import SHARED, Again, Asked, Cancel, Decide, Feedback, Item, Probe
from belated.ledger.ledger import Ledger
from belated.service.health import PATIENCE, Attendant
from belated.service.limits import parts_of, slices
from belated.service.turns import Turns

log = logging.getLogger("belated")

#: Decisions and feedback that may wait (twice as many in all, if each experiment keeps to its share), and that one
#: transaction takes at most, where states are small.
WAITING = 20_000
TOGETHER = experiment.TOGETHER
#: Seconds to wait for as many as came before, and how often, where so many come and a transaction costs much more than
#: what is in it: on PostgreSQL. (Else those who come from several workers go in two halves by turns.)
LINGER = 0.0005
LINGERS = 3
MANY = 16


class Busy(Exception):
    """Too much is waiting."""


class Answer(Protocol):
    """Where an answer goes: a future, or what is cheaper."""

    def done(self) -> bool:
        """Whether there is one, or nobody wants it any more."""

    def set_result(self, answer: Any, /) -> None:
        """Here it is."""


class Waiting(NamedTuple):
    """An item with what was found out about it, and the answer to come."""

    item: Item
    lane: int | None
    size: int
    weight: int
    future: Answer


class Batcher:
    """Hands items to the ledger from one thread, and their answers back to the event loop."""

    def __init__(
        self,
        ledger: Ledger,
        watch: Callable[[int, int, float], None] = lambda items, weight, seconds: None,
        patience: float = PATIENCE,
    ) -> None:
        self.ledger = ledger
        self._attendant = Attendant(patience)
        self._watch = watch
        self._turns = Turns[Waiting]()
        self._lanes: defaultdict[int | None, int] = defaultdict(int)
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

    def submit(
        self, item: Item, weight: int = 1, *, always: bool = False, to: Answer | None = None
    ) -> asyncio.Future[Any]:
        """The answer to come; Busy if too much waits. Call it from the event loop.

        Who says where it goes `to` sees to it themselves that nothing is begun for nobody.
        """
        experiment, size = (item.experiment, len(parts_of(item)) or 1) if isinstance(item, SHARED) else (None, 1)
        future = self._put(item, experiment, size, weight, always, to)
        begun = isinstance(item, Decide) and item.before  # what has begun is served to its end
        if to is None and isinstance(item, Asked) and not isinstance(item, Probe) and not begun:
            self._attendant.attend(item, future)
        return future

    def submit_list(self, item: Decide | Feedback | Cancel, to: Answer | None = None) -> asyncio.Future[Any]:
        """The answer to a request that may be large: it is served in slices, and others go between."""
        experiment, size = item.experiment, len(parts_of(item)) or 1
        if size > experiment.slice:
            return asyncio.ensure_future(self._in_slices(item, experiment.id, size))
        future = self._put(item, experiment, size, size, False, to)
        if to is None:
            self._attendant.attend(item, future)
        return future

    def _put(
        self, item: Item, experiment: Experiment | None, size: int, weight: int, always: bool, to: Any
    ) -> asyncio.Future[Any]:
        lane, cost = (None, 1) if experiment is None else (experiment.id, experiment.cost)
        if self._weight + weight > WAITING and not always and self._is_full(lane, weight):
            raise Busy
        self._weight += weight
        self._lanes[lane] += weight
        if to is None:
            to = self._loop.create_future()
        self._turns.put(lane, Waiting(item, lane, size, weight, to), size * cost)
        return cast(asyncio.Future[Any], to)

    async def _in_slices(self, item: Decide | Feedback | Cancel, lane: int | None, size: int) -> Any:
        answers: list[Any] = []
        again = True
        with self._room(lane, size):
            for part in slices(item):
                answer = await self.submit(part, 0, always=True)
                if isinstance(answer, Refused) and (isinstance(item, Decide) or not answers):
                    return answer
                answers += [answer] * len(parts_of(part)) if isinstance(answer, Refused) else answer
                again = again and isinstance(answer, Again)
        return Again(answers) if again else answers

    @contextmanager
    def _room(self, lane: int | None, weight: int) -> Iterator[None]:
        if self._is_full(lane, weight):
            raise Busy
        self._weigh(lane, weight)
        try:
            yield
        finally:
            self._weigh(lane, -weight)

    def _is_full(self, lane: int | None, weight: int) -> bool:
        """Whether so much more must not wait: all places are taken, and this experiment has its share of them."""
        if self._weight + weight <= WAITING or self._weight == 0:
            return False
        share = WAITING / len({lane, *self._lanes})
        return self._lanes[lane] + weight > share or self._weight + weight > 2 * WAITING

    def _weigh(self, lane: int | None, weight: int) -> None:
        self._weight += weight
        self._lanes[lane] += weight
        if not self._lanes[lane]:
            del self._lanes[lane]

    async def stop(self) -> None:
        """Serve what waits, then end the thread."""
        self._turns.close()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while self._turns.wait():
            for _ in range(LINGERS if self._linger and self._before >= MANY else 0):
                if len(self._turns) >= self._before:
                    break
                time.sleep(self._linger)
            batch = self._turns.take(TOGETHER)
            started = time.perf_counter()
            answers = self._serve([each.item for each in batch])
            self._before = len(batch) + len(self._turns)
            self._watch(len(batch), sum([each.size for each in batch]), time.perf_counter() - started)
            self._loop.call_soon_threadsafe(self._resolve, batch, answers)

    def _serve(self, items: list[Item]) -> list[Any]:
        """The ledger's answers; whatever happens, everybody gets one and the thread goes on."""
        try:
            return self.ledger.serve(items)
        except Exception as error:
            log.error("a batch failed", exc_info=error)
            return [Refused("internal", "this request failed")] * len(items)

    def _resolve(self, batch: Sequence[Waiting], answers: list[Any]) -> None:
        lanes: defaultdict[int | None, int] = defaultdict(int)
        self._attendant.dismiss([future for _, _, _, _, future in batch])
        for (_, lane, _, weight, future), answer in zip(batch, answers, strict=True):
            lanes[lane] += weight
            if not future.done():
                future.set_result(answer)
        for lane, weight in lanes.items():
            self._weigh(lane, -weight)
