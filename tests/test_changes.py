# ruff: noqa: F811  (fixtures are imported)
"""Experiments change, are archived and come back, and go with all their data; large requests are served in slices."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("psycopg")

from belated.errors import InvalidArgument
from belated.ledger import access, erase, experiment
from belated.ledger.database import open_store
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import (
    Archive,
    By,
    Cancel,
    Change,
    Create,
    Decide,
    Delete,
    Erase,
    Feedback,
    Sweep,
    Upkeep,
)
from belated.ledger.ledger import Ledger
from belated.ledger.store import Store
from belated.ledger.verify import verify
from belated.service.limits import slices
from tests.postgres import cluster  # noqa: F401

TABLES = ("events", "decisions", "states", "checkpoints", "queue", "keys", "remarks", "counters", "folds")


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Store]:
    address = str(tmp_path / "a.db")
    if request.param == "postgresql":
        address = request.getfixturevalue("cluster").new()
    made = open_store(address, serve=True)
    made.address = address  # type: ignore[attr-defined]
    yield made
    made.close()


def create(ledger: Ledger, name: str = "ads", forecaster: str = "bold(ucb1)", **more: Any) -> Experiment:
    wanted = experiment.make(name, ["a", "b", "c"], forecaster, seed=5, **more)
    (made,) = ledger.serve([Create(wanted, ledger.prepare(wanted), By("boss", "::1"))])
    assert isinstance(made, Experiment), made
    return made


def one(ledger: Ledger, item: Any) -> Any:
    (answer,) = ledger.serve([item])
    return answer


def count(store: Store, table: str, number: int | None = None) -> int:
    with store.read() as session:
        where = "" if number is None else f" WHERE experiment = {number}"
        return int(session.ask(f"SELECT count(*) FROM {table}{where}")[0][0])


def verdicts(store: Store) -> dict[str, str]:
    return {report.experiment: report.verdict for report in verify(store)}


# --- rules ---


@pytest.mark.parametrize("forecaster", ["bold(ucb1)", "bold(percontext(ucb1, contexts=2), pools=value)", "qpmd(ucb1)"])
def test_each_change_is_an_event_that_verify_follows(store: Store, forecaster: str) -> None:
    ledger = Ledger(store)
    ads = create(ledger, forecaster=forecaster)
    context = ads.context([1.0]) if "percontext" in forecaster else None
    one(ledger, Change(ads, {"limits": {"outstanding": 20}}))  # before there is any state
    one(ledger, Decide(ads, [context] * 3))
    for rules in (
        {"expiry_seconds": 60.0},
        {"on_expiry": 0.5},
        {"limits": {"outstanding": 5}, "retention_seconds": 120.0},
        {"expiry_seconds": None, "on_expiry": "drop"},
    ):
        changed = one(ledger, Change(ads, rules, By("boss", "::1")))
        assert rules.items() <= changed.spec().items()
        assert Ledger(store).find("ads").spec() == changed.spec()
    assert changed.changes == 5 and changed.spec()["retention_seconds"] == 120.0
    same = one(ledger, Change(ads, {"retention_seconds": 120.0}))
    assert same.changes == 5
    made = one(ledger, Decide(ads, [context] * 2))
    assert made[0].expires_at is None
    refused = one(ledger, Decide(ads, [context]))
    assert refused.kind == "too_many_outstanding"
    assert ledger.statistics(ads)["outstanding"] == 5
    assert verdicts(store) == {"ads": "identical"}
    with store.read() as session:
        values = [row[0] for row in session.ask("SELECT value FROM events WHERE kind = 'change' ORDER BY seq")]
        notes = access.notes(session, 10)
    assert json.loads(values[-1]) == {"expiry_seconds": [60.0, None], "on_expiry": [0.5, "drop"]}
    assert [(note.who, note.what, note.experiment) for note in notes[-1:]] == [("boss", "changed", "ads")]


def test_verify_sees_a_change_that_is_not_on_record(store: Store) -> None:
    ledger = Ledger(store)
    ads = create(ledger)
    for seconds in (60.0, 90.0):
        one(ledger, Change(ads, {"expiry_seconds": seconds}))
    assert verdicts(store) == {"ads": "identical"}
    with store.read() as session:
        (spec,) = session.ask("SELECT spec FROM experiments")[0]
    for wrong in (
        spec.replace("90.0", "91.0"),  # the rule
        spec.replace('"changes": 2', '"changes": 3'),
        spec.replace(', "changes": 2', ""),
    ):
        assert wrong != spec
        with store.write() as session:
            session.tell("UPDATE experiments SET spec = ?", (wrong,))
        assert verdicts(store) == {"ads": "different"}
    with store.write() as session:
        session.tell("UPDATE experiments SET spec = ?", (spec,))
        session.tell("UPDATE events SET value = replace(value, '60.0', '61.0') WHERE seq = 2")
    assert verdicts(store) == {"ads": "different"}
    with store.write() as session:
        session.tell("DELETE FROM events WHERE seq = 1")
    assert verdicts(store) == {"ads": "different"}


def test_what_makes_no_sense_is_refused(store: Store) -> None:
    ledger = Ledger(store)
    ads, full = create(ledger), create(ledger, "full", "bold(hedge)")
    cases: list[tuple[Experiment, dict[str, Any], str]] = [
        (ads, {"expiry_seconds": -1}, "expiry_seconds must be > 0, got -1"),
        (ads, {"on_expiry": 7.0}, "on_expiry must be <= 1, got 7.0"),
        (ads, {"on_expiry": "lose"}, "on_expiry must be 'drop' or a reward, got 'lose'"),
        (ads, {"limits": {"speed": 1}}, "limits has no 'speed'; it takes outstanding"),
        (ads, {"retention_seconds": 1}, "retention_seconds must be >= 60, got 1"),
        (ads, {"seed": 3}, "'seed' cannot be changed; these can: expiry_seconds,"),
        (full, {"on_expiry": 0.5}, "on_expiry must be 'drop' for Hedge"),
    ]
    for given, rules, said in cases:
        answer = one(ledger, Change(given, rules))
        assert isinstance(answer, Refused) and said in str(answer)
    assert count(store, "events") == 0


def test_open_decisions_keep_their_time_and_expire_by_the_new_rule(store: Store) -> None:
    ledger = Ledger(store)
    ads = create(ledger, expiry_seconds=0.05)
    one(ledger, Decide(ads, [None] * 2))
    one(ledger, Change(ads, {"expiry_seconds": None, "on_expiry": 0.25}))
    time.sleep(0.06)
    one(ledger, Sweep())
    told = ledger.statistics(ads)
    assert (told["expired"], told["outstanding"]) == (2, 0)
    with store.read() as session:
        assert session.ask("SELECT DISTINCT state, value FROM decisions") == [("expired", "0.25")]
    assert verdicts(store) == {"ads": "identical"}


def test_archived_and_back(store: Store) -> None:
    ledger = Ledger(store)
    ads = create(ledger)
    one(ledger, Archive(ads))
    assert one(ledger, Decide(ads, [None])).kind == "archived"
    back = one(ledger, Archive(ads, By("boss"), undo=True))
    assert back.archived_at is None and len(one(ledger, Decide(ads, [None]))) == 1
    with store.read() as session:
        assert [note.what for note in access.notes(session, 9)] == ["created", "archived", "un-archived"]


# --- deleting ---


def fill(ledger: Ledger, name: str, forecaster: str) -> Experiment:
    """Something in every table."""
    made = create(ledger, name, forecaster, retention_seconds=60.0)
    decided = one(ledger, Decide(made, [None] * 8, None, "key", b"digest"))
    tickets = [bytes.fromhex(each.ticket) for each in decided]
    one(ledger, Feedback(made, [(ticket, 0.5) for ticket in tickets[:5]]))
    one(ledger, Feedback(made, [(tickets[0], 0.75), (b"never given out.", 0.5)]))
    ledger.folder.catch_up()
    with ledger.store.write() as session:
        session.set_meta(f"checkpointed {made.id}", "0.0")
    one(ledger, Upkeep())
    return made


def test_deleted_with_all_data_and_nothing_else(store: Store) -> None:
    ledger = Ledger(store)
    ads, other = fill(ledger, "ads", "qpmd(ucb1)"), fill(ledger, "other", "bold(ucb1)")
    assert all(count(store, table, ads.id) for table in TABLES)
    before = {table: count(store, table, other.id) for table in TABLES}
    gone = one(ledger, Delete(ads, By("boss", "::1")))
    assert gone.name == "ads" and ledger.erasing
    for item in (Decide(ads, [None]), Feedback(ads, [(b"x" * 16, 1.0)]), Cancel(ads, []), Archive(ads), Delete(ads)):
        answer = one(ledger, item)
        assert isinstance(answer, Refused) and answer.kind == "unknown_experiment"
    assert len(one(ledger, Decide(other, [None]))) == 1
    again = create(ledger)  # the name is free at once
    ledger = Ledger(store)
    assert ledger.erasing  # who comes later goes on
    steps = 0
    while one(ledger, Erase(limit=3)):
        steps += 1
    assert steps > 5 and not ledger.erasing
    assert not any(count(store, table, ads.id) for table in TABLES)
    with store.read() as session:
        assert erase.deleted(session) == {} and session.meta(f"checkpointed {ads.id}") is None
        assert [note.detail for note in access.notes(session, 9) if note.what == "deleted"] == ["with all data"]
    ledger.folder.catch_up()
    one(ledger, Upkeep())
    after = {table: count(store, table, other.id) for table in TABLES}
    assert {table for table in TABLES if after[table] < before[table]} == set()
    assert ledger.statistics(other)["decisions"] == 9 and ledger.statistics(again)["decisions"] == 0
    assert not count(store, "folds", ads.id)
    assert verdicts(store) == {"ads": "identical", "other": "identical"}


def test_another_process_learns_that_it_is_gone(cluster: Any) -> None:
    address = cluster.new()
    one_, two = (Ledger(open_store(address, serve=True)) for _ in range(2))
    try:
        ads = create(one_)
        two.refresh()
        here = two.find("ads")
        one(two, Decide(here, [None]))
        two.folder.catch_up()
        one(one_, Delete(ads))
        answer = one(two, Decide(here, [None]))
        assert isinstance(answer, Refused) and answer.kind == "unknown_experiment"
        while one(one_, Erase()):
            pass
        one(two, Upkeep())
        assert count(two.store, "folds") == count(two.store, "states") == 0
        with pytest.raises(Refused):
            two.find("ads")
    finally:
        one_.store.close()
        two.store.close()


# --- slices ---


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of four."""
    monkeypatch.setattr(experiment, "TOGETHER", 4)


def test_a_slice_costs_as_much_as_its_states_are_large() -> None:
    small = experiment.make("small", ["a", "b"], "bold(ucb1)")
    large = experiment.make("large", ["a", "b"], "bold(linucb(features=150))")
    assert small.slice == 2000 and 100 <= large.slice <= 500
    item = Decide(large, [None] * 1100)
    parts = list(slices(item))
    assert sum(len(part.contexts) for part in parts) == 1100 and len(parts) >= 3
    assert parts[0].after == 1100 - len(parts[0].contexts) and parts[-1].after == 0
    assert [part.before for part in parts] == [len(parts[0].contexts) * i for i in range(len(parts))]


def test_an_interrupted_request_goes_on_under_its_key(store: Store, small: None) -> None:
    ledger = Ledger(store)
    ads = create(ledger)
    item = Decide(ads, [None] * 10, None, "key", b"digest")
    parts = list(slices(item))
    assert [len(part.contexts) for part in parts] == [4, 4, 2]
    first = [one(ledger, part) for part in parts[:2]]  # and then the process is killed
    ledger = Ledger(store)
    again = [one(ledger, part) for part in slices(item)]
    assert again[:2] == first and len(again[2]) == 2
    assert [each.round for part in again for each in part] == list(range(1, 11))
    assert one(ledger, item) == [each for part in again for each in part]
    assert [one(ledger, part) for part in parts] == again
    assert one(ledger, Decide(ads, [None] * 10, None, "key", b"other")).kind == "key_reused"
    assert ledger.statistics(ads)["decisions"] == 10


def test_the_limit_is_looked_at_for_the_whole_request(store: Store, small: None) -> None:
    ledger = Ledger(store)
    ads = create(ledger, limits={"outstanding": 9})
    parts = list(slices(Decide(ads, [None] * 10)))
    assert one(ledger, parts[0]).kind == "too_many_outstanding"
    assert [len(one(ledger, part)) for part in slices(Decide(ads, [None] * 9))] == [4, 4, 1]
    one(ledger, Archive(ads))
    assert len(one(ledger, parts[1])) == 4  # what has begun comes to its end


def test_two_processes_go_on_with_one_key(cluster: Any, small: None) -> None:
    import threading

    address = cluster.new()
    both = [Ledger(open_store(address, serve=True)) for _ in range(2)]
    try:
        create(both[0])
        both[1].refresh()
        answers: list[list[Any]] = [[], []]

        def ask(number: int) -> None:
            ledger = both[number]
            for part in slices(Decide(ledger.find("ads"), [None] * 40, None, "key", b"digest")):
                answers[number] += one(ledger, part)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers[0] == answers[1] and len(answers[0]) == 40
        assert count(both[0].store, "decisions") == 40
    finally:
        for ledger in both:
            ledger.store.close()


# --- names ---


def test_names_that_cannot_be_seen_are_refused_and_old_ones_open(store: Store) -> None:
    ledger = Ledger(store)
    ads = create(ledger)
    for letter in ("\x00", "\n", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200f", "\u2028", "\u061c",
                   "\u200b", "\xad", "\ufeff", "\u2060", "\u3164"):  # fmt: skip
        with pytest.raises(InvalidArgument, match=f"U[+]{ord(letter):04X}, which cannot be seen"):
            experiment.make("names", ["a", f"b{letter}c"], "bold(ucb1)")
        with pytest.raises(InvalidArgument, match="cannot be seen"):
            ads.renamed(0, f"b{letter}c", 0, 1)
        with pytest.raises(InvalidArgument, match="cannot be seen"):
            ads.grown(f"b{letter}c")
    for name in ("é", "日本", "a b", "👩\u200d🔬", "<b>", "עברית"):
        assert experiment.make("names", ["a", name], "bold(ucb1)").actions[1] == name
    old = ads.row()._replace(spec=ads.row().spec.replace('"b"', '"b\\u202ec"'))
    assert Experiment.from_row(old).actions[1] == "b\u202ec"
    assert Experiment.from_row(old).renamed(1, "plain", 0, 1).actions[1] == "plain"


def test_a_delete_that_was_not_carried_out_deletes_nothing(store: Store) -> None:
    """Its client left while it waited."""
    ledger = Ledger(store)
    ads = create(ledger)
    asked = Delete(ads)
    assert asked.leave()
    assert isinstance(one(ledger, asked), Refused)
    assert len(one(ledger, Decide(ads, [None]))) == 1
    assert verdicts(store) == {"ads": "identical"}


def test_an_experiment_deleted_elsewhere_is_not_named_as_one_that_cannot_be_opened(tmp_path: Any) -> None:
    address = str(tmp_path / "a.db")
    first = open_store(address, serve=True)
    ledger = Ledger(first)
    create(ledger)
    with first.write() as session:
        session.tell("UPDATE experiments SET spec = '{'", ())
    first.close()
    again = open_store(address, serve=True)
    ledger = Ledger(again)
    assert set(ledger.unopened()) == {"ads"}
    with again.write() as session:
        session.tell("DELETE FROM experiments", ())
    ledger._generation = None  # as on PostgreSQL, where others change it
    ledger.refresh()
    assert not ledger.unopened()
    again.close()
