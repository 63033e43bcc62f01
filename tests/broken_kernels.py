"""Kernels with a mistake in one line, which is marked: `# here`."""

from __future__ import annotations

import linecache
import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

import belated as bl
from belated.kernels.random import uniform
from belated.kernels.ties import largest_index
from tests.broken import Wrong, WrongGame, WrongLaw

HERE = __file__


def marked(function: Any) -> int:
    """The line of a function that is marked."""
    line = getattr(function, "__func__", function).__code__.co_firstlineno
    while "# here" not in linecache.getline(HERE, line):
        line += 1
    return line


@dataclass(frozen=True)
class Right(Wrong):
    """Nothing is wrong with it yet."""

    actions: int = 3

    def layout(self) -> np.dtype[Any]:
        inner = np.dtype([("deep", "f8", (2,))])
        return np.dtype([("s", "f8", (3,)), ("table", "f8", (2, 3)), ("rows", inner, (2,)), ("mean", "f8")])

    def params(self) -> dict[str, Any]:
        return {"actions": self.actions, "v": np.zeros(4)}

    @staticmethod
    def predict(params, state, context, draw):
        return state.predictions % params.actions, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.s[action] += feedback[0]


# --- outside its arrays ---


class ReadsBehind(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.mean = state.s[action + 3]  # here


class WritesFar(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.s[10**12] = 1.0  # here


class Negative(Right):
    @staticmethod
    def predict(params, state, context, draw):
        state.mean = state.s[-1]  # here
        return 0, 1.0


class WritesBehind(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        for i in range(4):
            state.s[i] = 0.0  # here


class WrongAxis(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.table[1, 3] = 1.0  # here


class WrongRow(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        row = state.table[1]
        row[-2] = 1.0  # here


class WrongSlice(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        for x in state.s[1:4]:  # here
            state.mean += x


class WrongInner(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.rows[1].deep[2] = 1.0  # here


class WrongRecord(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.rows[2].deep[0] = 1.0  # here


class ReadsParams(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int(params.v[4]), 1.0  # here


class ReadsContext(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int(context[0]), 1.0  # here


class ReadsFeedback(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.mean = feedback[1]  # here


class InReplace(Right):
    @staticmethod
    def replace(params, state, action):
        state.s[action + 1] = 0.0  # here


class InAmong(Right):
    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        return allowed[len(allowed)], 1.0  # here


class InHelper(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return largest_index(params.v, state.s), 1.0  # here


#: Which kernel, and what is said of it.
OUTSIDE = {
    ReadsBehind: ("update", "state.s[4] is outside the array, which has 3 numbers, 0 to 2"),
    WritesFar: ("update", "state.s[1000000000000] is outside"),
    Negative: ("predict", "state.s[-1] is outside"),
    WritesBehind: ("update", "is outside"),
    WrongAxis: ("update", "state.table[1][3] is outside"),
    WrongRow: ("update", "state.table[1][-2] is outside"),
    WrongSlice: ("update", "state.s[1:4] goes outside"),
    WrongInner: ("update", "state.rows[1].deep[2] is outside"),
    WrongRecord: ("update", "state.rows[2] is outside"),
    ReadsParams: ("predict", "params.v[4] is outside"),
    ReadsContext: ("predict", "context[0] is outside the array, which is empty"),
    ReadsFeedback: ("update", "feedback[1] is outside the array, which has one number, 0"),
    InReplace: ("replace", "is outside"),
    InAmong: ("predict_among", "allowed["),
    InHelper: ("predict", "in largest_index"),
}


class NoRewards(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        raise ValueError("no rewards")  # here


class WritesContext(Right):
    context_size = 2

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        context[0] += 1.0  # here


class WritesFeedback(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        feedback[0] -= 0.5  # here


class ReturnsTruth(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return state.predictions > 3, 1.0


class WritesGlobal(Right):
    @staticmethod
    def predict(params, state, context, draw):
        global written
        written = 1
        return 0, 1.0


class SaysNothing(WrongGame):
    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 1.0


class WritesMemory(WrongGame):
    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[0] = 1.0
        memory[1] = 2.0  # here
        return 1.0


class ReadsBefore(WrongGame):
    @staticmethod
    def regret(params, memory):
        return memory[-1]  # here


class WritesAll(WrongGame):
    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        feedback[action] = 1.0  # here
        return 1.0


class Measures(WrongGame):
    @staticmethod
    def regret(params, memory):
        return float(len(memory))  # here


class Slices(WrongGame):
    @staticmethod
    def regret(params, memory):
        return memory[0:1][0]  # here


class Shows(WrongGame):
    context_size = 1

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        context[1] = 1.0  # here


class Announces(WrongGame):
    announces = True

    @staticmethod
    def event(params, memory, k0, k1, round_):
        return int(params[round_])  # here


OUTSIDE_GAMES = {
    WritesMemory: ("outcome", "memory[1] is outside"),
    ReadsBefore: ("regret", "memory[-1] is outside"),
    WritesAll: ("outcome", "feedback[1] is outside"),
    Measures: ("regret", "len(memory): in the compiled loop memory is a bare pointer"),
    Slices: ("regret", "memory[0:1]: in the compiled loop memory is a bare pointer"),
    Shows: ("observe", "context[1] is outside"),
    Announces: ("event", "params[1] is outside"),
}


class OutOfCards(WrongGame):
    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        if round_ > 5:
            raise ValueError("out of cards")  # here
        feedback[0] = 1.0
        return 1.0


class OutOfCardsAtTheEnd(WrongGame):
    @staticmethod
    def regret(params, memory):
        raise ValueError("out of cards")  # here


def raises_late(params, k0, k1, round_, action):
    if round_ > 5:
        raise ValueError("no delay is known")  # here
    return 1


def past_the_end(params, k0, k1, round_, action):
    return int(params[1])  # here


def when_late(params, k0, k1, round_, action):
    if round_ > 20:
        return int(params[round_])  # here
    return 0


def by_action(params, k0, k1, round_, action):
    wait = 2
    if round_ > 1:
        wait += action  # here
    return wait


def is_action(params, k0, k1, round_, action):
    return action  # here


def by_number(params, k0, k1, round_, action):  # here
    return (4, 5, 6)[action]


def law_of(function: Any) -> WrongLaw:
    """A law with that kernel."""

    @dataclass(frozen=True)
    class Own(WrongLaw):
        kernel = staticmethod(function)

    return Own()


# --- what kernels may not do ---


def undecorated(x):
    return x


@bl.kernel
def decorated(state):
    return state.meen  # here


class WrongField(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int(state.meen), 1.0  # here


class SetsField(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.meen = 1.0  # here


class FieldInHelper(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int(decorated(state)), 1.0


class Undecorated(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return undecorated(0), 1.0  # here


class NoProbability(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return 0  # here


class TooFew(Right):
    @staticmethod
    def update(params, state, context, action, feedback):
        state.s[action] += feedback[0]


class NotStatic(Right):
    def predict(self, params, state, context, draw):
        return 0, 1.0


class Unknown(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return nothing_of_that_name(0), 1.0  # here  # noqa: F821


class FloatIndex(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int(state.s[state.mean]), 1.0  # here


class Text(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int("1" + str(state.mean)), 1.0  # here


class Library(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return random.choice((0, 1)), 1.0  # here


class Catches(Right):
    @staticmethod
    def predict(params, state, context, draw):
        try:
            state.mean = math.log(state.mean)
        except ValueError as error:  # here
            state.mean = len(str(error))
        return 0, 1.0


#: The kernel that is wrong, and what is said of it, when it is compiled; and in plain Python, if that says anything.
MISTAKES = {
    WrongField: ("predict", "there is no field 'meen'", "there is no field 'meen'"),
    SetsField: ("update", "there is no field 'meen'", "there is no field 'meen'"),
    FieldInHelper: ("predict", "did you mean 'mean'?", "did you mean 'mean'?"),
    Undecorated: ("predict", "decorate undecorated with @bl.kernel", None),
    NoProbability: ("predict", "must return the action and its probability", "it returned 0"),
    TooFew: ("update", "it must take 6 arguments (params, state,", "it must take 6 arguments (params, state,"),
    NotStatic: ("predict", "write @staticmethod", "write @staticmethod"),
    Unknown: ("predict", "'nothing_of_that_name' is not defined", "'nothing_of_that_name' is not defined"),
    FloatIndex: ("predict", "an index must be a whole number", "IndexError"),
    Text: ("predict", "calls str", "invalid literal"),
    Library: ("predict", "draws from random", None),
    Catches: ("predict", "catches exceptions", None),
}


class Draws(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return int(np.random.random() * 3), 1.0  # here


class Allocates(Right):
    @staticmethod
    def predict(params, state, context, draw):
        drawn = np.zeros(2)  # here
        drawn[0] = uniform(draw, 0)
        return int(drawn[0]), 1.0


class Lists(Right):
    @staticmethod
    def predict(params, state, context, draw):
        return [state.predictions % 3][0], 1.0  # here


class Raises(Right):
    @staticmethod
    def update(params, state, context, action, probability, feedback):
        if feedback[0] > 2.0:
            raise ValueError("too much")  # here


#: What compiles all the same, and only the check finds.
RULES = {
    Draws: ("predict", "draws from np.random"),
    Allocates: ("predict", "allocates with np.zeros"),
    Lists: ("predict", "makes a list"),
    Raises: ("update", "raises an exception"),
}
