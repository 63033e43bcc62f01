"""On a GPU: `make gpu` runs these where there is one. They are the tests of the simulator, and longer plays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba_cuda")

import belated as bl
from tests.simulated import (
    FEW,
    GAME,
    both,
    few,
    grown,
    same,
    small,
    test_a_game_that_announces,
    test_cells_are_those_of_any_other_engine,
    test_errors_are_those_of_the_cpu,
    test_every_pair,
    test_everything_grows_and_nothing_changes,
    test_it_can_be_stopped,
    test_laws_and_expiry,
    test_plays_are_those_of_the_cpu,
)

__all__ = [
    "grown",
    "small",
    "test_a_game_that_announces",
    "test_cells_are_those_of_any_other_engine",
    "test_errors_are_those_of_the_cpu",
    "test_every_pair",
    "test_everything_grows_and_nothing_changes",
    "test_it_can_be_stopped",
    "test_laws_and_expiry",
    "test_plays_are_those_of_the_cpu",
]

pytestmark = pytest.mark.gpu


@few
@pytest.mark.parametrize("law", [bl.delays.Constant(100), bl.delays.Pareto(mean=100)], ids=repr)
def test_a_thousand_replications_are_those_of_the_cpu(forecaster: Any, law: Any) -> None:
    same(*both(forecaster, GAME, law, 10_000, replications=1000))


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    play = "import belated as bl; bl.play(bl.Direct(bl.UCB1(3)), bl.games.Bernoulli([.2, .5, .9]), "
    play += "bl.delays.Constant(5), 100, 4, engine='cuda')"
    kept = []
    for _ in range(2):
        environment = {**os.environ, "BELATED_CACHE_DIR": str(tmp_path)}
        subprocess.run([sys.executable, "-c", play], env=environment, check=True, timeout=300)
        kept.append({file.name: file.stat().st_mtime_ns for file in tmp_path.glob("cuda-*")})
    assert kept[0] and kept[0] == kept[1]


@pytest.mark.parametrize("replications", [1, 31, 33, 100_000])
def test_any_number_of_replications(replications: int) -> None:
    same(*both(FEW[0], GAME, bl.delays.Geometric(mean=20), 100, replications=replications))
