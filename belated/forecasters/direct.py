"""Direct: the learner itself, told late."""

from __future__ import annotations

from typing import Any

from belated.errors import Unsupported
from belated.forecasters.base import Forecaster, Kernels
from belated.forecasters.instance import make_ask, make_replace, make_tell
from belated.kernels.compile import kernel
from belated.protocols import Decision


class Direct(Forecaster):
    """One instance that predicts every round and is updated whenever feedback comes (the paper's white box).

    Right for learners whose update tolerates delay. An update gets the context, the probability and the number of
    the prediction that it answers. `DelayedUCB1` and `DelayedKLUCB` are this over UCB1 and KLUCB, with the theorems
    of the paper's section 4; over other learners it is a heuristic.

    >>> import belated as bl
    >>> f = bl.Direct(bl.UCB1(actions=2))
    >>> first, second = f.predict(), f.predict()
    >>> f.update(second.ticket, 1.0)
    >>> f.predict().action, f.outstanding, f.peak
    (0, 2, 1)
    """

    guarantee = "with ucb1: sum_i 8 ln n / gap_i + 3.5 gap_i + gap_i E G*_i; with klucb explicit; i.i.d. rewards"

    def _check_learner(self, learner: Any) -> None:
        if not getattr(learner, "tolerates_delay", True):
            needs = getattr(self.learner, "needs", None) or "what it keeps for its last prediction only"
            raise Unsupported(f"Direct cannot play {self._called()}: its update needs {needs}; use BOLD")

    def _choose(self, context: Any) -> tuple[int, int, float]:
        action, probability = self._ask(0, context)
        return 0, action, probability

    def _deliver(self, made: Decision, context: Any, instance: int, number: int, feedback: Any) -> None:
        learner = self._instances[0]
        if self._spec is None:
            learner.update(context, made.action, made.probability, feedback)
        else:
            learner.answer(number, context, made.action, made.probability, feedback)

    @staticmethod
    def kernels(predict: Any, update: Any, replace: Any = None, values: int = 0) -> Kernels:
        ask, tell = make_ask(predict), make_tell(update)

        def begin(desk, marks):
            pass

        def choose(desk, params, blank, pool, marks, slab, context, k0, k1, tally):
            return ask(params, pool[0], context, 0, k0, k1)

        def deliver(desk, params, pool, marks, slab, context, entry):
            letter = slab[entry]
            tell(params, pool[0], context, letter.round, letter.action, letter.probability, letter.feedback)
            return False

        def release(desk, marks, instance):
            pass

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), make_replace(replace))
