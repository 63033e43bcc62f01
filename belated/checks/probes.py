"""Learners that look at what they are told, for checks: they ask for all that a learner may ask for.

What a probe plays depends on all that it was told, so that two forms of a forecaster that tell it otherwise play
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import Learner

#: What a digest stays below.
TOP = 1_000_003


@kernel
def digest(state, number, other):
    """Remember that this was told."""
    state.digest = (state.digest * 31 + number * 7 + other) % TOP


@dataclass(frozen=True)
class Probe(Learner):
    """Writes into its memo which prediction it was, and looks whether that comes back; counts all ends.

    `wrong`: ends with another memo than that of the prediction; `late`: ends after that of a later prediction; `below`:
    the least that `open` ever was.
    """

    actions: int = 3
    feedback: ClassVar[Literal["bandit", "full", "symbol", "gradient", "any"]] = "full"
    memo = 2
    counts_open = True

    def layout(self) -> np.dtype[Any]:
        names = ("digest", "wrong", "late", "below", "told", "gone", "last")
        return np.dtype([(name, "i8") for name in names])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions}

    @staticmethod
    def predict(params, state, context, draw):
        state.below = min(state.below, state.open)
        digest(state, state.predictions, state.open)
        state.memo[0] = state.predictions
        state.memo[1] = state.digest
        return state.digest % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.below = min(state.below, state.open)
        state.wrong += int(state.memo[0] != state.answering)
        state.late += int(state.answering < state.last)
        state.last = state.answering
        state.told += 1
        digest(state, state.answering, int(state.memo[1]) + action + int(100.0 * feedback[0]))

    @staticmethod
    def lost(params, state, context, action, probability):
        state.below = min(state.below, state.open)
        state.wrong += int(state.memo[0] != state.answering)
        state.gone += 1
        digest(state, state.answering, int(state.memo[1]) - action)


@dataclass(frozen=True)
class BanditProbe(Probe):
    """The same, told of one reward."""

    feedback = "bandit"


@dataclass(frozen=True)
class OrderedProbe(Probe):
    """The same, told in order."""

    in_order = True


@dataclass(frozen=True)
class QuietProbe(Probe):
    """The same without a memo, told of one reward."""

    feedback = "bandit"
    memo = 0

    @staticmethod
    def predict(params, state, context, draw):
        state.below = min(state.below, state.open)
        digest(state, state.predictions, state.open)
        return state.digest % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.below = min(state.below, state.open)
        state.late += int(state.answering < state.last)
        state.last = state.answering
        state.told += 1
        digest(state, state.answering, action + int(100.0 * feedback[0]))

    @staticmethod
    def lost(params, state, context, action, probability):
        state.below = min(state.below, state.open)
        state.gone += 1
        digest(state, state.answering, -action)


@dataclass(frozen=True)
class OrderedQuietProbe(QuietProbe):
    """The same, told in order."""

    in_order = True


@dataclass(frozen=True)
class Skewed(Learner):
    """Draws an action, some more often than others, and learns nothing."""

    actions: int = 3
    feedback: ClassVar[Literal["bandit", "full", "symbol", "gradient", "any"]] = "any"
    reads_answering = False

    def layout(self) -> np.dtype[Any]:
        return np.dtype([("unused", "i8")])

    @staticmethod
    def predict(params, state, context, draw):
        u = uniform(draw, 0)
        if u < 0.5:
            return 0, 0.5
        if u < 0.8:
            return 1, 0.3
        return 2, 0.2

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        pass


def records(state: Any) -> Iterator[Any]:
    """The probes in a state: itself, or its copies."""
    inner = np.asarray(state)
    if "copies" in (inner.dtype.names or ()):
        yield from records(inner["copies"].ravel())
    else:
        yield from inner
