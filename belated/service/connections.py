"""Connections that waste nobody's time: a request must be complete in time and its head small, and there is a limit.

Those end that are idle between requests, that never send one, or send one byte a minute; and a peer that vanished, or
reads nothing, is noticed by the system (`watch`).
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import time
from asyncio import TimerHandle
from collections import deque
from contextlib import suppress
from typing import Any, ClassVar, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from belated.service.exchange import Exchange
from belated.service.options import Options
from belated.service.seldom import SAID, Seldom

log = logging.getLogger("belated")

DEFAULT = Options()
#: Bytes that the head of a request may have.
HEAD = 64_000
#: Bytes of a body that may wait to be read.
MUCH = 64_000
#: Connections beyond those that are told so, once they ask or after so many seconds; all others just end.
SPARE = 200
MOMENT = 1.0
#: Open files that are left: for those, for connections that have not been seen yet, and for other things.
FILES = 300 + SPARE

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
FAILED = (
    b'{"error": {"kind": "internal", "message": "this request failed"}}',
    b"500 Internal Server Error",
)
SLOW = (
    b'{"error": {"kind": "malformed", "message": "the request did not come in time"}}',
    b"408 Request Timeout",
)


def most_connections(wanted: int = DEFAULT.connections) -> int:
    """How many there may be: those that are wanted, if the system allows that many open files."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted + FILES if most == resource.RLIM_INFINITY else min(wanted + FILES, most)
    if files != resource.RLIM_INFINITY and files < enough:  # the usual limit is for programs that know no better
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, most))
        files = enough
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - FILES))


def watch(listening: socket.socket, seconds: float = DEFAULT.read_timeout) -> None:
    """Let the system end accepted connections whose other side is gone, or takes nothing of what is sent."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value)))
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


nonsense = logging.getLogger("belated.nonsense")
nonsense.addFilter(Seldom())


class Connection(asyncio.Protocol):
    """A connection, whose requests are answered one after the other. uvicorn makes it, and says when it is to end."""

    most: ClassVar[int] = DEFAULT.connections
    seconds: ClassVar[float] = DEFAULT.read_timeout
    _refused: ClassVar[int] = 0
    _said: ClassVar[float] = -SAID

    def __init__(self, config: Config, server_state: ServerState, app_state: object, _loop: object = None) -> None:
        self.state = server_state
        self.tasks = server_state.tasks
        self.transport: asyncio.Transport
        self.full = False  #: whether much waits to be sent
        self._application = config.loaded_app
        self._keep_alive = float(config.timeout_keep_alive)
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        with suppress(AttributeError):  # else whose last request is followed by something gets no answer to it
            self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._exchange: Exchange | None = None  # the last that has begun to come
        self._later: deque[Exchange] = deque()  # those that came before the one before them was answered
        self._room = asyncio.Event()
        self._paused = False
        self._known: dict[str, Any] = {}  # what all its requests have in common
        self._headers: list[tuple[bytes, bytes]] = []
        self._url = b""
        self._continues = False
        self._timer: TimerHandle | None = None
        self._since: float | None = None  # when the request began that is not complete yet
        self._answered = 0.0  # when one was answered last
        self._head = 0
        self._most = 0  # bytes that the head which ends next can have
        self._too_long = False
        self._in_head = True
        self._over = 0  # how many more connections there are than may be

    # --- what the event loop says ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # which uvloop's are not derived from
        self.state.connections.add(self)  # type: ignore[arg-type]
        ours, theirs = (transport.get_extra_info(name) for name in ("sockname", "peername"))
        self._known = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": tuple(ours[:2]) if isinstance(ours, tuple) else None,
            "client": tuple(theirs[:2]) if isinstance(theirs, tuple) else None,
            "scheme": "http",
            "root_path": "",
        }
        self._over = len(self.state.connections) - self.most
        if self._over > 0:
            self._say()
        if self._over > SPARE:
            self.transport.abort()
        else:
            self._since = time.monotonic()
            self._look_in(MOMENT if self._over > 0 else self.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self.state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        for each in (self._exchange, *self._later):
            if each is not None:
                each.gone = not each.over
                each.came()
        self._later.clear()
        self._room.set()

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
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # to what nobody speaks here: it is answered as it is
            pass
        except httptools.HttpParserError:
            nonsense.warning("what a client sent is no HTTP request")
            self._end(STRANGE)
        if self._in_head and self._head > HEAD and not self.transport.is_closing():
            self._end(LONG)

    def pause_writing(self) -> None:
        self.full = True
        self._room.clear()

    def resume_writing(self) -> None:
        self.full = False
        self._room.set()

    # --- what the parser says ---

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._since is None:
            self._since = time.monotonic()
        self._url, self._headers, self._continues = b"", [], False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._continues = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        if self._most > HEAD:
            size = len(self._url) + sum(len(name) + len(value) for name, value in self._headers)
            self._too_long = self._too_long or size > HEAD
        if not self._too_long:
            self._begin()
        elif not self.transport.is_closing():  # it came in one piece
            self._end(LONG)

    def on_body(self, body: bytes) -> None:
        exchange = self._exchange
        if exchange is None or self._too_long or exchange.over:
            return
        exchange.add(body)
        if exchange.size > MUCH:
            self._stop_reading()

    def on_message_complete(self) -> None:
        self._in_head, self._since = True, None
        if self._exchange is not None and not self._too_long:
            self._exchange.whole = True
            self._exchange.came()

    # --- requests ---

    def _begin(self) -> None:
        """The head of a request is there."""
        parser, url = self._parser, httptools.parse_url(self._url)
        path = url.path.decode("ascii")
        version = parser.get_http_version()
        scope = self._known | {
            "headers": self._headers,
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
        }
        if version != "1.1":
            scope["http_version"] = version
        before = self._exchange
        keeps = version != "1.0" and parser.should_keep_alive()
        exchange = self._exchange = Exchange(self, scope, keeps, self._continues)
        if before is None or before.over:
            self._start(exchange)
        else:
            self._later.append(exchange)
            self._stop_reading()

    def _start(self, exchange: Exchange) -> None:
        exchange.task = self._loop.create_task(exchange.run(self._application))
        self.tasks.add(exchange.task)

    def answer(self, exchange: Exchange, answer: bytes) -> None:
        """Send an answer; the next request begins."""
        self.transport.write(answer)
        self._answered = time.monotonic()
        if not exchange.keeps:
            self.transport.close()
        elif self._later:
            self._start(self._later.popleft())
        self.go_on_reading()

    def fail(self) -> None:
        """Nobody knows the answer."""
        if not self.transport.is_closing():
            self._end(FAILED)

    def shutdown(self) -> None:
        """No more requests: the service ends."""
        if self._exchange is None or self._exchange.over:
            self.transport.close()
        else:
            self._exchange.keeps = False

    def _stop_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self.transport.pause_reading()

    def go_on_reading(self) -> None:
        """There is room again for what the client sends."""
        if self._paused and not self._later:
            self._paused = False
            self.transport.resume_reading()

    async def drained(self) -> None:
        """Until what waits to be sent has gone, or nobody is there to take it."""
        await self._room.wait()

    # --- time ---

    def _look_in(self, seconds: float) -> None:
        """Not later than anything may be over that begins meanwhile."""
        self._timer = self._loop.call_later(min(seconds, self.seconds, self._keep_alive), self._look)

    def _look(self) -> None:
        """Whether the request has come in time. One clock a connection, not one a request, which would cost more."""
        if self.transport.is_closing():
            return
        if self._over > 0:
            self._end(FULL)
            return
        now, exchange = time.monotonic(), self._exchange
        at_work = exchange is not None and exchange.whole and not exchange.over
        left = self._keep_alive
        if self._since is not None:
            left = self._since + self.seconds - now
        elif not at_work:
            left = self._answered + self._keep_alive - now
        if at_work:  # the request before this one is being answered
            left = max(left, self.seconds / 2)
        if left > 0.0:
            self._look_in(left)
        elif self._since is not None:
            self._end(SLOW)
        else:
            self.transport.close()

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
