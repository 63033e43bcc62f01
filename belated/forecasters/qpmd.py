"""QPM-D: queued partial monitoring with delays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.errors import Unsupported
from belated.forecasters.base import Forecaster
from belated.forecasters.process import MOST, shown
from belated.forecasters.room import AGAIN, Kernels, Letter, Parts, Room, Seat
from belated.kernels.compile import kernel
from belated.kernels.target import on_gpu
from belated.kernels.values import value_of
from belated.theory.theorems import QpmdTheorem

if TYPE_CHECKING:
    from belated.theory.case import Case, Counts
    from belated.theory.theorems import Theorem


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
    counts_asks = True
    keeps_order = True
    numbers_letters = reads_probability = False
    queues_feedback_only = True
    excludes = ("reward",)
    wants = (
        "QPM-D's theorem allows delays that depend on the action, but not on the reward, and whether they do cannot "
        "be known while feedback is out: look for an action with many decisions and few rewards, or a mean that drifts "
        "as its feedback comes in."
    )
    formula = "regret ≤ f(n) + Σ gap · G* of each action, where f(n) is the learner's bound without delay"
    about = (
        "QPM-D keeps feedback in a queue for each action until its learner asks for that action. Long queues for "
        "actions that are hardly played are normal."
    )

    @property
    def _values(self) -> int:
        """How many values of the side information there are; one if there is none."""
        return max(1, getattr(self.learner, "values", 0))

    @property
    def steps(self) -> int:
        """n': how often the learner was asked (1 + feedback consumed)."""
        return sum(self._room.asked or ())

    @property
    def queued(self) -> list[int]:
        """How much feedback waits in each action's queue; with side information, value after value."""
        queues = self._room.queues
        return [len(queues.get(queue, ())) for queue in range(self.queues())]

    @property
    def asked(self) -> list[int]:
        """T'_i: how often the learner asked for each action, pending queries included; likewise."""
        return list(self._room.asked or ())

    def queues(self) -> int:
        return self._values * (self.actions or 0)

    def check(self, learner: Any) -> None:
        name, called = self._title(), self._called()
        if learner.actions is None:
            raise Unsupported(
                f"{name} cannot play {called}: it has no queue for each of endlessly many predictions; "
                "use Direct or BOLD"
            )
        if self._spec is None:
            return
        if self._spec.point_size:
            raise Unsupported(
                f"{name} cannot play {called}: it has no queue for each of endlessly many points; use Direct or BOLD"
            )
        if self._spec.context_size and not self._spec.values:
            raise Unsupported(
                f"{name} cannot play {self._spec!r}: it has no queue for each of endlessly many contexts; "
                "PerContext takes a finite number of them"
            )

    def _title(self) -> str:
        return "QPM-D"

    def _keeps(self) -> str:
        return "it holds one and keeps queues of feedback"

    def check_context(self, context: Any) -> Any:
        if context is not None and not getattr(self.learner, "values", 0):
            raise Unsupported(
                f"{self!r} takes no side information, got {shown(context)}: see PerContext, "
                "which keeps one learner for each value of it"
            )
        return super().check_context(context)

    def layout(self) -> np.dtype[Any] | None:
        """For each value of the side information the action that is held, -1 if none is, and its probability."""
        return np.dtype([("held", [("action", "<i8"), ("probability", "<f8")], (self._values,))])

    def start(self, notes: Any) -> None:
        notes["held"]["action"] = -1
        notes["held"]["probability"] = 1.0

    def choose(self, room: Room, context: Any) -> tuple[Seat, Any, float]:
        return room.seat(), *self.query(room, context)

    def query(self, room: Room, context: Any) -> tuple[int, float]:
        """The action that the learner asks for, once all feedback that there is for such actions is consumed."""
        seat, value = room.seat(), self.value(context)
        held = room.notes["held"]
        action, probability = int(held["action"][value]), float(held["probability"][value])
        while True:
            if action >= 0:
                queue = value * (self.actions or 0) + action
                found = room.pop(queue)
                if found is None:
                    break
                self.consume(room, queue)
                held["action"][value] = -1
                self.feed(seat, context, action, probability, *found)
            action, probability = seat.ask(context)
        held["action"][value], held["probability"][value] = action, probability
        return action, probability

    def feed(self, seat: Seat, context: Any, action: int, probability: float, letter: Letter, feedback: Any) -> None:
        """The base's own pending query is answered, whichever ticket the feedback is of."""
        seat.tell(context, action, probability, feedback)

    def consume(self, room: Room, queue: int) -> None:
        """Feedback has left a queue."""

    def value(self, context: Any) -> int:
        """The value of the side information; 0 where there is none."""
        return int(context[0]) if getattr(self.learner, "values", 0) else 0

    def deliver(self, room: Room, letter: Letter, feedback: Any) -> None:
        room.push(self.value(letter.context) * (self.actions or 0) + letter.action, letter, feedback)

    def identities(self, counts: Counts) -> dict[str, Any]:
        # With side information the procedure is repeated for each value of it, and so is the identity.
        rows, steps = counts.cells, counts.summary["steps"]
        ahead = rows["pulls"] - rows["base"]
        # A cancelled prediction is never answered, so it adds to what the base has not seen.
        within = (ahead >= 0) & (ahead <= rows["peak"] + rows["cancelled"])
        return {
            "n' <= n": (steps >= 1) & (steps <= counts.n),
            "n' = sum of T'_i": steps == counts.tally["base"].sum(axis=1),
            "0 <= T_i - T'_i <= G*_i (+ cancelled)": within.reshape(len(steps), -1).all(axis=1),
        }

    def theorem(self, case: Case) -> Theorem | str:
        if case.by_reward:
            return "the delays depend on the reward, which QPM-D's theorem excludes"
        if case.means is None:
            return f"{type(self).__name__} has a bound for i.i.d. rewards only, of which the game states the means"
        if not case.has_base:
            return f"{type(case.learner).__name__} has no known bound without delay"
        return QpmdTheorem(case.learner, case.means, case.peaks, scale=case.scale)

    def kernels(self, parts: Parts) -> Kernels:
        values = parts.values

        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            for i in range(len(marks)):
                marks[i] = -1

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            block = value_of(context, values) * (2 * desk.actions + 2)
            append(slab, marks, block + 2 * slab[entry].action + 2, entry)
            return True

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            return False

        def back(desk, marks):
            pass

        nothing = kernel(back)
        return Kernels(kernel(begin), make_choose(parts), kernel(deliver), kernel(release), nothing, parts.replace)

    def marks(self, instances: int) -> int:
        return (2 * (self.actions or 0) + 2) * self._values


@kernel
def append(slab, marks, first, entry):
    """Put an entry at the end of the queue whose first and last are marks[first] and marks[first + 1]."""
    slab[entry].next = -1
    if marks[first] < 0:
        marks[first] = entry
    else:
        slab[marks[first + 1]].next = entry
    marks[first + 1] = entry


# One block of marks for each value of the side information: the action held, its probability (the bits of the number),
# then the first and the last entry of each action's queue, linked in the mailbox. -1: there is none.
@cache
def make_choose(parts: Parts, by_ticket: bool = False) -> Any:
    """The kernel that feeds and asks the base; `by_ticket`: with the ticket's probability, which is the wrong one."""
    ask, tell, values = parts.ask, parts.tell, parts.values

    def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
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
            if on_gpu() and marks[block + 2 * held + 2] >= 0:
                return AGAIN, 1.0  # neighbours play on meanwhile
        return held, probability

    return kernel(choose)
