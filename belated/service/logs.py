"""The log on standard error: one line an event, for people on a terminal and as JSON elsewhere."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from belated.service.options import Format, Level
from belated.service.seldom import Repeated, Seldom


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
