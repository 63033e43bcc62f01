"""What a part of the paper's study is, and the penalty of QPM-D, which several of them judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import QPMD
from belated.protocols import Floats, Game, Learner
from belated.report.page import Section
from belated.studies.cells import Cell, Play
from belated.studies.run import Done
from belated.theory.verdicts import Verdict, judge_paired

#: Rounds for each round of delay over which a penalty is tested, at most.
STRETCH = 32


@dataclass(frozen=True)
class Part:
    """A claim: the cells that test it, and the section that is made of them.

    `cells(full)` are those of the long version or of the short one; `section(done, full)` reads them as `done[cell]`.
    """

    name: str
    title: str
    cells: Callable[[bool], list[Cell]]
    section: Callable[[Done, bool], Section]


def penalty_plays(learner: Learner, game: Game, delay: int, rounds: int, often: int, seed: int) -> tuple[Play, Play]:
    """QPM-D under a constant delay, and without: what is compared to find what the delay added.

    The penalty of a short delay is small beside the noise of a long play. The theorem speaks of every horizon, so it is
    tested over fewer rounds, and more often: as many decisions in all as `often` plays of so many rounds.
    """
    n = min(rounds, STRETCH * (delay + 1))
    late, base = (Play(QPMD(learner), game, Constant(d), n, often * rounds // n, seed) for d in (delay, 0))
    return late, base


def penalty(result: Result) -> Floats:
    """sum_i Delta_i G*_i in each replication."""
    means = np.asarray(result.setting.game.means, float)
    return np.asarray(result.peaks @ (means.max() - means), float)


def extra(result: Result, base: Result) -> Floats:
    """The regret that the delay added in each replication, at the horizon."""
    return np.asarray(result.regret[:, -1] - base.regret[:, -1], float)


def added(result: Result, base: Result, family: int) -> Verdict:
    """Theorem 6 as it stands, with the measured regret of the base: E R_n - E R^base_n <= sum_i Delta_i E G*_i.

    No cell is left out because its penalty is small beside the noise: it is unclear then, and says so.
    """
    most, means = result.regret_range[1], np.asarray(result.setting.game.means, float)
    largest = result.rounds * float((means.max() - means).sum())
    return judge_paired(extra(result, base), penalty(result), -most, most, most_allowed=largest, family=family)


def ratios(verdicts: Iterable[Verdict]) -> tuple[float, float]:
    """The least and the largest measured / bound, of the cells in which the bound says something."""
    told = [v.ratio for v in verdicts if v.ratio is not None and v.word != "vacuous"] or [np.nan]
    return min(told), max(told)


def undecided(verdicts: Mapping[Any, Verdict]) -> str:
    """Which cells are unclear, by the last part of their keys, the delay."""
    delays = sorted({key[-1] for key, verdict in verdicts.items() if verdict.word == "unclear"})
    return f"unclear at delay {', '.join(f'{d:,}' for d in delays)}, where the penalty is small" if delays else ""
