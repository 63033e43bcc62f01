"""MDP-Exp3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.chains import factor, stationary, values
from belated.kernels.compile import kernel, routine
from belated.kernels.random import uniform
from belated.kernels.simplex import exponential_weights, pick
from belated.kernels.values import value_of
from belated.protocols import Floats, Game, Learner
from belated.theory.markov import least_lag, transitions_of

MOST_STATES = 30
MOST_ROUNDS = 1_000_000
#: No estimate is larger than this. It takes a policy whose chances are below 1e-100 to come near.
LARGEST = 1e100


@dataclass(frozen=True, repr=False)
class MDPExp3(Learner):
    """Exp3 in every state of a Markov decision process, on estimates of how good an action is there in the long run.

    `transitions` is P(y | x, a), states x actions x states, and the context is the state. With N = `lag`,
    gamma = `mixing` and eta = `rate`:

    * pi_t(a | x) = (1 - gamma) w_t(x, a) / sum_b w_t(x, b) + gamma / A is the policy of round t.
    * mu_t is the law of the state x_t as of N rounds before: from x_{t-N} by a_{t-N}, then by the policies since.
    * r^_t(x, a) = r_t / (pi_t(a | x) mu_t(x)) for the state and action of round t, 0 for all others.
    * q^_t = r^_t - rho + P v with v(x) = sum_a pi_t(a | x) q^_t(x, a), 0 on average over the stationary law of pi_t.
    * w_t(x, a) = exp(eta sum_s q^_s(x, a)) over s <= t - N whose feedback has come; the first N rounds teach nothing.

    So the policies in mu_t are decided N rounds before, and q^_t is right on average, given what was known then. That
    takes a `lag` after which every state may be reached from everywhere; a smaller one is refused. Delays below `lag`
    change nothing, no action at all: feedback waits for its turn.

    It keeps the policies of the last `lag` + `window` rounds. Feedback that comes later is dropped, and counted in the
    field `dropped` of its state (`MDPExp3.dropped_by`); `play` refuses delays that are known to be longer. It follows
    one course: it must be asked in every round of it, and what it says must be played. Only `Direct` plays it.

    Its authors prove regret of the order of sqrt(n) ln n against the best stationary policy, without delay. No constant
    is proved, so no bound is stated.

    Neu, Gyorgy, Szepesvari, Antos, *Online Markov decision processes under bandit feedback*, 2010.

    >>> import belated as bl
    >>> grid = bl.games.grid_world(2, 3, slip=0.2)
    >>> f = bl.Direct(bl.MDPExp3(grid, lag=3, rate=0.01, mixing=0.1, window=100), seed=1)
    >>> f.predict(0)  # in the first cell
    Decision(ticket=1, action=1, probability=0.25)
    """

    weighs = True
    steers = True
    context_size = 1
    comparator = "map"
    guarantee = "none with a constant; O(sqrt(n) ln n) against the best stationary policy, by its authors"
    transitions: Sequence[Sequence[Sequence[float]]]
    lag: int
    rate: float
    mixing: float
    window: int

    def __repr__(self) -> str:
        sizes = f"{self.values} states x {self.actions} actions, lag={self.lag!r}, rate={self.rate!r}"
        return f"MDPExp3({sizes}, mixing={self.mixing!r}, window={self.window!r})"

    def __post_init__(self) -> None:
        chances = transitions_of(self.transitions)
        if len(chances) > MOST_STATES:
            raise InvalidArgument(f"transitions must have at most {MOST_STATES} states, got {len(chances)}")
        rows = tuple(tuple(map(tuple, row)) for row in chances.tolist())
        object.__setattr__(self, "transitions", rows)
        require.integer("lag", self.lag, low=1, high=MOST_ROUNDS)
        require.real("rate", self.rate, above=0)
        require.real("mixing", self.mixing, above=0, high=1)
        require.integer("window", self.window, low=1, high=MOST_ROUNDS)
        enough = least_lag(chances)
        if enough is None:
            raise InvalidArgument(
                "transitions never reach every state from everywhere at once under uniform play: no lag will do"
            )
        if self.lag < enough:
            raise InvalidArgument(
                f"lag must be >= {enough}, got {self.lag}: after so few rounds some state cannot be reached"
            )

    @classmethod
    def example(cls) -> MDPExp3:
        """Three states in a ring, two ways round."""
        ring = [
            [[0.2, 0.6, 0.2], [0.2, 0.2, 0.6]],
            [[0.2, 0.2, 0.6], [0.6, 0.2, 0.2]],
            [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]],
        ]
        return cls(ring, lag=2, rate=0.1, mixing=0.2, window=20)

    def example_context(self, draws: np.random.Generator) -> Floats:
        return np.array([float(draws.integers(self.values))])

    @property
    def values(self) -> int:  # type: ignore[override]
        return len(self.transitions)

    @property
    def actions(self) -> int:  # type: ignore[override]
        return len(self.transitions[0])

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.lag + self.window

    def check_context(self, context: Floats) -> None:
        if not 0 <= context[0] < self.values or context[0] != round(float(context[0])):
            raise InvalidArgument(f"context must be a state from 0 to {self.values - 1}, got {float(context[0])!r}")

    def layout(self) -> np.dtype[Any]:
        states, kept = self.values, (self.keeps,)
        return np.dtype(
            [
                ("loss", "f8", (states, self.actions)),  # minus the sum of all q^
                # Of each of the last rounds: its policy, state and action, mu_t(x_t), and feedback that came early.
                ("policy", "f8", (*kept, states, self.actions)),
                ("shown", "i8", kept),
                ("played", "i8", kept),
                ("likely", "f8", kept),
                ("waits", "i8", kept),
                ("reward", "f8", kept),
                ("dropped", "i8"),
                # Room to work in.
                ("chain", "f8", (states, states)),
                ("law", "f8", (states,)),
                ("value", "f8", (states,)),
            ]
        )

    def params(self) -> dict[str, Any]:
        return {
            "lag": self.lag,
            "rate": float(self.rate),
            "mixing": float(self.mixing),
            "transitions": np.array(self.transitions),
        }

    def facing(self, game: Game) -> Learner | str:
        return "no constant is proved for MDPExp3, with or without delay: it states no bound"

    @staticmethod
    def dropped_by(forecaster: Any) -> int:
        """How much feedback a forecaster in this process has dropped because it came too late for the window."""
        return int(forecaster._room.seats[0].learner.state["dropped"][0])

    @staticmethod
    def predict(params, state, context, draw):
        t = state.predictions
        kept = len(state.waits)
        before = (t - params.lag) % kept
        if t > params.lag and state.waits[before]:
            learn(params, state, before)
        slot = t % kept
        decide(params, state, slot)
        x = value_of(context, len(state.law))
        action = pick(state.policy[slot, x], 1.0, uniform(draw, 0))
        state.shown[slot] = x
        state.played[slot] = action
        state.waits[slot] = 0
        state.likely[slot] = chance_of(params, state, x) if t > params.lag else 0.0
        return action, state.policy[slot, x, action]

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        age = state.predictions - state.answering
        kept = len(state.waits)
        if age >= kept:
            state.dropped += 1
            return
        slot = state.answering % kept
        state.reward[slot] = feedback[0]
        if age < params.lag:
            state.waits[slot] = 1
        else:
            learn(params, state, slot)


@kernel
def decide(params, state, slot):
    """The policy of now, in every state."""
    states, actions = state.loss.shape
    for x in range(states):
        total = exponential_weights(state.loss[x], params.rate, state.policy[slot, x])
        for a in range(actions):
            share = state.policy[slot, x, a] / total
            state.policy[slot, x, a] = (1.0 - params.mixing) * share + params.mixing / actions


@routine
def chance_of(params, state, x):
    """mu_t(x), t the prediction in progress."""
    kept = len(state.waits)
    states, actions = state.loss.shape
    first = (state.predictions - params.lag) % kept
    for y in range(states):
        state.law[y] = params.transitions[state.shown[first], state.played[first], y]
    for back in range(params.lag - 1, 0, -1):
        slot = (state.predictions - back) % kept
        for y in range(states):
            state.value[y] = 0.0
        for z in range(states):
            for a in range(actions):
                share = state.law[z] * state.policy[slot, z, a]
                for y in range(states):
                    state.value[y] += share * params.transitions[z, a, y]
        for y in range(states):
            state.law[y] = state.value[y]
    return state.law[x]


@routine
def learn(params, state, slot):
    """Add q^ of a round, unless it is one of the first, of which nothing was known N rounds before."""
    if state.likely[slot] <= 0.0:
        return
    states, actions = state.loss.shape
    x = state.shown[slot]
    for z in range(states):
        state.value[z] = 0.0
        for y in range(states):
            state.chain[z, y] = 0.0
        for a in range(actions):
            for y in range(states):
                state.chain[z, y] += state.policy[slot, z, a] * params.transitions[z, a, y]
    factor(state.chain)
    stationary(state.chain, state.law)
    state.value[x] = min(state.reward[slot] / state.likely[slot], LARGEST)
    estimate = min(state.value[x] / state.policy[slot, x, state.played[slot]], LARGEST)
    rho = values(state.chain, state.law, state.value)
    for z in range(states):
        for a in range(actions):
            ahead = 0.0
            for y in range(states):
                ahead += params.transitions[z, a, y] * state.value[y]
            state.loss[z, a] -= ahead - rho
    state.loss[x, state.played[slot]] -= estimate
