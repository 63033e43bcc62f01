"""DelayedSAPO against a second reading, in lists and dictionaries."""

from __future__ import annotations

import math

import numpy as np
import pytest

import belated as bl
from tests.plainly import plain
from tests.test_late import solved


class Reading:
    """From the paper, with its two changes; `halved` of a round has those that were eliminated then."""

    def __init__(self, actions, horizon):
        self.k, self.t = actions, horizon
        self.log = math.log(horizon)
        self.n, self.paid, self.least = 0, 0.0, math.inf
        self.counts, self.sums, self.weighed = [0] * actions, [0.0] * actions, [0.0] * actions
        self.upper, self.lower = [math.inf] * actions, [-math.inf] * actions
        self.phases, self.switched, self.peak = {}, False, 0

    def width(self, n):
        return min(1.0, math.sqrt(2 * self.log / n))

    def chances(self):
        p = {i: phase["first"] / 2 ** phase["halved"] for i, phase in self.phases.items()}
        left = (1 - sum(p.values())) / (self.k - len(p))
        return [p.get(i, left) for i in range(self.k)]

    def observe(self, action, p, halved, loss):
        self.n, self.paid = self.n + 1, self.paid + loss
        self.counts[action] += 1
        self.sums[action] += loss
        self.weighed[action] += loss / p[action]
        mean, width = self.sums[action] / self.counts[action], self.width(self.counts[action])
        self.lower[action] = max(self.lower[action], mean - width)
        self.upper[action] = min(self.upper[action], mean + width)
        best = min(self.upper)
        if self.n >= 3 * self.k * self.log:
            wide = self.width(self.n / self.k)
            for i in range(self.k):
                weighed = self.weighed[i] / self.n
                self.least = min(self.least, weighed + wide)
                if i not in self.phases and not self.lower[i] - wide <= weighed <= self.upper[i] + wide:
                    self.switched = True
            best = min(best, self.least)
        allowed = 272 * math.sqrt(self.k * self.t * self.log) + 10 * self.peak * math.log(self.k)
        if self.paid - self.n * best > allowed:
            self.switched = True
        if self.switched:
            return
        for i in [i for i in range(self.k) if self.counts[i] and i not in self.phases]:
            mean, width = self.sums[i] / self.counts[i], self.width(self.counts[i])
            if mean - 9 * width > best:
                first = 1 / (2 * self.k) + self.counts[i] / (2 * max(self.t, self.n))
                self.phases[i] = dict(first=first, mean=mean, gap=8 * width, halved=0, errors=0, inside=[], banks={})
        for i, phase in self.phases.items():
            if halved.get(i) is not None:
                phase["banks"].setdefault(halved[i], []).append(loss / p[i] if i == action else 0.0)
            self.go(phase)

    def go(self, phase):
        while bank := phase["banks"].get(phase["halved"]):
            at = phase["halved"]
            length = 1280 / (phase["first"] / 2**at * phase["gap"] ** 2)
            taken = min(math.floor(length) - len(phase["inside"]), len(bank))
            mean = sum(bank) / len(bank)
            phase["inside"] += [mean] * taken
            phase["banks"][at] = [mean] * (len(bank) - taken)
            if len(phase["inside"]) * phase["mean"] - sum(phase["inside"]) >= phase["gap"] * length / 4:
                phase["errors"] += 1
                phase["halved"], phase["inside"] = max(at - 1, 0), []
                if phase["errors"] >= 3 * self.log:
                    self.switched = True
                    return
            elif len(phase["inside"]) == math.floor(length):
                phase["halved"], phase["inside"] = at + 1, []


def compare(rounds, loss_of, delay=5, horizon=4):
    """Play both, up to 60 rounds after the switch; returns the reading, how often p was halved, and these rounds."""
    f, read, out = bl.Direct(bl.DelayedSAPO(2, horizon), seed=3), Reading(2, horizon), []
    met, told, total, own = set(), [0.0, 0.0], 0, 0
    for t in range(1, rounds + 1):
        read.peak = max(read.peak, len(out))
        d, halved = f.predict(), {}
        if own == 60:
            break
        if read.switched:
            total += sum(since for *_, since in out)
            own += 1
            p = solved(told, math.sqrt(own), math.sqrt(2 * total / math.log(2))).tolist()
        else:
            p = read.chances()
            halved = {i: phase["halved"] for i, phase in read.phases.items()}
            met |= set(halved.values())
        assert d.probability == pytest.approx(p[d.action], rel=1e-9), t
        out.append((d, p, halved, read.switched))
        if len(out) > delay:
            due, p, halved, since = out.pop(0)
            loss = loss_of(t, due.action)
            f.update(due.ticket, 1 - loss)
            if since:
                told[due.action] += loss / due.probability
            elif not read.switched:
                read.observe(due.action, p, halved, loss)
    return read, met, own


@plain
def test_it_plays_what_a_second_reading_plays():
    """Action 0 is good until round 700, then bad: an elimination, the switch, and what comes after."""
    read, _, own = compare(900, lambda t, action: float((action == 1) == (t < 700)))
    assert read.switched and read.phases and own > 20


@pytest.mark.soak
def test_it_goes_through_phases():
    """Once eliminated, action 1 is bad for a phase, then as good as the other: the next one fails, and p is doubled."""
    read, met, _ = compare(7600, lambda t, action: float(action == 1 and t < 5400), horizon=20)
    assert met == {0, 1} and read.phases[1]["errors"] == 1 and not read.switched


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
