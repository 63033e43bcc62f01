"""The other systems of the paper's table 1: each one's claim, formula, experiment, figure and verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from belated.report.page import Block, Finding, Section, worst
from belated.report.words import ASIDE, tallied
from belated.studies.cells import Cell, Play
from belated.studies.paper.part import Part
from belated.studies.paper.related import agarwal, desautels, dudik, langford, mesterharm, neu, outage, weinberger
from belated.studies.paper.related.shared import WORDS, Entry, Series, System
from belated.studies.results import cell_frame
from belated.studies.run import Done

if TYPE_CHECKING:
    import polars

SYSTEMS: tuple[System, ...] = tuple(
    module.SYSTEM for module in (weinberger, langford, mesterharm, agarwal, desautels, neu, dudik, outage)
)


def cells_of(sizes: dict[str, Any]) -> list[Cell]:
    """All cells of the systems that have a size here."""
    return [cell for system in SYSTEMS if system.name in sizes for cell in system.cells(sizes[system.name])]


def describe(done: Done, sizes: dict[str, Any]) -> Section:
    """The section of the systems that have a size here."""
    blocks: list[Block] = [WORDS.text("opening")]
    chosen = [system for system in SYSTEMS if system.name in sizes]
    for system in chosen:
        blocks += system.blocks(done, sizes[system.name])
    section = Section(PART.name, PART.title, blocks, _frames(done, sizes))
    words = [found.word for found in section.findings if found.word not in ASIDE]
    section.short = Finding(WORDS("short", count=len(words), tally=tallied(words, short=True)), worst(words))
    return section


def _frames(done: Done, sizes: dict[str, Any]) -> dict[str, polars.DataFrame]:
    """The plays, and the games of each series, one row each."""
    import polars

    unique = {cell.key: cell for cell in cells_of(sizes)}.values()
    plays = [(cell, done[cell]) for cell in unique if isinstance(cell, Play)]
    series = [
        {"forecaster": repr(cell.forecaster), "games": repr(cell.make), "delays": repr(cell.delays), "number": number}
        | {"regret": regret, "bound": None if math.isnan(bound) else bound}
        for cell in unique
        if isinstance(cell, Series)
        for number, regret, bound in zip(cell.numbers, *(column.tolist() for column in done[cell]), strict=True)
    ]
    return {
        "related-cells": cell_frame(plays),
        "related-series": polars.DataFrame(series, schema_overrides={"bound": polars.Float64}),
    }


def sizes_of(full: bool) -> dict[str, Any]:
    return {system.name: system.size(full) for system in SYSTEMS}


def table_rows(full: bool) -> dict[str, tuple[list[Cell], Callable[[Done], Entry]]]:
    """The rows of table 1 that these systems fill: the cells that each needs, and what is made of them."""
    return {name: row for system in SYSTEMS for name, row in system.rows(system.size(full)).items()}


def cells(full: bool) -> list[Cell]:
    """Also those of the table: a page that has this part has the table, too."""
    from belated.studies.paper import table  # it takes its rows from here

    return [*cells_of(sizes_of(full)), *table.cells(full)]


PART = Part(
    "related",
    "The other systems of table 1",
    cells,
    lambda done, full: describe(done, sizes_of(full)),
)
