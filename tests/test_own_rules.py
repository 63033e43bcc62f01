"""Rules of one's own: what they may do, in every room; and what they do not inherit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated.checks import forecaster as contract
from belated.checks.contract import arena, compare
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.room import Kernels
from belated.kernels.compile import kernel
from belated.kernels.random import outcome_draw, uniform
from belated.kernels.states import PlainRecords, blank
from belated.protocols import NEEDED, Game, Learner
from tests.test_oracle import in_plain_python

GAME = bl.games.Bernoulli([0.2, 0.5, 0.9])
LAW = bl.delays.Constant(5)


@pytest.fixture
def entered(monkeypatch):
    def enter(kind):
        monkeypatch.setitem(bl.catalog.FORECASTERS, kind.__name__.lower(), kind)
        return kind

    return enter


# --- in every room ---


class LateBOLD(bl.Forecaster):
    """BOLD whose instances are told, and free again, when the next prediction is made."""

    grows = True

    def queues(self) -> int:
        return 1

    def choose(self, room: Any, context: Any) -> Any:
        while (found := room.pop(0)) is not None:
            letter, feedback = found
            room.seat(letter.seat).tell(letter.context, letter.action, letter.probability, feedback)
            room.free(letter.seat)
        seat = room.lowest_free()
        return seat, *seat.ask(context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.push(0, letter, feedback)

    def release(self, room: Any, letter: Any) -> None:
        room.seat(letter.seat).lost(letter)
        room.free(letter.seat)


class HiddenQueue(LateBOLD):
    """Does not say that it has a queue."""

    def queues(self) -> int:
        return 0


class Halves(bl.Forecaster):
    """Two instances in turn. What is told depends on `room.round`, which only `choose` may look at."""

    seats = 2

    def layout(self) -> Any:
        return np.dtype([("sum", "i8")])

    def choose(self, room: Any, context: Any) -> Any:
        seat = room.seat((room.round + int(room.notes["sum"])) % 2)
        return seat, *seat.ask(context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.notes["sum"] += room.round
        room.seat(letter.seat).answer(letter, feedback)

    def release(self, room: Any, letter: Any) -> None:
        room.seat(letter.seat).lost(letter)

    def kernels(self, parts: Any) -> Any:
        ask, answer, lost = parts.ask, parts.answer, parts.lost

        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            pool[1] = blank[0]
            desk.instances = 2

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            desk.instance = round_ % 2
            return ask(params, pool[desk.instance], context, desk.instance, k0, k1)

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            answer(params, pool[slab[entry].instance], context, slab[entry])
            return False

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            letter = slab[entry]
            lost(params, pool[letter.instance], context, letter.number, letter, action)
            return False

        def back(desk, marks):
            pass

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), kernel(back), parts.replace)


@pytest.mark.parametrize("kind", [LateBOLD, Halves])
@pytest.mark.parametrize("check", [contract.saved_continues, contract.lives_in_a_ledger], ids=lambda x: x.__name__)
def test_a_rule_may_free_instances_late_and_finds_the_round_in_choose_only(kind, check, entered):
    check(entered(kind)(bl.Exp3(3)))


def test_new_instances_of_one_transaction_have_numbers_of_their_own(entered, tmp_path):
    from belated.ledger.database import open_store
    from belated.ledger.experiment import make
    from belated.ledger.items import Create, Decide, Feedback, Save, ticket_of
    from belated.ledger.ledger import Ledger
    from belated.ledger.verify import verify

    entered(LateBOLD)
    store = open_store(str(tmp_path / "a.db"), serve=True)
    ledger = Ledger(store)
    wanted = make("ads", ["a", "b", "c"], "latebold(exp3)", seed=5)
    (made,) = ledger.serve([Create(wanted, ledger.prepare(wanted))])
    (many,) = ledger.serve([Decide(made, [None] * 3)])
    ledger.serve([Feedback(made, [(ticket_of(each.ticket), 1.0) for each in many[:2]])])
    ledger.serve([Decide(made, [None] * 3)])
    ledger.serve([Save()])
    with store.read() as session:
        assert session.ask("SELECT count(*) FROM states")[0][0] == 4
    assert [report.verdict for report in verify(store)] == ["identical"]
    store.close()


def test_a_growing_rule_must_say_that_it_has_a_queue(entered):
    with pytest.raises(contract.CheckFailed, match=r"puts feedback into a queue"):
        contract.lives_in_a_ledger(entered(HiddenQueue)(bl.UCB1(3)))


@in_plain_python
def test_in_plain_python_kernels_know_which_prediction_of_an_instance_a_letter_is_of():
    compare(Halves(bl.Exp3IX(3)), arena(bl.Exp3IX(3), 60), bl.delays.Geometric(mean=9), 60, 20)


def test_an_instance_that_is_not_there_is_named():
    class Third(Halves):
        def choose(self, room: Any, context: Any) -> Any:
            return room.seat(2), *room.seat(2).ask(context)

    with pytest.raises(InvalidArgument, match="Third has no instance 2: there are 2"):
        Third(bl.UCB1(3)).predict()


# --- what is not inherited ---


class First(bl.Direct):
    """Plays the first action, whatever the learner says."""

    def choose(self, room: Any, context: Any) -> Any:
        seat = room.seat()
        seat.ask(context)
        return seat, 0, 1.0


def test_who_changes_a_rule_inherits_neither_its_kernels_nor_its_claims():
    played = [bl.play(First(bl.UCB1(3)), GAME, LAW, rounds=50, record=True, engine=e) for e in ("auto", "python")]
    assert all((r.actions == 0).all() and r.bound is None for r in played)
    assert "no theorem is stated for First" in str(played[0])
    assert not (First.propensity or First.replaces or First.chooses_among or First.keeps_order)
    with pytest.raises(Unsupported, match="First has no kernels"):
        bl.play(First(bl.UCB1(3)), GAME, LAW, rounds=50, engine="compiled")


def test_who_changes_no_rule_inherits_all():
    class Named(bl.BOLD):
        """Another name."""

        def check(self, learner: Any) -> None:
            super().check(learner)

    assert Named.theorem is bl.BOLD.theorem and Named.kernels is bl.BOLD.kernels and Named.propensity


@pytest.mark.parametrize(
    ("parent", "name", "other"),
    [
        (bl.BOLD, "grows", False),  # the inherited kernels took instances that were not there, and the process died
        (bl.BOLD, "seats", 2),
        (bl.BOLD, "layout", lambda self: np.dtype([("count", "i8")])),
        (bl.QPMD, "begin", lambda self, room: None),  # QPMD has none itself
        (bl.QPMD, "queues", lambda self: 1),
        (bl.QPMD, "marks", lambda self, instances: 1),
        (bl.BOLD, "params", lambda self: {}),
        (bl.BOLD, "kernels", bl.Direct.kernels),
    ],
)
def test_who_changes_what_a_rule_stands_on_inherits_no_claims(parent, name, other):
    kind = type("Other", (parent,), {name: other, "__doc__": "Another room."})
    assert kind.theorem is bl.Forecaster.theorem and kind.identities is bl.Forecaster.identities
    assert kind.kernels is (other if name == "kernels" else bl.Forecaster.kernels) and not kind.propensity


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("params", lambda self: {"rate": 0.0}),
        ("start", lambda self, state: None),
        ("lost", staticmethod(lambda params, state, context, action, probability: None)),
        ("largest", 10.0),
        ("in_order", True),
    ],
)
def test_who_changes_what_a_kernel_stands_on_inherits_no_bound(name, other):
    kind = dataclass(frozen=True)(type("Other", (bl.Exp3,), {name: other}))
    assert kind(3).bound(100.0) is None and kind.guarantee == "none stated" and bl.Exp3(3).bound(100.0) is not None


def test_a_game_that_pays_otherwise_than_its_parent_gets_no_bound():
    @dataclass(frozen=True)
    class Half(bl.games.Bernoulli):
        @staticmethod
        def outcome(params, memory, k0, k1, round_, action, feedback):
            feedback[0] = 0.5
            return 0.5

    @dataclass(frozen=True)
    class Said(Half):
        comparator = "action"

    played = [bl.play(bl.DelayedUCB1(3), kind([0.2, 0.5, 0.9]), LAW, rounds=50) for kind in (Half, Said)]
    assert "does not say what its regret is against" in played[0].bound_reason
    assert "i.i.d." in played[1].bound_reason and not Said.stochastic
    assert bl.play(bl.DelayedUCB1(3), GAME, LAW, rounds=50).bound is not None


def test_a_law_that_waits_otherwise_than_its_parent_says_what_it_is():
    @dataclass(frozen=True)
    class Rising(bl.delays.Constant):
        @property
        def kernel(self):
            return rising

    law = Rising(3)
    assert (law.constant, law.mean, law.maximum) == (False, None, None)
    assert (bl.delays.Constant(3).constant, bl.delays.Constant(3).maximum) == (True, 3)


@bl.kernel
def rising(params, k0, k1, round_, action):
    return round_ % 50


def test_who_changes_a_kernel_inherits_no_bound():
    @dataclass(frozen=True)
    class Zero(bl.UCB1):
        @staticmethod
        def predict(params, state, context, draw):
            return 0, 1.0

    @dataclass(frozen=True)
    class Same(bl.UCB1):
        pass

    assert Zero.predict_among is None and Zero.guarantee == "none stated"
    assert Zero(3).stochastic_bound(10.0, np.array([0.2, 0.5, 0.9])) is None and isinstance(
        Zero(3).delayed_bound(10, np.array([0.2, 0.5, 0.9]), np.zeros(3), 0.0), str
    )
    assert Same.delayed_bound is bl.UCB1.delayed_bound and Same.predict_among is bl.UCB1.predict_among
    assert bl.Exp3IX.predict_among is bl.Exp3.predict_among  # it draws as Exp3 does


# --- nothing is half-changed ---


@dataclass(frozen=True)
class Interrupted(Learner):
    """Needs something that somebody interrupts."""

    actions: int = 2

    def layout(self) -> Any:
        return np.dtype([("x", "i8")])

    def params(self) -> dict[str, Any]:
        return {"ready": 0}

    @staticmethod
    def predict(params, state, context, draw):
        if params.ready == 0:
            return NEEDED, 1.0
        params.ready = 0
        state.x += 1
        return state.x % 2, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.x += 10

    def supply(self, params: Any, state: Any) -> None:
        if PRESSED:
            raise KeyboardInterrupt
        params["ready"] = 1


PRESSED: list[bool] = []


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD, bl.QPMD, bl.SDB])
def test_after_ctrl_c_everything_is_as_before(kind, monkeypatch):
    f = kind(Interrupted(), seed=1)
    for _ in range(3):
        f.predict()
    f.update(2, 0.5)
    before = f.to_bytes()
    monkeypatch.setattr("tests.test_own_rules.PRESSED", [True])
    with pytest.raises(KeyboardInterrupt):
        f.predict()
    assert f.to_bytes() == before and not f._room._undo and not f._room._kept


class Fails:
    """A plain learner that cannot be told."""

    actions = 2
    told: list[float] = []

    def predict(self, context: Any) -> tuple[int, float]:
        return 0, 1.0

    def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
        if feedback > 0.5:
            raise RuntimeError("too much")


def test_feedback_that_a_plain_learner_refuses_is_not_queued():
    f = bl.SDB(Fails)
    ticket = f.predict().ticket
    for _ in range(2):
        with pytest.raises(RuntimeError):
            f.update(ticket, 1.0)
    assert f.queued == [0, 0] and f.outstanding == 1


# --- ranges ---


def test_a_prior_is_in_the_range_of_the_rewards():
    small = bl.SDB(bl.UCB1(2), prior=[(0, 0.5), (1, 0.25)], seed=1)
    large = bl.SDB(bl.UCB1(2), prior=[(0, 10.0), (1, 0.0)], reward_range=(-10.0, 30.0), seed=1)
    for f, reward in ((small, 0.75), (large, 20.0)):
        for _ in range(9):
            f.update(f.predict().ticket, reward)
    states = [[seat.learner.state.tobytes() for seat in f._room.seats] for f in (small, large)]
    assert states[0] == states[1]
    with pytest.raises(InvalidArgument, match=r"prior has a reward of 31, outside \[-10, 30\]"):
        bl.SDB(bl.UCB1(2), prior=[(0, 31.0)], reward_range=(-10.0, 30.0))
    played = [
        bl.play(f, bl.games.Bernoulli([0.4, 0.6]), LAW, rounds=60, record=True, engine=engine).actions
        for f in (bl.SDB(bl.UCB1(2), prior=[(0, 0.5)], reward_range=(-1.0, 1.0)),)
        for engine in ("auto", "python")
    ]
    assert np.array_equal(*played)


@dataclass(frozen=True)
class Cents(Game):
    """Rewards of 0 or 1/100."""

    actions = 2
    feedback = "bandit"
    stochastic = True
    comparator = "action"
    means = (0.001, 0.009)
    scale = largest = 0.01

    def params(self) -> Any:
        return np.array([0.1, 0.9])

    def memory(self) -> int:
        return 1

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 0.01 if uniform(outcome_draw(k0, k1, round_, action), 0) < params[action] else 0.0
        memory[0] += 0.008 if action == 0 else 0.0
        return feedback[0]

    @staticmethod
    def regret(params, memory):
        return memory[0]


def test_a_bound_is_in_the_range_that_the_learner_knows():
    plain = bl.play(bl.Direct(bl.UCB1(2)), Cents(), LAW, rounds=300, engine="python")
    known = bl.play(bl.Direct(bl.UCB1(2), reward_range=(0.0, 0.01)), Cents(), LAW, rounds=300, engine="python")
    unit = bl.play(bl.Direct(bl.UCB1(2)), bl.games.Bernoulli([0.1, 0.9]), LAW, rounds=300, engine="python")
    assert not isinstance(plain.theorem, str) and not isinstance(known.theorem, str)
    # Rewards as they come tell UCB1 of gaps of 0.008: more rounds than these would be needed.
    assert plain.bound == pytest.approx(300 * 0.008) and plain.judge().word == "vacuous"
    assert known.bound == pytest.approx(0.01 * unit.theorem.bound(300))


# --- what cannot be ---


def test_a_name_that_is_belateds_own_is_not_written():
    class BOLD(bl.Direct):
        pass

    with pytest.raises(InvalidArgument, match="BOLD cannot be written as data: there 'bold' is belated's own"):
        BOLD(bl.UCB1(3)).to_bytes()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: bl.Direct(bl.UCB1(10**30)), "UCB1 would have a state that no array can hold"),
        (lambda: bl.Direct(bl.PerContext(bl.UCB1(3), 2)).predict(10**400), "context must be one finite number"),
        (lambda: bl.BOLD(bl.UCB1(3), pools=np.array(["one", "value"])), "pools must be one of"),
        (lambda: bl.catalog.add(bl.UCB1(3)), "delay laws, got an object"),
        (lambda: bl.catalog.add(bl.Forecaster), "delay laws, got one without"),
    ],
)
def test_what_cannot_be_is_refused_by_name(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()


def test_a_new_version_of_a_learner_keeps_what_copies_have_open():
    @dataclass(frozen=True)
    class Moved(bl.DelayedHedge):
        version = 2

        @staticmethod
        def migrate(version, old, state):
            for name in ("total", "loss", "weight"):
                state[name] = old[name]

    learner = bl.PerContext(Moved(2), 2)
    old, state = blank(learner), blank(learner)
    old["copies"]["open"] = 7
    learner.migrate(1, np.asarray(old)[0], np.asarray(state)[0])
    assert (np.asarray(state)["copies"]["open"] == 7).all()


def test_records_in_plain_python_say_what_they_are():
    rows = np.zeros(1, [("x", "i8")]).view(PlainRecords)
    assert rows[0].dtype.names == ("x",)  # which taking over an earlier version looks at


def test_a_field_is_not_taken_for_the_name_of_its_class():
    """A forecaster with name="bold" came back from its bytes as a BOLD."""

    class Called(bl.Direct):
        """Has a name."""

        name: str = "mine"

    @dataclass(frozen=True)
    class Known(bl.UCB1):
        name: str = "mine"

    for kind, spec in ((Called, Called(bl.UCB1(3), name="bold")), (Known, bl.BOLD(Known(3, name="klucb")))):
        with pytest.raises(InvalidArgument, match="cannot have a field called 'name'"):
            bl.catalog.add(kind)
        with pytest.raises(InvalidArgument, match="cannot have a field called 'name'"):
            spec.to_bytes()


@pytest.mark.parametrize("name", ["update", "kernels", "actions", "check", "seed", "learner"])
def test_a_parameter_does_not_take_the_place_of_a_method(name):
    with pytest.raises(InvalidArgument, match=f"Odd cannot have a parameter called '{name}'"):
        type("Odd", (bl.Direct,), {"__annotations__": {name: int}, name: 3})


# --- what is stated is a number ---


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bound_under_delay", lambda self, n, total: math.nan),  # it was shown as n, and called vacuous
        ("bound_under_delay", lambda self, n, total: "5"),
        ("bound_at_peak", lambda self, n, peak, constant: math.nan),
        ("delayed_bound", lambda self, n, means, peaks, peak: math.nan),
    ],
)
def test_a_bound_that_is_no_number_is_named(name, said):
    kind = dataclass(frozen=True)(type("Odd", (bl.RoundRobin,), {name: said}))
    with pytest.raises(InvalidArgument, match=rf"{name} of Odd\(actions=3\) must be a number, got"):
        print(bl.play(bl.Direct(kind(3)), GAME, LAW, rounds=50).bound)


@pytest.mark.parametrize("said", [None, 5.0])
def test_a_theorem_that_is_none_is_named(said):
    kind = type("Odd", (bl.Direct,), {"theorem": lambda self, case: said})
    with pytest.raises(InvalidArgument, match=r"theorem of Odd\(.*\) must return a Theorem, or why"):
        print(bl.play(kind(bl.UCB1(3)), GAME, LAW, rounds=50))


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_a_regret_that_is_no_number_is_named(engine):
    @dataclass(frozen=True)
    class Lost(bl.games.Bernoulli):
        @staticmethod
        def regret(params, memory):
            return math.nan

    with pytest.raises(InvalidArgument, match="says that its regret is NaN, in replication 0"):
        bl.play(bl.Direct(bl.UCB1(3)), Lost([0.2, 0.5, 0.9]), LAW, rounds=50, engine=engine)


def test_who_states_no_replacement_is_not_said_to_keep_something():
    with pytest.raises(Unsupported, match="the rule of First does not say that it can"):
        First(bl.UCB1(3)).replace(0)
