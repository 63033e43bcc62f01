"""What a part of the paper's study is, and what several of them judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.engine.result import Result
from belated.protocols import Floats
from belated.studies.cells import Cell
from belated.studies.page import Section
from belated.studies.run import Done
from belated.theory.verdicts import Verdict, judge_paired


@dataclass(frozen=True)
class Part:
    """A claim: the cells that test it, and the section that is made of them.

    `cells(full)` are those of the long version or of the short one; `section(done, full)` reads them as `done[cell]`.
    """

    name: str
    title: str
    cells: Callable[[bool], list[Cell]]
    section: Callable[[Done, bool], Section]


def added(result: Result, extra: Floats, gaps: Floats, family: int) -> Verdict:
    """Theorem 6 with the measured regret of the base: what delay added, against sum_i Delta_i G*_i, pair by pair.

    No cell is left out because its penalty is small beside the noise: it is unclear then, and says how many
    replications it needs.
    """
    most = result.regret_range[1]
    allowed = np.asarray(result.peaks @ gaps, float)
    return judge_paired(extra, allowed, -most, most, most_allowed=result.rounds * float(gaps.sum()), family=family)


def undecided(verdicts: Mapping[Any, Verdict]) -> str:
    """Which cells are unclear, by the last part of their keys, the delay."""
    delays = sorted({key[-1] for key, verdict in verdicts.items() if verdict.word == "unclear"})
    return f"unclear at delay {', '.join(f'{d:,}' for d in delays)}, where the penalty is small" if delays else ""
