"""The experiments of a database as a process knows them: by name, and those that cannot be used."""

from __future__ import annotations

import logging
import threading

from belated.imports import hinted
from belated.ledger import erase, upkeep
from belated.ledger.errors import Raced, Refused, StorageError
from belated.ledger.experiment import Experiment
from belated.ledger.store import ExperimentRow, Store

log = logging.getLogger("belated")

#: How often something is tried again when another process was faster.
TRIES = 5


class Names:
    """Experiments by name, and why some cannot be used."""

    def __init__(self) -> None:
        self._named: dict[str, Experiment] = {}
        self._broken: dict[str, str] = {}

    def experiments(self) -> list[Experiment]:
        """All that can be used, oldest first."""
        return sorted(self._named.values(), key=lambda experiment: experiment.id)

    def find(self, name: str) -> Experiment:
        """An experiment by name."""
        found = self._named.get(name)
        if found is not None:
            return found
        if name in self._broken:
            raise Refused("read_only", self._broken[name])
        raise Refused("unknown_experiment", f"there is no experiment called {name!r}")


class Known(Names):
    """Those of a database. May be called from any thread."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self._rows: dict[int, ExperimentRow] = {}  # as they were when they were opened
        self._gone: set[int] = set()
        self._generation: int | None = None
        self._learning = threading.RLock()  # what was read is known before anything newer is
        #: Whether data of deleted experiments is left.
        self.erasing = False

    def refresh(self) -> None:
        """Learn of experiments that other processes made or changed."""
        with self._learning:
            self._refresh()

    def _refresh(self) -> None:
        with self.store.read() as session:
            generation = session.generation()
            if generation == self._generation:
                return
            rows = session.experiments()
            self.erasing = bool(erase.deleted(session))
        here, names = {row.id for row in rows}, {row.name for row in rows}
        self._forget(({each.id for each in self._named.values()} | self._rows.keys()) - here)
        self._rows = {number: row for number, row in self._rows.items() if number in here}
        self._broken = {name: why for name, why in self._broken.items() if name in names}
        for row in rows:
            known = self._named.get(row.name)
            current = known is None or known.trouble is not None or known.row() == row
            if self._rows.get(row.id) != row or not current:
                self._open(row)
                self._rows[row.id] = row
        self._generation = generation

    def _open(self, row: ExperimentRow) -> None:
        """Know an experiment as it is stored, or why it cannot be used: that is found out once."""
        try:
            opened = self._up_to_date(row)
        except StorageError:
            raise
        except Exception as error:
            self._broken[row.name] = f"{row.name} cannot be opened: {hinted(error)}"
            self._named.pop(row.name, None)
            log.error(self._broken[row.name])
            return
        mended = self._broken.pop(row.name, None) is not None
        self.reopened(opened, mended)
        self._remember(opened)

    def _up_to_date(self, row: ExperimentRow, tries: int = TRIES) -> Experiment:
        try:
            return upkeep.opened(self.store, row)
        except Raced:  # another process brings it up to date too
            if tries == 1:
                raise
            return self._up_to_date(row, tries - 1)

    def _forget(self, numbers: set[int]) -> None:
        """These experiments are gone."""
        if numbers:
            self._gone |= numbers
            self._named = {name: each for name, each in self._named.items() if each.id not in numbers}
            self.forgotten(numbers)

    def forgotten(self, numbers: set[int]) -> None:
        """Nothing is to be kept of these."""

    def reopened(self, experiment: Experiment, mended: bool) -> None:
        """An experiment is known as it is stored; it may have been one that could not be used."""

    def unopened(self) -> dict[str, str]:
        """Those that cannot be used, and why."""
        return dict(self._broken)

    def has(self, name: str) -> bool:
        """Whether the name is taken."""
        return name in self._named or name in self._broken

    def _remember(self, experiment: Experiment) -> None:
        self._named[experiment.name] = experiment
