"""Which processes write to the database, and how far behind the log they are: for people, nothing depends on it.

With the states that it puts on record a process leaves a line in `meta`. One that stops in order takes it away; that of
one that dies is forgotten after a day.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from belated.ledger.store import Reader, Writer
from belated.version import __version__

#: How a line begins, and seconds that one is kept.
KEY = "replica "
KEPT = 86400.0
#: How many are shown, those that were heard of last.
SHOWN = 50


def name() -> str:
    """This process among all machines."""
    return f"{socket.gethostname()}:{os.getpid()}"


def note(session: Writer, now: float, experiments: int, events: int, seconds: float) -> None:
    """This process has so many experiments in memory, and is behind their logs by so much."""
    told = {"at": now, "version": __version__, "experiments": experiments, "events": events, "seconds": seconds}
    session.set_meta(KEY + name(), json.dumps(told))
    old = [key for key, text in _lines(session) if _read(text).get("at", 0.0) < now - KEPT]
    for key in old:
        session.tell("DELETE FROM meta WHERE key = ?", (key,))


def leave(session: Writer) -> None:
    """This process stops."""
    session.tell("DELETE FROM meta WHERE key = ?", (KEY + name(),))


def known(session: Reader, now: float) -> list[dict[str, Any]]:
    """All processes, those that were heard of last first."""
    read = [{"name": key.removeprefix(KEY)} | _read(text) for key, text in _lines(session)]
    found = [told | {"silent": max(0.0, now - told["at"])} for told in read if "at" in told]
    return sorted(found, key=lambda each: (each["silent"], each["name"]))[:SHOWN]


def _lines(session: Reader) -> list[Any]:
    rows = session.ask("SELECT key, value FROM meta WHERE key >= ? AND key < ? ORDER BY key", ("replica", "replicb"))
    return [row for row in rows if row[0].startswith(KEY)]


def _read(text: str) -> dict[str, Any]:
    """A line; empty where it is none of ours, which may be another version's."""
    try:
        told = json.loads(text)
        kinds = {"version": str, "at": float, "experiments": int, "events": int, "seconds": float}
        return {key: kind(told[key]) for key, kind in kinds.items()}
    except (ValueError, TypeError, KeyError):
        return {}
