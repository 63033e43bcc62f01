"""The published table of Heuillet, Ahmad, Durand (ICML 2024), played here: ``python benchmarks/heuillet.py``.

Apple tasting and label-efficient prediction, 96 folds of 20,000 rounds, pseudo-regret at the end. A fold has its own
law of the outcome: near one half ("balanced") or far from it ("imbalanced"). CBP is deterministic and its numbers come
out to the last digit; RandCBP draws its own numbers, so its cells agree within sampling error.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

import belated as bl

FOLDS = 96
ROUNDS = 20_000
GAMES: dict[str, Callable[..., bl.games.Monitoring]] = {
    "apple tasting": bl.games.apple_tasting,
    "label efficient": bl.games.label_efficient,
}
LEARNERS = {"CBP": bl.CBP, "RandCBP": bl.RandCBP}


def balanced() -> float:
    """The probability of outcome 0 near one half."""
    return np.random.uniform(0.4, 0.6)


def imbalanced() -> float:
    """The probability of outcome 0 far from one half."""
    return np.random.uniform(0, 0.2) if np.random.random() < 0.5 else np.random.uniform(0.8, 1)


def folds(draw: Callable[[], float], count: int = FOLDS) -> list[tuple[list[float], np.ndarray]]:
    """The law and the outcomes of each fold. (NumPy's old generator: the protocol says so.)"""
    np.random.seed(1)
    chances = [draw() for _ in range(FOLDS)][:count]
    made = []
    for fold, p in enumerate(chances):
        np.random.seed(fold)
        made.append(([p, 1 - p], np.random.choice(2, p=[p, 1 - p], size=ROUNDS)))
    return made


def regrets(learner: type[bl.Learner], game: Callable[..., bl.games.Monitoring], draw: Callable[[], float]) -> list:
    """The pseudo-regret of each fold. The fold is the seed of what the learner draws."""
    found = []
    for fold, (law, outcomes) in enumerate(folds(draw)):
        played = game(law=law, trace=outcomes)
        who = bl.Direct(learner(played.loss, played.symbols))
        result = bl.play(who, played, bl.delays.Constant(0), rounds=ROUNDS, seed=fold, threads=1, progress=False)
        found.append(float(result.regret[0, -1]))
    return found


def main() -> None:
    """All eight cells."""
    print(f"{'learner':8} {'game':16} {'law':11} {'mean':>9} {'std':>9} {'seconds':>8}")
    for name, learner in LEARNERS.items():
        for title, game in GAMES.items():
            for draw in (imbalanced, balanced):
                start = perf_counter()
                found = regrets(learner, game, draw)
                took = perf_counter() - start
                mean, spread = np.mean(found), np.std(found, ddof=1)
                print(f"{name:8} {title:16} {draw.__name__:11} {mean:9.3f} {spread:9.3f} {took:8.2f}", flush=True)


if __name__ == "__main__":
    main()
