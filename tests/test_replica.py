# ruff: noqa: F811  (fixtures are imported)
"""States in memory: put on record in slices, forgotten, caught up, and changed when they are next used."""

import json
import random
import threading
from contextlib import closing, nullcontext

import pyarrow.parquet as pq
import pytest

import belated as bl
from belated.ledger import gently, order, replicas, upkeep
from belated.ledger import replica as replica_module
from belated.ledger.experiment import Experiment, make
from belated.ledger.export import export
from belated.ledger.items import Cancel, Create, Decide, Delete, Feedback, Replace, Save, Sweep, Upkeep, ticket_of
from belated.ledger.store import ALL
from belated.ledger.verify import Replay, verify
from tests.postgres import cluster  # noqa: F401
from tests.rows import all_states, save
from tests.test_grow import ByHand, bytes_of, checked, create, decide, events, feed, file, grow, opened, plain  # noqa: F401


class Both:
    """A ledger, and a forecaster in process that must choose the same."""

    def __init__(self, file, kind, seed=4, **more):
        self.file, self.kind, self.rounds = file, kind, 0
        self.ledger = opened(file)
        self.oracle = {"bold": bl.BOLD, "qpmd": bl.QPMD, "direct": bl.Direct}[kind](bl.UCB1(3), seed=seed)
        create(self.ledger, f"{kind}(ucb1)", seed=seed, **more)
        self.draw, self.open = random.Random(seed), []

    def play(self, ending, deciding):
        """What ends goes first."""
        known = self.ledger.find("ads")
        some = [self.open.pop(self.draw.randrange(len(self.open))) for _ in range(min(ending, len(self.open)))]
        values = [self.draw.randrange(5) / 4 for _ in some]
        entries = [(ticket, value) for (ticket, _), value in zip(some, values, strict=True)]
        told, made = self.ledger.serve([Feedback(known, entries), Decide(known, [None] * deciding)])
        assert told == ["applied"] * len(some)
        for (_, number), value in zip(some, values, strict=True):
            self.oracle.update(number, value)
        for mine in made:
            theirs = self.oracle.predict()
            self.rounds += 1
            assert (mine.action, mine.round) == (theirs.action, self.rounds)
            self.open.append((ticket_of(mine.ticket), theirs.ticket))

    def restart(self):
        self.ledger.store.close()
        self.ledger = opened(self.file)

    def head(self):
        with self.ledger.store.read() as session:
            (head,) = session.heads().values()
        return head

    def end(self):
        """All is as it should be, and so it is for one who starts now."""
        assert checked(self.ledger) == {"ads": "identical"}
        self.restart()
        self.play(3, 4)
        save(self.ledger)
        head = self.head()
        assert (head.rounds, head.instances) == (self.rounds, self.oracle.instances)
        assert self.kind != "bold" or head.instances == self.oracle.peak + 1
        assert self.head().written == self.head().last
        assert checked(self.ledger) == {"ads": "identical"}
        self.ledger.store.close()


@pytest.mark.parametrize("kind", ["bold", "qpmd", "direct"])
def test_slices_go_on_record_while_decisions_are_made(file, kind):
    both = Both(file, kind)
    both.play(0, 40)
    both.play(20, 5)
    written = []
    for _ in range(12):
        more = both.ledger.serve([Save(limit=4)])[0]
        head = both.head()
        assert more == (head.written < head.last)
        written.append(head.written)
        both.play(2, 1)
    assert written == sorted(written) and written[-1] > 0
    both.end()


def test_upkeep_keeps_nobody_waiting_for_all_states(file, monkeypatch):
    """However many are not on record yet: some go, the others go by and by."""
    both = Both(file, "bold")
    both.play(0, 700)
    assert both.ledger.changed() == 700
    both.ledger.serve([Upkeep()])
    assert both.ledger.changed() == 200
    save(both.ledger)
    assert both.ledger.changed() == 0
    both.end()


def test_who_reads_for_long_rests_longer_than_it_works(monkeypatch):
    """Beside a server that others write to; else there is nobody to wait for."""
    clock, rests = [0.0], []

    def sleep(seconds):
        rests.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(gently.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(gently.time, "sleep", sleep)

    class Server:
        exclusive = False
        log = 10**9

        def read(self):
            return nullcontext(self)

        def written(self):
            return self.log

    server = Server()
    slices = ((0.25, 10**6), (0.125, 10**6), (10.0, 10**6), (0.5, 100), (0.5, 0), (0.25, 10**6), (1.0, 0))
    for worked, written in slices:
        with gently.slice_of(server):
            clock[0] += worked / 2
        clock[0] += worked / 2  # what is done with what was read
        server.log += written
    # What was written after a look is known at the next.
    assert rests == [0.0, 0.75, 0.375, gently.LONGEST, gently.LONGEST]
    with gently.slice_of(server):
        assert len(rests) == 6
    server.exclusive = True
    with gently.slice_of(server):
        assert len(rests) == 6


@pytest.mark.parametrize("kind", ["bold", "qpmd"])
def test_a_crash_between_slices(file, kind):
    """What is on record is of several moments then: each state as it was at `written`, or later."""
    both = Both(file, kind)
    both.play(0, 30)
    for _ in range(4):
        both.ledger.serve([Save(limit=7)])
        both.restart()
        both.play(9, 6)
        both.ledger.serve([Save(limit=3)])
        both.play(2, 2)
        assert checked(both.ledger) == {"ads": "identical"}
    both.end()


@pytest.mark.parametrize("kind", ["bold", "qpmd"])
def test_states_that_are_on_record_leave_memory(file, kind, monkeypatch):
    """But not those of a rule that looks at all of them."""
    monkeypatch.setattr(replica_module, "ROOM", 300)
    both = Both(file, kind)
    both.play(0, 60)
    for _ in range(6):
        save(both.ledger)
        assert bool(both.ledger._running[1].replica.states) == (kind == "qpmd")
        both.play(11, 7)
        assert len(both.ledger._running[1].replica.states) < 60
    both.end()


def test_what_nothing_in_memory_knows_of_goes_on_record(file):
    both = Both(file, "bold")
    both.play(0, 10)
    both.ledger.serve([Save(limit=3)])
    head = both.head()
    assert head.written < head.last
    both.ledger._running[1].forget()  # as after a transaction that was undone
    both.ledger._lasts.clear()  # somebody else may be at it
    assert both.ledger.serve([Save()]) == [False] and both.head() == head
    while both.ledger.serve([Save()])[0] is True:  # nobody is: the log ends where it did
        pass
    assert both.head().written == both.head().last
    both.end()


def test_retention_leaves_what_a_start_needs(file):
    """Some states are on record and have a checkpoint; the log is needed from where others are not."""
    both = Both(file, "bold", retention_seconds=60)
    both.play(0, 10)
    both.play(10, 10)
    both.ledger.serve([Save(limit=6)])
    head = both.head()
    assert head.written < head.last
    both.ledger.folder.catch_up()
    for later in (1000, 1070, 1080):  # a checkpoint, another, and what is older than the first goes
        with both.ledger.store.write() as session:
            now = session.now() + later
            upkeep.tick(both.ledger.folder, both.ledger.experiments(), session, now, 100, both.ledger.faults)
    log = events(both.ledger, both.ledger.find("ads"))
    assert [each.place for each in log] == list(range(head.written + 1, head.last + 1))
    both.restart()
    both.play(5, 5)
    save(both.ledger)
    both.play(5, 5)
    assert checked(both.ledger) == {"ads": "identical"}
    both.ledger.store.close()


@pytest.mark.parametrize("kind", ["bold", "qpmd", "direct"])
def test_events_go_in_slices_and_what_is_left_is_verified(file, kind):
    """Between the slices there are checkpoints that nothing follows any more."""
    both = Both(file, kind, retention_seconds=60)

    def tick(later, limit):
        both.ledger.folder.catch_up()
        with both.ledger.store.write() as session:
            now = session.now() + later
            return upkeep.tick(both.ledger.folder, both.ledger.experiments(), session, now, limit, both.ledger.faults)

    for later in (1000, 1040):
        both.play(3, 4)
        both.play(4, 3)
        save(both.ledger)
        tick(later, 100)
    both.play(1, 2)
    slices = 0
    while tick(1105, 3):
        slices += 1
        assert checked(both.ledger) == {"ads": "identical"}
    assert slices > 2 and events(both.ledger, both.ledger.find("ads"))
    both.end()


LAST = "place = (SELECT max(place) FROM events WHERE kind = '%s')"
#: What happens to rows of BOLD or of QPM-D; what who goes on says (None: it may not notice), and `verify`.
DAMAGES = {
    "state": ("bold", "DELETE FROM states WHERE instance = 1", None, "state 1 is missing"),
    "seq": ("bold", "UPDATE states SET seq = seq + 5 WHERE instance = 0", "state 0 is on record", "its events end"),
    "seq back": ("bold", "UPDATE states SET seq = seq - 1 WHERE instance = 0", "not the next of state 0", "events end"),
    "event": ("bold", f"DELETE FROM events WHERE {LAST % 'feedback'} - 1", "is missing", "of its log is missing"),
    "old event": ("bold", "DELETE FROM events WHERE place = 4", None, "event 1 is missing"),
    "instance": ("bold", f"UPDATE events SET instance = 1 WHERE {LAST % 'decide'}", "is not the next", "is missing"),
    "home": (
        "qpmd",
        f"UPDATE events SET instance = 1 WHERE {LAST % 'decide'}",
        "is not the next",
        "of the first instance",
    ),
    "value": ("bold", f"UPDATE events SET value = '0.125' WHERE {LAST % 'feedback'}", None, "its decision says 0.25"),
    "queue": ("qpmd", "DELETE FROM queue", None, "the stored queues"),
    "ahead": ("bold", "UPDATE heads SET written = 99, counted = 99", None, "is missing"),
    "behind": ("bold", "UPDATE heads SET written = counted + 1", "its head", "its head"),
    "rounds": ("bold", "UPDATE heads SET rounds = 9", None, "its head counts 9 rounds, its log 13"),
    "round": ("bold", "UPDATE decisions SET round = 3 WHERE round = 14", None, "round 3 is recorded, 14 comes out"),
    "rounds of two": (
        "bold",
        "UPDATE decisions SET round = 21 - round WHERE round BETWEEN 10 AND 11",
        None,
        "round 11 is recorded, 10 comes out",
    ),
    "more rounds": (
        "bold",
        "UPDATE heads SET rounds = 19",
        None,
        "round 20 is recorded, 18 comes out",
    ),
    "last event": (
        "qpmd",
        f"DELETE FROM events WHERE {LAST % 'decide'}",
        None,
        "open on record: 9 decisions, its log leaves 8",
    ),
    "instances": ("bold", "UPDATE heads SET instances = 99", None, "its head counts 99 instances, its log 8"),
    "none": ("bold", "UPDATE heads SET instances = 0", "its head", "its head"),
    "outstanding": ("qpmd", "UPDATE heads SET outstanding = -1", "its head", "its head"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_is_damaged_is_noticed(file, what):
    kind, sql, live, found = DAMAGES[what]
    ledger = opened(file)
    experiment, well = create(ledger, f"{kind}(ucb1)"), create(ledger, "bold(ucb1)", name="well")
    made = [decide(ledger, experiment) for _ in range(8)]
    assert [feed(ledger, experiment, each, 0.5) for each in made[:5]] == ["applied"] * 5
    made += [decide(ledger, experiment) for _ in range(5)]
    save(ledger)
    made += [decide(ledger, experiment) for _ in range(3)]
    assert [feed(ledger, experiment, each, 0.25) for each in made[5:9]] == ["applied"] * 4
    decide(ledger, experiment)
    assert checked(ledger) == {"ads": "identical", "well": "identical"}
    with ledger.store.write() as session:
        session.tell(sql + f" {'AND' if 'WHERE' in sql else 'WHERE'} experiment = {experiment.id}")
    ledger.store.close()
    ledger = opened(file)
    (answer,) = ledger.serve([Decide(ledger.find("ads"), [None])])
    assert live is None or live in str(answer), answer
    sick, healthy = verify(ledger.store)
    assert sick.verdict == "different" and found in sick.message, sick
    assert healthy.verdict == "identical" and decide(ledger, ledger.find("well")).round == 1
    assert well.id == ledger.find("well").id
    ledger.store.close()


def test_open_decisions_are_counted_at_a_stroke_only_where_they_are_few(file, monkeypatch):
    ledger = opened(file)
    experiment = create(ledger, "bold(ucb1)")
    for _ in range(4):
        decide(ledger, experiment)
    for most, wanted in ((5, 4), (2, None)):
        monkeypatch.setattr(order, "COUNTED", most)
        save(ledger)
        with ledger.store.read() as session:
            assert order.moment(session, experiment).open == wanted
        assert checked(ledger) == {"ads": "identical"}
    ledger.store.close()


@pytest.mark.parametrize("last", ["feedback", "decide", "replace", "replace, on record"])
def test_a_log_that_lost_its_end_is_noticed(file, last):
    """Nothing after it tells of it, and its decision may be gone too: others know that there was more."""
    ledger = opened(file)
    experiment = create(ledger, "bold(ucb1)")
    made = [decide(ledger, experiment) for _ in range(3)]
    save(ledger)
    if last == "feedback":
        assert feed(ledger, experiment, made[0], 0.5) == "applied"
        told = "open on record: 2 decisions, its log leaves 3"
    elif last == "decide":
        assert feed(ledger, experiment, made[0], 0.5) == "applied"
        assert decide(ledger, experiment).round == 4
        ledger.folder.catch_up()
        with ledger.store.write() as session:
            ledger.folder.save(session)
            session.tell("DELETE FROM decisions WHERE round = 4")
        told = "its log ends at 4, and its statistics are saved at 5"
    else:
        ledger.serve([Replace(experiment, "b", "B")])
        told = "its log ends at 3, and an action was replaced or added at 4"
        if "record" in last:
            save(ledger)
            told = "its log ends at 3, its head counts 4 events"
    with ledger.store.write() as session:
        session.tell("DELETE FROM events WHERE place = (SELECT max(place) FROM events)")
    (report,) = verify(ledger.store)
    ledger.store.close()
    assert report.verdict == "different" and told in report.message, report


def test_verify_of_what_changes_meanwhile(file, monkeypatch):
    """An action is replaced, and an experiment deleted, between what is read of the experiment and of its log."""
    ledger = opened(file)
    experiment, other = create(ledger, "bold(ucb1)"), create(ledger, "bold(ucb1)", name="other")
    made = [decide(ledger, experiment) for _ in range(6)]
    assert {feed(ledger, experiment, each, 0.5) for each in made} == {"applied"}
    asked = []

    def run(self, before=Replay.run):
        if not asked:
            asked.append(ledger.serve([Replace(experiment, "b", "B"), Delete(other)]))
            again = [decide(ledger, ledger.find("ads")) for _ in range(6)]
            assert {feed(ledger, experiment, each, 1.0) for each in again} == {"applied"}
        before(self)

    monkeypatch.setattr(Replay, "run", run)
    assert checked(ledger) == {"ads": "identical"} and asked
    ledger.store.close()


def test_verify_while_others_decide(file):
    both = Both(file, "bold")
    both.play(0, 50)
    over, verdicts = threading.Event(), []

    def look():
        while not over.is_set():
            verdicts.append(checked(both.ledger))

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(60):
        both.play(10, 11)
        if number % 5 == 0:
            both.ledger.serve([Save(limit=20)])
    over.set()
    thread.join()
    assert verdicts and all(each == {"ads": "identical"} for each in verdicts)
    both.end()


def test_an_export_of_what_is_new(file, tmp_path):
    """Those that were made or have ended since then, with what was said of them and not learned."""
    ledger = opened(file)
    wanted = make("ads", ["a", "b"], "bold(ucb1)", seed=1, expiry_seconds=3600)
    (known,) = ledger.serve([Create(wanted, ledger.prepare(wanted))])
    assert isinstance(known, Experiment)
    (made,) = ledger.serve([Decide(known, [None] * 6)])
    tickets = [ticket_of(each.ticket) for each in made]
    ledger.serve(
        [Feedback(known, [(tickets[0], 1.0), (tickets[0], 0.5), (tickets[0], 0.25)]), Cancel(known, tickets[1:2])]
    )
    with ledger.store.write() as session:
        session.tell("UPDATE decisions SET expires_at = ? WHERE round = 3", (1.0,))
    ledger.serve([Sweep()])
    ledger.serve([Feedback(known, [(tickets[2], 1.0)])])
    assert export(ledger.store, "ads", tmp_path / "all.parquet") == 6
    rows = pq.read_table(tmp_path / "all.parquet").to_pylist()
    said = [[(each["kind"], each["value"]) for each in row["remarks"]] for row in rows]
    assert said == [[("conflict", "0.5"), ("conflict", "0.25")], [], [("late", "1.0")], [], [], []]
    with ledger.store.read() as session:
        since = session.now()
    assert export(ledger.store, "ads", tmp_path / "none.parquet", since) == 0
    ledger.serve([Feedback(known, [(tickets[4], 1.0)]), Decide(known, [None])])
    assert export(ledger.store, "ads", tmp_path / "new.parquet", since) == 2
    rows = pq.read_table(tmp_path / "new.parquet").to_pylist()
    assert [(row["round"], row["state"]) for row in rows] == [(5, "closed"), (7, "open")]
    ledger.store.close()


# --- many states, each when it is next used ---


class Eager:
    """Instances of BOLD by hand, all of which are changed at once."""

    def __init__(self, learner, seed):
        self.oracle = ByHand(True, learner, seed)
        self.retired = []

    def replace(self, action):
        for instance in self.oracle.instances:
            instance.replace(action)

    def __getattr__(self, name):
        return getattr(self.oracle, name)


@pytest.mark.parametrize("between", ["nothing", "save", "restart", "save and restart"])
def test_many_states_change_one_by_one_as_if_all_at_once(file, between):
    change_many(file, between, 1)


def test_many_states_change_one_by_one_under_two_writers(cluster):
    change_many(cluster.new(), "save", 2)


def change_many(file, between, count):
    """300 instances; an action is replaced, one is added, one is replaced; some are used between, in any order."""
    writers = [opened(file) for _ in range(count)]
    experiment = create(writers[0], "bold(ucb1)", seed=3)
    for each in writers:
        each.refresh()
    oracle, draw, open_ = Eager(bl.UCB1(3), 3), random.Random(8), []

    def use(count, deciding):
        """Decisions and their ends, by whoever's turn it is; in one batch what ends goes first."""
        ledger = draw.choice(writers)
        known = ledger.find("ads")
        ending = [open_.pop(draw.randrange(len(open_))) for _ in range(min(count, len(open_)))]
        values = [draw.randrange(5) / 4 for _ in ending]
        entries = [(ticket_of(mine.ticket), value) for (mine, _), value in zip(ending, values, strict=True)]
        told, made = ledger.serve([Feedback(known, entries), Decide(known, [None] * deciding)])
        assert told == ["applied"] * len(ending)
        for (mine, theirs), value in zip(ending, values, strict=True):
            if (mine.round, mine.action) in retired:
                oracle.cancel(theirs)
            else:
                oracle.update(theirs, value)
        for mine in made:
            theirs = oracle.predict(None)
            assert (mine.action, mine.name) == (theirs[3], known.actions[theirs[3]])
            open_.append((mine, theirs))

    def pause():
        if "save" in between:
            save(writers[0], limit=70)
        if "restart" in between:
            writers[0].store.close()
            writers[0] = opened(file)
        for each in writers:
            each.refresh()

    retired = set()

    def replace(name, new):
        (changed,) = writers[-1].serve([Replace(writers[-1].find("ads"), name, new)])
        action = changed.actions.index(new)
        oracle.replace(action)
        retired.update((mine.round, action) for mine, _ in open_ if mine.action == action)
        for each in writers:
            each.refresh()

    use(0, 300)
    use(200, 20)
    pause()
    replace("b", "B")
    pause()
    use(60, 50)
    grow(writers[0], writers[0].find("ads"), "d")
    oracle.grow()
    for each in writers:
        each.refresh()
    pause()
    use(20, 150)
    replace("a", "A")
    use(40, 30)
    pause()
    use(80, 90)
    experiment = writers[0].find("ads")
    assert experiment.actions == ("A", "B", "c", "d")
    assert [each.kind for each in events(writers[0], experiment) if each.instance == ALL] == [
        "replace",
        "grow",
        "replace",
    ]
    assert bytes_of(writers[0], experiment) == [instance.state.tobytes() for instance in oracle.instances]
    for ledger in writers:
        assert checked(ledger) == {"ads": "identical"}
    save(writers[0])
    with writers[0].store.read() as session:
        assert len({len(state.data) for state in all_states(session, experiment.id)}) == 2  # some were not used since
    assert checked(writers[0]) == {"ads": "identical"}
    for ledger in writers:
        ledger.store.close()


def test_a_day_goes_once_nobody_reads_it_any_more(cluster, caplog):
    url = cluster.new()
    ledger = opened(url)
    known = create(ledger, "direct(ucb1)")
    with ledger.store.write() as session:
        session.make_day(20000)
        session.tell("INSERT INTO keys_20000 VALUES (?, 'k', '', '[]', 0.0, 20000)", (known.id,))
    present = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ?"
    for left in (1, 0):
        with closing(opened(url).store) as other, other.read() as dump:
            if left:
                dump.run("LOCK TABLE decisions, keys, decisions_20000, keys_20000 IN ACCESS SHARE MODE")
            for _ in range(3):
                decide(ledger, known)
                assert ledger.serve([Upkeep()]) == [False]
        with ledger.store.read() as session:
            assert session.ask(present, ("decisions_20000",)) == [(left,)]
    assert caplog.messages == []
    ledger.store.close()


def test_processes_tell_how_far_behind_they_are(cluster, monkeypatch):
    url, who = cluster.new(), "one"
    monkeypatch.setattr(replicas, "name", lambda: f"machine:{who}")
    one, two = opened(url), opened(url)
    known = create(one, "direct(ucb1)")
    two.refresh()
    decide(two, two.find("ads"))

    def told(*, later=0.0):
        with one.store.read() as session:
            return {each["name"][8:]: each for each in replicas.known(session, session.now() + later)}

    def saves(ledger, name, **given):
        nonlocal who
        who = name
        assert ledger.serve([Save(**given)]) == [False]

    saves(two, "two")
    for _ in range(5):
        decide(one, known)
    saves(two, "two")  # what one is at work on is left to it
    saves(one, "one")
    found = told(later=30.0)
    assert (found["one"]["events"], found["two"]["events"]) == (0, 5)
    assert found["one"]["seconds"] == 0.0 < found["two"]["seconds"] and found["two"]["experiments"] == 1
    assert all(30.0 <= each["silent"] < 90.0 and each["version"] == bl.__version__ for each in found.values())

    decide(two, two.find("ads"))  # which has to read what one did
    saves(two, "two")
    assert told()["two"]["events"] == 0
    with one.store.write() as session:
        session.set_meta("replica machine:old", json.dumps(found["one"] | {"at": session.now() - 1.1 * replicas.KEPT}))
        session.set_meta("replica machine:odd", "[]")
    assert told().keys() == {"one", "two", "old"}
    saves(one, "one")
    assert told().keys() == {"one", "two"}
    saves(two, "two", last=True)  # it stops in order
    assert told().keys() == {"one"}
    for ledger in (one, two):
        ledger.store.close()


def test_who_has_seen_no_event_yet_is_behind_since_the_experiment_was_made(cluster, monkeypatch):
    url, who = cluster.new(), "one"
    monkeypatch.setattr(replicas, "name", lambda: f"machine:{who}")
    one, two = opened(url), opened(url)
    made = create(one, "direct(ucb1)")
    one.serve([Feedback(made, [(b"x" * 16, 1.0)])])  # it opens it, and appends nothing
    two.refresh()
    decide(two, two.find("ads"))
    assert one.serve([Save()]) == [False]
    with one.store.read() as session:
        (told,) = replicas.known(session, session.now())
    assert told["events"] == 1 and told["seconds"] < 600.0
    for ledger in (one, two):
        ledger.store.close()


def test_who_is_behind_catches_up_through_a_growth(cluster):
    """Another process decides, adds an action, decides, adds one more and replaces one; then this one goes on."""
    url = cluster.new()
    for kind in ("bold(ucb1)", "direct(ucb1)"):
        one, two = opened(url), opened(url)
        name = kind[:4]
        create(one, kind, name=name)
        two.refresh()
        made = [decide(two, two.find(name)) for _ in range(4)]
        for new in ("d", "e"):
            grown = grow(one, one.find(name), new)
            made += [decide(one, grown) for _ in range(6)]
            assert [feed(one, grown, made.pop(), 0.5) for _ in range(4)] == ["applied"] * 4
        (last,) = one.serve([Replace(one.find(name), "a", "A")])
        made += [decide(one, last) for _ in range(3)]
        assert [feed(two, two.find(name), each, 0.75) for each in made] == ["applied"] * len(made)
        rounds = [decide(each, each.find(name)).round for each in (two, one, two)]
        assert rounds == [20, 21, 22]
        for each in (one, two):
            each.serve([Decide(each.find(name), [])])  # all that is in the log
            each._running[last.id].replica.settle()
        ours, theirs = (each._running[last.id].replica.states for each in (one, two))
        both = ours.keys() & theirs.keys()
        assert both and all(ours[number] == theirs[number] for number in both)
        assert checked(two)[name] == "identical"
        one.store.close()
        two.store.close()
