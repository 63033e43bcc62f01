"""Elimination that takes what is missing for the best and for the worst."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.kernels.compile import kernel, plain
from belated.kernels.elementary import log
from belated.kernels.ties import remaining
from belated.learners.eliminating import Eliminating
from belated.protocols import Floats
from belated.theory import elimination


@dataclass(frozen=True)
class OptimisticPessimistic(Eliminating):
    """Successive elimination that holds even where delays depend on rewards.

    An action that was predicted m times has the width w = sqrt(2 ln T / m), T the horizon. Its upper bound takes what
    is missing of the m rewards for ones, its lower bound for zeros. It is out where (sum + missing) / m + w is below
    the largest sum / m - w of those that are not. Of these the one predicted fewest times is played. What is lost
    stays missing.

    Where delays do not look at rewards, `SuccessiveElimination` learns sooner: it need not wait for what is missing.

    Lancewicki, Segal, Koren, Mansour, *Stochastic multi-armed bandits with unrestricted delay distributions*, 2021.

    >>> import belated as bl
    >>> f = bl.Direct(bl.OptimisticPessimistic(actions=2, horizon=100))
    >>> for _ in range(80):
    ...     d = f.predict()
    ...     f.update(d.ticket, float(d.action))
    >>> {f.predict().action for _ in range(9)}
    {1}
    """

    guarantee = "sum_i 128 ln T / gap_i + gap_i + 2 E(G_i + G_best) + 2K/T^2 told directly, any delays, n <= T"
    any_delays = True

    @classmethod
    def example(cls) -> OptimisticPessimistic:
        """Three actions, 200 rounds."""
        return cls(3, 200)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        sums = [(name, "f8", k) for name in ("upper", "lower", "total")]
        return np.dtype([*sums, ("seen", "i8", k), ("predicted", "i8", k)])

    def params(self) -> dict[str, Any]:
        return {"square": 2.0 * plain(log)(float(self.horizon))}

    def start(self, state: Any) -> None:
        state["upper"][:] = math.inf
        state["lower"][:] = -math.inf

    @staticmethod
    def predict(params, state, context, draw):
        action = remaining(state.upper, state.lower, state.predicted)
        state.predicted[action] += 1
        look(params, state, action)
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.upper[action] == -math.inf:
            return  # it is out
        state.total[action] += feedback[0]
        state.seen[action] += 1
        look(params, state, action)

    def proved(self, n: float, gaps: Floats, peaks: Floats, peak: float | None) -> float | str:
        return elimination.optimistic_pessimistic(n, gaps, peaks, self.horizon)


@kernel
def look(params, state, action):
    """The bounds of an action. (A forecaster may tell of more than was predicted here: then nothing is missing.)"""
    seen = float(state.seen[action])
    plays = max(float(state.predicted[action]), seen)
    width = math.sqrt(params.square / plays)
    state.upper[action] = (state.total[action] + (plays - seen)) / plays + width
    state.lower[action] = state.total[action] / plays - width
