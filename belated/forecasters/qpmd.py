"""QPM-D: queued partial monitoring with delays."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

import numpy as np

from belated.errors import Unsupported
from belated.forecasters.base import MOST, Forecaster, Kernels, check_prediction, shown
from belated.forecasters.instance import Instance, make_ask, make_replace, make_tell
from belated.kernels.compile import kernel
from belated.kernels.values import value_of
from belated.protocols import Decision


class QPMD(Forecaster):
    """One instance and a queue of feedback per action: the learner lives in a world without delay.

    While the queue of the action it asks for has feedback, it is fed one and asked again; then the action it asks for
    is played, and held until its feedback comes. All of that happens when a prediction is made. For i.i.d. outcomes:
    E R_n <= E R^base_n + sum_i Delta_i E G*_{i,n}.

    The probability of a decision is that of the learner's pending query; it is not a propensity, since a held action
    is played for certain.

    With side information of finitely many values (`PerContext`) there is all of this once for each value.

    Joulani, Gyorgy, Szepesvari, *Online Learning under Delayed Feedback*, ICML 2013, algorithm 2 and theorem 6.

    >>> import belated as bl
    >>> f = bl.QPMD(bl.UCB1(actions=2))
    >>> [f.predict().action for _ in range(3)]
    [0, 0, 0]
    >>> f.update(2, 1.0)
    >>> f.predict().action, f.steps
    (1, 2)
    """

    guarantee = "R_base(n) + sum_i gap_i E G*_i, i.i.d. rewards"
    actions: int

    def __init__(self, learner: Any, *, seed: int | None = None) -> None:
        super().__init__(learner, seed=seed)
        cells = self._values * self.actions
        self._queues: list[deque[Any]] = [deque() for _ in range(cells)]
        self._held: list[tuple[int, float] | None] = [None] * self._values
        self._steps = 0
        self._asked = [0] * cells

    @property
    def _values(self) -> int:
        """How many values of the side information there are; one if there is none."""
        return max(1, getattr(self.learner, "values", 0))

    @property
    def steps(self) -> int:
        """n': how often the learner was asked (1 + feedback consumed)."""
        return self._steps

    @property
    def queued(self) -> list[int]:
        """How much feedback waits in each action's queue; with side information, value after value."""
        return [len(queue) for queue in self._queues]

    @property
    def asked(self) -> list[int]:
        """T'_i: how often the learner asked for each action, pending queries included; likewise."""
        return list(self._asked)

    def _check_learner(self, learner: Any) -> None:
        if learner.actions is None:
            raise Unsupported(
                f"QPM-D cannot play {self._called()}: it has no queue for each of endlessly many predictions; "
                "use Direct or BOLD"
            )
        if self._spec is not None and self._spec.context_size and not self._spec.values:
            raise Unsupported(
                f"QPM-D cannot play {self._spec!r}: it has no queue for each of endlessly many contexts; "
                "PerContext takes a finite number of them"
            )

    def check_replace(self) -> None:
        raise Unsupported(
            f"{self!r} cannot replace an action: it holds one and keeps queues of feedback; use Direct or BOLD"
        )

    def check_grow(self) -> None:
        raise Unsupported(
            f"{self!r} cannot get one more action: it holds one and keeps queues of feedback; use Direct or BOLD"
        )

    def _check_context(self, context: Any) -> Any:
        if context is not None and not getattr(self.learner, "values", 0):
            raise Unsupported(
                f"{self!r} takes no side information, got {shown(context)}: see PerContext, "
                "which keeps one learner for each value of it"
            )
        return super()._check_context(context)

    def _value(self, context: Any) -> int:
        return 0 if context is None else int(context[0])

    def _choose(self, context: Any) -> tuple[int, int, float]:
        learner = self._instances[0]
        state = learner.state.copy() if isinstance(learner, Instance) else None
        value = self._value(context)
        first = value * self.actions
        before = self._held[value], self._steps, list(self._asked)
        consumed: list[tuple[int, Any]] = []
        held = self._held[value]
        try:
            while held is None or self._queues[first + held[0]]:
                if held is not None:
                    queue = self._queues[first + held[0]]
                    learner.update(context, *held, queue[0])
                    consumed.append((held[0], queue.popleft()))
                    self._held[value] = None
                held = self._hold(value, check_prediction(self, learner.predict(context)))
        except Exception:
            if state is not None:
                learner.state[:] = state
                self._held[value], self._steps, self._asked = before
                for action, feedback in reversed(consumed):
                    self._queues[first + action].appendleft(feedback)
            raise
        return 0, *held

    def _hold(self, value: int, said: tuple[int, float]) -> tuple[int, float]:
        self._held[value] = said
        self._steps += 1
        self._asked[value * self.actions + said[0]] += 1
        return said

    def _deliver(self, made: Decision, context: Any, instance: int, number: int, feedback: Any) -> None:
        self._queues[self._value(context) * self.actions + made.action].append(feedback)

    def _arrays(self) -> dict[str, Any]:
        waiting = [(cell, vector) for cell, queue in enumerate(self._queues) for vector in queue]
        width = len(waiting[0][1]) if waiting else 1
        held = [pair or (-1, 1.0) for pair in self._held]
        return super()._arrays() | {
            "held": np.array([*(action for action, _ in held), self._steps, *self._asked], dtype="i8"),
            "held_probability": np.array([probability for _, probability in held], dtype="f8"),
            "queue_actions": np.array([cell for cell, _ in waiting], dtype="i8"),
            "queue_feedback": np.array([vector for _, vector in waiting], dtype="f8").reshape(-1, width),
        }

    def _restore(self, arrays: dict[str, Any]) -> None:
        super()._restore(arrays)
        numbers = [int(x) for x in arrays["held"]]
        held, self._steps, self._asked = numbers[: self._values], numbers[self._values], numbers[self._values + 1 :]
        pairs = zip(held, arrays["held_probability"], strict=True)
        self._held = [(action, float(probability)) if action >= 0 else None for action, probability in pairs]
        for cell, vector in zip(arrays["queue_actions"], arrays["queue_feedback"], strict=True):
            self._queues[int(cell)].append(vector.copy())

    @staticmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        ask, tell = make_ask(predict), make_tell(update)

        def begin(desk, marks):
            for i in range(len(marks)):
                marks[i] = -1

        def deliver(desk, params, pool, marks, slab, context, entry):
            letter = slab[entry]
            letter.next = -1
            block = value_of(context, values) * (2 * desk.actions + 2)
            first = block + 2 * letter.action + 2
            if marks[first] < 0:
                marks[first] = entry
            else:
                slab[marks[first + 1]].next = entry
            marks[first + 1] = entry
            return True

        def release(desk, marks, instance):
            pass

        return Kernels(
            kernel(begin), make_choose(ask, tell, values), kernel(deliver), kernel(release), make_replace(None)
        )


# One block of marks for each value of the side information: the action held, its probability (the bits of the number),
# then the first and the last entry of each action's queue, linked in the mailbox. -1: there is none.
@cache
def make_choose(ask: Any, tell: Any, values: int, by_ticket: bool = False) -> Any:
    """The kernel that feeds and asks the base; `by_ticket`: with the ticket's probability, which is the wrong one."""

    def choose(desk, params, blank, pool, marks, slab, context, k0, k1, tally):
        state = pool[0]
        value = value_of(context, values)
        block = value * (2 * desk.actions + 2)
        held = marks[block]
        probability = np.int64(marks[block + 1]).view(np.float64)
        while held < 0 or marks[block + 2 * held + 2] >= 0:
            if held >= 0:
                entry = marks[block + 2 * held + 2]
                letter = slab[entry]
                marks[block + 2 * held + 2] = letter.next
                given = letter.probability if by_ticket else probability
                tell(params, state, context, state.predictions, held, given, letter.feedback)
                letter.next = desk.free
                desk.free = entry
                marks[block] = -1
            held, probability = ask(params, state, context, 0, k0, k1)
            if not (0 <= held < desk.actions and 0.0 < probability <= MOST):
                break
            probability = min(probability, 1.0)
            marks[block] = held
            marks[block + 1] = np.float64(probability).view(np.int64)
            desk.steps += 1
            tally[held].base += 1
            if values:
                tally[(1 + value) * desk.actions + held].base += 1
        return held, probability

    return kernel(choose)
