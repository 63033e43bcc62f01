"""Arrays that refuse every index outside them, for kernels that run as plain Python.

Compiled code checks no index: it reads and writes what happens to lie there. Python finds an index behind the end, but
takes a negative one as counted from the end. These arrays take neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from belated.kernels.states import missing


class Outside(IndexError):
    """An index outside its array, or something that a bare pointer cannot do."""


def inside(name: str, index: Any, size: int) -> None:
    """Refuse one index: a whole number or a slice. Anything else is left to NumPy."""
    if isinstance(index, slice):
        for end in (index.start, index.stop):
            if end is not None and not 0 <= end <= size:
                raise Outside(f"{name}[{_written(index)}] goes outside the array, which {_has(size)}")
    elif isinstance(index, int | np.integer) and not 0 <= index.__index__() < size:
        before = ": compiled code reads and writes what lies before it" if index < 0 else ""
        raise Outside(f"{name}[{int(index)}] is outside the array, which {_has(size)}{before}")


def _written(index: slice) -> str:
    return ":".join("" if end is None else str(end) for end in (index.start, index.stop))


def _has(size: int) -> str:
    return f"has {size} numbers, 0 to {size - 1}" if size > 1 else "has one number, 0" if size else "is empty"


class Guarded(np.ndarray[Any, Any]):
    """An array of a learner. Rows and slices of it are guarded too; arithmetic gives arrays like any other."""

    _name = "an array"

    @classmethod
    def over(cls, array: Any, name: str) -> Guarded:
        made: Guarded = np.asarray(array).view(cls)
        made._name = name
        return made

    def __array_finalize__(self, source: Any) -> None:
        self._name = getattr(source, "_name", "an array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            options["out"] = tuple(_bare(each) for each in out)
        found = getattr(ufunc, method)(*(_bare(each) for each in inputs), **options)
        return found if out is None else out[0]

    def _check(self, key: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        if any(part is None or part is Ellipsis for part in parts):
            return
        for axis, part in enumerate(parts[: self.ndim]):
            before = "".join(f"{_shown(each)}, " for each in parts[:axis])
            inside(f"{self._name}[{before}"[:-2] + "]" if before else self._name, part, self.shape[axis])

    def __getitem__(self, key: Any) -> Any:
        self._check(key)
        found = super().__getitem__(key)
        if isinstance(found, Guarded):
            shown = ", ".join(_shown(part) for part in key) if isinstance(key, tuple) else _shown(key)
            found._name = f"{self._name}[{shown}]"
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check(key)
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def _bare(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Guarded) else value


def _shown(part: Any) -> str:
    return _written(part) if isinstance(part, slice) else str(part)


class GuardedRecords:
    """Records, by number."""

    def __init__(self, rows: Any, name: str) -> None:
        self._rows, self._name = rows.view(np.ndarray), name

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        inside(self._name, index, len(self._rows))
        found, name = self._rows[index], f"{self._name}[{_shown(index)}]"
        return GuardedRecord(found, name) if isinstance(found, np.void) else GuardedRecords(found, name)

    def __setitem__(self, index: Any, value: Any) -> None:
        inside(self._name, index, len(self._rows))
        self._rows[index] = object.__getattribute__(value, "_row") if isinstance(value, GuardedRecord) else value


class GuardedRecord:
    """One of them: its fields as attributes, or by name in brackets."""

    __slots__ = ("_name", "_row")

    def __init__(self, row: np.void, name: str) -> None:
        object.__setattr__(self, "_row", row)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, field: str) -> Any:
        if field not in self._row.dtype.names:
            raise AttributeError(f"{self._name}.{field}: {missing(field, self._row.dtype)}")
        found, name = self._row[field], f"{self._name}.{field}"
        if not isinstance(found, np.ndarray):
            return found
        return GuardedRecords(found, name) if found.dtype.names else Guarded.over(found, name)

    def __setattr__(self, field: str, value: Any) -> None:
        if field not in self._row.dtype.names:
            raise AttributeError(f"{self._name}.{field}: {missing(field, self._row.dtype)}")
        self._row[field] = value

    __getitem__ = __getattr__
    __setitem__ = __setattr__


class Pointer:
    """A vector of a game or a delay law: one number after the other, and nothing else, as in the compiled loop."""

    __slots__ = ("_name", "_numbers", "_start")

    def __init__(self, numbers: Any, name: str, start: int = 0) -> None:
        self._numbers, self._name, self._start = numbers, name, start

    def _place(self, index: Any) -> int:
        if not isinstance(index, int | np.integer):
            if isinstance(index, slice):
                self._refuse(f"[{_written(index)}]")
            raise Outside(f"{self._name}[{index!r}]: the index must be a whole number, use int(...)")
        inside(self._name, index, len(self._numbers) - self._start)
        return self._start + int(index)

    def __getitem__(self, index: Any) -> Any:
        return self._numbers[self._place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._numbers[self._place(index)] = value

    def behind(self, start: int) -> Pointer:
        """The numbers from `start` on, as `pointers.behind` gives them."""
        inside(self._name, slice(start, None), len(self._numbers) - self._start)
        return Pointer(self._numbers, f"{self._name}, from {start} on,", self._start + int(start))

    def _refuse(self, what: str) -> Any:
        raise Outside(
            f"{self._name}{what}: in the compiled loop {self._name} is a bare pointer, with numbers to index, but "
            "without length, slices or methods; put sizes into params"
        )

    def __len__(self) -> int:
        raise Outside(
            f"len({self._name}): in the compiled loop {self._name} is a bare pointer and has no length; "
            "put sizes into params"
        )

    def __iter__(self) -> Any:
        self._refuse(", in a loop or taken apart")

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._refuse(", as an array")

    def __getattr__(self, name: str) -> Any:
        self._refuse(f".{name}")
