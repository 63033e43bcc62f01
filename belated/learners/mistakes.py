"""What the learners with a bound on their mistakes share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any

import numpy as np

from belated.protocols import Floats, Game, Learner

#: How much too small M may be by rounding, as a share: one that is whole is not cut to the whole number below.
ROUNDING = 1e-9


class MistakeDriven(Learner):
    """Predicts labels, and learns from a label just where it would err on that row **now**.

    If its hypothesis changes at most M times, whatever the rows and their order, then under delay it errs at most
    (G* + 1) M times: the mistakes of one hypothesis are all outstanding when the first of them is answered, because
    that answer changes it. (Mesterharm 2005. Mistakes whose label never comes are among those.) And a pool of
    instances, as BOLD keeps it, errs at most M times each.

    M is known only for rows of a certain kind: `facing` looks at those of the game.
    """

    feedback = "full"
    one_hot = True
    comparator = "truth"
    reads_answering = False
    #: M in the game that it faces, where that is known.
    mistakes: float | None = None

    @abstractmethod
    def mistakes_in(self, game: Game) -> float | str:
        """M for the rows of a game, or why none is known."""

    def facing(self, game: Game) -> Learner | str:
        rows, labels = (np.asarray(getattr(game, name, 0.0)) for name in ("X", "y"))
        if np.ndim(rows) != 2 or np.ndim(labels) != 1 or np.shape(rows) != (np.size(labels), self.context_size):
            return f"{type(game).__name__} does not show its rows and labels (X, y)"
        known = self.mistakes_in(game)
        if isinstance(known, str):
            return known
        learner = copy.copy(self)
        object.__setattr__(learner, "mistakes", float(np.floor(known * (1.0 + ROUNDING))))
        return learner

    def bound(self, n: float) -> float | None:
        return None if self.mistakes is None else min(float(n), self.mistakes)

    def bound_at_peak(self, n: int, peak: float, constant: bool) -> float | None:
        return None if self.mistakes is None else min(float(n), (peak + 1.0) * self.mistakes)


def rows_of(game: Any) -> tuple[Floats, Floats]:
    """The rows and the labels of a game that has the fields X and y, as `games.Labels` does."""
    return np.asarray(game.X, np.float64), np.asarray(game.y, np.float64)
