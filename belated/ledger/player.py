"""One learner state at work: what a decision, feedback, a release, a replacement and a new action do to it.

The same for the live ledger and for `verify`. A player holds one running instance of the learner and lets it become one
state after the other; a state's bytes are written when the next takes its place.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from belated.forecasters.base import check_prediction
from belated.forecasters.instance import Instance
from belated.kernels.random import key_of
from belated.ledger.experiment import Experiment
from belated.ledger.store import State
from belated.protocols import Floats

#: A pending query of QPM-D: the action that is held (-1: none) and its probability.
HELD = struct.Struct("<qd")


class Queues(Protocol):
    """QPM-D's queues of feedback."""

    def push(self, cell: int, position: int, feedback: Floats) -> None: ...

    def pop(self, cell: int) -> Floats | None:
        """The oldest feedback of a cell, which leaves the queue; None if there is none."""


class InMemory:
    """Queues in memory."""

    def __init__(self) -> None:
        self.cells: dict[int, deque[Floats]] = {}

    def push(self, cell: int, position: int, feedback: Floats) -> None:
        self.cells.setdefault(cell, deque()).append(feedback)

    def pop(self, cell: int) -> Floats | None:
        queue = self.cells.get(cell)
        return queue.popleft() if queue else None


class Player:
    """An experiment's forecaster, one state at a time. Not for several threads at once."""

    def __init__(self, experiment: Experiment, instance: Instance | None = None) -> None:
        self.experiment = experiment
        self.actions = len(experiment.actions)
        self.instance = instance or make_instance(experiment)
        self._fresh = self.instance.blank()
        self._current: State | None = None
        self._better: Instance | None = None

    def improve(self, instance: Instance) -> None:
        """Go on with another instance (the compiled one) from the next state on. Any thread may say so."""
        self._better = instance

    def fresh(self, number: int) -> State:
        """A new state, with nothing learned."""
        held = HELD.pack(-1, 1.0) * max(1, self.experiment.learner.values) if self.experiment.queued else None
        return State(number, 0, True, self._fresh, held)

    def settle(self) -> None:
        """Write the bytes of the state in hand."""
        if self._current is not None:
            self._current.data = self.instance.state.tobytes()
            self._current = None
        if self._better is not None:
            self.instance, self._better = self._better, None

    def forget(self) -> None:
        """Drop the state in hand: its transaction was rolled back."""
        self._current = None

    def decide(
        self, state: State, context: Floats | None, allowed: Sequence[int] | None, queues: Queues
    ) -> tuple[int, float, int]:
        """Action, probability, and which prediction of its instance it is."""
        self._enter(state)
        if self.experiment.queued:
            action, probability = self._choose(state, context, queues)
        else:
            action, probability = self._ask(context, allowed)
            state.free = not self.experiment.pooled
        state.seq += 1
        return action, probability, self.instance.predictions

    def feed(
        self,
        state: State,
        number: int,
        context: Floats | None,
        action: int,
        probability: float,
        feedback: Floats,
        queues: Queues,
    ) -> None:
        """The feedback of one of its predictions."""
        state.seq += 1
        if self.experiment.queued:
            queues.push(self._value(context) * self.actions + action, state.seq, feedback)
            return
        self._enter(state)
        self.instance.answer(number, context, action, probability, feedback)
        state.free = True

    def release(self, state: State) -> None:
        """A prediction will have no feedback."""
        state.seq += 1
        state.free = True

    def replace(self, state: State, action: int) -> None:
        """A new action takes the number of an old one."""
        self._enter(state)
        self.instance.replace(action)
        state.seq += 1

    def grow(self, state: State, before: np.dtype[Any]) -> None:
        """A state of one action less gets the last one; `before` is what its bytes were."""
        self.settle()
        self.instance.grow_from(state.instance, state.data, before)
        self._current = state
        state.seq += 1

    def _enter(self, state: State) -> None:
        if self._current is not state:
            self.settle()
            self.instance.become(state.instance, state.data)
            self._current = state

    def _ask(self, context: Floats | None, allowed: Sequence[int] | None = None) -> tuple[int, float]:
        said = self.instance.predict(context) if allowed is None else self.instance.predict_among(context, allowed)
        return check_prediction(self.experiment.forecaster, said)

    def _value(self, context: Floats | None) -> int:
        return 0 if context is None else int(context[0])

    def _choose(self, state: State, context: Floats | None, queues: Queues) -> tuple[int, float]:
        """As `QPMD._choose`: feed the base and ask it again while the action it asks for has feedback."""
        assert state.held is not None
        value = self._value(context)
        action, probability = HELD.unpack_from(state.held, value * HELD.size)
        before = action, probability
        while True:
            if action >= 0:
                feedback = queues.pop(value * self.actions + action)
                if feedback is None:
                    break
                self.instance.update(context, action, probability, feedback)
            action, probability = self._ask(context)
            state.steps += 1
        if (action, probability) != before:
            held = bytearray(state.held)
            HELD.pack_into(held, value * HELD.size, action, probability)
            state.held = bytes(held)
        return action, probability


def make_instance(experiment: Experiment, plain: bool = False) -> Instance:
    """The learner of an experiment at work; it draws what the forecaster would draw in process."""
    learner, seed = experiment.learner, experiment.forecaster.seed
    return Instance(learner, key_of(seed, 0), 0, plain=plain)


def vector(data: bytes | None) -> Floats | None:
    """Stored numbers, in a form that kernels may have (compiled ones take no constant arrays)."""
    return None if data is None else np.frombuffer(data, np.float64).copy()
