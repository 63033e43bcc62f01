"""Run the cells of a study: those that are not finished yet, on all cores, each finished one kept at once."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from belated.engine.threads import check_gpu
from belated.errors import BelatedError, Unsupported
from belated.studies.cells import Cell, Play, Tell
from belated.studies.store import Store


class Stopped(BaseException):
    """Raised inside a cell to end it."""


class CellsFailed(BelatedError, RuntimeError):
    """Some cells of a study could not be computed; all others are finished and kept."""


@dataclass
class State:
    """How far a study is. Cells in progress are named."""

    cells: int
    decisions: int
    reused: int = 0
    finished: int = 0
    played: int = 0  #: decisions made, those of reused cells not counted
    seconds: float = 0.0  #: spent inside cells, over all cores
    running: dict[str, tuple[str, int]] = field(default_factory=dict)  #: key -> title, decisions so far
    failed: dict[str, str] = field(default_factory=dict)  #: title -> reason

    @property
    def done(self) -> int:
        """Decisions made, those of cells in progress counted."""
        return self.played + sum(so_far for _, so_far in list(self.running.values()))


Watch = Callable[[State], Any]


class Engine(Protocol):
    """Where cells are computed. Each finished one is in the store before it is counted."""

    def run(self, cells: Sequence[Cell], store: Store, state: State, watch: Watch) -> None: ...


class Done:
    """The finished cells: `done[cell]` is what the cell's `read` makes of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, Any] = {}

    def __getitem__(self, cell: Cell) -> Any:
        if cell.key not in self._read:
            table = self._store.load(cell.key)
            if table is None:
                raise KeyError(f"not finished: {cell.title}")
            self._read[cell.key] = cell.read(table)
        return self._read[cell.key]


def run_cells(
    cells: Iterable[Cell], store: Store, engine: Engine | None = None, watch: Watch | None = None
) -> tuple[Done, State]:
    """Finish all cells, those in the store already excepted. Raise CellsFailed, at the end, if some cannot be."""
    unique = list({cell.key: cell for cell in cells}.values())
    todo = [cell for cell in unique if not store.has(cell.key)]
    state = State(len(unique), sum(cell.decisions for cell in todo), reused=len(unique) - len(todo))
    show = watch or (lambda state: None)
    show(state)
    if todo:
        # The longest first, so that no core is left alone with one at the end.
        ordered = sorted(todo, key=lambda cell: (not cell.exclusive, -cell.decisions))
        (engine or Local()).run(ordered, store, state, show)
    show(state)
    if state.failed:
        listed = "\n".join(f"  {title}: {reason}" for title, reason in state.failed.items())
        raise CellsFailed(f"{len(state.failed)} of {state.cells} cells failed, the others are kept:\n{listed}")
    return Done(store), state


@dataclass(frozen=True)
class Local:
    """This machine: one thread for each core, one cell a thread (the compiled loop lets others run beside it)."""

    workers: int | None = None

    def run(self, cells: Sequence[Cell], store: Store, state: State, watch: Watch) -> None:
        lock, stop = threading.Lock(), threading.Event()
        for cell in (c for c in cells if c.exclusive):
            compute(cell, store, state, lock, lambda done, total: watch(state))
        shared = iter([c for c in cells if not c.exclusive])

        def tell(done: int, total: int) -> None:
            if stop.is_set():
                raise Stopped

        def work() -> None:
            while (cell := _next(shared, lock)) is not None and not stop.is_set():
                compute(cell, store, state, lock, tell)

        count = self.workers or os.cpu_count() or 1
        with ThreadPoolExecutor(count, thread_name_prefix="belated") as pool:
            futures: list[Future[None]] = [pool.submit(work) for _ in range(count)]
            try:
                while wait(futures, timeout=0.1).not_done:
                    watch(state)
            finally:
                stop.set()
            for future in futures:
                future.result()


@dataclass(frozen=True)
class OnGPU:
    """The GPU of this machine: cells that are plays, one after the other. They are those of any other engine."""

    def run(self, cells: Sequence[Cell], store: Store, state: State, watch: Watch) -> None:
        check_gpu()
        for cell in played_on_gpu(cells):
            compute(cell, store, state, threading.Lock(), lambda done, total: watch(state))


def played_on_gpu(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells, to be computed on a GPU."""
    for cell in cells:
        if not isinstance(cell, Play):
            raise Unsupported(f"{cell.title} is no play: a GPU runs no other cells")
    return [replace(cell, engine="cuda") for cell in cells if isinstance(cell, Play)]


def _next(cells: Iterator[Cell], lock: threading.Lock) -> Cell | None:
    with lock:
        return next(cells, None)


def compute(cell: Cell, store: Store, state: State, lock: Any, tell: Tell) -> None:
    """Compute a cell and keep it, or note why it cannot be."""

    def told(done: int, total: int) -> None:
        state.running[cell.key] = (cell.title, done)
        tell(done, total)

    state.running[cell.key] = (cell.title, 0)
    began = time.perf_counter()
    try:
        store.save(cell.key, cell.compute(told))
    except (BelatedError, ArithmeticError, MemoryError) as error:
        state.failed[cell.title] = str(error) or type(error).__name__
    except Stopped:
        pass
    else:
        with lock:
            state.finished += 1
            state.played += cell.decisions
            state.seconds += time.perf_counter() - began
    finally:
        state.running.pop(cell.key, None)
