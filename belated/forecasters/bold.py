"""BOLD: black-box online learning under delayed feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from belated import require
from belated.errors import Unsupported
from belated.forecasters.base import Forecaster
from belated.forecasters.room import Kernels, Letter, Parts, Room, Seat
from belated.kernels.compile import kernel
from belated.kernels.natural import lowest_bit
from belated.kernels.values import value_of
from belated.theory.theorems import BoldTheorem, PoolsTheorem, TurnsTheorem

if TYPE_CHECKING:
    from belated.theory.case import Case, Counts
    from belated.theory.theorems import Theorem


class BOLD(Forecaster):
    """A pool of instances, each waiting for its own feedback; a new one is made when all are busy.

    Hands out the lowest-numbered free instance, so M_t = G*_t + 1 always. For a learner with regret bound f, any
    adversary, and delays that do not depend on actions: E R_n <= E[(G*_n + 1) f(n / (G*_n + 1))].

    With `pools="value"` there is a pool for each value of the side information of `PerContext`: a decision waits for
    feedback of its own value only, M_c = G*_c + 1, and the bound is the sum over values with their own n_c and G*_c.
    Instances are numbered in the order in which they are made, over all pools.

    Joulani, Gyorgy, Szepesvari, *Online Learning under Delayed Feedback*, ICML 2013, algorithm 1 and theorem 1.

    >>> import belated as bl
    >>> f = bl.BOLD(bl.Exp3(actions=4), seed=7)
    >>> decisions = [f.predict() for _ in range(3)]
    >>> f.update(decisions[1].ticket, 1.0)
    >>> f.instances, f.outstanding, f.peak
    (3, 2, 2)
    """

    pools: Literal["one", "value"] = "one"

    guarantee = "E[(G* + 1) f(n / (G* + 1))] over a learner with bound f; delays that ignore the action"
    grows = True
    keeps_order = True
    numbers_letters = reads_probability = keeps_letters = False
    propensity = True
    chooses_among = True
    replaces = True
    wants = (
        "BOLD's theorem wants delays that depend neither on the action nor on the outcome: look at the typical delay "
        "of each action."
    )
    formula = "regret ≤ (G* + 1) · f(n / (G* + 1)), where f(n) is the learner's bound without delay"
    about = (
        "BOLD gives each open decision a learner of its own. There are as many as were ever needed at once: the peak "
        "and one more, with a pool for each context that of each."
    )

    @property
    def seats(self) -> int:  # type: ignore[override]
        return 0 if self.by_value else 1

    @property
    def by_value(self) -> bool:
        """Whether each value of the side information has a pool of its own."""
        return self.pools == "value"

    def check(self, learner: Any) -> None:
        require.one_of("pools", self.pools, ("one", "value"))
        if self.by_value and not getattr(self._spec, "values", 0):
            raise Unsupported(
                f"BOLD with a pool for each value plays PerContext(learner, contexts), got {self._called()}: there "
                "are no values to tell apart"
            )

    def choose(self, room: Room, context: Any) -> tuple[Seat, Any, float]:
        seat = room.lowest_free(self.pool(context))
        return seat, *seat.ask(context)

    def pool(self, context: Any) -> int:
        return int(context[0]) if self.by_value else 0

    def deliver(self, room: Room, letter: Letter, feedback: Any) -> None:
        room.seat(letter.seat).tell(letter.context, letter.action, letter.probability, feedback)
        room.free(letter.seat)

    def release(self, room: Room, letter: Letter) -> None:
        room.seat(letter.seat).lost(letter)
        room.free(letter.seat)

    def identities(self, counts: Counts) -> dict[str, Any]:
        if not self.by_value:
            return {"M = G* + 1": counts.summary["instances"] == counts.summary["peak"] + 1}
        met = counts.pools["rounds"] > 0
        wanted = np.where(met, counts.pools["peak"] + 1, 0)
        return {
            "M_c = G*_c + 1 for each value": (counts.pools["instances"] == wanted).all(axis=1),
            "M = sum of M_c": counts.summary["instances"] == counts.pools["instances"].sum(axis=1),
        }

    def theorem(self, case: Case) -> Theorem | str:
        if case.by_action:
            return "the delays depend on the action, which BOLD's theorem excludes"
        if case.by_reward:
            return "the delays depend on the reward, which BOLD's theorem excludes"
        learner = case.learner
        if learner.bound(1.0) is None:
            if learner.bound_in(1) is not None and not self.by_value:
                return self._in_turns(case)
            reason = self._no_base(case)
            if reason is not None:
                return f"{type(learner).__name__} has no known bound {reason}"
        if not self.by_value:
            return BoldTheorem(learner, case.peak, case.means, scale=case.scale)
        if case.pool_rounds is None or case.pool_peaks is None:
            return "nobody counted the decisions of each value of the side information"
        return PoolsTheorem(learner, case.pool_rounds, case.pool_peaks, case.n, scale=case.scale)

    def _in_turns(self, case: Case) -> Theorem | str:
        """With a learner whose bound is for a number of rounds."""
        name = type(case.learner).__name__
        if not case.constant:
            return f"the bound of {name} is for a known number of rounds, and only a constant delay says how many"
        turns = int(case.peak.max()) + 1
        found = TurnsTheorem(case.learner, turns, scale=case.scale)
        if found.raw(case.n) is None:
            return f"an instance has {-(-case.n // turns)} rounds, for which {case.learner!r} has no bound"
        return found

    def _no_base(self, case: Case) -> str | None:
        """Why a learner without a bound against adversaries has none that will do."""
        if case.means is None or self.by_value:
            return "against an adversary"
        if case.learner.stochastic_bound(1.0, case.means) is not None:
            return None
        if case.learner.stochastic_bound(3.0, case.means) is None:
            return "of the form needed, with the gaps between the actions or without"
        return "of the form needed: the one with the gaps between the actions is not for every number of rounds"

    def kernels(self, parts: Parts) -> Kernels:
        ask, tell, lost = parts.ask, parts.tell, parts.lost
        by_value, pools = self.by_value, parts.values

        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            for i in range(len(marks)):
                marks[i] = 0
            if by_value:
                desk.instances = 0
            else:
                give_back(desk, marks, 0)

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            if desk.outstanding == desk.instances:
                instance = desk.instances
                pool[instance] = blank[0]
                desk.instances += 1
            else:
                instance = take_lowest(desk, marks)
            desk.instance = instance
            return ask(params, pool[instance], context, instance, k0, k1)

        def choose_by_value(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            value = value_of(context, pools)
            if marks[2 * value] == 0:
                instance = desk.instances
                pool[instance] = blank[0]
                desk.instances += 1
            else:
                instance = take_lowest_of(marks, pools, value)
            desk.instance = instance
            return ask(params, pool[instance], context, instance, k0, k1)

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            letter = slab[entry]
            state = pool[letter.instance]
            number = state.predictions
            tell(params, state, context, number, letter.action, letter.probability, letter.feedback)
            if by_value:
                give_back_to(marks, pools, value_of(context, pools), letter.instance)
            else:
                give_back(desk, marks, letter.instance)
            return False

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            letter = slab[entry]
            state = pool[letter.instance]
            lost(params, state, context, state.predictions, letter, action)
            if by_value:
                give_back_to(marks, pools, value_of(context, pools), letter.instance)
            else:
                give_back(desk, marks, letter.instance)
            return False

        def back(desk, marks):
            if by_value:
                give_back_to(marks, pools, desk.value, desk.instance)
            else:
                give_back(desk, marks, desk.instance)

        return Kernels(
            kernel(begin),
            kernel(choose_by_value if by_value else choose),
            kernel(deliver),
            kernel(release),
            kernel(back),
            parts.replace,
        )

    def marks(self, instances: int) -> int:
        pools = self.learner.values if self.by_value else 1
        return pools * (3 + (instances >> SHIFT))


#: Instances that a word of marks stands for.
SHIFT = 5
WORD = 1 << SHIFT


@kernel
def take_lowest(desk, marks):
    """The lowest free instance, now busy. A set bit means free; `desk.hint` is a word below which none is set."""
    word = desk.hint
    while marks[word] == 0:
        word += 1
    desk.hint = word
    bit = lowest_bit(marks[word])
    marks[word] &= marks[word] - 1
    return (word << SHIFT) + bit


@kernel
def give_back(desk, marks, instance):
    """The instance is free again."""
    word = instance >> SHIFT
    marks[word] |= np.int64(1) << np.int64(instance & (WORD - 1))
    desk.hint = min(desk.hint, word)


# With several pools: of each how many are free, and a word below which none is; then the words of all pools in turn.


@kernel
def take_lowest_of(marks, pools, pool):
    """The lowest free instance of a pool, now busy."""
    word = marks[2 * pool + 1]
    while marks[(2 + word) * pools + pool] == 0:
        word += 1
    at = (2 + word) * pools + pool
    bit = lowest_bit(marks[at])
    marks[at] &= marks[at] - 1
    marks[2 * pool] -= 1
    marks[2 * pool + 1] = word
    return (word << SHIFT) + bit


@kernel
def give_back_to(marks, pools, pool, instance):
    """The instance of a pool is free again."""
    word = instance >> SHIFT
    marks[(2 + word) * pools + pool] |= np.int64(1) << np.int64(instance & (WORD - 1))
    marks[2 * pool] += 1
    marks[2 * pool + 1] = min(marks[2 * pool + 1], word)
