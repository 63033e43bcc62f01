"""The meaning of the service: a batch of items becomes answers, in one transaction.

What frees instances goes first (expiry, feedback, cancellations), then decisions. All rows that a batch needs are read
by a few statements, worked on in memory, and written by a few statements; nothing is answered before the commit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.instance import Instance
from belated.ledger import access, changes, erase, replicas, upkeep
from belated.ledger.errors import Damaged, Outdated, Raced, Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.faults import Faults, explained
from belated.ledger.folder import Folder
from belated.ledger.follow import is_stale
from belated.ledger.items import (
    SHARED,
    Administration,
    Archive,
    Change,
    Create,
    Delete,
    Erase,
    Grow,
    Item,
    Probe,
    Record,
    Replace,
    Save,
    Sweep,
    Upkeep,
    read_value,
    waited,
)
from belated.ledger.known import TRIES, Known
from belated.ledger.player import Player, make_instance, vector
from belated.ledger.replica import Replica
from belated.ledger.requests import Batch, Placed, Requests, unknown
from belated.ledger.store import DecisionRow, Remark, Store, Writer
from belated.ledger.work import SAVED, Page, Running, Work

log = logging.getLogger("belated")

#: Compiles an instance's kernels elsewhere, then calls back with it.
Warmer = Callable[[Experiment, Instance, Callable[[Instance], None]], None]
#: Tickets whose time has come, by experiment.
Due = dict[Experiment, list[bytes]]


class Ledger(Known):
    """The experiments of one database. `serve` is for one thread; what reads may be called from any."""

    def __init__(self, store: Store, warmer: Warmer | None = None) -> None:
        super().__init__(store)
        self.folder = Folder(store)
        self._warmer = warmer
        self._running: dict[int, Running] = {}
        self.faults = Faults()
        self._changed: dict[str, Experiment] = {}  # by the transaction under way
        self._made: dict[int, Running] = {}
        self._page: Page
        self._lasts: dict[int, int] = {}  # where logs ended when states were last put on record
        self.refresh()

    # --- what anybody may call ---

    def failing(self) -> dict[str, str]:
        """Those that can be opened and fail, whose decisions do not expire or whose events are not deleted, and why."""
        reasons = self.faults.reasons()
        known = [(each.name, [each.id, ("expiry", each.id), ("retention", each.id)]) for each in self.experiments()]
        found = {name: next((reasons[key] for key in keys if key in reasons), None) for name, keys in known}
        return {name: why for name, why in found.items() if why is not None}

    def decision(self, experiment: Experiment, ticket: bytes | None) -> dict[str, Any]:
        """A decision as data, with its feedback if there is any; `expires_at` decides, swept or not."""
        with self.store.read() as session:
            row = session.decisions([ticket]).get(ticket) if ticket is not None else None
            remarks = session.remarks([row.ticket]) if row is not None else []
            now = session.now()
        experiment = self._known(experiment)
        if row is None or row.experiment != experiment.id:
            raise unknown(experiment, ticket)
        try:
            return _shown(experiment, row, remarks, now)
        except (ValueError, TypeError, IndexError) as error:
            raise explained(experiment.name, Damaged(f"the decision {row.ticket.hex()}: {error}")) from None

    def statistics(self, experiment: Experiment) -> dict[str, Any]:
        """What happened so far, up to the last commit."""
        experiment = self._known(experiment)
        return self.folder.statistics(experiment, self._queues(experiment) if experiment.forecaster.queues() else {})

    def _queues(self, experiment: Experiment) -> dict[int, int] | None:
        """How much waits in each queue: as the replica here has it, or one that is made for it where that is behind.
        None where it cannot be known: why is told where the experiment is asked for something."""
        running = self._running.get(experiment.id)
        with self.store.read() as session:
            try:
                head = session.heads([experiment.id])[experiment.id]
                replica = None if running is None else running.replica
                if replica is None or replica.place != head.last:
                    instance = make_instance(experiment)
                    plain = None if instance.compiled() else make_instance(experiment, plain=True)
                    replica = Replica(Player(experiment, plain or instance), head, session)
                    replica.catch_up(head)
            except self.store.spoils:
                raise
            except Exception:
                return None
            return {cell: len(queue) for cell, queue in replica.queues.copy().items()}

    def _known(self, experiment: Experiment) -> Experiment:
        """The experiment with the actions that other processes gave it."""
        self.refresh()
        return self._named.get(experiment.name, experiment)

    # --- what one thread calls ---

    def serve(self, items: Sequence[Item]) -> list[Any]:
        """Answers in the order of the items, after everything is committed.

        Decisions, feedback and cancellations share a transaction; what else there is goes before, each in its own, and
        states go on record before upkeep.
        """
        if all([isinstance(item, SHARED) for item in items]):
            return self._serve(items)
        if any(isinstance(item, Upkeep) for item in items):
            self._serve([Save(all=self.store.exclusive)])  # some, for which others can wait
            with suppress(StorageError):
                self.folder.catch_up()  # no event may go that is not in the statistics
        shared = [item for item in items if isinstance(item, SHARED)]
        alone = {id(item): self._serve([item])[0] for item in items if not isinstance(item, SHARED)}
        answers = iter(self._serve(shared))
        return [alone[id(item)] if id(item) in alone else next(answers) for item in items]

    def _serve(self, items: Sequence[Item], tries: int = TRIES) -> list[Any]:
        """If the batch as a whole fails it is undone, and served in parts: by experiment, then one by one."""
        if not items:
            return []
        try:
            if tries < TRIES:
                self.refresh()
            return self._together(items)
        except Exception as error:
            for running in () if isinstance(error, Outdated) else self._running.values():
                running.forget()
            self._made = {}
            if isinstance(error, Raced) and tries > 1:
                return self._serve(items, tries - 1)
            parts = self._parts(items)
            if isinstance(error, StorageError) or not parts:
                return [self._failure(items[0], error)] * len(items)
            log.warning("a batch of %d items failed (%r): it is served in parts", len(items), error)
        answers = {id(item): answer for part in parts for item, answer in zip(part, self._serve(part), strict=True)}
        if isinstance(items[0], Sweep | Upkeep | Save):
            return [any(answer is True for answer in answers.values())]
        return [answers[id(item)] for item in items]

    def _parts(self, items: Sequence[Item]) -> list[list[Item]]:
        """Smaller batches, in which what fails has less company; empty where there are none."""
        first = items[0]
        if isinstance(first, Sweep | Upkeep | Save):
            one = [0, *(experiment.id for experiment in self.experiments())]
            return [] if first.only is not None else [[replace(first, only=number)] for number in one]
        parts: dict[int, list[Item]] = {}
        for item in items:
            experiment = getattr(item, "experiment", None)
            parts.setdefault(0 if experiment is None else self._as_it_is(experiment).id, []).append(item)
        if len(parts) > 1:
            return list(parts.values())
        return [[item] for item in items] if len(items) > 1 else []

    def _failure(self, item: Item, error: Exception) -> Refused:
        """What is answered where a whole transaction failed."""
        if isinstance(item, Probe):
            said = f": {error.__cause__}" if self.store.exclusive else ""
            fault = "does not take writes" if self.store.exclusive else "does not answer, or takes no writes"
            return Refused("storage", f"the database {fault}{said}")
        if isinstance(error, StorageError | Raced) or isinstance(item, Erase | Record):
            return _failure(error)
        if isinstance(item, Sweep | Upkeep | Save):
            named = {experiment.id: experiment.name for experiment in self.experiments()}
            kinds = {Sweep: ("expiry", item.only), Upkeep: ("retention", item.only), Save: item.only}
            return self.faults.failed(kinds[type(item)], named.get(item.only or 0, "upkeep"), error)
        experiment = self._as_it_is(item.experiment)
        return self.faults.failed(experiment.id, experiment.name, error)

    def _together(self, items: Sequence[Item]) -> list[Any]:
        gone = {at for at, item in enumerate(items) if _about(item) in self._gone} if self._gone else ()
        if gone:
            left = [item for at, item in enumerate(items) if at not in gone]
            rest = iter(self._together(left) if left else ())
            return [_is_gone(item) if at in gone else next(rest) for at, item in enumerate(items)]
        answers: list[Any] = [None] * len(items)
        self._changed = {}
        batch = Batch(items, self._named)
        self._make_ready(items[0], batch)
        due = self._due(items[0]) if isinstance(items[0], Sweep) else {}
        if isinstance(items[0], Sweep) and not due:
            return [False]
        alone = isinstance(items[0], Administration | Erase)
        numbers = sorted(batch.groups) or [each.id for each in due] or self._concerned(items[0])
        with self.store.write(alone=alone, lock=numbers) as session:
            wanted = batch.tickets.union(*due.values())
            shared = isinstance(items[0], SHARED)
            # Where nobody else has written of late: if somebody did now, that is one more round trip.
            asked = self._behind(numbers, session.since) if shared and session.since < session.turn else numbers
            heads, rows, known = session.look(asked, sorted(wanted), batch.keys)
            if session.generation() != self._generation:
                raise Outdated("another process changed an experiment")
            if asked is not numbers and session.since == session.turn:
                heads |= session.heads(numbers)
            self._page = Page(session, heads, session.now())
            if shared:
                self._shared(batch, Requests(self._page.now, rows, known, batch.random, answers))
            else:
                answers[0] = self._single(items[0], due, rows)
            self._page.write()
        self.faults.worked(*self._page.worked)
        if shared:
            return answers
        self._committed(items[0], answers[0])
        return answers

    def _single(self, item: Item, due: Due, rows: dict[bytes, DecisionRow]) -> Any:
        """What has a transaction to itself."""
        session, now = self._page.session, self._page.now
        if isinstance(item, Administration):
            return self._administer(item, session, now) if item.begin() else waited()
        if isinstance(item, Record):
            access.used(session, item.uses)
            access.note(session, item.notes)
        elif isinstance(item, Erase):
            return erase.step(session, item.limit)
        elif isinstance(item, Upkeep):
            among = self._among(item.only)
            return upkeep.tick(self.folder, among, session, now, item.limit, self.faults)
        elif isinstance(item, Sweep):
            return self._sweep(item, due, rows)
        elif isinstance(item, Save):
            more = self._save(item.limit)
            self._tell(session, now, item.last)
            return more
        elif isinstance(item, Probe):
            session.set_meta("probed", repr(now))
            return True
        return None

    def _committed(self, item: Item, answer: Any) -> None:
        """What had a transaction to itself is committed."""
        self._running |= self._made
        self._made = {}
        if isinstance(item, Administration):
            with self._learning:
                for changed in self._changed.values():
                    self._remember(changed)
                if isinstance(item, Delete) and not isinstance(answer, Refused):
                    self._forget({item.experiment.id})
                    self.erasing = True
        if isinstance(item, Erase):
            self.erasing = answer
        if isinstance(item, Upkeep):
            self.folder.saved()

    def _make_ready(self, first: Item, batch: Batch) -> None:
        """Have the players, which may compile: not while rows are locked. Where that fails it fails again, alone."""
        asked = [experiment for experiment, _ in batch.groups.values()]
        if isinstance(first, Replace | Change | Grow):
            asked.append(self._as_it_is(first.experiment))
        for experiment in asked:
            running = self._running.get(experiment.id)
            ready = running is not None and running.experiment is experiment
            if not ready and self._refusal(experiment) is None:
                with suppress(Exception):
                    self._run(experiment)

    def _among(self, only: int | None) -> list[Experiment]:
        """The experiments, or the one of them."""
        return [each for each in self.experiments() if only is None or each.id == only]

    def forgotten(self, numbers: set[int]) -> None:
        self._running = {number: each for number, each in self._running.items() if number not in numbers}
        self.folder.forget(numbers)

    def reopened(self, experiment: Experiment, mended: bool) -> None:
        if mended:
            self.folder.start_again()
        self.faults.worked(experiment.id)

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
        if running is None:
            running = self._running[experiment.id] = Running(experiment, self.prepare(experiment))
        elif running.experiment is not experiment:
            same = running.player.actions == len(experiment.actions)
            running.change(experiment, None if same else self.prepare(experiment))
        return running

    def _behind(self, numbers: Sequence[int], since: int) -> list[int]:
        """Those of these experiments to whose logs others may have written: they were not had here since that turn."""
        known = {number: each.replica for number, each in self._running.items()}
        return [number for number in numbers if (replica := known.get(number)) is None or replica.had < since]

    def _work(self, experiment: Experiment) -> Work:
        """The experiment with all that is in its log, to be changed."""
        page = self._page
        running = self._running.get(experiment.id)
        if running is None or running.experiment is not experiment:
            running = self._run(experiment)
        replica = running.replica
        if replica is None or replica.had < page.since:
            head = page.head(experiment.id)
            if head is None:
                raise Damaged("it has no log")
            replica = running.follow(head, page.session)
        else:
            replica.session, replica.had = page.session, page.turn
        return Work(page, replica, experiment)

    def unsaved(self) -> int:
        """How many events are not in what is on record of the states: a start lives through them again."""
        return sum(running.unsaved() for running in list(self._running.values()))

    def changed(self) -> int:
        """How many states are not on record as they are."""
        replicas = [running.replica for running in list(self._running.values())]
        return sum(len(replica.dirty) for replica in replicas if replica is not None)

    def _concerned(self, item: Item) -> list[int]:
        """The experiments that an item is about; whose states are to go on record now, or of which something may go."""
        about = None if isinstance(item, Create) else _about(item)
        if about:
            return [self._as_it_is(item.experiment).id]  # type: ignore[union-attr]
        if isinstance(item, Upkeep):
            return [each.id for each in self._among(item.only) if each.retention is not None]
        if not isinstance(item, Save):
            return []
        behind = {number for number, running in self._running.items() if running.unsaved()}
        with self.store.read() as session:
            heads = session.heads().values()
        # What nobody writes to any more is seen to by who notices first.
        idle = (head for head in heads if item.all or head.last == self._lasts.get(head.experiment))
        behind |= {head.experiment for head in idle if head.written < head.last}
        self._lasts = {head.experiment: head.last for head in heads}
        found = []
        for each in self._among(item.only):
            if each.id in behind and self._refusal(each) is None:
                with suppress(Exception):  # what fails here fails again where it is asked for, alone
                    self._run(each)  # as it is now: others may have changed it
                    found.append(each.id)
        return found

    def _save(self, limit: int) -> bool:
        more, named = False, {each.id: each for each in self.experiments()}
        for number, head in sorted(self._page.heads.items()):
            if limit <= 0:
                return True
            experiment = named.get(number)
            if experiment is None:
                continue
            try:
                states, finished = self._run(experiment).save(head, self._page, limit)
            except self.store.spoils:
                raise
            except Exception as error:
                self._drop(experiment)
                self.faults.failed(experiment.id, experiment.name, error)
                continue
            limit -= states
            more = more or not finished
            if self._page.weight > SAVED:
                self._page.write()
        return more

    def _tell(self, session: Writer, now: float, last: bool) -> None:
        """Leave word of how far behind this process is, for people."""
        if last:
            replicas.leave(session)
            return
        here = {number: running.replica for number, running in self._running.items() if running.replica is not None}
        behind = {number: self._lasts.get(number, 0) - replica.place for number, replica in here.items()}
        # One that has lived through nothing yet is behind since the experiment was made.
        late = [here[number] for number, count in behind.items() if count > 0]
        since = [now - max(replica.at, replica.experiment.created_at) for replica in late]
        replicas.note(session, now, len(here), sum(count for count in behind.values() if count > 0), max([0.0, *since]))

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
                changed = changes.change(item, experiment, self._work(experiment))
            elif isinstance(item, Grow):
                changed = self._grow(item, experiment)
            else:
                changed = self._replace(item, experiment)
        except (Refused, Unsupported, InvalidArgument) as error:
            self._page.drop(item.experiment.id)
            if isinstance(error, Refused):
                return error
            return Refused("unsupported" if isinstance(error, Unsupported) else "invalid", str(error))
        if changed.row() == experiment.row():
            return experiment
        session.change_experiment(changed.row())
        changes.note(session, now, item, *changes.told(item, experiment, changed))
        self._changed[changed.name] = changed
        return changed

    def _create(self, item: Create, session: Writer, now: float) -> Experiment:
        made = replace(item.experiment, created_at=now)
        number = session.add_experiment(made.row())
        if number is None:
            raise Refused("exists", f"there is an experiment called {made.name!r} already")
        made = replace(made, id=number)
        running = Running(made, item.player)
        running.change(made)
        running.begin(self._page)
        self._made[number] = running
        self._changed[made.name] = made
        return made

    def _replace(self, item: Replace, experiment: Experiment) -> Experiment:
        action = experiment.number(item.action)
        experiment.forecaster.check_replace()
        replica = self._work(experiment).replica
        changed = experiment.renamed(action, item.new, replica.rounds, replica.place + 1)
        self._turn(changed, replica, None, ("replace", action))
        return changed

    def _grow(self, item: Grow, experiment: Experiment) -> Experiment:
        replica = self._work(experiment).replica
        grown = experiment.grown(item.new, replica.place + 1)
        if item.player.actions != len(grown.actions):  # others were added since it was made
            item.player = self.prepare(grown)
        self._turn(grown, replica, item.player, ("grow", len(experiment.actions)))
        return grown

    def _turn(self, changed: Experiment, replica: Replica, player: Player | None, told: tuple[str, int]) -> None:
        """An action is replaced or added: that is one event, and states change when they are next used."""
        try:
            self._running[changed.id].turn(changed, player)
            Work(self._page, replica, changed).turn(*told)
        except BaseException:
            self._drop(changed)
            raise

    # --- decisions, feedback, cancellations ---

    def _due(self, item: Sweep) -> Due:
        """Tickets of decisions whose time has come, by experiment: of those that can end."""
        with self.store.read() as session:
            found = session.due(session.now(), item.limit, self._cannot_expire())
        named = {each.id: each for each in self._among(item.only)}
        due: Due = {}
        for number, ticket in found:
            if number in named:
                due.setdefault(named[number], []).append(ticket)
        return due

    def _cannot_expire(self) -> list[int]:
        resting = (each for each in self.experiments() if self.faults.resting(("expiry", each.id)) is not None)
        broken = (each for each in self.experiments() if each.trouble is not None)
        unopened = (row.id for row in self._rows.values() if row.name in self._broken)
        return sorted({*(each.id for each in (*resting, *broken)), *unopened})

    def _sweep(self, item: Sweep, due: Due, rows: dict[bytes, DecisionRow]) -> bool:
        """End what is due, some of each experiment; whether more may be."""
        now = self._page.now
        more = sum(map(len, due.values())) >= item.limit
        for experiment, found in due.items():
            some = found[: experiment.slice]
            more = more or len(some) < len(found)
            left = [rows[ticket] for ticket in some if ticket in rows and rows[ticket].state == "open"]
            left = [row for row in left if row.expires_at is not None and row.expires_at <= now]
            if left:
                self._expire(experiment, left)
        return more

    def _expire(self, experiment: Experiment, rows: list[DecisionRow]) -> None:
        """End these decisions: all together, or, where that fails, those that can be ended."""
        try:
            self._work(experiment).expire(rows)
        except self.store.spoils:
            raise
        except Exception as error:
            self._drop(experiment)
            if len(rows) == 1:
                self.faults.failed(("expiry", experiment.id), experiment.name, error)
                return
            for row in rows:
                self._expire(experiment, [row])
                self._page.flush()
            return
        self._page.worked.add(("expiry", experiment.id))

    def _drop(self, experiment: Experiment) -> None:
        """Forget what is in memory of an experiment: what failed may be half done there, and on the page."""
        running = self._running.get(experiment.id)
        if running is not None:
            running.forget()
        self._page.drop(experiment.id)

    def _shared(self, batch: Batch, requests: Requests) -> None:
        """What is asked of each experiment, in the order of their numbers; one that fails leaves the others alone."""
        for experiment, asked in batch.begin(requests.answers):
            self._ask(experiment, asked, requests)

    def _ask(self, experiment: Experiment, asked: Sequence[Placed], requests: Requests) -> None:
        """Serve these: all together, or, where that fails, those that can be served."""
        refusal = self._refusal(experiment) if self.faults.known or experiment.trouble is not None else None
        if refusal is not None:
            requests.refuse(asked, refusal)
            return
        try:
            requests.serve(self._work(experiment), asked)
        except self.store.spoils:
            raise
        except Exception as error:
            self._drop(experiment)
            requests.forget(asked)
            if len(asked) == 1:
                requests.refuse(asked, self.faults.failed(experiment.id, experiment.name, error))
                return
            for each in asked:
                self._ask(experiment, [each], requests)
                self._page.flush()  # what comes next may fail, and is then lived through from the log
                requests.settle()
            return
        self._page.worked.add(experiment.id)

    def _refusal(self, experiment: Experiment) -> Refused | None:
        """Why nothing may be asked of it now."""
        if experiment.trouble is not None:
            return Refused("read_only", experiment.trouble)
        return self.faults.resting(experiment.id)


def _about(item: Item) -> int | None:
    """The number of the experiment that an item is about."""
    experiment = getattr(item, "experiment", None)
    return None if experiment is None else experiment.id


def _is_gone(item: Item) -> Refused:
    return Refused("unknown_experiment", f"{getattr(item, 'experiment').name} was deleted")  # noqa: B009


def _shown(experiment: Experiment, row: DecisionRow, remarks: Sequence[Remark], now: float) -> dict[str, Any]:
    """A decision as data."""
    due = row.state == "open" and row.expires_at is not None and row.expires_at <= now
    context = vector(row.context)
    return {
        "ticket": row.ticket.hex(),
        "action": row.action,
        "name": experiment.name_of(row.action, row.round),
        "probability": experiment.stated(row.probability),
        "round": row.round,
        "state": "expired" if due else row.state,
        "context": None if context is None else context.tolist(),
        "allowed": None if row.allowed is None else [experiment.actions[i] for i in json.loads(row.allowed)],
        "value": read_value(row.value),
        "decided_at": row.decided_at,
        "expires_at": row.expires_at,
        "closed_at": row.closed_at,
        "replaced": is_stale(row, experiment) if row.state == "open" else bool(row.stale),
        "remarks": [{"kind": each.kind, "value": read_value(each.value), "at": each.at} for each in remarks],
    }


def _check_writable(experiment: Experiment) -> None:
    if experiment.trouble is not None:
        raise Refused("read_only", experiment.trouble)


def _failure(error: Exception) -> Refused:
    if isinstance(error, StorageError):
        log.error("%s", error)
        return Refused("storage", "the database does not answer; it is safe to ask again with the same key or feedback")
    log.error("a request failed", exc_info=error)
    return Refused("internal", "this request failed; nothing was changed")
