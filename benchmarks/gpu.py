"""Decisions a second on a GPU, beside all cores of the same machine; for each cell whether both gave the same bits.

    python benchmarks/gpu.py [--short]

A speed is that of the whole call of `play`, from the call to the certified result, the best of three. Compilation is
not counted: each cell is played once before. The first cell is also played by a CUDA program written for it alone
(`by_hand.cu`, where there is nvcc, or what NVCC names). The last line is a million replications of 100,000 rounds in a
process of their own, from its start to its end.
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
GAME, LATE, LATER = bl.games.Bernoulli(MEANS), bl.delays.Constant(100), bl.delays.Geometric(mean=100)
#: name, forecaster, game, law, and the least that is wanted, in G decisions a second on an H200.
CELLS: tuple[tuple[str, Any, Any, Any, float], ...] = (
    ("UCB1, constant 100", bl.Direct(bl.UCB1(10)), GAME, LATE, 25.0),
    ("BOLD(Exp3), constant 100", bl.BOLD(bl.Exp3(10)), GAME, LATE, 8.0),
    ("UCB1, geometric 100", bl.Direct(bl.UCB1(10)), GAME, LATER, 1.2),
    ("QPMD(UCB1), geometric 100", bl.QPMD(bl.UCB1(10)), GAME, LATER, 0.8),
    ("KLUCB, constant 100", bl.Direct(bl.KLUCB(10)), GAME, LATE, 1.5),
    ("Thompson, constant 100", bl.Direct(bl.ThompsonBernoulli(10)), GAME, LATE, 0.7),
    ("LinUCB, d = 8, constant 100", bl.Direct(bl.LinUCB(10, 8)), bl.games.Linear(ARMS), LATE, 0.2),
)
#: Rounds of each: a second or a few on an H200.
ROUNDS = (200_000, 50_000, 20_000, 50_000, 50_000, 10_000, 10_000)
MILLION = """
import belated as bl
game, delays = bl.games.Bernoulli({means}), bl.delays.Constant(100)
r = bl.play(bl.Direct(bl.UCB1(10)), game, delays, {rounds}, {replications}, engine="cuda")
assert r.certificate and len(r.regret) == {replications}
"""


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


def a_million(rounds: int, replications: int) -> None:
    """Many replications, from the start of a process to its end."""
    program = MILLION.format(means=MEANS, rounds=rounds, replications=replications)
    took, _ = seconds(subprocess.run, [sys.executable, "-c", program], check=True)
    print(
        f"{replications:,} replications of {rounds:,} rounds of the first, with the process: {took:.1f} s", flush=True
    )


def main(short: bool) -> None:
    replications, few = (256, 64) if short else (50_688, 1000)
    print(f"{replications:,} replications on the GPU, {few:,} on the CPU")
    print(f"{'':30}{'rounds':>8}{'GPU, G/s':>10}{'wanted':>8}{'CPU, G/s':>10}{'ratio':>8}  same bits")
    for (name, forecaster, game, law, wanted), most in zip(CELLS, ROUNDS, strict=True):
        rounds = 200 if short else most
        what = (forecaster, game, law, rounds)
        for engine in ("cuda", "compiled"):
            bl.play(*what[:3], 200, 2, engine=engine)
        took, there = min(
            (seconds(bl.play, *what, replications, engine="cuda") for _ in range(3)), key=lambda each: each[0]
        )
        took_here, here = seconds(bl.play, *what, few, engine="compiled")
        speed, speed_here = rounds * replications / took / 1e9, rounds * few / took_here / 1e9
        same = all(np.array_equal(getattr(there, each)[:few], getattr(here, each)) for each in COMPARED)
        said = f"{name:30}{rounds:8,}{speed:10.3f}{wanted:8.1f}{speed_here:10.3f}{speed / speed_here:8.1f}"
        print(f"{said}  {same}", flush=True)
        if name == CELLS[0][0]:
            by_hand(rounds, replications, float(there.regret[:, -1].mean()))
    a_million(*(200, 1000) if short else (100_000, 1_000_000))


if __name__ == "__main__":
    main("--short" in sys.argv)
