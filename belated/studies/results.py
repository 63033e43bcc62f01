"""The results of a study: frames, figures, comparison with another study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.engine.result import Result
from belated.errors import InvalidArgument, Unsupported
from belated.report.cards import SHOWN
from belated.report.labels import LABELS, labels
from belated.report.look import Look
from belated.studies.cells import Play
from belated.studies.run import Done, State
from belated.studies.store import Store
from belated.studies.study import Study
from belated.theory.verdicts import LEVEL

if TYPE_CHECKING:
    import polars

Pairs = Sequence[tuple[Play, Result]]


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

        Arguments are those of `belated.report.look.Look`: `x` ("delay", "round", "peak", "loss" or a quantile), `by`,
        `log`, `legend`, `level`, `bounds`. Without any it draws the first [figure] of the study, if that has one; else
        regret at the horizon against the mean delay, where delays differ, and along the way where they do not. `axes`
        are matplotlib's, one for each panel, to be drawn into; then they are returned.
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
        higher" if only Student's approximation does, and else "no difference shown". P-values are those of `tests`.
        """
        from belated.studies.comparing import compare

        return compare(self, other, on, level, paired)

    def tests(self, against: str | None = None, level: float = LEVEL) -> polars.DataFrame:
        """Each forecaster against each other, or all against one, wherever both met the same outcomes and delays.

        Replications are paired. `p_value` is that of the two-sided paired test of Student, an approximation; `p_holm`
        is the same after Holm's correction for all rows; `p_sure` holds whatever the law of regret is (Ville: one over
        the capital of somebody who bets on the differences), not corrected. `low`, `high` and `finding` are those of
        `compare`.
        """
        from belated.studies.comparing import paired

        return paired(self, against, level)

    def csv(self, path: str | Path) -> Path:
        """Write `frame()` as CSV; return the path."""
        from belated.report.files import write_whole

        write_whole(Path(path), self.frame().write_csv().encode())
        return Path(path)

    def pandas(self) -> Any:
        """`frame()` as a pandas frame; pandas must be installed."""
        try:
            return self.frame().to_pandas()
        except ModuleNotFoundError as error:
            raise Unsupported(f"a pandas frame needs pandas ({error}): pip install pandas") from None

    def latex(self, path: str | Path | None = None, *, rows: str = "forecaster", columns: str = "delays") -> str:
        """Mean regret with its 95% interval as a LaTeX table (booktabs); written to `path` if given.

        `rows` and `columns` are labels: forecaster, game, delays, rounds, expiry. Where another label differs, there is
        a table for each of its values, one below the other.
        """
        from belated.report.latex import latex

        text = latex(self.pairs, rows, columns)
        if path is not None:
            from belated.report.files import write_whole

            write_whole(Path(path), text.encode())
        return text

    def _repr_html_(self) -> str:
        from belated.report.cards import table, within

        known = [(labels(cell), result) for cell, result in self.pairs]
        told = [name for name in LABELS if name == "forecaster" or len({said[name] for said, _ in known}) > 1]
        same = [f"{name} {known[0][0][name]}" for name in LABELS if name not in told and known[0][0][name] is not None]
        rows = [
            [
                *(str(said[name]) for name in told),
                within(r.mean_regret, r.spread),
                float(r.peak.mean()),
                r.bound,
                v.word,
            ]
            for (said, r), v in ((each, each[1].judge(family=len(known))) for each in known[:SHOWN])
        ]
        rows += [[]] * (len(known) - len(rows))
        header = (*told, "regret (± 95%, approximate)", "G*, mean", "bound", "verdict")
        note = "; ".join([*same, f"{known[0][1].replications:,} replications"])
        return table(self.study.title, header, rows, note)

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
                "simple_regret": _simple(result),
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
    floats = dict.fromkeys(("mean_delay", "simple_regret", "spread", "bound", "ratio"), polars.Float64)
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


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _simple(result: Result) -> float | None:
    try:
        return float(result.simple_regret.mean())
    except Unsupported:
        return None
