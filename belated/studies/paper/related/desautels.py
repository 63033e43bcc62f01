"""Desautels, Krause and Burdick 2012: points of a Gaussian process whose values come late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from belated import catalog
from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import Direct
from belated.forecasters.batches import batches
from belated.games import GaussianProcess
from belated.kernels import squared_exponential
from belated.learners import GPUCB
from belated.protocols import Floats
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
from belated.report.stats import mean_interval, number
from belated.studies.cells import Cell, Play, Table, Tell, code_of
from belated.studies.paper.beyond.shared import pair, together
from belated.studies.paper.related.shared import PROVED, STATED, Entry, System, experiment, late_panel
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

WORDS = Prose(__name__)
POINTS, SCALE, NOISE, SEED = 40, 0.1, 0.01, 15
COVARIANCE = squared_exponential(np.linspace(0.0, 1.0, POINTS), scale=SCALE)
GAME = GaussianProcess(COVARIANCE, NOISE)
STALE, PLAIN, WIDE = "stale", "plain", "bucb"
RULES = {
    STALE: "stale: as if nothing were out",
    PLAIN: "hallucinated (plain)",
    WIDE: "hallucinated, widened (bucb)",
}
LATE = (0, 5, 20, 50, 100)
#: Delays from which on what is out matters.
MATTERS = 20
#: The delay of the row of table 1, and the largest batch.
ROW, MOST = 50, 50
#: A longer play, in which the bound says something.
LONGER = (5_000, 20)


@dataclass(frozen=True)
class Size:
    """Rounds and runs; the runs of the longer play and of batches."""

    rounds: int = 400
    runs: int = 20
    longer: int = 3
    batched: int = 10


def learner(rule: str) -> GPUCB:
    return GPUCB(COVARIANCE, NOISE, rule=rule)


def plays(size: Size) -> dict[tuple[str, int], Play]:
    """(rule, delay)."""
    return {
        (rule, tau): Play(Direct(learner(rule)), GAME, Constant(tau), size.rounds, size.runs, SEED)
        for rule in RULES
        for tau in LATE
    }


def longer_play(size: Size) -> Play:
    rounds, tau = LONGER
    return Play(Direct(learner(WIDE)), GAME, Constant(tau), rounds, size.longer, SEED)


class Batched(NamedTuple):
    """Regret and the number of batches, one number a run."""

    regret: Floats
    batches: Floats


@dataclass(frozen=True, eq=False)
class Batches(Cell):
    """GP-AUCB: points are chosen in batches that end where those that are out have too much to tell."""

    rounds: int
    runs: int
    most: int = MOST

    @property
    def title(self) -> str:
        return f"GPUCB in batches of at most {self.most}, {self.rounds:,} rounds x {self.runs}"

    @property
    def decisions(self) -> int:
        return self.rounds * self.runs

    def describe(self) -> dict[str, Any]:
        specs = [catalog.to_data(spec) for spec in (learner(WIDE), GAME)]
        return {"specs": specs, "rounds": self.rounds, "runs": self.runs, "most": self.most, "seed": SEED}

    def code(self) -> list[Any]:
        return code_of(Direct(learner(WIDE)), GAME, Constant(0))

    def compute(self, tell: Tell) -> Table:
        found = []
        for run in range(self.runs):
            found.append(self._run(run))
            tell((run + 1) * self.rounds, self.decisions)
        regret, count = (np.array(column, float) for column in zip(*found, strict=True))
        return Table({"regret": regret, "batches": count})

    def _run(self, run: int) -> tuple[float, int]:
        """The f of the play of the same number; its own noise."""
        truth, draws = GAME.function(SEED, run), np.random.default_rng((SEED, run))
        forecaster = Direct(learner(WIDE), seed=run)
        regret, made, count = 0.0, 0, 0
        for batch in batches(forecaster, most=self.most):
            count += 1
            for decision in batch:
                value = float(truth[decision.action])
                forecaster.update(decision.ticket, value + math.sqrt(NOISE) * draws.normal())
                regret += (truth.max() - value) * (made < self.rounds)
                made += 1
            if made >= self.rounds:
                break
        return float(regret), count

    def read(self, table: Table) -> Batched:
        return Batched(table.columns["regret"], table.columns["batches"])


def blocks(done: Done, size: Size) -> list[Block]:
    found: dict[tuple[str, int], Result] = {key: done[play] for key, play in plays(size).items()}
    batched: Batched = done[Batches(size.rounds, size.batched)]
    longer: Result = done[longer_play(size)]
    bounded = [found[rule, tau] for rule in (STALE, WIDE) for tau in LATE]
    late = [tau for tau in LATE if tau >= MATTERS]
    alone, at_once = mean_interval(batched.regret), found[WIDE, 0].regret[: size.batched, -1]
    told = {"points": POINTS, "scale": SCALE, "noise": NOISE, "most": MOST}
    listed = "; ".join(
        f"{RULES[rule]}: {number((found[rule, ROW].mean_regret - found[rule, 0].mean_regret) / ROW)}" for rule in RULES
    )
    counts = {"batches": float(batched.batches.mean()), "at_once": float(at_once.mean()), "count": size.batched}
    return [
        WORDS.text("claim", stated=STATED),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", size=size, **told)),
        finding(WORDS("bound", rounds=size.rounds), [result.judge(family=len(bounded)) for result in bounded]),
        finding(WORDS("longer", rounds=LONGER[0], delay=LONGER[1]), [longer.judge()]),
        together(
            WORDS("hallucinated", delays=", ".join(map(str, late))),
            [pair(f"delay {tau}", found[PLAIN, tau], found[STALE, tau], len(late)) for tau in late],
        ),
        Finding(
            WORDS("adds"), "shown", WORDS("adds detail", listed=listed, delay=ROW, runs=size.runs, span=_span(size))
        ),
        Finding(WORDS("batches", most=MOST), "shown", WORDS("batches detail", alone=alone, level=LEVEL, **counts)),
        Drawing("related-gaussian", _panel(found, batched, size), WORDS("caption", size=size, most=MOST, at=MOST - 1)),
        Rows(
            ("rule", "τ", "regret", "± 95%", "bound", "verdict"),
            [
                [RULES[rule], tau, r.mean_regret, r.spread, r.bound, r.judge(family=len(bounded))]
                for (rule, tau), r in found.items()
            ],
            WORDS("cells caption", runs=size.runs),
            folded=True,
        ),
    ]


def _span(size: Size) -> float:
    """How far the values of a function are apart, on average."""
    return float(np.mean([np.ptp(GAME.function(SEED, run)) for run in range(size.runs)]))


def _panel(found: dict[tuple[str, int], Result], batched: Batched, size: Size) -> Any:
    figure, axes = late_panel("values told late", "regret", LATE)
    x = [tau + 1 for tau in LATE]
    for at, rule in enumerate(RULES):
        figures.means(axes, x, [found[rule, tau].regret[:, -1] for tau in LATE], at, RULES[rule])
    axes.plot(
        [MOST], [batched.regret.mean()], linestyle="", marker="*", markersize=10, color="black", label="in batches"
    )
    figures.legend(axes)
    return figure


def cells(size: Size) -> list[Cell]:
    return [*plays(size).values(), longer_play(size), Batches(size.rounds, size.batched)]


def rows(size: Size) -> dict[str, Any]:
    late, now = (plays(size)[WIDE, tau] for tau in (ROW, 0))

    def entry(done: Done) -> Entry:
        result, base = done[late], done[now]
        what = f"Direct(GPUCB(rule={WIDE!r})), {POINTS} points, Constant({ROW}), {size.rounds:,} rounds"
        side = f"what is {PROVED}, for the mean; the row itself is {STATED}"
        return Entry(what, result.mean_regret, base.mean_regret, result.bound, result.judge().word, side)

    return {"desautels": ([late, now], entry)}


SYSTEM = System("desautels", Size(), Size(400, 200, 10, 40), cells, blocks, rows)
