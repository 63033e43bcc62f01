"""Points and gradients, feedback of any range, games that answer, delays that see the reward, a default at expiry,
and bounds in the sum of G_t."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated.checks import contract
from belated.errors import BadPrediction, InvalidArgument, InvalidFeedback, Unsupported
from belated.ledger.experiment import make
from belated.theory import bounds
from tests import ticket_learners as own

GEOMETRIC = bl.delays.Geometric(mean=10)
FORECASTERS = list(bl.catalog.FORECASTERS.values())

# --- points ---


def descend(gradients_of, rounds, size=3, rate=0.5):
    """Projected gradient descent in NumPy."""
    x, played = np.zeros(size), []
    for t in range(1, rounds + 1):
        played.append(x)
        x = np.clip(x - (rate / math.sqrt(t)) * gradients_of(t, x), 0.0, 1.0)
    return np.array(played)


@pytest.mark.parametrize("engine", ["compiled", "python"])
@pytest.mark.parametrize("kind", [bl.BOLD, bl.Direct, bl.Paced])
def test_without_delay_points_are_those_of_gradient_descent(kind, engine):
    gradients = np.random.default_rng(3).normal(size=(200, 3))
    game = bl.games.LinearLosses(gradients)
    r = bl.play(kind(own.Descends()), game, bl.delays.Constant(0), 200, record=True, engine=engine)
    expected = descend(lambda t, x: gradients[t - 1], 200)
    assert r.actions.shape == (1, 200, 3) and r.actions.dtype == np.float64
    assert np.array_equal(r.actions[0], expected)
    regret = (gradients * expected).sum() + np.linalg.norm(gradients.sum(axis=0))
    assert r.regret[0, -1] == pytest.approx(regret)
    assert r.pulls.tolist() == [[200]] and r.certificate


def test_a_decision_is_a_point_and_its_feedback_a_gradient():
    f = bl.BOLD(own.Descends(2), seed=1)
    d = f.predict()
    assert d.action.tolist() == [0.0, 0.0] and d.probability == 1.0
    f.update(d.ticket, [-1.0, 0.25])
    again = f.predict()
    assert again.action.tolist() == [0.5, 0.0]
    again.action[:] = 7.0  # the caller's own
    f.update(again.ticket, np.zeros(2))
    assert f.predict().action.tolist() == [0.5, 0.0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (1.0, "must be 2 numbers, got 1.0"),
        ([1.0, 2.0, 3.0], "must be 2 numbers"),
        ([1.0, math.inf], "must be finite"),
        ([math.nan, 1.0], "must be finite"),
    ],
)
def test_what_is_no_gradient_is_refused(given, said):
    f = bl.Direct(own.Descends(2))
    ticket = f.predict().ticket
    with pytest.raises(InvalidFeedback, match=said):
        f.update(ticket, given)
    f.update(ticket, [1e300, -1e300])


@pytest.mark.parametrize("kind", [bl.BOLD, bl.Direct, bl.Paced])
def test_points_compiled_are_python(kind):
    for law, expiry in contract.laws(300):
        contract.compare(kind(own.Descends()), own.Targets(), law, 300, expiry)


def test_points_are_saved(monkeypatch):
    monkeypatch.setitem(bl.catalog.LEARNERS, "descends", own.Descends)
    f = bl.Direct(own.Descends(), seed=1)
    for t in range(1, 20):
        f.predict()
        if t % 3 == 0:
            f.update(t - 2, [0.1 * t, -0.1, -0.2])
    g = bl.from_bytes(f.to_bytes())
    for each in (f, g):
        each.update(19, [-0.3, 0.1, 0.2])
    assert f.predict().action.tolist() == g.predict().action.tolist()
    assert f.to_bytes() == g.to_bytes()


def test_the_bound_of_gradient_descent_holds_under_bold():
    r = bl.play(bl.BOLD(own.Descends(3, 1.5)), own.Targets(), GEOMETRIC, 2000, replications=4)
    assert r.bound == pytest.approx(bounds.bold(lambda n: 3 * math.sqrt(n), 2000, r.peak))
    assert "holds" in r.verdict and r.mean_regret > 0


def test_who_refuses_points():
    for kind in (bl.QPMD, bl.SDB):
        with pytest.raises(
            Unsupported, match="cannot play Descends: it has no queue for each of endlessly many points"
        ):
            kind(own.Descends())
    with pytest.raises(InvalidArgument, match=r"plays points of 3 numbers, Bernoulli.* takes one of its actions"):
        bl.play(bl.Direct(own.Descends()), bl.games.Bernoulli([0.5]), GEOMETRIC, 10)
    with pytest.raises(InvalidArgument, match=r"plays points of 3 numbers, Targets\(size=2\) takes points of 2"):
        bl.play(bl.Direct(own.Descends()), own.Targets(2), GEOMETRIC, 10)
    with pytest.raises(InvalidArgument, match="plays one of its actions"):
        bl.play(bl.Direct(bl.UCB1(1)), own.Targets(), GEOMETRIC, 10)


def test_the_service_refuses_points(monkeypatch):
    monkeypatch.setitem(bl.catalog.LEARNERS, "descends", own.Descends)
    with pytest.raises(Unsupported, match="plays points, which the service does not keep yet"):
        make("one", ["point"], {"name": "direct", "learner": {"name": "descends"}})


@dataclass(frozen=True)
class Bursts(own.Descends):
    """Its point is infinite from the third on."""

    @staticmethod
    def predict(params, state, context, draw):
        for i in range(len(state.memo)):
            state.memo[i] = math.inf if state.predictions > 2 else 0.0
        return 0, 1.0


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_point_that_is_not_finite_is_the_fault_of_the_learner(engine):
    with pytest.raises(BadPrediction, match=r"Bursts\(.*\) chose the point \[inf, inf, inf\], which is not finite"):
        bl.play(bl.Direct(Bursts()), own.Targets(), GEOMETRIC, 10, engine=engine)


# --- DelayedHedge: open, and a bound in the sum of G_t ---

ROUNDS, RUNS = 800, 8
ADVERSARIES = [
    bl.games.RandomWalk(5, feedback="full"),
    bl.games.Switching(5, feedback="full"),
    bl.games.Block(5, 21, feedback="full"),
]


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
def test_without_delay_delayed_hedge_is_hedge(kind):
    for game in ADVERSARIES:
        one, two = (
            bl.play(kind(learner(5)), game, bl.delays.Constant(0), 500, replications=2, record=True, engine="python")
            for learner in (bl.Hedge, bl.DelayedHedge)
        )
        assert np.array_equal(one.actions, two.actions) and np.array_equal(one.probabilities, two.probabilities)
        assert two.total.tolist() == [0, 0]


@pytest.mark.parametrize("law", [bl.delays.Constant(20), GEOMETRIC, bl.delays.Batched(50)], ids=repr)
@pytest.mark.parametrize("game", ADVERSARIES, ids=lambda g: type(g).__name__)
def test_the_bound_of_delayed_hedge_holds(game, law):
    r = bl.play(bl.Direct(bl.DelayedHedge(5)), game, law, ROUNDS, replications=RUNS)
    assert r.bound == pytest.approx(math.sqrt((ROUNDS + 2 * r.total.mean()) * math.log(5)))
    assert "holds" in r.verdict
    if isinstance(law, bl.delays.Constant):
        assert r.total.tolist() == [20 * ROUNDS - 20 * 21 // 2] * RUNS


@pytest.mark.parametrize("delay", [1, 7, 30])
def test_the_sum_of_outstanding_at_constant_delay(delay):
    for engine in ("compiled", "python"):
        r = bl.play(
            bl.Direct(bl.RoundRobin(2)),
            bl.games.Bernoulli([0.5, 0.5]),
            bl.delays.Constant(delay),
            100,
            2,
            engine=engine,
        )
        assert r.total.tolist() == [delay * 100 - delay * (delay + 1) // 2] * 2


def test_the_learner_counts_what_the_run_counts():
    f = bl.Direct(bl.DelayedHedge(3), seed=0)
    for t in range(1, 101):
        f.predict()
        if t > 7:
            f.update(t - 7, [0.5, 0.2, 0.3])
    assert f._room.seats[0].learner.state["total"][0] == 7 * 100 - 7 * 8 / 2


@pytest.mark.parametrize(
    ("law", "expiry", "said"),
    [
        (bl.delays.PerAction([bl.delays.Constant(i) for i in range(5)]), None, "depend on the action"),
        (own.GoodNewsLast(20), None, "depend on the reward"),
        (GEOMETRIC, 12, "cancelled"),
    ],
)
def test_delayed_hedge_has_no_bound_outside_its_conditions(law, expiry, said):
    r = bl.play(bl.Direct(bl.DelayedHedge(5)), ADVERSARIES[0], law, 300, expiry=expiry, engine="python")
    assert r.bound is None and said in r.bound_reason and r.verdict == "no bound"


# --- feedback of any range ---


def test_a_learner_plays_games_within_its_range():
    learner = own.Wide(2, 0.1)
    contract.compare(bl.Direct(learner), own.Prices(10.0), GEOMETRIC, 300, None)
    with pytest.raises(InvalidArgument, match=r"takes feedback in \[0, 10\], Prices\(top=11.0\) gives \[0, 11\]"):
        bl.play(bl.Direct(learner), own.Prices(11.0), GEOMETRIC, 10)
    with pytest.raises(InvalidArgument, match=r"takes feedback in \[0, 1\]"):
        bl.play(bl.Direct(bl.UCB1(2)), own.Prices(10.0), GEOMETRIC, 10)


def test_a_learner_that_ignores_feedback_plays_games_of_any_range():
    contract.compare(bl.BOLD(bl.RoundRobin(2)), own.Prices(10.0), GEOMETRIC, 300, None)
    contract.compare(bl.BOLD(bl.RoundRobin(2)), own.Prices(10.0), GEOMETRIC, 300, 12, 2.5)


def test_feedback_outside_the_range_is_refused_in_process():
    f = bl.Direct(own.Wide(2))
    ticket = f.predict().ticket
    for value in (-0.1, 10.5, math.inf):
        with pytest.raises(InvalidFeedback, match=r"must lie in \[0, 10\]"):
            f.update(ticket, value)
    f.update(ticket, 10.0)


@dataclass(frozen=True)
class Endless(own.Wide):
    smallest = -math.inf
    largest = math.inf


@dataclass(frozen=True)
class Upward(own.Wide):
    largest = math.inf


@pytest.fixture
def ranged(monkeypatch):
    for each in (own.Wide, Endless, Upward):
        monkeypatch.setitem(bl.catalog.LEARNERS, each.__name__.lower(), each)


def test_the_service_maps_rewards_to_the_range_of_the_learner(ranged):
    names = ["a", "b"]
    spec = {"name": "direct", "learner": {"name": "wide"}}
    made = make("one", names, spec, (100.0, 200.0))
    assert made.feedback(150.0, 0).tolist() == [5.0] and made.feedback(200.0, 0).tolist() == [10.0]
    with pytest.raises(InvalidFeedback, match=r"must lie in \[100, 200\], the reward_range of one, got 201"):
        made.feedback(201.0, 0)
    endless = make("two", names, {"name": "direct", "learner": {"name": "endless"}}, (-50.0, 50.0))
    assert endless.feedback(-7.5, 0).tolist() == [-7.5]
    with pytest.raises(InvalidFeedback, match=r"must lie in \[-50, 50\]"):
        endless.feedback(51.0, 0)
    with pytest.raises(
        InvalidArgument, match=r"reward_range must lie in \[0, inf\], which Upward.* takes, got \(-1, 5\)"
    ):
        make("three", names, {"name": "direct", "learner": {"name": "upward"}}, (-1, 5))
    usual = make("four", names, "direct(ucb1)", (100.0, 200.0))
    assert usual.feedback(150.0, 0).tolist() == [0.5]


def test_a_forecaster_maps_the_range_of_its_user():
    f, g = bl.Direct(bl.UCB1(3), reward_range=(-5, 15)), bl.Direct(bl.UCB1(3))
    for reward in np.random.default_rng(1).random(100):
        one, two = f.predict(), g.predict()
        assert one.action == two.action
        f.update(one.ticket, 20 * reward - 5)
        g.update(two.ticket, min((20 * reward - 5 + 5) / 20, 1.0))
    assert repr(f) == "Direct(UCB1(actions=3), reward_range=(-5.0, 15.0))"
    ticket = f.predict().ticket
    for value in (-5.1, 15.1, math.inf):
        with pytest.raises(InvalidFeedback, match=r"must lie in \[-5, 15\]"):
            f.update(ticket, value)
    h = bl.from_bytes(f.to_bytes())
    h.update(ticket, 15.0)
    assert h.reward_range == (-5, 15) and h.predict().action == _after(f, ticket, 15.0)


def _after(f, ticket, value):
    f.update(ticket, value)
    return f.predict().action


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
def test_with_a_range_of_the_user_a_game_of_that_range_is_played(kind):
    f = kind(bl.UCB1(2), reward_range=(0.0, 10.0))
    contract.compare(f, own.Prices(10.0), GEOMETRIC, 300, 20)
    contract.compare(f, own.Prices(10.0), GEOMETRIC, 300, 12, 2.5)
    with pytest.raises(InvalidArgument, match=r"takes feedback in \[0, 10\], Prices\(top=11.0\) gives \[0, 11\]"):
        bl.play(f, own.Prices(11.0), GEOMETRIC, 300)
    one = bl.play(f, bl.games.Bernoulli([0.2, 0.7]), bl.delays.Constant(0), 300, engine="python")
    two = bl.play(kind(bl.UCB1(2)), bl.games.Bernoulli([0.2, 0.7]), bl.delays.Constant(0), 300, engine="python")
    assert one.bound > two.bound  # ten times as much for gaps that are a tenth


def test_in_a_wider_range_the_bound_is_that_of_smaller_gaps():
    case = bl.Direct(bl.UCB1(2), reward_range=(-1.0, 3.0))
    r = bl.play(case, bl.games.Bernoulli([0.2, 0.7]), bl.delays.Constant(3), 10**5, engine="compiled")
    assert r.bound == pytest.approx(4 * bounds.delayed_ucb1(10**5, [0.125, 0.0], r.peaks[0]))


@pytest.mark.parametrize(
    ("learner", "given", "said"),
    [
        (bl.UCB1(2), (1, 1), r"reward_range\[1\] must be"),
        (bl.UCB1(2), (0, 1, 2), "reward_range must be two numbers"),
        (bl.UCB1(2), (0, math.inf), r"reward_range\[1\] must be"),
        (bl.CBP.example(), (0, 2), "learns from symbol feedback"),
        (own.Descends(), (0, 2), "learns from gradient feedback"),
        (Endless(2), (0, 2), "takes any reward"),
        (lambda: None, (0, 2), "for learners that are specs"),
    ],
)
def test_what_is_no_range(learner, given, said):
    with pytest.raises((InvalidArgument, Unsupported), match=said):
        bl.Direct(learner, reward_range=given)


def test_an_experiment_has_its_own_range():
    with pytest.raises(InvalidArgument, match="reward_range is the experiment's own"):
        make("one", ["a", "b"], {"name": "direct", "learner": {"name": "ucb1"}, "reward_range": [0, 2]})


# --- games that answer to what was played ---


@pytest.mark.parametrize("kind", FORECASTERS)
def test_only_direct_plays_a_game_whose_course_depends_on_play(kind):
    learner = bl.Hedge(2) if kind is bl.Paced else bl.UCB1(2)
    if kind is bl.Direct:
        r = bl.play(kind(learner), own.Lift(), GEOMETRIC, 300)
        assert r.bound is None and "depends on what was played" in r.bound_reason
        contract.compare(kind(learner), own.Lift(), GEOMETRIC, 300, 30)
        return
    with pytest.raises(Unsupported, match=rf"^{kind.__name__}\(.* cannot play Lift\(.*: use Direct$"):
        bl.play(kind(learner), own.Lift(), GEOMETRIC, 300)


# --- delays that see the reward ---


@pytest.mark.parametrize("kind", FORECASTERS)
def test_no_theorem_covers_delays_that_see_the_reward(kind):
    learner = bl.DelayedHedge(2) if kind is bl.Paced else bl.UCB1(2)
    game = bl.games.Bernoulli([0.2, 0.7], learner.feedback)
    contract.compare(kind(learner), game, own.GoodNewsLast(20), 300, None)
    r = bl.play(kind(learner), game, own.GoodNewsLast(20), 300, engine="python", record=True)
    assert r.bound is None
    assert "depend on the reward" in r.bound_reason or kind is bl.Paced
    rewards = (r.delays[0] == 20).sum()
    assert rewards == pytest.approx(r.pulls[0] @ [0.2, 0.7], abs=60) and r.delays.max() == 20


# --- a default at expiry ---


@pytest.mark.parametrize("kind", [each for each in FORECASTERS if each is not bl.Paced])
def test_a_default_is_what_a_reward_of_that_size_would_be(kind):
    """It comes at expiry, and the learner cannot tell it from a reward that came then."""
    rng = np.random.default_rng(1)
    taus = rng.choice([0, 3, 9, 40, bl.NEVER], size=300)
    table = rng.random((300, 2))
    late = taus > 8
    game, law = bl.games.RewardTable(table), bl.delays.Trace(taus)
    contract.compare(kind(bl.UCB1(2)), game, law, 300, 8, 0.25)
    r = bl.play(kind(bl.UCB1(2)), game, law, 300, expiry=8, default=0.25, record=True, engine="python")
    same = bl.games.RewardTable(np.where(late[:, None], 0.25, table))
    told = bl.play(kind(bl.UCB1(2)), same, bl.delays.Trace(np.minimum(taus, 8)), 300, record=True, engine="python")
    assert np.array_equal(r.actions, told.actions)
    assert r.defaulted.tolist() == [late[:292].sum()] and not r.cancelled.any()
    assert r.observed.sum() == told.observed.sum()
    assert r.bound is None and "a default was learned" in r.bound_reason


def test_no_default_was_learned_where_all_came_in_time():
    for engine in ("compiled", "python"):
        game = bl.games.Bernoulli([0.2, 0.7])
        r = bl.play(bl.BOLD(bl.UCB1(2)), game, bl.delays.Constant(5), 300, expiry=5, default=0.0, engine=engine)
        assert r.defaulted.tolist() == [0] and r.bound is not None


def test_a_default_for_a_replaced_action_is_dropped():
    game = bl.games.Replaced(3, 0.05, announced=True)
    contract.compare(bl.Direct(bl.UCB1(3)), game, bl.delays.Geometric(mean=20), 300, 25, 0.5)


@pytest.mark.parametrize(
    ("learner", "game", "options", "said"),
    [
        (bl.Hedge(2), bl.games.Bernoulli([0.2, 0.7], "full"), {"expiry": 5}, "gives full feedback"),
        (own.Descends(), own.Targets(), {"expiry": 5}, "gives gradient feedback"),
        (bl.CBP.example(), contract.arena(bl.CBP.example(), 20), {"expiry": 5}, "gives symbol feedback"),
        (bl.UCB1(2), bl.games.Bernoulli([0.2, 0.7]), {}, "learned at expiry, which is not given"),
        (bl.UCB1(2), bl.games.Bernoulli([0.2, 0.7]), {"expiry": 5, "default": 1.5}, "default must be"),
    ],
)
def test_where_there_is_no_default(learner, game, options, said):
    with pytest.raises((InvalidArgument, Unsupported), match=said):
        bl.play(bl.Direct(learner), game, GEOMETRIC, 10, **{"default": 0.0} | options)


# --- where games and forecasters are taken apart ---


@dataclass(frozen=True)
class Tires(own.Prices):
    """Pays less the longer it is played."""

    reactive: bool = True


def test_groups_of_games():
    grouped = bl.games.Grouped([Tires(10.0), Tires(10.0)])
    assert grouped.reactive and (grouped.smallest, grouped.largest) == (0.0, 10.0)
    assert not bl.games.Grouped([own.Prices(), own.Prices()]).reactive
    with pytest.raises(InvalidArgument, match="must have actions, not points"):
        bl.games.Grouped([own.Targets(), own.Targets()])
    with pytest.raises(InvalidArgument, match="must be of the class, size and feedback"):
        bl.games.Grouped([own.Prices(10.0), own.Prices(9.0)])


def test_no_table_of_what_depends_on_play():
    with pytest.raises(InvalidArgument, match="answers to what was played: it is no table of rewards"):
        bl.games.deal(own.Lift(), 10)
    with pytest.raises(InvalidArgument, match="takes points: it is no table of rewards"):
        bl.games.deal(own.Targets(), 10)


def test_an_environment_takes_actions():
    pytest.importorskip("gymnasium")
    with pytest.raises(InvalidArgument, match="an environment takes numbers of actions"):
        bl.adapters.gymnasium.GameEnv(own.Targets(), 10)


@dataclass(frozen=True)
class Debts(bl.EpsilonGreedy):
    smallest = -1.0
    largest = 0.0


def test_a_log_has_its_own_range():
    polars = pytest.importorskip("polars")
    log = polars.DataFrame(
        {"action": [0, 1] * 500, "probability": 0.5, "value": [0.0, 1.0] * 500, "decided_at": range(1000)}
    )
    with pytest.raises(InvalidArgument, match="reward_range is the log's own"):
        bl.replay(log, bl.Direct(bl.UCB1(2), reward_range=(0, 2)), runs=1)
    with pytest.raises(Unsupported, match="takes feedback in"):
        bl.replay(log, bl.Direct(Debts(2)), runs=1)
