"""Mistakes of the caller: each is named, and nothing is half-changed."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.errors import (
    BadPrediction,
    ClosedTicket,
    InvalidArgument,
    InvalidFeedback,
    UnknownTicket,
    Unsupported,
)
from tests.plain_learners import Scribe, scribe

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
ROOT = Path(bl.__file__).parents[1]
kinds = pytest.mark.parametrize("kind", KINDS)


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
    with pytest.raises(Unsupported, match=r"^QPMD\(scribe\) takes no side information"):
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


class Shy:
    """Its repr fails, as that of River's policies does before their first reward."""

    def __repr__(self):
        raise ValueError("max() arg is an empty sequence")


@kinds
def test_what_cannot_be_shown_is_named_by_its_type(kind):
    for learner in (Shy(), Shy):
        with pytest.raises(InvalidArgument, match=r"got <Shy object>$"):
            kind(learner)
    with pytest.raises((InvalidArgument, Unsupported), match="got <Shy object>"):
        busy(kind).predict(Shy())
    with pytest.raises(InvalidFeedback, match="got <Shy object>"):
        busy(kind).update(2, Shy())


def test_a_prediction_that_cannot_be_shown():
    class Odd(Scribe):
        def predict(self, context=None):
            return Shy()

    with pytest.raises(BadPrediction, match="got <Shy object>"):
        bl.BOLD(Odd).predict()


@kinds
@pytest.mark.parametrize(
    ("package", "adapter"),
    [("river", "river"), ("sklearn", "sklearn"), ("vowpalwabbit", "vowpal_wabbit"), ("mabwiser", "mabwiser")],
)
def test_an_adapter_that_was_forgotten_is_named(kind, package, adapter):
    model = type("Model", (), {"__module__": f"{package}.inner"})
    for learner in (model(), model, type("Mine", (model,), {})()):
        with pytest.raises(InvalidArgument, match=f"; wrap it with bl.adapters.{adapter}$"):
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
