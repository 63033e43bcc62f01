"""The paper as a study: every claim as a number and a picture.

Joulani, Gyorgy, Szepesvari, *Online Learning under Delayed Feedback*, ICML 2013, has no experiments. Each part here is
a claim of the paper (or one that lies near), the cells that test it, and the section of the page that shows the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from belated import catalog
from belated.errors import InvalidArgument
from belated.report.page import Page, Section
from belated.report.prose import Prose
from belated.report.words import BANDS
from belated.studies.cells import Cell
from belated.studies.paper import (
    beyond,
    bold,
    contrast,
    cost,
    later,
    monitoring,
    peak,
    published,
    related,
    stochastic,
    table,
)
from belated.studies.paper.part import Part
from belated.studies.run import Engine, State, Watch, run_cells
from belated.studies.store import Store

PARTS = (
    bold.PART,
    peak.PART,
    stochastic.PART,
    contrast.PART,
    monitoring.PART,
    cost.PART,
    table.PART,
    related.PART,
    beyond.PART,
    later.PART,
    published.PART,
)

WORDS = Prose(__name__)


def choose(names: Sequence[str]) -> list[Part]:
    """The parts of these names, in the order of the page; all of them if none is named.

    >>> [part.name for part in choose(["peak"])]
    ['peak']
    """
    known = {part.name: part for part in PARTS}
    for name in names:
        if name not in known:
            hint = catalog.nearest(name, known) or f"there are {', '.join(known)}"
            raise InvalidArgument(f"no part of the paper is called {name!r}; {hint}")
    return [part for part in PARTS if not names or part.name in names]


def run_paper(
    out: str | Path,
    full: bool = False,
    only: Sequence[str] = (),
    engine: Engine | None = None,
    watch: Watch | None = None,
) -> tuple[Path, list[Section], State]:
    """Finish the cells of the chosen parts and write the page; what is in `out` already is not computed again.

    The page also keeps those of the other parts that are finished.
    """
    chosen, store = choose(only), Store(Path(out) / "cells")
    done, state = run_cells([cell for part in chosen for cell in part.cells(full)], store, engine, watch)
    shown = [part for part in PARTS if part in chosen or all(store.has(cell.key) for cell in part.cells(full))]
    sections = [part.section(done, full) for part in shown]
    cells = [cell for part in shown for cell in part.cells(full)]
    page = Page(WORDS("title"), WORDS("lead"), sections, [*_notes(cells, full, shown), _origin(shown, store, full)])
    return page.write(out), [s for s, part in zip(sections, shown, strict=True) if part in chosen], state


def _notes(cells: Sequence[Cell], full: bool, shown: Sequence[Part]) -> list[str]:
    unique = {cell.key: cell for cell in cells}
    decisions = sum(cell.decisions for cell in unique.values())
    version = WORDS("long version" if full else "short version")
    notes = [WORDS("size", cells=len(unique), decisions=decisions, version=version, bands=BANDS)]
    missing = [part.name for part in PARTS if part not in shown]
    return [*notes, WORDS("missing", missing=", ".join(missing))] if missing else notes


def _origin(shown: Sequence[Part], store: Store, full: bool) -> str:
    """The seeds of the parts, and when the last of their cells was computed: a second run says the same."""
    found = {part.name: part.cells(full) for part in shown}
    own = {name: sorted({seed for cell in cells if (seed := _seed(cell)) is not None}) for name, cells in found.items()}
    newest = max(store.path(cell.key).stat().st_mtime for cells in found.values() for cell in cells)
    seeds = "; ".join(f"{name} {', '.join(map(str, each))}" for name, each in own.items())
    return WORDS("seeds", seeds=seeds, date=datetime.fromtimestamp(newest, UTC).date().isoformat())


def _seed(cell: Cell) -> int | None:
    """The seed that a cell says it has, or the play in it."""
    data = cell.describe()
    found: int | None = data.get("play", data).get("seed")
    return found
