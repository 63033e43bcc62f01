"""Halving."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.learners.mistakes import MistakeDriven, rows_of
from belated.protocols import Floats, Game


@dataclass(frozen=True)
class Halving(MistakeDriven):
    """The label that most of the living experts give; where that is wrong, those who did not say the truth die.

    The context holds the experts' labels, 0 to `labels` - 1. Ties go to the lowest label. If one expert is never wrong,
    it errs at most log2(experts) times; told directly under delay, it looks at what the living say now and errs at most
    G* + 1 times as often. When nobody is left, all come back.

    Angluin 1988; Littlestone 1988; under delay Mesterharm, *On-line learning with delayed label feedback*, 2005.

    >>> import belated as bl
    >>> f = bl.Direct(bl.Halving(experts=3))
    >>> first = f.predict([0, 0, 1])
    >>> f.update(first.ticket, [0.0, 1.0])  # the label was 1
    >>> f.predict([0, 0, 1]).action
    1
    """

    guarantee = "log2 N mistakes if one of N experts never errs; (G* + 1) times that told directly"
    experts: int
    labels: int = 2

    def __post_init__(self) -> None:
        require.integer("experts", self.experts, low=1)
        require.integer("labels", self.labels, low=2)

    @classmethod
    def example(cls) -> Halving:
        """Five experts."""
        return cls(5)

    def example_context(self, draws: np.random.Generator) -> Floats:
        return draws.integers(0, self.labels, self.experts).astype(float)

    @property
    def actions(self) -> int:  # type: ignore[override]
        return self.labels

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return self.experts

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("dead", "i8", (self.experts,)), ("votes", "i8", (self.labels,))])

    def check_context(self, context: Floats) -> None:
        wrong = np.flatnonzero((context != np.round(context)) | (context < 0) | (context >= self.labels))
        if len(wrong):
            known = f"a label from 0 to {self.labels - 1}"
            raise InvalidArgument(f"expert {wrong[0]} must give {known}, got {float(context[wrong[0]])!r}")

    @staticmethod
    def predict(params, state, context, draw):
        return majority(state, context), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        label = 0
        for k in range(1, len(state.votes)):
            if feedback[k] > feedback[label]:
                label = k
        if majority(state, context) != label:
            left = state.votes[label]
            for e in range(len(state.dead)):
                if left == 0:
                    state.dead[e] = 0
                elif int(context[e]) != label:
                    state.dead[e] = 1

    def mistakes_in(self, game: Game) -> float | str:
        rows, labels = rows_of(game)
        if not (rows == labels[:, None]).all(axis=0).any():
            return "no expert gives the right label of every row"
        return math.floor(math.log2(self.experts))


@kernel
def majority(state, context):
    """The label that most of the living give, the lowest of several; `votes` holds how many give each."""
    for k in range(len(state.votes)):
        state.votes[k] = 0
    for e in range(len(state.dead)):
        label = int(context[e])
        if state.dead[e] == 0 and 0 <= label < len(state.votes):
            state.votes[label] += 1
    most = 0
    for k in range(1, len(state.votes)):
        if state.votes[k] > state.votes[most]:
            most = k
    return most
