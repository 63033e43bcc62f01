"""DelayedExp3: Exp3 that knows how much is outstanding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.kernels.elementary import log
from belated.learners.exp3 import Exp3, draw_among, draw_by
from belated.theory import bounds, late


@dataclass(frozen=True)
class DelayedExp3(Exp3):
    """Exp3 told late, with a rate that falls with what is outstanding: eta_t = sqrt(ln K / (K t + 2 D_t)).

    D_t is the sum of G_1..G_t, which the learner counts itself. Under Direct its mean regret is at most
    2 sqrt((K n + 2 D_n) ln K) for all n at once, with nothing known of the delays before; without delay it plays
    exactly what Exp3 plays. How the constants come about stands in `bounds.delayed_exp3`.

    In this form Gyorgy, Joulani, *Adapting to delays and data in adversarial multi-armed bandits*, 2021.

    >>> import belated as bl
    >>> f = bl.Direct(bl.DelayedExp3(actions=2), seed=1)
    >>> first, second = f.predict(), f.predict()
    >>> f.update(first.ticket, 1.0)
    >>> round(bl.DelayedExp3(actions=10).bound_under_delay(10_000, 200_000), 1)
    2146.0
    """

    weighs = True
    guarantee = (
        "2 sqrt((n K + 2 D) ln K) told directly, D the sum of G_t; without delay 2 sqrt(n K ln K); any adversary"
    )
    counts_open = True

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("total", "f8"), ("loss", "f8", (self.actions,)), ("weight", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        count = float(len(state.loss))
        state.total += float(state.open)
        rate = math.sqrt(log(count) / (count * float(state.predictions) + 2.0 * state.total))
        return draw_by(state, rate, draw)

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        count = float(len(state.loss))
        state.total += float(state.open)
        rate = math.sqrt(log(count) / (count * float(state.predictions) + 2.0 * state.total))
        return draw_among(state, rate, allowed, draw)

    def bound(self, n: float) -> float:
        return bounds.exp3(n, self.actions)

    def bound_under_delay(self, n: int, total: float) -> float:
        return late.delayed_exp3(n, self.actions, total)
