"""Learners that choose among given policies, and learners whose feedback names one right action."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize

import belated as bl
from belated import catalog, delays, games, notation
from belated.checks import arenas
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels import coverage, states
from belated.kernels.compile import plain
from belated.kernels.random import key_of
from belated.ledger import experiment

POLICIES, SHARES = ((0, 0, 0), (1, 1, 1), (0, 1, 2), (2, 1, 2)), (0.5, 0.3, 0.2)  # those of `example`
MEANS = np.array([[0.9, 0.2, 0.1], [0.3, 0.8, 0.2], [0.1, 0.3, 0.7]])


def grouped(policies=POLICIES, shares=SHARES):
    return games.Grouped([games.Bernoulli(row) for row in MEANS.tolist()], shares, policies)


def variances(policies, shares, law, mixed, actions):
    """E_x[1 / W'(x, i(x))] of every policy, and W', as the text has them."""
    policies, chance = np.asarray(policies), np.full((len(shares), actions), mixed)
    for policy, mass in zip(policies, law, strict=True):
        for x, action in enumerate(policy):
            chance[x, action] += (1 - actions * mixed) * mass
    return np.array([sum(s / chance[x, p[x]] for x, s in enumerate(shares)) for p in policies]), chance


class Late:
    """A learner told directly, without compiling it for every size."""

    def __init__(self, learner, seed):
        self.instance = Instance(learner, key_of(seed, 0), 0, plain=True)

    @property
    def state(self):
        return np.asarray(self.instance.state)[0]

    def predict(self, x):
        return bl.Decision(self.instance.predictions + 1, *self.instance.predict(np.array([float(x)])))

    def update(self, decision, x, reward):
        self.instance.answer(decision.ticket, np.array([float(x)]), *decision[1:], np.array([reward]))


class Eliminates:
    """PolicyElimination, read from its text."""

    def __init__(self, policies, shares, actions, delta, width):
        self.policies, self.shares, self.actions = np.asarray(policies), shares, actions
        self.delta, self.width, self.told = delta, width, []
        self.law, self.steps = np.full(len(policies), 1 / len(policies)), 0

    def likely(self, m):
        return math.log(4 * len(self.policies) * m**2 / self.delta)

    def chances(self, x):
        m, k = len(self.told) + 1, self.actions
        self.mixed = min(1 / (2 * k), math.sqrt(self.likely(m) / (2 * k * m)))
        while True:
            variance, chance = variances(self.policies, self.shares, self.law, self.mixed, k)
            if (variance[self.law > 0] <= 2 * k * (1 + 1e-9)).all():
                return chance[x]
            every = sum(s / w for s, row in zip(self.shares, chance, strict=True) for w in row)
            step = np.maximum(self.law * ((1 - k * self.mixed) * variance + self.mixed * every) / k, 1e-6)
            self.law, self.steps = np.where(self.law > 0, step, 0) / step[self.law > 0].sum(), self.steps + 1

    def learn(self, x, action, probability, reward):
        self.told.append((self.policies[:, x] == action) * reward / probability)
        m = len(self.told)
        reach = 2 * self.width * math.sqrt(2 * self.actions * self.likely(m) / m)
        mean, alive = np.sum(self.told, axis=0) / m, self.law > 0
        bad = alive & (mean < mean[alive].max() - 2 * reach)
        if 2 * reach < 1 and bad.any():
            self.law = np.where(alive & ~bad, np.maximum(self.law, 0.001), 0)
            self.law /= self.law.sum()


def random_policies(draws, n, c, k):
    return draws.integers(0, k, (n, c)).tolist(), draws.dirichlet(np.ones(c)).tolist()


CASES = {
    "all alike": (POLICIES, SHARES, 0.1),
    "one against many": (((0, 0),) * 20 + ((1, 1), (1, 0)), (0.9, 0.1), 1.0),
    "many against one": (((0, 0, 0),) * 6 + ((1, 1, 1), (0, 2, 2)), (0.2, 0.5, 0.3), 0.1),
    "at random": (*random_policies(np.random.default_rng(5), 12, 4, 3), 0.2),
}


@pytest.mark.parametrize("case", CASES)
def test_it_plays_what_its_text_says_and_meets_its_constraint_in_every_round(case):
    policies, shares, width = CASES[case]
    k, draws, out, late = int(np.max(policies)) + 1, np.random.default_rng(1), set(), []
    means = MEANS if case == "all alike" else draws.random((len(shares), k))
    f = Late(bl.PolicyElimination(policies, shares, k, delta=0.1, width=width), 3)
    own = Eliminates(policies, shares, k, 0.1, width)
    for _ in range(300):
        x = int(draws.choice(len(shares), p=shares))
        decision, chances, state = f.predict(x), own.chances(x), f.state
        assert decision.probability == pytest.approx(chances[decision.action], rel=1e-9)
        dropped = set(np.flatnonzero(state["law"] == 0).tolist())
        assert out <= dropped == set(np.flatnonzero(own.law == 0).tolist()) < set(range(len(policies)))
        variance, _ = variances(policies, shares, state["law"], float(state["mixed"]), k)
        assert (variance[state["law"] > 0] <= 2 * k * (1 + 1e-8)).all()
        out = dropped
        late.append((decision, x, float(draws.random() < means[x, decision.action])))
        if len(late) > 7:
            decision, x, reward = late.pop(int(draws.integers(len(late))))
            f.update(decision, x, reward)
            own.learn(x, decision.action, decision.probability, reward)
    assert out if width < 1 else own.steps
    assert len(own.told) == 293


def test_policies_are_dropped_only_where_2b_is_below_1():
    learner = bl.PolicyElimination(((0,), (1,)), (1.0,), 2, delta=0.5)
    state, params = states.blank(learner), states.params(learner)
    update = plain(states.kernels(learner)[1])
    first = next(m for m in range(1, 10**5) if m > 32 * 2 * math.log(4 * 2 * m**2 / 0.5))
    for m in range(first - 3, first + 2):
        one = state.copy().view(states.PlainRecords)
        one["known"], one["total"] = m - 1, (0.0, m)  # means 0 and 1: as far apart as can be
        update(params.view(states.PlainRecords)[0], one[0], np.zeros(1), 1, 1.0, np.ones(1))
        assert ((one["law"][0] == 0).tolist() == [True, False]) == (m >= first), m


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_randomized_ucb_meets_its_conditions_in_every_round(scale):
    learner = bl.RandomizedUCB(POLICIES, SHARES, 3, delta=0.1, scale=scale)
    f, draws, total, m, late = Late(learner, 2), np.random.default_rng(3), np.zeros(4), 0, []
    for _ in range(150):
        x = int(draws.choice(3, p=SHARES))
        decision = f.predict(x)
        c = 2 * math.log(4 * max(m, 1) / 0.1)
        gap = (total.max() - total) / max(m, 1)
        kappa = scale * math.sqrt(m * 3 / (720 * c))
        mixed = min(1 / 6, math.sqrt(2 * math.log(4 * (m + 1) / 0.1) / (6 * (m + 1))))
        law = np.array(f.state["law"])
        variance, chance = variances(POLICIES, SHARES, law, mixed, 3)
        assert law.sum() == pytest.approx(1) and (law > 0).all()
        assert decision.probability == pytest.approx(chance[x, decision.action], rel=1e-9)
        assert (variance <= 1.0011 * 3 + 2 * kappa * gap).all()
        assert kappa * (law @ gap) <= 3 + 1e-6
        if scale == 1.0:  # what the paper asks for
            assert (variance <= np.maximum(4 * 3, m * gap**2 / (180 * c))).all()
        late.append((decision, x, float(draws.random() < MEANS[x, decision.action])))
        if len(late) > 5:
            decision, x, reward = late.pop(0)
            f.update(decision, x, reward)
            total += (np.asarray(POLICIES)[:, x] == decision.action) * reward / decision.probability
            m += 1


@pytest.mark.parametrize("price", [0.0, 0.4, 5.0])
def test_steps_lead_to_the_maximum_that_scipy_finds(price):
    learner = bl.RandomizedUCB(POLICIES, SHARES, 3)
    state = states.blank(learner).view(states.PlainRecords)[0]
    params = states.params(learner).view(states.PlainRecords)[0]
    look, climb = plain(coverage.look), plain(coverage.climb)
    gap = np.array([0.3, 0.0, 0.2, 0.9])
    state["mixed"], state["gap"] = 0.05, gap

    def loss(law):
        chance = variances(POLICIES, SHARES, law, 0.05, 3)[1]
        return price * (law @ gap) - sum(s * np.log(row).sum() for s, row in zip(SHARES, chance, strict=True))

    values = [loss(np.array(state["law"]))]
    for _ in range(400):
        climb(params, state, price, look(params, state))
        values.append(loss(np.array(state["law"])))
    assert (np.diff(values) <= 1e-6).all()
    ends = {"bounds": [(0, 1)] * 4, "constraints": {"type": "eq", "fun": lambda law: law.sum() - 1}}
    best = minimize(loss, np.full(4, 0.25), method="SLSQP", options={"ftol": 1e-12, "maxiter": 500}, **ends)
    assert values[-1] == pytest.approx(best.fun, abs=1e-3)
    variance, _ = variances(POLICIES, SHARES, best.x, 0.05, 3)
    assert (variance <= 3 + 2 * price * gap + 1e-3).all() and price * (best.x @ gap) <= 3


def test_a_single_policy_or_action_is_played():
    for make in (bl.PolicyElimination, bl.RandomizedUCB):
        f = Late(make([[0, 0]], None, 1), 0)
        for x in (0, 1, 1):
            decision = f.predict(x)
            assert decision[1:] == (0, 1.0)
            f.update(decision, x, 1.0)


# --- the game ---


def test_regret_is_against_the_best_policy_of_the_table():
    game = grouped()
    assert game.best == (0, 1, 2) and game.comparator == "policy"
    poor = grouped(((0, 0, 0), (1, 1, 1)))
    assert poor.best == (0, 0, 0)  # .45 + .09 + .02 against .10 + .24 + .06
    contexts = drawn(poor, 300)
    for policies, best in ((POLICIES, (0, 1, 2)), (((0, 0, 0), (1, 1, 1)), (0, 0, 0))):
        result = bl.play(
            bl.Direct(bl.RandomizedUCB(POLICIES, SHARES, 3)),
            grouped(policies),
            delays.Constant(4),
            300,
            record=True,
            engine="python",
        )
        lost = sum(MEANS[x, best[x]] - MEANS[x, a] for x, a in zip(contexts, result.actions[0].tolist(), strict=True))
        assert result.regret[0, -1] == pytest.approx(lost, abs=1e-9)
        assert result.regret_range[0] < 0 < result.regret_range[1]
    assert len({json.dumps(catalog.to_data(each)) for each in (game, poor)}) == 2
    assert catalog.from_data("game", json.loads(json.dumps(catalog.to_data(game)))) == game


class InTurn(games.Bernoulli):
    """A game that must be asked for its rounds in turn."""

    any_round = False


def test_a_game_asked_in_turn_is_judged_by_the_best_policy_too():
    game = games.Grouped([InTurn([0.2, 0.9]), InTurn([0.7, 0.3])], policies=[[0, 0], [1, 1]])
    f = bl.Direct(bl.RoundRobin(2))
    result = bl.play(f, game, delays.Constant(0), 100, record=True, engine="python")
    pairs = list(zip(drawn(game, 100), result.actions[0].tolist(), strict=True))
    assert game.best == (1, 1)
    assert result.regret[0, -1] == pytest.approx(sum(game.means[x][1] - game.means[x][a] for x, a in pairs))


def drawn(game, rounds):
    """The contexts of a replication."""
    found, params = np.zeros(1), game.params()
    said = []
    for t in range(1, rounds + 1):
        plain(bl.kernel(game.observe))(params, np.zeros(game.memory()), *key_of(0, 0), t, found)
        said.append(int(found[0]))
    return said


def test_a_game_that_shows_other_contexts_is_refused():
    two = games.Grouped([games.Bernoulli([0.2, 0.5, 0.9])] * 2)
    bl.play(bl.Direct(bl.PolicyElimination(POLICIES, SHARES, 3)), two, delays.Constant(0), 5, engine="python")
    four = games.Grouped([games.Bernoulli([0.2, 0.5, 0.9])] * 4)
    with pytest.raises(InvalidArgument, match=r"context must be one of 0\.\.2, got 3"):
        bl.play(bl.Direct(bl.PolicyElimination(POLICIES, SHARES, 3)), four, delays.Constant(0), 5)


# --- the theorem ---


def test_the_bound_is_what_the_proof_adds_up_to():
    assert 1 / 3 + math.sqrt(19) / 3 < 2  # Freedman's inequality gives no more than b_m
    for n, k, policies, delta, peak in [(10, 1, 1, 0.9, 0), (1000, 2, 20, 0.05, 7), (30_000, 9, 3, 0.5, 100)]:

        def likely(m, of=4 * policies / delta):
            return math.log(of * m * m)

        cost = 0.0
        for t in range(1, n + 1):
            m = max(0, t - 1 - peak)
            mixed = min(1 / (2 * k), math.sqrt(likely(m + 1) / (2 * k * (m + 1))))
            cost += min(1.0, 8 * math.sqrt(2 * k * likely(m) / m) + k * mixed) if m else 1.0
        bound = bl.bounds.policy_elimination(n, k, policies, delta, peak)
        assert cost <= bound == pytest.approx(peak + 17 * math.sqrt(2 * n * k * likely(n)))


def test_the_bound_is_stated_where_it_holds():
    learner = bl.PolicyElimination(POLICIES, SHARES, 3)
    known = bl.bounds.policy_elimination(10**6, 3, 4, 0.05, 40) + 0.05 * 10**6
    assert learner.bound_at_peak(10**6, 40.0, True) == known < 10**6
    assert bl.PolicyElimination(POLICIES, SHARES, 3, width=0.5).bound_at_peak(10**6, 40.0, True) is None

    def said(learner, game=None, law=None, kind=bl.Direct):
        return bl.play(kind(learner), game or grouped(), law or delays.Constant(3), 20, engine="python")

    assert said(learner).bound == 20.0  # cut: there are too few rounds
    assert said(learner, kind=bl.BOLD).bound == pytest.approx(16.0)  # at the largest gap
    reasons = [
        (said(bl.PolicyElimination(POLICIES, None, 3)), "not the law of the contexts"),
        (said(bl.PolicyElimination(POLICIES[:3] + POLICIES[:1], SHARES, 3)), "does not have"),
        (said(bl.PolicyElimination(POLICIES, SHARES, 3, width=2.0)), "width = 1, here it is 2"),
        (said(learner, games.Grouped(grouped().games, SHARES)), "against the best policy of its table"),
        (said(learner, law=delays.PerAction([delays.Constant(1)] * 3)), "depend on the action"),
        (said(bl.RandomizedUCB(POLICIES, SHARES, 3)), "no theorem bounds RandomizedUCB"),
    ]
    for result, reason in reasons:
        assert result.bound is None and reason in result.bound_reason


@pytest.mark.soak
def test_the_best_policy_is_kept_and_regret_is_below_the_bound():
    game = grouped()
    for law in (delays.Constant(100), delays.Geometric(mean=200)):
        f = bl.Direct(bl.PolicyElimination(POLICIES, SHARES, 3, delta=0.05))
        result = bl.play(f, game, law, 100_000, replications=100)
        assert (result.regret[:, -1] <= result.peak + 17 * math.sqrt(6e5 * math.log(20 * 1e10 / 0.05))).mean() >= 0.95
        assert result.mean_regret <= result.bound < 100_000


@pytest.mark.soak
def test_delay_adds_what_is_lost_before_anything_is_known():
    """So long it plays half by policies that are all alike, half by actions that are."""
    game, late = grouped(), 2000
    policies = np.mean([sum(s * MEANS[x, p[x]] for x, s in enumerate(SHARES)) for p in POLICIES])
    best = sum(s * MEANS[x, x] for x, s in enumerate(SHARES))
    lost = best - (policies + np.asarray(SHARES) @ MEANS.mean(axis=1)) / 2
    f = bl.Direct(bl.PolicyElimination(POLICIES, SHARES, 3, width=0.1))
    one, two = (bl.play(f, game, delays.Constant(tau), 30_000, replications=40).mean_regret for tau in (0, late))
    assert (two - one) / late == pytest.approx(lost, abs=0.05)


# --- what is refused, and how it is written ---


@pytest.mark.parametrize("make", [bl.PolicyElimination, bl.RandomizedUCB])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policies": [[0, 2]]}, r"policies\[0\]\[1\] must be <= 1, got 2"),
        ({"policies": [[0, -1]]}, r"policies\[0\]\[1\] must be >= 0, got -1"),
        ({"policies": [[0, 0.5]]}, r"policies\[0\]\[1\] must be a whole number, got 0.5"),
        ({"policies": [[0, 1], [1]]}, r"policies\[1\] must have 2 actions, one a context, got 1"),
        ({"policies": []}, "policies must have at least 1 item"),
        ({"policies": 3}, "policies must be a sequence, got 3"),
        ({"shares": [0.5, -0.5]}, r"shares\[1\] must be >= 0, got -0.5"),
        ({"shares": [0.5, 0.4]}, r"shares must be 2 numbers with the sum 1, got \[0.5, 0.4\]"),
        ({"shares": [1.0]}, r"shares must be 2 numbers with the sum 1, got \[1.0\]"),
        ({"shares": [0.5, math.nan]}, r"shares\[1\] must be finite"),
        ({"actions": 0}, "actions must be >= 1, got 0"),
        ({"delta": 0.0}, "delta must be > 0, got 0"),
        ({"delta": 1.0}, "delta must be < 1, got 1"),
    ],
)
def test_bad_arguments_are_named(make, given, message):
    with pytest.raises(InvalidArgument, match=message):
        make(**({"policies": [[0, 1], [1, 1]], "shares": [0.5, 0.5], "actions": 2} | given))


def test_bad_widths_contexts_and_games_are_named():
    with pytest.raises(InvalidArgument, match="width must be > 0, got 0"):
        bl.PolicyElimination([[0]], None, 2, width=0)
    with pytest.raises(InvalidArgument, match="scale must be > 0, got -1"):
        bl.RandomizedUCB([[0]], None, 2, scale=-1)
    f = bl.Direct(bl.PolicyElimination(POLICIES, SHARES, 3))
    for context in (3, -1, 0.5, None, [0, 1]):
        with pytest.raises(InvalidArgument, match="context must be one"):
            f.predict(context)
    with pytest.raises(InvalidArgument, match=r"policies\[0\]\[0\] must be <= 2, got 3"):
        grouped([[3, 0, 0]])
    with pytest.raises(InvalidArgument, match=r"policies\[0\] must have 3 actions, one a context, got 2"):
        grouped([[0, 0]])
    with pytest.raises(InvalidArgument, match="policies need games with a law"):
        games.Grouped([games.RandomWalk(2)], policies=[[0]])
    for kind in (bl.QPMD, bl.SDB, bl.Paced):
        with pytest.raises(Unsupported):
            kind(bl.PolicyElimination(POLICIES, SHARES, 3))


def test_policies_are_written_as_text_and_tables():
    text = "direct(policyelimination([[0, 1, 2], [1, 1, 0]], [0.5, 0.25, 0.25], width=0.5))"
    f = notation.forecaster(text, actions=3)
    assert f.learner == bl.PolicyElimination([[0, 1, 2], [1, 1, 0]], [0.5, 0.25, 0.25], 3, width=0.5)
    assert notation.text("forecaster", f) == text
    table = {"name": "direct", "learner": {"name": "policyelimination", "policies": [[0], [1]], "shares": [1.0]}}
    assert notation.forecaster(table).learner == bl.PolicyElimination([[0], [1]], [1.0], 2)
    assert notation.forecaster("direct(randomizeducb)", 3, grouped()).learner == bl.RandomizedUCB(POLICIES, SHARES, 3)


def test_the_service_takes_policies_and_contexts_by_number():
    made = experiment.make("rules", ["a", "b"], "direct(policyelimination([[0, 1], [1, 0]], [0.5, 0.5]))")
    assert made.learner.actions == 2 and made.context(1).tolist() == [1.0]
    with pytest.raises(InvalidArgument, match=r"context must be one of 0\.\.1, got 2"):
        made.context(2)
    with pytest.raises(InvalidArgument, match=r"policies\[0\]\[1\] must be <= 1, got 2"):
        experiment.make("rules", ["a", "b"], "direct(policyelimination([[0, 2]], [0.5, 0.5]))")


# --- feedback that names one right action ---

LABELLERS = [bl.Cover.example(), bl.Perceptron.example(), bl.Winnow.example(), bl.Halving.example()]
LABELLERS.append(bl.PerContext(bl.Cover.example(), 2))
labellers = pytest.mark.parametrize("learner", LABELLERS, ids=lambda each: type(each).__name__)
NOT_ONE = [(0.3, 0.9), (1, 1), (0, 0), (1, 0.5), (0.5, 0.5)]


@labellers
def test_feedback_that_names_no_action_is_refused_in_process(learner):
    context = learner.example_context(np.random.default_rng(1)) if learner.context_size else None
    for f, ends in ((bl.Direct(learner), (0, 1)), (bl.BOLD(learner, reward_range=(-1, 3)), (-1, 3))):
        decision = f.predict(context)
        before = f.to_bytes()
        for given in NOT_ONE:
            rewards = [ends[0] + (ends[1] - ends[0]) * each for each in given]
            with pytest.raises(InvalidFeedback, match=f"{ends[1]} for the one right action and {ends[0]} for all"):
                f.update(decision.ticket, rewards)
        assert f.to_bytes() == before
        f.update(decision.ticket, ends)


def play_rows(learner, rows, engine):
    contexts = [learner.example_context(np.random.default_rng(1)) for _ in rows] if learner.context_size else None
    if learner.values:
        contexts[0] = [1.0]  # there are two of them
    game = games.RewardTable(rows, "full", contexts=contexts)
    return bl.play(bl.Direct(learner), game, delays.Constant(50), len(rows), engine=engine)


@pytest.mark.parametrize("engine", ["python", pytest.param("compiled", marks=pytest.mark.minutes)])
@labellers
def test_feedback_that_names_no_action_is_refused_in_play(learner, engine):
    play_rows(learner, [[1.0, 0.0], [0.0, 1.0]] * 3, engine)
    for given in NOT_ONE:
        with pytest.raises(InvalidFeedback) as error:
            play_rows(learner, [[1.0, 0.0], [0.0, 1.0], given], engine)
        assert str(error.value).startswith("in round 3 of replication 0 the feedback of RewardTable(3 x 2")
        assert "1 for the one right action and 0 for all others" in str(error.value)


@pytest.mark.minutes
def test_ends_of_another_range_name_an_action_too():
    rows = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    game = arenas.Stretched(games.RewardTable(rows, "full"), -2.0, 6.0)
    for engine in ("compiled", "python"):
        f = bl.Direct(bl.Cover(1000), reward_range=(-2, 6))
        bl.play(f, game, delays.Constant(0), 2, engine=engine)
        with pytest.raises(InvalidFeedback, match=r"must be 6 for the one right action .*, got \[6.0, 6.0\]"):
            bl.play(f, game, delays.Constant(0), 3, engine=engine)


@pytest.mark.parametrize("text", ["cover(10)", "perceptron(2)", "winnow(2)", "halving(2)"])
def test_feedback_that_names_no_action_is_refused_by_the_service(text):
    made = experiment.make("labels", ["no", "yes"], f"direct({text})", reward_range=(0, 5))
    for given in NOT_ONE:
        with pytest.raises(InvalidFeedback, match="value must be 5 for the one right action and 0 for all others"):
            made.check([5 * each for each in given])
    assert made.feedback([0, 5], 1).tolist() == [0.0, 1.0]


def test_only_full_feedback_names_an_action():
    @dataclass(frozen=True)
    class Odd(bl.UCB1):
        one_hot = True

    with pytest.raises(InvalidArgument, match="one_hot of Odd is about full feedback, it learns from bandit feedback"):
        Instance(Odd(2), key_of(0, 0), 0)
