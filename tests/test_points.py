"""Points told late: their sets, entropic steps, steps of each number by itself; and bits, against every strategy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

import belated as bl
from belated import bounds, checks, delays, games
from belated.checks.learner import compiled_is_python
from belated.errors import InvalidArgument, InvalidFeedback
from belated.kernels.sets import SETS, within
from belated.learners.cover import above_zero

LATE = [delays.Constant(0), delays.Constant(9), delays.Geometric(mean=6), delays.Lossy(delays.Poisson(mean=5), 0.3)]


def played(forecaster, game, late, n=None, **options):
    return bl.play(forecaster, game, late, n or game.longest(), engine="python", **options)


def below_its_bound(result):
    assert not isinstance(result.theorem, str), result.theorem
    return (result.regret.mean(axis=0) <= [result.theorem.bound(int(n)) + 1e-9 for n in result.checkpoints]).all()


# --- bits ---


def value(n, d):
    """The least regret that any forecaster of n bits told d late can promise, by a linear programme.

    A strategy is a chance of 1 for each round and each course of the bits that are known then; what it loses on a
    sequence is linear in these.
    """
    known = [max(0, t - d) for t in range(n)]
    first = np.concatenate([[0], np.cumsum([2**k for k in known])])
    rows, limits = [], []
    for bits in itertools.product((0, 1), repeat=n):
        row, ones = np.zeros(first[-1] + 1), sum(bits)
        for t, bit in enumerate(bits):
            course = int("".join(map(str, bits[: known[t]])) or "0", 2)
            row[first[t] + course] = 1.0 - 2.0 * bit
        row[-1] = -1.0
        rows.append(row)
        limits.append(min(ones, n - ones) - ones)
    cost = np.zeros(first[-1] + 1)
    cost[-1] = 1.0
    found = linprog(cost, np.array(rows), limits, bounds=[(0, 1)] * first[-1] + [(None, None)])
    return found.fun


@pytest.mark.parametrize(
    ("n", "d"), [(1, 0), (5, 0), (6, 1), (7, 1), (6, 2), (7, 2), (8, 3), (7, 4), (4, 6)], ids=lambda x: str(x)
)
def test_no_strategy_promises_less_than_subsampling(n, d):
    assert value(n, d) == pytest.approx(bounds.subsampling(n, d), abs=1e-9)


def bits_of(n, seed=0):
    bits = np.random.default_rng(seed).integers(0, 2, n)
    return games.RewardTable(np.stack([1.0 - bits, bits], axis=1), "full")


@pytest.mark.parametrize(("delay", "horizon", "n"), [(0, 24, 24), (2, 8, 24), (3, 6, 24), (3, 6, 23), (30, 1, 20)])
def test_a_pool_of_covers_has_a_bound(delay, horizon, n):
    found = played(bl.BOLD(bl.Cover(horizon)), bits_of(n), delays.Constant(delay))
    counts = [len(range(i, n, delay + 1)) for i in range(min(n, delay + 1))]
    assert found.bound == pytest.approx(sum(bounds.cover(horizon, k) for k in counts))
    if set(counts) == {horizon}:
        assert found.bound == pytest.approx(bounds.subsampling(n, delay))


def test_a_pool_of_covers_keeps_its_bound():
    constant = games.RewardTable([[0.0, 1.0]] * 30, "full")  # what costs the most when the rounds are not all played
    found = played(bl.BOLD(bl.Cover(9)), constant, delays.Constant(4), replications=300)
    assert found.bound == pytest.approx(5 * bounds.cover(9, 6)) and found.bound > bounds.subsampling(30, 4)
    assert abs(found.mean_regret - found.bound) < 5 * found.standard_error


@pytest.mark.parametrize("horizon", [1, 2, 5, 8])
def test_what_the_first_rounds_of_cover_cost(horizon):
    for k in range(horizon + 1):
        worst = 0.0
        for bits in itertools.product((0, 1), repeat=k):
            ahead, lost = 0, 0.0
            for used, bit in enumerate(bits, 1):
                one = above_zero(float(ahead), horizon - used)
                lost += 1.0 - one if bit else one
                ahead += 1 if bit else -1
            worst = max(worst, lost - min(sum(bits), k - sum(bits)))
        assert bounds.cover(horizon, k) == pytest.approx(worst, abs=1e-12)


@pytest.mark.parametrize(
    ("horizon", "game", "late", "why"),
    [
        (5, bits_of(24), delays.Constant(3), "has 6 rounds"),
        (24, bits_of(24), delays.Geometric(mean=3), "only a constant delay"),
        (24, games.Bernoulli([0.0, 1.0], "full"), delays.Constant(3), "for bits"),
    ],
)
def test_where_a_pool_of_covers_has_none(horizon, game, late, why):
    assert why in played(bl.BOLD(bl.Cover(horizon)), game, late, 24).theorem


@pytest.mark.parametrize("game", [games.RewardTable([[0.2, 0.9]] * 24, "full"), games.Bernoulli([0.2, 0.9], "full")])
def test_what_is_no_bit_has_no_bound_and_is_refused(game):
    assert "for bits" in bl.Cover(24).facing(game)
    with pytest.raises(InvalidFeedback, match="1 for the one right action and 0 for all others"):
        played(bl.BOLD(bl.Cover(24)), game, delays.Constant(3), 24)


# --- sets ---


def gradients(seed, n=200, size=4):
    draws = np.random.default_rng(seed)
    rows = draws.normal(size=(n, size)) + draws.choice([-1.0, 1.0], size)
    rows[n // 2 :] *= draws.choice([-1.0, 1.0], size)  # the best point of one half is not that of the other
    return rows


@pytest.mark.parametrize("domain", SETS)
def test_regret_is_against_the_best_point_of_the_set(domain):
    table = gradients(3, n=40, size=3)
    found = played(
        bl.Direct(bl.GradientDescent(3, radius=0.7, lipschitz=9.0, domain=domain)),
        games.LinearLosses(table, radius=0.7, domain=domain),
        delays.Constant(2),
        record=True,
    )
    draws = np.random.default_rng(0)
    if domain == "ball":
        total = table.sum(axis=0)
        corners = [-0.7 * total / np.linalg.norm(total)]
    elif domain == "box":
        corners = [0.7 * np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=3)]
    else:
        corners = list(0.7 * np.eye(3))
    best = min(float((table @ corner).sum()) for corner in corners)
    assert found.regret[0, -1] == pytest.approx((table * found.actions[0]).sum() - best, abs=1e-9)
    inside = draws.dirichlet(np.ones(3), 100) * 0.7  # in all three sets
    assert (table @ inside.T).sum(axis=0).min() >= best


@pytest.mark.parametrize("late", LATE, ids=repr)
@pytest.mark.parametrize(("domain", "steps"), [("box", "euclidean"), ("simplex", "euclidean"), ("simplex", "entropic")])
@pytest.mark.parametrize("tau", [None, 9])
def test_no_bound_on_a_set_is_broken(domain, steps, tau, late):
    for seed in range(2):
        game = games.LinearLosses(gradients(seed), radius=0.8, domain=domain)
        longest = game.spread if steps == "entropic" else game.lipschitz
        learner = bl.GradientDescent(4, 0.8, longest, tau=tau, domain=domain, steps=steps)
        found = played(bl.Direct(learner), game, late)
        assert below_its_bound(found)
    assert below_its_bound(played(bl.BOLD(learner), game, late))


def test_entropy_sees_the_simplex_smaller_where_there_are_many_numbers():
    rows = np.where(np.arange(64) % 2 == 0, 1.0, -1.0) * np.ones((50, 64))
    game = games.LinearLosses(rows, domain="simplex")
    plain, entropic = (
        played(bl.Direct(bl.GradientDescent(64, 1.0, each, domain="simplex", steps=steps)), game, delays.Constant(3))
        for each, steps in ((game.lipschitz, "euclidean"), (game.spread, "entropic"))
    )
    assert entropic.theorem.bound(50) < plain.theorem.bound(50)


def test_entropic_steps_are_hedge_to_the_bit():
    hedge = bl.Direct(bl.DelayedHedge(4), seed=3)
    points = bl.Direct(bl.GradientDescent(4, lipschitz=0.5, domain="simplex", steps="entropic"))
    draws, waiting = np.random.default_rng(4), []
    for t in range(300):
        one, other = hedge.predict(), points.predict()
        assert other.action[one.action] == one.probability
        assert other.action.sum() == pytest.approx(1.0) and other.action.min() >= 0.0
        waiting.append((one.ticket, other.ticket, draws.random(4)))
        while len(waiting) > t % 13:
            one, other, rewards = waiting.pop(int(draws.integers(len(waiting))))
            hedge.update(one, rewards)
            points.update(other, 1.0 - rewards)
    assert bl.GradientDescent(4, lipschitz=0.5, domain="simplex", steps="entropic").bound_under_delay(
        300, 900.0
    ) == pytest.approx(bl.DelayedHedge(4).bound_under_delay(300, 900.0))


def test_entropic_steps_of_one_length():
    f = bl.Direct(bl.GradientDescent(2, radius=3.0, rate=0.5, domain="simplex", steps="entropic"))
    f.update(f.predict().ticket, [2.0, 0.0])
    share = math.exp(-1.0) / (1.0 + math.exp(-1.0))
    assert f.predict().action == pytest.approx([3 * share, 3 * (1 - share)])


@pytest.mark.parametrize(
    ("inner", "outer", "lies"),
    [
        (("ball", 1.0), ("ball", 1.0), True),
        (("ball", 1.1), ("ball", 1.0), False),
        (("box", 1.0), ("ball", 1.9), False),
        (("box", 1.0), ("ball", 2.0), True),
        (("simplex", 1.0), ("ball", 1.0), True),
        (("simplex", 1.0), ("box", 1.0), True),
        (("ball", 1.0), ("simplex", 1.0), False),
        (("simplex", 1.0), ("simplex", 2.0), False),
        (("ball", math.inf), ("ball", math.inf), True),
    ],
)
def test_which_set_lies_in_which(inner, outer, lies):
    assert within(inner, outer, 4) is lies


@pytest.mark.parametrize(
    ("learner", "game"),
    [
        (bl.GradientDescent(2, domain="box"), games.LinearLosses([[1.0, 0.0]] * 3)),
        (bl.GradientDescent(2), games.LinearLosses([[1.0, 0.0]] * 3, domain="simplex")),
        (bl.AdaptiveRevision(2, radius=2.0), games.LinearLosses([[1.0, 0.0]] * 3, domain="box")),
        (bl.DualAveraging(2, 2.0, 1.0, 0.0, 0), games.LinearLosses([[1.0, 0.0]] * 3)),
        (bl.GradientDescent(2, radius=math.inf, rate=0.1), games.Quadratic([1.0, 1.0], [0.0, 0.0], radius=1.0)),
    ],
)
def test_a_point_outside_the_set_of_a_game_is_refused(learner, game):
    with pytest.raises(InvalidArgument, match=r"plays points of a .* takes those of a"):
        played(bl.Direct(learner), game, delays.Constant(1), 3)


# --- strongly convex losses ---


@pytest.mark.parametrize("late", LATE, ids=repr)
def test_curved_losses_cost_a_logarithm(late):
    game = games.Quadratic([1.0, 0.5], [0.6, -0.3], radius=1.0)
    learner = bl.GradientDescent(2, lipschitz=game.lipschitz, curvature=game.curvature)
    found = played(bl.Direct(learner), game, late, 400)
    assert below_its_bound(found)
    known = bounds.curved_descent(400, 0.5, game.lipschitz, 2**0.5, float(found.peak[0]), late.constant)
    assert found.bound == pytest.approx(min(known, 400 * game.scale))


def test_curved_losses_have_a_verdict():
    game = games.Quadratic([1.0, 0.5], [0.6, -0.3], radius=1.0)
    learner = bl.GradientDescent(2, lipschitz=game.lipschitz, curvature=game.curvature)
    found = played(bl.Direct(learner), game, delays.Constant(1), 60, replications=30)
    assert found.bound < 60 * game.scale * 0.6 and found.verdict.startswith("holds")
    for wrong, why in [
        (games.Quadratic([1.0, 0.5], [0.6, -0.3]), "another set"),
        (games.Quadratic([1.0, 0.5], [0.6, -0.3], noise=0.1, radius=1.0), "lipschitz"),
        (games.Quadratic([1.0, 0.4], [0.6, -0.3], radius=1.0), "strongly convex"),
    ]:
        assert why in played(bl.Direct(learner), wrong, delays.Constant(3), 20).theorem


# --- steps of each number by itself ---


def adagrad(table, step, radius, initial):
    """Diagonal AdaGrad as it is usually written."""
    x, z, seen = np.zeros(table.shape[1]), np.full(table.shape[1], initial), []
    for g in table:
        seen.append(x.copy())
        z += g * g
        x = np.clip(x - step / np.sqrt(z) * g, -radius, radius)
    return np.array(seen)


@pytest.mark.parametrize("radius", [0.3, math.inf])
def test_without_delay_adaptive_revision_is_adagrad(radius):
    f, table = bl.Direct(bl.AdaptiveRevision(4, radius, rate=0.9, initial=0.5)), gradients(5)
    for g, x in zip(table, adagrad(table, 0.9, radius, 0.5), strict=True):
        decision = f.predict()
        assert decision.action.tolist() == pytest.approx(x.tolist(), abs=1e-14)
        f.update(decision.ticket, g)


def test_adaptive_revision_by_its_description():
    """The paper's own lines for one number, in any order of arrival; z' is the largest z so far."""
    f, draws = bl.Direct(bl.AdaptiveRevision(1, radius=math.inf, rate=0.7)), np.random.default_rng(6)
    x, total, z, largest, waiting = 0.0, 0.0, 1.0, 1.0, []
    for _ in range(300):
        decision = f.predict()
        assert float(decision.action[0]) == pytest.approx(x, abs=1e-12)
        waiting.append((decision.ticket, total))
        while len(waiting) > draws.integers(0, 12):
            ticket, then = waiting.pop(int(draws.integers(len(waiting))))
            g = float(draws.normal())
            back, old = total - then, 0.7 / math.sqrt(largest)
            z += g * g + 2 * g * back
            largest = max(largest, z)
            new = 0.7 / math.sqrt(largest)
            x = x - new * g + (old - new) * back
            total += g
            f.update(ticket, [g])


def test_late_gradients_in_order_end_with_the_rate_of_the_last_that_was_out_with_them():
    """What the revision is for: all of a batch is as if made at once, with the rate that knows all of it."""
    f = bl.Direct(bl.AdaptiveRevision(1, radius=math.inf, rate=1.0))
    tickets = [f.predict().ticket for _ in range(5)]
    for ticket in tickets:
        f.update(ticket, [0.5])
    assert float(f.predict().action[0]) == pytest.approx(-2.5 / math.sqrt(1.0 + 2.5**2))


@pytest.mark.parametrize("late", [delays.Constant(0), delays.Constant(5)], ids=repr)
def test_adaptive_revision_has_the_bound_of_adagrad_where_it_is_adagrad(late):
    game = games.LinearLosses(gradients(7), radius=0.6, domain="box")
    assert below_its_bound(played(bl.BOLD(bl.AdaptiveRevision(4, 0.6)), game, late))
    direct = played(bl.Direct(bl.AdaptiveRevision(4, 0.6)), game, late)
    if late.maximum:
        assert "no theorem bounds AdaptiveRevision" in direct.theorem
    else:
        assert below_its_bound(direct)
    assert "another set" in played(bl.BOLD(bl.AdaptiveRevision(4, 0.3)), game, late).theorem


# --- the contract, for what no example of the catalog is ---

VARIANTS = [
    bl.GradientDescent(3, domain="simplex", steps="entropic"),
    bl.GradientDescent(3, 2.0, domain="simplex", steps="entropic", tau=3),
    bl.GradientDescent(3, domain="box", curvature=0.5),
    bl.AdaptiveRevision(3, radius=0.2, rate=3.0, initial=0.1),
]


@pytest.mark.parametrize("learner", VARIANTS, ids=repr)
def test_variants_keep_the_contract(learner):
    for check in checks.LEARNER_CHECKS:
        if check.__name__ not in ("compiled_is_python", "predicts_honestly"):
            check(learner)


@pytest.mark.minutes
@pytest.mark.parametrize("learner", VARIANTS, ids=repr)
def test_variants_play_the_same_compiled(learner):
    compiled_is_python(learner)


# --- what is refused ---


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: bl.AdaptiveRevision(0), "size"),
        (lambda: bl.AdaptiveRevision(2, radius=math.inf), "rate"),
        (lambda: bl.AdaptiveRevision(2, rate=-1.0), "rate must.*-1"),
        (lambda: bl.AdaptiveRevision(2, initial=0.0), "initial"),
        (lambda: bl.GradientDescent(2, steps="entropic"), "for the simplex.*'ball'"),
        (lambda: bl.GradientDescent(2, domain="simplex", steps="entropic", curvature=1.0), "no curvature"),
        (lambda: bl.GradientDescent(2, steps="long"), "steps"),
        (lambda: games.LinearLosses([[1.0]], domain="cube"), "domain"),
        (lambda: games.Quadratic([1.0], [2.0], radius=1.5), r"centre must lie in the ball of radius 1.5.*\[2.0\]"),
        (lambda: games.Quadratic([1.0], [2.0], radius=0.0), "radius"),
        (lambda: bounds.cover(5, 6), "k must"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make, names):
    with pytest.raises(InvalidArgument, match=names):
        make()


LEARNERS = [
    bl.GradientDescent(2),
    bl.GradientDescent(2, domain="simplex", steps="entropic"),
    bl.AdaptiveRevision(2),
    bl.DualAveraging(2, 1.0, 1.0, 0.5, 2),
]


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD, bl.Paced])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_wrong_gradient_is_refused_by_name_and_changes_nothing(learner, kind):
    f = kind(learner, seed=1)
    first, second = f.predict(), f.predict()
    f.update(second.ticket, [0.5, -0.25])
    before = f.to_bytes()
    for wrong, name in [
        ([math.nan, 0.0], "nan"),
        ([0.0, math.inf], "inf"),
        ([1.0], "2"),
        ([1.0, 2.0, 3.0], "2"),
        ([[1.0, 2.0]], "2"),
        ("up", "up"),
        (None, "None"),
    ]:
        with pytest.raises(InvalidFeedback, match=name):
            f.update(first.ticket, wrong)
        assert f.to_bytes() == before
    f.update(first.ticket, [0.5, -0.25])


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_huge_gradients_do_no_harm(learner):
    f = bl.Direct(learner)
    for gradient in ([1e308, 0.0], [-1e308, -1e308], [1e200, -1e200], [-1e308, 1e308]):
        tickets = [f.predict().ticket for _ in range(3)]
        for ticket in reversed(tickets):
            f.update(ticket, gradient)
        point = f.predict().action
        assert np.isfinite(point).all() and np.abs(point).max() <= 1.0 + 1e-12
