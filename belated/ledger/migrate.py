"""`belated migrate`: a database of an earlier version, and the states in it, brought up to date on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from belated.errors import InvalidState
from belated.imports import hinted
from belated.ledger import schema
from belated.ledger.database import open_store, shown
from belated.ledger.experiment import Experiment
from belated.ledger.ledger import Ledger
from belated.ledger.store import ExperimentRow, Store
from belated.ledger.upkeep import mismatch, movable


def plan(database: str) -> tuple[list[str], list[str]]:
    """What `migrate` would do, and what it could not; nothing is changed."""
    with closing(open_store(database, earlier=True)) as store:
        version, rows = _read(store)
    todo = [f"{shown(database)}: schema {version} becomes {schema.SCHEMA}"] if version != schema.SCHEMA else []
    told = [_state_of(row) for row in rows]
    return [*todo, *(text for can, text in told if can)], [text for can, text in told if not can and text]


def migrate(database: str) -> tuple[list[str], list[str]]:
    """Do it: what was done, and what could not be."""
    todo, _ = plan(database)  # an empty database, or none, is refused here
    with closing(open_store(database, serve=True, migrate=True)) as store:
        ledger = Ledger(store)
        troubles = [each.trouble for each in ledger.experiments() if each.trouble is not None]
        return todo, [*ledger.unopened().values(), *troubles]


def _read(store: Store) -> tuple[int, list[ExperimentRow]]:
    with store.read() as session:
        version = session.meta("schema")
        if version is None:
            raise InvalidState("the database does not say of which schema it is")
        return int(version), session.experiments()


def _state_of(row: ExperimentRow) -> tuple[bool, str]:
    """Whether something is to be done about an experiment, and what; or what is in the way."""
    try:
        experiment = Experiment.from_row(row)
    except Exception as error:
        return False, f"{row.name} cannot be opened: {hinted(error)}"
    if experiment.stored is None:
        return False, ""
    if not movable(experiment):
        return False, mismatch(experiment)
    learner = experiment.learner
    return True, f"{row.name}: states of {type(learner).__name__} {row.version} become {learner.version}"


def lines(told: tuple[list[str], list[str]]) -> Iterator[str]:
    """What is said."""
    done, left = told
    yield from done or ["nothing is to be done"]
    yield from (f"left as it is: {each}" for each in left)
