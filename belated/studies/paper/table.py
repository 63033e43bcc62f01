"""The paper's table 1, with measured columns for all its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from belated import delays, games
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Grouped, apple_tasting
from belated.learners import UCB1, Exp3, GlobalExp3, Hedge, PerContext
from belated.protocols import Delays, Feedback, Game, Learner
from belated.report.page import Block, Finding, Rows, Section, Text
from belated.report.stats import Interval, matching, number
from belated.studies.cells import Cell, Play
from belated.studies.paper import related
from belated.studies.paper.part import Part
from belated.studies.paper.related.shared import Entry, text
from belated.studies.results import cell_frame
from belated.studies.run import Done
from belated.theory.intervals import reach
from belated.theory.theorems import error_of
from belated.theory.verdicts import LEVEL, Verdict, judge, judge_paired

MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
TAU = 99
LATE = 50.0
#: The rows whose two sides must be equal.
EQUAL = ("weinberger", "neu", "side")
#: The shares of rotten apples, of two kinds.
KINDS = (0.3, 0.6)
#: How many verdicts are given here together.
OWN = 5


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

    def cell(forecaster: Forecaster, law: Delays, rounds: int, replications: int, game: Game | None = None) -> Play:
        learner = forecaster.learner
        assert isinstance(learner, Learner)
        kind: Feedback = "full" if learner.feedback == "full" else "bandit"
        return Play(forecaster, game or games.Bernoulli(MEANS, kind), law, rounds, replications, seed=13)

    now, constant, random = delays.Constant(0), delays.Constant(TAU), delays.Geometric(mean=LATE)
    # What the instances play: n / (G* + 1) rounds, up to n / (LATE / 2) here.
    short, less, often = size.rounds // (TAU + 1), int(2 * size.rounds / LATE), size.replications * 20
    k, tasting = len(MEANS), Grouped([apple_tasting(law=(rotten, 1 - rotten)) for rotten in KINDS])
    tasters = BOLD(PerContext(GlobalExp3(tasting.loss, tasting.symbols), len(KINDS)))
    return {
        "weinberger": Measured(cell(BOLD(Hedge(k)), constant, *size), cell(BOLD(Hedge(k)), now, short, often)),
        "neu": Measured(cell(BOLD(Exp3(k)), constant, *size), cell(BOLD(Exp3(k)), now, short, often)),
        "adversarial": Measured(cell(BOLD(Exp3(k)), random, *size), cell(BOLD(Exp3(k)), now, less, often)),
        "stochastic": Measured(cell(QPMD(UCB1(k)), random, *size), cell(Direct(UCB1(k)), now, *size)),
        "side": Measured(cell(tasters, constant, *size, tasting), cell(tasters, now, short, often, tasting)),
    }


def _grid(full: bool) -> dict[str, Measured]:
    return grid(Size(400_000, 200) if full else Size(40_000, 400))


def cells(full: bool) -> list[Cell]:
    own = [cell for pair in _grid(full).values() for cell in pair]
    return own + [cell for needed, _ in related.table_rows(full).values() for cell in needed]


#: Setting, result, work, and the name of the measured row.
ROWS = (
    ("full information, stochastic", "R(n) ≤ R'(n) + O(E τ²)", "Agarwal, Duchi 2011", "agarwal"),
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
        "langford",
    ),
    (
        "full information with side information, stochastic",
        "R(n) ≤ R'(n) + O(D*); tight",
        "Mesterharm 2007",
        "mesterharm",
    ),
    (
        "full information with side information, adversarial",
        "R(n) ≤ O(D̄) R'(n/D̄); tight",
        "Mesterharm 2007",
        "mesterharm-adversary",
    ),
    ("bandit, stochastic", "R(n) ≤ C₁ R'(n) + C₂ τ_max log τ_max", "Desautels et al. 2012", "desautels"),
    ("bandit, adversarial", "R(n) ≤ O(τ) R'(n/τ), constant τ", "Neu et al. 2010", "neu"),
    (
        "bandit with side information, stochastic",
        "R(n) ≤ R'(n) + O(τ √log n), constant τ",
        "Dudik et al. 2011",
        "dudik",
    ),
    ("partial monitoring, stochastic", "R(n) ≤ R'(n) + O(G*)", "the paper: QPM-D", "stochastic"),
    ("partial monitoring, adversarial", "R(n) ≤ (1 + E G*) R'(n / (1 + E G*))", "the paper: BOLD", "adversarial"),
    ("partial monitoring with side information, adversarial", "the same", "the paper: BOLD", "side"),
)
#: What the right side of a row that is measured here is.
SIDES = dict.fromkeys(EQUAL, "(τ + 1) R'(n/(τ + 1)), measured; equal for BOLD, by the paper") | {
    "stochastic": "R'(n) + Σ Δ_i G*_i, measured; proved in the paper",
    "adversarial": "(1 + G*) R'(n/(1 + G*)), measured; proved in the paper",
}


def section(done: Done, full: bool) -> Section:
    own = {name: (pair, done[pair.delayed], done[pair.base]) for name, pair in _grid(full).items()}
    return describe(own, {name: make(done) for name, (_, make) in related.table_rows(full).items()})


def describe(played: dict[str, tuple[Measured, Result, Result]], others: Mapping[str, Entry] | None = None) -> Section:
    """The section from the delayed and the undelayed result of each row here, and from the rows of other systems."""
    verdicts = {name: _verdict(name, late, base) for name, (_, late, base) in played.items()}
    entries = {name: _entry(name, *each, verdicts[name]) for name, each in played.items()} | dict(others or {})
    header = (
        *("setting", "verdict", "R(n)", "right side", "ratio", "regret R(n) under delay, R'(n) without", "work"),
        *("R'(n)", "the right side is", "measured with"),
    )
    lines = [_line(setting, bound, work, entries[name]) for setting, bound, work, name in ROWS if name in entries]
    pairs = [cell for pair, late, base in played.values() for cell in ((pair.delayed, late), (pair.base, base))]
    blocks: list[Block] = [
        Text(
            "<p>The paper's table of what was known, and what it adds, with what was measured for every row. Where the "
            "theorem allows it, the regret under delay stands beside the right-hand side <b>with the measured regret "
            "R' in it</b>, not with a bound on it; else beside the bound that is proved here. Statements of the table "
            "that are not proved here are marked so. R'(n) is the regret without delay in as many rounds.</p><p>The "
            f"rows on BOLD and QPM-D: Bernoulli arms {MEANS}, constant delay τ = {TAU} or geometric delay of mean "
            f"{LATE:.0f}. For BOLD at constant delay each of the τ + 1 instances plays n/(τ + 1) rounds of its own "
            "without delay, so the two sides must be equal. The rows on partial monitoring are measured on bandits, "
            "its best-known case; that with side information on apple tasting for two kinds of apples, of which "
            f"{' and '.join(f'{share:.0%}' for share in KINDS)} are rotten. The experiments behind the other rows "
            "are in the part <code>related</code>.</p>"
        ),
        *_findings(verdicts),
        Rows(header, lines, "Table 1 of the paper, with what we measured"),
    ]
    return Section("table", "Table 1, with measured columns", blocks, {"table-cells": cell_frame(pairs)})


def _entry(name: str, pair: Measured, late: Result, base: Result, verdict: Verdict) -> Entry:
    what = f"{text(pair.delayed.forecaster)}, {pair.delayed.delays!r}"
    without = base.mean_regret if base.rounds == late.rounds else None
    return Entry(what, late.mean_regret, without, verdict.bound, verdict.word, SIDES[name])


def _line(setting: str, bound: str, work: str, entry: Entry) -> list[Any]:
    ratio = entry.regret / entry.right if entry.right else None
    measured = [setting, entry.word, entry.regret, entry.right, ratio]
    return [*measured, bound, work, entry.without, entry.side, entry.what]


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
        return judge_paired(regret, side, least, most, most_allowed=most_allowed, family=OWN)
    right, error = _stretched(base, 1.0 + late.peak, late.rounds)
    return judge(regret, right, *late.regret_range, error=error, family=OWN)


def _equal(regret: Any, side: Any) -> Verdict:
    """Whether two means agree, approximately; `low` and `high` are of their difference, beside the second."""
    width = math.hypot(reach(regret, LEVEL, OWN), reach(side, LEVEL, OWN))
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
        "side": "Side information: BOLD(PerContext(GlobalExp3)) in partial monitoring has R(n) = "
        f"(τ + 1) R'(n/(τ + 1)) at constant delay {TAU}.",
    }
    blocks: list[Block] = []
    for name, verdict in verdicts.items():
        sides = f"{number(verdict.measured)} against {number(verdict.bound)}, ratio {number(verdict.ratio)}"
        if name in EQUAL:
            near = (verdict.high - verdict.measured) / verdict.measured
            sides += f"; the interval of the difference reaches {near:.1%} of it to each side, approximately"
        elif verdict.needed:
            sides += f"; to be sure about {verdict.needed:,} replications are needed, there are {verdict.count:,}"
        blocks.append(Finding(said[name], verdict.word, f"{sides}; confidence {LEVEL:.0%} for the five together"))
    return blocks


PART = Part("table", "Table 1, with measured columns", cells, section)
