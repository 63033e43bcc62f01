"""Puts kernels into their callers as Numba does, in a third of the time.

For every call Numba analyses the called function anew, with all that it calls, and copies it twice, each block with all
variables of the function. Here what was analysed is kept, in a form from which a copy is quickly made. What comes out
is the same: only the way there is shorter.

Numba's compiler for GPUs is a copy of that for CPUs, with modules of the same names: `inlining_pass` says where.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections import OrderedDict, defaultdict
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from numba.core import ir

#: So many bytes of analysed functions are kept, as they are written down.
KEPT = 2**26

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

    def __init__(self, blocks: dict[int, Any], ir: ModuleType = ir) -> None:
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


#: What was analysed, by the pass and the function.
_kept: OrderedDict[tuple[str, FunctionType], tuple[Any, Copier]] = OrderedDict()


@cache
def inlining_pass(core: str) -> Any:
    """Numba's pass with a worker that keeps what it has analysed, for the compiler in the package `core`."""
    names = ("ir", "bytecode", "compiler_machinery", "inline_closurecall", "untyped_passes")
    ir, bytecode, machinery, closures, untyped = (import_module(f"{core}.{name}") for name in names)

    class Fresh(ir.Block):  # type: ignore[name-defined, misc]
        """A block of a copy that nobody else has: it need not be copied again."""

        def __deepcopy__(self, memo: Any) -> Fresh:
            return self

    class Worker(closures.InlineWorker):  # type: ignore[name-defined, misc]
        """Numba's worker, which keeps what it has analysed."""

        def __init__(self, of: Any) -> None:
            self.__dict__.update(of.__dict__)
            self._compiler_pipeline = lambda state: with_inlining(of._compiler_pipeline(state), core)

        def run_untyped_passes(self, func: FunctionType, enable_ssa: bool = False) -> Any:
            key = core, func
            if key not in _kept:
                analysed = super().run_untyped_passes(func, enable_ssa)
                _kept[key] = analysed, Copier(analysed.blocks, ir)
                # What else it has of its program would take several times as much.
                analysed.blocks, analysed.block_entry_vars, analysed._definitions = {}, {}, defaultdict(list)
                analysed.variable_lifetime = analysed._consts = None
                while len(_kept) > 1 and sum(len(copier.written) for _, copier in _kept.values()) > KEPT:
                    _kept.popitem(last=False)
            _kept.move_to_end(key)
            analysed, copier = _kept[key]
            fresh = copy.copy(analysed)
            # By its number the variables of each copy are named.
            fresh.func_id = bytecode.FunctionIdentity.from_function(func)
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

    @machinery.register_pass(mutates_CFG=True, analysis_only=False)
    class Inlining(untyped.InlineInlinables):  # type: ignore[name-defined, misc]
        """Numba's pass with our worker."""

        _name = "belated_inlining"

        def _do_work(self, state: Any, work_list: Any, block: Any, i: int, expr: Any, inline_worker: Any) -> Any:
            return super()._do_work(state, work_list, block, i, expr, Worker(inline_worker))

    return Inlining


def with_inlining(passes: Any, core: str = "numba.core") -> Any:
    """The same passes, with ours instead of Numba's."""
    numbas = import_module(f"{core}.untyped_passes").InlineInlinables
    mine = type(passes)(passes.pipeline_name)
    for each, why in passes.passes:
        mine.add_pass(inlining_pass(core) if each is numbas else each, why)
    mine.finalize()
    return mine
