"""The samplers against scipy, the Beta tail against exact values too, compiled against plain."""

import itertools
import json
import math
import os
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from belated.kernels import sampling
from belated.kernels.compile import COMPILED, kernel
from belated.kernels.random import block, uniform
from belated.kernels.scratch import local

LEVEL = 1e-4
COUNT = 20_000
BOTH, large_beta = sampling.BOTH, sampling.large_beta


def draw_of(number, key=11):
    return np.uint64(key), np.uint64(5), np.uint64(number), np.uint64(0), np.uint64(9)


def sample(sampler, *numbers, count=COUNT, index=0):
    return np.array([sampler(draw_of(i), index, *numbers)[0] for i in range(count)])


def many(sampler, numbers, count):
    """A kernel that averages what a sampler gives less the centre, and the square of that."""
    if len(numbers) == 1:

        def one(draw, a, b):
            return sampler(draw, 0, a)

    else:

        def one(draw, a, b):
            return sampler(draw, 0, a, b)

    one = kernel(one)

    def average(k0, k1, stream, a, b, centre):
        total = 0.0
        squares = 0.0
        for i in range(count):
            value, _index = one((k0, k1, np.uint64(i), stream, stream), a, b)
            total += value - centre
            squares += (value - centre) ** 2
        return total / count, squares / count

    return kernel(average)


@pytest.mark.skipif(not COMPILED, reason="too many draws for plain Python")
@pytest.mark.parametrize(
    "sampler, numbers, law",
    [
        (sampling.gamma, (0.5,), stats.gamma(0.5)),
        (sampling.gamma, (1.0,), stats.gamma(1)),
        (sampling.gamma, (3.0,), stats.gamma(3)),
        (sampling.beta, (0.5, 2.0), stats.beta(0.5, 2)),
        (sampling.truncated_normal, (0.2, 0.3), stats.truncnorm(-2 / 3, 8 / 3, 0.2, 0.3)),
        (sampling.truncated_normal, (0.2, 0.5), stats.truncnorm(-0.4, 1.6, 0.2, 0.5)),
        (sampling.poisson, (5.0,), stats.poisson(5)),
        (sampling.poisson, (10.0,), stats.poisson(10)),
        (sampling.poisson, (123.0,), stats.poisson(123)),
        (sampling.geometric, (-0.25,), stats.geom(-math.expm1(-0.25), loc=-1)),
    ],
)
def test_moments_of_many_draws(sampler, numbers, law):
    count = 2_000_000
    mean, variance, kurtosis = (float(m) for m in law.stats("mvk"))
    average = many(sampler, numbers, count)
    off, square = average(np.uint64(1), np.uint64(2), np.uint64(9), numbers[0], numbers[-1], mean)
    assert abs(off) < 4 * math.sqrt(variance / count)
    assert abs(square - variance) < 4 * variance * math.sqrt((kurtosis + 2) / count)


def fits(values, law):
    """The Kolmogorov-Smirnov test, on the strict side for laws on whole numbers."""
    return stats.kstest(values, law.cdf).pvalue > LEVEL


def fits_whole(values, law):
    """The chi-square test over cells of at least 20 expected values."""
    edges = np.unique(law.ppf(np.linspace(0.002, 0.998, 60)))
    mass = np.diff(law.cdf(np.concatenate([[-np.inf], edges, [np.inf]])))
    cells = np.searchsorted(edges, values)
    seen = np.bincount(cells, minlength=len(mass))
    keep = mass * len(values) > 20
    seen = np.append(seen[keep], seen[~keep].sum())
    expected = np.append(mass[keep], mass[~keep].sum()) * len(values)
    positive = expected > 0
    assert seen[~positive].sum() == 0
    return stats.chisquare(seen[positive], expected[positive]).pvalue > LEVEL


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 2.5, 50.0, 1e6])
def test_gamma(shape):
    assert fits(sample(sampling.gamma, shape), stats.gamma(shape))


@pytest.mark.parametrize("a, b", [(0.5, 0.5), (1.0, 1.0), (2.0, 3.0), (0.3, 4.0), (100.0, 3.0), (1e5, 2e5)])
def test_beta(a, b):
    assert fits(sample(sampling.beta, a, b), stats.beta(a, b))


def test_many_betas_are_those_drawn_one_by_one():
    shapes = np.array([[1.0, 1.0], [1.5, 3.0], [700.25, 3e5], [40.0, 1.0], [1.0, 2e6]])

    def in_a_row(draw, shapes, out):
        tries = local(BOTH)
        at = 0
        for i in range(len(out)):
            out[i], at = large_beta(draw, at, tries, shapes[i % 5, 0], shapes[i % 5, 1])
        return at

    row = kernel(in_a_row)
    for number in range(30):
        draw, out, index, alone = draw_of(number), np.zeros(23), 0, []
        at = row(draw, shapes, out)
        for i in range(len(out)):
            value, index = sampling.beta(draw, index, *shapes[i % 5])
            alone.append(value)
        assert out.tolist() == alone and 2 * at == index


def test_beta_with_tiny_shapes_is_near_a_coin():
    values = sample(sampling.beta, 0.001, 0.003)
    assert np.all((values >= 0) & (values <= 1))
    assert abs(values.mean() - 0.25) < 0.01


@pytest.mark.parametrize(
    "mu, sigma", [(0.0, 0.05), (0.5, 0.1), (1.0, 0.39), (0.3, 0.4), (0.7, 2.0), (0.0, 1e9), (0.5, 1e-9)]
)
def test_truncated_normal(mu, sigma):
    values = sample(sampling.truncated_normal, mu, sigma)
    assert values.min() >= 0 and values.max() <= 1
    assert fits(values, stats.truncnorm(-mu / sigma, (1 - mu) / sigma, loc=mu, scale=sigma))


@pytest.mark.parametrize("mean", [0.0, 0.3, 5.0, 9.99, 10.0, 11.5, 50.0, 1234.5])
def test_poisson(mean):
    values = sample(sampling.poisson, mean)
    assert fits_whole(values, stats.poisson(mean)) if mean else not values.any()


def test_poisson_with_a_huge_mean():
    values = sample(sampling.poisson, 1e14)
    assert fits((values - 1e14) / 1e7, stats.norm())


@pytest.mark.parametrize("mean", [0.01, 1.0, 50.0])
def test_geometric(mean):
    values = sample(sampling.geometric, -math.log1p(1 / mean))
    assert fits_whole(values, stats.geom(1 / (1 + mean), loc=-1))


def test_geometric_at_its_ends():
    assert not sample(sampling.geometric, -math.inf, count=100).any()
    assert sampling.geometric(draw_of(1), 0, 0.0)[0] == sampling.CAP
    assert sampling.geometric(draw_of(1), 0, -1e-300)[0] == sampling.CAP


@pytest.mark.parametrize("index", [0, 3])
def test_blocks_are_the_numbers_of_a_draw(index):
    draw = draw_of(7)
    assert sampling.pair(draw, index) == (uniform(draw, 2 * index), uniform(draw, 2 * index + 1))
    assert tuple(sampling.word(draw, 4 * index + i) for i in range(4)) == tuple(block(draw, index))


def test_both_normals_are_normal_and_independent():
    first, second = np.array([sampling.normals(draw_of(i), 0) for i in range(COUNT)]).T
    assert fits(first, stats.norm()) and fits(second, stats.norm())
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(COUNT)
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < 4 / math.sqrt(COUNT)


def test_samplers_follow_one_another_without_overlap():
    pairs = []
    for i in range(5000):
        draw = draw_of(i)
        first, index = sampling.beta(draw, 0, 2.0, 3.0)
        assert index >= 4
        second, after = sampling.beta(draw, index, 2.0, 3.0)
        assert after >= index + 4
        pairs.append((first, second))
    assert abs(stats.spearmanr(*np.transpose(pairs)).statistic) < 4 / math.sqrt(5000)


def tail_cases():
    rng = np.random.default_rng(3)
    for low, high in [(0.05, 1), (1, 10), (1, 1000), (1000, 1e6), (1, 1e7)]:
        for _ in range(200):
            a, b = np.exp(rng.uniform(math.log(low), math.log(high), 2))
            spread = math.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
            for x in (rng.beta(a, b), a / (a + b) + 6 * rng.normal() * spread):
                if 1e-300 < x < 1 - 1e-12:
                    yield float(x), float(a), float(b)


def test_beta_tail_against_scipy():
    for x, a, b in tail_cases():
        expected = float(special.betaincc(a, b, x))
        if expected > 1e-200:
            assert sampling.beta_tail(x, a, b) == pytest.approx(expected, rel=1e-10), (x, a, b)
            assert sampling.beta_tail(x, a, b) + special.betainc(a, b, x) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize(
    "a, b, x",
    [(3, 37_383_160, 1.08e-7), (1, 10**8, 1e-8), (2000, 10**6, 0.002), (3, 1000, 0.002), (1, 3, 0.999999)],
)
def test_beta_tail_against_the_binomial_sum(a, b, x):
    """P(Beta(a, b) > x) = P(Bin(a + b - 1, x) < a), in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        p = Decimal(x)
        n = a + b - 1
        term = (1 - p) ** n
        total = term
        for j in range(1, a):
            term = term * (n - j + 1) / j * p / (1 - p)
            total += term
        assert abs(Decimal(sampling.beta_tail(x, float(a), float(b))) / total - 1) < Decimal("1e-12")


def test_beta_tail_at_the_ends():
    assert sampling.beta_tail(0.0, 2.0, 3.0) == sampling.beta_tail(-1.0, 2.0, 3.0) == 1
    assert sampling.beta_tail(1.0, 2.0, 3.0) == sampling.beta_tail(2.0, 2.0, 3.0) == 0
    assert sampling.beta_tail(1e-320, 1e-20, 1.0) > 0
    far = sampling.beta_tail(0.999, 1.0, 100.0)
    assert far == pytest.approx(1e-300, rel=1e-10)
    tails = [sampling.beta_tail(x, 30.0, 70.0) for x in np.linspace(0.001, 0.999, 500)]
    assert all(0 < t <= 1 for t in tails) and all(s >= t for s, t in itertools.pairwise(tails))


def test_the_pieces_of_log_gamma():
    for z in [1e-6, 0.3, 1.0, 4.5, 9.99, 10.0, 1234.5]:
        leading = (z - 0.5) * math.log(z) - z + 0.5 * math.log(2 * math.pi)
        assert sampling.stirling(z) + leading == pytest.approx(math.lgamma(z), rel=1e-14, abs=1e-14)
    for u in [-0.9, -0.31, -0.29, 0.29, 0.31, 5.0]:
        assert sampling.excess(1 + u, u) == pytest.approx(u - math.log1p(u), rel=1e-13)
    for u in [-1e-3, 1e-9]:
        assert sampling.excess(1 + u, u) == pytest.approx(u * u / 2 - u**3 / 3 + u**4 / 4, rel=1e-11)
    for k, mean in [(0, 12.5), (3, 10.0), (50, 40.0), (10**6, 1e6 + 500)]:
        assert sampling.log_poisson(k, mean) == pytest.approx(stats.poisson.logpmf(k, mean), rel=1e-9)


def fingerprint():
    """Numbers that must not depend on how kernels are run."""
    cases = [
        (sampling.gamma, 0.5),
        (sampling.gamma, 3.0),
        (sampling.beta, 0.5, 2.0),
        (sampling.truncated_normal, 0.2, 0.1),
        (sampling.truncated_normal, 0.2, 1.0),
        (sampling.poisson, 4.0),
        (sampling.poisson, 40.0),
        (sampling.geometric, -0.1),
    ]
    drawn = [[case[0](draw_of(i, key=2), 1, *case[1:]) for i in range(40)] for case in cases]
    tails = [sampling.beta_tail(x, a, b) for x, a, b in list(tail_cases())[::40]]
    return json.loads(json.dumps([drawn, tails], default=float))


def test_plain_python_gives_the_same_numbers():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-W", "error", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == fingerprint()


if __name__ == "__main__":
    print(json.dumps(fingerprint()))
