"""Learners that take a context, against NumPy and under delay; games that give one, their kernels called directly."""

import math
import random
import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import belated as bl
from belated.errors import InvalidArgument, Unsupported
from belated.games import Advice, Linear
from belated.kernels import states
from belated.kernels.compile import COMPILED, kernel
from belated.kernels.random import event_draw, key_of, learner_draw, outcome_draw, uniform
from belated.kernels.sampling import normals
from belated.learners import CBPside, Exp4, LinearThompson, LinUCB, RandCBPside, linear_model
from belated.ledger.experiment import make

LEARNERS = [LinUCB, LinearThompson, Exp4]
FORECASTERS = [bl.Direct, bl.BOLD]
LEVEL = 1e-4
forecasters = pytest.mark.parametrize("forecaster", FORECASTERS)
learners = pytest.mark.parametrize("learner", LEARNERS)


class Model:
    """LinUCB as it is written: A is kept, and inverted whenever it is needed."""

    def __init__(self, actions, features, width, ridge):
        self.actions, self.width = actions, width
        self.a = np.array([ridge * np.eye(features)] * actions)
        self.b = np.zeros((actions, features))
        self.predicted = np.zeros(actions)

    def predict(self, x):
        inverse = np.linalg.inv(self.a)
        theta = np.einsum("aij,aj->ai", inverse, self.b)
        index = theta @ x + self.width * np.sqrt(np.einsum("i,aij,j->a", x, inverse, x))
        tied = np.flatnonzero(index >= index.max() - 1e-9)
        action = int(tied[np.argmin(self.predicted[tied])])
        self.predicted[action] += 1
        return action, 1.0

    def update(self, x, action, probability, reward):
        self.a[action] += np.outer(x, x)
        self.b[action] += reward * x


class Experts:
    """Exp4 as it is written; the uniform number that decides is given."""

    def __init__(self, actions, experts):
        self.actions, self.loss, self.round = actions, np.zeros(experts), 0

    def law(self, advice):
        self.round += 1
        eta = np.sqrt(np.log(len(self.loss)) / (self.round * self.actions))
        q = np.exp(-eta * (self.loss - self.loss.min()))
        return q / q.sum() @ advice.reshape(-1, self.actions)

    def update(self, advice, action, probability, reward):
        self.loss += advice.reshape(-1, self.actions)[:, action] * (1 - reward) / probability


def late(draw, open_, most=8):
    """Which open tickets are answered now: some, in any order, and one where there are too many."""
    answered = [ticket for ticket in open_ if draw.random() < 0.25]
    if len(open_) - len(answered) > most:
        answered = sorted({*answered, open_[0]})
    draw.shuffle(answered)
    return answered


def lowest(forecaster, made, free, make):
    """The instance that predicts now: the only one, or BOLD's lowest that waits for nothing."""
    if forecaster is bl.BOLD and free:
        return free.pop(0)
    if forecaster is bl.BOLD or not made:
        made.append(make())
    return len(made) - 1


def state_of(learner):
    """A fresh state and the parameters, as kernels see them."""
    return states.blank(learner), states.params(learner)


@forecasters
@pytest.mark.parametrize("width, ridge", [(1.0, 1.0), (0.3, 0.1)])
def test_linucb_under_delay_equals_explicit_inverses(forecaster, width, ridge):
    actions, features = 4, 3
    draw, rng = random.Random(3), np.random.default_rng(4)
    f = forecaster(LinUCB(actions, features, width=width, ridge=ridge))
    models, waiting, free = [], {}, []
    for _ in range(300):
        x = rng.normal(size=features)
        place = lowest(forecaster, models, free, lambda: Model(actions, features, width, ridge))
        decision = f.predict(x)
        assert (decision.action, decision.probability) == models[place].predict(x)
        waiting[decision.ticket] = place, x, decision.action
        for ticket in late(draw, sorted(waiting)):
            place, known, action = waiting.pop(ticket)
            reward = rng.random()
            f.update(ticket, reward)
            models[place].update(known, action, 1.0, reward)
            free = sorted([*free, place])
    assert f.instances == len(models)
    for instance, model in zip(f._instances, models, strict=True):
        inverse = np.linalg.inv(model.a)
        root = instance.state["root"][0]
        np.testing.assert_allclose(root @ root.transpose(0, 2, 1), inverse, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(instance.state["theta"][0], np.einsum("aij,aj->ai", inverse, model.b), atol=1e-9)


@pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
def test_linucb_keeps_its_inverse_over_many_rounds():
    rng = np.random.default_rng(8)
    learner = LinUCB(1, 5)
    (pool, params), update = state_of(learner), states.kernels(learner)[1]
    contexts, rewards = rng.random((100_000, 5)), rng.random((100_000, 1))
    for x, reward in zip(contexts, rewards, strict=True):
        update(params[0], pool[0], x, 0, 1.0, reward)
    a = np.eye(5) + contexts.T @ contexts
    root = pool["root"][0, 0]
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(a), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(pool["theta"][0, 0], np.linalg.solve(a, contexts.T @ rewards[:, 0]), rtol=1e-8)


LINEAR = pytest.mark.parametrize("kind", [LinUCB, LinearThompson, CBPside, RandCBPside])


@LINEAR
@pytest.mark.parametrize("share", [1e-4, 1.0])
def test_contexts_of_all_sizes_up_to_the_limit_do_no_harm(kind, share):
    """Kept by itself, an inverse loses its sign by rounding, and soon there are no numbers any more."""
    learner = kind.example()
    size = share * learner.context_limit
    f, rng, late = bl.Direct(learner, seed=1), np.random.default_rng(1), []
    for _ in range(100):
        scale = size ** rng.choice([0.0, 0.5, 1.0], learner.context_size)
        late.append(f.predict(rng.choice([-1.0, 0.5, 1e-3], learner.context_size) * scale))
        if len(late) > 3:
            first = late.pop(0)
            known = learner.symbols[first.action][0] if learner.feedback == "symbol" else rng.random()
            f.update(first.ticket, known)
    assert np.isfinite(f._instances[0].state["theta"]).all() and np.isfinite(f._instances[0].state["root"]).all()


def exactly(contexts, x, ridge):
    """x^T A^-1 x in fractions."""
    d, x = len(x), [Fraction(v) for v in x.tolist()]
    rows = [[Fraction(v) for v in row] for row in contexts.tolist()]
    a = [[sum((r[i] * r[j] for r in rows), Fraction(ridge if i == j else 0)) for j in range(d)] for i in range(d)]
    left = [[*row, value] for row, value in zip(a, x, strict=True)]
    for i in range(d):
        for k in range(i + 1, d):
            part = left[k][i] / left[i][i]
            left[k] = [two - part * one for one, two in zip(left[i], left[k], strict=True)]
    total = Fraction(0)
    for i in range(d):  # the pivots are those of L D L^T, so x^T A^-1 x = sum (L^-1 x)_i^2 / D_i
        total += left[i][d] ** 2 / left[i][i]
    return float(total)


@pytest.mark.parametrize("ridge", [1.0, 1e-6])
def test_up_to_the_limit_the_deviation_is_right(ridge):
    rng, limit = np.random.default_rng(3), LinUCB(1, 3, ridge=ridge).context_limit
    assert limit == 1e10 * math.sqrt(ridge)
    for share in (1e-10, 1e-5, 1.0):
        seen = share * limit * rng.normal(size=(6, 3)).clip(-1, 1)
        for count in (1, 2, 6):
            root, gain = np.eye(3) / math.sqrt(ridge), np.zeros(6)
            for x in seen[:count]:
                linear_model.add(root, x, gain)
            for x in (seen[0], seen[-1], rng.random(3)):
                assert linear_model.square(root, x, np.zeros(3)) == pytest.approx(
                    exactly(seen[:count], x, ridge), rel=1e-4
                )


@LINEAR
def test_beyond_the_limit_contexts_are_refused_everywhere(kind):
    learner = kind.example()
    most = learner.context_limit
    f = bl.BOLD(learner, seed=1)
    f.predict(np.full(learner.context_size, most))
    with pytest.raises(
        InvalidArgument, match=rf"numbers of at most {re.escape(f'{most:g}')} \(scale the features\), got"
    ):
        f.predict(np.full(learner.context_size, -1.01 * most))
    assert f.outstanding == 1
    served = make("ads", [str(i) for i in range(learner.actions)], bl.catalog.to_data(bl.BOLD(learner)))
    with pytest.raises(InvalidArgument, match="scale the features"):
        served.context([1.01 * most] * learner.context_size)


@pytest.mark.parametrize("engine", ["compiled", "python"] if COMPILED else ["python"])
def test_a_game_with_contexts_beyond_the_limit_is_not_played(engine):
    contexts = np.ones((5, 2))
    contexts[3, 1] = 1e15
    game = bl.games.RewardTable(np.ones((5, 2)), contexts=contexts)
    with pytest.raises(
        InvalidArgument, match=r"gave the context \[1\.0, 1000000000000000\.0\], LinUCB.* 1e\+10 .* in round 4 of"
    ):
        bl.play(bl.Direct(LinUCB(2, 2)), game, bl.delays.Constant(1), rounds=5, engine=engine)
    assert bl.play(bl.Direct(bl.UCB1(2)), game, bl.delays.Constant(1), rounds=5, engine=engine).rounds == 5


def test_an_update_uses_the_context_of_its_own_round():
    f = bl.Direct(LinUCB(1, 2))
    first = f.predict([1.0, 0.0])
    f.predict([0.0, 1.0])
    f.update(first.ticket, 1.0)
    assert f._instances[0].state["theta"][0, 0].tolist() == [0.5, 0.0]


def test_the_forecaster_keeps_a_context_of_its_own():
    f = bl.Direct(LinUCB(1, 2))
    x = np.array([1.0, 0.0])
    ticket = f.predict(x).ticket
    x[:] = 7.0
    f.update(ticket, 1.0)
    assert f._instances[0].state["theta"][0, 0].tolist() == [0.5, 0.0]


# --- linear Thompson sampling ---


def taught(actions=3, features=4, count=30, **more):
    """A state of LinearThompson that has learned something, and the models behind it."""
    learner = LinearThompson(actions, features, **more)
    pool, params = state_of(learner)
    update, rng = states.kernels(learner)[1], np.random.default_rng(6)
    model = Model(actions, features, 0.0, learner.ridge)
    for i in range(count):
        x, reward = rng.random(features), rng.random()
        update(params[0], pool[0], x, i % actions, 1.0, np.array([reward]))
        model.update(x, i % actions, 1.0, reward)
    return learner, pool, params, model


def law_at(learner, model, x):
    inverse = np.linalg.inv(model.a)
    mean = np.einsum("aij,aj->ai", inverse, model.b) @ x
    return mean, learner.scale * np.sqrt(np.einsum("i,aij,j->a", x, inverse, x))


def test_linear_thompson_plays_each_action_as_often_as_its_law_says():
    learner, pool, params, model = taught()
    predict, x = states.kernels(learner)[0], np.array([0.3, 0.9, 0.1, 0.5])
    count = 40_000 if COMPILED else 2000
    mean, deviation = law_at(learner, model, x)
    said = [predict(params[0], pool[0], x, learner_draw(*key_of(1, 0), i, 0)) for i in range(count)]
    played = np.array([action for action, _ in said])
    inverse = 1 / np.array([probability for _, probability in said])
    grid = np.linspace(-6, 6, 20_001)
    for a in range(learner.actions):
        at = mean[a] + deviation[a] * grid
        others = np.prod([stats.norm.cdf(at, mean[b], deviation[b]) for b in range(3) if b != a], axis=0)
        chance = integrate.trapezoid(others * stats.norm.pdf(grid), grid)
        assert stats.binomtest(int((played == a).sum()), count, chance).pvalue > LEVEL
        weighed = np.where(played == a, inverse, 0.0)
        assert abs(weighed.mean() - 1) < 4 * weighed.std() / np.sqrt(count)


def test_linear_thompson_draws_normal_numbers_and_tells_the_exact_tail():
    learner, pool, params, model = taught(scale=0.8, ridge=0.5)
    predict, rng = states.kernels(learner)[0], np.random.default_rng(2)
    numbers, tails = [], []
    for i in range(1500):
        x = rng.random(4)
        mean, deviation = law_at(learner, model, x)
        draw = learner_draw(*key_of(1, 0), i, 0)
        z = np.array([*normals(draw, 0), normals(draw, 1)[0]])
        values = mean + deviation * z
        action, probability = predict(params[0], pool[0], x, draw)
        assert action == values.argmax()
        second = np.delete(values, action).max()
        tail = stats.norm.sf(second, mean[action], deviation[action])
        assert probability == pytest.approx(tail, rel=1e-9)
        numbers.extend(z)
        # given the others and that it was played, the share of the tail beyond its own value is uniform
        tails.append(stats.norm.sf(values[action], mean[action], deviation[action]) / probability)
    assert stats.kstest(numbers, "norm").pvalue > LEVEL
    assert stats.kstest(tails, "uniform").pvalue > LEVEL


def test_linear_thompson_at_the_edges():
    one = bl.Direct(LinearThompson(1, 2), seed=1)
    assert one.predict([0.3, 0.2]).probability == 1.0
    nothing = bl.Direct(LinearThompson(3, 2), seed=1).predict([0.0, 0.0])
    assert (nothing.action, nothing.probability) == (0, 1.0)


# --- Exp4 ---


@forecasters
def test_exp4_equals_its_formula(forecaster):
    actions, experts = 3, 5
    draw, rng = random.Random(5), np.random.default_rng(6)
    f = forecaster(Exp4(actions, experts), seed=9)
    plain, waiting, free = [], {}, []
    for _ in range(200):
        advice = rng.dirichlet(np.full(actions, 0.5), size=experts).ravel()
        place = lowest(forecaster, plain, free, lambda: Experts(actions, experts))
        decision, law = f.predict(advice), plain[place].law(advice)
        u = uniform(learner_draw(*key_of(9, 0), plain[place].round, place), 0)
        assert decision.action == np.searchsorted(np.cumsum(law), u, side="right")
        assert decision.probability == pytest.approx(law[decision.action], rel=1e-9)
        waiting[decision.ticket] = place, advice, decision
        for ticket in late(draw, sorted(waiting)):
            place, known, answered = waiting.pop(ticket)
            reward = rng.random()
            f.update(ticket, reward)
            plain[place].update(known, answered.action, answered.probability, reward)
            free = sorted([*free, place])
    for instance, other in zip(f._instances, plain, strict=True):
        np.testing.assert_allclose(instance.state["loss"][0], other.loss, rtol=1e-9)


def test_exp4_reads_advice_as_weights():
    said = [bl.Direct(Exp4(2, 2), seed=4).predict(x).probability for x in ([1, 3, 2, 2], [0.25, 0.75, -1, 0])]
    assert said[0] == said[1]
    f = bl.Direct(Exp4(2, 2), seed=4)
    f.update(f.predict([0, 2, 0, -1]).ticket, 0.5)
    loss = f._instances[0].state["loss"][0]
    assert loss.tolist() in ([0.5 / 0.75, 0.25 / 0.75], [0.0, 1.0])


def test_exp4_learns_whom_to_follow():
    f = bl.Direct(Exp4(2, 2), seed=4)
    rng = np.random.default_rng(1)
    for _ in range(600):
        good = int(rng.random() < 0.5)
        decision = f.predict(np.array([np.eye(2)[good], np.eye(2)[1 - good]]).ravel())
        f.update(decision.ticket, float(decision.action == good))
    state = f._instances[0].state
    assert state["weight"][0, 0] / state["weight"][0].sum() > 0.99


def test_exp4_with_one_expert_for_each_action_is_exp3():
    f, g = bl.BOLD(Exp4(3, 3), seed=5), bl.BOLD(bl.Exp3(3), seed=5)
    for t in range(100):
        said, other = f.predict(np.eye(3).ravel()), g.predict()
        assert said.action == other.action
        assert said.probability == pytest.approx(other.probability, rel=1e-12)
        if t % 3:
            f.update(said.ticket, 0.2 * said.action)
            g.update(other.ticket, 0.2 * other.action)
    assert f.learner.bound(500) == pytest.approx(g.learner.bound(500))


# --- all of them ---


@learners
@forecasters
def test_saved_with_open_tickets_and_their_contexts(learner, forecaster, monkeypatch):
    monkeypatch.setitem(bl.catalog.LEARNERS, learner.__name__.lower(), learner)
    f, rng = forecaster(learner.example(), seed=2), np.random.default_rng(3)
    size = f.learner.context_size
    tickets = [f.predict(rng.random(size)).ticket for _ in range(12)]
    for ticket in tickets[::3]:
        f.update(ticket, rng.random())
    saved = f.to_bytes()
    g = bl.from_bytes(saved)
    assert g.learner == f.learner
    assert g.outstanding == f.outstanding == 8
    assert g.to_bytes() == saved
    for ticket in tickets[-1::-1]:
        if ticket not in tickets[::3]:
            reward = rng.random()
            f.update(ticket, reward)
            g.update(ticket, reward)
        x = rng.random(size)
        assert f.predict(x) == g.predict(x)
    assert f.to_bytes() == g.to_bytes()


@learners
def test_a_wrong_context_is_refused_and_changes_nothing(learner):
    f = bl.Direct(learner.example(), seed=1)
    before = f._instances[0].state.copy()
    size = f.learner.context_size
    for wrong in (None, [], np.zeros(size + 1), [np.nan] * size, "abc", np.zeros((size, 1))):
        with pytest.raises(InvalidArgument, match=f"context must be {size} finite numbers"):
            f.predict(wrong)
    assert (f._instances[0].state == before).all()
    assert f.outstanding == 0


@learners
def test_qpmd_refuses_them(learner):
    with pytest.raises(Unsupported):
        bl.QPMD(learner.example())


@pytest.mark.parametrize("learner", [LinUCB, LinearThompson])
def test_a_replaced_action_is_as_new(learner):
    f, rng = bl.Direct(learner.example(), seed=1), np.random.default_rng(1)
    for _ in range(30):
        f.update(f.predict(rng.random(4)).ticket, rng.random())
    f.replace(1)
    new, old = states.blank(f.learner), f._instances[0].state
    for name in ("root", "theta"):
        assert (old[name][0, 1] == new[name][0, 1]).all()
        assert (old[name][0, 0] != new[name][0, 0]).any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinUCB(0, 1),
        lambda: LinUCB(2, 0),
        lambda: LinUCB(2, 2, width=-1),
        lambda: LinUCB(2, 2, ridge=0),
        lambda: LinearThompson(2, 2, scale=0),
        lambda: LinearThompson(2, 2, ridge=float("inf")),
        lambda: LinearThompson(2.5, 2),
        lambda: Exp4(2, 0),
        lambda: Exp4(0, 2),
        lambda: Linear([]),
        lambda: Linear([[0.5, 0.6]]),
        lambda: Linear([[0.5, -0.1]]),
        lambda: Linear([[0.5], [0.1, 0.1]]),
        lambda: Linear([[0.5]], noise="normal"),
        lambda: Advice([0.5, 1.2], [[1, 0]]),
        lambda: Advice([0.5, 0.2], [[1, 0, 0]]),
        lambda: Advice([0.5, 0.2], [[0.6, 0.6]]),
        lambda: Advice([0.5, 0.2], []),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(InvalidArgument):
        make()


# --- games ---


def played(game, actions, seed=7, looked=True):
    """The contexts and rewards of a game, and its regret after each round."""
    observe, outcome, regret = (kernel(getattr(type(game), name)) for name in ("observe", "outcome", "regret"))
    params, memory, key = game.params(), np.zeros(game.memory()), key_of(seed, 0)
    context, feedback = np.full(game.context_size, np.nan), np.zeros(1)
    contexts, rewards, regrets = [], [], []
    for t, action in enumerate(actions, start=1):
        if looked:
            observe(params, memory, *key, t, context)
        rewards.append(outcome(params, memory, *key, t, action, feedback))
        assert feedback[0] == rewards[-1]
        contexts.append(context.copy())
        regrets.append(regret(params, memory))
    return np.array(contexts), np.array(rewards), np.array(regrets)


THETA = ((0.9, 0.0, 0.1), (0.1, 0.8, 0.0), (0.3, 0.3, 0.4), (0.0, 0.0, 0.0))


@pytest.mark.parametrize("noise", ["bernoulli", "none"])
def test_linear_game(noise):
    game, theta = Linear(THETA, noise), np.array(THETA)
    actions = np.random.default_rng(1).integers(0, 4, 400)
    contexts, rewards, regrets = played(game, actions)
    key = key_of(7, 0)
    x = np.array([[uniform(event_draw(*key, t), i) for i in range(3)] for t in range(1, 401)])
    assert (contexts == x).all()
    means = x @ theta.T
    own = means[np.arange(400), actions]
    np.testing.assert_allclose(regrets, np.cumsum(means.max(axis=1) - own), rtol=1e-12)
    if noise == "none":
        np.testing.assert_allclose(rewards, own, rtol=1e-12)
    else:
        u = [uniform(outcome_draw(*key, t, 0), a) for t, a in enumerate(actions, start=1)]
        assert (rewards == (np.array(u) < own)).all()
    assert stats.kstest(contexts.ravel(), "uniform").pvalue > LEVEL


def test_linear_game_pays_the_same_whether_or_not_one_looks():
    game = Linear(THETA)
    actions = np.random.default_rng(2).integers(0, 4, 100)
    (_, rewards, regrets), (_, others, same) = played(game, actions), played(game, actions, looked=False)
    assert (rewards == others).all()
    assert (regrets == same).all()


def test_advice_game():
    means, experts = np.array([0.2, 0.5, 0.9]), ((1.0, 0.0, 0.0), (0.1, 0.8, 0.1))
    game = Advice(tuple(means), experts)
    actions = np.random.default_rng(1).integers(0, 3, 300)
    contexts, rewards, regrets = played(game, actions)
    assert (contexts == np.ravel(experts)).all()
    best = max(np.array(experts) @ means)
    np.testing.assert_allclose(regrets, np.cumsum(best - means[actions]), atol=1e-10)
    u = [uniform(outcome_draw(*key_of(7, 0), t, 0), a) for t, a in enumerate(actions, start=1)]
    assert (rewards == (np.array(u) < means[actions])).all()
    assert played(game, [2] * 10)[2][-1] < 0


def test_the_rewards_of_advice_are_those_of_bernoulli():
    means = (0.2, 0.5, 0.9)
    same = bl.games.deal(bl.games.Bernoulli(means), 50) == bl.games.deal(Advice(means, [means_to_law(means)]), 50)
    assert same.all()


def means_to_law(means):
    return tuple(mean / sum(means) for mean in means)


@pytest.mark.parametrize("game", [Linear([[0.5, 0.2]]), Advice([0.5, 0.2], [[1, 0]])])
def test_games_with_side_information_are_specs(game):
    fields = {name: getattr(game, name) for name in game.__dataclass_fields__}
    assert type(game)(**fields) == game
    assert hash(type(game)(**fields)) == hash(game)
    assert not game.stochastic
    assert game.feedback == "bandit"


@pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
@pytest.mark.parametrize("learner", [LinUCB(3, 3, width=0.3), LinearThompson(3, 3, scale=0.2)])
def test_linear_learners_learn_a_linear_game_under_delay(learner):
    game = Linear(THETA[:3])
    observe, outcome, regret = (kernel(getattr(type(game), name)) for name in ("observe", "outcome", "regret"))
    params, memory, key = game.params(), np.zeros(game.memory()), key_of(1, 0)
    f, context, feedback, waiting, half = bl.Direct(learner, seed=1), np.zeros(3), np.zeros(1), [], 0.0
    for t in range(1, 4001):
        observe(params, memory, *key, t, context)
        decision = f.predict(context)
        outcome(params, memory, *key, t, decision.action, feedback)
        waiting.append((decision.ticket, feedback[0]))
        if len(waiting) > 20:
            f.update(*waiting.pop(0))
        half = regret(params, memory) if t == 2000 else half
    assert regret(params, memory) - half < 0.6 * half


# --- in the simulator ---

LINEAR = Linear([[0.9, 0.05, 0.0], [0.1, 0.5, 0.3], [0.0, 0.3, 0.7]])
ADVICE = Advice([0.2, 0.5, 0.8], experts=[[1, 0, 0], [0, 0.5, 0.5], [0, 0.1, 0.9], [0.3, 0.3, 0.4]])
PLAYED = [(LINEAR, LinUCB(3, 3)), (LINEAR, LinearThompson(3, 3)), (ADVICE, Exp4(3, 4)), (LINEAR, bl.UCB1(3))]


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
@pytest.mark.parametrize(("game", "learner"), PLAYED, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("law", [bl.delays.Constant(300), bl.delays.Geometric(mean=40)], ids=repr)
def test_compiled_is_python_with_contexts(kind, game, learner, law):
    """300 feedbacks outstanding: more than the mailbox starts with, so the contexts in it move, too."""
    one, two = (
        bl.play(kind(learner), game, law, rounds=700, replications=2, record=True, expiry=500, engine=e)
        for e in ("compiled", "python")
    )
    assert np.array_equal(one.actions, two.actions) and np.array_equal(one.probabilities, two.probabilities)
    assert np.array_equal(one.regret, two.regret) and one.certificate.holds


def test_learning_from_side_information_beats_ignoring_it():
    laws = {"rounds": 5000, "replications": 10}
    seeing, blind = (
        bl.play(bl.Direct(learner), LINEAR, bl.delays.Geometric(mean=30), **laws).mean_regret
        for learner in (LinUCB(3, 3, width=0.5), bl.UCB1(3))
    )
    assert seeing < 0.6 * blind


def test_exp4_stays_below_its_bound_against_the_best_expert():
    r = bl.play(bl.BOLD(Exp4(3, 4)), ADVICE, bl.delays.Geometric(mean=20), rounds=20_000, replications=10)
    assert r.bound is not None and r.verdict.removeprefix("likely ").startswith("holds")
    contexts = np.tile(np.full(12, 0.25), (50, 1))
    table = bl.games.RewardTable(np.full((50, 3), 0.5), contexts=contexts)
    other = bl.play(bl.BOLD(Exp4(3, 4)), table, bl.delays.Constant(2), rounds=50)
    assert other.bound is None and "best expert" in other.bound_reason


def test_recorded_contexts_are_shown():
    class Copies:
        """Plays what the context says, and remembers with which context it was told."""

        actions = 3

        def __init__(self):
            self.told = []

        def predict(self, context):
            return int(context[0]), 1.0

        def update(self, context, action, probability, feedback):
            assert int(context[0]) == action

    shown = np.random.default_rng(0).integers(0, 3, (60, 1)).astype(float)
    game = bl.games.RewardTable(np.full((60, 3), 0.5), contexts=shown)
    r = bl.play(bl.Direct(Copies), game, bl.delays.Geometric(mean=9), rounds=60, record=True)
    assert r.actions[0].tolist() == shown[:, 0].astype(int).tolist()
    assert game == bl.games.RewardTable(np.full((60, 3), 0.5), contexts=shown.tolist())
    assert game != bl.games.RewardTable(np.full((60, 3), 0.5))
    for bad, said in (([[1.0]], "one row for each of the 60 rounds"), (np.full((60, 1), np.nan), "finite")):
        with pytest.raises(InvalidArgument, match=said):
            bl.games.RewardTable(np.full((60, 3), 0.5), contexts=bad)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidArgument, match=r"needs a context, .* has none"):
        bl.play(bl.Direct(LinUCB(3, 3)), bl.games.Bernoulli([0.1, 0.2, 0.3]), bl.delays.Constant(1), rounds=5)
    with pytest.raises(InvalidArgument, match=r"needs a context of 4 numbers, .* gives 3"):
        bl.play(bl.Direct(LinUCB(3, 4)), LINEAR, bl.delays.Constant(1), rounds=5)
    for learner in (LinUCB(3, 3), LinearThompson(3, 3), Exp4(3, 4)):
        with pytest.raises(Unsupported, match="QPM-D cannot play"):
            bl.QPMD(learner)


def test_studies_fill_in_features_and_experts(tmp_path):
    study = bl.studies.Study.make(
        forecasters=["direct(linucb)", "bold(linearthompson)"],
        games=["linear([[0.9, 0.1], [0.2, 0.7]])"],
        delays=["constant(5)"],
        rounds=200,
        replications=3,
    )
    assert study.run(tmp_path).frame().shape[0] == 2
