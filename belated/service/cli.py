"""The commands of the service: serve, migrate, verify, export, backup, token, log; `experiment` is in commands.py."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from belated.errors import BelatedError, InvalidArgument
from belated.imports import VARIABLE, bring, bring_named
from belated.service import commands
from belated.service.helping import Command, Commands, checked
from belated.service.options import Format, Level, Options, proxies, root_path
from belated.spelling import counted

if TYPE_CHECKING:
    from belated.ledger.store import Store

DEFAULT = Options()
#: How nice it is to be slow: see nice(1).
NICE = 19
NEEDED = ("msgspec", "uvicorn", "prometheus_client", "structlog")


def _without_password(database: str | None) -> str | None:
    """The same address, whose password is no more in the list of processes."""
    from belated.service.argv import hide

    if database is not None:
        hide(database)
    return database


Database = Annotated[
    str,
    typer.Option(
        help="A file (SQLite), or postgresql://USER@HOST/NAME, whose password is best in PGPASSWORD or PGPASSFILE.",
        metavar="FILE|URL",
        envvar="BELATED_DATABASE",
        callback=_without_password,
    ),
]


def _bring(given: list[str] | None) -> list[str]:
    with _plain_errors():
        if given:
            bring(given)
        else:
            bring_named()
    return given or []


#: Imported before anything else is looked at.
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        callback=_bring,
        is_eager=True,
        allow_from_autoenv=False,  # it is divided as in a shell
        metavar="MODULE",
        help="A module, or a file such as mine.py, with learners, forecasters, games or laws of your own; several "
        f"may be given. Also by {VARIABLE}.",
    ),
]
token = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Bearer tokens, which are needed where the service is not on loopback."
)


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except (BelatedError, OSError) as error:
        plain = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        typer.echo(f"error: {plain}", err=True)
        raise typer.Exit(1) from None


def _check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidArgument(f"the service needs {', '.join(missing)}: pip install 'belated[service]'")


@contextmanager
def _opened(database: str, **how: bool) -> Iterator[Store]:
    from belated.ledger.database import open_store

    with _plain_errors():
        store = open_store(database, **how)
        try:
            yield store
        finally:
            store.close()


def serve(
    database: Database = "belated.db",
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; other than loopback needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="NUMBER", help="0 takes any free one.")] = 8000,
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="NUMBER",
            help="Processes that answer; more than one on PostgreSQL only, where one more writes. No more are started "
            "than there are processors for.",
        ),
    ] = 1,
    require_token: Annotated[bool, typer.Option("--require-token", help="Ask for a token on loopback too.")] = False,
    migrate: Annotated[
        bool, typer.Option("--migrate", help="First bring a database of an earlier version up to date.")
    ] = False,
    patience: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="After which a request that still waits is refused (503)."),
    ] = 10.0,
    keep_alive: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="After which a connection without requests ends.")
    ] = DEFAULT.keep_alive,
    read_timeout: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="In which a request must have come, head and body (else 408)."),
    ] = DEFAULT.read_timeout,
    grace: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="That requests under way have to end after SIGTERM.")
    ] = DEFAULT.grace,
    connections: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="The most connections at once, of each process.")
    ] = DEFAULT.connections,
    root: Annotated[
        str,
        typer.Option(
            "--root-path",
            metavar="PATH",
            help="Under which a proxy shows the service, as /belated.",
            callback=checked(root_path),
        ),
    ] = DEFAULT.root_path,
    forwarded: Annotated[
        list[str] | None,
        typer.Option(
            "--forwarded-allow-ips",
            metavar="ADDRESS",
            callback=checked(proxies),
            help="A proxy, or a network of them, whose X-Forwarded-For is believed; several times. Without it: none.",
        ),
    ] = None,
    log_level: Annotated[
        Level, typer.Option(metavar="LEVEL", help="From which on lines are logged: debug, info, warning or error.")
    ] = DEFAULT.log_level,
    log_format: Annotated[
        Format, typer.Option(metavar="FORMAT", help="json, console, or auto: console on a terminal, json elsewhere.")
    ] = DEFAULT.log_format,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request, with its id.")] = False,
    traces: Annotated[
        bool, typer.Option("--traces", help="Send OpenTelemetry traces, to where the OTEL_ variables say.")
    ] = False,
    modules: Imports = None,
) -> None:
    """Serve decisions over HTTP: decide now, learn when the feedback comes, lose nothing.

    The database is made if there is none; one of an earlier version is refused without --migrate. See /docs on the
    service for what it can do.
    """
    with _plain_errors():
        _check_installed()
        from belated.ledger.database import shown
        from belated.service.server import serve as run

        started = partial(_say, shown(database))
        how = Options(
            keep_alive=keep_alive,
            read_timeout=read_timeout,
            grace=grace,
            connections=connections,
            root_path=root,
            proxies=tuple(forwarded or ()),
            log_level=log_level,
            log_format=log_format,
            access_log=access_log,
            traces=traces,
        )
        run(database, host, port, workers, require_token, started, migrate=migrate, patience=patience, how=how)


def _say(name: str, url: str) -> None:
    typer.echo(f"belated serves {name} at {url}")


def migrate(
    context: typer.Context,
    named: Annotated[str | None, typer.Argument(hidden=True, callback=_without_password)] = None,
    database: Database = "belated.db",
    check: Annotated[
        bool, typer.Option("--check", help="Only say what would be done; 1 if there is something.")
    ] = False,
    modules: Imports = None,
) -> None:
    """Bring a database of an earlier version, and the learner states in it, up to date. Make a backup before.

    The exit code is 1 if some experiment could not be brought up to date.
    """
    from belated.ledger import migrate as moving

    with _plain_errors():
        source = context.get_parameter_source("database")
        if named is not None and source is not None and source.name == "COMMANDLINE":
            raise InvalidArgument("the database is given twice: leave --database, and take the other away")
        database = named or database  # as it was given to earlier versions
        told = moving.plan(database) if check else moving.migrate(database)
    for line in moving.lines(told):
        typer.echo(line)
    if told[1] or (check and told[0]):
        raise typer.Exit(1)


def verify(database: Database = "belated.db", modules: Imports = None) -> None:
    """Rebuild every learner state from the recorded events, and compare.

    It may run while the service does, which it gives way to, and on a standby. The exit code is 1 if something is
    different, or could not be replayed.
    """
    from belated.ledger.verify import verify as check

    good = True
    with _opened(database) as store, _giving_way():
        for report in check(store):
            typer.echo(str(report))
            good = good and report.good
    if not good:
        raise typer.Exit(1)


def export(
    name: Annotated[str, typer.Argument(help="The experiment.")],
    file: Annotated[Path, typer.Argument(help="Where to write; it must end in .parquet.")],
    since: Annotated[
        str | None,
        typer.Option(
            help="Only decisions that were made, have ended or got late feedback since then, such as 2026-11-18 or "
            "2026-11-18T09:30 (UTC, unless it says otherwise). They take the place of rows with the same ticket.",
            metavar="TIME",
        ),
    ] = None,
    database: Database = "belated.db",
    modules: Imports = None,
) -> None:
    """Write every decision of an experiment to a Parquet file: context, probability, feedback, times.

    It may run while the service does, which it gives way to, and on a standby.
    """
    from belated.ledger.export import export as write

    with _plain_errors():
        first = 0.0 if since is None else _moment(since)
    with _opened(database) as store, _giving_way():
        count = write(store, name, file, first)
    typer.echo(f"{counted(count, 'decision')} written to {file}")


def _moment(text: str) -> float:
    """A time that somebody wrote, in seconds since 1970."""
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidArgument(f"--since must be a time such as 2026-11-18T09:30, got {text!r}") from None


@contextmanager
def _giving_way() -> Iterator[None]:
    """Let the service, which may run on the same machine, have the processor first."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(before, NICE))
    try:
        yield
    finally:
        with suppress(OSError):  # who is not root cannot go back
            os.setpriority(os.PRIO_PROCESS, 0, before)


def backup(
    file: Annotated[Path, typer.Argument(help="Where to write; it must not exist.")],
    database: Database = "belated.db",
) -> None:
    """Copy the database as it is at one moment, while the service goes on. (Of PostgreSQL: for pg_restore.)"""
    from belated.ledger.database import shown

    with _opened(database, earlier=True) as store:
        store.backup(str(file))
    typer.echo(f"{shown(database)} copied to {file}")


@token.command("create", cls=Command)
def create_token(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str] | None, typer.Option(help="decide, feedback, read or admin; several times.")] = None,
    experiment: Annotated[
        list[str] | None, typer.Option(help="The experiment that it is for; several times. Without it: all.")
    ] = None,
    days: Annotated[float | None, typer.Option(help="How long it is good for. Without it: until revoked.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second that it may make at most.")] = None,
    database: Database = "belated.db",
) -> None:
    """Make a token and show it, once. Without --scope it may decide, give feedback and read."""
    from belated.ledger.database import is_postgres, open_store
    from belated.service import auth

    with _plain_errors():
        if is_postgres(database) or not Path(database).exists():
            open_store(database, serve=True).close()
    with _opened(database, write=True) as store:
        scopes = scope or ["decide", "feedback", "read"]
        seconds = None if days is None else days * 86400.0
        made = auth.create(store, name, scopes, experiment, seconds, rate)
        with store.read() as session:
            known = {each.name for each in session.experiments()}
        for each in experiment or ():
            if each not in known:
                typer.echo(f"warning: there is no experiment called {each!r} yet", err=True)
        typer.echo(made)


@token.command("list", cls=Command)
def list_tokens(database: Database = "belated.db") -> None:
    """Tokens: name, scopes, whether in use, for which experiments, requests a second, until when, last used."""
    from belated.service import auth

    with _opened(database) as store, store.read() as session:
        now = session.now()
        for known in session.tokens():
            state = auth.state(known, now)
            only = known.experiments if state == "damaged" else ", ".join(auth.experiments_of(known) or ["all"])
            rate = "any rate" if known.rate is None else f"{_number(known.rate)}/s"
            until = "no end" if known.expires_at is None else f"until {_time(known.expires_at)}"
            used = "never used" if known.used_at is None else f"used {_time(known.used_at)}"
            typer.echo("\t".join(map(_seen, (known.name, known.scopes, state, only, rate, until, used))))


@token.command("revoke", cls=Command)
def revoke_token(
    name: Annotated[str, typer.Argument(help="The token's name.")],
    database: Database = "belated.db",
) -> None:
    """End a token; a running service knows within seconds."""
    from belated.service import auth

    with _opened(database, write=True) as store:
        auth.revoke(store, name)
    typer.echo(f"{name} is revoked")


def log(
    lines: Annotated[int, typer.Option(min=1, help="How many of the last lines.")] = 100,
    database: Database = "belated.db",
) -> None:
    """Who created, changed, archived and deleted experiments, made tokens, or came with a wrong one."""
    from belated.ledger import access

    with _opened(database) as store, store.read() as session:
        for note in access.notes(session, lines):
            told = (_time(note.at), note.who, note.address or "-", note.what, note.experiment or "-", note.detail)
            typer.echo("\t".join(map(_seen, told)))


def _time(at: Any) -> str:
    """A moment; as it is stored where it is none."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return str(at)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seen(text: Any) -> str:
    """A text whose control and bidirectional characters are shown as such."""
    from belated.ledger.experiment import UNSEEN

    return UNSEEN.sub(lambda found: ascii(found[0])[1:-1], str(text))


def mount(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (serve, migrate, verify, export, backup, log):
        app.command(cls=Command)(command)
    app.add_typer(token, name="token")
    app.add_typer(commands.experiment, name="experiment")
