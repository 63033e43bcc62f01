"""The numbers below everything: Philox, exponentials, divergence, ties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.kernels.kl import kl, kl_upper
from belated.kernels.random import learner_draw, philox, replication_key, uniform
from belated.kernels.simplex import exp_minus, pick
from belated.kernels.ties import largest_index
from belated.learners.tsallis_inf import tsallis_weights
from belated.learners.ucb1 import width_now

u64 = np.uint64
LIMITS = settings(derandomize=True, deadline=None, max_examples=200)

# The published known answers for Philox 4x32-10 (Random123).
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text):
    return [u64(int(word, 16)) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(counter, key, answer):
    assert [int(w) for w in philox(*words(counter), *words(key))] == [int(w) for w in words(answer)]


def test_uniform_numbers_are_uniform_and_distinct():
    key = tuple(u64(w) for w in replication_key(u64(1), u64(0), 3))
    drawn = np.array([uniform(learner_draw(*key, t, i), j) for t in range(40) for i in range(10) for j in range(3)])
    assert len(np.unique(drawn)) == len(drawn)
    assert drawn.min() >= 0 and drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert ((counts - 120) ** 2 / 120).sum() < 27.9  # chi-square, 9 degrees, level 0.001


@LIMITS
@given(st.floats(0, 800))
def test_exp_minus_is_the_exponential(x):
    expected = math.exp(-x) if x < 700 else 0.0
    assert float(exp_minus(x)) == pytest.approx(expected, rel=1e-13, abs=1e-304)


@LIMITS
@given(st.floats(0, 1), st.floats(1e-12, 40))
def test_kl_upper_solves_its_equation(mean, budget):
    q = float(kl_upper(mean, budget, 0.0))
    low, high = mean, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if float(kl(mean, middle)) <= budget else (low, middle)
    assert mean <= q <= 1
    assert q == pytest.approx(low, abs=1e-12)


@pytest.mark.parametrize("start", [0.0, 0.3, 1.0 - 2.0**-53])
@pytest.mark.parametrize("mean", [0.0, 0.05, 0.24262734584450402, 0.45, 0.7])
def test_kl_upper_beside_one(mean, start):
    """Where q is known to be below 1, and the ratio in the divergence rounds to 1."""
    entropy = -(1.0 - mean) * math.log1p(-mean) - (mean * math.log(mean) if mean else 0.0)
    for distance in np.linspace(30.0, 40.0, 201):
        q = kl_upper(mean, distance * (1.0 - mean) - entropy, start)
        assert float(q) == pytest.approx(1.0 - math.exp(-distance), abs=1e-12)


@LIMITS
@given(st.floats(0, 1), st.floats(1e-9, 20), st.floats(-1, 2))
def test_kl_upper_does_not_depend_on_where_it_starts(mean, budget, start):
    best = float(kl_upper(mean, budget, 0.0))
    for near in (best - 1e-3, best - 1e-6, best + 1e-6, best + 1e-4):
        assert float(kl_upper(mean, budget, near)) == pytest.approx(best, abs=1e-12)
    assert float(kl_upper(mean, budget, start)) == pytest.approx(float(kl_upper(mean, budget, 0.0)), abs=1e-12)


@LIMITS
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12), st.integers(1, 10**9))
def test_tsallis_weights_sum_to_one(losses, t):
    weights = np.zeros(len(losses))
    total = tsallis_weights(np.array(losses), 2 / math.sqrt(t), weights)
    assert total == pytest.approx(1.0, abs=1e-9) and (weights > 0).all()


@LIMITS
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 0.5 + 5e-10, 1.0, math.inf]), st.integers(0, 3)), min_size=1))
def test_ties_go_to_the_action_predicted_fewest_times_then_the_lowest(arms):
    index, predicted = (np.array(column) for column in zip(*arms, strict=True))
    tied = [i for i, (x, _) in enumerate(arms) if x >= max(index) - 1e-9]
    expected = min(tied, key=lambda i: (predicted[i], i))
    assert largest_index(index.astype(float), predicted) == expected


def test_pick_never_takes_a_weight_of_zero():
    weights = np.array([0.0, 0.3, 0.0, 0.7, 0.0])
    for u in (0.0, 0.29, 0.3, 0.999999, 1.0 - 2**-53):
        assert weights[pick(weights, 1.0, u)] > 0
    assert pick(weights, 1.0 + 1e-12, 1.0 - 2**-53) == 3


def test_width_of_ucb1_is_the_root_of_the_logarithm():
    class State:
        since = 0.0
        per = math.inf
        width = first = second = third = 0.0

    plain = getattr(width_now, "py_func", width_now)
    state, worst = State(), 0.0
    for t in [*range(1, 20_000), *range(10**6, 10**6 + 3000), *range(10**12, 10**12 + 100)]:
        state.predictions = t
        worst = max(worst, abs(plain(state) - math.sqrt(2 * math.log(t))))
    assert worst < 1e-12
