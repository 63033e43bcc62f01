"""Kaplan-Meier and log-rank against lifelines, and against their own promises."""

import lifelines
import numpy as np
import pytest
from lifelines import statistics

from belated.audit.survival import Curve, at_risk, at_risk_backwards, backwards_share, log_rank

pytestmark = pytest.mark.filterwarnings("ignore:Starting with pandas")  # lifelines calls pandas in an old way


def counted(delays, ended, at=None):
    """Rising delays, and how many ended and were censored at each."""
    at = np.unique(delays) if at is None else at
    place = np.searchsorted(at, delays)
    return at, *(np.bincount(place, weights, len(at)).astype(np.int64) for weights in (ended, ~ended))


def sample(rng, n, longest=60):
    delays, limits = rng.geometric(0.1, n), rng.integers(1, longest, n)
    return np.minimum(delays, limits), delays <= limits


@pytest.mark.parametrize("seed", range(5))
def test_curve_and_band_are_those_of_lifelines(seed):
    delays, ended = sample(np.random.default_rng(seed), 150)
    curve = Curve(*counted(delays, ended))
    other = lifelines.KaplanMeierFitter().fit(delays, ended)
    assert curve.survival == pytest.approx(other.survival_function_at_times(curve.delays).to_numpy(), abs=1e-12)
    inside = (curve.survival > 0) & (curve.survival < 1)
    bands = other.confidence_interval_.loc[curve.delays].to_numpy()[inside]
    low, high = curve.band
    assert low[inside] == pytest.approx(bands[:, 0], abs=1e-9) and high[inside] == pytest.approx(bands[:, 1], abs=1e-9)
    assert curve.quantile(0.5) == other.median_survival_time_


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("groups", [2, 4])
def test_log_rank_is_that_of_lifelines(seed, groups):
    rng = np.random.default_rng(seed)
    delays, ended = sample(rng, 300)
    group = rng.integers(0, groups, 300)
    at = np.unique(delays)
    parts = [counted(delays[group == g], ended[group == g], at)[1:] for g in range(groups)]
    came, censored = (np.stack(side, axis=1) for side in zip(*parts, strict=True))
    ours = log_rank([(came, at_risk(came, censored))])
    other = statistics.multivariate_logrank_test(delays, group, ended)
    assert ours.statistic == pytest.approx(other.test_statistic) and ours.p_value == pytest.approx(other.p_value)
    assert ours.freedom == groups - 1
    # with nothing cut off, running backwards is the same test on delays turned around
    all_came = came + censored
    limits = np.zeros_like(all_came)
    limits[-1] = all_came.sum(axis=0)
    back = log_rank([(all_came, at_risk_backwards(all_came, limits))])
    turned = statistics.multivariate_logrank_test(delays.max() + 1 - delays, group, np.ones(300))
    assert back.statistic == pytest.approx(turned.test_statistic)
    share = backwards_share(all_came[:, 0], at_risk_backwards(all_came, limits)[:, 0])
    assert share == pytest.approx(np.cumsum(all_came[:, 0]) / all_came[:, 0].sum())


def test_strata_are_compared_within_themselves():
    rng = np.random.default_rng(0)
    came = rng.integers(0, 5, (20, 2, 2))
    waiting = at_risk(came, came)
    one = [log_rank([(came[:, :, s], waiting[:, :, s])]) for s in range(2)]
    both = log_rank([(came[:, :, s], waiting[:, :, s]) for s in range(2)])
    # with one degree of freedom the statistic is z squared, and differences and variances add up
    parts = []
    for s in range(2):
        total = waiting[:, :, s].sum(axis=1)
        ended = came[:, :, s].sum(axis=1)
        share = waiting[:, 0, s] / total
        variance = (ended * (total - ended) / np.maximum(total - 1, 1) * share * (1 - share)).sum()
        parts.append(((came[:, 0, s] - share * ended).sum(), variance))
        assert one[s].statistic == pytest.approx(parts[s][0] ** 2 / parts[s][1])
    assert both.statistic == pytest.approx((parts[0][0] + parts[1][0]) ** 2 / (parts[0][1] + parts[1][1]))


def test_bands_cover_as_often_as_they_say():
    rng, covered, tries = np.random.default_rng(1), 0, 400
    truth = 0.9**10  # P(geometric > 10)
    for _ in range(tries):
        curve = Curve(*counted(*sample(rng, 120)))
        place = int(np.searchsorted(curve.delays, 10, side="right")) - 1
        low, high = curve.band
        covered += low[place] <= truth <= high[place]
    assert 0.92 < covered / tries < 0.98


def test_backward_test_keeps_its_level_whatever_share_is_cut_off():
    """Group 1 is watched for less long and loses more feedback, but what comes has the same law."""
    rng, found, tries = np.random.default_rng(2), 0, 600
    for _ in range(tries):
        group = rng.random(400) < 0.5
        limits = rng.integers(0, np.where(group, 15, 60))
        delays = rng.geometric(0.1, 400) - 1
        seen = (delays <= limits) & (rng.random(400) < np.where(group, 0.9, 0.5))
        came, cut = (
            np.stack([np.bincount(what[seen & (group == g)], minlength=60) for g in (False, True)], axis=1)
            for what in (delays, limits)
        )
        found += log_rank([(came, at_risk_backwards(came, cut))]).p_value < 0.05
    assert 0.025 < found / tries < 0.075


def test_one_group_has_nothing_to_compare():
    came = np.array([[3], [2]])
    assert log_rank([(came, at_risk(came, came))]).p_value == 1.0
