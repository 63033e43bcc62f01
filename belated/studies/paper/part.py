"""What a part of the paper's study is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belated.studies.cells import Cell
from belated.studies.page import Section
from belated.studies.run import Done


@dataclass(frozen=True)
class Part:
    """A claim: the cells that test it, and the section that is made of them.

    `cells(full)` are those of the long version or of the short one; `section(done, full)` reads them as `done[cell]`.
    """

    name: str
    title: str
    cells: Callable[[bool], list[Cell]]
    section: Callable[[Done, bool], Section]
