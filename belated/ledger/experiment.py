"""What an experiment is: names of actions, a forecaster over a learner, and the rules for its feedback."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from belated import catalog, notation, require
from belated.catalog import quoted
from belated.errors import BelatedError, InvalidArgument, InvalidFeedback, InvalidState, Unsupported
from belated.features import Features
from belated.features.kinds import shown
from belated.forecasters import Forecaster
from belated.forecasters.base import check_one_hot, one_hot_words
from belated.forecasters.saving import forecaster_data, layout_text
from belated.kernels.states import params, state_dtype
from belated.ledger import contexts
from belated.ledger.errors import Refused
from belated.ledger.store import ExperimentRow
from belated.protocols import Floats, Learner
from belated.require import HIDDEN as HIDDEN
from belated.require import UNSEEN as UNSEEN
from belated.require import check_letters as check_letters

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Limits that keep one experiment from harming the others.
ACTIONS = 1000
LETTERS = 200
STATE_BYTES = 1 << 20
OUTSTANDING = 10_000_000
#: What one transaction takes, in decisions or feedback of small states; the bytes of a state that cost as much as one.
TOGETHER = 2_000
COSTLY = 1 << 16
#: What of an experiment can be changed.
RULES = ("expiry_seconds", "on_expiry", "limits", "retention_seconds")
#: Why some of it cannot.
FIXED = {"features": "what the learner has learned is about the numbers that they make"}
#: Characters of an error about a forecaster.
MESSAGE = 500


@dataclass(frozen=True)
class Retired:
    """The name that an action had up to a round. Another took its number at `place` of the log (0: before logs had
    places, when every state was changed at once)."""

    action: int
    name: str
    round: int
    place: int = 0


class Turn(NamedTuple):
    """Where in the log an action was replaced or added: a state from before changes when it is next used."""

    place: int
    kind: str
    action: int


@dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment. `on_expiry` is None where expired decisions are dropped, else the reward that is learned."""

    name: str
    actions: tuple[str, ...]
    forecaster: Forecaster
    low: float = 0.0
    high: float = 1.0
    expiry: float | None = None
    on_expiry: float | None = None
    outstanding: int = OUTSTANDING
    retention: float | None = None
    retired: tuple[Retired, ...] = ()
    #: At which places of the log actions were added; the last of them is the last action.
    added: tuple[int, ...] = ()
    #: What its contexts are made of; None where they are numbers.
    features: Features | None = None
    id: int = 0
    created_at: float = 0.0
    archived_at: float | None = None
    #: How often its own rules were changed: see `changed_to`.
    changes: int = 0
    #: Why nothing may change, where the stored states are of another version.
    trouble: str | None = None
    #: The version and layout of the stored states, where they are not the learner's own.
    stored: tuple[int, str] | None = field(default=None, repr=False)

    @cached_property
    def learner(self) -> Learner:
        assert isinstance(self.forecaster.learner, Learner)
        return self.forecaster.learner

    @property
    def plays(self) -> str:
        """Who decides, in words: the forecaster, with what it was given of its parameters, and the learner."""
        data = forecaster_data(self.forecaster)
        given = ", ".join(f"{key}={quoted(data[key])}" for key in data if key not in ("name", "learner"))
        return f"{type(self.forecaster).__name__}{f'({given})' if given else ''} over {type(self.learner).__name__}"

    @cached_property
    def apart(self) -> bool:
        """Whether each state has a life of its own: instances from pools, and a rule that keeps nothing beside them."""
        rule = self.forecaster
        return rule.grows and rule.layout() is None and not rule.queues()

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """Where actions were replaced and added, in order."""
        first = len(self.actions) - len(self.added)
        found = [Turn(old.place, "replace", old.action) for old in self.retired if old.place]
        return tuple(sorted(found + [Turn(place, "grow", first + n) for n, place in enumerate(self.added)]))

    def size_at(self, place: int) -> int:
        """How many actions there were after the event at that place."""
        return len(self.actions) - sum(each > place for each in self.added)

    def was_replaced(self, action: int, round_: int, place: float = math.inf) -> bool:
        """Whether the action of a decision of that round had been replaced when the event at that place came."""
        return any(old.action == action and round_ <= old.round and 0 < old.place < place for old in self.retired)

    @cached_property
    def takes_numbers(self) -> bool:
        """Whether feedback is one reward."""
        return self.learner.feedback in ("bandit", "any")

    @cached_property
    def scales(self) -> bool:
        """Whether rewards are mapped to the learner's range: not if that has no end."""
        return math.isfinite(self.learner.largest - self.learner.smallest)

    @cached_property
    def propensity(self) -> bool:
        """Whether the probability of a decision is the one that its action was played with: one may divide by it."""
        return bool(self.forecaster.propensity and self.learner.states_probability)

    def stated(self, probability: float) -> float | None:
        """The probability of a decision on record; None if the learner does not state any (whatever stands there)."""
        return probability if self.learner.states_probability else None

    @cached_property
    def cost(self) -> int:
        """What one decision or feedback costs, where 1 is that of a small state."""
        return 1 + state_dtype(self.learner).itemsize // COSTLY

    @cached_property
    def slice(self) -> int:
        """How many decisions or feedback may go into one transaction."""
        return max(1, TOGETHER // self.cost)

    # --- what people send ---

    def context(self, given: Any) -> Floats | None:
        """Side information as the learner takes it: from an object, where the experiment states its features."""
        checked: Floats | None
        if self.features is not None:
            checked = contexts.seen(self.features, self.forecaster, given)
        elif isinstance(given, dict):
            raise InvalidArgument(f"{self.name} states no features: a context is numbers, got {shown(given)}")
        else:
            checked = self.forecaster.check_context(given)
        return checked

    def feedback(self, value: Any, action: int) -> Floats:
        """What the learner sees of a value: rewards as its range has them, or the number of a symbol."""
        if self.learner.feedback == "symbol":
            if not isinstance(value, str | float | int) or isinstance(value, bool):
                raise InvalidFeedback(f"value must be a symbol, got {value!r}")
            known: Floats = self.forecaster.check_feedback(value, action)
            return known
        if self.takes_numbers:
            return np.array([self._scaled(value)])
        if not isinstance(value, list) or len(value) != len(self.actions):
            named = one_hot_words(self.learner, (self.low, self.high))
            wanted = f"a list of {len(self.actions)} rewards, one an action{': ' if named else ''}{named}"
            raise InvalidFeedback(f"value must be {wanted}, got {value!r}")
        vector = np.array([self._scaled(each) for each in value])
        check_one_hot("value", np.array(value, float), self.learner, (self.low, self.high))
        return vector

    def check(self, value: Any) -> None:
        """Refuse a value that no action could have; symbols are looked at when the action is known."""
        if self.takes_numbers:
            self._scaled(value)
        elif self.learner.feedback == "full":
            self.feedback(value, 0)
        elif not isinstance(value, str | float | int) or isinstance(value, bool):
            raise InvalidFeedback(f"value must be a symbol, got {value!r}")

    def _scaled(self, value: Any) -> float:
        if not isinstance(value, float | int) or isinstance(value, bool) or not math.isfinite(value):
            raise InvalidFeedback(f"value must be a finite number, got {value!r}")
        if not self.low <= value <= self.high:
            raise InvalidFeedback(
                f"value must lie in [{self.low:g}, {self.high:g}], the reward_range of {self.name}, got {value!r}"
            )
        if not self.scales:
            return float(value)
        learner = self.learner
        share = min((value - self.low) / (self.high - self.low), 1.0)
        return learner.smallest + share * (learner.largest - learner.smallest)

    def number(self, name: Any) -> int:
        """The number of an action."""
        if name not in self.actions:
            raise InvalidArgument(f"{self.name} has no action called {name!r}")
        return self.actions.index(name)

    def numbers(self, names: Sequence[str] | None) -> tuple[int, ...] | None:
        """The numbers of some actions, which rise; None for None."""
        return None if names is None else tuple(sorted({self.number(name) for name in names}))

    def check_allowed(self) -> None:
        """Refuse a choice among some actions where it cannot be made."""
        self.forecaster.check_among()

    def name_of(self, action: int, round_: int) -> str:
        """What an action was called in a round."""
        for old in self.retired:
            if old.action == action and round_ <= old.round:
                return old.name
        return self.actions[action]

    def renamed(self, action: int, name: str, round_: int, place: int) -> Experiment:
        """The experiment after a new action took the place of an old one, by the event at that place."""
        _check_names([*self.actions, name])
        check_letters("the name of an action", name)
        names = tuple(name if i == action else old for i, old in enumerate(self.actions))
        old = Retired(action, self.actions[action], round_, place)
        return replace(self, actions=names, retired=(*self.retired, old))

    def grown(self, name: str, place: int = 0) -> Experiment:
        """The experiment with one more action, by the event at that place."""
        if self.archived_at is not None:
            raise Refused("archived", f"{self.name} is archived: it gets no more actions")
        if name in self.actions:
            raise Refused("exists", f"{self.name} has an action called {name!r} already")
        _check_names([*self.actions, name])
        check_letters("the name of an action", name)
        self.forecaster.check_grow()
        made = replace(self.sized((*self.actions, name)), added=(*self.added, place))
        _check_size(made.learner)
        return made

    def sized(self, names: tuple[str, ...]) -> Experiment:
        """The same over these actions, more or fewer: one that can grow."""
        learner = self.learner.with_actions(len(names))
        if learner is None:
            raise Unsupported(f"{self.learner!r} is made for {len(self.actions)} actions")
        made = self.forecaster.over(learner, seed=self.forecaster.seed)
        if self.features is not None:
            contexts.check(self.features, learner)
        return replace(self, actions=names, forecaster=made)

    def changed_to(self, given: dict[str, Any]) -> Experiment:
        """The experiment with other rules: any of RULES. Decisions that are open keep the time when they expire."""
        changed = replace(self, **rules(self, {name: self.spec()[name] for name in RULES} | given))
        return replace(changed, changes=self.changes + (changed.spec() != self.spec()))

    @property
    def warnings(self) -> list[str]:
        """Where theory is bent."""
        said = []
        if self.on_expiry is not None:
            said.append("a default reward is learned as if it had been observed: it biases what is learned")
        elif self.expiry is not None:
            said.append("if delays depend on outcomes, dropping what expires biases what is learned")
        if self.learner.keeps and self.forecaster.tells_late:
            kept = f"{type(self.learner).__name__} keeps the last {self.learner.keeps} decisions"
            said.append(f"{kept}: of feedback that comes later it learns nothing")
        return said

    # --- as data ---

    def spec(self) -> dict[str, Any]:
        """Everything that was said at creation, as plain data."""
        features = {} if self.features is None else {"features": self.features.to_data()}
        return features | {
            "actions": list(self.actions),
            "forecaster": catalog.to_data(self.forecaster),
            "reward_range": [self.low, self.high],
            "expiry_seconds": self.expiry,
            "on_expiry": "drop" if self.on_expiry is None else self.on_expiry,
            "seed": self.forecaster.seed,
            "limits": {"outstanding": self.outstanding},
            "retention_seconds": self.retention,
        }

    def row(self) -> ExperimentRow:
        """As it is stored."""
        version, layout = self.stored or (self.learner.version, layout_text(self.learner))
        spec = self.spec() | {"retired": [list(astuple(old))[: 4 if old.place else 3] for old in self.retired]}
        spec |= {"added": list(self.added)} if self.added else {}
        spec |= {"changes": self.changes} if self.changes else {}
        return ExperimentRow(self.id, self.name, json.dumps(spec), version, layout, self.created_at, self.archived_at)

    @staticmethod
    def from_row(row: ExperimentRow) -> Experiment:
        """What `row` stored; it may be of another version of its learner, see `upkeep.py`."""
        spec = json.loads(row.spec)
        retired = tuple(Retired(*old) for old in spec.pop("retired", ()))
        added = tuple(require.integer("added", place, low=0) for place in spec.pop("added", ()))
        changes = require.integer("changes", spec.pop("changes", 0), low=0)
        strange = sorted(spec.keys() - make.__annotations__.keys())
        if strange:
            raise InvalidState(f"its spec says {strange[0]!r}, which this version of belated does not know")
        made = make(row.name, **spec, stored=True)
        stored = (row.version, row.layout)
        if stored == (made.learner.version, layout_text(made.learner)):
            stored = None  # type: ignore[assignment]
        dates: dict[str, Any] = {"created_at": row.created_at, "archived_at": row.archived_at}
        return replace(made, id=row.id, retired=retired, added=added, changes=changes, stored=stored, **dates)


def make(
    name: str,
    actions: list[str],
    forecaster: Any,
    reward_range: Any = (0.0, 1.0),
    expiry_seconds: float | None = None,
    on_expiry: Any = "drop",
    seed: int | None = None,
    limits: dict[str, Any] | None = None,
    retention_seconds: float | None = None,
    features: Any = None,
    stored: bool = False,
) -> Experiment:
    """An experiment from what a person says; InvalidArgument names what is wrong.

    `stored`: it was made before, maybe by an earlier version, which took names of any letters.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidArgument(f"name must be 1 to 64 letters, digits, '.', '_' or '-', got {name!r}")
    _check_names(actions)
    for each in () if stored else actions:
        check_letters("the name of an action", each)
    low, high = require.interval("reward_range", reward_range)
    seed = secrets.randbits(53) if seed is None else require.integer("seed", seed, low=0, high=2**64 - 1)
    stated = None if features is None else Features(features)
    known = {"actions": len(actions)} | ({} if stated is None else contexts.known(stated))
    built = _forecaster(forecaster, known).fresh(seed=seed)
    made = Experiment(name, tuple(actions), built, low, high, features=stated)
    learner = made.learner
    if stated is not None:
        contexts.check(stated, learner)
    if not made.scales and not learner.smallest <= low < high <= learner.largest:
        raise InvalidArgument(
            f"reward_range must lie in [{learner.smallest:g}, {learner.largest:g}], which {quoted(learner)} takes, got "
            f"{reward_range!r}"
        )
    given = (expiry_seconds, on_expiry, limits, retention_seconds)
    return replace(made, **rules(made, dict(zip(RULES, given, strict=True))))


def rules(of: Experiment, given: dict[str, Any]) -> dict[str, Any]:
    """What RULES are as fields of an experiment."""
    unknown = next((name for name in given if name not in RULES), None)
    if unknown is not None:
        why = f": {FIXED[unknown]}" if unknown in FIXED else ""
        raise InvalidArgument(f"{unknown!r} cannot be changed{why}; these can: {', '.join(RULES)}")
    expiry, on_expiry, limits, retention = (given[name] for name in RULES)
    limits = dict(limits or {})
    most = require.integer("limits.outstanding", limits.pop("outstanding", of.outstanding), low=1, high=10**9)
    if limits:
        raise InvalidArgument(f"limits has no {next(iter(limits))!r}; it takes outstanding")
    return {
        "expiry": None if expiry is None else require.real("expiry_seconds", expiry, above=0, high=1e10),
        "on_expiry": _on_expiry(of, on_expiry),
        "outstanding": most,
        "retention": None if retention is None else require.real("retention_seconds", retention, low=60),
    }


def _on_expiry(of: Experiment, given: Any) -> float | None:
    if given == "drop":
        return None
    if not of.takes_numbers:
        raise Unsupported(f"on_expiry must be 'drop' for {of.learner!r}: it learns from more than one reward")
    if isinstance(given, str):
        raise InvalidArgument(f"on_expiry must be 'drop' or a reward, got {quoted(given)}")
    return require.real("on_expiry", given, low=of.low, high=of.high)


def _check_names(actions: Any) -> None:
    names = require.sequence("actions", actions)
    if len(names) > ACTIONS:
        raise InvalidArgument(f"actions may be {ACTIONS} at most, got {len(names)}")
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name) <= LETTERS:
            raise InvalidArgument(f"the name of an action must be 1 to {LETTERS} letters, got {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidArgument(f"two actions are called {twice!r}")


def _forecaster(given: Any, known: dict[str, int]) -> Forecaster:
    """The forecaster over so many actions, of a size that can be stored."""
    actions = known["actions"]
    try:
        data = notation.filled("forecaster", notation.read("forecaster", given), known)
        if "learner" in data:
            _check_size(catalog.from_data("learner", data["learner"]))
        made: Forecaster = catalog.from_data("forecaster", data)
    except BelatedError as error:
        if len(str(error)) <= MESSAGE:
            raise
        raise type(error)(f"{str(error)[:MESSAGE]}...") from None
    except (ValueError, TypeError, ArithmeticError, MemoryError, RecursionError, AttributeError) as error:
        raise InvalidArgument(f"the forecaster cannot be made: {error}") from None
    if isinstance(made.learner, Learner) and made.learner.point_size:
        raise Unsupported(f"{quoted(made)} plays points, which the service does not keep yet")
    if made.actions != actions:
        raise InvalidArgument(f"{quoted(made)} has {made.actions} actions, but {actions} are named")
    if made.reward_range is not None:
        raise InvalidArgument(f"reward_range is the experiment's own, not of its forecaster {quoted(made)}")
    return made


def _check_size(learner: Learner) -> None:
    name = quoted(learner)
    try:
        size, what = state_dtype(learner).itemsize, "a state"
        if size <= STATE_BYTES:
            size, what = params(learner).nbytes, "parameters"
    except (ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, BelatedError):
            raise
        raise InvalidArgument(f"{name} would have a state that is too large: {STATE_BYTES} bytes at most") from None
    if size > STATE_BYTES:
        raise InvalidArgument(f"{name} would have {what} of {size} bytes, which is too large: {STATE_BYTES} at most")
    if learner.context_size > contexts.CONTEXT:
        raise InvalidArgument(f"{name} takes contexts of {learner.context_size} numbers, more than {contexts.CONTEXT}")
