"""Our own elementary functions: true to the last digit, and the same bits compiled, in plain Python and anywhere."""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated.kernels import elementary
from belated.kernels.compile import COMPILED, kernel, plain
from belated.kernels.elementary import erf, erfc, exp, expm1, log, log1p, sin_cos_turns

MANY = 1_000_000 if COMPILED else 2_000
FEW = 2_000
INF, NAN = math.inf, math.nan
#: Numbers at which formulas change or break.
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.797e308, 0.5, 2.0,
    0.7, -0.7, 0.41, -0.3, 6.0, -6.0, 27.3, 36.7, 40.0, -37.5, 709.782712893384, 709.7827128933841, -745.1332191019412,
    -745.1332191019413, -708.4, 0.25, 0.125, 0.375, 1e-17, -1e-17, 1e-300, -1e-300, 2.0**40, 2.0**53, 1e300, 0.70703125,
]  # fmt: skip


@kernel
def sine(v):
    return sin_cos_turns(v)[0]


@kernel
def cosine(v):
    return sin_cos_turns(v)[1]


def spread(draws: np.random.Generator, size: int, low: float, high: float) -> Any:
    """Half of them even, half of all sizes down to 1e-18."""
    even = draws.uniform(low, high, size - size // 2)
    small = draws.uniform(low, high, size // 2) * 2.0 ** -draws.integers(0, 60, size // 2)
    return np.concatenate([even, small])


def sinus(x: Decimal) -> Decimal:
    term, total, n = x, x, 1
    while abs(term) > Decimal(10) ** -60:
        term *= -x * x / ((n + 1) * (n + 2))
        total += term
        n += 2
    return total


def error_function(x: Decimal) -> Decimal:
    term, total, n = x, x, 0
    while abs(term) > Decimal(10) ** -380:
        n += 1
        term *= -x * x / n
        total += term / (2 * n + 1)
    return 2 * total / PI.sqrt()


with localcontext() as digits:
    digits.prec = 400

    # Machin's formula.
    def arc(n: int) -> Decimal:
        return sum(((-1) ** k * Decimal(1) / ((2 * k + 1) * Decimal(n) ** (2 * k + 1)) for k in range(300)), Decimal(0))

    PI = 16 * arc(5) - 4 * arc(239)

#: Each function, the truth, the arguments it is used with (from, to), and how far it may be off.
FUNCTIONS: dict[str, tuple[Any, Callable[[Decimal], Decimal], tuple[float, float], float]] = {
    "log": (log, Decimal.ln, (0.0, 1e4), 0.51),
    "log1p": (log1p, lambda x: (1 + x).ln(), (-1.0, 9.0), 0.9),
    "exp": (exp, Decimal.exp, (-745.0, 709.0), 0.7),
    "exp near 0": (exp, Decimal.exp, (-2.0, 2.0), 0.7),
    "expm1": (expm1, lambda x: x.exp() - 1, (-38.0, 42.0), 0.85),
    "expm1 near 0": (expm1, lambda x: x.exp() - 1, (-2.0, 2.0), 0.85),
    "sine": (sine, lambda v: sinus(2 * PI * v), (0.0, 1.0), 0.9),
    "cosine": (cosine, lambda v: sinus(2 * PI * (Decimal("0.25") - v)), (0.0, 1.0), 0.9),
    "erf": (erf, error_function, (-6.0, 6.0), 0.9),
    "erfc": (erfc, lambda x: 1 - error_function(x), (-6.0, 6.0), 1.0),
    "erfc far out": (erfc, lambda x: 1 - error_function(x), (5.0, 12.0), 1.0),
}


@kernel
def fill(function, xs, out):
    for i in range(len(xs)):
        out[i] = function(xs[i])


def values(function: Any, xs: Any) -> Any:
    out = np.zeros(len(xs))
    fill(function, xs, out)
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_one_unit_in_the_last_place(name: str) -> None:
    function, truth, (low, high), most = FUNCTIONS[name]
    slow = "erf" in name
    xs = spread(np.random.default_rng(3), FEW // 10 if slow else FEW, low, high)
    worst = 0.0
    with localcontext() as digits:
        digits.prec = 400 if slow else 70
        for x in xs.tolist():
            if x <= low:
                continue
            true = truth(Decimal(x))
            off = abs(Decimal(float(function(x))) - true) / Decimal(math.ulp(float(true)))
            worst = max(worst, float(off))
    assert 0.1 < worst <= most


def test_special_values() -> None:
    assert [log(0.0), log(1.0), log(INF), log1p(-1.0), log1p(INF)] == [-INF, 0.0, INF, -INF, INF]
    assert [exp(0.0), exp(INF), exp(-INF), exp(710.0), exp(-746.0)] == [1.0, INF, 0.0, INF, 0.0]
    assert [expm1(0.0), expm1(INF), expm1(-INF), expm1(710.0)] == [0.0, INF, -1.0, INF]
    assert [erf(0.0), erf(INF), erf(-INF), erfc(0.0), erfc(INF), erfc(-INF)] == [0.0, 1.0, -1.0, 1.0, 0.0, 2.0]
    assert [sin_cos_turns(v) for v in (0.0, 0.25, 0.5, 0.75, 1.0, 3.25)] == [
        (0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 1.0), (1.0, 0.0)
    ]  # fmt: skip
    for function in (log, log1p):
        assert math.isnan(function(-2.0)) and math.isnan(function(-INF))
    for function in (log, log1p, exp, expm1, erf, erfc, sine, cosine):
        assert math.isnan(function(NAN))
    assert math.isnan(sine(INF)) and math.isnan(cosine(-INF))


def arguments(name: str, size: int) -> Any:
    low, high = FUNCTIONS[name][2]
    return np.concatenate([SPECIAL, spread(np.random.default_rng(5), size, low, high)])


#: The digest of what each function gives for its arguments. These are the bits, on every machine.
BITS = {
    "log": "3813b7f35ddd56a6",
    "log1p": "cc55f1a457768ff6",
    "exp": "646407477792f1f7",
    "exp near 0": "abb45f542c1043de",
    "expm1": "ef0c77d9b166ff27",
    "expm1 near 0": "c268c863d90dd587",
    "sine": "4394edf18f17f2e2",
    "cosine": "b4b53b4c44bb8665",
    "erf": "06609a1c99d49d19",
    "erfc": "d837fbdcdb0f7412",
    "erfc far out": "bd6a6c5b91226b1a",
}


def digest(results: Any) -> str:
    return hashlib.sha256(np.where(np.isnan(results), 0.0, results).astype("<f8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_bits_on_every_machine(name: str) -> None:
    assert digest(values(FUNCTIONS[name][0], arguments(name, FEW))) == BITS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_python_gives_the_same_bits(name: str) -> None:
    function = FUNCTIONS[name][0]
    xs = arguments(name, MANY)
    compiled = values(function, xs)
    chosen = np.concatenate([np.arange(len(SPECIAL)), np.random.default_rng(7).choice(len(xs), FEW)])
    slowly = np.array([plain(function)(x) for x in xs[chosen].tolist()])
    assert digest(slowly) == digest(compiled[chosen])


@pytest.mark.parametrize("name", ["log", "log1p", "exp", "exp near 0", "expm1 near 0"])
def test_they_rise(name: str) -> None:
    xs = arguments(name, MANY // 10)[len(SPECIAL) :]
    xs = xs[xs > FUNCTIONS[name][2][0]]
    assert (values(FUNCTIONS[name][0], xs) <= values(FUNCTIONS[name][0], np.nextafter(xs, INF))).all()


def test_products_are_not_fused_with_sums() -> None:
    @kernel
    def left(a, b, c):
        most = 0.0
        for i in range(len(a)):
            most = max(most, abs(a[i] * b[i] + c[i]), abs(c[i] + b[i] * a[i]))
        return most

    a, b = np.random.default_rng(0).random((2, 1000))
    assert left(a, b, -(a * b)) == 0.0


#: What kernels may take from the libraries: exact by the standard, or no arithmetic at all.
EXACT = {"sqrt", "floor", "copysign", "isfinite", "inf", "nan", "int32", "uint64", "int64", "float64"}


def kernels_in(folder: Path) -> list[tuple[str, ast.FunctionDef]]:
    """The functions without annotations: kernels, and nothing else."""
    found = []
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = [a.annotation for a in node.args.args if a.arg not in ("self", "cls")]
                if node.returns is None and not any(given):
                    found.append((f"{file.parent.name}/{file.name}", node))
    return found


@pytest.mark.parametrize("folder", ["kernels", "learners", "games", "delays", "forecasters", "engine", "engine/cuda"])
def test_kernels_use_nothing_else(folder: str) -> None:
    kernels = kernels_in(Path(bl.__file__).parent / folder)
    assert len(kernels) > 5 or folder in ("delays", "forecasters", "engine")
    for file, function in kernels:
        for node in ast.walk(function):
            place = f"{file}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("math", "np"):
                assert node.attr in EXACT, f"{place} uses {node.value.id}.{node.attr}"
            assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)), f"{place} raises to a power"


def test_tables_are_exact() -> None:
    assert elementary.INVERSE.min() > 0.7 and elementary.INVERSE.max() < 1.4143
    assert (np.round(elementary.INVERSE * 512) == elementary.INVERSE * 512).all()
    assert (np.round(elementary.LOG * 2.0**33) == elementary.LOG * 2.0**33).all()
    assert np.abs(elementary.LOG + elementary.LOG_LOW + np.log(elementary.INVERSE)).max() < 1e-16


if __name__ == "__main__":
    for each in FUNCTIONS:
        print(f'    "{each}": "{digest(values(FUNCTIONS[each][0], arguments(each, FEW)))}",')
