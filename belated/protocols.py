"""The theory, read first. Everything else in belated is an instance of what stands here.

A **game** and a **learner** meet round after round: the learner predicts an action, the game answers with feedback.
Under delay the feedback of round s becomes usable only by predictions at rounds > s + delay. A **forecaster** is what
plays under delay: it gives out a ticket with each prediction and takes feedback for its tickets in any order.

    Learner      a non-delayed algorithm (BASE in the paper): predict, update, predict, update, ...
    Forecaster   a rule over a learner (the paper's meta-algorithms): Direct, BOLD, QPMD, Paced, SDB
    Game         draws outcomes, gives reward and feedback, keeps the account of regret
    Delays       the law of tau_t

Learners, games and delay laws are **specs**: frozen data that can be compared, hashed, printed and written as JSON.
What they do is in their **kernels**: static functions of scalars, records and vectors, without allocation,
exceptions or global randomness. One source serves plain Python, the compiled simulator and the live service.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from belated.spelling import Spelled

#: What decides how a learner plays, and what it says of itself as it does: one that plays otherwise says it again.
PLAYS = (
    *("predict", "update", "lost", "layout", "params", "start", "supply", "translate"),
    *("feedback", "smallest", "largest", "in_order"),
)
STATED = ("bound", "bound_in", "stochastic_bound", "bound_under_delay", "bound_at_peak", "delayed_bound", "guarantee")
#: The same of games, and of delay laws.
PAYS = ("outcome", "regret", "params", "observe", "event", "feedback")
WAITS = ("kernel", "sampler", "params")
#: A delay that never ends: the feedback does not come.
NEVER: int = 2**63 - 1
#: What a predict kernel returns as its action when it needs something that Python must compute: see `Learner.supply`.
NEEDED: int = -2

Floats = NDArray[np.float64]
Feedback = Literal["bandit", "full", "symbol", "gradient"]


class Decision(NamedTuple):
    """What `predict` gives: play `action`, and hand in its feedback under `ticket`.

    `action` is a number from 0, or anything at all if the learner has no fixed number of actions (a label, an amount).
    `probability` is the probability with which the learner chose the action; NaN if the learner does not know
    (`states_probability`). Under
    QPM-D it is that of the base's pending query and not a propensity, because a held action is played with
    probability 1.
    """

    ticket: int
    action: Any
    probability: float


@runtime_checkable
class PlainLearner(Protocol):
    """Any object of this shape is a learner. A deterministic one says probability 1.0.

    One that predicts labels or amounts has `actions = None`: its predictions and its feedback are anything. One that
    draws, but cannot tell with which probability, has `states_probability = False` and says NaN.

    Where an estimate needs more from prediction time than the four arguments of `update` and the object keeps that
    only for its last prediction, it says so with `tolerates_delay = False` and is refused by Direct. With
    `in_order = True` it is told in the order of its predictions, or refused, as a spec is.

    It may also have `replace(action)`: the action is retired and a new one takes its number (see `Learner.replace`).
    """

    actions: int | None

    def predict(self, context: Any) -> tuple[Any, float]: ...

    def update(self, context: Any, action: Any, probability: float, feedback: Any) -> None: ...


def feedback_width(kind: str, actions: int, point_size: int) -> int:
    """How many numbers feedback of that kind has.

    >>> feedback_width("full", 3, 0), feedback_width("bandit", 3, 0), feedback_width("gradient", 1, 5)
    (3, 1, 5)
    """
    return {"full": actions, "gradient": point_size}.get(kind, 1)


def whole_parents(cls: type, root: type) -> list[type]:
    """The classes that one derives from in which nothing is missing, below `root`."""
    return [each for each in cls.__mro__[1:] if issubclass(each, root) and not getattr(each, "__abstractmethods__", 1)]


def forget(cls: type, root: type, decides: tuple[str, ...], stated: dict[str, Any]) -> None:
    """Take away what a class says only because another says it of itself, from which it derives and does otherwise."""
    if vars(cls).keys() & set(decides) and whole_parents(cls, root):
        for name in stated.keys() - vars(cls).keys():
            setattr(cls, name, stated[name])


class Learner(Spelled, ABC):
    """A learner as a spec, a layout and two kernels (or three). Subclasses are frozen dataclasses.

    The state of one instance is one NumPy record: the fields of `layout`, after two that belated keeps itself:

    * `predictions`: how many predictions this instance has made, the one in progress included (t in the formulas);
    * `answering`: in `update`, the number of the prediction that the feedback answers. Without delay it equals
      `predictions`; under Direct it lies behind. A schedule such as gamma_t is recomputed from it.

    and two that a learner may ask for: `open` (see `counts_open`) and `memo`.

    A learner must accept predict after predict: a cancelled round is skipped.

    One that derives from another and plays otherwise (a `predict`, `update`, `params`, `start` or range of its own)
    does not inherit the other's bounds, nor with a `predict` of its own its `predict_among`: if they hold, it says so
    (`bound = UCB1.bound`).
    """

    #: Raised whenever layout or behaviour changes; saved states carry it.
    version: ClassVar[int] = 1
    #: What the learner learns from: its own reward, the rewards of all actions, the symbol of a game of partial
    #: monitoring, the gradient of the loss at its point, or (if it learns nothing) any.
    feedback: ClassVar[Literal["bandit", "full", "symbol", "gradient", "any"]] = "bandit"
    #: The range of the numbers in its feedback (symbols apart); infinite ends where it takes any finite number.
    smallest: float = 0.0
    largest: float = 1.0
    #: Whether its full feedback names one right action: `largest` for that one, `smallest` for all others.
    one_hot: bool = False
    #: Its bound without delay in a few words (n rounds, K actions), as the catalog shows it.
    guarantee: ClassVar[str] = "none stated"
    #: False when `update` needs something that is kept for the last prediction only; refused by Direct.
    tolerates_delay: ClassVar[bool] = True
    #: True when `update` uses the probability of the prediction that it answers. Where it does not, and nobody else
    #: reads it (`play` without `record`), belated sets `params.unread`: `predict` may then spare itself a costly
    #: probability and return 1.0. What it does otherwise must be the same.
    weighs: ClassVar[bool] = False
    #: Whether `predict` knows with which probability it chose, so that 1 / probability counts a choice right on
    #: average; else it returns 1.0, and people see NaN.
    states_probability: bool = True
    #: How many numbers `predict` writes into `state.memo` for its feedback: they are kept with the ticket and are back
    #: in `state.memo` when `update` (or `lost`) is called for it, however late.
    memo: int = 0
    #: If its action is a point, of how many numbers: the first ones of the memo. `predict` returns (0, 1.0) then.
    point_size: int = 0
    #: Whether the state has a field `open`: how many of this instance's predictions are open, the one in progress not
    #: counted. It falls when feedback is told, or when there will be none. Under BOLD and QPM-D it is 0 in `predict`.
    counts_open: ClassVar[bool] = False
    #: Whether it must be told in the order of its predictions: Direct then holds back what comes too early.
    in_order: ClassVar[bool] = False
    #: Kernel `lost(params, state, context, action, probability)`, which a learner may have or not: a prediction will
    #: have no feedback (its ticket was cancelled or has expired, or its action was replaced: then `action` is -1).
    #: `answering` and `memo` are those of the prediction. Not called under QPM-D, whose learner has no tickets.
    lost: ClassVar[Any] = None
    #: Whether `update` reads `state.answering`, itself or in a kernel that it calls. Copies in `PerContext` do not know
    #: it under Direct, which takes only those that say False.
    reads_answering: ClassVar[bool] = True
    #: Fields of the layout with whole numbers that are never larger than the rounds, nor smaller than -1: such as how
    #: often an action was seen. A GPU has them in half the room.
    counters: ClassVar[tuple[str, ...]] = ()
    #: Fields of the layout, one number each, that its kernels leave alone on a GPU (`target.on_gpu`).
    unused_on_gpu: ClassVar[tuple[str, ...]] = ()
    #: Kernel `replace(params, state, action)`, which a learner may have or not: the action is retired, and a new one
    #: takes its number. Nothing told about it or counted for it matters any more; the clock `predictions` goes on.
    replace: ClassVar[Any] = None
    #: Whether a running instance may get one more action. Each field of its state then keeps what it holds, the numbers
    #: that are new at the end of a longer one are those of a fresh state, and the new action is replaced at once: so
    #: it takes `replace`, and a layout in which an action's numbers have their place whatever the number of actions.
    can_grow: ClassVar[bool] = False
    #: Kernel `predict_among(params, state, context, allowed, draw)`, which a learner may have or not: as `predict`,
    #: among the actions in the vector `allowed` (int64, rising, at least one).
    predict_among: ClassVar[Any] = None
    #: Function `migrate(version, old, state)`, which a learner may have or not: fill the fresh `state` with what the
    #: record `old` of an earlier version knew. Both are read and written by name in brackets.
    migrate: ClassVar[Any] = None
    #: How many numbers of side information a prediction takes, and how large they may be, below 0 as above (the squares
    #: of these are still finite).
    context_size: int = 0
    context_limit: float = 1e100
    #: If the side information is one of a few values, which it tells apart: how many; else 0.
    values: int = 0
    #: True when its side information is the state of a course that its own actions steer. It must be asked in every
    #: round of that course: only forecasters that play reactive games take it.
    steers: ClassVar[bool] = False
    #: If it keeps what it needs of a prediction for some time only: feedback that comes when so many predictions, or
    #: more, were made since teaches nothing. 0: no matter how late.
    keeps: int = 0
    #: Whether that is what it is for: then longer delays are no mistake, unless all are longer.
    lets_go: ClassVar[bool] = False
    #: What `bound` compares with: the best fixed action (or point), the best of the experts that advise, the best map
    #: from values of the side information to actions, the best of a few such maps, or the truth (regret counts
    #: mistakes).
    comparator: ClassVar[Literal["action", "expert", "map", "policy", "truth"]] = "action"
    #: Whether its `delayed_bound` holds even where delays depend on the rewards.
    any_delays: ClassVar[bool] = False
    #: What a round costs at most on average, whoever plays, in the unit of its bounds: n times that is vacuous.
    worst: float = 1.0
    #: Whether people hand in something else than the feedback of its kernels, such as a label where that is a gradient:
    #: `translate` makes the one of the other.
    translates: bool = False
    actions: int

    if TYPE_CHECKING:

        @property
        def loss(self) -> tuple[tuple[float, ...], ...]:
            """The losses (actions x outcomes) of the game that a learner of symbols is made for: a field."""
            ...

        @property
        def symbols(self) -> tuple[tuple[Hashable, ...], ...]:
            """The symbols of that game, likewise."""
            ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        forget(cls, Learner, PLAYS, {name: vars(Learner)[name] for name in STATED})
        forget(cls, Learner, ("predict",), {"predict_among": None})

    @property
    def feedback_size(self) -> int:
        """How many numbers its feedback has."""
        return feedback_width(self.feedback, self.actions, self.point_size)

    @classmethod
    def example(cls) -> Learner:
        """A small one, for checks and tests. Learners that are made for a game give one here."""
        return cls(actions=3)

    def example_context(self, draws: np.random.Generator) -> Floats:
        """Side information that makes sense, for checks and tests."""
        return draws.random(self.context_size)

    @abstractmethod
    def layout(self) -> np.dtype[Any]:
        """The state of one instance: a structured dtype, nested arrays welcome. It starts as zeros."""

    def with_actions(self, actions: int) -> Learner | None:
        """The same but for the number of actions, more or fewer; None if running instances cannot get more."""
        if not self.can_grow or self.replace is None:
            return None
        return dataclasses.replace(self, actions=actions)  # type: ignore[type-var]

    def params(self) -> dict[str, Any]:
        """What never changes and all instances share: numbers and arrays by name, read in kernels as `params.name`."""
        return {}

    def start(self, state: Any) -> None:
        """Give a fresh state its first values where zeros will not do: `state["field"][:] = ...`."""

    @staticmethod
    @abstractmethod
    def predict(params: Any, state: Any, context: Any, draw: Any) -> tuple[int, float]:
        """Kernel: choose an action; return it with the probability it was chosen with."""

    @staticmethod
    @abstractmethod
    def update(params: Any, state: Any, context: Any, action: int, probability: float, feedback: Any) -> None:
        """Kernel: learn. `feedback` is a vector of length 1, or of one reward an action."""

    def supply(self, params: Any, state: Any) -> None:
        """Compute what `predict` needs and put it into `params`: `params["field"][:] = ...`.

        A predict kernel that cannot go on returns the action `NEEDED`, with its state unchanged. Then nothing has
        happened: this method is called with the shared params (one for each thread, on a GPU for each replication)
        and the state that asked, and the state is asked again, with the same draws. What is wanted can be noted in
        `params`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no supply")

    def check_context(self, context: Floats) -> None:
        """Raise InvalidArgument if side information of the right size makes no sense."""

    def encode(self, action: int, symbol: Any) -> float:
        """The number of a symbol among those of an action, by first appearance: what kernels of symbol learners see.

        ValueError if the action has no such symbol. Only learners of symbols, which have the matrix `symbols`, need it.
        """
        return float(list(dict.fromkeys(self.symbols[action])).index(symbol))

    def translate(self, memo: Any, given: Any) -> Any:
        """The feedback of a prediction, from what was handed in and what the prediction wrote into its memo."""
        return given

    def facing(self, game: Game) -> Learner | str:
        """The learner with bounds that hold in this game, or why they do not.

        Most hold in every game that has the same comparator. Where they take more (a length of gradients, rows that can
        be told apart), this looks at the game; a copy may be returned that knows more than this one.
        """
        return self

    def bound(self, n: float) -> float | None:
        """f(n), the learner's regret bound without delay against any oblivious adversary; None if there is none."""
        return None

    def bound_in(self, n: int) -> float | None:
        """The same for exactly n rounds, where it is not concave or not for every n; None if there is none.

        BOLD uses it under a constant delay, where it is known how many rounds each instance has.
        """
        return None

    def stochastic_bound(self, n: float, means: Floats) -> float | None:
        """A bound on the regret without delay for i.i.d. rewards with these means; None if there is none.

        One that is also given for n = 1 must be concave in n: BOLD's theorem then uses it.
        """
        return None

    def bound_under_delay(self, n: int, total: float) -> float | None:
        """A bound when played directly under delay, against any oblivious adversary; None if there is none.

        `total` is the sum of G_1..G_n; delays look at neither actions nor rewards, and nothing is cancelled. It must
        be concave in `total`: the mean of several runs is put in.
        """
        return None

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        """The same in G* instead of the sum of G_t: nondecreasing in it. `constant`: all delays are the same."""
        return None

    def delayed_bound(self, n: int, means: Floats, peaks: Floats, peak: float | None) -> float | str:
        """The same when played directly under delay (the paper's white-box theorems), or why there is none.

        `peaks` are E G*_i; `peak` is E G* where it is decided by the delays alone, else None.
        """
        return f"no theorem bounds {type(self).__name__} played directly under delay"


class Game(Spelled, ABC):
    """Outcomes, rewards and feedback, and the account of regret. Rewards lie in [0, 1], unless it says otherwise.

    A bound is put beside the regret only where the game says what the theorems ask for: `comparator`, what its regret
    is against; `stochastic` and `means`, if its rewards are i.i.d. draws; `scale`, what regret is measured in. A game
    that does not say what its regret is against gets no bound and no verdict. One that derives from another and pays
    otherwise (an `outcome`, `regret`, `params`, ... of its own) says it again.

    Kernels see three vectors of float64: `params`, which never change; `memory`, zeros at the start of a replication
    and theirs to use; `feedback`, to be filled with 1 or K numbers (a symbol is one). In the compiled loop they are
    bare pointers: index them, but ask for no length and no slice (put sizes into `params`).
    """

    feedback: Feedback
    #: True when rewards are i.i.d. draws with the expectations `means`. (Bounds for such rewards need both.)
    stochastic: bool = False
    #: What regret is measured in: the difference between the largest and the smallest reward, in the unit of `regret`
    #: and `means`; where actions are points, the most that one round can cost. Infinite where there is no largest.
    scale: float = 1.0
    #: The range of the numbers in its feedback: 0 to 1, or to the largest number of a symbol; infinite ends where any
    #: finite number may come.
    smallest: float = 0.0
    largest: float = 1.0
    #: If actions are points, of how many numbers. `actions` is 1 then; `outcome` finds the point in `feedback`, fills
    #: that with the gradient of the loss there, and returns minus the loss.
    point_size: int = 0
    #: True when the course of the game depends on what was played before. Only forecasters that say so can play it.
    reactive: bool = False
    #: What `regret` is against: one fixed action or point, one expert, one map from values of the side information to
    #: actions, one of a few such maps (`policies`), the truth (it counts mistakes), or something that changes from
    #: round to round (dynamic regret), which no theorem here speaks of. None: not said.
    comparator: Literal["action", "expert", "map", "policy", "truth", "changing"] | None = None
    #: True when `outcome` may be asked for any rounds, whatever it was asked for before: what it pays depends on the
    #: round alone, and the memory holds no more than the account. Else it is asked for rounds 1, 2, 3, ... in turn.
    any_round: bool = False
    #: How many numbers of side information the game gives before each prediction.
    context_size: int = 0
    #: If that is one number, 0 to `values` - 1: how many there are.
    values: int = 0
    #: Kernel `observe(params, memory, k0, k1, round_, context)` of a game with side information: fill `context`, before
    #: the prediction of the round. It is called once a round.
    observe: ClassVar[Any] = None
    #: Kernel `event(params, memory, k0, k1, round_) -> int` of a game that announces: the action that is replaced at
    #: the start of the round, or -1. It is called before the prediction, after `observe` in a game with side
    #: information. `outcome` must pay the same without it.
    event: ClassVar[Any] = None

    if TYPE_CHECKING:

        @property
        def actions(self) -> int:
            """K, the number of actions: a field or a property."""
            ...

        @property
        def means(self) -> Sequence[float] | None:
            """The expected reward of each action, where there is one: a field, a property, or nothing."""
            ...

        @property
        def announces(self) -> bool:
            """Whether the forecaster is told of replaced actions by `event`: a field, a property, or nothing (no)."""
            ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        forget(cls, Game, PAYS, {"comparator": None, "stochastic": False, "any_round": False})

    def __getattr__(self, name: str) -> Any:
        if name == "means":
            return None
        if name == "announces":
            return False
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def feedback_size(self) -> int:
        """How many numbers its feedback has."""
        return feedback_width(self.feedback, self.actions, self.point_size)

    @abstractmethod
    def params(self) -> Floats:
        """What the kernels read, as one flat vector."""

    @abstractmethod
    def memory(self) -> int:
        """How many numbers of memory a replication needs."""

    def least_memory(self) -> int:
        """How many of them, the first, it needs on a GPU (`kernels.target`)."""
        return self.memory()

    @staticmethod
    @abstractmethod
    def outcome(params: Any, memory: Any, k0: Any, k1: Any, round_: int, action: int, feedback: Any) -> float:
        """Kernel, called once a round in order: fill `feedback`, keep the account, return the reward."""

    @staticmethod
    @abstractmethod
    def regret(params: Any, memory: Any) -> float:
        """Kernel: the regret of all rounds so far, from the account in `memory`."""

    def longest(self) -> int | None:
        """How many rounds the game has; None if it never ends."""
        return None

    def decode(self, action: int, code: float) -> Any:
        """The symbol that a number in `feedback` stands for. Only games of symbols need it."""
        return code

    def check_playable(self) -> None:
        """Raise InvalidArgument if the game can be looked at, but not played."""


class Delays(Spelled, ABC):
    """The law of the delays tau_1, tau_2, ..., independent of the outcomes.

    To be put inside `Lossy` or `PerAction` as well, derive from `belated.delays.Law`. One that derives from another law
    and has a kernel or params of its own says again what it is: `constant`, `mean`, `maximum`.
    """

    #: True when the law looks at the action (then BOLD's theorem does not apply).
    depends_on_action: ClassVar[bool] = False
    #: True when the law looks at the reward as well: its kernel gets it as one more argument. No theorem applies that
    #: needs to know otherwise.
    depends_on_reward: ClassVar[bool] = False
    #: True when the delays are independent and identically distributed (for each action).
    iid: ClassVar[bool] = True
    #: True when all delays are the same.
    constant: ClassVar[bool] = False

    @abstractmethod
    def params(self) -> Floats:
        """What the kernel reads, as one flat vector."""

    @property
    @abstractmethod
    def kernel(self) -> Callable[..., Any]:
        """The kernel `delay(params, k0, k1, round_, action) -> int`, from 0 to `NEVER`.

        `params` is a bare pointer in the compiled loop: index it, but ask for no length. `action` is 0 unless the law
        depends on it: then delays are drawn for many rounds in one call.
        """

    if TYPE_CHECKING:

        @property
        def mean(self) -> float | None:
            """E tau, infinite where there is none; None where it is not known: a field, a property, or nothing."""
            ...

        @property
        def maximum(self) -> int | None:
            """The largest delay; `NEVER` if feedback may stay away; None if there is no largest."""
            ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        forget(cls, Delays, WAITS, {"constant": False, "mean": None, "maximum": None})

    def __getattr__(self, name: str) -> Any:
        if name in ("mean", "maximum"):
            return None
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def mean_of(self, action: int) -> float | None:
        """E tau for one action."""
        return self.mean

    def longest(self) -> int | None:
        """How many rounds the delays are given for; None if for ever."""
        return None

    def check_actions(self, actions: int) -> None:
        """Raise InvalidArgument if the law is made for another number of actions."""
