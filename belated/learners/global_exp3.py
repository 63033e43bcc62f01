"""GlobalExp3."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.kernels.elementary import exp, log
from belated.kernels.random import uniform
from belated.kernels.simplex import exponential_weights, pick
from belated.learners.for_game import ForGame
from belated.learners.upgrade import keep
from belated.protocols import Floats
from belated.theory import bounds


@dataclass(frozen=True)
class GlobalExp3(ForGame):
    """Exponential weights for every globally observable game, against any adversary; FeedExp3 in its signal form.

    With w_a(c, s) such that sum_c w_a(c, symbol of action c) = L_a - L_b for a base action b, the symbol s of the
    played action c gives the estimate w_a(c, s) / p_c of the loss of every action a over that of b. Then
    p = (1 - g_t) q + g_t / N with q_a ~ exp(-e_t times the sum of the estimates),

        g_t = min(1, A t^(-1/3)),  e_t = min(ln N / (A t^(2/3)), g_t / (k N)),  k = max(1, max |w|),

    and A as in `bounds.global_exp3`. Losses are scaled to [0, 1]. w has the least max |w|, and b is the Pareto action
    for which that is least. An action that cannot be compared with b (never the only best one) is played by g_t alone.

    Piccolboni, Schindelhauer, *Discrete prediction games with arbitrary feedback and loss*, 2001; Cesa-Bianchi, Lugosi,
    Stoltz, *Regret minimization under partial monitoring*, 2006.

    >>> import belated as bl
    >>> learner = bl.GlobalExp3([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]])
    >>> round(learner.bound(10_000))
    2338
    """

    weighs = True
    guarantee = "4 A n^(2/3) + A^3 (A in bounds.global_exp3) times the range of the losses, any adversary"
    version = 2  # elementary functions of our own: the last bits differ
    migrate = staticmethod(keep)

    def __post_init__(self) -> None:
        super().__post_init__()
        game = self.game
        blind = [pair for pair in game.pairs if not game.globally[pair]]
        if blind:
            raise InvalidArgument(
                "GlobalExp3 needs a globally observable game: no symbols tell actions "
                f"{blind[0][0]} and {blind[0][1]} apart, so nobody can learn it"
            )

    @classmethod
    def example(cls) -> GlobalExp3:
        """Label-efficient prediction."""
        return cls([[1, 1], [1, 0], [0, 1]], [["a", "b"], ["-", "-"], ["-", "-"]])

    @cached_property
    def estimator(self) -> Floats:
        """w[a, c, s] for losses scaled to [0, 1]; NaN for an action that cannot be compared."""
        game = self.game
        scale = float(game.loss.max() - game.loss.min()) or 1.0
        found = [game.difference_observer(base) for base in game.pareto]
        weights = [w / scale for w in found if w is not None]
        sizes = [round(float(np.nanmax(np.abs(w))), 9) for w in weights]
        return weights[sizes.index(min(sizes))]

    @property
    def size(self) -> float:
        """k = max(1, max |w|)."""
        return max(1.0, float(np.nanmax(np.abs(self.estimator))))

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("loss", "f8", (self.actions,)), ("weight", "f8", (self.actions,))])

    def params(self) -> dict[str, Any]:
        constant = bounds.global_exp3_constant(self.actions, self.size)
        return {
            "estimator": np.nan_to_num(self.estimator),
            "compared": [int(not np.isnan(w).any()) for w in self.estimator],
            "size": self.size,
            "constant": float(f"{constant:.12g}"),  # the same on every machine
        }

    @staticmethod
    def predict(params, state, context, draw):
        count = float(len(state.loss))
        t = float(state.predictions)
        mixed = min(1.0, params.constant * exp(log(t) * (-1.0 / 3.0)))
        rate = log(count) / (params.constant * exp(log(t) * (2.0 / 3.0)))
        total = exponential_weights(state.loss, min(rate, mixed / (params.size * count)), state.weight)
        for a in range(len(state.loss)):
            if params.compared[a] == 0:
                total -= state.weight[a]
                state.weight[a] = 0.0
        for a in range(len(state.loss)):
            state.weight[a] = (1.0 - mixed) * state.weight[a] / total + mixed / count
        action = pick(state.weight, 1.0, uniform(draw, 0))
        return action, state.weight[action]

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        symbol = int(feedback[0])
        for a in range(len(state.loss)):
            state.loss[a] += params.estimator[a, action, symbol] / probability

    def bound(self, n: float) -> float:
        return bounds.global_exp3(n, self.actions, self.size)
