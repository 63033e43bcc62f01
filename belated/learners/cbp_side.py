"""CBPside: confidence bound partial monitoring with linear side information."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import routine
from belated.kernels.elementary import log
from belated.kernels.sampling import TINY
from belated.learners import patterns
from belated.learners.cbp import check_alpha, decide, observers, unobserved
from belated.learners.for_game import ForGame
from belated.learners.linear_model import add, learn, limit, migrate, model, square, value
from belated.protocols import NEEDED


@dataclass(frozen=True)
class CBPside(ForGame):
    """CBP for outcomes whose law is linear in a context x: the frequencies of symbols are regressed on x.

    For each action k, V_k = ridge I + sum x x^T and Theta_k = (sum Y x^T) V_k^-1, over the rounds in which k was played
    and its symbol is known: Y has a 1 for that symbol, else 0, and x is the context of that round, however late the
    symbol comes. For neighbours i, j with observer vectors v_ijk, d_ij = sum_k v_ijk . Theta_k x estimates
    (L_i - L_j) p(x), and its sign is declared where it is not 0 and |d_ij| >= sum_k |v_ijk|_2 w_k(x), with

        w_k(x) = s_k (sqrt(d ln t + 2 ln(1 / delta_t)) + sqrt(ridge) s_k) sqrt(x^T V_k^-1 x), delta_t = 1 / t^2,

    s_k the number of symbols of action k and d the number of features. As in `CBP` the declared signs leave Pareto
    actions P and neighbours N alive. It plays the action of largest W_k w_k(x) among P, the N+_ij of N, and those k in
    the V_ij of N with x^T V_k^-1 x > 1 / (W_k^(2/3) alpha^(1/3) t^(2/3) (ln t)^(1/3)), W_k = max_ij max|v_ijk|. Values
    that differ by a share of 1e-9 in their squares are tied: the lowest number. An action with W_k = 0 tells nothing,
    and no model of it is kept.

    t is the number of its predictions before this one (at least 1). While some action has no observation it plays such
    a one, whatever x is: the one predicted fewest times, then the lowest number. If no law of the outcome has all
    declared signs, none counts. An update takes d^2 steps. Features should be of the order of 1; those beyond
    1e10 sqrt(ridge) are refused.

    Bartok, Szepesvari, *Partial monitoring with side information*, ALT 2012; for hard games Heuillet, Ahmad, Durand,
    *Randomized confidence bounds for stochastic partial monitoring*, ICML 2024.

    >>> import belated as bl
    >>> f = bl.Direct(bl.CBPside([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]], features=2))
    >>> for colour, symbol in [([1, 0], "-"), ([1, 0], "rotten"), ([0, 1], "good")]:
    ...     f.update(f.predict(colour).ticket, symbol)
    >>> f.predict([0, 1]).action
    1
    """

    guarantee = "O(d^2 K^(3/2) n^(1/2)) in easy games up to logs, outcomes linear in x"
    version = 3  # the matrices are kept the other way round
    migrate = staticmethod(migrate)
    features: int
    _: KW_ONLY
    alpha: float = 1.01
    ridge: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.integer("features", self.features, low=1)
        check_alpha(self)
        require.real("ridge", self.ridge, above=0)

    @classmethod
    def example(cls) -> CBPside:
        """Label-efficient prediction with three features, and a ridge that lets it decide in a few hundred rounds."""
        return cls([[1, 1], [1, 0], [0, 1]], [["a", "b"], ["-", "-"], ["-", "-"]], 3, ridge=0.01)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.features

    @property
    def context_limit(self) -> float:  # type: ignore[override]
        return limit(self.ridge)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        models = model(self.features, self.actions, max(map(len, self.game.names)))
        return np.dtype([*models, ("seen", "i8", k), ("predicted", "i8", k)])

    def params(self) -> dict[str, Any]:
        game = self.game
        given = observers(game)
        pairs = len(given["first"]) - 1
        room = {
            "share": np.zeros((self.actions, given["vector"].shape[1])),  # Theta_k x
            "reach": np.zeros(self.actions),  # s_k sqrt(x^T V_k^-1 x)
            "amount": np.ones(self.actions),  # 1 / x^T V_k^-1 x, in the place of a number of observations
            "weight": np.zeros(self.actions),  # (W_k w_k(x))^2 times that
            "lean": np.zeros(pairs),
            "spread": np.zeros(pairs),
        }
        sizes = {"sizes": np.array([float(len(names)) for names in game.names])}
        length = {"length": np.linalg.norm(given["vector"], axis=1)}
        numbers = {"alpha": float(self.alpha), "root": math.sqrt(self.ridge)}
        return room | sizes | length | numbers | given | patterns.table(game)

    def start(self, state: Any) -> None:
        state["root"][:] = np.eye(self.features) / math.sqrt(self.ridge)

    def supply(self, params: Any, state: Any) -> None:
        patterns.enter(self.game, params)

    @staticmethod
    def predict(params, state, context, draw):
        action = unobserved(state)
        if action < 0:
            t = float(max(state.predictions - 1, 1))
            level = params.alpha * t * t * log(t)
            width = survey(params, state, context, t)
            action = decide(params, params.lean, params.spread, width, params.amount, params.weight, level)
            if action == NEEDED:
                return action, 1.0
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.seen[action] += 1
        if params.square[action] > 0.0:
            add(state.root[action], context, state.along)
            for s in range(state.theta.shape[1]):
                learn(state.theta[action, s], context, state.along, 1.0 if s == int(feedback[0]) else 0.0)


@routine
def survey(params, state, context, t):
    """Fill in what the models say about the context, and return U = sqrt(d ln t + 2 ln(1 / delta_t)).

    A pair's sign is declared where |d_ij| >= base + spread U, base being what the ridge may do. Here `lean` is what
    |d_ij| has above that base, with the sign of d_ij: `decide` and `gamble` then compare as without a context.
    """
    width = math.sqrt((len(context) + 4) * log(t))
    for k in range(len(state.seen)):
        if params.square[k] > 0.0:
            for s in range(state.theta.shape[1]):
                params.share[k, s] = value(state.theta[k, s], context)
            size = params.sizes[k]
            spare = square(state.root[k], context, state.along)
            scale = size * (width + params.root * size)
            params.reach[k] = size * math.sqrt(spare)
            params.amount[k] = 1.0 / spare if spare > TINY else math.inf
            params.weight[k] = params.square[k] * scale * scale
    for pair in range(len(params.lean)):
        lean = 0.0
        spread = 0.0
        base = 0.0
        for part in range(params.first[pair], params.first[pair + 1]):
            k = params.who[part]
            for s in range(params.share.shape[1]):
                lean += params.vector[part, s] * params.share[k, s]
            spread += params.length[part] * params.reach[k]
            base += params.length[part] * params.reach[k] * params.root * params.sizes[k]
        params.lean[pair] = math.copysign(max(abs(lean) - base, 0.0), lean)
        params.spread[pair] = spread
    return width
