"""KL-UCB solves few indices; its decisions are those of the rule that solves them all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated.games import laws
from belated.kernels.kl import kl_upper
from belated.kernels.ties import largest_index


@dataclass(frozen=True)
class Thorough(bl.KLUCB):
    """Every index, every round."""

    @staticmethod
    def predict(params, state, context, draw):
        log_t = math.log(float(state.predictions))
        level = log_t + params.c * math.log(max(log_t, 1.0))
        for i in range(len(state.mean)):
            state.index[i] = math.inf if state.seen[i] == 0 else kl_upper(state.mean[i], level / state.seen[i], 0.0)
        action = largest_index(state.index, state.predicted)
        state.predicted[action] += 1
        return action, 1.0


GAMES = [
    bl.games.Bernoulli([0.5, 0.45, 0.4, 0.05]),
    bl.games.Bernoulli([0.5, 0.5, 0.5, 0.501]),
    bl.games.Bernoulli([1.0, 0.999, 0.0, 0.0]),
    bl.games.Arms([laws.Beta(9, 1), laws.Beta(30, 2), laws.Beta(1, 9), laws.Uniform(0.9, 1.0)]),
]


@pytest.mark.parametrize("game", GAMES, ids=range(4))
@pytest.mark.parametrize("c", [3.0, 0.0])
@pytest.mark.parametrize("law", [bl.delays.Constant(0), bl.delays.Geometric(mean=200)], ids=repr)
def test_lazy_decisions_are_those_of_the_plain_rule(game, c, law):
    lazy, thorough = (
        bl.play(bl.Direct(make(4, c)), game, law, rounds=60_000, record=True) for make in (bl.KLUCB, Thorough)
    )
    different = np.flatnonzero(lazy.actions[0] != thorough.actions[0])
    assert different.size == 0, f"first in round {different[0] + 1}"
