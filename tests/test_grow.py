"""One more action while an experiment runs: in the core, in the ledger on both databases, and over HTTP."""

import random
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

import belated as bl
from belated.errors import InvalidArgument, ServiceError, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels.random import key_of
from belated.ledger import player as player_module
from belated.ledger.database import open_store
from belated.ledger.errors import Refused
from belated.ledger.experiment import ACTIONS, Experiment, make
from belated.ledger.export import export
from belated.ledger.items import Archive, Cancel, Create, Decide, Feedback, Grow, Replace, Upkeep, ticket_of
from belated.ledger.ledger import Ledger
from belated.ledger.player import Player, make_instance
from belated.ledger.store import ALL, Old
from belated.ledger.verify import verify
from tests.postgres import cluster  # noqa: F401
from tests.rows import all_events, states_now
from tests.serving import Server, kill

GROW = ["ucb1", "klucb", "chernoffucb", "thompsonbernoulli", "epsilongreedy", "linucb", "linearthompson", "percontext"]
GROW += ["roundrobin", "uniform", "slidingucb", "discounteducb", "discountedthompson"]


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Nothing is compiled for so many sizes, neither to decide nor to verify."""
    monkeypatch.setattr(Instance, "compiled", lambda self: False)
    monkeypatch.setattr(player_module, "make_instance", partial(make_instance, plain=True))


def opened(file):
    store = open_store(str(file), serve=True)
    if store.exclusive:
        store._writer.run("PRAGMA synchronous = OFF")
    return Ledger(store, lambda *_: None)


@pytest.fixture(params=["sqlite", "postgresql"])
def file(request, tmp_path):
    return tmp_path / "grow.db" if request.param == "sqlite" else request.getfixturevalue("cluster").new()


@pytest.fixture
def ledger(file):
    made = opened(file)
    yield made
    made.store.close()


def create(ledger, forecaster, name="ads", actions="abc", **more):
    experiment = make(name, list(actions), forecaster, **{"seed": 7, **more})
    (made,) = ledger.serve([Create(experiment, ledger.prepare(experiment))])
    assert isinstance(made, Experiment), made
    return made


def grow(ledger, experiment, name):
    (changed,) = ledger.serve([Grow(experiment, name, ledger.prepare(experiment.grown(name)))])
    assert isinstance(changed, Experiment), changed
    return changed


def decide(ledger, experiment, context=None, **more):
    (made,) = ledger.serve([Decide(experiment, [experiment.context(context)], **more)])
    assert not isinstance(made, Refused), made
    return made[0]


def feed(ledger, experiment, decided, value):
    ((outcome,),) = ledger.serve([Feedback(experiment, [(ticket_of(decided.ticket), value)])])
    return outcome


def checked(ledger):
    return {report.experiment: report.verdict for report in verify(ledger.store)}


# --- the core ---


def example(name):
    return bl.catalog.LEARNERS[name].example()


def test_who_can_grow():
    assert {name for name in bl.catalog.LEARNERS if example(name).with_actions(9) is not None} == set(GROW)
    assert bl.PerContext(bl.Exp3(3), 2).with_actions(4) is None
    assert bl.LinUCB(3, 2, width=0.5).with_actions(5) == bl.LinUCB(5, 2, width=0.5)
    assert bl.PerContext(bl.KLUCB(3, c=1.0), 2).with_actions(2) == bl.PerContext(bl.KLUCB(2, c=1.0), 2)


@pytest.mark.parametrize("name", sorted(bl.catalog.LEARNERS))
def test_forecasters_say_who_cannot(name):
    learner = example(name)
    f = (bl.Direct if learner.steers else bl.BOLD)(learner)
    if name in GROW:
        f.check_grow()
    else:
        with pytest.raises(Unsupported, match=f"one more action: {type(learner).__name__} "):
            f.check_grow()
    if learner.context_size == 0 and not learner.point_size:
        with pytest.raises(Unsupported, match="queues"):
            bl.QPMD(learner).check_grow()


def test_nothing_but_the_new_action_is_new():
    """Features as many as actions: only the layouts say which fields have a place for each action."""
    small = Instance(bl.LinUCB(3, 3), key_of(1, 0), 0, plain=True)
    draws = np.random.default_rng(1)
    for _ in range(20):
        context = draws.random(3)
        small.update(context, *small.predict(context), draws.random(1))
    large = Instance(bl.LinUCB(4, 3), key_of(1, 0), 5, plain=True)
    large.grow_from(0, small.state.tobytes(), small.state.dtype)
    old, new = np.asarray(small.state)[0], np.asarray(large.state)[0]
    for field in ("root", "theta", "index", "predicted"):
        assert np.array_equal(new[field][:3], old[field])
    assert np.array_equal(new["along"], old["along"]) and new["predictions"] == 20
    assert np.array_equal(new["root"][3], np.eye(3)) and not new["theta"][3].any() and new["predicted"][3] == 0


def test_the_age_of_a_new_action_is_counted_from_its_first_day():
    small = Instance(bl.ChernoffUCB(2, clock="age"), key_of(1, 0), 0, plain=True)
    for _ in range(9):
        small.update(None, *small.predict(None), np.array([0.5]))
    large = Instance(bl.ChernoffUCB(3, clock="age"), key_of(1, 0), 0, plain=True)
    large.grow_from(0, small.state.tobytes(), small.state.dtype)
    assert np.asarray(large.state)["since"][0].tolist() == [0, 0, 9]


# --- the ledger ---


class ByHand:
    """BOLD or Direct over instances that are made larger field by field."""

    def __init__(self, pooled, learner, seed):
        self.pooled, self.learner, self.key = pooled, learner, key_of(seed, 0)
        self.instances = [self.make(0)]
        self.free = {0}

    def make(self, number):
        return Instance(self.learner, self.key, number, plain=True)

    def predict(self, context):
        number = min(self.free, default=len(self.instances))
        if number == len(self.instances):
            self.instances.append(self.make(number))
        instance = self.instances[number]
        action, probability = instance.predict(context)
        if self.pooled:
            self.free.discard(number)
        return number, instance.predictions, context, action, probability

    def update(self, given, value):
        number, *rest = given
        self.instances[number].answer(*rest, np.array([value]))
        self.free.add(number)

    def cancel(self, given):
        self.free.add(given[0])

    def grow(self):
        before, k = self.instances, self.learner.actions
        self.learner = self.learner.with_actions(k + 1)
        self.instances = [self.make(number) for number in range(len(before))]
        for old, new in zip(before, self.instances, strict=True):
            self.copy(np.asarray(old.state)[0], np.asarray(new.state)[0], k)
            new.replace(k)

    def copy(self, old, new, k):
        for name in old.dtype.names:
            if name == "copies":
                for one, two in zip(old[name], new[name], strict=True):
                    self.copy(one, two, k)
            elif old[name].shape == new[name].shape:
                new[name] = old[name]
            else:
                new[name][:k] = old[name]


@pytest.mark.parametrize("kind", ["bold", "direct"])
@pytest.mark.parametrize("name", GROW)
def test_it_decides_as_instances_grown_by_hand(name, kind, tmp_path):
    learner = example(name)
    ledger = opened(tmp_path / "grow.db")
    f = {"bold": bl.BOLD, "direct": bl.Direct}[kind](learner, seed=3)
    experiment = create(ledger, bl.catalog.to_data(f), actions="abcdefgh"[: learner.actions], seed=3)
    oracle = ByHand(kind == "bold", learner, 3)
    draw, numbers, open_ = random.Random(5), np.random.default_rng(5), []
    for step in range(90):
        if step in (25, 26, 60):
            experiment = grow(ledger, experiment, f"new {step}")
            oracle.grow()
        if step in (40, 60):  # all of it is in the database
            ledger.store.close()
            ledger = opened(tmp_path / "grow.db")
            experiment = ledger.find("ads")
        chance = draw.random()
        if chance < 0.5 or not open_:
            context = learner.example_context(numbers) if learner.context_size else None
            mine, theirs = decide(ledger, experiment, context), oracle.predict(context)
            assert mine.action == theirs[3] and mine.probability == pytest.approx(theirs[4], abs=1e-12)
            assert mine.name == experiment.actions[mine.action]
            open_.append((mine, theirs))
            continue
        mine, theirs = open_.pop(draw.randrange(len(open_)))
        if chance < 0.9:
            value = draw.random()
            assert feed(ledger, experiment, mine, value) == "applied"
            oracle.update(theirs, value)
        else:
            assert ledger.serve([Cancel(experiment, [ticket_of(mine.ticket)])]) == [["cancelled"]]
            oracle.cancel(theirs)
    assert bytes_of(ledger, experiment) == [instance.state.tobytes() for instance in oracle.instances]
    assert experiment.actions[-3:] == ("new 25", "new 26", "new 60") and experiment.learner == oracle.learner
    assert checked(ledger) == {"ads": "identical"}
    ledger.store.close()


@pytest.mark.parametrize("kind", ["bold", "direct"])
def test_open_decisions_stay_valid(file, kind, tmp_path):
    ledger = opened(file)
    experiment = create(ledger, f"{kind}(ucb1)", retention_seconds=1000)
    before = [decide(ledger, experiment) for _ in range(5)]
    keyed = decide(ledger, experiment, key="k", digest=b"1")
    told = ledger.statistics(experiment)
    assert told["pulls"] == [2, 2, 2] or kind == "bold"
    experiment = grow(ledger, experiment, "d")
    assert experiment.actions == ("a", "b", "c", "d")
    assert decide(ledger, experiment, key="k", digest=b"1") == keyed
    old = [feed(ledger, experiment, made, 0.5) for made in before]
    assert old == ["applied"] * 5 and feed(ledger, experiment, before[0], 0.5) == "duplicate"
    ledger.store.close()  # and back from the database alone
    ledger = opened(file)
    experiment = ledger.find("ads")
    assert decide(ledger, experiment, key="k", digest=b"1") == keyed
    after = {decide(ledger, experiment).name for _ in range(6)}
    assert "d" in after or kind == "bold"  # whose instances have others to try first
    only = decide(ledger, experiment, allowed=["d"])
    assert only.name == "d"
    assert feed(ledger, experiment, only, 1.0) == "applied"
    assert ledger.decision(experiment, ticket_of(only.ticket))["name"] == "d"
    told = ledger.statistics(experiment)
    assert (told["additions"], told["decisions"], told["feedback"]) == (1, 13, 6)
    assert len(told["pulls"]) == len(told["actions"]) == 4 and sum(told["pulls"]) == 13
    assert told["actions"][3]["name"] == "d" and told["actions"][3]["rewards"] == 1
    (grown,) = (event for event in events(ledger, experiment) if event.kind == "grow")  # however many instances
    assert (grown.place, grown.action, grown.instance) == (7, 3, ALL if kind == "bold" else 0)
    assert export(ledger.store, "ads", tmp_path / "ads.parquet") == 13
    rows = pq.read_table(tmp_path / "ads.parquet").to_pylist()
    assert all(row["name"] == experiment.actions[row["action"]] for row in rows) and rows[-1]["name"] == "d"
    assert checked(ledger) == {"ads": "identical"}
    ledger.store.close()


def events(ledger, experiment):
    with ledger.store.read() as session:
        return all_events(session, experiment.id)


def bytes_of(ledger, experiment):
    """Every state, as the log has it."""
    plain = Player(experiment, make_instance(experiment, plain=True))
    with ledger.store.read() as session:
        return [state.data for state in states_now(session, experiment, plain)]


def test_statistics_go_on_from_what_was_saved(file):
    ledger = opened(file)
    experiment = create(ledger, "direct(ucb1)")
    feed(ledger, experiment, decide(ledger, experiment), 0.25)
    ledger.statistics(experiment)
    ledger.serve([Upkeep()])
    experiment = grow(ledger, experiment, "d")
    for _ in range(4):
        feed(ledger, experiment, decide(ledger, experiment), 0.5)
    known = ledger.statistics(experiment)
    assert [each["rewards"] for each in known["actions"]] == known["pulls"] and sum(known["pulls"]) == 5
    assert ledger.folder._folds[experiment.id]._met(experiment, known).uncovered == "actions were added"
    ledger.store.close()
    ledger = opened(file)
    assert ledger.statistics(experiment) | {"at": 0} == known | {"at": 0}
    ledger.store.close()


@pytest.mark.parametrize("at", ["before", "after", "both"])
def test_retention_and_verify_across_a_growth(ledger, at):
    experiment = create(ledger, "bold(ucb1)", retention_seconds=100)

    def some():
        made = [decide(ledger, experiment) for _ in range(4)]
        for each in made[:3]:
            feed(ledger, experiment, each, 0.5)
        return made[3]

    def checkpoint():
        """As if time had passed."""
        with ledger.store.write() as session:
            session.set_meta(f"checkpointed {experiment.id}", repr(session.now() - 60))
        ledger.statistics(experiment)
        while ledger.serve([Upkeep()]) == [True]:
            pass

    last = some()
    if at in ("before", "both"):
        checkpoint()
    experiment = grow(ledger, experiment, "d")
    feed(ledger, experiment, last, 1.0)
    if at in ("after", "both"):
        checkpoint()
    some()
    assert checked(ledger) == {"ads": "identical"}
    with ledger.store.read() as session:
        kept = session.checkpoints(experiment.id)
        sizes = {len(each.state.data) for some in kept.values() for each in some}
    assert len(sizes) == (1 if at == "before" else 2)  # states that were not used since are as they were
    with ledger.store.write() as session:  # all that lies before the newest checkpoint
        place = session.heads([experiment.id])[experiment.id].written
        assert session.purge({experiment.id: Old(session.now() + 1, place)}, session.now() + 2, 10_000) > 0
    assert checked(ledger) == {"ads": "identical"}


def test_replaced_and_grown_in_turn(ledger):
    experiment = create(ledger, "direct(klucb)", actions="ab")
    made = [decide(ledger, experiment) for _ in range(4)]
    experiment = grow(ledger, experiment, "c")
    (experiment,) = ledger.serve([Replace(experiment, "a", "d")])
    made += [decide(ledger, experiment) for _ in range(4)]
    (experiment,) = ledger.serve([Replace(experiment, "c", "e")])
    experiment = grow(ledger, experiment, "a")  # a name that is free again
    assert experiment.actions == ("d", "b", "e", "a")
    assert [feed(ledger, experiment, each, 0.5) for each in made] == ["applied"] * 8
    for _ in range(8):
        feed(ledger, experiment, decide(ledger, experiment), 0.75)
    names = [ledger.decision(experiment, ticket_of(each.ticket))["name"] for each in made]
    assert names == [each.name for each in made]
    told = ledger.statistics(experiment)
    assert (told["additions"], told["replacements"], len(told["pulls"])) == (2, 2, 4)
    assert checked(ledger) == {"ads": "identical"}


@pytest.mark.parametrize("kind", ["qpmd(ucb1)", "bold(exp3)", "direct(exp3ix)", "bold(tsallisinf)", "bold(hedge)"])
def test_what_cannot_grow_refuses(ledger, kind):
    experiment = create(ledger, kind)
    with pytest.raises(Unsupported, match="cannot get one more action"):
        experiment.grown("d")
    (refused,) = ledger.serve([Grow(experiment, "d", ledger.prepare(experiment))])
    assert refused.kind == "unsupported" and "cannot get one more action" in str(refused)
    assert ledger.find("ads").actions == ("a", "b", "c") and not events(ledger, experiment)


def test_wrong_names_and_times(ledger):
    experiment = create(ledger, "bold(ucb1)")
    first = Grow(experiment, "d", ledger.prepare(experiment.grown("d")))
    again = Grow(experiment, "d", ledger.prepare(experiment.grown("d")))
    other = Grow(experiment, "e", ledger.prepare(experiment.grown("e")))  # made for four, and then it is the fifth
    one, two, three = ledger.serve([first, again, other])
    assert one.actions == ("a", "b", "c", "d") and two.kind == "exists" and three.actions == ("a", "b", "c", "d", "e")
    assert [event.action for event in events(ledger, experiment)] == [3, 4]
    assert {decide(ledger, three).action for _ in range(3)} == {0}  # BOLD: three instances, each its first
    for name in ("", "x" * 201):
        assert ledger.serve([Grow(three, name, first.player)])[0].kind == "invalid"
    (archived,) = ledger.serve([Archive(three)])
    assert ledger.serve([Grow(three, "f", first.player)])[0].kind == "archived"
    with pytest.raises(Refused, match="archived"):
        archived.grown("f")
    assert checked(ledger) == {"ads": "identical"}


def test_limits():
    many = [f"action {i}" for i in range(ACTIONS)]
    with pytest.raises(InvalidArgument, match=f"{ACTIONS} at most"):
        make("ads", many, "bold(uniform)").grown("one more")
    large = make("ads", many[:140], {"name": "direct", "learner": {"name": "linucb", "features": 30}})
    with pytest.raises(InvalidArgument, match="bytes"):
        large.grown("one more")


def test_a_growth_that_fails_changes_nothing(ledger, monkeypatch):
    experiment = create(ledger, "direct(ucb1)")
    made = [decide(ledger, experiment) for _ in range(5)]
    item = Grow(experiment, "d", ledger.prepare(experiment.grown("d")))
    with monkeypatch.context() as patched:
        patched.setattr(Player, "grow", fails)
        (refused,) = ledger.serve([item])
    assert refused.kind == "internal"
    assert ledger.find("ads").actions == ("a", "b", "c") and checked(ledger) == {"ads": "identical"}
    assert feed(ledger, experiment, made[0], 1.0) == "applied"
    (grown,) = ledger.serve([item])
    assert grown.actions == ("a", "b", "c", "d")
    assert [feed(ledger, grown, each, 1.0) for each in made[1:]] == ["applied"] * 4
    assert checked(ledger) == {"ads": "identical"}


def test_a_state_that_cannot_grow_yet_is_as_it_was(ledger, monkeypatch):
    """States that have lives of their own grow when they are next used: what fails then leaves the others alone."""
    experiment = create(ledger, "bold(ucb1)")
    made = [decide(ledger, experiment) for _ in range(5)]
    with monkeypatch.context() as patched:
        patched.setattr(Player, "grow", fails)
        grown = grow(ledger, experiment, "d")
        log = events(ledger, grown)
        (refused,) = ledger.serve([Feedback(grown, [(ticket_of(made[0].ticket), 1.0)])])
        assert refused.kind == "internal" and "a fault" in str(refused)
        assert decide(ledger, grown).name == "a"  # of a new instance
    assert len(events(ledger, grown)) == len(log) + 1 and checked(ledger) == {"ads": "identical"}
    assert [feed(ledger, grown, each, 1.0) for each in made] == ["applied"] * 5
    assert checked(ledger) == {"ads": "identical"}


def fails(*_):
    raise RuntimeError("a fault")


def test_verify_sees_a_growth_that_was_tampered_with(tmp_path):
    ledger = opened(tmp_path / "grow.db")
    experiment = create(ledger, "direct(ucb1)")
    experiment = grow(ledger, grow(ledger, experiment, "d"), "e")
    run = ledger.store._writer.run
    for action in (3, 7):
        run("UPDATE events SET action = ? WHERE seq = 2", (action,))
        assert checked(ledger) == {"ads": "different"}
    run("UPDATE events SET action = 4 WHERE seq = 2")
    assert checked(ledger) == {"ads": "identical"}
    ledger.store.close()


def test_the_compiled_form_takes_over(tmp_path):
    """Where there is no cache yet the plain form serves the new size, and the compiled one goes on from its state."""
    waiting = []
    ledger = opened(tmp_path / "grow.db")
    ledger._warmer = lambda experiment, instance, ready: waiting.append((experiment, ready))
    experiment = create(ledger, "direct(ucb1)")
    waiting.clear()
    experiment = grow(ledger, experiment, "d")
    for _ in range(6):
        feed(ledger, experiment, decide(ledger, experiment), 0.5)
    for warmed, ready in waiting:
        assert len(warmed.actions) == 4
        ready(make_instance(warmed))
    for _ in range(6):
        feed(ledger, experiment, decide(ledger, experiment), 0.25)
    assert checked(ledger)["ads"] in ("identical", "equal to rounding")
    ledger.store.close()


# --- several processes, and HTTP ---


def test_other_processes_learn_of_it(cluster):  # noqa: F811
    url = cluster.new()
    one, two = opened(url), opened(url)
    experiment = create(one, "bold(ucb1)")
    two.refresh()
    known = two.find("ads")
    before = [decide(two, known), decide(two, known)]
    grown = grow(one, experiment, "d")
    made = [decide(two, known) for _ in range(2)]  # who still thinks of three actions
    assert {len(running.experiment.actions) for running in two._running.values()} == {4}
    made += [decide(one, grown) for _ in range(2)]
    assert [feed(one, grown, each, 0.5) for each in before + made] == ["applied"] * 6
    stale = two._named["ads"] = known
    last = decide(one, grown, allowed=["d"])
    two._generation = None
    assert two.decision(stale, ticket_of(last.ticket))["name"] == "d"
    assert len(two.statistics(stale)["pulls"]) == 4
    # both at once: each is made for the fourth, and the second becomes the fifth
    first, second = (Grow(grown, name, each.prepare(grown.grown(name))) for each, name in ((one, "e"), (two, "f")))
    assert one.serve([first])[0].actions[-1] == "e" and two.serve([second])[0].actions[-2:] == ("e", "f")
    (refused,) = one.serve([Grow(grown, "f", first.player)])
    assert refused.kind == "exists"
    assert [feed(one, grown, last, 1.0), decide(one, grown).round] == ["applied", 8]
    assert checked(one) == {"ads": "identical"}
    one.store.close()
    two.store.close()


def test_over_http(tmp_path):
    server = Server(str(tmp_path / "http.db"))
    server.start()
    try:
        with bl.Client(server.url) as client:
            client.create("ads", ["a", "b", "c"], "bold(ucb1)", seed=1)
            old = client.decide("ads", count=3)
            assert client.add_action("ads", "d").actions == ["a", "b", "c", "d"]
            for each in old:
                assert client.feedback("ads", each, 0.5).status == "applied"
            assert client.decide("ads", allowed=["d"]).action == 3
            assert len(client.statistics("ads").pulls) == 4
            for name, kind, status in (("d", "exists", 409), ("", "invalid", 422), (7, "invalid", 422)):
                with pytest.raises(ServiceError) as caught:
                    client.add_action("ads", name)
                assert (caught.value.kind, caught.value.status) == (kind, status)
            client.create("held", ["a", "b"], "qpmd(ucb1)")
            with pytest.raises(ServiceError, match="queues") as caught:
                client.add_action("held", "c")
            assert (caught.value.kind, caught.value.status) == ("unsupported", 422)
            with pytest.raises(ServiceError, match="no experiment"):
                client.add_action("nothing", "c")
            kill(server.pids)
            server.reap()
            server.start()
            client.url = server.url
            assert client.experiment("ads").actions == ["a", "b", "c", "d"]
            assert client.decide("ads", allowed=["d"]).action == 3
            client.archive("ads")
            with pytest.raises(ServiceError) as caught:
                client.add_action("ads", "e")
            assert (caught.value.kind, caught.value.status) == ("archived", 409)
    finally:
        server.stop()
    store = open_store(str(tmp_path / "http.db"))
    assert {report.verdict for report in verify(store)} == {"identical"}
    store.close()
