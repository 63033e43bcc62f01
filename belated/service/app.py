"""The routes. An endpoint reads a body of limited size, checks the token, asks the ledger, and writes JSON."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from belated.ledger.errors import Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.items import Again, Archive, By, Cancel, Change, Decide, Feedback, Item, Replace, ticket_of
from belated.service import api, dashboard, openapi
from belated.service.auth import Bearer, Guard
from belated.service.batch import Busy
from belated.service.desk import SWEEP, Asks
from belated.service.health import CONNECTION, SILENT
from belated.service.limits import parts_of
from belated.service.metrics import Metrics, Place
from belated.service.requests import HEADER, SEEN, id_of, made_id
from belated.service.tracing import Tracer, nothing
from belated.version import __version__

log = logging.getLogger("belated")

#: Bytes that a body may have.
BODY = 1_000_000
#: Bytes from which on bodies are read and written by threads of their own, and those of one item of an answer, about.
LARGE = 20_000
ITEM = 100
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
#: By this clients tell how often they did without us.
FALLBACKS = b"x-belated-fallbacks"
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
        raise Problem("too_large", f"a body may have {BODY} bytes")
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
                raise Problem("too_large", f"a body may have {BODY} bytes")
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
        sent = [reply.kind, (b"content-length", str(len(reply.body)).encode()), *SAFE]
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
        service.metrics.count("requests", self._name, str(reply.status))
        service.metrics.observe("request_seconds", time.perf_counter() - started, self._name)


class Verbs:
    """What a path can be asked."""

    def __init__(self, known: dict[str, Endpoint]) -> None:
        self._known = known | ({"HEAD": known["GET"]} if "GET" in known else {})
        self._allow = (b"allow", ", ".join(sorted(self._known)).encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._known.get(scope["method"])
        if endpoint is not None:
            await endpoint(scope, receive, send)
        else:
            await refuse("method_not_allowed", scope, send, self._allow)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """What is asked for is not there."""
    await refuse("not_found", scope, send)


async def refuse(
    kind: str, scope: Scope, send: Send, *headers: tuple[bytes, bytes], message: str | None = None
) -> None:
    """Answer what no endpoint answers."""
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


def _fallbacks(request: Request) -> int:
    """How often the client decided without us since it last told."""
    given = request.headers.get(FALLBACKS)
    if given is None:
        return 0
    if not given.isdigit() or len(given) > 9:
        raise Problem(
            "malformed", f"{FALLBACKS.decode()} must be a number of decisions, got {given[:100].decode('latin-1')!r}"
        )
    return int(given)


class Service:
    """What the routes do: they ask at a desk."""

    def __init__(
        self, desk: Asks, guard: Guard, place: Place | None = None, root_path: str = "", tracer: Tracer | None = None
    ) -> None:
        self.desk = desk
        self.tracer = tracer
        self._span = nothing if tracer is None else tracer.span
        self.root_path = root_path
        self._place = place
        self.guard = guard
        self.metrics = Metrics(place)
        self._parsers = ThreadPoolExecutor(2, thread_name_prefix="belated parser")

    def check_token(self, headers: dict[bytes, bytes], needs: str, experiment: str | None, address: str) -> Bearer:
        """Refuse who may not do it."""
        given = headers.get(b"authorization", b"")
        bearer = self.guard.bearer(given)
        if bearer is None and given:
            self.guard.failed(address)
            raise Problem("unauthorized", "this token is not known, has expired, or was revoked")
        if bearer is None:
            raise Problem("unauthorized", "this needs a bearer token: Authorization: Bearer TOKEN")
        wait = bearer.rate.wait() if bearer.rate is not None else 0.0
        if wait:
            raise Problem("too_fast", f"this token may ask {bearer.rate} at most", wait)
        if needs not in bearer.scopes and "admin" not in bearer.scopes:
            raise Problem("forbidden", f"this token lacks the scope {needs!r}")
        if experiment is not None and not bearer.may_see(experiment):
            raise Problem("forbidden", f"this token is not for the experiment {experiment!r}")
        return bearer

    async def ask(self, item: Item) -> Any:
        """The ledger's answer, committed; refusals are raised."""
        with self._span("belated.ledger"):
            answer = await self.desk.submit(item)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def ask_list(self, request: Request, item: Decide | Feedback | Cancel) -> Any:
        """The same for what may be many."""
        if request.bearer is not None and request.bearer.rate is not None:
            request.bearer.rate.owe(len(parts_of(item)) - 1)
        with self._span("belated.ledger"):
            answer = await self.desk.submit_list(item)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async def large(self, size: int, work: Callable[..., Any], *arguments: Any) -> Any:
        """Reading and writing of bodies, out of the event loop's way where they are large."""
        if size <= LARGE:
            return work(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._parsers, work, *arguments)

    async def answer(self, handle: Handler, request: Request) -> Reply:
        """What a route says. An experiment that is unknown here may have been made by another process."""
        try:
            return await handle(request)
        except Refused as refusal:
            if refusal.kind != "unknown_experiment" or self.desk.alone:
                raise
            await self.desk.refresh()
            return await handle(request)

    def find(self, request: Request) -> Experiment:
        """The experiment in the path."""
        return self.desk.find(request.path["name"])

    # --- experiments ---

    async def create(self, request: Request) -> Reply:
        self._check_all(request)
        made = await self.desk.create(request.body, request.by)
        return Reply(201, api.encode(api.described(made)))

    def _check_all(self, request: Request) -> None:
        if request.bearer is not None and request.bearer.experiments is not None:
            raise Problem("forbidden", "this token is for some experiments only")

    async def experiments(self, request: Request) -> Reply:
        await self.desk.refresh()
        known = [each for each in self.desk.experiments() if request.may_see(each.name)]
        return Reply(200, api.encode({"experiments": [api.described(each) for each in known]}))

    async def experiment(self, request: Request) -> Reply:
        await self.desk.refresh()
        return Reply(200, api.encode(api.described(self.find(request))))

    async def archive(self, request: Request) -> Reply:
        return Reply(200, api.encode(api.described(await self.ask(Archive(self.find(request), request.by)))))

    async def unarchive(self, request: Request) -> Reply:
        changed = await self.ask(Archive(self.find(request), request.by, undo=True))
        return Reply(200, api.encode(api.described(changed)))

    async def change(self, request: Request) -> Reply:
        changed = await self.ask(Change(self.find(request), api.rules(request.body), request.by))
        return Reply(200, api.encode(api.described(changed)))

    async def delete(self, request: Request) -> Reply:
        name = self.find(request).name
        await self.desk.delete(name, request.by)
        return Reply(200, api.encode({"name": name, "status": "deleted"}))

    async def replace(self, request: Request) -> Reply:
        body = api.parse(request.body, api.Replacement)
        changed = await self.ask(Replace(self.find(request), body.action, body.new, request.by))
        return Reply(200, api.encode(api.described(changed)))

    async def grow(self, request: Request) -> Reply:
        body = api.parse(request.body, api.NewAction)
        changed = await self.desk.grow(self.find(request).name, body.name, request.by)
        return Reply(200, api.encode(api.described(changed)))

    # --- decisions ---

    async def decide(self, request: Request) -> Reply:
        key = request.headers.get(b"idempotency-key")
        text = None if key is None else key.decode("latin-1")
        without = _fallbacks(request)
        item, several = await self.large(len(request.body), api.decide, self.find(request), request.body, text)
        answer = await self.ask_list(request, item)
        kind = "replayed" if isinstance(answer, Again) else "decided"
        self.metrics.outcome(item.experiment.name, kind, len(item.contexts))
        if without and kind == "decided":  # else it was counted with the first answer
            self.metrics.outcome(item.experiment.name, "fallback", without)
            self.guard.fell_back(item.experiment.name, without)
        return Reply(201, await self.large(len(answer) * ITEM, api.decided, answer, several))

    async def feedback(self, request: Request) -> Reply:
        item, tickets = await self.large(len(request.body), api.feedback, self.find(request), request.body)
        answer = await self.ask_list(request, item)
        self._count(item.experiment, answer)
        only = item.entries[0][0] if item.entries else None
        return await self.large(len(answer) * ITEM, self._outcomes, answer, tickets, only)  # type: ignore[no-any-return]

    async def cancel(self, request: Request) -> Reply:
        item, tickets = await self.large(len(request.body), api.cancel, self.find(request), request.body)
        answer = await self.ask_list(request, item)
        self._count(item.experiment, answer)
        only = item.tickets[0] if item.tickets else None
        return await self.large(len(answer) * ITEM, self._outcomes, answer, tickets, only)  # type: ignore[no-any-return]

    def _count(self, experiment: Experiment, outcomes: list[Any]) -> None:
        for each in outcomes:
            self.metrics.outcome(experiment.name, each.kind if isinstance(each, Refused) else each)

    def _outcomes(self, answer: list[Any], tickets: list[Any] | None, only: bytes | None) -> Reply:
        if tickets is not None:
            results = [api.outcome(ticket, each) for ticket, each in zip(tickets, answer, strict=True)]
            return Reply(200, api.encode({"results": results}))
        (each,) = answer
        if isinstance(each, Refused):
            raise each
        ticket = only.hex() if only is not None else None
        return Reply(202 if each == "late" else 200, api.encode(api.outcome(ticket, each)))

    async def decision(self, request: Request) -> Reply:
        ticket = ticket_of(request.path["ticket"])
        return Reply(200, api.encode(await self.desk.decision(request.path["name"], ticket)))

    async def statistics(self, request: Request) -> Reply:
        return Reply(200, api.encode(await self.desk.statistics(request.path["name"])))

    async def overview(self, request: Request) -> Reply:
        only = None if request.bearer is None else request.bearer.experiments
        return Reply(200, api.encode(await self.desk.overview(only)))

    async def lines(self, request: Request) -> Reply:
        self._check_all(request)
        return Reply(200, api.encode({"lines": await self.desk.lines(api.limit(request.query))}))

    # --- about the service ---

    async def health(self, request: Request) -> Reply:
        good = self.desk.alive
        body = {"status": "ok" if good else "the writer has stopped", "version": __version__}
        return Reply(200 if good else 503, api.encode(body))

    async def ready(self, request: Request) -> Reply:
        why = await self.desk.trouble()
        if why is None:
            return Reply(200, api.encode({"status": "ok", "version": __version__}))
        error = {"kind": "storage", "message": why}
        return Reply(503, api.encode({"status": why, "version": __version__, "error": error}))

    async def prometheus(self, request: Request) -> Reply:
        self._check_all(request)
        try:
            known = await self.desk.numbers()
        except (Refused, StorageError) as error:
            log.error("%s", error)
            known = None
        return Reply(200, self.metrics.text(known), (b"content-type", b"text/plain; version=0.0.4; charset=utf-8"))

    async def openapi(self, request: Request) -> Reply:
        return Reply(200, openapi.encoded(self.root_path))

    async def docs(self, request: Request) -> Reply:
        return Reply(200, openapi.page(), (b"content-type", b"text/html; charset=utf-8"))

    async def dashboard(self, request: Request) -> Reply:
        found = dashboard.find(request.path.get("file", dashboard.INDEX))
        if found is None:
            raise Problem("not_found", "the dashboard has no such file")
        return Reply(200, found[0], (b"content-type", found[1]))

    async def style(self, request: Request) -> Reply:
        return Reply(200, openapi.STYLE, (b"content-type", b"text/css; charset=utf-8"))

    # --- from start to end ---

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """The desk is open, and the clock runs, while the application does."""
        async with self.desk.open(self.metrics):
            await self._learn()
            tasks = [asyncio.create_task(self._clock()), asyncio.create_task(self._beat())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
        self.metrics.share()
        self._parsers.shutdown()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)

    async def _beat(self) -> None:
        """Show the other processes that this one is not stopped, whatever the database does."""
        while self._place is not None:
            self._place.beat()
            await asyncio.sleep(SWEEP)

    async def _clock(self) -> None:
        """Tokens, and what is told of this process, about once a second."""
        while True:
            await asyncio.sleep(SWEEP)
            for step in (self._record, self._learn, self._share):
                try:
                    await step()
                except Exception as error:  # the others have nothing to do with it
                    plain = isinstance(error, StorageError | Refused)
                    log.error("the clock stumbled: %s", error, exc_info=None if plain else error)

    async def _record(self) -> None:
        """Put on record who used tokens, and who came with none of ours."""
        record = self.guard.record(time.monotonic())
        if record is not None:
            for note in record.notes:
                log.warning("%s: %s%s", note.what, note.detail, note.address and f", from {note.address}")
            await self.desk.record(record)

    async def _learn(self) -> None:
        """Of new and revoked tokens."""
        if self.guard.needed:
            self.guard.learn(*await self.desk.tokens())

    async def _share(self) -> None:
        self.metrics.share()

    def application(self) -> Router:
        """The ASGI application; the routes that are used most come first.

        It is a bare router: endpoints see to their own errors, and the layers of a whole application cost a tenth.
        """
        root = "/v1/experiments"
        one = f"{root}/{{name}}"
        routes: list[tuple[str, str, Handler, str | None]] = [
            ("POST", f"{one}/decisions", self.decide, "decide"),
            ("POST", f"{one}/feedback", self.feedback, "feedback"),
            ("POST", f"{one}/cancellations", self.cancel, "feedback"),
            ("GET", f"{one}/decisions/{{ticket}}", self.decision, "read"),
            ("GET", f"{one}/statistics", self.statistics, "read"),
            ("POST", f"{one}/archive", self.archive, "admin"),
            ("POST", f"{one}/unarchive", self.unarchive, "admin"),
            ("POST", f"{one}/replacements", self.replace, "admin"),
            ("POST", f"{one}/actions", self.grow, "admin"),
            ("GET", one, self.experiment, "read"),
            ("PATCH", one, self.change, "admin"),
            ("DELETE", one, self.delete, "admin"),
            ("POST", root, self.create, "admin"),
            ("GET", root, self.experiments, "read"),
            ("GET", "/v1/overview", self.overview, "read"),
            ("GET", "/v1/log", self.lines, "admin"),
            ("GET", "/metrics", self.prometheus, "read"),
            ("GET", "/health", self.health, None),
            ("GET", "/ready", self.ready, None),
            ("GET", "/openapi.json", self.openapi, None),
            ("GET", "/docs", self.docs, None),
            ("GET", "/docs/style.css", self.style, None),
            ("GET", "/", self.dashboard, None),
            ("GET", "/dashboard/{file:path}", self.dashboard, None),
        ]
        verbs: dict[str, dict[str, Endpoint]] = {}
        for method, path, handle, needs in routes:
            verbs.setdefault(path, {})[method] = Endpoint(self, f"{method} {path}", handle, needs)
        made = [Route(path, Verbs(known)) for path, known in verbs.items()]
        return Router(made, lifespan=self.lifespan, default=not_found, redirect_slashes=False)
