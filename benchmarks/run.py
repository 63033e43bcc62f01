"""Measures belated against a C++ loop and its peers, side by side, and prints one table.

``python benchmarks/run.py`` with the interpreter that has belated's dependencies; see ``--help``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from install import HERE, MAIN, OLDER, MissingError, compile_reference, environment_of, last_line
from rows import HEADER, ROUNDS, ROWS, Results, Row, table

LATEST = HERE / "results" / "latest.json"
REPEATS = 3
"""Timed runs inside one process; the fastest counts."""


class Bench:
    """Runs cells, each in a process of its own, and keeps the best result of each."""

    def __init__(self, quick: bool, reference: Path | None, reference_error: str) -> None:
        self.quick = quick
        self.reference = reference
        self.reference_error = reference_error
        self.results: Results = {}

    def command(self, cell: str, rounds: int, repeats: int) -> list[str]:
        """The command line of a cell."""
        side, name = cell.split(":")
        if side == "ours":
            name = name.removesuffix("-long")
            return [sys.executable, str(HERE / "ours.py"), name, str(rounds), str(repeats)]
        if side == "cpp":
            if self.reference is None:
                raise MissingError(self.reference_error)
            kind, _, lanes = name.rpartition("-")
            program = self.reference.with_name("lanes") if kind == "lanes" else self.reference
            return [str(program), str(rounds), lanes, str(repeats)]
        python = environment_of(name.split("-")[0]).python
        return [str(python), str(HERE / "peers.py"), name, str(rounds), str(repeats)]

    def run(self, cell: str, rounds: int, repeats: int) -> dict[str, Any]:
        """Run a cell once; a failure becomes ``{"error": one line}``."""
        # The checkout is measured, installed or not; the peers' linear algebra gets one thread like ours.
        environ = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if cell.startswith("ours:"):
            environ = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        try:
            done = subprocess.run(
                self.command(cell, rounds, repeats),
                capture_output=True,
                text=True,
                timeout=300,
                env=environ,
                check=False,
            )
        except MissingError as error:
            return {"error": str(error)}
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"error": f"did not run: {error}"}
        if done.returncode != 0:
            return {"error": last_line(done.stderr) or f"ended with {done.returncode}"}
        result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return result

    def measure(self, cells: list[str], passes: int) -> None:
        """Measure a group in turn, pass after pass, so that a noisy moment hits all of them."""
        for cell in cells:
            if cell.startswith("ours:"):  # compiles what is not compiled yet, outside every measurement
                self.keep(cell, self.run(cell, 1_000, 1), warming=True)
        for number in range(passes):
            for cell in cells:
                if "error" in self.results.get(cell, {}):
                    continue
                show(f"pass {number + 1} of {passes}: {cell}")
                # Nothing is gained by repeating a long play inside one process to see its peak memory.
                repeats = 1 if "memory" in cell else REPEATS
                self.keep(cell, self.run(cell, ROUNDS[cell][self.quick], repeats))
        show("")

    def keep(self, cell: str, result: dict[str, Any], warming: bool = False) -> None:
        """Keep the better of this and what was there; an error always stays."""
        if "error" in result:
            self.results[cell] = result
        elif not warming:
            old = self.results.get(cell)
            if old is None or cost(result) < cost(old):
                self.results[cell] = result


def cost(result: dict[str, Any]) -> float:
    """What is smallest in the best of several results."""
    return float(result.get("peak_mb", result["seconds"]))


def show(text: str) -> None:
    """A line of progress that the next one overwrites; nothing where the output is not a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def notes(results: Results) -> list[str]:
    """One line for each thing that has no result, the same complaint of several cells said once."""
    errors: dict[str, list[str]] = {}
    for cell, result in results.items():
        if "error" in result:
            errors.setdefault(result["error"], []).append(cell)
    return [f"missing: {', '.join(cells)}: {error}" for error, cells in errors.items()]


def save(rows: list[Row], results: Results, quick: bool) -> None:
    """Write the table and every cell behind it as JSON."""
    LATEST.parent.mkdir(exist_ok=True)
    content = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "peers": {**MAIN.peers, **OLDER.peers},
        "header": HEADER,
        "table": [row.line(results) for row in rows],
        "rows": [row.record(results) for row in rows],
        "cells": results,
        "notes": notes(results),
    }
    LATEST.write_text(json.dumps(content, indent=2) + "\n")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure belated against a C++ loop and its peers, side by side.")
    parser.add_argument("--quick", action="store_true", help="shorter plays and one pass: a first impression")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the rows whose name contains TEXT")
    parser.add_argument("--passes", type=int, help="how often each cell is measured (3; with --quick 1)")
    return parser.parse_args()


def main() -> None:
    """Prepare, measure group by group, print, save."""
    args = options()
    passes = args.passes or (1 if args.quick else 3)
    rows = [row for row in ROWS if args.only.lower() in row.what.lower()]
    if not rows:
        sys.exit(f"no row contains {args.only!r}; the rows are:\n" + "\n".join(f"  {row.what}" for row in ROWS))
    others = [row.other or "" for row in rows]
    for environment in (MAIN, OLDER):
        if any(other.startswith(f"peer:{peer}-") for other in others for peer in environment.peers):
            environment.prepare()
    with tempfile.TemporaryDirectory() as folder:
        reference, complaint = None, ""
        if any(other.startswith("cpp:") for other in others):
            try:
                reference = compile_reference(Path(folder))
            except MissingError as error:
                complaint = f"the C++ loop was not compiled: {error}"
        bench = Bench(args.quick, reference, complaint)
        for _, group in groupby(rows, key=lambda row: row.ours):
            cells = [cell for row in group for cell in (row.ours, row.other) if cell]
            bench.measure(list(dict.fromkeys(cells)), passes)
    print(table([row.line(bench.results) for row in rows]))
    for note in notes(bench.results):
        print(note)
    if not args.only:
        save(rows, bench.results, args.quick)
        print(f"saved to {LATEST.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
