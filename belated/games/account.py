"""How games keep the account of regret, and what their parameters begin with.

Every game's `params` start with K and with 1.0 where feedback is full information. Games with a law count
plays (`pseudo_regret`); games without one add up rewards (`Realised`, `enter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.protocols import Feedback, Floats, Game

FEEDBACKS = ("bandit", "full")


class Realised(Game):
    """A game without a law: realised regret against the best fixed action in hindsight.

    max_i sum_s r_{i,s} - sum_s r_{a_s,s} over the rounds s so far. It is negative where the forecaster did
    better than every fixed action. Memory: what was earned, the K totals, then what the game itself keeps.
    """

    comparator = "action"

    def memory(self) -> int:
        return 1 + self.actions

    @staticmethod
    def regret(params, memory):
        best = memory[1]
        for i in range(2, int(params[0]) + 1):
            best = max(best, memory[i])
        return best - memory[0]


class Drifting(Realised):
    """A game whose actions get better and worse. Where it says `dynamic`, its regret is dynamic: against what changes.

    That is the sum over the rounds of the best expected reward of the round less that of the action played. The regret
    is against a fixed action otherwise. Parameters: `dynamic` comes third. Memory: dynamic regret follows the totals.
    """

    dynamic: bool

    @property
    def comparator(self) -> Literal["action", "changing"]:  # type: ignore[override]
        return "changing" if self.dynamic else "action"

    def memory(self) -> int:
        return 2 + self.actions

    @staticmethod
    def regret(params, memory):
        count = int(params[0])
        if params[2] > 0.0:
            return memory[1 + count]
        best = memory[1]
        for i in range(2, count + 1):
            best = max(best, memory[i])
        return best - memory[0]


def head(actions: int, feedback: Feedback, *rest: Any) -> Floats:
    """The parameters: K, whether feedback is full, and the rest."""
    start = [float(actions), float(feedback == "full")]
    return np.concatenate([start, *(np.ravel(np.asarray(part, np.float64)) for part in rest)])


def gaps(means: Sequence[float]) -> Floats:
    """What each action loses a round against the best."""
    known: Floats = np.asarray(means, np.float64)
    losses: Floats = known.max() - known
    return losses


def check_feedback(value: str) -> None:
    require.one_of("feedback", value, FEEDBACKS)


def pseudo_regret(params, memory):
    """sum_i gap_i T_i, with the gaps in `params` from 2 on and the plays T_i in `memory`."""
    total = 0.0
    for i in range(int(params[0])):
        total += params[2 + i] * memory[i]
    return total


@kernel
def enter(params, memory, feedback, action, i, reward):
    """Enter the reward of action i; return it if i was played, else 0."""
    memory[1 + i] += reward
    if params[1] > 0.0:
        feedback[i] = reward
    if i != action:
        return 0.0
    memory[0] += reward
    if params[1] == 0.0:
        feedback[0] = reward
    return reward
