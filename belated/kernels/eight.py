"""Eight numbers at once, where a processor can: each goes its own way, so every bit is that of one at a time.

Numba's compiler makes vectors of loops over one array by itself, but not of sums that run side by side. A GPU has
neighbours instead (`target.on_gpu`).
"""

from __future__ import annotations

import hashlib
import inspect
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model
from numba.np.arrayobj import make_array

from belated.kernels.compile import COMPILED

EIGHT = ir.VectorType(ir.DoubleType(), 8)


class Eight(types.Type):
    """Eight numbers."""

    def __init__(self) -> None:
        super().__init__("eight numbers")


@register_model(Eight)
class EightModel(PrimitiveModel):
    """A vector of the processor, or several."""

    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, EIGHT)


KIND = Eight()


def _place(context: Any, builder: Any, kind: Any, array: Any, indices: list[Any]) -> Any:
    """Where eight numbers of an array begin; indices are not negative, and the eight lie side by side."""
    known = make_array(kind)(context, builder, array)
    strides = cgutils.unpack_tuple(builder, known.strides)
    place = builder.ptrtoint(known.data, ir.IntType(64))
    for index, stride in zip(indices, strides, strict=True):
        place = builder.add(place, builder.mul(index, stride))
    return builder.inttoptr(place, EIGHT.as_pointer())


def _spread(builder: Any, number: Any) -> Any:
    """The same number eight times."""
    word, nothing = ir.IntType(32), ir.Constant(EIGHT, ir.Undefined)
    one = builder.insert_element(nothing, number, word(0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(word, 8), [0] * 8))


def _none(typing_context):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return ir.Constant(EIGHT, [0.0] * 8)

    return KIND(), generate


def _at(typing_context, array, place):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        where = _place(context, builder, array, values[0], cgutils.unpack_tuple(builder, values[1]))
        return builder.load(where, align=8)

    return KIND(array, types.UniTuple(types.int64, array.ndim)), generate


def _put(typing_context, array, place, eight):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        where = _place(context, builder, array, values[0], cgutils.unpack_tuple(builder, values[1]))
        builder.store(values[2], where, align=8)
        return context.get_dummy_value()

    return types.void(array, types.UniTuple(types.int64, array.ndim), KIND), generate


def _plus(typing_context, eight, times, number):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.fadd(values[0], builder.fmul(values[1], _spread(builder, values[2])))

    return KIND(KIND, KIND, types.float64), generate


def _plain_none() -> Any:
    return np.zeros(8)


def _plain_at(array: Any, place: tuple[int, ...]) -> Any:
    *row, first = place
    return np.array(array[(*row, slice(first, first + 8))])


def _plain_put(array: Any, place: tuple[int, ...], eight: Any) -> None:
    *row, first = place
    array[(*row, slice(first, first + 8))] = eight


def _plain_plus(eight: Any, times: Any, number: float) -> Any:
    return eight + times * number


def _both(plain: Any, typing: Any) -> Any:
    """What kernels call: in plain Python the plain function."""
    digest = hashlib.sha256((inspect.getsource(typing) + inspect.getsource(_place)).encode()).hexdigest()
    found: Any = intrinsic(typing) if COMPILED else plain
    found.py_func = plain
    found._belated_identity = plain._belated_identity = digest
    return found


#: Eight times 0.
eight_zeros = _both(_plain_none, _none)
#: `eight_at(array, (row, first))`, `eight_at(array, (first,))`: eight that lie side by side.
eight_at = _both(_plain_at, _at)
#: `eight_put(array, (row, first), eight)`: write them there.
eight_put = _both(_plain_put, _put)
#: `eight_plus(eight, times, number)`: eight + times * number, rounded twice as ever.
eight_plus = _both(_plain_plus, _plus)
