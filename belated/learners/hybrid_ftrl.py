"""HybridFTRL: two entropies, one for bandit feedback and one for what is outstanding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels import giving_up, hybrid
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.giving_up import give_up, still_counts
from belated.kernels.hybrid import hybrid_weights
from belated.kernels.random import uniform
from belated.kernels.simplex import pick
from belated.protocols import Learner
from belated.theory import late


@dataclass(frozen=True)
class HybridFTRL(Learner):
    """Follow the regularised leader, told late: p minimises <L, p> - 2 sqrt(t) sum sqrt(p_i) + sum p_i ln p_i / eta_t.

    L are the estimated losses that are in, each the loss 1 - reward over the probability of its prediction, and
    1 / eta_t = sqrt(2 c D_t / ln K), D_t the sum of G_1..G_t, which the learner counts itself. Under Direct its mean
    regret is at most 4 sqrt(K n) + (sqrt c + 1 / sqrt c) sqrt(2 D ln K) for all n at once, with nothing known of the
    delays before: the best that anybody can promise, up to constants. Without delay these are TsallisINF's weights.

    `caution` is c: below 1 it learns faster from i.i.d. rewards, and promises less against an adversary.

    With `skip` it gives up on a prediction whose feedback has not come after sqrt(D_t / ln K) rounds, D_t counting only
    those not given up; when it comes, it is ignored. That limits what feedback that is very late or lost may cost. It
    looks back over `window` predictions at most. State fields `skipped` and `forced` count those given up, and those
    of them for the window. See `bounds.hybrid_ftrl` and `bounds.hybrid_skipped` for the proofs.

    Importance weights amplify rounding: two solvers right to 1e-14 may play other actions after some 2,000 rounds.

    Zimmert, Seldin, *An optimal algorithm for adversarial bandits with arbitrary delays*, 2020.

    >>> import belated as bl
    >>> f = bl.Direct(bl.HybridFTRL(actions=2), seed=1)
    >>> first, second = f.predict(), f.predict()
    >>> f.update(first.ticket, 1.0)
    >>> round(bl.HybridFTRL(actions=10).bound_under_delay(10_000, 200_000), 1)
    3184.3
    """

    weighs = True
    guarantee = "4 sqrt(n K) + sqrt(8 D ln K) told directly, D the sum of G_t; 4 sqrt(n K) without delay; any adversary"
    counts_open = lets_go = True
    actions: int
    caution: float = 1.0
    skip: bool = False
    window: int = 4096

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("caution", self.caution, above=0, high=1e300)
        require.boolean("skip", self.skip)
        require.integer("window", self.window, low=2, high=2**24)

    @property
    def reads_answering(self) -> bool:  # type: ignore[override]
        return self.skip

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.window - 1 if self.skip else 0

    def layout(self) -> np.dtype[Any]:
        # first what others do not have: Numba would take a longer record of the same beginning for one of theirs
        return np.dtype([*giving_up.fields(self.window * self.skip), ("total", "f8"), *hybrid.fields(self.actions)])

    def start(self, state: Any) -> None:
        hybrid.start(state, self.actions)

    def params(self) -> dict[str, Any]:
        most = log(float(self.actions))
        weight = math.sqrt(2.0 * self.caution / most) if most else 0.0
        return {"weight": weight, "patience": 1.0 / math.sqrt(most) if most else 0.0, "window": self.window * self.skip}

    @staticmethod
    def predict(params, state, context, draw):
        state.total += float(state.open - state.given_up)
        if params.window:
            give_up(state, params.patience * math.sqrt(state.total), params.window)
        return draw_hybrid(state, math.sqrt(float(state.predictions)), params.weight * math.sqrt(state.total), draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if params.window == 0 or still_counts(state, params.window):
            state.loss[action] += (1.0 - feedback[0]) / probability

    @staticmethod
    def lost(params, state, context, action, probability):
        if params.window:
            still_counts(state, params.window)

    def bound(self, n: float) -> float:
        return late.hybrid_ftrl(n, self.actions, 0.0)

    def bound_under_delay(self, n: int, total: float) -> float:
        skipped = late.hybrid_skipped(self.actions, total, self.window) if self.skip and self.actions > 1 else 0.0
        return late.hybrid_ftrl(n, self.actions, total, self.caution, skipped)


@kernel
def draw_hybrid(state, a, b, draw):
    """An action by the weights of two entropies, and its probability."""
    total = hybrid_weights(state, a, b)
    action = pick(state.weight, total, uniform(draw, 0))
    return action, state.weight[action] / total
