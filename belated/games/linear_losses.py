"""Linear losses of points: the hardest convex ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from belated import require
from belated.errors import InvalidArgument
from belated.games.reward_table import checked_contexts, same_arrays
from belated.kernels.sets import BALL, BOX, SETS
from belated.protocols import Floats, Game


@dataclass(frozen=True, eq=False, repr=False)
class LinearLosses(Game):
    """Round t charges g_t x for the point x; g_t is row t of the table, and the game ends with its last row.

    The feedback is g_t. Regret is against the best fixed point of the ball of that radius, R: with G the sum of all g_t
    it is sum g_t x_t + R |G|. Other sets (`domain`) are the box [-R, R]^size, with R sum |G_i| for R |G|, and the
    simplex {x >= 0, sum x = R}, with -R min G_i. With `contexts`, the forecaster is shown row t of them before round t.

    >>> import belated as bl
    >>> game = bl.games.LinearLosses([[1.0], [-1.0]] * 8)
    >>> game, game.point_size, game.lipschitz
    (LinearLosses(16 x 1, radius=1.0), 1, 1.0)
    """

    any_round = True
    actions = 1
    comparator = "action"
    feedback = "gradient"
    smallest = -math.inf
    largest = math.inf
    against = "point"
    table: ArrayLike
    radius: float = 1.0
    contexts: ArrayLike | None = None
    domain: str = "ball"

    def __post_init__(self) -> None:
        try:
            rounds = len(np.asarray(self.table, np.float64))
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"table must be rows of numbers, all of one length: {error}") from None
        object.__setattr__(self, "table", checked_contexts(self.table, max(rounds, 1), "table"))
        object.__setattr__(self, "radius", require.real("radius", self.radius, above=0))
        require.one_of("domain", self.domain, SETS)
        if self.contexts is not None:
            object.__setattr__(self, "contexts", checked_contexts(self.contexts, rounds))

    @property
    def _rows(self) -> Floats:
        return cast(Floats, self.table)

    @property
    def point_size(self) -> int:  # type: ignore[override]
        return int(self._rows.shape[1])

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return 0 if self.contexts is None else cast(Floats, self.contexts).shape[1]

    @property
    def lipschitz(self) -> float:
        """The longest gradient."""
        return float(np.sqrt((self._rows * self._rows).sum(axis=1).max()))

    @property
    def spread(self) -> float:
        """Half the largest difference of two numbers of a gradient: on the simplex nothing else is seen of it."""
        return float(np.ptp(self._rows, axis=1).max()) / 2.0

    @property
    def scale(self) -> float:  # type: ignore[override]
        """What a round can cost at most."""
        box = float(np.abs(self._rows).sum(axis=1).max())
        most = {"ball": self.lipschitz, "box": box, "simplex": self.spread}[self.domain]
        return 2.0 * self.radius * most or 1.0

    def longest(self) -> int:
        return len(self._rows)

    def params(self) -> Floats:
        shown = np.zeros(0) if self.contexts is None else cast(Floats, self.contexts).ravel()
        sizes = [self.radius, float(self.point_size), float(self.context_size), float(len(self._rows))]
        return np.concatenate([sizes, [float(SETS.index(self.domain))], self._rows.ravel(), shown])

    def memory(self) -> int:
        """The loss so far, and the sum of the gradients."""
        return 1 + self.point_size

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        size = int(params[1])
        row = 5 + (round_ - 1) * size
        loss = 0.0
        for i in range(size):
            loss += params[row + i] * feedback[i]
            memory[1 + i] += params[row + i]
            feedback[i] = params[row + i]
        memory[0] += loss
        return -loss

    @staticmethod
    def regret(params, memory):
        squares, sizes, least = 0.0, 0.0, memory[1]
        for i in range(int(params[1])):
            squares += memory[1 + i] * memory[1 + i]
            sizes += abs(memory[1 + i])
            least = min(least, memory[1 + i])
        domain = int(params[4])
        best = math.sqrt(squares) if domain == BALL else sizes if domain == BOX else -least
        return memory[0] + params[0] * best

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        size = int(params[2])
        row = 5 + int(params[3]) * int(params[1]) + (round_ - 1) * size
        for i in range(size):
            context[i] = params[row + i]

    def __eq__(self, other: object) -> bool:
        return same_arrays(self, other)

    def __hash__(self) -> int:
        return hash((self._rows.shape, self._rows.tobytes(), self.radius, self.domain))

    def __repr__(self) -> str:
        rounds, size = self._rows.shape
        where = "" if self.domain == "ball" else f", domain={self.domain!r}"
        return f"LinearLosses({rounds} x {size}, radius={self.radius!r}{where})"
