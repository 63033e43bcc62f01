"""The ledger on both databases, without HTTP: what is asked, what is answered, and what is on record."""

import contextlib
import json
import os
import random
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.checks.contract import allowed, arena, context_of, feedback_of
from belated.errors import InvalidArgument, InvalidState, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels.random import key_of
from belated.ledger import fold
from belated.ledger.database import open_store
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment, make
from belated.ledger.export import export
from belated.ledger.folder import Folder
from belated.ledger.items import Archive, Cancel, Create, Decide, Feedback, Replace, Save, Sweep, Upkeep, ticket_of
from belated.ledger.ledger import Ledger
from belated.ledger.replica import Replica
from belated.ledger.sqlite import SQLite
from belated.ledger.store import day_of
from belated.ledger.verify import verify
from tests.postgres import cluster  # noqa: F401

KINDS = list(bl.catalog.FORECASTERS.values())


def opened(file, plain=False, migrate=False):
    """A ledger; a `plain` one never gets its kernels compiled."""
    store = open_store(str(file), serve=True, migrate=migrate)
    if store.exclusive:
        store._writer.run("PRAGMA synchronous = OFF")
    return Ledger(store, (lambda *_: None) if plain else None)


@pytest.fixture
def own_file(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def file(request, own_file):
    return own_file if request.param == "sqlite" else request.getfixturevalue("cluster").new()


@pytest.fixture
def ledger(file):
    made = opened(file)
    yield made
    made.store.close()


def create(ledger, forecaster="bold(exp3)", name="ads", actions="abc", **more):
    experiment = make(name, list(actions), forecaster, **{"seed": 7, **more})
    (made,) = ledger.serve([Create(experiment, ledger.prepare(experiment))])
    assert isinstance(made, Experiment), made
    return made


def decide(ledger, experiment, context=None, **more):
    (made,) = ledger.serve([Decide(experiment, [experiment.context(context)], **more)])
    assert not isinstance(made, Refused), made
    return made[0]


def feed(ledger, experiment, decided, value=1.0):
    ticket = decided if isinstance(decided, bytes | None) else ticket_of(decided.ticket)
    ((outcome,),) = ledger.serve([Feedback(experiment, [(ticket, value)])])
    return outcome.kind if isinstance(outcome, Refused) else outcome


def cancel(ledger, experiment, decided):
    ((outcome,),) = ledger.serve([Cancel(experiment, [ticket_of(decided.ticket)])])
    return outcome.kind if isinstance(outcome, Refused) else outcome


def checked(ledger):
    return {report.experiment: report.verdict for report in verify(ledger.store)}


# --- the same as in process ---


def example(name):
    return bl.catalog.LEARNERS[name].example()


SERVED = [name for name in sorted(bl.catalog.LEARNERS) if not example(name).point_size]
ALL = [(kind, name) for name in SERVED for kind in KINDS if kind in allowed(example(name))]


def value_for(learner, action, draw):
    if learner.feedback == "symbol":
        return draw.choice(learner.symbols[action])
    rewards = [draw.random() for _ in range(learner.actions)]
    if learner.one_hot:
        rewards = [float(each == max(rewards)) for each in rewards]
    return rewards if learner.feedback == "full" else rewards[0]


@pytest.mark.parametrize(("kind", "learner"), ALL)
def test_it_decides_as_the_forecaster_does(kind, learner, own_file):
    f = kind(example(learner), seed=12)
    ledger = opened(own_file, plain=True)
    names = [f"action {i}" for i in range(f.actions)]
    experiment = create(ledger, bl.catalog.to_data(f), actions=names, seed=12)
    draw, numbers, open_ = random.Random(3), np.random.default_rng(3), []
    for step in range(60):
        if step == 30:  # all state is in the database
            ledger.store.close()
            ledger = opened(own_file, plain=True)
            experiment = ledger.find("ads")
        chance = draw.random()
        if chance < 0.5 or not open_:
            size = f.learner.context_size
            context = f.learner.example_context(numbers) if size else None
            mine, theirs = decide(ledger, experiment, context), f.predict(context)
            assert (mine.action, mine.round) == (theirs.action, theirs.ticket)
            assert mine.probability == pytest.approx(theirs.probability, abs=1e-12)
            open_.append((mine, theirs))
            continue
        mine, theirs = open_.pop(draw.randrange(len(open_)))
        if chance < 0.9:
            value = value_for(f.learner, theirs.action, draw)
            assert feed(ledger, experiment, mine, value) == "applied"
            f.update(theirs.ticket, value)
        else:
            assert cancel(ledger, experiment, mine) == "cancelled"
            f.cancel(theirs.ticket)
    told = ledger.statistics(experiment)
    assert (told["outstanding"], told["peak"], told["instances"]) == (f.outstanding, f.peak, f.instances)
    if kind is bl.QPMD:
        assert told["queues"] == f.queued
    assert checked(ledger)["ads"] in ("identical", "equal to rounding")
    ledger.store.close()


@pytest.mark.parametrize("name", sorted(bl.catalog.LEARNERS))
def test_the_plain_form_decides_as_the_compiled_one(name):
    learner = example(name)
    game = arena(learner, 40)
    compiled, plain = (Instance(learner, key_of(5, 0), 2, plain=form) for form in (False, True))
    for t in range(40):
        context = context_of(game, learner, t)
        one, two = compiled.predict(context), plain.predict(context)
        assert one[0] == two[0] and one[1] == pytest.approx(two[1], abs=1e-12)
        feedback = feedback_of(game, learner, t, one[0])
        compiled.update(context, *one, feedback)
        plain.update(context, *two, feedback)


def test_rewards_are_scaled_and_kept_as_they_came(ledger):
    experiment = create(ledger, "direct(ucb1)", reward_range=[-10, 30])
    f = bl.Direct(bl.UCB1(actions=3), seed=7)
    for value in (30, -10, 5.5, 0, 12):
        made, theirs = decide(ledger, experiment), f.predict()
        assert made.action == theirs.action
        assert feed(ledger, experiment, made, value) == "applied"
        f.update(theirs.ticket, (value + 10) / 40)
        assert ledger.decision(experiment, ticket_of(made.ticket))["value"] == value
    ledger.serve([Save()])
    with ledger.store.read() as session:
        (state,) = session.states_after(experiment.id, -1, 2)
    assert state.data == f._instances[0].state.tobytes()


def test_queues_are_what_the_forecaster_has(ledger):
    experiment = create(ledger, "qpmd(exp3)")
    f = bl.QPMD(bl.Exp3(actions=3), seed=7)
    for _ in range(3):
        made = [(decide(ledger, experiment), f.predict()) for _ in range(20)]
        for mine, theirs in made:
            feed(ledger, experiment, mine, 0.25)
            f.update(theirs.ticket, 0.25)
        assert ledger.statistics(experiment)["queues"] == f.queued
        assert Ledger(ledger.store).statistics(experiment)["queues"] == f.queued  # as another process has it
        ledger.serve([Save()])
        assert decide(ledger, experiment).action == f.predict().action
        assert ledger.statistics(experiment)["queues"] == f.queued
    assert checked(ledger) == {"ads": "identical"}


# --- the meaning of answers ---


@pytest.mark.parametrize("kind", ["bold(exp3)", "qpmd(ucb1)", "direct(thompsonbernoulli)"])
def test_first_feedback_counts_and_stays(ledger, kind):
    experiment = create(ledger, kind)
    other = create(ledger, kind, "other")
    first, second = decide(ledger, experiment), decide(ledger, experiment)
    assert feed(ledger, experiment, second, 0.5) == "applied"
    assert feed(ledger, experiment, second, 0.5) == "duplicate"
    assert feed(ledger, experiment, second, 0.75) == "conflict"
    assert feed(ledger, other, first) == "unknown_ticket"
    assert feed(ledger, experiment, b"0123456789abcdef") == "unknown_ticket"
    assert feed(ledger, experiment, None) == "unknown_ticket"
    assert cancel(ledger, experiment, second) == "closed"
    assert cancel(ledger, experiment, first) == cancel(ledger, experiment, first) == "cancelled"
    assert feed(ledger, experiment, first) == "cancelled"
    told = ledger.statistics(experiment)
    assert (told["decisions"], told["feedback"], told["cancelled"], told["outstanding"]) == (2, 1, 1, 0)
    assert (told["duplicates"], told["conflicts"], told["unknown"]) == (1, 2, 2)
    assert ledger.decision(experiment, ticket_of(second.ticket))["value"] == 0.5
    remarks = ledger.store._writer.run("SELECT kind, value FROM remarks ORDER BY id").fetchall()
    assert remarks == [("conflict", "0.75"), ("conflict", "1.0")]
    assert checked(ledger) == {"ads": "identical", "other": "identical"}


def test_in_one_batch_each_item_has_its_own_answer(ledger):
    experiment = create(ledger)
    made = decide(ledger, experiment)
    ticket = ticket_of(made.ticket)
    answers = ledger.serve(
        [
            Decide(experiment, [None]),
            Feedback(experiment, [(ticket, 1.0), (ticket, 1.0), (ticket, 0.0), (None, 1.0)]),
            Cancel(experiment, [ticket]),
            Decide(experiment, [None, None]),
        ]
    )
    outcomes = [getattr(outcome, "kind", outcome) for outcome in answers[1]]
    assert outcomes == ["applied", "duplicate", "conflict", "unknown_ticket"]
    assert answers[2][0].kind == "closed"
    assert [decided.round for answer in (answers[0], answers[3]) for decided in answer] == [2, 3, 4]
    told = ledger.statistics(experiment)
    assert (told["outstanding"], told["peak"], told["instances"]) == (3, 2, 3)


def test_instances_are_the_peak_plus_one(ledger):
    experiment = create(ledger)
    draw, open_ = random.Random(1), []
    for _ in range(60):
        items = [Decide(experiment, [None] * draw.randrange(1, 4)) for _ in range(draw.randrange(3))]
        ended = [open_.pop(draw.randrange(len(open_))) for _ in range(draw.randrange(len(open_) + 1))]
        items.append(Feedback(experiment, [(ticket, draw.random()) for ticket in ended]))
        for answer in ledger.serve(items)[:-1]:
            open_ += [ticket_of(decided.ticket) for decided in answer]
    told = ledger.statistics(experiment)
    assert told["instances"] == told["peak"] + 1 and told["outstanding"] == len(open_)
    assert checked(ledger) == {"ads": "identical"}


def test_one_bad_item_does_not_harm_its_neighbours(ledger, monkeypatch):
    experiment = create(ledger, {"name": "direct", "learner": {"name": "linucb", "features": 1}})
    good = decide(ledger, experiment, [1.0])
    whole = Replica.decide

    def fails(self, context, *rest):
        if context[0] == 13.0:
            raise RuntimeError("a defect")
        return whole(self, context, *rest)

    monkeypatch.setattr(Replica, "decide", fails)
    items = [
        Decide(experiment, [np.array([2.0])]),
        Decide(experiment, [np.array([13.0])]),
        Feedback(experiment, [(ticket_of(good.ticket), 1.0)]),
        Decide(experiment, [np.array([3.0])]),
    ]
    before, bad, fed, after = ledger.serve(items)
    assert isinstance(bad, Refused) and bad.kind == "internal" and fed == ["applied"]
    assert len({before[0].round, after[0].round, good.round}) == 3
    assert ledger.statistics(experiment)["decisions"] == 3
    assert checked(ledger) == {"ads": "identical"}


def test_asking_again_gives_the_same_answer(ledger):
    experiment = create(ledger)
    asked = Decide(experiment, [None, None], None, "key", b"one")
    (first,) = ledger.serve([asked])
    assert ledger.serve([asked]) == [first]
    other = Decide(experiment, [None], None, "key", b"two")
    assert ledger.serve([other])[0].kind == "key_reused"
    both = [Decide(experiment, [None], None, "new", digest) for digest in (b"x", b"x", b"y")]
    one, again, refused = ledger.serve(both)
    assert one == again and refused.kind == "key_reused"
    assert ledger.statistics(experiment)["decisions"] == 3


def older_by(ledger, days, what):
    """Keys grow older. On PostgreSQL they lie in the tables of their days, and go with them."""
    with ledger.store.write() as session:
        if ledger.store.exclusive:
            session.run(f"UPDATE keys SET at = at - 86400 * ? WHERE {what}", (days,))
            return
        for before in range(1, 6):
            session.make_day(day_of(session.now()) - before)
        session.run(f"UPDATE keys SET at = at - 86400 * %s::bigint, day = day - %s::bigint WHERE {what}", (days, days))


def test_old_keys_are_forgotten(ledger):
    experiment = create(ledger)
    decide(ledger, experiment, key="old", digest=b"x")
    decide(ledger, experiment, key="new", digest=b"x")
    older_by(ledger, 1, "key = 'old'")
    ledger.serve([Upkeep()])
    pairs = [(experiment.id, "old"), (experiment.id, "new")]
    with ledger.store.write() as session:
        assert len(session.look([], [], pairs)[2]) == 2  # 24 hours
    older_by(ledger, 3, "key = 'old'")
    ledger.serve([Upkeep()])
    with ledger.store.write() as session:
        assert list(session.look([], [], pairs)[2]) == pairs[1:]
        assert session.ask("SELECT key FROM keys") == [("new",)]


def test_the_limit_of_open_decisions(file):
    ledger = opened(file)
    experiment = create(ledger, limits={"outstanding": 3})
    first, second = ledger.serve([Decide(experiment, [None] * 2), Decide(experiment, [None] * 2)])
    assert len(first) == 2 and second.kind == "too_many_outstanding"
    ledger.store.close()
    ledger = opened(file)
    experiment = ledger.find("ads")
    ticket = ticket_of(first[0].ticket)
    assert ledger.serve([Decide(experiment, [None] * 2)])[0].kind == "too_many_outstanding"
    _, answer = ledger.serve([Feedback(experiment, [(ticket, 1.0)]), Decide(experiment, [None] * 2)])
    assert len(answer) == 2
    assert ledger.serve([Decide(experiment, [None])])[0].kind == "too_many_outstanding"
    ledger.store.close()


def test_full_information_and_symbols(ledger):
    full = create(ledger, "bold(hedge)", "full", "ab", reward_range=[0, 10])
    made = decide(ledger, full)
    for wrong in (1.0, [1.0], [1.0, 11.0], ["1", 2.0], "x"):
        with pytest.raises(InvalidArgument):
            full.check(wrong)
    assert feed(ledger, full, made, [10, 2.5]) == "applied"
    assert feed(ledger, full, made, [10.0, 2.5]) == "duplicate"
    assert [action["mean"] for action in ledger.statistics(full)["actions"]] == [10.0, 2.5]
    game = {"loss": [[1, 0], [0, 1]], "symbols": [["-", "-"], ["rotten", "good"]]}
    tasting = create(ledger, {"name": "direct", "learner": {"name": "cbp", **game}}, "apples", ["sell", "taste"])
    made = [decide(ledger, tasting) for _ in range(4)]
    taste = next(decided for decided in made if decided.name == "taste")
    assert feed(ledger, tasting, taste, "purple") == "invalid"
    assert feed(ledger, tasting, taste, "rotten") == "applied"
    assert ledger.statistics(tasting)["symbols"] == {"1:rotten": 1}
    assert set(checked(ledger).values()) == {"identical"}


# --- expiry ---


def test_expired_decisions_are_dropped(ledger):
    experiment = create(ledger, expiry_seconds=0.5)
    tickets = [decide(ledger, experiment) for _ in range(5)]
    assert feed(ledger, experiment, tickets[0]) == "applied"
    time.sleep(0.51)
    assert feed(ledger, experiment, tickets[1]) == "late"  # swept or not
    assert cancel(ledger, experiment, tickets[2]) == "expired"
    assert ledger.decision(experiment, ticket_of(tickets[1].ticket))["state"] == "expired"
    assert ledger.statistics(experiment)["outstanding"] == 4
    assert ledger.serve([Sweep(limit=3)]) == [True]
    assert ledger.serve([Sweep(limit=3)]) == [False]
    assert feed(ledger, experiment, tickets[1], 0.5) == "late"
    assert feed(ledger, experiment, tickets[0]) == "duplicate"
    told = ledger.statistics(experiment)
    assert (told["expired"], told["late"], told["outstanding"], told["feedback"]) == (4, 2, 0, 1)
    assert decide(ledger, experiment).round == 6 and told["instances"] == 5
    assert checked(ledger) == {"ads": "identical"}


@pytest.mark.parametrize("kind", [bl.BOLD, bl.QPMD, bl.Direct])
def test_a_default_reward_is_learned_once(ledger, kind):
    f = kind(bl.EpsilonGreedy(actions=3), seed=7)
    experiment = create(ledger, bl.catalog.to_data(f), expiry_seconds=0.03, on_expiry=0.25)
    assert "bias" in experiment.warnings[0]
    made = [(decide(ledger, experiment), f.predict()) for _ in range(4)]
    time.sleep(0.04)
    ledger.serve([Sweep(), Sweep()])
    for _, theirs in made:
        f.update(theirs.ticket, 0.25)
    later = make("later", list("abc"), "bold(exp3)")
    ledger.serve([Create(later, ledger.prepare(later)), Sweep()])
    assert [decide(ledger, experiment).action for _ in range(6)] == [f.predict().action for _ in range(6)]
    told = ledger.statistics(experiment)
    assert told["expired"] == 4 and told["feedback"] == 0
    row = ledger.decision(experiment, ticket_of(made[0][0].ticket))
    assert (row["state"], row["value"]) == ("expired", 0.25)
    assert feed(ledger, experiment, made[0][0]) == "late"
    assert checked(ledger)["ads"] == "identical"


# --- experiments ---


def test_archived_experiments_only_end(ledger):
    experiment = create(ledger)
    made = decide(ledger, experiment)
    (archived,) = ledger.serve([Archive(experiment)])
    assert archived.archived_at is not None
    assert ledger.serve([Decide(experiment, [None])])[0].kind == "archived"
    assert feed(ledger, experiment, made) == "applied"


def test_a_learner_that_looks_back_a_while_says_so(ledger):
    """From then on all feedback is in vain, and the service cannot know how late it will be."""
    made = create(ledger, "direct(slidingucb(window=20))")
    assert made.warnings == ["SlidingUCB keeps the last 20 decisions: of feedback that comes later it learns nothing"]
    assert (
        create(ledger, "bold(slidingucb(window=20))", "other").warnings == []
    )  # each is told before it is asked again
    assert create(ledger, "direct(hybridftrl)", "third").warnings == []


def test_a_name_is_taken_once(ledger):
    create(ledger)
    again = make("ads", ["x"], "direct(ucb1)")
    assert ledger.serve([Create(again, ledger.prepare(again))])[0].kind == "exists"
    assert ledger.find("ads").actions == ("a", "b", "c")
    with pytest.raises(Refused):
        ledger.find("nothing")


@pytest.mark.parametrize("kind", [bl.BOLD, bl.Direct])
def test_an_action_is_replaced(ledger, kind):
    f = kind(bl.UCB1(actions=3), seed=7)
    experiment = create(ledger, bl.catalog.to_data(f))
    made = [(decide(ledger, experiment), f.predict()) for _ in range(6)]
    for mine, theirs in made[:3]:
        feed(ledger, experiment, mine, 0.5)
        f.update(theirs.ticket, 0.5)
    (changed,) = ledger.serve([Replace(experiment, "b", "new")])
    f.replace(1)
    assert changed.actions == ("a", "new", "c")
    assert ledger.serve([Replace(experiment, "a", "c")])[0].kind == "invalid"
    assert ledger.serve([Replace(experiment, "b", "x")])[0].kind == "invalid"
    for mine, theirs in made[3:]:
        assert feed(ledger, experiment, mine, 1.0) == "applied"
        f.update(theirs.ticket, 1.0)
    assert [decide(ledger, changed).action for _ in range(9)] == [f.predict().action for _ in range(9)]
    told = ledger.statistics(changed)
    assert told["dropped"] == f.dropped and told["replacements"] == 1
    assert ledger.decision(changed, ticket_of(made[0][0].ticket))["name"] == made[0][0].name
    assert checked(ledger) == {"ads": "identical"}


def test_statistics_of_an_action_begin_anew_when_it_is_replaced(ledger):
    experiment = create(ledger, "direct(ucb1)", actions="ab")
    for _ in range(6):
        feed(ledger, experiment, decide(ledger, experiment), 0.5)
    before = ledger.statistics(experiment)
    assert [each["pulls"] for each in before["actions"]] == before["pulls"] == [3, 3]
    low, high = before["actions"][0]["interval"]  # all alike, yet others may exist that were not seen
    assert 0.0 < low < 0.1 and 0.9 < high < 1.0, "three rewards tell little"
    (experiment,) = ledger.serve([Replace(experiment, "a", "A")])
    assert decide(ledger, experiment).name == "A"
    told = ledger.statistics(experiment)
    assert told["pulls"] == [4, 3] and [each["pulls"] for each in told["actions"]] == [1, 3]


def test_what_cannot_replace_refuses(ledger):
    for name, kind in (("one", "qpmd(ucb1)"), ("two", "bold(exp3)")):
        experiment = create(ledger, kind, name)
        assert ledger.serve([Replace(experiment, "a", "new")])[0].kind == "unsupported"


@pytest.mark.parametrize("kind", ["bold(exp3)", "direct(klucb)"])
def test_a_choice_among_some_actions(ledger, kind):
    experiment = create(ledger, kind)
    experiment.check_allowed()
    draw = random.Random(4)
    for _ in range(30):
        some = tuple(sorted(draw.sample(range(3), draw.randrange(1, 4))))
        made = decide(ledger, experiment, allowed=["abc"[action] for action in some])
        assert made.action in some and (len(some) > 1 or made.probability == 1.0)
        feed(ledger, experiment, made, draw.random())
    (refusal,) = ledger.serve([Decide(experiment, [None], allowed=["a", "z"])])
    assert refusal.kind == "invalid" and "'z'" in str(refusal)
    assert checked(ledger) == {"ads": "identical"}
    for refuses in ("qpmd(exp3)", "bold(tsallisinf)"):
        with pytest.raises(Unsupported):
            make("x", list("abc"), refuses).check_allowed()


AMONG = sorted(name for name, learner in bl.catalog.LEARNERS.items() if learner.predict_among is not None)


@pytest.mark.parametrize("name", AMONG)
def test_among_all_actions_the_choice_is_the_usual_one(name):
    learner = example(name)
    usual, among = (Instance(learner, key_of(2, 0), 1, plain=True) for _ in range(2))
    draw = random.Random(6)
    for _ in range(60):
        given = np.array([draw.random() for _ in range(learner.context_size)]) if learner.context_size else None
        one, two = usual.predict(given), among.predict_among(given, range(learner.actions))
        assert one[0] == two[0] and one[1] == pytest.approx(two[1], abs=1e-12)
        feedback = np.array([draw.random()])
        usual.update(given, *one, feedback)
        among.update(given, *two, feedback)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "a b"}, "name must be"),
        ({"actions": ["a", "a"]}, "two actions are called 'a'"),
        ({"actions": []}, "actions must have at least 1"),
        ({"forecaster": "bold(exp33)"}, "did you mean 'exp3'"),
        ({"forecaster": {"name": "bold", "learner": {"name": "exp3", "actions": 2}}}, "has 2 actions, but 3 are named"),
        ({"forecaster": "bold(linucb)"}, "features"),
        ({"forecaster": {"name": "bold", "learner": {"name": "linucb", "features": 1000}}}, "a state of"),
        (
            {"forecaster": {"name": "bold", "learner": {"name": "linucb", "features": 10**9}}},
            "no array can hold",
        ),
        ({"reward_range": [1, 0]}, "reward_range"),
        ({"expiry_seconds": 0}, "expiry_seconds must be > 0"),
        ({"on_expiry": 2.0}, "on_expiry must be <= 1"),
        ({"on_expiry": "forget"}, "on_expiry must be .drop. or a reward"),
        ({"seed": -1}, "seed must be >= 0"),
        ({"limits": {"speed": 1}}, "limits has no 'speed'"),
    ],
)
def test_what_cannot_be_an_experiment_is_refused_by_name(wrong, message):
    given = {"name": "ads", "actions": list("abc"), "forecaster": "bold(exp3)"} | wrong
    with pytest.raises(InvalidArgument, match=message):
        make(**given)


# --- what is on record ---


def played(ledger, experiment, rounds=30, seed=0):
    """Decisions with some feedback, in some order."""
    draw, open_ = random.Random(seed), []
    for _ in range(rounds):
        context = [draw.random() for _ in range(experiment.learner.context_size)] or None
        open_.append(decide(ledger, experiment, context))
        if draw.random() < 0.8:
            feed(ledger, experiment, open_.pop(draw.randrange(len(open_))), draw.random())
    return open_


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "UPDATE events SET action = CASE action WHEN 0 THEN 1 ELSE 0 END WHERE kind = 'decide' AND seq = 3",
            "event 3 (decide)",
        ),
        ("UPDATE events SET probability = 0.9 WHERE kind = 'decide' AND seq = 5", "event 5 (decide): probability 0.9"),
        ("UPDATE events SET value = '0.123' WHERE kind = 'feedback' AND instance = 0 AND seq = 2", "instance 0"),
        ("DELETE FROM events WHERE instance = 1 AND seq = 2", "instance 1"),
        ("UPDATE states SET free = 1 - free WHERE instance = 1", "instance 1"),
        ("UPDATE states SET state = (SELECT state FROM states WHERE instance = 1) WHERE instance = 0", "instance 0"),
    ],
)
def test_verify_finds_the_first_difference(ledger, sql, told):
    experiment = create(ledger)
    played(ledger, experiment)
    assert checked(ledger) == {"ads": "identical"}
    ledger.serve([Save()])
    assert checked(ledger) == {"ads": "identical"}
    ledger.store._writer.run(sql)
    (report,) = verify(ledger.store)
    assert report.verdict == "different" and told in report.message and str(report).startswith("ads: different")


def test_rounding_is_told_apart(ledger):
    experiment = create(ledger)
    played(ledger, experiment)
    ledger.store._writer.run("UPDATE events SET probability = probability + 1e-13 WHERE kind = 'decide' AND seq = 5")
    assert checked(ledger) == {"ads": "equal to rounding"}


@pytest.mark.parametrize("kind", ["bold(ucb1)", "qpmd(exp3)", "direct(linucb(features=2))"])
def test_retention_keeps_what_verify_needs(ledger, kind):
    experiment = create(ledger, kind, retention_seconds=1000)
    writer = ledger.store._writer
    left = played(ledger, experiment)
    before = ledger.statistics(experiment)

    def later(seconds):
        for table, column in (("checkpoints", "at"), ("events", "at"), ("decisions", "closed_at")):
            writer.run(f"UPDATE {table} SET {column} = {column} - {seconds}")
        key, covered = f"checkpointed {experiment.id}", f"covered {experiment.id}"
        writer.set_meta(key, repr(float(writer.meta(key)) - seconds))
        writer.set_meta(covered, json.dumps([[at - seconds, place] for at, place in json.loads(writer.meta(covered))]))
        writer.run(f"UPDATE experiments SET created_at = created_at - {seconds}")

    events = writer.run("SELECT count(*) FROM events").fetchone()[0]
    ledger._named["ads"] = experiment = replace(experiment, created_at=experiment.created_at - 600)
    assert [ledger.serve([Upkeep()]) for _ in range(2)] == [[True], [False]]  # a checkpoint, too young to lean on
    assert writer.run("SELECT count(*) FROM events").fetchone()[0] == events
    later(1001)
    while ledger.serve([Upkeep(limit=10)]) == [True]:
        pass
    assert writer.run("SELECT count(*) FROM events").fetchone()[0] == 0
    assert writer.run("SELECT count(*) FROM decisions").fetchone()[0] == len(left)
    assert checked(ledger) == {"ads": "identical"}
    for decided in left:
        assert feed(ledger, experiment, decided, 0.5) == "applied"
    played(ledger, experiment, seed=1)
    assert checked(ledger) == {"ads": "identical"}
    after = Folder(ledger.store).statistics(experiment)
    assert after["decisions"] == before["decisions"] + 30


def test_statistics_go_on_where_they_were_saved(ledger):
    experiment = create(ledger)
    played(ledger, experiment)
    assert ledger.serve([Upkeep()]) == [False]
    ledger.statistics(experiment)
    ledger.serve([Upkeep()])
    played(ledger, experiment, seed=1)
    told = ledger.statistics(experiment)
    assert Folder(ledger.store).statistics(experiment) | {"at": told["at"]} == told
    ledger.store._writer.run("DELETE FROM folds")
    assert Folder(ledger.store).statistics(experiment) | {"at": told["at"]} == told
    assert told["decisions"] == sum(told["pulls"]) == 60
    assert sum(action["rewards"] for action in told["actions"]) == told["feedback"]
    assert sum(count for _, count in told["delays"]["histogram"]) == told["feedback"]
    assert all(low <= action["mean"] <= high for action in told["actions"] for low, high in [action["interval"]])


FOREIGN = {
    "of a later format": lambda data: {"format": 2, "pulls": {"a": 3}},
    "that says a later format, and looks like ours": lambda data: {**data, "format": 2, "peak": 999},
    "with a field that is not ours": lambda data: {**data, "quantiles": [1]},
    "that is no fold": lambda data: [1, 2],
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_statistics_of_another_version_are_made_again(ledger, change):
    experiment, other = create(ledger), create(ledger, "qpmd(exp3)", "other")
    for each in (experiment, other):
        played(ledger, each)
    ledger.folder.catch_up()
    ledger.serve([Upkeep()])
    played(ledger, experiment, seed=1)
    told = [ledger.statistics(each) for each in (experiment, other)]
    run = ledger.store._writer.run
    (text,) = run(f"SELECT counters FROM folds WHERE experiment = {experiment.id}").fetchone()
    assert json.loads(text)["format"] == fold.FORMAT
    changed = json.dumps(change(json.loads(text)))
    run(f"UPDATE folds SET counters = '{changed}' WHERE experiment = {experiment.id}")
    again = Ledger(ledger.store)
    assert [
        again.statistics(each) | {"at": was["at"]} for each, was in zip((experiment, other), told, strict=True)
    ] == told
    again.serve([Upkeep()])
    (text,) = run(f"SELECT counters FROM folds WHERE experiment = {experiment.id}").fetchone()
    assert json.loads(text)["format"] == fold.FORMAT and json.loads(text)["peak"] == told[0]["peak"]


def test_statistics_without_a_format_are_of_the_first(ledger):
    experiment = create(ledger)
    played(ledger, experiment)
    ledger.folder.catch_up()
    ledger.serve([Upkeep()])
    told = ledger.statistics(experiment)
    run = ledger.store._writer.run
    (text,) = run("SELECT counters FROM folds").fetchone()
    data = json.loads(text)
    del data["format"]
    run(f"UPDATE folds SET counters = '{json.dumps(data)}'")
    run("DELETE FROM events")  # they are read, not made again
    assert Folder(ledger.store).statistics(experiment) | {"at": told["at"]} == told


def test_statistics_of_another_version_whose_events_are_gone_are_refused(ledger):
    experiment, other = create(ledger, retention_seconds=1000), create(ledger, "qpmd(exp3)", "other")
    for each in (experiment, other):
        played(ledger, each)
    told, seven = ledger.statistics(other), json.dumps({"format": 7})
    run = ledger.store._writer.run
    ledger._named["ads"] = experiment = replace(experiment, created_at=experiment.created_at - 600)
    ledger.serve([Upkeep()])
    for table in ("checkpoints", "events"):
        run(f"UPDATE {table} SET at = at - 2000")
    run(f"UPDATE meta SET value = '[[1.0, 1000]]' WHERE key = 'covered {experiment.id}'")
    while ledger.serve([Upkeep(limit=10)]) == [True]:
        pass
    assert run(f"SELECT count(*) FROM events WHERE experiment = {experiment.id}").fetchone()[0] == 0
    run(f"UPDATE folds SET counters = '{seven}' WHERE experiment = {experiment.id}")
    again = Ledger(ledger.store)
    with pytest.raises(
        Refused, match=r"statistics of ads were saved in format 7 .* reads format 1.*deleted after the re"
    ):
        again.statistics(experiment)
    assert again.statistics(other)["pulls"] == told["pulls"]
    numbers = again.folder.overview([experiment, other])["experiments"]
    assert "format 7" in numbers[0]["trouble"] and "trouble" not in numbers[1]
    played(again, experiment, seed=1)
    again.folder.catch_up()
    again.serve([Upkeep()])
    (text,) = run(f"SELECT counters FROM folds WHERE experiment = {experiment.id}").fetchone()
    assert text == seven, "what that version knows is left to it"


def test_series_stay_short(ledger):
    experiment = create(ledger)
    writer = ledger.store._writer
    ledger.serve([Decide(experiment, [None] * 1500)])
    writer.run("UPDATE events SET at = at + 10 * place")
    points = ledger.statistics(experiment)["series"]["points"]
    assert 200 < len(points) <= 500 and points[-1][1] == 1500
    assert [point[0] for point in points] == sorted(point[0] for point in points)


def test_export_has_every_decision(ledger, tmp_path):
    import polars as pl

    queued = create(ledger, "qpmd(exp3)", "queued")
    played(ledger, queued)
    context = create(ledger, "direct(linucb(features=2))", "context")
    left = played(ledger, context)
    cancel(ledger, context, left[0])
    for name, file in (("queued", tmp_path / "q.parquet"), ("context", tmp_path / "c.parquet")):
        assert export(ledger.store, name, file) == 30
    frame = pl.read_parquet(tmp_path / "c.parquet")
    assert frame["round"].to_list() == list(range(1, 31)) and frame["propensity"].all()
    assert frame["context"].list.len().unique().to_list() == [2]
    assert frame.filter(pl.col("state") == "closed")["value"].null_count() == 0
    assert frame["state"].value_counts().sort("state")["state"].to_list() == ["cancelled", "closed", "open"]
    assert not pl.read_parquet(tmp_path / "q.parquet")["propensity"].any()
    with pytest.raises(InvalidArgument, match="no experiment called 'nothing'"):
        export(ledger.store, "nothing", tmp_path / "n.parquet")


def test_a_probability_that_is_not_stated_is_nowhere(own_file, tmp_path):
    """RandCBP with six pairs: in answers, on record, in the export. Old records of it are not believed."""
    import polars as pl

    ledger = opened(own_file, plain=True)
    game = bl.games.full_information(actions=4)
    data = bl.catalog.to_data(bl.Direct(bl.RandCBP(game.loss, game.symbols)))
    experiment = create(ledger, data, actions="abcd")
    assert not experiment.propensity and create(ledger, name="drawn").propensity
    (first,), (again,) = (ledger.serve([Decide(experiment, [None], key="k")])[0] for _ in range(2))
    assert first.probability is None and first == again
    assert ledger.decision(experiment, ticket_of(first.ticket))["probability"] is None
    assert feed(ledger, experiment, first, game.symbols[0][0]) == "applied"
    ledger.store._writer.run("UPDATE decisions SET probability = 0.4")
    ledger.store._writer.run("UPDATE events SET probability = 0.4 WHERE kind = 'decide'")
    assert checked(ledger)[experiment.name] == "identical"
    export(ledger.store, experiment.name, tmp_path / "log.parquet")
    frame = pl.read_parquet(tmp_path / "log.parquet")
    assert frame["probability"].null_count() == len(frame) == 1 and not frame["propensity"].any()
    ledger.store.close()


def test_a_backup_is_a_database(own_file, tmp_path):
    ledger = opened(own_file)
    experiment = create(ledger)
    played(ledger, experiment)
    copy = tmp_path / "copy.db"
    ledger.store.backup(str(copy))
    played(ledger, experiment)
    other = opened(copy)
    assert other.statistics(other.find("ads"))["decisions"] == 30
    assert checked(other) == {"ads": "identical"}
    other.store.close()
    with pytest.raises(InvalidState, match="exists already"):
        ledger.store.backup(str(copy))
    ledger.store.close()


# --- the file ---


def test_one_server_a_file(own_file):
    store = SQLite(own_file, serve=True)
    with pytest.raises(InvalidState, match="another server has"):
        SQLite(own_file, serve=True)
    SQLite(own_file).close()  # reading is open to all
    store.close()
    SQLite(own_file, serve=True).close()


def test_a_database_of_the_future_or_of_others_is_refused(tmp_path):
    file = tmp_path / "future.db"
    SQLite(file, serve=True).close()
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(InvalidState, match="schema 99"):
        SQLite(file, serve=True)
    with pytest.raises(InvalidState, match="there is no database"):
        SQLite(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("this is no database, " * 100)
    with pytest.raises(InvalidState, match="cannot be used as a database"):
        SQLite(tmp_path / "text.db", serve=True)
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(InvalidState, match="something else"):
        SQLite(tmp_path / "other.db", serve=True)


@pytest.mark.parametrize("content", ["other", "text"])
def test_a_file_that_is_refused_is_left_closed(tmp_path, content):
    file = tmp_path / "a.db"
    if content == "text":
        file.write_text("this is no database, " * 100)
    else:
        with contextlib.closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(InvalidState) as kept:  # with all that its traceback refers to
        SQLite(file, serve=True)
    still = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert str(kept.value).startswith(str(file)) and not [name for name in still if name.startswith(str(file))]


def test_states_of_another_version_are_not_touched(file, monkeypatch):
    ledger = opened(file)
    made = decide(ledger, create(ledger, "bold(ucb1)"))
    ledger.store.close()
    known = bl.UCB1.version
    monkeypatch.setattr(bl.UCB1, "version", known + 1)
    ledger = opened(file)
    experiment = ledger.find("ads")
    assert f"UCB1 version {known}, this is version {known + 1}" in experiment.trouble
    assert ledger.serve([Decide(experiment, [None])])[0].kind == "read_only"
    assert ledger.serve([Feedback(experiment, [(ticket_of(made.ticket), 1.0)])])[0].kind == "read_only"
    assert ledger.serve([Archive(experiment)])[0].kind == "read_only"
    assert ledger.decision(experiment, ticket_of(made.ticket))["state"] == "open"
    (report,) = verify(ledger.store)
    assert report.verdict == "not replayed" and f"version {known + 1}" in report.message
    ledger.store.close()


def test_states_of_another_version_are_migrated_where_the_learner_can(file, monkeypatch):
    ledger = opened(file)
    experiment = create(ledger, "direct(epsilongreedy)")
    left = played(ledger, experiment)
    ledger.serve([Save()])
    ledger.store.close()

    def migrate(version, old, state):
        assert version == 1
        for name in ("total", "seen", "predicted"):
            state[name][:] = old[name]
        state["mean"][:] = 0.5

    monkeypatch.setattr(bl.EpsilonGreedy, "version", 2)
    monkeypatch.setattr(bl.EpsilonGreedy, "migrate", staticmethod(migrate))
    for _ in range(2):
        ledger = opened(file, migrate=True)
        experiment = ledger.find("ads")
        assert experiment.trouble is None
        played(ledger, experiment, 10)
        assert checked(ledger) == {"ads": "identical"}
        row = ledger.store._writer.experiments()[0]
        assert row.version == 2
        ledger.store.close()
    assert left


def test_an_experiment_that_cannot_be_made_is_read_only(file):
    ledger = opened(file)
    create(ledger)
    row = ledger.store._writer.experiments()[0]
    spec = json.loads(row.spec)
    spec["forecaster"]["learner"]["name"] = "gone"
    ledger.store._writer.change_experiment(row._replace(spec=json.dumps(spec)))
    ledger.store.close()
    ledger = opened(file)
    assert ledger.has("ads")
    with pytest.raises(Refused, match="no learner is called 'gone'"):
        ledger.find("ads")
    assert [report.verdict for report in verify(ledger.store)] == ["not replayed"]
    ledger.store.close()


def test_what_cannot_be_opened_is_named_and_the_others_work(own_file):
    ledger = opened(own_file)
    create(ledger)
    create(ledger, name="other")
    ledger.store.close()
    with contextlib.closing(sqlite3.connect(own_file)) as connection, connection:
        connection.execute("UPDATE experiments SET spec = replace(spec, 'exp3', 'exp33') WHERE name = 'ads'")
    ledger = opened(own_file)
    assert [experiment.name for experiment in ledger.experiments()] == ["other"]
    reason = ledger.unopened()["ads"]
    assert "ads cannot be opened" in reason and "exp33" in reason
    with pytest.raises(Refused, match="exp33"):
        ledger.find("ads")
    assert ledger.has("ads") and decide(ledger, ledger.find("other")).round == 1
    ledger.store.close()
