"""The paper as a study: every claim as a number and a picture.

Joulani, Gyorgy, Szepesvari, *Online Learning under Delayed Feedback*, ICML 2013, has no experiments. Each part here is
a claim of the paper (or one that lies near), the cells that test it, and the section of the page that shows the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from belated import catalog
from belated.errors import InvalidArgument
from belated.report.page import MEANING, Page, Section
from belated.studies.cells import Cell
from belated.studies.paper import beyond, bold, contrast, cost, monitoring, peak, published, related, stochastic, table
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
    published.PART,
)

LEAD = (
    "Feedback comes late: an ad is shown now, the sale comes days later, and others must be served meanwhile. "
    "Joulani, György and Szepesvári (<i>Online Learning under Delayed Feedback</i>, ICML 2013) prove what that costs. "
    "Their paper has no experiments. Here are some for its claims, on bandits, with full information and in partial "
    "monitoring, with and without side information, and for those who came before it: the formula, what was measured "
    "beside it, and a verdict computed from the data. In BOLD's bound <i>f</i> stands for min(<i>m</i>, "
    "<i>f</i>(max(<i>m</i>, 1))), which is what the theorem needs: concave, and 0 at 0."
)


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
    page = Page("Online learning under delayed feedback, measured", LEAD, sections, _notes(cells, full, shown))
    return page.write(out), [s for s, part in zip(sections, shown, strict=True) if part in chosen], state


def _notes(cells: Sequence[Cell], full: bool, shown: Sequence[Part]) -> list[str]:
    unique = {cell.key: cell for cell in cells}
    decisions = sum(cell.decisions for cell in unique.values())
    version = "the long version" if full else "the short version (<code>belated paper --full</code> is the long one)"
    notes = [
        f"{len(unique):,} cells, {decisions:,} simulated decisions: {version}. {MEANING} "
        "What is compared met the same outcomes and delays, unless a caption says otherwise. "
        "Data: <code>data/*.parquet</code>; figures: "
        "<code>figures/</code>."
    ]
    missing = [part.name for part in PARTS if part not in shown]
    if missing:
        notes.append(f"Not on this page yet: {', '.join(missing)}. <code>belated paper</code> makes the whole one.")
    return notes
