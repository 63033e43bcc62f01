"""PerContext: one learner for each value of the side information."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument, Unsupported
from belated.kernels import states
from belated.kernels.compile import kernel
from belated.kernels.values import value_of
from belated.protocols import NEEDED, Floats, Learner


@dataclass(frozen=True)
class PerContext(Learner):
    """A copy of a learner for each of finitely many contexts, numbered from 0: `predict(2)` asks the third copy.

    Whatever the learner asks for it gets from its own copy: its memo, how many of the copy's predictions are open,
    which of them are lost, and its feedback in order. Learners that play points are refused.

    The copies share nothing. Under BOLD there is one pool, and each of its instances holds a copy for each context;
    under QPM-D there is one base, one held action and one set of queues for each context, and the identities of QPM-D
    hold for each. Regret is against the best map from contexts to actions: with a bound f of the learner, copies that
    are asked n_1 + ... + n_C = n times have at most C f(n / C), since f is concave.

    Joulani, Gyorgy, Szepesvari, *Online Learning under Delayed Feedback*, ICML 2013 (side information).

    >>> import belated as bl
    >>> f = bl.QPMD(bl.PerContext(bl.UCB1(actions=2), contexts=2))
    >>> first, other = f.predict(0), f.predict(1)
    >>> f.update(other.ticket, 0.0)
    >>> f.predict(0).action, f.predict(1).action
    (0, 1)
    """

    guarantee = "C f(n / C) against the best map, for C contexts and a learner with bound f"
    comparator = "map"
    context_size = 1
    reads_answering = False
    learner: Learner
    contexts: int

    def __post_init__(self) -> None:
        if not isinstance(self.learner, Learner):
            raise InvalidArgument(f"learner must be a spec such as UCB1(actions=3), got {self.learner!r}")
        if self.learner.context_size:
            raise Unsupported(f"PerContext takes learners without side information of their own, got {self.learner!r}")
        if self.learner.point_size:
            raise Unsupported(
                f"PerContext takes learners that choose actions, got {self.learner!r}, which plays points"
            )
        require.integer("contexts", self.contexts, low=1)

    @classmethod
    def example(cls) -> PerContext:
        from belated.learners.ucb1 import UCB1

        return cls(UCB1(3), 2)

    def example_context(self, draws: np.random.Generator) -> Floats:
        return np.array([float(draws.integers(self.contexts))])

    @property
    def values(self) -> int:  # type: ignore[override]
        return self.contexts

    @property
    def actions(self) -> int:  # type: ignore[override]
        return self.learner.actions

    @property
    def feedback(self) -> Any:  # type: ignore[override]
        return self.learner.feedback

    @property
    def loss(self) -> Any:
        return self.learner.loss

    @property
    def symbols(self) -> Any:
        return self.learner.symbols

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.learner.version

    @property
    def migrate(self) -> Any:
        return None if self.learner.migrate is None else self._migrate

    def _migrate(self, version: int, old: Any, state: Any) -> None:
        state["last"] = old["last"]
        kept = {"predictions", "answering", "open", "memo"} & set(states.state_dtype(self.learner).names or ())
        for known, copy in zip(old["copies"], state["copies"], strict=True):
            for name in kept & set(known.dtype.names):
                copy[name] = known[name]
            self.learner.migrate(version, known, copy)

    @property
    def tolerates_delay(self) -> bool:  # type: ignore[override]
        """Not if an update reads which prediction it answers: the copies' own numbers are not kept."""
        return self.learner.tolerates_delay and not self.learner.reads_answering

    @property
    def needs(self) -> str | None:
        """Why not, where that is the reason."""
        if self.tolerates_delay or not self.learner.tolerates_delay:
            return None
        return (
            "which of its copy's predictions it answers, unless "
            f"{type(self.learner).__name__} says reads_answering = False"
        )

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        return self.learner.weighs

    @property
    def states_probability(self) -> bool:  # type: ignore[override]
        return self.learner.states_probability

    @property
    def memo(self) -> int:  # type: ignore[override]
        """That of the copy which predicts."""
        return self.learner.memo

    @property
    def in_order(self) -> bool:  # type: ignore[override]
        return self.learner.in_order

    @property
    def feedback_size(self) -> int:
        return self.learner.feedback_size

    @property
    def one_hot(self) -> bool:  # type: ignore[override]
        return self.learner.one_hot

    @property
    def smallest(self) -> float:  # type: ignore[override]
        return self.learner.smallest

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self.learner.largest

    def check_context(self, context: Floats) -> None:
        if not (0 <= context[0] < self.contexts and context[0] == int(context[0])):
            raise InvalidArgument(f"context must be one of 0..{self.contexts - 1}, got {context[0]:g}")

    def with_actions(self, actions: int) -> PerContext | None:
        learner = self.learner.with_actions(actions)
        return None if learner is None else PerContext(learner, self.contexts)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("last", "i8"), ("copies", states.state_dtype(self.learner), (self.contexts,))], align=True)

    def params(self) -> dict[str, Any]:
        return self.learner.params()

    def start(self, state: Any) -> None:
        for copy in state["copies"]:
            self.learner.start(copy)

    @property
    def predict(self) -> Any:
        return _make_predict(self.learner.predict, self.contexts, self.learner.counts_open, self.learner.memo)

    @property
    def update(self) -> Any:
        return _make_update(self.learner.update, self.contexts, self.learner.counts_open, self.learner.memo)

    @property
    def lost(self) -> Any:
        inner = self.learner
        if inner.lost is None and not inner.counts_open:
            return None
        return _make_lost(inner.lost, self.contexts, inner.counts_open, inner.memo)

    @property
    def replace(self) -> Any:
        return None if self.learner.replace is None else _make_replace(self.learner.replace, self.contexts)

    def supply(self, params: Any, state: Any) -> None:
        self.learner.supply(params, state["copies"][int(state["last"])])

    def encode(self, action: int, symbol: Any) -> float:
        return self.learner.encode(action, symbol)

    def bound(self, n: float) -> float | None:
        each = self.learner.bound(max(n / self.contexts, 1.0))
        return None if each is None else self.contexts * each

    def stochastic_bound(self, n: float, means: Floats) -> float | None:
        """The sum over contexts, whose means are the rows of `means`; each may have all n rounds."""
        each = [self.learner.stochastic_bound(n, row) for row in np.atleast_2d(means)]
        return None if None in each else float(sum(x for x in each if x is not None))

    def delayed_bound(self, n: int, means: Floats, peaks: Floats, peak: float | None) -> float | str:
        each = [
            self.learner.delayed_bound(n, row, most, peak)
            for row, most in zip(np.atleast_2d(means), np.atleast_2d(peaks), strict=True)
        ]
        reasons = [x for x in each if isinstance(x, str)]
        return reasons[0] if reasons else float(sum(x for x in each if not isinstance(x, str)))


@cache
def _make_predict(predict: Any, contexts: int, counts_open: bool, memo: int) -> Any:
    inner = kernel(predict)
    counted = _make_counted(counts_open, memo)

    def per_context(params, state, context, draw):
        if not 0.0 <= context[0] < contexts:
            return -1, 1.0
        value = value_of(context, contexts)
        copy = state.copies[value]
        state.last = value
        copy.predictions += 1
        action, probability = inner(params, copy, context[:0], draw)
        if action == NEEDED:
            copy.predictions -= 1
        else:
            counted(state, copy)
        return action, probability

    return per_context


@cache
def _make_update(update: Any, contexts: int, counts_open: bool, memo: int) -> Any:
    inner = kernel(update)
    ended = _make_ended(counts_open, memo)

    def per_context(params, state, context, action, probability, feedback):
        value = value_of(context, contexts)
        copy = state.copies[value]
        copy.answering = copy.predictions
        ended(state, copy, value)
        inner(params, copy, context[:0], action, probability, feedback)

    return per_context


@cache
def _make_lost(lost: Any, contexts: int, counts_open: bool, memo: int) -> Any:
    ended = _make_ended(counts_open, memo)

    def counted(params, state, context, action, probability):
        value = value_of(context, contexts)
        ended(state, state.copies[value], value)

    if lost is None:
        return counted
    inner = kernel(lost)

    def per_context(params, state, context, action, probability):
        value = value_of(context, contexts)
        copy = state.copies[value]
        copy.answering = copy.predictions
        ended(state, copy, value)
        inner(params, copy, context[:0], action, probability)

    return per_context


@cache
def _make_counted(counts_open: bool, memo: int) -> Any:
    """A copy has predicted: one more is open, and its memo is that of the whole."""

    def nothing(state, copy):
        pass

    def count(state, copy):
        copy.open += 1

    def write(state, copy):
        for i in range(memo):
            state.memo[i] = copy.memo[i]

    def both(state, copy):
        copy.open += 1
        for i in range(memo):
            state.memo[i] = copy.memo[i]

    return kernel((both if memo else count) if counts_open else write if memo else nothing)


@cache
def _make_ended(counts_open: bool, memo: int) -> Any:
    """A prediction of a copy ends: one less is open, and the memo of the whole is the copy's.

    Under QPM-D the last prediction of every copy is pending, and it is the last of the whole that is answered: then
    the memo is that of another copy, unless that predicted last, and the copy still holds its own.
    """

    def nothing(state, copy, value):
        pass

    def count(state, copy, value):
        copy.open -= 1

    def write(state, copy, value):
        if value == state.last or state.answering < state.predictions:
            for i in range(memo):
                copy.memo[i] = state.memo[i]

    def both(state, copy, value):
        copy.open -= 1
        if value == state.last or state.answering < state.predictions:
            for i in range(memo):
                copy.memo[i] = state.memo[i]

    return kernel((both if memo else count) if counts_open else write if memo else nothing)


@cache
def _make_replace(replace: Any, contexts: int) -> Any:
    inner = kernel(replace)

    def per_context(params, state, action):
        for i in range(contexts):
            inner(params, state.copies[i], action)

    return per_context
