"""The block adversary, on which delay costs most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated import require
from belated.games.account import Realised, check_feedback, enter, head
from belated.kernels.random import ONE, event_draw
from belated.kernels.sampling import word
from belated.protocols import Feedback, Floats


@dataclass(frozen=True)
class Block(Realised):
    """Rounds come in blocks of `length`; in each block an action's reward is one fair coin.

    At constant delay tau = length - 1 nothing about a block arrives before it ends, so that every forecaster
    expects half a reward a round. Regret is realised; its expectation after m whole blocks is
    (tau + 1) (E max_i X_i - m / 2) for all of them, with X_1..X_K independent Bin(m, 1/2)
    (`bl.bounds.block_adversary`).

    Weinberger, Ordentlich, *On delayed prediction of individual sequences*, 2002.

    >>> import belated as bl
    >>> bl.games.deal(bl.games.Block(actions=2, length=3), rounds=9)[:, 0].tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    """

    actions: int
    length: int
    feedback: Feedback = "full"

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("length", self.length, low=1, high=2**53)
        check_feedback(self.feedback)

    def params(self) -> Floats:
        return head(self.actions, self.feedback, self.length)

    def memory(self) -> int:
        return 1 + 2 * self.actions

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        count = int(params[0])
        if (round_ - 1) % int(params[2]) == 0:
            coins = np.uint64(0)
            for i in range(count):
                if i % 32 == 0:
                    coins = word(event_draw(k0, k1, round_), i // 32)
                memory[1 + count + i] = float(coins & ONE)
                coins >>= ONE
        earned = 0.0
        for i in range(count):
            earned += enter(params, memory, feedback, action, i, memory[1 + count + i])
        return earned
