"""Direct: the learner itself, told late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from belated.errors import Unsupported
from belated.forecasters.base import Forecaster
from belated.forecasters.room import Kernels, Letter, Parts, Room, Seat
from belated.kernels.compile import kernel
from belated.protocols import Learner
from belated.theory.theorems import DirectTheorem, PeakTheorem, TotalTheorem

if TYPE_CHECKING:
    from belated.theory.case import Case
    from belated.theory.theorems import Theorem


class Direct(Forecaster):
    """One instance that predicts every round and is updated whenever feedback comes (the paper's white box).

    Right for learners whose update tolerates delay. An update gets the context, the probability, the memo and the
    number of the prediction that it answers. `DelayedUCB1` and `DelayedKLUCB` are this over UCB1 and KLUCB, with the
    theorems of the paper's section 4; over other learners it is a heuristic, unless they state a bound under delay.

    A learner that says `in_order` is told in the order of its predictions: what comes too early is held back.

    >>> import belated as bl
    >>> f = bl.Direct(bl.UCB1(actions=2))
    >>> first, second = f.predict(), f.predict()
    >>> f.update(second.ticket, 1.0)
    >>> f.predict().action, f.outstanding, f.peak
    (0, 2, 1)
    """

    guarantee = (
        "with ucb1: sum_i 8 ln n / gap_i + 3.5 gap_i + gap_i E G*_i, i.i.d. rewards; with klucb explicit; that of a "
        "learner that says 'told directly'"
    )
    propensity = True
    chooses_among = True
    plays_reactive = True
    keeps_order = tells_late = True
    numbers_letters = reads_probability = False
    excludes = ("reward",)
    wants = (
        "Direct's theorems allow delays that depend on the action, but not on the reward, and whether they do cannot "
        "be known while feedback is out: look for an action with many decisions and few rewards, or a mean that drifts "
        "as its feedback comes in."
    )
    formula = "regret ≤ f(n) + Σ gap · G* of each action, by the theorem of this learner under delay"
    about = (
        "Direct has one learner, which is told of feedback as it comes. What delay costs depends on the most decisions "
        "for an action that were open at once."
    )

    def check(self, learner: Any) -> None:
        check_told_late("Direct", self._called(), learner)

    @property
    def replaces(self) -> bool:  # type: ignore[override]
        """Not if it holds feedback back: that might tell of an action that was replaced since."""
        return not self.in_order

    @property
    def in_order(self) -> bool:
        """Whether feedback is held back until that of all earlier predictions is in."""
        return bool(getattr(self._spec or self._room.seats[0].learner, "in_order", False))

    @property
    def keeps_letters(self) -> bool:  # type: ignore[override]
        return self.in_order

    def layout(self) -> np.dtype[Any] | None:
        return np.dtype([("told", "i8")]) if self.in_order else None

    def choose(self, room: Room, context: Any) -> tuple[Seat, Any, float]:
        seat = room.seat()
        if self.in_order:
            self._tell_those_whose_turn_it_is(room, seat)
        return seat, *seat.ask(context)

    def deliver(self, room: Room, letter: Letter, feedback: Any) -> None:
        if self.in_order:
            room.push(letter.number, letter, feedback)  # a queue for each prediction
        else:
            room.seat().answer(letter, feedback)

    def release(self, room: Room, letter: Letter) -> None:
        room.seat().lost(letter)
        if self.in_order:
            room.push(letter.number, letter, None)

    def _tell_those_whose_turn_it_is(self, room: Room, seat: Seat) -> None:
        while (due := room.pop(int(room.notes["told"]) + 1)) is not None:
            room.notes["told"] += 1
            if due[1] is not None:  # it has feedback
                seat.answer(*due)

    def marks(self, instances: int) -> int:
        return 3 if self.in_order else 0

    def theorem(self, case: Case) -> Theorem | str:
        learner, name = case.learner, type(case.learner).__name__
        if case.by_reward and not learner.any_delays:
            return "the delays depend on the reward, which the theorems about Direct exclude"
        if learner.keeps and (case.longest is None or case.longest >= learner.keeps):
            return f"feedback may be {learner.keeps} rounds late or more, which {name} drops"
        total = case.total
        known = None if total is None else learner.bound_under_delay(case.n, float(total.mean()))
        if known is not None and total is not None and not case.by_action:
            return TotalTheorem(learner, total, scale=case.scale)
        peaked = learner.bound_at_peak(case.n, float(case.peak.max()), case.constant)
        if peaked is not None and not case.by_action:
            return PeakTheorem(learner, case.peak, case.constant, scale=case.scale)
        excluded = f"the delays depend on the action, which the bound of {name} under delay excludes"
        if case.means is None:
            if known is not None or peaked is not None:
                return excluded
            if learner.point_size:
                return f"no theorem bounds {name} with these steps and delays"
            if type(learner).bound_at_peak is not Learner.bound_at_peak:
                return f"no theorem bounds {name} as it is set, with these delays"
            return "Direct has a bound for i.i.d. rewards only, of which the game states the means"
        peak = None if case.by_action else case.peak
        mean = None if peak is None else float(peak.mean())
        said = learner.delayed_bound(case.n, case.means, case.peaks.mean(axis=0), mean)
        if isinstance(said, str):
            return said if known is None and peaked is None else excluded
        return DirectTheorem(learner, case.means, case.peaks, peak, scale=case.scale)

    def kernels(self, parts: Parts) -> Kernels:
        ask, answer, lost = parts.ask, parts.answer, parts.lost

        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            pass

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            return ask(params, pool[0], context, 0, k0, k1)

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            answer(params, pool[0], context, slab[entry])
            return False

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            letter = slab[entry]
            lost(params, pool[0], context, letter.round, letter, action)
            return False

        def back(desk, marks):
            pass

        simple = Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), kernel(back), parts.replace)
        return lined_up(simple, parts) if parts.in_order else simple


def lined_up(simple: Kernels, parts: Parts) -> Kernels:
    """The kernels of Direct for a learner that is told in order.

    marks[0]: up to which round it was told; marks[1], marks[2]: the first and the last of the entries that wait, which
    are linked in the order of their rounds, both ways (`due` is the one before); -1 if there is none. A new one is near
    the end, however many wait.
    """
    ask, answer, lost = parts.ask, parts.answer, parts.lost

    def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
        marks[0] = 0
        marks[1] = -1
        marks[2] = -1

    def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
        while marks[1] >= 0 and slab[marks[1]].round == marks[0] + 1:
            first = marks[1]
            letter = slab[first]
            marks[0] += 1
            marks[1] = letter.next
            if letter.next < 0:
                marks[2] = -1
            else:
                slab[letter.next].due = -1
            if letter.cancelled == 0:
                answer(params, pool[0], contexts[first], letter)
            letter.next = desk.free
            desk.free = first
        return ask(params, pool[0], context, 0, k0, k1)

    def line_up(marks, slab, entry):
        behind, following = marks[2], -1
        while behind >= 0 and slab[behind].round > slab[entry].round:
            behind, following = slab[behind].due, behind
        slab[entry].next = following
        slab[entry].due = behind
        if behind < 0:
            marks[1] = entry
        else:
            slab[behind].next = entry
        if following < 0:
            marks[2] = entry
        else:
            slab[following].due = entry
        return True

    wait = kernel(line_up)

    def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
        return wait(marks, slab, entry)

    def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
        letter = slab[entry]
        lost(params, pool[0], context, letter.round, letter, action)
        letter.cancelled = 1
        return wait(marks, slab, entry)

    return simple._replace(begin=kernel(begin), choose=kernel(choose), deliver=kernel(deliver), release=kernel(release))


def check_told_late(name: str, called: str, learner: Any) -> None:
    """Refuse a learner that cannot be told of any other prediction than its last."""
    if not getattr(learner, "tolerates_delay", True):
        needs = getattr(learner, "needs", None) or "what it keeps for its last prediction only"
        raise Unsupported(f"{name} cannot play {called}: its update needs {needs}; use BOLD")
