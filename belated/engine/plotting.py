"""Regret curves as a matplotlib figure, without touching pyplot's global state."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from belated.errors import InvalidArgument
from belated.report.figures import reaches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from belated.engine.result import Result


def check_picture(path: str | Path) -> None:
    """Refuse a file whose name does not end in a kind of picture that can be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if Path(path).suffix[1:].lower() not in kinds:
        raise InvalidArgument(f"{str(path)!r} must end in one of {', '.join(sorted(kinds))}")


def regret_figure(results: Sequence[Result]) -> Any:
    """Mean regret of each result against the round, an approximate 95% band, and the bound where there is one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lowest = 0.0
    for number, result in enumerate(results):
        color = f"C{number}"
        mean = result.regret.mean(axis=0)
        lowest = min(lowest, float(mean.min()))
        axes.plot(result.checkpoints, mean, color=color, label=repr(result.setting.forecaster))
        width = reaches(result.regret)
        axes.fill_between(result.checkpoints, mean - width, mean + width, color=color, alpha=0.2, linewidth=0)
        curve = result.bound_curve
        if curve is not None and result.verdict != "vacuous":
            axes.plot(result.checkpoints, curve, color=color, linestyle="--", linewidth=1, label="its bound")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=max(1.0, -lowest / 10))
    if lowest == 0.0:
        axes.set_ylim(bottom=0.0)
    axes.set_xlabel("round")
    axes.set_ylabel("regret (mean, approximate 95% band)")
    setting = results[0].setting
    axes.set_title(
        "\n".join(shorten(repr(x), 100, placeholder=" ...") for x in (setting.game, setting.delays)), fontsize=9
    )
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
