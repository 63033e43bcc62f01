"""A matplotlib figure that notebooks show by themselves, without pyplot. (Import it late: matplotlib takes a while.)"""

from __future__ import annotations

import io
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from belated.report.style import STYLE

#: Dots an inch of pictures that are shown or saved.
DOTS = 150


class Picture(Figure):
    """A figure that knows how to be shown as the value of a notebook's cell."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(stream, format="png", dpi=DOTS)
        return stream.getvalue()
