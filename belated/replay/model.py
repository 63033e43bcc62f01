"""What a reward will be, from the rounds before: the model of the doubly robust estimate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from belated.protocols import Floats
from belated.replay.log import Log, Whole

#: The model is fitted anew so many times on the way through the log.
FITS = 50
#: The weight of the prior, in rounds: an action of which nothing is known is expected to earn 1/2.
RIDGE = 1.0


class Forward:
    """A ridge regression for each action on the side information (without any its mean), fitted to earlier rounds only.

    A model that had seen the round itself, or later ones, could let a learning logger's later choices leak into
    its estimate; one from the past leaves the doubly robust estimate without bias, however bad it is.
    """

    def __init__(self, log: Log) -> None:
        rows = log.rows
        features = np.ones((len(rows), 1)) if log.context is None else np.c_[np.ones(len(rows)), log.context[rows]]
        self._features = features
        self._edges = np.unique(np.linspace(0, len(rows), FITS + 1).round().astype(np.int64))
        size = features.shape[1]
        gram = np.tile(RIDGE * np.eye(size), (log.actions, 1, 1))
        told = np.zeros((log.actions, size))
        self._weights = np.zeros((len(self._edges) - 1, log.actions, size))
        rewards, actions = log.reward[rows] - 0.5, log.action[rows]
        for fit, (start, stop) in enumerate(pairwise(self._edges)):
            self._weights[fit] = np.linalg.solve(gram, told[..., None])[..., 0]
            for action in range(log.actions):
                mine = start + np.flatnonzero((actions[start:stop] == action) & ~np.isnan(rewards[start:stop]))
                gram[action] += features[mine].T @ features[mine]
                told[action] += features[mine].T @ rewards[mine]

    def __call__(self, actions: Whole) -> Floats:
        """What the model expects in each usable row of the log if it is these actions that are played."""
        expected = np.empty(len(actions))
        for fit, (start, stop) in enumerate(pairwise(self._edges)):
            weights = self._weights[fit][actions[start:stop]]
            expected[start:stop] = (weights * self._features[start:stop]).sum(axis=1)
        return np.clip(expected + 0.5, 0.0, 1.0)
