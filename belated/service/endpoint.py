"""One route of the service: reads a body of limited size, checks the token, lets a handler answer, and writes JSON."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from belated.ledger.errors import Refused, StorageError
from belated.ledger.items import By
from belated.service import api
from belated.service.asgi import Receive, Scope, Send
from belated.service.auth import Bearer
from belated.service.batch import Busy
from belated.service.health import CONNECTION, SILENT
from belated.service.metrics import Metrics
from belated.service.requests import HEADER, SEEN, id_of, made_id

if TYPE_CHECKING:
    from belated.service.app import Service

log = logging.getLogger("belated")

#: Bytes that a body may have.
BODY = 1_000_000
TOO_LARGE = f"a body may have {BODY:,} bytes at most"
STATUS = {
    "malformed": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_experiment": 404,
    "unknown_ticket": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "cancelled": 409,
    "expired": 409,
    "closed": 409,
    "exists": 409,
    "archived": 409,
    "read_only": 409,
    "damaged": 409,
    "too_large": 413,
    "invalid": 422,
    "unsupported": 422,
    "key_reused": 422,
    "too_many_outstanding": 429,
    "too_fast": 429,
    "internal": 500,
    "busy": 503,
    "waited": 503,
    "storage": 503,
}
JSON = (b"content-type", b"application/json")
POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
)
SAFE = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]


class Problem(Exception):
    """A request that is refused before it reaches the ledger."""

    def __init__(self, kind: str, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.kind = kind
        self.wait = wait


class Request(NamedTuple):
    """What a handler sees of a request."""

    path: dict[str, str]
    headers: dict[bytes, bytes]
    body: bytes
    bearer: Bearer | None = None
    address: str = ""
    query: bytes = b""

    @property
    def by(self) -> By:
        """Who asks, for the log."""
        return By("anybody" if self.bearer is None else self.bearer.name, self.address)

    def may_see(self, experiment: str) -> bool:
        """Whether who asks may know of an experiment."""
        return self.bearer is None or self.bearer.may_see(experiment)


class Reply(NamedTuple):
    """What a handler answers."""

    status: int
    body: bytes
    kind: tuple[bytes, bytes] = JSON


Handler = Callable[[Request], Awaitable[Reply]]


def failure(kind: str, message: str) -> Reply:
    """An error as a body."""
    return Reply(STATUS[kind], api.encode({"error": {"kind": kind, "message": message}}))


async def read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """The body, if it is not too large."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > 10 or int(length) > BODY:
        raise Problem("too_large", f"{TOO_LARGE}, got {length[:20].decode('latin-1')}")
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Problem("malformed", "the body ended too early")
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem("malformed", "the body ended too early")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > BODY:
                raise Problem("too_large", f"{TOO_LARGE}, got more")
        body = b"".join(parts)
    return body


class Endpoint:
    """One route as an ASGI application."""

    def __init__(self, service: Service, name: str, handle: Handler, needs: str | None) -> None:
        self._service = service
        self._name = name
        self._handle = handle
        self._needs = needs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        service = self._service
        headers, wait = dict(scope["headers"]), 0.0
        address = scope["client"][0] if scope.get("client") else ""
        bearer, number, seen = None, id_of(headers), scope.get(SEEN)
        CONNECTION.set(receive)
        if seen is not None:
            seen.route = self._name
        try:
            if self._needs is not None and service.guard.needed:
                bearer = service.check_token(headers, self._needs, scope["path_params"].get("name"), address)
                if seen is not None:
                    seen.who = bearer.name
            body = await read_body(headers, receive)
            request = Request(scope["path_params"], headers, body, bearer, address, scope.get("query_string", b""))
            reply = await service.answer(self._handle, request)
        except Refused as refusal:
            reply = failure(refusal.kind, str(refusal))
        except Problem as problem:
            reply, wait = failure(problem.kind, str(problem)), problem.wait
        except api.Malformed as error:
            reply = failure("malformed", str(error))
        except Busy:
            reply = failure("busy", "too much is waiting; try again in a second")
        except StorageError as error:
            number = number or made_id()
            log.error("%s", error, extra={"request": number.decode()})
            reply = failure("storage", SILENT)
        except Exception as error:
            number = number or made_id()
            log.error("a request failed", exc_info=error, extra={"request": number.decode()})
            reply = failure("internal", "this request failed")
        sent = [reply.kind, (b"content-length", b"%d" % len(reply.body)), *SAFE]
        if number is not None:
            sent.append((HEADER, number))
        if reply.status == 503 or wait:
            sent.append((b"retry-after", str(math.ceil(wait) or 1).encode()))
        if reply.status == 401:
            sent.append((b"www-authenticate", b"Bearer"))
        if reply.kind is not JSON:
            sent.append(POLICY)
        await send({"type": "http.response.start", "status": reply.status, "headers": sent})
        await send({"type": "http.response.body", "body": reply.body})
        service.metrics.request(self._name, reply.status, time.perf_counter() - started)


class Verbs:
    """What a path can be asked."""

    def __init__(self, known: dict[str, Endpoint], metrics: Metrics) -> None:
        self._known = known | ({"HEAD": known["GET"]} if "GET" in known else {})
        self._metrics = metrics
        self._takes = ", ".join(sorted(self._known))

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        endpoint = self._known.get(scope.get("method", ""))
        if endpoint is not None:
            return endpoint(scope, receive, send)
        said = f"{scope.get('path')} takes {self._takes}, not {scope.get('method')}: see /docs"
        return refuse("method_not_allowed", self._metrics, scope, send, (b"allow", self._takes.encode()), message=said)


async def refuse(
    kind: str, metrics: Metrics, scope: Scope, send: Send, *headers: tuple[bytes, bytes], message: str | None = None
) -> None:
    """Answer what no endpoint answers. It is counted as a request of no route: paths are what anybody makes up."""
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1000, "reason": ""})
        return
    reply = failure(kind, message or f"{scope['method']} {scope['path']} is not part of this service, see /docs")
    sent = [JSON, (b"content-length", str(len(reply.body)).encode()), *SAFE, *headers]
    number = id_of(dict(scope["headers"]))
    if number is not None:
        sent.append((HEADER, number))
    await send({"type": "http.response.start", "status": reply.status, "headers": sent})
    await send({"type": "http.response.body", "body": reply.body})
    metrics.count("requests", "none", str(reply.status))
