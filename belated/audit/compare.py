"""Do groups have delays of one law? A log-rank test that keeps its level among many small groups, and by how much not.

The usual variance of the log-rank statistic is made of the shares that groups have of those waiting, which depend on
how soon their own feedback came: for groups of a handful it is far too small where it matters. How long each decision
was watched is known here, so the shares are taken that groups would have if the law were the same for all; where
nothing is censored that is the variance under permutations of the groups. Groups of which too little is expected are
put together, in the order of their names, which has nothing to do with when feedback came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from belated.audit.survival import FEW, LEVEL, Product, Whole, at_risk, at_risk_backwards, beta, watched
from belated.protocols import Floats

#: Groups of which less feedback is expected are put together.
ENOUGH = 10
#: Where shares are compared: at the delays by which so much of all that came had come.
COMPARED = (0.05, *(i / 10 for i in range(1, 10)), 0.95)
#: The logarithm of the largest weight of a decision that could be watched for a short time only.
LARGEST = 300.0


class Counts(NamedTuple):
    """Counts of some groups (delays x groups), as in `delays.py`. Without `censored`, only what came is looked at."""

    came: Whole
    limits: Whole
    censored: Whole | None = None


class Risk(NamedTuple):
    """How many ended, how many were waiting, and what would be in proportion to these if groups did not differ."""

    ended: Whole
    waiting: Whole
    exposed: Floats


@dataclass(frozen=True)
class LogRank:
    """The log-rank test: do groups end at the same rates? Strata are compared each within itself."""

    statistic: float
    freedom: int
    p_value: float


@dataclass(frozen=True)
class Gap:
    """The largest difference between groups of the share that has come by some delay, with its limits."""

    value: float
    low: float
    high: float
    until: int  #: the longest delay at which groups were compared


@dataclass(frozen=True)
class Comparison:
    """Groups against each other."""

    names: tuple[str, ...]  #: of the groups after some were put together
    sizes: tuple[int, ...]  #: how much feedback came in each
    rank: LogRank | None  #: None if less than two groups are large enough
    medians: tuple[int | None, ...]  #: of the delays of what came, in each
    gap: Gap | None  #: None if too few were watched to tell

    def __repr__(self) -> str:
        rank = "too few to test" if self.rank is None else f"log-rank test p = {self.rank.p_value:.3g}"
        said = f"<comparison of {len(self.names)} groups, {sum(self.sizes):,} feedbacks: {rank}"
        gap = self.gap
        return f"{said}>" if gap is None else f"{said}, largest gap {gap.value:.3g} ({gap.low:.3g} to {gap.high:.3g})>"


def compare(names: Sequence[str], at: Whole, strata: Sequence[Counts], grid: bool) -> Comparison:
    """Groups, each in a column of every stratum, by the rates at which feedback comes at rising delays `at`."""
    alone = [risk(stratum) for stratum in strata]
    blocks = together(alone)
    enough = len(blocks) > 1
    if not enough:
        blocks = [[i] for i in range(len(names))]
    joined = [_joined(stratum, blocks) for stratum in strata]
    risks = alone if joined[0] is strata[0] else [risk(stratum) for stratum in joined]
    pooled = joined[0]
    if len(joined) > 1:
        pooled = Counts(*(np.sum(part, axis=0) for part in ([s.came for s in joined], [s.limits for s in joined])))
    return Comparison(
        tuple(_named([names[i] for i in block]) for block in blocks),
        tuple(pooled.came.sum(axis=0).tolist()),
        log_rank(risks) if enough else None,
        _medians(at, pooled, risks[0] if len(joined) == 1 else risk(pooled)),
        _gap(at, joined, risks, grid),
    )


def risk(counts: Counts) -> Risk:
    """Forwards, or, without `censored`, with time running backwards among what came."""
    came, limits, censored = counts
    if censored is not None:
        return Risk(came, at_risk(came, censored), at_risk(limits, censored).astype(np.float64))
    waiting = at_risk_backwards(came, limits)
    ended, all_waiting = came.sum(axis=1), waiting.sum(axis=1)
    # the share of a law of one for all that is up to x; what is watched up to x is there with one over it
    falls = np.cumsum(np.log1p(-ended / (all_waiting + 1.0))[::-1])[::-1]
    weight = np.exp(np.minimum(-np.append(falls[1:], 0.0), LARGEST))
    return Risk(came, waiting, np.cumsum((limits * weight[:, None])[::-1], axis=0)[::-1])


def log_rank(strata: Sequence[Risk]) -> LogRank:
    """Each stratum is delays x groups."""
    from scipy.special import chdtrc

    groups = strata[0].ended.shape[1]
    difference, variance = np.zeros(groups), np.zeros((groups, groups))
    for stratum in strata:
        rows = stratum.ended.sum(axis=1) > 0
        ended, waiting, exposed = (part[rows].astype(float) for part in stratum)
        all_ended, all_waiting, all_exposed = (part.sum(axis=1) for part in (ended, waiting, exposed))
        difference += (ended - waiting * (all_ended / all_waiting)[:, None]).sum(axis=0)
        shares = exposed / all_exposed[:, None]
        weights = all_ended * (all_waiting - all_ended) / all_waiting * all_exposed / np.maximum(all_exposed - 1, 1)
        variance += np.diag(weights @ shares) - shares.T @ (shares * weights[:, None])
    sizes, directions = np.linalg.eigh(variance)
    varies = sizes > 1e-10 * max(float(sizes[-1]), 1e-300)
    freedom = int(varies.sum())
    statistic = float(((difference @ directions[:, varies]) ** 2 / sizes[varies]).sum())
    return LogRank(statistic, freedom, float(chdtrc(freedom, statistic)) if freedom else 1.0)


def together(strata: Sequence[Risk]) -> list[list[int]]:
    """Which groups are taken together, so that enough is expected of each."""
    expected = np.sum(
        [(r.ended.sum(axis=1) / np.maximum(r.exposed.sum(axis=1), 1e-300)) @ r.exposed for r in strata], 0
    )
    blocks = [[int(i)] for i in np.flatnonzero(expected >= ENOUGH)]
    open_: list[int] = []
    for i in np.flatnonzero(expected < ENOUGH).tolist():
        open_.append(i)
        if expected[open_].sum() >= ENOUGH:
            blocks.append(open_)
            open_ = []
    if open_ and blocks:
        min(blocks, key=lambda block: float(expected[block].sum())).extend(open_)
    elif open_:
        blocks.append(open_)
    return sorted(blocks)


def _joined(counts: Counts, blocks: Sequence[list[int]]) -> Counts:
    if len(blocks) == counts.came.shape[1]:
        return counts

    def join(part: Whole) -> Whole:
        return np.stack([part[:, block].sum(axis=1) for block in blocks], axis=1)

    return Counts(join(counts.came), join(counts.limits), None if counts.censored is None else join(counts.censored))


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} together, {names[0]} to {names[-1]}"


# --- by how much ---


def _gap(at: Whole, strata: Sequence[Counts], risks: Sequence[Risk], grid: bool) -> Gap | None:
    """The gap; of strata that know all groups the average, each with the same weight for all groups.

    Groups are compared for as long as all were watched, but for those watched for less than half as long as is usual.
    """
    ends = np.array([_ends(stratum, grid) for stratum in strata])
    if not (ends >= 0).any():
        return None
    usual = np.quantile(at[ends[ends >= 0]], 0.5, method="lower")
    long = (ends >= 0) & (2 * at[ends] >= usual)
    groups = np.flatnonzero(long.any(axis=0))
    known = np.flatnonzero(long[:, groups].all(axis=1)).tolist()
    if len(groups) < 2 or not known:
        return None
    end = int(ends[known][:, groups].min())
    came = np.stack([strata[i].came[: end + 1, groups].sum(axis=1) for i in known], axis=1)
    if not came.any():
        return None
    rising = np.cumsum(came.sum(axis=1))
    places = np.unique(np.searchsorted(rising, np.array(COMPARED) * rising[-1]))
    shares, moments = np.zeros((len(places), len(groups))), np.zeros((4, len(places), len(groups)))
    for i, weight in zip(known, came.sum(axis=0) / rising[-1], strict=True):
        for column, group in enumerate(groups):
            line = _Line.of(strata[i], risks[i], int(group), end, grid)
            shares[:, column] += weight * line.shares[places]
            moments[:, :, column] += np.array([[weight], [weight**2]] * 2) * line.moments(places)
    tail = (1 - LEVEL) / (len(places) * len(groups) * (len(groups) - 1))  # all pairs hold together, everywhere
    below = np.maximum(shares - beta(moments[0], moments[1], tail), 0.0)
    above = np.maximum(beta(moments[2], moments[3], 1 - tail) - shares, 0.0)
    least, most = np.array([_apart(*each) for each in zip(shares, below, above, strict=True)]).max(axis=0)
    return Gap(float(np.max(np.ptp(shares, axis=1))), max(0.0, float(least)), min(1.0, float(most)), int(at[end]))


def _apart(shares: Floats, below: Floats, above: Floats) -> tuple[float, float]:
    """Limits of the largest difference between two of some shares, from how far limits are below and above each.

    Limits of a difference are as far from it as both distances together, squared (Zou and Donner 2008).
    """
    apart = np.subtract.outer(shares, shares)
    most = apart + np.sqrt(np.add.outer(above**2, below**2))
    np.fill_diagonal(most, 0.0)
    return float((apart - np.sqrt(np.add.outer(below**2, above**2))).max()), float(most.max())


def _ends(counts: Counts, grid: bool) -> Whole:
    """The last place for which enough of each group were watched; -1 if there is none."""
    seen = counts.limits if counts.censored is None else counts.limits + counts.censored
    enough = watched(seen, grid) >= FEW
    return np.asarray(np.where(enough.any(axis=0), len(enough) - 1 - np.argmax(enough[::-1], axis=0), -1))


@dataclass(frozen=True, eq=False)
class _Line:
    """The share of one group that is still to come after each delay; backwards, that has come of what does by `end`."""

    product: Product
    end: int
    backwards: bool

    @classmethod
    def of(cls, counts: Counts, risk: Risk, group: int, end: int, grid: bool) -> _Line:
        backwards = counts.censored is None
        gone = counts.limits if counts.censored is None else counts.censored
        steps = slice(end, None, -1) if backwards else slice(0, end + 1)
        ended, waiting, gone = (part[:, group][steps] for part in (risk.ended, risk.waiting, gone))
        fewest = np.maximum(waiting - gone, ended) if grid else waiting
        return cls(Product(ended, waiting, fewest), end, backwards)

    @property
    def shares(self) -> Floats:
        share = self.product.share
        return np.append(share[: self.end][::-1], 1.0) if self.backwards else share

    def moments(self, places: Whole) -> Floats:
        """As in `Product`."""
        steps = self.end - 1 - places if self.backwards else places
        found = np.array(self.product.moments(steps, self.product.fewest[steps] - self.product.ended[steps]))
        found[:, steps < 0] = [[1.0], [0.0], [1.0], [0.0]]  # backwards, all of it has come by the end
        return found


def _medians(at: Whole, counts: Counts, risk: Risk) -> tuple[int | None, ...]:
    """By which delay half of what comes within the log's span has come, in each group."""
    found: list[int | None] = []
    for group in range(counts.came.shape[1]):
        shares = _Line.of(counts, risk, group, len(at) - 1, grid=False).shares
        come = shares if counts.censored is None else 1 - shares
        place = int(np.searchsorted(come, come[-1] / 2))
        found.append(int(at[place]) if counts.came[:, group].any() else None)
    return tuple(found)
