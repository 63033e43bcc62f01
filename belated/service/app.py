"""The routes: what each asks at the desk, and how it answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from belated.ledger.errors import Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.items import Again, Archive, Cancel, Change, Decide, Feedback, Item, Replace, ticket_of
from belated.service import api, dashboard, openapi
from belated.service.asgi import Receive, Routes, Scope, Send
from belated.service.auth import Bearer, Guard
from belated.service.desk import SWEEP, Asks
from belated.service.endpoint import Endpoint, Handler, Problem, Reply, Request, Verbs, refuse
from belated.service.health import has_left
from belated.service.limits import parts_of
from belated.service.metrics import Metrics, Place
from belated.service.running import running
from belated.service.tracing import Tracer, nothing
from belated.version import __version__

log = logging.getLogger("belated")

#: Bytes from which on bodies are read and written by threads of their own, and those of one item of an answer, about.
LARGE = 20_000
ITEM = 100
#: By this clients tell how often they did without us.
FALLBACKS = b"x-belated-fallbacks"


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
        self.place = place
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

    async def _many(
        self, request: Request, read: Callable[[Experiment, Request], Any], write: Callable[[Any, Any, Any], Reply]
    ) -> Reply:
        """Decisions, feedback or cancellations. Bodies are read and written out of the event loop's way where they are
        large."""
        experiment, body = self.find(request), request.body
        item, told = read(experiment, request) if len(body) <= LARGE else await self._aside(read, experiment, request)
        if request.bearer is not None and request.bearer.rate is not None:
            request.bearer.rate.owe(len(parts_of(item)) - 1)
        with self._span("belated.ledger"):
            answer = await self.desk.submit_list(item)
        if isinstance(answer, Refused):
            raise answer
        self._count(item, answer)
        if FALLBACKS in request.headers:
            await self._fell_back(request, item, answer)
        if len(answer) * ITEM <= LARGE:
            return write(item, answer, told)
        reply: Reply = await self._aside(write, item, answer, told)
        return reply

    async def _aside(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._parsers, work, *arguments)

    def _count(self, item: Decide | Feedback | Cancel, answer: list[Any]) -> None:
        """What came of it, for Prometheus."""
        name = item.experiment.name
        if not isinstance(item, Decide):
            for each in answer:
                self.metrics.outcome(name, each.kind if isinstance(each, Refused) else each)
            return
        replayed = isinstance(answer, Again)
        self.metrics.outcome(name, "replayed" if replayed else "decided", len(item.contexts))

    async def _fell_back(self, request: Request, item: Decide | Feedback | Cancel, answer: list[Any]) -> None:
        """Count what a client decided without us. Who asks again has told before, and who has left tells again."""
        if not isinstance(item, Decide) or isinstance(answer, Again) or await has_left():
            return
        without = _fallbacks(request)
        if without:
            self.metrics.outcome(item.experiment.name, "fallback", without)
            self.guard.fell_back(item.experiment.name, without)

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

    def decide(self, request: Request) -> Awaitable[Reply]:
        return self._many(request, _decisions, _decided)

    def feedback(self, request: Request) -> Awaitable[Reply]:
        return self._many(request, _feedback, _outcomes)

    def cancel(self, request: Request) -> Awaitable[Reply]:
        return self._many(request, _cancellations, _outcomes)

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
        found = dashboard.find("/".join(request.path.values()) or dashboard.INDEX)
        if found is None:
            raise Problem("not_found", "the dashboard has no such file")
        return Reply(200, found[0], (b"content-type", found[1]))

    async def style(self, request: Request) -> Reply:
        return Reply(200, openapi.STYLE, (b"content-type", b"text/css; charset=utf-8"))

    # --- from start to end ---

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """The desk is open, and the clock runs, while the application does."""
        async with running(self._beat()), self.desk.open(self.metrics):  # signs are given until the desk is closed
            await self._learn()
            async with running(self._clock()):
                yield
        with contextlib.suppress(OSError):
            self.metrics.share()
        self._parsers.shutdown()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)

    async def _beat(self) -> None:
        """Show the other processes that this one is not stopped, and what it counted, whatever the database does."""
        while self.place is not None:
            try:
                if self.desk.alive:
                    self.place.beat()
                self.metrics.share()
            except OSError as error:
                log.error("%s: %s", error.filename, error.strerror)
            await asyncio.sleep(SWEEP)

    async def _clock(self) -> None:
        """Tokens, about once a second."""
        while True:
            await asyncio.sleep(SWEEP)
            for step in (self._record, self._learn):
                try:
                    await step()
                except Exception as error:  # the others have nothing to do with it
                    plain = isinstance(error, StorageError | Refused)
                    log.error("what is done every second failed: %s", error, exc_info=None if plain else error)

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

    def application(self) -> Routes:
        """The ASGI application."""
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
            ("GET", "/dashboard/{file}", self.dashboard, None),
            ("GET", "/dashboard/{folder}/{file}", self.dashboard, None),
        ]
        verbs: dict[str, dict[str, Endpoint]] = {}
        for method, path, handle, needs in routes:
            verbs.setdefault(path, {})[method] = Endpoint(self, f"{method} {path}", handle, needs)
        made = [(path, Verbs(known, self.metrics)) for path, known in verbs.items()]
        return Routes(made, self.lifespan, self._not_found)

    def _not_found(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return refuse("not_found", self.metrics, scope, send)


# --- bodies and items ---


def _decisions(to: Experiment, request: Request) -> tuple[Decide, bool]:
    key = request.headers.get(b"idempotency-key")
    _fallbacks(request)  # refused before anything is decided
    return api.decide(to, request.body, None if key is None else key.decode("latin-1"))


def _decided(item: Decide, answer: list[Any], several: bool) -> Reply:
    return Reply(201, api.decided(answer, several))


def _feedback(to: Experiment, request: Request) -> tuple[Feedback, list[Any] | None]:
    return api.feedback(to, request.body)


def _cancellations(to: Experiment, request: Request) -> tuple[Cancel, list[Any] | None]:
    return api.cancel(to, request.body)


def _outcomes(item: Feedback | Cancel, answer: list[Any], tickets: list[Any] | None) -> Reply:
    if tickets is not None:
        results = [api.outcome(ticket, each) for ticket, each in zip(tickets, answer, strict=True)]
        return Reply(200, api.encode({"results": results}))
    (each,) = answer
    if isinstance(each, Refused):
        raise each
    only = item.tickets[0] if isinstance(item, Cancel) else item.entries[0][0]
    ticket = only.hex() if isinstance(only, bytes) else None
    return Reply(202 if each == "late" else 200, api.encode(api.outcome(ticket, each)))
