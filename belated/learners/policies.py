"""What the learners that choose among given policies share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels import coverage
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.kernels.simplex import pick
from belated.protocols import Floats, Game, Learner


@dataclass(frozen=True)
class AmongPolicies(Learner):
    """Learns which of some policies is best: each says an action for each context, of which there are finitely many.

    `policies` are rows of actions, one a context; `shares` the probabilities of the contexts, which must be known
    (None: all alike). The context of a decision is its number. With m rewards known, the mean of r 1{i says a} / W'(a)
    is what policy i earns, W' the probability with which the action was played.
    """

    weighs = True
    comparator = "policy"
    reads_answering = False
    context_size = 1
    policies: Sequence[Sequence[int]]
    shares: Sequence[float] | None
    actions: int
    delta: float = 0.05

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        policies = require.choices("policies", self.policies, self.actions)
        object.__setattr__(self, "policies", policies)
        if self.shares is not None:
            object.__setattr__(self, "shares", require.shares("shares", self.shares, len(policies[0])))
        require.real("delta", self.delta, above=0, below=1)

    @classmethod
    def example(cls) -> AmongPolicies:
        """Four policies, three contexts, three actions."""
        return cls(((0, 0, 0), (1, 1, 1), (0, 1, 2), (2, 1, 2)), (0.5, 0.3, 0.2), 3)

    @property
    def contexts(self) -> int:
        """How many contexts there are."""
        return len(self.policies[0])

    @property
    def chances(self) -> Floats:
        """The probability of each."""
        return np.asarray(self.shares or [1.0 / self.contexts] * self.contexts)

    def example_context(self, draws: np.random.Generator) -> Floats:
        return np.array([float(draws.integers(self.contexts))])

    def check_context(self, context: Floats) -> None:
        if not (0 <= context[0] < self.contexts and context[0] == int(context[0])):
            raise InvalidArgument(f"context must be one of 0..{self.contexts - 1}, got {context[0]:g}")

    def layout(self) -> np.dtype[Any]:
        n, c, k = len(self.policies), self.contexts, self.actions
        own = [("known", "i8"), ("settled", "i8"), ("total", "f8", (n,)), ("chance", "f8", (k,))]
        return np.dtype(own + coverage.fields(n, c, k))

    def params(self) -> dict[str, Any]:
        return {"choice": np.array(self.policies), "share": self.chances, "delta": float(self.delta)}

    def start(self, state: Any) -> None:
        """All policies alike."""
        share = 1.0 / len(self.policies)
        state["law"][:] = share
        for policy in self.policies:
            for x, action in enumerate(policy):
                state["weight"][x, action] += share

    def facing(self, game: Game) -> Learner | str:
        name, theirs = type(self).__name__, {tuple(row) for row in getattr(game, "policies", None) or ()}
        if not theirs or not game.stochastic:
            return f"{name} has a theorem for i.i.d. rewards and a table of policies, such as Grouped(..., policies=)"
        law = np.asarray(getattr(game, "chances", ()))
        if law.shape != (self.contexts,) or not np.allclose(law, self.chances, rtol=0, atol=1e-9):
            return f"the shares of {name} are not the law of the contexts of {type(game).__name__}"
        if not theirs <= {tuple(row) for row in self.policies}:
            return f"{type(game).__name__} compares with policies that {name} does not have"
        return self


@kernel
def knows(params, context):
    """Whether a context is the number of one."""
    return 0.0 <= context[0] < len(params.share) and context[0] == int(context[0])


@kernel
def draw_action(state, context, draw):
    """An action by W', and its probability."""
    x = int(context[0])
    actions = len(state.chance)
    total = 0.0
    for a in range(actions):
        state.chance[a] = (1.0 - actions * state.mixed) * state.weight[x, a] + state.mixed
        total += state.chance[a]
    action = pick(state.chance, total, uniform(draw, 0))
    return action, state.chance[action] / total


@kernel
def hear(params, state, context, action, probability, reward):
    """One more reward is known."""
    x = int(context[0])
    state.known += 1
    state.settled = 0
    for i in range(len(state.total)):
        if params.choice[i, x] == action:
            state.total[i] += reward / probability
