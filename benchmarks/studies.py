"""What a study costs beyond its cells, and how long the paper takes.

    python benchmarks/studies.py overhead [--cells 1000] [--seconds 0.5]
    python benchmarks/studies.py paper [--cold]
    python benchmarks/studies.py figures

`overhead` runs many cells of about so many seconds each and compares the time that passed, over all cores, with the
time inside the engine. `paper` runs `belated paper` in a fresh folder; `--cold` with an empty cache of compiled code.
`figures` draws the 144 cells of examples/delay.toml, played for few rounds, against delay (3 panels) and round (24).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import belated as bl
from belated.studies import Play
from belated.studies.run import run_cells
from belated.studies.store import Store


def overhead(cells: int, seconds: float) -> None:
    """Time that passed x cores, over time inside the engine."""
    game, law = bl.games.Bernoulli([0.3, 0.4, 0.5, 0.6, 0.7]), bl.delays.Constant(100)

    def cell(rounds: int, seed: int) -> Play:
        return Play(bl.DelayedUCB1(5), game, law, rounds, 10, seed)

    cell(1000, 0).play(lambda done, total: None)  # compile
    sample = cell(200_000, 0).play(lambda done, total: None)
    rounds = int(200_000 * seconds / sample.seconds)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done, _ = run_cells(study := [cell(rounds, seed) for seed in range(cells)], Store(folder))
        elapsed = time.perf_counter() - began
        inside = [done[c].seconds for c in study]
        began = time.perf_counter()
        run_cells(study, Store(folder))
        again = time.perf_counter() - began
    cores = os.cpu_count() or 1
    print(f"{cells} cells of {min(inside):.2f} to {max(inside):.2f} s in the engine, {cores} cores")
    share = elapsed * cores / sum(inside) - 1
    print(f"passed {elapsed:.1f} s, engine {sum(inside) / cores:.1f} s a core: overhead {share:.2%}")
    print(f"a second run, all reused: {again:.1f} s")


def figures() -> None:
    """How long it takes to draw 144 cells, matplotlib's own first time apart."""
    text = (Path(__file__).parent.parent / "examples" / "delay.toml").read_text().replace("10_000", "500")
    with tempfile.TemporaryDirectory() as folder:
        results = bl.studies.Study.parse(text).run(folder)
        results.pairs[0][1].plot(Path(folder) / "first.png")
        for x in ("delay", "peak", 0.9, "round"):
            passed, spent = time.perf_counter(), time.process_time()
            results.plot(Path(folder) / "figure.png", x=x)
            passed, spent = time.perf_counter() - passed, time.process_time() - spent
            print(f"{len(results)} cells by {x}: {passed:.2f} s, {spent:.2f} s of one processor")


def paper(cold: bool) -> None:
    """Run the paper in a fresh folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if cold:
            environment["BELATED_CACHE_DIR"] = str(Path(folder) / "cache")
        command = [sys.executable, "-m", "belated.cli", "paper", "--out", str(Path(folder) / "paper")]
        began = time.perf_counter()
        subprocess.run(command, check=True, env=environment)
        print(f"{'cold' if cold else 'warm'}: {time.perf_counter() - began:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", required=True)
    chosen = what.add_parser("overhead")
    chosen.add_argument("--cells", type=int, default=1000)
    chosen.add_argument("--seconds", type=float, default=0.5)
    what.add_parser("paper").add_argument("--cold", action="store_true")
    what.add_parser("figures")
    given = parser.parse_args()
    if given.what == "overhead":
        overhead(given.cells, given.seconds)
    elif given.what == "figures":
        figures()
    else:
        paper(given.cold)


if __name__ == "__main__":
    main()
