"""A forecaster at work in a process: the room of its rule in memory, its tickets, its counts and its lock."""

from __future__ import annotations

import copy
import heapq
import math
import operator
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import require
from belated.errors import BadPrediction, ClosedTicket, InvalidArgument, UnknownTicket, Unsupported
from belated.forecasters.instance import Instance
from belated.forecasters.room import Letter
from belated.kernels.random import key_of
from belated.protocols import Decision, Learner, PlainLearner

if TYPE_CHECKING:
    from belated.forecasters.base import Forecaster

#: Probabilities may pass 1 by rounding.
MOST = 1.0 + 1e-9
#: Packages with models that need an adapter, and the module of `belated.adapters` that has it.
ADAPTERS = {"mabwiser": "mabwiser", "river": "river", "sklearn": "sklearn", "vowpalwabbit": "vowpal_wabbit"}
# A round of a light plain learner takes no longer than making objects with names does.
_new = tuple.__new__


class Chair:
    """An instance in a process: `Seat` over a learner that is a spec at work, or a plain one."""

    __slots__ = ("learner", "number", "pool", "predictions", "room")

    def __init__(self, room: Process, number: int, pool: int, learner: Any) -> None:
        self.room = room
        self.number = number
        self.pool = pool
        self.learner = learner
        self.predictions = 0  # of a plain learner: the state of a spec counts its own

    def ask(self, context: Any) -> tuple[Any, float]:
        room = self.room
        if room.keeps:
            room.keep(self)
        said = check_prediction(room, self.learner.predict(context))
        self.predictions += 1
        if room.asked is not None and self.number == 0:
            room.asked[room.cell(context, said[0])] += 1
        return said

    def tell(self, context: Any, action: Any, probability: float, feedback: Any) -> None:
        if self.room.keeps:
            self.room.keep(self)
        else:
            self.room.commit()
        self.learner.update(context, action, probability, feedback)

    def answer(self, letter: Letter, feedback: Any) -> None:
        room, learner = self.room, self.learner
        if room.keeps:
            room.keep(self)
        else:
            room.commit()
        if room.spec is None:
            learner.update(letter.context, letter.action, letter.probability, feedback)
        else:
            learner.answer(letter.number, letter.context, letter.action, letter.probability, feedback, letter.memo)

    def lost(self, letter: Letter) -> None:
        if self.room.spec is None or not self.learner.hears_of_losses:
            return
        self.room.keep(self)
        action = -1 if letter.stale else letter.action
        self.learner.lost(letter.number, letter.context, action, letter.probability, letter.memo)


class Process:
    """The room of a rule in memory, and all that a forecaster in a process does. Safe to call from several threads."""

    def __init__(self, rule: Forecaster, seed: int, replication: int = 0) -> None:
        self.rule = rule
        self.spec: Learner | None = rule.learner if isinstance(rule.learner, Learner) else None
        self.lock = threading.RLock()
        self.pending: dict[int, Letter] = {}
        self.stale: set[int] = set()  # open tickets whose action was replaced since: their feedback will be dropped
        self.issued = 0
        self.peak = 0
        self.dropped = 0
        self.seed = seed
        self.replication = replication
        self.key = key_of(seed, replication)
        self.seats: list[Chair] = []
        self.idle: dict[int, list[int]] = {}  # the free seats of each pool, as heaps
        self.queues: dict[int, deque[tuple[Letter, Any]]] = {}
        self.book: Any = None
        self.notes: Any = None  # what stands in the book
        self.asked: list[int] | None = None
        self.round = 0
        #: Whether instances are remembered before they change: those of a spec, and plain ones in a `trial`.
        self.keeps = self.spec is not None
        self._undo: list[Callable[[], None]] = []
        self._kept: set[int] = set()
        self._told = False
        first = self.make(0)
        self.actions: int | None = first.learner.actions
        self.states_probability = bool(getattr(first.learner, "states_probability", True))

    def begin(self) -> None:
        """Everything as it is before the first prediction; the learner has been checked."""
        rule = self.rule
        if rule.seats == 0:
            self.seats.clear()  # the first was made to be looked at
        while len(self.seats) < rule.seats:
            self.make(0)
        if rule.grows:
            self.idle = {0: list(range(rule.seats))}
        layout = rule.layout()
        if layout is not None:
            self.book = np.zeros(1, layout)
            self.notes = self.book[0]
            rule.start(self.notes)
        if rule.counts_asks:
            self.asked = [0] * (max(1, self.values) * (self.actions or 0))
        rule.begin(self)
        self._settle()

    @property
    def values(self) -> int:
        return self.spec.values if self.spec is not None else 0

    # --- the room ---

    def seat(self, number: int = 0) -> Chair:
        try:
            return self.seats[number]
        except IndexError:
            raise InvalidArgument(
                f"{type(self.rule).__name__} has no instance {number}: there are {len(self.seats)} (see `seats`)"
            ) from None

    def lowest_free(self, pool: int = 0) -> Chair:
        idle = self.idle.get(pool)
        if idle:
            number = heapq.heappop(idle)
            self._undo.append(lambda: heapq.heappush(idle, number))
            return self.seats[number]
        check_grows(self.rule)
        seat = self.make(pool)
        self._undo.append(self._unmake)
        return seat

    def free(self, seat: int) -> None:
        idle = self.idle.setdefault(self.seats[seat].pool, [])
        heapq.heappush(idle, seat)

        def take_back() -> None:
            idle.remove(seat)
            heapq.heapify(idle)

        self._undo.append(take_back)

    def push(self, queue: int, letter: Letter, feedback: Any) -> None:
        waiting = self.queues.setdefault(queue, deque())
        waiting.append((letter, feedback))
        self._undo.append(lambda: waiting.pop() and None)

    def pop(self, queue: int) -> tuple[Letter, Any] | None:
        waiting = self.queues.get(queue)
        if not waiting:
            return None
        found = waiting.popleft()
        self._undo.append(lambda: waiting.appendleft(found))
        if not waiting:
            del self.queues[queue]
            self._undo.append(lambda: self.queues.__setitem__(queue, waiting))
        return found

    def cell(self, context: Any, action: int) -> int:
        """Where an action is counted: for each value of the side information by itself."""
        value = int(context[0]) if self.values else 0
        return value * (self.actions or 0) + action

    # --- taking back ---

    def keep(self, seat: Chair) -> None:
        """Remember how an instance is before it changes."""
        if seat.number in self._kept:
            return
        self._kept.add(seat.number)
        learner = seat.learner
        if isinstance(learner, Instance):
            before = learner.state.copy()
            self._undo.append(lambda: learner.state.__setitem__(slice(None), before))
        else:
            copied, predictions = copy.deepcopy(learner), seat.predictions
            self._undo.append(lambda: setattr(seat, "learner", copied))
            self._undo.append(lambda: setattr(seat, "predictions", predictions))

    def commit(self) -> None:
        """A plain learner is told something, which it cannot unlearn: what led to that stays done."""
        self._undo.clear()
        self._told = True

    def _settle(self) -> None:
        """What was done stays done."""
        self._undo.clear()
        self._kept.clear()
        self._told = False

    def _take_back(self) -> None:
        """Nothing has happened since the last `_settle`."""
        for step in reversed(self._undo):
            step()
        self.round = 0
        self._settle()

    def _unmake(self) -> None:
        self.seats.pop()

    def _attempt(self, step: Callable[..., Any], *given: Any) -> Any:
        """Let the rule do something; if that fails, everything is as before. (A plain learner cannot be restored, nor
        what it was told be told again.)"""
        before = None if self.book is None else self.book.copy()
        asked = None if self.asked is None else list(self.asked)
        self._told = False
        try:
            done = step(self, *given)
        except BaseException:  # Ctrl-C too
            told = self._told
            self._take_back()
            if not told:
                self.asked = asked
                if before is not None:
                    self.book[:] = before
            raise
        self._settle()
        return done

    # --- what people call ---

    def predict(self, context: Any) -> Decision:
        """A decision; the context has been checked."""
        self.round = ticket = self.issued + 1
        if self.notes is None and self.asked is None:
            try:
                seat, action, probability = choice(self, context)
            except BaseException:
                self._take_back()
                raise
            if self._undo:
                self._settle()
        else:
            seat, action, probability = self._attempt(choice, context)
        self.round = 0  # known to `choose` alone, in every room
        pending = self.pending
        if len(pending) > self.peak:
            self.peak = len(pending)
        self.issued = ticket
        spec = self.spec
        if spec is None:
            made = self.seats[seat.number].predictions
            pending[ticket] = _new(Letter, (ticket, action, probability, context, seat.number, made, None, False))
            return _new(Decision, (ticket, action, probability))
        learner = self.seats[seat.number].learner
        memo: Any = learner.memo if spec.memo else None
        number = learner.predictions
        pending[ticket] = _new(Letter, (ticket, action, probability, context, seat.number, number, memo, False))
        if spec.point_size:
            action = memo[: spec.point_size].copy()
        return _new(Decision, (ticket, action, probability))

    def update(self, letter: Letter, feedback: Any) -> None:
        """The feedback of an open ticket; it has been checked."""
        ticket = letter.ticket
        if ticket in self.stale:
            self._attempt(self.rule.release, letter._replace(stale=True))
            self.dropped += 1
            self.stale.remove(ticket)
        elif self.notes is None:
            try:
                self.rule.deliver(self, letter, feedback)
            except BaseException:
                self._take_back()
                raise
            if self._undo:
                self._settle()
        else:
            self._attempt(self.rule.deliver, letter, feedback)
        del self.pending[ticket]

    def cancel(self, letter: Letter) -> None:
        """An open ticket ends without feedback."""
        stale = letter.ticket in self.stale
        self._attempt(self.rule.release, letter._replace(stale=True) if stale else letter)
        self.stale.discard(letter.ticket)
        del self.pending[letter.ticket]

    def replace(self, action: int) -> None:
        """A new action takes the number of an old one, in every instance."""
        try:
            for seat in self.seats:
                if self.spec is not None:
                    self.keep(seat)
                seat.learner.replace(action)
        except BaseException:
            self._take_back()
            raise
        self._settle()
        self.stale.update(ticket for ticket, letter in self.pending.items() if letter.action == action)

    def trial(self, context: Any) -> tuple[Decision, Callable[[], None]]:
        """A decision, and a function that takes it back as if it had never been made."""
        before = (
            self.issued,
            self.peak,
            None if self.book is None else self.book.copy(),
            None if self.asked is None else list(self.asked),
        )
        settle, keeps = self._settle, self.keeps
        steps: list[Callable[[], None]] = []

        def collect() -> None:
            steps.extend(self._undo)
            settle()

        self._settle, self.keeps = collect, True  # type: ignore[method-assign]
        try:
            made = self.predict(context)
        finally:
            del self._settle
            self.keeps = keeps

        def take_back() -> None:
            del self.pending[made.ticket]
            for step in reversed(steps):
                step()
            self.issued, self.peak, book, self.asked = before
            if book is not None:
                self.book[:] = book

        return made, take_back

    def letter(self, ticket: Any) -> Letter:
        """An open ticket."""
        try:
            number = require.integer("a ticket", ticket)
        except InvalidArgument as error:
            raise UnknownTicket(str(error)) from None
        if number in self.pending:
            return self.pending[number]
        if 1 <= number <= self.issued:
            raise ClosedTicket(f"ticket {number} was answered or cancelled before")
        so_far = f"tickets so far are 1..{self.issued}" if self.issued else "there are no tickets so far"
        raise UnknownTicket(f"ticket {number} was never given out: {so_far}")

    # --- instances ---

    def make(self, pool: int) -> Chair:
        number = len(self.seats)
        make: Any = self.rule.learner
        made: Any
        if self.spec is not None:
            made = Instance(self.spec, self.key, number, self.seats[0].learner if self.seats else None)
        elif getattr(make, "numbered", False):
            made = self._check_made(make((self.replication << 20) + number))
        else:
            made = self._check_made(make())
        self.seats.append(Chair(self, number, pool, made))
        return self.seats[-1]

    def _check_made(self, made: Any) -> PlainLearner:
        """What the function given as learner returned: a plain learner, a new one, with as many actions as before."""
        if isinstance(made, Learner) or not isinstance(made, PlainLearner):
            raise InvalidArgument(
                "the function given as learner must return an object with actions, predict(context) and "
                f"update(context, action, probability, feedback), got {shown(made)}{adapter_hint(made)}"
            )
        if made.actions is not None:
            require.integer("actions of the learner", made.actions, low=1)
        if any(made is other.learner for other in self.seats):
            raise InvalidArgument(
                f"the function given as learner must return a new object each time, got {shown(made)} again"
            )
        if self.seats and made.actions != self.actions:
            raise InvalidArgument(f"the learners must have {self.actions} actions each, got one with {made.actions}")
        return made

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.lock = threading.RLock()
        self.notes = None if self.book is None else self.book[0]  # not a copy


def choice(room: Any, context: Any) -> tuple[Any, Any, float]:
    """What the rule of a room chooses, if it is an instance, an action and a probability."""
    rule = room.rule
    said = rule.choose(room, context)
    try:
        seat, action, probability = said
        seat.number  # noqa: B018  (what else has none is no instance)
    except (TypeError, ValueError, AttributeError):
        raise BadPrediction(f"{rule!r}: choose must return (seat, action, probability), got {shown(said)}") from None
    if type(action) is int and 0.0 < probability <= 1.0 and 0 <= action < (rule.actions or 0):
        return said  # type: ignore[no-any-return]
    return seat, *check_prediction(rule, (action, probability), "choose", "the rule")


def check_grows(rule: Forecaster) -> None:
    """Refuse a new instance to a rule that does not say that it makes any."""
    if not rule.grows:
        raise Unsupported(f"{type(rule).__name__} takes an instance from a pool: say grows = True in its class")


def check_prediction(player: Any, said: Any, by: str = "predict", who: str = "the learner") -> tuple[Any, float]:
    """What a learner said, if it is an action and a probability; `player` has `actions` and `states_probability`."""
    actions = player.actions
    try:
        action, probability = said
        if type(probability) is not float:
            probability = float(probability)
        if actions is not None:
            if type(action) is not int:
                action = operator.index(action)
            if not 0 <= action < actions:
                raise BadPrediction(f"{named(player)}: {who} chose action {action}, outside 0..{actions - 1}")
    except (TypeError, ValueError, OverflowError):
        raise BadPrediction(f"{named(player)}: {by} must return (action, probability), got {shown(said)}") from None
    if 0.0 < probability <= 1.0:
        return action, probability
    if not player.states_probability:
        return action, math.nan
    if not 0.0 < probability <= MOST:
        raise BadPrediction(f"{named(player)}: {who} gave probability {probability}, outside (0, 1]")
    return action, 1.0


def named(player: Any) -> str:
    return repr(player.rule if isinstance(player, Process) else player)


def shown(value: Any) -> str:
    """How messages show an object of somebody else: its repr, or its type if that fails."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__} object>"


def adapter_hint(value: Any) -> str:
    """Which adapter takes an object of another library; nothing if none does."""
    kind = value if isinstance(value, type) else type(value)
    packages = (str(base.__module__).partition(".")[0] for base in kind.__mro__)
    name = next((ADAPTERS[package] for package in packages if package in ADAPTERS), None)
    return "" if name is None else f"; wrap it with bl.adapters.{name}"
