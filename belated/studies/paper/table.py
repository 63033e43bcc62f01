"""The paper's table 1, with measured columns for all its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from belated import delays, games
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Grouped, apple_tasting
from belated.learners import UCB1, Exp3, GlobalExp3, Hedge, PerContext
from belated.protocols import Delays, Feedback, Game, Learner
from belated.report.page import Block, Finding, Rows, Section, identity, worst
from belated.report.prose import Prose
from belated.report.stats import Interval, matching
from belated.report.words import tallied
from belated.studies.cells import Cell, Play
from belated.studies.paper import related
from belated.studies.paper.part import Part
from belated.studies.paper.related.shared import Entry, text
from belated.studies.results import cell_frame
from belated.studies.run import Done
from belated.theory.intervals import reach
from belated.theory.theorems import error_of
from belated.theory.verdicts import LEVEL, Verdict, judge, judge_paired

WORDS = Prose(__name__)
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
SIDES = dict.fromkeys(EQUAL, "(τ + 1) R'(n/(τ + 1)), measured; equal by construction") | {
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
    header = ("setting, regret, work", "verdict", "R(n)", "right side", "ratio", "R'(n)", "right side, measured with")
    shown = {name: (where, entries[name]) for *where, name in ROWS if name in entries}
    pairs = [cell for pair, late, base in played.values() for cell in ((pair.delayed, late), (pair.base, base))]
    told = {"means": MEANS, "tau": TAU, "late": LATE, "kinds": " and ".join(f"{share:.0%}" for share in KINDS)}
    blocks: list[Block] = [
        WORDS.text("claim", **told),
        *_findings(verdicts),
        Rows(header, [_line(where, entry) for where, entry in shown.values()], WORDS("caption")),
    ]
    words = [entry.word for _, entry in shown.values()]
    short = Finding(WORDS("short", count=len(words), tally=tallied(words, short=True)), worst(words))
    return Section(PART.name, PART.title, blocks, {"table-cells": cell_frame(pairs)}, short)


def _entry(name: str, pair: Measured, late: Result, base: Result, verdict: Verdict) -> Entry:
    what = f"{text(pair.delayed.forecaster)}, {pair.delayed.delays!r}"
    without = base.mean_regret if base.rounds == late.rounds else None
    word = identity("", verdict.word).word if name in EQUAL else verdict.word
    return Entry(what, late.mean_regret, without, verdict.bound, word, SIDES[name])


def _line(where: Sequence[str], entry: Entry) -> list[Any]:
    ratio = entry.regret / entry.right if entry.right else None
    measured = [entry.word, entry.regret, entry.right, ratio, entry.without]
    return ["\n".join(where), *measured, f"{entry.side}\n{entry.what}"]


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
    said = {name: WORDS(name, tau=TAU) for name in verdicts}
    blocks: list[Block] = []
    for name, verdict in verdicts.items():
        more = ""
        make: Callable[..., Finding] = Finding
        if name in EQUAL:
            more, make = WORDS("near", near=(verdict.high - verdict.measured) / verdict.measured), identity
        elif verdict.needed:
            more = WORDS("needed", needed=verdict.needed, count=verdict.count)
        sides = {"measured": verdict.measured, "bound": verdict.bound, "ratio": verdict.ratio, "level": LEVEL}
        blocks.append(make(said[name], verdict.word, WORDS("sides", more=more, **sides)))
    return blocks


PART = Part("table", "Table 1, with measured columns", cells, section)
