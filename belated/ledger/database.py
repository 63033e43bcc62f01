"""Opens a database by its address: a file is SQLite, postgresql://... is PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path

from belated.errors import InvalidArgument, InvalidState
from belated.ledger.store import Store

#: The other form of PostgreSQL's addresses.
PAIRS = re.compile(r"(^|\s)(host|dbname|user|password)\s*=")


def is_postgres(database: str) -> bool:
    """Whether it is the address of a PostgreSQL server.

    >>> is_postgres("postgresql://ads@db/ads"), is_postgres("ads.db")
    (True, False)
    """
    return database.startswith(("postgresql://", "postgres://"))


def open_store(
    database: str, *, serve: bool = False, write: bool = False, migrate: bool = False, earlier: bool = False
) -> Store:
    """The database, for reading; with `serve` it is made where it is missing, and with `write` it may be written.

    One of an earlier schema is refused, but brought up to date with `migrate` and read as it is with `earlier`.
    """
    how = {"serve": serve, "write": write, "migrate": migrate, "earlier": earlier}
    if not is_postgres(database):
        from belated.ledger.sqlite import SQLite

        if PAIRS.search(database) and not Path(database).exists():  # which may have a password, so it is not shown
            raise InvalidArgument("the address of a PostgreSQL server is written postgresql://USER@HOST/NAME")
        kind, separator, _ = database.partition("://")
        if separator:
            raise InvalidArgument(f"{kind}:// is no database that is supported: a file, or postgresql://USER@HOST/NAME")
        if serve and not Path(database).parent.is_dir():
            raise InvalidState(f"there is no directory {Path(database).parent} to make the database {database} in")
        return SQLite(database, **how)
    try:
        from belated.ledger.postgres import Postgres
    except ImportError:
        raise InvalidArgument("PostgreSQL needs psycopg: pip install 'belated[postgres]'") from None
    return Postgres(database, **how)


#: Parameters of an address that are secrets.
SECRETS = ("password", "sslpassword")


def secrets_in(database: str) -> list[str]:
    """The passwords in an address, as they are written there.

    >>> secrets_in("postgresql://ads:a%40b@db/ads?sslpassword=c"), secrets_in("ads.db")
    (['a%40b', 'c'], [])
    """
    if not is_postgres(database):
        return []
    _, authority, _, query = _parts(database)
    named = [part.partition("=")[::2] for part in query.split("&")]
    found = [authority.rpartition("@")[0].partition(":")[2], *(value for name, value in named if name in SECRETS)]
    return [each for each in found if each]


def shown(database: str) -> str:
    """The address as it may be shown: without a password.

    >>> shown("postgresql://ads:secret@db/ads?sslmode=require&password=secret")
    'postgresql://ads@db/ads?sslmode=require'
    """
    if not is_postgres(database):
        return database
    head, authority, path, query = _parts(database)
    user, at, host = authority.rpartition("@")
    kept = "&".join(part for part in query.split("&") if part.partition("=")[0] not in SECRETS)
    return f"{head}://{user.partition(':')[0]}{at}{host}{path}" + (f"?{kept}" if kept else "")


def _parts(database: str) -> tuple[str, str, str, str]:
    """Kind, authority, path and query."""
    head, _, rest = database.partition("://")
    before, _, query = rest.partition("?")
    authority, slash, path = before.partition("/")
    return head, authority, slash + path, query
