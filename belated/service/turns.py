"""Who is next: experiments take turns, so that one with much to do holds up no other."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Turns(Generic[Entry]):
    """Entries in lanes, each with what it costs. One thread takes, others put.

    >>> turns = Turns[str]()
    >>> for lane, entry in zip("aaab", ["a1", "a2", "a3", "b1"]):
    ...     turns.put(lane, entry, 10)
    >>> turns.take(20), turns.take(20)
    (['a1', 'b1'], ['a2', 'a3'])
    """

    def __init__(self) -> None:
        self._lanes: OrderedDict[object, deque[tuple[Entry, int]]] = OrderedDict()
        self._lock = threading.Lock()
        self._some = threading.Condition(self._lock)
        self._idle = False  # whether somebody waits for some and was not told yet
        self._count = 0
        self._closed = False

    def __len__(self) -> int:
        return self._count

    def put(self, lane: object, entry: Entry, cost: int) -> None:
        """At the end of a lane."""
        with self._lock:
            waiting = self._lanes.get(lane)
            if waiting is None:
                waiting = self._lanes[lane] = deque()
            waiting.append((entry, cost))
            self._count += 1
            if self._idle:
                self._idle = False
                self._some.notify()

    def close(self) -> None:
        """Nothing more comes."""
        with self._some:
            self._closed = True
            self._some.notify()

    def wait(self) -> bool:
        """Until there is something; False if nothing is there and nothing more comes."""
        with self._some:
            while not self._lanes and not self._closed:
                self._idle = True
                self._some.wait()
            return bool(self._lanes)

    def take(self, budget: int) -> list[Entry]:
        """About as much as the budget allows, and something in any case: equal shares of all lanes, in turn."""
        taken: list[Entry] = []
        with self._some:
            while self._lanes and budget > 0:
                share = max(1, budget // len(self._lanes))
                for lane in list(self._lanes):
                    budget -= self._take(lane, share, taken)
                    if budget <= 0:
                        break
            self._count -= len(taken)
        return taken

    def _take(self, lane: object, share: int, taken: list[Entry]) -> int:
        waiting, spent = self._lanes[lane], 0
        while waiting and spent < share:
            entry, cost = waiting.popleft()
            taken.append(entry)
            spent += cost
        if waiting:
            self._lanes.move_to_end(lane)
        else:
            del self._lanes[lane]
        return spent
