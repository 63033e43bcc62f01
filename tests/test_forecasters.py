"""Direct, BOLD and QPM-D as an application uses them: any order of feedback, from any thread."""

import math
import random
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import belated as bl
from belated.errors import (
    ClosedTicket,
)
from tests import reference
from tests.plain_learners import Scribe, scribe

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
ROOT = Path(bl.__file__).parents[1]
kinds = pytest.mark.parametrize("kind", KINDS)


class ReferenceScribe(Scribe):
    """The same in the reference's shape."""

    def tell(self, context, action, probability, feedback, number):
        self.past.append((action, probability, feedback))

    def lose(self, context):
        pass

    def number(self, context):
        return self.t


def machine(kind, name, actions=3, seed=5):
    """A state machine for one forecaster over one learner, beside the reference."""
    spec = getattr(bl, name, None)
    model = getattr(reference, kind.__name__)
    key = reference.key_of(seed)

    class Interleaving(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            if spec is None:
                self.f = kind(lambda: Scribe(actions))
                self.model = model(lambda i: ReferenceScribe(actions))
            else:
                self.f = kind(spec(actions=actions), seed=seed)
                self.model = model(lambda i: reference.LEARNERS[name](actions, key, i))
            self.closed = []
            self.played = [0] * actions

        @rule()
        def predict(self):
            decision = self.f.predict()
            self.played[decision.action] += 1
            ticket, action, probability = self.model.predict()
            assert (decision.ticket, decision.action) == (ticket, action)
            assert math.isclose(decision.probability, probability, rel_tol=1e-9)

        @precondition(lambda self: self.model.open)
        @rule(place=st.integers(0, 10**6), feedback=st.sampled_from([0.0, 0.25, 1.0]))
        def update(self, place, feedback):
            ticket = sorted(self.model.open)[place % len(self.model.open)]
            self.f.update(ticket, feedback)
            self.model.arrive(ticket, feedback)
            self.closed.append(ticket)

        @precondition(lambda self: self.model.open)
        @rule(place=st.integers(0, 10**6))
        def cancel(self, place):
            ticket = sorted(self.model.open)[place % len(self.model.open)]
            self.f.cancel(ticket)
            self.model.cancel(ticket)
            self.closed.append(ticket)

        @precondition(lambda self: self.closed)
        @rule(place=st.integers(0, 10**6))
        def use_a_ticket_again(self, place):
            ticket = self.closed[place % len(self.closed)]
            with pytest.raises(ClosedTicket):
                self.f.update(ticket, 1.0)
            with pytest.raises(ClosedTicket):
                self.f.cancel(ticket)

        @precondition(lambda self: spec is not None)
        @rule()
        def save_and_go_on_with_the_copy(self):
            saved = self.f.to_bytes()
            self.f = bl.from_bytes(saved)
            assert self.f.to_bytes() == saved

        @invariant()
        def counts_agree(self):
            assert self.f.outstanding == len(self.model.open)
            assert self.f.peak == self.model.peak
            assert self.f.instances == len(self.model.bases)
            if kind is bl.BOLD and self.model.tickets:
                assert self.f.instances == self.f.peak + 1
            if kind is not bl.BOLD:
                assert self.f.instances == 1
            if kind is bl.QPMD:
                assert self.f.queued == [len(self.model.waiting(None, i)) for i in range(actions)]
                assert self.f.steps == self.model.steps == sum(self.f.asked)
                assert self.f.asked == self.model.asked
                assert self.f.steps <= max(self.model.tickets, 1)

        @invariant()
        def qpmd_never_asks_ahead_of_what_it_played(self):
            if kind is bl.QPMD and self.model.tickets:
                assert all(self.played[i] >= self.f.asked[i] for i in range(actions))

    Interleaving.__name__ = f"{kind.__name__}Over{name}"
    case = Interleaving.TestCase
    case.settings = settings(
        max_examples=25,
        stateful_step_count=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    return case


TestDirectOverAPlainLearner = machine(bl.Direct, "Scribe")
TestBOLDOverAPlainLearner = machine(bl.BOLD, "Scribe")
TestQPMDOverAPlainLearner = machine(bl.QPMD, "Scribe")
TestDirectOverUCB1 = machine(bl.Direct, "UCB1")
TestBOLDOverUCB1 = machine(bl.BOLD, "UCB1")
TestQPMDOverUCB1 = machine(bl.QPMD, "UCB1")
TestDirectOverExp3IX = machine(bl.Direct, "Exp3IX")
TestBOLDOverExp3IX = machine(bl.BOLD, "Exp3IX")
TestQPMDOverExp3IX = machine(bl.QPMD, "Exp3IX")


def test_bold_takes_the_lowest_free_instance():
    asked = []

    class Numbered(Scribe):
        def predict(self, context=None):
            asked.append(pool.index(self))
            return super().predict(context)

    pool = []

    def make():
        pool.append(Numbered())
        return pool[-1]

    f = bl.BOLD(make)
    for _ in range(5):
        f.predict()
    for ticket in (4, 2, 5):
        f.update(ticket, 1.0)
    f.cancel(1)
    for _ in range(5):
        f.predict()
    assert asked == [0, 1, 2, 3, 4, 0, 1, 3, 4, 5]


def test_a_cancelled_prediction_teaches_nothing_and_still_counts_in_ties():
    f = bl.Direct(bl.UCB1(actions=2))
    first = f.predict()
    f.cancel(first.ticket)
    assert (first.action, f.outstanding) == (0, 0)
    assert [f.predict().action for _ in range(3)] == [1, 0, 1]


def test_qpmd_consumes_when_it_predicts_and_not_when_feedback_comes():
    f = bl.QPMD(bl.UCB1(actions=2))
    for _ in range(3):
        f.predict()
    f.update(3, 1.0)
    f.update(1, 0.0)
    assert (f.steps, f.queued) == (1, [2, 0])
    assert f.predict().action == 1
    assert (f.steps, f.queued, f.asked) == (2, [1, 0], [1, 1])


def test_under_qpmd_an_estimate_divides_by_the_probability_of_the_pending_query():
    class Fixed(Scribe):
        def predict(self, context=None):
            self.t += 1
            return 0, 1.0 / self.t

    made = []
    f = bl.QPMD(lambda: made.append(Fixed()) or made[-1])
    decisions = [f.predict() for _ in range(3)]
    assert [d.probability for d in decisions] == [1.0, 1.0, 1.0]
    for d in decisions:
        f.update(d.ticket, 0.5)
    f.predict()
    assert made[0].past == [(0, 1.0, 0.5), (0, 1 / 2, 0.5), (0, 1 / 3, 0.5)]


def test_decisions_are_frozen_records():
    d = bl.Direct(bl.UCB1(actions=2)).predict()
    assert d == bl.Decision(ticket=1, action=0, probability=1.0)
    with pytest.raises(AttributeError):
        d.action = 1


# --- threads ---


@kinds
@pytest.mark.parametrize("learner", [bl.UCB1(actions=3), scribe], ids=["spec", "plain"])
def test_eight_threads_share_one_forecaster(kind, learner):
    f = kind(learner)
    tickets, errors, cancelled = [], [], []
    gate = threading.Barrier(8)

    def work(number):
        draw = random.Random(number)
        mine = []
        try:
            gate.wait(10)
            for _ in range(150):
                mine.append(f.predict().ticket)
                tickets.append(mine[-1])
                if len(mine) == 3:
                    draw.shuffle(mine)
                    f.update(mine.pop(), 1.0)
                    f.cancel(mine.pop())
                    cancelled.append(1)
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
    finally:
        sys.setswitchinterval(old)
    assert errors == []
    assert sorted(tickets) == list(range(1, 1201))
    assert f.outstanding == 1200 - 2 * len(cancelled)
    assert f.peak <= 8 * 3
    if kind is bl.BOLD:
        assert f.instances == f.peak + 1


@kinds
def test_saving_while_others_predict_gives_whole_forecasters(kind):
    f = kind(bl.UCB1(actions=3), seed=1)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            f.update(f.predict().ticket, 1.0)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(50):
            assert bl.from_bytes(f.to_bytes()).outstanding <= 3
    finally:
        stop.set()
        for worker in workers:
            worker.join(60)
