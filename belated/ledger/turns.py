"""Whether another process wrote since this one had a log, told by numbers that the database gives out."""

from __future__ import annotations


class Turns:
    """The writing transactions of this process: how many there were, and since which of them nobody else had one.

    Each draws a number after it has locked its logs (`belated_lock`). While a log is locked nobody else draws for it:
    of two transactions that had it, the later one has the higher number. If numbers that were drawn here follow each
    other, nobody else has had a log between. A server that began later, or a sequence that was made anew, may lack the
    end of all logs and give out any number: that counts as somebody else.

    >>> turns = Turns()
    >>> turns.draw(7, "a"), turns.draw(8, "a"), (turns.mine, turns.since)
    (None, None, (2, 1))
    >>> turns.draw(10, "a"), (turns.mine, turns.since), turns.draw(11, "b"), (turns.mine, turns.since)
    (None, (3, 3), None, (4, 4))
    """

    def __init__(self) -> None:
        self.mine = 0
        self.since = 1
        self._last = (0, "")

    def draw(self, number: int, server: str) -> None:
        """A transaction has begun, and this is its number."""
        self.mine += 1
        if (number - 1, server) != self._last:
            self.since = self.mine
        self._last = (number, server)
