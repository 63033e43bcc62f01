"""Tables for papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from belated.errors import InvalidArgument
from belated.report.cards import within
from belated.report.labels import LABELS, labels
from belated.require import one_of

#: What LaTeX takes for its own.
SPECIAL = {each: f"\\{each}" for each in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
SPECIAL |= {"^": r"\textasciicircum{}", "∞": r"$\infty$", "<": r"\textless{}", ">": r"\textgreater{}"}


def latex(pairs: Sequence[tuple[Any, Any]], rows: str, columns: str) -> str:
    """Mean regret, with the reach of its 95% interval, of cells with their results; see `Results.latex`."""
    one_of("rows", rows, LABELS)
    one_of("columns", columns, LABELS)
    if rows == columns:
        raise InvalidArgument(f"rows and columns must differ, got {rows!r} for both")
    known = [(labels(cell) | {"seed": cell.seed}, result) for cell, result in pairs]
    rest = [name for name in (*LABELS, "seed") if name not in (rows, columns)]
    tables: dict[tuple[Any, ...], dict[tuple[Any, Any], Any]] = {}
    for said, result in known:
        tables.setdefault(tuple(said[name] for name in rest), {})[said[rows], said[columns]] = result
    return "\n".join(_table(dict(zip(rest, key, strict=True)), own, rows, columns) for key, own in tables.items())


def _table(shared: dict[str, Any], cells: dict[tuple[Any, Any], Any], rows: str, columns: str) -> str:
    down, across = (list(dict.fromkeys(place[i] for place in cells)) for i in (0, 1))
    counts = sorted({result.replications for result in cells.values()})
    often = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    said = ", ".join(f"{name} {escaped(value)}" for name, value in shared.items() if value is not None)
    lines = [
        f"% {said}; mean regret of {often} replications, approximate 95% intervals".replace("\n", " "),
        rf"\begin{{tabular}}{{l{'r' * len(across)}}}",
        r"\toprule",
        " & ".join([escaped(rows), *(escaped(value) for value in across)]) + r" \\",
        r"\midrule",
    ]
    for row in down:
        entries = [_entry(cells.get((row, column))) for column in across]
        lines.append(" & ".join([escaped(row), *entries]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _entry(result: Any) -> str:
    if result is None:
        return "--"
    shown = within(result.mean_regret, result.spread).replace("±", r"\pm").replace(",", "{,}")
    return f"${shown}$"


def escaped(value: Any) -> str:
    """Text that LaTeX shows as it is.

    >>> escaped("a_b & 50%")
    'a\\\\_b \\\\& 50\\\\%'
    """
    return "".join(SPECIAL.get(letter, letter) for letter in str(value))
