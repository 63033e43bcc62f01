"""Checks of arguments: each names the argument and the value it got."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.errors import InvalidArgument

#: Control characters, ends of lines and paragraphs, what changes the direction of what follows, and what shows nothing
#: at all (but the two joiners, which scripts and emoji need).
HIDDEN = (
    "\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f"
    "\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb"
)
UNSEEN = re.compile(f"[{HIDDEN}]")


def integer(name: str, value: Any, *, low: int | None = None, high: int | None = None) -> int:
    """A whole number between low and high.

    >>> integer("actions", 0, low=1)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: actions must be >= 1, got 0
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{name} must be a whole number, got {value!r}") from None
    if low is not None and number < low:
        raise InvalidArgument(f"{name} must be >= {low}, got {value!r}")
    if high is not None and number > high:
        raise InvalidArgument(f"{name} must be <= {high}, got {value!r}")
    return number


def real(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    infinite: bool = False,
) -> float:
    """A finite number within the given limits (`low` and `high` included, `above` and `below` not).

    With `infinite` it may be infinite, too.

    >>> real("mean", -3, above=0)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: mean must be > 0, got -3
    """
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name} must be a number, got {value!r}") from None
    if not math.isfinite(number) and not (infinite and math.isinf(number)):
        raise InvalidArgument(f"{name} must be finite, got {value!r}")
    limits = ((low, ">=", operator.ge), (high, "<=", operator.le), (above, ">", operator.gt), (below, "<", operator.lt))
    for limit, sign, holds in limits:
        if limit is not None and not holds(number, limit):
            raise InvalidArgument(f"{name} must be {sign} {limit:g}, got {value!r}")
    return number


def reals(name: str, values: Any, *, low: float, high: float, least: int = 1) -> tuple[float, ...]:
    """A tuple of at least `least` finite numbers between low and high.

    >>> reals("means", [0.2, 1.5], low=0, high=1)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: means[1] must be <= 1, got 1.5
    """
    items = sequence(name, values, least=least)
    return tuple(real(f"{name}[{i}]", value, low=low, high=high) for i, value in enumerate(items))


def shares(name: str, values: Any, count: int) -> tuple[float, ...]:
    """A law over `count` things: as many numbers, none below 0, with the sum 1.

    >>> shares("shares", [0.5, 0.4], 2)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: shares must be 2 numbers with the sum 1, got [0.5, 0.4]
    """
    known = reals(name, values, low=0, high=1)
    if len(known) != count or abs(sum(known) - 1.0) > 1e-9:
        raise InvalidArgument(f"{name} must be {count} numbers with the sum 1, got {values!r}")
    return known


def choices(name: str, rows: Any, actions: int, columns: int | None = None) -> tuple[tuple[int, ...], ...]:
    """A table of actions, whole numbers from 0 to actions - 1; rows of `columns` items, or of as many as the first.

    >>> choices("policies", [[0, 1], [0, 2]], 2)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: policies[1][1] must be <= 1, got 2
    """
    known = [sequence(f"{name}[{i}]", row) for i, row in enumerate(sequence(name, rows))]
    wanted = len(known[0]) if columns is None else columns
    for i, row in enumerate(known):
        if len(row) != wanted:
            raise InvalidArgument(f"{name}[{i}] must have {wanted} actions, one a context, got {len(row)}")
    return tuple(
        tuple(integer(f"{name}[{i}][{c}]", action, low=0, high=actions - 1) for c, action in enumerate(row))
        for i, row in enumerate(known)
    )


def sequence(name: str, values: Any, *, least: int = 1) -> Sequence[Any]:
    """A sequence (or vector) of at least `least` items."""
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or not hasattr(values, "__getitem__"):
        raise InvalidArgument(f"{name} must be a sequence, got {values!r}")
    if len(values) < least:
        raise InvalidArgument(f"{name} must have at least {least} item{'s' if least > 1 else ''}, got {len(values)}")
    return values  # type: ignore[no-any-return]


def boolean(name: str, value: Any) -> bool:
    """True or False.

    >>> boolean("record", 1)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: record must be True or False, got 1
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(f"{name} must be True or False, got {value!r}")
    return bool(value)


def text(name: str, value: Any) -> str:
    """Text.

    >>> text("title", 3)
    Traceback (most recent call last):
    belated.errors.InvalidArgument: title must be text, got 3
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, got {value!r}")
    return value


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """One of a few words.

    >>> one_of("feedback", "banditt", ("bandit", "full"))
    Traceback (most recent call last):
    belated.errors.InvalidArgument: feedback must be one of bandit, full, got 'banditt'
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgument(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)


def interval(name: str, given: Any) -> tuple[float, float]:
    """Two finite numbers, the second above the first."""
    pair = sequence(name, given, least=2)
    if len(pair) != 2:
        raise InvalidArgument(f"{name} must be two numbers, got {given!r}")
    low = real(f"{name}[0]", pair[0])
    high = real(f"{name}[1]", pair[1], above=low)
    if not math.isfinite(high - low):
        raise InvalidArgument(f"{name} is too wide: {given!r}")
    return low, high


def check_letters(what: str, text: str) -> None:
    r"""Refuse letters that nobody sees or that turn what is shown around: control and bidirectional characters.

    >>> check_letters("the name", "ads\u202etxt")
    Traceback (most recent call last):
    belated.errors.InvalidArgument: the name has the character U+202E, which cannot be seen: 'ads\u202etxt'
    """
    found = UNSEEN.search(text)
    if found is not None:
        raise InvalidArgument(f"{what} has the character U+{ord(found[0]):04X}, which cannot be seen: {text!a}")
