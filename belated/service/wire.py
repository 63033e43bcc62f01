"""Messages between the processes of one machine: many in a frame, pickled, over a socket that only they can reach.

They are made of plain data, which takes a fraction of the time of objects. An experiment is no message: a worker names
it (`sent`), and the writer tells of it as it is stored (`Told`).
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, NamedTuple, cast

from belated.ledger.experiment import Experiment
from belated.ledger.items import Archive, Cancel, Change, Decide, Feedback, Replace
from belated.ledger.store import ExperimentRow

log = logging.getLogger("belated")

HEAD = struct.Struct("!Q")
#: What workers send, by name, and how its parts are read: all but the experiment, and whether it has begun.
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Decide, Feedback, Cancel, Archive, Change, Replace)}
_PARTS = {
    kind: attrgetter(
        "until", *(each.name for each in fields(kind) if each.name not in ("until", "begun", "experiment"))
    )
    for kind in KINDS.values()
}


def sent(item: Any) -> tuple[Any, ...]:
    """An item as a worker sends it: its kind, its experiment, its parts."""
    kind, experiment = type(item), item.experiment
    return kind.__name__, experiment.id, experiment.name, _PARTS[kind](item)


def received(kind: str, experiment: Experiment, parts: tuple[Any, ...]) -> Any:
    """The item again, of the experiment as the writer knows it."""
    item = KINDS[kind](experiment, *parts[1:])
    item.until = parts[0]
    return item


class Told(NamedTuple):
    """An experiment as the writer tells of it."""

    row: ExperimentRow
    trouble: str | None


class News(NamedTuple):
    """What is another than before: experiments that are new or changed, that are gone, and all that cannot be used."""

    changed: list[Told]
    gone: list[str]
    broken: dict[str, str]


def told(experiment: Experiment) -> Told:
    """An experiment as it is told."""
    return Told(experiment.row(), experiment.trouble)


def opened(told: Told) -> Experiment:
    """The experiment again."""
    return replace(Experiment.from_row(told.row), trouble=told.trouble)


def pack(messages: list[Any]) -> bytes:
    """Messages as a frame."""
    frame = pickle.dumps(messages, pickle.HIGHEST_PROTOCOL)
    return HEAD.pack(len(frame)) + frame


class Line(asyncio.Protocol):
    """One end of the socket. What is said in one turn of the event loop goes in one frame."""

    def __init__(self, receive: Callable[[Line, list[Any]], None], lost: Callable[[Line], None]) -> None:
        self._receive = receive
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._coming = bytearray()
        self._going: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # which uvloop's are not derived from

    def data_received(self, data: bytes) -> None:
        coming = self._coming
        coming += data
        while len(coming) >= HEAD.size:
            end = HEAD.size + HEAD.unpack_from(coming)[0]
            if len(coming) < end:
                return
            messages = pickle.loads(memoryview(coming)[HEAD.size : end])
            del coming[:end]
            self._receive(self, messages)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._lost(self)

    def say(self, message: Any) -> None:
        """Soon; nothing comes of it where the other side is gone."""
        if not self._going:
            self._loop.call_soon(self._flush)
        self._going.append(message)

    def _flush(self) -> None:
        going, self._going = self._going, []
        if self._transport is None:
            return
        try:
            self._transport.write(pack(going))
        except Exception as error:  # nobody is left waiting: who lost their line know what to say
            log.error("a message cannot be sent", exc_info=error)
            self._transport.abort()

    def close(self) -> None:
        """Hang up, once all is said."""
        if self._transport is not None:
            if self._going:
                self._flush()
            self._transport.close()
