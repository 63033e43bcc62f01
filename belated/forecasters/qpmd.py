"""QPM-D: queued partial monitoring with delays."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from belated.errors import Unsupported
from belated.forecasters.base import MOST, Forecaster, Kernels, Pending
from belated.forecasters.instance import Instance, make_ask, make_replace, make_tell
from belated.kernels.compile import kernel
from belated.protocols import Learner


class QPMD(Forecaster):
    """One instance and a queue of feedback per action: the learner lives in a world without delay.

    While the queue of the action it asks for has feedback, it is fed one and asked again; then the action it asks for
    is played, and held until its feedback comes. All of that happens when a prediction is made. For i.i.d. outcomes:
    E R_n <= E R^base_n + sum_i Delta_i E G*_{i,n}.

    The probability of a decision is that of the learner's pending query; it is not a propensity, since a held action
    is played for certain.

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

    def __init__(self, learner: Any, *, seed: int | None = None) -> None:
        super().__init__(learner, seed=seed)
        self._queues: list[deque[Any]] = [deque() for _ in range(self.actions)]
        self._held: tuple[int, float] | None = None
        self._steps = 0
        self._asked = [0] * self.actions

    @property
    def steps(self) -> int:
        """n': how often the learner was asked (1 + feedback consumed)."""
        return self._steps

    @property
    def queued(self) -> list[int]:
        """How much feedback waits in each action's queue."""
        return [len(queue) for queue in self._queues]

    @property
    def asked(self) -> list[int]:
        """T'_i: how often the learner asked for each action, its pending query included."""
        return list(self._asked)

    def _check_learner(self, learner: Any) -> None:
        if isinstance(self.learner, Learner) and self.learner.context_size:
            raise Unsupported(
                f"QPM-D cannot play {self.learner!r}: it has no queue for each of endlessly many contexts"
            )

    def check_replace(self) -> None:
        raise Unsupported(
            f"{self!r} cannot replace an action: it holds one and keeps queues of feedback; use Direct or BOLD"
        )

    def _check_context(self, context: Any) -> Any:
        if context is not None:
            raise Unsupported(f"QPM-D takes no side information, got {context!r}: use one QPMD per context value")
        return super()._check_context(context)

    def _choose(self, context: Any) -> tuple[int, int, float]:
        learner = self._instances[0]
        state = learner.state.copy() if isinstance(learner, Instance) else None
        before = self._held, self._steps, list(self._asked)
        consumed: list[tuple[int, Any]] = []
        try:
            while self._held is None or self._queues[self._held[0]]:
                if self._held is not None:
                    action, probability = self._held
                    learner.update(None, action, probability, self._queues[action][0])
                    consumed.append((action, self._queues[action].popleft()))
                    self._held = None
                self._hold(self._check_prediction(learner.predict(None)))
        except Exception:
            if state is not None:
                learner.state[:] = state
                self._held, self._steps, self._asked = before
                for action, feedback in reversed(consumed):
                    self._queues[action].appendleft(feedback)
            raise
        return 0, *self._held

    def _hold(self, said: tuple[int, float]) -> None:
        self._held = said
        self._steps += 1
        self._asked[said[0]] += 1

    def _deliver(self, pending: Pending, feedback: Any) -> None:
        self._queues[pending.action].append(feedback)

    def _arrays(self) -> dict[str, Any]:
        waiting = [(action, vector) for action, queue in enumerate(self._queues) for vector in queue]
        width = len(waiting[0][1]) if waiting else 1
        held = self._held or (-1, 1.0)
        return super()._arrays() | {
            "held": np.array([held[0], self._steps, *self._asked], dtype="i8"),
            "held_probability": np.array([held[1]], dtype="f8"),
            "queue_actions": np.array([action for action, _ in waiting], dtype="i8"),
            "queue_feedback": np.array([vector for _, vector in waiting], dtype="f8").reshape(-1, width),
        }

    def _restore(self, arrays: dict[str, Any]) -> None:
        super()._restore(arrays)
        action, self._steps, *self._asked = (int(x) for x in arrays["held"])
        self._held = (action, float(arrays["held_probability"][0])) if action >= 0 else None
        for queue_action, vector in zip(arrays["queue_actions"], arrays["queue_feedback"], strict=True):
            self._queues[int(queue_action)].append(vector.copy())

    @staticmethod
    def kernels(predict: Any, update: Any, replace: Any = None) -> Kernels:
        ask, tell = make_ask(predict), make_tell(update)

        def begin(desk, marks):
            for i in range(len(marks)):
                marks[i] = -1

        # marks[2 i] and marks[2 i + 1]: first and last entry of action i's queue, linked in the mailbox.
        def choose(desk, params, blank, pool, marks, slab, context, k0, k1, tally):
            state = pool[0]
            while desk.asked == 0 or marks[2 * desk.held] >= 0:
                if desk.asked:
                    entry = marks[2 * desk.held]
                    letter = slab[entry]
                    marks[2 * desk.held] = letter.next
                    tell(params, state, context, state.predictions, desk.held, desk.probability, letter.feedback)
                    letter.next = desk.free
                    desk.free = entry
                desk.held, desk.probability = ask(params, state, context, 0, k0, k1)
                if not (0 <= desk.held < len(tally) and 0.0 < desk.probability <= MOST):
                    desk.asked = 0
                    break
                desk.asked = 1
                desk.steps += 1
                desk.probability = min(desk.probability, 1.0)
                tally[desk.held].base += 1
            return desk.held, desk.probability

        def deliver(desk, params, pool, marks, slab, context, entry):
            letter = slab[entry]
            action = letter.action
            letter.next = -1
            if marks[2 * action] < 0:
                marks[2 * action] = entry
            else:
                slab[marks[2 * action + 1]].next = entry
            marks[2 * action + 1] = entry
            return True

        def release(desk, marks, instance):
            pass

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), make_replace(None))
