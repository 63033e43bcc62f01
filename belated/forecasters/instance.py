"""One running instance of a learner spec, in the shape of a plain learner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from belated.errors import BadPrediction, InvalidArgument
from belated.forecasters.room import Parts
from belated.kernels import states
from belated.kernels.blame import bad_answer, retell
from belated.kernels.compile import compile_for, compiled_for, kernel, routine
from belated.kernels.compile import plain as as_plain
from belated.kernels.natural import natural
from belated.kernels.random import learner_draw
from belated.protocols import NEEDED, Learner

NO_CONTEXT = np.zeros(0)
#: How often one prediction may ask for what it needs.
PATIENCE = 1000


@cache
def make_ask(predict: Any, counts_open: bool = False) -> Any:
    """The kernel that lets a state predict: it counts the prediction and draws by that count."""

    def ask(params, state, context, instance, k0, k1):
        state.predictions += 1
        return predict(params, state, context, learner_draw(k0, k1, state.predictions, instance))

    def ask_and_count(params, state, context, instance, k0, k1):
        state.predictions += 1
        action, probability = predict(params, state, context, learner_draw(k0, k1, state.predictions, instance))
        if action != NEEDED:
            state.open += 1
        return action, probability

    return kernel(ask_and_count if counts_open else ask)


@cache
def make_tell(update: Any, counts_open: bool = False) -> Any:
    """The kernel that hands feedback to a state; `number` says which of its predictions is answered."""

    def tell(params, state, context, number, action, probability, feedback):
        state.answering = number
        update(params, state, context, action, probability, feedback)

    def tell_and_count(params, state, context, number, action, probability, feedback):
        state.answering = number
        state.open -= 1
        update(params, state, context, action, probability, feedback)

    return kernel(tell_and_count if counts_open else tell)


@cache
def make_lost(lost: Any, counts_open: bool = False) -> Any:
    """The kernel that says to a state that one of its predictions will have no feedback; None if it need not know."""
    if lost is None and not counts_open:
        return None

    def count(params, state, context, number, action, probability):
        state.answering = number
        state.open -= 1

    if lost is None:
        return kernel(count)

    def told(params, state, context, number, action, probability):
        state.answering = number
        lost(params, state, context, action, probability)

    def told_and_counted(params, state, context, number, action, probability):
        state.answering = number
        state.open -= 1
        lost(params, state, context, action, probability)

    return kernel(told_and_counted if counts_open else told)


@cache
def make_replace(replace: Any) -> Any:
    """The kernel that replaces an action in all instances of a pool; without a learner's kernel it does nothing."""
    if replace is None:

        def nothing(desk, params, pool, action):
            pass

        return kernel(nothing)

    def replace_all(desk, params, pool, action):
        for i in range(desk.instances):
            replace(params, pool[i], action)

    return routine(replace_all)


@cache
def make_parts(
    predict: Any,
    update: Any,
    replace: Any,
    lost: Any,
    memo: int,
    counts_open: bool,
    values: int,
    in_order: bool,
    numbers: bool,
) -> Parts:
    """A learner's kernels as those of a forecaster call them."""
    tell, gone = make_tell(update, counts_open), make_lost(lost, counts_open)

    def stored(letter):
        return letter.number

    def same(letter):
        return letter.round

    number = kernel(stored if numbers else same)

    def answer(params, state, context, letter):
        tell(params, state, context, number(letter), natural(letter.action), letter.probability, letter.feedback)

    def answer_with_memo(params, state, context, letter):
        for i in range(memo):
            state.memo[i] = letter.memo[i]
        tell(params, state, context, number(letter), natural(letter.action), letter.probability, letter.feedback)

    def nothing(params, state, context, number, letter, action):
        pass

    def lose(params, state, context, number, letter, action):
        gone(params, state, context, number, action, letter.probability)

    def lose_with_memo(params, state, context, number, letter, action):
        for i in range(memo):
            state.memo[i] = letter.memo[i]
        gone(params, state, context, number, action, letter.probability)

    return Parts(
        ask=make_ask(predict, counts_open),
        tell=tell,
        answer=kernel(answer_with_memo if memo else answer),
        lost=kernel(nothing if gone is None else lose_with_memo if memo else lose),
        replace=make_replace(replace),
        values=values,
        in_order=in_order,
    )


def parts_of(learner: Learner, numbers: bool = False) -> Parts:
    """The same from a learner; `numbers`: whether letters have the numbers of their predictions."""
    kernels = states.kernels(learner)
    return make_parts(*kernels, learner.memo, learner.counts_open, learner.values, learner.in_order, numbers)


@cache
def _steps(predict: Any, update: Any, replace: Any, lost: Any, counts_open: bool) -> tuple[Any, Any, Any, Any]:
    """What Python calls, over pools of one record: single records cost more to hand over."""
    ask, tell, gone = make_ask(predict, counts_open), make_tell(update, counts_open), make_lost(lost, counts_open)

    def ask_at(params, pool, context, instance, k0, k1):
        return ask(params[0], pool[0], context, instance, k0, k1)

    def tell_at(params, pool, context, number, action, probability, feedback):
        tell(params[0], pool[0], context, number, action, probability, feedback)

    def replace_at(params, pool, action):
        replace(params[0], pool[0], action)

    def lost_at(params, pool, context, number, action, probability):
        gone(params[0], pool[0], context, number, action, probability)

    return (
        kernel(ask_at),
        kernel(tell_at),
        None if replace is None else kernel(replace_at),
        None if gone is None else kernel(lost_at),
    )


@cache
def _step_among(predict_among: Any, counts_open: bool) -> Any:
    """The same for a choice among some actions."""

    def among_at(params, pool, context, allowed, instance, k0, k1):
        state = pool[0]
        state.predictions += 1
        draw = learner_draw(k0, k1, state.predictions, instance)
        return predict_among(params[0], state, context, allowed, draw)

    def among_and_count(params, pool, context, allowed, instance, k0, k1):
        state = pool[0]
        state.predictions += 1
        draw = learner_draw(k0, k1, state.predictions, instance)
        action, probability = predict_among(params[0], state, context, allowed, draw)
        if action != NEEDED:
            state.open += 1
        return action, probability

    return kernel(among_and_count if counts_open else among_at)


def supply(learner: Learner, params: Any, state: Any, times: int) -> None:
    """Give a state what it needs to predict; `times` says how often this prediction has asked by now."""
    if type(learner).supply is Learner.supply:
        raise BadPrediction(f"{learner!r} chose action {NEEDED}, which means that it needs something: it has no supply")
    if times > PATIENCE:
        raise BadPrediction(f"{learner!r} asks again and again, whatever its supply gives: {PATIENCE} times so far")
    learner.supply(params[0], state)


class Instance:
    """A learner spec at work. `number` is its place in the pool: it draws by that and by its own count.

    Instances of one learner share their parameters: the first makes them, the others are given `like` it. A `plain` one
    compiles nothing, and decides the same.
    """

    def __init__(
        self,
        learner: Learner,
        key: tuple[Any, Any],
        number: int,
        like: Instance | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.learner = learner
        self.actions = learner.actions
        self.tolerates_delay = learner.tolerates_delay
        self.states_probability = learner.states_probability
        self._points = learner.point_size
        self._blank: states.Records = states.blank(learner) if like is None else like._blank
        self._params: states.Records = states.params(learner) if like is None else like._params
        counts = learner.counts_open
        self._ask, self._tell, self._replace, self._lost = _steps(*states.kernels(learner), counts)
        self._among = None if learner.predict_among is None else _step_among(kernel(learner.predict_among), counts)
        if plain:
            self._blank, self._params = self._blank.view(states.PlainRecords), self._params.view(states.PlainRecords)
            steps = (self._ask, self._tell, self._replace, self._lost, self._among)
            self._ask, self._tell, self._replace, self._lost, self._among = (as_plain(step) for step in steps)
        self.state = self._blank.copy()
        self._bytes: memoryview = self.state.view(np.ndarray).view(np.uint8).data
        self._key = key
        self._number = number

    def blank(self) -> bytes:
        """The bytes of a fresh state; they are the same at every place in the pool."""
        return self._blank.tobytes()

    def become(self, number: int, state: bytes) -> None:
        """Take another place in the pool, with the state in these bytes."""
        self._number = number
        self._bytes[:] = state

    def grow_from(self, number: int, state: bytes, before: np.dtype[Any]) -> None:
        """Take the place and the state of one that had an action less; nothing is known of the new action.

        Only for learners that can grow; `before` is what the bytes are.
        """
        self.become(number, self.blank())
        states.widen(np.frombuffer(state, before), np.asarray(self.state))
        self.replace(self.actions - 1)

    def _calls(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """What Python calls, with arguments such as it will be given."""
        given = (self._params, self.state)
        context = np.zeros(self.learner.context_size)
        calls: list[Any] = [
            (self._ask, (*given, context, 0, *self._key)),
            (self._tell, (*given, context, 1, 0, 1.0, np.zeros(self.learner.feedback_size))),
        ]
        if self._lost is not None:
            calls.append((self._lost, (*given, context, 1, 0, 1.0)))
        if self._among is not None:
            calls.append((self._among, (*given, context, np.zeros(1, np.int64), 0, *self._key)))
        if self._replace is not None:
            calls.append((self._replace, (*given, 0)))
        return calls

    def compiled(self) -> bool:
        """Whether it can work without compiling anything first."""
        return all(compiled_for(*call) for call in self._calls())

    def compile(self) -> None:
        """Compile, or load from the cache, all that it will need."""
        try:
            for call in self._calls():
                compile_for(*call)
        except Exception as error:
            retell(error, self.learner)
            raise

    @property
    def predictions(self) -> int:
        """How many predictions it has made."""
        return int(self.state["predictions"][0])

    def predict(self, context: Any) -> tuple[int, float]:
        return self._said(self._ask, self._vector(context))

    def predict_among(self, context: Any, allowed: Sequence[int]) -> tuple[int, float]:
        """Choose among some actions, whose numbers rise; only for learners that have the kernel."""
        numbers = np.array(allowed, dtype=np.int64)
        return self._said(self._among, self._vector(context), numbers)

    def _said(self, step: Any, *given: Any) -> tuple[int, float]:
        """What the learner says when it is asked, and given what it needs for that."""
        times = 0
        while True:
            try:
                action, probability = step(self._params, self.state, *given, self._number, *self._key)
            except Exception as error:
                retell(error, self.learner)
                raise
            if action != NEEDED:
                break
            self.state["predictions"][0] -= 1
            times += 1
            supply(self.learner, self._params, self.state[0], times)
        if self._points and not np.isfinite(self.state["memo"][0][: self._points]).all():
            point = self.state["memo"][0][: self._points].tolist()
            raise BadPrediction(f"{self.learner!r} chose the point {point}, which is not finite")
        if type(action) is float:  # a kernel that forgot int(...)
            raise bad_answer(self.learner, (action, probability)) or BadPrediction(f"action {action}")
        return int(action), float(probability) if self.states_probability else math.nan

    def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
        self.answer(self.predictions, context, action, probability, feedback)

    def answer(
        self, number: int, context: Any, action: int, probability: float, feedback: Any, memo: Any = None
    ) -> None:
        """Update with the feedback of its prediction `number`, for which it wrote `memo`."""
        vector = self._vector(context)
        if memo is not None:
            self.state["memo"][0] = memo
        try:
            self._tell(self._params, self.state, vector, number, action, probability, feedback)
        except Exception as error:
            retell(error, self.learner)
            raise

    @property
    def hears_of_losses(self) -> bool:
        """Whether a prediction that will have no feedback changes its state."""
        return self._lost is not None

    def lost(self, number: int, context: Any, action: int, probability: float, memo: Any = None) -> None:
        """Its prediction `number` will have no feedback; action -1 if the action was replaced since."""
        if self._lost is None:
            return
        vector = self._vector(context)
        if memo is not None:
            self.state["memo"][0] = memo
        try:
            self._lost(self._params, self.state, vector, number, action, probability)
        except Exception as error:
            retell(error, self.learner)
            raise

    @property
    def memo(self) -> Any:
        """What it wrote down for its last prediction; None if it writes nothing."""
        return self.state["memo"][0].copy() if self.learner.memo else None

    def replace(self, action: int) -> None:
        """The action is retired and a new one takes its number; only for learners that have the kernel."""
        try:
            self._replace(self._params, self.state, action)
        except Exception as error:
            retell(error, self.learner)
            raise

    def _vector(self, context: Any) -> Any:
        vector = NO_CONTEXT if context is None else context
        if len(vector) != self.learner.context_size:
            raise InvalidArgument(f"{self.learner!r} takes a context of {self.learner.context_size}, got {context!r}")
        return vector

    def __reduce__(self) -> Any:
        return _revive, (self.learner, self._key, self._number, np.asarray(self.state))


def _revive(learner: Learner, key: tuple[Any, Any], number: int, state: Any) -> Instance:
    made = Instance(learner, key, number)
    made.state[:] = state
    return made
