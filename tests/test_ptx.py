"""Every learner under every forecaster compiles for a GPU, and computes there what a CPU does, bit for bit."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from cuda.core._kernel_arg_handler import ParamHolder
from numba import typeof, types
from numba.core.serialize import dumps
from numba.cuda.cudadrv.devicearray import _StridedLayoutShim, _StridedMemoryViewShim

import belated as bl
from belated.checks.contract import allowed
from belated.engine.cuda import device, turns
from belated.kernels import elementary
from tests.ptx import CAPABILITY, assembled, assembly, calls_ptx, no_device, ptx, strange, turn_ptx, wave_of, written
from tests.test_checks import DELAYS, GAMES

#: Side information, values of it, queues: these are compiled every day.
DAILY = {("linucb", bl.Direct), ("percontext", bl.BOLD), ("ucb1", bl.QPMD)}


def pairs() -> Iterator[Any]:
    """All. In CI each learner under one forecaster, another from learner to learner; all by `make soak`."""
    for number, (name, make) in enumerate(bl.catalog.LEARNERS.items()):
        rules = allowed(make.example())
        for i, rule in enumerate(rules):
            mark = pytest.mark.minutes if i == number % len(rules) else pytest.mark.soak
            yield pytest.param(name, rule, id=f"{name}-{rule.__name__}", marks=() if (name, rule) in DAILY else mark)


@pytest.mark.parametrize(("name", "forecaster"), list(pairs()))
def test_a_pair_compiles_for_a_gpu(name: str, forecaster: Any, tmp_path: Path) -> None:
    text = turn_ptx(bl.catalog.LEARNERS[name].example(), forecaster, bl.delays.Geometric(mean=3))
    assert ".visible .entry" in text and not strange(text)
    needs = assembled(text, tmp_path)
    assert needs.registers <= device.REGISTERS and (needs.spilled < 100 or (name, forecaster) not in DAILY)


@pytest.mark.parametrize("name", ["move_mailbox", "move_pool"])
def test_what_grows_compiles_for_a_gpu(name: str) -> None:
    wave = wave_of(bl.UCB1(3), bl.BOLD, bl.delays.Geometric(mean=3))
    lanes = wave.work.lanes
    assert ".visible .entry" in assembly(getattr(wave, name), turns.Moved(lanes, lanes))


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("game", "law"),
    [*((game, DELAYS[0]) for game in GAMES), *((GAMES[0], law) for law in DELAYS)],
    ids=lambda each: f"{each!r:.40}",
)
def test_games_and_laws_compile_for_a_gpu(game: Any, law: Any) -> None:
    assert not strange(calls_ptx(game, law))


class Addressed:
    """Stands for an array on a device, as Numba hands one to a kernel."""

    __cuda_memory__ = True

    def __init__(self, array: Any) -> None:
        flags = array.flags
        layout = _StridedLayoutShim(
            strides_in_bytes=array.strides,
            is_contiguous_c=flags.c_contiguous,
            is_contiguous_f=flags.f_contiguous,
            is_contiguous_any=flags.forc,
        )
        self._strided_memory_view_shim = _StridedMemoryViewShim(
            ptr=array.ctypes.data, shape=array.shape, dtype=array.dtype, size=array.size, _layout=layout
        )


def addressed(work: Any) -> Any:
    if isinstance(work, tuple):
        parts = [addressed(part) for part in work]
        return type(work)(*parts) if hasattr(work, "_fields") else tuple(parts)
    return Addressed(work) if isinstance(work, np.ndarray) else work


@pytest.mark.parametrize("record", [False, True])
def test_a_launch_hands_over_what_the_kernel_takes(record: bool) -> None:
    """All kinds of arguments can be handed over, empty arrays and words among them, and none is missing."""
    wave = wave_of(bl.UCB1(3), bl.QPMD, bl.delays.Geometric(mean=3), record)
    with no_device():
        kernel = device.compiled(wave.turn, typeof(wave.work), CAPABILITY)
    handed: list[Any] = []
    for kind, given in zip(kernel.argument_types, (4, addressed(wave.work)), strict=True):
        kernel._prepare_args(kind, given, 0, [], handed)
    taken = re.findall(rf"\.param \S+ {device.ENTRY}_param_\d+", written(kernel.library))
    assert len(handed) == len(taken) > 100
    ParamHolder(tuple(handed))
    again = type(kernel)._rebuild(**pickle.loads(dumps(kernel._reduce_states())))
    assert (again.entry_name, again.argument_types) == (device.ENTRY, kernel.argument_types)


def test_lanes_are_launched_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of Numba's way to a launch, and without a warning; only the driver is not there."""
    wave = wave_of(bl.UCB1(3), bl.BOLD, bl.delays.Geometric(mean=3))
    lanes = wave.work.lanes
    seen: list[Any] = []
    monkeypatch.setenv("BELATED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(device.cuda, "get_current_device", lambda: SimpleNamespace(compute_capability=CAPABILITY))
    monkeypatch.setattr(device.cuda, "synchronize", lambda: seen.append("done"))
    monkeypatch.setattr(device._Kernel, "bind", lambda kernel: None)
    monkeypatch.setattr(
        device._Kernel,
        "launch",
        lambda kernel, given, grid, block, stream, shared: seen.append((given[0], grid, block)),
    )
    with no_device():
        device.Device().run(wave.move_mailbox, 300, turns.Moved(lanes, lanes))
    assert seen == [(300, (10, 1, 1), (32, 1, 1)), "done"]


def test_what_was_compiled_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Numba would look into its cache it finds ours, and the second time on disk."""
    wave = wave_of(bl.UCB1(3), bl.BOLD, bl.delays.Geometric(mean=3))
    turn, moved = wave.move_pool, turns.Moved(wave.work.lanes, wave.work.lanes)
    signature, made = (types.int64, typeof(moved)), device.compiled
    monkeypatch.setenv("BELATED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(device.cuda, "get_current_device", lambda: SimpleNamespace(compute_capability=CAPABILITY))
    monkeypatch.setattr(device._Kernel, "bind", lambda kernel: None)
    times: list[Any] = []
    monkeypatch.setattr(device, "compiled", lambda *given: times.append(given) or made(*given))
    with no_device():
        first, second = (device.launched(turn)._cache.load_overload(signature, None) for _ in range(2))
    assert len(times) == 1 and first.argument_types == second.argument_types == signature
    (file,) = tmp_path.glob("cuda-*")
    file.write_bytes(b"damaged")
    with no_device():
        assert device.launched(turn)._cache.load_overload(signature, None).entry_name == device.ENTRY
    assert len(times) == 2


def test_the_elementary_functions_compile_for_a_gpu() -> None:
    def all_of_them(out, x):
        out[0] = elementary.log(x)
        out[1] = elementary.log1p(x)
        out[2] = elementary.exp(x)
        out[3] = elementary.expm1(x)
        out[4] = elementary.erf(x)
        out[5] = elementary.erfc(x)
        out[6], out[7] = elementary.sin_cos_turns(x)

    assert not strange(ptx(all_of_them, types.float64[::1], types.float64))


@pytest.mark.parametrize("function", [math.log, math.exp, math.sin, math.erf])
def test_the_systems_functions_are_noticed(function: Any) -> None:
    def one_of_them(out, x):
        out[0] = function(x)

    assert strange(ptx(one_of_them, types.float64[::1], types.float64))


def test_root_and_quotient_are_exact() -> None:
    def both(out, x):
        out[0] = math.sqrt(x) / (x + out[1] * x)

    text = ptx(both, types.float64[::1], types.float64)
    assert "sqrt.rn.f64" in text and "div.rn.f64" in text and not strange(text)
