"""The Perceptron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.learners.mistakes import MistakeDriven, rows_of
from belated.protocols import Game
from belated.theory import margins


@dataclass(frozen=True)
class Perceptron(MistakeDriven):
    """Label 1 where w x > 0, else label 0; a row on which the present w errs is added to w (label 1) or taken off.

    There is no constant: add a column of ones for that. On rows that some direction tells apart with margin gamma, none
    longer than X, it errs at most (X / gamma)^2 times, whatever their order. Told late, directly, it looks at what the
    present w says of the row, not at what was predicted, and errs at most G* + 1 times as often.

    Rosenblatt 1958; Novikoff, *On convergence proofs for perceptrons*, 1962; under delay Mesterharm, *On-line learning
    with delayed label feedback*, 2005.

    >>> import belated as bl
    >>> f = bl.Direct(bl.Perceptron(features=2))
    >>> first = f.predict([1.0, 0.0])
    >>> f.update(first.ticket, [0.0, 1.0])  # the label was 1
    >>> f.predict([1.0, 0.0]).action
    1
    """

    guarantee = "(X / gamma)^2 mistakes on rows of margin gamma; (G* + 1) times that told directly"
    features: int
    actions = 2

    def __post_init__(self) -> None:
        require.integer("features", self.features, low=1)

    @classmethod
    def example(cls) -> Perceptron:
        """Three features."""
        return cls(3)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.features

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("weight", "f8", (self.features,))])

    @staticmethod
    def predict(params, state, context, draw):
        return side(state.weight, context), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        label = 1 if feedback[1] > feedback[0] else 0
        if side(state.weight, context) != label:
            for i in range(len(state.weight)):
                state.weight[i] += context[i] if label == 1 else -context[i]

    def mistakes_in(self, game: Game) -> float | str:
        rows, labels = rows_of(game)
        known = margins.perceptron(rows, labels)
        return known if known is not None else "no direction was found that tells the labels of these rows apart"


@kernel
def side(weight, context):
    """1 where w x > 0, else 0."""
    score = 0.0
    for i in range(len(weight)):
        score += weight[i] * context[i]
    return 1 if score > 0.0 else 0
