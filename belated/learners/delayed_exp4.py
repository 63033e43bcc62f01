"""DelayedExp4: Exp4 that knows how much is outstanding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.elementary import log
from belated.learners.exp4 import Exp4, draw_advised
from belated.protocols import Learner
from belated.theory import late


@dataclass(frozen=True)
class DelayedExp4(Learner):
    """Exp4 told late, with a rate that falls with what is outstanding: eta_t = sqrt(ln N / (2 (K t + D_t))).

    D_t is the sum of G_1..G_t, which the learner counts itself; advice and estimates are those of `Exp4`. Under Direct
    its mean regret against the best of N experts is at most 2 sqrt(2 (K n + D_n) ln N) for all n at once, with nothing
    known of the delays before. Without delay its rate is Exp4's over sqrt 2: how the constants come about stands in
    `bounds.delayed_exp4`.

    >>> import belated as bl
    >>> round(bl.DelayedExp4(experts=100, actions=10).bound_under_delay(10_000, 200_000), 1)
    3324.5
    """

    weighs = True
    guarantee = "2 sqrt(2 (n K + D) ln N) told directly, D the sum of G_t, N experts, any adversary"
    comparator = "expert"
    counts_open = True
    reads_answering = False
    experts: int
    actions: int

    def __post_init__(self) -> None:
        require.integer("experts", self.experts, low=1)
        require.integer("actions", self.actions, low=1)

    @classmethod
    def example(cls) -> DelayedExp4:
        """Four experts, three actions."""
        return cls(4, 3)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.experts * self.actions

    def layout(self) -> np.dtype[Any]:
        experts = (self.experts,)
        return np.dtype(
            [("total", "f8"), ("loss", "f8", experts), ("weight", "f8", experts), ("chance", "f8", (self.actions,))]
        )

    @staticmethod
    def predict(params, state, context, draw):
        experts, actions = float(len(state.loss)), float(len(state.chance))
        state.total += float(state.open)
        rate = math.sqrt(log(experts) / (2.0 * (actions * float(state.predictions) + state.total)))
        return draw_advised(state, rate, context, draw)

    update = staticmethod(Exp4.update)

    def bound(self, n: float) -> float:
        return late.delayed_exp4(n, self.actions, self.experts, 0.0)

    def bound_under_delay(self, n: int, total: float) -> float:
        return late.delayed_exp4(n, self.actions, self.experts, total)
