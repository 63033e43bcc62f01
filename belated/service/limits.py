"""What keeps one client from harming the others: rates of tokens, and large requests in slices."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from belated.ledger.items import Cancel, Decide, Feedback

#: Seconds after which nobody is told to come back.
LONGEST = 1e10


class Rate:
    """So many requests a second, and a second's worth at once; a list counts as its length.

    What is asked for beyond that is owed: nothing more is taken until it is paid off.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._most = max(per_second, 1.0)
        self._left = self._most
        self._at = clock()

    def __str__(self) -> str:
        return f"{self.per_second:g} requests a second"

    def wait(self) -> float:
        """Take one request; or, where it is too early, in how many seconds it may come."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * self.per_second, self._most)
        self._at = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return min((1.0 - self._left) / self.per_second, LONGEST)

    def owe(self, more: int) -> None:
        """A request turned out to be a list of so many more."""
        self._left -= more


def parts_of(item: Decide | Feedback | Cancel) -> Sequence[Any]:
    """What an item has one or many of."""
    if isinstance(item, Decide):
        return item.contexts
    return item.entries if isinstance(item, Feedback) else item.tickets


def slices(item: Decide | Feedback | Cancel) -> Iterator[Decide | Feedback | Cancel]:
    """An item as several that are one after the other, each small enough to let others go between."""
    size, parts = item.experiment.slice, parts_of(item)
    if len(parts) <= size:
        yield item
        return
    for at in range(0, len(parts), size):
        some = parts[at : at + size]
        until = math.inf if at else item.until  # each is waited for anew
        if isinstance(item, Feedback):
            yield replace(item, entries=some, until=until)
        elif isinstance(item, Cancel):
            yield replace(item, tickets=some, until=until)
        else:
            yield replace(item, contexts=some, before=at, after=len(parts) - at - len(some), until=until)
