"""The ledger against a plain model: dictionaries, and a forecaster in process that must choose the same actions.

Any order of create, decide (among all actions or some), feedback, duplicate, conflict, cancel, expire, sweep, replace,
grow, archive, save, upkeep, retries, batches that fail, restarts and crashes: answers, decisions and statistics are
those of the model, and every state comes out again from its events. On PostgreSQL several writers take turns, lag, and
die.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import belated as bl
from belated.errors import Unsupported
from belated.forecasters.process import Chair
from belated.ledger import experiment, faults
from belated.ledger.database import open_store
from belated.ledger.errors import Refused
from belated.ledger.experiment import Experiment
from belated.ledger.items import Archive, Cancel, Create, Decide, Decided, Feedback, Grow, Replace, Save, Sweep, Upkeep
from belated.ledger.ledger import Ledger
from belated.ledger.store import DAY, Store, day_of
from belated.ledger.verify import verify
from belated.ledger.work import Page, Work
from tests.postgres import Cluster, cluster  # noqa: F401

ACTIONS = ["a", "b", "c"]
#: What is played: as the service takes it, the same in process, and the length of a context.
KINDS: dict[str, tuple[Callable[[int], bl.Forecaster], int]] = {
    "bold(exp3)": (lambda seed: bl.BOLD(bl.Exp3(3), seed=seed), 0),
    "bold(thompsonbernoulli)": (lambda seed: bl.BOLD(bl.ThompsonBernoulli(3), seed=seed), 0),
    "bold(hedge)": (lambda seed: bl.BOLD(bl.Hedge(3), seed=seed), 0),
    "direct(thompsonbernoulli)": (lambda seed: bl.Direct(bl.ThompsonBernoulli(3), seed=seed), 0),
    "direct(linucb(features=2))": (lambda seed: bl.Direct(bl.LinUCB(3, 2), seed=seed), 2),
    "qpmd(ucb1)": (lambda seed: bl.QPMD(bl.UCB1(3), seed=seed), 0),
    "qpmd(percontext(ucb1, contexts=2))": (lambda seed: bl.QPMD(bl.PerContext(bl.UCB1(3), 2), seed=seed), 1),
    "paced(hedge)": (lambda seed: bl.Paced(bl.Hedge(3), seed=seed), 0),
    "direct(delayedhedge)": (lambda seed: bl.Direct(bl.DelayedHedge(3), seed=seed), 0),
    "sdb(ucb1)": (lambda seed: bl.SDB(bl.UCB1(3), seed=seed), 0),
    "sdb(ucb1, prior=[[0, 1.0], [2, 0.5]])": (
        lambda seed: bl.SDB(bl.UCB1(3), prior=[(0, 1.0), (2, 0.5)], seed=seed),
        0,
    ),
    "bold(percontext(thompsonbernoulli, contexts=2), pools='value')": (
        lambda seed: bl.BOLD(bl.PerContext(bl.ThompsonBernoulli(3), 2), pools="value", seed=seed),
        1,
    ),
}
#: Those that are told the rewards of all actions.
FULL = ("bold(hedge)", "paced(hedge)", "direct(delayedhedge)")
REPLACEABLE = (
    "bold(thompsonbernoulli)",
    "direct(thompsonbernoulli)",
    "direct(linucb(features=2))",
    "bold(percontext(thompsonbernoulli, contexts=2), pools='value')",
)
GROWING = REPLACEABLE
#: Actions that an experiment has at most: learners are compiled for each number.
MOST = 4
UNKNOWN = b"no ticket of us."
#: Seconds by which the clock of the database is outwitted.
LONG = 1e6


@dataclass
class Held:
    """A decision as the model knows it; `number` is the ticket of the forecaster in process."""

    ticket: bytes
    number: int
    answer: Decided
    context: list[float] | None
    state: str = "open"  # open, due, closed, expired, cancelled
    value: Any = None
    stale: bool = False
    due: float = 0.0


@dataclass
class Model:
    """An experiment as dictionaries, over a forecaster in process."""

    name: str
    kind: str
    oracle: bl.Forecaster
    low: float
    high: float
    default: float | None
    expiry: float | None
    limit: int
    names: list[str] = field(default_factory=lambda: list(ACTIONS))
    held: dict[bytes, Held] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    pulls: list[int] = field(default_factory=lambda: [0, 0, 0])
    rewards: list[list[float]] = field(default_factory=lambda: [[], [], []])
    keys: dict[str, tuple[bytes, list[Decided]]] = field(default_factory=dict)
    old_keys: set[str] = field(default_factory=set)
    archived: bool = False
    last_round: int = 0

    @property
    def outstanding(self) -> int:
        return sum(held.state in ("open", "due") for held in self.held.values())

    def value(self, quarters: list[int]) -> Any:
        """A value as people send it."""
        made = [self.low + q / 4 * (self.high - self.low) for q in quarters]
        return made if self.kind in FULL else made[0]

    def _scaled(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._scaled(each) for each in value]
        return (value - self.low) / (self.high - self.low)

    def context(self, quarters: list[int]) -> list[float] | None:
        size = KINDS[self.kind][1]
        return [float(quarters[0] % 2)] if size == 1 else [q / 4 for q in quarters[:2]] if size else None

    # --- what should happen ---

    def feedback(self, ticket: bytes, value: Any) -> str:
        held = self.held.get(ticket)
        if held is None:
            self.counts["unknown"] += 1
            return "unknown_ticket"
        if held.state == "open":
            self.oracle.update(held.number, self._scaled(value))
            held.state, held.value = "closed", value
            self.counts["feedback"] += 1
            if not held.stale:
                told = enumerate(value) if isinstance(value, list) else [(held.answer.action, value)]
                for action, reward in told:
                    self.rewards[action].append(reward)
            return "applied"
        if held.state in ("due", "expired"):
            self.counts["late"] += 1
            return "late"
        if held.state == "closed" and held.value == value:
            self.counts["duplicates"] += 1
            return "duplicate"
        self.counts["conflicts"] += 1
        return "cancelled" if held.state == "cancelled" else "conflict"

    def cancel(self, ticket: bytes) -> str:
        held = self.held.get(ticket)
        if held is None:
            self.counts["unknown"] += 1
            return "unknown_ticket"
        if held.state == "open":
            self.oracle.cancel(held.number)
            held.state = "cancelled"
            self.counts["cancelled"] += 1
        return {"cancelled": "cancelled", "closed": "closed"}.get(held.state, "expired")

    def expire(self, held: Held) -> None:
        """A decision that is due ends."""
        held.state = "expired"
        self.counts["expired"] += 1
        if self.default is None or held.stale:
            self.oracle.cancel(held.number)
        else:
            held.value = self.default
            self.rewards[held.answer.action].append(self.default)
            self.oracle.update(held.number, self._scaled(self.default))

    def replace(self, action: int, new: str) -> None:
        self.oracle.replace(action)
        self.names[action] = new
        self.rewards[action] = []
        self.counts["replacements"] += 1
        for held in self.held.values():
            held.stale |= held.state in ("open", "due") and held.answer.action == action

    def grow(self, new: str) -> None:
        """A new forecaster takes the old one's place: the same tickets, and states with one more action."""
        old = self.oracle
        self.oracle = old.over(old.learner.with_actions(len(self.names) + 1), seed=old.seed)  # type: ignore[union-attr]
        while self.oracle.instances < old.instances:
            self.oracle._room.make(old._room.seats[self.oracle.instances].pool)
        for number, (one, before) in enumerate(zip(self.oracle._instances, old._instances, strict=True)):
            one.grow_from(number, before.state.tobytes(), before.state.dtype)
        kept = ("pending", "stale", "issued", "peak", "dropped", "idle")
        self.oracle._room.__dict__.update({name: old._room.__dict__[name] for name in kept})
        self.names.append(new)
        self.pulls.append(0)
        self.rewards.append([])

    def among(self, pick: int) -> tuple[int, ...] | None:
        """Now and then some actions only, where the learner can choose among them."""
        able = getattr(self.oracle.learner, "predict_among", None) is not None and self.oracle.chooses_among
        some = tuple(action for action in range(len(self.names)) if pick >> action & 1)
        return some if able and pick % 3 == 0 and some else None

    def decided(self, answer: list[Decided], contexts: list[Any], allowed: tuple[int, ...] | None) -> None:
        """The same actions must come out, with the same probabilities, and rounds have no gaps."""
        for made, context in zip(answer, contexts, strict=True):
            expected = self._predict(context, allowed)
            assert (made.action, made.probability) == (expected.action, expected.probability)
            assert made.name == self.names[made.action]
            assert made.round == self.last_round + 1
            assert (made.expires_at is None) == (self.expiry is None)
            self.last_round = made.round
            ticket = bytes.fromhex(made.ticket)
            assert ticket not in self.held
            self.held[ticket] = Held(ticket, expected.ticket, made, context)
            self.pulls[made.action] += 1

    def _predict(self, context: Any, allowed: tuple[int, ...] | None) -> bl.Decision:
        if allowed is None:
            return self.oracle.predict(context)

        def ask(seat: Any, known: Any) -> Any:
            seat.room.keep(seat)
            return seat.learner.predict_among(known, allowed)

        with mock.patch.object(Chair, "ask", ask):
            made = self.oracle.predict(context)
        assert made.action in allowed
        return made

    def statistics(self) -> dict[str, Any]:
        """What the ledger should say."""
        kinds = ("late", "expired", "cancelled", "conflicts", "duplicates", "unknown", "feedback", "replacements")
        queues, waiting = self.oracle.queues(), self.oracle._room.queues
        return {kind: self.counts[kind] for kind in kinds} | {
            "decisions": len(self.held),
            "outstanding": self.oracle.outstanding,
            "peak": self.oracle.peak,
            "instances": self.oracle.instances,
            "dropped": self.oracle.dropped,
            "pulls": self.pulls,
            "queues": [len(waiting.get(i, ())) for i in range(queues)] or None,
        }


class Crash(BaseException):
    """The process ends here."""


PICK = st.integers(0, 1000)
QUARTERS = st.lists(st.integers(0, 4), min_size=3, max_size=3)
#: One thing of a batch: which experiment, what, which ticket, what value; a key.
THING = st.tuples(
    PICK, st.sampled_from("DDFFFC"), PICK, QUARTERS, st.sampled_from([None, None, "k", "l"]), st.booleans()
)


class Machine(RuleBasedStateMachine):
    """What can happen; subclasses know the database."""

    #: How many ledgers write to the database.
    writers = 1

    def __init__(self) -> None:
        super().__init__()
        self.models: dict[str, Model] = {}
        self.stores: list[Store] = []
        self.moved = 0
        self.database = self.new_database()
        self.ledgers: list[Ledger] = []
        self.turn = 0
        for _ in range(self.writers):
            self.ledgers.append(self.open())

    # --- the database ---

    def new_database(self) -> str:
        raise NotImplementedError

    def execute(self, sql: str, *values: Any) -> None:
        raise NotImplementedError

    def age_keys(self) -> None:
        self.execute("UPDATE keys SET at = at - {}", LONG)

    def snapshot(self) -> None:
        """What a crash at this moment would leave behind becomes the database."""

    def open(self) -> Ledger:
        self.stores.append(open_store(self.database, serve=True))
        return Ledger(self.stores[-1])

    @property
    def ledger(self) -> Ledger:
        """Whose turn it is. It learns of experiments when it is asked for them, as a service does."""
        found = self.ledgers[self.turn]
        found.refresh()
        return found

    def reopen(self) -> None:
        """Another process takes the place of the one whose turn it was."""
        self.ledgers[self.turn] = self.open()

    # --- helpers ---

    def model(self, pick: int) -> Model:
        return list(self.models.values())[pick % len(self.models)]

    def ticket(self, model: Model, pick: int) -> bytes:
        """A ticket of the experiment; now and then one of another, or of none."""
        if pick % 16 == 0:
            other = [ticket for each in self.models.values() if each is not model for ticket in each.held]
            return other[pick % len(other)] if other and pick % 32 else UNKNOWN
        open_ = [ticket for ticket, held in model.held.items() if held.state == "open"]
        known = open_ if open_ and pick % 4 else list(model.held)
        return known[pick % len(known)] if known else UNKNOWN

    def items(self, things: list[Any]) -> list[Any]:
        made: list[Any] = []
        for which, what, pick, quarters, key, other in things:
            model = self.model(which)
            known = self.ledger.find(model.name)
            if what == "D":
                size = 1 + pick % 3
                raw = [model.context(quarters[i:] + quarters[:i]) for i in range(size)]
                contexts = [known.context(each) for each in raw]
                some = model.among(pick)
                allowed = None if some is None else [model.names[action] for action in some]
                digest = repr((raw, other, allowed)).encode()
                made.append((model, Decide(known, contexts, allowed, key, digest if key else b""), raw))
            elif what == "F":
                some = [(self.ticket(model, pick + i), model.value(quarters)) for i in range(1 + other)]
                made.append((model, Feedback(known, some), None))
            else:
                made.append((model, Cancel(known, [self.ticket(model, pick)]), None))
        return made

    def check(self, made: list[Any], answers: list[Any]) -> None:
        """The answers of a batch: what ends goes first, then decisions, each in order."""
        first: dict[tuple[str, str], int] = {}
        for (model, item, _), answer in zip(made, answers, strict=True):
            if isinstance(item, Feedback):
                assert said(answer) == [model.feedback(*entry) for entry in item.entries]
            elif isinstance(item, Cancel):
                assert said(answer) == [model.cancel(ticket) for ticket in item.tickets]
        before = {model.name: dict(model.keys) for model, _, _ in made}
        for at, ((model, item, contexts), answer) in enumerate(zip(made, answers, strict=True)):
            if not isinstance(item, Decide):
                continue
            pair = (model.name, item.key or "")
            if item.key in before[model.name]:
                digest, known = before[model.name][item.key]
                assert answer == known if digest == item.digest else answer.kind == "key_reused"
            elif pair in first and item.key is not None:
                one = first[pair]
                assert answer == answers[one] if made[one][1].digest == item.digest else answer.kind == "key_reused"
            elif model.archived:
                assert answer.kind == "archived"
            else:
                first[pair] = at
                if model.outstanding + len(contexts) > model.limit:
                    assert answer.kind == "too_many_outstanding"
                    continue
                assert not isinstance(answer, Refused), answer
                allowed = None if item.allowed is None else tuple(map(model.names.index, item.allowed))
                model.decided(answer, contexts, allowed)
                if item.key is not None:
                    model.keys[item.key] = (item.digest, answer)

    # --- what happens ---

    @initialize(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2), expires=st.booleans())
    def begin(self, kinds: list[str], expires: bool) -> None:
        for number, kind in enumerate(kinds):
            self.create(kind, expires, True, 3 * number, False, True)
            self.batch([(number, "D", 2, [number, 1, 2], None, False)] * 2)

    @precondition(lambda self: len(self.models) < 3)
    @rule(
        kind=st.sampled_from(sorted(KINDS)),
        expires=st.booleans(),
        learns=st.booleans(),
        seed=st.integers(0, 3),
        small=st.booleans(),
        wide=st.booleans(),
    )
    def create(self, kind: str, expires: bool, learns: bool, seed: int, small: bool, wide: bool) -> None:
        low, high = (-1.0, 3.0) if wide else (0.0, 1.0)
        default = high if expires and learns and kind not in FULL else None
        limit, expiry = (4 if small else 10**6), (3600.0 if expires else None)
        model = Model(f"e{len(self.models)}", kind, KINDS[kind][0](seed), low, high, default, expiry, limit)
        new = experiment.make(
            model.name, list(ACTIONS), kind, [low, high], expiry, "drop" if default is None else default, seed,
            {"outstanding": limit}, 60.0 if seed == 3 else None,
        )  # fmt: skip
        (made,) = self.ledger.serve([Create(new, self.ledger.prepare(new))])
        assert isinstance(made, Experiment) and self.ledger.find(model.name).row() == made.row()
        (again,) = self.ledger.serve([Create(new, self.ledger.prepare(new))])
        assert said([again]) == ["exists"]
        self.models[model.name] = model

    def batch(self, things: list[Any]) -> None:
        made = self.items(things)
        self.check(made, self.ledger.serve([item for _, item, _ in made]))

    # What is most of the traffic comes most often.
    some = rule(things=st.lists(THING, min_size=1, max_size=6))(batch)
    more = rule(things=st.lists(THING, min_size=3, max_size=8))(batch)
    most = rule(things=st.lists(THING, min_size=3, max_size=8))(batch)

    @rule(which=PICK, pick=PICK)
    def again(self, which: int, pick: int) -> None:
        """The same feedback again, twice in one batch."""
        model = self.model(which)
        closed = [held for held in model.held.values() if held.state == "closed"]
        if closed:
            held = closed[pick % len(closed)]
            item = Feedback(self.ledger.find(model.name), [(held.ticket, held.value)] * 2)
            self.check([(model, item, None)], self.ledger.serve([item]))

    @precondition(lambda self: self.mortal())
    @rule(pick=PICK, count=st.integers(1, 3))
    def expire(self, pick: int, count: int) -> None:
        """The time of some decisions has come, and nobody has looked yet."""
        for n in range(count):
            open_ = self.mortal()
            if not open_:
                return
            held = open_[(pick + n) % len(open_)]
            self.moved += 1
            held.state, held.due = "due", self.moved
            self.execute("UPDATE decisions SET expires_at = {} WHERE ticket = {}", float(self.moved), held.ticket)

    def mortal(self) -> list[Held]:
        """Open decisions that can expire."""
        models = [model for model in self.models.values() if model.expiry is not None]
        return [held for model in models for held in model.held.values() if held.state == "open"]

    @rule(limit=st.sampled_from([1, 2, 500]))
    def sweep(self, limit: int) -> None:
        """What is due ends, the longest due first."""
        due = [(held.due, model, held) for model in self.models.values() for held in model.held.values()]
        due = sorted((each for each in due if each[2].state == "due"), key=lambda each: each[0])[:limit]
        for _, model, held in due:
            model.expire(held)
        assert self.ledger.serve([Sweep(limit)]) == [len(due) == limit]

    @rule(which=PICK, action=st.integers(0, 2), taken=st.booleans())
    def replace(self, which: int, action: int, taken: bool) -> None:
        model = self.model(which)
        new = model.names[0] if taken else f"n{model.counts['replacements']}"
        item = Replace(self.ledger.find(model.name), model.names[action], new)
        (answer,) = self.ledger.serve([item])
        if model.kind not in REPLACEABLE:
            assert said([answer]) == ["unsupported"]
        elif taken:
            assert said([answer]) == ["invalid"]
        else:
            model.replace(action, new)
            assert answer.actions == tuple(model.names)

    @rule(which=PICK, pick=st.integers(0, 3))
    def grow(self, which: int, pick: int) -> None:
        model = self.model(which)
        known = self.ledger.find(model.name)
        new = model.names[0] if pick == 0 else f"g{len(model.names)}"
        if len(model.names) == MOST and pick:
            return
        try:
            item = Grow(known, new, self.ledger.prepare(known.grown(new)))
        except (Refused, Unsupported) as error:
            if model.archived or pick == 0:
                assert isinstance(error, Refused) and error.kind == ("archived" if model.archived else "exists")
            else:
                assert isinstance(error, Unsupported) and model.kind not in GROWING
            return
        (answer,) = self.ledger.serve([item])
        model.grow(new)
        assert answer.actions == tuple(model.names)

    @precondition(lambda self: len(self.models) > 1 and not any(model.archived for model in self.models.values()))
    @rule(which=PICK)
    def archive(self, which: int) -> None:
        model = self.model(which)
        (answer,) = self.ledger.serve([Archive(self.ledger.find(model.name))])
        assert answer.archived_at is not None
        model.archived = True

    @rule(old=st.booleans())
    def upkeep(self, old: bool) -> None:
        """Statistics are saved; what is old is forgotten: keys, and events before a checkpoint (seed 3)."""
        if old:
            self.age_keys()
            self.execute("UPDATE checkpoints SET at = at - {}", LONG)
            self.execute("DELETE FROM meta WHERE key LIKE {}", "checkpointed%")
            self.execute("UPDATE experiments SET created_at = created_at - {}", LONG)
            self.restart()
        self.ledger.folder.catch_up()
        while self.ledger.serve([Upkeep()])[0]:
            pass
        if old:
            for model in self.models.values():
                model.keys.clear()

    @precondition(lambda self: any(held.state == "open" for m in self.models.values() for held in m.held.values()))
    @rule(pick=PICK, things=st.lists(THING, max_size=4))
    def one_of_a_batch_fails(self, pick: int, things: list[Any]) -> None:
        """Its neighbours are served all the same: those of its experiment one by one, the others together."""
        open_ = [(m, held) for m in self.models.values() for held in m.held.values() if held.state == "open"]
        model, bad = open_[pick % len(open_)]
        item = Feedback(self.ledger.find(model.name), [(bad.ticket, model.value([1, 1, 1]))])
        made = [one for one in self.items(things) if not touches(one[1], bad.ticket)]
        items = [item for _, item, _ in made]
        end = Work.end

        def broken(work: Work, row: Any, *rest: Any) -> Any:
            if row.ticket == bad.ticket:
                raise ZeroDivisionError
            return end(work, row, *rest)

        with mock.patch.object(Work, "end", broken), mock.patch.object(faults, "STRIKES", 10**9):
            answers = self.ledger.serve([*items[:1], item, *items[1:]])
        assert answers.pop(min(1, len(items))).kind == "internal"
        pairs = list(zip(made, answers, strict=True))
        for one, answer in pairs:
            if one[0] is model:
                self.check([one], [answer])
        others = [pair for pair in pairs if pair[0][0] is not model]
        self.check([one for one, _ in others], [answer for _, answer in others])

    # --- what is in memory ---

    @rule(limit=st.sampled_from([1, 2, 3, 2000]), all_=st.booleans())
    def save(self, limit: int, all_: bool) -> None:
        """Some states go on record, or all of them."""
        assert self.ledger.serve([Save(limit, all_)])[0] in (False, True)

    @rule(which=PICK)
    def forget(self, which: int) -> None:
        """What is in memory of an experiment is dropped, as after a transaction that was undone."""
        number = self.ledger.find(self.model(which).name).id
        if number in self.ledger._running:
            self.ledger._running[number].forget()

    # --- what ends the process ---

    @rule()
    def restart(self) -> None:
        self.ledgers[self.turn].store.close()
        self.stores.remove(self.ledgers[self.turn].store)
        self.reopen()

    @rule()
    def crash(self) -> None:
        self.snapshot()
        self.reopen()

    @rule(things=st.lists(THING, min_size=1, max_size=4), saves=st.booleans())
    def crash_before_the_commit(self, things: list[Any], saves: bool) -> None:
        """All is written but for the last word; a slice of states, too."""
        made = [] if saves else self.items(things)
        items: list[Any] = [Save(2)] if saves else [item for _, item, _ in made]
        write = Page.write

        def dying(page: Page) -> None:
            write(page)
            self.snapshot()
            raise Crash

        with mock.patch.object(Page, "write", dying), pytest.raises(Crash):
            self.ledger.serve(items)
        self.reopen()

    # --- what must hold ---

    def look_at(self, model: Model, held: Held) -> None:
        found = self.ledger.decision(self.ledger.find(model.name), held.ticket)
        assert {name: found[name] for name in ("ticket", "action", "name", "probability", "round")} == {
            name: getattr(held.answer, name) for name in ("ticket", "action", "name", "probability", "round")
        }
        assert (found["state"], found["value"], found["replaced"]) == (
            "expired" if held.state == "due" else held.state, held.value, held.stale
        )  # fmt: skip
        assert found["context"] == held.context or (found["context"] is None and held.state not in ("open", "due"))

    @invariant()
    def statistics(self) -> None:
        for model in self.models.values():
            found = self.ledger.statistics(self.ledger.find(model.name))
            expected = model.statistics()
            assert {name: found[name] for name in expected} == expected
            for action, known in enumerate(found["actions"]):
                rewards = model.rewards[action]
                assert (known["name"], known["rewards"]) == (model.names[action], len(rewards))
                assert known["mean"] == (pytest.approx(sum(rewards) / len(rewards)) if rewards else None)

    def teardown(self) -> None:
        try:
            self.statistics()
            for model in self.models.values():
                for held in model.held.values():
                    self.look_at(model, held)
            for ledger in self.ledgers:
                self.alike(ledger)
            reports = list(verify(self.ledger.store))
            assert {report.verdict for report in reports} <= {"identical"}, [str(report) for report in reports]
            assert len(reports) == len(self.models)
        finally:
            for store in self.stores:
                store.close()
            self.remove()

    def alike(self, ledger: Ledger) -> None:
        """Once it has caught up every replica is what the log says: as many rounds, and G* + 1 instances."""
        ledger.refresh()
        for model in self.models.values():
            known = ledger.find(model.name)
            said = ledger.serve([Decide(known, [])])
            replica = ledger._running[known.id].replica
            assert replica is not None, said
            assert (replica.rounds, replica.outstanding) == (model.last_round, model.outstanding)
            assert replica.instances == model.oracle.instances
            with ledger.store.read() as session:
                head = session.heads([known.id])[known.id]
                places = [event.place for event in session.events_since(known.id, 0, 10**9)]
            assert head.last == replica.place
            if head.counted == head.last:
                assert head[4:7] == (replica.rounds, replica.instances, replica.outstanding)
            assert places == list(range(head.last - len(places) + 1, head.last + 1)) or known.retention is not None

    def remove(self) -> None:
        """Nothing is left."""


def said(answers: Any) -> Any:
    """Outcomes by their words."""
    assert not isinstance(answers, Refused), answers
    return [answer.kind if isinstance(answer, Refused) else answer for answer in answers]


def touches(item: Any, ticket: bytes) -> bool:
    if isinstance(item, Feedback):
        return any(each == ticket for each, _ in item.entries)
    return isinstance(item, Cancel) and ticket in item.tickets


class OnSQLite(Machine):
    def new_database(self) -> str:
        self.folder = Path(tempfile.mkdtemp(prefix="belated-model-"))
        self.copies = 0
        return str(self.folder / "0.db")

    def execute(self, sql: str, *values: Any) -> None:
        self.ledger.store._writer.run(sql.replace("{}", "?"), values)  # type: ignore[attr-defined]

    def snapshot(self) -> None:
        self.copies += 1
        copy = str(self.folder / f"{self.copies}.db")
        for end in ("", "-wal"):
            if Path(self.database + end).exists():
                shutil.copyfile(self.database + end, copy + end)
        self.database = copy

    def remove(self) -> None:
        shutil.rmtree(self.folder)


def quick(examples: int, steps: int) -> settings:
    """So many runs of so many steps."""
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=quiet,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    )


def on_postgres(cluster: Cluster) -> type[Machine]:  # noqa: F811
    import psycopg

    class OnPostgres(Machine):
        writers = 3

        def new_database(self) -> str:
            return cluster.new()

        def execute(self, sql: str, *values: Any) -> None:
            with psycopg.connect(self.database, autocommit=True) as connection:
                connection.execute(sql.replace("{}", "%s"), values)

        def age_keys(self) -> None:
            """They lie in the tables of their days."""
            day = int(LONG // DAY)
            with self.ledger.store.write() as session:
                session.make_day(day_of(session.now()) - day)  # type: ignore[attr-defined]
            self.execute("UPDATE keys SET at = at - {}, day = day - {}", LONG, day)

        @rule(turn=st.integers(0, 2))
        def next(self, turn: int) -> None:
            """Another writer's turn: it may have seen nothing for long."""
            self.turn = turn

        often = rule(turn=st.integers(0, 2))(lambda self, turn: self.next(turn))

    return OnPostgres


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """What fails here on purpose is logged with a traceback each time."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_sqlite_is_the_model() -> None:
    run_state_machine_as_test(OnSQLite, settings=quick(60, 25))  # type: ignore[no-untyped-call]


def test_postgresql_is_the_model(cluster: Cluster) -> None:  # noqa: F811
    run_state_machine_as_test(on_postgres(cluster), settings=quick(12, 25))  # type: ignore[no-untyped-call]


@pytest.mark.soak
def test_sqlite_is_the_model_for_long() -> None:
    run_state_machine_as_test(OnSQLite, settings=quick(2000, 50))  # type: ignore[no-untyped-call]


@pytest.mark.soak
def test_postgresql_is_the_model_for_long(cluster: Cluster) -> None:  # noqa: F811
    run_state_machine_as_test(on_postgres(cluster), settings=quick(200, 50))  # type: ignore[no-untyped-call]
