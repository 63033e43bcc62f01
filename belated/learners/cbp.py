"""CBP: confidence bound partial monitoring."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import require
from belated.geometry import Structure
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log
from belated.kernels.ties import MARGIN
from belated.learners import patterns
from belated.learners.for_game import ForGame
from belated.learners.patterns import LOOK, look_up, mark, sign_of
from belated.protocols import NEEDED

if TYPE_CHECKING:
    from belated.learners.cbp_side import CBPside

#: A difference of this share of its terms is rounding: it has no sign.
NO_SIGN = 1e-12


@dataclass(frozen=True)
class CBP(ForGame):
    """CBP: plays what may still be best, and what tells neighbours apart, the widest first. For any finite game.

    For neighbours i, j with observer vectors v_ijk, and n_k observations of action k with counts nu_k of its symbols:
    d_ij = sum_k v_ijk . nu_k / n_k estimates L_i p - L_j p, and its sign is declared once it is not 0 and
    |d_ij| >= sum_k max|v_ijk| sqrt(alpha ln t / n_k). The declared signs leave Pareto actions P and neighbours N alive.
    With W_k = max_ij max|v_ijk| it plays the action of largest W_k^2 / n_k (then the lowest number) among P, the N+_ij
    of N, and those k in the V_ij of N with n_k <= W_k^(2/3) alpha^(1/3) t^(2/3) (ln t)^(1/3).

    A wrong sign is declared with probability 2 t^(-2 alpha) for given n_k (Hoeffding), and t times that at most over
    all of them; the sum over t is finite for alpha > 1 only: with less there is no guarantee.

    t is the number of its predictions before this one. While some action has no observation it plays such a one, the
    one predicted fewest times, then the lowest number. If no law of the outcome has all declared signs, none counts.

    `loss` and `symbols` are matrices, actions x outcomes. Deterministic.

    Bartok, Zolghadr, Szepesvari, *An adaptive algorithm for finite stochastic partial monitoring*, ICML 2012.

    >>> import belated as bl
    >>> f = bl.Direct(bl.CBP([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]]))
    >>> for symbol in ["-", "good"]:
    ...     f.update(f.predict().ticket, symbol)
    >>> f.predict().action
    0
    """

    guarantee = "O(n^(1/2)) in easy games, O(n^(2/3)) in hard ones, up to logs, i.i.d. outcomes"
    _: KW_ONLY
    alpha: float = 1.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_alpha(self)

    @classmethod
    def example(cls) -> CBP:
        return cls([[1, 1], [1, 0], [0, 1]], [["a", "b"], ["-", "-"], ["-", "-"]])

    def layout(self) -> np.dtype[Any]:
        game = self.game
        k, pairs = (self.actions,), (max(1, len(game.pairs)),)
        counts = ("counts", "f8", (self.actions, max(map(len, game.names))))
        return np.dtype(
            [counts, ("seen", "i8", k), ("predicted", "i8", k), ("lean", "f8", pairs), ("spread", "f8", pairs)]
        )

    def params(self) -> dict[str, Any]:
        game = self.game
        return {"alpha": float(self.alpha)} | observers(game) | patterns.table(game)

    def supply(self, params: Any, state: Any) -> None:
        patterns.enter(self.game, params)

    @staticmethod
    def predict(params, state, context, draw):
        action = unobserved(state)
        if action < 0:
            t = float(max(state.predictions - 1, 1))
            log_t = log(t)
            width, level = math.sqrt(params.alpha * log_t), params.alpha * t * t * log_t
            action = decide(params, state.lean, state.spread, width, state.seen, params.square, level)
            if action == NEEDED:
                return action, 1.0
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.counts[action, int(feedback[0])] += 1.0
        state.seen[action] += 1
        if params.square[action] > 0.0:
            compare(params, state, action)


def check_alpha(learner: CBP | CBPside) -> None:
    """Refuse what is no number above 0; up to 1 the theorems do not speak, and nothing is claimed.

    >>> CBP([[1, 0], [0, 1]], [["-", "-"], ["r", "g"]], alpha=0.5).guarantee
    'none: the theorem needs alpha > 1, here alpha = 0.5'
    """
    if require.real("alpha", learner.alpha, above=0) <= 1:
        said = f"none: the theorem needs alpha > 1, here alpha = {learner.alpha:g}"
        object.__setattr__(learner, "guarantee", said)


def observers(game: Structure) -> dict[str, Any]:
    """The observer vectors of all neighbours, one behind the other: `first[p]` is where those of pair p begin.

    >>> from belated.geometry import structure
    >>> {name: np.asarray(x).tolist() for name, x in observers(structure([[1, 0], [0, 1]], [[0, 0], [0, 1]])).items()}
    {'first': [0, 1], 'who': [1], 'vector': [[1.0, -1.0]], 'size': [1.0], 'square': [0.0, 1.0]}
    """
    parts = [[(k, v) for k, v in game.observer[pair].items() if v.any()] for pair in game.pairs] or [[]]
    flat = [part for pair in parts for part in pair]
    vector = np.zeros((max(1, len(flat)), max(map(len, game.names))))
    largest = np.zeros(game.actions)
    for row, (k, v) in zip(vector, flat, strict=False):
        row[: len(v)] = v
        largest[k] = max(largest[k], np.abs(v).max())
    return {
        "first": np.cumsum([0, *map(len, parts)]),
        "who": np.array([k for k, _ in flat] or [0]),
        "vector": vector,
        "size": np.abs(vector).max(axis=1),
        "square": largest**2,
    }


@kernel
def unobserved(state):
    """The action without observation that was predicted fewest times, then the lowest number; -1 if there is none."""
    chosen = -1
    for k in range(len(state.seen)):
        if state.seen[k] == 0 and (chosen < 0 or state.predicted[k] < state.predicted[chosen]):
            chosen = k
    return chosen


@routine
def compare(params, state, action):
    """Bring the estimates of all pairs up to date that the action tells apart."""
    for pair in range(len(state.lean)):
        told = False
        for part in range(params.first[pair], params.first[pair + 1]):
            told = told or params.who[part] == action
        if not told:
            continue
        lean = 0.0
        spread = 0.0
        terms = 0.0
        for part in range(params.first[pair], params.first[pair + 1]):
            k = params.who[part]
            seen = float(max(state.seen[k], 1))
            for s in range(state.counts.shape[1]):
                lean += params.vector[part, s] * state.counts[k, s] / seen
            spread += params.size[part] / math.sqrt(seen)
            terms += params.size[part]
        state.lean[pair] = lean if abs(lean) > NO_SIGN * terms else 0.0
        state.spread[pair] = spread


@routine
def decide(params, lean, spread, width, seen, weight, level):
    """Declare the signs of all pairs with |lean| >= spread width; the `widest` action that these leave."""
    for pair in range(len(lean)):
        declared = lean[pair] != 0.0 and abs(lean[pair]) >= spread[pair] * width
        mark(params, pair, sign_of(lean[pair]) if declared else 0)
    return widest(params, seen, weight, level)


@routine
def widest(params, seen, weight, level):
    """The action of largest weight_k / n_k among those that the pattern at hand leaves; NEEDED if that is not known.

    Those to look at count only while n_k^3 <= W_k^2 level, with level = alpha t^2 ln t.
    """
    place = look_up(params)
    if place == NEEDED:
        return NEEDED
    chosen = -1
    best = -1.0
    for k in range(len(seen)):
        role = params.role[place, k]
        n = float(seen[k])
        if role == 0 or (role == LOOK and n * n * n > params.square[k] * level):
            continue
        value = weight[k] / n
        if value > best + MARGIN * abs(best):
            best = value
            chosen = k
    return chosen
