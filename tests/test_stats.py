"""Intervals, fits and tests, against what is known."""

import numpy as np
import pytest

from belated.studies import stats
from belated.theory.verdicts import judge


def test_the_interval_of_a_mean_covers_as_often_as_it_says():
    draws = np.random.default_rng(0)
    inside = sum(stats.mean_interval(draws.exponential(size=60), 0.9).contains(1.0) for _ in range(2000))
    assert 0.86 < inside / 2000 < 0.93


def test_a_family_of_intervals_is_wider():
    values = np.arange(20.0)
    alone, together = stats.mean_interval(values), stats.mean_interval(values, family=50)
    assert together.low < alone.low < alone.high < together.high


def test_the_exponent_of_a_power_law_is_found_and_its_interval_covers():
    x = [1, 2, 4, 8, 16, 32]
    covered = 0
    for seed in range(200):
        draws = np.random.default_rng(seed)
        fit = stats.power_fit(x, [3 * v**0.5 * draws.gamma(20, 1 / 20, 60) for v in x], level=0.9)
        covered += fit.contains(0.5)
    assert 0.8 < covered / 200 < 0.96
    assert abs(fit.slope - 0.5) < 0.05


def test_points_that_are_not_positive_are_left_out_and_counted():
    fit = stats.power_fit([1, 2, 4], [np.full(5, -1.0), np.full(5, 2.0), np.full(5, 4.0)])
    assert (fit.used, fit.left_out) == (2, 1) and fit.slope == pytest.approx(1.0)
    assert stats.power_fit([1, 2], [np.full(5, -1.0), np.full(5, 2.0)]) is None


def test_a_line_is_found():
    fit = stats.line_fit([0, 10, 20], [np.array([1.0, 1.2, 0.8]) + 0.3 * x for x in (0, 10, 20)])
    assert fit.slope == pytest.approx(0.3) and fit.intercept == pytest.approx(1.0)


def test_the_sum_of_indicators():
    from scipy.stats import binom

    law = stats.poisson_binomial([0.3] * 40)
    assert law == pytest.approx(binom.pmf(np.arange(len(law)), 40, 0.3), abs=1e-12) and law.sum() == pytest.approx(1.0)
    assert stats.poisson_binomial([1.0, 1.0, 0.0]).tolist() == [0.0, 0.0, 1.0]


def test_a_law_that_fits_is_not_refused_and_another_is():
    draws = np.random.default_rng(3)
    law = stats.poisson_binomial([0.2] * 30)
    samples = draws.binomial(30, 0.2, 20_000)
    assert stats.fits_law(samples, law) > 0.001
    assert stats.fits_law(samples, stats.poisson_binomial([0.21] * 30)) < 1e-4
    assert stats.fits_law(np.full(100, 7), np.eye(9)[7]) == 1.0
    assert stats.fits_law(np.full(100, 6), np.eye(9)[7]) == 0.0


def test_p_values_hold_together():
    assert stats.corrected([0.01, 0.02, 0.03]) == pytest.approx([0.03, 0.04, 0.04])


@pytest.mark.parametrize(
    ("measured", "error", "count", "bound", "word"),
    [
        (50.0, 1.0, 50, 100.0, "holds"),
        (4.0, 0.1, 50, 100.0, "holds, uninformative"),
        (-4.0, 0.1, 50, 100.0, "holds, uninformative"),
        (99.0, 1.0, 50, 100.0, "unclear"),
        (101.0, 1.0, 50, 100.0, "unclear"),
        (105.0, 1.0, 50, 100.0, "fails"),
        (50.0, 1.0, 50, 1000.0, "vacuous"),
        (50.0, 1.0, 50, None, "no bound"),
        (105.0, 0.0, 1, 100.0, "unclear"),
        (95.0, 0.0, 1, 100.0, "unclear"),
        (95.0, 0.0, 2, 100.0, "holds"),
    ],
)
def test_words(measured, error, count, bound, word):
    assert judge(measured, error, count, bound, trivial=1000.0).word == word


def test_a_verdict_prints_its_ratio_and_a_family_makes_it_careful():
    assert str(judge(50.0, 1.0, 50, 100.0)) == "holds (measured / bound = 0.5)"
    assert judge(103.0, 1.0, 50, 100.0).word == "fails"
    assert judge(103.0, 1.0, 50, 100.0, family=1000).word == "unclear"
