"""The results of a study: frames, figures, comparison with another study."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import catalog, notation
from belated.engine.result import Result
from belated.errors import InvalidArgument
from belated.protocols import Game, Learner
from belated.studies.cells import Play
from belated.studies.run import Done, State
from belated.studies.store import Store
from belated.studies.study import Study
from belated.theory.intervals import Ends, reach, sure
from belated.theory.verdicts import LEVEL, direction, side

if TYPE_CHECKING:
    import polars

Pairs = Sequence[tuple[Play, Result]]
#: What names a cell, apart from how often it was played.
LABELS = ("forecaster", "game", "delays", "rounds", "expiry")
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

    def plot(self, path: str | Path | None = None, *, against: str = "delay") -> Any:
        """Regret at the horizon against the mean delay, or (`against="round"`) along the way; a matplotlib figure.

        Of a study with several games or horizons it draws the first; `report` has them all.
        """
        from belated.studies.report import delay_panel, groups, round_panel

        if against not in ("delay", "round"):
            raise InvalidArgument(f"against must be delay or round, got {against!r}")
        group = groups(self.pairs)[0]
        figure = delay_panel(group) if against == "delay" else round_panel(group)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

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


def labels(cell: Play) -> dict[str, Any]:
    """What a cell is called in frames and figures. The feedback of a game goes without saying: its learner needs it."""
    return {
        "forecaster": _short("forecaster", cell.forecaster, cell.game),
        "game": _short("game", _game_data(cell)),
        "delays": _short("delays", cell.delays),
        "rounds": cell.rounds,
        "expiry": cell.expiry,
    }


#: Labels longer than this are cut, and end in a digest.
LONGEST = 80


def _short(kind: str, spec: Any, game: Game | None = None) -> str:
    """The short text of a spec; its repr in lower case if the catalog does not know it (a study's own variant)."""
    try:
        text, shown = notation.text(kind, spec, game), notation.brief(kind, spec, game)
    except InvalidArgument:
        text = shown = repr(spec).lower()
    if len(text) <= LONGEST:
        return text
    cut = shown if len(shown) <= LONGEST - 10 else f"{shown[: LONGEST - 20]}..."
    return f"{cut} #{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _game_data(cell: Play) -> dict[str, Any]:
    data = catalog.to_data(cell.game)
    learner = cell.forecaster.learner
    if isinstance(learner, Learner) and learner.feedback == cell.game.feedback:
        data.pop("feedback", None)
    return data


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
    same_game = _game_data(a) == _game_data(b) and catalog.to_data(a.delays) == catalog.to_data(b.delays)
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
