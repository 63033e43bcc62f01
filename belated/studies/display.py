"""Live progress of a study: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from belated.report.live import Line, in_notebook
from belated.studies.run import State, Watch

#: Seconds between two lines where there is no terminal.
QUIET = 15.0


@contextmanager
def shown(what: str, wish: bool | Callable[[int, int], Any] | None) -> Iterator[Watch]:
    """What `Study.run(progress=)` asks for: None shows a bar where somebody looks, a function is told (done, total)."""
    if callable(wish):
        tell = wish
        yield lambda state: tell(state.done, state.decisions)
    elif wish or (wish is None and (sys.stderr.isatty() or in_notebook())):
        with display(what) as watch:
            yield watch
    else:
        yield lambda state: None


@contextmanager
def display(what: str) -> Iterator[Watch]:
    """Show the state of a study while it runs: give what this yields to `run_cells` as `watch`."""
    if in_notebook():
        line = Line(what)
        try:
            yield lambda state: line.show(state.done, state.decisions, _cells(state))
        finally:
            line.close()
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    what = escape(what)
    if console.is_terminal:
        with _Bar(what, console) as bar:
            yield bar
    else:
        yield _Lines(what, console)


class _Bar:
    """Cells and decisions done, speed, time left, and the names of the cells in progress."""

    def __init__(self, what: str, console: Any) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[cells]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task(what, total=None, cells="")
        self._live = Live(self._progress, console=console, refresh_per_second=8, transient=True)
        self._what = what

    def __enter__(self) -> _Bar:
        self._live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.stop()

    def __call__(self, state: State) -> None:
        from rich.console import Group
        from rich.text import Text

        cells = _cells(state)
        self._progress.update(self._task, total=max(1, state.decisions), completed=state.done, cells=cells)
        running = [Text(f"  {title}", style="dim", overflow="ellipsis", no_wrap=True) for title in _titles(state)]
        self._live.update(Group(self._progress, *running))


class _Lines:
    def __init__(self, what: str, console: Any) -> None:
        self._what = what
        self._console = console
        self._next = time.monotonic() + QUIET

    def __call__(self, state: State) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + QUIET
        share = state.done / max(1, state.decisions)
        cells = f"{state.reused + state.finished} of {state.cells} cells"
        self._console.print(f"{self._what}: {cells}, {share:.0%} of {state.decisions:,} decisions", highlight=False)


def _cells(state: State) -> str:
    return f"{state.reused + state.finished}/{state.cells} cells"


def _titles(state: State, most: int = 4) -> list[str]:
    titles = [title for title, _ in list(state.running.values())]
    return titles if len(titles) <= most else [*titles[: most - 1], f"and {len(titles) - most + 1} more"]
