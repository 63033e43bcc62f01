"""What a forecaster states of itself is so: its propensities, choices among some actions, replaced actions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from belated.checks.contract import demand, over
from belated.checks.probes import Skewed
from belated.errors import BadPrediction, Unsupported
from belated.forecasters import Forecaster
from belated.forecasters.room import Letter
from belated.kernels.random import key_of
from belated.learners import UCB1, Exp3, Hedge, PerContext

ROUNDS = 200
#: How often a decision is drawn anew, and how many standard deviations the count of an action may be away.
DRAWS, AWAY = 400, 5.0


def probabilities_are_propensities(forecaster: Forecaster) -> None:
    """Where it says `propensity`: as things stand, an action is played as often as its stated probability says.

    The learner draws, some actions more often than others. Now and then the decision of a round is drawn again and
    again, from other random numbers: a rule that holds on to an action plays the same one each time.
    """
    f = over(forecaster, Skewed(), PerContext(Skewed(), 2))
    if not forecaster.propensity or f is None:
        return
    rng, context = np.random.default_rng(3), 0 if f.learner.context_size else None
    for t in range(ROUNDS):
        if t % 20 == 19:
            _demand_draws(f, context)
        f.predict(context)
        for ticket in [ticket for ticket in f._room.pending if rng.random() < 0.15]:
            f.cancel(ticket) if rng.random() < 0.1 else f.update(ticket, 0.5)


def _demand_draws(f: Forecaster, context: Any) -> None:
    drawn, own = [], f._room.key
    for seed in range(DRAWS):
        _draw_by(f, key_of(seed, 1))
        made, take_back = f.trial(context)
        take_back()
        drawn.append((made.action, made.probability))
    _draw_by(f, own)
    for action, probability in set(drawn):
        count = sum(each == action for each, _ in drawn)
        wanted, error = DRAWS * probability, math.sqrt(DRAWS * 0.25)
        demand(
            abs(count - wanted) <= AWAY * error,
            f"{f!r} says `propensity`, but in {DRAWS} draws of one decision it plays action {action} {count} times, "
            f"and says that it has probability {probability:g}",
        )


def _draw_by(f: Forecaster, key: Any) -> None:
    f._room.key = key
    for seat in f._room.seats:
        seat.learner._key = key


def chooses_among_those(forecaster: Forecaster) -> None:
    """Where it says `chooses_among`: in a service it plays one of the actions that it may choose among."""
    f = over(forecaster, UCB1(4), Hedge(4), PerContext(UCB1(4), 2), Exp3(4))
    if not forecaster.chooses_among or f is None or f.learner.predict_among is None:
        return
    from belated.ledger.experiment import Experiment
    from belated.ledger.player import Memory, Player, Stool

    class Rows(Memory):
        """States in memory, handed out as a service does."""

        def lowest_free(self, pool: int = 0) -> Stool:
            free = (number for number, state in self.states.items() if state.free and state.pool == pool)
            self.next = min(free, default=len(self.states))
            return super().lowest_free(pool)

    room, rng = Rows(Player(Experiment("check", ("a", "b", "c", "d"), f))), np.random.default_rng(4)
    room.start()
    waiting: list[Letter] = []
    for t in range(1, 101):
        some = tuple(int(i) for i in np.flatnonzero(rng.random(4) < 0.5)) or (t % 4,)
        try:
            seat, number, action, probability, memo = room.decide(None, some, t)
        except BadPrediction as error:
            demand(False, f"it says `chooses_among`: {error}")
        waiting.append(Letter(t, action, probability, None, seat, number, memo))
        while waiting and rng.random() < 0.45:
            room.feed(waiting.pop(int(rng.integers(len(waiting)))), rng.random(f.learner.feedback_size))


def forgets_what_was_replaced(forecaster: Forecaster) -> None:
    """Where it says `replaces`: no instance is told of an action what came from the one that had its number before."""
    played: dict[int, int] = {}
    since: dict[int, int] = {}

    class Spy:
        """A plain learner whose feedback is the number of a ticket."""

        actions = 3
        tolerates_delay = True

        def __init__(self) -> None:
            self.count = 0

        def predict(self, context: Any) -> tuple[int, float]:
            self.count += 1
            return self.count % 3, 1.0

        def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
            demand(
                feedback > since.get(played.get(int(feedback), -1), 0),
                f"{forecaster!r} says `replaces`, but an instance is told of action {action} what the action before it "
                "with that number brought",
            )

        def replace(self, action: int) -> None:
            pass

    if not forecaster.replaces:
        return
    try:
        f: Forecaster = type(forecaster)(Spy, **forecaster.parameters(), seed=0)
    except Unsupported:
        return  # it plays specs only
    rng = np.random.default_rng(5)
    for t in range(1, ROUNDS):
        made = f.predict()
        played[made.ticket] = made.action
        for ticket in [ticket for ticket in f._room.pending if rng.random() < 0.2]:
            f.update(ticket, float(ticket))
        if t % 7 == 0:
            action = int(rng.integers(3))
            f.replace(action)
            since[action] = made.ticket
