"""The delays of a log as a law to draw from, in rounds."""

from __future__ import annotations

import numpy as np
import polars as pl

from belated.audit.log import Log
from belated.audit.survival import Curve
from belated.delays import Empirical
from belated.logs import collect
from belated.protocols import NEVER

#: How many delays stand for all of them: the middles of so many equal shares.
SAMPLE = 1000


def law_of(log: Log, sample: int = SAMPLE) -> Empirical:
    """Delays that stand for those of the log, by the curve of Kaplan and Meier: what is still to come is allowed for.

    A delay is counted in decisions: those made after it and before its feedback came. What takes longer than the log
    can show never comes.
    """
    delays, shares = _shares(log)
    return Empirical(np.append(delays, NEVER)[np.searchsorted(shares, _middles(sample))])


def law_of_sales(log: Log, sample: int = SAMPLE) -> tuple[Empirical, float]:
    """The same where a decision without feedback is one that did not sell: the delays of sales, and how many sell."""
    delays, shares = _shares(log)
    return Empirical(delays[np.searchsorted(shares, shares[-1] * _middles(sample))]), float(shares[-1])


def _middles(sample: int) -> np.ndarray:
    return (np.arange(sample) + 0.5) / sample


def _shares(log: Log) -> tuple[np.ndarray, np.ndarray]:
    """Delays that the log can show, and the share of feedback that comes with each or a shorter one."""
    watched = pl.col("w") if log.watched else pl.lit(log.as_of)
    found = collect(log.frame.select("d", "o", w=watched).sort("d"))
    decided, observed = found["d"].to_numpy(), found["o"]
    came = observed.is_not_null().to_numpy()
    place = np.arange(len(decided))
    until = np.where(came, observed.fill_null(0).to_numpy(), 0)
    waits = np.maximum(np.searchsorted(decided, until, side="right") - 1 - place, 0)
    # A delay of w is seen for sure where w + 1 decisions followed while it was watched; with none nothing is known.
    seen = np.searchsorted(decided, found["w"].to_numpy(), side="right") - 2 - place
    open_ = ~came & (seen >= 0)
    seen = np.maximum(seen, np.where(came, waits, 0))
    delays = np.unique(np.concatenate([waits[came], seen]))

    def counted(values: np.ndarray) -> np.ndarray:
        return np.bincount(np.searchsorted(delays, values), minlength=len(delays)).astype(np.int64)

    curve = Curve(delays, counted(waits[came]), counted(seen[open_]), counted(seen[came]))
    return delays[: curve.end + 1], 1.0 - curve.survival[: curve.end + 1]
