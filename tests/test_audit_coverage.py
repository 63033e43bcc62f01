"""Every interval that an audit shows holds as often as it says, and its tests keep their level: simulated.

Worlds are ordinary, thin (few decisions) and skewed (heavy tails, much lost, small groups, unequally watched). The
short forms ask the parts; the long ones whole reports.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest

import belated as bl
from belated.audit.compare import COMPARED, Counts, compare
from tests.test_audit_survival import counted, curve_of


@dataclass
class World:
    """Decisions of rounds 0, 1, ...; delays have P(T > x) = lost + (1 - lost) tail(x), the same for all actions."""

    n: int
    after: int  #: rounds from the last decision to when the log is taken
    lost: float
    actions: int
    tail: Any
    draw: Any

    def delays(self, rng):
        return np.where(rng.random(self.n) < self.lost, 10**9, self.draw(rng, self.n)).astype(np.int64)

    @property
    def as_of(self):
        return self.n - 1 + self.after

    def beyond(self, x):
        """P(T > x)."""
        return self.lost + (1 - self.lost) * self.tail(np.asarray(x, float))


def geometric(mean):
    keep = mean / (mean + 1)
    return lambda x: keep ** (x + 1), lambda rng, n: rng.geometric(1 - keep, n) - 1


def pareto(alpha, scale):
    return lambda x: ((x + 1) / scale + 1) ** -alpha, lambda rng, n: np.floor(
        scale * (rng.random(n) ** (-1 / alpha) - 1)
    )


WORLDS = {
    "ordinary": World(800, 20, 0.1, 3, *geometric(30)),
    "thin": World(20, 10, 0.0, 2, *geometric(8)),
    "thinner": World(8, 3, 0.2, 2, *geometric(4)),
    "skewed": World(300, 0, 0.3, 60, *pareto(0.8, 3)),
}
SHARES = (0.1, 0.5, 0.9, 0.99)
SOAK = pytest.param(1000, marks=pytest.mark.soak)


def holds(low, truth, high):
    return (low is None or low <= truth + 1e-12) and (high is None or truth <= high + 1e-12)


def quantile_in(world, share, low, high):
    """Whether the smallest x with P(T <= x) >= share is in it; an end that is None is open."""
    reached = [None if x is None else 1 - world.beyond(x) >= share - 1e-12 for x in (low - 1 if low else None, high)]
    return reached[0] is not True and reached[1] is not False


def often(found, least=0.95):
    """No interval is missed more often than chance explains (four standard errors)."""
    for name, hits in found.items():
        slack = 4 * np.sqrt(least * (1 - least) / len(hits))
        assert np.mean(hits) >= least - slack, (name, np.mean(hits), len(hits))


@pytest.mark.parametrize("tries", [60, SOAK])
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_of_a_curve_hold(name, tries):
    world, rng, found = WORLDS[name], np.random.default_rng(7), {}
    for _ in range(tries):
        curve = curve_of(world.delays(rng), world.as_of - np.arange(world.n))
        end = float(world.beyond(curve.delays[curve.end]))
        found.setdefault("never", []).append(holds(curve.never_band[0], end, curve.never_band[1]))
        for share in SHARES:
            found.setdefault(share, []).append(quantile_in(world, share, *curve.quantile_band(share)))
        for x in (0, 5, 30):
            place = np.array([curve.place(x)])
            low, high = curve.band_at(place)
            found.setdefault(f"at {x}", []).append(holds(low[0], world.beyond(x), high[0]))
        for kept in (0.5, 0.9, 0.999):
            length = curve.reached(kept * (1 - curve.never))
            if length is not None:
                value, low, high = curve.later(length)
                truth = max(0.0, (world.beyond(length) - end) / (1 - end))
                assert low - 1e-9 <= value <= high + 1e-9
                found.setdefault(f"lost {kept}", []).append(holds(low, truth, high))
    often(found)


def groups_of(name, rng):
    """Delays, limits and groups of which the laws differ, and those laws: P(T <= x) of group g."""
    if name == "ordinary":
        rates, n = np.array([0.05, 0.06, 0.1]), 1000
        group, limits = rng.integers(0, 3, n), rng.integers(0, 150, n)
    elif name == "thin":
        rates, n = np.array([0.05, 0.15]), 60
        group, limits = np.arange(n) % 2, rng.integers(0, 60, n)
    else:
        alphas, lost, n = np.array([0.8, 0.6]), np.array([0.3, 0.5]), 500
        group, limits = (rng.random(n) < 0.08).astype(int), rng.integers(0, 400, n)
        delays = np.floor(3 * (rng.random(n) ** (-1 / alphas[group]) - 1)).clip(0, 1e8)
        delays = np.where(rng.random(n) < lost[group], 10**9, delays).astype(np.int64)
        return delays, limits, group, lambda x, g: (1 - lost[g]) * (1 - ((x + 1) / 3 + 1) ** -alphas[g])
    return rng.geometric(rates[group]) - 1, limits, group, lambda x, g: 1 - (1 - rates[g]) ** (x + 1.0)


@pytest.mark.parametrize("tries", [60, SOAK])
@pytest.mark.parametrize("name", ["ordinary", "thin", "skewed"])
def test_the_interval_of_a_distance_holds(name, tries):
    rng, found = np.random.default_rng(8), {"forwards": [], "backwards": []}
    for _ in range(tries):
        delays, limits, group, law = groups_of(name, rng)
        groups = int(group.max()) + 1
        at, counts = counted(delays, limits, group, groups)
        for way, chosen in (("forwards", counts), ("backwards", counts._replace(censored=None))):
            gap = compare(range(groups), at, [chosen], False).gap
            if gap is None:
                continue
            inside = at <= gap.until
            rising = np.cumsum(counts.came[inside].sum(axis=1))
            x = at[np.unique(np.searchsorted(rising, np.array(COMPARED) * rising[-1]))]
            whole = [1.0 if way == "forwards" else law(gap.until, g) for g in range(groups)]
            truth = np.ptp([law(x, g) / whole[g] for g in range(groups)], axis=0).max()
            found[way].append(holds(gap.low, truth, gap.high) and gap.low <= gap.value <= gap.high)
    often(found)


#: Groups, decisions in each, and the longest watch of odd and of even groups.
NULLS = {
    "ordinary": (3, 300, (200, 200)),
    "sixty of five": (60, 5, (100, 100)),
    "two, one of them small": (2, (30, 600), (100, 100)),
    "many, unequally watched": (100, 5, (15, 150)),
    "long tails, much lost": (40, 12, (300, 300)),
}


def null(name, rng):
    """Groups of one law: counts, forwards and backwards."""
    groups, size, longest = NULLS[name]
    group = np.repeat(np.arange(groups), size)
    limits = rng.integers(0, np.array(longest)[group % 2])
    delays = rng.geometric(0.05, len(group)) - 1
    if name == "long tails, much lost":
        delays = np.floor(3 * (rng.random(len(group)) ** (-1 / 0.7) - 1)).clip(0, 1e8).astype(np.int64)
        delays[rng.random(len(group)) < 0.4] = 10**9
    at, counts = counted(delays, limits, group, groups)
    return groups, at, counts


@pytest.mark.parametrize("tries", [30, SOAK])
@pytest.mark.parametrize("name", NULLS)
def test_log_rank_keeps_its_level(name, tries):
    rng, alarms = np.random.default_rng(9), {"forwards": [], "backwards": []}
    for _ in range(tries):
        groups, at, counts = null(name, rng)
        for way, chosen in (("forwards", counts), ("backwards", Counts(counts.came, counts.limits))):
            rank = compare(range(groups), at, [chosen], False).rank
            if rank is not None:
                alarms[way].append(rank.p_value >= 0.01)
    often(alarms, 0.985)  # nearly exact: 1.5% are allowed at 1%


# --- whole reports ---


def report(world, rng):
    """An audit of a log in which nothing depends on anything, and outcomes are rare."""
    delays = world.delays(rng)
    seen = np.arange(world.n) + delays
    frame = pl.DataFrame(
        {
            "d": np.arange(world.n),
            "o": np.minimum(seen, 2**40),
            "a": rng.integers(0, world.actions, world.n),
            "r": (rng.random(world.n) < 0.2).astype(int),
        }
    ).with_columns(o=pl.when(pl.col("o") <= world.as_of).then(pl.col("o")))
    if frame["o"].null_count() == world.n:
        return None
    return bl.audit(frame, decided="d", observed="o", action="a", reward="r", as_of=world.as_of).data()


@pytest.mark.soak
@pytest.mark.parametrize("name", WORLDS)
def test_whole_reports_hold_what_they_say(name):
    world, rng, found, alarms = WORLDS[name], np.random.default_rng(10), {}, []
    for _ in range(200):
        data = report(world, rng)
        if data is None:
            continue
        delay = data["delay"]
        end = float(world.beyond(delay["never_after"]))
        found.setdefault("never", []).append(holds(delay["never_low"], end, delay["never_high"]))
        for row in delay["quantiles"]:
            found.setdefault(row["share"], []).append(quantile_in(world, row["share"], row["low"], row["high"]))
        for row in data["expiry"]:
            truth = max(0.0, (world.beyond(row["length"]) - end) / (1 - end))
            found.setdefault("lost", []).append(holds(row["lost_low"], truth, row["lost_high"]))
        for row in data["actions"]:
            found.setdefault("median", []).append(quantile_in(world, 0.5, row["median_low"], row["median_high"]))
            truth = float(world.beyond(row["never_after"]))
            found.setdefault("never of an action", []).append(holds(row["never_low"], truth, row["never_high"]))
        tests = data["dependence"]["tests"]
        found.setdefault("distance", []).append(all(test["distance_low"] in (0, None) for test in tests))
        alarms.append(not any(test["word"].startswith("depends") for test in tests))
    often(found)
    often({"any test": alarms}, 0.985)
