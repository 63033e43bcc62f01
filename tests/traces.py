"""Plays every learner under every forecaster and prints the actions: run compiled and in plain Python, then compared.

python -m tests.traces FILE
"""

from __future__ import annotations

import sys

import numpy as np

import belated as bl
from belated.checks.contract import allowed, arena

ROUNDS = 60


def traces() -> dict[str, np.ndarray]:
    """Actions and probabilities of one short run each; geometric delays, with an expiry."""
    found = {}
    for name, make in bl.catalog.LEARNERS.items():
        learner = make.example()
        for forecaster in allowed(learner):
            game = arena(learner, ROUNDS)
            run = bl.play(
                forecaster(learner),
                game,
                bl.delays.Geometric(mean=6),
                rounds=ROUNDS,
                replications=2,
                expiry=20,
                threads=1,
                record=True,
                seed=11,
            )
            said = [run.actions.ravel(), run.probabilities.ravel()]  # points have several numbers a round
            found[f"{forecaster.__name__} {name}"] = np.concatenate(said)
            found[f"{forecaster.__name__} {name} counts"] = np.concatenate([run.peak, run.instances, run.steps])
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], **traces())
