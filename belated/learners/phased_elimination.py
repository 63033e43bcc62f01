"""Elimination in phases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.kernels.compile import kernel, plain
from belated.kernels.elementary import log
from belated.learners.eliminating import Eliminating
from belated.protocols import Floats
from belated.theory import elimination


@dataclass(frozen=True)
class PhasedElimination(Eliminating):
    """In phase l = 1, 2, ... every action that is left is played until 8 ln T 4^l of its rewards are in.

    T is the horizon. Of the actions that lack rewards the one predicted fewest times is played. When none does, an
    action is out whose mean + 2^-l is below the largest mean of those left, and the next phase begins. An action pays
    for its own delays alone.

    Lancewicki, Segal, Koren, Mansour, *Stochastic multi-armed bandits with unrestricted delay distributions*, 2021
    (constants ours).

    >>> import belated as bl
    >>> f = bl.Direct(bl.PhasedElimination(actions=2, horizon=100))
    >>> for _ in range(400):
    ...     d = f.predict()
    ...     f.update(d.ticket, float(d.action))
    >>> {f.predict().action for _ in range(9)}
    {1}
    """

    guarantee = "sum_i 128 ln T / gap_i + gap_i (1 + E G_i) + 2K/T^2 told directly, i.i.d. rewards, n <= T"

    @classmethod
    def example(cls) -> PhasedElimination:
        """Three actions, 3 rounds, so that phases are short."""
        return cls(3, 3)

    def layout(self) -> np.dtype[Any]:
        k = (self.actions,)
        counts = [(name, "i8", k) for name in ("seen", "predicted", "out")]
        return np.dtype([("needed", "f8"), ("slack", "f8"), ("total", "f8", k), *counts])

    def start(self, state: Any) -> None:
        state["needed"] = 32.0 * plain(log)(float(self.horizon))
        state["slack"] = 0.5

    @staticmethod
    def predict(params, state, context, draw):
        action = lacking(state)
        while action < 0:
            end_phase(state)
            action = lacking(state)
        state.predicted[action] += 1
        return action, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0]
        state.seen[action] += 1

    def proved(self, n: float, gaps: Floats, peaks: Floats, peak: float | None) -> float | str:
        return elimination.phased_elimination(n, gaps, peaks, self.horizon)


@kernel
def lacking(state):
    """Of the actions that lack rewards in this phase, the one predicted fewest times; -1 if none does."""
    chosen = -1
    for i in range(len(state.total)):
        lacks = state.out[i] == 0 and state.seen[i] < state.needed
        if lacks and (chosen < 0 or state.predicted[i] < state.predicted[chosen]):
            chosen = i
    return chosen


@kernel
def end_phase(state):
    """Eliminate, and go on to the next phase. All that are left have been seen."""
    best = -1.0
    for i in range(len(state.total)):
        if state.out[i] == 0:
            best = max(best, state.total[i] / float(state.seen[i]))
    for i in range(len(state.total)):
        if state.out[i] == 0 and state.total[i] / float(state.seen[i]) + state.slack < best:
            state.out[i] = 1
    state.needed *= 4.0
    state.slack *= 0.5
