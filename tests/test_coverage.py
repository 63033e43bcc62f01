"""The referee: how often every interval that is shown covers what is true, in ordinary, thin and skewed worlds.

An interval that is said to hold must cover at its level in every world. One that is called approximate must do so where
its approximation is good, and not be far off where values are skewed; where a rare event was not seen at all, nothing
that looks at the values alone can cover, and the tests show that too. Worlds are drawn by NumPy, or played with
learners whose regret is skewed; the long forms are for `make soak`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated.games import label_efficient
from belated.learners import EpsilonGreedy, RandCBP
from belated.report import stats
from belated.report.stats import line_fit, mean_interval, power_fit
from belated.studies.paper.beyond.shared import ratio_interval
from belated.theory.intervals import enough, from_sums, sure
from belated.theory.verdicts import judge, judge_paired

LEVEL = 0.95


@dataclass(frozen=True)
class World:
    """Where values come from: `draw(generator, count)`, with what is true of them."""

    draw: Any
    mean: float
    least: float
    most: float
    skewed: bool = False


def rare(chance, bad=1000.0, good=20.0):
    """Nearly always well, and now and then very badly."""
    return World(
        lambda g, k: np.where(g.random(k) < chance, bad, good + g.uniform(-3, 3, k)),
        chance * bad + (1 - chance) * good,
        0.0,
        bad,
        skewed=True,
    )


WORLDS = {
    "ordinary": World(lambda g, k: g.beta(8, 8, k) * 100, 50.0, 0.0, 100.0),
    "coins": World(lambda g, k: (g.random(k) < 0.3).astype(float), 0.3, 0.0, 1.0),
    "skewed": World(lambda g, k: 200 * g.beta(0.3, 5, k), 200 * 0.3 / 5.3, 0.0, 200.0, skewed=True),
    "rare 1%": rare(0.01),
    "rare 10%": rare(0.1),
    "alike": World(lambda g, k: np.full(k, 7.0), 7.0, -40.0, 40.0),
    "negative": World(lambda g, k: 100 - 2000 * (g.random(k) < 0.02), 60.0, -2000.0, 2000.0, skewed=True),
}


def covered(world, count, times, interval, seed=0):
    """How often an interval of so many values contains the mean."""
    draws = np.random.default_rng(seed)
    inside = 0
    for _ in range(times):
        low, high = interval(world.draw(draws, count))
        inside += low <= world.mean <= high
    return inside / times


def least(level, times):
    """What a share of so many is hardly below, if the chance is `level`."""
    return level - 4 * math.sqrt(level * (1 - level) / times)


def check_sure(name, count, times):
    world = WORLDS[name]
    found = covered(world, count, times, lambda x: sure(x, world.least, world.most, LEVEL))
    assert found >= least(LEVEL, times), (name, count, found)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("count", [2, 30])
def test_the_sure_interval_covers_in_every_world(name, count):
    check_sure(name, count, 60)


@pytest.mark.soak
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("count", [1, 2, 5, 10, 30, 300])
def test_the_sure_interval_covers_in_every_world_long(name, count):
    check_sure(name, count, 1000)


def test_it_also_covers_if_one_goes_on_until_it_is_below_the_mean():
    """More values may be drawn because those so far did not decide."""
    world, draws, wrong = rare(0.02), np.random.default_rng(0), 0
    for _ in range(40):
        values = world.draw(draws, 320)
        stops = (20, 40, 80, 160, 320)
        wrong += any(sure(values[:n], world.least, world.most, LEVEL).high < world.mean for n in stops)
    assert wrong <= 4


def test_no_interval_is_a_point_and_more_values_make_it_shorter():
    few, many = (sure(np.full(k, 7.0), 0.0, 100.0, 0.99) for k in (5, 500))
    assert few.low < many.low < 7.0 < many.high < few.high
    assert math.isinf(mean_interval(np.full(9, 7.0)).high) and math.isinf(mean_interval([7.0]).high)
    assert sure(np.array([7.0, 101.0]), 0.0, 100.0, 0.99) == (-math.inf, math.inf), "the range was wrong"


def test_a_range_of_one_number_is_the_mean():
    assert sure(np.zeros(5), 0.0, 0.0, 0.99) == (0.0, 0.0), "actions that are all alike cost nothing, for sure"
    assert sure(np.ones(5), 0.0, 0.0, 0.99) == (-math.inf, math.inf), "the range was wrong"


def test_so_many_values_are_enough():
    values = WORLDS["ordinary"].draw(np.random.default_rng(1), 30)
    for mean in (30.0, 80.0):
        count = enough(values, mean, 0.0, 100.0, 0.99)
        low, high = sure(np.resize(values, count), 0.0, 100.0, 0.99)
        assert not low <= mean <= high
    assert enough(np.zeros(3), 1.0, 0.0, 1.0, 0.99) is None


# --- what is called approximate ---


def approximate(name, count, times):
    def interval(values):
        found = mean_interval(values, LEVEL)
        return found.low, found.high

    return covered(WORLDS[name], count, times, interval)


def test_the_approximate_interval_covers_where_it_may():
    assert approximate("ordinary", 30, 600) >= least(LEVEL, 600)
    assert approximate("skewed", 30, 600) >= 0.88, "Student's alone: 0.84"
    assert approximate("alike", 30, 5) == 1.0


def test_nothing_that_looks_at_the_values_alone_covers_what_was_not_seen():
    """Why 'likely' is not 'holds': of thirty replications with a chance of 1% to go wrong, none does, as a rule."""
    assert approximate("rare 1%", 30, 200) < 0.5
    check_sure("rare 1%", 30, 60)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "count", "level"),
    [("ordinary", 10, 0.94), ("ordinary", 100, 0.94), ("coins", 30, 0.94), ("skewed", 30, 0.9), ("skewed", 100, 0.93)],
)
def test_the_approximate_interval_covers_about_as_often_as_it_says_long(name, count, level):
    assert approximate(name, count, 10_000) >= level


def lines(draws, skew):
    """Six samples that share their luck, with means 5 x."""
    luck = draws.gamma(1 / skew**2, skew**2, 60) if skew else draws.normal(1, 0.2, 60)
    return [5.0 * x * luck + draws.normal(0, 1, 60) for x in (1, 2, 4, 8, 16, 32)]


def check_fits(times, skew, level):
    x, inside = (1, 2, 4, 8, 16, 32), np.zeros(3)
    for seed in range(times):
        draws = np.random.default_rng(seed)
        samples = lines(draws, skew)
        ratio = ratio_interval(samples[3], samples[2], LEVEL)
        fits = (line_fit(x, samples, LEVEL), power_fit(x, samples, LEVEL))
        inside += [fits[0].contains(5.0), fits[1].contains(1.0), ratio.contains(2.0)]
    assert (inside / times >= level).all(), inside / times


@pytest.fixture
def few_resamples(monkeypatch):
    monkeypatch.setattr(stats, "RESAMPLES", 300)
    stats._weights.cache_clear()
    yield
    stats._weights.cache_clear()


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("skew", [0.0, 0.7])
def test_slopes_exponents_and_ratios_are_about_as_good_as_they_say(skew):
    check_fits(60, skew, 0.85)


@pytest.mark.soak
@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize(("skew", "level"), [(0.0, 0.92), (0.7, 0.9), (1.5, 0.85)])
def test_slopes_exponents_and_ratios_long(skew, level):
    check_fits(1000, skew, level)


# --- verdicts ---


def wrongly(world, count, times, level=LEVEL):
    """How often a bound just below the mean is said to hold for sure, and approximately."""
    draws, words = np.random.default_rng(2), []
    for _ in range(times):
        values = world.draw(draws, count)
        words.append(judge(values, world.mean - 1e-9, world.least, world.most, level=level).word)
    return sum(w.startswith("holds") for w in words) / times, sum(w.startswith("likely holds") for w in words) / times


@pytest.mark.parametrize("name", ["ordinary", "rare 1%", "negative"])
def test_a_false_bound_hardly_ever_holds(name):
    assert wrongly(WORLDS[name], 30, 60)[0] <= 0.1


def test_the_word_likely_is_needed():
    """Student's interval alone says of a false bound that it holds in most of the cases."""
    sure_ones, likely_ones = wrongly(WORLDS["rare 1%"], 30, 100, level=0.99)
    assert sure_ones == 0.0 and likely_ones > 0.5


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in WORLDS if name != "alike"])
@pytest.mark.parametrize("count", [5, 30, 300])
def test_a_false_bound_hardly_ever_holds_long(name, count):
    assert wrongly(WORLDS[name], count, 1000)[0] <= (1 - LEVEL) / 2 + 0.02


@pytest.mark.soak
def test_a_false_penalty_hardly_ever_holds_long():
    draws, wrong = np.random.default_rng(3), 0
    for _ in range(1000):
        allowed = draws.uniform(0, 20, 40)
        extra = allowed + np.where(draws.random(40) < 0.02, 500.0, -10.0) + 1e-9
        wrong += judge_paired(extra, allowed, -600, 600, most_allowed=40, level=LEVEL).word.startswith("holds")
    assert wrong <= 45


# --- learners whose regret is skewed ---


def played(learner, game, rounds, replications):
    plays = bl.play(bl.Direct(learner), game, bl.delays.Constant(0), rounds=rounds, replications=replications, seed=5)
    return World(
        lambda g, k: plays.regret[g.integers(0, replications, k), -1], plays.mean_regret, *plays.regret_range, True
    )


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["greedy", "randcbp", "ucb1"])
def test_regret_of_learners_is_covered_long(kind):
    if kind == "randcbp":
        game = label_efficient(law=(0.4, 0.6))
        world = played(RandCBP(game.loss, game.symbols), game, 500, 2000)
    else:
        learner = EpsilonGreedy(2, epsilon=0.0) if kind == "greedy" else bl.UCB1(2)
        world = played(learner, bl.games.Bernoulli([0.5, 0.6]), 1000, 10_000)
    for count in (10, 30, 100):
        found = covered(world, count, 400, lambda x: sure(x, world.least, world.most, LEVEL))
        assert found >= least(LEVEL, 400), (kind, count, found)
        near = covered(world, count, 400, lambda x: (mean_interval(x, LEVEL).low, mean_interval(x, LEVEL).high))
        assert near >= 0.85, (kind, count, near)


# --- what the service shows: sums only, of rewards that a learner chose to see ---


def arm(draws, chance, rounds, values=(0.0, 1.0)):
    """The sums of an arm that a greedy player sees: it goes on as long as it looks better than 1/2 of the best."""
    count, total, squares = 0, 0.0, 0.0
    for _ in range(rounds):
        if count > 5 and total / count < 0.5 * chance * values[1]:
            break
        reward = values[1] if draws.random() < chance else values[0]
        count, total, squares = count + 1, total + reward, squares + reward * reward
    return count, total, squares


def check_sums(times, chance, rounds, high):
    draws = np.random.default_rng(7)
    inside = 0
    for _ in range(times):
        ends = from_sums(*arm(draws, chance, rounds), 0.0, high, LEVEL)
        inside += ends.low <= chance <= ends.high
    assert inside / times >= least(LEVEL, times), inside / times


@pytest.mark.parametrize(("chance", "rounds", "high"), [(0.5, 100, 1.0), (0.02, 40, 1.0), (0.3, 60, 50.0)])
def test_the_interval_of_an_action_covers(chance, rounds, high):
    check_sums(100, chance, rounds, high)


@pytest.mark.soak
@pytest.mark.parametrize("chance", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("rounds", [3, 30, 1000])
@pytest.mark.parametrize("high", [1.0, 30.0])
def test_the_interval_of_an_action_covers_long(chance, rounds, high):
    check_sums(1000, chance, rounds, high)


def test_rounded_sums_make_the_interval_of_an_action_no_shorter():
    plain = from_sums(1000, 500.0, 500.0, 0.0, 1.0, LEVEL)
    for low, width in ((0.0, 1e-300), (0.0, 1e-308), (0.0, 1e200), (-8e304, 1.6e305), (1e15, 1.0)):
        values = [low + width * each for each in (0.0, 1.0)] * 500
        found = from_sums(1000, sum(values), sum(value * value for value in values), low, low + width, LEVEL)
        ends = [(end / width - low / width) for end in found]
        assert ends[0] <= plain.low + 1e-3 and ends[1] >= plain.high - 1e-3, (low, width)
    assert from_sums(3, math.inf, math.inf, 0.0, 8e307, LEVEL) == (0.0, 8e307)


def test_the_interval_of_an_action_is_no_point_and_stays_in_the_range():
    for count in (0, 1, 2, 1000):
        for value in (-1.0, 0.25, 3.0):
            low, high = from_sums(count, count * value, count * value**2, -1.0, 3.0, LEVEL)
            assert -1.0 <= low < high <= 3.0 and low <= value <= high
    wide, close = (from_sums(1000, 5e4, 2.5e6 + more, 0.0, 100.0, LEVEL) for more in (6e5, 1e-9))
    assert close.high - close.low < wide.high - wide.low, "the less rewards differ, the shorter"
