"""Rows of features, each with what is to be said of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from belated.errors import InvalidArgument
from belated.games.reward_table import checked_contexts, same_arrays
from belated.protocols import Floats, Game


@dataclass(frozen=True, eq=False, repr=False)
class Rows(Game):
    """Row t of X is shown in round t, and y[t] is the truth; the game ends with its last row.

    Parameters of kernels: two numbers of the game's own, the features, the rows, then X, y and what else there is.
    """

    any_round = True
    X: ArrayLike
    y: ArrayLike

    def __post_init__(self) -> None:
        try:
            truth = np.array(self.y, dtype=np.float64, order="C") + 0.0
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"y must be one number a row: {error}") from None
        if truth.ndim != 1 or len(truth) < 1:
            raise InvalidArgument(f"y must be one number a row, got shape {truth.shape}")
        takes, known = self.takes()
        wrong = [t for t, each in enumerate(truth.tolist()) if not takes(each)]
        if wrong:
            raise InvalidArgument(f"y[{wrong[0]}] must be {known}, got {float(truth[wrong[0]])!r}")
        truth.flags.writeable = False
        object.__setattr__(self, "y", truth)
        object.__setattr__(self, "X", checked_contexts(self.X, len(truth), "X"))

    @abstractmethod
    def takes(self) -> tuple[Any, str]:
        """Whether a number may stand in y, as a function, and which ones may, in words."""

    @property
    def rows(self) -> Floats:
        """X."""
        return cast(Floats, self.X)

    @property
    def truth(self) -> Floats:
        """y."""
        return cast(Floats, self.y)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return int(self.rows.shape[1])

    def longest(self) -> int:
        return len(self.rows)

    def row_params(self, first: float, second: float, *rest: Any) -> Floats:
        """What kernels read."""
        sizes = [first, second, float(self.context_size), float(len(self.rows))]
        return np.concatenate([sizes, self.rows.ravel(), self.truth, *rest])

    def memory(self) -> int:
        """The regret so far."""
        return 1

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        size = int(params[2])
        for i in range(size):
            context[i] = params[4 + (round_ - 1) * size + i]

    @staticmethod
    def regret(params, memory):
        return memory[0]

    def __eq__(self, other: object) -> bool:
        return same_arrays(self, other)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.rows.shape, self.rows.tobytes(), self.truth.tobytes()))
