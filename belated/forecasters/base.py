"""What a forecaster is: a learner, parameters and a rule; and what people call, which is the same for all."""

from __future__ import annotations

import dataclasses
import inspect
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np

from belated import require
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported
from belated.forecasters import saving
from belated.forecasters.keeping import kept
from belated.forecasters.process import Process, adapter_hint, shown
from belated.forecasters.room import Kernels, Letter, Parts, Room, Seat
from belated.protocols import Decision, Floats, Learner, whole_parents
from belated.spelling import Spelled

if TYPE_CHECKING:
    from belated.theory.case import Case, Counts
    from belated.theory.theorems import Theorem

#: What checks a parameter of a forecaster, by the word that it is annotated with.
SIMPLE: dict[str, Callable[[str, Any], Any]] = {
    "int": require.integer,
    "float": require.real,
    "bool": require.boolean,
    "str": require.text,
}
#: What NaN comes as.
FLOATS = (float, np.floating)
#: The rule, and the room that it is made for; and what a forecaster says of it, which says nothing of another's.
RULE = {"choose", "deliver", "release", "begin", "start", "layout", "params", "kernels", "marks", "pool", "queues"}
RULE |= {"seats", "grows", "counts_asks"}
STATED = (
    *("kernels", "theorem", "identities", "guarantee", "wants", "formula", "about"),
    *("propensity", "chooses_among", "replaces", "plays_reactive", "keeps_order", "tells_late", "numbers_letters"),
    *("reads_probability", "keeps_letters"),
)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(frozen=True, eq=False, repr=False)
class Forecaster(Spelled, ABC):
    """Plays under delay: `predict` gives a decision with a ticket, `update` takes feedback in any order.

    `learner` is a spec (`bl.UCB1(actions=3)`) or a function without arguments that makes a plain learner. A function
    that has `numbered = True` is given a number instead, another one for each learner it makes: 0 for the first, and
    in BOLD's other instances, and in other replications of `play`, what they can draw differently by.

    All methods may be called from several threads. `seed` decides what learners that are specs draw; without one a
    fresh seed is taken and kept in `.seed`. `reward_range` are the smallest and the largest reward that will be given,
    where they are not those that the learner takes (0 and 1 for most): they are mapped to these.

    **A forecaster of your own** derives from this class. Annotated class attributes are its parameters (frozen, like
    those of a dataclass): they are shown, saved and stored with it. Its rule is `choose`, `deliver` and `release`,
    which keep everything in the room that they are given; `kernels` is the same rule again for the compiled loop, and
    may be left out. `belated.checks.check_forecaster` tells whether it keeps the contract; `bl.catalog.add` enters it.
    Whatever it does not state, it does not get: no bound, no certificate beyond the counts, no propensity. That goes
    for one that derives from another forecaster and changes its rule, too: what the other states, and its kernels, it
    must state again if it holds, as `theorem = bl.BOLD.theorem`.
    """

    learner: Any
    seed: int | None = field(default=None, kw_only=True)
    reward_range: tuple[float, float] | None = field(default=None, kw_only=True)
    _room: Process = field(init=False)
    _spec: Learner | None = field(init=False)
    _translates: bool = field(init=False)

    # --- what a forecaster states of itself ---

    #: Its bound in a few words, as the catalog shows it.
    guarantee: ClassVar[str] = "none stated"
    #: How many instances there are from the start.
    seats: ClassVar[int] = 1
    #: Whether it takes instances from pools, where new ones are made when all are busy (`room.lowest_free`).
    grows: ClassVar[bool] = False
    #: Whether the probability of a decision is the one that its action was played with, so that one may divide by it.
    propensity: ClassVar[bool] = False
    #: Whether each decision is one question to a learner, which may be put among some actions only.
    chooses_among: ClassVar[bool] = False
    #: Whether actions may be replaced and added while it runs: it keeps nothing about them itself.
    replaces: ClassVar[bool] = False
    #: Whether it may play games whose course depends on what was played.
    plays_reactive: ClassVar[bool] = False
    #: Whether instances are told in the order of their predictions; others refuse learners that say `in_order`.
    keeps_order: ClassVar[bool] = False
    #: Whether an instance is asked again while its feedback is out, and so told as many predictions late as rounds.
    tells_late: ClassVar[bool] = False
    #: Whether instance 0 is asked for other actions than are played: then its questions are counted (n', T'_i).
    counts_asks: ClassVar[bool] = False
    #: Whether a service need keep only the feedback of what waits in queues, not the whole letters.
    queues_feedback_only: ClassVar[bool] = False
    #: Whether its kernels find in `letter.number` which of its instance's predictions a letter is of. False takes less
    #: room, where that is the round (the instance is asked once in every round) or does not matter.
    numbers_letters: ClassVar[bool] = True
    #: Whether its rule looks at probabilities, more than handing them on. If not, a learner may leave out a costly one
    #: where nobody else reads it (`params.unread`).
    reads_probability: ClassVar[bool] = True
    #: Whether its kernels may keep a letter beyond the round in which it comes. If not, what waits equally long can be
    #: kept in turn.
    keeps_letters: ClassVar[bool] = True
    #: What delays may not depend on, for its theorem: "action", "reward".
    excludes: ClassVar[tuple[str, ...]] = ("action", "reward")
    #: What its theorem asks of delays, in a sentence or two for the pages of a service; empty if it has none.
    wants: ClassVar[str] = ""
    #: Its bound, and what it keeps, as the pages of a service show them; empty: nothing is shown.
    formula: ClassVar[str] = ""
    about: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._check_names()
        if cls._changes_the_rule():
            for name in STATED:
                if name not in vars(cls):
                    setattr(cls, name, vars(Forecaster)[name])
        dataclass(frozen=True, eq=False, repr=False)(cls)

    @classmethod
    def _check_names(cls) -> None:
        """A parameter has not the name of something that every forecaster has: it would stand in its place."""
        fields = {each.name for each in dataclasses.fields(Forecaster)}
        for name, kind in inspect.get_annotations(cls).items():
            method = vars(Forecaster).get(name)
            if "ClassVar" not in str(kind) and (name in fields or callable(method) or isinstance(method, property)):
                raise InvalidArgument(
                    f"{cls.__name__} cannot have a parameter called {name!r}: every forecaster has it"
                )

    @classmethod
    def _changes_the_rule(cls) -> bool:
        """Whether it derives from a forecaster and does something else: then what that states does not hold for it."""
        parents = whole_parents(cls, Forecaster)
        helpers = {name for each in parents for name in vars(each).keys() - vars(Forecaster).keys()}
        own = {name for name, value in vars(cls).items() if callable(value) or isinstance(value, property)}
        return bool(parents) and bool(RULE & vars(cls).keys() or own & helpers)

    def __post_init__(self) -> None:
        learner = self.learner
        forgotten = isinstance(learner, type) and issubclass(learner, Learner)
        if forgotten or not (isinstance(learner, Learner) or callable(learner)):
            wanted = "a spec such as UCB1(actions=3), or a function without arguments that makes a plain learner"
            raise InvalidArgument(f"learner must be {wanted}, got {shown(learner)}{adapter_hint(learner)}")
        self._check_parameters()
        seed = self.seed
        known = secrets.randbits(64) if seed is None else require.integer("seed", seed, low=0, high=2**64 - 1)
        object.__setattr__(self, "seed", known)
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", self._check_range())
        self._open_room(known, 0)

    def _check_parameters(self) -> None:
        """Parameters that say `int`, `float`, `bool` or `str` are that."""
        for each in dataclasses.fields(self):
            simple = SIMPLE.get(each.type if isinstance(each.type, str) else getattr(each.type, "__name__", ""))
            if each.init and simple is not None:
                object.__setattr__(self, each.name, simple(each.name, getattr(self, each.name)))

    def _check_kept(self) -> None:
        """What a rule says that it needs can be had; its parameters have been checked, which may decide it."""
        name, layout, queues = type(self).__name__, self.layout(), self.queues()
        require.integer(f"seats of {name}", self.seats, low=0)
        require.integer(f"queues() of {name}", queues, low=0)
        if layout is not None and getattr(layout, "names", None) is None:
            raise InvalidArgument(f"layout() of {name} must be None or a dtype with named fields, got {layout!r}")
        if self.seats == 0 and (layout is not None or queues):
            raise InvalidArgument(f"{name} keeps notes or queues, which stand beside its first instance: seats is 0")

    def _check_range(self) -> tuple[float, float]:
        learner = self.learner
        if not isinstance(learner, Learner):
            raise Unsupported(
                f"reward_range is for learners that are specs, which say what they take, got {shown(learner)}"
            )
        if learner.feedback not in ("bandit", "full", "any"):
            raise Unsupported(f"reward_range is for rewards, {learner!r} learns from {learner.feedback} feedback")
        if not math.isfinite(learner.largest - learner.smallest):
            raise Unsupported(f"reward_range is mapped to the range of the learner, {learner!r} takes any reward")
        return require.interval("reward_range", self.reward_range)

    def _open_room(self, seed: int, replication: int) -> None:
        room = Process(self, seed, replication)
        object.__setattr__(self, "_room", room)
        object.__setattr__(self, "_spec", room.spec)
        object.__setattr__(self, "_translates", room.spec is not None and room.spec.translates)
        if room.spec is not None and room.spec.steers and not self.plays_reactive:
            name, called = type(self).__name__, self._called()
            raise Unsupported(
                f"{name} cannot play {called}, which must be asked in every round of the course that it steers: "
                "use Direct"
            )
        self.check(room.spec or room.seats[0].learner)
        self._check_kept()
        if getattr(room.spec or room.seats[0].learner, "in_order", False) and not self.keeps_order:
            name, called = type(self).__name__, self._called()
            raise Unsupported(f"{name} cannot play {called}, which must be told in order: use Direct or BOLD")
        room.begin()

    # --- what people call ---

    def predict(self, context: Any = None) -> Decision:
        """Choose an action now; its feedback goes to `update` under the decision's ticket."""
        room = self._room
        lock = room.lock
        lock.acquire()  # `with` takes twice as long
        try:
            if context is not None or room.spec is not None:
                context = self.check_context(context)
            return room.predict(context)
        finally:
            lock.release()

    def update(self, ticket: int, feedback: Any) -> None:
        """Learn from the feedback of one ticket: a reward, with full information the rewards of all actions, in
        partial monitoring the symbol, as it is written in the game's matrix, of a point the gradient.

        If the ticket's action was replaced since, nothing is learned: the feedback is counted in `dropped`.
        """
        room = self._room
        lock = room.lock
        lock.acquire()
        try:
            letter = (room.pending.get(ticket) if type(ticket) is int else None) or room.letter(ticket)
            if self._translates and self._spec is not None:
                feedback = self._spec.translate(letter.memo, feedback)
            room.update(letter, self.check_feedback(feedback, letter.action))
        finally:
            lock.release()

    def cancel(self, ticket: int) -> None:
        """End a ticket without feedback: nothing is learned, and its instance is free again."""
        with self._room.lock:
            self._room.cancel(self._room.letter(ticket))

    def replace(self, action: int) -> None:
        """An action is retired and a new one takes its number, unknown in every instance.

        Feedback for its open tickets is dropped when it comes. Not every learner can do it.
        """
        with self._room.lock:
            self.check_replace()
            self._room.replace(require.integer("action", action, low=0, high=(self.actions or 0) - 1))

    def trial(self, context: Any = None) -> tuple[Decision, Callable[[], None]]:
        """A decision that may yet be taken back: call the function, before anything else, and it was never made."""
        with self._room.lock:
            return self._room.trial(self.check_context(context))

    @property
    def actions(self) -> int | None:
        """How many actions there are; None if the learner predicts anything, such as labels."""
        return self._room.actions

    @property
    def states_probability(self) -> bool:
        """Whether decisions say with which probability they were made; else they say NaN."""
        return self._room.states_probability

    @property
    def outstanding(self) -> int:
        """G: how many tickets are open."""
        return len(self._room.pending)

    @property
    def peak(self) -> int:
        """G*: the most tickets that were open when a prediction was made."""
        return self._room.peak

    @property
    def dropped(self) -> int:
        """How much feedback came for an action that had been replaced."""
        return self._room.dropped

    @property
    def instances(self) -> int:
        """M: how many instances of the learner exist."""
        return len(self._room.seats)

    def parameters(self) -> dict[str, Any]:
        """What it was made with beside its learner and its seed, by name."""
        fields = (each.name for each in dataclasses.fields(self) if each.init)
        return {name: getattr(self, name) for name in fields if name not in ("learner", "seed")}

    def over(self, learner: Any, *, seed: int | None = None) -> Self:
        """The same forecaster, parameters and all, over another learner; with nothing learned."""
        return type(self)(learner, **self.parameters(), seed=seed)

    def fresh(self, *, seed: int | None = None, replication: int = 0) -> Self:
        """A new forecaster of the same kind over the same learner, with nothing learned.

        It draws what `play` lets it draw in that replication under that seed.
        """
        made = self.over(self.learner, seed=seed)
        if replication:
            assert made.seed is not None
            made._open_room(made.seed, replication)
        return made

    def to_bytes(self) -> bytes:
        """The whole forecaster, open tickets included; `bl.from_bytes` gives one that continues identically."""
        if self._spec is None:
            raise Unsupported(f"{self!r} cannot be saved: only learners that are specs have a state of known layout")
        with self._room.lock:
            return saving.save(self)

    def __repr__(self) -> str:
        shown_as = [_name_of(self.learner) if self._spec is None else repr(self._spec)]
        kept = self.parameters()
        for each in dataclasses.fields(self):
            if each.name in kept and getattr(self, each.name) != each.default:
                shown_as.append(f"{each.name}={getattr(self, each.name)!r}")
        return f"{type(self).__name__}({', '.join(shown_as)})"

    # --- the rule ---

    @abstractmethod
    def choose(self, room: Room, context: Any) -> tuple[Seat, Any, float]:
        """Decide: let an instance predict. Returns that instance, which the ticket names, action and probability."""

    @abstractmethod
    def deliver(self, room: Room, letter: Letter, feedback: Any) -> None:
        """The feedback of a ticket has come."""

    def release(self, room: Room, letter: Letter) -> None:
        """A ticket ends without feedback: it was cancelled, or its action was replaced (`letter.stale`)."""

    def begin(self, room: Room) -> None:
        """Before the first prediction."""

    def layout(self) -> np.dtype[Any] | None:
        """The rule's own numbers, which it finds in `room.notes`: a structured dtype; None if it has none."""
        return None

    def start(self, notes: Any) -> None:
        """Give the notes their first values where zeros will not do: `notes["field"] = ...`."""

    def check(self, learner: Any) -> None:
        """Raise Unsupported for a learner outside the forecaster's conditions, InvalidArgument for a bad parameter.

        `learner` is the spec, or the first plain learner that was made.
        """

    def params(self) -> dict[str, Any]:
        """What its kernels read as `rule.name`: numbers and arrays by name."""
        return {}

    def kernels(self, parts: Parts) -> Kernels | None:
        """The compiled form, over a learner's kernels; None if there is none. It keeps its numbers in `marks`."""
        return None

    def marks(self, instances: int) -> int:
        """How many integers of `marks` its kernels need with so many instances."""
        return 0

    def pool(self, context: Any) -> int:
        """Where a decision with this context will ask for a free instance, as far as can be known before."""
        return 0

    def queues(self) -> int:
        """How many queues of feedback it has, numbered from 0: a page shows them, and a service must know of them. At
        least 1 where there are any, unless it has a layout."""
        return 0

    def identities(self, counts: Counts) -> dict[str, Any]:
        """What the certificate checks beside the counts that all share: truths by name, one a replication."""
        return {}

    def theorem(self, case: Case) -> Theorem | str:
        """The theorem that covers a case, or why none does."""
        return f"no theorem is stated for {type(self).__name__}"

    # --- what can be done with it ---

    def check_replace(self) -> None:
        """Raise Unsupported if actions cannot be replaced."""
        if not self.replaces:
            raise Unsupported(f"{self!r} cannot replace an action: {self._keeps()}; use Direct or BOLD")
        learner = self._spec or self._room.seats[0].learner
        if self.actions is None or not callable(getattr(learner, "replace", None)):
            raise Unsupported(f"{self!r} cannot replace an action: {self._called()} has no replace")
        if self._spec is not None and self._spec.feedback == "full":
            raise Unsupported(
                f"{self!r} cannot replace an action: under full information every late feedback tells of the old one"
            )

    def check_grow(self) -> None:
        """Raise Unsupported if no action can be added."""
        if not self.replaces:
            raise Unsupported(f"{self!r} cannot get one more action: {self._keeps()}; use Direct or BOLD")
        larger = None if self._spec is None else self._spec.with_actions((self.actions or 0) + 1)
        if self._spec is None or larger is None:
            raise Unsupported(
                f"{self!r} cannot get one more action: {self._called()} has no way to go on with an unknown one"
            )
        if self._spec.feedback == "full":
            raise Unsupported(
                f"{self!r} cannot get one more action: open decisions have feedback for the old ones only"
            )
        if larger.memo != self._spec.memo:
            raise Unsupported(
                f"{self!r} cannot get one more action: open decisions have a memo of {self._spec.memo} numbers, with "
                f"one more it would be {larger.memo}"
            )

    def check_among(self) -> None:
        """Raise Unsupported if a decision cannot be made among some actions only."""
        if not self.chooses_among:
            raise Unsupported(f"{self!r} cannot choose among some actions: {self._keeps()}")
        if self._spec is None or self._spec.predict_among is None:
            raise Unsupported(f"{self._called()} cannot choose among some actions")

    def _keeps(self) -> str:
        """Why actions cannot be changed or left out under this forecaster."""
        return f"the rule of {type(self).__name__} does not say that it can (`replaces`, `chooses_among`)"

    def check_context(self, context: Any) -> Any:
        """Side information as the learner takes it, in a copy that nobody else can change."""
        if self._spec is None:
            return kept(context)
        size = self._spec.context_size
        if context is None and size == 0:
            return None
        if size == 0:
            raise InvalidArgument(f"{self._spec!r} takes no context, got {shown(context)}")
        try:
            vector = np.array(context, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            vector = np.zeros(0)
        if vector.shape == () and size == 1:
            vector = vector.reshape(1)
        if vector.shape != (size,) or not (np.abs(vector) <= self._spec.context_limit).all():
            wanted = "one finite number" if size == 1 else f"{size} finite numbers"
            if np.isfinite(vector).all() and vector.shape == (size,):
                wanted += f" of at most {self._spec.context_limit:g} (scale the features)"
            raise InvalidArgument(f"context must be {wanted}, got {shown(context)}")
        self._spec.check_context(vector)
        return vector

    def check_feedback(self, feedback: Any, action: int) -> Any:
        """Feedback as the learner takes it."""
        spec = self._spec
        if type(feedback) is float and feedback == feedback and spec is None:
            return feedback
        if feedback is None or (isinstance(feedback, FLOATS) and math.isnan(feedback)):
            raise InvalidFeedback(f"feedback must be given, got {feedback!r}; use cancel for feedback that never comes")
        if spec is None:
            return kept(feedback, "feedback")  # it may wait in a queue
        single = spec.feedback == "bandit" or (spec.feedback == "gradient" and spec.point_size == 1)
        usual = type(feedback) is float and single and self.reward_range is None
        if usual and spec.smallest <= feedback <= spec.largest and math.isfinite(feedback):
            return np.array((feedback,))  # what comes most often, in a fifth of the time
        if spec.feedback == "symbol":
            return _encoded(spec, action, feedback)
        size = spec.feedback_size
        try:
            given = np.asarray(feedback)
            if given.dtype.kind not in "biuf":
                raise TypeError
            vector = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise InvalidFeedback(
                f"feedback must be {_wanted(spec, self.reward_range)}, got {shown(feedback)}"
            ) from None
        if vector.shape == () and size == 1:
            vector = vector.reshape(1)
        if spec.feedback == "any" and vector.shape == (spec.actions,):
            vector = vector[action : action + 1]
        if vector.shape != (size,):
            raise InvalidFeedback(f"feedback must be {_wanted(spec, self.reward_range)}, got {shown(feedback)}")
        if self.reward_range is not None:
            low, high = self.reward_range
            if not ((vector >= low) & (vector <= high)).all():
                raise InvalidFeedback(f"feedback must lie in [{low:g}, {high:g}], got {shown(feedback)}")
        elif not ((vector >= spec.smallest) & (vector <= spec.largest) & np.isfinite(vector)).all():
            raise InvalidFeedback(f"feedback must {_limits(spec)}, got {shown(feedback)}")
        check_one_hot("feedback", vector, spec, self.reward_range)
        return self.scaled(vector)

    def scaled(self, rewards: Any) -> Any:
        """Rewards of `reward_range`, or one of them, as the learner takes them."""
        spec = self._spec
        if self.reward_range is None or spec is None:
            return rewards
        low, high = self.reward_range
        share = np.minimum((rewards - low) / (high - low), 1.0)
        return spec.smallest + share * (spec.largest - spec.smallest)

    def _called(self) -> str:
        """What messages call the learner: as `repr` does, or what a function without a name made."""
        name = "<lambda>" if self._spec is not None else getattr(self.learner, "__name__", "<lambda>")
        return type(self._spec or self._room.seats[0].learner).__name__ if name == "<lambda>" else str(name)

    @property
    def _instances(self) -> list[Any]:
        return [seat.learner for seat in self._room.seats]


def check_one_hot(name: str, rewards: Floats, learner: Any, reward_range: tuple[float, float] | None = None) -> None:
    """Refuse rewards that do not name one right action, where the learner says that they do.

    >>> import belated as bl
    >>> check_one_hot("feedback", np.array([0.3, 0.9]), bl.Perceptron(features=1))
    Traceback (most recent call last):
    belated.errors.InvalidFeedback: feedback must be 1 for the one right action and 0 for all others, got [0.3, 0.9]
    """
    if not getattr(learner, "one_hot", False):
        return
    low, high = reward_range or (learner.smallest, learner.largest)
    if (rewards == high).sum() != 1 or (rewards == low).sum() != len(rewards) - 1:
        raise InvalidFeedback(f"{name} must be {one_hot_words(learner, reward_range)}, got {rewards.tolist()}")


def one_hot_words(learner: Any, reward_range: tuple[float, float] | None = None) -> str:
    """What feedback is that names one right action; nothing of other learners."""
    low, high = reward_range or (learner.smallest, learner.largest)
    return f"{high:g} for the one right action and {low:g} for all others" if learner.one_hot else ""


def _encoded(learner: Learner, action: int, symbol: Any) -> Any:
    """A symbol as kernels see it."""
    try:
        return np.array([learner.encode(action, symbol)])
    except (TypeError, ValueError):
        known = ", ".join(repr(name) for name in dict.fromkeys(learner.symbols[action]))
        raise InvalidFeedback(f"action {action} has no symbol {shown(symbol)}; it has {known}") from None


def _wanted(learner: Learner, reward_range: tuple[float, float] | None) -> str:
    size = learner.feedback_size
    if size == 1:
        return "one number"
    named = one_hot_words(learner, reward_range)
    each = ", one an action" if learner.feedback == "full" else ""
    return f"{size} numbers{each}{': ' if named else ''}{named}"


def _limits(learner: Learner) -> str:
    if math.isinf(learner.smallest) and math.isinf(learner.largest):
        return "be finite"
    return f"lie in [{learner.smallest:g}, {learner.largest:g}]"


def _name_of(factory: Any) -> str:
    name = getattr(factory, "__name__", type(factory).__name__)
    return "a plain learner" if name == "<lambda>" else str(name)
