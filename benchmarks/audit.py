"""How fast a log is audited, and in how much memory.

    python benchmarks/audit.py [--rows 10000000] [--law lognormal|constant] [--folder DIR]

Writes a Parquet log of ten actions (once; it is kept in the folder) and audits it in a process of its own. `lognormal`
has delays of all lengths, and 30% that never come; `constant` is the hard case, in which the same number is outstanding
all the time, so that the peak may be anywhere and every event is looked at. Time on the wall depends on what else the
machine does; time of the processor over the number of cores is what it would be on a quiet one, at best.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PIECE = 1_000_000
CODE = """
import json, resource, sys, time
began = time.perf_counter()
import belated as bl
found = bl.audit(sys.argv[1], decided="decided_at", observed="converted_at", action="action", reward="reward")
wall = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"rows": found.log.decisions, "wall": wall, "cpu": used.ru_utime + used.ru_stime,
                  "megabytes": used.ru_maxrss / 1024, "peak": found.peak}))
"""


def write(path: Path, rows: int, law: str) -> None:
    """Ten decisions a second, in order, in pieces."""
    draws, moment = np.random.default_rng(0), 1_700_000_000_000_000
    stamp = pa.timestamp("us")
    schema = pa.schema(
        [("decided_at", stamp), ("action", pa.int32()), ("converted_at", stamp), ("reward", pa.float32())]
    )
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, PIECE):
            size = min(PIECE, rows - first)
            steps = draws.exponential(100_000, size) if law == "lognormal" else np.full(size, 100_000)
            decided = moment + np.cumsum(steps.astype(np.int64))
            moment = int(decided[-1])
            delay = draws.lognormal(8, 1.5, size) * 1e6 if law == "lognormal" else np.full(size, 3600e6)
            never = draws.random(size) < (0.3 if law == "lognormal" else 0.0)
            columns = [
                pa.array(decided, stamp),
                pa.array(draws.integers(0, 10, size), pa.int32()),
                pa.array(decided + delay.astype(np.int64), stamp, mask=never),
                pa.array(draws.random(size), pa.float32()),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--law", choices=("lognormal", "constant"), default="lognormal")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "belated-audit")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / f"{given.law}-{given.rows}.parquet"
    if not path.exists():
        write(path, given.rows, given.law)
    load = os.getloadavg()[0]
    told = subprocess.run([sys.executable, "-c", CODE, str(path)], check=True, capture_output=True, text=True).stdout
    found, cores = json.loads(told), os.cpu_count() or 1
    print(f"{found['rows']:,} rows, {given.law}, G* = {found['peak']:,}; {cores} cores, load {load:.1f} before")
    print(f"wall {found['wall']:.1f} s: {found['rows'] / found['wall'] / 1e6:.2f} million rows a second")
    ideal = found["rows"] * cores / found["cpu"] / 1e6
    print(f"processor {found['cpu']:.1f} s: at best {ideal:.2f} million rows a second on {cores} quiet cores")
    print(f"peak memory {found['megabytes']:,.0f} MB")


if __name__ == "__main__":
    main()
