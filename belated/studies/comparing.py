"""Forecasters beside each other: differences of regret, with intervals and p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import catalog, notation
from belated.engine.result import Result
from belated.errors import InvalidArgument
from belated.protocols import Floats
from belated.report.labels import LABELS, game_data, labels, short
from belated.report.stats import corrected
from belated.spelling import nearest
from belated.studies.cells import Play
from belated.theory.intervals import Ends, reach, sure, wealth
from belated.theory.verdicts import LEVEL, direction, side

if TYPE_CHECKING:
    import polars

    from belated.studies.results import Results

#: What `compare` calls where a difference lies.
FOUND = {
    "above": "higher",
    "below": "lower",
    "likely above": "likely higher",
    "likely below": "likely lower",
    "unclear": "no difference shown",
}


def compare(
    ours: Results, others: Results, on: Sequence[str] = LABELS, level: float = LEVEL, paired: bool | None = None
) -> polars.DataFrame:
    """The difference in regret of the cells of two studies; see `Results.compare`."""
    unknown = [name for name in on if name not in LABELS]
    if unknown:
        raise InvalidArgument(f"on must name some of {', '.join(LABELS)}, got {unknown[0]!r}")
    met = [
        (cell, other, result, theirs)
        for cell, result in ours.pairs
        for other, theirs in others.pairs
        if all(labels(cell)[name] == labels(other)[name] for name in on)
    ]
    if not met:
        raise InvalidArgument(f"the two studies share no cell with the same {', '.join(on)}")
    return _frame([_row(*pair, paired, 1 - (1 - level) / len(met)) for pair in met])


def paired(results: Results, against: str | None, level: float) -> polars.DataFrame:
    """Forecasters of one study against each other; see `Results.tests`."""
    pairs = results.pairs
    names = list(dict.fromkeys(labels(cell)["forecaster"] for cell, _ in pairs))
    if against is not None:
        against = _same(against, [cell for cell, _ in pairs], names)
    if against is not None and against not in names:
        hint = nearest(str(against), names) or f"there are {', '.join(names)}"
        raise InvalidArgument(f"against must be a forecaster of the study, got {against!r}; {hint}")
    groups: dict[Any, list[tuple[Play, Result]]] = {}
    for cell, result in pairs:
        said = labels(cell)
        place = (*(said[name] for name in LABELS[1:]), cell.seed, cell.replications)
        groups.setdefault(place, []).append((cell, result))
    met = [
        (cell, other, result, theirs)
        for group in groups.values()
        for (cell, result), (other, theirs) in (permutations(group, 2) if against else combinations(group, 2))
        if against is None or labels(other)["forecaster"] == against != labels(cell)["forecaster"]
    ]
    if not met:
        raise InvalidArgument("no two forecasters of the study met the same outcomes and delays")
    return _frame([_row(*pair, True, 1 - (1 - level) / len(met)) for pair in met])


def _same(against: Any, cells: Sequence[Play], names: Sequence[str]) -> Any:
    """The name by which cells call a forecaster that is given, or spelt, in another way."""
    with suppress(InvalidArgument, TypeError):
        spelt = {short("forecaster", notation.forecaster(against, c.game.actions, c.game), c.game) for c in cells}
        return next((name for name in names if name in spelt and against not in names), against)
    return against


def _frame(rows: list[dict[str, Any]]) -> polars.DataFrame:
    """The rows, with Holm's correction of their p-values."""
    import polars

    known = [row["p_value"] for row in rows if row["p_value"] is not None]
    better = iter(corrected(known))
    for row in rows:
        row["p_holm"] = None if row["p_value"] is None else next(better)
    order = [*(key for key in rows[0] if key not in ("p_value", "p_holm", "p_sure", "finding"))]
    order += ["p_value", "p_holm", "p_sure", "finding"]
    chances = dict.fromkeys(("p_value", "p_holm", "p_sure"), polars.Float64)
    return polars.DataFrame(rows, schema_overrides=chances).select(order)


def _row(cell: Play, other: Play, result: Result, theirs: Result, paired: bool | None, level: float) -> dict[str, Any]:
    """Two cells beside each other."""
    same = _same_draws(cell, other)
    if paired and not same:
        raise InvalidArgument(f"{cell.title} and {other.title} did not meet the same draws: they have no pairs")
    use_pairs = same if paired is None else paired
    word, low, high = _difference(result, theirs, use_pairs, level)
    own, others = labels(cell), labels(other)
    said = {n: str(own[n]) if own[n] == others[n] else f"{own[n]} | {others[n]}" for n in LABELS}
    return {
        **said,
        "regret": result.mean_regret,
        "other": theirs.mean_regret,
        "difference": result.mean_regret - theirs.mean_regret,
        "low": low,
        "high": high,
        "paired": use_pairs,
        "p_value": student(result.regret[:, -1], theirs.regret[:, -1], use_pairs),
        "p_sure": _sure(result, theirs) if use_pairs else None,
        "finding": word,
    }


def _same_draws(a: Play, b: Play) -> bool:
    same_game = game_data(a) == game_data(b) and catalog.to_data(a.delays) == catalog.to_data(b.delays)
    return same_game and (a.rounds, a.seed, a.replications) == (b.rounds, b.seed, b.replications)


def _difference(one: Result, two: Result, paired: bool, level: float) -> tuple[str, float, float]:
    """What is found, and an interval for the difference that holds whatever the laws are."""
    a, b = one.regret[:, -1], two.regret[:, -1]
    (low, high), (least, most) = one.regret_range, two.regret_range
    if paired:
        word, ends = side(a - b, low - most, high - least, level)
    else:
        own, other = sure(a, low, high, level, family=2), sure(b, least, most, level, family=2)
        ends = Ends(own.low - other.high, own.high - other.low)
        width, apart = math.hypot(reach(a, level), reach(b, level)), float(a.mean() - b.mean())
        word = direction(ends, Ends(apart - width, apart + width))
    return FOUND[word], *ends


def student(a: Floats, b: Floats, paired: bool) -> float | None:
    """The two-sided p-value of Student's test (paired), or of Welch's; None where all values are alike.

    >>> round(student(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.5, 2.0]), True), 4)
    0.1181
    """
    from scipy.special import stdtr

    parts = [a - b] if paired else [a, b]
    if min(len(each) for each in parts) < 2:
        return None
    squares = [float(each.var(ddof=1)) / len(each) for each in parts]
    error = math.sqrt(sum(squares))
    apart = float(a.mean() - b.mean())
    if error <= 1e-12 * max(1e-300, float(np.abs(a).max()), float(np.abs(b).max())):
        return 1.0 if apart == 0 else None
    freedom = sum(squares) ** 2 / sum(s**2 / (len(each) - 1) for s, each in zip(squares, parts, strict=True))
    return float(2 * stdtr(freedom, -abs(apart) / error))


def _sure(one: Result, two: Result) -> float | None:
    """A p-value for "the means are the same" that holds whatever the law: at most 2 over the larger capital.

    It is at most 1 - level where the interval of `compare` at that level, for this row alone, leaves 0 out.
    """
    (low, high), (least, most) = one.regret_range, two.regret_range
    apart = one.regret[:, -1] - two.regret[:, -1]
    if not math.isfinite(high - least) or not math.isfinite(low - most):
        return None
    richest = max(
        wealth(values, 0.0, end) if end > 0 else -math.inf
        for values, end in ((apart, high - least), (-apart, most - low))
    )
    return min(1.0, 2.0 * math.exp(-richest))
