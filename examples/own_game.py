"""A game and a delay law of your own, at compiled speed.

python examples/own_game.py
"""

import math
from dataclasses import dataclass

import numpy as np

import belated as bl
from belated import checks
from belated.kernels.random import outcome_draw, uniform


@bl.catalog.add
@dataclass(frozen=True)
class Tides(bl.Game):
    """Two actions whose chances of paying 1 swing against each other; regret against the better one in hindsight."""

    period: float = 1000.0
    actions = 2
    feedback = "bandit"
    comparator = "action"  # what the regret is against; without it there is no bound and no verdict

    def params(self):
        return np.array([2.0 * math.pi / self.period])

    def memory(self):
        return 3  # what was earned, and what each action would have earned

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        earned = 0.0
        for i in range(2):
            swing = 0.3 * math.sin(params[0] * round_)
            chance = 0.5 + swing if i == 0 else 0.5 - swing
            reward = 1.0 if uniform(outcome_draw(k0, k1, round_, i), 0) < chance else 0.0
            memory[1 + i] += reward
            if i == action:
                earned = reward
        memory[0] += earned
        feedback[0] = earned
        return earned

    @staticmethod
    def regret(params, memory):
        return max(memory[1], memory[2]) - memory[0]


@bl.catalog.add
@dataclass(frozen=True)
class OfficeHours(bl.Delays):
    """Feedback comes at once in the first half of each day, and the next morning in the second half."""

    day: int
    iid = False

    def params(self):
        return np.array([float(self.day)])

    @property
    def maximum(self):
        return self.day

    @property
    def kernel(self):
        return office_hours


@bl.kernel
def office_hours(params, k0, k1, round_, action):
    day = int(params[0])
    hour = round_ % day
    if 2 * hour < day:
        return 0
    return day - hour


if __name__ == "__main__":
    checks.check_game(Tides())
    checks.check_delays(OfficeHours(24))
    print(bl.play(bl.BOLD(bl.Exp3(actions=2)), Tides(), OfficeHours(24), rounds=100_000, replications=4))
