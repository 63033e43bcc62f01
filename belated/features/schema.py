"""All features of a context."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.features.categories import PLACES, Category, Hashed
from belated.features.kinds import Boolean, Feature, Ignored, Intercept, Number, shown
from belated.protocols import Floats
from belated.spelling import Spelled, nearest

KINDS: dict[str, type[Feature]] = {each.kind: each for each in (Number, Category, Hashed, Boolean, Intercept, Ignored)}
#: Features that there may be, and names among which the nearest is looked for.
COUNT, NEAR = 1_000, 50


class Branch:
    """An object in the context: which keys it may have, and where the features are in it."""

    __slots__ = ("below", "known", "leaves", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.known: set[str] = set()
        self.leaves: list[tuple[str, int]] = []
        self.below: dict[str, Branch] = {}


@dataclass(frozen=True)
class Features(Spelled):
    """What contexts are made of: a list of features, as objects of `belated.features` or as JSON has them.

    `vector` turns a context, which is a JSON object, into the numbers that a learner takes: those of each feature in
    turn. The same object gives the same bits on every machine. `number` is for learners that tell a few values apart
    (PerContext), where every feature is a category or a boolean: the number of the combination, in which the last
    feature counts fastest.

    >>> import belated as bl
    >>> features = bl.Features([
    ...     {"name": "age", "kind": "number", "low": 20, "high": 70},
    ...     {"name": "user.plan", "kind": "category", "values": ["free", "pro"], "missing": "slot"},
    ... ])
    >>> features.size, features.columns
    (4, ('age', 'user.plan=free', 'user.plan=pro', 'user.plan:missing'))
    >>> features.vector({"age": 30, "user": {"plan": "pro"}})
    array([0.2, 0. , 1. , 0. ])
    >>> f = bl.Direct(bl.LinUCB(actions=3, features=features.size), seed=1)
    >>> f.predict(features.vector({"age": 50})).action
    0
    >>> features.vector({"agee": 30})
    Traceback (most recent call last):
    belated.errors.InvalidArgument: the context has the key 'agee', which is no feature; did you mean 'age'?
    """

    features: Sequence[Feature | Mapping[str, Any]]

    def __post_init__(self) -> None:
        given = require.sequence("features", self.features)
        if len(given) > COUNT:
            raise InvalidArgument(f"features may be {COUNT} at most, got {len(given)}")
        made = tuple(_feature(each, number) for number, each in enumerate(given))
        object.__setattr__(self, "features", made)
        object.__setattr__(self, "_tree", _tree(made))
        object.__setattr__(self, "_open", any(isinstance(each, Ignored) and not each.name for each in made))
        if not self.size:
            raise InvalidArgument("features make no number: all of them are ignored")
        if self.size > PLACES:
            raise InvalidArgument(f"features make {self.size} numbers, more than {PLACES}")

    @cached_property
    def kept(self) -> tuple[tuple[int, Feature, int], ...]:
        """Features that make numbers: which of the list, the feature, and where its numbers begin."""
        found, at = [], 0
        for number, each in enumerate(self.features):
            assert isinstance(each, Feature)
            if each.size:
                found.append((number, each, at))
            at += each.size
        return tuple(found)

    @cached_property
    def size(self) -> int:
        """How many numbers the vector has."""
        return sum(each.size for _, each, _ in self.kept)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The name of each number."""
        return tuple(name for _, each, _ in self.kept for name in each.columns)

    @cached_property
    def values(self) -> int:
        """How many combinations there are; 0 if there is no end of them."""
        return math.prod(each.choices for _, each, _ in self.kept)

    @property
    def endless(self) -> Feature | None:
        """The first feature that is not one of a few values."""
        return next((each for _, each, _ in self.kept if not each.choices), None)

    def vector(self, context: Mapping[str, Any]) -> Floats:
        """The numbers of a context. InvalidArgument names the feature and the value that is wrong."""
        values = self._find(context)
        vector = np.zeros(self.size)
        for number, feature, at in self.kept:
            feature.put(values[number], vector, at)
        return vector

    def number(self, context: Mapping[str, Any]) -> int:
        """The number of the combination, from 0 to `values` - 1."""
        if self.endless is not None:
            raise InvalidArgument(f"{self.endless.name} is not one of a few values: contexts have no numbers")
        values = self._find(context)
        total = 0
        for number, feature, _ in self.kept:
            total = total * feature.choices + feature.choose(values[number])
        return total

    def labels(self, number: int) -> list[str | None]:
        """What each feature was in a combination; None where it was missing."""
        if not 0 <= number < self.values:
            raise InvalidArgument(f"there are {self.values} combinations, numbered from 0, got {number}")
        found = []
        for _, feature, _ in reversed(self.kept):
            number, choice = divmod(number, feature.choices)
            found.append(feature.label(choice))
        return found[::-1]

    def to_data(self) -> list[dict[str, Any]]:
        """As JSON has them; `Features` reads it again."""
        return [each.to_data() for each in self.features if isinstance(each, Feature)]

    def tolist(self) -> list[dict[str, Any]]:
        """The same, by the name that NumPy has for it: `Client.create(features=...)` asks for that."""
        return self.to_data()

    def _find(self, context: Any) -> list[Any]:
        """The values of all features; None for missing ones."""
        values: list[Any] = [None] * len(self.features)
        self._look(self._tree, context, values)  # type: ignore[attr-defined]
        return values

    def _look(self, branch: Branch, given: Any, values: list[Any]) -> None:
        if not isinstance(given, dict) and not isinstance(given, Mapping):
            what = branch.path or "the context"
            raise InvalidArgument(f"{what} must be an object with the features as keys, got {shown(given)}")
        if not given.keys() <= branch.known and not self._open:  # type: ignore[attr-defined]
            _refuse_key(branch, given)
        for key, number in branch.leaves:
            values[number] = given.get(key)
        for key, below in branch.below.items():
            inner = given.get(key)
            if inner is not None:
                self._look(below, inner, values)


def _feature(given: Any, number: int) -> Feature:
    """A feature as it is, or from data."""
    if isinstance(given, Feature):
        if KINDS.get(given.kind) is not type(given):
            raise InvalidArgument(f"features[{number}] must be one of {', '.join(KINDS)}, got {shown(given)}")
        return given
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"features[{number}] must be an object with a name and a kind, got {shown(given)}")
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        near = nearest(kind[:100], KINDS) if isinstance(kind, str) else None
        said = near or f"there are {', '.join(KINDS)}"
        raise InvalidArgument(f"features[{number}] has the kind {shown(kind)}; {said}")
    make = KINDS[kind]
    slots = {each.name: each.default is MISSING for each in fields(make)}
    for key in given:
        if key not in slots and key != "kind":
            near = nearest(key[:100], slots) if isinstance(key, str) else None
            said = near or f"it takes {', '.join(slots)}"
            raise InvalidArgument(f"features[{number}], a {kind}, has no {shown(key)}; {said}")
    for key, needed in slots.items():
        if needed and key not in given:
            raise InvalidArgument(f"features[{number}], a {kind}, needs {key}")
    return make(**{key: value for key, value in given.items() if key != "kind"})


def _tree(features: Sequence[Feature]) -> Branch:
    """Where the features are in a context."""
    root = Branch("")
    names: set[str] = set()
    for number, each in enumerate(features):
        if each.name in names:
            raise InvalidArgument(f"two features are called {shown(each.name)}")
        names.add(each.name)
        if isinstance(each, Intercept) or not each.name:
            continue
        *parts, last = each.name.split(".")
        branch = root
        for part in parts:
            branch.known.add(part)
            branch = branch.below.setdefault(part, Branch(f"{branch.path}.{part}".lstrip(".")))
        branch.known.add(last)
        if not isinstance(each, Ignored):
            branch.leaves.append((last, number))
    _check_tree(root, {each.name for each in features if not isinstance(each, Intercept)})
    return root


def _check_tree(branch: Branch, names: set[str]) -> None:
    for below in branch.below.values():
        if below.path in names:
            raise InvalidArgument(f"{shown(below.path)} is a feature, and so cannot have features in it")
        _check_tree(below, names)


def _refuse_key(branch: Branch, given: Mapping[Any, Any]) -> None:
    strange = next(key for key in given if key not in branch.known)
    where = f"{branch.path} in the context" if branch.path else "the context"
    few = isinstance(strange, str) and len(branch.known) <= NEAR
    near = nearest(strange[:100], branch.known) if few else None
    said = near or "features are " + ", ".join(shown(key) for key in sorted(branch.known)[:10])
    raise InvalidArgument(f"{where} has the key {shown(strange)}, which is no feature; {said}")
