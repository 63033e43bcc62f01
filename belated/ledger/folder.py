"""The statistics of all experiments, in memory: caught up when somebody asks, and saved now and then.

Saved statistics hold the log of their experiment up to a place, so that a restart need not read everything again. An
experiment whose events cannot be folded (it cannot be opened here, or one of them is damaged) is left out, with the
reason, and goes on from there once it can.
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
        self._upto: dict[int, int] = {}
        self._saved: dict[int, int] = {}
        self._changed: set[int] = set()
        self._saving: set[int] = set()
        #: Experiments whose statistics cannot be known: why.
        self.lost: dict[int, Refused] = {}

    def forget(self, experiments: set[int]) -> None:
        """These are gone."""
        with self._lock:
            for known in (self._folds, self._upto, self._saved, self.lost):
                for number in experiments & known.keys():
                    del known[number]
            self._changed -= experiments
            self._saving -= experiments

    def start_again(self) -> None:
        """An experiment that could not be opened now can: know everything anew."""
        with self._lock:
            self._clear()

    def saved_upto(self, experiment: int) -> int:
        """The place of the last event that is in the statistics on record, those that `save` has just written too."""
        return self._saved.get(experiment, 0)

    # --- the log ---

    def catch_up(self, only: int | None = None) -> None:
        """Fold what happened since: of all experiments, or of one."""
        with self._lock:
            with self._store.read() as session:
                heads = session.heads(None if only is None else [only])
                behind = [head for head in heads.values() if head.last > self._upto.get(head.experiment, -1)]
                self._meet(session, [h.experiment for h in behind if h.experiment not in self._upto])
            for head in behind:
                if head.experiment not in self.lost:
                    self._fold(head.experiment, head.last)

    def _fold(self, number: int, last: int) -> None:
        """Read as far as that, some at a time: nobody waits for the whole."""
        while self._upto[number] < last:
            fold = self._folds[number]
            with self._store.read() as session:
                upto = self._upto[number]
                events = session.events_since(number, upto, min(CHUNK, last - upto), fold.at)
                missing = not events or events[0].place != self._upto[number] + 1
                gone = missing and number not in session.heads([number])
                saved = session.folds().get(number) if missing else None
            if gone:
                return
            if saved is not None and self._take(number, saved):  # deleted since, and in what another process saved
                continue
            if missing:
                where = self._upto[number] + 1
                self._lose(number, f"experiment {number}", Damaged(f"event {where} of its log is missing"))
                return
            for event in events:
                if not self._add(number, fold, event):
                    return
            self.unsaved += len(events)
            self._changed.add(number)

    def _take(self, number: int, saved: tuple[int, str]) -> bool:
        """Go on from what is saved, if that knows more."""
        found = Fold.from_json(saved[1])
        if not isinstance(found, Fold) or saved[0] <= self._upto[number]:
            return False
        self._folds[number], self._upto[number], self._saved[number] = found, saved[0], saved[0]
        self._changed.discard(number)
        return True

    def _add(self, number: int, fold: Fold, event: Event) -> bool:
        try:
            fold.add(event)
        except Exception as error:
            self._lose(number, f"experiment {number}", Damaged(f"event {event.place} of its log: {error!r}"))
            return False
        self._upto[number] = event.place
        return True

    def _meet(self, session: Reader, numbers: list[int]) -> None:
        """Begin the statistics of experiments, where possible with what was saved."""
        if not numbers:
            return
        saved = session.folds()
        for row in session.experiments():
            if row.id in numbers:
                self._begin(session, row, saved.get(row.id))

    def _begin(self, session: Reader, row: ExperimentRow, saved: tuple[int, str] | None) -> None:
        self.lost.pop(row.id, None)
        try:
            blank = empty(Experiment.from_row(row))
        except Exception as error:
            self._lose(row.id, row.name, error)
            return
        found = Fold.from_json(saved[1]) if saved is not None and isinstance(saved[0], int) else 0
        if isinstance(found, Fold) and saved is not None and found.defaults is not None:
            self._folds[row.id], self._upto[row.id] = found, saved[0]
            self._saved[row.id] = saved[0]
            return
        first = [event.place for event in session.events_since(row.id, 0, 1)]
        if first == [1] or not session.heads([row.id])[row.id].last:  # all of it is there: fold it again
            self._folds[row.id], self._upto[row.id] = blank, 0
        elif isinstance(found, Fold) and saved is not None:  # better without what was learned by default than nothing
            self._folds[row.id], self._upto[row.id] = found, saved[0]
        else:
            known = found if isinstance(found, int) else FORMAT
            self._lose(row.id, row.name, Refused(
                "unsupported",
                f"the statistics of {row.name} were saved in format {known} by another version of "
                f"belated, this one reads format {FORMAT}; they cannot be made again, since some of their events "
                "were deleted after the retention time",
            ))  # fmt: skip

    def _lose(self, number: int, name: str, error: Exception) -> None:
        self.lost[number] = explained(f"the statistics of {name}", error)
        self._folds.pop(number, None)
        self._upto.setdefault(number, 0)
        self._changed.discard(number)

    # --- what is saved ---

    def save(self, session: Writer) -> None:
        """Write what is known here; call `saved` once it is committed."""
        with self._lock:
            self._saving |= self._changed
            self._changed = set()
            self.unsaved = 0
            known = sorted(self._saving & self._folds.keys())
            rows = [(each, self._upto[each], self._folds[each].to_json()) for each in known]
            self._saved |= {each: upto for each, upto, _ in rows}
        session.put_folds(rows)

    def saved(self) -> None:
        """What `save` wrote is committed."""
        with self._lock:
            self._saving.clear()

    # --- what is asked ---

    def statistics(self, experiment: Experiment, queues: dict[int, int] | None = None) -> dict[str, Any]:
        """The statistics of one experiment, up to the last commit; `queues`: how much waits in each, if known."""
        self.catch_up(experiment.id)
        with self._store.read() as session:
            counters = session.counters(experiment.id)
            now = session.now()
        with self._lock:
            if experiment.id in self.lost:
                why = self.lost[experiment.id]
                raise Refused(why.kind, str(why))
            fold = copy.deepcopy(self._folds.get(experiment.id) or empty(experiment))
        try:  # without the lock: intervals of many actions take a while
            known = fold.statistics(experiment, counters, queues)
        except Exception as error:
            raise explained(f"the statistics of {experiment.name}", error) from None
        known |= {"at": now, "lag_seconds": 0.0}
        return json.loads(json.dumps(known))  # type: ignore[no-any-return]

    def overview(self, experiments: Sequence[Experiment]) -> dict[str, Any]:
        """A few numbers of each experiment, up to the last commit; `trouble` says where they cannot be known."""
        self.catch_up()
        with self._store.read() as session:
            counters = [session.counters(experiment.id) for experiment in experiments]
            now = session.now()
        with self._lock:
            known = [self._brief(each, counts) for each, counts in zip(experiments, counters, strict=True)]
        return {"at": now, "lag_seconds": 0.0, "warnings": [], "experiments": known}

    def _brief(self, experiment: Experiment, counters: dict[str, int]) -> dict[str, Any]:
        why = self.lost.get(experiment.id)
        try:
            if why is None:
                fold = self._folds.get(experiment.id) or empty(experiment)
                return json.loads(json.dumps(fold.brief(experiment, counters)))  # type: ignore[no-any-return]
        except Exception as error:
            why = explained(f"the statistics of {experiment.name}", error)
        return empty(experiment).brief(experiment, {}) | {"trouble": str(why)}
