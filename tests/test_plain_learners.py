"""Plain learners: those that predict anything, those that draw, and the contract that finds broken ones."""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys

import pytest

import belated as bl
from belated import checks
from belated.adapters.copies import Copies, seed_of
from belated.checks import plain
from belated.errors import BadPrediction, InvalidFeedback, Unsupported
from tests.plain_learners import Scribe


class Majority:
    """Predicts the label that it was told most often; None at first."""

    actions = None

    def __init__(self):
        self.counts = {}

    def predict(self, context):
        return max(self.counts, key=self.counts.get, default=None), 1.0

    def update(self, context, action, probability, feedback):
        self.counts[feedback] = self.counts.get(feedback, 0) + 1


class Drawing:
    """Draws an action, the one that paid last twice as likely, and says how likely it was."""

    actions = 3

    def __init__(self, number=0, seed=5):
        self.draws = random.Random(seed + number)
        self.weights = [1.0, 1.0, 1.0]

    def predict(self, context):
        action = self.draws.choices(range(3), self.weights)[0]
        return action, self.weights[action] / sum(self.weights)

    def update(self, context, action, probability, feedback):
        self.weights = [1.0, 1.0, 1.0]
        self.weights[action] += feedback


class Silent(Drawing):
    states_probability = False

    def predict(self, context):
        return super().predict(context)[0], math.nan


drawing = Copies("drawing", Drawing)


def label(t, context, action):
    return "ab"[t % 3 == 0]


def test_a_learner_may_predict_anything():
    for kind in (bl.Direct, bl.BOLD):
        f = kind(Majority)
        assert f.actions is None
        first, second = f.predict({"x": 1}), f.predict({"x": 2})
        assert first == bl.Decision(ticket=1, action=None, probability=1.0)
        f.update(second.ticket, "spam")
        f.update(first.ticket, "spam")
        assert f.predict().action == "spam"
        with pytest.raises(InvalidFeedback, match="cancel"):
            f.update(3, None)
        with pytest.raises(Unsupported, match="replace"):
            f.replace(0)
        with pytest.raises(Unsupported, match="predicts anything"):
            bl.play(f, bl.games.Bernoulli([0.5, 0.5]), bl.delays.Constant(0), rounds=5)
    with pytest.raises(Unsupported, match="endlessly many predictions"):
        bl.QPMD(Majority)


def test_all_learners_of_a_forecaster_predict_alike():
    made = iter([Majority(), Scribe()])
    f = bl.BOLD(lambda: next(made))
    f.predict()
    with pytest.raises(bl.errors.InvalidArgument, match="None actions"):
        f.predict()


def test_who_does_not_know_its_probability_says_so():
    f = bl.BOLD(Copies("silent", Silent))
    assert not f.states_probability and math.isnan(f.predict().probability)
    careless = type("Careless", (Silent,), {"states_probability": True})
    with pytest.raises(BadPrediction, match="nan"):
        bl.BOLD(careless).predict()
    r = bl.play(f, bl.games.Bernoulli([0.1, 0.5, 0.9]), bl.delays.Constant(3), rounds=20, record=True)
    assert r.certificate


def test_copies_are_numbered_and_each_draws_for_itself():
    assert [seed_of(7, number) for number in (0, 1, 2)] == [7, 8, 9]
    assert seed_of(None, 3) is None and seed_of(2**32 - 1, 1) == 0
    f = bl.BOLD(drawing)
    together = [f.predict().action for _ in range(40)]
    alone = [Drawing(number).predict(None)[0] for number in range(40)]
    assert together == alone and len(set(together)) == 3
    assert repr(f) == "BOLD(drawing)"
    g = pickle.loads(pickle.dumps(f))
    assert g.predict() == f.predict()
    r = bl.play(f, bl.games.Bernoulli([0.5] * 3), bl.delays.Constant(0), rounds=30, replications=3, record=True)
    assert not (r.actions[0] == r.actions[1]).all() and not (r.actions[1] == r.actions[2]).all()


@pytest.mark.parametrize("factory", [Scribe, Drawing, drawing, Copies("silent", Silent)], ids=repr)
def test_sound_learners_pass(factory):
    checks.check_plain(factory)


def test_sound_learners_of_labels_pass():
    checks.check_plain(Majority, contexts=[{"x": 1}, {"x": 2}], feedback=label)


ONE = Scribe()


class Shared(Scribe):
    """All that were made have one past."""

    everyone = []

    def __init__(self, number=0):
        super().__init__()
        self.past = self.everyone


class Gossip:
    """Stays with what paid last; who was paid is noted in the class, so that each hears of the others' luck."""

    actions = 3
    noted = [0]

    def __init__(self):
        self.started = False

    def predict(self, context):
        started, self.started = self.started, True
        return self.noted[0] if started else 0, 1.0

    def update(self, context, action, probability, feedback):
        self.noted[0] = action if feedback >= 0.5 else (action + 1) % 3


def test_state_in_a_class_is_found_where_two_take_turns():
    for check in (each for each in plain.PLAIN_CHECKS if each is not plain.keeps_to_itself):
        check(trial(Gossip))  # none of the others sees it
    with pytest.raises(checks.CheckFailed, match=r"otherwise than alone .*state in the class"):
        checks.check_plain(Gossip)


def test_the_state_of_a_model_behind_it_is_found_too():
    model = Scribe()

    class Front:
        """Each is a new object, and all ask one model."""

        actions = 3

        def predict(self, context):
            return model.predict(context)

        def update(self, *what):
            model.update(*what)

    with pytest.raises(checks.CheckFailed):
        plain.keeps_to_itself(trial(Front))


def test_every_check_of_plain_learners_has_a_broken_twin():
    shown = {"makes_fresh_ones", "keeps_to_itself", "predicts_honestly", "accepts_skipped_rounds"}
    shown |= {"no_delay_is_the_base", "bold_interleaves", "is_refused_where_it_must"}
    assert {check.__name__ for check in plain.PLAIN_CHECKS} == shown


class Lying(Drawing):
    def predict(self, context):
        return super().predict(context)[0], 1.0 / 3.0


class Outside(Scribe):
    def predict(self, context=None):
        action, probability = super().predict(context)
        return action if self.t < 30 else 3, probability


class Impatient(Scribe):
    """Wants an answer to each prediction."""

    waiting = False

    def predict(self, context=None):
        if self.waiting:
            raise RuntimeError("the last prediction was not answered")
        self.waiting = True
        return super().predict(context)

    def update(self, context, action, probability, feedback):
        self.waiting = False
        super().update(context, action, probability, feedback)


def unseeded(number=0):
    return Drawing(seed=random.SystemRandom().randrange(2**32))


def trial(factory):
    return plain.Trial(factory, (None,), plain.reward, plain.ROUNDS)


@pytest.mark.parametrize(
    ("factory", "check", "words"),
    [
        (lambda: ONE, plain.makes_fresh_ones, "same object"),
        (Shared, plain.makes_fresh_ones, "part ways"),
        (Shared, plain.keeps_to_itself, "otherwise than alone"),
        (unseeded, plain.makes_fresh_ones, "without a seed"),
        (Copies("lying", Lying), plain.predicts_honestly, "averages to"),
        (Outside, plain.makes_fresh_ones, "chose action 3"),
    ],
)
def test_broken_ones_are_found(factory, check, words):
    with pytest.raises(checks.CheckFailed, match=words):
        check(trial(factory))


def test_one_that_cannot_skip_a_round_is_found():
    with pytest.raises(RuntimeError, match="not answered"):
        plain.accepts_skipped_rounds(trial(Impatient))


class Misreading(bl.Direct):
    """A Direct that hands on the opposite."""

    def deliver(self, room, letter, feedback):
        super().deliver(room, letter, 1.0 - feedback)


class Lazy(bl.BOLD):
    """Uses a busy instance."""

    def choose(self, room, context):
        room.idle[0] = room.idle[0] or [0]
        return super().choose(room, context)


class Tolerant(bl.Direct):
    def check(self, learner):
        pass


def test_broken_forecasters_are_found(monkeypatch):
    plain.bold_interleaves(trial(Scribe))
    with pytest.raises(checks.CheckFailed, match="interleaved"):
        plain.bold_interleaves(trial(Scribe), Lazy)
    monkeypatch.setattr(plain, "Direct", Misreading)
    with pytest.raises(checks.CheckFailed, match="Misreading at delay 0"):
        plain.no_delay_is_the_base(trial(Scribe))
    forgetful = type("Forgetful", (Scribe,), {"tolerates_delay": False})
    monkeypatch.undo()
    plain.is_refused_where_it_must(trial(forgetful))
    monkeypatch.setattr(plain, "Direct", Tolerant)
    with pytest.raises(checks.CheckFailed, match="accepts"):
        plain.is_refused_where_it_must(trial(forgetful))


LIBRARIES = ("river", "sklearn", "vowpalwabbit", "mabwiser", "gymnasium")


def test_libraries_are_loaded_when_named_and_missed_in_one_line():
    code = f"""
import sys
import belated as bl
assert not set({LIBRARIES!r}) & set(sys.modules), sorted(sys.modules)
sys.modules["river"] = None
try:
    bl.adapters.river
except ImportError as error:
    print(error)
bl.adapters.sklearn
assert "sklearn" in sys.modules
try:
    bl.adapters.tensorflow
except AttributeError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "bl.adapters.river needs river: pip install 'belated[river]'",
        "module 'belated.adapters' has no attribute 'tensorflow'",
    ]


class Hears:
    """A plain learner that wants to be told in order."""

    actions = 3
    in_order = True

    def __init__(self):
        self.heard = []

    def predict(self, context):
        return 0, 1.0

    def update(self, context, action, probability, feedback):
        self.heard.append(feedback)


@pytest.mark.parametrize("make", [Hears, lambda: Hears()], ids=["class", "function"])
def test_a_plain_learner_is_told_in_order_too(make):
    f = bl.Direct(make)
    first, second, third = (f.predict() for _ in range(3))
    f.update(third.ticket, 0.3)
    f.update(second.ticket, 0.2)
    _, take_back = f.trial()
    take_back()
    f.predict()
    assert f._room.seats[0].learner.heard == []
    f.update(first.ticket, 0.1)
    f.predict()
    assert f._room.seats[0].learner.heard == [0.1, 0.2, 0.3]
    with pytest.raises(bl.errors.Unsupported, match="Hears, which must be told in order"):
        bl.SDB(make)
