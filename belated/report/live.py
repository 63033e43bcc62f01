"""Progress in a notebook: one line that is written anew."""

from __future__ import annotations

import sys
import time
from html import escape
from importlib import import_module
from typing import Any

#: Seconds between two changes of the line.
PAUSE = 0.2


def in_notebook() -> bool:
    """Whether somebody looks at this through a notebook: IPython with a kernel behind it."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return found is not None and getattr(found, "kernel", None) is not None


class Line:
    """A bar with words beside it; it appears with the first `show`, and is taken away by `close`."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._handle: Any = None
        self._next = 0.0

    def show(self, done: int, total: int, words: str = "") -> None:
        if time.monotonic() < self._next and done < total:
            return
        self._next = time.monotonic() + PAUSE
        shell = import_module("IPython.display")
        said = f"{escape(self._title)} {done / max(1, total):.0%}{f', {escape(words)}' if words else ''}"
        shown = shell.HTML(f'<progress value="{done}" max="{max(1, total)}"></progress> {said}')
        if self._handle is None:
            self._handle = shell.display(shown, display_id=True)
        else:
            self._handle.update(shown)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.update(import_module("IPython.display").HTML(""))
            self._handle = None
