"""The desk of the writer: everything that asks the ledger, and its clock. The routes know nothing behind it.

Where one process does all, the routes stand at this desk. Where there are several, it is in the writer's process, and
the others ask it over a socket (`remote.py`), by the same words.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Protocol

from belated.errors import InvalidArgument
from belated.ledger import access, replicas
from belated.ledger.errors import Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.items import (
    By,
    Cancel,
    Create,
    Decide,
    Delete,
    Erase,
    Feedback,
    Grow,
    Item,
    Record,
    Save,
    Sweep,
    Upkeep,
)
from belated.ledger.ledger import Ledger
from belated.ledger.store import Token
from belated.service import api
from belated.service.batch import Answer, Batcher
from belated.service.health import PATIENCE, SILENT, Readiness
from belated.service.metrics import Metrics, Numbers
from belated.service.running import running
from belated.service.tracing import Tracer, both

log = logging.getLogger("belated")

#: Seconds between sweeps, and between savings of statistics; events after which these are saved earlier.
SWEEP = 1.0
UPKEEP = 30.0
UNSAVED = 50_000
#: The same for learner states: a start lives through the events that are not in them.
SAVE = 10.0
BEHIND = 20_000
#: After some states are on record who waits goes first, for so many times as long as that took.
REST = 4.0


class Asks(Protocol):
    """What the routes ask, here or over a socket. Experiments are known by name; refusals of coroutines are raised."""

    @property
    def alone(self) -> bool:
        """Whether nobody else writes to the database: then there is no experiment that is not known."""

    @property
    def alive(self) -> bool:
        """Whether this process can do its work."""

    def find(self, name: str) -> Experiment:
        """An experiment, as it was known last."""

    def experiments(self) -> list[Experiment]:
        """All that can be used, oldest first."""

    def submit(self, item: Item) -> Awaitable[Any]:
        """The ledger's answer, committed; it may be a refusal."""

    def submit_list(self, item: Decide | Feedback | Cancel) -> Awaitable[Any]:
        """The same for what may be many."""

    async def refresh(self) -> None:
        """Learn what other processes changed."""

    async def create(self, body: bytes, by: By) -> Experiment:
        """A new experiment."""

    async def grow(self, name: str, action: str, by: By) -> Experiment:
        """One more action."""

    async def delete(self, name: str, by: By) -> None:
        """An experiment goes, with all its data."""

    async def decision(self, name: str, ticket: bytes | None) -> dict[str, Any]:
        """A decision as data."""

    async def statistics(self, name: str) -> dict[str, Any]:
        """What happened so far, up to the last commit."""

    async def overview(self, only: Collection[str] | None) -> dict[str, Any]:
        """A few numbers of all experiments, or of those among these names."""

    async def lines(self, limit: int) -> list[dict[str, Any]]:
        """So many of the last lines of the log of who did what, newest first."""

    async def numbers(self) -> Numbers:
        """What Prometheus is told of each experiment."""

    async def tokens(self) -> tuple[Sequence[Token], float]:
        """The tokens that are stored, and the time there."""

    async def record(self, record: Record) -> None:
        """Put on record who used tokens."""

    async def trouble(self) -> str | None:
        """Why nothing can be done now; None if it can."""

    def open(self, metrics: Metrics) -> contextlib.AbstractAsyncContextManager[None]:
        """The time in which it can be asked."""


class Desk:
    """Where the ledger is."""

    def __init__(
        self,
        ledger: Ledger,
        close: Callable[[], None] = lambda: None,
        patience: float = PATIENCE,
        tracer: Tracer | None = None,
    ) -> None:
        self.ledger = ledger
        self._tracer = tracer
        self.patience = patience
        self._close = close
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="belated reader")
        self._batcher: Batcher | None = None

    @property
    def batcher(self) -> Batcher:
        assert self._batcher is not None
        return self._batcher

    @property
    def alone(self) -> bool:
        return self.ledger.store.exclusive

    @property
    def alive(self) -> bool:
        return self._batcher is None or self._batcher.alive

    def find(self, name: str) -> Experiment:
        return self.ledger.find(name)

    def experiments(self) -> list[Experiment]:
        return self.ledger.experiments()

    def unopened(self) -> dict[str, str]:
        """Those that cannot be used, and why."""
        return self.ledger.unopened()

    def submit(self, item: Item, to: Answer | None = None) -> asyncio.Future[Any]:
        return self.batcher.submit(item, to=to)

    def submit_list(self, item: Decide | Feedback | Cancel, to: Answer | None = None) -> asyncio.Future[Any]:
        return self.batcher.submit_list(item, to)

    async def _ask(self, item: Item) -> Any:
        answer = await self.submit(item)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def _aside(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Something slow, out of the event loop's way."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *arguments)

    async def _look(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What the database says, if it says it in time; nobody waits longer than for a decision."""
        try:
            return await asyncio.wait_for(self._aside(work, *arguments), self.patience)
        except TimeoutError:
            raise Refused("storage", SILENT) from None

    # --- experiments ---

    async def refresh(self) -> None:
        await self._look(self.ledger.refresh)

    async def create(self, body: bytes, by: By) -> Experiment:
        experiment, player = await self._aside(self._prepare, body)
        made: Experiment = await self._ask(Create(experiment, player, by))
        log.info("%s is created: %r", made.name, made.forecaster)
        return made

    def _prepare(self, body: bytes) -> tuple[Experiment, Any]:
        experiment = api.experiment(body)
        if self.ledger.has(experiment.name):
            raise Refused("exists", f"there is an experiment called {experiment.name!r} already")
        return experiment, self.ledger.prepare(experiment)

    async def grow(self, name: str, action: str, by: By) -> Experiment:
        changed: Experiment = await self._ask(await self._aside(self._growth, self.find(name), action, by))
        return changed

    def _growth(self, experiment: Experiment, name: str, by: By) -> Grow:
        try:
            return Grow(experiment, name, self.ledger.prepare(experiment.grown(name)), by)
        except InvalidArgument as error:
            raise api.refusal(error) from None

    async def delete(self, name: str, by: By) -> None:
        """It is gone at once; the answer comes when all its data is."""
        gone = await self._ask(Delete(self.find(name), by))
        log.info("%s is deleted", gone.name)
        left = await self._erase()
        if isinstance(left, Refused):
            raise left

    async def _erase(self) -> Any:
        """Until nothing is left; a refusal where it cannot go on."""
        while (left := await self.batcher.submit(Erase(), always=True)) is True:
            pass
        return left

    # --- what is read ---

    async def decision(self, name: str, ticket: bytes | None) -> dict[str, Any]:
        found: dict[str, Any] = await self._look(self.ledger.decision, self.find(name), ticket)
        return found

    async def statistics(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._look(self.ledger.statistics, self.find(name))
        return found

    async def overview(self, only: Collection[str] | None) -> dict[str, Any]:
        found: dict[str, Any] = await self._look(self._overview, only)
        return found

    def _overview(self, only: Collection[str] | None) -> dict[str, Any]:
        self.ledger.refresh()
        experiments = [each for each in self.ledger.experiments() if only is None or each.name in only]
        known = self.ledger.folder.overview(experiments)
        pairs = zip(experiments, known["experiments"], strict=True)
        known["experiments"] = [api.described(each) | {"statistics": numbers} for each, numbers in pairs]
        unopened = sorted((self.ledger.unopened() | self.ledger.failing()).items())
        known["unopened"] = [{"name": name, "reason": why} for name, why in unopened if only is None or name in only]
        with self.ledger.store.read() as session:
            known["replicas"] = replicas.known(session, session.now()) if only is None else []
        return known

    async def lines(self, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._look(self._lines, limit)
        return found

    def _lines(self, limit: int) -> list[dict[str, Any]]:
        with self.ledger.store.read() as session:
            return [note._asdict() for note in reversed(access.notes(session, limit))]

    async def numbers(self) -> Numbers:
        found: Numbers = await self._look(self._numbers)
        return found

    def _numbers(self) -> Numbers:
        experiments = self.ledger.experiments()
        known = self.ledger.folder.overview(experiments)
        pairs = zip(experiments, known["experiments"], strict=True)
        told = [numbers | {"name": each.name} for each, numbers in pairs if "trouble" not in numbers]
        broken = {*self.ledger.unopened(), *self.ledger.failing()}
        broken |= {each.name for each in experiments if each.trouble is not None}
        usable = {each.name: each.name not in broken for each in experiments} | dict.fromkeys(broken, False)
        return Numbers(told, usable, known["lag_seconds"])

    async def tokens(self) -> tuple[Sequence[Token], float]:
        found: tuple[Sequence[Token], float] = await self._look(self._tokens)
        return found

    def _tokens(self) -> tuple[Sequence[Token], float]:
        with self.ledger.store.read() as session:
            return session.tokens(), session.now()

    async def record(self, record: Record) -> None:
        await self.batcher.submit(record, always=True)

    async def trouble(self) -> str | None:
        return await self._readiness.trouble() if self.alive else "the writer has stopped"

    # --- from start to end ---

    @asynccontextmanager
    async def open(self, metrics: Metrics) -> AsyncIterator[None]:
        """The writer and the clock run."""
        batcher = self._batcher = Batcher(self.ledger, both(metrics.batch, self._tracer), self.patience)
        metrics.waiting = lambda: batcher.waiting
        self._readiness = Readiness(lambda probe: batcher.submit(probe, always=True))
        try:
            async with running(self._clock(), self._saves()):
                yield
        finally:
            while await batcher.submit(Save(all=True), always=True) is True:  # another version may come next
                pass
            try:
                await self._upkeep()
            except StorageError as error:
                log.error("statistics are not on record: %s", error)
            await batcher.submit(Save(last=True), always=True)
            await batcher.stop()
            self._readers.shutdown()
            self._close()

    async def _clock(self) -> None:
        """Expiry about once a second, traffic or not; the rest now and then."""
        last = time.monotonic() - random.uniform(0.0, UPKEEP)  # several machines take turns
        while True:
            await asyncio.sleep(SWEEP)
            try:
                while await self.batcher.submit(Sweep(), always=True) is True:
                    pass
                if self.ledger.erasing:
                    await self._erase()
                await self._aside(self._catch_up)
                if time.monotonic() > last + UPKEEP or self.ledger.folder.unsaved > UNSAVED:
                    last = time.monotonic()
                    await self._upkeep()
            except Exception as error:
                log.error("what is done every second failed", exc_info=error)

    async def _saves(self) -> None:
        """States go on record by interval, with rests in which others are served, as long as they get fewer all the
        same."""
        saved = time.monotonic()
        while True:
            await asyncio.sleep(SWEEP)
            if time.monotonic() <= saved + SAVE and self.ledger.unsaved() <= BEHIND:
                continue
            saved = time.monotonic()
            try:
                left, more = self.ledger.changed(), True
                while more:
                    started = time.monotonic()
                    more = await self.batcher.submit(Save(), always=True) is True
                    before, left = left, self.ledger.changed()
                    if more and self.batcher.waiting and left < before:
                        await asyncio.sleep(REST * (time.monotonic() - started))
            except Exception as error:
                log.error("states are not on record", exc_info=error)

    async def _upkeep(self) -> None:
        await self._aside(self.ledger.folder.catch_up)
        while await self.batcher.submit(Upkeep(), always=True) is True:
            pass

    def _catch_up(self) -> None:
        steps = [self.ledger.refresh, self.ledger.store.tend]
        for step in [*steps, *([self.ledger.folder.catch_up] if self.ledger.store.exclusive else [])]:
            try:
                step()
            except Exception as error:  # the others have nothing to do with it
                plain = isinstance(error, StorageError)
                log.error("what is done every second failed: %s", error, exc_info=None if plain else error)
