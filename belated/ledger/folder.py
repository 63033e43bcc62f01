"""The statistics of all experiments, in memory: caught up when somebody asks, and saved now and then.

Saved statistics hold all events of their experiment up to an id, so that a restart need not read everything again. An
experiment whose events cannot be folded (it cannot be opened here, or one of them is damaged) is left out, with the
reason; from which event on is noted, for whoever can.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Sequence
from typing import Any

from belated.ledger.errors import Damaged, Refused
from belated.ledger.experiment import Experiment
from belated.ledger.faults import explained
from belated.ledger.fold import FORMAT, Fold, empty
from belated.ledger.store import Event, ExperimentRow, Reader, Store, Writer

#: Events that are read at a time.
CHUNK = 2000
#: Seconds by which statistics may lag without a word.
LAG = 2.0


class Folder:
    """The folds of all experiments. Safe to call from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._clear()
        #: How many events were folded since the last save.
        self.unsaved = 0

    def _clear(self) -> None:
        self._folds: dict[int, Fold] = {}
        self._changed: set[int] = set()
        self._saving: set[int] = set()
        self._upto: int | None = None
        self._vouched = 0  # up to here all is folded, but for those that are `_at` another event
        self._at: dict[int, int] = {}
        self._skipped: dict[int, int] = {}
        #: Experiments whose statistics cannot be known: why.
        self.lost: dict[int, Refused] = {}

    def forget(self, experiments: set[int]) -> None:
        """These are gone."""
        with self._lock:
            for known in (self._folds, self._at, self._skipped, self.lost):
                for number in experiments & known.keys():
                    del known[number]
            self._changed -= experiments
            self._saving -= experiments

    def start_again(self) -> None:
        """An experiment that could not be opened now can: know everything anew."""
        with self._lock:
            self._clear()

    def catch_up(self) -> None:
        """Fold what happened since."""
        with self._lock:
            while self._next():
                pass

    def _next(self) -> bool:
        with self._store.read() as session:
            if self._upto is None:
                self._upto = self._begin(session)
            elif not self._store.exclusive:
                self._take_over(session.folds(self._upto))  # others may have come further
            events = session.events_after(self._upto, CHUNK)
            if any(event.experiment not in self._folds and event.experiment not in self.lost for _, event in events):
                for row in session.experiments():
                    if row.id not in self._folds:
                        self._meet(row)
        for number, event in events:
            self._add(number, event)
            self._upto = number
        self.unsaved += len(events)
        return len(events) == CHUNK

    def _add(self, number: int, event: Event) -> None:
        experiment = event.experiment
        if number <= self._at.get(experiment, self._vouched):
            return
        if experiment not in self._folds:
            self._skipped.setdefault(experiment, number)
            return
        try:
            self._folds[experiment].add(event)
        except Exception as error:
            self._lose(experiment, f"experiment {experiment}", Damaged(f"its event {number}: {error!r}"))
            self._skipped.setdefault(experiment, number)
        else:
            self._changed.add(experiment)

    def _meet(self, row: ExperimentRow) -> None:
        """Begin the statistics of an experiment."""
        try:
            self._folds[row.id] = empty(Experiment.from_row(row))
            self.lost.pop(row.id, None)
        except Exception as error:
            self._lose(row.id, row.name, error)

    def _lose(self, number: int, name: str, error: Exception) -> None:
        self.lost[number] = explained(f"the statistics of {name}", error)
        self._folds.pop(number, None)
        self._changed.discard(number)

    # --- what was saved ---

    def _begin(self, session: Reader) -> int:
        """Take what was saved, and go back to what was left out; the id of the event after which to read."""
        rows = {number: row for number, row in session.folds().items() if isinstance(row[0], int)}
        self._vouched = max((upto for upto, _ in rows.values()), default=0)
        others = self._take_over(rows)
        for row in session.experiments():
            if row.id not in rows and session.has_events(row.id, self._vouched):
                others[row.id] = 0  # its row is gone
        if others:
            self._fold_again(session, others, self._vouched)
        start = self._vouched
        for row in session.experiments():
            first, upto = _noted(session, row.id), rows.get(row.id, (0, ""))[0]
            if upto < first <= self._vouched and row.id not in self.lost:
                if row.id not in self._folds:
                    self._meet(row)
                if row.id in self._folds and row.id not in others:
                    self._at[row.id] = upto
                    start = min(start, first - 1)
        return start

    def _take_over(self, rows: dict[int, tuple[int, str]]) -> dict[int, int]:
        """What others saved; the formats of what cannot be read."""
        unlike: dict[int, int] = {}
        for number, (upto, text) in rows.items():
            fold = Fold.from_json(text)
            if not isinstance(fold, Fold):
                unlike[number] = fold
                continue
            if fold.defaults is None:  # of an earlier version
                unlike[number] = FORMAT
                if self._upto is not None:
                    continue  # what is known here is better
            self._folds[number] = fold
            self._at[number] = upto
            self.lost.pop(number, None)
            self._skipped.pop(number, None)
        return unlike

    def _fold_again(self, session: Reader, formats: dict[int, int], upto: int) -> None:
        """Fold all events of experiments whose saved statistics are of another version."""
        earlier = {number: self._folds.pop(number) for number in formats if number in self._folds}
        rows = {row.id: row for row in session.experiments() if row.id in formats}
        for row in rows.values():
            self._meet(row)
        begun: set[tuple[int, int]] = set()
        at = 0 if rows.keys() & self._folds.keys() else upto
        while at < upto and (events := session.events_after(at, CHUNK)):
            for number, event in events:
                at = number
                if number <= upto and event.experiment in rows:
                    begun |= {(event.experiment, event.instance)} if event.seq == 1 else set()
                    self._at[event.experiment] = number - 1
                    self._add(number, event)
        for number, row in rows.items():
            self._at[number] = upto
            if number not in self._folds or all((number, at) in begun for at in session.checkpoints(number)):
                continue
            if number in earlier:  # better without what was learned by default than without anything
                self._folds[number] = earlier[number]
                continue
            self._lose(number, row.name, Refused(
                "unsupported",
                f"the statistics of {row.name} were saved in format {formats[number]} by another version of "
                f"belated, this one reads format {FORMAT}; they cannot be made again, since some of their events "
                "were deleted after the retention time",
            ))  # fmt: skip

    def save(self, session: Writer) -> None:
        """Write what is known here; call `saved` once it is committed."""
        with self._lock:
            self._saving |= self._changed
            self._changed = set()
            self.unsaved, upto = 0, self._upto or 0
            rows = [(each, upto, self._folds[each].to_json()) for each in sorted(self._saving & self._folds.keys())]
            skipped = dict(self._skipped)
        session.put_folds(rows)
        if skipped:
            known = session.folds()
            for number, first in skipped.items():
                noted = _noted(session, number)
                if known.get(number, (0, ""))[0] < first and not known.get(number, (0, ""))[0] < noted <= first:
                    session.set_meta(_note(number), str(first))

    def saved(self) -> None:
        """What `save` wrote is committed."""
        with self._lock:
            self._saving.clear()

    # --- what is asked ---

    def statistics(self, experiment: Experiment) -> dict[str, Any]:
        """The statistics of one experiment, up to the last commit."""
        self._store.settle()
        self.catch_up()
        with self._store.read() as session:
            counters = session.counters(experiment.id)
            queues = session.queue_lengths(experiment.id) if experiment.forecaster.queues() else {}
            now, lag = session.now(), session.lag()
        with self._lock:
            if experiment.id in self.lost:
                why = self.lost[experiment.id]
                raise Refused(why.kind, str(why))
            fold = copy.deepcopy(self._folds.get(experiment.id) or empty(experiment))
        try:  # without the lock: intervals of many actions take a while
            known = fold.statistics(experiment, counters, queues)
        except Exception as error:
            raise explained(f"the statistics of {experiment.name}", error) from None
        known |= {"at": now, "lag_seconds": lag}
        known["warnings"] = [*lagging(lag), *known["warnings"]]
        return json.loads(json.dumps(known))  # type: ignore[no-any-return]

    def overview(self, experiments: Sequence[Experiment]) -> dict[str, Any]:
        """A few numbers of each experiment, up to the last commit; `trouble` says where they cannot be known."""
        self._store.settle()
        self.catch_up()
        with self._store.read() as session:
            counters = [session.counters(experiment.id) for experiment in experiments]
            now, lag = session.now(), session.lag()
        with self._lock:
            known = [self._brief(each, counts) for each, counts in zip(experiments, counters, strict=True)]
        return {"at": now, "lag_seconds": lag, "warnings": lagging(lag), "experiments": known}

    def _brief(self, experiment: Experiment, counters: dict[str, int]) -> dict[str, Any]:
        why = self.lost.get(experiment.id)
        try:
            if why is None:
                fold = self._folds.get(experiment.id) or empty(experiment)
                return json.loads(json.dumps(fold.brief(experiment, counters)))  # type: ignore[no-any-return]
        except Exception as error:
            why = explained(f"the statistics of {experiment.name}", error)
        return empty(experiment).brief(experiment, {}) | {"trouble": str(why)}


def lagging(seconds: float) -> list[str]:
    """What is said of statistics that are not up to date."""
    if seconds <= LAG:
        return []
    return [
        f"These numbers end {seconds:,.0f} s ago. A transaction is open since then somewhere in the PostgreSQL "
        "cluster, in this database or another; they go on when it ends. (pg_stat_activity: the oldest xact_start.)"
    ]


def _note(number: int) -> str:
    """Where it is noted from which event on an experiment was left out."""
    return f"unfolded {number}"


def _noted(session: Reader, number: int) -> int:
    text = session.meta(_note(number)) or "0"
    return int(text) if text.isdigit() else 1
