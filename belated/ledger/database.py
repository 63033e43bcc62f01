"""Opens a database by its address: a file is SQLite, postgresql://... is PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from belated.errors import InvalidArgument, InvalidState
from belated.ledger.store import Store


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


def shown(database: str) -> str:
    """The address as it may be shown: without a password.

    >>> shown("postgresql://ads:secret@db/ads?sslmode=require")
    'postgresql://ads@db/ads?sslmode=require'
    """
    if not is_postgres(database):
        return database
    head, _, rest = database.partition("://")
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    user, at, host = rest[:end].rpartition("@")
    return f"{head}://{user.partition(':')[0]}{at}{host}{rest[end:]}"
