"""What a database holds of an experiment, all of it, for tests: its log, its decisions, and its states."""

from __future__ import annotations

from belated.ledger.experiment import Experiment
from belated.ledger.items import Save
from belated.ledger.ledger import Ledger
from belated.ledger.player import Player
from belated.ledger.replica import Replica
from belated.ledger.store import DecisionRow, Event, Reader, State

ALL = 10**9


def all_events(session: Reader, experiment: int) -> list[Event]:
    """The log, in order."""
    return session.events_since(experiment, 0, ALL)


def all_decisions(session: Reader, experiment: int) -> list[DecisionRow]:
    """Every decision, by round."""
    return session.decisions_after(experiment, 0, ALL)


def all_states(session: Reader, experiment: int) -> list[State]:
    """The states that are on record; they may be older than the log."""
    return session.states_after(experiment, -1, ALL)


def states_now(session: Reader, experiment: Experiment, player: Player | None = None) -> list[State]:
    """The states as the log has them, with every action that was replaced or added."""
    head = session.heads([experiment.id])[experiment.id]
    replica = Replica(player or Player(experiment), head, session)
    replica.catch_up(head)
    replica.load([state.instance for state in all_states(session, experiment.id)])
    replica.settle()
    for state in replica.states.values():
        replica._renew(state)
    return [state for _, state in sorted(replica.states.items())]


def save(ledger: Ledger, limit: int = 2000) -> None:
    """Put all states on record."""
    while (more := ledger.serve([Save(limit, all=True)])[0]) is True:
        pass
    assert more is False, more
