"""Weinberger and Ordentlich 2002: bits told late. Subsampling, a pool of forecasters taking turns, is minimax."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belated.delays import Constant
from belated.forecasters import BOLD, Direct, Forecaster
from belated.games import RewardTable
from belated.learners import Cover, DelayedHedge, Hedge
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding, identity
from belated.report.prose import Prose
from belated.report.stats import number
from belated.studies.cells import Cell
from belated.studies.paper.related.shared import Found, Series, System, draw, exactly, experiment, late_panel
from belated.studies.run import Done
from belated.theory.related import subsampling
from belated.theory.verdicts import certain

WORDS = Prose(__name__)
COVER, POOL, TOLD = "BOLD(Cover)", "BOLD(Hedge)", "DelayedHedge told directly"
#: Rounds and delays of the games that are small enough to try all strategies; delays may be longer than the game.
SMALL = ((4, 0), (4, 1), (5, 1), (6, 0), (6, 2), (7, 2), (8, 1), (8, 3), (3, 5))
#: Rounds of the small games of the picture.
SHOWN = 8
ROUNDING = 1e-9


@dataclass(frozen=True)
class Size:
    """The bits, the delays (one less than a divisor of the bits), and how many sequences."""

    rounds: int = 1024
    delays: tuple[int, ...] = (0, 3, 15, 63)
    sequences: int = 24


@dataclass(frozen=True)
class Blocks:
    """Bits that are constant in blocks: alternating (0), all alike (1), one change (2), fair coins, and unfair ones."""

    length: int
    bits: int

    def rounds(self, number: int) -> int:
        return self.bits

    def __call__(self, number: int) -> RewardTable:
        count = self.bits // self.length
        chance = 0.5 if number % 3 else 0.75
        blocks = np.random.default_rng(number).random(count) < chance
        if number < 3:
            blocks = (np.arange(count) % 2 == 0, np.arange(count) >= 0, np.arange(count) < count / 2)[number]
        bits = np.repeat(blocks, self.length).astype(float)
        return RewardTable(np.stack([1.0 - bits, bits], axis=1), "full")


def players(size: Size, delay: int) -> dict[str, Forecaster]:
    return {
        COVER: BOLD(Cover(size.rounds // (delay + 1))),
        POOL: BOLD(Hedge(2)),
        TOLD: Direct(DelayedHedge(2)),
    }


def plays(size: Size) -> dict[tuple[str, int], Series]:
    """(player, delay)."""
    numbers = tuple(range(size.sequences))
    return {
        (name, d): Series(player, Blocks(d + 1, size.rounds), Constant(d), numbers, expected=True)
        for d in size.delays
        for name, player in players(size, d).items()
    }


def least_regret(rounds: int, delay: int) -> float:
    """The least regret that any strategy can promise for bits told late: a linear programme over all of them.

    A strategy is a chance of saying 1 for each round and each course of the bits that are known by then; the regret
    on each of the 2^n sequences is linear in them.

    >>> round(least_regret(4, 1), 9)
    1.0
    """
    from scipy.optimize import linprog
    from scipy.sparse import lil_array

    known = [max(0, t - delay) for t in range(rounds)]
    first = np.concatenate([[0], np.cumsum([2**k for k in known])])
    matrix, most = lil_array((2**rounds, first[-1] + 1)), np.zeros(2**rounds)
    for course in range(2**rounds):
        bits = [course >> t & 1 for t in range(rounds)]
        for t, bit in enumerate(bits):
            matrix[course, first[t] + (course & (2 ** known[t] - 1))] = 1.0 - 2.0 * bit
        matrix[course, first[-1]] = -1.0
        most[course] = min(sum(bits), rounds - sum(bits)) - sum(bits)
    cost = np.zeros(first[-1] + 1)
    cost[-1] = 1.0
    found = linprog(cost, matrix.tocsr(), most, bounds=[(0.0, 1.0)] * first[-1] + [(None, None)])
    return float(found.fun)


def blocks(done: Done, size: Size) -> list[Block]:
    found: dict[tuple[str, int], Found] = {key: done[cell] for key, cell in plays(size).items()}
    values = {d: subsampling(size.rounds, d) for d in size.delays}
    cover = [each - values[d] for d in size.delays for each in found[COVER, d].regret.tolist()]
    small = {pair: least_regret(*pair) for pair in dict.fromkeys((*SMALL, *((SHOWN, d) for d in range(SHOWN))))}
    counted = exactly(
        WORDS("cover"), cover, ROUNDING, WORDS("cover detail", sequences=size.sequences, delays=len(size.delays))
    )
    return [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", size=size)),
        identity(counted.statement, counted.word, counted.detail),
        exactly(
            WORDS("nobody"),
            [value - subsampling(*pair) for pair, value in small.items()],
            ROUNDING,
            WORDS("nobody detail", pairs=", ".join(map(str, small))),
        ),
        *(
            finding(
                WORDS("hedge", name=name, formula=formula),
                [certain(*_worst(found[name, d]), most=size.rounds) for d in size.delays],
                WORDS("hedge detail"),
            )
            for name, formula in ((POOL, "√((d + 1) n ln 2)"), (TOLD, "√((n + 2 Σ G) ln 2)"))
        ),
        Finding(
            WORDS("multiple"),
            "shown",
            "; ".join(
                f"{name} {', '.join(f'{number(_worst(found[name, d])[0] / values[d])} (d = {d})' for d in size.delays)}"
                for name in (POOL, TOLD)
            ),
        ),
        Drawing("related-bits", _panel(found, size, values), WORDS("bits caption", size=size)),
        Drawing("related-bits-small", _small_panel(small), WORDS("small caption", rounds=SHOWN)),
        Rows(
            ("player", "d", "least", "largest", "bound", "V_d(n)"),
            [
                [name, d, float(f.regret.min()), float(f.regret.max()), float(f.bound.max()), values[d]]
                for (name, d), f in found.items()
            ],
            WORDS("cells caption"),
            folded=True,
        ),
    ]


def _worst(found: Found) -> tuple[float, float]:
    """The largest regret, and its bound."""
    return float(found.regret[found.worst]), float(found.bound[found.worst])


def _panel(found: dict[tuple[str, int], Found], size: Size, values: dict[int, float]) -> object:
    figure, axes = late_panel("bits told late", "expected regret", size.delays)
    for at, name in enumerate((COVER, POOL, TOLD)):
        x = [(d + 1) * 1.05 ** (at - 1) for d in size.delays]
        own = [found[name, d].regret for d in size.delays]
        draw(axes, x, [r.max() for r in own], at, name, linestyle="" if name == COVER else "-")
    figures.line(axes, [d + 1 for d in size.delays], list(values.values()), 6, "(d + 1) V(n/(d + 1)), exact")
    figures.legend(axes)
    return figure


def _small_panel(small: dict[tuple[int, int], float]) -> object:
    delays = range(SHOWN)
    figure, axes = figures.panel(f"all strategies, n = {SHOWN}", "delay d", "least regret that can be promised")
    figures.line(axes, delays, [subsampling(SHOWN, d) for d in delays], 6, "V_d(n), formula")
    draw(axes, list(delays), [small[SHOWN, d] for d in delays], 0, "linear programme", linestyle="")
    axes.set_ylim(bottom=0.0)
    figures.legend(axes)
    return figure


def cells(size: Size) -> list[Cell]:
    return list(plays(size).values())


SYSTEM = System("weinberger", Size(), Size(4096, (0, 1, 3, 7, 15, 31, 63), 96), cells, blocks)
