"""Compiles kernels, and keeps what was compiled on disk.

A kernel is a plain Python function of scalars, records and arrays that Numba can compile. Its **identity** is a
digest of its code and, transitively, of every kernel and constant it refers to. Compiled code is stored under
that identity, so a second process finds it and a change anywhere below a kernel misses. Numba's own cache
cannot do this: it does not look at globals, and it names closures by a number that is new in each process.

With `NUMBA_DISABLE_JIT=1` every kernel stays the plain function it was written as.
"""

from __future__ import annotations

import dis
import gc
import hashlib
import inspect
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import Compiler, CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

log = logging.getLogger("belated")

#: True when kernels are compiled; False when `NUMBA_DISABLE_JIT` keeps them plain Python.
COMPILED = not getattr(config, "DISABLE_JIT", 0)

_kernels: dict[FunctionType, Any] = {}
_plain: dict[FunctionType, FunctionType] = {}
_pointers: dict[tuple[str, str], Carried] = {}
_identities: dict[FunctionType, str | None] = {}
_lock = threading.RLock()
#: Apart from the other, which is asked for while Numba compiles: who holds that must not wait for Numba.
_carrying = threading.RLock()
_told: set[str] = set()
_VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, sys.version)


class Inlining(Compiler):
    """Numba's compiler with our way to put kernels into their callers. That is loaded when something is compiled."""

    def define_pipelines(self) -> list[Any]:
        from belated.kernels.inlining import with_inlining

        return [with_inlining(passes) for passes in super().define_pipelines()]

    def compile_extra(self, func: Any) -> Any:
        with uncollected():
            made = super().compile_extra(func)
        return made._replace(type_annotation="")  # which would keep all of the program, and be written to disk with it


@contextmanager
def uncollected() -> Iterator[None]:
    """Without a look for garbage in cycles: a compilation makes few, and the looks are a quarter of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def kernel(function: Callable[..., Any], *, inline: bool = True) -> Any:
    """Compile a kernel (lazily, on its first call); the same function always gives the same object.

    The code of a kernel is put into its callers before they are optimised: calls between kernels cost nothing, and a
    loop around one can use vector instructions. (The simulator's loop ran 1.4 times as fast for it.) A long kernel
    that is called from many places is better a `routine`: it is compiled once, and called.

    >>> from belated.kernels.compile import kernel
    >>> @kernel
    ... def twice(x):
    ...     return 2.0 * x
    >>> twice(1.5)
    3.0
    """
    function = getattr(function, "__func__", function)  # a method: somebody forgot that kernels are static
    if not COMPILED or not isinstance(function, FunctionType):
        return function
    if function not in _kernels:
        dispatcher: Any = numba.njit(
            nogil=True, error_model="numpy", inline="always" if inline else "never", pipeline_class=Inlining
        )(function)
        dispatcher._cache = DiskCache(function.__qualname__, lambda: identity(dispatcher))
        _kernels[function] = dispatcher
    return _kernels[function]


def routine(function: Callable[..., Any]) -> Any:
    """Compile a kernel that is called and not put into its callers."""
    return kernel(function, inline=False)


def plain(compiled: Any, instead: dict[FunctionType, Any] | None = None) -> Any:
    """A kernel as plain Python: a copy of its function that calls plain copies of all kernels it refers to.

    It decides what the compiled form decides, at once and slowly: what serves until the other is compiled. Records must
    be `states.PlainRecords`. With `instead` the copy is one of its own, which calls other functions for some.

    >>> from belated.kernels.ties import largest_index
    >>> plain(largest_index)([0.5, 0.7, 0.7], [0, 4, 3])
    2
    """
    function = source(compiled)
    if not isinstance(function, FunctionType) or (instead is None and not COMPILED):
        return function
    return _copy(function, _plain if instead is None else dict(instead))


def source(compiled: Any) -> Any:
    """The function that a kernel was written as."""
    function = getattr(compiled, "py_func", compiled)
    return getattr(function, "__func__", function)


def _copy(function: FunctionType, made: dict[FunctionType, Any]) -> Any:
    if function not in made:
        names = {name: function.__globals__[name] for name in _names(function.__code__) & function.__globals__.keys()}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made[function] = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
        for cell, given in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = _plain_value(given.cell_contents, made)
        names.update({name: _plain_value(value, made) for name, value in names.items()})
        names["__builtins__"] = function.__globals__["__builtins__"]
    return made[function]


def _plain_value(value: Any, made: dict[FunctionType, Any]) -> Any:
    if hasattr(value, "py_func") or (made is not _plain and isinstance(value, FunctionType)):
        return _copy(source(value), made)
    return value


def compiled_for(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a call with such arguments needs no compilation: the code is in memory, or in the cache on disk."""
    if not COMPILED:
        return True
    signature = _signature(dispatcher, arguments)
    if signature in dispatcher.overloads:
        return True
    cache = dispatcher._cache
    file = cache._file(signature, dispatcher.targetctx.codegen()) if isinstance(cache, DiskCache) else None
    return file is not None and file.exists()


def compile_for(dispatcher: Any, arguments: tuple[Any, ...]) -> None:
    """Make a call with such arguments ready."""
    if COMPILED:
        dispatcher.compile(_signature(dispatcher, arguments))


def _signature(dispatcher: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dispatcher.typeof_pyval(argument) for argument in arguments)


def pointer(function: Callable[..., Any], signature: Any) -> Any:
    """The machine address of a kernel compiled for one fixed signature, to be called as a function of C.

    In plain Python the function itself stands for its address.
    """
    return _carried(function, signature).pointer if COMPILED else source(function)


def address(function: Callable[..., Any], signature: Any) -> Any:
    """The same, to be called through `call_*`: not the form for C, which only hands its arguments on."""
    return _carried(function, signature).address if COMPILED else source(function)


class Carried(NamedTuple):
    """A kernel that is called by its address, and both of its addresses."""

    carrier: Any  # who holds the code
    pointer: int
    address: int


def _carried(function: Callable[..., Any], signature: Any) -> Carried:
    compiled = kernel(source(function))
    with _carrying:
        digest = identity(compiled)
        key = (digest or str(id(compiled)), str(signature))
        if key not in _pointers:
            _pointers[key] = _carrier(compiled, signature, digest)
        return _pointers[key]


def _carrier(compiled: Any, signature: Any, digest: str | None) -> Carried:
    """The addresses are looked up at once, and never again.

    They go by a name, of the function and of how many were compiled before it in that process. Code that another
    process kept may have the same one, and a name means what was loaded last.
    """
    from numba.core.ccallback import CFunc

    options = {"nopython": True, "nogil": True, "error_model": "numpy"}
    carrier: Any = CFunc(
        compiled.py_func, (signature.args, signature.return_type), locals={}, options=options, pipeline_class=Inlining
    )
    carrier._cache = DiskCache(compiled.py_func.__qualname__ + ".c", lambda: digest)
    carrier.compile()
    native = carrier._library.get_pointer_to_function(carrier.native_name.removeprefix("cfunc."))
    return Carried(carrier, carrier.address, native)


def identity(compiled: Any) -> str | None:
    """The digest of a kernel and all it refers to; None where one of these has no stable description.

    It is taken when somebody first asks, as Numba looks at globals when it compiles: by then what stands below the
    kernel in its file is defined, too.
    """
    if isinstance(compiled, FunctionType):
        return _digest(compiled)
    if not _is_kernel(compiled):
        return getattr(compiled, "_belated_identity", None)
    function = compiled.py_func
    with _lock:
        if function not in _identities:
            _identities[function] = function.__qualname__  # how it names itself, where it calls itself
            _identities[function] = _digest(function, compiled.targetoptions["inline"] == "always")
        return _identities[function]


def _is_kernel(thing: Any) -> bool:
    return isinstance(thing, Dispatcher) and _kernels.get(thing.py_func) is thing


def _digest(function: FunctionType, inline: bool = True) -> str | None:
    """Hash the function as it is in memory and everything it names; None if something has no stable description.

    It is the code object that is hashed, not the source: the file may have been edited since it was imported.
    """
    parts = [_code(function.__code__), repr(function.__defaults__), str(inline), *_VERSIONS]
    closure = inspect.getclosurevars(function).nonlocals
    for name in sorted(_names(function.__code__)):
        if name in closure:
            value = closure[name]
        elif name in function.__globals__:
            value = function.__globals__[name]
        else:
            continue
        described = _describe(value)
        if described is None:
            _tell(f"{function.__qualname__} refers to {name}, which has no stable identity: it is not cached")
            return None
        parts.append(f"{name}={described}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _code(code: CodeType) -> str:
    """A code object as text: its instructions, constants and names, without file and line numbers."""
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount)
    return repr((code.co_code, constants, names))


@cache
def _names(code: CodeType) -> frozenset[str]:
    """What it takes from outside. Not names of fields: a global of the same name is nothing to it."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    own = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return frozenset(own.union(code.co_freevars, *map(_names, inner)))


def _describe(value: Any) -> str | None:
    if _is_kernel(value):
        return identity(value)
    if hasattr(value, "_belated_identity"):
        return str(value._belated_identity)
    if isinstance(value, ModuleType):
        # What a kernel reaches through a module could change unseen, except in these.
        return value.__name__ if value.__name__ in ("math", "numpy") else None
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, bool | int | float | str | bytes | np.generic | type(None)):
        return repr(value)
    if isinstance(value, np.ndarray) and not value.flags.writeable and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, tuple):
        inner = [_describe(item) for item in value]
        return None if None in inner else repr(inner)
    if isinstance(value, FunctionType) and not COMPILED:
        return _digest(value)
    module = getattr(value, "__module__", None) or ""
    if module.split(".")[0] in ("builtins", "math", "numpy"):
        return f"{module}.{getattr(value, '__name__', type(value).__name__)}"
    return None


def _tell(message: str) -> None:
    if message not in _told:
        _told.add(message)
        log.info(message)


def cache_directory() -> Path | None:
    """Where compiled code is kept: `BELATED_CACHE_DIR`, else the user's cache; None if not writable."""
    chosen = os.environ.get("BELATED_CACHE_DIR")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "belated"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return base if os.access(base, os.W_OK) else None


def keep(file: Path, payload: bytes) -> None:
    """Write a file of the cache, whole or not at all."""
    temporary = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        temporary.write_bytes(payload)
        temporary.replace(file)
    except OSError as error:
        _tell(f"compiled code cannot be kept ({error})")
        temporary.unlink(missing_ok=True)


class DiskCache(_Cache):
    """One file for each (identity, signature, processor), written whole or not at all."""

    def __init__(self, name: str, digest: Callable[[], str | None]) -> None:
        self._name = "".join(c if c.isalnum() or c in "._" else "-" for c in name.rpartition(">.")[2])
        self._digest = digest

    @property
    def cache_path(self) -> str:
        return str(cache_directory() or "")

    def _file(self, signature: Any, codegen: Any) -> Path | None:
        digest = self._digest()
        if digest is None:
            return None
        directory = cache_directory()
        if directory is None:
            _tell("no writable cache directory: kernels are compiled anew in each process")
            return None
        key = repr((digest, str(signature), codegen.magic_tuple()))
        return directory / f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.bin"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        if file is None or not file.exists():
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(file.read_bytes()))
        except Exception as error:  # a damaged file is a miss, whatever it raises
            _tell(f"compiled code in {file.name} cannot be read ({error}): compiled anew")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        file = self._file(sig, data.codegen)
        if file is None or data.lifted or data.library.has_dynamic_globals:
            return
        keep(file, dumps(data._reduce()))

    def enable(self) -> None:
        """Always on."""

    def disable(self) -> None:
        """Always on; use an unwritable `BELATED_CACHE_DIR` to do without."""

    def flush(self) -> None:
        """Nothing is held back."""
