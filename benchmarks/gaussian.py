"""GPUCB: decisions a second, and what delay costs by the three rules. `python benchmarks/gaussian.py [speed|regret]`

* Speed: 100 points under Direct at the constant delay 100, one core, the best of five plays.
* Regret: 40 points on [0, 1], a squared exponential of scale 0.1, noise 0.01, 400 rounds; mean and standard error.
  In batches: of at most 20, with the budget ln(2) / 2, each answered before the next.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import belated as bl

RUNS = 400


def smooth(count: int) -> np.ndarray:
    return bl.kernels.squared_exponential(np.linspace(0.0, 1.0, count), scale=0.1)


def speed(points: int = 100, rounds: int = 20_000) -> None:
    covariance = smooth(points)
    game = bl.games.GaussianProcess(covariance, 0.01)
    for rule in ("bucb", "plain", "stale"):
        f, best = bl.Direct(bl.GPUCB(covariance, 0.01, rule=rule)), 0.0
        bl.play(f, game, bl.delays.Constant(100), 500, threads=1)  # loads the compiled code
        for _ in range(5):
            start = time.perf_counter()
            bl.play(f, game, bl.delays.Constant(100), rounds, threads=1)
            best = max(best, rounds / (time.perf_counter() - start))
        print(f"{points} points, {rule}: {best:,.0f} decisions a second")


def regret(runs: int = RUNS) -> None:
    covariance = smooth(40)
    game = bl.games.GaussianProcess(covariance, 0.01)
    for rule in ("plain", "bucb", "stale"):
        for delay in (0, 10, 50):
            f = bl.Direct(bl.GPUCB(covariance, 0.01, rule=rule))
            r = bl.play(f, game, bl.delays.Constant(delay), 400, replications=runs)
            print(f"{rule:5} delay {delay:2}: regret {r.mean_regret:.1f} +- {r.standard_error:.1f}")
    for rule in ("plain", "bucb", "stale"):
        lost, count = zip(*(in_batches(game, rule, number) for number in range(runs // 4)), strict=True)
        error = np.std(lost) / np.sqrt(len(lost))
        print(f"{rule:5} in batches: regret {np.mean(lost):.1f} +- {error:.1f} in {np.mean(count):.1f} batches")


def in_batches(game: bl.games.GaussianProcess, rule: str, number: int) -> tuple[float, int]:
    """The regret of 400 decisions, each batch answered before the next, and how many batches these were."""
    f, function = bl.Direct(bl.GPUCB(game.covariance, game.noise, rule=rule)), game.function(0, number)
    draws, lost, made = np.random.default_rng(number), 0.0, 0
    for count, batch in enumerate(bl.batches(f, most=20), 1):
        for decision in batch[: 400 - made]:
            lost += function.max() - function[decision.action]
        for decision in batch:
            f.update(decision.ticket, function[decision.action] + game.noise**0.5 * draws.normal())
        made += len(batch)
        if made >= 400:
            return float(lost), count
    raise AssertionError


if __name__ == "__main__":
    for name in sys.argv[1:] or ("speed", "regret"):
        {"speed": speed, "regret": regret}[name]()
