"""What elimination rules share: a horizon, and a bound for as many rounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from belated import require
from belated.protocols import Floats, Learner


@dataclass(frozen=True)
class Eliminating(Learner):
    """A learner that plays an action never again once it is clearly worse than another."""

    reads_answering = False
    actions: int
    horizon: int

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("horizon", self.horizon, low=2, high=2**63 - 1)

    @abstractmethod
    def proved(self, n: float, gaps: Floats, peaks: Floats, peak: float | None) -> float | str:
        """The bound for at most `horizon` rounds, as `delayed_bound`, or why there is none."""

    def stochastic_bound(self, n: float, means: Floats) -> float | None:
        said = self.delayed_bound(n, means, np.zeros(self.actions), 0.0)
        return None if isinstance(said, str) else said

    def delayed_bound(self, n: float, means: Floats, peaks: Floats, peak: float | None) -> float | str:
        if n > self.horizon:
            return f"its bound is for {self.horizon} rounds at most, its horizon"
        return self.proved(n, means.max() - means, peaks, peak)
