"""The log on standard error: one line an event, for people on a terminal and as JSON elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from belated.service.connections import SAID, Seldom
from belated.service.options import Format, Level

#: So many different lines are remembered.
KNOWN = 100


def is_json(format: Format) -> bool:
    """Whether lines are JSON."""
    return format is Format.json or (format is Format.auto and not sys.stderr.isatty())


def access(format: Format) -> Callable[[dict[str, Any]], None]:
    """What writes the lines of the access log. (As JSON at a third of the cost of other lines: it is one a request.)"""
    logger = logging.getLogger("belated.access")
    if not is_json(format):
        return lambda told: logger.info(told.pop("event"), extra=told)

    def write(told: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        os.write(2, msgspec.json.encode({**told, "level": "info", "timestamp": now}) + b"\n")

    return write


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


def start(level: Level = Level.info, format: Format = Format.auto) -> None:
    """Lines of ours from this level on; those of libraries if they are warnings at least."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.stdlib.ExtraAdder(),
    ]
    # Not the pretty tracebacks: they show what variables hold, an address with its password too.
    show: structlog.types.Processor = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    if is_json(format):
        shared.append(structlog.processors.format_exc_info)
        show = structlog.processors.JSONRenderer()
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, show], foreign_pre_chain=shared
        )
    )
    handler.addFilter(Repeated())
    root = logging.getLogger()
    root.handlers = [handler]
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.WARNING))
    logging.getLogger("belated").setLevel(number)
    logging.getLogger("belated.access").setLevel(logging.INFO)  # --access-log says whether there is one
    # What it warns of is how it cleans up after a connection that was lost; that it was is said by us.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    uvicorn = logging.getLogger("uvicorn.error")
    uvicorn.setLevel(logging.INFO if level is Level.debug else logging.NOTSET)
    uvicorn.filters = [Seldom()]
