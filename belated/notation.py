"""Specs as short text: `bold(exp3)`, `bernoulli([0.2, 0.5, 0.9])`, `geometric(mean=50)`.

The text is a name of the catalog (upper or lower case), with arguments in brackets where it needs any: numbers, words,
lists, and more of the same. It is read, never executed. A dictionary with a `name` says the same.

What the other parts of a cell decide may be left out: a learner takes its number of actions (in partial monitoring its
matrices) from the game, and a game gives the kind of feedback that the learner learns from.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from belated import catalog
from belated.catalog import quoted
from belated.errors import InvalidArgument
from belated.forecasters import Forecaster
from belated.games import Monitoring, laws
from belated.games.classical import CLASSICAL, full_information
from belated.games.finite import Finite
from belated.protocols import NEVER, Delays, Game, Learner

#: What stands in for a number of actions, and for a game of partial monitoring, that is not known yet.
ANY_ACTIONS = 2
MANY_ACTIONS = 1000
ANY_GAME = full_information(ANY_ACTIONS)
ANY_TRANSITIONS = (((0.5, 0.5),) * ANY_ACTIONS,) * 2
ANY_COVARIANCE = ((1.0, 0.0), (0.0, 1.0))


def read(kind: str, given: Any) -> dict[str, Any]:
    """A spec of that kind as data, from text, a dictionary or the spec itself.

    >>> read("forecaster", "bold(exp3)")
    {'name': 'bold', 'learner': {'name': 'exp3'}}
    """
    if isinstance(given, Forecaster | Game | Delays | Learner | laws.Law):
        catalog.check_entered(given)
        return catalog.to_data(given)
    if isinstance(given, dict):
        return _from_table(kind, given)
    if not isinstance(given, str):
        raise InvalidArgument(
            f"{_a(kind)} is text such as {EXAMPLES[kind]}, or a table with a name, got {quoted(given)}"
        )
    try:
        tree = ast.parse(given.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise InvalidArgument(f"{quoted(given)} cannot be read: {getattr(error, 'msg', error)}") from None
    if not isinstance(tree, ast.Name | ast.Call):
        raise InvalidArgument(f"{_a(kind)} is a name with arguments, such as {EXAMPLES[kind]}, got {quoted(given)}")
    return _spec(kind, tree)


#: Arguments of learners that the game decides, if they have no default: there is one that fits.
DECIDED = ("actions", "loss", "symbols", "features", "experts", "contexts", "size")
#: Arguments of learners that are the game's if nothing else is said: a learner may believe in others.
TAKEN = ("covariance", "transitions", "policies", "shares")

EXAMPLES = {
    "forecaster": "bold(exp3)",
    "learner": "exp3",
    "game": "bernoulli([0.2, 0.5, 0.9])",
    "delays": "geometric(mean=50)",
    "law of an arm": "bernoulli(0.5)",
    "transitions": "grid_world(2, 3, 0.2)",
    "covariance": "squared_exponential([0, 1, 2])",
}
#: Letters of a list that `brief` shows; of a longer one it shows the size.
SHOWN = 80


def forecaster(given: Any, actions: int = ANY_ACTIONS, game: Game = ANY_GAME) -> Forecaster:
    """A forecaster; what its learner does not say itself (actions, features, matrices, policies) is that of the game.

    >>> forecaster("QPMD(ucb1)", actions=3)
    QPMD(UCB1(actions=3))
    """
    if isinstance(given, Forecaster) and not isinstance(given.learner, Learner):
        return given  # over plain learners: there is nothing to fill in
    monitored = game if isinstance(game, Finite) else ANY_GAME
    size = game.context_size or ANY_ACTIONS
    known: dict[str, Any] = {
        "actions": actions,
        "loss": monitored.loss,
        "symbols": monitored.symbols,
        "features": size,
        "experts": size if hasattr(game, "labels") else max(1, size // actions),
        "contexts": game.values or ANY_ACTIONS,
        "size": game.point_size or ANY_ACTIONS,
        **_taken(game, actions),
    }
    made: Forecaster = catalog.from_data("forecaster", filled("forecaster", read("forecaster", given), known))
    return made


def _taken(game: Game, actions: int = ANY_ACTIONS) -> dict[str, Any]:
    """What the game has of TAKEN; of a game that is not known yet, something of each."""
    if game is ANY_GAME:
        made = (ANY_COVARIANCE, ANY_TRANSITIONS, ((0,), (actions - 1,)), None)
        return dict(zip(TAKEN, made, strict=True))
    has = {name: catalog.plain(getattr(game, name, None)) for name in TAKEN}
    return {name: value for name, value in has.items() if value is not None or name == "shares"}


def some_forecaster(given: Any) -> Forecaster:
    """A forecaster whose game is not known yet: for a few actions or, if that cannot be, for many.

    >>> some_forecaster("sdb(ucb1, prior=[[7, 1.0]])").actions
    1000
    """
    try:
        return forecaster(given)
    except InvalidArgument:
        try:
            return forecaster(given, MANY_ACTIONS)
        except InvalidArgument:
            pass
        raise


def game(given: Any, feedback: str | None = None) -> Game:
    """A game; one that does not say what feedback it gives, and may choose, gives this.

    >>> game("randomwalk(3)", feedback="bandit")
    RandomWalk(actions=3, step=0.01, start=None, feedback='bandit', dynamic=False)
    """
    data = read("game", given)
    make = catalog.find("game", data["name"])
    if feedback in ("bandit", "full") and "feedback" not in data and _choosable(make, feedback):
        data = data | {"feedback": feedback}
    made: Game = catalog.from_data("game", data)
    return made


def finite_game(given: str) -> Monitoring:
    """A game of partial monitoring from a TOML file, or from text: the name of a classical one, with arguments.

    >>> finite_game("spam(cost=0.3)").structure.klass
    'easy'
    """
    name = given.partition("(")[0].strip().lower()
    if any(mark in name for mark in "./\\") or given.endswith(".toml") or Path(given).is_file():
        return Monitoring.read(given)
    known = f"there are {', '.join(sorted(CLASSICAL))}"
    if name not in catalog.TABLES["game"]:
        raise InvalidArgument(
            f"no game is called {quoted(name)}; {catalog.nearest(name[: catalog.QUOTED], CLASSICAL) or known}"
        )
    made = game(given)
    if not isinstance(made, Monitoring):
        raise InvalidArgument(f"{given} is not a game of partial monitoring; {known}")
    return made


def delays(given: Any) -> Delays:
    """A delay law.

    >>> delays("lossy(constant(5), p=0.1)").mean
    inf
    """
    made: Delays = catalog.from_data("delays", read("delays", given))
    return made


def text(kind: str, spec: Any, game: Game | None = None) -> str:
    """The short text of a spec; what the game decides, and what is as it is by default, is left out.

    >>> import belated as bl
    >>> text("forecaster", bl.BOLD(bl.KLUCB(actions=3)))
    'bold(klucb)'
    >>> text("forecaster", bl.SDB(bl.UCB1(actions=2), prior=[(1, 0.5)]))
    'sdb(ucb1, prior=[[1, 0.5]])'
    """
    return _text(kind, read(kind, spec), {} if game is None else _taken(game))


def brief(kind: str, spec: Any, game: Game | None = None) -> str:
    """`text` for eyes alone: of a long list it says how long it is.

    >>> import belated as bl
    >>> brief("delays", bl.delays.Trace(list(range(100))))
    'trace(<100>)'
    """
    return _text(kind, read(kind, spec), {} if game is None else _taken(game), SHOWN)


def _text(kind: str, data: dict[str, Any], taken: dict[str, Any], most: float = math.inf) -> str:
    if data["name"] == "monitoring" and {"loss", "symbols"} <= data.keys() and data.get("contexts") is None:
        data = _by_name(data)
    parts: list[str] = []
    parameters = _parameters(catalog.find(kind, data["name"]))
    positional = True
    for name, parameter in parameters.items():
        if name not in data or _unsaid(kind, parameter, data[name], taken):
            positional = False
            continue
        value = data[name]
        named = parameter.kind is inspect.Parameter.KEYWORD_ONLY or (kind == "forecaster" and bool(parts))
        positional = positional and not named
        shown = _value_text(kind, name, value, taken, most)
        parts.append(shown if positional else f"{name}={shown}")
    inside = ", ".join(parts)
    return f"{data['name']}({inside})" if inside else str(data["name"])


def _unsaid(kind: str, parameter: inspect.Parameter, value: Any, taken: dict[str, Any]) -> bool:
    """Whether an argument goes without saying: it is the default, or what the game has."""
    if not _needed(parameter):
        return bool(value == parameter.default)
    if kind not in ("learner", "forecaster"):
        return False
    name = parameter.name
    return name in DECIDED or (name in taken and catalog.plain(value) == taken[name])


@cache
def _classical() -> dict[Any, str]:
    """The names of the classical games, as they are without arguments, by their matrices."""
    made = {name: make() for name, make in CLASSICAL.items()}
    return {(game.loss, game.symbols): name for name, game in made.items()}


def _by_name(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a game of partial monitoring, by name where it is a classical one."""
    made = Monitoring(data["loss"], data["symbols"])
    name = _classical().get((made.loss, made.symbols))
    return data if name is None else {"name": name, "law": data.get("law"), "trace": data.get("trace")}


def _value_text(kind: str, name: str, value: Any, taken: dict[str, Any], most: float) -> str:
    inner = catalog.inner_kind(kind, name)
    if inner is not None and isinstance(value, dict):
        return _text(inner, value, taken, most)
    if isinstance(value, list | tuple):
        said = "[" + ", ".join(_value_text(kind, name, item, taken, math.inf) for item in value) + "]"
        return said if len(said) <= most else f"<{_size(value)}>"
    return repr(value)


def _size(rows: Any) -> str:
    """How long a list is, and the lists in it.

    >>> _size([[1, 2, 3], [4, 5, 6]])
    '2 x 3'
    """
    inside = rows[0] if rows else None
    return f"{len(rows)} x {_size(inside)}" if isinstance(inside, list | tuple) else str(len(rows))


def _spec(kind: str, tree: ast.expr) -> dict[str, Any]:
    if isinstance(tree, ast.Name):
        return {"name": _name(kind, tree.id)}
    assert isinstance(tree, ast.Call)
    if not isinstance(tree.func, ast.Name):
        raise InvalidArgument(f"{_a(kind)} starts with a name, got {quoted(ast.unparse(tree))}")
    data: dict[str, Any] = {"name": _name(kind, tree.func.id)}
    slots = _parameters(catalog.find(kind, data["name"]))
    for argument, slot in _pairs(tree, list(slots), data["name"]):
        data[slot] = _value(catalog.inner_kind(kind, slot), argument)
    return data


def _pairs(call: ast.Call, slots: list[str], name: str) -> Iterator[tuple[ast.expr, str]]:
    """Arguments with the names they go by."""
    if len(call.args) > len(slots):
        raise InvalidArgument(
            f"{name} takes {_listed(slots)}, got {len(call.args)} arguments: {quoted(ast.unparse(call))}"
        )
    given = list(zip(call.args, slots, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in slots:
            near = catalog.nearest(str(keyword.arg)[: catalog.QUOTED], slots)
            raise InvalidArgument(
                f"{name} has no argument {quoted(keyword.arg)}; {near or f'it takes {_listed(slots)}'}"
            )
        given.append((keyword.value, keyword.arg))
    seen: set[str] = set()
    for argument, slot in given:
        if slot in seen:
            raise InvalidArgument(f"{name} got {slot!r} twice: {quoted(ast.unparse(call))}")
        seen.add(slot)
        yield argument, slot


def _value(inner: str | None, tree: ast.expr) -> Any:
    if isinstance(tree, ast.List | ast.Tuple):
        return [_value(inner, item) for item in tree.elts]
    if inner is not None and isinstance(tree, ast.Name | ast.Call):
        return _spec(inner, tree)
    if isinstance(tree, ast.Name):
        # A word without quotes, as a shell leaves it.
        return {"never": NEVER, "inf": math.inf, "true": True, "false": False}.get(tree.id.lower(), tree.id)
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise InvalidArgument(f"{quoted(ast.unparse(tree))} is not a number, a word or a list") from None


def _from_table(kind: str, table: dict[str, Any]) -> dict[str, Any]:
    """A dictionary, whose inner specs may be text."""
    if not isinstance(table.get("name"), str):
        raise InvalidArgument(f"{_a(kind)} needs a name, such as {{name = {EXAMPLES[kind].partition('(')[0]!r}}}")
    data: dict[str, Any] = {"name": _name(kind, table["name"])}
    slots = list(_parameters(catalog.find(kind, data["name"])))
    for key, given in table.items():
        if key == "name":
            continue
        value = catalog.plain(given) if isinstance(given, np.ndarray) else given
        if key not in slots:
            near = catalog.nearest(str(key)[: catalog.QUOTED], slots)
            raise InvalidArgument(
                f"{data['name']} has no argument {quoted(key)}; {near or f'it takes {_listed(slots)}'}"
            )
        inner = catalog.inner_kind(kind, key)
        if inner is None:
            data[key] = value
        else:
            many = isinstance(value, list | tuple)
            # a row of numbers is no spec
            rows = [v if isinstance(v, list | tuple) else read(inner, v) for v in value] if many else None
            data[key] = rows if many else read(inner, value)
    return data


def filled(kind: str, data: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The data with what is known from elsewhere, where it is not said and has no default.

    >>> filled("forecaster", {"name": "bold", "learner": {"name": "exp3"}}, {"actions": 3})["learner"]
    {'actions': 3, 'name': 'exp3'}
    """
    slots = _parameters(catalog.find(kind, data["name"]))
    full = {name: value for name, value in known.items() if name in slots and _needed(slots[name])} | data
    for slot in slots:
        inner = catalog.inner_kind(kind, slot)
        if inner == "learner" and isinstance(full.get(slot), dict):
            full[slot] = filled(inner, full[slot], known)
    return full


def _name(kind: str, name: str) -> str:
    catalog.find(kind, name.lower())
    return name.lower()


@cache
def _parameters(make: Any) -> dict[str, inspect.Parameter]:
    return {n: p for n, p in inspect.signature(make).parameters.items() if n != "seed"}


def _needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


def _choosable(make: Any, feedback: str) -> bool:
    """Whether a game can be told to give this feedback."""
    if "feedback" not in _parameters(make):
        return False
    return make.__name__ != "Replaced" or feedback == "bandit"


def _a(kind: str) -> str:
    return "a delay law" if kind == "delays" else f"a {kind}"


def _listed(slots: list[str]) -> str:
    return ", ".join(slots) if slots else "no arguments"
