"""CappedExp3: Exp3 that keeps track of a few rounds only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.elementary import log
from belated.kernels.random import uniform
from belated.learners.exp3 import draw_by
from belated.protocols import Learner
from belated.theory import late


@dataclass(frozen=True)
class CappedExp3(Learner):
    """Exp3 told late, at most `longest` rounds, that keeps track of at most `capacity` rounds at a time.

    Rounds come in blocks of b = 1 if the capacity C is at least d + 1, else ceil(d / (C - 1)), d being `longest`. Of
    each block one round, drawn uniformly, is tracked; the feedback of the others is ignored. Its estimated loss counts
    b times, and enters at the later of its arrival and the end of the block. With eta_t = sqrt(ln K / ((K b + 2 d) t))
    mean regret is at most 2 sqrt((K b + 2 d) n ln K) for all n at once. Feedback that is later than `longest` teaches
    nothing. How the constants come about stands in `bounds.capped_exp3`.

    After Ryabchenko, Attias, Roy, *Capacity-constrained online learning with delays*, 2025.

    >>> import belated as bl
    >>> learner = bl.CappedExp3(actions=10, capacity=11, longest=100)
    >>> learner.block, round(learner.bound_under_delay(10_000, 0.0), 1)
    (10, 5256.5)
    """

    weighs = True
    guarantee = "2 sqrt((K b + 2 d) n ln K) told directly, delays of at most d, blocks of b rounds; any adversary"
    actions: int
    capacity: int
    longest: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("capacity", self.capacity, low=1, high=2**24)
        require.integer("longest", self.longest, low=0, high=2**40)
        if self.capacity == 1 and self.longest:
            raise InvalidArgument(
                f"capacity 1 with longest {self.longest}: the round in progress is one, so that nothing else could be "
                "tracked; capacity must be >= 2"
            )

    @classmethod
    def example(cls) -> CappedExp3:
        """Three actions, four rounds."""
        return cls(3, 4, 30)

    @property
    def block(self) -> int:
        """b: of so many rounds one is tracked."""
        return 1 if self.capacity > self.longest else -(-self.longest // (self.capacity - 1))

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.longest + 1

    def layout(self) -> np.dtype[Any]:
        vectors = [(name, "f8", (self.actions,)) for name in ("loss", "weight", "held")]
        return np.dtype([("tracked", "i8", (self.capacity,)), ("chosen", "i8"), *vectors])

    def params(self) -> dict[str, Any]:
        slow = float(self.actions * self.block + 2 * self.longest)
        rate = math.sqrt(log(float(self.actions)) / slow)
        return {"rate": rate, "block": self.block, "longest": self.longest}

    @staticmethod
    def predict(params, state, context, draw):
        number = state.predictions - 1
        place = number % params.block
        if place == 0:
            for i in range(len(state.held)):
                state.loss[i] += state.held[i]
                state.held[i] = 0.0
            state.chosen = state.predictions + int(uniform(draw, 1) * float(params.block))
        if state.predictions == state.chosen:
            state.tracked[(number // params.block) % len(state.tracked)] = state.predictions
        return draw_by(state, params.rate / math.sqrt(float(state.predictions)), draw)

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        block = (state.answering - 1) // params.block
        tracked = state.tracked[block % len(state.tracked)] == state.answering
        if tracked and state.predictions - state.answering <= params.longest:
            loss = float(params.block) * (1.0 - feedback[0]) / probability
            if (state.predictions - 1) // params.block == block:
                state.held[action] += loss
            else:
                state.loss[action] += loss

    def bound(self, n: float) -> float:
        return late.capped_exp3(n, self.actions, self.capacity, self.longest)

    def bound_under_delay(self, n: int, total: float) -> float:
        return late.capped_exp3(n, self.actions, self.capacity, self.longest)
