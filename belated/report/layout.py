"""Where panels, titles, legend and notes of a figure stand. In inches: to let them be fitted takes twice as long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.report.style import STYLE, enough_ticks, even_ticks

#: Inches: a figure, a panel, what stands around it.
WIDTH, WIDE, TALL = 7.2, 5.4, 3.1
LEFT, RIGHT, GAP, APART, UNDER = 0.8, 0.24, 0.2, 0.6, 0.56
#: A line of text, of the title and of the legend; a letter.
LINE, ENTRY, LETTER, SAMPLE = 0.17, 0.19, 0.066, 0.5


class Layout:
    """A figure with panels; or axes of somebody else's."""

    def __init__(self, panels: int, given: Any, legend: Any, shared: bool, across: int = 0) -> None:
        self.legend: str = legend or ("below" if given is None else "inside")
        self.own = given is None
        self.shared = shared
        self.columns = panels if panels <= 3 else 2 if panels == 4 else 3 if panels <= 12 else 4
        if 1 < across <= 4 and panels % across == 0:
            self.columns = across  # a row for each value of what comes first
        self.rows = math.ceil(panels / self.columns)
        if self.own:
            self._make(panels)
            return
        self.axes = np.ravel(np.asarray(given, dtype=object)).tolist()
        if len(self.axes) != panels or not all(hasattr(each, "plot") for each in self.axes):
            raise InvalidArgument(f"axes must be {panels} of matplotlib's, one a panel, got {given!r}")
        self.figure = self.axes[0].figure

    def _make(self, panels: int) -> None:
        import matplotlib

        from belated.report.canvas import Picture

        with matplotlib.rc_context(STYLE):
            self.figure = Picture(figsize=(WIDE if panels == 1 else WIDTH, TALL))
            self.axes = []
            for number in range(panels):
                self.axes.append(self.figure.add_subplot(self.rows, self.columns, number + 1))

    def ticks(self, axes: Any) -> None:
        """All labels of one kind."""
        for axis in (axes.xaxis, axes.yaxis):
            even_ticks(axis, axis.get_scale())

    def align(self) -> None:
        """Panels that share their scales show the same part of them. (Axes that matplotlib ties are slow.)"""
        if not self.shared:
            return
        for name in ("xlim", "ylim"):
            ends = [getattr(axes, f"get_{name}")() for axes in self.axes]
            low, high = min(end[0] for end in ends), max(end[1] for end in ends)
            for axes in self.axes:
                getattr(axes, f"set_{name}")(low, high)

    def label(self, titles: Sequence[str], xlabel: str, ylabel: str, caption: Sequence[str]) -> None:
        """Say what panels and axes are, and over all of them what they share."""
        self.caption, self.names = list(caption), (xlabel, ylabel)
        count = len(self.axes)
        for number, (axes, said) in enumerate(zip(self.axes, titles, strict=True)):
            below = number + self.columns >= count
            if self.own:
                axes.set_title("\n".join(wrap(said, 44 if self.columns < 3 else 36)), fontsize=8.5, pad=4)
                if self.shared:
                    axes.tick_params(labelbottom=below, labelleft=number % self.columns == 0)
            else:
                letters = 90 if count == 1 else 45
                told = [line for part in (*caption, said) for line in wrap(part, letters)]
                axes.set_title("\n".join(told), fontsize="small" if count == 1 else "x-small")
                axes.set(xlabel=xlabel, ylabel=ylabel)

    def finish(self, entries: Sequence[tuple[str, dict[str, Any]]], notes: Sequence[str]) -> None:
        """Add the legend and the notes, and make room for all."""
        for axes in self.axes:
            enough_ticks(axes.xaxis)
            enough_ticks(axes.yaxis)
        handles, names = self._handles(entries)
        if self.own:
            self._arrange(handles, names, list(notes))
            return
        if self.legend != "none" and names:
            spot = {"below": ("upper center", (0.5, -0.22)), "right": ("upper left", (1.02, 1.0))}.get(self.legend)
            where: Any = {"loc": "best"} if spot is None else {"loc": spot[0], "bbox_to_anchor": spot[1]}
            self.axes[0].legend(handles, names, fontsize="small", frameon=False, **where)
        if notes:
            self.axes[0].set_xlabel("\n".join([self.axes[0].get_xlabel(), *wrap(" ".join(notes), 70)]))

    def _handles(self, entries: Sequence[tuple[str, dict[str, Any]]]) -> tuple[list[Any], list[str]]:
        from matplotlib.lines import Line2D

        made = [Line2D([], [], **{k: v for k, v in style.items() if k != "markevery"}) for _, style in entries]
        for handle in made:
            handle.set_markersize(4)
        return made, [name if len(name) <= 60 else f"{name[:58]}..." for name, _ in entries]

    def _arrange(self, handles: list[Any], names: list[str], notes: list[str]) -> None:
        import matplotlib

        width = self.figure.get_size_inches()[0]
        longest = max((len(name) for name in names), default=0) * LETTER + SAMPLE
        beside = longest + 0.1 if self.legend == "right" and names else 0.0
        columns = max(1, min(len(names), int((width - 0.3) / longest))) if names else 1
        if names:  # columns of one length
            columns = math.ceil(len(names) / math.ceil(len(names) / columns))
        under = math.ceil(len(names) / columns) * ENTRY if self.legend == "below" else 0.0
        told = [line for note in notes for line in wrap(note, int((width - 0.2) / 0.058))]
        lines = max(axes.get_title().count("\n") + 1 if axes.get_title() else 0 for axes in self.axes)
        top = LINE * len(self.caption) + 0.12 + LINE * lines
        bottom = UNDER + under + 0.14 * len(told) + 0.06
        each = 2.5 if self.columns == 1 else 2.3 if self.columns == 2 else 1.9 if self.rows == 1 else 1.45
        apart = (0.1 if self.shared else 0.3) + LINE * lines + (0.0 if self.shared else 0.12)
        height = top + bottom + self.rows * each + (self.rows - 1) * apart
        width += beside
        self.figure.set_size_inches(width, height)
        inner = (width - LEFT - RIGHT - beside - (self.columns - 1) * (GAP if self.shared else APART)) / self.columns
        self.figure.subplots_adjust(
            left=LEFT / width,
            right=1 - (RIGHT + beside) / width,
            top=1 - top / height,
            bottom=bottom / height,
            wspace=(GAP if self.shared else APART) / inner,
            hspace=apart / each,
        )
        middle = (LEFT + (width - beside - RIGHT)) / 2 / width
        with matplotlib.rc_context(STYLE):
            self.figure.text(
                middle, 1 - 0.06 / height, "\n".join(self.caption), ha="center", va="top", fontsize=8.5, linespacing=1.3
            )
            self.figure.text(middle, (bottom - 0.42) / height, self.names[0], ha="center", va="baseline")
            across = (bottom + (height - top)) / 2 / height
            self.figure.text(0.08 / width, across, self.names[1], rotation=90, ha="left", va="center")
            self._place(handles, names, columns, width, height, beside, middle, 0.14 * len(told) + 0.03)
            if told:
                self.figure.text(0.1 / width, 0.05 / height, "\n".join(told), va="bottom", fontsize=7, color="0.3")

    def _place(
        self,
        handles: list[Any],
        names: list[str],
        columns: int,
        width: float,
        height: float,
        beside: float,
        middle: float,
        above: float,
    ) -> None:
        if not names or self.legend == "none":
            return
        if self.legend == "inside":
            self.axes[0].legend(handles, names, fontsize=7.5, frameon=False, loc="best")
        elif self.legend == "right":
            self.figure.legend(handles, names, loc="center left", bbox_to_anchor=(1 - beside / width, 0.55), fontsize=8)
        else:
            spot = (middle, above / height)
            self.figure.legend(
                handles, names, loc="lower center", bbox_to_anchor=spot, ncols=columns, fontsize=8, borderaxespad=0.1
            )

    def save(self, path: str | Path) -> None:
        """Write the figure; the kind of picture is that of the name."""
        import matplotlib

        from belated.report.canvas import DOTS

        with matplotlib.rc_context(STYLE):
            self.figure.savefig(path, dpi=DOTS)
