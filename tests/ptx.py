"""Kernels compiled for a GPU, on a machine that has none: PTX, the assembly that a driver takes."""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from cuda.pathfinder import find_bitcode_lib, find_nvidia_binary_utility
from numba import typeof, types

import belated as bl
from belated.checks.contract import arena
from belated.engine.cuda import device, turns
from belated.engine.cuda.waves import Plan, Wave
from belated.engine.workspace import Setting

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5, in numba-cuda
    from numba.cuda import dispatcher
    from numba.cuda.compiler import compile_cuda
    from numba.cuda.cudadrv import nvvm

#: A Hopper GPU; nothing here depends on it.
CAPABILITY, ARCHITECTURE, DEVICE = (9, 0), "compute_90", "sm_90"
#: What may give other bits than a CPU: fused or approximate arithmetic, and anything of single precision.
STRANGE = re.compile(
    r"\bfma\.\S+|\b(?:add|sub|mul|div|sqrt|rcp)\.(?!rn\.f64)(?:\w+\.)*f\d\d|\b\w+\.approx\.\S+|\b\w+\.f32"
)


def ptx(function: Any, *arguments: Any) -> str:
    """The assembly of a function for such arguments (values, or Numba's types)."""
    signature = tuple(a if isinstance(a, types.Type) else typeof(a) for a in arguments)
    with no_device():
        made = compile_cuda(function, types.void, signature, nvvm_options=device.OPTIONS, cc=CAPABILITY)
    return written(made.library)


@contextmanager
def no_device() -> Iterator[None]:
    """Numba asks the device what it is when one function calls another: here it is told."""
    known = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    try:
        yield
    finally:
        dispatcher.get_current_device = known


def written(library: Any) -> str:
    """The assembly of a library, by the options that it was made with."""
    options = {name: value for name, value in library._nvvm_options.items() if name != "fastmath"}
    unit = nvvm.CompilationUnit({"arch": ARCHITECTURE, **options})
    for module in library.llvm_strs:
        unit.add_module(nvvm.llvm_replace(module).encode())
    unit.verify()
    unit.lazy_add_module(Path(find_bitcode_lib("device")).read_bytes())
    return str(unit.compile().decode().strip("\0"))


def strange(text: str) -> set[str]:
    """The instructions that may give other bits, and what is left to be linked."""
    return set(STRANGE.findall(text)) | set(re.findall(r"\.extern \.func.*", text))


class Assembled(NamedTuple):
    """What the code of a device needs."""

    registers: int
    spilled: int  # bytes that found no place in them


def assembled(text: str, folder: Path) -> Assembled:
    """Let NVIDIA's assembler make code for a device of it."""
    (folder / "turn.ptx").write_text(text)
    options = ["-v", f"-arch={DEVICE}", f"-maxrregcount={device.REGISTERS}", "turn.ptx", "-o", "turn.cubin"]
    done = subprocess.run(
        [find_nvidia_binary_utility("ptxas"), *options], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    registers, spilled = (re.findall(wanted, done.stderr) for wanted in (r"Used (\d+) registers", r"(\d+) bytes spill"))
    return Assembled(max(map(int, registers)), sum(map(int, spilled)))


def turn_ptx(learner: bl.Learner, forecaster: type[bl.Forecaster], delays: bl.delays.Delays) -> str:
    """The assembly of what a thread of the engine runs: a replication's start, its rounds, its end."""
    wave = wave_of(learner, forecaster, delays)
    return assembly(wave.turn, wave.work)


def wave_of(
    learner: bl.Learner, forecaster: type[bl.Forecaster], delays: bl.delays.Delays, record: bool = True
) -> Wave:
    """Four lanes that are about to play a game that suits the learner."""
    setting = Setting(forecaster(learner), arena(learner, 10), delays, 10, 0, np.array([10]), record=record)
    wave = Wave(device.Host(), Plan(setting), 4)
    wave.begin(0)
    return wave


def calls_ptx(game: bl.Game, delays: bl.delays.Delays) -> str:
    """The assembly of a game's and a law's kernels, called as a round calls them."""
    outcome, regret, law, event, observe, *_ = turns.calls_of(game, delays)

    def calls(params, memory, context, feedback, law_params, waits, out, k0, k1, action):
        observe(0, params, memory, k0, k1, 1, context)
        event(0, params, memory, k0, k1, 1)
        out[0] = outcome(0, params, memory, k0, k1, 1, action, feedback)
        law(0, law_params, k0, k1, 1, action, out[0], len(waits), waits)
        out[1] = regret(0, params, memory)

    column, word = types.Array(types.float64, 1, "A"), types.uint64
    given = (game.params(), column, column, column, delays.params(), types.Array(types.int64, 1, "A"))
    return ptx(calls, *given, types.float64[::1], word, word, types.int64)


def assembly(turn: Any, work: Any) -> str:
    """The assembly of a turn as the engine compiles it."""
    with no_device():
        return written(device.compiled(turn, typeof(work), CAPABILITY).library)
