"""Messages between the processes of one machine: many in a frame, pickled, over a socket that only they can reach.

An experiment is no message. A worker names it (`Named`), and the writer tells of it as it is stored (`Told`).
"""

from __future__ import annotations

import asyncio
import copyreg
import logging
import pickle
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple, cast

from belated.ledger.experiment import Experiment
from belated.ledger.items import Decided
from belated.ledger.store import ExperimentRow

log = logging.getLogger("belated")

HEAD = struct.Struct("!Q")


class Named(NamedTuple):
    """An experiment as a worker names it."""

    id: int
    name: str


class Told(NamedTuple):
    """An experiment as the writer tells of it."""

    row: ExperimentRow
    trouble: str | None


class News(NamedTuple):
    """What is another than before: experiments that are new or changed, that are gone, and all that cannot be used."""

    changed: list[Told]
    gone: list[str]
    broken: dict[str, str]


def _named(experiment: Experiment) -> tuple[Any, ...]:
    return Named, (experiment.id, experiment.name)


def _told(experiment: Experiment) -> tuple[Any, ...]:
    return Told, (experiment.row(), experiment.trouble)


def _decided(made: Decided) -> tuple[Any, ...]:
    """By position, which takes half of the time."""
    return Decided, (made.ticket, made.action, made.name, made.probability, made.round, made.expires_at)


#: How the two ends pickle what is not plain.
Table = dict[type, Callable[[Any], Any]]
WORKER: Table = copyreg.dispatch_table | {Experiment: _named}
WRITER: Table = copyreg.dispatch_table | {Experiment: _told, Decided: _decided}


def pack(messages: list[Any], table: Table) -> bytes:
    """Messages as a frame."""
    frame = BytesIO()
    frame.write(bytes(HEAD.size))
    pickler = pickle.Pickler(frame, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = table
    pickler.dump(messages)
    size = frame.tell() - HEAD.size
    frame.seek(0)
    frame.write(HEAD.pack(size))
    return frame.getvalue()


class Line(asyncio.Protocol):
    """One end of the socket. What is said in one turn of the event loop goes in one frame."""

    def __init__(self, table: Table, receive: Callable[[Line, list[Any]], None], lost: Callable[[Line], None]) -> None:
        self._table = table
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
            self._transport.write(pack(going, self._table))
        except Exception as error:  # nobody is left waiting: who lost their line know what to say
            log.error("a message cannot be sent", exc_info=error)
            self._transport.abort()

    def close(self) -> None:
        """Hang up, once all is said."""
        if self._transport is not None:
            if self._going:
                self._flush()
            self._transport.close()
