"""The rewards that a game deals, as a table."""

from __future__ import annotations

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.random import key_of
from belated.protocols import Floats, Game


def deal(game: Game, rounds: int, *, seed: int = 0, replication: int = 0) -> Floats:
    """The rewards of all actions in each round, as every forecaster meets them in `play`: rounds x actions.

    A `RewardTable` of them is the same game as a table.

    >>> import belated as bl
    >>> deal(bl.games.Bernoulli([0.25, 0.75]), rounds=1000).mean(axis=0).tolist()
    [0.266, 0.735]
    """
    if game.reactive or game.point_size:
        what = "answers to what was played" if game.reactive else "takes points"
        raise InvalidArgument(f"{game!r} {what}: it is no table of rewards")
    require.integer("rounds", rounds, low=0, high=game.longest())
    require.integer("seed", seed, low=0, high=2**64 - 1)
    require.integer("replication", replication, low=0)
    outcome, params = kernel(game.outcome), game.params()
    observe, context = kernel(game.observe) if game.context_size else None, np.zeros(game.context_size)
    k0, k1 = key_of(seed, replication)
    feedback = np.zeros(game.actions if game.feedback == "full" else 1)
    table = np.zeros((rounds, game.actions))
    for action in range(game.actions):
        memory = np.zeros(game.memory())
        for t in range(1, rounds + 1):
            if observe is not None:
                observe(params, memory, k0, k1, t, context)
            table[t - 1, action] = outcome(params, memory, k0, k1, t, action, feedback)
    return table
