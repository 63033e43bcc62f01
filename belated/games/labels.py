"""Rows with labels, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from belated import require
from belated.games.rows import Rows
from belated.protocols import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Labels(Rows):
    """Row t of X is shown, the label of it is guessed, and y[t] is the truth; the game ends with its last row.

    Labels are whole numbers from 0. Feedback is full: 1 for the right label, 0 for the others. Regret is the number of
    mistakes.

    >>> import belated as bl
    >>> game = bl.games.Labels([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    >>> game, game.actions, game.context_size
    (Labels(2 x 2, 2 labels), 2, 2)
    """

    comparator = "truth"
    feedback = "full"
    labels: int | None = None  #: how many there are, if not all of them come

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is not None:
            require.integer("labels", self.labels, low=max(2, int(self.truth.max()) + 1))

    def takes(self) -> tuple[Any, str]:
        return lambda label: label >= 0 and label == round(label) and label < 2**31, "a whole number from 0"

    @property
    def actions(self) -> int:
        """As many as was said, else one more than the largest label, and at least two."""
        return self.labels or max(2, int(self.truth.max()) + 1)

    def params(self) -> Floats:
        return self.row_params(float(self.actions), 1.0)

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        label = int(params[3 + int(params[3]) * int(params[2]) + round_])
        for k in range(int(params[0])):
            feedback[k] = 1.0 if k == label else 0.0
        if action == label:
            return 1.0
        memory[0] += 1.0
        return 0.0

    def __repr__(self) -> str:
        rows, features = self.rows.shape
        return f"Labels({rows} x {features}, {self.actions} labels)"
