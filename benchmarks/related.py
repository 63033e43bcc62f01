"""Learners of points, labels and policies: decisions a second; and beside River's linear models on the same rows.

    python benchmarks/related.py            # about a minute
    python benchmarks/related.py --passes 9

Pass after pass everything is timed in turn, on one thread, and the best of each counts; in time of the processor, so
that a busy machine does not decide. Ours is the whole call of `belated.play` under Direct and a constant delay of 100;
compilation, and the best weights in hindsight that a game of rows compares with, come before the clock starts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import numpy as np
from river import datasets, evaluate, linear_model, metrics
from rows import table
from setting import DELAY

import belated as bl

SIZE, FEATURES = 10, 20
ROUNDS = 1_000_000
ROWS, TIMES = 20_000, 50
"""Rows of a game of rows, and how often they are played: the learner starts anew each time."""
PASSES = 5

WAYS = {
    "ours": ("play, 100,000 rows", 30.0, 100.0),
    "once": ("play, the dataset once", 0.0, 0.0),
    "in_process": ("predict and update", 0.0, 0.0),
}
"""What is held against River, and how many times as fast it should be, at least and at best."""

Play = Callable[[], int]
"""Does the work, and says how many decisions it was."""


def play(learner: bl.Learner, game: bl.Game, rounds: int, times: int = 1) -> Play:
    """Direct over the learner."""
    forecaster = bl.Direct(learner)

    def once() -> int:
        bl.play(forecaster, game, bl.delays.Constant(DELAY), rounds, times, threads=1, progress=False)
        return rounds * times

    return once


def points() -> Iterator[tuple[str, Play, float]]:
    """What is played, and how many decisions a second it should make at least."""
    draws = np.random.default_rng(0)
    rows, truth = draws.normal(size=(ROWS, FEATURES)), draws.normal(size=FEATURES)
    bowl = bl.games.Quadratic(np.linspace(0.2, 1.0, SIZE).tolist(), np.linspace(-0.3, 0.3, SIZE).tolist())
    losses = bl.games.LinearLosses(draws.uniform(-0.3, 0.3, size=(ROWS, SIZE)), domain="simplex")
    numbers = bl.games.Regression(rows[:, :SIZE], rows[:, :SIZE] @ truth[:SIZE])
    labels = bl.games.Labels(rows, (rows @ truth > 0).astype(float))
    for name, learner, game, least in (
        ("GradientDescent, adaptive", bl.GradientDescent(SIZE), bowl, 3e6),
        ("GradientDescent, tau given", bl.GradientDescent(SIZE, tau=DELAY), bowl, 3e6),
        ("AdaptiveRevision", bl.AdaptiveRevision(SIZE), bowl, 3e6),
        ("DualAveraging", bl.DualAveraging(SIZE, 1.0, 1.0, 0.5, DELAY), bowl, 3e6),
        ("LinearDescent", bl.LinearDescent(SIZE, lipschitz=60.0), numbers, 3e6),
        ("Perceptron", bl.Perceptron(FEATURES), labels, 5e6),
        ("GradientDescent, entropic", simplex("entropic"), losses, 0.0),
        ("GradientDescent, simplex", simplex("euclidean"), losses, 0.0),
    ):
        size = f"{FEATURES} features" if game is labels else f"size {SIZE}"
        longest = game.longest()
        work = play(learner, game, ROUNDS) if longest is None else play(learner, game, longest, TIMES)
        yield f"{name}, {size}", work, least
    policies, means = draws.integers(0, 4, (20, 10)).tolist(), draws.random((10, 4)).tolist()
    segments = bl.games.Grouped([bl.games.Bernoulli(row) for row in means], policies=policies)
    for choose, least in ((bl.PolicyElimination, 2e5), (bl.RandomizedUCB, 0.0)):
        name = f"{choose.__name__}, 20 policies, 10 contexts, 4 actions"
        yield name, play(choose(policies, None, 4), segments, ROUNDS // 4), least


def simplex(steps: str) -> bl.GradientDescent:
    return bl.GradientDescent(SIZE, domain="simplex", steps=steps)


class Rows:
    """A dataset of River, standardised and with a constant column, again and again: for both sides the same."""

    def __init__(self, dataset: Any, again: int, binary: bool) -> None:
        given = list(dataset)
        X = np.array([list(x.values()) for x, _ in given], float)
        y = np.array([float(label) for _, label in given])
        X = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(len(X))])
        y = y if binary else (y - y.mean()) / y.std()
        self.X, self.y, self.binary = np.tile(X, (again, 1)), np.tile(y, again), binary
        self.dicts = [
            (dict(enumerate(x[:-1])), bool(label) if binary else label)
            for x, label in zip(X.tolist(), y.tolist(), strict=True)
        ]

    @property
    def loss(self) -> str:
        return "logistic" if self.binary else "squared"

    def learner(self, loss: str | None = None) -> bl.LinearDescent:
        longest = float(np.sqrt((self.X**2).sum(axis=1)).max())
        return bl.LinearDescent(self.X.shape[1], radius=3.0, lipschitz=longest, loss=loss)

    def ours(self, count: int | None = None) -> Play:
        X, y = self.X[:count], self.y[:count]
        return play(self.learner(), bl.games.Regression(X, y, self.loss, radius=3.0), len(y))

    def once(self) -> Play:
        """The dataset once: what a call of `play` costs beside its rounds is seen then."""
        return self.ours(len(self.dicts))

    def in_process(self) -> Play:
        """Row by row, as in a program: predict now, update a hundred rows later."""
        rows = list(zip(self.X[: len(self.dicts)], self.y.tolist(), strict=False))

        def once() -> int:
            f, waiting = bl.Direct(self.learner(self.loss)), []
            for x, label in rows:
                waiting.append((f.predict(x).ticket, label))
                if len(waiting) > DELAY:
                    f.update(*waiting.pop(0))
            return len(rows)

        return once

    def river(self) -> Play:
        """River's own, with its own steps; in its words feedback that is usable in the next round is 1 late."""

        def once() -> int:
            model: Any = linear_model.LogisticRegression() if self.binary else linear_model.LinearRegression()
            metric: Any = metrics.LogLoss() if self.binary else metrics.MSE()
            evaluate.progressive_val_score(iter(self.dicts), model, metric, delay=DELAY + 1)
            return len(self.dicts)

        return once


def best(works: dict[str, Play], passes: int) -> dict[str, float]:
    """Decisions a second of each, timed in turn, the best of all passes."""
    found = dict.fromkeys(works, 0.0)
    for number in range(passes + 1):
        for name, work in works.items():
            began = process_time()
            made = work()
            if number:  # the first compiles
                found[name] = max(found[name], made / (process_time() - began))
    return found


def verdict(value: float, least: float, aim: float) -> str:
    return "for reading" if not least else "aim" if value >= aim else "ok" if value >= least else "MISSED"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passes", type=int, default=PASSES)
    passes = parser.parse_args().passes
    listed = list(points())
    rates = best({name: work for name, work, _ in listed}, passes)
    lines = [
        [name, f"{rates[name]:,.0f}", f"{least:,.0f}" if least else "-", verdict(rates[name], least, least)]
        for name, _, least in listed
    ]
    print(table(lines, ["Direct, constant delay 100", "decisions/s", "at least", "verdict"]), end="\n\n")

    both = {
        "TrumpApproval, LinearRegression": Rows(datasets.TrumpApproval(), 100, binary=False),
        "Phishing, LogisticRegression": Rows(datasets.Phishing(), 80, binary=True),
    }
    works = {f"{name}: {who}": getattr(rows, who)() for name, rows in both.items() for who in ("river", *WAYS)}
    rates = best(works, passes)
    lines = []
    for name in both:
        theirs = rates[f"{name}: river"]
        for who, (what, least, aim) in WAYS.items():
            ratio = rates[f"{name}: {who}"] / theirs
            figures = [f"{x:g}x" if least else "-" for x in (least, aim)]
            numbers = [f"{rates[f'{name}: {who}']:,.0f}", f"{theirs:,.0f}", f"{ratio:,.1f}x"]
            lines.append([f"{name}: {what}", *numbers, *figures, verdict(ratio, least, aim)])
    print(table(lines, ["labels 100 late", "ours (rows/s)", "River (rows/s)", "ratio", "at least", "aim", "verdict"]))


if __name__ == "__main__":
    main()
