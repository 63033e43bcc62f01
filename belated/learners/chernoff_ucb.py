"""UCB from Chernoff's bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.ties import MARGIN, largest_index
from belated.protocols import Learner


@dataclass(frozen=True)
class ChernoffUCB(Learner):
    """Plays the largest k/m + sqrt(2 (k/m) ln(1/d) / m) + 2 ln(1/d) / m with d = sqrt(1/t).

    k is the sum of the m rewards of the action; an action without one has index +inf. With clock "round" t counts the
    predictions, with clock "age" those since the action was replaced (for an action that never was, both are the same).

    Chapelle, Li, *An empirical evaluation of Thompson sampling*, NIPS 2011. No bound is stated there.

    >>> import belated as bl
    >>> f = bl.Direct(bl.ChernoffUCB(actions=2, clock="age"))
    >>> for reward in (1.0, 0.0):
    ...     f.update(f.predict().ticket, reward)
    >>> f.predict().action
    0
    >>> f.replace(0)
    >>> f.update(3, 1.0)
    >>> f.dropped, f.predict().action
    (1, 0)
    """

    guarantee = "none proved"
    can_grow = True
    reads_answering = False
    actions: int
    clock: Literal["round", "age"] = "round"

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.one_of("clock", self.clock, ("round", "age"))

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        floats = [(name, "f8", k) for name in ("mean", "root", "inverse", "total", "index")]
        return np.dtype([("leader", "i8"), *floats, *((name, "i8", k) for name in ("seen", "predicted", "since"))])

    def params(self) -> dict[str, Any]:
        return {"by_age": int(self.clock == "age")}

    def start(self, state: Any) -> None:
        state["mean"][:] = math.inf

    @staticmethod
    def predict(params, state, context, draw):
        log_t = log(float(state.predictions))
        root_t = math.sqrt(log_t)
        index = state.index
        for i in range(len(index)):
            index[i] = state.mean[i] + root_t * state.root[i] + log_t * state.inverse[i]
        if params.by_age:
            take_ages(state)
        action = largest_index(index, state.predicted)
        state.leader = action
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1
        seen = float(state.seen[action])
        state.inverse[action] = 1.0 / seen
        state.mean[action] = state.total[action] / seen
        state.root[action] = math.sqrt(state.mean[action] * state.inverse[action])

    @staticmethod
    def replace(params, state, action):
        state.mean[action] = math.inf
        state.root[action] = 0.0
        state.inverse[action] = 0.0
        state.total[action] = 0.0
        state.index[action] = 0.0
        state.seen[action] = 0
        state.predicted[action] = 0
        state.since[action] = state.predictions


@kernel
def take_ages(state):
    """Put the indices at each action's age in the place of those at the age of the oldest.

    An index grows with age: one that is below the best at the greater age needs no logarithm of its own.
    """
    index = state.index
    best = at_its_age(state, state.leader)
    index[state.leader] = best
    for i in range(len(index)):
        if i != state.leader and state.since[i] > 0 and index[i] >= best - MARGIN:
            index[i] = at_its_age(state, i)
        best = max(best, index[i])


@kernel
def at_its_age(state, i):
    """The index of action i, with t the predictions since it was replaced."""
    log_age = log(float(state.predictions - state.since[i]))
    return state.mean[i] + math.sqrt(log_age) * state.root[i] + log_age * state.inverse[i]
