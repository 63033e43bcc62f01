"""Partial monitoring whose outcomes have a law that is linear in side information."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.games.finite import Finite, checked_law
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.random import event_draw, outcome_draw, uniform
from belated.protocols import Floats

#: Numbers at the head of `params`.
HEAD = 5


@dataclass(frozen=True)
class LinearMonitoring(Finite):
    """Before each round a context x is shown, and the outcome has the law p(x) = sum_i x_i laws[i].

    x is drawn uniformly from the simplex, d numbers that are not negative and have the sum 1; `laws` has d rows, each a
    law of the outcome. What actions cost and show is as in `Monitoring`.

    Regret is the pseudo-regret sum_t (L_{a_t} - min_a L_a) p(x_t), in units of loss: the comparator is the best action
    **given x**, another one each round, and not one fixed action.

    >>> import belated as bl
    >>> apples = bl.games.apple_tasting()
    >>> game = bl.games.LinearMonitoring(apples.loss, apples.symbols, [[0.9, 0.1], [0.2, 0.8]])
    >>> game.context_size, game.structure.klass
    (2, 'easy')
    """

    comparator = "changing"
    laws: Sequence[Sequence[float]] | Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = require.sequence("laws", self.laws)
        known = tuple(checked_law(f"laws[{i}]", row, self.outcomes) for i, row in enumerate(rows))
        object.__setattr__(self, "laws", known)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return len(self.laws)

    def params(self) -> Floats:
        """K, d, the last outcome there can be, least loss and range; expected losses; cumulated laws, losses, codes."""
        loss, laws = np.array(self.loss), np.array(self.laws)
        last = int(np.flatnonzero(laws.sum(axis=0)).max())
        head = [self.actions, self.context_size, last, loss.min(), self.scale]
        by_outcome = (matrix.T[: last + 1] for matrix in (laws.cumsum(axis=1), loss, self.codes()))
        parts = (head, loss @ laws.T, *by_outcome)
        return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])

    def memory(self) -> int:
        """The regret so far, the round that the context is of, the context."""
        return 2 + self.context_size

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        show(params, memory, k0, k1, round_)
        for i in range(int(params[1])):
            context[i] = memory[2 + i]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        if memory[1] != round_:
            # nobody looked: the context is there all the same
            show(params, memory, k0, k1, round_)
        actions = int(params[0])
        size = int(params[1])
        last = int(params[2])
        least = math.inf
        own = 0.0
        for a in range(actions):
            expected = at_context(params, memory, HEAD + a * size)
            least = min(least, expected)
            if a == action:
                own = expected
        memory[0] += own - least
        limits = HEAD + actions * size
        u = uniform(outcome_draw(k0, k1, round_, 0), 0)
        x = 0
        while x < last and u >= at_context(params, memory, limits + x * size):
            x += 1
        losses = limits + (last + 1) * size
        lost = params[losses + x * actions + action]
        feedback[0] = params[losses + (last + 1 + x) * actions + action]
        return 1.0 - (lost - params[3]) / params[4] if params[4] > 0.0 else 1.0

    @staticmethod
    def regret(params, memory):
        return memory[0]


@kernel
def show(params, memory, k0, k1, round_):
    """Draw the context of a round into memory: exponential numbers, divided by their sum."""
    draw = event_draw(k0, k1, round_)
    size = int(params[1])
    total = 0.0
    for i in range(size):
        memory[2 + i] = -log(1.0 - uniform(draw, i))
        total += memory[2 + i]
    for i in range(size):
        memory[2 + i] = memory[2 + i] / total if total > 0.0 else 1.0 / size
    memory[1] = round_


@kernel
def at_context(params, memory, first):
    """sum_i x_i params[first + i]."""
    total = 0.0
    for i in range(int(params[1])):
        total += memory[2 + i] * params[first + i]
    return total
