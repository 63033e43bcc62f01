"""From a learner spec to the memory its kernels work on."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.errors import InvalidArgument
from belated.kernels.compile import COMPILED, kernel
from belated.kernels.stated import check_learner, of_numbers
from belated.protocols import Learner

Records = NDArray[Any]

#: The largest whole number that kernels know.
INT64 = 2**63 - 1
#: What belated keeps at the head of every state.
HEAD: list[Any] = [("predictions", "i8"), ("answering", "i8")]
#: What a layout may not call its own.
RESERVED = {"predictions", "answering", "open", "memo"}


def state_dtype(learner: Learner) -> np.dtype[Any]:
    """The record of one instance: belated's own two fields, those that the learner asks for, then its layout."""
    name = type(learner).__name__
    try:
        given = learner.layout()
        layout = np.dtype("f8" if given is None else given)  # None would be one, too
    except (OverflowError, MemoryError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"{name} would have a state that no array can hold: {error}") from None
    if layout.names is None or not of_numbers(layout):
        raise InvalidArgument(f"layout() of {name} must be a dtype with named fields of numbers, got {given!r}")
    check_learner(learner)
    names = layout.names
    for field in sorted(RESERVED & set(names)):
        raise InvalidArgument(f"{name}.layout uses the reserved name {field!r}")
    head = list(HEAD)
    if learner.counts_open:
        head.append(("open", "i8"))
    if learner.memo:
        head.append(("memo", "f8", (learner.memo,)))
    return np.dtype(head + [(name, *_subtype(layout[name])) for name in names], align=True)


def _subtype(field: np.dtype[Any]) -> tuple[Any, ...]:
    return field.subdtype if field.subdtype is not None else (field,)


#: Layouts by themselves.
_layouts: dict[np.dtype[Any], np.dtype[Any]] = {}


def records(dtype: np.dtype[Any], count: int) -> Records:
    """Zeroed records whose fields kernels reach as attributes, compiled or not.

    Those of one layout share the object that says it: Numba knows that again, and would else compare field by field at
    every call.
    """
    pool = np.zeros(count, _layouts.setdefault(dtype, dtype))
    return pool if COMPILED else pool.view(PlainRecords)


class PlainRecords(np.ndarray[Any, Any]):
    """Records for kernels in plain Python. (NumPy's own recarray hides fields called mean, round, max, ...)"""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if isinstance(found, np.void):
            return PlainRecord(found)
        return found if found.dtype.names else np.asarray(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(index, object.__getattribute__(value, "_row") if isinstance(value, PlainRecord) else value)


class PlainRecord:
    """One of them: its fields as attributes, or by name in brackets."""

    __slots__ = ("_row",)

    def __init__(self, row: np.void) -> None:
        object.__setattr__(self, "_row", row)

    @property
    def dtype(self) -> np.dtype[Any]:
        """As NumPy's own records have it: `migrate` looks at it."""
        found: np.dtype[Any] = self._row.dtype
        return found

    def __getattr__(self, name: str) -> Any:
        try:
            found = self._row[name]
        except ValueError:
            raise AttributeError(missing(name, self._row.dtype)) from None
        return found.view(PlainRecords) if found.dtype.names else found

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in (self._row.dtype.names or ()):
            raise AttributeError(missing(name, self._row.dtype))
        self._row[name] = value

    __getitem__ = __getattr__
    __setitem__ = __setattr__


def missing(name: str, dtype: np.dtype[Any]) -> str:
    """That a record has no field of that name, and which it has.

    >>> missing("meen", np.dtype([("mean", "f8"), ("count", "i8")]))
    "there is no field 'meen': there are mean, count; did you mean 'mean'?"
    """
    names = dtype.names or ()
    return f"there is no field {name!r}: there are {', '.join(names)}{near(name, names)}"


def near(name: str, names: Iterable[str]) -> str:
    """A hint at the nearest of some names; nothing if none is near."""
    found = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def blank(learner: Learner) -> Records:
    """One fresh state."""
    pool = records(state_dtype(learner), 1)
    learner.start(pool[0])
    return pool


def widen(old: Records, fresh: Records) -> None:
    """Copy states into fresh ones whose fields may be longer: all keeps its place, what is behind it stays fresh."""
    for name in old.dtype.names or ():
        known = old[name]
        room = fresh[name][tuple(slice(size) for size in known.shape)]
        if known.dtype.names:
            widen(known, room)
        else:
            room[...] = known


def params(learner: Learner) -> Records:
    """The learner's constants as one record, after `unread`, which belated sets where nobody reads probabilities."""
    given, name = learner.params(), type(learner).__name__
    if not isinstance(given, dict):
        raise InvalidArgument(f"params() of {name} must be a dictionary, got {given!r}")
    if "unread" in given:
        raise InvalidArgument(f"{name}.params uses the reserved name 'unread'")
    return as_record({"unread": 0} | given, f" of {name}")


def as_record(given: dict[str, Any], whose: str = "") -> Records:
    """Numbers and arrays by name as one record."""
    values = {name: _numbers(name, value, whose) for name, value in given.items()}
    fields: list[Any] = [(name, _number(value.dtype), value.shape) for name, value in values.items()]
    pool = records(np.dtype(fields or [("nothing", "i8")], align=True), 1)
    for name, value in values.items():
        pool[name] = value
    return pool


def _numbers(name: Any, value: Any, whose: str) -> Any:
    """What a kernel can read as `params.name`."""
    try:
        made = np.asarray(value)
    except ValueError:  # rows of different lengths
        made = np.array(None)
    if not isinstance(name, str) or made.dtype.kind not in "biuf" or (made.dtype.kind == "u" and (made > INT64).any()):
        raise InvalidArgument(f"params(){whose} must be numbers and arrays of them by name, got {name!r}: {value!r}")
    return made


def _number(dtype: np.dtype[Any]) -> str:
    return "f8" if dtype.kind == "f" else "i8"


def kernels(learner: Learner) -> tuple[Any, Any, Any, Any]:
    """The learner's predict, update, replace and lost, compiled; None for one of the last two that it has not."""
    return kernel(learner.predict), kernel(learner.update), kernel(learner.replace), kernel(learner.lost)
