"""Thompson sampling for partial monitoring."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import exp, log
from belated.kernels.posterior import factor, propose
from belated.kernels.sampling import TINY, pair
from belated.learners.for_game import ForGame
from belated.learners.upgrade import keep

#: Proposals for one draw from the posterior are at most this over M^2 (1000 for three outcomes).
EFFORT = 9000
#: Draws until an action comes again, at most.
REPEATS = 100_000
#: Moves of the walk that replaces an exact draw, for each outcome.
MOVES = 10


@dataclass(frozen=True)
class TSPM(ForGame):
    """Draws a law p of the outcome from its posterior and plays the action that is best for it.

    The posterior is exp(-prior |p|^2 / 2) prod_k exp(-n_k KL(q_k || S_k p)) on the simplex, q_k the frequencies of the
    n_k symbols seen under action k: nearly uniform before any is seen. Draws are exact (R = 1 in the paper): proposals
    come from the normal law with |q_k - S_k p|^2 / 2 in place of the divergence, given that it lies in the simplex, and
    are accepted by the ratio of the two, which Pinsker's inequality keeps below 1. When 9000 / M^2 proposals were all
    refused, the draw starts from one of them, chosen by its weight, and walks 10 M steps that leave the posterior as it
    is: near, not exact, and counted in `state.capped`. That takes data no law would give, or more than some five
    outcomes.

    The probability of a decision is 1/N, N the number of further draws from the posterior until one has the same action
    (at most 100,000; as many as there are actions in the mean). The chance itself has no closed form. 1/N varies, but N
    is 1/chance in the mean, so that dividing by it is unbiased: an action of chance p is counted 1 - (1 - p)^100000
    times, which is 1 for all that logs of some ten thousand decisions contain. The learner itself does not use it.

    It never plays an action only to learn. So it fails on games that need that: hard ones, and easy ones in which a
    degenerate action tells what others do not. Proved (regret of order log n) for a linearised variant; no bound is
    claimed here.

    Tsuchiya, Honda, Sugiyama, *Analysis and design of Thompson sampling for stochastic partial monitoring*, 2020.

    >>> import belated as bl
    >>> f = bl.QPMD(bl.TSPM([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]]), seed=1)
    >>> f.predict().action in (0, 1)
    True
    """

    guarantee = "none with explicit constants"
    version = 3  # 2: elementary functions of our own, the last bits differ; 3: more draws for a rare action
    migrate = staticmethod(keep)
    prior: float = field(default=1e-3, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prior", require.real("prior", self.prior, above=0))

    @classmethod
    def example(cls) -> TSPM:
        """Bartok's game of three actions and three outcomes."""
        symbols = [["a", "b", "b"], ["b", "a", "b"], ["b", "b", "a"]]
        return cls([[1, 1, 0], [0, 1, 1], [1, 0, 1]], symbols)

    def layout(self) -> np.dtype[Any]:
        outcomes = len(self.loss[0])
        free = max(outcomes - 1, 1)
        most = max(len(set(row)) for row in self.symbols)
        return np.dtype(
            [
                ("seen", "f8", (self.actions, most)),
                ("capped", "i8"),
                ("factor", "f8", (free, free)),
                ("mean", "f8", (free,)),
                ("point", "f8", (outcomes,)),
                ("kept", "f8", (outcomes,)),
            ]
        )

    def params(self) -> dict[str, Any]:
        game = self.game
        return {"codes": game.codes, "loss": game.loss, "prior": self.prior}

    @staticmethod
    def predict(params, state, context, draw):
        prepare(params, state)
        index = sample(params, state, draw, 0)
        action = best(params.loss, state.kept)
        if params.unread:
            return action, 1.0
        again = 0
        same = False
        while not same and again < REPEATS:
            index = sample(params, state, draw, index)
            same = best(params.loss, state.kept) == action
            again += 1
        return action, 1.0 / again

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.seen[action, int(feedback[0])] += 1.0


@kernel
def best(loss, law):
    """The action of least expected loss; the lowest number among equals."""
    chosen = 0
    least = 0.0
    for a in range(loss.shape[0]):
        expected = 0.0
        for x in range(loss.shape[1]):
            expected += loss[a, x] * law[x]
        if a == 0 or expected < least:
            least = expected
            chosen = a
    return chosen


@routine
def prepare(params, state):
    """The normal law of the proposals: its mean, and the Cholesky factor of its precision matrix.

    B = prior I + sum_k n_k S_k^T S_k and b = sum_k S_k^T (counts), with the last outcome's p as one less the others.
    """
    actions, outcomes = params.codes.shape
    last = outcomes - 1
    for i in range(last):
        state.mean[i] = params.prior
        for j in range(last):
            state.factor[i, j] = 2.0 * params.prior if i == j else params.prior
    for k in range(actions):
        plays = 0.0
        for s in range(state.seen.shape[1]):
            plays += state.seen[k, s]
        end = params.codes[k, last]
        for i in range(last):
            code = params.codes[k, i]
            state.mean[i] += (0.0 if code == end else plays) + state.seen[k, code] - state.seen[k, end]
            for j in range(last):
                other = params.codes[k, j]
                times = 1 + int(code == other) - int(code == end) - int(other == end)
                state.factor[i, j] += plays * times
    factor(state.factor, state.mean, last)


@routine
def sample(params, state, draw, index):
    """Fill `kept` with a law drawn from the posterior; return the next index."""
    outcomes = len(state.point)
    top = -math.inf
    total = 0.0
    for _ in range(EFFORT // (outcomes * outcomes) + 1):
        weight, index = propose(draw, index, state.mean, state.factor, state.point)
        weight += log_likelihood(params, state, 0.5)
        u, v = pair(draw, index)
        index += 1
        accepted = log(1.0 - u) < weight
        # a weighted choice among all proposals so far, in case none is accepted
        if weight > top:
            total *= exp(top - weight)
            top = weight
        share = exp(weight - top)
        total += share
        if accepted or v * total < share:
            for x in range(outcomes):
                state.kept[x] = state.point[x]
        if accepted:
            return index
    state.capped += 1
    for x in range(outcomes):
        state.point[x] = state.kept[x]
    for _ in range(MOVES * outcomes):
        index = move(params, state, draw, index)
    for x in range(outcomes):
        state.kept[x] = state.point[x]
    return index


@routine
def move(params, state, draw, index):
    """Move mass between two outcomes of `point`, at least two, such that the posterior stays as it is.

    Neal, *Slice sampling*, 2003: a level below the density here, then a place on the line where the density is above
    it, the line cut down to the side of here after every miss.
    """
    u, v = pair(draw, index)
    i = int(u * len(state.point))
    j = int(v * (len(state.point) - 1))
    j += int(j >= i)
    first = state.point[i]
    both = first + state.point[j]
    low = 0.0
    high = both
    u, v = pair(draw, index + 1)
    index += 2
    level = log_posterior(params, state) + log(1.0 - u)
    for _ in range(60):
        state.point[i] = low + (high - low) * v
        state.point[j] = max(both - state.point[i], 0.0)
        if log_posterior(params, state) >= level:
            return index
        if state.point[i] < first:
            low = state.point[i]
        else:
            high = state.point[i]
        v, _other = pair(draw, index)
        index += 1
    state.point[i] = first
    state.point[j] = both - first
    return index


@kernel
def log_posterior(params, state):
    """The logarithm of the posterior density at `point`, up to a constant."""
    square = 0.0
    for x in range(len(state.point)):
        square += state.point[x] * state.point[x]
    return log_likelihood(params, state, 0.0) - 0.5 * params.prior * square


@routine
def log_likelihood(params, state, part):
    """sum_k n_k (part |q_k - S_k p|^2 - KL(q_k || S_k p)) at p = `point`: never positive for part up to 1/2."""
    total = 0.0
    for k in range(params.codes.shape[0]):
        plays = 0.0
        for s in range(state.seen.shape[1]):
            plays += state.seen[k, s]
        if plays > 0.0:
            for s in range(state.seen.shape[1]):
                chance = 0.0
                for x in range(len(state.point)):
                    if params.codes[k, x] == s:
                        chance += state.point[x]
                often = state.seen[k, s] / plays
                total += part * plays * (often - chance) * (often - chance)
                if often > 0.0:
                    total -= plays * often * log(often / max(chance, TINY))
    return min(total, 0.0)
