"""UCB over a sliding window."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated import require
from belated.kernels.compile import kernel
from belated.kernels.elementary import log
from belated.kernels.ties import largest_among, largest_index
from belated.protocols import Learner


@dataclass(frozen=True)
class SlidingUCB(Learner):
    """For rewards that drift: plays the largest mean + 2 sqrt(0.6 ln(min(t, window)) / N) over recent rounds.

    Mean and number N are those of the rewards of the last `window` predictions that have come; without one the index is
    +inf. What comes later than that is not learned. Played directly under delay a reward counts from its prediction on,
    and not from when it came.

    Garivier, Moulines, *On upper-confidence bound policies for switching bandit problems*, 2011.

    >>> import belated as bl
    >>> f = bl.Direct(bl.SlidingUCB(actions=2, window=3))
    >>> first = f.predict()
    >>> for _ in range(3):
    ...     f.update(f.predict().ticket, 0.5)
    >>> f.update(first.ticket, 1.0)
    >>> f.predict().action
    0
    """

    guarantee = "none stated under delay"
    can_grow = True
    lets_go = True
    actions: int
    window: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("window", self.window, low=1)

    @classmethod
    def example(cls) -> SlidingUCB:
        """Three actions, 20 rounds."""
        return cls(3, 20)

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.window

    def layout(self) -> np.dtype[Any]:
        k, ring = (self.actions,), (self.window,)
        sums = [("total", "f8", k), ("index", "f8", k), ("seen", "i8", k), ("predicted", "i8", k)]
        # Of the last predictions: the action that was answered, from 1 (0: none was), and its reward.
        return np.dtype([*sums, ("answer", "i8", ring), ("reward", "f8", ring)])

    @staticmethod
    def predict(params, state, context, draw):
        weigh(state)
        action = largest_index(state.index, state.predicted)
        go_on(state, action)
        return action, 1.0

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        weigh(state)
        action = largest_among(state.index, state.predicted, allowed)
        go_on(state, action)
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        place = state.answering % len(state.answer)
        if state.predictions - state.answering >= len(state.answer) or state.answer[place] != 0:
            return  # too late, or answered before
        state.answer[place] = action + 1
        state.reward[place] = feedback[0]
        state.total[action] += feedback[0]
        state.seen[action] += 1

    @staticmethod
    def replace(params, state, action):
        for place in range(len(state.answer)):
            if state.answer[place] == action + 1:
                state.answer[place] = 0
        state.total[action] = 0.0
        state.seen[action] = 0
        state.index[action] = 0.0
        state.predicted[action] = 0


@kernel
def weigh(state):
    """The index of every action."""
    width = 2.0 * math.sqrt(0.6 * log(float(min(state.predictions, len(state.answer)))))
    for i in range(len(state.total)):
        seen = float(state.seen[i])
        state.index[i] = state.total[i] / seen + width / math.sqrt(seen) if seen > 0.0 else math.inf


@kernel
def go_on(state, action):
    """The action is predicted; what is a window old makes room for it."""
    state.predicted[action] += 1
    place = state.predictions % len(state.answer)
    old = state.answer[place] - 1
    if old >= 0:
        state.total[old] -= state.reward[place]
        state.seen[old] -= 1
        state.answer[place] = 0
    if place == 0:
        add_up(state)


@kernel
def add_up(state):
    """Add the rewards up anew, once a window, so that roundings do not."""
    for i in range(len(state.total)):
        state.total[i] = 0.0
    for place in range(len(state.answer)):
        if state.answer[place] > 0:
            state.total[state.answer[place] - 1] += state.reward[place]
