# ruff: noqa: F811  (fixtures are imported)
"""States in memory: put on record in slices, forgotten, caught up, and changed when they are next used."""

import random

import pytest

import belated as bl
from belated.ledger.items import Decide, Feedback, Replace, ticket_of
from belated.ledger.store import ALL
from tests.postgres import cluster  # noqa: F401
from tests.rows import all_states, save
from tests.test_grow import ByHand, bytes_of, checked, create, decide, events, feed, file, grow, opened, plain  # noqa: F401

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
