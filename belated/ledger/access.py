"""Who may come in, and the log of who changed what: tokens by their digests, and lines that are only ever added."""

from __future__ import annotations

from collections.abc import Iterable

from belated.ledger.store import Note, Reader, Writer

NOTE = ", ".join(Note._fields)


def note(session: Writer, rows: Iterable[Note]) -> None:
    """Add lines to the log."""
    for row in rows:
        session.tell(f"INSERT INTO log ({NOTE}) VALUES ({', '.join('?' * len(row))})", row)


def notes(session: Reader, limit: int) -> list[Note]:
    """The last lines of the log, oldest first."""
    rows = session.ask(f"SELECT {NOTE} FROM log ORDER BY id DESC LIMIT ?", (limit,))
    return [Note._make(row) for row in reversed(rows)]


def used(session: Writer, uses: dict[bytes, float]) -> None:
    """Write down when tokens were last used. Several processes may know."""
    sql = "UPDATE tokens SET used_at = ? WHERE digest = ? AND (used_at IS NULL OR used_at < ?)"
    for digest, at in sorted(uses.items()):
        session.tell(sql, (at, digest, at))
