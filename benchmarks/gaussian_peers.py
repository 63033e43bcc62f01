"""GPUCB beside scikit-optimize and BoTorch, whichever can be imported. `python benchmarks/gaussian_peers.py [RUNS]`

Three functions of two numbers on a grid of 10 x 10 points, scaled to mean 0 and deviation 1, seen with noise of
deviation 0.05. Each proposes four points, waits for the four values, and so on: 15 times. What counts is the regret of
a point on average, how far the best of the 60 is from the best of the grid, and the time for one point to be proposed,
telling included.

* belated: `GPUCB(rule="plain")`, a squared exponential of scale 0.2, noise as it is; `bl.batches` of four. Nothing is
  fitted.
* scikit-optimize: `Optimizer(base_estimator="GP", acq_func="LCB")` with its own defaults, on whole numbers; `ask(4)`
  with the constant liar ("cl_min") for points that are out. It fits its covariance.
* BoTorch: `SingleTaskGP` with its own defaults, fitted before each batch; `qUpperConfidenceBound(beta=2)` over the
  points of the grid, one after the other, those of the batch so far being `X_pending`. The first batch is drawn.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

import belated as bl

SIDE, BATCH, BATCHES, NOISE = 10, 4, 15, 0.05
GRID = np.array([(i, j) for i in range(SIDE) for j in range(SIDE)], float) / (SIDE - 1)

Values = Callable[[list[int]], list[float]]


def branin(x: float, y: float) -> float:
    a, b = 15 * x - 5, 15 * y
    return -((b - 5.1 / (4 * math.pi**2) * a * a + 5 / math.pi * a - 6) ** 2) - 10 * (1 - 1 / (8 * math.pi)) * math.cos(
        a
    )


def camel(x: float, y: float) -> float:
    a, b = 4 * x - 2, 2 * y - 1
    return -((4 - 2.1 * a * a + a**4 / 3) * a * a + a * b + (4 * b * b - 4) * b * b)


def ackley(x: float, y: float) -> float:
    a, b = 6 * x - 2, 6 * y - 4
    far = 20 * math.exp(-0.2 * math.sqrt((a * a + b * b) / 2))
    return far + math.exp((math.cos(2 * math.pi * a) + math.cos(2 * math.pi * b)) / 2)


def ours(values: Values) -> None:
    f = bl.Direct(bl.GPUCB(bl.kernels.squared_exponential(GRID, scale=0.2), NOISE**2, rule="plain"))
    for count, batch in enumerate(bl.batches(f, budget=math.inf, most=BATCH), 1):
        for decision, value in zip(batch, values([decision.action for decision in batch]), strict=True):
            f.update(decision.ticket, value)
        if count == BATCHES:
            return


def skopt(values: Values) -> None:
    from skopt import Optimizer

    asked = Optimizer([(0, SIDE - 1)] * 2, base_estimator="GP", acq_func="LCB", random_state=0)
    for _ in range(BATCHES):
        points = asked.ask(BATCH, strategy="cl_min")
        found = values([int(i) * SIDE + int(j) for i, j in points])
        asked.tell(points, [-value for value in found])


def botorch(values: Values) -> None:
    import torch
    from botorch.acquisition import qUpperConfidenceBound
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf_discrete
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(0)
    grid = torch.tensor(GRID)
    points = np.random.default_rng(0).choice(len(GRID), BATCH, replace=False).tolist()
    seen, found = list(points), values(points)
    for _ in range(BATCHES - 1):
        model = SingleTaskGP(grid[seen], torch.tensor(found, dtype=torch.float64)[:, None])
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        chosen, _ = optimize_acqf_discrete(qUpperConfidenceBound(model, beta=2.0), q=BATCH, choices=grid)
        points = [int(((grid - row) ** 2).sum(dim=1).argmin()) for row in chosen]
        seen += points
        found += values(points)


PEERS: dict[str, Callable[[Values], None]] = {"belated": ours, "scikit-optimize": skopt, "BoTorch": botorch}


class Trial:
    """A function to be looked at, with the points that were, and the time that was spent on proposing them."""

    def __init__(self, truth: np.ndarray, run: int) -> None:
        self.truth, self.draws = truth, np.random.default_rng(run)
        self.seen: list[int] = []

    def values(self, points: list[int]) -> list[float]:
        self.seen += points
        found: list[float] = (self.truth[points] + NOISE * self.draws.normal(size=len(points))).tolist()
        return found

    def play(self, propose: Callable[[Values], None]) -> tuple[float, float, float]:
        """The regret of a point, how far the best is away, and seconds a point."""
        start = time.perf_counter()
        propose(self.values)
        spent = time.perf_counter() - start
        away = self.truth.max() - self.truth[self.seen]
        return float(away.mean()), float(away.min()), spent / len(self.seen)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    warnings.simplefilter("ignore")
    Trial(np.zeros(len(GRID)), 0).play(ours)  # loads the compiled code
    times: dict[str, list[float]] = {}
    for name, propose in PEERS.items():
        for function in (branin, camel, ackley):
            truth = np.array([function(x, y) for x, y in GRID])
            truth = (truth - truth.mean()) / truth.std()
            try:
                found = np.array([Trial(truth, run).play(propose) for run in range(runs)])
            except ImportError as error:
                print(f"{name} is left out: {error}")
                break
            regret, away, _ = found.mean(axis=0)
            print(f"{name}, {function.__name__}: regret {regret:.3f} a point, the best is {away:.4f} away")
            times.setdefault(name, []).extend(found[:, 2])
    for name, each in times.items():
        ratio = np.median(each) / np.median(times["belated"])
        print(f"{name}: {1e3 * np.median(each):.3f} ms a point, the median of {len(each)} runs; {ratio:.0f} times ours")


if __name__ == "__main__":
    main()
