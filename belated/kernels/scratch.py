"""Numbers that a kernel needs while it is called: on the stack, not in a state that would be kept."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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
