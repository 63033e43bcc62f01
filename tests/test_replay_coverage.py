"""The referee of replay: every interval that it shows covers what is true, in ordinary, thin, rare and skewed worlds."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
import pytest

import belated as bl
from belated import notation
from belated.replay.estimate import Parts, holds

LEVEL = 0.95


@dataclass(frozen=True)
class World:
    """Actions pay `prize` with some chance and else `usual`; the logger draws by `chances`, or certainly the last."""

    pays: tuple[float, ...]
    chances: tuple[float, ...]
    rounds: int
    prize: float = 1.0
    usual: float = 0.0
    certain: float = 0.0  #: the share of decisions that are certain
    learns: bool = False  #: Thompson sampling, whose probabilities are drawn for: many are exactly 1
    runs: int = 4

    @property
    def means(self):
        return self.usual + (self.prize - self.usual) * np.array(self.pays)

    def log(self, seed):
        """A log, and what the logger's decisions paid in expectation."""
        draws, count = np.random.default_rng(seed), len(self.pays)
        win = draws.random((self.rounds, count)) < self.pays
        law = np.tile(self.chances, (self.rounds, 1))
        law[draws.random(self.rounds) < self.certain] = np.eye(count)[-1]
        if self.learns:
            law = _thompson(win, draws)
        actions = (draws.random((self.rounds, 1)) < law.cumsum(axis=1)).argmax(axis=1)
        rows = np.arange(self.rounds)
        if self.learns:  # the table of wins was used up to learn from: these are the rounds that were played
            actions = _thompson.actions
        rewards = np.where(win[rows, actions], self.prize, self.usual)
        frame = pl.DataFrame(
            {"action": actions, "probability": law[rows, actions], "value": rewards, "decided_at": rows}
        )
        return frame.with_columns(closed_at=pl.col("decided_at") + 3), float((law @ self.means).mean())


def _thompson(win, draws):
    """The law of each round of Thompson sampling, from 50 draws of the posterior; it plays by that law."""
    rounds, count = win.shape
    law, good, bad = np.empty(win.shape), np.ones(count), np.ones(count)
    _thompson.actions = np.empty(rounds, int)
    for t in range(rounds):
        best = draws.beta(good, bad, (50, count)).argmax(axis=1)
        law[t] = np.bincount(best, minlength=count) / 50
        action = _thompson.actions[t] = best[draws.integers(50)]
        good[action] += win[t, action]
        bad[action] += not win[t, action]
    return law


WORLDS = {
    "ordinary": World((0.3, 0.5, 0.7), (1 / 3, 1 / 3, 1 / 3), 600),
    "thin": World((0.3, 0.6), (0.25, 0.75), 160, runs=2),
    "rare": World((0.002, 0.004, 0.02), (0.2, 0.3, 0.5), 800),
    "skewed": World((0.01, 0.02), (0.1, 0.9), 1000, prize=1.0, usual=0.1),
    "common": World((0.99, 0.995), (0.5, 0.5), 400),
    "partly certain": World((0.2, 0.8), (0.5, 0.5), 800, certain=0.7, runs=2),
    "certain more and more": World((0.4, 0.6), (0.5, 0.5), 500, learns=True),
}
POLICIES = ("uniform", "last", "mostly first")


def policies(world):
    count = len(world.pays)
    mostly = np.full(count, 0.2 / (count - 1))
    mostly[0] = 0.8
    laws = {"uniform": np.full(count, 1 / count), "last": np.eye(count)[-1], "mostly first": mostly}
    return {name: dict(enumerate(laws[name].tolist())) for name in POLICIES}


def count_policies(world, logs, start=0):
    """How often each interval for policies, and the logger's, misses."""
    missed, given = Counter(), policies(world)
    for seed in range(start, start + logs):
        frame, played = world.log(seed)
        found = bl.replay(frame, policies=given, level=LEVEL)
        missed["logger"] += not found.logger.contains(played)
        for answer in found.answers:
            value = float(np.dot(list(given[answer.forecaster].values()), world.means))
            missed[f"{answer.forecaster} minus logger"] += not answer.difference.contains(value - played)
            for name, interval in answer.estimates.items():
                missed[f"{answer.forecaster} by {name}"] += not interval.contains(value)
                assert interval.high > interval.low
    return missed


@cache
def course(forecaster, world, rounds):
    """The expected reward of each round of a play."""
    game = bl.games.Bernoulli(list(world.pays))
    made = notation.forecaster(forecaster, actions=len(world.pays))
    played = bl.play(
        made, game, bl.delays.Constant(3), rounds, replications=4000, seed=99, record=True, progress=False
    )
    return world.means[played.actions].mean(axis=0)


def count_lives(world, forecaster, logs, start=0):
    """How often each interval for a forecaster misses."""
    missed, points = Counter(), 0
    for seed in range(start, start + logs):
        frame, played = world.log(seed)
        answer = bl.replay(frame, forecaster, runs=world.runs, level=LEVEL, seed=seed).answers[0]
        expected = course(forecaster, world, world.rounds)
        value = float(expected[: round(answer.rounds)].mean())
        lived = float(world.means[answer.proposed].mean())
        missed["minus logger"] += not answer.difference.contains(value - played)
        for name in answer.estimates:
            missed[f"expected by {name}"] += not answer.estimates[name].contains(value)
            missed[f"lived by {name}"] += not answer.lived[name].contains(lived)
        begin = 0
        for middle, interval in answer.curve:
            end = round(2 * middle - 1 - begin)
            missed["a point of the curve"] += (not interval.contains(expected[begin:end].mean())) / len(answer.curve)
            begin = end
    return missed


def judge(missed, logs):
    """No more misses than three standard errors above what the level allows."""
    allowed = logs * (1 - LEVEL) + 3 * np.sqrt(logs * LEVEL * (1 - LEVEL))
    assert max(missed.values()) <= allowed, missed.most_common(5)
