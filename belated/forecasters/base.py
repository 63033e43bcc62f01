"""What all forecasters share: tickets, checks, counts, locks and saving. The readable form, for any learner."""

from __future__ import annotations

import math
import operator
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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


@dataclass(slots=True)
class Pending:
    """An open ticket: all that an update needs from prediction time."""

    action: int
    probability: float
    context: Any
    instance: int
    number: int  # which prediction of its instance this was
    stale: bool = False  # the action was replaced since: the feedback will be dropped


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

    `learner` is a spec (`bl.UCB1(actions=3)`) or a function without arguments that makes a plain learner. All methods
    may be called from several threads. `seed` decides what randomised learners draw; without one a fresh seed is
    taken and kept in `.seed`.
    """

    #: Its bound in a few words, as the catalog shows it.
    guarantee: ClassVar[str] = "none stated"
    #: Whether a prediction may need one more instance.
    grows: ClassVar[bool] = False

    def __init__(self, learner: Learner | Callable[[], PlainLearner], *, seed: int | None = None) -> None:
        forgotten = isinstance(learner, type) and issubclass(learner, Learner)
        if forgotten or not (isinstance(learner, Learner) or callable(learner)):
            wanted = "a spec such as UCB1(actions=3), or a function without arguments that makes a plain learner"
            raise InvalidArgument(f"learner must be {wanted}, got {learner!r}")
        self.learner = learner
        self.seed = secrets.randbits(64) if seed is None else require.integer("seed", seed, low=0, high=2**64 - 1)
        self._lock = threading.RLock()
        self._pending: dict[int, Pending] = {}
        self._issued = 0
        self._peak = 0
        self._dropped = 0
        self._replication = 0
        self._key = key_of(self.seed, 0)
        self._instances: list[Any] = []
        self.actions = self._new_instance().actions
        self._check_learner(self._instances[0])

    # --- what people call ---

    def predict(self, context: Any = None) -> Decision:
        """Choose an action now; its feedback goes to `update` under the decision's ticket."""
        with self._lock:
            known = self._check_context(context)
            instance, action, probability = self._choose(known)
            self._peak = max(self._peak, len(self._pending))
            self._issued += 1
            number = getattr(self._instances[instance], "predictions", 0)
            self._pending[self._issued] = Pending(action, probability, known, instance, number)
            return Decision(ticket=self._issued, action=action, probability=probability)

    def update(self, ticket: int, feedback: Any) -> None:
        """Learn from the feedback of one ticket: a reward, with full information the rewards of all actions, or in
        partial monitoring the symbol, as it is written in the game's matrix.

        If the ticket's action was replaced since, nothing is learned: the feedback is counted in `dropped`.
        """
        with self._lock:
            number, pending = self._open(ticket)
            known = self._check_feedback(feedback, pending.action)
            if pending.stale:
                self._release(pending)
                self._dropped += 1
            else:
                self._deliver(pending, known)
            del self._pending[number]

    def cancel(self, ticket: int) -> None:
        """End a ticket without feedback: nothing is learned, and its instance is free again."""
        with self._lock:
            number, pending = self._open(ticket)
            self._release(pending)
            del self._pending[number]

    def replace(self, action: int) -> None:
        """An action is retired and a new one takes its number, unknown in every instance.

        Feedback for its open tickets is dropped when it comes. Not every learner can do it.
        """
        with self._lock:
            number = require.integer("action", action, low=0, high=self.actions - 1)
            self.check_replace()
            with ExitStack() as kept:
                for learner in self._instances:
                    kept.enter_context(_untouched(learner))
                for learner in self._instances:
                    learner.replace(number)
            for pending in self._pending.values():
                pending.stale = pending.stale or pending.action == number

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
        if not isinstance(self.learner, Learner):
            raise Unsupported(f"{self!r} cannot be saved: only learners that are specs have a state of known layout")
        with self._lock:
            name, stream = type(self).__name__.lower(), (self.seed, self._replication)
            return saving.pack(name, self.learner, stream, self._arrays())

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        name = repr(self.learner) if isinstance(self.learner, Learner) else _name_of(self.learner)
        return f"{type(self).__name__}({name})"

    # --- what a forecaster decides ---

    @abstractmethod
    def _choose(self, context: Any) -> tuple[int, int, float]:
        """Pick an instance, let it predict; return instance, action, probability."""

    @abstractmethod
    def _deliver(self, pending: Pending, feedback: Any) -> None:
        """Feedback of a ticket has come."""

    def _release(self, pending: Pending) -> None:  # noqa: B027  (nothing to do unless an instance waits)
        """A ticket was cancelled, or its feedback dropped."""

    def _check_learner(self, learner: Any) -> None:  # noqa: B027
        """Refuse a learner outside the forecaster's conditions."""

    @staticmethod
    @abstractmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        """The compiled form, over a learner's compiled predict, update and (where it has one) replace, and `values`."""

    def check_replace(self) -> None:
        """Raise Unsupported if actions cannot be replaced."""
        learner = self.learner if isinstance(self.learner, Learner) else self._instances[0]
        if not callable(getattr(learner, "replace", None)):
            raise Unsupported(f"{self!r} cannot replace an action: {type(learner).__name__} has no replace")
        if isinstance(learner, Learner) and learner.feedback == "full":
            raise Unsupported(
                f"{self!r} cannot replace an action: under full information every late feedback tells of the old one"
            )

    # --- what they share ---

    def _new_instance(self) -> Any:
        number = len(self._instances)
        if isinstance(self.learner, Learner):
            first = self._instances[0] if self._instances else None
            self._instances.append(Instance(self.learner, self._key, number, first))
        else:
            self._instances.append(self._check_made(self.learner()))
        return self._instances[-1]

    def _check_made(self, made: Any) -> PlainLearner:
        """What the function given as learner returned: a plain learner, a new one, with as many actions as before."""
        if isinstance(made, Learner) or not isinstance(made, PlainLearner):
            raise InvalidArgument(
                "the function given as learner must return an object with actions, predict(context) and "
                f"update(context, action, probability, feedback), got {made!r}"
            )
        require.integer("actions of the learner", made.actions, low=1)
        if any(made is other for other in self._instances):
            raise InvalidArgument(
                f"the function given as learner must return a new object each time, got {made!r} again"
            )
        if self._instances and made.actions != self.actions:
            raise InvalidArgument(f"the learners must have {self.actions} actions each, got one with {made.actions}")
        return made

    def _ask(self, number: int, context: Any) -> tuple[int, float]:
        """Let an instance predict, and check what it says; a bad prediction leaves its state as it was."""
        learner = self._instances[number]
        with _untouched(learner):
            return self._check_prediction(learner.predict(context))

    def _check_prediction(self, said: Any) -> tuple[int, float]:
        return check_prediction(self, said)

    def _open(self, ticket: Any) -> tuple[int, Pending]:
        try:
            number = require.integer("a ticket", ticket)
        except InvalidArgument as error:
            raise UnknownTicket(str(error)) from None
        found = self._pending.get(number)
        if found is not None:
            return number, found
        if 1 <= number <= self._issued:
            raise ClosedTicket(f"ticket {number} was answered or cancelled before")
        raise UnknownTicket(f"ticket {number} was never given out: tickets so far are 1..{self._issued}")

    def _check_context(self, context: Any) -> Any:
        if not isinstance(self.learner, Learner):
            return context
        size = self.learner.context_size
        if context is None and size == 0:
            return None
        if size == 0:
            raise InvalidArgument(f"{self.learner!r} takes no context, got {context!r}")
        try:
            vector = np.array(context, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.zeros(0)
        if vector.shape == () and size == 1:
            vector = vector.reshape(1)
        if vector.shape != (size,) or not np.isfinite(vector).all():
            wanted = "one finite number" if size == 1 else f"{size} finite numbers"
            raise InvalidArgument(f"context must be {wanted}, got {context!r}")
        self.learner.check_context(vector)
        return vector

    def _check_feedback(self, feedback: Any, action: int) -> Any:
        if feedback is None or (isinstance(feedback, float | np.floating) and math.isnan(feedback)):
            raise InvalidFeedback(f"feedback must be given, got {feedback!r}; use cancel for feedback that never comes")
        if not isinstance(self.learner, Learner):
            return feedback
        if self.learner.feedback == "symbol":
            return _encoded(self.learner, action, feedback)
        size = self.actions if self.learner.feedback == "full" else 1
        try:
            given = np.asarray(feedback)
            if given.dtype.kind not in "biuf":
                raise TypeError
            vector = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidFeedback(f"feedback must be {_wanted(size)}, got {feedback!r}") from None
        if vector.shape == () and size == 1:
            vector = vector.reshape(1)
        if self.learner.feedback == "any" and vector.shape == (self.actions,):
            vector = vector[action : action + 1]
        if vector.shape != (size,):
            raise InvalidFeedback(f"feedback must be {_wanted(size)}, got {feedback!r}")
        if not ((vector >= 0.0) & (vector <= 1.0)).all():
            raise InvalidFeedback(f"feedback must lie in [0, 1], got {feedback!r}")
        return vector

    # --- saving ---

    def _arrays(self) -> dict[str, Any]:
        """Everything that is not in the spec, as arrays by name."""
        tickets = list(self._pending.items())
        width = self.learner.context_size if isinstance(self.learner, Learner) else 0
        contexts = np.array([p.context for _, p in tickets] if width else np.zeros((len(tickets), 0)), dtype="f8")
        return {
            "counters": np.array([self._issued, self._peak], dtype="i8"),
            "tickets": np.array([(t, p.action, p.instance, p.number) for t, p in tickets], dtype="i8").reshape(-1, 4),
            "probabilities": np.array([p.probability for _, p in tickets], dtype="f8"),
            "contexts": contexts.reshape(len(tickets), width),
            "states": np.concatenate([instance.state for instance in self._instances]),
            "dropped": np.array([self._dropped], dtype="i8"),
            "stale": np.array([t for t, p in tickets if p.stale], dtype="i8"),
        }

    def _restore(self, arrays: dict[str, Any]) -> None:
        """Take back what `_arrays` gave."""
        self._issued, self._peak = (int(x) for x in arrays["counters"])
        for row, probability, context in zip(
            arrays["tickets"], arrays["probabilities"], arrays["contexts"], strict=True
        ):
            ticket, action, instance, number = (int(x) for x in row)
            known = context.copy() if len(context) else None
            self._pending[ticket] = Pending(action, float(probability), known, instance, number)
        if "dropped" in arrays:  # bytes from before actions could be replaced have neither of these
            self._dropped = int(arrays["dropped"][0])
            for stale in arrays["stale"]:
                self._pending[int(stale)].stale = True
        while len(self._instances) < len(arrays["states"]):
            self._new_instance()
        for instance, state in zip(self._instances, arrays["states"], strict=True):
            instance.state[0] = state
        if any(not 0 <= p.action < self.actions or p.instance >= self.instances for p in self._pending.values()):
            raise InvalidState("the saved tickets do not fit the saved learner")


def check_prediction(forecaster: Forecaster, said: Any) -> tuple[int, float]:
    """What a learner said, if it is an action and a probability."""
    try:
        action, probability = operator.index(said[0]), float(said[1])
    except (TypeError, ValueError, IndexError, KeyError, OverflowError):
        raise BadPrediction(f"{forecaster!r}: predict must return (action, probability), got {said!r}") from None
    if not 0 <= action < forecaster.actions:
        raise BadPrediction(f"{forecaster!r}: the learner chose action {action}, outside 0..{forecaster.actions - 1}")
    if not 0.0 < probability <= MOST:
        raise BadPrediction(f"{forecaster!r}: the learner gave probability {probability}, outside (0, 1]")
    return action, min(probability, 1.0)


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
        raise InvalidFeedback(f"action {action} has no symbol {symbol!r}; it has {known}") from None


def _wanted(size: int) -> str:
    return "one number" if size == 1 else f"{size} numbers, one an action"


def _name_of(factory: Any) -> str:
    name = getattr(factory, "__name__", type(factory).__name__)
    return "a plain learner" if name == "<lambda>" else str(name)
