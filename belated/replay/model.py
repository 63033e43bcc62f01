"""What a reward will be, from the rounds before: the model of the doubly robust estimate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from belated.protocols import Floats
from belated.replay.log import Log, Whole

#: The model is fitted anew so many times on the way through the log, and whenever the rounds have doubled.
FITS = 50
#: The weight of the prior, in rounds: of an action of which nothing is known what all rounds paid so far is expected.
RIDGE = 5.0


class Forward:
    """A ridge regression for each action on the side information (without any its mean), fitted to earlier rounds only.

    A model that had seen the round itself, or later ones, could let a learning logger's later choices leak into
    its estimate; one from the past leaves the doubly robust estimate without bias, however bad it is. It is drawn
    towards the mean of all earlier rewards; before there is any it expects 0, and the estimate is inverse propensity.
    """

    def __init__(self, log: Log) -> None:
        rows, count = log.rows, len(log.rows)
        features = np.ones((count, 1)) if log.context is None else np.c_[np.ones(count), log.context[rows]]
        self._features = features
        doubled = 2 ** np.arange(4, max(count, 16).bit_length())
        even = np.linspace(0, count, FITS + 1).round().astype(np.int64)
        self._edges = np.unique(np.concatenate([even, doubled[doubled < count]]))
        size = features.shape[1]
        gram = np.tile(RIDGE * np.eye(size), (log.actions, 1, 1))
        earned, rounds = np.zeros((log.actions, size)), np.zeros((log.actions, size))
        self._weights = np.zeros((len(self._edges) - 1, log.actions, size))
        self._means = np.zeros(len(self._edges) - 1)
        paid, many = 0.0, 0
        rewards, actions = log.reward[rows], log.action[rows]
        for fit, (start, stop) in enumerate(pairwise(self._edges)):
            self._means[fit] = paid / max(many, 1)
            told = earned - self._means[fit] * rounds
            self._weights[fit] = np.linalg.solve(gram, told[..., None])[..., 0]
            known = start + np.flatnonzero(~np.isnan(rewards[start:stop]))
            paid, many = paid + float(rewards[known].sum()), many + len(known)
            known = known[np.argsort(actions[known], kind="stable")]
            ends = np.flatnonzero(np.diff(actions[known])) + 1
            for mine in np.split(known, ends) if len(known) else ():
                action = actions[mine[0]]
                gram[action] += features[mine].T @ features[mine]
                earned[action] += features[mine].T @ rewards[mine]
                rounds[action] += features[mine].sum(axis=0)

    def __call__(self, actions: Whole) -> Floats:
        """What the model expects in each usable row of the log if it is these actions that are played."""
        expected = np.empty(len(actions))
        for fit, (start, stop) in enumerate(pairwise(self._edges)):
            weights = self._weights[fit][actions[start:stop]]
            expected[start:stop] = self._means[fit] + (weights * self._features[start:stop]).sum(axis=1)
        return np.clip(expected, 0.0, 1.0)

    def under(self, chances: Floats, group: Whole) -> tuple[Floats, Floats]:
        """What it expects under a policy, which plays by row `group` of these chances; and of its best action."""
        expected, best = np.empty(len(group)), np.empty(len(group))
        for fit, (start, stop) in enumerate(pairwise(self._edges)):
            each = self._means[fit] + self._features[start:stop] @ self._weights[fit].T
            each = np.clip(each, 0.0, 1.0)
            expected[start:stop] = (each * chances[group[start:stop]]).sum(axis=1)
            best[start:stop] = each.max(axis=1)
        return expected, best
