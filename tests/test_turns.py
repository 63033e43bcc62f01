# ruff: noqa: F811  (fixtures are imported)
"""Whoever writes draws a number: where logs end is asked only where another process may have written since."""

import random
import re

import pytest

pytest.importorskip("psycopg", reason="PostgreSQL needs belated[postgres]")

from belated.errors import InvalidArgument
from belated.ledger.errors import Raced, Refused, StorageError
from belated.ledger.items import Decide, Feedback, Replace, Save
from belated.ledger.player import Player
from belated.ledger.postgres import Postgres
from belated.ledger.reads import Reads
from tests.postgres import cluster, database  # noqa: F401
from tests.test_postgres import DIRECT, assert_clean, at_once, create, find, ledgers, query

NAMES = ["e0", "e1", "e2"]


@pytest.fixture
def asked(monkeypatch):
    """How many heads were asked for, each time; of all logs: None."""
    counts, real = [], Reads._ask_heads

    def counted(self, experiments):
        counts.append(None if experiments is None else len(experiments))
        return real(self, experiments)

    monkeypatch.setattr(Reads, "_ask_heads", counted)
    return counts


@pytest.fixture
def races(monkeypatch):
    """Transactions that found that others had been faster. (The keys of events would not let a stale one through.)"""
    found, real = [], Raced.__init__

    def noted(self, *said):
        found.append(said)
        real(self, *said)

    monkeypatch.setattr(Raced, "__init__", noted)
    return found


def decide(ledger, *names):
    """A decision of each; their rounds."""
    return [made[0].round for made in ledger.serve([Decide(find(ledger, name), [None]) for name in names])]


def test_only_where_another_wrote(database, asked):
    with ledgers(database, 2) as (one, two):
        for name in NAMES:
            create(one, name, DIRECT)
        assert decide(one, *NAMES) == [1, 1, 1] and decide(one, *NAMES) == [2, 2, 2]
        asked.clear()
        assert decide(one, *NAMES) == [3, 3, 3] and decide(one, "e1") == [4] and asked == []
        assert decide(two, "e2") == [4]
        asked.clear()
        assert decide(one, *NAMES) == [4, 5, 5] and asked == [3]  # after the number was seen: one more round trip
        assert decide(one, "e0", "e1") == [5, 6] and asked == [3, 2]  # in the same: the other might go on
        assert decide(one, "e0", "e1") == [6, 7] and asked == [3, 2]
        assert decide(one, "e2") == [6] and asked == [3, 2]
        assert decide(two, *NAMES) == [7, 8, 7]
        asked.clear()
        assert decide(one, "e0") == [8] and decide(one, "e0") == [9] and asked == [1, 1]
        assert decide(one, "e0", "e1") == [10, 9] and asked == [1, 1, 1]  # what was not locked since then
        assert_clean(two)


def test_what_failed_is_looked_up_again(database, asked, monkeypatch):
    with ledgers(database, 1) as (ledger,):
        for name in NAMES:
            create(ledger, name, DIRECT)
        decide(ledger, *NAMES), decide(ledger, *NAMES)
        monkeypatch.setattr("belated.ledger.work.Work.make", lambda *_: 1 / 0)
        refused = ledger.serve([Decide(find(ledger, "e1"), [None])])
        assert [each.kind for each in refused] == ["internal"]
        monkeypatch.undo()
        assert decide(ledger, *NAMES) == [3, 3, 3]
        assert_clean(ledger)


def test_states_go_on_record_by_another(database):
    with ledgers(database, 2) as (one, two):
        create(one, "e0", DIRECT)
        assert [decide(one, "e0") for _ in range(3)] == [[1], [2], [3]]
        two.serve([Save(all=True)])
        assert decide(one, "e0") == [4]
        one.serve([Save(all=True)])
        assert decide(two, "e0") == [5] and decide(one, "e0") == [6]
        assert_clean(one)


@pytest.mark.parametrize("turn", [None, 1, 3, 5])
@pytest.mark.parametrize("what", ["another server", "another sequence", "a lost connection"])
def test_who_lacks_the_end_of_the_log_goes_on_from_where_it_ends(database, what, turn):
    """A standby that took over, or a backup that was put back: it may give out any numbers, lower ones too."""
    with ledgers(database, 1) as (ledger,):
        create(ledger, "e0", DIRECT)
        assert [decide(ledger, "e0")[0] for _ in range(8)] == list(range(1, 9))
        query(database, "DELETE FROM events WHERE place > 5")
        query(database, "DELETE FROM decisions WHERE round > 5")
        if turn is not None:
            query(database, f"SELECT setval('turns', {turn})")
        (body,) = query(database, "SELECT pg_get_functiondef('belated_lock'::regproc)")[0]
        if what == "another server":
            query(database, re.sub(r"server := [^;]*;", "server := 'another';", body))
        elif what == "another sequence":
            (last,) = query(database, "SELECT last_value FROM turns")[0]
            query(database, f"DROP SEQUENCE turns; CREATE SEQUENCE turns START {last + 1}")
        else:
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'belated'"
            query(database, f"{end}; SELECT setval('turns', {turn or 1})")
            with pytest.raises(StorageError), ledger.store.write():  # somebody else's transaction meets it first
                pass
        assert [decide(ledger, "e0")[0] for _ in range(3)] == [6, 7, 8]
        assert_clean(ledger)


def test_a_change_that_is_refused_when_it_had_begun(database, monkeypatch):
    """By a learner of somebody's own, say: what it did in memory is not taken for what is in the log."""
    with ledgers(database, 1) as (ledger,):
        create(ledger, "e0", DIRECT)
        assert [decide(ledger, "e0") for _ in range(3)] == [[1], [2], [3]]

        def refuses(*_):
            raise InvalidArgument("not this one")

        monkeypatch.setattr(Player, "replace", refuses)
        (said,) = ledger.serve([Replace(find(ledger, "e0"), "a", "z")])
        assert isinstance(said, Refused) and str(said) == "not this one"
        monkeypatch.undo()
        assert [decide(ledger, "e0") for _ in range(3)] == [[4], [5], [6]]
        assert_clean(ledger)


def test_many_at_once_and_nobody_is_surprised(database, races):
    """Each locks some logs in turn, and waits for others: whatever the order, it sees what they appended."""
    rounds = 40
    with ledgers(database, 3) as all_:
        for name in NAMES:
            create(all_[0], name, DIRECT)
        for ledger in all_:
            ledger.refresh()
        races.clear()
        seen = {name: [] for name in NAMES}

        def work(number):
            ledger, draw = all_[number], random.Random(number)
            for _ in range(rounds):
                names = draw.sample(NAMES, draw.randint(1, 3))
                for _ in range(draw.randint(1, 3)):  # alone for a while, or not
                    made = ledger.serve([Decide(ledger.find(name), [None]) for name in names])
                    told = [
                        Feedback(ledger.find(n), [(bytes.fromhex(m[0].ticket), 1.0)])
                        for n, m in zip(names, made, strict=True)
                    ]
                    for name, (each,) in zip(names, made, strict=True):
                        seen[name].append(each.round)
                    assert ledger.serve(told) == [["applied"]] * len(names)

        at_once(*(lambda number=number: work(number) for number in range(3)))
        assert races == []
        for name in NAMES:
            assert sorted(seen[name]) == list(range(1, len(seen[name]) + 1))
        assert_clean(all_[0])


def test_numbers_are_drawn_while_logs_are_locked(database):
    """In this order: who waited for a log has a higher number than who had it."""
    store = Postgres(database, serve=True)
    try:
        ((body,),) = query(database, "SELECT pg_get_functiondef('belated_lock'::regproc)")
    finally:
        store.close()
    assert 0 < body.index("FOR UPDATE") < body.index("nextval('turns')")
