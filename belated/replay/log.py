"""A log of decisions, in the order in which they were made."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.protocols import Floats

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Log:
    """Decisions in order. Rewards are scaled to [0, 1], and NaN where none was recorded.

    `wait` is the delay in rounds: the feedback of the decision in place s can be used by decisions in places
    > s + wait, because these were made after it was observed. It is `NEVER` where nothing came before the log ended.
    """

    action: Whole
    probability: Floats
    reward: Floats
    wait: Whole
    context: Floats | None
    labels: tuple[str, ...]
    rows: Whole  #: places of the decisions that can be weighed; the others only take time, and count for the logger
    low: float = 0.0
    high: float = 1.0
    warnings: tuple[str, ...] = ()
    words: dict[str, int] = field(default_factory=dict, repr=False)  #: the number of whatever an action is called
    kinds: Floats | None = None  #: where the context is one column of words, their numbers from 0
    frame: Any = field(default=None, repr=False)  #: all columns, in order
    order: Any = field(default=None, repr=False)  #: where each decision was in the log as it was given

    def __len__(self) -> int:
        return len(self.action)

    @property
    def actions(self) -> int:
        return len(self.labels)

    def context_for(self, size: int) -> Floats | None:
        """The side information for a learner of so many numbers: of one, the numbers of words."""
        return self.kinds if size == 1 and self.kinds is not None else self.context

    @cached_property
    def least(self) -> float:
        """The smallest probability that an action had, as far as the log shows: what is left by the action that was
        taken was shared by the others."""
        chances = self.probability[self.rows]
        return float(min(chances.min(), (1.0 - chances.max()) / (self.actions - 1)))

    @cached_property
    def usual(self) -> float:
        """The most common reward. The others are what an estimate rests on."""
        values, counts = np.unique(self.reward[~np.isnan(self.reward)], return_counts=True)
        return float(values[counts.argmax()])

    @property
    def usual_reward(self) -> float:
        """The same in the units of the log."""
        return self.low + (self.high - self.low) * self.usual

    @cached_property
    def rewards(self) -> int:
        """How many rewards were recorded that are not the most common one."""
        return int((~np.isnan(self.reward) & (self.reward != self.usual)).sum())

    @property
    def outstanding(self) -> int:
        """G* of whoever made the log."""
        places = np.arange(len(self))
        ends = places + np.minimum(self.wait, len(self))
        changes = np.zeros(2 * len(self) + 2, np.int64)
        np.add.at(changes, places + 1, 1)
        np.add.at(changes, ends + 1, -1)
        return int(np.cumsum(changes)[: len(self)].max())


def per_action(log: Log, rows: Whole, values: Floats | None = None) -> NDArray[Any]:
    """How many of these rows there are for each action, or the sum of their values."""
    return np.bincount(log.action[rows], values, log.actions)
