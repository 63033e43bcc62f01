"""One feature: what it takes, which numbers it becomes, and what a missing one is.

A value that is not in the context, or null there, is missing. It is refused, or is the `default`, or (`missing="slot"`)
the feature has one more number, which is 1 then.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.protocols import Floats
from belated.spelling import Spelled

#: Characters of a name.
LETTERS = 200
#: Signs that names of numbers have between the name of the feature and the rest.
SIGNS = "=:"

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlong = 40


def shown(value: Any) -> str:
    """A value as errors show it, cut where it is long or deep.

    >>> shown("x" * 1000) == shown("x" * 2000), shown([1, {"a": 2}])
    (True, "[1, {'a': 2}]")
    """
    return _short.repr(value)


@dataclass(frozen=True)
class Feature(Spelled):
    """What all features have. `name` is the key in the context; dots lead into objects: `user.plan`."""

    kind: ClassVar[str] = ""
    name: str

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def size(self) -> int:
        """How many numbers of the vector are its own."""
        return 1

    @property
    def choices(self) -> int:
        """How many values it tells apart; 0 if there is no end of them."""
        return 0

    @property
    def columns(self) -> list[str]:
        """The names of its numbers."""
        return [self.name]

    def put(self, value: Any, vector: Floats, at: int) -> None:
        """Write its numbers into a vector of zeros, from a place on; None is a missing value."""
        raise NotImplementedError

    def choose(self, value: Any) -> int:
        """Which of its `choices` a value is."""
        raise NotImplementedError

    def label(self, choice: int) -> str | None:
        """What a choice is called; None for a missing value."""
        raise NotImplementedError

    def refuse(self, wanted: str, value: Any) -> NoReturn:
        """Say what a value must be."""
        raise InvalidArgument(f"{self.name} must be {wanted}, got {shown(value)}")

    def to_data(self) -> dict[str, Any]:
        """As plain data; what is as it is by default is left out."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "name"}
        by_default = {each.name: each.default for each in fields(self)}
        told = {key: value for key, value in said.items() if value != by_default[key]}
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in told.items()}
        return {"name": self.name, "kind": self.kind, **plain}


@dataclass(frozen=True)
class Given(Feature):
    """A feature whose value is in the context, or missing."""

    _: KW_ONLY
    default: Any = None
    missing: str = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        require.one_of(f"missing of {self.name}", self.missing, ("refuse", "slot"))
        if self.default is None:
            return
        if self.missing == "slot":
            raise InvalidArgument(f"{self.name} has a default, {shown(self.default)}: then a missing one has no slot")
        try:
            self._put(self.default, np.zeros(self.size), 0)
        except InvalidArgument as error:
            raise InvalidArgument(f"the default of {error}") from None

    @cached_property
    def size(self) -> int:
        return self._own + (self.missing == "slot")

    @property
    def columns(self) -> list[str]:
        return [*self._columns, *([f"{self.name}:missing"] if self.missing == "slot" else [])]

    def put(self, value: Any, vector: Floats, at: int) -> None:
        if value is None:
            value = self.default
            if value is None:
                vector[at + self._absent()] = 1.0
                return
        self._put(value, vector, at)

    def _absent(self) -> int:
        """Where a missing value is a 1."""
        if self.missing != "slot":
            raise InvalidArgument(f"{self.name} is missing, and has no default")
        return self._own

    #: The numbers that a value becomes, without that of a missing one; and their names.
    @property
    def _own(self) -> int:
        return 1

    @property
    def _columns(self) -> list[str]:
        return [self.name]

    def _put(self, value: Any, vector: Floats, at: int) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Given):
    """A finite number, as it is; or scaled: by `low` and `high` to 0..1, by `mean` and `scale` to (x - mean) / scale.

    What lies beyond low and high is clipped to them; with `outside="refuse"` it is refused.

    >>> from belated.features import Features
    >>> Features([Number("age", low=20, high=70), Number("visits", missing="slot")]).vector({"age": 30})
    array([0.2, 0. , 1. ])
    """

    kind = "number"
    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    scale: float | None = None
    outside: str = "clip"

    def __post_init__(self) -> None:
        name = self.name
        given = [self.low is not None, self.high is not None, self.mean is not None, self.scale is not None]
        if given not in ([False] * 4, [True, True, False, False], [False, False, True, True]):
            raise InvalidArgument(f"{shown(name)} is scaled by low and high, or by mean and scale, or not at all")
        require.one_of(f"outside of {shown(name)}", self.outside, ("clip", "refuse"))
        if self.low is not None:
            low = require.real(f"low of {shown(name)}", self.low)
            high = require.real(f"high of {shown(name)}", self.high, above=low)
            if not math.isfinite(high - low):
                raise InvalidArgument(f"low and high of {shown(name)} are too far apart: {low} and {high}")
            self._set(low=low, high=high)
        elif self.outside != "clip":
            raise InvalidArgument(f"{shown(name)} has no low and high, so nothing is outside")
        if self.mean is not None:
            mean = require.real(f"mean of {shown(name)}", self.mean)
            self._set(mean=mean, scale=require.real(f"scale of {shown(name)}", self.scale, above=0))
        super().__post_init__()

    def _set(self, **parts: float) -> None:
        for key, value in parts.items():
            object.__setattr__(self, key, value)

    def _put(self, value: Any, vector: Floats, at: int) -> None:
        if type(value) is not float and type(value) is not int:
            value = self._plain(value)
        try:
            number = float(value) + 0.0  # there is one zero
        except OverflowError:
            number = math.inf
        if number - number != 0.0:
            self.refuse("a finite number", value)
        low, high = self.low, self.high
        if low is not None and high is not None:
            if low < number < high:
                number = (number - low) / (high - low)
            elif self.outside == "clip" or number in (low, high):
                number = 0.0 if number <= low else 1.0
            else:
                self.refuse(f"between {low:g} and {high:g}", value)
        elif self.mean is not None and self.scale is not None:
            number = (number - self.mean) / self.scale + 0.0
            if number - number != 0.0:
                self.refuse("a number that can be scaled", value)
        vector[at] = number

    def _plain(self, value: Any) -> float | int:
        if isinstance(value, np.floating | np.integer):
            return value.item()
        self.refuse("a finite number", value)


@dataclass(frozen=True)
class Boolean(Given):
    """True or false, as 1 or 0. The numbers 1 and 0 are refused: they may be counts.

    >>> from belated.features import Features
    >>> Features([Boolean("member"), Boolean("new", missing="slot")]).vector({"member": True})
    array([1., 0., 1.])
    """

    kind = "boolean"

    def _put(self, value: Any, vector: Floats, at: int) -> None:
        if not isinstance(value, bool | np.bool_):
            self.refuse("true or false", value)
        vector[at] = 1.0 if value else 0.0

    @property
    def choices(self) -> int:
        return 2 + (self.missing == "slot")

    def choose(self, value: Any) -> int:
        known = self.default if value is None else value
        if known is None:
            return 1 + self._absent()
        if not isinstance(known, bool | np.bool_):
            self.refuse("true or false", known)
        return int(known)

    def label(self, choice: int) -> str | None:
        return ("false", "true", None)[choice]


@dataclass(frozen=True)
class Intercept(Feature):
    """A 1 in every vector; it is not in the context."""

    kind = "intercept"
    name: str = "intercept"

    def put(self, value: Any, vector: Floats, at: int) -> None:
        vector[at] = 1.0

    @property
    def choices(self) -> int:
        return 1

    def choose(self, value: Any) -> int:
        return 0

    def label(self, choice: int) -> str | None:
        return "1"


@dataclass(frozen=True)
class Ignored(Feature):
    """A key of the context that is no feature, with all that is in it; without a name: all that are no features."""

    kind = "ignored"
    name: str = ""

    def __post_init__(self) -> None:
        if self.name != "":
            super().__post_init__()

    @property
    def size(self) -> int:
        return 0

    @property
    def choices(self) -> int:
        return 1

    @property
    def columns(self) -> list[str]:
        return []


def check_name(name: Any) -> None:
    """Refuse a name that no key can have, or that nobody can read."""
    if not isinstance(name, str) or not 1 <= len(name) <= LETTERS:
        raise InvalidArgument(f"the name of a feature must be 1 to {LETTERS} letters, got {shown(name)}")
    require.check_letters("the name of a feature", name)
    if "" in name.split("."):
        raise InvalidArgument(f"the dots in the name of a feature lead into objects: {shown(name)} has an empty part")
    wrong = next((sign for sign in SIGNS if sign in name), None)
    if wrong is not None:
        raise InvalidArgument(f"the name of a feature must be without {wrong!r}, got {shown(name)}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"the name of a feature has half of a character: {name!a}") from None
