"""Connections that waste nobody's time: a request must be complete in time and its head small, and there is a limit.

uvicorn ends connections that are idle between requests. Here end those too that never send a request, or send one
byte a minute; and a peer that vanished, or reads nothing, is noticed by the system (`listen_patiently`).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from asyncio import TimerHandle
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from belated.service.options import Options

log = logging.getLogger("belated")

DEFAULT = Options()
#: Bytes that the head of a request may have.
HEAD = 64_000
#: Open files that are left for other things.
FILES = 100
#: Connections beyond those that are told so, once they ask or after so many seconds; all others just end.
SPARE = 200
MOMENT = 1.0
#: Seconds between lines in the log about connections that are turned away.
SAID = 10.0

FULL = (
    b'{"error": {"kind": "busy", "message": "too many connections; try again in a second"}}',
    b"503 Service Unavailable",
)
LONG = (
    b'{"error": {"kind": "too_large", "message": "the head of a request may have 64000 bytes"}}',
    b"431 Request Header Fields Too Large",
)
STRANGE = (
    b'{"error": {"kind": "malformed", "message": "this is no HTTP request"}}',
    b"400 Bad Request",
)
SLOW = (
    b'{"error": {"kind": "malformed", "message": "the request did not come in time"}}',
    b"408 Request Timeout",
)


def most_connections(wanted: int = DEFAULT.connections) -> int:
    """How many there may be: those that are wanted, if the system allows that many open files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - FILES))


def watch(listening: socket.socket, seconds: float = DEFAULT.read_timeout) -> None:
    """Let the system end accepted connections whose other side is gone, or takes nothing of what is sent."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value)))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


class Seldom(logging.Filter):
    """Lets the same warning through at most every few seconds: who sends nonsense must not fill the disk.

    And no trace of each request that had not come whole when the service ended: how many they were is said anyway.
    """

    def __init__(self, seconds: float = SAID) -> None:
        super().__init__()
        self._seconds = seconds
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return False
        now = time.monotonic()
        if record.levelno > logging.WARNING or now >= self._said.get(str(record.msg), -self._seconds) + self._seconds:
            self._said[str(record.msg)] = now
            return True
        return False


class Connection(HttpToolsProtocol):
    """One connection."""

    most: ClassVar[int] = DEFAULT.connections
    seconds: ClassVar[float] = DEFAULT.read_timeout
    _refused: ClassVar[int] = 0
    _said: ClassVar[float] = -SAID

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timer: TimerHandle | None = None
        self._since: float | None = None  # when the request began that is not complete yet
        self._head = 0
        self._most = 0  # bytes that the head which ends next can have
        self._too_long = False
        self._in_head = True
        self._over = 0  # how many more connections there are than may be

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._over = len(self.connections) - self.most
        if self._over > 0:
            self._say()
        if self._over > SPARE:
            transport.abort()
        else:
            self._since = time.monotonic()
            self._timer = self.loop.call_later(MOMENT if self._over > 0 else self.seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._over > 0:
            self._end(FULL)
            return
        if self._in_head:
            self._head += len(data)
            self._most = self._head
            if self._since is None:
                self._since = time.monotonic()
        super().data_received(data)
        if self._in_head and self._head > HEAD and not self.transport.is_closing():
            self._end(LONG)

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._since is None:
            self._since = time.monotonic()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        if self._most > HEAD:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            self._too_long = self._too_long or size > HEAD
        if not self._too_long:
            super().on_headers_complete()
        elif not self.transport.is_closing():  # it came in one piece
            self._end(LONG)

    def on_body(self, body: bytes) -> None:
        if not self._too_long:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._since = True, None
        if not self._too_long:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._end(STRANGE)

    def _look(self) -> None:
        """Whether the request has come in time. One clock a connection, not one a request, which would cost more."""
        at_work = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if self._over > 0 and not self.transport.is_closing():
            self._end(FULL)
            return
        began = self._since if self._since is not None else time.monotonic()
        left = began + self.seconds - time.monotonic()
        if at_work:  # the request before this one is being answered
            left = max(left, self.seconds / 2)
        if left > 0.0:
            self._timer = self.loop.call_later(left, self._look)
        elif not self.transport.is_closing():
            self._end(SLOW)

    def _end(self, answer: tuple[bytes, bytes]) -> None:
        body, status = answer
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n"
        self.transport.write(head % (status, len(body)) + b"retry-after: 1\r\n\r\n" + body)
        self.transport.close()

    @classmethod
    def _say(cls) -> None:
        """That connections are turned away: at once, then at most every few seconds."""
        cls._refused += 1
        if time.monotonic() >= cls._said + SAID:
            were = "1 was" if cls._refused == 1 else f"{cls._refused} were"
            log.warning("%d connections are open, which is the most; %s turned away", cls.most, were)
            cls._said, cls._refused = time.monotonic(), 0
