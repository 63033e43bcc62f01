"""What is wrong with a body, in words: which part, what it must be, and what it is."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, get_args

import msgspec

#: What msgspec says of a part that has another type, or is out of its limits.
OTHER = re.compile(r"Expected `(?P<kinds>[^`]+)`(?P<more>.*?)(?:, got `[^`]*`)?(?: - at `\$\.?(?P<at>.*)`)?", re.DOTALL)
FIELD = re.compile(
    r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*?)`(?: - at `\$\.?(?P<at>.*)`)?", re.DOTALL
)
WORDS = {"int": "a whole number", "float": "a number", "str": "text", "array": "a list", "object": "an object"}
#: The only pattern that a text must match is that of names.
PATTERN = re.compile(r" matching regex .*")
NAMES = " of letters, digits, '.', '_' and '-', 64 at most, that begins with a letter or a digit"
STEP = re.compile(r"\[(\d+)\]|\.?([^.\[]+)")
#: Characters of a value that are shown.
SHOWN = 200


def plain(error: msgspec.ValidationError, data: Any, kind: type) -> str:
    """The error that data are not of a kind, in words.

    >>> from belated.service.api import NewDecisions
    >>> def wrong(data):
    ...     try:
    ...         msgspec.convert(data, NewDecisions)
    ...     except msgspec.ValidationError as error:
    ...         return plain(error, data, NewDecisions)
    >>> wrong({"count": 0})
    'count must be a whole number >= 1, got 0'
    >>> wrong({"cuont": 3})
    "there is no 'cuont' here, only context, count, contexts, allowed"
    >>> wrong([])
    'this must be an object, got []'
    """
    said = str(error)
    field = FIELD.fullmatch(said)
    if field is not None:
        return _field(field["what"] == "missing required", field["name"], field["at"] or "", kind)
    other = OTHER.fullmatch(said)
    if other is None:
        return said
    at = other["at"] or ""
    kinds = " or ".join(WORDS.get(each, each) for each in other["kinds"].split(" | "))
    more = PATTERN.sub(NAMES, other["more"])
    return f"{at or 'this'} must be {kinds}{more}, got {shown(_part(data, at))}"


def _field(missing: bool, name: str, at: str, kind: type) -> str:
    if missing:
        return f"{at}.{name} is missing" if at else f"{name} is missing"
    where = f"in {at}" if at else "here"
    return f"there is no {_begun(name)!r} {where}, only {_fields(kind, at)}"


@cache
def _fields(kind: Any, at: str) -> str:
    """The fields of a struct, or of one within it."""
    for step in filter(None, at.split(".")):
        inner = next(each.type for each in msgspec.structs.fields(kind) if each.encode_name == step)
        kind = next(each for each in (inner, *get_args(inner)) if isinstance(each, type(msgspec.Struct)))
    return ", ".join(each.encode_name for each in msgspec.structs.fields(kind))


def _part(data: Any, at: str) -> Any:
    """What stands there."""
    try:
        for number, key in STEP.findall(at):
            data = data[int(number)] if number else data[key]
    except (LookupError, TypeError, ValueError):
        return None
    return data


def shown(value: Any) -> str:
    """A value as JSON has it, its beginning where it is long.

    >>> shown(None), shown("a"), shown({"a": [True]})
    ('null', '"a"', '{"a": [true]}')
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        text = "something nested too deep"
    return _begun(text)


def _begun(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
