"""The GPU as the host sees it: memory, and turns that are run by a thread a lane. Only this file knows numba-cuda.

Numba has no option against products that are fused with sums, which would change bits; so what it launches is compiled
here, and kept on disk under the identity of the kernels, as on a CPU.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import math
import operator
import pickle
import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from belated.errors import Unsupported
from belated.kernels.compile import COMPILED, cache_directory, identity, keep, uncollected
from belated.kernels.states import PlainRecords

if importlib.util.find_spec("numba_cuda") is None:
    raise Unsupported('engine="cuda" needs numba-cuda: install belated[cuda]')

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy, in numba-cuda
    from numba import cuda, types
    from numba.core.errors import TypingError
    from numba.core.serialize import dumps
    from numba.cuda.core import config
    from numba.cuda.core.errors import NumbaWarning
    from numba_cuda import __version__ as made_by

SIMULATED = bool(config.ENABLE_CUDASIM)
if not SIMULATED:
    from numba.cuda import cgutils, datamodel
    from numba.cuda.compiler import CUDACompiler, compile_extra, kernel_fixup
    from numba.cuda.core.callconv import CUDACallConv
    from numba.cuda.core.errors import NumbaError
    from numba.cuda.cudadrv.driver import CudaAPIError
    from numba.cuda.cudaimpl import registry
    from numba.cuda.descriptor import cuda_target
    from numba.cuda.dispatcher import _Kernel
    from numba.cuda.flags import CUDAFlags
    from numba.cuda.utils import numba_target_override

    from belated.engine.cuda import spread
    from belated.kernels.inlining import with_inlining

    class Inlining(CUDACompiler):  # type: ignore[misc]
        """Numba's compiler with our way to put kernels into their callers."""

        def define_pipelines(self) -> list[Any]:
            return [with_inlining(passes, "numba.cuda.core") for passes in super().define_pipelines()]


if not SIMULATED:
    for kind, like in ((spread.Apart, types.NestedArray), (spread.Spreads, types.Array)):
        datamodel.register_default(kind)(datamodel.default_manager._handlers[like])
    datamodel.register_default(spread.Spread)(spread.as_places(datamodel.default_manager._handlers[types.Record]))
    registry.lower(operator.setitem, spread.Spreads, types.Integer, types.Record)(spread.set_record)

#: Threads of a block: those that work together. Lanes for each multiprocessor, at most, as measured on an H200; of its
#: memory that threads share, how much there is, and what a block takes of it beside its own.
BLOCK, PER_MULTIPROCESSOR = 32, 384
SHARED, BESIDE = 227 * 1024, 1024
#: Registers that a thread may use, so that there are enough of the 65,536 for all these lanes; a device gives eights.
REGISTERS = 65_536 // PER_MULTIPROCESSOR // 8 * 8
#: How kernels are compiled: what is not fused is exact by IEEE 754.
OPTIONS = {"opt": 3, "fma": False, "fastmath": False}
#: What the kernel of a turn is called.
ENTRY = "belated_turn"
#: What is in memory that nobody has written yet, where there is no device.
DIRT = b"%"
#: What the driver says when there is no memory left.
OUT_OF_MEMORY = 2


@cache
def entry_of(turn: Any) -> Any:
    """What every thread runs: the turn of its lane."""

    def entry(count, work):
        i = cuda.grid(1)
        if i < count:
            turn(i, work)

    return entry


def compiled(turn: Any, work: Any, capability: tuple[int, int]) -> Any:
    """The kernel of a turn for work of a type, made for devices of that capability; no driver is asked."""
    flags = CUDAFlags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.inline, flags.error_model = "never", "numpy"
    flags.nvvm_options, flags.compute_capability, flags.lto = OPTIONS, capability, False
    flags.max_registers = REGISTERS
    target = cuda_target.target_context
    contexts, signature = (cuda_target.typing_context, target), (types.int64, work)
    try:
        with numba_target_override(), uncollected(), patch.object(cgutils, "pointer_add", spread.further):
            made = compile_extra(
                *contexts,
                entry_of(turn),
                signature,
                types.void,
                flags,
                locals={},
                pipeline_class=Inlining,
                call_conv=CUDACallConv(target),
                abi_info={},
            )
    except NumbaError as error:  # as the CPU's compiler says it: those who explain it know that one
        raise TypingError(str(error)) from error
    made.library.finalize()
    library, long = made.library, made.fndesc.llvm_func_name
    kernel_fixup(library.get_function(long), False)
    # The name tells all types, and PTX repeats it at every argument: without it there is a tenth of the text.
    library._llvm_strs = [with_tables_at_hand(text.replace(long, ENTRY)) for text in library.llvm_strs]
    library._entry_name = ENTRY
    return _Kernel._rebuild(False, ENTRY, made.signature, library, False, False, made.call_helper, [])


#: How Numba writes down a table that a kernel reads.
TABLE = re.compile(r'^@"?(_cudapy_cmem[^" ]*)"? = internal addrspace\(4\) constant (.*)$', re.MULTILINE)


def with_tables_at_hand(text: str) -> str:
    """The same program with its tables in global memory, each once. Numba has them in constant memory, for each place
    where they are read again; but that is quick only where all threads read the same number."""
    names: dict[str, str] = {}

    def once(found: re.Match[str]) -> str:
        name, table = found.groups()
        known = f"belated_table_{hashlib.sha256(table.encode()).hexdigest()[:16]}"
        again = known in names.values()
        names[name] = known
        return "" if again else f"@{known} = linkonce_odr unnamed_addr addrspace(1) constant {table}"

    text = TABLE.sub(once, text).replace("addrspace(4)", "addrspace(1)")
    return re.sub(r'@"?(_cudapy_cmem[^" ,)]*)"?', lambda found: f"@{names.get(found[1], found[1])}", text)


class Kept:
    """Stands where Numba has its cache: it always finds, for what it does not find it makes."""

    def __init__(self, turn: Any) -> None:
        self._turn = turn

    def load_overload(self, signature: Any, target: Any) -> Any:
        capability = cuda.get_current_device().compute_capability
        file = self._file(signature, capability)
        if file is not None and file.exists():
            try:
                return _Kernel._rebuild(**pickle.loads(file.read_bytes()))
            except Exception:  # a damaged file is a miss, whatever it raises
                pass
        made = compiled(self._turn, signature[1], capability)
        made.bind()  # what is kept is what the device runs
        if file is not None:
            keep(file, dumps(made._reduce_states()))
        return made

    def save_overload(self, signature: Any, kernel: Any) -> None:
        """Done."""

    def _file(self, signature: Any, capability: Any) -> Path | None:
        digest, directory = identity(self._turn), cache_directory()
        if digest is None or directory is None:
            return None
        entry = inspect.getsource(entry_of.__wrapped__)
        key = repr((digest, entry, str(signature), capability, made_by, OPTIONS, REGISTERS))
        return directory / f"cuda-{hashlib.sha256(key.encode()).hexdigest()[:32]}.bin"


@cache
def launched(turn: Any) -> Any:
    """The turn as Numba launches it."""
    if SIMULATED:
        return cuda.jit(entry_of(turn))
    dispatcher: Any = cuda.jit(entry_of(turn), lto=False)
    dispatcher._cache = Kept(turn)
    return dispatcher


class Device:
    """The GPU that Numba has chosen."""

    #: Whether kernels are compiled for one (`kernels.target`).
    is_gpu = True

    def lanes(self, near: int) -> int:
        """How many are played at once, where each has so many bytes close by."""
        fit = SHARED // (BLOCK * near + BESIDE) * BLOCK
        return int(cuda.get_current_device().MULTIPROCESSOR_COUNT) * min(PER_MULTIPROCESSOR, fit)

    @property
    def free(self) -> int:
        """Bytes."""
        return int(cuda.current_context().get_memory_info().free)

    def put(self, array: Any) -> Any:
        """A copy of an array there."""
        return self._or_full(cuda.to_device, array)

    def room(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array there, of whatever numbers."""
        return self._or_full(cuda.device_array, shape, dtype)

    def get(self, array: Any) -> Any:
        """A copy of an array here."""
        return array.copy_to_host()

    def set(self, array: Any, values: Any) -> None:
        """Write values into an array there."""
        array.copy_to_device(values)

    def read(self, array: Any, into: Any) -> None:
        """Write the first rows of an array there into one here."""
        if into.flags.c_contiguous and array.is_c_contiguous():
            array[: len(into)].copy_to_host(into.view(np.ndarray))
        else:
            into[...] = array.copy_to_host()[: len(into)]

    def run(self, turn: Any, count: int, work: Any) -> None:
        """Let so many lanes take the turn, and wait for them."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumbaWarning)  # that a small play leaves the device idle
            launched(turn)[-(-count // BLOCK), BLOCK](count, work)
        cuda.synchronize()

    def _or_full(self, make: Any, *given: Any) -> Any:
        try:
            return make(*given)
        except CudaAPIError as error:
            if int(error.code) != OUT_OF_MEMORY:
                raise
            raise MemoryError(str(error)) from None


class Host(Device):
    """The same in the memory of this process: for Numba's simulator of a GPU, and for tests."""

    most, free, is_gpu = 64, 2**30, False

    def lanes(self, near: int) -> int:
        return self.most

    def put(self, array: Any) -> Any:
        return np.array(array, subok=True)

    def room(self, shape: tuple[int, ...], dtype: Any) -> Any:
        size = np.dtype(dtype).itemsize * math.prod(shape)
        made = np.frombuffer(bytearray(DIRT * size), dtype).reshape(shape)
        return made.view(PlainRecords) if made.dtype.names and not COMPILED else made

    def get(self, array: Any) -> Any:
        return np.array(array, subok=True)

    def set(self, array: Any, values: Any) -> None:
        array[...] = values

    def read(self, array: Any, into: Any) -> None:
        into[...] = array[: len(into)]


def find() -> Device:
    """The device, or one clear line that says why there is none."""
    if SIMULATED:
        if COMPILED:
            raise Unsupported("the simulator of a GPU runs plain Python: NUMBA_ENABLE_CUDASIM needs NUMBA_DISABLE_JIT")
        return Host()
    if not COMPILED:
        raise Unsupported('engine="cuda" compiles kernels, which NUMBA_DISABLE_JIT forbids')
    if not cuda.is_available():
        wanted = "an NVIDIA GPU and its driver" if cuda.cuda_error() else "NVIDIA's compiler (install belated[cuda])"
        raise Unsupported(f'engine="cuda" needs {wanted}, and finds none')
    return Device()


__all__ = ["Device", "Host", "compiled", "find"]
