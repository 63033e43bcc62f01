"""How long feedback takes: counts of delays for each action and class of outcome, and the curves they give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from belated.audit.compare import Counts
from belated.audit.log import Log
from belated.audit.survival import Curve, Whole
from belated.logs import collect

#: With no more different delays, times groups, than that, each is counted by itself; else on a grid.
EXACT = 1 << 21
#: The grid has so many cells from each power of two to the next.
FINE = 64


@dataclass(frozen=True, eq=False)
class Delays:
    """Counts by delay, action and class of outcome; feedback without a known outcome has the class after the last.

    Arrays are delays x actions x classes, except `censored`, which is delays x actions: what has not come has no class.
    """

    at: Whole  #: rising delays; on a grid the longest of each cell
    came: Whole
    censored: Whole  #: by how long they were seen to wait
    limits: Whole  #: of what came, by the longest delay that could have been seen
    grid: float  #: the relative width of a cell; 0 if delays are exact
    halves: Counts  #: delays x 2: of all decisions made before the middle of the log, and after
    shortest: Whole | None = None  #: on a grid, the shortest of each cell

    def curve(self, action: int | None = None) -> Curve:
        """Kaplan-Meier, in all or of one action."""
        which = slice(None) if action is None else slice(action, action + 1)
        came, limits = (part[:, which].sum(axis=(1, 2)) for part in (self.came, self.limits))
        return Curve(self.at, came, self.censored[:, which].sum(axis=1), limits, self.shortest)


def measure(log: Log, middle: int) -> Delays:
    """Two passes over the log: together they would be quicker, and hold much of it in memory.

    Decisions before `middle` are told from those after it.
    """
    d, o = pl.col("d"), pl.col("o")
    columns = log.frame.collect_schema()
    actions, classes = max(1, len(log.actions)), len(log.classes) + 1
    group = pl.lit(0, pl.Int64)
    if log.actions:
        group = group + pl.col("a")
    if "y" in columns:
        group = group * classes + pl.col("y").fill_null(classes - 1)
    groups = actions * classes
    grid = min(log.longest + 1, 2 * log.decisions) * groups > EXACT or log.longest * groups > 1 << 60
    beyond = _cell(pl.lit(log.longest), grid) + 1  # how much longer than the longest delay was watched does not matter
    until = pl.col("w") if log.watched else pl.lit(log.as_of)
    waits, limits = _cell(o - d, grid), pl.min_horizontal(_cell(until - d, grid), beyond)
    late = d >= middle
    # of what has not come, the class is not known, and limits have a bit more: whether it came
    queries = [
        log.frame.filter(o.is_not_null()).group_by(key=(waits * groups + group) * 2 + late).len(),
        log.frame.group_by(key=((limits * groups + group) * 2 + late) * 2 + o.is_not_null()).len(),
    ]
    ended, seen = ((found["key"].to_numpy(), found["len"].to_numpy()) for found in map(collect, queries))
    cells = np.sort(np.concatenate([ended[0] // (2 * groups), seen[0] // (4 * groups)]))
    cells = cells[np.append(True, np.diff(cells) > 0)]  # quicker than np.unique
    came = seen[0] % 2 == 1
    counted = [ended, (seen[0][came] // 2, seen[1][came]), (seen[0][~came] // 2, seen[1][~came])]
    places = [np.searchsorted(cells, keys // (2 * groups)) for keys, _ in counted]

    def tables(width: int, column: Callable[[Whole], Whole]) -> list[Whole]:
        filled = [np.zeros(len(cells) * width, np.int64) for _ in counted]
        for table, place, (keys, counts) in zip(filled, places, counted, strict=True):
            np.add.at(table, place * width + column(keys), counts)
        return [table.reshape(len(cells), width) for table in filled]

    each = [table.reshape(-1, actions, classes) for table in tables(groups, lambda keys: keys // 2 % groups)]
    return Delays(
        _longest(cells) if grid else cells,
        each[0],
        each[2].sum(axis=2),
        each[1],
        2.0 ** (1 / FINE) - 1 if grid else 0.0,
        Counts(*tables(2, lambda keys: keys % 2)),
        _shortest(cells) if grid else None,
    )


def _cell(delay: pl.Expr, grid: bool) -> pl.Expr:
    """The number of the delay's cell; without a grid, the delay itself."""
    return ((delay + 1).log(2) * FINE).cast(pl.Int64) if grid else delay


def _shortest(cells: Whole) -> Whole:
    """The shortest delay in a cell of the grid."""
    return np.asarray(np.ceil(2.0 ** (cells / FINE)) - 1, np.int64)


def _longest(cells: Whole) -> Whole:
    """The longest delay in a cell of the grid."""
    return np.asarray(np.ceil(2.0 ** ((cells + 1) / FINE)) - 2, np.int64)
