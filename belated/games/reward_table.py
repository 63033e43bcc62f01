"""The oblivious adversary: a table of rewards, written before the first round."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from belated.errors import InvalidArgument
from belated.games.account import Realised, check_feedback, enter, head
from belated.protocols import Feedback, Floats


@dataclass(frozen=True, eq=False, repr=False)
class RewardTable(Realised):
    """Row t holds the rewards of all actions in round t; the game ends with its last row.

    Regret is realised: max_i sum_s r_{i,s} - sum_s r_{a_s,s}. With `contexts`, the forecaster is shown row t of them
    before round t. Tables are kept as read-only float64 arrays; as plain data they are lists, which the constructor
    takes back.

    Auer, Cesa-Bianchi, Freund, Schapire, *The nonstochastic multiarmed bandit problem*, 2002.

    >>> import belated as bl
    >>> game = bl.games.RewardTable([[0, 1], [0.5, 0.25], [1, 0]])
    >>> game, game.longest()
    (RewardTable(3 x 2, feedback='bandit'), 3)
    """

    any_round = True
    table: ArrayLike
    feedback: Feedback = "bandit"
    contexts: ArrayLike | None = None  #: side information, one row a round

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", _checked(self.table))
        check_feedback(self.feedback)
        if self.contexts is not None:
            object.__setattr__(self, "contexts", checked_contexts(self.contexts, len(self._rows)))

    @property
    def _rows(self) -> Floats:
        return cast(Floats, self.table)

    @property
    def actions(self) -> int:
        return len(self._rows[0])

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return 0 if self.contexts is None else cast(Floats, self.contexts).shape[1]

    @property
    def values(self) -> int:  # type: ignore[override]
        return values_of(self.contexts)

    def longest(self) -> int:
        return len(self._rows)

    def params(self) -> Floats:
        known = np.zeros(0) if self.contexts is None else cast(Floats, self.contexts)
        return head(self.actions, self.feedback, self.context_size, len(self._rows), self._rows, known)

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        count = int(params[0])
        row = 4 + (round_ - 1) * count
        earned = 0.0
        for i in range(count):
            earned += enter(params, memory, feedback, action, i, params[row + i])
        return earned

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        size = int(params[2])
        row = 4 + int(params[3]) * int(params[0]) + (round_ - 1) * size
        for i in range(size):
            context[i] = params[row + i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RewardTable):
            return NotImplemented
        if (self.contexts is None) != (other.contexts is None) or self.feedback != other.feedback:
            return False
        known = self.contexts is None or np.array_equal(self.contexts, cast(Floats, other.contexts))
        return known and np.array_equal(self._rows, other._rows)

    def __hash__(self) -> int:
        return hash((self._rows.shape, self._rows.tobytes(), self.feedback))

    def __repr__(self) -> str:
        rounds, actions = self._rows.shape
        known = f", contexts of {self.context_size}" if self.context_size else ""
        return f"RewardTable({rounds} x {actions}, feedback={self.feedback!r}{known})"


def _checked(table: ArrayLike) -> Floats:
    """A read-only copy of the table, without negative zeros (equal tables have equal bytes)."""
    try:
        rows = np.array(table, dtype=np.float64, order="C", ndmin=1)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"table must be rows of numbers, all of one length: {error}") from None
    if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < 1:
        raise InvalidArgument(f"table must be rounds x actions, got shape {rows.shape}")
    rows += 0.0
    outside = ~((rows >= 0.0) & (rows <= 1.0))
    if outside.any():
        t, i = np.unravel_index(int(outside.argmax()), rows.shape)
        raise InvalidArgument(f"table[{t}, {i}] must lie in [0, 1], got {float(rows[t, i])!r}")
    rows.flags.writeable = False
    return rows


def checked_contexts(contexts: ArrayLike, rounds: int, name: str = "contexts") -> Floats:
    """A read-only copy of the side information."""
    try:
        rows = np.array(contexts, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} must be rows of numbers, all of one length: {error}") from None
    if rows.ndim != 2 or len(rows) != rounds or rows.shape[1] < 1:
        raise InvalidArgument(f"{name} must have one row for each of the {rounds} rounds, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        t, i = np.argwhere(~np.isfinite(rows))[0]
        raise InvalidArgument(f"{name} must be finite numbers, got {float(rows[t, i])!r} at [{t}, {i}]")
    rows += 0.0
    rows.flags.writeable = False
    return rows


def values_of(contexts: ArrayLike | None) -> int:
    """One more than the largest of some contexts, where they are single whole numbers from 0; else 0.

    >>> values_of([[0.0], [2.0]]), values_of([[0.5]])
    (3, 0)
    """
    known = np.zeros((0, 0)) if contexts is None else np.asarray(contexts, np.float64)
    if known.shape[1] != 1 or (known < 0).any() or (known != known.round()).any():
        return 0
    return int(known.max()) + 1


def same_arrays(one: Any, other: Any) -> bool:
    """Whether two specs are of one class and equal, field by field, where fields may be arrays."""
    if type(one) is not type(other):
        return False
    names = [field.name for field in dataclasses.fields(one)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
