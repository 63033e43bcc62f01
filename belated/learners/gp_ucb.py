"""GP-UCB with points whose rewards are still out: GP-BUCB."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels import covariances
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log, log1p
from belated.kernels.sets import FAR
from belated.kernels.ties import largest_among, largest_index
from belated.protocols import NEVER, Floats, Game, Learner
from belated.theory import gaussian
from belated.theory.case import unit_of

RULES = ("bucb", "plain", "stale")
#: The least noise, as a share of the largest variance: with less, rounding would decide.
QUIET = 1e-12
#: As many points as `repr` shows the covariance of.
SHOWN = 4


@dataclass(frozen=True, repr=False)
class GPUCB(Learner):
    """Actions are points of a Gaussian process; plays the largest mu + e^C sqrt(alpha_t) sigma; told late, in batches.

    `covariance` S is that of the rewards' expectations f before anything is known (`bl.kernels.squared_exponential`,
    `bl.kernels.matern`), with mean 0; `noise` v is the variance of a reward around f. mu is the posterior mean given
    the rewards that have come. sigma is the posterior deviation given all points chosen, those whose rewards are still
    out included: that takes no rewards, and keeps it from choosing the same point again and again. A cancelled point
    is forgotten. alpha_t = 2 ln(K t^2 pi^2 / (6 delta)).

    | rule | |
    |---|---|
    | `"bucb"` | as above, C = `inflation`: the bound holds |
    | `"plain"` | C = 0, which most people run; no bound under delay |
    | `"stale"` | sigma of what has come alone, C = 0: has a bound as well, and is slow |

    `pending(state)` is the information (in nats) of what is out, C_t; `bl.batches` ends a batch by it (GP-AUCB). In
    `games.GaussianProcess` with the same covariance and noise, at a constant delay, the mean regret is at most
    `bounds.gp_ucb_mean`; for one run see `bounds.gp_ucb` and `information`. The state has two K x K matrices.

    Desautels, Krause, Burdick, *Parallelizing exploration-exploitation tradeoffs in Gaussian process bandit
    optimization*, 2012.

    >>> import belated as bl
    >>> f = bl.Direct(bl.GPUCB(bl.kernels.squared_exponential([0.0, 0.5, 1.0], scale=0.3), noise=0.01))
    >>> [f.predict().action for _ in range(3)]
    [0, 2, 1]
    """

    guarantee = "explicit (bounds.gp_ucb_mean) in a Gaussian process as it was told of, also at a constant delay"
    reads_answering = False
    smallest = -math.inf
    largest = math.inf
    covariance: Any
    noise: float
    delta: float = 0.1
    inflation: float = math.log(2.0) / 2.0
    rule: str = "bucb"

    #: In the game that it faces: what a round costs at most, on average, in the unit of its regret, and that unit.
    faced: ClassVar[tuple[float, float] | None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", covariances.checked(self.covariance))
        object.__setattr__(self, "noise", require.real("noise", self.noise, above=0, high=1e100))
        if self.noise < QUIET * self.variance:
            least = QUIET * self.variance
            raise InvalidArgument(f"noise is a variance, and must be at least {least:g} here, got {self.noise!r}")
        require.real("delta", self.delta, above=0, below=1)
        require.real("inflation", self.inflation, low=0, high=100)
        require.one_of("rule", self.rule, RULES)

    @classmethod
    def example(cls) -> GPUCB:
        """Three points."""
        return cls(((1.0, 0.5, 0.1), (0.5, 1.0, 0.5), (0.1, 0.5, 1.0)), 0.1)

    @property
    def actions(self) -> int:  # type: ignore[override]
        return len(self.covariance)

    @property
    def variance(self) -> float:
        """The largest of the process."""
        return float(max(self.covariance[i][i] for i in range(self.actions)))

    def layout(self) -> np.dtype[Any]:
        k = self.actions
        return np.dtype(
            [
                ("known", "f8", (k, k)),  # the posterior covariance given what has come
                ("chosen", "f8", (k, k)),  # and given all points chosen
                ("mean", "f8", (k,)),
                ("index", "f8", (k,)),
                ("along", "f8", (k,)),
                ("predicted", "i8", (k,)),
                ("waiting", "i8", (k,)),  # how many rewards of each point are out
                ("information", "f8"),
            ]
        )

    def start(self, state: Any) -> None:
        state["known"][:] = state["chosen"][:] = np.array(self.covariance)

    def params(self) -> dict[str, Any]:
        return {
            "noise": float(self.noise),
            "width": math.exp(self.inflation) if self.rule == "bucb" else 1.0,
            "stale": int(self.rule == "stale"),
            "first": math.log(self.actions * math.pi**2 / (6.0 * self.delta)),
        }

    @staticmethod
    def predict(params, state, context, draw):
        weigh(params, state)
        action = largest_index(state.index, state.predicted)
        choose(params, state, action)
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        weigh(params, state)
        action = largest_among(state.index, state.predicted, allowed)
        choose(params, state, action)
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if state.waiting[action] > 0:
            state.waiting[action] -= 1
        else:  # a forecaster played it without asking
            state.information += condition(state.chosen, action, params.noise, state.along)
        miss = min(max(feedback[0], -FAR), FAR) - state.mean[action]
        gain = miss / (max(state.known[action, action], 0.0) + params.noise)
        for i in range(len(state.mean)):
            state.mean[i] += gain * state.known[action, i]
        state.information -= condition(state.known, action, params.noise, state.along)

    @staticmethod
    def lost(params, state, context, action, probability):
        if action >= 0 and state.waiting[action] > 0:
            state.waiting[action] -= 1
            rebuild(params, state)

    def pending(self, state: Any) -> float:
        """C_t: the information, in nats, that the rewards which are out have about f, given those that have come."""
        return max(0.0, float(state["information"]))

    def information(self, actions: Sequence[int], delays: Sequence[int] | None = None) -> tuple[Floats, Floats]:
        """Of a run on record, for every round: C_t of what was out, and iota_t, what the point chosen then added.

        `actions` and `delays` are rows of `Result.actions` and `Result.delays`; without delays C_t is 0. iota_t is
        ln(1 + sigma_t^2 / v) / 2, sigma_t given all points chosen before; their sum is I_n.

        >>> pending, added = GPUCB(((1.0, 0.0), (0.0, 1.0)), noise=1.0).information([0, 1, 0], [2, 0, 0])
        >>> pending.round(3).tolist(), added.round(3).tolist()
        ([0.0, 0.347, 0.347], [0.347, 0.347, 0.203])
        """
        n = len(actions)
        late = np.zeros(n, np.int64) if delays is None else np.minimum(np.asarray(delays, np.int64), NEVER - n)
        chosen, known = np.array(self.covariance), np.array(self.covariance)
        arrivals: dict[int, list[int]] = {}
        pending, added, out = np.zeros(n), np.zeros(n), 0.0
        for t, action in enumerate(np.asarray(actions, np.int64).tolist()):
            pending[t] = max(0.0, out)
            added[t] = _take(chosen, action, self.noise)
            out += added[t]
            arrivals.setdefault(t + int(late[t]), []).append(action)
            for each in arrivals.pop(t, ()):
                out -= _take(known, each, self.noise)
        return pending, added

    # --- bounds ---

    def facing(self, game: Game) -> Learner | str:
        theirs = getattr(game, "covariance", None), getattr(game, "noise", None)
        if theirs != (self.covariance, self.noise):
            return "its bound is for f drawn from the Gaussian process that it was told of, with that noise"
        learner = copy.copy(self)
        object.__setattr__(learner, "faced", (gaussian.span(self.actions, self.variance), unit_of(game)))
        return learner

    @property
    def worst(self) -> float:  # type: ignore[override]
        return 1.0 if self.faced is None else self.faced[0] / self.faced[1]

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        if self.faced is None or (peak > 0 and (not constant or self.rule == "plain" or self.inflation == 0)):
            return None
        inflation = self.inflation if self.rule == "bucb" or peak > 0 else 0.0
        given = (self.covariance, self.noise, self.delta, inflation, peak, self.rule == "stale")
        return gaussian.gp_ucb_mean(n, *given) / self.faced[1]

    def __repr__(self) -> str:
        shown = self.covariance if self.actions <= SHOWN else f"<{self.actions} x {self.actions}>"
        return (
            f"GPUCB(covariance={shown}, noise={self.noise!r}, delta={self.delta!r}, inflation={self.inflation!r}, "
            f"rule={self.rule!r})"
        )


def _take(covariance: Floats, action: int, noise: float) -> float:
    """`condition`, in Python."""
    column = covariance[action].copy()
    variance = max(float(column[action]), 0.0)
    covariance -= np.outer(column, column) / (variance + noise)
    return 0.5 * math.log1p(variance / noise)


@kernel
def weigh(params, state):
    """The index of every point."""
    alpha = 2.0 * (params.first + 2.0 * log(float(state.predictions)))
    width = params.width * math.sqrt(alpha)
    for i in range(len(state.index)):
        variance = state.known[i, i] if params.stale == 1 else state.chosen[i, i]
        state.index[i] = state.mean[i] + width * math.sqrt(max(variance, 0.0))


@kernel
def choose(params, state, action):
    """The point is chosen: its reward will come."""
    state.predicted[action] += 1
    state.waiting[action] += 1
    state.information += condition(state.chosen, action, params.noise, state.along)


@routine
def condition(covariance, action, noise, along):
    """Make a covariance what it is once the point was observed with that noise; return what is learned of f, in nats.

    S loses s s^T / (s_a + v), s its column: as a product of equal vectors, so that it stays symmetric to the bit.
    """
    variance = max(covariance[action, action], 0.0)
    shrink = 1.0 / math.sqrt(variance + noise)
    for i in range(len(along)):
        along[i] = covariance[action, i] * shrink
    for i in range(len(along)):
        row = covariance[i]
        part = along[i]
        for j in range(len(along)):
            row[j] -= part * along[j]
    return 0.5 * log1p(variance / noise)


@kernel
def rebuild(params, state):
    """Choose anew all that is waiting: c rewards of one point are one of noise v / c."""
    for i in range(len(state.mean)):
        for j in range(len(state.mean)):
            state.chosen[i, j] = state.known[i, j]
    state.information = 0.0
    for i in range(len(state.mean)):
        if state.waiting[i] > 0:
            noise = params.noise / float(state.waiting[i])
            state.information += condition(state.chosen, i, noise, state.along)
