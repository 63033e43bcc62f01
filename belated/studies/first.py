"""A first study: what delay costs, multiplied by BOLD and added by QPM-D and the white-box rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belated import delays, games
from belated.catalog import DelayedUCB1
from belated.engine.play import play
from belated.engine.result import Result
from belated.forecasters import BOLD, QPMD, Forecaster
from belated.learners import UCB1, Exp3
from belated.protocols import Delays, Game

if TYPE_CHECKING:
    import polars

MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
DELAYS = (0, 10, 30, 100, 300, 1000)


@dataclass(frozen=True)
class Cell:
    """One point of the study."""

    problem: str
    forecaster: Forecaster
    game: Game
    law: Delays
    delay: int


def cells() -> list[Cell]:
    """All that is played: a stochastic problem for three forecasters, and an adversary for BOLD over Exp3."""
    k = len(MEANS)
    stochastic = [BOLD(UCB1(k)), QPMD(UCB1(k)), DelayedUCB1(k)]
    chosen = []
    for delay in DELAYS:
        law = delays.Constant(delay)
        chosen += [Cell("Bernoulli arms", f, games.Bernoulli(MEANS), law, delay) for f in stochastic]
        walk = games.RandomWalk(k, feedback="bandit")
        chosen.append(Cell("random-walk adversary", BOLD(Exp3(k)), walk, law, delay))
    return chosen


def run(rounds: int, replications: int, tell: Callable[[int, int], Any]) -> Iterator[tuple[Cell, Result]]:
    """Play every cell; `tell(done, total)` hears of rounds done over the whole study."""
    todo = cells()
    each = rounds * replications
    for number, cell in enumerate(todo):

        def within(done: int, total: int, number: int = number) -> None:
            tell(number * each + done, len(todo) * each)

        result = play(
            cell.forecaster, cell.game, cell.law, rounds=rounds, replications=replications, seed=1, progress=within
        )
        yield cell, result


def table(played: list[tuple[Cell, Result]]) -> polars.DataFrame:
    """One row a cell: regret, peak, bound, verdict."""
    import polars

    rows = [
        {
            "problem": cell.problem,
            "forecaster": repr(cell.forecaster),
            "delay": cell.delay,
            "regret": result.mean_regret,
            "standard error": result.standard_error,
            "peak": float(result.peak.mean()),
            "bound": result.bound,
            "verdict": result.verdict,
        }
        for cell, result in played
    ]
    return polars.DataFrame(rows, schema_overrides={"bound": polars.Float64})


def figure(played: list[tuple[Cell, Result]], path: Path) -> None:
    """Left: regret against the round at one delay. Right: regret at the horizon against the delay."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(drawn)
    left, right = drawn.subplots(1, 2)
    shown = 300
    stochastic = [(c, r) for c, r in played if c.problem == "Bernoulli arms"]
    for number, name in enumerate(dict.fromkeys(repr(c.forecaster) for c, _ in stochastic)):
        own = [(c.delay, r) for c, r in stochastic if repr(c.forecaster) == name]
        color = f"C{number}"
        at = next(r for delay, r in own if delay == shown)
        mean, spread = at.regret.mean(axis=0), at.regret.std(axis=0) / max(1, at.replications) ** 0.5
        left.plot(at.checkpoints, mean, color=color, label=name)
        left.fill_between(at.checkpoints, mean - 1.96 * spread, mean + 1.96 * spread, color=color, alpha=0.2, lw=0)
        right.errorbar(
            [delay for delay, _ in own],
            [r.mean_regret for _, r in own],
            [1.96 * r.standard_error for _, r in own],
            color=color,
            marker="o",
            markersize=4,
            capsize=2,
            label=name,
        )
    left.set(xscale="log", xlabel="round", ylabel="regret", title=f"constant delay {shown}")
    right.set(xscale="symlog", xlabel="delay", ylabel="regret at the horizon", title="the price of delay")
    right.set_xlim(left=-0.5)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    drawn.savefig(path, dpi=150)
