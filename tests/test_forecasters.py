"""Direct, BOLD and QPM-D as an application uses them: any order of feedback, any mistake, any thread."""

import math
import os
import random
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import belated as bl
from belated.errors import (
    BadPrediction,
    ClosedTicket,
    InvalidArgument,
    InvalidFeedback,
    UnknownTicket,
    Unsupported,
)
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from tests import reference

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
ROOT = Path(bl.__file__).parents[1]
kinds = pytest.mark.parametrize("kind", KINDS)


# --- any interleaving, against a plain model ---


class Scribe:
    """A plain learner whose next action depends on everything that happened to it."""

    def __init__(self, actions=3):
        self.actions = actions
        self.t = 0
        self.past = []

    def predict(self, context=None):
        self.t += 1
        return (self.t + hash(tuple(self.past))) % self.actions, 1.0 / self.actions

    def update(self, context, action, probability, feedback):
        self.past.append((action, probability, feedback))


def scribe():
    return Scribe()


class ReferenceScribe(Scribe):
    """The same in the reference's shape."""

    def update(self, action, probability, feedback, number):
        self.past.append((action, probability, feedback))


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
                assert self.f.queued == [len(self.model.queues[i]) for i in range(actions)]
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


# --- mistakes of the caller ---


def busy(kind, learner=None):
    """A forecaster in the middle of its work: tickets 1 and 4 closed, 2, 3, 5 and 6 open."""
    f = kind(learner or bl.UCB1(actions=3), seed=1)
    for _ in range(4):
        f.predict()
    f.update(1, 0.5)
    f.cancel(4)
    f.predict()
    f.predict()
    return f


FOREIGN = [99, 7, 0, -1, 10**30, "1", "two", 2.0, 2.5, True, False, np.bool_(True), None, (2,), b"2", math.nan, [2], {}]


@kinds
@pytest.mark.parametrize("ticket", FOREIGN, ids=repr)
@pytest.mark.parametrize("method", ["update", "cancel"])
def test_a_ticket_that_was_never_given_out_is_named_and_changes_nothing(kind, ticket, method):
    f = busy(kind)
    before = f.to_bytes()
    with pytest.raises(UnknownTicket) as caught:
        getattr(f, method)(ticket, *[1.0] * (method == "update"))
    assert str(ticket) in str(caught.value)
    assert f.to_bytes() == before


@kinds
@pytest.mark.parametrize("ticket", [1, 4])
@pytest.mark.parametrize("method", ["update", "cancel"])
def test_a_closed_ticket_is_named_and_changes_nothing(kind, ticket, method):
    f = busy(kind)
    before = f.to_bytes()
    with pytest.raises(ClosedTicket, match=f"ticket {ticket} "):
        getattr(f, method)(ticket, *[1.0] * (method == "update"))
    assert f.to_bytes() == before


@kinds
@pytest.mark.parametrize("make", [np.int64, np.uint8, np.array], ids=lambda make: make.__name__)
@pytest.mark.parametrize("method", ["update", "cancel"])
def test_a_whole_number_of_another_type_is_a_ticket_once(kind, make, method):
    f = busy(kind)
    getattr(f, method)(make(2), *[1.0] * (method == "update"))
    assert f.outstanding == 3
    with pytest.raises(ClosedTicket):
        f.update(2, 1.0)


BAD_REWARDS = [
    math.nan,
    -0.1,
    1.1,
    math.inf,
    -math.inf,
    10**400,
    "1",
    b"1",
    None,
    [],
    [0.5, 0.5],
    [[0.5]],
    [math.nan],
    ["0.5"],
    {},
    object,
    0.5 + 1j,
    np.float32("nan"),
    np.array([0.5, 0.5, 0.5]),
]


@kinds
@pytest.mark.parametrize("feedback", BAD_REWARDS, ids=lambda value: repr(value)[:20])
def test_a_bad_reward_is_named_and_changes_nothing(kind, feedback):
    f = busy(kind)
    before = f.to_bytes()
    with pytest.raises(InvalidFeedback) as caught:
        f.update(2, feedback)
    assert repr(feedback)[:30] in str(caught.value)
    assert f.to_bytes() == before
    f.update(2, 0.5)


BAD_VECTORS = [0.5, [0.5], [0.5] * 2, [0.5] * 4, [[0.5] * 3], [0.5, math.nan, 0.5], [0.5, 1.5, 0.5], "abc", None]


@kinds
@pytest.mark.parametrize("feedback", BAD_VECTORS, ids=repr)
def test_a_bad_vector_of_rewards_is_named_and_changes_nothing(kind, feedback):
    f = kind(bl.Hedge(actions=3), seed=1)
    f.predict()
    before = f.to_bytes()
    with pytest.raises(InvalidFeedback) as caught:
        f.update(1, feedback)
    assert repr(feedback) in str(caught.value)
    assert f.to_bytes() == before
    f.update(1, (0.5, 0, 1))


@kinds
@pytest.mark.parametrize("feedback", [1, 1.0, True, np.float32(1), np.int8(1), [1.0], np.ones(1), np.array(1.0)])
def test_a_reward_may_be_any_kind_of_number(kind, feedback):
    f, g = busy(kind), busy(kind)
    f.update(2, feedback)
    g.update(2, 1.0)
    assert f.to_bytes() == g.to_bytes()


@kinds
def test_feedback_given_as_an_array_is_copied(kind):
    f, g = kind(bl.Hedge(actions=3), seed=1), kind(bl.Hedge(actions=3), seed=1)
    rewards = np.array([0.0, 0.5, 1.0])
    f.predict()
    g.predict()
    f.update(1, rewards)
    g.update(1, rewards.copy())
    rewards[:] = 1.0
    assert f.predict() == g.predict()
    assert f.to_bytes() == g.to_bytes()


@kinds
@pytest.mark.parametrize("feedback", [None, math.nan])
def test_plain_learners_get_no_absent_feedback(kind, feedback):
    f = kind(scribe)
    f.predict()
    with pytest.raises(InvalidFeedback, match="cancel"):
        f.update(1, feedback)
    assert f.outstanding == 1


@kinds
def test_a_context_is_refused_where_the_learner_takes_none(kind):
    f = busy(kind)
    before = f.to_bytes()
    with pytest.raises(InvalidArgument, match=r"\[1\.0\]"):
        f.predict([1.0])
    assert f.to_bytes() == before


def test_qpmd_refuses_side_information():
    with pytest.raises(Unsupported, match="side information"):
        bl.QPMD(scribe).predict("x")


BAD_LEARNERS = [
    (lambda: bl.UCB1(actions=0), "0"),
    (lambda: bl.UCB1(actions=-2), "-2"),
    (lambda: bl.UCB1(actions=2.5), "2.5"),
    (lambda: bl.UCB1(actions="3"), "'3'"),
    (lambda: bl.UCB1(actions=True), "True"),
    (lambda: bl.UCB1(actions=None), "None"),
    (lambda: bl.KLUCB(actions=3, c=-1), "-1"),
    (lambda: bl.KLUCB(actions=3, c=math.nan), "nan"),
    (lambda: bl.KLUCB(actions=3, c=10**400), "1000"),
    (lambda: bl.EpsilonGreedy(actions=3, epsilon=1.5), "1.5"),
    (lambda: bl.EpsilonGreedy(actions=3, epsilon="0.1"), "'0.1'"),
    (lambda: bl.Exp3(actions=0), "0"),
    (lambda: bl.Hedge(actions=0), "0"),
    (lambda: bl.TsallisINF(actions=0), "0"),
    (lambda: bl.RoundRobin(actions=0), "0"),
    (lambda: bl.DelayedUCB1(actions=0), "0"),
    (lambda: bl.DelayedKLUCB(actions=3, c=-2), "-2"),
]


@pytest.mark.parametrize(("make", "value"), BAD_LEARNERS)
def test_bad_arguments_of_learners_are_named(make, value):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert value in str(caught.value)


class Headless:
    def predict(self, context):
        return 0, 1.0

    def update(self, context, action, probability, feedback):
        pass


def of_size(actions):
    learner = Headless()
    learner.actions = actions
    return learner


@kinds
@pytest.mark.parametrize(
    "learner",
    [
        3,
        None,
        "ucb1",
        bl.UCB1,
        lambda: None,
        lambda: bl.UCB1(actions=2),
        Headless,
        lambda: of_size(0),
        lambda: of_size("3"),
    ],
)
def test_what_is_not_a_learner_is_refused(kind, learner):
    with pytest.raises(InvalidArgument):
        kind(learner)


@kinds
@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7", True])
def test_bad_seeds_are_named(kind, seed):
    with pytest.raises(InvalidArgument) as caught:
        kind(bl.UCB1(actions=2), seed=seed)
    assert repr(seed) in str(caught.value)


@kinds
def test_a_class_of_plain_learners_makes_them(kind):
    f = kind(Scribe)
    assert f.predict().ticket == 1
    assert f.actions == 3


def test_direct_refuses_a_learner_that_needs_its_last_prediction():
    class Forgetful(Scribe):
        tolerates_delay = False

    @dataclass(frozen=True)
    class ForgetfulSpec(bl.RoundRobin):
        tolerates_delay = False

    with pytest.raises(Unsupported, match="Forgetful"):
        bl.Direct(lambda: Forgetful())
    with pytest.raises(Unsupported, match="ForgetfulSpec"):
        bl.Direct(ForgetfulSpec(actions=2))
    bl.BOLD(lambda: Forgetful()).predict()
    bl.QPMD(lambda: Forgetful()).predict()


# --- mistakes of the learner ---


def saying(*answers):
    """Plain learners that say these things in turn, whoever is asked, then the last for ever."""
    told = []

    class Saying(Scribe):
        def predict(self, context=None):
            told.append(answers[min(len(told), len(answers) - 1)])
            return told[-1]

    return lambda: Saying()


NONSENSE = [
    (-1, 1.0),
    (3, 1.0),
    (10**30, 1.0),
    (0, 0.0),
    (0, 2.0),
    (0, -0.5),
    (0, math.nan),
    (0, math.inf),
    (0, 10**400),
    (0, "x"),
    (0, None),
    (1.5, 1.0),
    (None, 1.0),
    (0,),
    (),
    0,
    None,
    "",
    {},
]


@kinds
@pytest.mark.parametrize("answer", NONSENSE, ids=lambda value: repr(value)[:20])
def test_a_bad_prediction_of_a_plain_learner_is_named_and_gives_no_ticket(kind, answer):
    f = kind(saying((0, 0.5), answer, (1, 0.5)))
    f.predict()
    if kind is bl.QPMD:
        f.update(1, 1.0)
    counts = (f.outstanding, f.peak, f.instances)
    with pytest.raises(BadPrediction):
        f.predict()
    assert (f.outstanding, f.peak, f.instances) == counts
    assert f.predict().ticket == 2


def test_qpmd_never_feeds_the_same_feedback_twice():
    """The base's second answer is bad. It has learned from the first feedback then, and must not get it again."""
    made = []
    answers = saying((0, 0.5), (7, 0.5), (1, 0.5))
    f = bl.QPMD(lambda: made.append(answers()) or made[-1])
    f.predict()
    f.update(1, 0.25)
    with pytest.raises(BadPrediction):
        f.predict()
    assert f.predict().action == 1
    assert made[0].past == [(0, 0.5, 0.25)]


@dataclass(frozen=True)
class Bad(bl.Learner):
    """A spec that plays 0 with probability 1, and says something else in its prediction number `when`."""

    actions: int
    when: int
    action: int
    probability: float

    def layout(self):
        return np.dtype([("updates", "f8")])

    def params(self):
        return {"when": self.when, "action": self.action, "probability": self.probability}

    @staticmethod
    def predict(params, state, context, draw):
        if state.predictions == params.when:
            return params.action, params.probability
        return 0, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.updates += feedback[0] / probability


BAD = [(-1, 1.0), (3, 1.0), (-(2**62), 1.0), (2**62, 1.0), (0, 0.0), (0, 2.0), (0, math.nan), (0, -1.0), (0, math.inf)]
bad = pytest.mark.parametrize(("action", "probability"), BAD)


def value_of(action, probability):
    return str(probability) if action == 0 else str(action)


@kinds
@bad
def test_a_bad_prediction_of_a_spec_is_named_and_changes_nothing(kind, action, probability):
    f = kind(Bad(3, 2, action, probability))
    f.update(f.predict().ticket, 1.0)
    before = f.to_bytes()
    for _ in range(2):
        with pytest.raises(BadPrediction) as caught:
            f.predict()
        assert value_of(action, probability) in str(caught.value)
        assert f.to_bytes() == before


@kinds
@bad
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_bad_prediction_ends_a_play_with_an_error(kind, action, probability, engine):
    game = bl.games.RewardTable(np.ones((20, 3)))
    with pytest.raises(BadPrediction) as caught:
        bl.play(kind(Bad(3, 2, action, probability)), game, bl.delays.Constant(0), rounds=20, engine=engine)
    assert value_of(action, probability) in str(caught.value)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bad_prediction_in_one_replication_of_many_ends_the_play(threads):
    game = bl.games.RewardTable(np.ones((50, 3)))
    with pytest.raises(BadPrediction, match="round 30 of replication"):
        bl.play(bl.Direct(Bad(3, 30, 9, 1.0)), game, bl.delays.Constant(0), rounds=50, replications=40, threads=threads)


@bad
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_qpmd_checks_every_answer_of_its_base_and_not_only_the_last(action, probability, engine):
    """Both feedbacks of action 0 come at the end of round 2, so the base answers twice in round 3."""
    game = bl.games.RewardTable(np.ones((9, 3)))
    with pytest.raises(BadPrediction) as caught:
        bl.play(
            bl.QPMD(Bad(3, 2, action, probability)), game, bl.delays.Trace([1, 0] + [0] * 7), rounds=9, engine=engine
        )
    assert value_of(action, probability) in str(caught.value)


@kinds
def test_both_engines_read_a_probability_just_above_one_as_one(kind):
    given = (kind(Bad(3, 2, 0, 1 + 5e-10)), bl.games.RewardTable(np.ones((9, 3))), bl.delays.Constant(0), 9)
    for engine in ("compiled", "python"):
        assert (bl.play(*given, record=True, engine=engine).probabilities == 1.0).all()


def test_qpmd_goes_back_to_where_it_was_when_a_later_answer_is_bad():
    f = bl.QPMD(Bad(3, 3, 5, 1.0))
    f.predict()
    f.predict()
    f.update(1, 1.0)
    f.update(2, 1.0)
    before = f.to_bytes()
    with pytest.raises(BadPrediction):
        f.predict()
    assert f.to_bytes() == before


@dataclass(frozen=True)
class Moody(Bad):
    """As bad as its luck: draws whether the answer is one."""

    @staticmethod
    def predict(params, state, context, draw):
        if uniform(draw, 0) < 0.5:
            return params.action, params.probability
        return 0, 1.0


def test_bold_makes_no_instance_for_a_prediction_that_failed():
    f = bl.BOLD(Moody(3, 0, 5, 1.0), seed=3)
    assert f.predict().action == 0
    failed = False
    while not failed:
        before = f.to_bytes()
        try:
            f.predict()
        except BadPrediction:
            failed = True
    assert f.to_bytes() == before
    assert f.instances == f.peak + 1


@kinds
def test_an_error_inside_a_plain_learner_comes_through_and_gives_no_ticket(kind):
    class Angry(Scribe):
        def predict(self, context=None):
            raise ZeroDivisionError("mine")

    f = kind(lambda: Angry())
    with pytest.raises(ZeroDivisionError, match="mine"):
        f.predict()
    assert (f.outstanding, f.peak, f.instances) == (0, 0, 1)


def test_a_plain_learner_cannot_be_saved_or_compiled():
    f = bl.Direct(scribe)
    with pytest.raises(Unsupported, match="scribe"):
        f.to_bytes()
    game = bl.games.RewardTable(np.ones((9, 3)))
    with pytest.raises(Unsupported, match="scribe"):
        bl.play(f, game, bl.delays.Constant(0), rounds=9, engine="compiled")


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


# --- a learner of one's own ---

OWN = """
from dataclasses import dataclass
import numpy as np
import belated as bl


@dataclass(frozen=True)
class Own(bl.Learner):
    actions: int

    def layout(self):
        return np.dtype([("total", "f8", (self.actions,))])

    @staticmethod
    def predict(params, state, context, draw):
        return int(np.argmax(state.total)), 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.total[action] += feedback[0] - 0.5
"""
PLAY = """
table = np.array([[1.0, 0.0, 0.0]] * 5 + [[0.0, 1.0, 0.0]] * 25)
given = (bl.Direct(Own(actions=3)), bl.games.RewardTable(table), bl.delays.Constant(1), 30)
compiled = bl.play(*given, record=True, engine="compiled").actions[0].tolist()
plain = bl.play(*given, record=True, engine="python").actions[0].tolist()
assert compiled == plain
"""


@kernel
def poor(reward):
    return reward < 0.5


@dataclass(frozen=True)
class Lazy(bl.Learner):
    """Stays with an action while it earns, else goes to the next; written in this file."""

    actions: int

    def layout(self):
        return np.dtype([("at", "i8")])

    @staticmethod
    def predict(params, state, context, draw):
        return state.at, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if action == state.at and poor(feedback[0]):
            state.at = (state.at + 1) % 3


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_learner_of_ones_own_plays_compiled(engine):
    rewards = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(float)
    taus = np.random.default_rng(1).integers(0, 6, 60)
    r = bl.play(
        bl.Direct(Lazy(3)), bl.games.RewardTable(rewards), bl.delays.Trace(taus), 60, record=True, engine=engine
    )
    at, expected, due = 0, [], {}
    for t in range(60):
        expected.append(at)
        due.setdefault(t + taus[t], []).append(t)
        for s in due.pop(t, []):
            if expected[s] == at and rewards[s, at] < 0.5:
                at = (at + 1) % 3
    assert r.actions[0].tolist() == expected


def test_a_learner_defined_by_exec_plays_compiled():
    space = {"__name__": "notebook"}
    exec(OWN + PLAY, space)
    assert space["compiled"][:5] == [0] * 5
    assert set(space["compiled"]) == {0, 1}


def test_two_learners_of_one_name_defined_by_exec_are_two():
    """As in a notebook whose cell is run again after a change."""
    plays = []
    for change in ("argmax", "argmin"):
        space = {"__name__": "notebook"}
        exec(OWN.replace("argmax", change) + PLAY, space)
        plays.append(space["compiled"])
    assert plays[0] != plays[1]


def test_a_learner_typed_into_python_plays_compiled(tmp_path):
    done = subprocess.run(
        [sys.executable, "-"],
        input=OWN + textwrap.dedent(PLAY) + "\nprint('played', sorted(set(compiled)))\n",
        env={**os.environ, "PYTHONPATH": str(ROOT), "BELATED_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("played [0")
