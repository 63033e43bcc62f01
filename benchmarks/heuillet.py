"""The published table of Heuillet, Ahmad, Durand (ICML 2024), played here: ``python benchmarks/heuillet.py``.

Apple tasting and label-efficient prediction, 96 folds of 20,000 rounds, pseudo-regret at the end. A fold has its own
law of the outcome: near one half ("balanced") or far from it ("imbalanced"). CBP is deterministic and its numbers come
out to the last digit. RandCBP draws its own numbers, and one draw for each fold, as in the publication, is noise: it
has 321 for label-efficient prediction, balanced, where such a table is off by 42 (a standard deviation) from an
expectation of 400 +- 7 here and of 385 +- 6 in a second program (standard errors; 40 draws of each fold each). Stated
is the expectation over what it draws, from many draws of each fold, with its standard error (`error`), and the
standard deviation of a table of one draw for each fold (`one draw`). `folds` is the deviation between folds.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

import belated as bl

FOLDS = 96
ROUNDS = 20_000
DRAWS = 40
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


def regrets(
    learner: type[bl.Learner], game: Callable[..., bl.games.Monitoring], draw: Callable[[], float], draws: int
) -> np.ndarray:
    """The pseudo-regrets, folds x draws. The fold is the seed of what the learner draws."""
    found = []
    for fold, (law, outcomes) in enumerate(folds(draw)):
        played = game(law=law, trace=outcomes)
        who = bl.Direct(learner(played.loss, played.symbols))
        options = {"rounds": ROUNDS, "replications": draws, "seed": fold, "threads": 1, "progress": False}
        found.append(bl.play(who, played, bl.delays.Constant(0), **options).regret[:, -1])
    return np.array(found)


def expectation(found: np.ndarray) -> tuple[float, float, float]:
    """The mean over folds and draws, its standard error over draws, and the standard deviation of one draw a fold."""
    count, draws = found.shape
    once = float(np.sqrt(found.var(axis=1, ddof=1).sum())) / count if draws > 1 else 0.0
    return float(found.mean()), once / draws**0.5, once


def main() -> None:
    """All eight cells."""
    head = f"{'learner':8} {'game':16} {'law':11} {'draws':>5}"
    print(f"{head} {'expected':>9} {'error':>7} {'one draw':>8} {'folds':>9} {'seconds':>8}")
    for name, learner in LEARNERS.items():
        for title, game in GAMES.items():
            for draw in (imbalanced, balanced):
                start = perf_counter()
                draws = DRAWS if learner is bl.RandCBP else 1
                found = regrets(learner, game, draw, draws)
                took = perf_counter() - start
                mean, error, once = expectation(found)
                spread = np.std(found.mean(axis=1), ddof=1)
                line = f"{name:8} {title:16} {draw.__name__:11} {draws:5}"
                print(f"{line} {mean:9.3f} {error:7.3f} {once:8.3f} {spread:9.3f} {took:8.2f}", flush=True)


if __name__ == "__main__":
    main()
