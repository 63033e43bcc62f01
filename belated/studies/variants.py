"""Variants that exist only to show what a rule buys. They are in no catalog and cannot be saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.errors import Unsupported
from belated.forecasters import BOLD, QPMD
from belated.forecasters.base import Forecaster, Kernels
from belated.forecasters.instance import make_ask, make_tell
from belated.forecasters.qpmd import make_choose
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.learners.ucb1 import UCB1, widest, width_now
from belated.protocols import Decision

#: A stream of its own, beside those of belated.kernels.random: which free instance RandomBOLD hands out.
CHOICE = np.uint64(5)


@kernel
def place(k0, k1, round_, count):
    """A place below count, uniform; it looks at nothing but the round."""
    return int(count * uniform((k0, k1, np.uint64(round_), np.uint64(0), CHOICE), 0))


class Unsaved(Forecaster):
    """A forecaster that `from_bytes` would not know."""

    def to_bytes(self) -> bytes:
        raise Unsupported(f"{self!r} cannot be saved: it exists for studies only")


class RandomBOLD(Unsaved, BOLD):
    """BOLD that hands out a uniformly random free instance instead of the lowest-numbered one (design rule 4).

    The choice does not look at predictions, so BOLD's theorem covers it, and M = G* + 1 as ever.
    """

    def _choose(self, context: Any) -> tuple[int, int, float]:
        if not self._free:
            return super()._choose(context)
        at = int(place(*self._key, self._issued + 1, len(self._free)))
        instance = self._free[at]
        action, probability = self._ask(instance, context)
        self._free[at] = self._free[-1]
        self._free.pop()
        return instance, action, probability

    def _deliver(self, made: Decision, context: Any, instance: int, number: int, feedback: Any) -> None:
        self._instances[instance].update(context, made.action, made.probability, feedback)
        self._free.append(instance)

    def _release(self, instance: int) -> None:
        self._free.append(instance)

    @staticmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        ask, tell = make_ask(predict), make_tell(update)

        # marks[0], ..., marks[desk.hint - 1]: the free instances, in any order.
        def begin(desk, marks):
            desk.hint = 0
            put_back(desk, marks, 0)

        def choose(desk, params, blank, pool, marks, slab, context, k0, k1, tally):
            if desk.hint == 0:
                instance = desk.instances
                pool[instance] = blank[0]
                desk.instances += 1
            else:
                round_ = 1
                for i in range(len(tally)):
                    round_ += tally[i].pulls
                at = place(k0, k1, round_, desk.hint)
                instance = marks[at]
                desk.hint -= 1
                marks[at] = marks[desk.hint]
            desk.instance = instance
            return ask(params, pool[instance], context, instance, k0, k1)

        def deliver(desk, params, pool, marks, slab, context, entry):
            letter = slab[entry]
            state = pool[letter.instance]
            number = state.predictions
            tell(params, state, context, number, letter.action, letter.probability, letter.feedback)
            put_back(desk, marks, letter.instance)
            return False

        def release(desk, marks, instance):
            put_back(desk, marks, instance)

        usual = BOLD.kernels(predict, update, replace, values)
        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), usual.replace)


@kernel
def put_back(desk, marks, instance):
    """The instance is free again: it joins the end of the list."""
    marks[desk.hint] = instance
    desk.hint += 1


@dataclass(frozen=True)
class LowestUCB1(UCB1):
    """UCB1 that breaks ties by the lowest number alone, not by the fewest predictions first (design rule 2).

    It does not count its predictions, so all actions have been predicted equally often, for all it knows.
    """

    @staticmethod
    def predict(params, state, context, draw):
        return widest(state.mean, state.radius, state.predicted, width_now(state)), 1.0


class TicketQPMD(Unsaved, QPMD):
    """QPM-D that feeds the base with the probability of the ticket whose feedback is consumed (design rule 6).

    That is the wrong one: the base's pending query was made with another. No theorem covers it.
    """

    def _choose(self, context: Any) -> tuple[int, int, float]:
        held = self._held[0]
        while held is None or self._queues[held[0]]:
            if held is not None:
                probability, feedback = self._queues[held[0]].popleft()
                self._instances[0].update(None, held[0], probability, feedback)
            held = self._hold(0, self._ask(0, None))
        return 0, *held

    def _deliver(self, made: Decision, context: Any, instance: int, number: int, feedback: Any) -> None:
        self._queues[made.action].append((made.probability, feedback))

    @staticmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        ask, tell = make_ask(predict), make_tell(update)
        usual = QPMD.kernels(predict, update, replace, values)
        return usual._replace(choose=make_choose(ask, tell, values, by_ticket=True))
