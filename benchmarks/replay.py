"""How fast a log is replayed, and in how much memory.

    python benchmarks/replay.py [--rows 1000000] [--actions 2] [--side]

A logger that draws evenly among the actions, feedback after 20 rounds, four forecasters in ten lives each; with
`--side` three numbers of side information, which three of the four look at, so that they must be asked anew in every
round. The fewer actions, the more rounds are lived through: two are the hard case. Time on the wall depends on what
else the machine does; time of the processor is what it would be on a quiet one.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import polars as pl

import belated as bl

NAMES = ["bold(exp3)", "direct(ucb1)", "qpmd(ucb1)", "direct(thompsonbernoulli)"]
LOOKING = ["direct(linucb)", "bold(linucb)", "direct(linearthompson)", "direct(ucb1)"]


def log(rows: int, actions: int, side: bool) -> pl.DataFrame:
    draws = np.random.default_rng(0)
    taken, means = draws.integers(actions, size=rows), np.linspace(0.2, 0.8, actions)
    columns = {"action": taken, "value": (draws.random(rows) < means[taken]).astype(float)}
    columns |= {"decided_at": np.arange(rows), "closed_at": np.arange(rows) + 20}
    if side:
        columns |= {f"x{number}": draws.random(rows) for number in range(3)}
    return pl.DataFrame(columns).with_columns(probability=pl.lit(1.0 / actions))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--actions", type=int, default=2)
    parser.add_argument("--side", action="store_true")
    given = parser.parse_args()
    frame = log(given.rows, given.actions, given.side)
    names, columns = (LOOKING, {"context": ["x0", "x1", "x2"]}) if given.side else (NAMES, {})
    bl.replay(frame[: 1000 * given.actions], names, runs=2, **columns)  # compiles
    began, used = time.perf_counter(), time.process_time()
    bl.replay(frame, names, policies="uniform", **columns)
    wall, processor = time.perf_counter() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{given.rows:,} rows, {given.actions} actions, {len(names)} forecasters: {wall:.0f} s on the wall, "
        f"{processor:.0f} s of the processor, {memory:,.0f} megabytes"
    )


if __name__ == "__main__":
    main()
