"""A request and its answer, in the words of ASGI.

Answers are of one piece and have headers of ours: what uvicorn's own takes to allow for more is a tenth of a request.
"""

from __future__ import annotations

import asyncio
import http
import logging
from typing import TYPE_CHECKING

from belated.service.asgi import Application, Message, Scope

if TYPE_CHECKING:
    from belated.service.connections import Connection

log = logging.getLogger("belated")

#: How the answer of each status begins.
LINES = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in http.HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"


class Exchange:
    """What comes in by `add`, `whole` and `gone`, and what goes out."""

    __slots__ = (
        "_body", "_connection", "_continues", "_news", "_start", "_told", "gone", "keeps", "over", "scope", "size",
        "task", "whole",
    )  # fmt: skip

    def __init__(self, connection: Connection, scope: Scope, keeps: bool, continues: bool) -> None:
        self.scope = scope
        self.keeps = keeps  #: whether the connection stays for another request
        self.size = 0  #: bytes of its body that have come and were not read yet
        self.whole = False  #: whether all of it has come
        self.gone = False  #: whether the client has left
        self.over = False  #: whether it is answered
        self.task: asyncio.Task[None] | None = None
        self._connection = connection
        self._body: list[bytes] = []
        self._continues = continues  # whether the client waits to be told that it may send the body
        self._told = False  # whether the end of the body was read
        self._start: Message | None = None
        self._news: asyncio.Event | None = None  # most never wait

    def add(self, body: bytes) -> None:
        """More of the body has come."""
        self._body.append(body)
        self.size += len(body)
        self.came()

    def came(self) -> None:
        """Something changed of what is waited for."""
        if self._news is not None:
            self._news.set()

    async def run(self, application: Application) -> None:
        """Have it answered."""
        try:
            await application(self.scope, self.receive, self.send)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):  # how many were cut off at the end is said once
                log.error("a request failed", exc_info=error)
        finally:
            self._connection.tasks.discard(self.task)
            self.task = None  # its context knows this exchange: such a circle would be left to the garbage collection
            if not self.over and not self.gone:
                self._connection.fail()

    async def receive(self) -> Message:
        """More of the body, or that the client has left."""
        if self._continues:
            self._continues = False
            self._connection.transport.write(CONTINUE)
        while not (self.gone or self.over):
            if self._body or (self.whole and not self._told):
                body = b"".join(self._body)
                self._body, self.size, self._told = [], 0, self.whole
                self._connection.go_on_reading()
                return {"type": "http.request", "body": body, "more_body": not self._told}
            self._news = self._news or asyncio.Event()
            self._news.clear()
            await self._news.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """The head, which waits for the body, then both."""
        if self._start is None:
            self._start = message
            return
        if self._connection.full:
            await self._connection.drained()
        if self.gone or self.over:
            return
        parts = [LINES[self._start["status"]]]
        parts += [b"%b: %b\r\n" % each for each in (*self._connection.state.default_headers, *self._start["headers"])]
        if not self.keeps:
            parts.append(CLOSE)
        parts.append(b"\r\n")
        if self.scope["method"] != "HEAD":
            parts.append(message["body"])
        self._continues, self.over = False, True
        self.came()
        self._connection.answer(self, b"".join(parts))
