"""Learners that are told late and know how much is outstanding: DelayedExp3, DelayedExp4, HybridFTRL."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.optimize import minimize

import belated as bl
from belated.checks import LEARNER_CHECKS, learner
from belated.errors import InvalidArgument
from belated.forecasters.instance import Instance
from belated.kernels import hybrid
from belated.kernels.random import key_of
from belated.learners.tsallis_inf import tsallis_weights
from tests.plainly import plain

pytestmark = plain
GEOMETRIC = bl.delays.Geometric(mean=20)
SKIPPING = bl.HybridFTRL(3, skip=True, window=40)


def state_of(losses, predictions=1):
    """A fresh state of the solver with these losses."""
    count = len(losses)
    dtype = np.dtype([("predictions", "i8"), *hybrid.fields(count)], align=True)
    state = np.zeros(1, dtype).view(np.recarray)
    hybrid.start(state[0], count)
    state[0].loss[:] = losses
    state[0].predictions = predictions
    return state[0]


def solved(losses, a, b):
    """Weights from a cold start, by either form."""
    found = []
    for solve in (hybrid.hybrid_weights, hybrid.nested_weights):
        state = state_of(losses)
        total = solve(state, a, b)
        found.append(state.weight / total)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)
    return found[0]


def exact(losses, a, b):
    """The weights to some 50 digits: a search by halves for the multiplier, steps from the right for each level."""
    with localcontext() as context:
        context.prec = 60
        a, b = Decimal(a), Decimal(b)
        over = [Decimal(loss) - Decimal(min(losses)) for loss in losses]

        def roots(nu):
            found = []
            for c in over:
                y = c - nu
                s = (y / a).ln()
                if b:
                    s = min(s, y / (2 * b))
                for _ in range(60):
                    steep = a * s.exp()
                    step = (steep + 2 * b * s - y) / (steep + 2 * b)
                    s -= step
                    if abs(step) < Decimal(10) ** -55:
                        break
                found.append(-s)
            return [x.exp() for x in found]

        nu = -a
        for _ in range(400):  # convex and growing: from the right without passing the root
            x = roots(nu)
            over_one = sum(r * r for r in x) - 1
            if over_one < Decimal(10) ** -50:
                break
            nu -= over_one / sum(2 * r * r / (a / r + 2 * b) for r in x)
        return [float(r * r) for r in x], nu


# --- weights ---


def test_reference_numbers():
    for losses, a, b, wanted, nu in (
        ((0, 1, 2), 1, 0, (0.695504399368, 0.206783494528, 0.0977121061041), -1.19908524598),
        ((0, 1, 2), 3, 5, (0.378169417751, 0.331093448265, 0.290737133984), -9.74047219139),
        (
            (5, 3, 0.5, 8, 2),
            math.sqrt(50),
            math.sqrt(240 / math.log(5)),
            (0.18577739, 0.20509789, 0.23273459, 0.16073398, 0.21565616),
            None,
        ),
    ):
        np.testing.assert_allclose(solved(losses, a, b), wanted, rtol=0, atol=1e-8 if nu is None else 1e-12)
        if nu is not None:
            state = state_of(losses)
            hybrid.hybrid_weights(state, float(a), float(b))
            assert state.multiplier == pytest.approx(nu, abs=1e-10)


@pytest.mark.parametrize("seed", range(12))
def test_weights_to_fifty_digits(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    losses = (10.0 ** rng.uniform(-2, 9, count)).tolist()
    a, b = math.sqrt(rng.integers(1, 10**6)), 0.0 if seed % 4 == 0 else float(10.0 ** rng.uniform(-1, 4))
    wanted, _ = exact(losses, a, b)
    np.testing.assert_allclose(solved(losses, a, b), wanted, rtol=2e-11)


def test_weights_minimise():
    rng = np.random.default_rng(1)
    for _ in range(5):
        losses, a, b = rng.uniform(0, 5, 4), rng.uniform(1, 5), rng.uniform(0, 5)

        def cost(x, losses=losses, a=a, b=b):
            return losses @ x - 2 * a * np.sqrt(x).sum() + b * (x * np.log(x)).sum()

        found = minimize(
            cost,
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(1e-9, 1)] * 4,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            options={"ftol": 1e-14},
        ).x
        np.testing.assert_allclose(solved(losses, a, b), found, atol=1e-5)


def test_without_delay_these_are_the_weights_of_tsallis_inf():
    rng = np.random.default_rng(2)
    for t in (1, 10, 10_000):
        losses, weights = rng.exponential(math.sqrt(t), 10), np.zeros(10)
        total = tsallis_weights(losses, 2 / math.sqrt(t), weights)
        np.testing.assert_allclose(solved(losses, math.sqrt(t), 0.0), weights / total, rtol=1e-12)


def test_going_on_from_the_last_weights_changes_none():
    rng, state = np.random.default_rng(3), state_of(np.zeros(5))
    sums = 0.0
    for t in range(1, 601):
        state.predictions = t
        state.loss[rng.integers(5)] += rng.exponential(5) * (1e6 if t == 350 else 1)
        sums += 20.0
        a, b = math.sqrt(t), math.sqrt(2 * sums / math.log(5))
        total = hybrid.hybrid_weights(state, a, b)
        if t % 150 == 0:
            np.testing.assert_allclose(state.weight / total, exact(state.loss.tolist(), a, b)[0], rtol=1e-11)
    far = state_of([0.0, 1e9, 3.0])
    assert hybrid.hybrid_weights(far, 1.0, 0.0) == pytest.approx(1, abs=1e-12) and (far.weight > 0).all()


# --- actions ---


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD])
def test_without_delay_delayed_exp3_is_exp3(kind):
    for game in (bl.games.RandomWalk(5, feedback="bandit"), bl.games.Switching(5, feedback="bandit")):
        one, two = (
            bl.play(kind(each(5)), game, bl.delays.Constant(0), 300, replications=2, record=True, engine="python")
            for each in (bl.Exp3, bl.DelayedExp3)
        )
        assert np.array_equal(one.actions, two.actions) and np.array_equal(one.probabilities, two.probabilities)


def test_among_some_actions_the_rate_is_the_same():
    one, two = (Instance(each(4), key_of(5, 0), 0) for each in (bl.Exp3, bl.DelayedExp3))
    for _ in range(40):
        said = one.predict_among(None, [0, 2, 3])
        assert two.predict_among(None, [0, 2, 3]) == said and said[0] != 1
        for each in (one, two):
            each.update(None, *said, np.array([0.25]))


def test_the_advice_of_one_expert_for_each_action_is_exp3_with_another_rate():
    """Experts who always advise one action: DelayedExp4 has the weights of exponential weights, at its own rate."""
    f, advice = bl.Direct(bl.DelayedExp4(actions=3, experts=3), seed=2), np.eye(3).ravel()
    losses, total, out = np.zeros(3), 0, []
    for t in range(1, 120):
        total += len(out)
        d = f.predict(advice)
        rate = math.sqrt(math.log(3) / (2 * (3 * t + total)))
        weights = np.exp(-rate * (losses - losses.min()))
        assert d.probability == pytest.approx(weights[d.action] / weights.sum(), rel=1e-12)
        out.append(d)
        if t > 6:
            due = out.pop(0)
            f.update(due.ticket, 0.1 * due.action)
            losses[due.action] += (1 - 0.1 * due.action) / due.probability


def test_experts_come_before_actions():
    assert bl.DelayedExp4(4, 3) == bl.DelayedExp4(experts=4, actions=3)
    assert bl.Direct(bl.DelayedExp4(4, 3), seed=0).predict(np.ones(12)).probability == pytest.approx(1 / 3)


def test_learners_count_what_the_run_counts():
    for spec in (bl.DelayedExp3(3), bl.HybridFTRL(3)):
        f = bl.Direct(spec, seed=0)
        for t in range(1, 101):
            f.predict()
            if t > 7:
                f.update(t - 7, 0.5)
        assert f._room.seats[0].learner.state["total"][0] == 7 * 100 - 7 * 8 / 2


def test_every_probability_is_that_of_the_rule():
    """150 rounds under random delays: the losses that are in, the sum of what was out, and the weights from scratch."""
    rng = np.random.default_rng(6)
    f, losses, total, out = bl.Direct(bl.HybridFTRL(3, caution=0.7), seed=2), np.zeros(3), 0, []
    for t in range(1, 151):
        total += len(out)
        d = f.predict()
        p = solved(losses, math.sqrt(t), math.sqrt(2 * 0.7 * total / math.log(3)))
        assert d.probability == pytest.approx(p[d.action], rel=1e-10)
        out.append(d)
        for due in [each for each in out if rng.random() < 0.1]:
            out.remove(due)
            f.update(due.ticket, 0.5 * due.action)
            losses[due.action] += (1 - 0.5 * due.action) / due.probability


# --- giving up ---


def skips(taus, spec, seed=0):
    """Play a table of delays; returns the state at the end."""
    f, due = bl.Direct(spec, seed=seed), {}
    for t, tau in enumerate(taus):
        ticket = f.predict().ticket
        due.setdefault(t + tau, []).append(ticket)
        for each in due.pop(t, []):
            f.update(each, 0.5)
    return f._room.seats[0].learner.state[0]


@pytest.mark.parametrize("law", ["lost", "heavy", "constant"])
def test_rounds_given_up_are_few_and_those_of_a_second_reading(law):
    rng, n = np.random.default_rng(4), 300
    taus = {
        "lost": np.where(rng.random(n) < 0.05, 10**6, 20),
        "heavy": np.minimum(3 * rng.pareto(0.8, n), 1e6).astype(int),
        "constant": np.full(n, 30),
    }[law].tolist()
    state = skips(taus, bl.HybridFTRL(5, skip=True))
    total, skipped, out = 0, 0, []
    for t, _ in enumerate(taus):
        total += len(out)
        kept = [s for s in out if t - s <= math.sqrt(total / math.log(5))]
        skipped += len(out) - len(kept)
        out = [s for s in [*kept, t] if s + taus[s] != t]
    assert state["total"] == total and state["skipped"] == skipped > 0 and state["forced"] == 0
    assert skipped <= 2 * math.sqrt(total * math.log(5)) <= bl.bounds.hybrid_skipped(5, total, 4096)


def test_what_was_given_up_teaches_nothing():
    f = bl.Direct(bl.HybridFTRL(2, skip=True), seed=1)
    first = f.predict()
    for _ in range(60):
        f.update(f.predict().ticket, 1.0)
    state = f._room.seats[0].learner.state
    assert state["skipped"][0] == 1 and state["given_up"][0] == 1
    f.update(first.ticket, 0.0)
    assert not state["loss"].any() and state["given_up"][0] == 0
    second, third = f.predict(), f.predict()
    f.cancel(second.ticket)
    f.update(third.ticket, 0.0)
    assert state["loss"].any() and state["skipped"][0] == 1


def test_a_window_forces_and_says_so():
    state = skips([10] * 200, bl.HybridFTRL(3, skip=True, window=8))
    assert state["skipped"] == 200 - 7 and 0 < state["forced"] <= state["total"] / 7
    assert not state["loss"].any()


#: Left out: the first has a test of its own, the second is as for the other form.
LONG = (learner.compiled_is_python, learner.predicts_honestly)


@pytest.mark.parametrize("check", [check for check in LEARNER_CHECKS if check not in LONG])
def test_the_skipping_form_keeps_the_contract(check):
    check(SKIPPING)


@pytest.mark.parametrize("spec", [bl.HybridFTRL(3), SKIPPING], ids=repr)
def test_saved_in_mid_run_it_goes_on_identically(spec):
    f = bl.Direct(spec, seed=9)
    tickets = [f.predict().ticket for _ in range(30)]
    for ticket in tickets[::2]:
        f.update(ticket, 0.3)
    g = bl.from_bytes(f.to_bytes())
    for t in range(300):
        d = f.predict()
        assert d == g.predict()
        for each in (f, g):
            each.update(d.ticket, (t % 7) / 7)
    assert f.to_bytes() == g.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"actions": 0}, "actions must be >= 1, got 0"),
        ({"actions": 2, "caution": 0.0}, "caution must be > 0, got 0.0"),
        ({"actions": 2, "caution": 1e308}, "caution must be <= 1e"),
        ({"actions": 2, "skip": 1}, "skip must be True or False, got 1"),
        ({"actions": 2, "window": 1}, "window must be >= 2, got 1"),
    ],
)
def test_arguments_are_checked(arguments, said):
    with pytest.raises(InvalidArgument, match=said):
        bl.HybridFTRL(**arguments)


# --- a few rounds only ---


@pytest.mark.parametrize("longest", [-1, 1.5, None])
def test_the_bound_of_few_rounds_names_what_is_wrong(longest):
    with pytest.raises(InvalidArgument, match=f"longest .*{longest}"):
        bl.bounds.capped_exp3(100, 3, 3, longest)


@pytest.mark.parametrize(("capacity", "longest"), [(4, 30), (2, 9), (11, 100), (40, 30), (1, 0)])
def test_no_more_rounds_are_tracked_than_there_is_room_for(capacity, longest):
    spec = bl.CappedExp3(3, capacity, longest)
    f, out, tracked, seen = bl.Direct(spec, seed=2), [], 0, set()
    state = f._room.seats[0].learner.state
    losses, held = np.zeros(3), []
    for t in range(1, 301):
        if (t - 1) % spec.block == 0:
            losses, held = losses + sum(held, np.zeros(3)), []
        d = f.predict()
        rate = math.sqrt(math.log(3) / ((3 * spec.block + 2 * longest) * t))
        weights = np.exp(-rate * (losses - losses.min()))
        assert d.probability == pytest.approx(weights[d.action] / weights.sum(), rel=1e-12)
        out.append((t, d, t in state["tracked"][0]))
        tracked += out[-1][2]
        assert sum(is_tracked for _, _, is_tracked in out) <= capacity
        if t > longest:
            s, due, is_tracked = out.pop(0)
            f.update(due.ticket, 0.3 * due.action)
            if is_tracked:
                seen.add((s - 1) % spec.block)
                loss = np.eye(3)[due.action] * spec.block * (1 - 0.3 * due.action) / due.probability
                if (s - 1) // spec.block == (t - 1) // spec.block:
                    held.append(loss)
                else:
                    losses = losses + loss
    assert tracked in (300 // spec.block, 300 // spec.block + 1)
    assert spec.block == 1 or len(seen) > 1


def test_a_capacity_of_one_takes_no_delay():
    with pytest.raises(InvalidArgument, match="capacity 1 with longest 5"):
        bl.CappedExp3(3, 1, 5)


def test_capped_exp3_has_a_bound_only_where_nothing_is_later_than_it_keeps():
    game, spec = bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.CappedExp3(3, 4, 30)
    r = bl.play(bl.Direct(spec), game, bl.delays.Uniform(0, 30), 200, engine="python")
    assert r.bound == pytest.approx(min(200, 2 * math.sqrt((3 * 10 + 60) * 200 * math.log(3))))
    r = bl.play(bl.Direct(spec), game, GEOMETRIC, 200, engine="python")
    assert r.bound is None and r.bound_reason == "feedback may be 31 rounds late or more, which CappedExp3 drops"
    with pytest.raises(InvalidArgument, match="31 rounds late or more"):
        bl.play(bl.Direct(spec), game, bl.delays.Constant(31), 200)


# --- best of both worlds ---


def test_the_rates_of_bobw22():
    f, losses, total, out, d = bl.Direct(bl.BoBW22(3, 4), seed=1), np.zeros(3), 0, [], 4
    for t in range(1, 61):
        total += len(out)
        said = f.predict()
        a = math.sqrt(t + 10 * d + d**2 / (3 ** (1 / 3) * math.log(3)) ** 2)
        b = math.sqrt((total + 24**2 * d**2 * 3 ** (2 / 3) * math.log(3)) / math.log(3))
        assert said.probability == pytest.approx(solved(losses, a, b)[said.action], rel=1e-10)
        out.append(said)
        if t > d:
            due = out.pop(0)
            f.update(due.ticket, 0.4 * due.action)
            losses[due.action] += (1 - 0.4 * due.action) / due.probability


def test_the_rates_of_bobw24():
    """Delays of one round and none in turn: what is given up, and what losses are divided by."""
    f, losses, total, out, skipped = bl.Direct(bl.BoBW24(2), seed=1), np.zeros(2), 0, {}, 0
    for t in range(1, 121):
        total += len(out)
        limit = math.sqrt(total / (49 * 2 ** (2 / 3) * math.log(2)))
        late = [s for s in out if t - s > limit]
        skipped += len(late)
        gone = {s: out.pop(s)[0] for s in late}
        said = f.predict()
        p = solved(losses, math.sqrt(t), math.sqrt(49 * total / math.log(2)))
        assert said.probability == pytest.approx(p[said.action], rel=1e-9)
        out[t] = said, total
        for due in gone.values():
            f.update(due.ticket, 0.0)
        for s in [s for s in out if t - s >= s % 3]:
            due, then = out.pop(s)
            f.update(due.ticket, 0.4 * due.action)
            least = math.exp(-total / (total - then)) if total > then else 0.0
            losses[due.action] += (1 - 0.4 * due.action) / max(due.probability, least)
    assert skipped == f._room.seats[0].learner.state["skipped"][0] > 0


# --- bounds ---


def test_bounds_are_as_stated():
    n, total, k = 1000, 5000.0, 4
    assert bl.DelayedExp3(k).bound_under_delay(n, total) == 2 * math.sqrt((k * n + 2 * total) * math.log(k))
    mixed = 4 * math.sqrt(k * n) + (0.5 + 2) * math.sqrt(2 * total * math.log(k))
    assert bl.HybridFTRL(k, caution=0.25).bound_under_delay(n, total) == pytest.approx(mixed)
    skipping = 4 * math.sqrt(k * n) + (math.sqrt(8) + 2) * math.sqrt(total * math.log(k)) + total / 4095
    assert bl.HybridFTRL(k, skip=True).bound_under_delay(n, total) == pytest.approx(skipping)
    assert bl.HybridFTRL(1).bound_under_delay(n, total) == bl.HybridFTRL(1, skip=True).bound_under_delay(n, total) == 0
    assert bl.DelayedExp4(actions=k, experts=9).bound_under_delay(n, total) == pytest.approx(
        2 * math.sqrt(2 * (k * n + total) * math.log(9))
    )
