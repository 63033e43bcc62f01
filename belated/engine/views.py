"""What a lane works on, and how compiled code finds it.

Every lane has arrays of its own, which grow by themselves. Compiled code is given one table of their addresses and
lengths, and makes views of a lane's arrays when it takes its turn: that costs a few loads, and no count of references.
"""

from __future__ import annotations

import hashlib
import inspect
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core.ir_utils import _add_alias, alias_func_extensions
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from belated.kernels.compile import COMPILED


class Arrays(NamedTuple):
    """The arrays of a lane."""

    desk: Any  # the scalars
    pool: Any  # the states of instances
    marks: Any  # the forecaster's own integers
    slab: Any  # the mailbox: entries
    wheel: Any  # and its slots
    contexts: Any  # the side information of each entry
    memory: Any  # of the game
    waits: Any  # delays drawn ahead
    feedback: Any  # of the round
    context: Any  # of the round
    counts: Any  # of each action; where values of side information are told apart, then of each action under each


class Fixed(NamedTuple):
    """What a play is set to."""

    horizon: int
    expiry: int
    default: float
    has_default: bool
    by_action: bool  # whether delays look at the action, or at the reward
    smallest: float
    largest: float
    limit: float  # of the numbers of side information
    given: tuple[float, float]  # the range of rewards that is mapped
    taken: tuple[float, float]  # to this
    record: bool
    far: int  # as late as any horizon, without overflow when added to a round
    delay: int = -1  # of all rounds, where they wait in turn


class Asked(NamedTuple):
    """Who is asked: the forecaster's and the learner's constants, and a fresh state."""

    rule: Any
    params: Any
    blank: Any


class Played(NamedTuple):
    """What is played: addresses and parameters of the game and of the law of delays."""

    outcome: Any
    regret: Any
    params: Any
    announces: bool
    event: Any
    observe: Any
    law: Any
    law_params: Any


class Written(NamedTuple):
    """What is written: rows are replications."""

    tally: Any
    pools: Any
    summary: Any
    regret: Any
    checkpoints: Any
    actions: Any
    points: Any
    delays: Any
    probabilities: Any


def address_table(lanes: list[Arrays]) -> Any:
    """What compiled code is given: address and length of each array of each lane. Plain Python is given the arrays."""
    if not COMPILED:
        return lanes
    rows = [[number for array in lane for number in (array.ctypes.data, len(array))] for lane in lanes]
    return np.array(rows, np.int64)


def _open_lane(table: Any, lane: int, like: Any) -> Any:
    """The arrays of a lane, which are of the types of `like`."""
    return table[lane]


def _borrowed(things: Any) -> Any:
    """The same tuple of arrays and numbers, which somebody else keeps alive: nobody counts who refers to them."""
    return things


def _views(typing_context, table, lane, like):
    """Arrays at the addresses of a row, with the other dimensions of those they are like."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        numbers = make_array(signature.args[0])(context, builder, values[0])
        word = context.get_value_type(types.int64)
        at = builder.mul(values[1], word(2 * len(like)))
        made = []
        for i, kind in enumerate(like):
            place = builder.add(at, word(2 * i))
            address, length = (builder.load(builder.gep(numbers.data, [builder.add(place, word(j))])) for j in (0, 1))
            known = make_array(kind)(context, builder, builder.extract_value(values[2], i))
            view = make_array(kind)(context, builder)
            size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            shape = [length, *(builder.extract_value(known.shape, j) for j in range(1, kind.ndim))]
            strides = [size]
            for each in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], each))
            data = builder.inttoptr(address, known.data.type)
            populate_array(view, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
            made.append(view._getvalue())
        return context.make_tuple(builder, signature.return_type, made)

    return like(table, types.int64, like), generate


def _without_owner(typing_context, things):
    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            inner: Any = kind
            parts = [strip(context, builder, each, builder.extract_value(value, i)) for i, each in enumerate(inner)]
            return context.make_tuple(builder, kind, parts)
        if not isinstance(kind, types.Array):
            return value
        array = make_array(kind)(context, builder, value)
        for field in ("meminfo", "parent"):
            setattr(array, field, getattr(array, field).type(None))
        return array._getvalue()

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return strip(context, builder, things, values[0])

    return things(things), generate


def _aliases(made: str, arguments: Any, alias_map: Any, arg_aliases: Any) -> None:
    """What is written to these arrays is seen outside: else Numba takes it for dead, and leaves it out."""
    _add_alias(made, arguments[-1].name, alias_map, arg_aliases)


def _in_both_forms(plain: Any, typing: Any) -> Any:
    """What kernels call: in plain Python the plain function."""
    if not COMPILED:
        return plain
    alias_func_extensions[typing.__name__, __name__] = _aliases
    compiled: Any = intrinsic(typing)
    compiled.py_func = plain
    compiled._belated_identity = hashlib.sha256(inspect.getsource(typing).encode()).hexdigest()
    return compiled


open_lane = _in_both_forms(_open_lane, _views)
borrowed = _in_both_forms(_borrowed, _without_owner)
