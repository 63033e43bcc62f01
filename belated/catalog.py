"""The one table of names. The command line, studies, the service, saved bytes and the checks all read it.

Everything that the packages of learners, forecasters, games and delays export is in it. Names are class names in lower
case.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections import ChainMap
from collections.abc import MutableMapping
from inspect import isabstract
from textwrap import shorten
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from belated import delays, forecasters, games, learners
from belated.errors import InvalidArgument, InvalidState
from belated.forecasters import Direct, Forecaster, saving
from belated.games import laws
from belated.games.classical import CLASSICAL
from belated.imports import HINT, WELCOME
from belated.kernels import covariances
from belated.learners import KLUCB, UCB1
from belated.protocols import Delays, Game, Learner
from belated.spelling import nearest as nearest


def DelayedUCB1(actions: int, *, seed: int | None = None) -> Direct:
    """The paper's Delayed-UCB1: UCB1 over what has been observed.

    >>> import belated as bl
    >>> bl.DelayedUCB1(actions=3)
    Direct(UCB1(actions=3))
    """
    return Direct(UCB1(actions), seed=seed)


def DelayedKLUCB(actions: int, c: float = 3.0, *, seed: int | None = None) -> Direct:
    """The paper's Delayed-KL-UCB: KL-UCB over what has been observed.

    >>> import belated as bl
    >>> bl.DelayedKLUCB(actions=3)
    Direct(KLUCB(actions=3, c=3.0))
    """
    return Direct(KLUCB(actions, c), seed=seed)


def _specs(module: Any, kind: type) -> dict[str, Any]:
    """The concrete classes of a kind that a module exports, by name."""
    things = (getattr(module, name) for name in module.__all__)
    return {t.__name__.lower(): t for t in things if isinstance(t, type) and issubclass(t, kind) and not isabstract(t)}


LEARNERS = _specs(learners, Learner)
FORECASTERS = _specs(forecasters, Forecaster)
SHORTHANDS: dict[str, Any] = {"delayeducb1": DelayedUCB1, "delayedklucb": DelayedKLUCB}
SHORTHANDS["delayeducb1"].guarantee = "sum_i 8 ln n / gap_i + 3.5 gap_i + gap_i E G*_i, i.i.d. rewards"
SHORTHANDS["delayedklucb"].guarantee = "explicit (bounds.delayed_klucb), i.i.d. rewards, c = 3"
GAMES = _specs(games, Game)
DELAYS = _specs(delays, Delays)
LAWS = {law.__name__.lower(): law for law in laws.Law.__subclasses__()}

TABLES: dict[str, MutableMapping[str, Any]] = {
    "learner": LEARNERS,
    "forecaster": ChainMap(FORECASTERS, SHORTHANDS),
    "game": ChainMap(GAMES, CLASSICAL),
    "delays": DELAYS,
    "law of an arm": LAWS,
    "transitions": {"grid_world": games.grid_world},
    "covariance": {"squared_exponential": covariances.squared_exponential, "matern": covariances.matern},
}
#: What one may add, by the name of its table.
KINDS: dict[str, type] = {"learner": Learner, "game": Game, "delays": Delays}
ENTERED: dict[type, dict[str, Any]] = {Learner: LEARNERS, Game: GAMES, Delays: DELAYS, Forecaster: FORECASTERS}
#: Fields that hold specs of another table than their owner's.
INNER = {
    "learner": "learner",
    "games": "game",
    "laws": {"game": "law of an arm", "delays": "delays"},
    "law": {"delays": "delays"},
    "transitions": {"game": "transitions", "learner": "transitions"},
    "covariance": {"game": "covariance", "learner": "covariance"},
}

#: Characters of a wrong value, and of a list of names, that an error shows.
QUOTED = 100
LISTED = 250

Spec = TypeVar("Spec", bound=type[Learner] | type[Forecaster] | type[Game] | type[Delays])


def add(spec: Spec) -> Spec:
    """Enter a learner, forecaster, game or delay law of your own, so that data and saved bytes can name it.

    Use it as a decorator.

    >>> import belated as bl
    >>> bl.catalog.add(bl.UCB1) is bl.UCB1
    True
    """
    if not isinstance(spec, type) or isabstract(spec):
        what = "one without its abstract methods" if isinstance(spec, type) else "an object"
        raise InvalidArgument(
            f"the catalog takes classes of learners, forecasters, games and delay laws, got {what}: {quoted(spec)}"
        )
    for kind, table in ENTERED.items():
        if not isinstance(spec, type) or not issubclass(spec, kind):
            continue
        if dataclasses.is_dataclass(spec):
            saving.check_fields(spec)
        name = spec.__name__.lower()
        known = table.get(name)
        if known is not None and known is not spec and known.__module__.startswith("belated."):
            raise InvalidArgument(f"the catalog has a {kind.__name__.lower()} called {name!r} already")
        table[name] = spec
        return spec
    raise InvalidArgument(f"the catalog takes classes of learners, forecasters, games and delay laws, got {spec!r}")


def enter(module: ModuleType) -> None:
    """Enter what a module of the user's defines, where that is not done, and the names are free."""
    for thing in list(vars(module).values()):
        if not isinstance(thing, type) or isabstract(thing) or thing.__module__ != module.__name__:
            continue
        for kind, table in ENTERED.items():
            known = table.get(thing.__name__.lower())
            if issubclass(thing, kind) and (known is None or not known.__module__.startswith("belated.")):
                table[thing.__name__.lower()] = thing


WELCOME.append(enter)


def find(kind: str, name: Any) -> Any:
    """The class of that name; a clear error with the nearest name if there is none.

    >>> find("learner", "ucb")
    Traceback (most recent call last):
    belated.errors.InvalidArgument: no learner is called 'ucb'; did you mean 'ucb1'?
    """
    table = TABLES[kind]
    if name in table:
        return newest(table[name])
    known = shorten(", ".join(sorted(table)), LISTED, placeholder=" ... (`belated catalog` has all)")
    hint = nearest(str(name)[:QUOTED], table) or f"there are {known}; {HINT}"
    if kind == "forecaster" and name in LEARNERS:
        hint = f"it is a learner, and plays under a forecaster: bold({name}), direct({name}) or qpmd({name})"
    raise InvalidArgument(f"no {'delay law' if kind == 'delays' else kind} is called {quoted(name)}; {hint}")


def newest(spec: Any) -> Any:
    """The definition that counts. Of a class that was defined again, as by a notebook's cell run twice, it is the last.

    >>> import belated as bl
    >>> newest(bl.UCB1) is bl.UCB1
    True
    """
    again = getattr(sys.modules.get(spec.__module__), spec.__qualname__, None)
    return again if isinstance(again, type) and isinstance(spec, type) and _same_place(again, spec) else spec


def _same_place(one: type, other: type) -> bool:
    kinds = [tuple(issubclass(each, kind) for kind in KINDS.values()) for each in (one, other)]
    return kinds[0] == kinds[1] and (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def check_entered(spec: Any) -> None:
    """Refuse a spec whose name would not lead back to its class: what is written as data goes by the name."""
    if isinstance(spec, Forecaster):
        check_entered(spec.learner)
    kind = next((name for name, kind in KINDS.items() if isinstance(spec, kind)), None)
    if kind is None:
        return
    made, name = type(spec), type(spec).__name__.lower()
    known = TABLES[kind].get(name)
    if known is None:
        raise InvalidArgument(f"{made.__name__} is not in the catalog: enter it with @bl.catalog.add above its class")
    latest = newest(known)
    if made is not latest:
        _check_again(spec, latest, kind)
    if dataclasses.is_dataclass(spec):
        for field in dataclasses.fields(spec):
            value = getattr(spec, field.name, None)
            for inner in value if isinstance(value, list | tuple) else (value,):
                check_entered(inner)


def _check_again(spec: Any, latest: Any, kind: str) -> None:
    """A spec of another class than the catalog has: fine if it can be made anew by the newest definition."""
    made = type(spec)
    if not isinstance(latest, type) or not _same_place(made, latest):
        raise InvalidArgument(
            f"the catalog has another {kind} called {made.__name__.lower()!r}: give {made.__module__}.{made.__name__} "
            "another name"
        )
    if getattr(sys.modules.get(made.__module__), made.__qualname__, None) is not latest:
        raise InvalidArgument(
            f"{made.__name__} was defined more than once, and {spec!r} is not of the class in the catalog: enter the "
            "one that counts with bl.catalog.add"
        )
    was, now = ([field.name for field in dataclasses.fields(each)] for each in (made, latest))  # type: ignore[arg-type]
    if was != now:
        raise InvalidArgument(
            f"{made.__name__} was defined again, with other fields, since {spec!r} was made: make it anew"
        )


def quoted(value: Any) -> str:
    """A value as errors show it, cut where it is long.

    >>> quoted("exp"), len(quoted("x" * 1000))
    ("'exp'", 103)
    """
    text = repr(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


def to_data(spec: Any) -> dict[str, Any]:
    """A learner, game, delay law or forecaster as plain data, ready for JSON or TOML.

    >>> import belated as bl
    >>> to_data(bl.BOLD(bl.UCB1(actions=3)))
    {'name': 'bold', 'learner': {'name': 'ucb1', 'actions': 3}}
    """
    if isinstance(spec, Forecaster):
        if not isinstance(spec.learner, Learner):
            raise InvalidArgument(f"{spec!r} cannot be written as data: its learner is not a spec")
        return saving.forecaster_data(spec)
    return saving.spec_data(spec)


def from_data(kind: str, data: Any) -> Any:
    """What `to_data` wrote.

    >>> from_data("forecaster", {"name": "bold", "learner": {"name": "exp3", "actions": 4}})
    BOLD(Exp3(actions=4))
    """
    if not isinstance(data, dict) or "name" not in data:
        raise InvalidArgument(f"a {kind} is a table with a name, got {quoted(data)}")
    return build(find(kind, data["name"]), kind, data)


def build(make: Any, kind: str, data: dict[str, Any]) -> Any:
    """A spec of the class `make` from its data."""
    fields = {key: _inner(kind, key, value) for key, value in data.items() if key != "name"}
    try:
        return make(**fields)
    except TypeError as error:
        raise InvalidArgument(_missing(make, kind, data) or f"{data['name']}: {error}") from None


def _missing(make: Any, kind: str, data: dict[str, Any]) -> str | None:
    """What a spec needs and was not given, in words."""
    slots = inspect.signature(make).parameters.values()
    needed = (
        each.name
        for each in slots
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    )
    names = [name for name in needed if name not in data]
    if not names:
        return None
    if kind == "forecaster" and names == ["learner"]:
        return f"{data['name']} needs a learner, such as {data['name']}(exp3)"
    if names == ["features"]:
        return f"{data['name']} needs features: how many numbers a context has, such as {data['name']}(features=3)"
    return f"{data['name']} needs {' and '.join('a learner' if name == 'learner' else name for name in names)}"


def inner_kind(kind: str, key: str) -> str | None:
    """The table that a field's specs are from; None for a field that holds none."""
    target: Any = INNER.get(key)
    return target.get(kind) if isinstance(target, dict) else target


def _inner(kind: str, key: str, value: Any) -> Any:
    target = inner_kind(kind, key)
    if target is not None and isinstance(value, np.ndarray):
        return value
    if target is None:
        return plain(value) if kind in ("learner", "forecaster") else value
    if not isinstance(value, list | tuple):
        return from_data(target, value)
    return [v if isinstance(v, list | tuple) else from_data(target, v) for v in value]  # a row of numbers is no spec


def plain(value: Any) -> Any:
    """Lists and arrays as nested tuples: the matrices of learners must be hashable.

    >>> plain([[1, 2], [3, 4]])
    ((1, 2), (3, 4))
    """
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return tuple(plain(item) for item in value) if isinstance(value, list | tuple) else value


def from_bytes(data: bytes) -> Forecaster:
    """The forecaster that `to_bytes` saved; it continues identically.

    >>> import belated as bl
    >>> f = bl.QPMD(bl.UCB1(actions=2))
    >>> first = f.predict()
    >>> bl.from_bytes(f.to_bytes()).outstanding
    1
    """
    try:
        header, body = saving.read_header(data)
        learner = from_data("learner", header["forecaster"]["learner"])
        arrays = saving.unpack(header, body, learner)
        forecaster: Forecaster = from_data("forecaster", header["forecaster"])
        forecaster = forecaster.fresh(seed=header["seed"], replication=header["replication"])
        saving.restore(forecaster._room, header, arrays)
    except InvalidArgument as error:
        raise InvalidState(f"the saved forecaster cannot be made: {error}") from error
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidState):
            raise
        raise InvalidState(f"the saved forecaster makes no sense: {error!r}") from error
    return forecaster
