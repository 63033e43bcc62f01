"""The results of a study: frames, figures, comparison with another study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import catalog
from belated.engine.result import Result
from belated.errors import InvalidArgument
from belated.report.labels import LABELS, game_data, labels
from belated.report.look import Look
from belated.studies.cells import Play
from belated.studies.run import Done, State
from belated.studies.store import Store
from belated.studies.study import Study
from belated.theory.intervals import Ends, reach, sure
from belated.theory.verdicts import LEVEL, direction, side

if TYPE_CHECKING:
    import polars

Pairs = Sequence[tuple[Play, Result]]
#: What `compare` calls where a difference lies.
FOUND = {
    "above": "higher",
    "below": "lower",
    "likely above": "likely higher",
    "likely below": "likely lower",
    "unclear": "no difference shown",
}


@dataclass(frozen=True, eq=False)
class Results:
    """What a study gave: a `Result` for each cell, and all of them as polars frames."""

    study: Study
    by_key: dict[str, Result]
    state: State

    @classmethod
    def load(cls, folder: str | Path) -> Results:
        """The results that `belated run` left in a folder."""
        study = Study.load(folder)
        done = Done(Store(Path(folder) / "cells"))
        try:
            results = {cell.key: done[cell] for cell in study.cells}
        except KeyError as error:
            raise InvalidArgument(f"the study in {str(folder)!r} is not complete: {error.args[0]}") from None
        return cls(study, results, State(len(study.cells), 0, reused=len(study.cells)))

    @cached_property
    def pairs(self) -> list[tuple[Play, Result]]:
        return [(cell, self.by_key[cell.key]) for cell in self.study.cells]

    def __len__(self) -> int:
        return len(self.study.cells)

    def __iter__(self) -> Any:
        return iter(self.pairs)

    def __repr__(self) -> str:
        return f"<results of {self.study!r}>"

    def frame(self) -> polars.DataFrame:
        """One row a cell: labels, regret with its intervals, peak, bound, verdict.

        `spread` is what stands behind ±: the reach of the cell's own 95% interval, an approximation (Student's, longer
        where regret is skewed). From `low` to `high` goes an interval that holds whatever the law of regret is, for all
        cells together with 99% confidence.
        """
        return cell_frame(self.pairs)

    def curves(self) -> polars.DataFrame:
        """One row for each cell and checkpoint: mean regret, its standard error, the bound."""
        return curve_frame(self.pairs)

    def replications(self) -> polars.DataFrame:
        """One row for each cell and replication: regret at the horizon, peak, instances."""
        return replication_frame(self.pairs)

    def plot(self, path: str | Path | None = None, *, axes: Any = None, **look: Any) -> Any:
        """Draw regret; saved to `path` if given. Returns a matplotlib figure, which a notebook shows.

        Arguments are those of `bl.report.Look`: `x` ("delay", "round", "peak", "loss" or a quantile), `by`, `log`,
        `legend`, `level`, `bounds`. Without any it draws the first [figure] of the study, if that has one; else regret
        at the horizon against the mean delay, where delays differ, and along the way where they do not. `axes` are
        matplotlib's, one for each panel, to be drawn into; then they are returned.
        """
        from belated.report.plots import plot

        return plot(self.pairs, self._look(look), path, axes)

    def _look(self, given: dict[str, Any]) -> Look:
        if not given and self.study.figures:
            return self.study.figures[0]
        laws = [cell.delays for cell in self.study.cells]
        return Look.read({"x": "round" if all(law == laws[0] for law in laws) else "delay"} | given)

    def compare(
        self, other: Results, on: Sequence[str] = LABELS, level: float = LEVEL, paired: bool | None = None
    ) -> polars.DataFrame:
        """The regret of this study minus that of another, cell by cell.

        Cells meet where all labels in `on` agree; leave "forecaster" out to set one forecaster against another. Where
        both met the same outcomes and delays (same game, law, seed and horizon), replications are paired, which as a
        rule makes the interval of the difference shorter; `paired` insists on that or forbids it. Cells without a
        partner are left out. The intervals, from `low` to `high`, hold whatever the law of regret is, for all rows
        together with probability `level`. `finding` is "lower" or "higher" if they say so, "likely lower" or "likely
        higher" if only Student's approximation does, and else "no difference shown".
        """
        return compare(self, other, on, level, paired)

    def report(self, out: str | Path) -> Path:
        """Write index.html with figures and verdicts, the figures and all data; return the path of the page."""
        from belated.studies.report import study_page

        return study_page(self).write(out)


def cell_frame(pairs: Pairs) -> polars.DataFrame:
    """One row a cell."""
    import polars

    rows = []
    for cell, result in pairs:
        verdict = result.judge(family=len(pairs))
        rows.append(
            {
                **labels(cell),
                "mean_delay": _finite(cell.delays.mean),
                "replications": result.replications,
                "seed": cell.seed,
                "regret": result.mean_regret,
                "standard_error": result.standard_error,
                "spread": _finite(result.spread),
                "low": verdict.low,
                "high": verdict.high,
                "bound": result.bound,
                "ratio": verdict.ratio,
                "bound_margin": verdict.margin,
                "verdict": verdict.word,
                "replications_needed": verdict.needed,
                "bound_reason": result.bound_reason,
                "peak": float(result.peak.mean()),
                "instances": float(result.instances.mean()),
                "outstanding": float(result.outstanding.mean()),
                "cancelled": float(result.cancelled.sum(axis=1).mean()),
                "seconds": result.seconds,
                "key": cell.key,
            }
        )
    floats = dict.fromkeys(("mean_delay", "spread", "bound", "ratio"), polars.Float64)
    whole = dict.fromkeys(("expiry", "replications_needed"), polars.Int64)
    return polars.DataFrame(rows, schema_overrides={**floats, **whole, "bound_reason": polars.String}, strict=False)


def curve_frame(pairs: Pairs) -> polars.DataFrame:
    """One row for each cell and checkpoint."""
    import polars

    parts = []
    for cell, result in pairs:
        count = len(result.checkpoints)
        curve = result.bound_curve
        errors = result.regret.std(axis=0, ddof=1) / np.sqrt(result.replications) if result.replications > 1 else None
        columns: dict[str, Any] = {name: [value] * count for name, value in labels(cell).items()} | {
            "round": result.checkpoints,
            "regret": result.regret.mean(axis=0),
            "standard_error": np.full(count, np.nan) if errors is None else errors,
            "bound": [None] * count if curve is None else curve,
        }
        parts.append(
            polars.DataFrame(columns, schema_overrides={"expiry": polars.Int64, "bound": polars.Float64}, strict=False)
        )
    return polars.concat(parts)


def replication_frame(pairs: Pairs) -> polars.DataFrame:
    """One row for each cell and replication."""
    import polars

    parts = []
    for cell, result in pairs:
        columns: dict[str, Any] = {name: [value] * result.replications for name, value in labels(cell).items()} | {
            "replication": np.arange(result.replications),
            "regret": result.regret[:, -1],
            "peak": result.peak,
            "instances": result.instances,
            "outstanding": result.outstanding,
            "pulls": result.pulls.tolist(),
        }
        parts.append(polars.DataFrame(columns, schema_overrides={"expiry": polars.Int64}, strict=False))
    return polars.concat(parts)


def compare(
    ours: Results, others: Results, on: Sequence[str] = LABELS, level: float = LEVEL, paired: bool | None = None
) -> polars.DataFrame:
    """The difference in regret of the cells of two studies; see `Results.compare`."""
    import polars

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
    return polars.DataFrame([_row(*pair, paired, 1 - (1 - level) / len(met)) for pair in met])


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


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
