"""Exp4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.kernels.simplex import exponential_weights, pick
from belated.protocols import Learner
from belated.theory import bounds


@dataclass(frozen=True)
class Exp4(Learner):
    """Exponential weights over N experts, each of which advises a law over the actions every round.

    The context is the advice xi, expert by expert: K probabilities of the first, then K of the second, and so on. With
    q_e ~ exp(-eta_t L_e), eta_t = sqrt(ln N / (t K)), an action is played with p = sum_e q_e xi_e. The loss 1 - reward
    of the played action a over p_a is its estimate, and expert e is charged xi_e(a) times that, with the advice of the
    round that is answered. Regret against the best expert at most 2 sqrt(n K ln N) for all n at once.

    Advice is read as weights: the numbers of an expert are divided by their sum, negative ones count as 0, and an
    expert that gives none above 0 advises all actions alike.

    Auer, Cesa-Bianchi, Freund, Schapire 2002; in this form Bubeck, Cesa-Bianchi, *Regret analysis of stochastic and
    nonstochastic multi-armed bandit problems*, 2012, theorem 4.2.

    >>> import belated as bl
    >>> f = bl.Direct(bl.Exp4(actions=2, experts=3), seed=1)
    >>> f.predict([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    Decision(ticket=1, action=1, probability=1.0)
    """

    weighs = True
    guarantee = "2 sqrt(n K ln N), N experts, any adversary"
    comparator = "expert"
    reads_answering = False
    actions: int
    experts: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("experts", self.experts, low=1)

    @classmethod
    def example(cls) -> Exp4:
        """Three actions, four experts."""
        return cls(3, 4)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.experts * self.actions

    def layout(self) -> np.dtype[Any]:
        experts = (self.experts,)
        return np.dtype([("loss", "f8", experts), ("weight", "f8", experts), ("chance", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        experts, actions = float(len(state.loss)), float(len(state.chance))
        rate = math.sqrt(log(experts) / (actions * float(state.predictions)))
        return draw_advised(state, rate, context, draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        actions = len(state.chance)
        estimate = (1.0 - feedback[0]) / probability
        for e in range(len(state.loss)):
            state.loss[e] += advised(context, e, actions, action, advised_mass(context, e, actions)) * estimate

    def bound(self, n: float) -> float:
        return bounds.exp4(n, self.actions, self.experts)


@kernel
def advised_mass(context, expert, actions):
    """The sum of an expert's numbers above 0."""
    mass = 0.0
    for a in range(actions):
        mass += max(context[expert * actions + a], 0.0)
    return mass


@kernel
def advised(context, expert, actions, action, mass):
    """xi_e(a), given the sum of the expert's numbers."""
    return max(context[expert * actions + action], 0.0) / mass if mass > 0.0 else 1.0 / actions


@kernel
def draw_advised(state, rate, context, draw):
    """An action by the advice of the experts, these by exponential weights of their losses; and its probability."""
    actions = len(state.chance)
    total = exponential_weights(state.loss, rate, state.weight)
    for a in range(actions):
        state.chance[a] = 0.0
    for e in range(len(state.loss)):
        mass = advised_mass(context, e, actions)
        for a in range(actions):
            state.chance[a] += state.weight[e] / total * advised(context, e, actions, a, mass)
    whole = 0.0
    for a in range(actions):
        whole += state.chance[a]
    action = pick(state.chance, whole, uniform(draw, 0))
    return action, state.chance[action] / whole
