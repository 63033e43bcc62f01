"""What the subsections share: how much is played, who plays, and how two that met the same draws are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Bernoulli
from belated.learners import UCB1, Exp3
from belated.protocols import Delays, Game
from belated.report import figures
from belated.report.page import Finding, Rows, counted, identity, worst
from belated.report.prose import Prose
from belated.report.stats import Interval, number
from belated.studies.cells import Play
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL, side

WORDS = Prose("belated.studies.paper.beyond")
MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
ARMS = Bernoulli(MEANS)
BOLD_EXP3 = "BOLD(Exp3)"
PLAYERS = {BOLD_EXP3: BOLD(Exp3(5)), "QPM-D(UCB1)": QPMD(UCB1(5)), "Delayed-UCB1": Direct(UCB1(5))}
OTHERS = [name for name in PLAYERS if name != BOLD_EXP3]
SEED = 7

Plays = dict[Any, Play]
Pair = tuple[Result, Result]


@dataclass(frozen=True)
class Grid:
    """How much of everything is played."""

    rounds: int = 20_000
    replications: int = 80
    means: tuple[int, ...] = (10, 30, 100)  #: mean delays, for the choice of an instance
    waits: tuple[int, ...] = (30, 100, 300, 500, 1000, 2000)  #: constant delays, for ties
    queries: tuple[int, ...] = (10, 30, 100, 300)  #: mean delays, for probabilities
    losses: tuple[float, ...] = (0.01, 0.1, 0.3)
    wait: int = 50  #: the delay of what is not lost
    expiry: int = 200
    soon: int = 10  #: the delay of all actions but one
    late: tuple[int, ...] = (10, 100, 500, 2500)  #: the delay of that one

    @property
    def horizons(self) -> tuple[int, ...]:
        """Where instances are counted under lossy feedback."""
        return tuple(self.rounds // part for part in (8, 4, 2, 1))

    def play(self, forecaster: Forecaster, game: Game, delays: Delays, **changes: Any) -> Play:
        sizes = {"rounds": self.rounds, "replications": self.replications, "seed": SEED}
        return Play(forecaster, game, delays, **(sizes | changes))


# --- comparing two ---


@dataclass(frozen=True)
class Pairing:
    """How many times the regret of one is that of another; the statement is that it is more than once."""

    where: str
    one: float
    other: float
    times: Interval  #: Fieller's, an approximation
    word: str  #: holds or fails for sure, or likely

    @property
    def row(self) -> list[Any]:
        return [self.where, self.one, self.other, self.times.mean, self.times.low, self.times.high, self.word]


def pair(where: str, one: Result, other: Result, family: int = 1) -> Pairing:
    """The regret of `other` over that of `one`, replication by replication."""
    a, b = one.regret[:, -1], other.regret[:, -1]
    (least, most), (low, high) = one.regret_range, other.regret_range
    found, _ = side(b - a, low - most, high - least, family=family)
    word = found.replace("above", "holds").replace("below", "fails")
    return Pairing(where, float(a.mean()), float(b.mean()), ratio_interval(b, a, family=family), word)


def paired(done: Done, plays: Plays, one: str, other: str) -> dict[Any, Pair]:
    """The results of plays that differ in the last entry of their keys, `one` or `other`, under the rest of the key."""
    return {key[:-1]: (done[play], done[plays[*key[:-1], other]]) for key, play in plays.items() if key[-1] == one}


def ratio_interval(above: Any, below: Any, level: float = LEVEL, family: int = 1) -> Interval:
    """mean(above) / mean(below) of paired values, with Fieller's interval.

    It holds all r for which mean(above - r below) may be 0, by Student's approximation. Where mean(below) may itself
    be 0 or less, it is everything, and where all values are alike.
    """
    from scipy.special import stdtrit

    a, b = np.asarray(above, float), np.asarray(below, float)
    top, bottom = float(a.mean()), float(b.mean())
    middle = top / bottom if bottom else math.nan
    if len(a) < 2:
        return Interval(middle, -math.inf, math.inf)
    quantile = float(stdtrit(len(a) - 1, 1 - (1 - level) / (2 * family)))
    (aa, ab), (_, bb) = np.cov(a, b) * quantile**2 / len(a)
    square = bottom**2 - bb
    if bottom <= 0 or square <= 0 or aa == ab == bb == 0:
        return Interval(middle, -math.inf, math.inf)
    centre = (top * bottom - ab) / square
    width = math.sqrt(max(0.0, centre**2 - (top**2 - aa) / square))
    return Interval(middle, float(centre - width), float(centre + width))


def same_play(a: Result, b: Result) -> bool:
    """Whether two runs played the same, as far as regret along the way and plays of each action tell."""
    return np.array_equal(a.regret, b.regret) and np.array_equal(a.pulls, b.pulls)


# --- what the page shows of it ---


def span(pairings: Sequence[Pairing]) -> str:
    """How many times the regret of one is that of the other, from the least to the most."""
    times = [p.times.mean for p in pairings]
    return str(pairings[0].times) if len(pairings) == 1 else f"{number(min(times))} to {number(max(times))}"


def together(statement: str, pairings: Sequence[Pairing]) -> Finding:
    """One finding from many pairings: the worst word, and the range of the ratio."""
    words = [p.word for p in pairings]
    return Finding(statement, worst(words), WORDS("factor", span=span(pairings), counted=counted(words), level=LEVEL))


def exactly(statement: str, truths: Sequence[bool], note: str = "") -> Finding:
    """A statement that must hold to the last digit everywhere."""
    detail = f"exact in {sum(truths)} of {len(truths)} cells"
    return identity(statement, "holds" if all(truths) else "fails", f"{detail}; {note}" if note else detail)


def pairing_rows(pairings: Sequence[Pairing], one: str, other: str) -> Rows:
    header = ("where", one, other, "times", "low", "high", "verdict")
    return Rows(header, [p.row for p in pairings], WORDS("pairs caption"), folded=True)


def ticks(axes: Any, x: Sequence[float]) -> None:
    """A log axis that names just these values."""
    axes.set_xscale("log")
    axes.set_xticks(list(x), labels=[f"{value:,}" for value in x])
    axes.minorticks_off()


def draw_regrets(axes: Any, x: Sequence[float], lines: Mapping[str, Sequence[Result]]) -> None:
    """Regret at the horizon against x, a line for each label."""
    for at, (label, results) in enumerate(lines.items()):
        figures.means(axes, x, [r.regret[:, -1] for r in results], at, label)


def ratio_panel(title: str, ylabel: str, means: Sequence[int], lines: Sequence[tuple[str, str, Sequence[Pair]]]) -> Any:
    """The regret of the second over that of the first against the mean delay; lines are (label, style, pairs)."""
    figure, axes = figures.panel(title, "mean delay", ylabel)
    for at, (label, style, pairs) in enumerate(lines):
        found = [ratio_interval(other.regret[:, -1], one.regret[:, -1], 0.95) for one, other in pairs]
        look = {"color": figures.COLORS[at], "marker": figures.MARKERS[at], "linestyle": style}
        axes.plot(means, [i.mean for i in found], label=label, **look)
        low, high = [i.low for i in found], [i.high for i in found]
        axes.fill_between(means, low, high, color=figures.COLORS[at], alpha=0.18, linewidth=0)
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--")
    ticks(axes, means)
    figures.legend(axes, ncols=2 if len(lines) > 3 else 1)
    return figure
