"""The referee of replay: every interval that it shows covers what is true, in ordinary, thin and skewed worlds."""

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import betaincinv

import belated as bl
from belated import notation
from belated.replay.estimate import Rounds, holds, plain

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
        draws, rows, count = np.random.default_rng(seed), np.arange(self.rounds), len(self.pays)
        win = draws.random((self.rounds, count)) < self.pays
        if self.learns:
            law, actions = thompson(win, draws)
        else:
            law = np.tile(self.chances, (self.rounds, 1))
            law[draws.random(self.rounds) < self.certain] = np.eye(count)[-1]
            actions = (draws.random((self.rounds, 1)) < law.cumsum(axis=1)).argmax(axis=1)
        rewards = np.where(win[rows, actions], self.prize, self.usual)
        frame = pl.DataFrame(
            {"action": actions, "probability": law[rows, actions], "value": rewards, "decided_at": rows}
        )
        return frame.with_columns(closed_at=pl.col("decided_at") + 3), float((law @ self.means).mean())


def thompson(win, draws, samples=50):
    """The law of each round of Thompson sampling, from so many draws of the posterior, and what it played by that."""
    law, actions = np.empty(win.shape), np.empty(len(win), int)
    good, bad = np.ones(win.shape[1]), np.ones(win.shape[1])
    for t, wins in enumerate(win):
        best = draws.beta(good, bad, (samples, len(wins))).argmax(axis=1)
        law[t] = np.bincount(best, minlength=len(wins)) / samples
        action = actions[t] = best[draws.integers(samples)]
        good[action] += wins[action]
        bad[action] += not wins[action]
    return law, actions


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
    if forecaster == "direct(uniform)":
        return np.full(rounds, world.means.mean())
    game = bl.games.Bernoulli(list(world.pays))
    made = notation.forecaster(forecaster, actions=len(world.pays))
    played = bl.play(made, game, bl.delays.Constant(3), rounds, replications=4000, seed=99, record=True, progress=False)
    return world.means[played.actions].mean(axis=0)


def count_lives(world, forecaster, logs, start=0):
    """How often each interval for a forecaster misses."""
    missed = Counter()
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


@pytest.mark.parametrize("name", ["ordinary", "thin", "rare"])
def test_intervals_for_policies_cover(name):
    judge(count_policies(WORLDS[name], logs=20), 20)


@pytest.mark.parametrize("name", ["thin", "rare"])
def test_intervals_for_forecasters_cover(name):
    judge(count_lives(WORLDS[name], "direct(uniform)", logs=12), 12)


@pytest.mark.soak
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_for_policies_cover_in_many_logs(name):
    judge(count_policies(WORLDS[name], logs=1500), 1500)


@pytest.mark.soak
@pytest.mark.parametrize(
    "forecaster", ["direct(ucb1)", "bold(exp3)", "qpmd(ucb1)", "direct(epsilongreedy(epsilon=0.1))"]
)
@pytest.mark.parametrize("name", ["ordinary", "thin", "rare", "common", "partly certain"])
def test_intervals_for_forecasters_cover_in_many_logs(name, forecaster):
    judge(count_lives(WORLDS[name], forecaster, logs=400), 400)


def binomial(count, wins):
    return holds(plain(np.random.default_rng(0).permutation(np.arange(count) < wins).astype(float)), LEVEL)


@pytest.mark.parametrize(("count", "wins"), [(20, 0), (1000, 0), (1000, 3), (400, 200), (400, 400), (10_000, 38)])
def test_beside_clopper_and_pearson(count, wins):
    """Where theirs is the answer, ours contains it, and is not much wider."""
    low = betaincinv(wins, count - wins + 1, 0.025) if wins else 0.0
    high = betaincinv(wins + 1, count - wins, 0.975) if wins < count else 1.0
    found = binomial(count, wins)
    assert found.low <= low <= found.mean <= high <= found.high
    assert found.high - found.low < 2 * (high - low)


def test_no_reward_is_not_certainty():
    """No reward in n rounds leaves room for about 4 / n."""
    for count in (10, 100, 1000):
        assert 3 / count < binomial(count, 0).high < 6 / count
    frame = (
        WORLDS["rare"]
        .log(0)[0]
        .with_columns(value=pl.lit(0.0))
        .with_columns(value=pl.when(pl.col("decided_at") == 5).then(1.0).otherwise("value"))
    )
    found = bl.replay(frame, policies={"never": {0: 0.0, 1: 0.0, 2: 1.0}, "rest": {0: 0.5, 1: 0.5, 2: 0.0}})
    for answer in found.answers:
        assert answer.thin and "that the estimate rests on: " in answer.warnings[0]
        assert all(interval.high - interval.low > 0.003 for interval in answer.estimates.values())


def test_a_hostile_law_is_covered_too():
    """Rewards that come once in fifty rounds with a weight of fifty: most samples show too few, none shows too much."""
    draws, missed, none = np.random.default_rng(3), Counter(), np.zeros(120)
    for _ in range(100):
        weight = 50.0 * (draws.random(120) < 1 / 50)
        reward = (draws.random(120) < 0.4).astype(float)
        rounds = Rounds(reward, weight, 50.0, none, none, none, weight > 0, False, none.astype(int), none.astype(int))
        for name in rounds.estimators:
            missed[name] += not holds(rounds.parts(name), 0.9).contains(0.4)
    assert max(missed.values()) <= 10, missed
