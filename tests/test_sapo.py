"""DelayedSAPO against a second reading, from the text of the paper and not from the code."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

import belated as bl
from tests.plainly import plain
from tests.test_late import solved


@dataclass
class Eliminated:
    """An action in its phases. `banks` has the rounds that were observed with each p and wait for its phase."""

    since: int
    mean: float
    gap: float
    first: float
    p: float
    length: float
    shortest: float
    errors: int = 0
    inside: int = 0
    weighed: float = 0.0
    banks: dict[float, list[int]] = field(default_factory=dict)


class Reading:
    """The paper's algorithm 5 with its procedures for checks and phases, line by line, in rounds from 1.

    Its changes: importance weighted means count from 3 K ln T observed rounds on; a horizon that is over is as long as
    what was observed; without an active action it switches. (Ours takes the rounds of a bank by their mean, which is
    the same here: a bank is used up as it fills.)
    """

    def __init__(self, actions, horizon):
        self.k, self.t, self.log = actions, horizon, math.log(horizon)
        self.active, self.out, self.peak = list(range(actions)), {}, 0
        self.now, self.switched = 0, None
        self.played, self.loss = {}, {}
        self.size, self.paid, self.counts = 0, 0.0, [0] * actions
        self.sums, self.weighed = [0.0] * actions, [0.0] * actions
        self.lower, self.upper, self.weighed_upper = [-math.inf] * actions, [math.inf] * actions, [math.inf] * actions
        self.told, self.late = [0.0] * actions, 0

    def width(self, n):
        return min(1.0, math.sqrt(2 * self.log / n))

    def mean(self, i):
        return self.sums[i] / self.counts[i]

    def process(self, s):
        """Take one loss; False if it is time to switch."""
        action, p = self.played[s]
        self.size += 1
        self.paid += self.loss[s]
        self.counts[action] += 1
        self.sums[action] += self.loss[s]
        self.weighed[action] += self.loss[s] / p[action]
        wide = min(1.0, math.sqrt(2 * self.k * self.log / self.size))
        for i in range(self.k):
            if self.counts[i]:
                self.lower[i] = max(self.lower[i], self.mean(i) - self.width(self.counts[i]))
                self.upper[i] = min(self.upper[i], self.mean(i) + self.width(self.counts[i]))
            if self.size >= 3 * self.k * self.log:
                weighed = self.weighed[i] / self.size
                self.weighed_upper[i] = min(self.weighed_upper[i], weighed + wide)
                if i in self.active and not self.lower[i] - wide <= weighed <= self.upper[i] + wide:
                    return False
        best = min(*self.upper, *self.weighed_upper)
        allowed = 272 * math.sqrt(self.k * self.t * self.log) + 10 * self.peak * math.log(self.k)
        if self.paid - self.size * best > allowed:
            return False
        for i in list(self.active):
            if self.counts[i] and self.mean(i) - 9 * self.width(self.counts[i]) > best:
                self.active.remove(i)
                first = 1 / (2 * self.k) + self.counts[i] / (2 * max(self.t, self.size))
                gap = 8 * self.width(self.counts[i])
                length = 1280 / (first * gap**2)
                self.out[i] = Eliminated(self.now, self.mean(i), gap, first, first, length, length)
        return bool(self.active)

    def chance(self, i):
        """p of an eliminated action after what was observed; None if it is time to switch."""
        out = self.out[i]
        while bank := out.banks.get(out.p):
            s = bank.pop(0)
            out.inside += 1
            out.weighed += self.loss[s] / out.p if self.played[s][0] == i else 0.0
            if out.inside * out.mean - out.weighed >= out.gap * out.length / 4:
                out.errors += 1
                out.length, out.p = max(out.shortest, out.length / 2), min(out.first, 2 * out.p)
                out.inside, out.weighed = 0, 0.0
                if out.errors >= 3 * self.log:
                    return None
            elif out.inside == math.floor(out.length):
                out.length, out.p = 2 * out.length, out.p / 2
                out.inside, out.weighed = 0, 0.0
        return out.p

    def chances(self, arrived, outstanding):
        """What it plays next, after (round, loss) that arrived, so many rounds being outstanding."""
        self.now += 1
        self.peak = max(self.peak, outstanding)
        for s, loss in arrived:
            self.loss[s] = loss
            if self.switched is None:
                if not self.process(s):
                    self.switched = self.now
                for i, out in self.out.items():
                    if s >= out.since:
                        out.banks.setdefault(self.played[s][1][i], []).append(s)
            elif s >= self.switched:
                action, p = self.played[s]
                self.told[action] += loss / p[action]
        if self.switched is None:
            p = {i: self.chance(i) for i in self.out}
            if None not in p.values():
                return [p.get(i, (1 - sum(p.values())) / len(self.active)) for i in range(self.k)]
            self.switched = self.now
        self.late += sum(s >= self.switched and s not in self.loss for s in self.played)
        own = self.now - self.switched + 1
        return solved(self.told, math.sqrt(own), math.sqrt(2 * self.late / math.log(self.k))).tolist()


def compare(actions, horizon, rounds, law, loss_of, after=40):
    """Play both, up to some rounds after the switch; returns the reading and the shares of `first` that were met.

    `law(t)` is the delay of round t, `loss_of(s, action)` its loss.
    """
    f, read, due, tickets, met = (
        bl.Direct(bl.DelayedSAPO(actions, horizon), seed=3),
        Reading(actions, horizon),
        {},
        {},
        set(),
    )
    for t in range(1, rounds + 1):
        arrived = [(s, loss_of(s, read.played[s][0])) for s in sorted(due.pop(t, []))]
        for s, loss in arrived:
            f.update(tickets.pop(s), 1 - loss)
        p = read.chances(arrived, len(tickets))
        if read.switched and t == read.switched + after:
            break
        met |= {out.p / out.first for out in read.out.values()}
        d = f.predict()
        assert d.probability == pytest.approx(p[d.action], rel=1e-9), t
        read.played[t], tickets[t] = (d.action, p), d.ticket
        due.setdefault(t + law(t) + 1, []).append(t)
    return read, met


def five(t):
    return 5


def mixed(t):
    """Up to 40 rounds, in no order; every seventh never comes."""
    return t * 7919 % 41 if t % 7 else 10**9


def batches(t):
    return 49 - t % 50


def turned(at):
    """Action 0 is good and all others bad until a round, then the other way round."""
    return lambda s, action: float((action > 0) == (s < at))


def random_losses(s, action):
    return float(np.random.default_rng((s, action)).random() < (0.05, 0.95, 0.9)[action])


@plain
@pytest.mark.parametrize(
    ("actions", "horizon", "rounds", "law", "loss_of"),
    [
        (2, 4, 900, five, turned(700)),
        (2, 2, 1200, mixed, turned(500)),
        (3, 2, 2500, batches, random_losses),
        (5, 2, 1200, five, turned(900)),
    ],
)
def test_it_plays_what_a_second_reading_plays(actions, horizon, rounds, law, loss_of):
    """An elimination, the switch, and what comes after."""
    read, _ = compare(actions, horizon, rounds, law, loss_of)
    assert read.out and read.switched and read.now == read.switched + 40


@plain
@pytest.mark.parametrize(("law", "at"), [(five, 5400), (mixed, 6500), (batches, 5500)])
def test_it_goes_through_phases(law, at):
    """Once eliminated, action 1 is bad for a phase, then as good as the other: the next one fails, and p is doubled."""
    read, met = compare(2, 20, at + 2300, law, lambda s, action: float(action == 1 and s < at))
    assert met == {1.0, 0.5} and read.out[1].errors == 1 and not read.switched


@plain
def test_the_horizon_may_be_a_number_of_numpy():
    assert bl.Direct(bl.DelayedSAPO(3, np.int64(1000)), seed=1).predict().probability == pytest.approx(1 / 3)


@plain
def test_the_first_loss_does_not_make_it_switch():
    f = bl.Direct(bl.DelayedSAPO(4, 10_000), seed=1)
    for _ in range(100):
        f.update(f.predict().ticket, 0.0)
    state = f._room.seats[0].learner.state
    assert state["switched"][0] == 0 and np.isfinite(state["upper"]).all() and np.isinf(state["least"]).all()
