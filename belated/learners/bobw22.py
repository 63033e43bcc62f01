"""BoBW22: two entropies, for i.i.d. rewards and adversaries at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels import hybrid
from belated.kernels.elementary import exp, log
from belated.learners.hybrid_ftrl import draw_hybrid
from belated.protocols import Learner


@dataclass(frozen=True)
class BoBW22(Learner):
    """HybridFTRL with slower rates, for delays of at most `longest`: best of both worlds, in the limit.

    p minimises <L, p> - 2 a_t sum sqrt(p_i) + b_t sum p_i ln p_i, a_t = sqrt(t + 10 d + d^2 / (K^(1/3) ln K)^2) and
    b_t = sqrt((D_t + 24^2 d^2 K^(2/3) ln K) / ln K), d being `longest`. Its authors prove logarithmic regret for i.i.d.
    rewards and sqrt(n) against adversaries; their constants were not checked here, and no bound is stated. They are
    large, and so is regret for i.i.d. rewards at practical horizons. For those who study it; else take `HybridFTRL`.

    Masoudian, Zimmert, Seldin, *A best-of-both-worlds algorithm for bandits with delayed feedback*, 2022.

    >>> import belated as bl
    >>> f = bl.Direct(bl.BoBW22(actions=2, longest=10), seed=1)
    >>> f.update(f.predict().ticket, 0.0)
    >>> 0.49 < f.predict().probability < 0.51
    True
    """

    weighs = True
    guarantee = "none proved here"
    counts_open = True
    reads_answering = False
    actions: int
    longest: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("longest", self.longest, low=0, high=2**40)

    @classmethod
    def example(cls) -> BoBW22:
        """Three actions, delays of at most two rounds."""
        return cls(3, 2)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("total", "f8"), *hybrid.fields(self.actions)])

    def start(self, state: Any) -> None:
        hybrid.start(state, self.actions)

    def params(self) -> dict[str, Any]:
        count, late = float(self.actions), float(self.longest)
        logarithm = log(max(count, 2.0))  # with one action nothing depends on it
        third = exp(log(count) / 3.0)
        return {
            "ahead": 10.0 * late + (late / (third * logarithm)) ** 2,
            "more": 576.0 * late * late * third * third * logarithm,
            "scale": 1.0 / logarithm,
        }

    @staticmethod
    def predict(params, state, context, draw):
        state.total += float(state.open)
        a = math.sqrt(float(state.predictions) + params.ahead)
        return draw_hybrid(state, a, math.sqrt((state.total + params.more) * params.scale), draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.loss[action] += (1.0 - feedback[0]) / probability
