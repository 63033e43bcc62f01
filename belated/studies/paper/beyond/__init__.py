"""Beyond the paper: what rules that it leaves open are worth, and what happens where its theorems stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from belated.report.page import Block, Finding, Section, worst
from belated.studies.cells import Cell, Play
from belated.studies.paper.beyond.instance import instance_blocks, instance_plays
from belated.studies.paper.beyond.late import late_blocks, late_plays
from belated.studies.paper.beyond.lossy import lossy_blocks, lossy_plays
from belated.studies.paper.beyond.probability import probability_blocks, probability_plays
from belated.studies.paper.beyond.shared import WORDS, Grid, Pairing, span
from belated.studies.paper.beyond.ties import first_phase_plays, tie_blocks, tie_plays
from belated.studies.paper.part import Part
from belated.studies.results import cell_frame, replication_frame
from belated.studies.run import Done

if TYPE_CHECKING:
    import polars

SHORT, LONG = Grid(), Grid(rounds=50_000, replications=320)
PLAYS = (instance_plays, tie_plays, first_phase_plays, lossy_plays, late_plays, probability_plays)
BLOCKS = {
    "instance": instance_blocks,
    "ties": tie_blocks,
    "lossy": lossy_blocks,
    "late": late_blocks,
    "probability": probability_blocks,
}


def grid_cells(grid: Grid) -> list[Play]:
    """All cells of a grid."""
    return [play for plays in PLAYS for play in plays(grid).values()]


def grid_section(done: Done, grid: Grid) -> Section:
    """The section of a grid."""
    blocks: list[Block] = [WORDS.text("opening")]
    compared: dict[str, list[Pairing]] = {}
    for name, make in BLOCKS.items():
        made, compared[name] = make(done, grid)
        blocks += made
    rows = [(name, *p.row) for name, pairings in compared.items() for p in pairings]
    free = compared["instance"]
    short = Finding(WORDS("short", instance=span(free)), worst(p.word for p in free))
    return Section(PART.name, PART.title, blocks, _frames(done, grid, rows), short)


def _frames(done: Done, grid: Grid, rows: list[Any]) -> dict[str, polars.DataFrame]:
    import polars

    unique = {cell.key: cell for cell in grid_cells(grid)}
    played = [(cell, done[cell]) for cell in unique.values()]
    header = ["comparison", "where", "one", "other", "times", "low", "high", "verdict"]
    return {
        "beyond-cells": cell_frame(played),
        "beyond-replications": replication_frame(played),
        "beyond-pairs": polars.DataFrame(rows, schema=header, orient="row"),
    }


def _grid(full: bool) -> Grid:
    return LONG if full else SHORT


PART = Part(
    "beyond",
    "Beyond the paper",
    lambda full: list[Cell](grid_cells(_grid(full))),
    lambda done, full: grid_section(done, _grid(full)),
)
