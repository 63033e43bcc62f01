"""What a ticket carries and what a learner is told: memo, open, lost, order. Points and the rest: test_ticket_games.py.

`ticket_learners.Diary` writes down what it finds, and what it plays depends on that.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
import pytest

import belated as bl
from belated.checks import contract, forecaster
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels.random import key_of
from belated.ledger.database import open_store
from belated.ledger.experiment import make
from belated.ledger.items import Cancel, Create, Decide, Feedback, Replace
from belated.ledger.ledger import Ledger
from belated.ledger.verify import verify
from belated.protocols import NEEDED
from tests import ticket_learners as own
from tests.rows import states_now

KINDS = [bl.Direct, bl.BOLD, bl.QPMD, bl.Paced]
WILD = bl.delays.Trace(np.random.default_rng(4).choice([0, 0, 1, 5, 60, bl.NEVER], size=300))
LEARNERS = (own.Diary, own.BanditDiary, own.OrderedDiary, own.PlainDiary, own.Recalls, own.OrderedRecalls)


@pytest.fixture
def entered(monkeypatch):
    """The learners are in the catalog while a test runs, so that they can be saved and stored."""
    for each in LEARNERS:
        monkeypatch.setitem(bl.catalog.LEARNERS, each.__name__.lower(), each)


def told(f, ticket):
    return 0.5 if f.learner.feedback == "bandit" else [0.5, 0.25, (ticket % 7) / 7]


def drive(f, steps, seed, contexts=None, replaces=False):
    """Predictions, feedback, cancellations and replaced actions in a random order; returns G before each prediction."""
    rng = np.random.default_rng(seed)
    before = []
    for _ in range(steps):
        chance = rng.random()
        waiting = sorted(f._room.pending)
        if chance < 0.5 or not waiting:
            before.append(f.outstanding)
            f.predict(None if contexts is None else int(rng.integers(contexts)))
        elif replaces and chance < 0.53:
            f.replace(int(rng.integers(f.actions)))
        else:
            ticket = waiting[int(rng.integers(len(waiting)))]
            f.update(ticket, told(f, ticket)) if chance < 0.88 else f.cancel(ticket)
    return before


def states(f):
    return [np.asarray(seat.learner.state)[0] for seat in f._room.seats]


# --- memo ---


@pytest.mark.parametrize("kind", KINDS)
def test_the_memo_of_a_prediction_is_back_when_it_is_answered(kind):
    f = kind(own.Diary(), seed=1)
    drive(f, 600, 1)
    found = states(f)
    assert sum(each["answers"] for each in found) > 80
    assert sum(each["losses"] for each in found) > 20 or kind is bl.QPMD  # its base has other predictions than are lost
    assert all(each["wrong"] == 0 for each in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expiry", [None, 30])
def test_with_a_memo_compiled_is_python(kind, expiry):
    contract.compare(kind(own.Diary()), contract.arena(own.Diary(), 300), WILD, 300, expiry)


def test_dropped_feedback_is_lost_in_both_forms():
    game = bl.games.Replaced(3, 0.05, announced=True)
    for kind in (bl.Direct, bl.BOLD):
        contract.compare(kind(own.BanditDiary()), game, bl.delays.Geometric(mean=20), 300, 25)


@pytest.mark.parametrize("kind", KINDS)
def test_the_memo_is_saved(kind, entered):
    f = kind(own.Diary(), seed=2)
    drive(f, 300, 3)
    assert f.outstanding > 5
    g = bl.from_bytes(f.to_bytes())
    for each in (f, g):
        drive(each, 300, 4)
    assert f.to_bytes() == g.to_bytes()
    assert all(each["wrong"] == 0 for each in states(g))


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_keeps_the_memo(kind, entered):
    forecaster.lives_in_a_ledger(kind(own.Diary()))


def serve(path, learner, kind="direct", **options):
    """A ledger with one experiment over three actions."""
    ledger = Ledger(open_store(str(path), serve=True))
    experiment = make("one", ["a", "b", "c"], {"name": kind, "learner": {"name": learner}}, seed=5, **options)
    (made,) = ledger.serve([Create(experiment, ledger.prepare(experiment))])
    return ledger, made


def decide(ledger, made, count):
    (answers,) = ledger.serve([Decide(made, [None] * count)])
    return [bytes.fromhex(each.ticket) for each in answers]


def verdict(ledger):
    (report,) = verify(ledger.store)
    return report.verdict


def test_the_memo_is_a_column_of_decisions(tmp_path, entered):
    ledger, made = serve(tmp_path / "one.db", "diary")
    tickets = decide(ledger, made, 3)
    ledger.serve([Feedback(made, [(tickets[2], [0.0, 1.0, 0.5])])])
    decide(ledger, made, 1)
    rows = sqlite3.connect(tmp_path / "one.db").execute("SELECT number, action, memo FROM decisions ORDER BY number")
    for number, action, memo in rows:
        kept = np.frombuffer(memo)
        assert kept[0] == number and kept[2] == action and len(kept) == 3
    assert verdict(ledger) == "identical"
    ledger.store.close()


@dataclass(frozen=True)
class Short(own.Diary):
    point_size = 4


@dataclass(frozen=True)
class Many(own.Descends):
    actions = 2


def test_a_point_is_part_of_the_memo_and_one_action():
    with pytest.raises(InvalidArgument, match="Short has a memo of 3 numbers, and its point of 4"):
        bl.Direct(Short())
    with pytest.raises(InvalidArgument, match="Many plays points, which count as one action: actions is 2"):
        bl.Direct(Many())


@dataclass(frozen=True)
class Widens(bl.UCB1):
    """Its memo has a number for each action."""

    @property
    def memo(self):
        return self.actions


def test_one_more_action_is_refused_where_the_memo_would_change():
    bl.Direct(bl.UCB1(3)).check_grow()
    with pytest.raises(Unsupported, match="open decisions have a memo of 3 numbers, with one more it would be 4"):
        bl.Direct(Widens(3)).check_grow()


# --- open ---


@pytest.mark.parametrize("replaces", [False, True])
def test_open_is_what_is_outstanding_under_direct(replaces):
    f = bl.Direct(own.BanditDiary(), seed=1)
    before = drive(f, 800, 2, replaces=replaces)
    (state,) = states(f)
    assert state["opened"][1 : len(before) + 1].tolist() == before and max(before) > 20
    assert (f.dropped > 10) == replaces


@pytest.mark.parametrize("kind", [bl.BOLD, bl.QPMD])
def test_open_is_nothing_where_an_instance_waits_for_its_feedback(kind):
    f = kind(own.Diary(), seed=1)
    drive(f, 400, 2)
    assert sum(each["predictions"] for each in states(f)) > 50
    assert all(not each["opened"].any() for each in states(f))


def test_open_counts_what_is_queued_under_paced():
    f = bl.Paced(own.Diary(), seed=1)
    expected = []
    for t in range(1, 41):
        expected.append(f.outstanding + max(0, f.queued - 1))
        f.predict()
        if t % 8 == 0:
            for ticket in range(t - 7, t + 1):
                f.update(ticket, [0.5] * 3) if ticket % 3 else f.cancel(ticket)
    assert f.queued > 3
    assert states(f)[0]["opened"][1:41].tolist() == expected


def test_open_under_sdb_is_what_is_outstanding_for_the_instance_that_is_told_at_once():
    f = bl.SDB(own.PlainDiary(), seed=1)
    before = drive(f, 400, 2)
    base, second = states(f)
    assert second["opened"][1 : len(before) + 1].tolist() == before and max(before) > 20
    assert not base["opened"].any()
    game = contract.arena(own.PlainDiary(), 300)
    contract.compare(bl.SDB(own.PlainDiary()), game, WILD, 300, 30)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_that_needs_something_first_is_open_once(kind):
    f = kind(own.Needs(), seed=1)
    before = drive(f, 300, 2)
    assert min(each["below"] for each in states(f)) == 0
    if kind is bl.Direct:
        assert states(f)[0]["open"] == f.outstanding > 0 and len(before) > 100
    if kind in (bl.Direct, bl.Paced):
        contract.compare(f, contract.arena(own.Needs(), 300), WILD, 300, 30)


@dataclass(frozen=True)
class NeedsAmong(own.Needs):
    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        if params.have < state.predictions:
            return NEEDED, 1.0
        return allowed[state.open % len(allowed)], 1.0


def test_so_is_a_choice_among_some():
    instance = Instance(NeedsAmong(), key_of(0, 0), 0)
    assert [instance.predict_among(None, [0, 2])[0] for _ in range(8)] == [0, 2] * 4
    assert instance.predictions == instance.state["open"][0] == 8


# --- lost ---


def test_what_is_lost():
    f = bl.Direct(own.BanditDiary(), seed=1)
    first, second, third, fourth = (f.predict() for _ in range(4))
    f.cancel(second.ticket)
    f.replace(third.action)
    stale = [each for each in (first, third, fourth) if each.action == third.action]
    for each in stale:
        f.update(each.ticket, 0.5)
    (state,) = states(f)
    assert state["losses"] == 1 + len(stale) == 1 + f.dropped
    assert state["lost"][: state["losses"]].tolist() == [2, *(each.ticket for each in stale)]
    assert state["without"][: state["losses"]].tolist() == [second.action, *(-1 for _ in stale)]
    assert state["wrong"] == 0 and state["answers"] == 0
    f.replace(first.action if not stale.count(first) else fourth.action)


def test_a_cancelled_ticket_of_a_replaced_action_is_lost_without_action():
    f = bl.Direct(own.BanditDiary(), seed=1)
    d = f.predict()
    f.replace(d.action)
    f.cancel(d.ticket)
    assert states(f)[0]["without"][0] == -1 and states(f)[0]["open"] == 0


def test_an_instance_of_bold_is_told_its_own_number():
    f = bl.BOLD(own.Diary(), seed=1)
    for _ in range(3):
        f.update(f.predict().ticket, [0.5] * 3)
    first, other = f.predict(), f.predict()
    f.cancel(other.ticket)
    f.cancel(first.ticket)
    assert [each["lost"][0] for each in states(f)] == [4, 1]
    assert [each["open"] for each in states(f)] == [0, 0]


@pytest.mark.parametrize("kind", ["direct", "bold"])
def test_a_service_tells_of_losses_and_writes_the_state(kind, tmp_path, entered):
    ledger, made = serve(tmp_path / "one.db", "banditdiary", kind)
    tickets = decide(ledger, made, 12)
    ledger.serve([Cancel(made, tickets[:3])])
    (made,) = ledger.serve([Replace(made, "a", "d")])
    ledger.serve([Feedback(made, [(ticket, 0.5) for ticket in tickets[3:8]])])
    ledger.serve([Cancel(made, tickets[8:10])])
    decide(ledger, made, 1)
    with ledger.store.read() as session:
        found = [
            np.frombuffer(state.data, bl.kernels.states.state_dtype(made.learner))[0]
            for state in states_now(session, made)
        ]
    assert sum(each["open"] for each in found) == 3
    assert sum(each["answers"] + each["losses"] for each in found) == 10
    assert -1 in np.concatenate([each["without"][: each["losses"]] for each in found])
    assert not sum(each["wrong"] for each in found)
    assert verdict(ledger) == "identical"
    ledger.store.close()


# --- in order ---


def test_feedback_is_told_in_order():
    f = bl.Direct(own.OrderedDiary(), seed=1)
    drive(f, 600, 5)
    for ticket in sorted(f._room.pending):
        f.cancel(ticket)
    f.predict()
    (state,) = states(f)
    numbers = state["told"][: state["answers"]].tolist()
    assert numbers == sorted(numbers) and len(numbers) > 100
    assert state["wrong"] == 0 and state["open"] == 1
    assert sorted(numbers + state["lost"][: state["losses"]].tolist()) == list(range(1, state["predictions"]))


def test_a_ticket_closes_when_its_feedback_is_held_back():
    f = bl.Direct(own.OrderedDiary(), seed=1)
    f.predict(), f.predict()
    f.update(2, [0.5] * 3)
    f.predict()
    assert f.outstanding == 2 and states(f)[0]["answers"] == 0 and states(f)[0]["open"] == 3
    with pytest.raises(bl.errors.ClosedTicket):
        f.update(2, [0.5] * 3)
    f.update(1, [0.5] * 3)
    f.predict()
    assert states(f)[0]["told"][:3].tolist() == [1, 2, 0]


@pytest.mark.parametrize("law", [WILD, bl.delays.Geometric(mean=30), bl.delays.Trace([3, bl.NEVER, *[2] * 298])])
@pytest.mark.parametrize("expiry", [None, 30])
def test_in_order_compiled_is_python(law, expiry):
    contract.compare(bl.Direct(own.OrderedDiary()), contract.arena(own.Diary(), 300), law, 300, expiry)


def test_feedback_that_never_comes_blocks_all_after_it():
    f = bl.Direct(own.OrderedDiary(), seed=1)
    for _ in range(20):
        f.predict()
    for ticket in range(20, 0, -1):
        if ticket != 4:
            f.update(ticket, [0.5] * 3)
    f.predict()
    assert states(f)[0]["told"][:5].tolist() == [1, 2, 3, 0, 0]
    f.cancel(4)
    f.predict()
    assert states(f)[0]["told"][:19].tolist() == [1, 2, 3, *range(5, 21)]


def test_what_is_held_back_is_saved(entered):
    f = bl.Direct(own.OrderedDiary(), seed=2)
    drive(f, 300, 3)
    assert len(f._room.queues) > 5
    g = bl.from_bytes(f.to_bytes())
    for each in (f, g):
        drive(each, 300, 4)
    assert f.to_bytes() == g.to_bytes()


def test_a_service_holds_back(entered):
    forecaster.lives_in_a_ledger(bl.Direct(own.OrderedDiary()))


def test_who_refuses_what():
    with pytest.raises(Unsupported, match="Paced cannot play OrderedDiary, which must be told in order"):
        bl.Paced(own.OrderedDiary())
    with pytest.raises(Unsupported, match="SDB cannot play OrderedDiary: it writes a memo"):
        bl.SDB(own.OrderedDiary())
    with pytest.raises(Unsupported, match="SDB cannot play BanditDiary: it writes a memo"):
        bl.SDB(own.BanditDiary())
    with pytest.raises(Unsupported, match="prior is for learners that do not count their open predictions"):
        bl.SDB(own.PlainDiary(), prior=[(0, 1.0)])
    with pytest.raises(Unsupported, match="SDB cannot play Exp3: its update uses the probability"):
        bl.SDB(bl.Exp3(3))
    with pytest.raises(Unsupported, match="use Direct or BOLD"):
        bl.Paced(own.OrderedDiary())
    with pytest.raises(Unsupported, match="cannot replace"):
        bl.Direct(own.OrderedDiary()).replace(0)


# --- for each value of the side information ---


@pytest.mark.parametrize("kind", [*KINDS, lambda learner, **o: bl.BOLD(learner, pools="value", **o)])
def test_copies_get_their_own(kind):
    f = kind(bl.PerContext(own.Recalls(), 3), seed=1)
    drive(f, 900, 2, contexts=3)
    copies = np.concatenate([each["copies"] for each in states(f)])
    assert copies["ended"].sum() > 100 and (copies["below"] == 0).all()
    assert not copies["wrong"].any()
    open_ = {value: 0 for value in range(3)}
    for letter in f._room.pending.values():
        open_[int(letter.context[0])] += 1
    if isinstance(f, bl.Direct):
        assert copies["open"].tolist() == list(open_.values()) and (copies["most"] > 5).all()
    if isinstance(f, bl.BOLD | bl.QPMD):
        assert not copies["most"].any()


@pytest.mark.parametrize("kind", [bl.Direct, bl.QPMD])
def test_copies_in_both_forms(kind):
    learner = bl.PerContext(own.Recalls(), 3)
    for expiry in (None, 30):
        contract.compare(kind(learner), contract.arena(learner, 300), WILD, 300, expiry)


def test_copies_are_told_in_order(entered):
    learner = bl.PerContext(own.OrderedRecalls(), 2)
    assert bl.Direct(learner).in_order
    contract.compare(bl.Direct(learner), contract.arena(learner, 300), WILD, 300, 30)
    forecaster.lives_in_a_ledger(bl.Direct(learner))


def test_copies_of_delayed_hedge_count_their_own():
    learner = bl.PerContext(bl.DelayedHedge(3), 2)
    f = bl.Direct(learner, seed=1)
    tickets = [f.predict(c).ticket for c in (0, 0, 1, 0)]
    f.update(tickets[0], [1.0, 0.0, 0.0])
    f.cancel(tickets[2])
    (state,) = states(f)
    assert state["copies"]["open"].tolist() == [2, 0]
    assert state["copies"]["total"].tolist() == [3.0, 0.0]


def test_copies_that_play_points_are_refused():
    with pytest.raises(Unsupported, match="PerContext takes learners that choose actions, got Descends"):
        bl.PerContext(own.Descends(), 2)


def test_copies_have_the_range_of_their_learner():
    learner = bl.PerContext(own.Wide(2), 2)
    assert (learner.smallest, learner.largest, learner.feedback_size) == (0.0, 10.0, 1)
