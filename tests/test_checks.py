"""The contract holds for everything in the catalog, and every check fails on its broken twin."""

from __future__ import annotations

from operator import attrgetter

import pytest

import belated as bl
from belated import checks, delays, games
from belated.checks import CheckFailed, bounds, contract, environment, learner, promises
from tests import broken, broken_kernels, broken_promises

NAMES = attrgetter("__name__")
LEARNERS = [make.example() for make in bl.catalog.LEARNERS.values()]
LAWS = games.laws
GAMES = [
    games.Bernoulli([0.2, 0.5, 0.9]),
    games.Bernoulli([0.2, 0.5, 0.9], "full"),
    games.Arms([LAWS.Bernoulli(0.3), LAWS.Beta(2, 3), LAWS.Uniform(0.2, 0.6), LAWS.TruncatedNormal(0.5, 0.2)]),
    games.Arms([LAWS.Beta(0.5, 0.5), LAWS.TruncatedNormal(1.0, 2.0)], "full"),
    games.RewardTable([[0.0, 1.0], [0.5, 0.25], [1.0, 1.0]] * 20),
    games.RewardTable([[0.0, 1.0], [0.5, 0.25], [1.0, 1.0]] * 20, "full"),
    games.RandomWalk(3),
    games.Switching(3, dynamic=True),
    games.Switching(3),
    games.Block(3, 5),
    games.Replaced(3, 0.05, 4, 4),
    games.Replaced(3, 0.05, announced=True),
    games.apple_tasting(law=[0.3, 0.7]),
    games.dynamic_pricing(prices=3, values=3, trace=[0, 2, 1, 1, 0, 2] * 20),
    games.bartok(law=[0.3, 0.3, 0.4], trace=[0, 2, 1] * 40),
    games.Linear([[0.5, 0.2], [0.1, 0.8], [0.3, 0.3]]),
    games.Linear([[0.5, 0.2], [0.1, 0.8]], "none"),
    games.LinearMonitoring(((1, 0), (0, 1)), (("-", "-"), ("r", "g")), [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]),
    games.Advice([0.2, 0.7], [[1, 0], [0.3, 0.7], [0, 1]]),
    games.RewardTable([[0.0, 1.0], [0.5, 0.25], [1.0, 1.0]] * 20, contexts=[[0.5, -1.0]] * 60),
    games.Grouped([games.Bernoulli([0.2, 0.9]), games.Bernoulli([0.7, 0.3])], [0.4, 0.6]),
    games.Grouped([games.Bernoulli([0.2, 0.9]), games.Bernoulli([0.7, 0.3])], [0.4, 0.6], [[0, 0], [1, 1]]),
    games.LinearLosses([[0.6, -0.8], [-1.0, 0.0], [0.5, 0.5]] * 20, radius=2.0),
    games.LinearLosses([[1.0], [-1.0]] * 30, contexts=[[0.5, -1.0]] * 60),
    games.LinearLosses([[0.6, -0.8], [-1.0, 0.0], [0.5, 0.5]] * 20, domain="box"),
    games.LinearLosses([[0.6, -0.8], [-1.0, 0.0], [0.5, 0.5]] * 20, domain="simplex"),
    games.Quadratic([1.0, 0.5, 0.2], [0.5, -0.5, 1.0], noise=0.5),
    games.Quadratic([1.0, 0.5, 0.2], [0.5, -0.5, 0.2], radius=1.5),
    games.Regression([[1.0, 0.5], [0.2, -0.3], [-1.0, 0.4]] * 20, [0.5, 1.5, -1.0] * 20),
    games.Regression([[1.0, 0.5], [0.2, -0.3], [-1.0, 0.4]] * 20, [0, 1, 1] * 20, "logistic", radius=2.0),
    games.GaussianProcess(((1.0, 0.5, 0.1), (0.5, 1.0, 0.5), (0.1, 0.5, 1.0)), 0.2),
    games.Labels([[1.0, 0.5], [0.2, -0.3], [-1.0, 0.4]] * 20, [0, 1, 2] * 20),
    games.MDP(
        games.grid_world(2, 2, 0.3), [[[1.0] * 4, [0.5] * 4, [0.0] * 4, [0.2] * 4], [[0.1, 0, 0, 1]] * 4], [0, 1] * 40
    ),
    games.Grouped([games.RandomWalk(3), games.RandomWalk(3, start=0.5)], [0.4, 0.6]),
]
DELAYS = [
    delays.Constant(3),
    delays.Uniform(2, 9),
    delays.Geometric(mean=7.5),
    delays.Poisson(mean=2),
    delays.Poisson(mean=300),
    delays.Pareto(mean=20, alpha=1.5),
    delays.Pareto(scale=20, alpha=1.5),
    delays.Pareto(scale=3, alpha=1),
    delays.Pareto(scale=10, alpha=0.6),
    delays.Empirical([0, 1, 1, 30]),
    delays.Trace([0, 5, delays.NEVER, 2] * 30),
    delays.Trace([[0, 5], [delays.NEVER, 2]] * 30),
    delays.PerAction([delays.Constant(1), delays.Lossy(delays.Geometric(mean=4), 0.3)]),
    delays.PerReward([delays.Constant(1), delays.Lossy(delays.Geometric(mean=4), 0.3)]),
    delays.Batched(6),
    delays.Lossy(delays.Poisson(mean=3), 0.2),
    delays.Lossy(delays.Poisson(mean=3), 1e-9),
]


def test_every_entry_of_the_catalog_is_checked():
    assert {type(x).__name__.lower() for x in LEARNERS} == set(bl.catalog.LEARNERS)
    assert {type(x).__name__.lower() for x in GAMES} == set(bl.catalog.GAMES)
    assert {type(x).__name__.lower() for x in DELAYS} == set(bl.catalog.DELAYS)


def test_every_game_of_the_catalog_says_what_its_regret_is_against():
    against = {type(game).__name__: game.comparator for game in GAMES}
    assert None not in against.values()
    assert {name for name, stated in against.items() if stated != "action"} == {
        "Replaced",
        "Linear",
        "LinearMonitoring",
        "Advice",
        "Grouped",
        "Labels",
        "MDP",
    }


#: Learners whose loops are compiled each time, under every forecaster; CI compiles those of all.
EVERYWHERE = (bl.UCB1, bl.Exp3)


@pytest.mark.parametrize("check", [c for c in checks.LEARNER_CHECKS if c is not learner.compiled_is_python], ids=NAMES)
@pytest.mark.parametrize("spec", LEARNERS, ids=repr)
def test_learner(spec, check):
    check(spec)


@pytest.mark.parametrize("spec", [spec for spec in LEARNERS if isinstance(spec, EVERYWHERE)], ids=repr)
def test_learner_compiled(spec):
    learner.compiled_is_python(spec)


@pytest.mark.minutes
@pytest.mark.parametrize("spec", [spec for spec in LEARNERS if not isinstance(spec, EVERYWHERE)], ids=repr)
def test_learner_compiled_under_every_forecaster(spec):
    learner.compiled_is_python(spec)


@pytest.mark.parametrize("check", checks.GAME_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("game", GAMES, ids=lambda g: f"{type(g).__name__}-{g.feedback}")
def test_game(game, check):
    check(game)


@pytest.mark.parametrize("check", checks.DELAY_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("law", DELAYS, ids=lambda d: type(d).__name__)
def test_delays(law, check):
    check(law)


@pytest.mark.parametrize("contexts", [2, 5000])
def test_an_arena_has_as_many_values_as_the_learner(contexts):
    spec = bl.PerContext(bl.UCB1(2), contexts)
    assert contract.arena(spec, 30).values == contexts


BROKEN = [
    (learner.is_a_spec, broken.Changeable(3), {}),
    (learner.predicts_honestly, broken.Boasts(3), {}),
    (learner.predicts_honestly, broken.OutOfRange(3), {}),
    (learner.keeps_all_in_its_state, broken.Hides(3), {}),
    (learner.accepts_skipped_rounds, broken.NeedsAnswers(3), {}),
    (learner.stays_finite, broken.Dissolves(3), {}),
    (learner.answers_to_any_number, broken.Peeks(3), {}),
    (learner.no_delay_is_the_base, bl.UCB1(3), {"forecasters": [broken.Skips]}),
    (learner.bold_interleaves, bl.UCB1(3), {"bold": broken.Shares}),
    (learner.compiled_is_python, bl.UCB1(3), {"forecasters": [broken.OtherKernels]}),
    (learner.compiled_is_python, bl.UCB1(3), {"forecasters": [broken.LearnsTooLate]}),
    (learner.forgets_what_is_replaced, broken.Remembers(3), {}),
    (learner.forgets_what_is_replaced, broken.StartsAnew(3), {}),
    (learner.grows_as_it_replaces, broken.Muddles(3), {}),
    (learner.grows_as_it_replaces, broken.Loosens(3), {}),
    (learner.grows_as_it_replaces, broken.GrowsTwice(3), {}),
    (learner.bound_is_a_bound, broken.Convex(3), {}),
    (environment.rewards_are_in_range, broken.Generous(), {}),
    (environment.rewards_are_in_range, broken.CountsCents(), {}),
    (environment.outcomes_ignore_play, broken.Reacts(), {}),
    (environment.outcomes_ignore_play, broken.Surprises(), {}),
    (environment.outcomes_ignore_play, broken.Overreaches(), {}),
    (environment.any_round_stands_alone, broken.Wanders(), {}),
    (environment.delays_are_delays, broken.Early(), {}),
    (environment.delays_are_delays, broken.TooLate(), {}),
    (environment.mean_is_the_mean, broken.Misstates(), {}),
    (bounds.keeps_to_the_rules, broken_kernels.Draws(), {}),
    (bounds.stays_in_its_arrays, broken_kernels.ReadsBehind(), {}),
    (bounds.looks_at_actions_only_if_it_says, broken_kernels.law_of(broken_kernels.by_action), {}),
    (environment.mean_is_the_mean, broken.Exaggerates(), {}),
    (environment.mean_is_the_mean, broken.Contradicts(), {}),
    (environment.mean_is_the_mean, broken.Understates(), {}),
]


@pytest.mark.parametrize(("check", "wrong", "options"), BROKEN, ids=lambda x: getattr(x, "__name__", None))
def test_check_fails_on_its_broken_twin(check, wrong, options):
    with pytest.raises(CheckFailed):
        check(wrong, **options)


def test_saved_continues_fails_when_tickets_are_forgotten(monkeypatch):
    monkeypatch.setitem(bl.catalog.FORECASTERS, "bold", broken.Forgets)
    monkeypatch.setitem(bl.catalog.TABLES["forecaster"], "forgets", broken.Forgets)
    with pytest.raises(CheckFailed):
        learner.saved_continues(bl.UCB1(3))


def test_refusal_check_fails_when_direct_refuses_nobody(monkeypatch):
    learner.is_refused_where_it_must(broken.Fragile(3))
    monkeypatch.setattr(learner, "Direct", broken.Tolerant)
    with pytest.raises(CheckFailed):
        learner.is_refused_where_it_must(broken.Fragile(3))


def test_plain_data_check_fails_on_a_game_that_changes_its_fields(monkeypatch):
    monkeypatch.setitem(bl.catalog.GAMES, "loses", broken.Loses)
    with pytest.raises(CheckFailed):
        environment.is_plain_data(broken.Loses())


def test_engine_check_fails_on_a_game_with_two_faces(monkeypatch):
    seen = []

    def play(*args, engine, **options):
        seen.append(engine)
        return bl.play(*args, engine=engine, **options | {"seed": len(seen)})

    monkeypatch.setattr(environment, "play", play)
    with pytest.raises(CheckFailed):
        environment.plays_the_same_compiled(games.Switching(3))
    with pytest.raises(CheckFailed):
        environment.delays_ignore_actions_unless_they_say(delays.Geometric(mean=9))


#: What a forecaster owes the learners that ask for more.
OWED = (promises.gives_back_the_memo, promises.ends_every_prediction, promises.keeps_the_order)


def test_every_check_has_a_broken_twin():
    shown = {check.__name__ for check, *_ in (*BROKEN, *broken_promises.TWINS)} | {
        "saved_continues",
        "is_refused_where_it_must",
        "is_plain_data",
        "plays_the_same_compiled",
        "delays_ignore_actions_unless_they_say",
        *("states_what_it_is", "means_are_the_means"),  # test_stated.py has theirs
    }
    everything = (*checks.LEARNER_CHECKS, *checks.GAME_CHECKS, *checks.DELAY_CHECKS, *OWED)
    assert {check.__name__ for check in everything} == shown
