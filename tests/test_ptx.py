"""Every learner under every forecaster compiles for a GPU, and computes there what a CPU does, bit for bit."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest

pytest.importorskip("numba_cuda")

from numba import types

import belated as bl
from belated.checks.contract import allowed
from belated.kernels import elementary
from tests.ptx import pair_ptx, ptx, round_ptx, strange

PAIRS = [(name, f) for name, make in bl.catalog.LEARNERS.items() for f in allowed(make.example())]
#: Each forecaster with one learner.
FEW = [next(pair for pair in PAIRS if pair[1] is each) for each in bl.catalog.FORECASTERS.values()]
if os.environ.get("CI") != "true":
    PAIRS = FEW
#: And learners whose rounds have side information, values of it, or points.
ROUNDS = [*((name, bl.Direct) for name in ("linucb", "percontext", "gradientdescent")), *FEW]


@pytest.mark.parametrize(("name", "forecaster"), PAIRS, ids=[f"{name}-{f.__name__}" for name, f in PAIRS])
def test_a_pair_compiles_for_a_gpu(name: str, forecaster: Any) -> None:
    text = pair_ptx(bl.catalog.LEARNERS[name].example(), forecaster)
    assert ".visible .func" in text and not strange(text)


@pytest.mark.parametrize(
    ("name", "forecaster"),
    [ROUNDS[0], *(pytest.param(*pair, marks=pytest.mark.minutes) for pair in ROUNDS[1:])],
    ids=[f"{name}-{f.__name__}" for name, f in ROUNDS],
)
def test_a_whole_round_compiles_for_a_gpu(name: str, forecaster: Any) -> None:
    text = round_ptx(bl.catalog.LEARNERS[name].example(), forecaster, bl.delays.Geometric(mean=3))
    assert ".visible .func" in text and not strange(text)


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
