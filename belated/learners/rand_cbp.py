"""RandCBP: confidence bounds of random width."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import routine
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.kernels.simplex import exp_minus
from belated.learners.cbp import CBP, unobserved, widest
from belated.learners.for_game import ForGame
from belated.learners.patterns import mark, sign_of
from belated.protocols import NEEDED

#: A game with at most so many pairs of neighbours has exact probabilities, another one none.
FEW = 3


@dataclass(frozen=True)
class RandomWidth(ForGame):
    """What learners with confidence bounds of random width share."""

    _: KW_ONLY
    sigma: float = 1.0
    bins: int = 5
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        require.real("sigma", self.sigma, above=0)
        require.integer("bins", self.bins, low=2)
        require.real("epsilon", self.epsilon, low=0, high=1)

    @property
    def states_probability(self) -> bool:  # type: ignore[override]
        """Only where all cases that the draws could declare are few enough to be gone through at each prediction."""
        return len(self.game.pairs) <= FEW

    def params(self) -> dict[str, Any]:
        given = super().params()
        pairs = len(given["first"]) - 1
        room = {
            "below": np.zeros(self.bins),  # P(Z <= z) for each point z
            "chance": np.zeros(pairs),  # of each pair to be declared
            "undecided": np.zeros(pairs, np.int64),  # those that may go either way
        }
        # Not behind the others' fields: Numba warns of records that begin with all of another's.
        return room | given | {"sigma": float(self.sigma), "epsilon": float(self.epsilon)}


@dataclass(frozen=True)
class RandCBP(RandomWidth, CBP):
    """RandCBP: CBP that declares d_ij from sum_k max|v_ijk| Z / sqrt(n_k) on, Z drawn for each pair and prediction.

    Z lies on `bins` points spread evenly over 0 .. U = sqrt(alpha ln t). It is U with probability epsilon, and
    another point z with a probability proportional to exp(-z^2 / (2 sigma^2)).

    The probability of a decision is exact in games with up to three pairs of neighbours: the sum over all that the
    draws could declare. In larger games, where each case would be geometry to solve, **none is stated** (NaN). The
    chance given the draws of all pairs but one, which is easy to have, will not do: where these leave an action none
    it cannot be counted, so that E[1{A = a} / p] is the chance that they leave it some, which is below 1.

    Heuillet, Ahmad, Durand, *Randomized confidence bounds for stochastic partial monitoring*, ICML 2024.

    >>> import belated as bl
    >>> f = bl.Direct(bl.RandCBP([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]]), seed=1)
    >>> [f.predict().action for _ in range(3)]
    [0, 1, 0]
    """

    guarantee = "that of cbp, i.i.d. outcomes"

    @staticmethod
    def predict(params, state, context, draw):
        action = unobserved(state)
        probability = 1.0
        if action < 0:
            t = float(max(state.predictions - 1, 1))
            log_t = log(t)
            level = params.alpha * t * t * log_t
            top = math.sqrt(params.alpha * log_t)
            action, probability = gamble(params, draw, state.lean, state.spread, top, state.seen, params.square, level)
            if action == NEEDED:
                return action, 1.0
        state.predicted[action] += 1
        return action, probability


@routine
def gamble(params, draw, lean, spread, top, seen, weight, level):
    """`decide` with a width for each pair that is drawn from 0 .. top; the action, and its probability if stated."""
    undecided = weigh(params, lean, spread, top)
    for pair in range(len(lean)):
        declared = uniform(draw, pair) < params.chance[pair]
        mark(params, pair, sign_of(lean[pair]) if declared else 0)
    action = widest(params, seen, weight, level)
    if action == NEEDED or params.unread or len(params.chance) > FEW:
        return action, 1.0
    probability = 0.0
    for case in range(1 << undecided):
        part = 1.0
        for i in range(undecided):
            pair = params.undecided[i]
            declared = (case >> i) & 1
            part *= params.chance[pair] if declared else 1.0 - params.chance[pair]
            mark(params, pair, sign_of(lean[pair]) if declared else 0)
        other = widest(params, seen, weight, level)
        if other == NEEDED:
            return other, 1.0
        if other == action:
            probability += part
    return action, min(max(probability, 1e-300), 1.0)


@routine
def weigh(params, lean, spread, top):
    """Fill in how likely each pair is declared; note the undecided pairs and return how many."""
    bins = len(params.below)
    step = top / (bins - 1)
    reached = 0.0
    for m in range(bins - 1):
        z = m * step / params.sigma
        reached += exp_minus(0.5 * z * z)
        params.below[m] = reached
    for m in range(bins - 1):
        params.below[m] *= (1.0 - params.epsilon) / reached
    params.below[bins - 1] = 1.0
    undecided = 0
    for pair in range(len(lean)):
        distance = abs(lean[pair])
        chance = 0.0
        for m in range(bins):
            if distance > 0.0 and distance >= spread[pair] * (m * step):
                chance = params.below[m]
        params.chance[pair] = chance
        if 0.0 < chance < 1.0:
            params.undecided[undecided] = pair
            undecided += 1
    return undecided
