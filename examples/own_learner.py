"""A learner of your own at compiled speed: a frozen dataclass, a layout and two kernels.

python examples/own_learner.py
"""

from dataclasses import dataclass

import numpy as np

import belated as bl
from belated import checks
from belated.kernels.random import uniform


@bl.catalog.add
@dataclass(frozen=True)
class Optimist(bl.Learner):
    """Plays the best mean, counting one reward of 1 for each action before the start; explores now and then."""

    actions: int
    explore: float = 0.05

    def layout(self):
        return np.dtype([("total", "f8", (self.actions,)), ("seen", "f8", (self.actions,))])

    def params(self):
        return {"explore": self.explore}

    @staticmethod
    def predict(params, state, context, draw):
        best = 0
        for i in range(len(state.total)):
            if (1.0 + state.total[i]) * (1.0 + state.seen[best]) > (1.0 + state.total[best]) * (1.0 + state.seen[i]):
                best = i
        action = best
        if uniform(draw, 0) < params.explore:
            action = int(uniform(draw, 1) * len(state.total))
        probability = params.explore / len(state.total)
        if action == best:
            probability += 1.0 - params.explore
        return action, probability

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1.0


if __name__ == "__main__":
    checks.check_learner(Optimist(actions=3))
    game = bl.games.Bernoulli([0.2, 0.5, 0.9])
    for forecaster in (bl.Direct, bl.QPMD, bl.BOLD):
        print(bl.play(forecaster(Optimist(actions=3)), game, bl.delays.Geometric(mean=50), rounds=100_000))
