"""What delay costs, from a log of decisions and of when their feedback came.

    report = bl.audit("events.parquet", decided="decided_at", observed="converted_at", action="ad", reward="value")
    print(report.summary())
    report.page("results/audit")

A log is read out of core (`belated.logs`, `log.py`). How long feedback takes is estimated with what is still to come in
mind (`survival.py`, `delays.py`); how much of it was out at once is counted (`outstanding.py`), and how much would be
with an expiry (`expiry.py`); whether delays depend on actions or outcomes, or drift, is tested (`compare.py`,
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
    decided: str | None = None,
    observed: str | None = None,
    action: str | None = None,
    reward: str | None = None,
    feedback: Any = None,
    on: str | None = None,
    watched: str | None = None,
    window: Any = None,
    learner: Any = "ucb1",
    gap: float = 0.1,
    as_of: Any = None,
    level: float = 0.01,
    format: str | None = None,
    unit: str | None = None,
    time_format: str | None = None,
) -> Audit:
    """Audit a log: files, a folder, a pattern, an address, or a frame of any kind (see `logs/source.py`).

    `decided` and `observed` name columns of times (timestamps, ISO text, seconds since 1970) or of round numbers;
    `observed` is empty where no feedback has come. Not named, they are those of the service's export, `decided_at` and
    `closed_at`, in which cancelled and expired decisions had no feedback. Text that cannot be read is refused, or, in
    up to 1% of the rows, left out and counted. `unit` says what numbers are (rounds, s, ms, us, ns), `time_format` how
    times are written that are not ISO ("%d/%m/%Y %H:%M"; "%Y%m%d" for 20260131).

    `feedback` is another table, with the columns `observed` and `reward`, joined by the id `on` ("click_id", or
    "click_id=id" where it is called otherwise there): the first feedback of a decision counts. `watched` names a column
    that says until when a decision was watched for its feedback, and `window` ("7d", "36h", or rounds) for how long:
    what comes later is not feedback, and a decision without any is then no longer out.

    `learner` and `gap` (how much worse the other actions are than the best, in units of the range of rewards) are what
    the theorems are asked about. `as_of` is when the log was taken, by default its latest time. `level` is that of all
    tests together.

    >>> clicks = {"id": [1, 2, 3, 4], "at": ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]}
    >>> sales = {"id": [1, 2, 2], "sold": ["2026-01-03", "2026-01-03", "2026-01-09"]}
    >>> found = audit(clicks, feedback=sales, on="id", decided="at", observed="sold")
    >>> print(found.summary().split("; ")[1].split("\\ndelay")[0])
    feedback came for 2 (50.0%) by 2026-01-09 00:00:00 UTC
    left out: 1 row, feedback after the first of its decision
    """
    from belated.audit.report import run

    reading = {"feedback": feedback, "on": on, "watched": watched, "window": window}
    reading |= {"unit": unit, "time_format": time_format}
    return run(source, decided, observed, action, reward, learner, gap, as_of, level, format, **reading)
