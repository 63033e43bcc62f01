"""Decisions a second on a GPU, beside all cores of the same machine; for each cell whether both gave the same bits.

    python benchmarks/gpu.py [--short]

Compilation is not counted: each cell is played once before. The first cell is also played by a CUDA program written for
it alone (`by_hand.cu`, where there is nvcc, or what NVCC names). Nothing here has been run on a device yet.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from install import MissingError, compile_by_hand
from setting import MEANS

import belated as bl

ARMS = np.random.default_rng(1).uniform(0.0, 0.125, (10, 8))
#: What both must give.
COMPARED = ("regret", "peak", "pulls", "total")
#: name, forecaster, game, law, and the least that is wanted, in G decisions a second on an H200.
CELLS: tuple[tuple[str, Any, Any, Any, float], ...] = (
    ("UCB1, constant 100", bl.Direct(bl.UCB1(10)), bl.games.Bernoulli(MEANS), bl.delays.Constant(100), 25.0),
    ("BOLD(Exp3), constant 100", bl.BOLD(bl.Exp3(10)), bl.games.Bernoulli(MEANS), bl.delays.Constant(100), 8.0),
    ("UCB1, geometric 100", bl.Direct(bl.UCB1(10)), bl.games.Bernoulli(MEANS), bl.delays.Geometric(mean=100), 1.2),
    ("QPMD(UCB1), geometric 100", bl.QPMD(bl.UCB1(10)), bl.games.Bernoulli(MEANS), bl.delays.Geometric(mean=100), 0.8),
    ("KLUCB, constant 100", bl.Direct(bl.KLUCB(10)), bl.games.Bernoulli(MEANS), bl.delays.Constant(100), 1.5),
    (
        "Thompson, constant 100",
        bl.Direct(bl.ThompsonBernoulli(10)),
        bl.games.Bernoulli(MEANS),
        bl.delays.Constant(100),
        0.7,
    ),
    ("LinUCB, d = 8, constant 100", bl.Direct(bl.LinUCB(10, 8)), bl.games.Linear(ARMS), bl.delays.Constant(100), 0.2),
)


def seconds(play: Any, *what: Any, **how: Any) -> tuple[float, Any]:
    """How long a play takes from the call to the result, and the result."""
    began = time.perf_counter()
    result = play(*what, **how)
    return time.perf_counter() - began, result


def by_hand(rounds: int, replications: int, regret: float) -> None:
    """The first cell by the CUDA program, and whether the mean regret is that of ours."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            program = compile_by_hand(Path(folder), gpu=True)
        except MissingError as error:
            print(f"by hand: {error}")
            return
        command = [str(program), str(replications), str(rounds), "3"]
        said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    speed = said["decisions"] / said["seconds"] / 1e9
    same = bool(np.isclose(said["regret"], regret, rtol=1e-9, atol=0.0))
    print(f"{'  by hand in CUDA':30}{speed:10.3f}{'':26}  {same}", flush=True)


def main(short: bool) -> None:
    rounds, replications, few = (200, 256, 64) if short else (10_000, 50_688, 1000)
    print(f"{rounds:,} rounds; {replications:,} replications on the GPU, {few:,} on the CPU")
    print(f"{'':30}{'GPU, G/s':>10}{'wanted':>8}{'CPU, G/s':>10}{'ratio':>8}  same bits")
    for name, forecaster, game, law, wanted in CELLS:
        what = (forecaster, game, law, rounds)
        for engine in ("cuda", "compiled"):
            bl.play(*what, 2, engine=engine)
        took, there = seconds(bl.play, *what, replications, engine="cuda")
        took_here, here = seconds(bl.play, *what, few, engine="compiled")
        speed, speed_here = rounds * replications / took / 1e9, rounds * few / took_here / 1e9
        same = all(np.array_equal(getattr(there, each)[:few], getattr(here, each)) for each in COMPARED)
        print(f"{name:30}{speed:10.3f}{wanted:8.1f}{speed_here:10.3f}{speed / speed_here:8.1f}  {same}", flush=True)
        if name == CELLS[0][0]:
            by_hand(rounds, replications, float(there.regret[:, -1].mean()))


if __name__ == "__main__":
    main("--short" in sys.argv)
