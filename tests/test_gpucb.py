"""GPUCB, its game, its covariances and its batches, against slow forms and scikit-learn."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import belated as bl
from belated import bounds, delays, games
from belated.cli import app
from belated.errors import InvalidArgument, InvalidFeedback, TicketError, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels.compile import COMPILED
from belated.kernels.covariances import root
from belated.kernels.random import key_of
from belated.ledger.experiment import make
from belated.studies import Study

#: For forecasters over many sizes: each would be compiled by itself.
plainly = pytest.mark.skipif(COMPILED, reason="run without compilation, by the second half of make test")
POINTS = np.linspace(0.0, 1.0, 12)
SMOOTH = bl.kernels.squared_exponential(POINTS, scale=0.2)
PAIR = ((1.0, 0.5), (0.5, 1.0))


def lived(steps=80, noise=0.05, seed=0, cancel=0.1, **options):
    """A forecaster after some rounds in any order: with what it was told, and the points that are out."""
    f, rng = bl.Direct(bl.GPUCB(SMOOTH, noise, **options)), np.random.default_rng(seed)
    told, out = [], []
    for _ in range(steps):
        decision = f.predict()
        out.append(decision)
        while out and rng.random() < 0.45:
            late = out.pop(int(rng.integers(len(out))))
            if rng.random() < cancel:
                f.cancel(late.ticket)
                continue
            told.append((late.action, float(np.sin(6 * POINTS[late.action]) + 0.2 * rng.normal())))
            f.update(late.ticket, told[-1][1])
    return f, told, [decision.action for decision in out]


def state_of(f):
    return f._room.seats[0].learner.state[0]


def slow(covariance, noise, told, out):
    """Mean and covariance given the rewards told; covariance given the points that are out, too."""

    def given(at):
        gain = np.linalg.solve(covariance[np.ix_(at, at)] + noise * np.eye(len(at)), covariance[at]).T
        return gain, covariance - gain @ covariance[at]

    seen = [action for action, _ in told]
    gain, known = given(seen)
    return gain @ np.array([reward for _, reward in told]), known, given(seen + out)[1]


# --- the posterior ---


@plainly
def test_the_posterior_is_that_of_scikit_learn():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    f, told, out = lived()
    state, at = state_of(f), POINTS[:, None]
    assert len(told) > 20 and len(out) > 2

    def posterior(pairs):
        model = GaussianProcessRegressor(RBF(0.2), alpha=0.05, optimizer=None)
        model.fit(at[[a for a, _ in pairs]], [r for _, r in pairs])
        return model.predict(at, return_cov=True)

    mean, known = posterior(told)
    chosen = posterior(told + [(action, 0.0) for action in out])[1]
    for found, wanted in ((state["mean"], mean), (state["known"], known), (state["chosen"], chosen)):
        assert np.abs(found - wanted).max() < 1e-8
    assert np.array_equal(state["chosen"], state["chosen"].T)


@plainly
@pytest.mark.parametrize("seed", range(3))
def test_the_state_is_that_of_the_slow_form(seed):
    f, told, out = lived(seed=seed, cancel=0.4)
    state = state_of(f)
    for found, wanted in zip(("mean", "known", "chosen"), slow(SMOOTH, 0.05, told, out), strict=True):
        assert np.abs(state[found] - wanted).max() < 1e-9
    at = np.ix_(out, out)
    known = slow(SMOOTH, 0.05, told, out)[1]
    wanted = 0.5 * np.linalg.slogdet(np.eye(len(out)) + known[at] / 0.05)[1]
    assert f.learner.pending(state) == pytest.approx(wanted, abs=1e-9)
    assert state["waiting"].sum() == len(out)


def test_a_cancelled_point_was_never_played():
    learner = bl.GPUCB(SMOOTH, 0.05)
    one, two = (Instance(learner, key_of(0, 0), 0, plain=True) for _ in range(2))
    for each in (one, two):
        first, _ = each.predict(None)
        each.predict(None)
        each.update(None, first, 1.0, np.array([0.7]))
    before = two.state.copy()
    gone, probability = two.predict(None)
    assert two.learner.pending(two.state[0]) > one.learner.pending(one.state[0])
    two.lost(two.predictions, None, gone, probability)
    for name in ("mean", "known", "chosen", "information", "waiting"):
        assert np.allclose(np.asarray(two.state[name]), np.asarray(before[name]), atol=1e-14), name
    assert two.state["predicted"].sum() == 3  # it counts in ties


def test_what_was_played_without_being_asked_is_learned():
    one, two = (Instance(bl.GPUCB(SMOOTH, 0.05), key_of(0, 0), 0, plain=True) for _ in range(2))
    one.update(None, 4, 1.0, np.array([0.3]))
    two.state["waiting"][0][4] = 1
    two.state["chosen"][0][:] = np.asarray(one.state["known"][0])
    two.state["information"] = 0.5 * math.log1p(1 / 0.05)
    two.update(None, 4, 1.0, np.array([0.3]))
    for name in ("mean", "known", "chosen", "waiting"):
        assert np.allclose(np.asarray(one.state[name]), np.asarray(two.state[name]), atol=1e-15), name
    assert abs(float(one.state["information"][0])) < 1e-12


# --- what is played ---


def slow_play(rule, delay, rewards, inflation=0.4, delta=0.2, noise=0.05):
    actions, predicted = [], np.zeros(len(SMOOTH))
    for t in range(1, len(rewards) + 1):
        told = [(a, r) for s, (a, r) in enumerate(zip(actions, rewards, strict=False), 1) if s + delay[s - 1] < t]
        out = [a for s, a in enumerate(actions, 1) if s + delay[s - 1] >= t]
        mean, known, chosen = slow(SMOOTH, noise, told, out)
        sigma = np.sqrt(np.maximum(np.diagonal(known if rule == "stale" else chosen), 0.0))
        alpha = 2 * math.log(len(SMOOTH) * t * t * math.pi**2 / (6 * delta))
        index = mean + (math.exp(inflation) if rule == "bucb" else 1.0) * math.sqrt(alpha) * sigma
        tied = np.flatnonzero(index >= index.max() - 1e-9)
        actions.append(int(tied[np.argmin(predicted[tied])]))
        predicted[actions[-1]] += 1
    return actions


@plainly
@pytest.mark.parametrize("rule", ["bucb", "plain", "stale"])
def test_it_plays_what_the_slow_form_plays(rule):
    n, game = 60, games.GaussianProcess(SMOOTH, 0.05)
    learner = bl.GPUCB(SMOOTH, 0.05, delta=0.2, inflation=0.4, rule=rule)
    r = bl.play(bl.Direct(learner), game, delays.Geometric(mean=6), n, record=True, engine="python")
    function, memory, vector = game.function(), np.zeros(game.memory()), np.zeros(1)
    rewards = [
        float(game.outcome(game.params(), memory, *key_of(0, 0), t, action, vector))
        for t, action in enumerate(r.actions[0].tolist(), 1)
    ]
    assert np.array_equal(memory[2:], function)
    assert slow_play(rule, r.delays[0].tolist(), rewards) == r.actions[0].tolist()
    assert r.regret[0, -1] == pytest.approx(np.sum(function.max() - function[r.actions[0]]))


@plainly
def test_it_is_finite_from_the_start_and_ties_go_to_the_least_predicted():
    f = bl.Direct(bl.GPUCB(np.eye(4), 1.0))
    assert [f.predict().action for _ in range(6)] == [0, 1, 2, 3, 0, 1]
    twins = bl.Direct(bl.GPUCB(np.ones((3, 3)), 0.5))  # one and the same point, three times
    assert [twins.predict().action for _ in range(4)] == [0, 1, 2, 0]


def test_among_some_points():
    instance = Instance(bl.GPUCB(SMOOTH, 0.05), key_of(0, 0), 0, plain=True)
    assert {instance.predict_among(None, (3, 7))[0] for _ in range(4)} == {3, 7}


@plainly
def test_huge_rewards_do_no_harm():
    f = bl.Direct(bl.GPUCB(PAIR, 0.1))
    for reward in (1e308, -1e308, 1e308):
        f.update(f.predict().ticket, reward)
    assert np.isfinite(state_of(f)["mean"]).all() and f.predict().action in (0, 1)


# --- the game ---


def test_functions_have_the_covariance_of_the_game():
    covariance = np.array([[1.0, 0.6, 0.1], [0.6, 0.5, 0.0], [0.1, 0.0, 2.0]])
    game = games.GaussianProcess(covariance, 0.3)
    drawn = np.array([game.function(3, replication) for replication in range(1500)])
    assert np.abs(drawn.mean(axis=0)).max() < 0.15
    assert np.abs(np.cov(drawn.T) - covariance).max() < 0.2


@plainly
def test_rewards_are_the_function_and_noise():
    game = games.GaussianProcess(PAIR, 0.25)
    r = bl.play(bl.Direct(bl.RoundRobin(2)), game, delays.Constant(0), 20, replications=3, record=True, engine="python")
    for i in range(3):
        f = game.function(0, i)
        assert r.regret[i, -1] == pytest.approx(10 * (f.max() - f.min()))
    memory, vector = np.zeros(game.memory()), np.zeros(1)
    paid = [game.outcome(game.params(), memory, *key_of(0, 0), t, 1, vector) for t in range(1, 2001)]
    assert np.mean(paid) == pytest.approx(game.function()[1], abs=0.05)
    assert np.var(paid) == pytest.approx(0.25, abs=0.03)


def test_a_singular_covariance_has_a_root():
    for rank in (1, 3, 12):
        matrix = SMOOTH[:, :rank] @ SMOOTH[:, :rank].T
        lower = root(matrix)
        assert np.abs(lower @ lower.T - matrix).max() < 1e-7 and not np.triu(lower, 1).any()
    assert not root(np.zeros((2, 2))).any()


# --- covariances ---


def matern_50(points):
    return bl.kernels.matern(points, smoothness=50.0)


@pytest.mark.parametrize("smoothness", [0.5, 1.0, 1.5, 2.5, 3.7, 10.0, math.inf])
def test_covariances_are_those_of_scikit_learn(smoothness):
    from sklearn.gaussian_process.kernels import RBF, Matern

    rows = np.random.default_rng(0).normal(size=(9, 2))
    rows[3] = rows[4]
    wanted = 2.5 * Matern([0.4, 2.0], nu=smoothness)(rows)
    assert np.abs(bl.kernels.matern(rows, [0.4, 2.0], 2.5, smoothness) - wanted).max() < 1e-9
    if smoothness == 10.0:  # where scikit-learn's has NaN
        near, smooth = (kind([0.0, 0.0, 1e-7, 1.0, 1e3]) for kind in (matern_50, bl.kernels.squared_exponential))
        assert np.abs(near - smooth).max() < 0.01 and near[0, :3].tolist() == [1.0, 1.0, 1.0]
    assert np.abs(bl.kernels.squared_exponential(rows, 0.7) - RBF(0.7)(rows)).max() < 1e-14


# --- batches ---


@plainly
def test_a_batch_ends_before_its_information_is_above_the_budget():
    f, learner = bl.Direct(bl.GPUCB(SMOOTH, 0.5)), bl.GPUCB(SMOOTH, 0.5)
    sizes = []
    for batch in itertools.islice(bl.batches(f, budget=0.6, most=5), 12):
        sizes.append(len(batch))
        out = learner.pending(state_of(f))
        assert len(batch) == 1 or out <= 0.6
        if len(batch) < 5:
            _, take_back = f.trial()
            assert learner.pending(state_of(f)) > 0.6
            take_back()
            assert f.outstanding == len(batch)
        for decision in batch:
            f.update(decision.ticket, 0.1 * decision.action)
    assert min(sizes) == 1 and max(sizes) == 5
    assert [d.ticket for d in batch][-1] == sum(sizes)


@plainly
def test_the_next_batch_waits_for_the_last():
    f = bl.Direct(bl.GPUCB(SMOOTH, 0.5))
    asked = bl.batches(f, budget=math.inf, most=3)
    batch = next(asked)
    f.update(batch[0].ticket, 1.0)
    before = f.to_bytes()
    for _ in range(2):
        with pytest.raises(TicketError, match="2 of 3 tickets of the last batch are open, the first is 2"):
            next(asked)
    assert f.to_bytes() == before
    f.cancel(batch[1].ticket)
    f.update(batch[2].ticket, 1.0)
    assert len(next(asked)) == 3


@pytest.mark.parametrize(
    ("given", "options", "names"),
    [
        (lambda: bl.BOLD(bl.GPUCB(PAIR, 1.0)), {}, "Direct over a learner with `pending`"),
        (lambda: bl.Direct(bl.UCB1(2)), {}, "Direct over a learner with `pending`"),
        (lambda: 7, {}, "got 7"),
        (lambda: bl.Direct(bl.GPUCB(PAIR, 1.0)), {"budget": math.nan}, "budget"),
        (lambda: bl.Direct(bl.GPUCB(PAIR, 1.0)), {"budget": -1}, "budget"),
        (lambda: bl.Direct(bl.GPUCB(PAIR, 1.0)), {"most": 0}, "most"),
    ],
)
def test_who_has_no_batches(given, options, names):
    with pytest.raises(InvalidArgument, match=names):
        bl.batches(given(), **options)


# --- bounds ---


def test_no_points_tell_more_than_is_said():
    noise, n = 0.05, 4
    most = max(
        0.5 * np.linalg.slogdet(np.eye(n) + SMOOTH[np.ix_(at, at)] / noise)[1]
        for at in itertools.combinations_with_replacement(range(len(SMOOTH)), n)
    )
    assert most <= bounds.gp_information(SMOOTH, noise, n) <= 1.2 * most
    for n in (50, 5000):
        even = 0.5 * np.linalg.slogdet(np.eye(12) + n / 12 * SMOOTH / noise)[1]
        loose = 0.5 * np.log1p(n * np.linalg.eigvalsh(SMOOTH).clip(0) / noise).sum()
        assert even <= bounds.gp_information(SMOOTH, noise, n) <= loose
    assert bounds.gp_information(np.zeros((2, 2)), 1.0, 9) == 0.0


@plainly
@pytest.mark.parametrize("rule", ["bucb", "stale"])
@pytest.mark.parametrize("delay", [0, 2])
def test_the_bounds_hold_in_its_own_process(rule, delay):
    covariance = bl.kernels.squared_exponential(np.linspace(0, 1, 5), scale=0.5)
    n, game, learner = (
        150,
        games.GaussianProcess(covariance, 1.0),
        bl.GPUCB(covariance, 1.0, rule=rule),
    )
    r = bl.play(bl.Direct(learner), game, delays.Constant(delay), n, replications=20, record=True)
    assert r.mean_regret < r.bound < n * 2 * math.sqrt(2 * math.log(5)) and r.verdict.startswith("likely holds")
    assert r.bound == pytest.approx(
        bounds.gp_ucb_mean(
            n, covariance, 1.0, 0.1, learner.inflation if delay or rule == "bucb" else 0.0, delay, rule == "stale"
        )
    )
    for i in range(4):
        pending, added = learner.information(r.actions[i], r.delays[i])
        late, f = int((pending > learner.inflation).sum()), game.function(0, i)
        assert pending.sum() <= delay * added.sum() + 1e-9
        assert added.sum() <= bounds.gp_information(covariance, 1.0, n)
        one = bounds.gp_ucb(n, 5, 1.0, 0.1, learner.inflation, added.sum(), late, f.max() - f.min())
        assert r.regret[i, -1] <= one


@plainly
def test_what_is_out_hides_no_more_than_its_information():
    f, _, out = lived(noise=0.3)
    state = state_of(f)
    ratio = np.sqrt(np.diagonal(state["known"]) / np.diagonal(state["chosen"]))
    assert out and 1.0 < ratio.max() <= math.exp(f.learner.pending(state))


@plainly
def test_what_a_record_says_is_what_the_learner_counts():
    f, rng, delay = bl.Direct(bl.GPUCB(SMOOTH, 0.05)), np.random.default_rng(1), []
    out, seen = {}, []
    actions = []
    for t in range(40):
        seen.append(f.learner.pending(state_of(f)))
        decision = f.predict()
        actions.append(decision.action)
        delay.append(int(rng.integers(6)))
        out.setdefault(t + delay[-1], []).append(decision.ticket)
        for ticket in out.pop(t, ()):
            f.update(ticket, 0.0)
    pending, added = f.learner.information(actions, delay)
    assert np.abs(pending - seen).max() < 1e-9 and pending[0] == 0.0 and (added > 0).all()


@plainly
def test_where_there_is_no_bound_the_reason_is_given():
    game = games.GaussianProcess(PAIR, 0.1)
    for learner, played, law, why in [
        (bl.GPUCB(PAIR, 0.1, rule="plain"), game, delays.Constant(2), "as it is set, with these delays"),
        (bl.GPUCB(PAIR, 0.1, inflation=0.0), game, delays.Constant(2), "as it is set, with these delays"),
        (bl.GPUCB(PAIR, 0.1), game, delays.Geometric(mean=2), "as it is set, with these delays"),
        (bl.GPUCB(PAIR, 0.2), game, delays.Constant(2), "process that it was told of"),
        (bl.GPUCB(np.eye(2), 0.1), game, delays.Constant(2), "process that it was told of"),
        (bl.GPUCB(PAIR, 0.1), games.Bernoulli([0.2, 0.4]), delays.Constant(2), "process that it was told of"),
    ]:
        r = bl.play(bl.Direct(learner), played, law, 20, engine="python")
        assert r.bound is None and why in r.bound_reason and r.verdict == "no bound"
    r = bl.play(bl.Direct(bl.GPUCB(PAIR, 0.1, rule="plain")), game, delays.Constant(0), 20, engine="python")
    assert r.bound is not None
    late = bl.play(bl.Direct(bl.GPUCB(PAIR, 0.1)), game, delays.Constant(10), 20, replications=3, engine="python")
    assert late.bound == pytest.approx(20 * 2 * math.sqrt(2 * math.log(2))) and late.verdict == "vacuous"


def test_a_large_variance_has_a_bound_as_well():
    wide = tuple(tuple(9.0 * x for x in row) for row in PAIR)
    one, two = (bounds.gp_ucb_mean(500, s, v, 0.1, 0.35, 1) for s, v in ((PAIR, 0.1), (wide, 0.9)))
    assert two == pytest.approx(3 * one, rel=1e-6)  # f and noise three times as large


# --- what is refused ---


@pytest.mark.parametrize("kind", [bl.GPUCB, games.GaussianProcess])
@pytest.mark.parametrize(
    ("covariance", "noise", "names"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], 0.1, r"symmetric, got 0.5 at \[0\]\[1\] and 0.4 at \[1\]\[0\]"),
        ([[1.0, 2.0], [2.0, 1.0]], 0.1, "positive semidefinite, its least eigenvalue is -1"),
        ([[-1.0]], 0.1, "positive semidefinite"),
        ([[1.0, 0.0]], 0.1, "square"),
        ([], 0.1, "square"),
        ([[1.0], [1.0, 2.0]], 0.1, "covariance"),
        ("up", 0.1, "covariance"),
        ([[math.nan]], 0.1, r"covariance\[0\]\[0\] must be finite.*nan"),
        (PAIR, -0.1, "noise must be"),
        (PAIR, math.nan, "noise must be finite"),
    ],
)
def test_what_is_no_process_is_refused_by_name(kind, covariance, noise, names):
    with pytest.raises(InvalidArgument, match=names):
        kind(covariance, noise)


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: bl.GPUCB(PAIR, 0.0), "noise must be > 0"),
        (lambda: bl.GPUCB(PAIR, 1e-20), "must be at least 1e-12 here, got 1e-20"),
        (lambda: bl.GPUCB(PAIR, 0.1, delta=0.0), "delta"),
        (lambda: bl.GPUCB(PAIR, 0.1, inflation=-1.0), "inflation"),
        (lambda: bl.GPUCB(PAIR, 0.1, rule="bold"), "rule must be one of bucb, plain, stale"),
        (lambda: bl.kernels.squared_exponential([0.0, math.inf]), "points must be finite"),
        (lambda: bl.kernels.squared_exponential([[0.0], [1.0, 2.0]]), "points"),
        (lambda: bl.kernels.squared_exponential([], scale=1.0), "points"),
        (lambda: bl.kernels.squared_exponential([0.0], scale=0.0), "scale"),
        (lambda: bl.kernels.squared_exponential([[0.0, 1.0]], scale=[1.0, 2.0, 3.0]), "scale"),
        (lambda: bl.kernels.matern([0.0], smoothness=0.0), "smoothness"),
        (lambda: bl.kernels.matern([0.0], smoothness=51.0), "smoothness must be <= 50"),
        (lambda: bl.kernels.matern([0.0], variance=-1.0), "variance"),
        (lambda: bounds.gp_information([[1.0, 2.0]], 1.0, 3), "square"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, names):
    with pytest.raises(InvalidArgument, match=names):
        make()


@plainly
def test_wrong_feedback_changes_nothing():
    f = bl.Direct(bl.GPUCB(PAIR, 0.1))
    decision = f.predict()
    before = f.to_bytes()
    for wrong in (math.nan, math.inf, None, "up", [1.0, 2.0]):
        with pytest.raises(InvalidFeedback):
            f.update(decision.ticket, wrong)
    assert f.to_bytes() == before
    with pytest.raises(Unsupported, match="takes any reward"):
        bl.Direct(bl.GPUCB(PAIR, 0.1), reward_range=(0, 5))


# --- by name ---


def test_it_is_written_and_read():
    learner = bl.GPUCB(PAIR, 0.1, rule="stale")
    assert bl.catalog.from_data("learner", json.loads(json.dumps(bl.catalog.to_data(learner)))) == learner
    assert repr(bl.GPUCB(SMOOTH, 0.1)).startswith("GPUCB(covariance=<12 x 12>, noise=0.1, ")
    study = Study.parse(
        """
        forecasters = ["direct(gpucb(noise=0.1))", "direct(gpucb([[1, 0], [0, 1]], 0.1, rule=plain))"]
        games = [{name = "gaussianprocess", covariance = [[1.0, 0.5], [0.5, 1.0]], noise = 0.1}]
        delays = ["constant(2)"]
        rounds = [20]
        """
    )
    first, second = (cell.forecaster.learner for cell in study.cells)
    assert first == bl.GPUCB(PAIR, 0.1) and second == bl.GPUCB(np.eye(2), 0.1, rule="plain")


@plainly
def test_it_is_played_from_the_command_line():
    game = "gaussianprocess([[1, 0.5], [0.5, 1]], 0.1)"
    asked = ["play", "direct(gpucb(noise=0.1))", "--game", game, "--delay", "constant(1)", "--rounds", "60", "--json"]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 0, ran.output
    data = json.loads(ran.output)
    assert data["peak"] == 1.0 and data["bound"] > data["regret"]
    refused = CliRunner().invoke(app, ["play", "direct(gpucb(noise=0.1))", "--game", "bernoulli([0.2, 0.8])"])
    assert refused.exit_code != 0 and "gpucb needs covariance" in refused.output


def test_it_is_served():
    spec = {"name": "direct", "learner": {"name": "gpucb", "covariance": PAIR, "noise": 0.1}}
    made = make("one", ["a", "b"], spec, (-50.0, 50.0))
    assert made.feedback(-7.5, 0).tolist() == [-7.5]  # as it comes: the learner's range has no end
    with pytest.raises(InvalidArgument, match="has 2 actions, but 3 are named"):
        make("two", ["a", "b", "c"], spec, (-50.0, 50.0))
    large = {"name": "direct", "learner": {"name": "gpucb", "covariance": np.eye(300).tolist(), "noise": 0.1}}
    with pytest.raises(InvalidArgument, match="too large"):
        make("three", [str(i) for i in range(300)], large, (-50.0, 50.0))


# --- the figures ---


@pytest.mark.soak
def test_regret_of_forty_points_under_delay():
    """400 rounds of 40 points on [0, 1], by the three rules; and in batches."""
    covariance = bl.kernels.squared_exponential(np.linspace(0, 1, 40), scale=0.1)
    game = games.GaussianProcess(covariance, 0.01)

    def regret(rule, delay):
        learner = bl.GPUCB(covariance, 0.01, rule=rule)
        return bl.play(bl.Direct(learner), game, delays.Constant(delay), 400, replications=200).mean_regret

    assert regret("plain", 0) < regret("plain", 50) < regret("stale", 50)
