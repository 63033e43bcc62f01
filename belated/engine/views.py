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
from numba.extending import intrinsic, overload
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


def address_table(lanes: list[tuple[Any, ...]]) -> Any:
    """What compiled code is given: address and length of each array of each lane. Plain Python is given the arrays."""
    if not COMPILED:
        return lanes
    rows = [[number for array in lane for number in (array.ctypes.data, len(array))] for lane in lanes]
    return np.array(rows, np.int64)


def open_lane(table: Any, lane: int, like: Any) -> Any:
    """The arrays of a lane, which are of the types of `like`."""
    return table[lane]


def _views(typing_context, table, lane, like):
    """Arrays at the addresses of a row, with the other dimensions of those they are like."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        numbers = make_array(signature.args[0])(context, builder, values[0])
        word = context.get_value_type(types.int64)
        at = builder.mul(values[1], context.get_constant(types.int64, 2 * len(like)))
        made = []
        for i, kind in enumerate(like):
            place = builder.add(at, context.get_constant(types.int64, 2 * i))
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

    return types.Tuple(tuple(like))(table, types.int64, like), generate


_open: Any = intrinsic(_views)


def borrowed(things: Any) -> Any:
    """The same tuple of arrays and numbers, which somebody else keeps alive: nobody counts who refers to them."""
    return things


def _without_owner(typing_context, things):
    def strip(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Tuple | types.UniTuple):
            parts = [
                strip(context, builder, each, builder.extract_value(value, i)) for i, each in enumerate(kind.types)
            ]
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


_borrow: Any = intrinsic(_without_owner)


@overload(borrowed)
def _borrowed(things):
    return lambda things: _borrow(things)


@overload(open_lane)  # not inlined: Numba would lose sight of the alias
def _open_lane(table, lane, like):
    return lambda table, lane, like: _open(table, lane, like)


def _aliases(made: str, arguments: Any, alias_map: Any, arg_aliases: Any) -> None:
    """What is written to these arrays is seen outside: else Numba takes it for dead, and leaves it out."""
    _add_alias(made, arguments[-1].name, alias_map, arg_aliases)


function: Any
for function, code in ((open_lane, _views), (borrowed, _without_owner)):
    alias_func_extensions[function.__name__, __name__] = _aliases
    function._belated_identity = hashlib.sha256(inspect.getsource(code).encode()).hexdigest()
