"""What the systems of table 1 share: plays on many games made from numbers, and a row of the table."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from belated import catalog, notation
from belated.engine.play import play
from belated.engine.result import Result
from belated.forecasters import Forecaster
from belated.games import RewardTable
from belated.protocols import Delays, Floats, Game
from belated.report import figures
from belated.report.page import Block, Finding, Text
from belated.report.prose import Prose
from belated.studies.cells import Cell, Table, Tell, code_of
from belated.studies.run import Done

WORDS = Prose("belated.studies.paper.related")
PROVED = "proved here"
STATED = "stated by its authors; not proved here"


class Entry(NamedTuple):
    """What was measured for a row of table 1: under delay, without, and against what."""

    what: str
    regret: float
    without: float | None
    right: float | None
    word: str
    side: str  #: what the right side is, and whether it is proved


@dataclass(frozen=True)
class System:
    """A line of work: what is played, what the page shows of it, and its rows of table 1.

    `cells`, `blocks` and `rows` take a size, of which there are a short one and a long one. `rows` gives, for the name
    of each row, the cells that it needs and what is made of them.
    """

    name: str
    short: Any
    long: Any
    cells: Callable[[Any], list[Cell]]
    blocks: Callable[[Done, Any], list[Block]]
    rows: Callable[[Any], dict[str, tuple[list[Cell], Callable[[Done], Entry]]]] = lambda size: {}

    def size(self, full: bool) -> Any:
        return self.long if full else self.short


# --- many games ---


class Maker(Protocol):
    """Makes a game from a number. A frozen dataclass: its `repr` is part of the name of a cell."""

    def __call__(self, number: int) -> Game: ...

    def rounds(self, number: int) -> int: ...


class Found(NamedTuple):
    """Regret at the horizon, and the bound on it (NaN where there is none), one number a game."""

    regret: Floats
    bound: Floats

    @property
    def worst(self) -> int:
        """The place of the largest regret."""
        return int(np.argmax(self.regret))


@dataclass(frozen=True, eq=False)
class Series(Cell):
    """One forecaster under one law of delays on many games, once each.

    With `expected`, regret is its expectation over what the forecaster draws, exactly: for two actions and full
    information, where what it knows does not depend on what it played.
    """

    forecaster: Forecaster
    make: Maker
    delays: Delays
    numbers: tuple[int, ...]
    expected: bool = False

    @property
    def title(self) -> str:
        return f"{self.forecaster!r} on {self.make!r} x {len(self.numbers):,}, {self.delays!r}"

    @property
    def decisions(self) -> int:
        return sum(self.make.rounds(number) for number in self.numbers)

    def describe(self) -> dict[str, Any]:
        return {
            "forecaster": catalog.to_data(self.forecaster),
            "make": repr(self.make),
            "delays": catalog.to_data(self.delays),
            "numbers": list(self.numbers),
            "expected": self.expected,
        }

    def code(self) -> list[Any]:
        first, last = (self.make(number) for number in (self.numbers[0], self.numbers[-1]))
        digest = hashlib.sha256(np.asarray(last.params()).tobytes()).hexdigest()
        return [*code_of(self.forecaster, first, self.delays), digest]

    def compute(self, tell: Tell) -> Table:
        found, played = [], 0
        for each in self.numbers:
            found.append(self._play(each))
            played += self.make.rounds(each)
            tell(played, self.decisions)
        regret, bound = (np.array(column) for column in zip(*found, strict=True))
        return Table({"regret": regret, "bound": bound})

    def _play(self, number: int) -> tuple[float, float]:
        game = self.make(number)
        rounds = self.make.rounds(number)
        result = play(
            self.forecaster,
            game,
            self.delays,
            rounds,
            seed=number,
            threads=1,
            record=self.expected,
            progress=False,
        )
        regret = _expected(result) if self.expected else result.mean_regret
        return regret, math.nan if result.bound is None else result.bound

    def read(self, table: Table) -> Found:
        return Found(table.columns["regret"], table.columns["bound"])


def _expected(result: Result) -> float:
    """Regret with the chances of both actions in the place of what was drawn."""
    game = result.setting.game
    assert isinstance(game, RewardTable) and result.actions is not None and result.probabilities is not None
    rewards = np.asarray(game.table)[: result.rounds]
    chosen = result.probabilities[0]
    second = np.where(result.actions[0] == 1, chosen, 1.0 - chosen)
    earned = (1.0 - second) * rewards[:, 0] + second * rewards[:, 1]
    return float(rewards.sum(axis=0).max() - earned.sum())


# --- what the page shows ---


def experiment(html: str) -> Text:
    """What was played."""
    return WORDS.text("experiment", html=html)


def text(forecaster: Forecaster) -> str:
    """A forecaster in short: what it was not given is left out."""
    return notation.text("forecaster", forecaster)


def exactly(statement: str, off: Sequence[float], most: float, note: str = "") -> Finding:
    """Whether numbers that leave nothing to chance are what they should be: how far off they are, at most."""
    worst = max(abs(each) for each in off)
    detail = WORDS("exactly", count=len(off), worst=worst)
    return Finding(statement, "matches" if worst <= most else "fails", f"{detail}; {note}" if note else detail)


def late_panel(title: str, ylabel: str, delays: Sequence[int], **axes: Any) -> tuple[Any, Any]:
    """Axes against tau + 1, on a log scale that names these delays."""
    settings = {"xscale": "log", "yscale": "log"} | axes
    figure, drawn = figures.panel(title, "delay (delay + 1 on a log scale)", ylabel, **settings)
    drawn.set_xticks([d + 1 for d in delays], labels=[f"{d:,}" for d in delays])
    drawn.minorticks_off()
    return figure, drawn


def draw(axes: Any, x: Sequence[float], y: Sequence[float], number: int, label: str, **settings: Any) -> None:
    """A line with markers, of numbers that leave nothing to chance."""
    look = {"color": figures.COLORS[number], "marker": figures.MARKERS[number]} | settings
    axes.plot(x, y, label=label, **look)
