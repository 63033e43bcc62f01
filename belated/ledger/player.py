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
from belated.forecasters.process import check_grows, check_prediction, choice
from belated.forecasters.room import NOTHING, Letter
from belated.kernels.random import key_of
from belated.kernels.states import state_dtype
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.store import Queued, State
from belated.protocols import Floats

#: Bits of a position in a queue that tell apart what one event puts there.
PLACES = 20


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
    """`Room` over states, as they are after the event at `place`. Where states come from is for those who derive.

    An action that is replaced or added changes a state when it is next used: see `Experiment.turns`.
    """

    def __init__(self, player: Player, place: int = 0) -> None:
        self.experiment = player.experiment
        self.player = player
        self.rule = player.experiment.forecaster
        self.apart = player.experiment.apart
        self.place = place
        self.states: dict[int, State] = {}
        self.queues: dict[int, deque[Queued]] = {}
        self.next: int | None = None  # the instance that is on record, where a log is lived through again
        self.round = 0
        self.allowed: Sequence[int] | None = None
        self.sizes: dict[int, Player] = {}  # who plays fewer actions
        self._touched: dict[int, State] = {}
        self._pushed = 0
        self._book: Any = None

    # --- what is asked from outside ---

    def start(self) -> None:
        """All as it is when an experiment is made."""
        for number in range(self.rule.seats):
            self._touched[number] = self.states[number] = self.player.fresh(number)
        self.rule.begin(self)
        self.settle()
        self._touched.clear()

    def decide(self, context: Floats | None, allowed: Sequence[int] | None, round_: int) -> Decided:
        """A decision."""
        self.round, self.allowed = round_, allowed
        seat, action, probability = choice(self, context)
        self.round, self.allowed = 0, None
        if allowed is not None and action not in allowed:
            raise BadPrediction(f"{self.rule!r} was to choose among {list(allowed)}, and chose {action}")
        state = self.state(seat.number)
        instance = self.enter(state)
        made = Decided(state.instance, instance.predictions, action, probability, instance.memo)
        self.step(state)
        return made

    def feed(self, letter: Letter, feedback: Floats) -> None:
        """The feedback of a decision."""
        self.rule.deliver(self, letter, feedback)
        self.step(self.state(letter.seat))

    def release(self, letter: Letter) -> None:
        """A decision will have no feedback."""
        self.rule.release(self, letter)
        self.step(self.state(letter.seat))

    def turn(self) -> None:
        """An action is replaced or added by the next event: of all states, or the first's where they go together."""
        self.place += 1
        if not self.apart:
            home = self.state(0)
            home.seq += 1
            self._renew(home)
            self.stepped({home.instance: home})

    def play_on(self, player: Player) -> None:
        """Another player, with more actions or fewer."""
        if player is not self.player:
            self.player.settle()
        self.player, self.rule = player, player.experiment.forecaster

    def home(self, state: State) -> State:
        """The state whose sequence of events a change belongs to: each its own, or all that of the first."""
        return state if self.apart else self.state(0)

    def step(self, state: State) -> None:
        """A change is complete: it has a place in the log, and a number among those of its state."""
        home = self.touch(self.home(state))
        home.seq += 1
        self.place += 1
        self._pushed = 0
        for each in self._touched.values():
            each.place = self.place
            if not self.apart:
                each.seq = home.seq
        self.stepped(self._touched)
        self._touched.clear()

    def stepped(self, touched: dict[int, State]) -> None:  # noqa: B027
        """These states are others now."""

    def settle(self) -> None:
        """Write what is in hand into the states."""
        if self._book is not None:
            self.state(0).held = self._book.tobytes()
        self.player.settle()

    def touch(self, state: State) -> State:
        """This state is about to change."""
        self._touched[state.instance] = state
        turns = self.experiment.turns
        if turns and state.place < turns[-1].place:
            self._renew(state)
        return state

    def enter(self, state: State) -> Instance:
        return self.player.enter(self.touch(state))

    def _renew(self, state: State) -> None:
        """Bring a state up to date in which actions were replaced or added since it was used."""
        for place, kind, action in self.experiment.turns:
            if not state.place < place <= self.place:
                continue
            size = self.experiment.size_at(place)
            player = self.player if size == self.player.actions else self.sized(size)
            self.player.settle()
            if kind == "grow":
                player.grow(state, state_dtype(self.experiment.sized(self.experiment.actions[: size - 1]).learner))
            else:
                player.replace(state, action)
            player.settle()
            state.place = place

    def sized(self, actions: int) -> Player:
        """Who plays so many actions: fewer than there are now."""
        if actions not in self.sizes:
            made = self.experiment.sized(self.experiment.actions[:actions])
            self.sizes[actions] = Player(made, make_instance(made, plain=True))
        return self.sizes[actions]

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
        self.touch(self.state(seat)).free = True

    def push(self, queue: int, letter: Letter, feedback: Any) -> None:
        if self.apart:  # a rule with queues says so: its states have no lives of their own
            raise Unsupported(f"{type(self.rule).__name__} puts feedback into a queue: say how many it has by queues()")
        self._pushed += 1
        position = ((self.state(0).seq + 1) << PLACES) + self._pushed
        row = Queued(self.experiment.id, queue, position, write_queued(self.experiment, letter, feedback))
        self.queues.setdefault(queue, deque()).append(row)
        self.put(row)

    def put(self, row: Queued) -> None:  # noqa: B027
        """This came into its queue."""

    def pop(self, queue: int) -> tuple[Letter, Any] | None:
        waiting = self.queues.get(queue)
        if not waiting:
            return None
        row = waiting.popleft()
        self.popped(row)
        return read_queued(self.experiment, row.value)

    def popped(self, row: Queued) -> None:  # noqa: B027
        """This left its queue."""

    def state(self, number: int) -> State:
        """A state that exists."""
        found = self.states.get(number)
        return self.missing(number) if found is None else found

    def missing(self, number: int) -> State:
        """A state that is not in memory."""
        raise Damaged(f"state {number} is missing")

    def lowest_free(self, pool: int = 0) -> Stool:
        number = self.next if self.next is not None else self.lowest(pool)
        state = self.states.get(number)
        if state is None:
            check_grows(self.rule)
            state = self.states[number] = self.player.fresh(number, pool)
            state.place = self.place
        self.touch(state).free = False
        return Stool(self, state)

    @abstractmethod
    def lowest(self, pool: int) -> int:
        """The lowest-numbered free instance of a pool, or the number of a new one."""


class Memory(Rows):
    """Rows in memory: states while they are lived through again, with the instances that are on record."""

    def lowest(self, pool: int) -> int:
        raise Damaged("an instance is taken from a pool, and none is on record")


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
