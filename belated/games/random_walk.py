"""An adversary whose rewards wander."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated import require
from belated.games.account import Drifting, check_feedback, enter, head
from belated.kernels.random import ONE, event_draw, uniform
from belated.kernels.sampling import word
from belated.protocols import Feedback, Floats


@dataclass(frozen=True)
class RandomWalk(Drifting):
    """Each action's reward goes up or down by `step` from round to round, and is reflected at 0 and 1.

    r_{i,t+1} = r_{i,t} +- step with a fair coin each; r_{i,1} is `start`, or uniform on [0, 1] where that is
    None. The walks are independent and do not look at what is played. Regret is realised:
    max_i sum_s r_{i,s} - sum_s r_{a_s,s}; with dynamic=True it is against the best of each round:
    sum_s max_i r_{i,s} - sum_s r_{a_s,s}.

    >>> import belated as bl
    >>> game = bl.games.RandomWalk(actions=3, step=0.125, start=0.5)
    >>> bl.games.deal(game, rounds=2)[:, 0].tolist()
    [0.5, 0.375]
    """

    actions: int
    step: float = 0.01
    start: float | None = None
    feedback: Feedback = "full"
    dynamic: bool = False

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.real("step", self.step, above=0, high=1)
        if self.start is not None:
            require.real("start", self.start, low=0, high=1)
        check_feedback(self.feedback)
        require.boolean("dynamic", self.dynamic)

    def params(self) -> Floats:
        start = -1.0 if self.start is None else self.start
        return head(self.actions, self.feedback, float(self.dynamic), self.step, start)

    def memory(self) -> int:
        return super().memory() + self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        count = int(params[0])
        step = params[3]
        coins = np.uint64(0)
        earned = 0.0
        best = 0.0
        for i in range(count):
            if i % 32 == 0:
                coins = word(event_draw(k0, k1, round_), i // 32)
            at = 2 + count + i
            if round_ > 1:
                value = memory[at] + (step if coins & ONE else -step)
            elif params[4] >= 0.0:
                value = params[4]
            else:
                value = uniform(event_draw(k0, k1, 0), i)
            coins >>= ONE
            if value < 0.0:
                value = -value
            if value > 1.0:
                value = 2.0 - value
            memory[at] = value
            best = max(best, value)
            earned += enter(params, memory, feedback, action, i, value)
        memory[1 + count] += best - earned
        return earned
