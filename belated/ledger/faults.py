"""Faults stay where they are: an experiment that fails says why, and is not tried again for every request.

After some failures in a row it rests for a moment: what is asked of it meanwhile is refused at once, with the reason,
and costs the others nothing. Then one more is tried.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass

from belated.errors import BelatedError
from belated.ledger.errors import Damaged, Refused

log = logging.getLogger("belated")

#: Failures in a row after which an experiment rests, and for how many seconds, at first and at most.
STRIKES = 3
PAUSE = 2.0
LONGEST = 30.0


@dataclass
class Fault:
    """What is wrong with an experiment."""

    refusal: Refused
    strikes: int = 0
    until: float = 0.0
    pause: float = PAUSE


class Faults:
    """Which experiments fail. Several threads may ask."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Fault] = {}
        self._lock = threading.Lock()

    def resting(self, key: Hashable) -> Refused | None:
        """Why nothing is tried now."""
        fault = self.known.get(key)
        if fault is None or time.monotonic() >= fault.until:
            return None
        return Refused(fault.refusal.kind, str(fault.refusal))  # a new one: those who raise it leave their traces in it

    def failed(self, key: Hashable, name: str, error: Exception) -> Refused:
        """What is answered; it counts."""
        refusal = explained(name, error)
        with self._lock:
            fault = self.known.get(key)
            if fault is None or str(fault.refusal) != str(refusal):
                log.error("%s", refusal, exc_info=None if isinstance(error, BelatedError) else error)
            if fault is None:
                fault = self.known[key] = Fault(refusal)
            fault.refusal = refusal
            fault.strikes += 1
            if fault.strikes >= STRIKES:
                fault.until = time.monotonic() + fault.pause
                fault.pause = min(2.0 * fault.pause, LONGEST)
        return refusal

    def worked(self, *keys: Hashable) -> None:
        """They did what they were asked."""
        if self.known:
            with self._lock:
                for key in keys:
                    self.known.pop(key, None)

    def reasons(self) -> dict[Hashable, str]:
        """What is wrong now, where something is."""
        with self._lock:
            return {key: str(fault.refusal) for key, fault in self.known.items() if fault.strikes >= STRIKES}


def explained(name: str, error: Exception) -> Refused:
    """A failure as it is told: what is stored is damaged, or something else is wrong."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Damaged):
        return Refused("damaged", f"{name} is damaged: {error}")
    said = str(error) or "without a word"
    return Refused("internal", f"{name} failed ({type(error).__name__}: {said[:300]}); nothing was changed")
