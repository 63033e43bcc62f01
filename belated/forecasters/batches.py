"""Decisions in batches, as long as they still have something to tell: GP-AUCB."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from belated import require
from belated.errors import TicketError, Unsupported
from belated.forecasters.direct import Direct
from belated.protocols import Decision, Learner


def batches(f: Direct, *, budget: float = math.log(2.0) / 2.0, most: int = 100) -> Iterator[list[Decision]]:
    """Batches of decisions without end, each to be answered or cancelled before the next is asked for.

    A batch ends before the decision that would lift the information of what is out, C_t of `GPUCB.pending`, above
    `budget` (in nats), or when it has `most` decisions; it has at least one. With an infinite budget all have `most`.
    Decisions that were open before count as well, and need not be answered.

    Desautels, Krause, Burdick, *Parallelizing exploration-exploitation tradeoffs in Gaussian process bandit
    optimization*, 2012 (GP-AUCB).

    >>> import belated as bl
    >>> f = bl.Direct(bl.GPUCB(bl.kernels.squared_exponential([0.0, 0.5, 1.0], scale=0.3), noise=1.0))
    >>> for batch in bl.batches(f, budget=1.0, most=8):
    ...     print([decision.action for decision in batch])
    ...     for decision in batch:
    ...         f.update(decision.ticket, 0.5)
    ...     if decision.ticket > 5:
    ...         break
    [0, 2]
    [1, 0, 2, 1]
    """
    spec = getattr(f, "learner", None)
    if not isinstance(f, Direct) or not isinstance(spec, Learner) or not hasattr(spec, "pending"):
        raise Unsupported(f"batches are of Direct over a learner with `pending`, such as GPUCB, got {f!r}")
    budget = require.real("budget", budget, low=0, infinite=True)
    return _Batches(f, spec, budget, require.integer("most", most, low=1))


class _Batches:
    """After an error it can be asked again."""

    def __init__(self, f: Direct, spec: Any, budget: float, most: int) -> None:
        self._f, self._spec, self._budget, self._most = f, spec, budget, most
        self._last: list[Decision] = []

    def __iter__(self) -> Iterator[list[Decision]]:
        return self

    def __next__(self) -> list[Decision]:
        room = self._f._room
        with room.lock:
            still = [decision.ticket for decision in self._last if decision.ticket in room.pending]
            if still:
                raise TicketError(
                    f"{len(still)} of {len(self._last)} tickets of the last batch are open, the first is {still[0]}: "
                    "update or cancel them before the next batch"
                )
            batch: list[Decision] = []
            while len(batch) < self._most:
                decision, take_back = self._f.trial()
                if batch and self._spec.pending(room.seats[0].learner.state[0]) > self._budget:
                    take_back()
                    break
                batch.append(decision)
            self._last = batch
            return list(batch)
