"""kill -9 at any moment: what was finished is kept whole, and a second run gives what an undisturbed one gives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from belated.studies.results import Results
from belated.studies.store import Store
from belated.studies.study import Study

STUDY = """
rounds = 60_000
replications = [2, 3, 4]
seed = 5
forecasters = ["bold(ucb1)", "delayeducb1"]
games = ["bernoulli([0.3, 0.5, 0.7])"]
delays = ["constant(10)", "geometric(mean=20)", "pareto(mean=20)", "constant(0)", "poisson(30)"]
"""


def start(folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "belated.cli", "run", str(folder / "study.toml"), "--out", str(folder / "out")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return Study.parse(STUDY).run(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize(
    "finished", [pytest.param(0, marks=pytest.mark.minutes), 3, pytest.param(20, marks=pytest.mark.minutes)]
)
def test_a_killed_study_goes_on_where_it_was(tmp_path, undisturbed, finished):
    (tmp_path / "study.toml").write_text(STUDY)
    cells = tmp_path / "out" / "cells"
    process = start(tmp_path)
    deadline = time.monotonic() + 120
    while len(list(cells.glob("*.parquet"))) < finished or not cells.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    kept = {path.stem for path in cells.glob("*.parquet")}
    assert len(kept) >= finished
    expected = {cell.key: result for cell, result in undisturbed}
    store = Store(cells)
    for key in kept:  # what is there is whole
        assert np.array_equal(store.load(key).columns["regret"], expected[key].regret)
    again = start(tmp_path)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert (f"{len(kept)} reused" in out) == bool(kept)
    final = Results.load(tmp_path / "out")
    assert final.frame().drop("seconds").equals(undisturbed.frame().drop("seconds"))
    assert not list(cells.glob(".*.tmp"))
