"""What an expiry would lose: of the feedback that comes, the share that comes after it, and the peak with it."""

from __future__ import annotations

from dataclasses import dataclass

from belated.audit import outstanding
from belated.audit.log import Log
from belated.audit.outstanding import Peak
from belated.audit.survival import Curve

#: Expiries are tried that keep these shares of what comes within the log's span.
KEPT = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class Expiry:
    """Decisions are given up after so long."""

    length: int
    lost: float  #: of the feedback that comes within the log's span
    lost_low: float  #: its 95% interval
    lost_high: float
    peak: Peak


def expiries(log: Log, curve: Curve) -> list[Expiry]:
    """Lengths that lose from half to next to nothing, shorter than what the log can show: of others it says nothing."""
    comes = 1 - curve.never
    reached = {length for share in KEPT if (length := curve.reached(share * comes)) is not None}
    lengths = sorted(length for length in reached if curve.place(length) < curve.end)
    peaks = outstanding.with_expiry(log, lengths)
    return [Expiry(length, *curve.later(length), peak) for length, peak in zip(lengths, peaks, strict=True)]
