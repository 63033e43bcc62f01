"""The other systems of the paper's table 1: bits, gradients and labels told late, against exact numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated import bounds, delays, games
from belated.errors import InvalidArgument, InvalidFeedback
from belated.kernels import states
from belated.kernels.sets import into_simplex, width
from belated.learners.cover import above_zero, middle
from belated.theory import margins
from belated.theory.losses import LOSSES


def regret(forecaster, game, delay, **options):
    return bl.play(forecaster, game, delays.Constant(delay), game.longest() or options.pop("rounds"), **options)


# --- bits ---


def test_the_value_of_the_game_of_bits():
    assert bounds.subsampling(10, 0) == 1.23046875
    assert bounds.subsampling(8, 3) == 2.0
    for n in range(1, 20):
        half = math.ceil(n / 2)
        assert bounds.subsampling(n, 0) == pytest.approx(half * math.comb(n, half) / 2**n, rel=1e-14)
        for d in range(6):
            parts = [len(range(i, n, d + 1)) for i in range(d + 1)]
            assert bounds.subsampling(n, d) == pytest.approx(sum(bounds.subsampling(m, 0) for m in parts if m))


@pytest.mark.parametrize("left", [0, 1, 2, 7, 40, 333])
def test_the_chance_that_the_signs_to_come_turn_the_balance(left):
    for ahead in range(-left - 2, left + 3):
        ways = [
            math.comb(left, ones) * (2 * (ahead + 2 * ones - left > 0) + (ahead + 2 * ones == left))
            for ones in range(left + 1)
        ]
        assert above_zero(float(ahead), left) == pytest.approx(sum(ways) / 2 ** (left + 1), abs=1e-14)


@pytest.mark.parametrize("half", [1, 31, 32, 33, 500])
def test_the_chance_of_the_middle(half):
    exact = math.comb(2 * half, half) / 4**half
    for left in (2 * half - 1, 2 * half):
        assert middle(left) == pytest.approx(exact, rel=1e-15)
    assert states.params(bl.Cover(10_000_000)).nbytes == 16  # however many rounds there will be


@pytest.mark.parametrize("theta", [10.0, 1000.0])
def test_a_number_of_mistakes_that_is_whole_is_not_rounded_down(theta):
    """Winnow's 10 (log theta + 1) + N / theta, in numbers 40.99999999999999 for theta = N = 1000."""
    winnow = bl.Winnow(features=1000, factor=10.0, threshold=theta)
    faced = winnow.facing(games.Labels(np.ones((1, 1000)), [1]))
    assert faced.bound(10**6) == 10 * (round(math.log10(theta)) + 1) + 1000 / theta


def loss_of(bits, horizon, delay):
    """The expected loss of BOLD(Cover): each instance's chances follow from its own bits alone."""
    lost = 0.0
    for start in range(delay + 1):
        ahead = 0
        for used, bit in enumerate(bits[start :: delay + 1], 1):
            one = above_zero(float(ahead), max(0, horizon - used))
            lost += 1.0 - one if bit else one
            ahead += 1 if bit else -1
    return lost


def test_cover_pays_the_same_on_every_sequence():
    value = bounds.subsampling(8, 0)
    for bits in itertools.product((0, 1), repeat=8):
        assert loss_of(bits, 8, 0) == pytest.approx(min(sum(bits), 8 - sum(bits)) + value, abs=1e-13)


@pytest.mark.parametrize("delay", [1, 3])
def test_a_pool_of_covers_is_minimax_on_blocks(delay):
    for blocks in itertools.product((0, 1), repeat=5):
        bits = np.repeat(blocks, delay + 1)
        least = min(bits.sum(), len(bits) - bits.sum())
        assert loss_of(bits, 5, delay) - least == pytest.approx(bounds.subsampling(len(bits), delay), abs=1e-13)


def test_a_played_pool_of_covers_has_these_chances():
    bits = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    table = np.stack([1.0 - bits, bits], axis=1)
    result = bl.play(bl.BOLD(bl.Cover(4)), games.RewardTable(table, "full"), delays.Constant(2), 12, replications=4000)
    mean, error = result.regret[:, -1].mean(), result.regret[:, -1].std() / math.sqrt(4000)
    assert abs(mean - bounds.subsampling(12, 2)) < 4 * error


# --- gradients ---


def wave(half, n=16384):
    return games.LinearLosses((1.0 - 2.0 * ((np.arange(n) // half) % 2))[:, None])


@pytest.mark.parametrize(
    ("forecaster", "half", "delay", "expected"),
    [
        (bl.Direct(bl.GradientDescent(1, tau=7)), 68, 7, 589.143),
        (bl.Direct(bl.GradientDescent(1)), 68, 7, 591.703),
        (bl.BOLD(bl.GradientDescent(1)), 8, 7, 503.847),
        (bl.Direct(bl.GradientDescent(1)), 780, 127, 2298.229),
        (bl.BOLD(bl.GradientDescent(1)), 131, 127, 1975.058),
        (bl.Direct(bl.GradientDescent(1, tau=0)), 36, 7, 1793.243),  # not slowed
    ],
)
def test_square_waves(forecaster, half, delay, expected):
    result = regret(forecaster, wave(half), delay)
    assert result.regret[0, -1] == pytest.approx(expected, abs=6e-4)
    assert result.bound is not None and result.regret[0, -1] <= result.bound


def test_the_steps_that_are_not_slowed_break_the_bound_of_those_that_are():
    slowed = regret(bl.Direct(bl.GradientDescent(1, tau=7)), wave(36), 7).bound
    assert regret(bl.Direct(bl.GradientDescent(1, tau=0)), wave(36), 7).regret[0, -1] > slowed


@pytest.mark.parametrize(
    "late", [delays.Constant(13), delays.Geometric(mean=9), delays.Lossy(delays.Poisson(mean=5), 0.3)]
)
@pytest.mark.parametrize("seed", range(3))
def test_no_bound_on_descent_is_broken(late, seed):
    draws = np.random.default_rng(seed)
    rows = draws.normal(size=(300, 3)) + draws.choice([-2.0, 2.0], 3)
    game = games.LinearLosses(rows / np.sqrt((rows**2).sum(axis=1, keepdims=True)), radius=0.7)
    for learner in (bl.GradientDescent(3, radius=0.7), bl.GradientDescent(3, radius=0.7, tau=9)):
        result = bl.play(bl.Direct(learner), game, late, 300, seed=seed)
        assert not isinstance(result.theorem, str), result.theorem
        assert (result.regret[0] <= [result.theorem.bound(int(n)) for n in result.checkpoints]).all()


@pytest.mark.parametrize(("tau", "expected"), [(0, 1.1595), (9, 12.1284), (99, 121.8485), (999, 1218.9289)])
def test_delay_costs_a_smooth_loss_a_term(tau, expected):
    game = games.Quadratic([1, 0.8, 0.6, 0.4, 0.2], [0.5, -0.4, 0.3, -0.2, 0.1])
    learner = bl.GradientDescent(5, radius=math.inf, rate=1 / (8 * (tau + 1)))
    result = bl.play(bl.Direct(learner), game, delays.Constant(tau), 100_000)
    assert result.regret[0, -1] == pytest.approx(expected, abs=1.5e-4)
    assert result.bound == pytest.approx(12.8 * 0.55 * (tau + 1))


def test_noise_costs_a_root():
    game = games.Quadratic([1, 0.8, 0.6, 0.4, 0.2], [0.5, -0.4, 0.3, -0.2, 0.1], noise=1.0)
    rate = min(1 / (8 * 101), math.sqrt(0.55) / math.sqrt(1.5 * 10_000))
    learner = bl.GradientDescent(5, radius=math.inf, rate=rate)
    result = bl.play(bl.Direct(learner), game, delays.Constant(100), 10_000, replications=50)
    assert result.regret[:, -1].mean() == pytest.approx(126.36, abs=3.0)
    assert 126.36 < result.bound <= 12.8 * 0.55 * 101 + 3.92 * math.sqrt(0.55) * 100


def test_a_rate_too_long_for_the_delay_has_no_bound():
    game = games.Quadratic([1.0], [0.5])
    result = bl.play(bl.Direct(bl.GradientDescent(1, radius=math.inf, rate=0.125)), game, delays.Constant(1), 50)
    assert isinstance(result.theorem, str)


def test_dual_averaging_keeps_its_bound():
    game = games.Quadratic([1, 0.8, 0.6, 0.4, 0.2], [0.5, -0.4, 0.3, -0.2, 0.1], noise=1.0)
    for tau in (0, 20):
        learner = bl.DualAveraging(5, 1.0, 1.0, 1.0, tau)
        mean = bl.play(bl.Direct(learner), game, delays.Constant(tau), 2000, replications=20).regret[:, -1].mean()
        start = sum(a * c * c / 2 for a, c in zip(game.curvatures, game.centre, strict=True))
        assert 0 < mean < bounds.dual_averaging(2000, start, 1.0, 1.0, 1.0, tau)


def test_the_nearest_point_of_the_simplex():
    draws = np.random.default_rng(0)
    for _ in range(50):
        given = draws.normal(size=5) * 3
        point = given.copy()
        into_simplex(point, 2.0)
        assert point.min() >= 0 and point.sum() == pytest.approx(2.0)
        others = draws.dirichlet(np.ones(5), 200) * 2.0
        assert ((others - point) @ (given - point) <= 1e-9).all()  # what makes it the nearest


@pytest.mark.parametrize("domain", ["box", "simplex"])
def test_descent_stays_in_its_set(domain):
    f = bl.Direct(bl.GradientDescent(3, radius=0.5, lipschitz=2.0, domain=domain))
    assert width(domain, 3, 0.5) == pytest.approx({"box": 0.5 * math.sqrt(6), "simplex": 0.5}[domain])
    for t in range(30):
        decision = f.predict()
        point = decision.action
        inside = np.abs(point).max() <= 0.5 if domain == "box" else point.min() >= 0 and abs(point.sum() - 0.5) < 1e-12
        assert inside
        f.update(decision.ticket, np.array([1.0, -1.0, 0.5]) * (-1) ** (t // 4))


@pytest.mark.parametrize("name", LOSSES)
def test_a_late_label_is_its_slope(name):
    """With the loss stated, labels do what their slopes do without."""
    told, bare = (bl.Direct(bl.LinearDescent(2, radius=3.0, lipschitz=4.0, loss=loss), seed=1) for loss in (name, None))
    draws = np.random.default_rng(1)
    waiting = []
    for _ in range(40):
        x, label = draws.normal(size=2), float(draws.integers(0, 2))
        one, other = told.predict(x), bare.predict(x)
        assert one.action == other.action
        waiting.append((one, other, label))
        if len(waiting) > 5:
            one, other, label = waiting.pop(int(draws.integers(0, 5)))
            told.update(one.ticket, label)
            bare.update(other.ticket, LOSSES[name].slope(float(one.action[0]), label))


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_slopes(name):
    loss = LOSSES[name]
    for guess, label in itertools.product((-3.0, -0.4, 0.3, 2.5), (0.0, 1.0)):
        near = (loss.value(guess + 1e-6, label) - loss.value(guess - 1e-6, label)) / 2e-6
        assert loss.slope(guess, label) == pytest.approx(near, abs=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_the_game_of_regression_charges_these_losses(name):
    draws = np.random.default_rng(2)
    rows, labels = draws.normal(size=(60, 3)), draws.integers(0, 2, 60).astype(float)
    game = games.Regression(rows, labels, name, radius=0.8)
    learner = bl.LinearDescent(3, radius=0.8, lipschitz=game.lipschitz)
    result = bl.play(bl.Direct(learner), game, delays.Constant(4), 60, record=True)
    against = rows @ game.best
    charged = sum(
        LOSSES[name].value(p, y) - LOSSES[name].value(b, y)
        for p, b, y in zip(result.actions[0, :, 0].tolist(), against.tolist(), labels.tolist(), strict=True)
    )
    assert result.regret[0, -1] == pytest.approx(charged, abs=1e-9)
    assert result.regret[0, -1] <= result.bound
    total = sum(LOSSES[name].value(p, y) for p, y in zip(against.tolist(), labels.tolist(), strict=True))
    assert np.linalg.norm(game.best) <= 0.8 + 1e-9
    for w in draws.normal(size=(200, 3)):
        other = rows @ (w / np.linalg.norm(w) * 0.8 * draws.random())
        assert (
            sum(LOSSES[name].value(p, y) for p, y in zip(other.tolist(), labels.tolist(), strict=True)) >= total - 1e-4
        )


# --- labels ---


def halvings(delay, experts=1024):
    """Thresholds against a search by halves, each question delay + 1 times: the truth is always the other half."""
    rows, high = [], experts
    for _ in range(int(math.log2(experts))):
        high //= 2
        rows += [(np.arange(experts) < high).astype(float)] * (delay + 1)
    return games.Labels(rows, np.ones(len(rows)))


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("kind", [bl.BOLD, bl.Direct, bl.Paced])
def test_halving_against_a_search_by_halves(kind, delay):
    result = regret(kind(bl.Halving(1024)), halvings(delay), delay)
    assert result.regret[0, -1] == 10 * (delay + 1)
    if kind is not bl.Paced:
        assert result.bound == 10 * (delay + 1)


def separated(draws, n=400, size=5, gap=0.1):
    rows = draws.normal(size=(4 * n, size))
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
    rows = rows[np.abs(rows[:, 0]) >= gap][:n]
    return rows, (rows[:, 0] > 0).astype(float)


@pytest.mark.parametrize("kind", [bl.BOLD, bl.Direct])
def test_the_perceptron_keeps_its_bound(kind):
    rows, labels = separated(np.random.default_rng(3))
    gap = margins.margin(rows, labels)
    assert gap >= 0.1 - 1e-12
    for late in (delays.Constant(5), delays.Geometric(mean=5)):
        result = bl.play(kind(bl.Perceptron(5)), games.Labels(rows, labels), late, len(rows))
        assert result.regret[0, -1] <= result.bound
        assert result.bound <= (result.peak.max() + 1) / gap**2 + 1e-9


def test_the_perceptron_told_late_learns_by_what_it_would_say_now():
    f = bl.Direct(bl.Perceptron(1))
    first, second = f.predict([1.0]), f.predict([1.0])
    assert first.action == second.action == 0  # both wrong
    f.update(first.ticket, [0.0, 1.0])
    f.update(second.ticket, [0.0, 1.0])  # w is right by now: nothing is learned
    third = f.predict([1.0])
    f.update(third.ticket, [1.0, 0.0])
    assert third.action == 1 and f.predict([1.0]).action == 0


def test_rows_that_nothing_tells_apart_have_no_bound():
    rows, labels = np.array([[1.0], [1.0], [-1.0]]), np.array([1.0, 0.0, 0.0])
    result = regret(bl.Direct(bl.Perceptron(1)), games.Labels(rows, labels), 0)
    assert isinstance(result.theorem, str) and "tells the labels of" in result.theorem


def test_winnow_keeps_its_bound():
    draws = np.random.default_rng(4)
    rows = (draws.random((600, 30)) < 0.2).astype(float)
    labels = rows[:, :3].max(axis=1)
    assert margins.relevant(rows, labels) == 3
    result = regret(bl.Direct(bl.Winnow(30)), games.Labels(rows, labels), 4)
    most = math.floor(2 * 3 * (math.log2(15) + 1) + 2)
    assert result.bound == 5 * most and result.regret[0, -1] <= 5 * most
    assert isinstance(regret(bl.Direct(bl.Winnow(30)), games.Labels(rows, 1 - labels), 4).theorem, str)


def test_winnow_by_hand():
    f = bl.Direct(bl.Winnow(2, factor=3.0, threshold=2.0))
    for x, label, says in [([1, 1], 1, 0), ([1, 0], 0, 1), ([1, 1], 1, 1), ([1, 0], 1, 0)]:
        decision = f.predict(x)
        assert decision.action == says
        f.update(decision.ticket, [1 - label, label])


def test_when_no_expert_is_left_all_come_back():
    f = bl.Direct(bl.Halving(2, labels=3))
    for label in (2, 2):
        decision = f.predict([0, 1])
        assert decision.action == 0
        f.update(decision.ticket, [float(k == label) for k in range(3)])


# --- what is refused ---


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: bl.GradientDescent(0), "size"),
        (lambda: bl.GradientDescent(2, radius=math.inf), "rate"),
        (lambda: bl.GradientDescent(2, radius=math.nan), "radius"),
        (lambda: bl.GradientDescent(2, radius=math.inf, rate=1.0, domain="box"), "finite radius"),
        (lambda: bl.GradientDescent(2, domain="cube"), "domain"),
        (lambda: bl.GradientDescent(2, rate=0.0), "rate"),
        (lambda: bl.LinearDescent(2, loss="hinge"), "loss"),
        (lambda: bl.DualAveraging(2, 1.0, 0.0, 1.0, 3), "smoothness"),
        (lambda: bl.Cover(0), "horizon"),
        (lambda: bl.Winnow(3, factor=1.0), "factor"),
        (lambda: bl.Halving(3, labels=1), "labels"),
        (lambda: games.Labels([[1.0]], [0.5]), r"y\[0\].*0.5"),
        (lambda: games.Labels([[1.0]], [0, 1]), "X"),
        (lambda: games.Labels([[math.nan]], [0]), "X"),
        (lambda: games.Regression([[1.0]], [2.0], "logistic"), r"y\[0\].*0 or 1"),
        (lambda: games.LinearLosses([[1.0, math.inf]]), "table"),
        (lambda: games.LinearLosses([]), "table"),
        (lambda: games.Quadratic([1.0], [1.0, 2.0]), "centre"),
        (lambda: games.Quadratic([-1.0], [1.0]), "curvatures"),
        (lambda: bounds.subsampling(0, 1), "n must"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, names):
    with pytest.raises(InvalidArgument, match=names):
        make()


def test_wrong_feedback_changes_nothing():
    f = bl.Direct(bl.GradientDescent(2))
    decision = f.predict()
    before = f.to_bytes()
    for wrong in ([math.nan, 0.0], [1.0], "up", [math.inf, 0.0]):
        with pytest.raises(InvalidFeedback):
            f.update(decision.ticket, wrong)
    assert f.to_bytes() == before
    g = bl.Direct(bl.LinearDescent(2, loss="logistic"))
    late = g.predict([1.0, 1.0])
    before = g.to_bytes()
    for wrong in (0.5, None, "yes", math.nan):
        with pytest.raises(InvalidFeedback):
            g.update(late.ticket, wrong)
    assert g.to_bytes() == before


@pytest.mark.parametrize("spec", [bl.Winnow(2), bl.Halving(2)])
def test_features_that_make_no_sense_are_refused(spec):
    with pytest.raises(InvalidArgument, match=r"0\.5"):
        bl.Direct(spec).predict([1.0, 0.5])


def test_a_bound_is_stated_only_where_it_holds():
    game = games.LinearLosses([[3.0]] * 20)
    for learner, why in [
        (bl.GradientDescent(1), "lipschitz"),
        (bl.GradientDescent(1, radius=0.5, lipschitz=3.0), "another set"),
        (bl.GradientDescent(1, lipschitz=3.0, domain="simplex"), "another set"),
        (bl.GradientDescent(1, lipschitz=3.0, curvature=1.0), "strongly convex"),
        (bl.GradientDescent(1, rate=0.1), "one length"),
    ]:
        result = regret(bl.Direct(learner), game, 2)
        assert isinstance(result.theorem, str) and why in result.theorem


def test_weights_are_no_points():
    """Regret against the best point says nothing of weights, nor the other way round."""
    rows = np.ones((40, 1))
    losses = games.LinearLosses(rows, contexts=np.zeros((40, 2)))
    for learner, game in [
        (bl.LinearDescent(2), losses),
        (bl.GradientDescent(1, lipschitz=4.0), games.Regression(rows, rows[:, 0])),
    ]:
        result = regret(bl.Direct(learner), game, 0)
        assert isinstance(result.theorem, str) and "is not against" in result.theorem


@dataclass(frozen=True)
class Guess(bl.Game):
    """Counts mistakes, and shows no rows."""

    actions = 2
    feedback = "full"
    comparator = "truth"
    context_size = 1

    def params(self):
        return np.zeros(1)

    def memory(self):
        return 1

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        context[0] = 1.0

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0], feedback[1] = 0.0, 1.0
        memory[0] += 1.0 - action
        return float(action)

    @staticmethod
    def regret(params, memory):
        return memory[0]


def test_a_game_that_shows_no_rows_has_no_bound_on_mistakes():
    result = bl.play(bl.Direct(bl.Perceptron(1)), Guess(), delays.Constant(0), 5, engine="python")
    assert isinstance(result.theorem, str) and "rows and labels" in result.theorem
    assert result.regret[0, -1] == 1


@pytest.mark.parametrize("domain", ["ball", "box", "simplex"])
def test_huge_gradients_do_no_harm(domain):
    f = bl.Direct(bl.GradientDescent(2, radius=0.5, domain=domain))
    for gradient in ([1e308, 0.0], [-1e17, -1e17], [1e200, -1e200]):
        decision = f.predict()
        f.update(decision.ticket, gradient)
        point = f.predict().action
        assert np.isfinite(point).all() and np.abs(point).max() <= 0.5 + 1e-12
    assert point[1] == pytest.approx(0.5 if domain != "ball" else math.sqrt(0.125))


def test_the_best_weights_are_the_best():
    rows = np.column_stack([np.full(50, 1000.0), 1e-4 * np.linspace(-1, 1, 50)])
    game = games.Regression(rows, np.linspace(-1, 1, 50), radius=2e4)
    assert ((rows @ game.best - game.y) ** 2).sum() < 1e-9


def test_rows_that_a_learner_does_not_take_are_refused_before_a_play():
    game = games.Labels([[0.0, 7.0]] * 3, [0, 1, 0])
    with pytest.raises(InvalidArgument, match="expert 1"):
        regret(bl.Direct(bl.Halving(2)), game, 0)


def test_points_outside_the_set_of_a_game_are_refused():
    with pytest.raises(InvalidArgument, match=r"a ball of radius 5, .* a ball of radius 1"):
        regret(bl.Direct(bl.GradientDescent(1, radius=5.0)), games.LinearLosses([[1.0]] * 3), 0)


def test_there_may_be_more_labels_than_come():
    game = games.Labels([[0.0, 2.0]] * 3, [0, 1, 0], labels=3)
    assert game.actions == 3 and game != games.Labels([[0.0, 2.0]] * 3, [0, 1, 0])
    assert regret(bl.Direct(bl.Halving(2, labels=3)), game, 0).regret[0, -1] >= 0
    with pytest.raises(InvalidArgument, match="labels must be >= 3"):
        games.Labels([[0.0]] * 2, [0, 2], labels=2)


def test_the_bound_of_dual_averaging_is_that_of_a_constant_delay():
    game = games.Quadratic([1.0, 0.5], [0.5, -0.5], noise=0.5)
    learner = bl.DualAveraging(2, 1.0, 1.0, 0.5, 4)
    late = bl.play(bl.Direct(learner), game, delays.Constant(4), 200, replications=20, engine="python")
    assert late.bound == pytest.approx(bounds.dual_averaging(200, 0.1875, 1.0, 1.0, 0.5, 4))
    assert late.mean_regret < late.bound
    for law in (delays.Batched(5), delays.Constant(3)):
        assert isinstance(bl.play(bl.Direct(learner), game, law, 200, engine="python").theorem, str)
    rough = bl.play(bl.Direct(bl.DualAveraging(2, 1.0, 0.5, 0.5, 4)), game, delays.Constant(4), 20, engine="python")
    assert isinstance(rough.theorem, str)
