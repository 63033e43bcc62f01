"""Numbers that are not negative, said to the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from belated.kernels.compile import COMPILED, kernel


def _typing(typing_context, number):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        wide = context.cast(builder, values[0], signature.args[0], types.int64)
        assume = builder.module.declare_intrinsic("llvm.assume", fnty=ir.FunctionType(ir.VoidType(), [ir.IntType(1)]))
        builder.call(assume, [builder.icmp_signed(">=", wide, wide.type(0))])
        return wide

    return types.int64(number), generate


def _natural(number):
    """The same number, of which the caller knows that it is not negative.

    An index that may be negative counts from the end: three instructions more for each that need not be there.
    """
    return number


natural: Any = intrinsic(_typing) if COMPILED else _natural
natural.py_func = _natural
natural._belated_identity = _natural._belated_identity = "a number that is not negative"  # type: ignore[attr-defined]


@kernel
def lowest_bit(word):
    """Which bit of a word is the lowest that is set: the exponent of a float that is a power of two says it."""
    return (np.float64(word & -word).view(np.int64) >> 52) - 1023
