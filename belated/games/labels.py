"""Rows with labels, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from belated import require
from belated.errors import InvalidArgument
from belated.games.account import head
from belated.games.reward_table import checked_contexts, same_arrays
from belated.protocols import Floats, Game


@dataclass(frozen=True, eq=False, repr=False)
class Labels(Game):
    """Row t of X is shown, the label of it is guessed, and y[t] is the truth; the game ends with its last row.

    Labels are whole numbers from 0. Feedback is full: 1 for the right label, 0 for the others. Regret is the number of
    mistakes.

    >>> import belated as bl
    >>> game = bl.games.Labels([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    >>> game, game.actions, game.context_size
    (Labels(2 x 2, 2 labels), 2, 2)
    """

    any_round = True
    comparator = "truth"
    feedback = "full"
    X: ArrayLike
    y: ArrayLike
    labels: int | None = None  #: how many there are, if not all of them come

    def __post_init__(self) -> None:
        labels = checked_labels(self.y)
        object.__setattr__(self, "y", labels)
        if self.labels is not None:
            require.integer("labels", self.labels, low=max(2, int(labels.max()) + 1))
        object.__setattr__(self, "X", checked_contexts(self.X, len(labels), "X"))

    @property
    def _rows(self) -> Floats:
        return cast(Floats, self.X)

    @property
    def _labels(self) -> Floats:
        return cast(Floats, self.y)

    @property
    def actions(self) -> int:
        """As many as was said, else one more than the largest label, and at least two."""
        return self.labels or max(2, int(self._labels.max()) + 1)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return int(self._rows.shape[1])

    def longest(self) -> int:
        return len(self._rows)

    def params(self) -> Floats:
        return head(self.actions, "full", self.context_size, len(self._rows), self._rows, self._labels)

    def memory(self) -> int:
        """The mistakes."""
        return 1

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        size = int(params[2])
        for i in range(size):
            context[i] = params[4 + (round_ - 1) * size + i]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        label = int(params[4 + int(params[3]) * int(params[2]) + round_ - 1])
        for k in range(int(params[0])):
            feedback[k] = 1.0 if k == label else 0.0
        if action == label:
            return 1.0
        memory[0] += 1.0
        return 0.0

    @staticmethod
    def regret(params, memory):
        return memory[0]

    def __eq__(self, other: object) -> bool:
        return same_arrays(self, other)

    def __hash__(self) -> int:
        return hash((self._rows.shape, self._rows.tobytes(), self._labels.tobytes(), self.labels))

    def __repr__(self) -> str:
        rows, features = self._rows.shape
        return f"Labels({rows} x {features}, {self.actions} labels)"


def checked_labels(labels: ArrayLike) -> Floats:
    """A read-only copy of whole numbers from 0."""
    try:
        known = np.array(labels, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"y must be one label a row: {error}") from None
    if known.ndim != 1 or len(known) < 1:
        raise InvalidArgument(f"y must be one label a row, got shape {known.shape}")
    wrong = np.flatnonzero(~((known >= 0) & (known == np.round(known)) & (known < 2**31)))
    if len(wrong):
        raise InvalidArgument(f"y[{wrong[0]}] must be a whole number from 0, got {float(known[wrong[0]])!r}")
    known += 0.0
    known.flags.writeable = False
    return known
