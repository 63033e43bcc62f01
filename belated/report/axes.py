"""Axes of lengths, moments, counts and names, as people read them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from belated.report.style import even_ticks

#: Letters of a line of a name in a figure.
WIDE = 40
#: How dates are written, by what is between two ticks, in days.
DATES = {
    365.0: "%Y",
    31.0: "%Y-%m",
    1.0: "%Y-%m-%d",
    1 / 24: "%m-%d %H:%M",
    1 / 1440: "%m-%d %H:%M",
    1 / 86_400: "%H:%M:%S",
    1 / 86_400e6: "%H:%M:%S.%f",
}


def plain_numbers(*axes: Any, whole: bool = False) -> None:
    """Ticks as 1,500,000: no powers, and no numbers beside the axis to be added or multiplied."""
    from matplotlib.ticker import MaxNLocator, ScalarFormatter

    class Plain(ScalarFormatter):
        def __call__(self, value: float, place: int | None = None) -> str:
            return f"{value:,.0f}" if abs(value) >= 1000 and value % 1 == 0 else super().__call__(value, place)

    for axis in axes:
        shown = Plain(useOffset=False)
        shown.set_scientific(False)
        axis.set_major_formatter(shown)
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=whole))


def dates(axis: Any) -> None:
    """Ticks of an axis of microseconds since 1970, drawn as datetime64, as dates and times (UTC)."""
    from matplotlib.dates import AutoDateFormatter, AutoDateLocator

    locator = AutoDateLocator(minticks=3, maxticks=5)
    formatter = AutoDateFormatter(locator)
    formatter.scaled = dict(DATES)
    axis.set_major_locator(locator)
    axis.set_major_formatter(formatter)


def from_zero(axes: Any, smallest: float, largest: float) -> None:
    """A logarithmic x axis that has a place for 0, left of the power of ten below the smallest number."""
    axes.set_xscale("symlog", linthresh=10.0 ** np.floor(np.log10(smallest)), linscale=0.5)
    even_ticks(axes.xaxis, "symlog")
    axes.set_xlim(0, 1.3 * largest)


def wrapped(names: Sequence[str], width: int = WIDE) -> list[str]:
    """Names for a figure, whole, long ones in lines.

    >>> wrapped(["red", "a_campaign of many words"], width=12)
    ['red', 'a_campaign\\nof many\\nwords']
    """
    return ["\n".join(textwrap.wrap(name, width) or [name]) for name in names]


def legend_below(figure: Any, axes: Any) -> None:
    """All names whole, below the axes, where they cover nothing; the figure grows by what they need."""
    handles, names = axes.get_legend_handles_labels()
    if not handles:
        return
    names = wrapped(names)
    short = max(len(line) for name in names for line in name.split("\n")) < WIDE // 2
    columns = min(3 if short else 1, len(names))
    lines = [name.count("\n") + 1 for name in names]
    rows = sum(lines) if columns == 1 else -(-len(names) // columns)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.17 * max(0, rows - 1))
    figure.legend(handles, names, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
