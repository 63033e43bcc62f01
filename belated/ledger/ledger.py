"""The meaning of the service: a batch of items becomes answers, in one transaction.

What frees instances goes first (expiry, feedback, cancellations), then decisions. All rows that a batch needs are read
by a few statements, worked on in memory, and written by a few statements; nothing is answered before the commit.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from belated.errors import BelatedError, InvalidArgument, Unsupported
from belated.forecasters.instance import Instance
from belated.ledger import access, changes, erase, upkeep
from belated.ledger.errors import Raced, Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.fold import Folder
from belated.ledger.items import (
    Administration,
    Archive,
    Cancel,
    Change,
    Create,
    Decide,
    Delete,
    Erase,
    Feedback,
    Grow,
    Item,
    Outcome,
    Record,
    Replace,
    Sweep,
    Upkeep,
    read_value,
    write_value,
)
from belated.ledger.parts import Part, other_body, same_answer
from belated.ledger.player import Player, make_instance, vector
from belated.ledger.store import DecisionRow, Key, Store, Writer
from belated.ledger.work import Running, Work

log = logging.getLogger("belated")

#: How often a batch is tried again when another process was faster.
TRIES = 5

#: Compiles an instance's kernels elsewhere, then calls back with it.
Warmer = Callable[[Experiment, Instance, Callable[[Instance], None]], None]


class Ledger:
    """The experiments of one database. `serve` is for one thread; what reads may be called from any."""

    def __init__(self, store: Store, warmer: Warmer | None = None) -> None:
        self.store = store
        self.folder = Folder(store)
        self._warmer = warmer
        self._running: dict[int, Running] = {}
        self._named: dict[str, Experiment] = {}
        self._broken: dict[str, str] = {}
        self._changed: dict[str, Experiment] = {}  # by the transaction under way
        self._gone: set[int] = set()
        self._generation: int | None = None
        #: Whether data of deleted experiments is left.
        self.erasing = False
        self.refresh()

    # --- what anybody may call ---

    def refresh(self) -> None:
        """Learn of experiments that other processes made or changed."""
        with self.store.read() as session:
            generation = session.generation()
            if generation == self._generation:
                return
            rows = session.experiments()
            self.erasing = bool(erase.deleted(session))
        self._forget({each.id for each in self._named.values()} - {row.id for row in rows})
        for row in rows:
            known = self._named.get(row.name)
            if known is not None and known.trouble is None and known.row() == row:
                continue
            try:
                self._remember(upkeep.opened(self.store, row))
                self._broken.pop(row.name, None)
            except BelatedError as error:
                self._broken[row.name] = f"{row.name} cannot be opened: {error}"
                log.error(self._broken[row.name])
        self._generation = generation

    def _forget(self, numbers: set[int]) -> None:
        """These experiments are gone."""
        if numbers:
            self._gone |= numbers
            self._named = {name: each for name, each in self._named.items() if each.id not in numbers}
            self._running = {number: each for number, each in self._running.items() if number not in numbers}
            self.folder.forget(numbers)

    def experiments(self) -> list[Experiment]:
        """All that can be used, oldest first."""
        return sorted(self._named.values(), key=lambda experiment: experiment.id)

    def unopened(self) -> dict[str, str]:
        """Those that cannot be used, and why."""
        return dict(self._broken)

    def has(self, name: str) -> bool:
        """Whether the name is taken."""
        return name in self._named or name in self._broken

    def find(self, name: str) -> Experiment:
        """An experiment by name."""
        found = self._named.get(name)
        if found is not None:
            return found
        if name in self._broken:
            raise Refused("read_only", self._broken[name])
        raise Refused("unknown_experiment", f"there is no experiment called {name!r}")

    def decision(self, experiment: Experiment, ticket: bytes | None) -> dict[str, Any]:
        """A decision as data, with its feedback if there is any; `expires_at` decides, swept or not."""
        with self.store.read() as session:
            row = session.decisions([ticket]).get(ticket) if ticket is not None else None
            remarks = session.remarks(row.ticket) if row is not None else []
            now = session.now()
        experiment = self._known(experiment)
        if row is None or row.experiment != experiment.id:
            raise _unknown(experiment)
        due = row.state == "open" and row.expires_at is not None and row.expires_at <= now
        context = vector(row.context)
        return {
            "ticket": row.ticket.hex(),
            "action": row.action,
            "name": experiment.name_of(row.action, row.round),
            "probability": row.probability,
            "round": row.round,
            "state": "expired" if due else row.state,
            "context": None if context is None else context.tolist(),
            "allowed": None if row.allowed is None else [experiment.actions[i] for i in json.loads(row.allowed)],
            "value": read_value(row.value),
            "decided_at": row.decided_at,
            "expires_at": row.expires_at,
            "closed_at": row.closed_at,
            "replaced": bool(row.stale),
            "remarks": [{"kind": each.kind, "value": read_value(each.value), "at": each.at} for each in remarks],
        }

    def statistics(self, experiment: Experiment) -> dict[str, Any]:
        """What happened so far, up to the last commit."""
        return self.folder.statistics(self._known(experiment))

    def _known(self, experiment: Experiment) -> Experiment:
        """The experiment with the actions that other processes gave it."""
        self.refresh()
        return self._named.get(experiment.name, experiment)

    # --- what one thread calls ---

    def serve(self, items: Sequence[Item]) -> list[Any]:
        """Answers in the order of the items, after everything is committed.

        Decisions, feedback and cancellations share a transaction; what else there is goes before, each in its own.
        """
        shared = [item for item in items if isinstance(item, Decide | Feedback | Cancel)]
        alone = {id(item): self._serve([item])[0] for item in items if not isinstance(item, Decide | Feedback | Cancel)}
        answers = iter(self._serve(shared))
        return [alone[id(item)] if id(item) in alone else next(answers) for item in items]

    def _serve(self, items: Sequence[Item], tries: int = TRIES) -> list[Any]:
        """If the batch as a whole fails it is undone and its items are served one by one."""
        if not items:
            return []
        try:
            if tries < TRIES:
                self.refresh()
            return self._together(items)
        except Exception as error:
            for running in self._running.values():
                running.player.forget()
                running.outstanding = None
            if isinstance(error, Raced) and tries > 1:
                return self._serve(items, tries - 1)
            if len(items) == 1 or isinstance(error, StorageError):
                return [_failure(error)] * len(items)
            log.warning("a batch of %d items failed (%r): they are served one by one", len(items), error)
        return [self._serve([item])[0] for item in items]

    def _together(self, items: Sequence[Item]) -> list[Any]:
        gone = {at for at, item in enumerate(items) if _about(item) in self._gone}
        if gone:
            left = [item for at, item in enumerate(items) if at not in gone]
            rest = iter(self._together(left) if left else ())
            return [_is_gone(item) if at in gone else next(rest) for at, item in enumerate(items)]
        answers: list[Any] = [None] * len(items)
        self._changed = {}
        for item in items:
            if isinstance(item, Decide | Feedback | Cancel | Replace):
                self._run(self._as_it_is(item.experiment))  # which may compile: not while rows are locked
        with self.store.write(alone=isinstance(items[0], Administration | Erase)) as session:
            if session.generation() != self._generation:
                raise Raced("another process changed an experiment")
            now = session.now()
            works: dict[int, Work] = {}
            for at, item in enumerate(items):
                if isinstance(item, Administration):
                    answers[at] = self._administer(item, session, now)
                elif isinstance(item, Record):
                    access.used(session, item.uses)
                    access.note(session, item.notes)
                elif isinstance(item, Erase):
                    answers[at] = erase.step(session, item.limit)
                elif isinstance(item, Upkeep):
                    answers[at] = upkeep.tick(self.folder, self.experiments(), session, now, item.limit)
                elif isinstance(item, Sweep):
                    answers[at] = self._sweep(item, session, now, works)
            self._closings(items, answers, session, now, works)
            self._decisions(items, answers, session, now, works)
            for work in works.values():
                work.flush()
        for work in works.values():
            if work.running.outstanding is not None:
                work.running.outstanding += work.delta
        for item in items:
            if isinstance(item, Create) and item.experiment.name in self._changed:
                made = self._changed[item.experiment.name]
                self._running.setdefault(made.id, Running(made, item.player))
            if isinstance(item, Grow) and item.experiment.name in self._changed:
                made = self._changed[item.experiment.name]
                self._running[made.id] = Running(made, item.player)
        for changed in self._changed.values():
            self._remember(changed)
        self._forget({item.experiment.id for item in items if isinstance(item, Delete)})
        self.erasing = answers[0] if isinstance(items[0], Erase) else self.erasing or isinstance(items[0], Delete)
        if any(isinstance(item, Upkeep) for item in items):
            self.folder.saved()
        return answers

    def _remember(self, experiment: Experiment) -> None:
        self._named[experiment.name] = experiment
        running = self._running.get(experiment.id)
        if running is not None and running.player.actions == len(experiment.actions):
            running.experiment = running.player.experiment = experiment

    def prepare(self, experiment: Experiment) -> Player:
        """A player for an experiment. Kernels that are not compiled yet serve as plain Python until they are.

        It may take a while, and may be called from any thread.
        """
        instance = make_instance(experiment)
        if self._warmer is None or instance.compiled():
            instance.compile()
            return Player(experiment, instance)
        player = Player(experiment, make_instance(experiment, plain=True))
        self._warmer(experiment, instance, player.improve)
        return player

    def _run(self, experiment: Experiment) -> Running:
        running = self._running.get(experiment.id)
        if running is None or running.player.actions != len(experiment.actions):
            running = self._running[experiment.id] = Running(experiment, self.prepare(experiment))
        return running

    def _work(self, experiment: Experiment, session: Writer, now: float, works: dict[int, Work]) -> Work:
        work = works.get(experiment.id)
        if work is None:
            work = works[experiment.id] = Work(self._run(experiment), experiment, session, now, self.store.exclusive)
        return work

    def _as_it_is(self, experiment: Experiment) -> Experiment:
        """The experiment as it is now: it may have changed since the item was made."""
        return self._changed.get(experiment.name) or self._named.get(experiment.name, experiment)

    # --- experiments ---

    def _administer(self, item: Administration, session: Writer, now: float) -> Experiment | Refused:
        try:
            if isinstance(item, Create):
                made = self._create(item, session, now)
                changes.note(session, now, item, "created", repr(made.forecaster))
                return made
            experiment = self._as_it_is(item.experiment)
            if isinstance(item, Delete):
                erase.begin(session, experiment.id)
                changes.note(session, now, item, "deleted", "with all data")
                return experiment
            _check_writable(experiment)
            if isinstance(item, Archive):
                archived_at = None if item.undo else experiment.archived_at or now
                changed = replace(experiment, archived_at=archived_at)
            elif isinstance(item, Change):
                changed = changes.change(item, experiment, session, now)
            elif isinstance(item, Grow):
                changed = self._grow(item, experiment, session, now)
            else:
                changed = self._replace(item, experiment, session, now)
        except Refused as refusal:
            return refusal
        except Unsupported as error:
            return Refused("unsupported", str(error))
        except InvalidArgument as error:
            return Refused("invalid", str(error))
        if changed.row() == experiment.row():
            return experiment
        session.change_experiment(changed.row())
        changes.note(session, now, item, *changes.told(item, experiment, changed))
        self._changed[changed.name] = changed
        return changed

    def _create(self, item: Create, session: Writer, now: float) -> Experiment:
        made = replace(item.experiment, created_at=now)
        number = session.add_experiment(made.row(), made.forecaster.seats)
        if number is None:
            raise Refused("exists", f"there is an experiment called {made.name!r} already")
        made = replace(made, id=number)
        work = Work(Running(made, item.player), made, session, now, self.store.exclusive)
        work.create()
        work.flush()
        self._changed[made.name] = made
        return made

    def _replace(self, item: Replace, experiment: Experiment, session: Writer, now: float) -> Experiment:
        action = experiment.number(item.action)
        experiment.forecaster.check_replace()
        last = session.take_rounds(experiment.id, 0) - 1
        changed = experiment.renamed(action, item.new, last)
        Work(self._run(experiment), experiment, session, now, self.store.exclusive).replace(action)
        return changed

    def _grow(self, item: Grow, experiment: Experiment, session: Writer, now: float) -> Experiment:
        grown = experiment.grown(item.new)
        if item.player.actions != len(grown.actions):  # others were added since it was made
            item.player = self.prepare(grown)
        Work(Running(grown, item.player), grown, session, now, self.store.exclusive).grow(experiment.learner)
        return grown

    # --- what ends ---

    def _sweep(self, item: Sweep, session: Writer, now: float, works: dict[int, Work]) -> bool:
        more = False
        for experiment in self.experiments():
            if (experiment.expiry is None and not experiment.changes) or experiment.trouble is not None:
                continue
            limit = min(item.limit, experiment.slice)
            rows = session.due(experiment.id, now, limit)
            if not rows:
                continue
            work = self._work(experiment, session, now, works)
            work.load([row.instance for row in rows])
            default = experiment.on_expiry
            for row in rows:
                work.end(row, "drop" if default is None else "default", default)
            more = more or len(rows) == limit
        return more

    def _closings(
        self,
        items: Sequence[Item],
        answers: list[Any],
        session: Writer,
        now: float,
        works: dict[int, Work],
    ) -> None:
        wanted = {ticket for item in items for ticket in _tickets(item) if ticket is not None}
        rows = session.decisions(sorted(wanted)) if wanted else {}
        chosen = [(at, item) for at, item in enumerate(items) if isinstance(item, Feedback | Cancel)]
        instances: dict[int, list[int]] = {}
        for _, item in chosen:
            for ticket in _tickets(item):
                row = rows.get(ticket) if ticket is not None else None
                if row is not None and row.state == "open":
                    instances.setdefault(row.experiment, []).append(row.instance)
        self._load(items, instances, session, now, works)
        for at, item in chosen:
            experiment = self._as_it_is(item.experiment)
            if experiment.trouble is not None:
                answers[at] = Refused("read_only", experiment.trouble)
                continue
            work = works[experiment.id]
            if isinstance(item, Cancel):
                answers[at] = [self._cancel(work, ticket, rows) for ticket in item.tickets]
            else:
                answers[at] = [self._feedback(work, ticket, value, rows) for ticket, value in item.entries]

    def _load(
        self,
        items: Sequence[Item],
        instances: dict[int, list[int]],
        session: Writer,
        now: float,
        works: dict[int, Work],
    ) -> None:
        """Have all states in hand that end decisions, and the only ones that make them, in the order of their keys."""
        wanted: dict[int, Experiment] = {}
        for item in items:
            if isinstance(item, Decide | Feedback | Cancel):
                experiment = self._as_it_is(item.experiment)
                wanted[experiment.id] = experiment
        for number, experiment in sorted(wanted.items()):
            if experiment.trouble is None:
                self._work(experiment, session, now, works).load(instances.get(number, ()))

    def _feedback(self, work: Work, ticket: bytes | None, value: Any, rows: dict[bytes, DecisionRow]) -> Outcome:
        if isinstance(value, Refused):
            return value
        row = _row_of(work, ticket, rows)
        if isinstance(row, Refused):
            return row
        if row.state == "open" and (row.expires_at is None or work.now < row.expires_at):
            try:
                rows[row.ticket] = work.end(row, "feedback", value)
            except InvalidArgument as error:
                return Refused("invalid", str(error))
            return "applied"
        if row.state in ("open", "expired"):
            work.remark("late", row.ticket, value)
            return "late"
        if row.state == "closed" and row.value == write_value(value):
            work.counts["duplicate"] += 1
            return "duplicate"
        work.remark("conflict", row.ticket, value)
        if row.state == "cancelled":
            return Refused("cancelled", f"the decision {row.ticket.hex()} was cancelled before")
        return Refused(
            "conflict", f"the decision {row.ticket.hex()} has another feedback already: {row.value}, which stays"
        )

    def _cancel(self, work: Work, ticket: bytes | None, rows: dict[bytes, DecisionRow]) -> Outcome:
        row = _row_of(work, ticket, rows)
        if isinstance(row, Refused):
            return row
        if row.state == "cancelled":
            return "cancelled"
        if row.state == "closed":
            return Refused("closed", f"the decision {row.ticket.hex()} has its feedback already")
        if row.state == "expired" or (row.expires_at is not None and work.now >= row.expires_at):
            return Refused("expired", f"the decision {row.ticket.hex()} has expired")
        rows[row.ticket] = work.end(row, "cancel")
        return "cancelled"

    # --- what begins ---

    def _decisions(
        self, items: Sequence[Item], answers: list[Any], session: Writer, now: float, works: dict[int, Work]
    ) -> None:
        chosen: dict[int, list[Part]] = {}
        first: dict[tuple[int, str], int] = {}
        again: list[tuple[int, int]] = []
        known = self._known_keys(items, session)
        for at, item in enumerate(items):
            if not isinstance(item, Decide):
                continue
            experiment = self._as_it_is(item.experiment)
            pair = (experiment.id, item.key) if item.key is not None else None
            before = known.get(pair) if pair is not None else None
            if before is not None and before.digest != item.digest:
                answers[at] = other_body(item)
                continue
            part = Part(at, item, before)
            if part.done:
                answers[at] = part.answer([])
            elif pair is not None and pair in first:
                again.append((at, first[pair]))
            elif (refusal := _cannot_decide(experiment, item)) is not None:
                answers[at] = refusal
            else:
                if pair is not None:
                    first[pair] = at
                chosen.setdefault(experiment.id, []).append(part)
        keys: list[Key] = []
        for number, some in chosen.items():
            work = self._work(self._as_it_is(some[0].item.experiment), session, now, works)
            assert number == work.experiment.id
            self._decide_all(work, some, answers, keys)
        if keys:
            session.add_keys(keys)
        for at, one in again:
            answers[at] = same_answer(items[at], items[one], answers[one])

    def _known_keys(self, items: Sequence[Item], session: Writer) -> dict[tuple[int, str], Key]:
        wanted = [(i.experiment.id, i.key) for i in items if isinstance(i, Decide) and i.key is not None]
        return session.find_keys(wanted) if wanted else {}

    def _decide_all(self, work: Work, asked: list[Part], answers: list[Any], keys: list[Key]) -> None:
        """All decisions that a batch asks of one experiment."""
        granted: list[tuple[Part, tuple[int, ...] | None]] = []
        total = 0
        limit = work.experiment.outstanding
        for one in asked:
            try:
                allowed = work.experiment.numbers(one.item.allowed)
            except InvalidArgument as error:
                answers[one.at] = Refused("invalid", str(error))
                continue
            wanted = len(one.contexts) + one.item.after
            if not one.item.before and work.outstanding() + total + wanted > limit:
                answers[one.at] = Refused(
                    "too_many_outstanding", f"{work.experiment.name} may have {limit} open decisions at most"
                )
                continue
            granted.append((one, allowed))
            total += len(one.contexts)
        if not total:
            return
        work.expect([context for one, _ in granted for context in one.contexts])
        round_ = work.session.take_rounds(work.experiment.id, total)
        random = secrets.token_bytes(16 * total)
        used = 0
        for one, allowed in granted:
            made = []
            for context in one.contexts:
                ticket = random[16 * used : 16 * used + 16]
                made.append(work.make(context, allowed, ticket, round_ + used))
                used += 1
            answers[one.at] = one.answer(made)
            if one.item.key is not None:
                one.keep(work, made, keys)


def _about(item: Item) -> int | None:
    """The number of the experiment that an item is about."""
    return None if isinstance(item, Erase | Sweep | Upkeep | Record) else item.experiment.id


def _is_gone(item: Item) -> Refused:
    assert not isinstance(item, Erase | Sweep | Upkeep | Record)
    return Refused("unknown_experiment", f"{item.experiment.name} was deleted")


def _tickets(item: Item) -> Sequence[bytes | None]:
    if isinstance(item, Feedback):
        return [ticket for ticket, _ in item.entries]
    return item.tickets if isinstance(item, Cancel) else ()


def _row_of(work: Work, ticket: bytes | None, rows: dict[bytes, DecisionRow]) -> DecisionRow | Refused:
    row = rows.get(ticket) if ticket is not None else None
    if row is None or row.experiment != work.experiment.id:
        work.counts["unknown"] += 1
        return _unknown(work.experiment)
    return row


def _unknown(experiment: Experiment) -> Refused:
    return Refused("unknown_ticket", f"{experiment.name} never gave out this ticket")


def _check_writable(experiment: Experiment) -> None:
    if experiment.trouble is not None:
        raise Refused("read_only", experiment.trouble)


def _cannot_decide(experiment: Experiment, item: Decide) -> Refused | None:
    if experiment.trouble is not None:
        return Refused("read_only", experiment.trouble)
    if experiment.archived_at is not None and not item.before:  # a request that has begun is served to its end
        return Refused("archived", f"{experiment.name} is archived: it makes no more decisions")
    return None


def _failure(error: Exception) -> Refused:
    if isinstance(error, StorageError):
        log.error("%s", error)
        return Refused("storage", "the database did not answer; it is safe to ask again with the same key or feedback")
    log.error("a request failed", exc_info=error)
    return Refused("internal", "this request failed; nothing was changed")
