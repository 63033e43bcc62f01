"""Faults stay where they are: a damaged row, an unknown learner, a newer version harm one experiment and no other."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from typer.testing import CliRunner  # noqa: E402

import belated as bl  # noqa: E402
from belated.cli import app  # noqa: E402
from belated.ledger import faults, schema, upkeep  # noqa: E402
from belated.ledger.database import is_postgres, open_store  # noqa: E402
from belated.ledger.errors import Damaged, Refused, StorageError  # noqa: E402
from belated.ledger.experiment import make  # noqa: E402
from belated.ledger.export import export  # noqa: E402
from belated.ledger.items import Cancel, Create, Decide, Feedback, Probe, Save, Sweep, Upkeep, ticket_of  # noqa: E402
from belated.ledger.ledger import Ledger  # noqa: E402
from belated.ledger.verify import verify  # noqa: E402
from tests.postgres import cluster, database  # noqa: E402, F401
from tests.rows import all_decisions, save  # noqa: E402


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "a.db")
    made: str = request.getfixturevalue("database")
    return made


def execute(address: str, sql: str) -> list[Any]:
    """What somebody else does to the database."""
    if is_postgres(address):
        with psycopg.connect(address, autocommit=True) as connection:
            done = connection.execute(sql.replace("x'00'", "'\\x00'::bytea"))
            return list(done.fetchall()) if done.description else []
    with closing(sqlite3.connect(address, isolation_level=None)) as connection:
        return list(connection.execute(sql).fetchall())


def plain(store: Any) -> Ledger:
    """A ledger that compiles nothing."""
    return Ledger(store, lambda experiment, instance, ready: None)


def created(ledger: Ledger, name: str, forecaster: str, **more: Any) -> Any:
    new = make(name, ["a", "b"], forecaster, seed=3, expiry_seconds=3600, **more)
    (found,) = ledger.serve([Create(new, ledger.prepare(new))])
    return found


def decided(ledger: Ledger, name: str, count: int) -> Any:
    return ledger.serve([Decide(ledger.find(name), [None] * count)])[0]


def fill(address: str, names: Sequence[str] = ("sick",)) -> dict[str, int]:
    """Experiments of which some will be damaged, and one will not: `well`. Their numbers."""
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        for name in (*names, "well"):
            forecaster = "bold(exp3)" if name == "well" else "qpmd(percontext(ucb1, contexts=2))"
            made = created(ledger, name, forecaster, retention_seconds=60)
            contexts = [None if name == "well" else made.context([n % 2]) for n in range(9)]
            (first,) = ledger.serve([Decide(made, contexts[:8], None, "a key", b"its digest")])
            tickets = [ticket_of(each.ticket) for each in first]
            ledger.serve([Feedback(made, [(ticket, 1.0) for ticket in tickets[:4]])])
            ledger.serve([Feedback(made, [(tickets[0], 0.5), (b"none of our own.", 0.5)]), Cancel(made, [tickets[4]])])
        ledger.folder.catch_up()
        found = {each.name: each.id for each in ledger.experiments()}
        with store.write() as session:
            for number in found.values():
                session.set_meta(f"checkpointed {number}", "0.0")
        ledger.serve([Upkeep()])
        context = None if names == () else ledger.find(names[0]).context([0])
        last = [Decide(each, [None if each.name == "well" else context]) for each in ledger.experiments()]
        ledger.serve(last)
    execute(address, "UPDATE decisions SET expires_at = 1.0 WHERE state = 'open' AND round = 8")
    return found


def spec_with(old: str, new: str) -> str:
    return f"UPDATE experiments SET spec = replace(spec, '{old}', '{new}') WHERE id = {{id}}"


#: What happens to a row of each table, and what the experiment says then: of everything, or of some things only.
DAMAGES = {
    "experiments spec": ("UPDATE experiments SET spec = '{{' WHERE id = {id}", "cannot be opened"),
    "experiments learner": (spec_with('"ucb1"', '"ucb9"'), "ucb9"),
    "experiments field": (spec_with('"seed"', '"pace"'), "its spec says 'pace', which this version"),
    "experiments version": ("UPDATE experiments SET version = 99 WHERE id = {id}", "version 99"),
    "experiments layout": ("UPDATE experiments SET layout = 'x' WHERE id = {id}", "layout x"),
    "states": ("UPDATE states SET state = x'00' WHERE experiment = {id}", "state 0 has 1 bytes"),
    "states held": ("UPDATE states SET held = x'00' WHERE experiment = {id}", "the notes of its rule"),
    "states gone": ("DELETE FROM states WHERE experiment = {id}", "state 0 is missing"),
    "queue": ("UPDATE queue SET value = x'00' WHERE experiment = {id}", ""),
    "decisions action": ("UPDATE decisions SET action = 99 WHERE experiment = {id}", "cannot be what was decided"),
    "decisions context": ("UPDATE decisions SET context = x'00' WHERE experiment = {id}", "cannot be what was decided"),
    "decisions allowed": ("UPDATE decisions SET allowed = '{{' WHERE experiment = {id}", ""),
    "events kind": ("UPDATE events SET kind = '?' WHERE experiment = {id}", ""),
    "events action": ("UPDATE events SET action = 99 WHERE experiment = {id}", ""),
    "events value": ("UPDATE events SET value = '{{' WHERE experiment = {id}", ""),
    "remarks": ("UPDATE remarks SET value = '{{' WHERE experiment = {id}", ""),
    "keys": ("UPDATE keys SET answer = '{{' WHERE experiment = {id}", "what the key 'a key' was answered"),
    "folds": ("UPDATE folds SET counters = '{{' WHERE experiment = {id}", ""),
    "folds gone": ("DELETE FROM folds WHERE experiment = {id}", ""),
    "folds shape": ("""UPDATE folds SET counters = '{{"pulls": [1], "kinds": {{}}}}' WHERE experiment = {id}""", ""),
    "checkpoints": ("UPDATE checkpoints SET state = x'00', queue = x'00' WHERE experiment = {id}", ""),
    "meta": ("UPDATE meta SET value = 'x' WHERE key = 'checkpointed {id}'", ""),
    "meta note": ("INSERT INTO meta VALUES ('unfolded {id}', 'x')", ""),
}
#: SQLite has no types that hold.
LOOSE = {
    "counters": ("UPDATE counters SET count = 'x' WHERE experiment = {id}", ""),
    "folds upto": ("UPDATE folds SET upto = 'x' WHERE experiment = {id}", ""),
    "decisions state": ("UPDATE decisions SET action = 'x' WHERE experiment = {id}", "cannot be what was decided"),
}


def attempts(ledger: Ledger, name: str) -> list[Any]:
    """Everything that can be asked of an experiment: answers, or how it refuses."""

    def attempt(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Refused as refusal:
            return refusal

    known = attempt(lambda: ledger.find(name))
    if isinstance(known, Refused):
        return [known]
    with ledger.store.read() as session:
        rows = all_decisions(session, known.id)
    (row,) = [row for row in rows if row.round == 6]
    context = None if name == "well" else known.context([0])
    asked = [Decide(known, [context]), Feedback(known, [(row.ticket, 1.0)]), Cancel(known, [rows[6].ticket])]
    answers = [ledger.serve([item])[0] for item in (Decide(known, [context], None, "a key", b"its digest"), *asked)]
    answers += [attempt(lambda: ledger.statistics(known)), attempt(lambda: ledger.decision(known, rows[0].ticket))]
    return answers


def test_a_damaged_row_harms_one_experiment(address: str) -> None:
    """A row of each table, each of another experiment, all at once."""
    damages = DAMAGES if is_postgres(address) else DAMAGES | LOOSE
    names = {what: f"sick-{at}" for at, what in enumerate(damages)}
    numbers = fill(address, list(names.values()))
    for what, (damage, _) in damages.items():
        execute(address, damage.format(id=numbers[names[what]]))
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        while ledger.serve([Sweep()])[0]:
            pass
        assert ledger.serve([Upkeep()])[0] in (True, False)
        for what, (_, said) in damages.items():
            refused = [each for each in attempts(ledger, names[what]) if isinstance(each, Refused)]
            assert any(said in str(each) for each in refused) if said else what, (what, refused)
            number = f"experiment {numbers[names[what]]}"
            assert all(names[what] in str(each) or number in str(each) for each in refused), (what, refused)
        answers = attempts(ledger, "well")
        assert not [each for each in answers if isinstance(each, Refused)], answers
        assert answers[2:4] == [["applied"], ["cancelled"]]
        assert [answers[4][name] for name in ("decisions", "feedback", "expired")] == [10, 5, 1]
        known = ledger.folder.overview(ledger.experiments())["experiments"]
        troubled = {each.name for each, told in zip(ledger.experiments(), known, strict=True) if "trouble" in told}
        assert {names[what] for what in ("events kind", "events action")} <= troubled
        ledger.folder.catch_up()
        ledger.serve([Upkeep()])
    with closing(open_store(address)) as store:
        reports = {report.experiment: report for report in verify(store)}
    assert reports["well"].verdict == "identical" and len(reports) == len(numbers)
    bad = ("states", "states gone", "decisions action", "decisions context", "events kind")
    assert {reports[names[what]].verdict for what in bad} == {"different"}
    assert not reports[names["experiments learner"]].good
    with closing(open_store(address, serve=True)) as store:  # and after a restart
        ledger = plain(store)
        told = ledger.folder.overview([ledger.find("well")])["experiments"][0]
        assert (told["decisions"], told["feedback"]) == (10, 5)
        for what in ("folds", "folds shape", "folds gone", "remarks", "meta", "meta note"):
            assert ledger.statistics(ledger.find(names[what]))["decisions"] == 10, what


def test_what_is_mended_has_its_statistics_again(address: str) -> None:
    """Others went on and saved theirs meanwhile; what could not be folded was noted."""
    fill(address)
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        before = ledger.statistics(ledger.find("sick"))
        assert before["decisions"] == 9
        ((spec,),) = execute(address, "SELECT spec FROM experiments WHERE id = 1")
    execute(address, spec_with('"ucb1"', '"ucb9"').format(id=1))
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        well = ledger.find("well")
        for _ in range(3):
            ledger.serve([Decide(well, [None])])
            ledger.folder.catch_up()
            ledger.serve([Upkeep()])
    execute(address, f"UPDATE experiments SET spec = '{spec}' WHERE id = 1")
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        kept = ("decisions", "feedback", "cancelled", "peak", "pulls")
        after = ledger.statistics(ledger.find("sick"))
        assert [after[name] for name in kept] == [before[name] for name in kept]
        assert ledger.statistics(ledger.find("well"))["decisions"] == 12


# --- what fails is not tried for every request ---


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Ledger, Any, Any]]:
    with closing(open_store(str(tmp_path / "a.db"), serve=True)) as store:
        ledger = plain(store)
        yield ledger, created(ledger, "sick", "direct(ucb1)"), created(ledger, "well", "direct(ucb1)")


def test_a_failure_in_a_batch_costs_the_others_nothing(two: Any) -> None:
    ledger, sick, well = two
    ledger.store._writer.run("UPDATE states SET state = x'00' WHERE experiment = 1")
    ledger._running[sick.id].forget()  # what is in memory is not harmed
    commits = count_commits(ledger)
    for number in range(20):
        items = [item for _ in range(5) for item in (Decide(sick, [None]), Decide(well, [None]))]
        answers = ledger.serve(items)
        assert [isinstance(each, Refused) for each in answers] == [True, False] * 5
        assert {each.kind for each in answers[::2]} == {"damaged"}
        assert "state 0 has 1 bytes, not" in str(answers[0])
        assert len(commits) == number + 1
    assert ledger.failing().keys() == {"sick"}


def count_commits(ledger: Ledger) -> list[str]:
    seen: list[str] = []
    ledger.store._writer.connection.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    return seen


def test_one_request_that_fails_leaves_its_own_experiment_alone(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, _, well = two
    bad = Decide(well, [None, None, None])
    from belated.ledger.work import Work

    decide = Work.expect
    monkeypatch.setattr(Work, "expect", lambda self, contexts: decide(self, contexts) if len(contexts) < 3 else 1 / 0)
    for _ in range(10):
        answers = ledger.serve([Decide(well, [None]), bad, Decide(well, [None], None, "k", b"d")])
        assert [isinstance(each, Refused) for each in answers] == [False, True, False]
        assert "well failed (ZeroDivisionError" in str(answers[1])
    assert ledger.failing() == {}
    assert ledger.statistics(well)["decisions"] == 11
    assert [report.verdict for report in verify(ledger.store)] == ["identical"] * 2


@pytest.mark.parametrize("damage", ["state = 5", "steps = 9223372036854775807"])
def test_a_state_that_cannot_be_written_keeps_no_other_from_its_place(tmp_path: Path, damage: str) -> None:
    """SQLite has no types that hold: one fails when it is put on the page, the other when that is written."""
    address = str(tmp_path / "a.db")
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        for name in ("sick", "well", "fine"):
            created(ledger, name, "qpmd(ucb1)" if name == "sick" else "bold(exp3)")
            decided(ledger, name, 2)
        ledger.serve([Save(all=True)])
    execute(address, f"UPDATE states SET {damage} WHERE experiment = 1")
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        for _ in range(3):
            ledger.serve([Decide(each, [None]) for each in ledger.experiments()])
            ledger.serve([Feedback(ledger.find("sick"), [])])
            assert ledger.serve([Save(all=True)]) == [False]
        counted = "SELECT h.experiment, written, max(place) FROM heads h JOIN events e ON e.experiment = h.experiment"
        rows = execute(address, f"{counted} WHERE h.experiment > 1 GROUP BY h.experiment")
        assert rows == [(2, 5, 5), (3, 5, 5)]
        assert ledger.failing().keys() | ledger.faults.known.keys() <= {"sick", 1}


def test_who_served_something_of_a_batch_does_not_rest(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, _, well = two
    from belated.ledger.work import Work

    decide = Work.expect
    monkeypatch.setattr(Work, "expect", lambda self, contexts: decide(self, contexts) if len(contexts) < 3 else 1 / 0)
    items = [Decide(well, [None]), *[Decide(well, [None] * 3)] * faults.STRIKES]
    assert [isinstance(each, Refused) for each in ledger.serve(items)] == [False, *[True] * faults.STRIKES]
    assert ledger.failing() == {} and isinstance(ledger.serve([Decide(well, [None])])[0], list)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_all_but_one_expire_though_all_is_on_record(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are served one by one then, each after what the one before appended: in one transaction."""
    address = str(tmp_path / "a.db") if kind == "sqlite" else request.getfixturevalue("cluster").new()
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        made = created(ledger, "ads", "bold(exp3)")
        decided(ledger, "ads", 6)
        ledger.serve([Save(all=True)])
        execute(address, "UPDATE decisions SET expires_at = 1.0")
        execute(address, "UPDATE decisions SET action = 99 WHERE round = 1")  # the first of them
        again = []
        monkeypatch.setattr(ledger, "_parts", lambda items: again.append(items) or [])
        ledger.serve([Sweep()])
        counted = "SELECT count(*), state FROM decisions GROUP BY state ORDER BY state"
        assert execute(address, counted) == [(5, "expired"), (1, "open")] and again == []
        assert ledger.serve([Decide(made, [None])])[0][0].round == 7


def test_an_experiment_that_fails_rests_and_is_tried_again(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, sick, _ = two
    tried: list[int] = []

    def prepare(experiment: Any) -> Any:
        tried.append(1)
        raise RuntimeError("no compiler")

    clock = [time.monotonic()]
    monkeypatch.setattr(faults.time, "monotonic", lambda: clock[0])
    ledger._running.clear()
    working, ledger.prepare = ledger.prepare, prepare  # type: ignore[method-assign]
    for _ in range(50):
        (answer,) = ledger.serve([Decide(sick, [None])])
        assert answer.kind == "internal" and "sick failed (RuntimeError: no compiler)" in str(answer)
    assert len(tried) <= 2 * faults.STRIKES
    ledger.prepare = working  # type: ignore[method-assign]
    assert isinstance(ledger.serve([Decide(sick, [None])])[0], Refused)
    clock[0] += 2 * faults.PAUSE
    assert isinstance(ledger.serve([Decide(sick, [None])])[0], list) and ledger.failing() == {}


def test_a_statement_that_fails_is_found_by_experiment(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole transaction is undone then; once it is known who it was the others are together again."""
    ledger, sick, well = two
    session = ledger.store._writer
    add = session.add_decisions

    def fails(rows: Sequence[Any]) -> None:
        if any(row.experiment == sick.id for row in rows):
            raise sqlite3.DatabaseError("database disk image is malformed")
        add(rows)

    monkeypatch.setattr(session, "add_decisions", fails)
    commits = count_commits(ledger)
    for _ in range(20):
        items = [item for _ in range(5) for item in (Decide(sick, [None]), Decide(well, [None]))]
        assert [isinstance(each, Refused) for each in ledger.serve(items)] == [True, False] * 5
    assert len(commits) < 20 + 10
    assert "malformed" in ledger.failing()["sick"]


def test_a_broken_sweep_or_upkeep_is_found_by_experiment(two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, sick, well = two
    ledger.serve([Decide(each, [None]) for each in (sick, well)])
    session = ledger.store._writer
    session.run("UPDATE decisions SET expires_at = 1.0")
    end = session.end

    def fails(rows: Iterable[Any]) -> None:
        known = list(rows)
        numbers = {row.experiment for row in session.decisions([each.ticket for each in known]).values()}
        if sick.id in numbers:
            raise sqlite3.DatabaseError("database disk image is malformed")
        end(known)

    monkeypatch.setattr(session, "end", fails)
    for _ in range(5):
        assert ledger.serve([Sweep()]) == [False]
    assert ledger.statistics(well)["expired"] == 1 and ledger.statistics(sick)["expired"] == 0
    monkeypatch.setattr(upkeep, "_check", lambda experiment, *rest: 1 / 0)
    kept = ledger._named["sick"] = replace(sick, retention=60.0)
    assert ledger.serve([Upkeep()]) == [False] and kept.retention == 60.0


# --- two versions side by side ---


def test_two_versions_side_by_side(database: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """The order of docs/operations.md: migrate by the new version, then replace the machines one by one."""
    with closing(open_store(database, serve=True)) as store:
        old = plain(store)
        ads, other = created(old, "ads", "bold(exp3)"), created(old, "other", "direct(ucb1)")
        old.serve([Decide(ads, [None] * 3), Decide(other, [None] * 3)])
        save(old)
        # The new version: a column more, and another version of a learner.
        monkeypatch.setattr(schema, "SCHEMA", schema.SCHEMA + 1)
        more = ("ALTER TABLE decisions ADD COLUMN colour TEXT",)
        monkeypatch.setitem(schema.MIGRATIONS, schema.SCHEMA - 1, more)
        with pytest.raises(bl.errors.InvalidState, match="belated migrate"):
            open_store(database, serve=True)
        assert isinstance(old.serve([Decide(ads, [None])])[0], list)

        def upgraded(work: Callable[[], Any]) -> Any:
            with monkeypatch.context() as newer:
                newer.setattr(bl.UCB1, "version", bl.UCB1.version + 1)
                newer.setattr(bl.UCB1, "migrate", lambda self, version, before, after: None, raising=False)
                return work()

        with closing(upgraded(lambda: open_store(database, serve=True, migrate=True))) as another:
            new = upgraded(lambda: plain(another))
            assert upgraded(lambda: new.find("other").trouble) is None
            for turn in range(4):
                four = partial(decided, old if turn % 2 else new, "ads", 4)
                made = four() if turn % 2 else upgraded(four)
                fed = Feedback(ads, [(ticket_of(each.ticket), 1.0) for each in made[:2]])
                assert upgraded(partial(new.serve, [fed])) == [["applied"] * 2]
            assert isinstance(upgraded(lambda: new.serve([Decide(new.find("other"), [None])])[0]), list)
        # The old one does not know the new states, says so, and goes on with all else.
        (answer,) = old.serve([Decide(old.find("other"), [None])])
        assert answer.kind == "read_only" and f"version {bl.UCB1.version + 1}, this is version" in str(answer)
        assert isinstance(old.serve([Decide(old.find("ads"), [None])])[0], list)
        assert old.statistics(old.find("ads"))["decisions"] == 3 + 1 + 16 + 1
        verdicts = {report.experiment: report.verdict for report in verify(store)}
    assert verdicts == {"ads": "identical", "other": "not replayed"}


def test_states_of_an_earlier_version_wait_for_migrate(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(address, serve=True)) as store:
        ledger = plain(store)
        for name in ("ads", "killed"):
            ledger.serve([Decide(created(ledger, name, "direct(ucb1)"), [None])])
        save(ledger)
        ledger.serve([Decide(ledger.find("killed"), [None])])  # and it is not stopped in order
    monkeypatch.setattr(bl.UCB1, "version", bl.UCB1.version + 1)
    monkeypatch.setattr(bl.UCB1, "migrate", lambda self, version, old, new: None, raising=False)
    with closing(open_store(address, serve=True)) as store:
        (answer,) = plain(store).serve([Decide(plain(store).find("ads"), [None])])
        assert answer.kind == "read_only" and "`belated migrate`" in str(answer)
    with closing(open_store(address, serve=True, migrate=True)) as store:
        ledger = plain(store)
        assert isinstance(ledger.serve([Decide(ledger.find("ads"), [None])])[0], list)
        (answer,) = ledger.serve([Decide(ledger.find("killed"), [None])])
        assert answer.kind == "read_only" and "stop that by SIGTERM" in str(answer)
    monkeypatch.undo()
    with closing(open_store(address, serve=True)) as store:  # the version that wrote it
        ledger = plain(store)
        assert ledger.serve([Decide(ledger.find("killed"), [None])])[0][0].round == 3


# --- deadlines ---


def test_what_nobody_waits_for_is_not_begun(two: Any) -> None:
    ledger, _, ads = two
    late, left = Decide(ads, [None], until=time.monotonic() - 1), Decide(ads, [None])
    assert left.leave()
    fed = Feedback(ads, [(bytes(16), 1.0)], until=0.0)
    answers = ledger.serve([late, Decide(ads, [None]), left, fed])
    assert [getattr(each, "kind", "decided") for each in answers] == ["waited", "decided", "waited", "waited"]
    assert ledger.statistics(ads)["decisions"] == 1
    begun = Decide(ads, [None])
    assert begun.begin() and not begun.leave() and not begun.begin()


def test_a_database_that_hangs_decides_nothing_for_those_who_left(two: Any) -> None:
    """Another process holds the file while requests come and give up; then it lets go."""
    ledger, _, ads = two
    with closing(sqlite3.connect(ledger.store.file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        items = [Decide(ads, [None], until=time.monotonic() + 0.2) for _ in range(10)]
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.extend(ledger.serve(items)))
        thread.start()
        time.sleep(0.3)
        other.execute("ROLLBACK")
        thread.join()
    assert {each.kind for each in answers} == {"waited"} and ledger.statistics(ads)["decisions"] == 0


# --- the database itself ---


def test_a_database_that_takes_no_writes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(str(tmp_path / "a.db"), serve=True)) as store:
        ledger = plain(store)
        assert ledger.serve([Probe()]) == [True]
        store._writer.run("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]
        store._writer.run("PRAGMA query_only = ON")  # type: ignore[attr-defined]
        (answer,) = ledger.serve([Probe()])
        assert answer.kind == "storage" and "attempt to write a readonly database" in str(answer)


# --- what is counted ---


def test_means_of_conversions_only(two: Any) -> None:
    """Only ones are sent, and nothing is zero: the mean is the share of ones."""
    ledger, *_ = two
    ads = created(ledger, "ads", "direct(uniform)", on_expiry=0.0)
    (made,) = ledger.serve([Decide(ads, [None] * 40)])
    ledger.serve([Feedback(ads, [(ticket_of(each.ticket), 1.0) for each in made[:10]])])
    ledger.store._writer.run("UPDATE decisions SET expires_at = 1.0")
    ledger.serve([Sweep()])
    told = ledger.statistics(ads)["actions"]
    ones = [sum(each.action == action for each in made[:10]) for action in (0, 1)]
    pulls = [sum(each.action == action for each in made) for action in (0, 1)]
    assert [each["mean"] for each in told] == [one / pull for one, pull in zip(ones, pulls, strict=True)]
    assert [(each["rewards"], each["defaults"]) for each in told] == [
        (pull, pull - one) for one, pull in zip(ones, pulls, strict=True)
    ]
    assert all(each["interval"][0] < each["mean"] < each["interval"][1] < 0.8 for each in told)


def test_earlier_statistics_without_defaults_are_made_again(two: Any) -> None:
    ledger, *_ = two
    ads = created(ledger, "ads", "direct(uniform)", on_expiry=0.0)
    ledger.serve([Decide(ads, [None] * 10)])
    ledger.store._writer.run("UPDATE decisions SET expires_at = 1.0")
    ledger.serve([Sweep()])
    told = ledger.statistics(ads)
    ledger.serve([Upkeep()])
    with ledger.store.read() as session:
        data = json.loads(session.folds()[ads.id][1])
    del data["defaults"]
    data["rewards"] = [[0, 0.0, 0.0]] * 2
    text = json.dumps(data)
    ledger.store._writer.run("UPDATE folds SET counters = ? WHERE experiment = ?", (text, ads.id))
    ledger.folder.start_again()
    assert ledger.statistics(ads) | {"at": told["at"]} == told and sum(e["defaults"] for e in told["actions"]) == 10


def test_reading_a_broken_file_is_one_error(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "a.db"), serve=True)) as store:
        reader = store._reader  # type: ignore[attr-defined]
        with reader() as session:
            session.run("PRAGMA query_only = ON")
        with pytest.raises(StorageError), store.read() as session:
            session.run("SELECT * FROM nothing_of_the_kind")  # type: ignore[attr-defined]


#: What is a text as any other.
TEXTS = [("name", "'{'"), ("scopes", "'{'")]


def test_a_damaged_token_is_no_token(tmp_path: Path) -> None:
    from belated.service import auth

    columns = ("digest", "name", "scopes", "experiments", "rate", "expires_at", "revoked_at")
    damages = [(column, value) for column in columns for value in ("x'00ff'", "'{'")]
    damages = [(column, value) for column, value in damages if (column, value) not in TEXTS]
    damages += [("rate", "-1"), ("experiments", "'\"ads\"'"), ("experiments", "'null'")]
    with closing(open_store(str(tmp_path / "a.db"), serve=True)) as store:
        good = auth.create(store, "good", ["read"], ["ads"], 3600.0, 5.0)
        bad = [auth.create(store, f"bad {at}", ["read"], ["ads"], 3600.0, 5.0) for at in range(len(damages))]
        for at, (column, value) in enumerate(damages):
            store._writer.run(f"UPDATE tokens SET {column} = {value} WHERE name = 'bad {at}'")  # type: ignore[attr-defined]
        store._writer.run("UPDATE tokens SET used_at = 'x' WHERE name = 'good'")  # type: ignore[attr-defined]
        store._writer.run("UPDATE log SET at = 'x', who = x'00' WHERE id = 1")  # type: ignore[attr-defined]
        guard = auth.Guard(store, True)
        assert guard.bearer(f"Bearer {good}".encode()) is not None
        for damage, token in zip(damages, bad, strict=True):
            assert guard.bearer(f"Bearer {token}".encode()) is None, damage
    for command, shows in ((["token", "list"], "good\tread\tin use\tads\t5/s"), (["log"], "token created")):
        shown = CliRunner().invoke(app, [*command, "--database", str(tmp_path / "a.db")])
        assert shown.exit_code == 0 and shows in shown.output, shown.exception
        assert len(shown.output.splitlines()) == 1 + len(damages)


def test_an_export_of_damaged_decisions_leaves_the_last_one(tmp_path: Path) -> None:
    file = tmp_path / "out.parquet"
    with closing(open_store(str(tmp_path / "a.db"), serve=True)) as store:
        ledger = plain(store)
        created(ledger, "ads", "direct(ucb1)")
        decided(ledger, "ads", 3)
        assert export(store, "ads", file) == 3
        whole = file.read_bytes()
        for damage in ("action = 99", "action = 'x'", "context = x'00'", "allowed = '{'", "round = 'x'"):
            store._writer.run(f"UPDATE decisions SET {damage}")  # type: ignore[attr-defined]
            with pytest.raises(Damaged, match="ads is damaged: a decision cannot be what was decided"):
                export(store, "ads", file)
    assert file.read_bytes() == whole and list(tmp_path.glob("*.part")) == []


def test_a_damaged_name_is_named(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "a.db"), serve=True)) as store:
        ledger = plain(store)
        for name in ("ads", "well"):
            created(ledger, name, "direct(ucb1)")
        store._writer.run("UPDATE experiments SET name = x'00ff' WHERE name = 'ads'")  # type: ignore[attr-defined]
        ledger = plain(store)
        assert [each.name for each in ledger.experiments()] == ["well"]
        assert list(ledger.unopened()) == ["b'\\x00\\xff'"]  # a text, which /metrics and /v1/overview can sort
