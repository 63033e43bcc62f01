"""Features that are texts: one of a few stated ones, or any, hashed into a few slots.

Texts are compared as they are sent, code point by code point: who writes a letter in two ways (NFC and NFD) has two
categories. To make them one is to know all letters there are, and another version of Python knows more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.features.kinds import LETTERS, Given, check_name, shown
from belated.protocols import Floats

#: Characters of a category that is hashed or unknown, and items in a list of them.
LONGEST, ITEMS = 10_000, 1_000
#: Numbers in a vector.
PLACES = 1 << 20
#: 63 bits.
MASK = (1 << 63) - 1


@dataclass(frozen=True)
class Words(Given):
    """A category, each with its place; with `many` a list of them, in which each counts once."""

    _: KW_ONLY
    many: bool = False

    def __post_init__(self) -> None:
        require.boolean(f"many of {shown(self.name)}", self.many)
        if self.many and isinstance(self.default, list | tuple):
            object.__setattr__(self, "default", tuple(self.default))
        super().__post_init__()

    def _put(self, value: Any, vector: Floats, at: int) -> None:
        if not self.many:
            place, sign = self._find(self._text(value))
            vector[at + place] = sign
            return
        if not isinstance(value, list | tuple):
            self.refuse("a list of categories", value)
        if len(value) > ITEMS:
            raise InvalidArgument(f"{self.name} may have {ITEMS} items, got {len(value)}")
        for text in {self._text(each): None for each in value}:
            place, sign = self._find(text)
            vector[at + place] += sign

    def _text(self, value: Any) -> str:
        """A category as text: whole numbers are what they are written as."""
        if type(value) is not str:
            value = self._written(value)
        if len(value) > LONGEST:
            raise InvalidArgument(f"{self.name} may have {LONGEST} characters, got {len(value)}: {shown(value)}")
        return value  # type: ignore[no-any-return]

    def _written(self, value: Any) -> str:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and -(2**63) <= value < 2**64:
            return str(int(value))
        self.refuse("a category, which is text or a whole number", value)

    def choose(self, value: Any) -> int:
        known = self.default if value is None else value
        return self._absent() if known is None else self._find(self._text(known))[0]

    def _find(self, text: str) -> tuple[int, float]:
        """The place of a category, and what stands there."""
        raise NotImplementedError


@dataclass(frozen=True)
class Category(Words):
    """One of a few stated values: a 1 in the place of its own. An unknown one is refused, or has a place at the end.

    >>> from belated.features import Features
    >>> plan = Category("plan", ["free", "pro"], unknown="slot")
    >>> plan.columns, Features([plan]).vector({"plan": "trial"})
    (['plan=free', 'plan=pro', 'plan:unknown'], array([0., 0., 1.]))
    """

    kind = "category"
    values: Sequence[str | int]
    _: KW_ONLY
    unknown: str = "refuse"

    def __post_init__(self) -> None:
        name = shown(self.name)
        require.one_of(f"unknown of {name}", self.unknown, ("refuse", "slot"))
        given = require.sequence(f"values of {name}", self.values)
        if len(given) > PLACES:
            raise InvalidArgument(f"values of {name} may be {PLACES}, got {len(given)}")
        values = tuple(self._text(each) for each in given)
        for each in values:
            if not 1 <= len(each) <= LETTERS:
                raise InvalidArgument(f"a value of {name} must be 1 to {LETTERS} letters, got {shown(each)}")
            require.check_letters(f"a value of {name}", each)
        numbers = {each: number for number, each in enumerate(values)}
        if len(numbers) < len(values):
            twice = next(each for number, each in enumerate(values) if numbers[each] != number)
            raise InvalidArgument(f"{name} has the value {shown(twice)} twice")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_numbers", numbers)
        super().__post_init__()

    @property
    def _own(self) -> int:
        return len(self.values) + (self.unknown == "slot")

    @property
    def _columns(self) -> list[str]:
        stated = [f"{self.name}={value}" for value in self.values]
        return [*stated, *([f"{self.name}:unknown"] if self.unknown == "slot" else [])]

    def _find(self, text: str) -> tuple[int, float]:
        place = self._numbers.get(text)  # type: ignore[attr-defined]
        if place is None:
            if self.unknown != "slot":
                values = [shown(value) for value in self.values[:10]]
                self.refuse(f"one of {', '.join(values)}{', ...' if len(self.values) > 10 else ''}", text)
            return len(self.values), 1.0
        return place, 1.0

    @property
    def choices(self) -> int:
        return 0 if self.many else self.size

    def label(self, choice: int) -> str | None:
        if choice < len(self.values):
            return str(self.values[choice])
        return ":unknown" if choice < self._own else None


@dataclass(frozen=True)
class Hashed(Words):
    """A category of which any may come, in one of so many `slots`: a 1 there, or, if `signed`, a 1 or a -1.

    The slot is that of the BLAKE2b digest (RFC 7693, 8 bytes) of the feature's name, a zero byte, and the category, in
    UTF-8, read as a number with the lowest byte first: its lower 63 bits modulo `slots`. The highest bit is the sign.

    >>> from belated.features import Features
    >>> Features([Hashed("page", 4)]).vector({"page": "/start"})
    array([0., 0., 0., 1.])
    """

    kind = "hashed"
    slots: int
    _: KW_ONLY
    signed: bool = False

    def __post_init__(self) -> None:
        require.integer(f"slots of {shown(self.name)}", self.slots, low=1, high=PLACES)
        require.boolean(f"signed of {shown(self.name)}", self.signed)
        check_name(self.name)
        object.__setattr__(self, "_head", self.name.encode() + b"\0")
        super().__post_init__()

    @property
    def _own(self) -> int:
        return self.slots

    @property
    def _columns(self) -> list[str]:
        return [f"{self.name}:{slot}" for slot in range(self.slots)]

    def _find(self, text: str) -> tuple[int, float]:
        try:
            data = self._head + text.encode()  # type: ignore[attr-defined]
        except UnicodeEncodeError:
            self.refuse("text without halves of characters", text)
        number = int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
        return (number & MASK) % self.slots, -1.0 if self.signed and number > MASK else 1.0

    @property
    def choices(self) -> int:
        return 0 if self.many or self.signed else self.size

    def label(self, choice: int) -> str | None:
        return str(choice) if choice < self.slots else None
