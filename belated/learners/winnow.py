"""Winnow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.learners.mistakes import MistakeDriven, rows_of
from belated.protocols import Floats, Game
from belated.theory import margins


@dataclass(frozen=True)
class Winnow(MistakeDriven):
    """Few of many features matter, each 0 or 1: label 1 where the weights of those that are on exceed `threshold`.

    Weights start at 1. Where the present weights say 0 and the label is 1, those that are on are multiplied by
    `factor`; where they say 1 and the label is 0, they are set to 0 (Winnow1). `threshold` is half the number of
    features unless it is given. If the label is 1 just where one of k features is on, it errs at most
    factor k (log_factor(threshold) + 1) + features / threshold times; told directly under delay at most G* + 1 times as
    often.

    Littlestone, *Learning quickly when irrelevant attributes abound*, 1988; under delay Mesterharm 2005.

    >>> import belated as bl
    >>> f = bl.Direct(bl.Winnow(features=4))
    >>> [f.predict(x).action for x in ([1, 0, 0, 0], [1, 1, 1, 0])]
    [0, 1]
    """

    guarantee = "a k (log_a theta + 1) + N / theta mistakes, k of N features matter; (G* + 1) times that told directly"
    features: int
    factor: float = 2.0
    threshold: float | None = None
    actions = 2

    def __post_init__(self) -> None:
        require.integer("features", self.features, low=1)
        require.real("factor", self.factor, above=1)
        if self.threshold is not None:
            require.real("threshold", self.threshold, above=0)

    @classmethod
    def example(cls) -> Winnow:
        """Four features."""
        return cls(4)

    def example_context(self, draws: np.random.Generator) -> Floats:
        return draws.integers(0, 2, self.features).astype(float)

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.features

    @property
    def level(self) -> float:
        """The threshold, given or not."""
        return self.features / 2 if self.threshold is None else float(self.threshold)

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("weight", "f8", (self.features,))])

    def start(self, state: Any) -> None:
        state["weight"][:] = 1.0

    def params(self) -> dict[str, Any]:
        return {"factor": float(self.factor), "threshold": self.level}

    def check_context(self, context: Floats) -> None:
        wrong = np.flatnonzero((context != 0.0) & (context != 1.0))
        if len(wrong):
            raise InvalidArgument(f"Winnow's features are 0 or 1, got {float(context[wrong[0]])!r} in place {wrong[0]}")

    @staticmethod
    def predict(params, state, context, draw):
        return above(state.weight, context, params.threshold), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        label = 1 if feedback[1] > feedback[0] else 0
        if above(state.weight, context, params.threshold) != label:
            for i in range(len(state.weight)):
                if context[i] > 0.0:
                    # promoted only while at most the threshold, so that it stays finite
                    state.weight[i] = state.weight[i] * params.factor if label == 1 else 0.0

    def mistakes_in(self, game: Game) -> float | str:
        rows, labels = rows_of(game)
        known = margins.winnow(rows, labels, float(self.factor), self.level)
        return known if known is not None else "labels are not 1 just where one of some features is on"


@kernel
def above(weight, context, threshold):
    """1 where the weights of the features that are on exceed the threshold, else 0."""
    score = 0.0
    for i in range(len(weight)):
        if context[i] > 0.0:
            score += weight[i]
    return 1 if score > threshold else 0
