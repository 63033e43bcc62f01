"""What was meant by a misspelled name; and specs that say so of their arguments."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, Self


def nearest(name: str, names: Iterable[str]) -> str | None:
    """A hint at the nearest of some names, or at the one with the nearest word in it; None if none is near.

    >>> nearest("replicatoins", ["rounds", "replications"])
    "did you mean 'replications'?"
    >>> nearest("aple", ["hopeless", "apple_tasting"])
    "did you mean 'apple_tasting'?"
    """

    def likeness(other: str) -> float:
        return max(difflib.SequenceMatcher(None, part, name).ratio() for part in (other, *other.split("_")))

    best = max(sorted(names), key=likeness, default="")  # of equally near ones the first
    return f"did you mean {best!r}?" if best and likeness(best) >= 0.4 else None


def counted(count: int, word: str) -> str:
    """So many of something.

    >>> counted(1, "decision"), counted(2, "decision"), counted(0, "decision")
    ('1 decision', '2 decisions', '0 decisions')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


class _OwnSignature:
    """The arguments of a class are those of its `__init__`, whatever `__new__` takes."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        make: Any = owner.__init__  # type: ignore[misc]
        if make is object.__init__:
            return inspect.Signature()
        own = inspect.signature(make)
        return own.replace(parameters=list(own.parameters.values())[1:])


class Spelled:
    """Classes derived from this name the arguments that they do not have, and what may have been meant.

    >>> import belated as bl
    >>> bl.UCB1(action=3)
    Traceback (most recent call last):
    TypeError: UCB1 has no argument 'action'; did you mean 'actions'?
    """

    __signature__ = _OwnSignature()

    def __new__(cls, *given: Any, **named: Any) -> Self:
        if named or cls.__init__ is object.__init__:  # which would take anything, now that there is a `__new__`
            known = inspect.signature(cls).parameters
            takes = f"it takes {', '.join(known) or 'no arguments'}"
            if given and not known:
                raise TypeError(f"{cls.__name__} takes no arguments, got {given[0]!r}")
            if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
                for name in named.keys() - known.keys():
                    raise TypeError(f"{cls.__name__} has no argument {name!r}; {nearest(name, known) or takes}")
        return super().__new__(cls)
