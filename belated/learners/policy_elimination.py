"""PolicyElimination."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.coverage import settle, weigh
from belated.kernels.elementary import log
from belated.learners.policies import AmongPolicies, draw_action, hear, knows
from belated.protocols import Floats, Game, Learner
from belated.theory import related

#: What a policy has at least of the law when others are dropped.
AGAIN = 1e-3


@dataclass(frozen=True)
class PolicyElimination(AmongPolicies):
    """Chooses among N given policies, and drops those that are shown to be worse.

    With m rewards known, L_m = ln(4 N m^2 / delta) and b_m = 2 width sqrt(2 K L_m / m), a policy is dropped for good
    where 2 b_m < 1 and its mean is below the largest less 2 b_m. A law P over the others is found under which E_x[1 /
    W'(x, i(x))] <= 2 K for each policy i that is left, W' = (1 - K mu) W + mu with W the weight of the policies that
    say the action, mu = min(1 / (2 K), sqrt(L_{m+1} / (2 K (m + 1)))); it plays W'.

    Told late by delays that look at neither contexts, actions nor rewards, its regret against the best policy is at
    most G* + 17 sqrt(2 n K ln(4 N n^2 / delta)) with probability 1 - delta, so that delay only adds; in the mean it is
    at most delta n more, which is the bound that is stated. For width = 1: with less, policies are dropped sooner, and
    nothing is promised.

    Dudik, Hsu, Kale, Karampatziakis, Langford, Reyzin, Zhang, *Efficient optimal learning for contextual bandits*, UAI
    2011. How the constants come about stands in `bounds.policy_elimination`.

    >>> import belated as bl
    >>> f = bl.Direct(bl.PolicyElimination([[0, 0], [1, 1], [0, 1]], [0.5, 0.5], actions=2), seed=1)
    >>> decision = f.predict(1)  # one of three policies says 0 here
    >>> decision.action, round(decision.probability, 3)
    (0, 0.417)
    """

    guarantee = "G* + 17 sqrt(2 n K ln(4 N n^2 / delta)) told directly, with probability 1 - delta; N policies, i.i.d."
    width: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.real("width", self.width, above=0)
        if self.width != 1.0:
            said = f"none: the theorem needs width = 1, here width = {self.width:g}"
            object.__setattr__(self, "guarantee", said)

    def params(self) -> dict[str, Any]:
        return super().params() | {"width": float(self.width)}

    @staticmethod
    def predict(params, state, context, draw):
        if not knows(params, context):
            return -1, 1.0
        if state.settled == 0:
            actions = float(len(state.chance))
            next_ = float(state.known + 1)
            mixed = math.sqrt(confidence(params, next_) / (2.0 * actions * next_))
            state.mixed = min(0.5 / actions, mixed)
            settle(params, state, 0.0, 2.0, 0)
            state.settled = 1
        return draw_action(state, context, draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        hear(params, state, context, action, probability, feedback[0])
        m = float(state.known)
        reach = 2.0 * params.width * math.sqrt(2.0 * len(state.chance) * confidence(params, m) / m)
        if 2.0 * reach < 1.0:
            eliminate(params, state, m, 2.0 * reach)

    def facing(self, game: Game) -> Learner | str:
        if self.width != 1.0:
            return f"the theorem of PolicyElimination is about width = 1, here it is {self.width:g}"
        return super().facing(game)

    def stochastic_bound(self, n: float, means: Floats) -> float | None:
        return self._mean(n, 0.0)

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        return self._mean(n, peak)

    def _mean(self, n: float, peak: float) -> float | None:
        """The bound on the mean: that with probability 1 - delta, and n where it fails."""
        if self.width != 1.0:
            return None
        return related.policy_elimination(n, self.actions, len(self.policies), self.delta, peak) + self.delta * n


@kernel
def confidence(params, m):
    """L_m."""
    return log(4.0 * len(params.choice) * m * m / params.delta)


@kernel
def eliminate(params, state, m, reach):
    """Drop the policies whose mean is so far below the largest."""
    best = -math.inf
    for i in range(len(state.law)):
        if state.law[i] > 0.0:
            best = max(best, state.total[i] / m)
    dropped = False
    for i in range(len(state.law)):
        if state.law[i] > 0.0 and state.total[i] / m < best - reach:
            state.law[i] = 0.0
            dropped = True
    if dropped:
        for i in range(len(state.law)):
            if state.law[i] > 0.0:
                state.law[i] = max(state.law[i], AGAIN)
        weigh(params, state)
