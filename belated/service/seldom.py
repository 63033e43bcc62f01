"""Lines of the log that others can cause, and so are not repeated at once."""

from __future__ import annotations

import logging
import time

#: Seconds between lines that say the same.
SAID = 10.0


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
