"""What a kernel needs while it is called: on the stack, not in a state that would be kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.ir_utils import _add_alias, alias_func_extensions
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from belated.kernels.compile import COMPILED


def _typing(typing_context, size):
    count = getattr(size, "literal_value", None)
    if not isinstance(count, int):
        return None  # Numba then says that the size must be a constant

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        with builder.goto_entry_block():  # once a call, wherever it stands in a loop
            room = builder.alloca(ir.ArrayType(ir.DoubleType(), count))
        return builder.bitcast(room, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(size), generate


def _local(size):
    """So many float64 numbers, a constant: to be filled before they are read, and gone when the kernel returns.

    In compiled code they are a bare pointer: index it, but ask for no length. The same code serves a GPU.
    """
    return [0.0] * size


local: Any = intrinsic(_typing) if COMPILED else _local
local.py_func = _local  # what plain copies of kernels call
local._belated_identity = _local._belated_identity = "numbers on the stack"  # type: ignore[attr-defined]


def _nearby_typing(typing_context, like, count):
    number = getattr(count, "literal_value", None)
    if not isinstance(number, int):
        return None  # Numba then says that the count must be a constant
    rows = like.ndim == 2

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        size = context.get_abi_sizeof(context.get_data_type(like.dtype))
        word = context.get_value_type(types.intp)
        with builder.goto_entry_block():
            room = builder.alloca(ir.ArrayType(ir.IntType(64), -(-number * size // 8)))
        old = context.make_array(like)(context, builder, values[0])
        made = context.make_array(signature.return_type)(context, builder)
        shape, strides = [word(number)], [word(size)]
        if rows:
            shape, strides = [builder.extract_value(old.shape, 0), *shape], [word(0), *strides]
        data = builder.bitcast(room, old.data.type)
        populate_array(made, data=data, shape=shape, strides=strides, itemsize=word(size), meminfo=None)
        return made._getvalue()

    return types.Array(like.dtype, like.ndim, "A" if rows else "C")(like, count), generate


def _nearby(like: Any, count: int) -> Any:
    """So many records of the kind that an array has; to be filled before they are read.

    Like a table of rows: one row, which stands for all of them.
    """
    made = np.zeros(count, like.dtype).view(type(like))
    if like.ndim == 1:
        return made
    return np.lib.stride_tricks.as_strided(made, (len(like), count), (0, made.itemsize), subok=True)


def _aliases(made: str, arguments: Any, alias_map: Any, arg_aliases: Any) -> None:
    """What is written there is read again: else Numba takes it for dead, and leaves it out."""
    _add_alias(made, arguments[0].name, alias_map, arg_aliases)


alias_func_extensions[_nearby_typing.__name__, __name__] = _aliases
nearby: Any = intrinsic(_nearby_typing) if COMPILED else _nearby
nearby.py_func = _nearby
nearby._belated_identity = _nearby._belated_identity = "records on the stack"  # type: ignore[attr-defined]
