"""RandCBPside: confidence bounds of random width, with linear side information."""

from __future__ import annotations

from dataclasses import dataclass

from belated.kernels.elementary import log
from belated.learners.cbp import unobserved
from belated.learners.cbp_side import CBPside, survey
from belated.learners.rand_cbp import RandomWidth, gamble
from belated.protocols import NEEDED


@dataclass(frozen=True)
class RandCBPside(RandomWidth, CBPside):
    """RandCBPside: CBPside that declares d_ij with a number Z in the place of U = sqrt(d ln t + 2 ln(1 / delta_t)).

    The sign of a pair is declared where |d_ij| >= sum_k |v_ijk|_2 s_k (Z + sqrt(ridge) s_k) sqrt(x^T V_k^-1 x), Z drawn
    for each pair and prediction: as in `RandCBP` it lies on `bins` points spread evenly over 0 .. U, and is U with
    probability epsilon, another point z with a probability proportional to exp(-z^2 / (2 sigma^2)). Which of the
    actions that are left is played is decided by the W_k w_k(x) of CBPside, where nothing is random.

    The probability of a decision is that of `RandCBP`: exact in games with up to three pairs of neighbours, not stated
    in larger ones.

    Heuillet, Ahmad, Durand, *Randomized confidence bounds for stochastic partial monitoring*, ICML 2024.

    >>> import belated as bl
    >>> f = bl.Direct(bl.RandCBPside([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]], features=2), seed=1)
    >>> [f.predict([0.5, 0.5]).action for _ in range(3)]
    [0, 1, 0]
    """

    guarantee = "O(n^(1/2)) in easy games, O(n^(2/3)) in hard ones, up to logs, outcomes linear in x"

    @staticmethod
    def predict(params, state, context, draw):
        action = unobserved(state)
        probability = 1.0
        if action < 0:
            t = float(max(state.predictions - 1, 1))
            level = params.alpha * t * t * log(t)
            top = survey(params, state, context, t)
            action, probability = gamble(
                params, draw, params.lean, params.spread, top, params.amount, params.weight, level
            )
            if action == NEEDED:
                return action, 1.0
        state.predicted[action] += 1
        return action, probability
