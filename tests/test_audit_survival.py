"""Kaplan-Meier, its limits and log-rank, against lifelines and against their own promises."""

import lifelines
import numpy as np
import pytest
from lifelines import statistics
from scipy.stats import binomtest

from belated.audit.compare import COMPARED, Counts, compare, log_rank, risk, together
from belated.audit.survival import Curve, at_risk_backwards, first

pytestmark = pytest.mark.filterwarnings("ignore:Starting with pandas")  # lifelines calls pandas in an old way


def counted(delays, limits, group=None, groups=1):
    """Rising delays, what came, its limits and what was censored (delays x groups), as an audit counts them."""
    came = delays <= limits
    limits = np.minimum(limits, delays[came].max(initial=0) + 1)
    group = np.zeros(len(delays), int) if group is None else group
    at = np.unique(np.concatenate([delays[came], limits]))

    def table(values, chosen):
        filled = np.zeros((len(at), groups), np.int64)
        np.add.at(filled, (np.searchsorted(at, values[chosen]), group[chosen]), 1)
        return filled

    return at, Counts(table(delays, came), table(limits, came), table(limits, ~came))


def curve_of(delays, limits):
    at, counts = counted(delays, limits)
    return Curve(at, counts.came[:, 0], counts.censored[:, 0], counts.limits[:, 0])


def sample(rng, n, longest=60):
    return rng.geometric(0.1, n), rng.integers(1, longest, n)


@pytest.mark.parametrize("seed", range(5))
def test_curve_is_that_of_lifelines(seed):
    delays, limits = sample(np.random.default_rng(seed), 150)
    curve = curve_of(delays, limits)
    other = lifelines.KaplanMeierFitter().fit(np.minimum(delays, limits), delays <= limits)
    assert curve.survival == pytest.approx(other.survival_function_at_times(curve.delays).to_numpy(), abs=1e-12)
    assert curve.quantile(0.5) == other.median_survival_time_


def test_limits_without_censoring_are_those_of_clopper_and_pearson():
    curve = curve_of(np.arange(1, 31), np.full(30, 40))
    low, high = curve.band
    for k in range(1, 31):
        exact = binomtest(30 - k, 30).proportion_ci(0.95, "exact")
        assert (low[k - 1], high[k - 1]) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert curve.never_band == pytest.approx((0, binomtest(0, 30).proportion_ci(0.95, "exact").high))


def test_limits_of_many_are_near_those_of_greenwood():
    curve = curve_of(*sample(np.random.default_rng(0), 20_000))
    delays, limits = sample(np.random.default_rng(0), 20_000)
    other = lifelines.KaplanMeierFitter().fit(np.minimum(delays, limits), delays <= limits)
    places = np.flatnonzero(curve.waiting > 500)
    bands = other.confidence_interval_.loc[curve.delays[places]].to_numpy()
    low, high = (side[places] for side in curve.band)
    assert low == pytest.approx(bands[:, 0], abs=1e-3) and high == pytest.approx(bands[:, 1], abs=1e-3)


def test_a_quantile_that_the_log_does_not_reach_is_not_known():
    """300 rounds of delays with mean 200: 99% come within 923 rounds, whatever the last few of the log did."""
    for seed in range(20):
        n = 300
        curve = curve_of(np.random.default_rng(seed).geometric(1 / 200, n), n - np.arange(n))
        low, high = curve.quantile_band(0.99)
        assert curve.quantile(0.99) is None and high is None and low is not None and low <= 919


def test_all_of_twenty_is_all_but_not_for_sure():
    curve = curve_of(np.arange(20) % 7, np.full(20, 30))
    assert curve.never == 0 and curve.never_band == pytest.approx((0, 0.168), abs=1e-3)
    assert curve.quantile(0.5) == 3 and curve.quantile(0.99) is None


def test_nothing_came_is_no_certainty_either():
    at = np.array([5, 9])
    curve = Curve(at, np.zeros(2, int), np.array([0, 12]), np.zeros(2, int))
    low, high = curve.never_band
    assert curve.never == high == 1 and low == pytest.approx(0.025 ** (1 / 12))
    assert curve.median_of_came is None


def test_first_is_found_wherever_it_is():
    for count in (0, 1, 2, 33, 34, 1000, 5000):
        for at in {0, 1, count // 2, count - 1, count}:
            assert first(lambda places: places >= at, count) == (at if 0 <= at < count else None)  # noqa: B023


# --- groups ---


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("groups", [2, 4])
def test_log_rank_of_large_groups_is_near_that_of_lifelines(seed, groups):
    rng = np.random.default_rng(seed)
    n = 4000
    delays, limits = sample(rng, n)
    group = rng.integers(0, groups, n)
    _, counts = counted(delays, limits, group, groups)
    ours = log_rank([risk(counts)])
    other = statistics.multivariate_logrank_test(np.minimum(delays, limits), group, delays <= limits)
    assert ours.statistic == pytest.approx(other.test_statistic, rel=0.05) and ours.freedom == groups - 1
    # with nothing cut off, running backwards is the same test on delays turned around
    _, counts = counted(delays, np.full(n, 10**6), group, groups)
    back = log_rank([risk(counts._replace(censored=None))])
    turned = statistics.multivariate_logrank_test(delays.max() + 1 - delays, group, np.ones(n))
    assert back.statistic == pytest.approx(turned.test_statistic, rel=0.05)


def test_the_variance_is_that_of_permutations():
    rng = np.random.default_rng(0)
    delays, group = rng.permutation(40), np.repeat(np.arange(8), 5)
    statistic = [
        log_rank([risk(counted(delays, np.full(40, 99), rng.permutation(group), 8)[1])]).statistic for _ in range(400)
    ]
    assert np.mean(statistic) == pytest.approx(7, rel=0.05)


def test_strata_are_compared_within_themselves():
    """Each stratum has its own law, and groups have different shares of the strata: no difference, but in all."""
    rng = np.random.default_rng(3)
    stratum = np.repeat([0, 1], 3000)
    group = (rng.random(6000) < np.where(stratum, 0.8, 0.2)).astype(int)
    delays, limits = rng.geometric(np.where(stratum, 0.05, 0.3)), rng.integers(0, 80, 6000)
    at, counts = counted(delays, limits, group + 2 * stratum, 4)
    parts = [Counts(counts.came[:, s : s + 2], counts.limits[:, s : s + 2]) for s in (0, 2)]
    within = compare("ab", at, parts, False)
    mixed = compare("ab", at, [Counts(*(sum(p[i] for p in parts) for i in (0, 1)))], False)
    assert within.rank.p_value > 0.01 and within.gap.low == 0 and within.gap.high < 0.1
    assert mixed.rank.p_value < 1e-10 and mixed.gap.low > 0.2


def test_small_groups_are_put_together_and_large_ones_are_not():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(12), [100, *[3] * 10, 80])
    at, counts = counted(*sample(rng, len(group)), group, 12)
    blocks = together([risk(counts)])
    assert blocks[0] == [0] and [11] in blocks and sorted(i for block in blocks for i in block) == list(range(12))
    found = compare([f"ad {i}" for i in range(12)], at, [counts], False)
    assert found.names[0] == "ad 0" and "together, ad 1 to ad " in found.names[1] and found.rank is not None
    alone = compare("ab", at, [Counts(*(part[:, 1:3] for part in counts))], False)
    assert alone.rank is None and alone.names == ("a", "b") and alone.gap is None


def test_delays_of_one_and_of_nine_hundred_are_all_apart():
    for n in (40, 400):
        group = np.arange(n) % 2
        at, counts = counted(np.where(group, 900, 1), np.full(n, 2000), group, 2)
        gap = compare("ab", at, [counts], False).gap
        assert gap.value == gap.high == 1 and gap.low > 0.6


def test_a_group_watched_for_a_moment_does_not_end_the_comparison():
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], 300)
    delays = rng.geometric(np.where(group == 1, 0.05, 0.1))
    at, counts = counted(delays, np.where(group == 2, 3, 200), group, 3)
    gap = compare("abc", at, [counts], False).gap
    assert gap.until > 30 and gap.low > 0.05 and len(COMPARED) == 11


def test_one_group_has_nothing_to_compare():
    at, counts = counted(*sample(np.random.default_rng(0), 30))
    assert log_rank([risk(counts)]).p_value == 1.0 and compare("a", at, [counts], False).rank is None


def test_backward_risk_sets_are_what_could_have_been_seen():
    delays, limits = np.array([0, 1, 1, 3]), np.array([0, 2, 4, 3])
    table = [np.bincount(values, minlength=5)[:, None] for values in (delays, limits)]
    assert at_risk_backwards(*table)[:, 0].tolist() == [1, 2, 2, 2, 1]
