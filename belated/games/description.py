"""What a finite game is, in words and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.geometry import Structure
from belated.protocols import Floats

MEANING = {
    "trivial": "one action is best whatever happens, so that regret can be 0",
    "easy": "regret grows like n^(1/2), up to logarithms",
    "hard": "regret grows like n^(2/3), up to logarithms",
    "hopeless": "regret grows like n, whatever is played",
}
#: Colours that people who cannot tell red from green can tell apart (Okabe, Ito).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#7f7f7f")


@dataclass(frozen=True, eq=False, repr=False)
class Description:
    """A game described. `str` gives it as text; `plot` draws it."""

    structure: Structure
    law: Sequence[float] | Floats | None = None

    @property
    def headline(self) -> str:
        """The class and what follows from it."""
        return f"{self.structure.klass}: {MEANING[self.structure.klass]}"

    def actions(self) -> list[tuple[str, ...]]:
        """For each action: number, kind, losses, symbols."""
        game = self.structure
        return [
            (str(i), self._kind(i), _numbers(game.loss[i]), " ".join(str(game.names[i][c]) for c in game.codes[i]))
            for i in range(game.actions)
        ]

    def neighbours(self) -> list[tuple[str, ...]]:
        """For each pair of neighbours: the pair, the actions between them, observability, observer vectors."""
        game = self.structure
        return [
            (
                f"{i}, {j}",
                ", ".join(map(str, game.plus[i, j])),
                "local" if game.locally[i, j] else "global" if game.globally[i, j] else "none",
                self._observer((i, j)),
            )
            for i, j in game.pairs
        ]

    def __str__(self) -> str:
        lines = [self.headline, ""]
        lines += _aligned([("action", "kind", "losses", "symbols"), *self.actions()])
        if self.structure.pairs:
            lines += ["", *_aligned([("neighbours", "N+", "observable", "observer"), *self.neighbours()])]
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, path: str | Path) -> None:
        """Draw the cells: on the triangle of laws for three outcomes, with expected losses for two."""
        drawing = {2: _segment, 3: _triangle}.get(self.structure.outcomes)
        if drawing is None:
            outcomes = f"{self.structure.outcomes} outcome{'s' if self.structure.outcomes > 1 else ''}"
            raise InvalidArgument(f"a game can be drawn if it has two or three outcomes; this one has {outcomes}")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set_title(self.headline, fontsize=9.5, pad=14)
        drawing(axes, self.structure, self.law)
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        try:
            figure.savefig(path)
        except ValueError as error:
            raise InvalidArgument(f"{str(path)!r} cannot be drawn: {error}") from None

    def _kind(self, action: int) -> str:
        kind, first = self.structure.kinds[action], self.structure.duplicate_of[action]
        return f"{kind}, the same as {first}" if first != action else kind

    def _observer(self, pair: tuple[int, int]) -> str:
        parts = []
        for k, vector in self.structure.observer[pair].items():
            if vector.any():
                inside = ", ".join(f"{name}: {v:.4g}" for name, v in zip(self.structure.names[k], vector, strict=True))
                parts.append(f"{k}({inside})")
        return "  ".join(parts) or "-"


def cell(structure: Structure, action: int) -> Floats:
    """The corners of an action's cell in the triangle of laws of three outcomes, in order; empty if it has none.

    >>> from belated import games
    >>> cell(games.bartok().structure, 0).round(3).tolist()
    [[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.333, 0.333, 0.333], [0.0, 0.5, 0.5]]
    """
    corners = [np.array(row) for row in np.eye(3)[[2, 0, 1]]]
    scale = max(float(np.ptp(structure.loss)), 1e-300)
    for other in range(structure.actions):
        ahead = (structure.loss[other] - structure.loss[action]) / scale
        kept: list[Floats] = []
        for here, there in zip(corners, corners[1:] + corners[:1], strict=True):
            a, b = float(ahead @ here), float(ahead @ there)
            if a >= -1e-12:
                kept.append(here)
            if (a > 1e-12 and b < -1e-12) or (a < -1e-12 and b > 1e-12):
                kept.append(here + (there - here) * a / (a - b))
        corners = kept
    return np.array(corners).reshape(len(corners), 3)


def _triangle(axes: Any, structure: Structure, law: Sequence[float] | Floats | None) -> None:
    """The cells of the Pareto actions as polygons; other actions that are somewhere best as lines or points."""
    flat = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    for i, kind in enumerate(structure.kinds):
        if kind in ("duplicate", "dominated"):
            continue
        at = cell(structure, i) @ flat
        color = COLORS[i % len(COLORS)]
        if kind == "pareto":
            axes.fill(*at.T, color=color, alpha=0.55, linewidth=0, label=f"action {i}")
            axes.plot(*np.vstack([at, at[:1]]).T, color="black", linewidth=0.8)
            axes.annotate(str(i), at.mean(axis=0), ha="center", va="center", fontsize=11)
        elif len(at):
            axes.plot(*at.T, color=color, linewidth=3, marker="o", label=f"action {i}, degenerate")
    for x, (place, shift) in enumerate(zip(flat, [(-8, -12), (8, -12), (0, 6)], strict=True)):
        axes.annotate(f"outcome {x}", place, xytext=shift, textcoords="offset points", ha="center", fontsize=8)
    if law is not None:
        axes.plot(*(np.array(law) @ flat), "k*", markersize=9, label="the law")
    axes.set_aspect("equal")
    axes.set_axis_off()


def _segment(axes: Any, structure: Structure, law: Sequence[float] | Floats | None) -> None:
    """Expected losses against the probability of outcome 1, and who is best where."""
    grid = np.array([[1.0, 0.0], [0.0, 1.0]])
    for i, kind in enumerate(structure.kinds):
        if kind == "duplicate":
            continue
        style = "-" if kind == "pareto" else "--" if kind == "degenerate" else ":"
        note = "" if kind == "pareto" else f", {kind}"
        color = COLORS[i % len(COLORS)]
        axes.plot([0, 1], grid @ structure.loss[i], style, color=color, label=f"action {i}{note}")
        if kind == "pareto":
            low, high = _interval(structure, i)
            axes.axvspan(low, high, color=color, alpha=0.2, linewidth=0)
    if law is not None:
        axes.axvline(law[1], color="black", linewidth=1, linestyle=":", label="the law")
    axes.set(xlabel="probability of outcome 1", ylabel="expected loss", xlim=(0, 1))


def _interval(structure: Structure, action: int) -> tuple[float, float]:
    """The probabilities of outcome 1 for which an action is best, of two outcomes."""
    low, high = 0.0, 1.0
    for other in range(structure.actions):
        at, after = structure.loss[other] - structure.loss[action]
        if at < after and at < 0:
            low = max(low, at / (at - after))
        elif at > after and after < 0:
            high = min(high, at / (at - after))
    return float(low), float(high)


def _numbers(values: Floats) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
