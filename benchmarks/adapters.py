"""What an adapter costs: River by itself and the same wrapped, in turn, in one run. `python benchmarks/adapters.py`

* Time: blocks of rounds, one by itself and one under Direct, again and again; the median of the ratios.
* Memory: the pickled size of BOLD over a model against G* + 1, each copy having learned the same.
"""

from __future__ import annotations

import itertools
import pickle
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from river import bandit, datasets, linear_model, naive_bayes, proba, tree

import belated as bl

BLOCK = 250
BLOCKS = 200
ARMS = 10
ROWS = list(datasets.Phishing())
POLICIES = [
    bandit.RandomPolicy(seed=1),
    bandit.EpsilonGreedy(epsilon=0.1, seed=1),
    bandit.UCB(delta=1, seed=1),
    bandit.ThompsonSampling(proba.Beta(), seed=1),
    bandit.BayesUCB(seed=1),
]
MODELS = [linear_model.LogisticRegression(), naive_bayes.GaussianNB(), tree.HoeffdingTreeClassifier()]


def policy_rounds(policy: bandit.base.Policy) -> tuple[Callable[[], None], Callable[[], None]]:
    """A round by itself, and a round under Direct."""
    arms, alone, f = list(range(ARMS)), policy.clone(), bl.Direct(bl.adapters.river.bandit(policy, ARMS))

    def bare() -> None:
        for _ in range(BLOCK):
            arm = alone.pull(arms)
            alone.update(arm, 1.0)

    def wrapped() -> None:
        for _ in range(BLOCK):
            decision = f.predict()
            f.update(decision.ticket, 1.0)

    return bare, wrapped


def model_rounds(model: object) -> tuple[Callable[[], None], Callable[[], None]]:
    alone, f = model.clone(), bl.Direct(bl.adapters.river.classifier(model))  # type: ignore[attr-defined]
    one, two = itertools.cycle(ROWS), itertools.cycle(ROWS)

    def bare() -> None:
        for x, y in itertools.islice(one, BLOCK):
            alone.predict_one(x)
            alone.learn_one(x, y)

    def wrapped() -> None:
        for x, y in itertools.islice(two, BLOCK):
            decision = f.predict(x)
            f.update(decision.ticket, y)

    return bare, wrapped


def overhead(bare: Callable[[], None], wrapped: Callable[[], None], blocks: int) -> tuple[float, float, float]:
    """Microseconds of a round by itself and wrapped (medians), and the median of the ratios, less 1."""
    times = [(seconds(bare), seconds(wrapped)) for _ in range(blocks)]
    alone, under = (statistics.median(column) * 1e6 / BLOCK for column in zip(*times, strict=True))
    return alone, under, statistics.median(w / b for b, w in times) - 1.0


def seconds(work: Callable[[], None]) -> float:
    started = time.thread_time()
    work()
    return time.thread_time() - started


def sizes() -> Iterator[tuple[int, int]]:
    """G* and the pickled size of BOLD over naive Bayes; each copy has learned twenty labels."""
    for peak in (0, 1, 10, 50, 100, 200, 400):
        f = bl.BOLD(bl.adapters.river.classifier(naive_bayes.GaussianNB()))
        for number in range(20):
            tickets = [(f.predict(ROWS[number][0]).ticket, ROWS[number][1]) for _ in range(peak + 1)]
            for ticket, label in tickets:
                f.update(ticket, label)
        yield f.peak, len(pickle.dumps(f))


def main() -> None:
    print(f"{'wrapped, under Direct':28}{'alone us':>10}{'wrapped us':>12}{'overhead':>10}")
    for policy in POLICIES:
        alone, under, ratio = overhead(*policy_rounds(policy), BLOCKS)
        print(f"{type(policy).__name__ + f', {ARMS} arms':28}{alone:10.2f}{under:12.2f}{ratio:10.1%}")
    for model in MODELS:
        alone, under, ratio = overhead(*model_rounds(model), BLOCKS // 8)
        print(f"{type(model).__name__:28}{alone:10.2f}{under:12.2f}{ratio:10.1%}")
    measured = np.array(list(sizes()), float)
    instances = measured[:, 0] + 1.0
    slope, intercept = np.polyfit(instances, measured[:, 1], 1)
    off = np.abs(measured[:, 1] / (slope * instances + intercept) - 1.0)[1:].max()
    print("\nBOLD over naive Bayes, pickled:")
    for peak, size in measured:
        print(f"  G* = {peak:4.0f}: {size / 1e3:8.1f} kB, {size / (peak + 1) / 1e3:6.2f} kB for each of G* + 1 copies")
    print(f"  {slope:.0f} (G* + 1) + {intercept:.0f} bytes fits all but the first within {off:.1%}")


if __name__ == "__main__":
    main()
