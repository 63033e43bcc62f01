"""BOLD: black-box online learning under delayed feedback."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from belated.forecasters.base import Forecaster, Kernels
from belated.forecasters.instance import make_ask, make_replace, make_tell
from belated.kernels.compile import kernel
from belated.protocols import Decision


class BOLD(Forecaster):
    """A pool of instances, each waiting for its own feedback; a new one is made when all are busy.

    Hands out the lowest-numbered free instance, so M_t = G*_t + 1 always. For a learner with regret bound f, any
    adversary, and delays that do not depend on actions: E R_n <= E[(G*_n + 1) f(n / (G*_n + 1))].

    Joulani, Gyorgy, Szepesvari, *Online Learning under Delayed Feedback*, ICML 2013, algorithm 1 and theorem 1.

    >>> import belated as bl
    >>> f = bl.BOLD(bl.Exp3(actions=4), seed=7)
    >>> decisions = [f.predict() for _ in range(3)]
    >>> f.update(decisions[1].ticket, 1.0)
    >>> f.instances, f.outstanding, f.peak
    (3, 2, 2)
    """

    guarantee = "E[(G* + 1) f(n / (G* + 1))] over a learner with bound f; delays that ignore the action"
    grows = True

    def __init__(self, learner: Any, *, seed: int | None = None) -> None:
        self._free = [0]
        super().__init__(learner, seed=seed)

    def _choose(self, context: Any) -> tuple[int, int, float]:
        if self._free:
            action, probability = self._ask(self._free[0], context)
            return heapq.heappop(self._free), action, probability
        instance = self.instances
        self._new_instance()
        try:
            action, probability = self._ask(instance, context)
        except Exception:
            self._instances.pop()
            raise
        return instance, action, probability

    def _deliver(self, made: Decision, context: Any, instance: int, number: int, feedback: Any) -> None:
        self._instances[instance].update(context, made.action, made.probability, feedback)
        heapq.heappush(self._free, instance)

    def _release(self, instance: int) -> None:
        heapq.heappush(self._free, instance)

    def _restore(self, arrays: dict[str, Any]) -> None:
        super()._restore(arrays)
        busy = {instance for _, _, instance, _ in self._pending.values()}
        self._free = [i for i in range(self.instances) if i not in busy]

    @staticmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        ask, tell = make_ask(predict), make_tell(update)

        def begin(desk, marks):
            for i in range(len(marks)):
                marks[i] = 0
            give_back(desk, marks, 0)

        def choose(desk, params, blank, pool, marks, slab, context, k0, k1, tally):
            if desk.outstanding == desk.instances:
                instance = desk.instances
                pool[instance] = blank[0]
                desk.instances += 1
            else:
                instance = take_lowest(desk, marks)
            desk.instance = instance
            return ask(params, pool[instance], context, instance, k0, k1)

        def deliver(desk, params, pool, marks, slab, context, entry):
            letter = slab[entry]
            state = pool[letter.instance]
            number = state.predictions
            tell(params, state, context, number, letter.action, letter.probability, letter.feedback)
            give_back(desk, marks, letter.instance)
            return False

        def release(desk, marks, instance):
            give_back(desk, marks, instance)

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), make_replace(replace))


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
    lowest = marks[word] & -marks[word]
    marks[word] ^= lowest
    # The exponent of a float that is a power of two says which bit it was.
    bit = (np.float64(lowest).view(np.int64) >> 52) - 1023
    return (word << SHIFT) + bit


@kernel
def give_back(desk, marks, instance):
    """The instance is free again."""
    word = instance >> SHIFT
    marks[word] |= np.int64(1) << np.int64(instance & (WORD - 1))
    desk.hint = min(desk.hint, word)
