"""Paced: one learner, told at most once before each prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from belated.errors import Unsupported
from belated.forecasters.base import Forecaster
from belated.forecasters.direct import check_told_late
from belated.forecasters.qpmd import append
from belated.forecasters.room import Kernels, Letter, Parts, Room, Seat
from belated.kernels.compile import kernel

if TYPE_CHECKING:
    from belated.theory.case import Case
    from belated.theory.theorems import Theorem


class Paced(Forecaster):
    """One instance and one queue, first in, first out: before each prediction at most one feedback is told.

    Feedback comes in bursts; the learner hears of it at its own pace, with the context, the action, the probability,
    the memo and the number of the prediction that it answers. For learners of full information and of gradients: what a
    bandit does not hear of, it does not know of.

    >>> import belated as bl
    >>> f = bl.Paced(bl.Hedge(actions=2))
    >>> tickets = [f.predict().ticket for _ in range(3)]
    >>> for ticket in tickets:
    ...     f.update(ticket, [0.0, 1.0])
    >>> f.predict().ticket, f.queued
    (4, 2)
    """

    propensity = True
    chooses_among = tells_late = True
    numbers_letters = reads_probability = False
    about = "Paced tells its learner of one feedback before each decision: the others wait in a queue."

    def check(self, learner: Any) -> None:
        check_told_late("Paced", self._called(), learner)
        if self._spec is not None and self._spec.feedback in ("bandit", "symbol"):
            raise Unsupported(
                f"Paced cannot play {self._called()}, which learns from {self._spec.feedback} feedback: it is for "
                "learners of full information and of gradients; use Direct or BOLD"
            )

    def _keeps(self) -> str:
        return "it keeps a queue of feedback"

    @property
    def queued(self) -> int:
        """How much feedback waits."""
        return len(self._room.queues.get(0, ()))

    def queues(self) -> int:
        return 1

    def choose(self, room: Room, context: Any) -> tuple[Seat, Any, float]:
        seat = room.seat()
        found = room.pop(0)
        if found is not None:
            seat.answer(*found)
        return seat, *seat.ask(context)

    def deliver(self, room: Room, letter: Letter, feedback: Any) -> None:
        room.push(0, letter, feedback)

    def release(self, room: Room, letter: Letter) -> None:
        room.seat().lost(letter)

    def theorem(self, case: Case) -> Theorem | str:
        return "no theorem is stated for Paced: what waits in its queue is one more delay"

    def kernels(self, parts: Parts) -> Kernels:
        ask, answer, lost = parts.ask, parts.answer, parts.lost

        # marks[0], marks[1]: the first and the last entry that wait. -1: there is none. marks[2]: the round that was
        # told of last: a learner that needs something is asked twice in one round, and told once.
        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            marks[0] = -1
            marks[1] = -1
            marks[2] = 0

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            entry = marks[0]
            if entry >= 0 and marks[2] < round_:
                marks[2] = round_
                letter = slab[entry]
                marks[0] = letter.next
                answer(params, pool[0], contexts[entry], letter)
                letter.next = desk.free
                desk.free = entry
            return ask(params, pool[0], context, 0, k0, k1)

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            append(slab, marks, 0, entry)
            return True

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            letter = slab[entry]
            lost(params, pool[0], context, letter.round, letter, action)
            return False

        def back(desk, marks):
            pass

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), kernel(back), parts.replace)

    def marks(self, instances: int) -> int:
        return 3
