"""Changes of an experiment's own rules, and what the log says of all that is done to experiments."""

from __future__ import annotations

import json
from typing import Any

from belated.ledger import access
from belated.ledger.experiment import RULES, Experiment
from belated.ledger.items import Administration, Archive, Change, Grow, Replace
from belated.ledger.store import Note, Writer
from belated.ledger.work import Work


def change(item: Change, experiment: Experiment, work: Work) -> Experiment:
    """The experiment with its new rules. That is an event beside those of its states; `verify` follows them."""
    changed = experiment.changed_to(item.rules)
    if changed.changes > experiment.changes:
        work.note(changed.changes, json.dumps(differences(experiment, changed)))
    return changed


def differences(before: Experiment, now: Experiment) -> dict[str, list[Any]]:
    """Each rule that is another, before and now."""
    old, new = before.spec(), now.spec()
    return {name: [old[name], new[name]] for name in RULES if old[name] != new[name]}


def note(session: Writer, now: float, item: Administration, what: str, detail: str) -> None:
    """A line of the log."""
    access.note(session, [Note(now, item.by.who, item.by.address, what, item.experiment.name, detail)])


def told(item: Administration, before: Experiment, now: Experiment) -> tuple[str, str]:
    """What the log says of a change."""
    if isinstance(item, Replace):
        return "replaced", f"{item.action!r} by {item.new!r}"
    if isinstance(item, Grow):
        return "added", repr(item.new)
    if isinstance(item, Archive):
        return "un-archived" if item.undo else "archived", ""
    return "changed", json.dumps(differences(before, now))
