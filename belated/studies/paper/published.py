"""A published table of delay, run again: Chapelle and Li 2011.

Ten items; each round with probability 10^-3 one of them is retired and a new one takes its place; click rates from
Beta(4, 4). Thompson sampling against a UCB, a million rounds, feedback late by delta. The paper does not say whether
delta is a batch or a constant delay, nor whether t in the index is the round or the age of the item. All are run.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from belated import delays, games
from belated.engine.result import Result
from belated.forecasters import Direct
from belated.learners import ChernoffUCB, ThompsonBernoulli
from belated.protocols import Learner
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, Section, worst
from belated.report.prose import Prose
from belated.report.stats import Interval, mean_interval
from belated.studies.cells import Cell, Play
from belated.studies.paper.part import Part
from belated.studies.results import cell_frame, replication_frame
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

WORDS = Prose(__name__)
DELAYS = (1, 3, 10, 32, 100, 316, 1000)
PUBLISHED = {
    "Thompson": (9105, 9199, 9049, 9451, 11550, 21594, 59256),
    "UCB": (24145, 24695, 25662, 28148, 37141, 77687, 226220),
}
ROUNDS = 1_000_000
REPLICATIONS = 100
ITEMS = 10
#: Intervals wider than this part of the mean cannot tell a match.
CLOSE = 0.1


class Reading(NamedTuple):
    """One way to read the paper: what delta is, and what t is."""

    algorithm: str
    learner: Learner
    law: Any
    words: str


READINGS = tuple(
    Reading(algorithm, learner, law, f"{words}{clock}")
    for algorithm, learner, clock in (
        ("Thompson", ThompsonBernoulli(ITEMS), ""),
        ("UCB", ChernoffUCB(ITEMS, "round"), ", t the round"),
        ("UCB", ChernoffUCB(ITEMS, "age"), ", t the item's age"),
    )
    for law, words in ((delays.Batched, "batches of δ"), (delays.Constant, "constant delay δ"))
)


class Size(NamedTuple):
    """Rounds and replications."""

    rounds: int
    replications: int


def grid(sizes: dict[str, Size]) -> dict[Reading, list[Play]]:
    """The cells of each reading, in the order of DELAYS; a size for each algorithm."""
    game = games.Replaced(ITEMS, probability=0.001, a=4.0, b=4.0, announced=True)
    return {
        reading: [
            Play(Direct(reading.learner), game, reading.law(delta), *sizes[reading.algorithm], seed=2011)
            for delta in DELAYS
        ]
        for reading in READINGS
    }


def _grid(full: bool) -> dict[Reading, list[Play]]:
    # Thompson sampling takes twenty times as long a round.
    whole = Size(ROUNDS, REPLICATIONS)
    return grid({"Thompson": whole, "UCB": whole} if full else {"Thompson": Size(150_000, 8), "UCB": Size(ROUNDS, 5)})


def cells(full: bool) -> list[Cell]:
    return [cell for row in _grid(full).values() for cell in row]


def million(result: Result) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Regret after a million rounds, by replication; a shorter run goes on at the rate of its last two thirds.

    Once the first items are learned, items come and go at a constant rate, and so does regret, if the learner looks at
    their ages only (as Thompson sampling does, and not a UCB with the logarithm of the round).
    """
    end = result.regret[:, -1]
    at = int(np.searchsorted(result.checkpoints, result.rounds / 3))
    rate = (end - result.regret[:, at]) / (result.rounds - result.checkpoints[at])
    regret: np.ndarray[Any, np.dtype[np.float64]] = end + (ROUNDS - result.rounds) * rate
    return regret


class Row(NamedTuple):
    """A reading beside the published row."""

    reading: Reading
    measured: list[Interval]
    published: tuple[int, ...]
    distance: float  #: mean |ln(measured / published)|
    agrees: list[bool]  #: whether the published number is one that a hundred such repetitions may give


def compare(reading: Reading, samples: list[Any]) -> Row:
    """Set the regrets of one reading beside the published ones."""
    published = PUBLISHED[reading.algorithm]
    measured = [mean_interval(s, LEVEL, family=len(DELAYS)) for s in samples]
    distance = float(np.mean([abs(math.log(m.mean / p)) for m, p in zip(measured, published, strict=True)]))
    # The published mean of 100 repetitions has a spread of its own, taken to be that of ours.
    widen = [math.sqrt(1 + len(s) / REPLICATIONS) for s in samples]
    agrees = [abs(p - m.mean) <= w * (m.high - m.mean) for m, p, w in zip(measured, published, widen, strict=True)]
    return Row(reading, measured, published, distance, agrees)


def section(done: Done, full: bool) -> Section:
    return describe({reading: [done[cell] for cell in row] for reading, row in _grid(full).items()}, full)


def describe(results: dict[Reading, list[Result]], full: bool) -> Section:
    """The section, from the results of each reading."""
    samples = {reading: [million(r) for r in row] for reading, row in results.items()}
    rows = [compare(reading, row) for reading, row in samples.items()]
    blocks: list[Block] = [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        WORDS.text("readings", reduced="" if full else _short(results)),
    ]
    nearest = {name: sorted(_of(rows, name), key=lambda row: row.distance) for name in PUBLISHED}
    for algorithm, own in nearest.items():
        blocks += _findings(algorithm, own)
    for algorithm in PUBLISHED:
        blocks.append(_drawing(algorithm, rows))
    blocks += [_table(algorithm, rows) for algorithm in PUBLISHED]
    pairs = [(r, m) for reading, row in results.items() for r, m in zip(_cells_of(row), row, strict=True)]
    frames = {"published-cells": cell_frame(pairs), "published-replications": replication_frame(pairs)}
    best = {name: own[0] for name, own in nearest.items()}
    listed = " and ".join(f"{sum(row.agrees)} of {len(DELAYS)} ({name})" for name, row in best.items())
    short = Finding(WORDS("short", listed=listed), worst(_same(row) for row in best.values()))
    return Section(PART.name, PART.title, blocks, frames, short)


def _of(rows: list[Row], algorithm: str) -> list[Row]:
    return [row for row in rows if row.reading.algorithm == algorithm]


def _short(results: dict[Reading, list[Result]]) -> str:
    thompson, ucb = (next(row[0] for r, row in results.items() if r.algorithm == name) for name in PUBLISHED)
    return WORDS("reduced", thompson=thompson, ucb=ucb)


def _cells_of(row: list[Result]) -> list[Play]:
    settings = [r.setting for r in row]
    return [
        Play(s.forecaster, s.game, s.delays, s.rounds, r.replications, s.seed)
        for s, r in zip(settings, row, strict=True)
    ]


def _widest(row: Row) -> float:
    """How far the intervals reach, as a part of the mean."""
    return max((m.high - m.mean) / m.mean for m in row.measured)


def _same(row: Row) -> str:
    """Whether all of the published numbers are what was measured."""
    return "likely fails" if not all(row.agrees) else "matches" if _widest(row) <= CLOSE else "unclear"


def _findings(algorithm: str, rows: list[Row]) -> list[Block]:
    """Which reading fits best, and whether it gives the published numbers."""
    best, *others = rows
    ratios = [m.mean / p for m, p in zip(best.measured, best.published, strict=True)]
    missed = ", ".join(f"δ = {d}" for d, ok in zip(DELAYS, best.agrees, strict=True) if not ok)
    left = ", ".join(f"{row.reading.words} {row.distance:.0%}" for row in others)
    named = {"algorithm": algorithm, "words": best.reading.words}
    agree = {"agree": sum(best.agrees), "count": len(DELAYS), "level": LEVEL, "widest": _widest(best)}
    return [
        Finding(
            WORDS("nearest", **named),
            "shown",
            WORDS("nearest detail", distance=best.distance, left=left, least=min(ratios), most=max(ratios)),
        ),
        Finding(
            WORDS("same", **named),
            _same(best),
            WORDS("same detail", missed=f"; not at {missed}" if missed else "", **agree),
        ),
    ]


def _drawing(algorithm: str, rows: list[Row]) -> Drawing:
    figure, axes = figures.panel(
        f"{algorithm}: regret after a million rounds", "delay δ", "regret", xscale="log", yscale="log"
    )
    axes.plot(DELAYS, PUBLISHED[algorithm], color="black", marker="x", linestyle="none", label="published", zorder=5)
    for place, row in enumerate(_of(rows, algorithm)):
        middle = [m.mean for m in row.measured]
        color = figures.COLORS[place]
        axes.plot(DELAYS, middle, color=color, marker=figures.MARKERS[place], label=row.reading.words)
        axes.fill_between(
            DELAYS, [m.low for m in row.measured], [m.high for m in row.measured], color=color, alpha=0.12, linewidth=0
        )
    axes.set_ylim(bottom=0.5 * min(PUBLISHED[algorithm]))
    figures.legend(axes)
    return Drawing(f"published-{algorithm.lower()}", figure, WORDS("caption", algorithm=algorithm, level=LEVEL))


def _table(algorithm: str, rows: list[Row]) -> Rows:
    lines: list[list[Any]] = [["published", *PUBLISHED[algorithm], "", ""]]
    for row in _of(rows, algorithm):
        agrees = f"at {sum(row.agrees)} of {len(DELAYS)}"
        lines.append([row.reading.words, *(round(m.mean) for m in row.measured), f"{row.distance:.0%}", agrees])
    header = ("reading", *(f"δ = {d}" for d in DELAYS), "mean distance", "within noise")
    return Rows(header, lines, WORDS("table caption", algorithm=algorithm))


PART = Part("published", "A published table, run again", cells, section)
