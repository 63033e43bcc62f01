"""CBPside and RandCBPside against slow forms that invert matrices; the game LinearMonitoring, its kernels called."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.instance import Instance
from belated.games import LinearMonitoring, Monitoring
from belated.geometry import structure
from belated.kernels.compile import COMPILED, kernel
from belated.kernels.random import key_of, learner_draw, outcome_draw, uniform
from belated.learners import CBPside, RandCBPside

LEVEL = 1e-4
APPLES, LABELS = bl.games.apple_tasting(), bl.games.label_efficient()
#: With the laws of the outcome at the corners of the simplex of contexts.
GAMES = {
    "apples": (APPLES, [[1.0, 0.0], [0.0, 1.0]]),
    "labels": (LABELS, [[1.0, 0.0], [0.0, 1.0]]),
    "bartok": (bl.games.bartok(), [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
}
games = pytest.mark.parametrize("name", GAMES)
learners = pytest.mark.parametrize("learner", [CBPside, RandCBPside])


def recorded(name, rounds, seed=1):
    """A game with recorded outcomes and contexts of different lengths."""
    game, laws = GAMES[name]
    rng = np.random.default_rng(seed)
    x = rng.dirichlet(np.full(len(laws), 0.5), rounds)
    outcomes = [rng.choice(len(laws[0]), p=p) for p in x @ np.array(laws)]
    scale = rng.choice([1.0, 0.8, 1.3], size=(rounds, 1))
    return Monitoring(game.loss, game.symbols, trace=outcomes, contexts=x * scale)


class SlowSide:
    """The rules from top to bottom, in NumPy: matrices are inverted anew, and the geometry asked for, in each round."""

    def __init__(self, game, ridge, alpha=1.01):
        self.game = structure(game.loss, game.symbols)
        self.symbols = [list(dict.fromkeys(row)) for row in game.symbols]
        self.actions, self.ridge, self.alpha, self.asked = self.game.actions, ridge, alpha, 0
        self.predicted = [0] * self.actions
        self.seen = [0] * self.actions
        self.v = [ridge * np.eye(game.context_size) for _ in range(self.actions)]
        self.b = [np.zeros((len(names), game.context_size)) for names in self.symbols]
        self.patterns = set()

    def predict(self, x):
        t, self.asked = self.asked, self.asked + 1
        action = self.choose(x, t)
        self.predicted[action] += 1
        return action, 1.0

    def update(self, x, action, probability, symbol):
        self.seen[action] += 1
        self.v[action] += np.outer(x, x)
        self.b[action] += np.outer(np.eye(len(self.symbols[action]))[self.symbols[action].index(symbol)], x)

    def top(self, t, d):
        return math.sqrt(d * math.log(t) + 2 * math.log(1 / t**-2.0))

    def width(self, pair, t, d):
        return self.top(t, d)

    def choose(self, x, t):
        if 0 in self.seen:
            return min((k for k in range(self.actions) if self.seen[k] == 0), key=lambda k: (self.predicted[k], k))
        game, d = self.game, len(x)
        inverses = [np.linalg.inv(v) for v in self.v]
        q = [b @ inverse @ x for b, inverse in zip(self.b, inverses, strict=True)]
        norm = [math.sqrt(x @ inverse @ x) for inverse in inverses]
        s = [len(names) for names in self.symbols]

        def w(k, z):
            return s[k] * (z + math.sqrt(self.ridge) * s[k]) * norm[k]

        signs = {}
        for pair in game.pairs:
            parts = game.observer[pair].items()
            difference = sum(v @ q[k] for k, v in parts)
            z = self.width(pair, t, d)
            if difference != 0 and abs(difference) >= sum(np.linalg.norm(v) * w(k, z) for k, v in parts):
                signs[pair] = 1 if difference > 0 else -1
        self.patterns.add(tuple(sorted(signs.items())))
        alive, pairs = game.alive(signs)
        if not alive:
            alive, pairs = game.pareto, game.pairs
        plus = {k for pair in pairs for k in game.plus[pair]}
        watch = {k for pair in pairs for k in game.watch[pair]}
        largest = [
            max((max(abs(game.observer[pair][k])) for pair in game.pairs if k in game.observer[pair]), default=0.0)
            for k in range(self.actions)
        ]
        f = self.alpha ** (1 / 3) * t ** (2 / 3) * math.log(t) ** (1 / 3)
        rare = {k for k in watch if largest[k] > 0 and norm[k] ** 2 > 1 / (largest[k] ** (2 / 3) * f)}
        candidates = sorted({*alive, *plus, *rare})
        values = {k: largest[k] * w(k, self.top(t, d)) for k in candidates}
        return next(k for k in candidates if values[k] >= max(values.values()) * (1 - 5e-10))


class SlowRandSide(SlowSide):
    """The same with widths drawn one by one, from the numbers that an instance of a replication draws."""

    def __init__(self, game, ridge, key, number=0, sigma=1.0, bins=5, epsilon=1e-6):
        super().__init__(game, ridge)
        self.key, self.number, self.sigma, self.bins, self.epsilon = key, number, sigma, bins, epsilon

    def law(self, t, d):
        grid = np.linspace(0, self.top(t, d), self.bins)
        mass = np.exp(-(grid[:-1] ** 2) / (2 * self.sigma**2))
        return grid, [*((1 - self.epsilon) * mass / mass.sum()), self.epsilon]

    def width(self, pair, t, d):
        draw = learner_draw(*self.key, t + 1, self.number)
        grid, law = self.law(t, d)
        place = np.searchsorted(np.cumsum(law), uniform(draw, self.game.pairs.index(pair)), side="right")
        return grid[min(place, self.bins - 1)]


def made(learner, game, **options):
    return learner(game.loss, game.symbols, game.context_size, **options)


def actions_of(forecaster, game, law, rounds, **options):
    options = {"record": True, "seed": 3, "engine": "python"} | options
    return bl.play(forecaster, game, law, rounds=rounds, **options).actions


# --- the rules ---


#: Enough rounds for signs to be declared; in the hard game it also needs to look more often.
ENOUGH = {"apples": (3000, 1.01), "labels": (3000, 64.0), "bartok": (12_000, 1.01)}


@games
def test_it_plays_what_the_slow_form_plays(name):
    rounds, alpha = ENOUGH[name] if COMPILED else (300, 1.01)
    game = recorded(name, rounds)
    slow = SlowSide(game, 0.01, alpha)
    ours = actions_of(bl.Direct(made(CBPside, game, ridge=0.01, alpha=alpha)), game, bl.delays.Constant(0), rounds)
    np.testing.assert_array_equal(ours, actions_of(bl.Direct(lambda: slow), game, bl.delays.Constant(0), rounds))
    assert len(np.unique(ours)) == game.actions and (len(slow.patterns) > 2 or not COMPILED)


@games
@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
def test_under_delay_too(name, kind):
    game, law, rounds = recorded(name, 2000), bl.delays.Uniform(0, 4), 2000 if COMPILED else 300
    ours = actions_of(kind(made(CBPside, game, ridge=0.01)), game, law, rounds)
    np.testing.assert_array_equal(ours, actions_of(kind(lambda: SlowSide(game, 0.01)), game, law, rounds))


@pytest.mark.parametrize("name", ["apples", "bartok"])
def test_the_randomised_form_draws_what_the_slow_form_draws(name):
    game = recorded(name, 700)
    for law in (bl.delays.Constant(0), bl.delays.Geometric(mean=10)):
        ours = actions_of(bl.Direct(made(RandCBPside, game, ridge=0.01)), game, law, 700)
        slow = SlowRandSide(game, 0.01, key_of(3, 0))
        np.testing.assert_array_equal(ours, actions_of(bl.Direct(lambda slow=slow: slow), game, law, 700))
        assert len(slow.patterns) > 2


def test_a_sure_width_is_that_of_cbpside():
    game = recorded("bartok", 600)
    one, two = (
        actions_of(bl.Direct(made(learner, game, ridge=0.01, **options)), game, bl.delays.Geometric(mean=10), 600)
        for learner, options in ((CBPside, {}), (RandCBPside, {"epsilon": 1.0}))
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["apples", "bartok"])
def test_the_probability_is_that_of_all_draws(name):
    """Against all draws of all pairs, 5 or 5^3 of them."""
    random = 0
    for many in (20, 45, 90):
        game = recorded(name, many + 1, seed=many)
        slow, key = SlowRandSide(game, 0.01, key_of(0, 0)), key_of(0, 0)
        ours = Instance(made(RandCBPside, game, ridge=0.01), key, 0)
        for x, outcome in zip(np.array(game.contexts)[:many], game.trace, strict=False):
            action, _ = ours.predict(x)
            assert action == slow.predict(x)[0]
            symbol = game.symbols[action][outcome]
            slow.update(x, action, 1.0, symbol)
            ours.update(x, action, 1.0, np.array([ours.learner.encode(action, symbol)]))
        x, pairs = np.array(game.contexts[many]), slow.game.pairs
        grid, law = slow.law(many, len(x))
        expected = np.zeros(game.actions)
        for cells in np.ndindex(*[5] * len(pairs)):
            widths = {pair: grid[m] for pair, m in zip(pairs, cells, strict=True)}
            slow.width = lambda pair, t, d, widths=widths: widths[pair]
            expected[slow.choose(x, many)] += math.prod(law[m] for m in cells)
        action, probability = ours.predict(x)
        assert probability == pytest.approx(expected[action], rel=1e-9)
        random += probability < 1
    assert random


def test_with_one_constant_feature_it_regresses_to_the_means_of_cbp():
    """The other feature is always 0. CBP's means are counts / n: only the ridge is new."""
    f, ridge, counts = bl.Direct(CBPside(LABELS.loss, LABELS.symbols, 2, ridge=0.3)), 0.3, np.zeros((3, 2))
    for outcome in np.random.default_rng(1).choice(2, p=[0.3, 0.7], size=200):
        said = f.predict([1.0, 0.0])
        f.update(said.ticket, LABELS.symbols[said.action][outcome])
        counts[said.action, outcome] += 1
    state, n = f._instances[0].state[0], counts.sum(axis=1)
    assert n[0] > 50 and state["seen"].tolist() == n.tolist()
    np.testing.assert_allclose(state["theta"][0, :, 0], counts[0] / (n[0] + ridge), rtol=1e-10)
    root = state["root"][0]
    np.testing.assert_allclose(root @ root.T, np.diag([1 / (n[0] + ridge), 1 / ridge]), rtol=1e-10)


def test_an_update_uses_the_context_of_its_own_round():
    f = bl.Direct(CBPside(APPLES.loss, APPLES.symbols, 2))
    f.update(f.predict([1.0, 1.0]).ticket, "-")
    late, soon = f.predict([1.0, 0.0]), f.predict([0.0, 2.0])
    assert late.action == soon.action == 1
    f.update(soon.ticket, "good")
    f.predict([9.0, 9.0])
    f.update(late.ticket, "rotten")
    theta, root = (f._instances[0].state[0][field] for field in ("theta", "root"))
    names = structure(APPLES.loss, APPLES.symbols).names[1]
    np.testing.assert_allclose(theta[1, names.index("rotten")], [0.5, 0.0])
    np.testing.assert_allclose(theta[1, names.index("good")], [0.0, 0.4])
    np.testing.assert_allclose(root[1] @ root[1].T, np.diag([0.5, 0.2]))


@learners
def test_a_context_of_zeros_declares_nothing(learner):
    f = bl.Direct(learner(APPLES.loss, APPLES.symbols, 2), seed=1)
    for outcome in (0, 1, 1, 0, 1, 1):
        said = f.predict([0.0, 0.0])
        f.update(said.ticket, APPLES.symbols[said.action][outcome])
    assert f.predict([0.0, 0.0]) == bl.Decision(ticket=7, action=0, probability=1.0)
    assert np.isfinite(f._instances[0].state["root"]).all()


# --- what they refuse ---


@learners
def test_qpmd_and_replacements_are_refused(learner):
    with pytest.raises(Unsupported, match="no queue for each of endlessly many contexts"):
        bl.QPMD(learner.example())
    with pytest.raises(Unsupported, match="replace"):
        bl.Direct(learner.example()).replace(1)


@learners
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"features": 0}, "features must be >= 1, got 0"),
        ({"features": 2.5}, "features must be a whole number, got 2.5"),
        ({"ridge": 0}, "ridge must be > 0, got 0"),
        ({"alpha": float("nan")}, "alpha must be finite, got nan"),
        ({"loss": [[1, 0], [0]]}, "row 1 has 1"),
        ({"symbols": [["-", "-"]]}, "2 x 2 and 1 x 2"),
    ],
)
def test_what_makes_no_sense_is_refused(learner, wrong, said):
    with pytest.raises(InvalidArgument, match=said):
        learner(**{"loss": APPLES.loss, "symbols": APPLES.symbols, "features": 2} | wrong)


@pytest.mark.parametrize("wrong", [{"sigma": 0}, {"bins": 1}, {"epsilon": 1.5}])
def test_random_widths_that_make_no_sense_are_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(InvalidArgument, match=f"{name} must be .* got {value}"):
        RandCBPside(APPLES.loss, APPLES.symbols, 2, **wrong)


def test_what_does_not_fit_is_refused():
    learner = CBPside(APPLES.loss, APPLES.symbols, 2)
    with pytest.raises(Unsupported, match="needs a context"):
        bl.play(bl.Direct(learner), bl.games.apple_tasting(law=[0.5, 0.5]), bl.delays.Constant(0), rounds=5)
    three = LinearMonitoring(APPLES.loss, APPLES.symbols, [[1, 0]] * 3)
    with pytest.raises(InvalidArgument, match="a context of 2 numbers"):
        bl.play(bl.Direct(learner), three, bl.delays.Constant(0), rounds=5)
    with pytest.raises(InvalidArgument, match="another game"):
        bl.play(bl.Direct(learner), LinearMonitoring(*hopeless(), [[1, 0]] * 2), bl.delays.Constant(0), rounds=5)


def hopeless():
    game = bl.games.hopeless()
    return game.loss, game.symbols


# --- the games ---


def test_the_linear_game():
    game, laws = bl.games.bartok(), np.array([[0.7, 0.3, 0.0], [0.0, 0.4, 0.6], [0.2, 0.2, 0.6], [0.0, 1.0, 0.0]])
    linear = LinearMonitoring(game.loss, game.symbols, laws)
    observe, outcome, regret = (kernel(getattr(LinearMonitoring, name)) for name in ("observe", "outcome", "regret"))
    key, rounds = key_of(5, 0), 3000
    actions = np.random.default_rng(1).integers(0, 3, rounds)
    x = np.zeros((0, 4))
    for looked in (True, False):
        params, memory, context, feedback = linear.params(), np.zeros(linear.memory()), np.zeros(4), np.zeros(1)
        contexts, codes, rewards, regrets = [], [], [], []
        for t, action in enumerate(actions, start=1):
            if looked:
                observe(params, memory, *key, t, context)
                contexts.append(context.copy())
            rewards.append(outcome(params, memory, *key, t, action, feedback))
            codes.append(int(feedback[0]))
            regrets.append(regret(params, memory))
        x = np.array(contexts) if looked else x
        law = x @ laws
        u = np.array([uniform(outcome_draw(*key, t, 0), 0) for t in range(1, rounds + 1)])
        drawn = (u[:, None] >= law.cumsum(axis=1)[:, :-1]).sum(axis=1)
        assert codes == [game.structure.codes[a][o] for a, o in zip(actions, drawn, strict=True)]
        np.testing.assert_allclose(rewards, 1 - np.array(game.loss)[actions, drawn])
        costs = law @ np.array(game.loss).T
        gaps = costs[np.arange(rounds), actions] - costs.min(axis=1)
        np.testing.assert_allclose(regrets, np.cumsum(gaps), atol=1e-9)
    np.testing.assert_allclose(x.sum(axis=1), 1.0)
    for i in range(4):
        assert stats.kstest(x[:, i], stats.beta(1, 3).cdf).pvalue > LEVEL
    assert np.corrcoef(x[1:, 0], x[:-1, 0])[0, 1] < 0.1


def test_an_outcome_that_cannot_happen_does_not():
    game = LinearMonitoring(*hopeless(), [[1.0, 0.0], [1.0, 0.0]])
    assert (bl.games.deal(game, 300) == bl.games.deal(game, 300)[0]).all() and game.params()[2] == 0


def test_one_corner_is_a_law():
    one = LinearMonitoring(APPLES.loss, APPLES.symbols, [[0.3, 0.7]])
    law = Monitoring(APPLES.loss, APPLES.symbols, law=[0.3, 0.7])
    assert (bl.games.deal(one, 300) == bl.games.deal(law, 300)).all()
    played = [
        bl.play(bl.Direct(bl.RoundRobin(2)), game, bl.delays.Constant(0), rounds=99, engine="python").regret
        for game in (one, law)
    ]
    np.testing.assert_allclose(*played)


@pytest.mark.parametrize(
    ("laws", "said"),
    [
        ([], "laws must have at least 1 item"),
        ([[0.5, 0.5], [1.0]], r"laws\[1\] must have a probability for each of the 2 outcomes, got 1"),
        ([[0.5, 0.6]], r"laws\[0\] must sum to 1, got 1.1"),
        ([[1.5, -0.5]], r"laws\[0\]\[0\] must be <= 1, got 1.5"),
        ("ab", "laws must be a sequence, got 'ab'"),
    ],
)
def test_laws_that_make_no_sense_are_refused(laws, said):
    with pytest.raises(InvalidArgument, match=said):
        LinearMonitoring(APPLES.loss, APPLES.symbols, laws)


def test_recorded_contexts_of_monitoring():
    with pytest.raises(InvalidArgument, match="contexts go with a trace"):
        Monitoring(APPLES.loss, APPLES.symbols, law=[0.5, 0.5], contexts=[[1.0]])
    with pytest.raises(InvalidArgument, match="one row for each of the 2 rounds"):
        Monitoring(APPLES.loss, APPLES.symbols, trace=[0, 1], contexts=[[1.0]])
    game = Monitoring(APPLES.loss, APPLES.symbols, trace=[0, 1, 1], contexts=np.array([[1.0], [0.0], [1.0]]))
    assert repr(game).endswith("trace=[0, 1, 1], contexts of 1)")
    assert (game.context_size, game.values, recorded("apples", 3).values) == (1, 2, 0)
    assert bl.catalog.from_data("game", bl.notation.read("game", bl.notation.text("game", game))) == game
    shown = []

    class Copies:
        actions = 2

        def predict(self, context):
            shown.append(context.tolist())
            return int(context[0]), 1.0

        def update(self, context, action, probability, feedback):
            assert action == context[0]

    played = bl.play(bl.Direct(Copies), game, bl.delays.Constant(1), rounds=3, record=True)
    assert shown == [[1.0], [0.0], [1.0]] and played.actions.tolist() == [[1, 0, 1]]


def test_the_linear_game_as_text_and_as_data(tmp_path):
    text = "linearmonitoring([[1, 0], [0, 1]], [['-', '-'], ['r', 'g']], [[0.9, 0.1], [0.2, 0.8]])"
    game = bl.notation.game(text)
    assert bl.notation.game(bl.notation.text("game", game)) == game == bl.notation.game(bl.catalog.to_data(game))
    assert "easy" in str(game.describe())
    study = bl.studies.Study.make(
        forecasters=["direct(cbpside)", "bold(randcbpside(ridge=0.1))"],
        games=[text],
        delays=["constant(5)"],
        rounds=100,
        replications=2,
    )
    learners = [cell.forecaster.learner for cell in study.cells]
    assert [(type(who), who.features) for who in learners] == [(CBPside, 2), (RandCBPside, 2)]


# --- learning ---


@pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
@learners
def test_regret_grows_slower_than_linearly_in_an_easy_game(learner):
    """Ten times the rounds: 2.3 (CBPside) and 1.7 times the regret were measured; sqrt would be 3.2, linear 10."""
    game = LinearMonitoring(APPLES.loss, APPLES.symbols, GAMES["apples"][1])
    r = bl.play(bl.Direct(made(learner, game)), game, bl.delays.Geometric(mean=20), rounds=100_000, replications=4)
    tenth = np.searchsorted(r.checkpoints, 10_000)
    assert r.regret[:, -1].mean() < 4 * r.regret[:, tenth].mean()
    assert r.bound is None
