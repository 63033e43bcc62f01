"""The paper's table 1, with a measured column for the rows that the catalog has."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from belated import delays, games
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.learners import UCB1, Exp3, Hedge
from belated.protocols import Delays, Feedback, Learner
from belated.studies.cells import Cell, Play
from belated.studies.page import Block, Finding, Rows, Section, Text
from belated.studies.paper.part import Part
from belated.studies.results import cell_frame
from belated.studies.run import Done
from belated.studies.stats import Interval, matching, number
from belated.theory.intervals import reach
from belated.theory.theorems import error_of
from belated.theory.verdicts import LEVEL, Verdict, judge, judge_paired

MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
TAU = 99
LATE = 50.0
#: The rows whose two sides must be equal.
EQUAL = ("weinberger", "neu")


class Size(NamedTuple):
    """How much is played: the horizon (a multiple of TAU + 1) and how often."""

    rounds: int
    replications: int


class Measured(NamedTuple):
    """A row that can be measured: a delayed cell, and the same learner without delay."""

    delayed: Play
    base: Play


def grid(size: Size) -> dict[str, Measured]:
    """The cells behind the measured rows."""

    def cell(forecaster: Forecaster, law: Delays, rounds: int, replications: int) -> Play:
        learner = forecaster.learner
        assert isinstance(learner, Learner)
        kind: Feedback = "full" if learner.feedback == "full" else "bandit"
        return Play(forecaster, games.Bernoulli(MEANS, kind), law, rounds, replications, seed=13)

    now, constant, random = delays.Constant(0), delays.Constant(TAU), delays.Geometric(mean=LATE)
    # What the instances play: n / (G* + 1) rounds, up to n / (LATE / 2) here.
    short, less, often = size.rounds // (TAU + 1), int(2 * size.rounds / LATE), size.replications * 20
    k = len(MEANS)
    return {
        "weinberger": Measured(cell(BOLD(Hedge(k)), constant, *size), cell(BOLD(Hedge(k)), now, short, often)),
        "neu": Measured(cell(BOLD(Exp3(k)), constant, *size), cell(BOLD(Exp3(k)), now, short, often)),
        "adversarial": Measured(cell(BOLD(Exp3(k)), random, *size), cell(BOLD(Exp3(k)), now, less, often)),
        "stochastic": Measured(cell(QPMD(UCB1(k)), random, *size), cell(Direct(UCB1(k)), now, *size)),
    }


def _grid(full: bool) -> dict[str, Measured]:
    return grid(Size(400_000, 200) if full else Size(40_000, 400))


def cells(full: bool) -> list[Cell]:
    return [cell for pair in _grid(full).values() for cell in pair]


#: Setting, result, work, and the name of the measured row, if the catalog has the algorithm.
ROWS = (
    ("full information, stochastic", "R(n) ≤ R'(n) + O(E τ²)", "Agarwal, Duchi 2011", None),
    (
        "full information, adversarial",
        "R(n) ≤ O(τ) R'(n/τ), constant τ; tight",
        "Weinberger, Ordentlich 2002",
        "weinberger",
    ),
    (
        "full information, adversarial",
        "R(n) ≤ O(τ) R'(n/τ), constant τ",
        "Langford et al. 2009; Agarwal, Duchi 2011",
        None,
    ),
    ("full information with side information, stochastic", "R(n) ≤ R'(n) + O(D*); tight", "Mesterharm 2007", None),
    ("full information with side information, adversarial", "R(n) ≤ O(D̄) R'(n/D̄); tight", "Mesterharm 2007", None),
    ("bandit, stochastic", "R(n) ≤ C₁ R'(n) + C₂ τ_max log τ_max", "Desautels et al. 2012", None),
    ("bandit, adversarial", "R(n) ≤ O(τ) R'(n/τ), constant τ", "Neu et al. 2010", "neu"),
    ("bandit with side information, stochastic", "R(n) ≤ R'(n) + O(τ √log n), constant τ", "Dudik et al. 2011", None),
    ("partial monitoring, stochastic", "R(n) ≤ R'(n) + O(G*)", "the paper: QPM-D", "stochastic"),
    ("partial monitoring, adversarial", "R(n) ≤ (1 + E G*) R'(n / (1 + E G*))", "the paper: BOLD", "adversarial"),
    ("partial monitoring with side information, adversarial", "the same", "the paper: BOLD", "later"),
)


def section(done: Done, full: bool) -> Section:
    return describe({name: (pair, done[pair.delayed], done[pair.base]) for name, pair in _grid(full).items()})


def describe(played: dict[str, tuple[Measured, Result, Result]]) -> Section:
    """The section from the delayed and the undelayed result of each measured row."""
    verdicts = {name: _verdict(name, late, base) for name, (_, late, base) in played.items()}
    lines: list[list[Any]] = []
    for setting, bound, work, name in ROWS:
        if name not in played:
            why = "not in the catalog" if name is None else "no learner with side information yet"
            lines.append([setting, bound, work, why, None, None, None, ""])
            continue
        pair, late, _ = played[name]
        verdict = verdicts[name]
        what = f"{pair.delayed.forecaster!r}, {pair.delayed.delays!r}"
        lines.append([setting, bound, work, what, late.mean_regret, verdict.bound, verdict.ratio, verdict.word])
    header = (
        "setting",
        "regret R(n) under delay, R'(n) without",
        "work",
        "measured with",
        "R(n)",
        "right side",
        "ratio",
    )
    pairs = [cell for pair, late, base in played.values() for cell in ((pair.delayed, late), (pair.base, base))]
    blocks: list[Block] = [
        Text(
            "<p>The paper's table of what was known, and what it adds. The measured column sets the regret under delay "
            "beside the right-hand side <b>with the measured regret R' in it</b>, not with a bound on it: on "
            f"Bernoulli arms {MEANS}, constant delay τ = {TAU} or geometric delay of mean {LATE:.0f}. For BOLD at "
            "constant delay each of the τ + 1 instances plays n/(τ + 1) rounds of its own without delay, so the two "
            "sides must be equal. The rows on partial monitoring are measured on bandits, its best-known case.</p>"
        ),
        *_findings(verdicts),
        Rows((*header, "verdict"), lines, "Table 1 of the paper, with what we measured"),
    ]
    return Section("table", "Table 1, with a measured column", blocks, {"table-cells": cell_frame(pairs)})


def _verdict(name: str, late: Result, base: Result) -> Verdict:
    """The measured regret against the right-hand side made of the measured regret without delay."""
    regret = late.regret[:, -1]
    if name in EQUAL:
        side = (TAU + 1) * base.regret[:, -1]
        return _equal(regret, side)
    if name == "stochastic":
        means = np.asarray(MEANS)
        side = base.regret[:, -1] + late.peaks @ (means.max() - means)
        least, most = late.regret_range
        most_allowed = most + late.rounds * float((means.max() - means).sum())
        return judge_paired(regret, side, least, most, most_allowed=most_allowed, family=4)
    right, error = _stretched(base, 1.0 + late.peak, late.rounds)
    return judge(regret, right, *late.regret_range, error=error, family=4)


def _equal(regret: Any, side: Any) -> Verdict:
    """Whether two means agree, approximately; `low` and `high` are of their difference, beside the second."""
    width = math.hypot(reach(regret, LEVEL, 4), reach(side, LEVEL, 4))
    mean, other = float(regret.mean()), float(side.mean())
    word, _ = matching([Interval(mean, mean - width, mean + width)], [other])
    return Verdict(word, mean, mean - width, mean + width, other, LEVEL, len(regret))


def _stretched(base: Result, instances: Any, rounds: int) -> tuple[float, float]:
    """E[M R'(n / M)] with the measured numbers of instances M and regret R' without delay; and its standard error."""
    shares = np.stack([np.interp(rounds / m, base.checkpoints, np.arange(len(base.checkpoints))) for m in instances])
    below = shares.astype(int)
    part = shares - below
    above = np.minimum(below + 1, len(base.checkpoints) - 1)
    # For each replication of the base, the mean over what M was; and for each M, the mean over the base.
    weights = np.zeros(len(base.checkpoints))
    np.add.at(weights, below, instances * (1 - part))
    np.add.at(weights, above, instances * part)
    by_base = base.regret @ weights / len(instances)
    curve = base.regret.mean(axis=0)
    by_peak = instances * (curve[below] * (1 - part) + curve[above] * part)
    return float(by_base.mean()), error_of(by_base) + error_of(by_peak)


def _findings(verdicts: dict[str, Verdict]) -> list[Block]:
    said = {
        "weinberger": f"Weinberger, Ordentlich: with Hedge, R(n) = (τ + 1) R'(n/(τ + 1)) at constant delay {TAU}.",
        "neu": f"Neu et al.: with Exp3, R(n) = (τ + 1) R'(n/(τ + 1)) at constant delay {TAU}.",
        "adversarial": "BOLD: R(n) is at most (1 + G*) R'(n/(1 + G*)), geometric delays.",
        "stochastic": "QPM-D: R(n) is at most R'(n) + Σ Δ<sub>i</sub> G*<sub>i</sub>, geometric delays.",
    }
    blocks: list[Block] = []
    for name, verdict in verdicts.items():
        sides = f"{number(verdict.measured)} against {number(verdict.bound)}, ratio {number(verdict.ratio)}"
        if name in EQUAL:
            near = (verdict.high - verdict.measured) / verdict.measured
            sides += f"; the interval of the difference reaches {near:.1%} of it to each side, approximately"
        elif verdict.needed:
            sides += f"; to be sure about {verdict.needed:,} replications are needed, there are {verdict.count:,}"
        blocks.append(Finding(said[name], verdict.word, f"{sides}; confidence {LEVEL:.0%} for the four together"))
    return blocks


PART = Part("table", "Table 1, with a measured column", cells, section)
