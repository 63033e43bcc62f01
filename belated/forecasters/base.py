"""What all forecasters share: tickets, checks, counts, locks and saving. The readable form, for any learner."""

from __future__ import annotations

import math
import operator
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from belated import require
from belated.errors import (
    BadPrediction,
    ClosedTicket,
    InvalidArgument,
    InvalidFeedback,
    InvalidState,
    UnknownTicket,
    Unsupported,
)
from belated.forecasters import saving
from belated.forecasters.instance import Instance
from belated.kernels.random import key_of
from belated.protocols import Decision, Learner, PlainLearner

#: Probabilities may pass 1 by rounding.
MOST = 1.0 + 1e-9
#: Numbers of a context are not larger: their squares are still finite.
LARGEST = 1e100
#: What NaN comes as.
FLOATS = (float, np.floating)
#: Packages with models that need an adapter, and the module of `belated.adapters` that has it.
ADAPTERS = {"mabwiser": "mabwiser", "river": "river", "sklearn": "sklearn", "vowpalwabbit": "vowpal_wabbit"}
#: An open ticket, all that an update needs from prediction time: the decision, its context, its instance, and which
#: prediction of that instance it was. A plain tuple, and `_new(Decision, fields)`: a round of a light learner takes no
#: longer than making objects with names does.
Open = tuple[Decision, Any, int, int]
_new = tuple.__new__


class Kernels(NamedTuple):
    """The compiled form of a forecaster: what the loop calls.

    `desk` holds the scalars of the replication, `marks` is a vector of integers for the forecaster's own use, `slab`
    the mailbox's entries, `tally` the counts of each action.
    """

    begin: Any  # begin(desk, marks): a replication starts
    choose: Any  # choose(desk, params, blank, pool, marks, slab, context, k0, k1, tally) -> action, probability
    deliver: Any  # deliver(desk, params, pool, marks, slab, context, entry) -> whether the entry stays in use
    release: Any  # release(desk, marks, instance): a ticket was cancelled, or its feedback dropped
    replace: Any  # replace(desk, params, pool, action): a new action takes the number of an old one


class Forecaster(ABC):
    """Plays under delay: `predict` gives a decision with a ticket, `update` takes feedback in any order.

    `learner` is a spec (`bl.UCB1(actions=3)`) or a function without arguments that makes a plain learner. A function
    that has `numbered = True` is given a number instead, another one for each learner it makes: 0 for the first, and
    in BOLD's other instances, and in other replications of `play`, what they can draw differently by.

    All methods may be called from several threads. `seed` decides what learners that are specs draw; without one a
    fresh seed is taken and kept in `.seed`.
    """

    #: Its bound in a few words, as the catalog shows it.
    guarantee: ClassVar[str] = "none stated"
    #: Whether a prediction may need one more instance.
    grows: ClassVar[bool] = False

    #: How many actions there are; None if the learner predicts anything, such as labels.
    actions: int | None
    #: Whether decisions say with which probability they were made; else they say NaN.
    states_probability: bool

    def __init__(self, learner: Learner | Callable[..., PlainLearner], *, seed: int | None = None) -> None:
        forgotten = isinstance(learner, type) and issubclass(learner, Learner)
        if forgotten or not (isinstance(learner, Learner) or callable(learner)):
            wanted = "a spec such as UCB1(actions=3), or a function without arguments that makes a plain learner"
            raise InvalidArgument(f"learner must be {wanted}, got {shown(learner)}{_hint(learner)}")
        self.learner = learner
        self._spec = learner if isinstance(learner, Learner) else None
        self.seed = secrets.randbits(64) if seed is None else require.integer("seed", seed, low=0, high=2**64 - 1)
        self._lock = threading.RLock()
        self._pending: dict[int, Open] = {}
        self._stale: set[int] = set()  # open tickets whose action was replaced since: their feedback will be dropped
        self._issued = 0
        self._peak = 0
        self._dropped = 0
        self._replication = 0
        self._key = key_of(self.seed, 0)
        self._instances: list[Any] = []
        first = self._new_instance()
        self.actions = first.actions
        self.states_probability = bool(getattr(first, "states_probability", True))
        self._check_learner(first)

    # --- what people call ---

    def predict(self, context: Any = None) -> Decision:
        """Choose an action now; its feedback goes to `update` under the decision's ticket."""
        lock = self._lock
        lock.acquire()  # `with` takes twice as long
        try:
            known = context if context is None and self._spec is None else self._check_context(context)
            instance, action, probability = self._choose(known)
            pending = self._pending
            if len(pending) > self._peak:
                self._peak = len(pending)
            number = 0 if self._spec is None else self._instances[instance].predictions
            ticket = self._issued = self._issued + 1
            decision = _new(Decision, (ticket, action, probability))
            pending[ticket] = decision, known, instance, number
            return decision
        finally:
            lock.release()

    def update(self, ticket: int, feedback: Any) -> None:
        """Learn from the feedback of one ticket: a reward, with full information the rewards of all actions, or in
        partial monitoring the symbol, as it is written in the game's matrix.

        If the ticket's action was replaced since, nothing is learned: the feedback is counted in `dropped`.
        """
        lock = self._lock
        lock.acquire()
        try:
            opened = self._pending.get(ticket) if type(ticket) is int else None
            made, context, instance, number = opened or self._open(ticket)
            known = self._check_feedback(feedback, made.action)
            if made.ticket in self._stale:
                self._release(instance)
                self._dropped += 1
                self._stale.remove(made.ticket)
            else:
                self._deliver(made, context, instance, number, known)
            del self._pending[made.ticket]
        finally:
            lock.release()

    def cancel(self, ticket: int) -> None:
        """End a ticket without feedback: nothing is learned, and its instance is free again."""
        with self._lock:
            made, _, instance, _ = self._open(ticket)
            self._release(instance)
            self._stale.discard(made.ticket)
            del self._pending[made.ticket]

    def replace(self, action: int) -> None:
        """An action is retired and a new one takes its number, unknown in every instance.

        Feedback for its open tickets is dropped when it comes. Not every learner can do it.
        """
        with self._lock:
            self.check_replace()
            number = require.integer("action", action, low=0, high=(self.actions or 0) - 1)
            with ExitStack() as kept:
                for learner in self._instances:
                    kept.enter_context(_untouched(learner))
                for learner in self._instances:
                    learner.replace(number)
            self._stale.update(ticket for ticket, (made, *_) in self._pending.items() if made.action == number)

    @property
    def outstanding(self) -> int:
        """G: how many tickets are open."""
        return len(self._pending)

    @property
    def peak(self) -> int:
        """G*: the most tickets that were open when a prediction was made."""
        return self._peak

    @property
    def dropped(self) -> int:
        """How much feedback came for an action that had been replaced."""
        return self._dropped

    @property
    def instances(self) -> int:
        """M: how many instances of the learner exist."""
        return len(self._instances)

    def fresh(self, *, seed: int | None = None, replication: int = 0) -> Self:
        """A new forecaster of the same kind over the same learner, with nothing learned.

        It draws what `play` lets it draw in that replication under that seed.
        """
        made = type(self)(self.learner, seed=seed)
        if replication:
            made._replication = replication
            made._key = key_of(made.seed, replication)
            made._instances.clear()
            made._new_instance()
        return made

    def to_bytes(self) -> bytes:
        """The whole forecaster, open tickets included; `bl.from_bytes` gives one that continues identically."""
        if self._spec is None:
            raise Unsupported(f"{self!r} cannot be saved: only learners that are specs have a state of known layout")
        with self._lock:
            name, stream = type(self).__name__.lower(), (self.seed, self._replication)
            return saving.pack(name, self._spec, stream, self._arrays())

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        name = _name_of(self.learner) if self._spec is None else repr(self._spec)
        return f"{type(self).__name__}({name})"

    # --- what a forecaster decides ---

    @abstractmethod
    def _choose(self, context: Any) -> tuple[int, int, float]:
        """Pick an instance, let it predict; return instance, action, probability."""

    @abstractmethod
    def _deliver(self, made: Decision, context: Any, instance: int, number: int, feedback: Any) -> None:
        """Feedback of a decision has come; it was prediction `number` of its instance."""

    def _release(self, instance: int) -> None:  # noqa: B027  (nothing to do unless an instance waits)
        """A ticket was cancelled, or its feedback dropped."""

    def _check_learner(self, learner: Any) -> None:  # noqa: B027
        """Refuse a learner outside the forecaster's conditions."""

    @staticmethod
    @abstractmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        """The compiled form, over a learner's compiled predict, update and (where it has one) replace, and `values`."""

    def check_replace(self) -> None:
        """Raise Unsupported if actions cannot be replaced."""
        learner = self._spec or self._instances[0]
        if self.actions is None or not callable(getattr(learner, "replace", None)):
            raise Unsupported(f"{self!r} cannot replace an action: {self._called()} has no replace")
        if self._spec is not None and self._spec.feedback == "full":
            raise Unsupported(
                f"{self!r} cannot replace an action: under full information every late feedback tells of the old one"
            )

    def check_grow(self) -> None:
        """Raise Unsupported if no action can be added."""
        if self._spec is None or self._spec.with_actions((self.actions or 0) + 1) is None:
            raise Unsupported(
                f"{self!r} cannot get one more action: {self._called()} has no way to go on with an unknown one"
            )
        if self._spec.feedback == "full":
            raise Unsupported(
                f"{self!r} cannot get one more action: open decisions have feedback for the old ones only"
            )

    # --- what they share ---

    def _called(self) -> str:
        """What messages call the learner: as `repr` does, or what a function without a name made."""
        name = "<lambda>" if self._spec is not None else getattr(self.learner, "__name__", "<lambda>")
        return type(self._spec or self._instances[0]).__name__ if name == "<lambda>" else str(name)

    def _new_instance(self) -> Any:
        number = len(self._instances)
        make: Any = self.learner
        if self._spec is not None:
            first = self._instances[0] if self._instances else None
            self._instances.append(Instance(self._spec, self._key, number, first))
        elif getattr(make, "numbered", False):
            self._instances.append(self._check_made(make((self._replication << 20) + number)))
        else:
            self._instances.append(self._check_made(make()))
        return self._instances[-1]

    def _check_made(self, made: Any) -> PlainLearner:
        """What the function given as learner returned: a plain learner, a new one, with as many actions as before."""
        if isinstance(made, Learner) or not isinstance(made, PlainLearner):
            raise InvalidArgument(
                "the function given as learner must return an object with actions, predict(context) and "
                f"update(context, action, probability, feedback), got {shown(made)}{_hint(made)}"
            )
        if made.actions is not None:
            require.integer("actions of the learner", made.actions, low=1)
        if any(made is other for other in self._instances):
            raise InvalidArgument(
                f"the function given as learner must return a new object each time, got {shown(made)} again"
            )
        if self._instances and made.actions != self.actions:
            raise InvalidArgument(f"the learners must have {self.actions} actions each, got one with {made.actions}")
        return made

    def _ask(self, number: int, context: Any) -> tuple[int, float]:
        """Let an instance predict, and check what it says; a bad prediction leaves its state as it was."""
        learner = self._instances[number]
        if self._spec is None:
            return check_prediction(self, learner.predict(context))
        with _untouched(learner):
            return check_prediction(self, learner.predict(context))

    def _open(self, ticket: Any) -> Open:
        try:
            number = require.integer("a ticket", ticket)
        except InvalidArgument as error:
            raise UnknownTicket(str(error)) from None
        if number in self._pending:
            return self._pending[number]
        if 1 <= number <= self._issued:
            raise ClosedTicket(f"ticket {number} was answered or cancelled before")
        raise UnknownTicket(f"ticket {number} was never given out: tickets so far are 1..{self._issued}")

    def _check_context(self, context: Any) -> Any:
        if self._spec is None:
            return context
        size = self._spec.context_size
        if context is None and size == 0:
            return None
        if size == 0:
            raise InvalidArgument(f"{self._spec!r} takes no context, got {shown(context)}")
        try:
            vector = np.array(context, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.zeros(0)
        if vector.shape == () and size == 1:
            vector = vector.reshape(1)
        if vector.shape != (size,) or not (np.abs(vector) <= LARGEST).all():
            wanted = "one finite number" if size == 1 else f"{size} finite numbers"
            if np.isfinite(vector).all() and vector.shape == (size,):
                wanted += f" of at most {LARGEST:g}"
            raise InvalidArgument(f"context must be {wanted}, got {shown(context)}")
        self._spec.check_context(vector)
        return vector

    def _check_feedback(self, feedback: Any, action: int) -> Any:
        if type(feedback) is float and feedback == feedback and self._spec is None:
            return feedback
        if feedback is None or (isinstance(feedback, FLOATS) and math.isnan(feedback)):
            raise InvalidFeedback(f"feedback must be given, got {feedback!r}; use cancel for feedback that never comes")
        if self._spec is None:
            return feedback
        if self._spec.feedback == "symbol":
            return _encoded(self._spec, action, feedback)
        size = self._spec.actions if self._spec.feedback == "full" else 1
        try:
            given = np.asarray(feedback)
            if given.dtype.kind not in "biuf":
                raise TypeError
            vector = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidFeedback(f"feedback must be {_wanted(size)}, got {shown(feedback)}") from None
        if vector.shape == () and size == 1:
            vector = vector.reshape(1)
        if self._spec.feedback == "any" and vector.shape == (self._spec.actions,):
            vector = vector[action : action + 1]
        if vector.shape != (size,):
            raise InvalidFeedback(f"feedback must be {_wanted(size)}, got {shown(feedback)}")
        if not ((vector >= 0.0) & (vector <= 1.0)).all():
            raise InvalidFeedback(f"feedback must lie in [0, 1], got {shown(feedback)}")
        return vector

    # --- saving ---

    def _arrays(self) -> dict[str, Any]:
        """Everything that is not in the spec, as arrays by name."""
        opened = list(self._pending.values())
        rows = [(made.ticket, made.action, instance, number) for made, _, instance, number in opened]
        width = 0 if self._spec is None else self._spec.context_size
        contexts = np.array([p[1] for p in opened] if width else np.zeros((len(opened), 0)), dtype="f8")
        return {
            "counters": np.array([self._issued, self._peak], dtype="i8"),
            "tickets": np.array(rows, dtype="i8").reshape(-1, 4),
            "probabilities": np.array([made.probability for made, *_ in opened], dtype="f8"),
            "contexts": contexts.reshape(len(opened), width),
            "states": np.concatenate([instance.state for instance in self._instances]),
            "dropped": np.array([self._dropped], dtype="i8"),
            "stale": np.array([ticket for ticket in self._pending if ticket in self._stale], dtype="i8"),
        }

    def _restore(self, arrays: dict[str, Any]) -> None:
        """Take back what `_arrays` gave."""
        self._issued, self._peak = (int(x) for x in arrays["counters"])
        for row, probability, context in zip(
            arrays["tickets"], arrays["probabilities"], arrays["contexts"], strict=True
        ):
            ticket, action, instance, number = (int(x) for x in row)
            known = context.copy() if len(context) else None
            self._pending[ticket] = Decision(ticket, action, float(probability)), known, instance, number
        if "dropped" in arrays:  # bytes from before actions could be replaced have neither of these
            self._dropped = int(arrays["dropped"][0])
            self._stale = {int(ticket) for ticket in arrays["stale"]}
        while len(self._instances) < len(arrays["states"]):
            self._new_instance()
        for instance, state in zip(self._instances, arrays["states"], strict=True):
            instance.state[0] = state
        fits = all(
            0 <= made.action < (self.actions or 0) and instance < self.instances
            for made, _, instance, _ in self._pending.values()
        )
        if not fits or not self._stale <= self._pending.keys():
            raise InvalidState("the saved tickets do not fit the saved learner")


def check_prediction(forecaster: Forecaster, said: Any) -> tuple[Any, float]:
    """What a learner said, if it is an action and a probability."""
    actions = forecaster.actions
    try:
        action, probability = said
        if type(probability) is not float:
            probability = float(probability)
        if actions is not None:
            if type(action) is not int:
                action = operator.index(action)
            if not 0 <= action < actions:
                raise BadPrediction(f"{forecaster!r}: the learner chose action {action}, outside 0..{actions - 1}")
    except (TypeError, ValueError, OverflowError):
        raise BadPrediction(f"{forecaster!r}: predict must return (action, probability), got {shown(said)}") from None
    if 0.0 < probability <= 1.0:
        return action, probability
    if not forecaster.states_probability:
        return action, math.nan
    if not 0.0 < probability <= MOST:
        raise BadPrediction(f"{forecaster!r}: the learner gave probability {probability}, outside (0, 1]")
    return action, 1.0


@contextmanager
def _untouched(learner: Any) -> Iterator[None]:
    """If anything goes wrong inside, the state of an instance is as before. (A plain learner cannot be restored.)"""
    before = learner.state.copy() if isinstance(learner, Instance) else None
    try:
        yield
    except Exception:
        if before is not None:
            learner.state[:] = before
        raise


def _encoded(learner: Learner, action: int, symbol: Any) -> Any:
    """A symbol as kernels see it."""
    try:
        return np.array([learner.encode(action, symbol)])
    except (TypeError, ValueError):
        known = ", ".join(repr(name) for name in dict.fromkeys(learner.symbols[action]))
        raise InvalidFeedback(f"action {action} has no symbol {shown(symbol)}; it has {known}") from None


def _wanted(size: int) -> str:
    return "one number" if size == 1 else f"{size} numbers, one an action"


def _name_of(factory: Any) -> str:
    name = getattr(factory, "__name__", type(factory).__name__)
    return "a plain learner" if name == "<lambda>" else str(name)


def shown(value: Any) -> str:
    """How messages show an object of somebody else: its repr, or its type if that fails."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} object>"


def _hint(value: Any) -> str:
    """Which adapter takes an object of another library; nothing if none does."""
    kind = value if isinstance(value, type) else type(value)
    packages = (str(base.__module__).partition(".")[0] for base in kind.__mro__)
    name = next((ADAPTERS[package] for package in packages if package in ADAPTERS), None)
    return "" if name is None else f"; wrap it with bl.adapters.{name}"
