"""Runs the service: opens the database, listens, and ends in order."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from belated.errors import InvalidArgument
from belated.imports import bring_named
from belated.kernels.random import key_of
from belated.ledger.database import is_postgres, open_store, shown
from belated.ledger.ledger import Ledger
from belated.ledger.store import Store
from belated.service import logs, tracing
from belated.service.app import Service
from belated.service.asgi import Application
from belated.service.auth import Guard, is_loopback
from belated.service.connections import Connection, most_connections, watch
from belated.service.desk import Desk
from belated.service.guard import Loopback
from belated.service.health import PATIENCE
from belated.service.listening import listen
from belated.service.metrics import Place
from belated.service.options import Options
from belated.service.remote import Remote, wait_for
from belated.service.requests import Under, Watched
from belated.service.warm import Warmer
from belated.service.workers import end_in_time, supervise
from belated.service.writer import Host

log = logging.getLogger("belated")

#: Seconds that a thread may keep the interpreter from the others.
SWITCH = 0.001


class Server(uvicorn.Server):
    """Says where it listens, once it does."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[str], None], grace: float, place: Place | None
    ) -> None:
        super().__init__(config)
        self._say = started
        self._grace = grace
        self._place = place

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; and end in any case, should the database not answer any more."""
        end_in_time(self._grace)
        if self._place is not None:
            with suppress(OSError):
                self._place.end()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._say(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def serve(
    database: str,
    host: str,
    port: int,
    workers: int,
    require_token: bool,
    started: Callable[[str], None],
    *,
    migrate: bool = False,
    patience: float = PATIENCE,
    how: Options = Options(),  # noqa: B008  (it is frozen)
) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    tracing.check(how.traces)
    options: dict[str, Any] = {"migrate": migrate, "patience": patience, "how": how}
    if workers == 1:
        return work(database, host, port, require_token, started, **options)
    if not is_postgres(database):
        raise InvalidArgument(f"SQLite has one writer: --workers must be 1, got {workers}; more need PostgreSQL")
    logs.start(how.log_level, how.log_format)
    with closing(open_store(database, serve=True, migrate=migrate)) as store:
        _guard(store, database, host, require_token)
    writing = partial(write, database, host, port, require_token, **options)
    answering = partial(answer, host, port, require_token, patience=patience, how=how)
    supervise(writing, answering, host, port, workers, started, how.grace)


def _guard(store: Store, database: str, host: str, require_token: bool) -> Guard:
    guard = Guard(store, require_token or not is_loopback(host))
    if guard.needed and guard.empty:
        why = "--require-token is given" if is_loopback(host) else f"{host} can be reached from elsewhere"
        raise InvalidArgument(
            f"{why} and there is no token: make one with `belated token create NAME --database {shown(database)}`"
        )
    return guard


def work(
    database: str,
    host: str,
    port: int,
    require_token: bool,
    started: Callable[[str], None],
    *,
    migrate: bool = False,
    patience: float = PATIENCE,
    how: Options = Options(),  # noqa: B008  (it is frozen)
) -> None:
    """Do everything in this process. SIGTERM ends it with exit code 0."""
    _begin(how)
    _look_at(database)
    with ExitStack() as held:
        sockets = [held.enter_context(each) for each in listen(host, port)]  # first: a database that is new stays
        store = held.enter_context(closing(open_store(database, serve=True, migrate=migrate)))
        guard = _guard(store, database, host, require_token)
        tracer = tracing.start(how.traces)
        service = Service(Desk(*_ledger(store), patience, tracer), guard, None, how.root_path, tracer)
        _settle_memory(compiled=True)
        _listen_to(service, sockets, host, port, started, how)


def write(
    database: str,
    host: str,
    port: int,
    require_token: bool,
    sockets: list[socket.socket],
    place: Place,
    started: Callable[[str], None],
    *,
    migrate: bool = False,
    patience: float = PATIENCE,
    how: Options = Options(),  # noqa: B008  (it is frozen)
) -> None:
    """The same on these sockets of the port, and for workers on the last."""
    _begin(how)
    *public, inside = sockets
    with closing(open_store(database, serve=True, migrate=migrate)) as store:
        guard = Guard(store, require_token or not is_loopback(host))
        tracer = tracing.start(how.traces)
        service = Service(Host(*_ledger(store), patience, tracer, inside), guard, place, how.root_path, tracer)
        _settle_memory(compiled=True)
        _listen_to(service, public, host, port, started, how)


def answer(
    host: str,
    port: int,
    require_token: bool,
    sockets: list[socket.socket],
    place: Place,
    started: Callable[[str], None],
    *,
    patience: float = PATIENCE,
    how: Options = Options(),  # noqa: B008  (it is frozen)
) -> None:
    """Answer requests on these sockets of the port, and ask the writer of this machine."""
    _begin(how)
    wait_for(place.writer)
    guard = Guard(None, require_token or not is_loopback(host))
    service = Service(Remote(place.writer, patience), guard, place, how.root_path, tracing.start(how.traces))
    _settle_memory(compiled=False)
    _listen_to(service, sockets, host, port, started, how)


def _begin(how: Options) -> None:
    logs.start(how.log_level, how.log_format)
    bring_named()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))  # uvicorn raises it again when it has drained
    sys.setswitchinterval(SWITCH)


def _ledger(store: Store) -> tuple[Ledger, Callable[[], None]]:
    """The ledger, and how what compiles for it is closed."""
    warmer = Warmer()
    return Ledger(store, warmer), warmer.close


def _listen_to(
    service: Service,
    sockets: list[socket.socket],
    host: str,
    port: int,
    started: Callable[[str], None],
    how: Options,
) -> None:
    Connection.most, Connection.seconds = most_connections(how.connections), how.read_timeout
    for each in sockets:
        watch(each, how.read_timeout)
    config = uvicorn.Config(
        _around(service, how),
        host=host,
        port=port,
        http=Connection,
        interface="asgi3",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=bool(how.proxies),
        forwarded_allow_ips=list(how.proxies),
        timeout_keep_alive=how.keep_alive,  # type: ignore[arg-type]  # parts of seconds work too
        timeout_graceful_shutdown=how.grace,  # type: ignore[arg-type]
    )
    Server(config, started, how.grace, service.place).run(sockets)


def _around(service: Service, how: Options) -> Application:
    """The routes, and around them what is asked for."""
    application: Application = service.application()
    if not service.guard.needed:
        application = Loopback(application, service.metrics)
    if how.root_path:
        application = Under(application, how.root_path)
    lines = logs.access(how.log_format) if how.access_log else None
    watched = how.access_log or service.tracer is not None
    return Watched(application, lines, service.tracer) if watched else application


def _look_at(database: str) -> None:
    """Say that others can read the database: new files are private, those of earlier versions were not."""
    if not is_postgres(database) and Path(database).is_file() and os.stat(database).st_mode & 0o077:
        log.warning("%s can be read by others: chmod 600 %s*", database, database)


def _settle_memory(compiled: bool) -> None:
    """What is loaded by now stays: looking through it for garbage, again and again, held requests up for 70 ms."""
    if compiled:
        key_of(0, 0)  # the machinery of compiled code is loaded on its first use
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
