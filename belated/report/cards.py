"""Results, studies and certificates as small tables of HTML, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from belated.report.stats import number

#: Rows of a table that a notebook shows; of more, the first.
SHOWN = 30


def facts(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A title over pairs of a name and what is to be said."""
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(said)}</td></tr>'
        for name, said in rows
    )
    return f"<div><b>{escape(title)}</b><table>{body}</table></div>"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """A title over a table; words stand left, numbers right. Of many rows the first, and how many there are."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows[:SHOWN])
    more = f"{SHOWN} of {len(rows):,} rows. " if len(rows) > SHOWN else ""
    under = f"<small>{escape(more + note)}</small>" if more + note else ""
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{under}</div>"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f'<td style="text-align:left">{escape(value)}</td>'
    shown = f"{value:,}" if isinstance(value, int) else number(value)
    return f"<td>{escape(shown)}</td>"


def within(mean: float, reach: float | None) -> str:
    """A mean with the reach of its interval, to the digits that mean something.

    >>> within(123.456, 4.5), within(12.0, None)
    ('123.5 ± 4.5', '12')
    """
    if reach is None or not math.isfinite(reach) or reach <= 0:
        return number(mean)
    places = max(0, 1 - math.floor(math.log10(reach)))
    return f"{mean:,.{places}f} ± {reach:,.{places}f}"
