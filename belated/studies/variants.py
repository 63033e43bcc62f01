"""Variants that exist only to show what a rule buys. They are in no catalog and cannot be saved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.errors import Unsupported
from belated.forecasters import BOLD, QPMD
from belated.forecasters.bold import SHIFT
from belated.forecasters.qpmd import make_choose
from belated.forecasters.room import Kernels, Letter, Parts, Seat
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.natural import lowest_bit
from belated.kernels.random import uniform
from belated.kernels.simplex import exponential_weights, pick
from belated.learners.ucb1 import UCB1, widest, width_now
from belated.protocols import Learner
from belated.theory import bounds

#: A stream of its own, beside those of belated.kernels.random: which free instance RandomBOLD hands out.
CHOICE = np.uint64(5)


@kernel
def place(k0, k1, round_, count):
    """A place below count, uniform; it looks at nothing but the round."""
    return int(count * uniform((k0, k1, np.uint64(round_), np.uint64(0), CHOICE), 0))


class RandomBOLD(BOLD):
    """BOLD that hands out a uniformly random free instance instead of the lowest-numbered one (design rule 4).

    The choice does not look at predictions, so BOLD's theorem covers it, and M = G* + 1 as ever.
    """

    theorem = BOLD.theorem
    identities = BOLD.identities
    replaces = propensity = keeps_order = True
    numbers_letters = False

    def check(self, learner: Any) -> None:
        super().check(learner)
        if self.by_value:
            raise Unsupported("RandomBOLD has one pool")

    def to_bytes(self) -> bytes:
        raise Unsupported(f"{self!r} cannot be saved: it exists for studies only")

    def choose(self, room: Any, context: Any) -> tuple[Seat, Any, float]:
        free = sorted(room.idle.get(0, ()))
        if not free:
            return super().choose(room, context)
        chosen = free[int(place(*room.key, room.round, len(free)))]
        seats = [room.lowest_free() for _ in range(free.index(chosen) + 1)]
        for seat in seats[:-1]:
            room.free(seat.number)
        return seats[-1], *seats[-1].ask(context)

    def kernels(self, parts: Parts) -> Kernels:
        usual, ask = super().kernels(parts), parts.ask

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            free = desk.instances - desk.outstanding
            if free == 0:
                instance = desk.instances
                pool[instance] = blank[0]
                desk.instances += 1
            else:
                instance = take_nth(marks, place(k0, k1, round_, free))
            desk.instance = instance
            return ask(params, pool[instance], context, instance, k0, k1)

        return usual._replace(choose=kernel(choose))


@kernel
def take_nth(marks, count):
    """The free instance that `count` lower ones are free before, now busy."""
    word, rest = 0, marks[0]
    while True:
        while rest == 0:
            word += 1
            rest = marks[word]
        bit = lowest_bit(rest)
        if count == 0:
            marks[word] ^= np.int64(1) << bit
            return (word << SHIFT) + bit
        count -= 1
        rest &= rest - 1


@dataclass(frozen=True)
class LowestUCB1(UCB1):
    """UCB1 that breaks ties by the lowest number alone, not by the fewest predictions first (design rule 2).

    It does not count its predictions, so all actions have been predicted equally often, for all it knows. The theorems
    allow any rule for ties.
    """

    bound = UCB1.bound
    stochastic_bound = UCB1.stochastic_bound
    delayed_bound = UCB1.delayed_bound

    @staticmethod
    def predict(params, state, context, draw):
        return widest(state.mean, state.radius, state.predicted, width_now(state)), 1.0


@dataclass(frozen=True)
class PolicyExp4(Learner):
    """Exp4 over policies that it knows: it is shown the number of a context, and looks up what each says there.

    It plays, and charges the policies, as Exp4 does that is shown all their advice: 2 sqrt(n K ln N) for N of them.
    """

    weighs = True
    comparator = "policy"
    reads_answering = False
    context_size = 1
    policies: tuple[tuple[int, ...], ...]
    actions: int

    def layout(self) -> np.dtype[Any]:
        count = (len(self.policies),)
        return np.dtype([("loss", "f8", count), ("weight", "f8", count), ("chance", "f8", (self.actions,))])

    def params(self) -> dict[str, Any]:
        return {"choice": np.array(self.policies)}

    @staticmethod
    def predict(params, state, context, draw):
        count = len(state.loss)
        rate = math.sqrt(log(float(count)) / (float(len(state.chance)) * float(state.predictions)))
        total = exponential_weights(state.loss, rate, state.weight)
        for a in range(len(state.chance)):
            state.chance[a] = 0.0
        for i in range(count):
            state.chance[params.choice[i, int(context[0])]] += state.weight[i]
        action = pick(state.chance, total, uniform(draw, 0))
        return action, state.chance[action] / total

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        for i in range(len(state.loss)):
            if params.choice[i, int(context[0])] == action:
                state.loss[i] += (1.0 - feedback[0]) / probability

    def bound(self, n: float) -> float:
        return bounds.exp4(n, self.actions, len(self.policies))


class TicketQPMD(QPMD):
    """QPM-D that feeds the base with the probability of the ticket whose feedback is consumed (design rule 6).

    That is the wrong one: the base's pending query was made with another. No theorem covers it.
    """

    queues_feedback_only = False
    identities = QPMD.identities
    numbers_letters = False

    def to_bytes(self) -> bytes:
        raise Unsupported(f"{self!r} cannot be saved: it exists for studies only")

    def feed(self, seat: Seat, context: Any, action: int, probability: float, letter: Letter, feedback: Any) -> None:
        seat.tell(context, action, letter.probability, feedback)

    def theorem(self, case: Any) -> str:
        return "no theorem covers feedback that is weighed by the probability of another prediction"

    def kernels(self, parts: Parts) -> Kernels:
        return super().kernels(parts)._replace(choose=make_choose(parts, by_ticket=True))
