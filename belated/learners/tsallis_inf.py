"""Tsallis-INF."""

from __future__ import annotations

import math
from dataclasses import dataclass

from belated.kernels.compile import routine
from belated.kernels.random import uniform
from belated.kernels.simplex import pick
from belated.learners.exp3 import Exp3
from belated.theory import bounds


@dataclass(frozen=True)
class TsallisINF(Exp3):
    """Follow the regularised leader with Tsallis entropy 1/2: p_i = 4 / (eta_t (L_i - x))^2, eta_t = 2 / sqrt t.

    x makes the p_i sum to one; losses are estimated as in Exp3. Regret at most
    4 sqrt(Kn) + 1 against any adversary, and logarithmic for i.i.d. rewards.

    Zimmert, Seldin, *Tsallis-INF: an optimal algorithm for stochastic and adversarial bandits*, JMLR 2021.

    >>> import belated as bl
    >>> round(bl.TsallisINF(actions=10).bound(10_000), 1)
    1265.9
    """

    weighs = True
    guarantee = "4 sqrt(n K) + 1, any adversary"
    predict_among = None  # type: ignore[assignment]

    @staticmethod
    def predict(params, state, context, draw):
        rate = 2.0 / math.sqrt(float(state.predictions))
        total = tsallis_weights(state.loss, rate, state.weight)
        action = pick(state.weight, total, uniform(draw, 0))
        return action, state.weight[action] / total

    def bound(self, n: float) -> float:
        return bounds.tsallis_inf(n, self.actions)


@routine
def tsallis_weights(losses, rate, weights):
    """Fill weights with 4 / (rate (loss - x))^2 such that they sum to one (up to rounding); return the sum.

    Newton's method on x. It starts at least loss - 2/rate, where the sum is at least one, and comes down without
    passing the root. It works with losses over the least one, so that large losses cost no accuracy.
    """
    least = losses[0]
    for i in range(1, len(losses)):
        least = min(least, losses[i])
    x = -2.0 / rate
    total = 0.0
    for _ in range(50):
        total = 0.0
        slope = 0.0
        for i in range(len(losses)):
            root = 2.0 / (rate * (losses[i] - least - x))
            weights[i] = root * root
            total += weights[i]
            slope += weights[i] * root
        if total - 1.0 <= 1e-14:
            break
        x -= (total - 1.0) / (rate * slope)
    return total
