"""What delay costs, from a log of decisions and of when their feedback came.

    report = bl.audit("events.parquet", decided="decided_at", observed="converted_at", action="ad", reward="value")
    print(report.summary())
    report.page("results/audit")

A log is read out of core (`log.py`). How long feedback takes is estimated with what is still to come in mind
(`survival.py`, `delays.py`); how much of it was out at once is counted (`outstanding.py`), and how much would be with
an expiry (`expiry.py`); whether delays depend on actions or outcomes, or drift, is tested (`compare.py`,
`dependence.py`). From these follow what the theorems say (`cost.py`) and what to use (`advice.py`). All of it is in the
`Audit` of `report.py`, and shown by `page.py` and `drawings.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from belated.audit.report import Audit

__all__ = ["audit"]


def audit(
    source: Any,
    *,
    decided: str,
    observed: str,
    action: str | None = None,
    reward: str | None = None,
    learner: Any = "ucb1",
    gap: float = 0.1,
    as_of: Any = None,
    level: float = 0.01,
    format: str | None = None,
    unit: str | None = None,
) -> Audit:
    """Audit a log: a CSV, Parquet or JSON lines file, or a frame (polars, or what polars takes); rows in any order.

    `decided` and `observed` name columns of times (timestamps, ISO text, seconds since 1970) or of round numbers;
    `observed` is empty where no feedback has come. Text that cannot be read is refused, or, in up to 1% of the rows,
    left out and counted. `learner` and `gap` (how much worse the other actions are than the
    best, in units of the range of rewards) are what the theorems are asked about. `as_of` is when the log was taken, by
    default its latest time. `level` is that of all tests together. `unit` says what numbers are: rounds, s, ms, us, ns.
    """
    from belated.audit.report import run

    return run(source, decided, observed, action, reward, learner, gap, as_of, level, format, unit)
