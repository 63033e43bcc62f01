"""How counts and moments are said."""

from __future__ import annotations

from datetime import UTC, datetime


def many(count: int, word: str) -> str:
    """A number of things.

    >>> many(1, "row"), many(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def show_moment(kind: str, moment: int) -> str:
    """A time or a round as people read it.

    >>> show_moment("rounds", 1200), show_moment("times", 0)
    ('round 1,200', '1970-01-01 00:00:00 UTC')
    """
    if kind == "rounds":
        return f"round {moment:,}"
    return f"{datetime.fromtimestamp(moment / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
