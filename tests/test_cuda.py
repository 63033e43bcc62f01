"""The engine for GPUs on a machine that has none: in Numba's simulator, and its turns compiled for a CPU.

A process is a simulator or not. So the tests of tests/simulated.py run in a process that one test of this file starts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda")

from numba import types
from numba.np.numpy_support import from_dtype

import belated as bl
from belated.checks.contract import COMPARED, arena
from belated.engine.cuda import device, spread
from belated.errors import BadKernel, Unsupported
from belated.kernels.compile import COMPILED, kernel
from tests import simulated
from tests.simulated import FEW, GAME, both, few, same, small

__all__ = ["small"]  # a fixture

ROOT = Path(bl.__file__).parents[1]
pytestmark = pytest.mark.skipif(not COMPILED, reason="what is compiled is looked at")


def test_everything_in_the_simulator(tmp_path: Path) -> None:
    environment = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    tests = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-W", "error", simulated.__file__]
    for command in (["-c", f"from tests.simulated import write; write({str(tmp_path)!r})"], tests):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    for forecaster in FEW:
        here = bl.play(forecaster, GAME, bl.delays.Geometric(mean=9), 60, 4, 8, record=True, engine="compiled")
        there = np.load(tmp_path / f"{type(forecaster).__name__}.npz")
        for name in COMPARED:
            assert np.array_equal(there[name], getattr(here, name)), name


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_the_program_by_hand_plays_what_we_play(tmp_path: Path) -> None:
    program = tmp_path / "by_hand"
    flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-x", "c++"]
    subprocess.run(["g++", *flags, str(ROOT / "benchmarks/by_hand.cu"), "-o", str(program)], check=True, timeout=120)
    said = json.loads(subprocess.run([str(program), "4", "700"], capture_output=True, check=True, timeout=60).stdout)
    game = bl.games.Bernoulli([0.05 * (10 - arm) for arm in range(10)])
    ours = bl.play(bl.Direct(bl.UCB1(10)), game, bl.delays.Constant(100), 700, 4, 0, engine="python")
    assert said["regret"] == pytest.approx(ours.regret[:, -1].mean(), rel=1e-12)


class Compiled(device.Host):
    """Turns compiled for the CPU, one lane after the other."""

    def run(self, turn: Any, count: int, work: Any) -> None:
        every(turn)(count, work)


def every(turn: Any) -> Any:
    def loop(count, work):
        for i in range(count):
            turn(i, work)

    return kernel(loop)


@pytest.mark.minutes
@few
def test_turns_compiled_for_a_cpu(forecaster: Any, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "find", Compiled)
    same(*both(forecaster, GAME, bl.delays.Uniform(0, 40), 200))


@pytest.mark.minutes
@pytest.mark.parametrize(("name", "rule"), [("percontext", bl.BOLD), ("cbp", bl.SDB)])
def test_turns_with_values_and_a_supply_compiled_for_a_cpu(
    name: str, rule: Any, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "find", Compiled)
    learner = bl.catalog.LEARNERS[name].example()
    same(*both(rule(learner), arena(learner, 200), bl.delays.Geometric(mean=9), 200))


def test_compiled_code_is_known_by_how_records_are_laid_out() -> None:
    """Code is kept under the text of its types: no two of these may be alike."""
    dtype = np.dtype([("one", "f8"), ("many", "f8", (3,))])
    kinds = [from_dtype(dtype), *(spread.spread(dtype, width) for width in (1, spread.TOGETHER))]
    for each in (kinds, [kind.typeof("many") for kind in kinds], [types.Array(kind, 1, "C") for kind in kinds]):
        assert len({str((kind,)) for kind in each}) == len({str(kind) for kind in each}) == len(kinds)


def test_what_threads_have_close_by_has_a_place_for_each() -> None:
    with pytest.raises(AssertionError, match="neighbours would all have the same place"):
        spread.nearby(spread.spread(np.dtype([("one", "f8")]), 1), 1)


@pytest.mark.skipif(device.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_one_line(tmp_path: Path) -> None:
    wanted = 'engine="cuda" needs an NVIDIA GPU and its driver, and finds none'
    with pytest.raises(Unsupported) as caught:
        bl.play(FEW[0], GAME, bl.delays.Constant(5), 20, engine="cuda")
    assert str(caught.value) == wanted
    for command in (["play", "bold(exp3)"], ["run", "examples/study.toml", "--out", str(tmp_path)]):
        done = subprocess.run(
            [sys.executable, "-m", "belated", *command, "--engine", "cuda"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr.strip().splitlines()[-1:]) == (1, [f"error: {wanted}"]), done.stderr


def test_without_the_extra_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    known = device.importlib.util.find_spec
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else known(name))
    monkeypatch.delitem(sys.modules, "belated.engine.cuda.device")
    with pytest.raises(Unsupported, match=r'engine="cuda" needs numba-cuda: install belated\[cuda\]'):
        bl.play(FEW[0], GAME, bl.delays.Constant(5), 20, engine="cuda")


def test_a_plain_learner_is_refused() -> None:
    class Mine:
        actions = 3

        def predict(self, context: Any) -> tuple[int, float]:
            return 0, 1.0

        def update(self, *told: Any) -> None:
            pass

    with pytest.raises(Unsupported, match="only learners that are specs have kernels"):
        bl.play(bl.Direct(Mine), GAME, bl.delays.Constant(5), 20, engine="cuda")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--engine", "cuda", "--threads", "2"], "--threads 2 is not for --engine cuda"),
        (["--engine", "cuds"], "did you mean 'cuda'?"),
    ],
)
def test_what_goes_with_the_engine_on_the_command_line(given: list[str], wanted: str, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from belated.cli import app

    done = CliRunner().invoke(app, ["run", "examples/study.toml", "--out", str(tmp_path), *given])
    assert done.exit_code == 1 and wanted in done.output


class Allocates(bl.UCB1):
    @staticmethod
    def predict(params, state, context, draw):
        wanted = np.zeros(3)
        return int(wanted[0]), 1.0


class Raises(bl.games.Bernoulli):
    @staticmethod
    def regret(params, memory):
        if memory[0] > 1e9:
            raise ValueError
        return 0.0


@pytest.mark.parametrize(
    ("learner", "game", "wanted"),
    [
        (
            Allocates(3),
            GAME,
            r"Allocates\(actions=3\), predict, .*cuda.py, line \d+: it allocates .* a GPU cannot",
        ),
        (
            bl.UCB1(3),
            Raises([0.1, 0.2, 0.3]),
            r"Raises\(.*\), regret, .*: it raises an exception.*a GPU cannot",
        ),
    ],
)
def test_what_a_gpu_cannot_do_is_said_by_name_and_line(learner: Any, game: Any, wanted: str) -> None:
    with pytest.raises(BadKernel, match=wanted):
        bl.play(bl.Direct(learner), game, bl.delays.Constant(5), 20, engine="cuda")
