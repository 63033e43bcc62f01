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
from belated.report.page import Block, Drawing, Finding, Formula, Rows, Text, finding
from belated.report.stats import mean_interval, number
from belated.studies.cells import Cell, Play, Table, Tell, code_of
from belated.studies.paper.beyond.shared import pair, together
from belated.studies.paper.related.shared import PROVED, STATED, Entry, System, experiment, late_panel
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

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
    return [
        Text(
            "<h3>Desautels, Krause, Burdick 2012: points of a Gaussian process</h3><p><b>Claim.</b> Somebody looks for "
            "the largest value of a function drawn from a Gaussian process, and values come τ rounds late. The "
            "deviation at a point depends on which points were chosen and not on their values, so that it may count "
            "those that are out (hallucinated), while the mean waits. Then delay adds a term, and batches of points "
            f"cost little. C₁ R'(n) + C₂ τ log τ, as table 1 has it, is {STATED}. Proved here, with probability "
            "1 - δ, for any delays that ignore the function and any C > 0: C<sub>t</sub> is what the values that are "
            "out at round t tell, I<sub>n</sub> what all n tell, in nats, &alpha;<sub>n</sub> = "
            "2 ln(K n² π²/(6δ)), v the variance of the noise:</p>"
        ),
        Formula(
            "R<sub>n</sub> ≤ (max f - min f) · #{t: C<sub>t</sub> > C} + e<sup>C</sup> "
            "√(8 n &alpha;<sub>n</sub> I<sub>n</sub> / ln(1 + 1/v))"
        ),
        experiment(
            f"{POINTS} points of [0, 1], covariance exp(-(x - x')²/(2 · {SCALE}²)), noise of "
            f"variance {NOISE}, δ = 0.1; {size.rounds:,} rounds, {size.runs} functions, the same for all. Three rules: "
            "the deviation of what has come (<i>stale</i>), of all that was chosen (<i>hallucinated</i>; no bound is "
            "proved for it under delay, and it is what people run), and that times e<sup>C</sup>, C = ln(2)/2 "
            "(<i>widened</i>, with the bound). In batches: a batch ends before the point that would make "
            f"C<sub>t</sub> larger than C, or at {MOST} points, and all of its values come together "
            f"({size.batched} functions)."
        ),
        finding(
            f"Mean regret keeps the bound, in its form for the mean; {size.rounds:,} rounds, stale and widened.",
            [result.judge(family=len(bounded)) for result in bounded],
        ),
        finding(f"The same in {LONGER[0]:,} rounds at delay {LONGER[1]}, widened.", [longer.judge()]),
        together(
            f"Hallucinated has less regret than stale, at delays {', '.join(map(str, late))}.",
            [pair(f"delay {tau}", found[PLAIN, tau], found[STALE, tau], len(late)) for tau in late],
        ),
        Finding(
            "What a round of delay adds to regret.",
            "shown",
            "; ".join(
                f"{RULES[rule]}: {number((found[rule, ROW].mean_regret - found[rule, 0].mean_regret) / ROW)}"
                for rule in RULES
            )
            + f", from delay 0 to {ROW}, means of {size.runs} functions; a function spans "
            f"{number(_span(size))} on average",
        ),
        Finding(
            f"In batches of at most {MOST} regret is not much more than one at a time.",
            "shown",
            f"{alone} in {number(float(batched.batches.mean()))} batches, {number(float(at_once.mean()))} one at a "
            f"time (widened, the same {size.batched} functions, other noise); approximate interval, {LEVEL:.0%}",
        ),
        Drawing(
            "related-gaussian",
            _panel(found, batched, size),
            f"Regret after {size.rounds:,} rounds against the delay, means over {size.runs} functions, 95% bands; the "
            f"star is GP-AUCB in batches of at most {MOST} ({size.batched} functions), drawn at delay {MOST - 1}.",
        ),
        Rows(
            ("rule", "τ", "regret", "± 95%", "bound", "verdict"),
            [
                [RULES[rule], tau, r.mean_regret, r.spread, r.bound, r.judge(family=len(bounded))]
                for (rule, tau), r in found.items()
            ],
            f"All rules, {size.runs} functions.",
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
