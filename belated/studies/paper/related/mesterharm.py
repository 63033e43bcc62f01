"""Mesterharm 2005 and 2007: labels told late, by an adversary and by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Constant
from belated.forecasters import BOLD, Direct, Forecaster, Paced
from belated.games import Labels
from belated.learners import Halving, Perceptron
from belated.protocols import Floats
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Formula, Rows, Text, finding
from belated.report.stats import matching, mean_interval, number
from belated.studies.cells import Cell
from belated.studies.paper.related.shared import (
    PROVED,
    Entry,
    Found,
    Series,
    System,
    draw,
    exactly,
    experiment,
    late_panel,
    text,
)
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL, Verdict, judge_paired

KINDS: dict[str, type[Forecaster]] = {"BOLD": BOLD, "told directly": Direct, "Paced": Paced}
FEATURES, GAP = 10, 0.1
#: The error of the first hypothesis, which says label 0 always: labels are fair.
FIRST = 0.5


@dataclass(frozen=True)
class Size:
    """Experts and delays against the adversary; rows, runs and delays by chance."""

    experts: int = 256
    delays: tuple[int, ...] = (0, 1, 3, 7, 15, 31)
    rows: int = 4000
    runs: int = 20
    late: tuple[int, ...] = (0, 7, 63, 255)


@dataclass(frozen=True)
class Halves:
    """Thresholds against a search by halves, each question asked so many times: the truth is the other half's."""

    experts: int
    times: int

    @property
    def questions(self) -> int:
        return int(math.log2(self.experts))

    def rounds(self, number: int) -> int:
        return self.questions * self.times

    def __call__(self, number: int) -> Labels:
        said = [np.arange(self.experts) < self.experts >> (1 + asked) for asked in range(self.questions)]
        return Labels(np.repeat(np.array(said, float), self.times, axis=0), np.ones(self.rounds(0)))


@dataclass(frozen=True)
class Sphere:
    """Rows on the unit sphere, none nearer than GAP to the plane that tells the labels apart; the first `played`."""

    made: int
    played: int

    def rounds(self, number: int) -> int:
        return self.played

    def __call__(self, number: int) -> Labels:
        draws, kept, count = np.random.default_rng(number), [], 0
        while count < self.made:
            rows = draws.normal(size=(self.made, FEATURES))
            rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
            kept.append(rows[np.abs(rows[:, 0]) >= GAP])
            count += len(kept[-1])
        rows = np.concatenate(kept)[: self.played]
        return Labels(rows, (rows[:, 0] > 0).astype(float), labels=2)


def halving_plays(size: Size) -> dict[tuple[str, int], Series]:
    """(rule, delay), each question delay + 1 times."""
    return {
        (name, d): Series(kind(Halving(size.experts)), Halves(size.experts, d + 1), Constant(d), (0,))
        for name, kind in KINDS.items()
        for d in size.delays
    }


def sphere_plays(size: Size) -> dict[tuple[str, int], Series]:
    """(rule, delay); and under "base" those without delay, that see fewer rows by so many."""
    runs, learner = tuple(range(size.runs)), Perceptron(FEATURES)
    plays = {
        (name, d): Series(kind(learner), Sphere(size.rows, size.rows), Constant(d), runs)
        for name, kind in KINDS.items()
        for d in size.late
    }
    for d in size.late:
        plays["base", d] = Series(Direct(learner), Sphere(size.rows, size.rows - d), Constant(0), runs)
    return plays


def blocks(done: Done, size: Size) -> list[Block]:
    against = {key: done[cell] for key, cell in halving_plays(size).items()}
    chance: dict[tuple[str, int], Found] = {key: done[cell] for key, cell in sphere_plays(size).items()}
    most = Halves(size.experts, 1).questions
    return [
        Text(
            "<h3>Mesterharm 2005, 2007: labels</h3><p><b>Claim.</b> A learner that errs at most M times without delay "
            "errs at most (G* + 1) M times with it, against any adversary; where rows are drawn independently, delay "
            "adds no more than G*. Proved here, for BOLD and for a learner that is told of each label when it comes "
            "and looks at what it would say <i>now</i>; in the second case for Paced, and at constant delay, with "
            "e<sub>0</sub> the error of the first hypothesis, exactly for the learner told directly:</p>"
        ),
        Formula(
            "mistakes ≤ (G* + 1) M; &nbsp; E mistakes ≤ E M(n) + E G* (Paced); &nbsp; "
            "E mistakes = E M(n - τ) + τ e<sub>0</sub> (told directly)"
        ),
        Text(
            "Table 1 writes the first as D̄ R'(n/D̄), with D̄ the average gap between feedbacks. That is true with the "
            "average over <i>rounds</i> of the length of the gap that the round lies in, and false with the plain "
            "average over gaps: let no feedback come for n/2 rounds, then all at once, then each at once. The plain "
            "average is about 2, but if one fair coin decides all labels, everybody expects n/4 mistakes in the first "
            "half, and the best hypothesis makes none."
        ),
        experiment(
            f"Left: {size.experts:,} thresholds and somebody who asks for the middle of those left, "
            f"each question τ + 1 times, and says the other label; Halving errs at most log<sub>2</sub> "
            f"{size.experts:,} = {most} times without delay. Right: the Perceptron on {size.rows:,} rows drawn from "
            f"the sphere in {FEATURES} dimensions, margin {GAP}, {size.runs} runs, the same rows for all."
        ),
        exactly(
            f"Against the adversary mistakes are exactly {most} (τ + 1), for BOLD, told directly and Paced: the bound "
            "is tight.",
            [float(f.regret[0]) - most * (d + 1) for (_, d), f in against.items()],
            0.0,
            f"delays {', '.join(map(str, size.delays))}",
        ),
        finding(
            "By chance, Paced makes at most G* mistakes more than without delay.",
            [added(chance["Paced", d].regret, chance["Paced", 0].regret, d, size) for d in _late(size)],
        ),
        shifted(chance, size),
        Finding(
            "By chance, a pool of instances learns everything τ + 1 times.",
            "shown",
            "; ".join(
                f"τ = {d}: {name} {number(float(chance[name, d].regret.mean()))}"
                for d in (size.late[0], size.late[-2])
                for name in KINDS
            )
            + f" mistakes, means of {size.runs} runs",
        ),
        Drawing("related-labels-adversary", _adversary_panel(against, size, most), _adversary_caption(size)),
        Drawing(
            "related-labels-chance",
            _chance_panel(chance, size),
            f"Mistakes of the Perceptron on {size.rows:,} independent rows, means of {size.runs} runs, 95% bands. "
            "Dotted: without delay, plus τ, which Paced does not exceed.",
        ),
        Rows(
            ("rule", "τ", "mean mistakes", "± 95%", "bound"),
            [
                [
                    name,
                    d,
                    float(f.regret.mean()),
                    mean_interval(f.regret, 0.95).high - float(f.regret.mean()),
                    _bound(f),
                ]
                for (name, d), f in chance.items()
                if name != "base"
            ],
            f"The Perceptron, {size.runs} runs. The bound is (G* + 1) (X / margin)², the mean of the runs; Paced "
            "states none against an adversary.",
            folded=True,
        ),
    ]


def _late(size: Size) -> tuple[int, ...]:
    return tuple(d for d in size.late if d)


def _bound(found: Found) -> float | None:
    mean = float(found.bound.mean())
    return None if math.isnan(mean) else mean


def added(late: Floats, now: Floats, delay: int, size: Size) -> Verdict:
    """The mistakes that the delay added against G* = delay, run by run."""
    allowed = np.full(len(late), float(min(delay, size.rows - 1)))
    return judge_paired(
        late - now, allowed, -size.rows, size.rows, most_allowed=float(size.rows), family=len(_late(size))
    )


def shifted(chance: dict[tuple[str, int], Found], size: Size) -> Finding:
    """Told directly at a constant delay: as without delay on tau fewer rows, and tau rounds of the first hypothesis."""
    late = _late(size)
    extra = [chance["told directly", d].regret - chance["base", d].regret for d in late]
    intervals = [mean_interval(each, family=len(late)) for each in extra]
    word, agree = matching(intervals, [d * FIRST for d in late])
    listed = "; ".join(
        f"τ = {d}: {number(i.mean)} ({number(i.low)} to {number(i.high)}) for {number(d * FIRST)}"
        for d, i in zip(late, intervals, strict=True)
    )
    return Finding(
        "By chance, told directly at constant delay, E mistakes - E M(n - τ) is τ/2: half of the first τ rounds.",
        word,
        f"{sum(agree)} of {len(agree)} intervals contain it; {listed}; approximate confidence {LEVEL:.0%} for all "
        f"together, {size.runs} runs",
    )


def _adversary_caption(size: Size) -> str:
    return (
        f"Mistakes of Halving with {size.experts:,} thresholds against a search by halves; nothing is left to chance. "
        "The three rules err equally often, as often as the bound allows."
    )


def _adversary_panel(against: dict[tuple[str, int], Found], size: Size, most: int) -> Any:
    figure, axes = late_panel("labels told late: an adversary", "mistakes", size.delays)
    for at, name in enumerate(KINDS):
        x = [(d + 1) * 1.06 ** (at - 1) for d in size.delays]
        draw(axes, x, [float(against[name, d].regret[0]) for d in size.delays], at, name, linestyle="")
    x = [d + 1 for d in size.delays]
    figures.line(axes, x, [most * each for each in x], 6, f"bound: {most} (τ + 1)")
    figures.legend(axes)
    return figure


def _chance_panel(chance: dict[tuple[str, int], Found], size: Size) -> Any:
    figure, axes = late_panel("labels told late: independent rows", "mistakes", size.late)
    x = [d + 1 for d in size.late]
    for at, name in enumerate(KINDS):
        figures.means(axes, x, [chance[name, d].regret for d in size.late], at, name)
    base = float(chance["Paced", 0].regret.mean())
    figures.line(axes, x, [base + d for d in size.late], 6, "without delay, plus τ", linestyle=":")
    figures.legend(axes)
    return figure


def cells(size: Size) -> list[Cell]:
    return [*halving_plays(size).values(), *sphere_plays(size).values()]


def rows(size: Size) -> dict[str, Any]:
    """By chance, and by an adversary."""
    chance, against = sphere_plays(size), halving_plays(size)
    d, longest = size.late[-2], max(size.delays)
    paced, now = chance["Paced", d], chance["Paced", 0]
    direct, prompt = against["told directly", longest], against["told directly", 0]

    def by_chance(done: Done) -> Entry:
        late, base = done[paced].regret, done[now].regret
        verdict = added(late, base, d, size)
        what = f"{text(paced.forecaster)}, Constant({d}), {size.rows:,} rows on a sphere, {size.runs} runs"
        right = float(base.mean()) + d
        return Entry(
            what, float(late.mean()), float(base.mean()), right, verdict.word, f"R'(n) measured, + G*; {PROVED}"
        )

    def adversary(done: Done) -> Entry:
        late, base = float(done[direct].regret[0]), float(done[prompt].regret[0])
        right = (longest + 1) * base
        what = f"{text(direct.forecaster)}, Constant({longest}), a search by halves"
        return Entry(what, late, base, right, "matches" if late == right else "fails", f"(τ + 1) M; {PROVED}")

    return {
        "mesterharm": ([paced, now], by_chance),
        "mesterharm-adversary": ([direct, prompt], adversary),
    }


LONG = Size(1024, (0, 1, 3, 7, 15, 31, 63), runs=60, late=(0, 7, 31, 63, 255))
SYSTEM = System("mesterharm", Size(), LONG, cells, blocks, rows)
