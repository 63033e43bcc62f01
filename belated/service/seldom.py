"""Lines of the log that are not repeated at once: what others can cause, and troubles that last."""

from __future__ import annotations

import logging
import time

#: Seconds between lines that say the same, and how many are remembered.
SAID = 10.0
KNOWN = 100


class Seldom(logging.Filter):
    """Lets the same warning through at most every few seconds: who sends nonsense must not fill the disk."""

    def __init__(self, seconds: float = SAID) -> None:
        super().__init__()
        self._seconds = seconds
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if record.levelno > logging.WARNING or now >= self._said.get(str(record.msg), -self._seconds) + self._seconds:
            self._said[str(record.msg)] = now
            return True
        return False


class Repeated(logging.Filter):
    """Of our own lines the same trouble at most every few seconds, then with how often it was: an outage can be long.

    A line with a traceback is never left out: the next may have another.
    """

    def __init__(self, seconds: float = SAID) -> None:
        super().__init__()
        self._seconds = seconds
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING or record.exc_info or record.name.partition(".")[0] != "belated":
            return True
        now, said = time.monotonic(), record.getMessage()
        until, more = self._said.get(said, (0.0, 0))
        if now < until:
            self._said[said] = until, more + 1
            return False
        if len(self._said) >= KNOWN:
            self._said = {each: kept for each, kept in self._said.items() if now < kept[0]}
        if len(self._said) < KNOWN:
            self._said[said] = now + self._seconds, 0
        if more:
            record.msg, record.args = f"{said} (and {more:,} times before this)", ()
        return True
