"""BoBW24: BoBW22 that need not know how long delays may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels import giving_up, hybrid
from belated.kernels.elementary import exp, log
from belated.kernels.giving_up import give_up, still_counts
from belated.kernels.simplex import exp_minus
from belated.learners.hybrid_ftrl import draw_hybrid
from belated.protocols import Learner


@dataclass(frozen=True)
class BoBW24(Learner):
    """BoBW22 that need not know how long delays may be: it gives up early, and explores implicitly.

    p minimises <L, p> - 2 sqrt(t) sum sqrt(p_i) + sqrt(49 D_t / ln K) sum p_i ln p_i, D_t the sum of what was
    outstanding and not given up. It gives up on a prediction older than sqrt(D_t / (49 K^(2/3) ln K)) rounds, or than
    `window`. The loss of round s, which comes in round t, is divided by max(p, exp(-D_t / (D_t - D_s))). The constants
    were not checked against the paper, and no bound is stated. For those who study it; else take `HybridFTRL`: under a
    constant delay d this one gives up on everything for some 98 d K^(2/3) ln K rounds.

    Masoudian, Zimmert, Seldin, *A best-of-both-worlds algorithm for bandits with delayed feedback with robustness to
    excessive delays*, 2024.

    >>> import belated as bl
    >>> f = bl.Direct(bl.BoBW24(actions=2), seed=1)
    >>> f.update(f.predict().ticket, 0.0)
    >>> f.predict().probability > 0.5
    True
    """

    weighs = True
    guarantee = "none proved here"
    counts_open = True
    memo = 1
    actions: int
    window: int = 4096

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("window", self.window, low=2, high=2**24)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("total", "f8"), *hybrid.fields(self.actions), *giving_up.fields(self.window)])

    def start(self, state: Any) -> None:
        hybrid.start(state, self.actions)

    def params(self) -> dict[str, Any]:
        count = float(self.actions)
        logarithm = log(max(count, 2.0))  # with one action nothing depends on it
        patience = 1.0 / (7.0 * exp(log(count) / 3.0) * math.sqrt(logarithm))
        return {"weight": 7.0 / math.sqrt(logarithm), "patience": patience, "window": self.window}

    @staticmethod
    def predict(params, state, context, draw):
        state.total += float(state.open - state.given_up)
        state.memo[0] = state.total
        root = math.sqrt(state.total)
        give_up(state, params.patience * root, params.window)
        return draw_hybrid(state, math.sqrt(float(state.predictions)), params.weight * root, draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if still_counts(state, params.window):
            since = state.total - state.memo[0]
            least = exp_minus(state.total / since) if since > 0.0 else 0.0
            state.loss[action] += (1.0 - feedback[0]) / max(probability, least)

    @staticmethod
    def lost(params, state, context, action, probability):
        still_counts(state, params.window)
