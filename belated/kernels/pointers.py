"""Calls through machine addresses: how games and delay laws enter the compiled loop.

The loop is compiled once for a learner and a forecaster. A game or a law comes as an address with a fixed signature
and a flat vector of parameters, so a new one compiles nothing but itself.
"""

from __future__ import annotations

import hashlib
import inspect
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.callconv import excinfo_t
from numba.core.ir_utils import _add_alias, alias_func_extensions
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from belated.kernels.compile import COMPILED, kernel

VECTOR = types.CPointer(types.float64)
#: outcome(params, memory, key0, key1, round, action, feedback) -> reward
OUTCOME_SIGNATURE = types.float64(VECTOR, VECTOR, types.uint64, types.uint64, types.int64, types.int64, VECTOR)
#: regret(params, memory) -> regret so far
REGRET_SIGNATURE = types.float64(VECTOR, VECTOR)
#: event(params, memory, key0, key1, round) -> action, or -1
EVENT_SIGNATURE = types.int64(VECTOR, VECTOR, types.uint64, types.uint64, types.int64)
#: observe(params, memory, key0, key1, round, context to fill) -> 0
OBSERVE_SIGNATURE = types.int64(VECTOR, VECTOR, types.uint64, types.uint64, types.int64, VECTOR)
#: law(params, key0, key1, first round, action, reward, count, delays to fill) -> count
LAW_SIGNATURE = types.int64(
    *(VECTOR, types.uint64, types.uint64, types.int64, types.int64, types.float64, types.int64),
    types.CPointer(types.int64),
)


def _generator(target: Any, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """Typing and code of a call through an address; vectors are handed over as their data pointers.

    Compiled functions write their result to where they are told, and return whether there was an error: it is the
    caller's then, as if the kernel were part of it.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        result = context.get_value_type(target.return_type)
        room = cgutils.alloca_once(builder, result)
        told = cgutils.alloca_once(builder, ir.PointerType(excinfo_t))
        wanted = [room.type, told.type, *(context.get_value_type(t) for t in target.args)]
        function_type = ir.FunctionType(ir.IntType(32), wanted)
        function = builder.inttoptr(values[0], function_type.as_pointer())
        passed = [room, told]
        for value, have, want in zip(values[1:], arguments, target.args, strict=True):
            if isinstance(have, types.Array):
                passed.append(context.make_array(have)(context, builder, value).data)
            else:
                passed.append(context.cast(builder, value, have, want))
        code = builder.call(function, passed)
        status = context.call_conv._get_return_status(builder, code, builder.load(told))
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return builder.load(room)

    return target.return_type(types.int64, *arguments), generate


def _outcome(typing_context, address, params, memory, k0, k1, round_, action, feedback):
    return _generator(OUTCOME_SIGNATURE, (params, memory, k0, k1, round_, action, feedback))


def _regret(typing_context, address, params, memory):
    return _generator(REGRET_SIGNATURE, (params, memory))


def _event(typing_context, address, params, memory, k0, k1, round_):
    return _generator(EVENT_SIGNATURE, (params, memory, k0, k1, round_))


def _observe(typing_context, address, params, memory, k0, k1, round_, context):
    return _generator(OBSERVE_SIGNATURE, (params, memory, k0, k1, round_, context))


def _law(typing_context, address, params, k0, k1, first, action, reward, count, delays):
    return _generator(LAW_SIGNATURE, (params, k0, k1, first, action, reward, count, delays))


def _caller(typing: Any) -> Any:
    """The function that calls an address; in plain Python an address is the function itself."""
    if not COMPILED:
        return lambda function, *arguments: function(*arguments)
    call: Any = intrinsic(typing)
    call._belated_identity = hashlib.sha256(inspect.getsource(_generator).encode()).hexdigest()
    return call


#: Call a game's `outcome`, `regret` or `event`, its `observe` made ready by `observer`, or a law by `law_filler`.
call_outcome, call_regret, call_event, call_observe, call_law = (
    _caller(typing) for typing in (_outcome, _regret, _event, _observe, _law)
)


@cache
def observer(observe: Any) -> Any:
    """The kernel that fills a context and returns 0, as its signature wants."""
    fill = kernel(observe)

    def observed(params, memory, k0, k1, round_, context):
        fill(params, memory, k0, k1, round_, context)
        return 0

    return kernel(observed)


@cache
def law_filler(law: Any, by_reward: bool = False) -> Any:
    """The kernel that draws the delays of several rounds in a row with a law's kernel."""
    delay = kernel(law)

    def fill(params, k0, k1, first, action, reward, count, delays):
        for i in range(count):
            delays[i] = delay(params, k0, k1, first + i, action)
        return count

    def fill_by_reward(params, k0, k1, first, action, reward, count, delays):
        for i in range(count):
            delays[i] = delay(params, k0, k1, first + i, action, reward)
        return count

    return kernel(fill_by_reward if by_reward else fill)


def _behind(vector: Any, start: int) -> Any:
    """The numbers of a vector from `start` on: what a game in a game sees as its own.

    >>> import numpy as np
    >>> behind.py_func(np.arange(4.0), 2)
    array([2., 3.])
    """
    return vector[start:]


def _typing(typing_context, vector, start):
    """A bare pointer, moved; an array, on a GPU. No function: one would not be allowed to return an array there."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(vector, types.CPointer):
            return builder.gep(values[0], [values[1]])
        old = context.make_array(vector)(context, builder, values[0])
        (length,), (stride,) = (cgutils.unpack_tuple(builder, each) for each in (old.shape, old.strides))
        data = cgutils.pointer_add(builder, old.data, builder.mul(values[1], stride))
        made = context.make_array(vector)(context, builder)
        shape = [builder.sub(length, values[1])]
        populate_array(made, data=data, shape=shape, strides=[stride], itemsize=old.itemsize, meminfo=None)
        return made._getvalue()

    return vector(vector, types.int64), generate


def _aliases(made: str, arguments: Any, alias_map: Any, arg_aliases: Any) -> None:
    """What is written behind a place is written to the vector: else Numba takes it for dead, and leaves it out."""
    _add_alias(made, arguments[0].name, alias_map, arg_aliases)


alias_func_extensions[_typing.__name__, __name__] = _aliases
behind: Any = intrinsic(_typing) if COMPILED else _behind
behind.py_func = _behind
behind._belated_identity = _behind._belated_identity = (  # type: ignore[attr-defined]
    "the numbers of a vector from some place on, never inlined"
)
