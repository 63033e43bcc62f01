"""Agarwal and Duchi 2011: noisy gradients of one smooth loss, told late. Delay adds a term that long runs forget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from belated.delays import Constant
from belated.engine.result import Result
from belated.forecasters import Direct
from belated.games import Quadratic
from belated.learners import GradientDescent
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
from belated.report.stats import Interval, number
from belated.studies.cells import Cell, Play
from belated.studies.paper.beyond.shared import ratio_interval
from belated.studies.paper.related.shared import PROVED, Entry, System, draw, experiment, late_panel
from belated.studies.run import Done
from belated.theory.verdicts import certain

WORDS = Prose(__name__)
CURVATURES, CENTRE = (1.0, 0.8, 0.6, 0.4, 0.2), (0.5, -0.4, 0.3, -0.2, 0.1)
SMOOTH, CLEAR, NOISY = 1.0, Quadratic(CURVATURES, CENTRE), Quadratic(CURVATURES, CENTRE, noise=1.0)
DISTANCE = math.sqrt(sum(c * c for c in CENTRE))
#: Without noise: delays, and rounds, after which next to nothing is added.
DELAYS, ROUNDS = (0, 9, 99, 999), 100_000
LATE, SEED = (0, 10, 30, 100, 300, 1000), 15
#: Units of time, and workers that need as many units for a gradient as there are workers.
UNITS, WORKERS = 16_384, (1, 4, 16, 64)
#: The delay and the horizon of the row of table 1.
ROW = (10_000, 100)


@dataclass(frozen=True)
class Size:
    """How often each horizon is played with noise, and the plays of workers."""

    horizons: tuple[tuple[int, int], ...] = ((1_000, 200), (10_000, 40), (100_000, 4))
    workers: int = 20


def rate(n: int, tau: int, noise: float) -> float:
    """The step for n gradients that are tau late."""
    damped = 1.0 / (8.0 * SMOOTH * (tau + 1))
    return min(damped, DISTANCE / (noise * math.sqrt(1.5 * n))) if noise else damped


def descent(n: int, tau: int, noise: float) -> Direct:
    return Direct(GradientDescent(len(CENTRE), radius=math.inf, rate=rate(n, tau, noise)))


def clear_plays() -> dict[int, Play]:
    return {tau: Play(descent(ROUNDS, tau, 0.0), CLEAR, Constant(tau), ROUNDS, 1, SEED) for tau in DELAYS}


def noisy_plays(size: Size) -> dict[tuple[int, int], Play]:
    """(rounds, delay), the delay shorter than the play."""
    return {
        (n, tau): Play(descent(n, tau, NOISY.noise), NOISY, Constant(tau), n, often, SEED)
        for n, often in size.horizons
        for tau in LATE
        if tau < n
    }


def worker_plays(size: Size) -> dict[tuple[str, int], Play]:
    """(many or one, k): k workers give a gradient each unit, k - 1 late; one worker gives one every k units."""
    many = {
        k: Play(descent(UNITS, k - 1, NOISY.noise), NOISY, Constant(k - 1), UNITS, size.workers, SEED) for k in WORKERS
    }
    one = {
        k: Play(descent(UNITS // k, 0, NOISY.noise), NOISY, Constant(0), UNITS // k, size.workers, SEED)
        for k in WORKERS
    }
    return {("many", k): play for k, play in many.items()} | {("one", k): play for k, play in one.items()}


def blocks(done: Done, size: Size) -> list[Block]:
    clear: dict[int, Result] = {tau: done[play] for tau, play in clear_plays().items()}
    noisy: dict[tuple[int, int], Result] = {key: done[play] for key, play in noisy_plays(size).items()}
    speed = speeds(done, size)
    often = ", ".join(f"{r} of {n:,} rounds" for n, r in size.horizons)
    told = {"curvatures": CURVATURES, "centre": CENTRE, "square": DISTANCE**2, "rounds": ROUNDS, "often": often}
    workers = {"units": UNITS, "workers": size.workers}
    linear = ", ".join(f"{r.mean_regret / (tau + 1):.4f} at τ = {tau}" for tau, r in clear.items())
    faster = "; ".join(f"k = {k}: {times} beside {number(math.sqrt(k))}" for k, times in speed.items() if k > 1)
    return [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        experiment(WORDS("experiment", **told, **workers)),
        finding(
            WORDS("clear"),
            [certain(r.mean_regret, r.bound or math.inf) for r in clear.values()],
            WORDS("clear detail", listed=linear),
        ),
        finding(WORDS("noisy"), [r.judge(family=len(noisy)) for r in noisy.values()]),
        forgotten(noisy, size),
        Finding(WORDS("workers"), "shown", WORDS("workers detail", listed=faster)),
        _too_fast(done),
        Drawing("related-smooth-clear", _clear_panel(clear), WORDS("clear caption", rounds=ROUNDS)),
        Drawing("related-smooth-noise", _noise_panel(noisy, size), WORDS("noisy caption", often=often)),
        Drawing("related-smooth-workers", _worker_panel(speeds(done, size, 0.95)), WORDS("workers caption", **workers)),
        Rows(
            ("rounds", "τ", "replications", "regret", "± 95%", "bound", "verdict"),
            [
                [n, tau, r.replications, r.mean_regret, r.spread, r.bound, r.judge(family=len(noisy))]
                for (n, tau), r in noisy.items()
            ],
            WORDS("cells caption"),
            folded=True,
        ),
    ]


def forgotten(noisy: dict[tuple[int, int], Result], size: Size) -> Finding:
    """What a delay of 100 multiplies regret by, at each horizon: less and less."""
    tau = ROW[1]
    times = {
        n: ratio_interval(noisy[n, tau].regret[:, -1], noisy[n, 0].regret[:, -1], family=len(size.horizons))
        for n, _ in size.horizons
    }
    means = [each.mean for each in times.values()]
    apart = all(a.low > b.high for a, b in zip(list(times.values()), list(times.values())[1:], strict=False))
    word = "likely holds" if apart else "unclear" if means == sorted(means, reverse=True) else "likely fails"
    listed = "; ".join(f"n = {n:,}: {each}" for n, each in times.items())
    return Finding(WORDS("forgotten", tau=tau), word, WORDS("forgotten detail", listed=listed))


def speeds(done: Done, size: Size, level: float = 0.99) -> dict[int, Interval]:
    """The average regret of one worker over that of k, in the same time."""
    plays = worker_plays(size)
    found = {}
    for k in WORKERS:
        many, one = (done[plays[who, k]] for who in ("many", "one"))
        found[k] = ratio_interval(one.regret[:, -1] / one.rounds, many.regret[:, -1] / many.rounds, level)
    return found


def hasty_play() -> Play:
    """The step that is right for 1,000 rounds without delay, under a delay of 300."""
    return Play(descent(1_000, 0, NOISY.noise), NOISY, Constant(300), 10_000, 1, SEED)


def _too_fast(done: Done) -> Finding:
    result: Result = done[hasty_play()]
    return Finding(
        WORDS("hasty"),
        "holds" if result.mean_regret > 1e6 else "fails",
        WORDS("hasty detail", regret=result.mean_regret),
    )


def _clear_panel(clear: dict[int, Result]) -> Any:
    figure, axes = late_panel("no noise", "regret", DELAYS)
    x = [tau + 1 for tau in DELAYS]
    draw(axes, x, [r.mean_regret for r in clear.values()], 0, "measured")
    figures.line(axes, x, [r.bound or math.nan for r in clear.values()], 6, "bound, 12.8 β R² (τ + 1)")
    figures.legend(axes)
    return figure


def _noise_panel(noisy: dict[tuple[int, int], Result], size: Size) -> Any:
    figure, axes = late_panel("noise of variance 1", "regret, times that at τ = 0", LATE)
    for at, (n, _) in enumerate(size.horizons):
        late = [tau for tau in LATE if (n, tau) in noisy]
        found = [ratio_interval(noisy[n, tau].regret[:, -1], noisy[n, 0].regret[:, -1], 0.95) for tau in late]
        x = [tau + 1 for tau in late]
        draw(axes, x, [i.mean for i in found], at, f"n = {n:,}")
        ends = (
            [i.low if tau else 1.0 for tau, i in zip(late, found, strict=True)],
            [i.high if tau else 1.0 for tau, i in zip(late, found, strict=True)],
        )
        axes.fill_between(x, *ends, color=figures.COLORS[at], alpha=0.18, linewidth=0)
    figures.legend(axes)
    return figure


def _worker_panel(speed: dict[int, Interval]) -> Any:
    figure, axes = figures.panel("workers", "workers k", "average regret of one / of k", xscale="log", yscale="log")
    draw(axes, list(speed), [i.mean for i in speed.values()], 0, "measured")
    several = {k: each for k, each in speed.items() if k > 1}
    axes.vlines(list(several), [i.low for i in several.values()], [i.high for i in several.values()], color="black")
    figures.line(axes, list(speed), [math.sqrt(k) for k in speed], 6, "√k")
    axes.set_xticks(list(speed), labels=[str(k) for k in speed])
    axes.set_yticks([1, 2, 4, 8], labels=["1", "2", "4", "8"])
    figures.legend(axes)
    return figure


def cells(size: Size) -> list[Cell]:
    return [*clear_plays().values(), *noisy_plays(size).values(), *worker_plays(size).values(), hasty_play()]


def rows(size: Size) -> dict[str, Any]:
    n, tau = ROW
    late, now = (noisy_plays(size)[n, each] for each in (tau, 0))

    def entry(done: Done) -> Entry:
        result, base = done[late], done[now]
        verdict = result.judge()
        what = f"direct(gradientdescent), fixed steps, Constant({tau}), a quadratic loss with noise 1, {n:,} rounds"
        side = f"1.6 (R²/η + 1.5 n η variance), linear in τ; {PROVED}"
        return Entry(what, result.mean_regret, base.mean_regret, result.bound, verdict.word, side)

    return {"agarwal": ([late, now], entry)}


LONG = Size(((1_000, 200), (10_000, 200), (100_000, 200)), 200)
SYSTEM = System("agarwal", Size(), LONG, cells, blocks, rows)
