"""Mistakes of the learner: each is named, online and in a play, and never a crash."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.errors import (
    BadPrediction,
    Unsupported,
)
from belated.kernels.random import uniform
from tests.plain_learners import Scribe, scribe

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
ROOT = Path(bl.__file__).parents[1]
kinds = pytest.mark.parametrize("kind", KINDS)


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
