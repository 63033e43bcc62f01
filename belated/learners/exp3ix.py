"""Exp3-IX."""

from __future__ import annotations

import math
from dataclasses import dataclass

from belated.kernels.elementary import log
from belated.learners.exp3 import Exp3
from belated.theory import bounds


@dataclass(frozen=True)
class Exp3IX(Exp3):
    """Exp3 with implicit exploration: the loss is divided by p + gamma_t, eta_t = 2 gamma_t = sqrt(ln K / (K t)).

    gamma_t is that of the prediction being answered. Expected regret at most
    4 sqrt(nK ln K) + (2 sqrt(nK / ln K) + 1)(1 + ln 2), whatever n; for each n, with probability 1 - delta, the regret
    is at most the same with ln(2 / delta) in the place of 1 + ln 2.

    Neu, *Explore no more: improved high-probability regret bounds for non-stochastic bandits*, NIPS 2015.

    >>> import belated as bl
    >>> bl.BOLD(bl.Exp3IX(actions=2), seed=3).predict().probability
    0.5
    """

    weighs = True
    guarantee = "4 sqrt(n K ln K) + (2 sqrt(n K / ln K) + 1)(1 + ln 2), any adversary"
    reads_answering = True

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        count = float(len(state.loss))
        gamma = 0.5 * math.sqrt(log(count) / (count * float(state.answering)))
        state.loss[action] += (1.0 - feedback[0]) / (probability + gamma)

    def bound(self, n: float) -> float:
        return bounds.exp3ix(n, self.actions)
