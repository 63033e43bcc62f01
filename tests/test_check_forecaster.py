"""Every forecaster of the catalog keeps the contract, and every check fails on its broken twin."""

from __future__ import annotations

import importlib.util
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated import checks
from belated.checks import CheckFailed
from belated.checks import forecaster as contract
from belated.checks import learner as learner_contract
from belated.checks.contract import allowed
from belated.checks.probes import OrderedProbe
from belated.errors import BadKernel, InvalidArgument, Unsupported
from belated.kernels.compile import COMPILED, kernel
from tests import broken_promises

ROOT = Path(bl.__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_forecaster.py"


def example() -> Any:
    """The forecaster of the example."""
    spec = importlib.util.spec_from_file_location("own_forecaster", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Batches


@pytest.fixture(autouse=True)
def own_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is entered here is gone afterwards."""
    table = dict(bl.catalog.FORECASTERS)
    monkeypatch.setattr(bl.catalog, "FORECASTERS", table)
    monkeypatch.setitem(bl.catalog.TABLES, "forecaster", {**bl.catalog.SHORTHANDS, **table})


def entered(monkeypatch: pytest.MonkeyPatch, kind: Any) -> Any:
    """As `catalog.add` enters it."""
    bl.catalog.FORECASTERS[kind.__name__.lower()] = kind
    bl.catalog.TABLES["forecaster"][kind.__name__.lower()] = kind  # type: ignore[index]
    return kind


# --- the catalog ---

LEARNERS = [
    bl.UCB1(3),
    bl.Exp3(3),
    bl.Hedge(3),
    bl.PerContext(bl.UCB1(3), 2),
    bl.DelayedHedge(3),
]
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "bold": [{}, {"pools": "value"}],
    "sdb": [{}, {"prior": ((0, 1.0), (2, 0.5), (0, 0.0))}],
}


def pairs() -> list[bl.Forecaster]:
    """All that accept each other."""
    found = []
    for name, kind in bl.catalog.FORECASTERS.items():
        for given in PARAMETERS.get(name, [{}]):
            for learner in LEARNERS:
                try:
                    found.append(kind(learner, **given))
                except Unsupported:
                    continue
    return found


#: What test_checks does not compile under every forecaster each time; the rest takes turns there, and in make soak.
TURNS = ("Paced(Hedge", "SDB(UCB1", "pools='value'")


@pytest.mark.parametrize("forecaster", pairs(), ids=repr)
def test_every_forecaster_of_the_catalog_keeps_the_contract(forecaster: bl.Forecaster) -> None:
    for check in contract.FORECASTER_CHECKS:
        if check is not contract.compiled_is_python or any(part in repr(forecaster) for part in TURNS):
            check(forecaster)


@pytest.mark.soak
@pytest.mark.parametrize("forecaster", pairs(), ids=repr)
def test_every_pair_compiled_is_python(forecaster: bl.Forecaster) -> None:
    contract.compiled_is_python(forecaster)


def test_nobody_is_left_out() -> None:
    assert {type(each).__name__.lower() for each in pairs()} == set(bl.catalog.FORECASTERS)
    assert sum(bool(each.parameters().get("prior")) for each in pairs()) == 1
    assert sum(each.parameters().get("pools") == "value" for each in pairs()) == 1
    assert len(pairs()) >= 20


# --- broken twins ---


class Sound(bl.Forecaster):
    """Direct, with a parameter: what its subclasses spoil."""

    every: int = 2

    def choose(self, room: Any, context: Any) -> Any:
        return room.seat(), *room.seat().ask(context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.seat().answer(letter, feedback)

    def release(self, room: Any, letter: Any) -> None:
        room.seat().lost(letter)


class Loses(Sound):
    """Copies of it have the parameter that it has by default."""

    def over(self, learner: Any, *, seed: int | None = None) -> Any:
        return type(self)(learner, seed=seed)


class Changes(Sound):
    """Another parameter each time that it is made."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", self.every + 1)
        super().__post_init__()


class Lists(Sound):
    """A parameter that can be changed within."""

    steps: Any = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", list(self.steps))
        super().__post_init__()


class Open(Sound):
    """Not frozen."""


Open.__setattr__ = object.__setattr__  # type: ignore[method-assign, assignment]


class Shares(Sound):
    """Counts in a list of the class: every second feedback is thrown away, whoever it is for."""

    count = [0]

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        self.count[0] += 1
        if self.count[0] % self.every:
            super().deliver(room, letter, feedback)


class TellsTwice(Sound):
    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        super().deliver(room, letter, feedback)
        super().deliver(room, letter, feedback)


class TellsOthersTwice(bl.BOLD):
    """The first instance is told once, all others twice."""

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        super().deliver(room, letter, feedback)
        if letter.seat:
            room.seat(letter.seat).tell(letter.context, letter.action, letter.probability, feedback)


class MakesUp(Sound):
    """What is lost is learned as zero."""

    def release(self, room: Any, letter: Any) -> None:
        room.seat().answer(letter, 0.0)


class TellsNothing(Sound):
    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        pass


class Boasts(Sound):
    """States an identity that is not one."""

    def identities(self, counts: Any) -> dict[str, Any]:
        return {"nothing is ever out": counts.summary["peak"] == 0}


#: What a rule that looks right keeps for each room, where nobody else knows of it.
BESIDE: Any = weakref.WeakKeyDictionary()


class KeepsBeside(Sound):
    """Every second prediction is asked for twice; which one it is stands beside the room."""

    def choose(self, room: Any, context: Any) -> Any:
        BESIDE[room] = BESIDE.get(room, 0) + 1
        if BESIDE[room] % self.every == 0:
            room.seat().ask(context)
        return super().choose(room, context)


class LooksAround(Sound):
    """Asks a process for what rooms do not have."""

    def choose(self, room: Any, context: Any) -> Any:
        assert room.issued >= 0
        return super().choose(room, context)


class ByTicket(Sound):
    """Looks at the ticket of what waited, which a service does not keep."""

    def choose(self, room: Any, context: Any) -> Any:
        while (found := room.pop(0)) is not None:
            if found[0].ticket % self.every:
                room.seat().answer(*found)
        return super().choose(room, context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.push(0, letter, feedback)


class OtherKernels(bl.Direct):
    """Its kernels forget every feedback of the first action."""

    def kernels(self, parts: Any) -> Any:
        usual, answer = super().kernels(parts), parts.answer

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            if slab[entry].action > 0:
                answer(params, pool[0], context, slab[entry])
            return False

        return usual._replace(deliver=kernel(deliver))


class Holds(bl.QPMD):
    """States the probability of a question as that of a held action."""

    propensity = True


class PicksAny(bl.SDB):
    """Plays what was asked for when other actions could be chosen; with a probability that is no propensity."""

    chooses_among = propensity = True


class RemembersTheOld(bl.Paced):
    """Feedback for an action that was replaced waits in its queue."""

    replaces = True


class States(Sound):
    """A number for a theorem."""

    def theorem(self, case: Any) -> Any:
        return 3.0


class LeavesItsMarks(bl.Paced):
    """Needs three marks."""

    kernels = bl.Paced.kernels

    def marks(self, instances: int) -> int:
        return 2


class LooksBack(bl.Direct):
    """Reads what lies before its marks."""

    def kernels(self, parts: Any) -> Any:
        usual = super().kernels(parts)
        choose = usual.choose

        def looks(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            marks[desk.steps - 1] += 0
            return choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally)

        return usual._replace(choose=kernel(looks))


class SaysHalf(Sound):
    """Says that each action was played with probability 1/2."""

    propensity = True

    def choose(self, room: Any, context: Any) -> Any:
        return room.seat(), room.seat().ask(context)[0], 0.5


class HoldsOn(Sound):
    """Plays each action of the learner twice, with the probability of its first draw."""

    propensity = True

    def layout(self) -> Any:
        return np.dtype([("action", "i8"), ("probability", "f8")])

    def choose(self, room: Any, context: Any) -> Any:
        said = room.seat().ask(context)
        if room.round % 2:
            room.notes["action"], room.notes["probability"] = said
        return room.seat(), int(room.notes["action"]), float(room.notes["probability"])


class FewMarks(bl.QPMD):
    """Its kernels write more marks than it says."""

    kernels = bl.QPMD.kernels

    def marks(self, instances: int) -> int:
        return 1


class NeverTells(Sound):
    """Puts all feedback into a queue, from which it takes nothing."""

    def queues(self):
        return 1

    def deliver(self, room, letter, feedback):
        room.push(0, letter, feedback)


class AnotherQueue(Sound):
    """Has one queue, and uses its third."""

    def queues(self):
        return 1

    def choose(self, room, context):
        seat = room.seat()
        if (found := room.pop(2)) is not None:
            seat.answer(*found)
        return seat, *seat.ask(context)

    def deliver(self, room, letter, feedback):
        room.push(2, letter, feedback)


BROKEN = [
    (contract.probabilities_are_propensities, SaysHalf, {}, "times, and says that it has probability 0.5"),
    (contract.probabilities_are_propensities, HoldsOn, {}, "draws of one decision"),
    (contract.keeps_its_parameters, Loses, {"every": 3}, "from fresh"),
    (contract.keeps_its_parameters, Changes, {}, "comes back"),
    (contract.keeps_its_parameters, Lists, {}, "hashed"),
    (contract.keeps_its_parameters, Open, {}, "can be changed"),
    (contract.keeps_all_in_its_room, Shares, {}, "lives beside it"),
    (contract.tells_once, TellsTwice, {}, "twice"),
    (contract.tells_once, TellsOthersTwice, {}, "twice"),
    (contract.tells_once, MakesUp, {}, "has not come"),
    (contract.tells_once, TellsNothing, {}, "nothing"),
    (contract.tells_once, NeverTells, {}, r"tells its learner nothing, though \d+ feedbacks wait"),
    (contract.tells_once, AnotherQueue, {}, r"into queue 2, and says queues\(\) = 1"),
    (contract.counts_are_certified, Boasts, {}, "nothing is ever out"),
    (contract.can_be_taken_back, KeepsBeside, {}, "taken back"),
    (contract.saved_continues, KeepsBeside, {}, "from_bytes"),
    (contract.lives_in_a_ledger, KeepsBeside, {}, "in a service"),
    (contract.lives_in_a_ledger, LooksAround, {}, "in a service"),
    (contract.lives_in_a_ledger, ByTicket, {}, "in a service"),
    (contract.compiled_is_python, OtherKernels, {}, "compiled and Python differ"),
    (contract.counts_are_certified, States, {}, "theorem of .* must return"),
    (contract.probabilities_are_propensities, Holds, {}, "draws of one decision"),
    (contract.probabilities_are_propensities, PicksAny, {}, "draws of one decision"),
    (contract.chooses_among_those, PicksAny, {}, "was to choose among"),
    (contract.forgets_what_was_replaced, RemembersTheOld, {}, "the action before it with that number"),
    (contract.kernels_stay_in_their_arrays, LeavesItsMarks, {}, r"marks\[2\] is outside .* in begin"),
    (contract.kernels_stay_in_their_arrays, LooksBack, {}, r"marks\[-1\] is outside .* in looks"),
]


@pytest.mark.parametrize(("check", "kind", "given", "says"), BROKEN, ids=lambda x: getattr(x, "__name__", None))
def test_a_check_fails_on_its_broken_twin(
    check: Any, kind: Any, given: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckFailed, match=says):
        check(entered(monkeypatch, kind)(bl.Hedge(3) if issubclass(kind, bl.Paced) else bl.UCB1(3), **given))


class KeepsItself(Sound):
    def choose(self, room: Any, context: Any) -> Any:
        self.count = 1  # type: ignore[misc]
        return super().choose(room, context)


class NoNotes(Sound):
    def choose(self, room: Any, context: Any) -> Any:
        room.notes["count"] += 1
        return super().choose(room, context)


class Grows(Sound):
    def choose(self, room: Any, context: Any) -> Any:
        seat = room.lowest_free()
        return seat, *seat.ask(context)


class Says(Sound):
    said: Any = None

    def choose(self, room: Any, context: Any) -> Any:
        seat = room.seat()
        seat.ask(context)
        return None if self.said is None else (seat, *self.said)


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        (KeepsItself, {}, r"choose, .*, line \d+: FrozenInstanceError.*room.notes.*\n    self.count = 1"),
        (NoNotes, {}, r"choose, .*, line \d+: TypeError.*no layout\(\), so there are no notes"),
        (Grows, {}, "say grows = True"),
        (Says, {"said": (3, 1.0)}, r"the rule chose action 3, outside 0\.\.2"),
        (Says, {"said": (0, 1.5)}, r"the rule gave probability 1.5, outside \(0, 1\]"),
        (Says, {"said": ("a", 1.0)}, r"choose must return \(action, probability\), got \('a', 1.0\)"),
        (Says, {}, r"choose must return \(seat, action, probability\), got None"),
    ],
)
def test_what_a_rule_does_wrong_is_told_with_its_place(kind: Any, given: Any, says: str) -> None:
    with pytest.raises(CheckFailed, match=f"(?s){says}"):
        checks.check_forecaster(kind(bl.UCB1(3), **given))


@pytest.mark.skipif(not COMPILED, reason="plain Python checks every index")
def test_kernels_that_write_outside_their_marks_are_found() -> None:
    game, law = bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.delays.Constant(3)
    with pytest.raises(BadKernel, match="write outside `marks`, which has 1 number"):
        bl.play(FewMarks(bl.UCB1(3)), game, law, rounds=100)


def test_a_bad_decision_of_a_rule_changes_nothing() -> None:
    f = Says(bl.UCB1(3), said=(3, 1.0))
    before = f._room.seats[0].learner.state.tobytes()
    with pytest.raises(bl.errors.BadPrediction):
        f.predict()
    assert f.outstanding == 0 and f._room.seats[0].learner.state.tobytes() == before


@pytest.mark.parametrize("size", [3, 100, 1000])
def test_feedback_that_waits_in_a_queue_is_no_fault(size: int) -> None:
    batches = example()(bl.UCB1(3), size=size)
    contract.tells_once(batches)
    contract.ends_every_prediction(batches)


def test_a_learner_that_wants_order_may_wait_for_its_first_feedback() -> None:
    contract.tells_once(bl.Direct(OrderedProbe()))


class Pool(bl.Forecaster):
    """Many instances; feedback waits until the next decision, and its instance is busy as long."""

    grows = True

    def choose(self, room: Any, context: Any) -> Any:
        while (found := room.pop(0)) is not None:
            room.seat(found[0].seat).answer(*found)
            room.free(found[0].seat)
        seat = room.lowest_free()
        return seat, *seat.ask(context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        room.push(0, letter, feedback)

    def release(self, room: Any, letter: Any) -> None:
        room.seat(letter.seat).lost(letter)
        room.free(letter.seat)


class Queued(Pool):
    """The same, and says that it has a queue."""

    def queues(self) -> int:
        return 1


def test_instances_that_are_busy_while_feedback_waits_are_saved_and_served(monkeypatch: pytest.MonkeyPatch) -> None:
    forecaster = entered(monkeypatch, Queued)(bl.Exp3(3))
    contract.saved_continues(forecaster)
    contract.lives_in_a_ledger(forecaster)


def test_a_service_must_know_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match=r"Pool puts feedback into a queue: say how many it has by queues\(\)"):
        contract.lives_in_a_ledger(entered(monkeypatch, Pool)(bl.UCB1(3)))
    with pytest.raises(bl.errors.InvalidArgument, match="seats is 0"):
        type("Empty", (Queued,), {"seats": 0})(bl.UCB1(3))


class Typed(Sound):
    every: int = 2
    share: float = 0.5
    fast: bool = False
    title: str = "x"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"every": "x"}, "every must be a whole number, got 'x'"),
        ({"every": None}, "every must be a whole number, got None"),
        ({"share": "x"}, "share must be a number, got 'x'"),
        ({"fast": 1}, "fast must be True or False, got 1"),
        ({"title": 3}, "title must be text, got 3"),
    ],
)
def test_parameters_are_what_they_are_annotated_as(given: Any, says: str) -> None:
    with pytest.raises(bl.errors.InvalidArgument, match=says):
        Typed(bl.UCB1(3), **given)
    assert Typed(bl.UCB1(3), every=np.int64(3), share=1).parameters()["share"] == 1.0


def test_a_misspelled_parameter_is_named_with_the_nearest() -> None:
    with pytest.raises(TypeError, match="Typed has no argument 'evry'; did you mean 'every'"):
        Typed(bl.UCB1(3), evry=3)  # type: ignore[call-arg]


def test_what_they_spoil_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.check_forecaster(entered(monkeypatch, Sound)(bl.UCB1(3), every=3))


def test_every_check_has_a_broken_twin() -> None:
    elsewhere = {check for check, *_ in broken_promises.TWINS} & set(contract.FORECASTER_CHECKS)
    assert {check for check, *_ in BROKEN} | elsewhere == set(contract.FORECASTER_CHECKS)


def test_a_forecaster_is_checked_over_a_spec() -> None:
    with pytest.raises(CheckFailed, match="a spec"):
        checks.check_forecaster(bl.Direct(Plain))


class Plain:
    actions = 2

    def predict(self, context: Any) -> tuple[int, float]:
        return 0, 1.0

    def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
        pass


@pytest.mark.parametrize(("stated", "says"), [({"grows": False}, "grows = True"), ({"pools": "two"}, "pools")])
def test_what_fails_in_another_way_is_told_as_a_failed_check(stated: Any, says: str) -> None:
    kind: Any = type("Twin", (bl.BOLD,), {"grows": stated.get("grows", True)})
    twin = kind(bl.UCB1(3))
    object.__setattr__(twin, "pools", stated.get("pools", "one"))
    with pytest.raises(CheckFailed, match=says):
        checks.check_forecaster(twin)


# --- the example ---


def test_the_example_keeps_the_contract_over_several_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = entered(monkeypatch, example())
    for learner in LEARNERS:
        forecaster = batches(learner, size=7)
        for check in contract.FORECASTER_CHECKS:
            if check is not contract.compiled_is_python or learner in LEARNERS[:1]:
                check(forecaster)


def test_size_matters_in_the_example() -> None:
    batches = example()
    game, law = bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.delays.Constant(0)
    small, large = (
        bl.play(batches(bl.UCB1(3), size=size), game, law, rounds=500, record=True, engine="python")
        for size in (1, 100)
    )
    direct = bl.play(bl.Direct(bl.UCB1(3)), game, law, rounds=500, record=True, engine="python")
    assert np.array_equal(small.actions, direct.actions) and not np.array_equal(large.actions, direct.actions)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"seats": "2"}, "seats of Odd must be a whole number, got '2'"),
        ({"seats": -1}, "seats of Odd must be >= 0, got -1"),
        ({"queues": lambda self: "1"}, r"queues\(\) of Odd must be a whole number, got '1'"),
        ({"queues": lambda self: -1}, r"queues\(\) of Odd must be >= 0, got -1"),
        ({"layout": lambda self: np.dtype("f8")}, r"layout\(\) of Odd must be None or a dtype with named fields"),
        ({"layout": lambda self: "f8"}, r"layout\(\) of Odd must be None or a dtype with named fields, got 'f8'"),
    ],
)
def test_a_rule_that_needs_what_cannot_be_is_refused(stated, says):
    kind = type("Odd", (Sound,), stated)
    with pytest.raises(InvalidArgument, match=says):
        kind(bl.UCB1(3))


def test_the_check_of_a_learner_does_not_depend_on_whose_forecasters_are_entered(monkeypatch):
    class TakesTurns(Sound):
        """Two instances in turn: not what the learner plays alone, and no kernels."""

        seats = 2

        def choose(self, room, context):
            seat = room.seat(room.round % 2)
            return seat, *seat.ask(context)

        def deliver(self, room, letter, feedback):
            room.seat(letter.seat).answer(letter, feedback)

        def release(self, room, letter):
            room.seat(letter.seat).lost(letter)

    monkeypatch.setitem(bl.catalog.FORECASTERS, "takesturns", TakesTurns)
    learner_contract.no_delay_is_the_base(bl.UCB1(3))
    learner_contract.saved_continues(bl.UCB1(3))
    assert TakesTurns not in allowed(bl.UCB1(3)) and bl.BOLD in allowed(bl.UCB1(3))
