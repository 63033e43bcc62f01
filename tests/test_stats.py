"""Intervals, fits and tests, against what is known."""

import numpy as np
import pytest

from belated.report import stats
from belated.report.page import finding
from belated.theory.verdicts import Verdict, certain, judge, judge_paired, side


def test_the_interval_of_a_mean_covers_as_often_as_it_says():
    draws = np.random.default_rng(0)
    inside = sum(stats.mean_interval(draws.exponential(size=60), 0.9).contains(1.0) for _ in range(2000))
    assert 0.86 < inside / 2000 < 0.93


def test_a_family_of_intervals_is_wider():
    values = np.arange(20.0)
    alone, together = stats.mean_interval(values), stats.mean_interval(values, family=50)
    assert together.low < alone.low < alone.high < together.high


def test_the_exponent_of_a_power_law_is_found():
    x, draws = [1, 2, 4, 8, 16, 32], np.random.default_rng(0)
    fit = stats.power_fit(x, [3 * v**0.5 * draws.gamma(20, 1 / 20, 60) for v in x], level=0.9)
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


def around(mean, count=50, spread=2.0):
    return mean + spread * np.linspace(-1, 1, count)


@pytest.mark.parametrize(
    ("values", "bound", "word"),
    [
        (around(50.0), 100.0, "holds"),
        (around(4.0), 100.0, "holds, uninformative"),
        (around(50.0, 10), 100.0, "likely holds"),
        (around(3.0, 8), 100.0, "likely holds, uninformative"),
        (around(99.9), 100.0, "unclear"),
        (around(100.1), 100.0, "unclear"),
        (around(105.0), 100.0, "likely fails"),
        (around(300.0), 100.0, "fails"),
        (around(50.0), 200.0 * (1 + 1e-14), "holds"),
        (around(50.0), 400.0, "vacuous"),
        (around(50.0), None, "no bound"),
        (around(105.0, 1), 100.0, "unclear"),
        (around(95.0, 1), 100.0, "unclear"),
        (np.full(2, 95.0), 100.0, "unclear"),
        (np.full(5, 95.0), 100.0, "unclear"),
        (np.full(2000, 95.0), 100.0, "holds"),
    ],
)
def test_words(values, bound, word):
    assert judge(values, bound, 0.0, 400.0).word == word


def test_values_that_are_all_alike_have_an_interval():
    verdict = judge(np.full(30, 10.0), 11.0, 0.0, 1000.0)
    assert verdict.low < 10.0 < verdict.high and verdict.word == "unclear"
    assert not stats.mean_interval(np.full(30, 10.0)).known
    assert stats.matching([stats.mean_interval(np.full(30, 10.0))], [10.0])[0] == "unclear"


def test_the_error_of_the_bound_is_no_part_of_the_interval():
    alone, doubtful = (judge(around(80.0, 400), 90.0, 0.0, 400.0, error=e) for e in (0.0, 8.0))
    assert (alone.low, alone.high) == (doubtful.low, doubtful.high)
    assert (alone.word, doubtful.word) == ("holds", "unclear") and doubtful.margin > 20 > alone.margin == 0


def test_a_verdict_says_how_many_replications_would_decide():
    few = judge(around(50.0, 10), 100.0, 0.0, 1000.0)
    assert few.word == "likely holds" and not few.sure and few.needed > 10
    assert judge(np.resize(around(50.0, 10), few.needed), 100.0, 0.0, 1000.0).word == "holds"
    assert f"about {few.needed:,} replications would decide for sure, there are 10" in str(few)
    assert str(judge(around(50.0), 100.0, 0.0, 400.0)) == "holds (measured / bound = 0.5)"


def test_a_family_makes_a_verdict_careful():
    assert judge(around(130.0), 100.0, 0.0, 400.0).word == "fails"
    assert judge(around(130.0), 100.0, 0.0, 400.0, family=10**9).word == "likely fails"


def test_paired_values_are_judged_by_their_difference():
    luck = np.random.default_rng(0).normal(0, 100, 1000)
    luck -= luck.mean()
    measured, allowed = 100 + luck, 110 + luck
    assert judge(measured, 110.0, -700.0, 700.0).word == "likely holds"
    verdict = judge_paired(measured, allowed, -700.0, 700.0, most_allowed=700.0)
    assert verdict.word == "holds" and verdict.bound - verdict.measured == pytest.approx(10)
    assert judge_paired(allowed, measured, -700.0, 700.0, most_allowed=700.0).word == "fails"
    assert judge_paired(measured, allowed + 700, -700.0, 700.0, most_allowed=1400.0).word == "vacuous"


def test_what_is_counted_is_certain():
    assert [certain(9.0, bound).word for bound in (9.0, 8.0)] == ["holds", "fails"]
    assert certain(9.0, 30.0, most=20.0).word == "vacuous"


def test_on_which_side_of_zero():
    assert side(around(1.0, 400, 0.1), -9, 9)[0] == "above" and side(around(-1.0, 400, 0.1), -9, 9)[0] == "below"
    assert side(around(1.0, 9, 0.1), -90, 90)[0] == "likely above"
    word, ends = side(np.zeros(9), -1, 1)
    assert word == "unclear" and ends.low < 0 < ends.high


def told(*words):
    return finding("s", [Verdict(word, 1.0, 0.0, 2.0, 3.0, 0.99) for word in words])


def test_one_word_for_many_cells():
    assert told("holds", *["vacuous"] * 5).word == "vacuous", "one that holds among vacuous ones is no headline"
    assert "of 1 cell: 1 x holds; in 5 more the bound is vacuous" in told("holds", *["vacuous"] * 5).detail
    assert told("holds", "holds", "vacuous").word == "holds"
    assert told("no bound", "no bound").word == "no bound" and told("no bound", "vacuous").word == "vacuous"
    assert told("holds", "likely holds").word == "likely holds"
    for alarm in ("fails", "likely fails", "unclear"):
        assert told(alarm, "holds", *["vacuous"] * 9).word == alarm, "a warning is never outvoted"
