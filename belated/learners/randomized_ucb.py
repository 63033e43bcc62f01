"""RandomizedUCB."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.coverage import settle
from belated.kernels.elementary import log
from belated.learners.policies import AmongPolicies, draw_action, hear, knows

#: Times K: what a law near the best one has. The best has K, but may take for ever to reach where it is at the edge.
NEARLY = 1.001


@dataclass(frozen=True)
class RandomizedUCB(AmongPolicies):
    """Chooses among N given policies, none of which is ever dropped: the worse it looks, the less of the law it has.

    With m rewards known, C_m = 2 ln(N max(m, 1) / delta), Delta_i what the mean of policy i is below the largest, and
    kappa = scale sqrt(m K / (720 C_m)), it climbs to the law P that maximises E_x sum_a ln W'(x, a) - kappa sum_i P_i
    Delta_i, a step each time and more until E_x[1 / W'(x, i(x))] <= 1.001 K + 2 kappa Delta_i for each i and sum_i P_i
    Delta_i <= K / kappa. W' = (1 - K mu) W + mu, W the weight of the policies that say the action, mu = min(1 / (2 K),
    sqrt(C_{m+1} / (2 K (m + 1)))); it plays W'. For scale = 1 that is a solution of the programme in the paper, which
    asks for E_x[1 / W'] <= max(4 K, m Delta_i^2 / (180 C_m)). No bound on its regret is proved here.

    Dudik, Hsu, Kale, Karampatziakis, Langford, Reyzin, Zhang, *Efficient optimal learning for contextual bandits*, UAI
    2011.

    >>> import belated as bl
    >>> f = bl.Direct(bl.RandomizedUCB([[0, 0], [1, 1], [0, 1]], [0.5, 0.5], actions=2), seed=1)
    >>> decision = f.predict(1)
    >>> decision.action, round(decision.probability, 2)
    (0, 0.48)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.real("scale", self.scale, above=0)

    def params(self) -> dict[str, Any]:
        return super().params() | {"scale": float(self.scale)}

    @staticmethod
    def predict(params, state, context, draw):
        if not knows(params, context):
            return -1, 1.0
        if state.settled == 0:
            actions, m = float(len(state.chance)), float(state.known)
            state.mixed = min(0.5 / actions, math.sqrt(width(params, m + 1.0) / (2.0 * actions * (m + 1.0))))
            best = 0.0
            for i in range(len(state.total)):
                best = max(best, state.total[i])
            for i in range(len(state.total)):
                state.gap[i] = (best - state.total[i]) / max(m, 1.0)
            price = params.scale * math.sqrt(m * actions / (720.0 * width(params, max(m, 1.0))))
            settle(params, state, price, NEARLY, 1)
            state.settled = 1
        return draw_action(state, context, draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        hear(params, state, context, action, probability, feedback[0])


@kernel
def width(params, m):
    """C_m."""
    return 2.0 * log(len(params.choice) * m / params.delta)
