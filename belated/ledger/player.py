"""An experiment's forecaster over stored states: its rule in a room whose instances are rows.

The same for the live ledger and for `verify`. A player holds one running instance of the learner and lets it become one
state after the other; a state's bytes are written when the next takes its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from belated.errors import BadPrediction, Unsupported
from belated.forecasters.instance import Instance
from belated.forecasters.process import check_prediction, choice
from belated.forecasters.room import NOTHING, Letter
from belated.kernels.random import key_of
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.store import State
from belated.protocols import Floats


class Decided(NamedTuple):
    """What a rule decided."""

    seat: int
    number: int
    action: int
    probability: float
    memo: Floats | None


class Player:
    """The learner of an experiment at work, one state at a time. Not for several threads at once."""

    def __init__(self, experiment: Experiment, instance: Instance | None = None) -> None:
        self.experiment = experiment
        self.actions = len(experiment.actions)
        self.instance = instance or make_instance(experiment)
        self._fresh = self.instance.blank()
        self._current: State | None = None
        self._better: Instance | None = None

    def improve(self, instance: Instance) -> None:
        """Go on with another instance (the compiled one) from the next state on. Any thread may say so."""
        self._better = instance

    def fresh(self, number: int, pool: int = 0) -> State:
        """A new state, with nothing learned."""
        return State(number, 0, True, self._fresh, self.first_notes() if number == 0 else None, pool=pool)

    def first_notes(self) -> bytes | None:
        """The rule's own numbers before the first decision."""
        layout = self.experiment.forecaster.layout()
        if layout is None:
            return None
        book = np.zeros(1, layout)
        self.experiment.forecaster.start(book[0])
        return book.tobytes()

    def settle(self) -> None:
        """Write the bytes of the state in hand."""
        if self._current is not None:
            self._current.data = self.instance.state.tobytes()
            self._current = None
        if self._better is not None:
            self.instance, self._better = self._better, None

    def forget(self) -> None:
        """Drop the state in hand: its transaction was rolled back."""
        self._current = None

    def enter(self, state: State) -> Instance:
        """The learner with this state."""
        if self._current is not state:
            self.settle()
            if len(state.data) != len(self._fresh):
                raise Damaged(f"state {state.instance} has {len(state.data)} bytes, not {len(self._fresh)}")
            self.instance.become(state.instance, state.data)
            self._current = state
        return self.instance

    def replace(self, state: State, action: int) -> None:
        """A new action takes the number of an old one."""
        self.enter(state).replace(action)

    def grow(self, state: State, before: np.dtype[Any]) -> None:
        """A state of one action less gets the last one; `before` is what its bytes were."""
        self.settle()
        self.instance.grow_from(state.instance, state.data, before)
        self._current = state


class Stool:
    """An instance in a database: `Seat` over a state."""

    __slots__ = ("room", "state")

    def __init__(self, room: Rows, state: State) -> None:
        self.room = room
        self.state = state

    @property
    def number(self) -> int:
        return self.state.instance

    def ask(self, context: Floats | None) -> tuple[int, float]:
        room, state = self.room, self.state
        instance = room.enter(state)
        allowed = room.allowed
        said = instance.predict(context) if allowed is None else instance.predict_among(context, allowed)
        if state.instance == 0 and room.rule.counts_asks:
            state.steps += 1
        return check_prediction(room.rule, said)

    def tell(self, context: Floats | None, action: int, probability: float, feedback: Floats) -> None:
        self.room.enter(self.state).update(context, action, probability, feedback)

    def answer(self, letter: Letter, feedback: Floats) -> None:
        instance = self.room.enter(self.state)
        instance.answer(letter.number, letter.context, letter.action, letter.probability, feedback, letter.memo)

    def lost(self, letter: Letter) -> None:
        if self.room.player.instance.hears_of_losses:
            action = -1 if letter.stale else letter.action
            instance = self.room.enter(self.state)
            instance.lost(letter.number, letter.context, action, letter.probability, letter.memo)


class Rows(ABC):
    """`Room` over states. Where they come from, and where queues are, is for those who derive."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.rule = player.experiment.forecaster
        self.apart = player.experiment.apart
        self.states: dict[int, State] = {}
        self.changed: dict[int, State] = {}
        self.round = 0
        self.allowed: Sequence[int] | None = None
        self._book: Any = None

    # --- what is asked from outside ---

    def begin(self) -> None:
        """Before the first decision."""
        self.rule.begin(self)
        self.settle()

    def decide(self, context: Floats | None, allowed: Sequence[int] | None, round_: int) -> Decided:
        """A decision."""
        self.round, self.allowed = round_, allowed
        seat, action, probability = choice(self, context)
        self.round, self.allowed = 0, None
        if allowed is not None and action not in allowed:
            raise BadPrediction(f"{self.rule!r} was to choose among {list(allowed)}, and chose {action}")
        state = self.state(seat.number)
        instance = self.player.enter(state)
        made = Decided(state.instance, instance.predictions, action, probability, instance.memo)
        self._step(state)
        return made

    def feed(self, letter: Letter, feedback: Floats) -> None:
        """The feedback of a decision."""
        self.rule.deliver(self, letter, feedback)
        self._step(self.state(letter.seat))

    def release(self, letter: Letter) -> None:
        """A decision will have no feedback."""
        self.rule.release(self, letter)
        self._step(self.state(letter.seat))

    def home(self, state: State) -> State:
        """The state whose sequence of events a change belongs to: each its own, or all that of the first."""
        return state if self.apart else self.state(0)

    def _step(self, state: State) -> None:
        """A change is complete: it has a number."""
        home = self.home(state)
        home.seq += 1
        self.changed[home.instance] = home
        if not self.apart:
            for other in self.changed.values():
                other.seq = home.seq
        if self._book is not None:
            home.held = self._book.tobytes()

    def settle(self) -> None:
        """Write what is in hand into the states."""
        if self._book is not None:
            self.state(0).held = self._book.tobytes()
        self.player.settle()

    def enter(self, state: State) -> Instance:
        self.changed[state.instance] = state
        return self.player.enter(state)

    # --- the room ---

    @property
    def notes(self) -> Any:
        if self._book is None:
            layout, held = self.rule.layout(), self.state(0).held
            if layout is None:
                return None
            if held is None or len(held) != layout.itemsize:
                raise Damaged(f"the notes of its rule are not the {layout.itemsize} bytes that they must be")
            self._book = np.frombuffer(held, layout).copy()
        return self._book[0]

    def seat(self, number: int = 0) -> Stool:
        return Stool(self, self.state(number))

    def free(self, seat: int) -> None:
        state = self.state(seat)
        state.free = True
        self.changed[seat] = state

    def check_queues(self) -> None:
        """A rule with queues says so: its states have no lives of their own."""
        if self.apart:
            raise Unsupported(f"{type(self.rule).__name__} puts feedback into a queue: say how many it has by queues()")

    @abstractmethod
    def state(self, number: int) -> State:
        """A state that exists."""

    @abstractmethod
    def lowest_free(self, pool: int = 0) -> Stool: ...

    @abstractmethod
    def push(self, queue: int, letter: Letter, feedback: Any) -> None: ...

    @abstractmethod
    def pop(self, queue: int) -> tuple[Letter, Any] | None: ...


class Memory(Rows):
    """Rows in memory: an experiment's states while they are lived through again."""

    def __init__(self, player: Player) -> None:
        super().__init__(player)
        self.queues: dict[int, deque[tuple[Letter, Any]]] = {}
        self.next: int | None = None

    def play_on(self, player: Player) -> None:
        """Another player, with more actions."""
        self.settle()
        self.player, self.rule = player, player.experiment.forecaster

    def start(self) -> None:
        """All as it is when an experiment is made."""
        for number in range(self.rule.seats):
            self.states[number] = self.player.fresh(number)
        self.begin()

    def step(self, state: State) -> None:
        """A change that is not the rule's is complete."""
        self.changed[state.instance] = state
        self._step(state)

    def state(self, number: int) -> State:
        return self.states[number]

    def lowest_free(self, pool: int = 0) -> Stool:
        """The one that was recorded."""
        assert self.next is not None
        if self.next not in self.states:
            self.states[self.next] = self.player.fresh(self.next, pool)
        state = self.states[self.next]
        state.free = False
        self.changed[state.instance] = state
        return Stool(self, state)

    def push(self, queue: int, letter: Letter, feedback: Any) -> None:
        self.check_queues()
        self.queues.setdefault(queue, deque()).append((letter, feedback))

    def pop(self, queue: int) -> tuple[Letter, Any] | None:
        waiting = self.queues.get(queue)
        return waiting.popleft() if waiting else None


def write_queued(experiment: Experiment, letter: Letter, feedback: Any) -> bytes:
    """A letter and its feedback as they are stored: numbers, or only those of the feedback where that will do."""
    told = np.full(experiment.learner.feedback_size, np.nan) if feedback is None else feedback
    if experiment.forecaster.queues_feedback_only:
        return bytes(told.tobytes())
    head = [letter.action, letter.probability, letter.seat, letter.number]
    parts = [np.array(head, float), *(x for x in (letter.context, letter.memo) if x is not None), told]
    return bytes(np.concatenate(parts).tobytes())


def read_queued(experiment: Experiment, data: bytes) -> tuple[Letter, Any]:
    """What `write_queued` wrote."""
    learner, only = experiment.learner, experiment.forecaster.queues_feedback_only
    size = learner.feedback_size + (0 if only else 4 + learner.context_size + learner.memo)
    if len(data) != 8 * size:
        raise Damaged(f"queued feedback has {len(data)} bytes, not {8 * size}")
    numbers = np.frombuffer(data, np.float64).copy()
    letter = NOTHING
    if not only:
        (action, probability, seat, number), rest = numbers[:4].tolist(), numbers[4:]
        context, rest = rest[: learner.context_size], rest[learner.context_size :]
        memo, numbers = rest[: learner.memo], rest[learner.memo :]
        letter = Letter(
            0,
            int(action),
            probability,
            context if len(context) else None,
            int(seat),
            int(number),
            memo if len(memo) else None,
        )
    return letter, None if np.isnan(numbers).any() else numbers.copy()


def make_instance(experiment: Experiment, plain: bool = False) -> Instance:
    """The learner of an experiment at work; it draws what the forecaster would draw in process."""
    seed = experiment.forecaster.seed
    assert seed is not None
    return Instance(experiment.learner, key_of(seed, 0), 0, plain=plain)


def vector(data: bytes | None) -> Floats | None:
    """Stored numbers, in a form that kernels may have (compiled ones take no constant arrays)."""
    return None if data is None else np.frombuffer(data, np.float64).copy()
