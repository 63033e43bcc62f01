"""NeighborhoodWatch2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.kernels.simplex import exponential_weights, pick
from belated.learners.for_game import ForGame


@dataclass(frozen=True)
class NeighborhoodWatch2(ForGame):
    """Every Pareto action watches its neighbours; for easy games against any adversary, with regret of order sqrt(n).

    Row j of Q holds exponential weights over j and its neighbours, from estimates of L_a - L_j; P~ is stationary,
    P~ = P~ Q. `redistribute` gives part of it to the actions that are best on a whole border (degenerate and
    duplicate ones) and P = (1 - gamma) of that + gamma / k. The symbol s of the played action c gives

        Z[j, a] += P~_j v_aj(c, s) / P_c - eta V^2 sum over b in N+_aj of P~_j^2 / P_b,

    eta = sqrt(ln(k n) / (n k)) / V, gamma = V k eta, V = max |v|, k the actions in use: those that are best on all
    of a border. The others (dominated, or degenerate in a smaller way) are not needed and never played.
    The horizon n is doubled: epoch m has 2^m rounds and starts afresh.

    What an estimate needs (P~, P) is kept for the last prediction only. So it can be played under BOLD and QPM-D, not
    directly. No bound is claimed: the constant in front of sqrt(n ln n) depends on the game and is not explicit.

    Lattimore, Szepesvari, *Cleaning up the neighborhood*, 2019; *Bandit Algorithms*, 2020, algorithm 25.

    >>> import belated as bl
    >>> f = bl.BOLD(bl.NeighborhoodWatch2([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]]), seed=1)
    >>> f.predict().probability
    0.5
    """

    guarantee = "C sqrt(n ln n) on easy games, any adversary; C not explicit"
    weighs = True
    tolerates_delay = False

    def __post_init__(self) -> None:
        super().__post_init__()
        game = self.game
        blind = [pair for pair in game.pairs if not game.locally[pair]]
        if blind:
            i, j = blind[0]
            raise InvalidArgument(
                f"NeighborhoodWatch2 needs a locally observable game, this one is {game.klass}: the symbols of actions "
                f"{', '.join(map(str, game.plus[i, j]))} do not tell the neighbours {i} and {j} apart"
            )

    @classmethod
    def example(cls) -> NeighborhoodWatch2:
        """Spam filtering at the cost where asking is degenerate."""
        return cls([[0, 1], [1, 0], [0.5, 0.5]], [["-", "-"], ["-", "-"], ["a", "b"]])

    @cached_property
    def middle(self) -> list[tuple[int, int, int, float]]:
        """(e, a, b, share) for every action e that is neither a nor b: L_e = share L_a + (1 - share) L_b."""
        game = self.game
        found: dict[int, tuple[int, int, int, float]] = {}
        for (i, j), between in game.plus.items():
            way = game.loss[i] - game.loss[j]
            for e in between:
                share = float((game.loss[e] - game.loss[j]) @ way / (way @ way))
                if e not in (i, j):
                    found.setdefault(e, (e, i, j, min(max(round(share, 12), 0.0), 1.0)))
        return list(found.values())

    def layout(self) -> np.dtype[Any]:
        size = len(self.game.pareto)
        return np.dtype(
            [
                ("loss", "f8", (size, size)),
                ("chain", "f8", (size, size)),
                ("stationary", "f8", (size,)),
                ("weight", "f8", (self.actions,)),
                ("first", "f8", (self.actions,)),
            ]
        )

    def params(self) -> dict[str, Any]:
        game = self.game
        size, most = len(game.pareto), max(len(names) for names in game.names)
        place = {action: i for i, action in enumerate(game.pareto)}
        near = np.eye(size, dtype=np.int64)
        between = np.zeros((size, size, self.actions), np.int64)
        observer = np.zeros((size, size, self.actions, most))
        for (i, j), seen in game.observer.items():
            a, b = place[i], place[j]
            near[a, b] = near[b, a] = 1
            between[a, b, game.plus[i, j]] = between[b, a, game.plus[i, j]] = 1
            for k, vector in seen.items():
                observer[b, a, k, : len(vector)] = vector
                observer[a, b, k, : len(vector)] = -vector
        used = np.zeros(self.actions, np.int64)
        used[[*game.pareto, *(e for e, _, _, _ in self.middle)]] = 1
        middle = self.middle or [(-1, 0, 0, 0.0)]
        return {
            "pareto": np.array(game.pareto),
            "near": near,
            "between": between,
            "observer": observer,
            "most": float(np.abs(observer).max()) or 1.0,
            "used": used,
            "middle": np.array([row[:3] for row in middle]),
            "share": np.array([row[3] for row in middle]),
        }

    @staticmethod
    def predict(params, state, context, draw):
        count = in_use(params)
        rounds, fresh = epoch(state.predictions)
        mixed = min(1.0, math.sqrt(count * log(count * rounds) / rounds))
        if fresh:
            clear(state.loss)
        watch(params, state, learning_rate(params, count, rounds))
        spread(params, state, count)
        for a in range(len(state.weight)):
            state.weight[a] = (1.0 - mixed) * state.weight[a] + mixed * params.used[a] / count
        action = pick(state.weight, 1.0, uniform(draw, 0))
        return action, state.weight[action]

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        count = in_use(params)
        rounds, _ = epoch(state.predictions)
        learn(params, state, action, probability, int(feedback[0]), learning_rate(params, count, rounds))


@kernel
def in_use(params):
    """k: how many actions are played."""
    count = 0.0
    for a in range(len(params.used)):
        count += params.used[a]
    return count


@kernel
def learning_rate(params, count, rounds):
    """eta; 0 with a single action, which has nothing to learn."""
    return math.sqrt(log(count * rounds) / (count * rounds)) / params.most if count > 1.0 else 0.0


@kernel
def epoch(t):
    """The length of the epoch that round t belongs to, and whether it is the first round of it.

    >>> [epoch(t) for t in (1, 2, 3, 4)]
    [(1.0, True), (2.0, True), (2.0, False), (4.0, True)]
    """
    length = 1
    while 2 * length <= t:
        length *= 2
    return float(length), t == length


@kernel
def clear(matrix):
    """All zeros."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0


@routine
def watch(params, state, rate):
    """Q from the sums of estimates, and its stationary distribution."""
    size = state.chain.shape[0]
    for j in range(size):
        exponential_weights(state.loss[j], rate, state.chain[j])
        total = 0.0
        for a in range(size):
            # not quite 0, so that every action can be reached
            state.chain[j, a] = max(state.chain[j, a], 1e-100) if params.near[j, a] != 0 else 0.0
            total += state.chain[j, a]
        for a in range(size):
            state.chain[j, a] /= total
    stationary(state.chain, state.stationary)


@routine
def stationary(chain, law):
    """Fill `law` with the stationary distribution of an irreducible chain; the chain is used up.

    Without a subtraction, so that small chances keep all their digits: Grassmann, Taksar, Heyman, *Regenerative
    analysis and steady state distributions for Markov chains*, 1985.

    >>> import numpy as np
    >>> law = np.zeros(2)
    >>> stationary(np.array([[0.5, 0.5], [0.25, 0.75]]), law)
    >>> law.round(12).tolist()
    [0.333333333333, 0.666666666667]
    """
    size = len(law)
    for last in range(size - 1, 0, -1):
        out = 0.0
        for j in range(last):
            out += chain[last, j]
        for i in range(last):
            chain[i, last] /= out
            for j in range(last):
                chain[i, j] += chain[i, last] * chain[last, j]
    law[0] = 1.0
    total = 1.0
    for i in range(1, size):
        law[i] = 0.0
        for j in range(i):
            law[i] += law[j] * chain[j, i]
        total += law[i]
    for i in range(size):
        law[i] /= total


@routine
def spread(params, state, count):
    """Fill `weight` with P~ over all actions, redistributed."""
    for a in range(len(state.weight)):
        state.weight[a] = 0.0
    for i in range(len(params.pareto)):
        state.weight[params.pareto[i]] = state.stationary[i]
    for a in range(len(state.weight)):
        state.first[a] = state.weight[a]
    for i in range(len(params.share)):
        if params.middle[i, 0] >= 0:
            redistribute(
                state.weight,
                state.first,
                params.middle[i, 0],
                params.middle[i, 1],
                params.middle[i, 2],
                params.share[i],
                count,
            )


@kernel
def redistribute(law, first, e, a, b, share, count):
    """Move a little of a and b to e, with L_e = share L_a + (1 - share) L_b, such that the expected loss stays.

    >>> import numpy as np
    >>> law = np.array([0.5, 0.5, 0.0])
    >>> redistribute(law, law.copy(), 2, 0, 1, 0.5, 3.0)
    >>> law.round(12).tolist()
    [0.416666666667, 0.416666666667, 0.166666666667]
    """
    weight = share * law[b] + (1.0 - share) * law[a]
    to_a = share * law[b] / weight if 0.0 < share < 1.0 and weight > 0.0 else share
    to_b = 1.0 - to_a
    most = math.inf
    if law[a] * to_a > 0.0:
        most = min(most, first[a] / (law[a] * to_a))
    if law[b] * to_b > 0.0:
        most = min(most, first[b] / (law[b] * to_b))
    part = 0.5 * most / count if most < math.inf else 0.0
    law[e] = part * (to_a * law[a] + to_b * law[b])
    law[a] *= 1.0 - part * to_a
    law[b] *= 1.0 - part * to_b


@routine
def learn(params, state, action, probability, symbol, rate):
    """Add the estimates of one round, less a bias for what they vary."""
    size = len(params.pareto)
    bias = rate * params.most * params.most
    for j in range(size):
        chance = state.stationary[j]
        for a in range(size):
            if a != j and params.near[j, a] != 0:
                inverse = 0.0
                for b in range(len(state.weight)):
                    if params.between[j, a, b] != 0:
                        inverse += 1.0 / state.weight[b]
                state.loss[j, a] += chance * params.observer[j, a, action, symbol] / probability
                state.loss[j, a] -= bias * chance * chance * inverse
