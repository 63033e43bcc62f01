"""After 2013: what came since the paper, family by family, and the map of the field."""

from __future__ import annotations

from belated.report.page import Block, Finding, Section, worst
from belated.report.prose import Prose
from belated.report.words import ASIDE, tallied
from belated.studies.cells import Cell, Play
from belated.studies.paper.later import chart
from belated.studies.paper.later.families import FAMILIES, family_blocks
from belated.studies.paper.later.shared import LONG, SHORT, Size
from belated.studies.paper.part import Part
from belated.studies.results import cell_frame
from belated.studies.run import Done

WORDS = Prose(__name__)


def size_cells(size: Size) -> list[Play]:
    """All cells of a size."""
    own = [play for family in FAMILIES for play in family.plays(size).values()]
    return list({id(cell): cell for cell in [*chart.plays(size).values(), *own]}.values())


def size_section(done: Done, size: Size) -> Section:
    """The section of a size."""
    blocks: list[Block] = [WORDS.text("opening"), *chart.chart_blocks(done, size), WORDS.text("families")]
    for family in FAMILIES:
        blocks += family_blocks(done, size, family)
    pairs = [(cell, done[cell]) for cell in size_cells(size)]
    frames = {"later-map": chart.frame(done, size), "later-cells": cell_frame(pairs)}
    section = Section(PART.name, PART.title, blocks, frames, main=["later-map-iid", "later-map-wave"])
    words = [found.word for found in section.findings if found.word not in ASIDE]
    section.short = Finding(WORDS("short", count=len(words), tally=tallied(words)), worst(words))
    return section


def _size(full: bool) -> Size:
    return LONG if full else SHORT


PART = Part(
    "later",
    "After 2013",
    lambda full: list[Cell](size_cells(_size(full))),
    lambda done, full: size_section(done, _size(full)),
)
