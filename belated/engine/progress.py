"""Progress of long plays."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from belated.report.live import Line, in_notebook

#: A bar appears by itself only in a terminal or notebook, and only after so many seconds.
PATIENCE = 1.0


class Progress:
    """Counts rounds from any thread and shows them: `None` decides by itself, a function is told (done, total)."""

    def __init__(self, wish: bool | Callable[[int, int], Any] | None, total: int, title: str) -> None:
        self._tell = wish if callable(wish) else None
        self._wanted = wish is True or (wish is None and (sys.stderr.isatty() or in_notebook()))
        self._show_at = time.monotonic() + (0.0 if wish is True else PATIENCE)
        self._total = total
        self._title = title
        self._done = 0
        self._lock = threading.Lock()
        self._bar: Any = None

    def add(self, rounds: int) -> None:
        """So many rounds more are done."""
        with self._lock:
            self._done += rounds

    def show(self) -> None:
        """Bring the display up to date; called by the main thread only."""
        if self._tell is not None:
            self._tell(self._done, self._total)
        if not self._wanted or time.monotonic() < self._show_at:
            return
        if self._bar is None:
            self._bar = Line(self._title) if in_notebook() else self._open()
        if isinstance(self._bar, Line):
            self._bar.show(self._done, self._total)
        else:
            self._bar.update(0, completed=self._done)

    def _open(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
        bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        bar.start()
        bar.add_task(self._title, total=self._total)
        return bar

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.show()
        if isinstance(self._bar, Line):
            self._bar.close()
        elif self._bar is not None:
            self._bar.stop()
