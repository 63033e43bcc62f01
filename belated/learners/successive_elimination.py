"""Successive elimination."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import plain
from belated.kernels.elementary import log
from belated.kernels.ties import remaining
from belated.learners.eliminating import Eliminating
from belated.protocols import Floats
from belated.theory import elimination


@dataclass(frozen=True)
class SuccessiveElimination(Eliminating):
    """Plays all actions in turn, and an action never again once it is clearly worse than another.

    With s observations an action has the width w = sqrt(c ln T / s), T the horizon. It is out where mean + extra w is
    below the largest mean - w of those that are not. Of these the one predicted fewest times is played. So delay costs
    each action about its share of what is outstanding, however long it is; confidence costs more than UCB1's.

    Lancewicki, Segal, Koren, Mansour, *Stochastic multi-armed bandits with unrestricted delay distributions*, 2021.

    >>> import belated as bl
    >>> f = bl.Direct(bl.SuccessiveElimination(actions=2, horizon=100))
    >>> for _ in range(80):
    ...     d = f.predict()
    ...     f.update(d.ticket, float(d.action))
    >>> {f.predict().action for _ in range(9)}
    {1}
    """

    guarantee = "sum_i 32 ln T / gap_i + gap_i (1 + E max(G_i, G_best)) + 2K/T^2 told directly, i.i.d. rewards, n <= T"
    c: float = 2.0
    extra: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.real("c", self.c, above=0)
        require.real("extra", self.extra, low=0)

    @classmethod
    def example(cls) -> SuccessiveElimination:
        """Three actions, 200 rounds, narrow enough that actions are eliminated."""
        return cls(3, 200, 0.2)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        sums = [(name, "f8", k) for name in ("upper", "lower", "total")]
        return np.dtype([*sums, ("seen", "i8", k), ("predicted", "i8", k)])

    def params(self) -> dict[str, Any]:
        return {"square": self.c * plain(log)(float(self.horizon)), "extra": float(self.extra)}

    def start(self, state: Any) -> None:
        state["upper"][:] = math.inf
        state["lower"][:] = -math.inf

    @staticmethod
    def predict(params, state, context, draw):
        action = remaining(state.upper, state.lower, state.predicted)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.upper[action] == -math.inf:
            return  # it is out
        state.total[action] += feedback[0]
        state.seen[action] += 1
        seen = float(state.seen[action])
        mean = state.total[action] / seen
        width = math.sqrt(params.square / seen)
        state.upper[action] = mean + params.extra * width
        state.lower[action] = mean - width

    def proved(self, n: float, gaps: Floats, peaks: Floats, peak: float | None) -> float | str:
        if self.extra < 1 or self.c < 1:
            return f"its bound is proved for c >= 1 and extra >= 1, here c = {self.c:g} and extra = {self.extra:g}"
        most = math.inf if peak is None else peak
        return elimination.successive_elimination(n, gaps, peaks, self.horizon, self.c, self.extra, most)
