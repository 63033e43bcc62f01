"""GlobalExp3, TSPM and NeighborhoodWatch2: against second implementations, exact laws, and their bounds."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import belated as bl
from belated import catalog
from belated.checks import learner as checks
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.instance import Instance
from belated.geometry import structure
from belated.kernels import states
from belated.kernels.compile import COMPILED, kernel
from belated.kernels.posterior import interval_normal, log_mass
from belated.kernels.random import key_of, learner_draw, uniform
from belated.learners import neighborhood_watch2 as watch
from belated.learners.tspm import move, prepare, sample

stats = pytest.importorskip("scipy.stats")

APPLE = ([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]])
LABEL = ([[1, 1], [1, 0], [0, 1]], [["a", "b"], ["-", "-"], ["-", "-"]])
SPAM = ([[0, 1], [1, 0], [0.5, 0.5]], [["-", "-"], ["-", "-"], ["a", "b"]])
BARTOK = ([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [["a", "b", "b"], ["b", "a", "b"], ["b", "b", "a"]])
DIFFERENCES = ([[0, 1, 1, 2], [1, 0, 2, 1]], [[1, 2, 1, 2], [2, 1, 2, 1]])
PRICING = ([[0, 1, 2], [1, 0, 1], [1, 1, 0]], [["y", "y", "y"], ["n", "y", "y"], ["n", "n", "y"]])
HOPELESS = ([[1, 0], [0, 1]], [["-", "-"], ["-", "-"]])
TRIVIAL = ([[0, 0], [0.5, 1], [0, 0]], [["-", "-"], ["-", "-"], ["-", "-"]])
DUPLICATE = ([[1, 0], [0, 1], [0, 1], [2, 2]], [["-", "-"], ["-", "-"], ["r", "g"], ["-", "-"]])
GAMES = {
    "apple": APPLE,
    "label": LABEL,
    "spam": SPAM,
    "bartok": BARTOK,
    "differences": DIFFERENCES,
    "pricing": PRICING,
    "trivial": TRIVIAL,
    "duplicate": DUPLICATE,
}
EASY = [name for name in GAMES if name not in ("label", "pricing")]
every_game = pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
easy_game = pytest.mark.parametrize("game", [GAMES[name] for name in EASY], ids=EASY)


def drive(learner, rounds, reference, seed=0):
    """A learner and a second reading of it on random outcomes: the same actions, the same probabilities."""
    game = structure(learner.loss, learner.symbols)
    key = key_of(seed, 0)
    instance = Instance(learner, key, 2)
    outcomes = np.random.default_rng(seed).integers(game.outcomes, size=rounds)
    for t, outcome in enumerate(outcomes, start=1):
        action, probability = instance.predict(None)
        expected = reference.predict(t, uniform(learner_draw(*key, t, 2), 0))
        assert action == expected[0] and probability == pytest.approx(expected[1], rel=1e-9), t
        symbol = int(game.codes[action, outcome])
        instance.update(None, action, probability, np.array([float(symbol)]))
        reference.update(action, probability, symbol)


def draw_from(law, u):
    return min(int(np.searchsorted(np.cumsum(law), u, side="right")), len(law) - 1)


# GlobalExp3


@every_game
def test_estimates_are_unbiased_up_to_a_common_number(game):
    """The expectation over the played action, for every outcome: losses over that of the base, scaled to [0, 1]."""
    learner = bl.GlobalExp3(*game)
    loss, codes = structure(*game).loss, structure(*game).codes
    chances = np.random.default_rng(1).dirichlet(np.ones(len(loss)))
    compared = np.array(learner.params()["compared"], bool)
    for outcome in range(loss.shape[1]):
        mean = np.zeros(len(loss))
        for action, chance in enumerate(chances):
            instance = Instance(learner, key_of(0, 0), 0)
            instance.update(None, action, chance, np.array([float(codes[action, outcome])]))
            mean += chance * instance.state["loss"][0]
        expected = loss[:, outcome] / (loss.max() - loss.min())
        assert np.ptp((mean - expected)[compared]) < 1e-8
    assert all(compared[a] for a in structure(*game).pareto)


def test_an_action_that_cannot_be_compared_is_played_by_the_mixture_alone():
    learner = bl.GlobalExp3(*TRIVIAL)
    assert learner.params()["compared"] == [1, 0, 1]
    instance = Instance(learner, key_of(0, 0), 0)
    instance.state["predictions"][0] = 10**6
    instance.predict(None)
    weight = instance.state["weight"][0]
    mixed = bl.bounds.global_exp3_constant(3) / 100
    assert weight[1] == pytest.approx(mixed / 3, rel=1e-3) and weight.sum() == pytest.approx(1)


class PlainGlobalExp3:
    """As algorithm and formulas say, in NumPy; w is taken from the learner."""

    def __init__(self, learner):
        self.w = learner.estimator
        self.n = learner.actions
        self.k = max(1, np.abs(self.w).max())
        self.a = (self.k * self.n) ** (2 / 3) * ((math.e - 2) * math.log(self.n)) ** (1 / 3)
        self.total = np.zeros(self.n)

    def predict(self, t, u):
        c = (self.k * math.sqrt(math.e - 2)) ** (2 / 3)
        g = min(1, c * (self.n**2 * math.log(self.n) / t) ** (1 / 3))
        e = min((math.log(self.n) / (self.n * t)) ** (2 / 3) / c, g / (self.k * self.n))
        q = np.exp(-e * (self.total - self.total.min()))
        p = (1 - g) * q / q.sum() + g / self.n
        action = draw_from(p, u)
        return action, p[action]

    def update(self, action, probability, symbol):
        self.total += self.w[:, action, symbol] / probability


@pytest.mark.parametrize("game", [APPLE, LABEL, BARTOK, PRICING], ids=["apple", "label", "bartok", "pricing"])
def test_global_exp3_equals_a_plain_reading(game):
    learner = bl.GlobalExp3(*game)
    drive(learner, 300, PlainGlobalExp3(learner))


def adversary(rounds, seed=0):
    """Outcomes that are mostly one, then mostly the other, in longer and longer turns."""
    turn = np.floor(np.log2(1 + np.arange(rounds))) % 2
    chance = np.where(turn == 0, 0.25, 0.7)
    return (np.random.default_rng(seed).random(rounds) < chance).astype(int)


@pytest.mark.minutes
@pytest.mark.parametrize("kind", ["law", "trace"])
@pytest.mark.parametrize(("game", "rounds"), [(APPLE, 20_000), (LABEL, 60_000)], ids=["easy", "hard"])
def test_bold_over_global_exp3_stays_below_its_bound(game, rounds, kind):
    learner = bl.GlobalExp3(*game)
    where = {"law": [0.55, 0.45]} if kind == "law" else {"trace": adversary(rounds)}
    arena = bl.games.Monitoring(*game, **where)
    measured = []
    for delay in (0, 9, 99):
        assert rounds / (delay + 1) > 70 * bl.bounds.global_exp3_constant(learner.actions, learner.size) ** 3
        r = bl.play(bl.BOLD(learner), arena, bl.delays.Constant(delay), rounds=rounds, replications=10)
        assert r.bound < rounds and (r.verdict == "vacuous" or "holds" in r.verdict), r
        assert r.bound == pytest.approx((delay + 1) * learner.bound(rounds / (delay + 1)))
        measured.append(r.mean_regret)
    if kind == "law":  # the bound grows like (G* + 1)^(1/3)
        slope = np.polyfit(np.log([1, 10, 100]), np.log(measured), 1)[0]
        assert 0.1 < slope < 0.5, measured


def test_bounds_and_the_trivial_level_are_on_the_scale_of_the_game():
    """Losses times four: the same play, four times the regret and the bound, and the same verdict."""
    loss, symbols = APPLE
    four = [[4.0 * x + 1 for x in row] for row in loss]
    one, two = (
        bl.play(
            bl.BOLD(bl.GlobalExp3(matrix, symbols)),
            bl.games.Monitoring(matrix, symbols, law=[0.4, 0.6]),
            bl.delays.Constant(9),
            rounds=5000,
            replications=3,
            record=True,
        )
        for matrix in (loss, four)
    )
    assert np.array_equal(one.actions, two.actions)
    assert np.allclose(4 * one.regret, two.regret) and two.bound == pytest.approx(4 * one.bound)
    assert one.verdict == two.verdict
    vacuous = bl.play(
        bl.BOLD(bl.GlobalExp3(four, symbols)),
        bl.games.Monitoring(four, symbols, law=[0.4, 0.6]),
        bl.delays.Constant(99),
        rounds=500,
    )
    assert vacuous.bound == 2000 and vacuous.verdict == "vacuous"
    queue = [
        bl.play(
            bl.QPMD(bl.GlobalExp3(matrix, symbols)),
            bl.games.Monitoring(matrix, symbols, law=[0.4, 0.6]),
            bl.delays.Constant(9),
            rounds=20_000,
            replications=3,
        )
        for matrix in (loss, four)
    ]
    gap = 0.2 * queue[0].peaks.mean(axis=0)[1]
    assert queue[0].bound == pytest.approx(bl.GlobalExp3(loss, symbols).bound(20_000) + gap)
    assert queue[1].bound == pytest.approx(4 * queue[0].bound)


# TSPM


@kernel
def draws(params, pool, k0, k1, out):
    """Many laws from the posterior of one state."""
    prepare(params[0], pool[0])
    for i in range(len(out)):
        sample(params[0], pool[0], learner_draw(k0, k1, i, 0), 0)
        for x in range(out.shape[1]):
            out[i, x] = pool[0].kept[x]


def posterior_draws(learner, seen, count):
    pool = states.blank(learner)
    pool["seen"][0] = seen
    out = np.zeros((count, len(learner.loss[0])))
    draws(states.params(learner), pool, *key_of(5, 0), out)
    assert (out >= 0).all() and np.allclose(out.sum(axis=1), 1)
    return out, int(pool["capped"][0])


def log_posterior(learner, seen, laws):
    """sum_k sum_s counts log (S_k p)_s - prior |p|^2 / 2, for every row of laws."""
    game = structure(learner.loss, learner.symbols)
    value = -0.5 * learner.prior * (laws**2).sum(axis=1)
    for k, signal in enumerate(game.signals):
        for s, row in enumerate(signal):
            if seen[k][s] > 0:
                value += seen[k][s] * np.log(np.maximum(laws @ row, 1e-300))
    return value


def chi_square(found, expected):
    """The p-value of counts against chances; rare bins are put together."""
    order = np.argsort(expected)
    expected, found = expected[order] * found.sum(), found[order]
    groups = np.unique(np.minimum(np.cumsum(expected) // 25, expected.sum() // 25 - 1), return_inverse=True)[1]
    found, expected = (np.bincount(groups, weights=x) for x in (found, expected))
    return stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue


POSTERIORS = [
    (APPLE, [[4, 0], [0, 0]], 1e-3),
    (APPLE, [[9, 0], [3, 5]], 1e-3),
    (APPLE, [[0, 0], [60, 0]], 1e-3),
    (APPLE, [[0, 0], [2, 1]], 20.0),
    (BARTOK, [[0, 0], [0, 0], [0, 0]], 1e-3),
    (BARTOK, [[3, 6], [2, 5], [0, 0]], 1e-3),
    (BARTOK, [[20, 60], [30, 5], [9, 11]], 1e-3),
    (BARTOK, [[0, 4], [40, 0], [1, 8]], 1e-3),
]


def against_a_grid(learner, seen, found):
    """The p-value of draws against the posterior on a fine grid."""
    bins, fine = (40, 50) if len(learner.loss[0]) == 2 else (12, 40)
    side = (np.arange(bins * fine) + 0.5) / (bins * fine)
    if len(learner.loss[0]) == 2:
        laws = np.stack([side, 1 - side], axis=1)
        cell = (side * bins).astype(int)
        where = np.minimum((found[:, 0] * bins).astype(int), bins - 1)
    else:
        x, y = (v.ravel() for v in np.meshgrid(side, side, indexing="ij"))
        inside = x + y < 1
        laws = np.stack([x, y, 1 - x - y], axis=1)[inside]
        cell = ((x * bins).astype(int) * bins + (y * bins).astype(int))[inside]
        where = (np.minimum(found * bins, bins - 1).astype(int))[:, :2] @ [bins, 1]
    weight = log_posterior(learner, seen, laws)
    weight = np.exp(weight - weight.max())
    chances = np.bincount(cell, weights=weight, minlength=bins ** (laws.shape[1] - 1)) / weight.sum()
    counts = np.bincount(where, minlength=len(chances))
    assert counts[chances == 0].sum() == 0
    return chi_square(counts[chances > 0], chances[chances > 0])


@pytest.mark.parametrize(("game", "seen", "prior"), POSTERIORS)
def test_draws_have_the_posterior_law(game, seen, prior):
    learner = bl.TSPM(*game, prior=prior)
    found, capped = posterior_draws(learner, seen, 20_000 if COMPILED else 2000)
    assert capped == 0
    assert against_a_grid(learner, seen, found) > 1e-4


@kernel
def walk(params, pool, k0, k1, out):
    """The places of one long walk, every twentieth."""
    for i in range(len(out)):
        index = 0
        for _ in range(20):
            index = move(params[0], pool[0], learner_draw(k0, k1, i, 0), index)
        for x in range(out.shape[1]):
            out[i, x] = pool[0].point[x]


@pytest.mark.parametrize(("game", "seen", "prior"), [p for p in POSTERIORS if p[0] is BARTOK])
def test_the_walk_that_replaces_a_draw_has_the_posterior_law(game, seen, prior):
    learner = bl.TSPM(*game, prior=prior)
    pool = states.blank(learner)
    pool["seen"][0] = seen
    pool["point"][0] = [0.5, 0.5, 0.0]
    out = np.zeros((20_000 if COMPILED else 500, 3))
    walk(states.params(learner), pool, *key_of(6, 0), out)
    assert against_a_grid(learner, seen, out[20:]) > 1e-5


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (-0.1, 8), (0.5, 0.7), (3, 40), (-6, -5), (-3, 3)])
def test_normal_numbers_of_an_interval(low, high):
    law = stats.truncnorm(low, high)
    found = np.array([interval_normal(learner_draw(1, 2, i, 3), 0, float(low), float(high))[0] for i in range(2000)])
    assert stats.kstest(found, law.cdf).pvalue > 1e-4
    exact = stats.norm.logcdf(-low) if low > 0 else np.log(stats.norm.cdf(high) - stats.norm.cdf(low))
    if not 0 < low < 3:
        assert log_mass(float(low), float(high)) == pytest.approx(exact, rel=1e-6)


def test_the_mass_of_an_interval_far_out():
    assert log_mass(25.0, 1e9) == pytest.approx(stats.norm.logsf(25), rel=1e-6)
    assert log_mass(-1e9, -19.99) == pytest.approx(stats.norm.logcdf(-19.99), rel=1e-6)
    assert log_mass(2.0, 2.0 + 1e-6) == pytest.approx(math.log(1e-6 * stats.norm.pdf(2)), rel=1e-6)
    assert log_mass(1.0, 1.0) == log_mass(1.0, 0.5) == -1e300


def test_data_that_no_law_gives_end_the_search():
    """Symbols that contradict each other: no proposal is accepted, a walk takes over, and is counted."""
    seen = [[0, 2000], [0, 2000], [0, 2000]]
    found, capped = posterior_draws(bl.TSPM(*BARTOK), seen, 5)
    assert capped == 5 and np.isfinite(found).all()


def test_tspm_with_a_single_outcome_plays_the_best_action():
    learner = bl.TSPM([[1], [0.5], [2]], [["a"], ["a"], ["b"]])
    f = bl.Direct(learner, seed=1)
    for _ in range(20):
        decision = f.predict()
        assert decision.action == 1 and decision.probability == 1.0
        f.update(decision.ticket, "a")


@pytest.mark.minutes
@pytest.mark.parametrize("law", [[0.2, 0.8], [0.8, 0.2]])
def test_tspm_learns_apple_tasting(law):
    arena = bl.games.Monitoring(*APPLE, law=law)
    for forecaster in (bl.Direct, bl.QPMD):
        r = bl.play(forecaster(bl.TSPM(*APPLE)), arena, bl.delays.Constant(20), rounds=10_000, replications=20)
        assert r.mean_regret < 60
        assert r.bound is None and "no" in r.bound_reason


# NeighborhoodWatch2


def test_stationary_distributions():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 7):
        chain = rng.dirichlet(np.full(size, 0.1), size=size) + 1e-12
        chain /= chain.sum(axis=1, keepdims=True)
        law = np.zeros(size)
        watch.stationary(chain.copy(), law)
        assert law.sum() == pytest.approx(1) and (law > 0).all()
        assert law @ chain == pytest.approx(law, rel=1e-9)


def test_redistribution_keeps_a_distribution_and_its_loss():
    rng = np.random.default_rng(0)
    for _ in range(200):
        law = np.append(rng.dirichlet([0.2, 0.2, 1.0]), [0.0, 0.0])
        first = law.copy()
        loss = rng.random((5, 4))
        shares = [rng.random(), float(rng.integers(2))]
        for e, share in zip((3, 4), shares, strict=True):
            loss[e] = share * loss[0] + (1 - share) * loss[1]
            watch.redistribute(law, first, e, 0, 1, share, 5.0)
        assert (law >= 0).all() and law.sum() == pytest.approx(1)
        assert law @ loss == pytest.approx(first @ loss)
        assert (law[:2] >= first[:2] / 2).all() and law[2] == first[2]


class PlainWatch:
    """Algorithm 25 in NumPy, over all actions that are in use, with doubling."""

    def __init__(self, learner):
        self.game = game = structure(learner.loss, learner.symbols)
        self.v = {}
        for (i, j), seen in game.observer.items():
            self.v[i, j] = {k: np.asarray(v) for k, v in seen.items()}
            self.v[j, i] = {k: -np.asarray(v) for k, v in seen.items()}
        self.middle = {}
        for (i, j), between in game.plus.items():
            for e in set(between) - {i, j} - set(self.middle):
                way = game.loss[i] - game.loss[j]
                share = np.linalg.lstsq(way[:, None], game.loss[e] - game.loss[j], rcond=None)[0][0]
                self.middle[e] = (i, j, abs(share.round(12)))
        self.used = sorted({*game.pareto, *self.middle})
        self.k = len(self.used)
        self.most = max((abs(x) for v in self.v.values() for y in v.values() for x in y), default=1.0)

    def predict(self, t, u):
        game, size = self.game, self.game.actions
        n = 2 ** int(math.log2(t))
        if t == n:
            self.z = np.zeros((size, size))
        self.eta = math.sqrt(math.log(self.k * n) / (n * self.k)) / self.most
        gamma = min(1, self.most * self.k * self.eta)
        chain = np.zeros((size, size))
        for j in range(size):
            row = [a for a in game.pareto if a == j or (a, j) in self.v] if j in game.pareto else game.pareto
            chain[j, row] = np.exp(-self.eta * (self.z[j, row] - self.z[j, row].min())) if j in game.pareto else 1
            chain[j] /= chain[j].sum()
        equations = np.vstack([chain.T - np.eye(size), np.ones(size)])
        self.pt = np.linalg.lstsq(equations, np.append(np.zeros(size), 1), rcond=None)[0]
        q = self.pt.copy()
        for e, (a, b, al) in self.middle.items():
            ca = al * q[b] / (al * q[b] + (1 - al) * q[a])
            cb = 1 - ca
            with np.errstate(divide="ignore"):
                rho = min(self.pt[a] / np.float64(q[a] * ca), self.pt[b] / np.float64(q[b] * cb)) / (2 * self.k)
            q[e] = rho * (ca * q[a] + cb * q[b])
            q[a] *= 1 - rho * ca
            q[b] *= 1 - rho * cb
        self.p = (1 - gamma) * q
        self.p[self.used] += gamma / self.k
        action = draw_from(self.p, u)
        return action, self.p[action]

    def update(self, action, probability, symbol):
        for (a, j), seen in self.v.items():
            between = self.game.plus[min(a, j), max(a, j)]
            beta = self.eta * self.most**2 * self.pt[j] ** 2 * sum(1 / self.p[b] for b in between)
            told = seen[action][symbol] if action in seen else 0.0
            self.z[j, a] += self.pt[j] * told / probability - beta


@easy_game
def test_neighborhood_watch_equals_a_plain_reading(game):
    learner = bl.NeighborhoodWatch2(*game)
    drive(learner, 300, PlainWatch(learner))


def test_actions_that_are_never_best_on_a_border_are_never_played():
    instance = Instance(bl.NeighborhoodWatch2(*DUPLICATE), key_of(0, 0), 0)
    instance.predict(None)
    assert instance.state["weight"][0].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert bl.NeighborhoodWatch2(*DUPLICATE).middle == [(2, 0, 1, 0.0)]


@pytest.mark.minutes
@pytest.mark.parametrize("game", [APPLE, SPAM, BARTOK], ids=["apple", "spam", "bartok"])
def test_neighborhood_watch_regret_grows_slowly(game):
    """Like sqrt(n ln n), once it has seen enough to know the better side: below n^(2/3) of the hard games."""
    law = [0.7, 0.3] if len(game[0][0]) == 2 else [0.5, 0.3, 0.2]
    r = bl.play(
        bl.BOLD(bl.NeighborhoodWatch2(*game)),
        bl.games.Monitoring(*game, law=law),
        bl.delays.Constant(0),
        rounds=2**19,
        replications=6,
    )
    regret = r.regret.mean(axis=0)
    late = r.checkpoints >= 2**15
    slope = np.polyfit(np.log(r.checkpoints[late]), np.log(regret[late]), 1)[0]
    assert 0.4 < slope < 2 / 3, slope
    assert r.bound is None and "bound" in r.bound_reason


# all three


def test_games_they_cannot_learn_are_refused_with_the_reason():
    with pytest.raises(InvalidArgument, match="globally observable game: no symbols tell actions 0 and 1 apart"):
        bl.GlobalExp3(*HOPELESS)
    with pytest.raises(InvalidArgument, match="locally observable game, this one is hopeless"):
        bl.NeighborhoodWatch2(*HOPELESS)
    with pytest.raises(InvalidArgument, match="this one is hard: the symbols of actions 1, 2 do not tell"):
        bl.NeighborhoodWatch2(*LABEL)
    with pytest.raises(InvalidArgument, match="prior must be > 0, got 0"):
        bl.TSPM(*APPLE, prior=0)
    with pytest.raises(Unsupported):
        bl.Direct(bl.NeighborhoodWatch2(*APPLE))
    for make in (bl.GlobalExp3, bl.TSPM, bl.NeighborhoodWatch2):
        with pytest.raises(InvalidArgument, match="rows of one length"):
            make([[1, 0], [0]], [["a", "b"], ["a", "b"]])


@pytest.mark.parametrize("make", [bl.GlobalExp3, bl.TSPM, bl.NeighborhoodWatch2], ids=lambda m: m.__name__)
def test_specs_are_data(make):
    learner = make(np.array(APPLE[0]), APPLE[1])
    assert learner == make(*APPLE) and hash(learner) == hash(make(*APPLE)) and learner.actions == 2
    data = json.loads(json.dumps(catalog.to_data(learner)))
    assert catalog.from_data("learner", data) == learner
    assert "actions" not in data and learner != make(APPLE[0], [["-", "-"], ["r", "g"]])


@pytest.mark.minutes
@pytest.mark.parametrize("make", [bl.GlobalExp3, bl.TSPM, bl.NeighborhoodWatch2], ids=lambda m: m.__name__)
@pytest.mark.parametrize("game", [APPLE, BARTOK, TRIVIAL], ids=["apple", "bartok", "trivial"])
def test_the_contract_on_other_games(make, game):
    """The example of each is checked in full, compiled too; other shapes in Python."""
    for check in (
        checks.predicts_honestly,
        checks.accepts_skipped_rounds,
        checks.stays_finite,
        checks.no_delay_is_the_base,
        checks.bold_interleaves,
        checks.saved_continues,
    ):
        check(make(*game))
