"""What stands around the routes, each only if it is asked for: a path before all paths, ids, the access log, traces."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from belated.service.asgi import Application, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from belated.service.tracing import Tracer

#: The header that says which request this is, and what it may be; else another is made.
HEADER = b"x-request-id"
SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
#: Where what is found out about a request stands in its scope.
SEEN = "belated"


def made_id() -> bytes:
    """An id for a request that brought none."""
    return secrets.token_hex(16).encode()


def id_of(headers: dict[bytes, bytes]) -> bytes | None:
    """The id that a request brought, if it is one.

    >>> id_of({b"x-request-id": b"abc-1"}), id_of({b"x-request-id": b"a b"})
    (b'abc-1', None)
    """
    given = headers.get(HEADER)
    return given if given is not None and SANE.fullmatch(given) else None


class Seen:
    """What was found out about a request on its way."""

    __slots__ = ("route", "size", "status", "who")

    def __init__(self) -> None:
        self.route, self.who = "", ""
        self.status, self.size = 0, 0


class Watched:
    """Every request has an id; it is logged and traced, whoever answers it."""

    def __init__(
        self, application: Application, log: Callable[[dict[str, Any]], None] | None, tracer: Tracer | None
    ) -> None:
        self._application = application
        self._log = log
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        number = id_of(headers) or made_id()
        given = [(name, value) for name, value in scope["headers"] if name != HEADER]
        seen = Seen()
        scope = {**scope, "headers": [*given, (HEADER, number)], SEEN: seen}

        async def notice(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
            else:
                seen.size += len(message.get("body", b""))
            await send(message)

        around: AbstractContextManager[Any] = nullcontext()
        if self._tracer is not None:
            around = self._tracer.request(scope, headers, number.decode(), seen)
        try:
            with around:
                await self._application(scope, receive, notice)
        finally:
            if self._log is not None:
                self._log(_told(scope, number, seen, time.perf_counter() - started))


def _told(scope: Scope, number: bytes, seen: Seen, seconds: float) -> dict[str, Any]:
    """The line of a request."""
    path = scope["raw_path"].decode("ascii", "backslashreplace")
    told = {
        "event": f"{scope['method']} {path} {seen.status}",
        "request": number.decode(),
        "method": scope["method"],
        "path": path,
        "status": seen.status,
        "seconds": round(seconds, 6),
        "bytes": seen.size,
        "address": scope["client"][0] if scope.get("client") else "",
    }
    if seen.who:
        told["token"] = seen.who
    return told


class Under:
    """An application under a path, whether the proxy before it leaves that path in place or takes it away."""

    def __init__(self, application: Application, root: str) -> None:
        self._application = application
        self._root = root
        self._begin = root + "/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"] == self._root:  # the links of a page count from its last slash
                number = id_of(dict(scope["headers"]))
                headers = [(b"location", self._begin.encode()), (b"content-length", b"0")]
                headers += [] if number is None else [(HEADER, number)]
                await send({"type": "http.response.start", "status": 308, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
            if scope["path"].startswith(self._begin):
                scope = {**scope, "path": scope["path"][len(self._root) :]}
        await self._application(scope, receive, send)
