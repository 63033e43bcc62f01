"""The cache of compiled code: a second process hits, a changed callee misses, and doing without it works."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap

import pytest
from numba.core.bytecode import FunctionIdentity

from belated.kernels import pointers
from belated.kernels.compile import COMPILED, address, identity, kernel, routine

PROGRAM = """
    import sys, time
    sys.path.insert(0, {folder!r})
    import {module} as m
    from belated.kernels.compile import DiskCache
    missed = []
    save = DiskCache.save_overload
    DiskCache.save_overload = lambda self, sig, data: (missed.append(self._name), save(self, sig, data))
    print(m.outer(2.0), len(missed))
"""
SOURCE = """
    from belated.kernels.compile import kernel, routine
    SHIFT = {shift}

    @routine
    def inner(x):
        return x * {factor} + SHIFT

    def build(f):
        def outer(x):
            return f(x) + 1.0
        return kernel(outer)

    outer = build(inner)
"""


def run(tmp_path, module="changing", cache="cache", source=SOURCE, **values):
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(source.format(**values)))
    program = textwrap.dedent(PROGRAM.format(folder=str(tmp_path), module=module))
    environment = os.environ | {"BELATED_CACHE_DIR": str(tmp_path / cache), "PYTHONDONTWRITEBYTECODE": "1"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()
    return float(found[0]), int(found[1])


def test_second_process_hits_and_a_changed_callee_or_constant_misses(tmp_path):
    value, missed = run(tmp_path, factor=3.0, shift=0.0)
    assert value == 7.0 and missed >= 1
    assert run(tmp_path, factor=3.0, shift=0.0) == (7.0, 0)
    value, missed = run(tmp_path, factor=5.0, shift=0.0)
    assert value == 11.0 and missed >= 1
    value, missed = run(tmp_path, factor=5.0, shift=2.0)
    assert value == 13.0 and missed >= 1
    assert run(tmp_path, factor=3.0, shift=0.0) == (7.0, 0)


@pytest.mark.parametrize("decorator", ["kernel", "routine"])
def test_a_changed_callee_that_stands_below_its_caller_misses(tmp_path, decorator):
    """As in many learners: `predict` first, then what it calls, and that calls what stands below."""
    below = """
        from belated.kernels.compile import kernel, routine

        @{decorator}
        def outer(x):
            return middle(x) + 1.0

        @{decorator}
        def middle(x):
            return inner(x)

        @{decorator}
        def inner(x):
            return x * {factor}
    """
    for factor, missed in ((3.0, True), (5.0, True), (3.0, False)):
        found = run(tmp_path, source=below, decorator=decorator, factor=factor)
        assert (found[0], found[1] > 0) == (2.0 * factor + 1.0, missed)


def test_a_kernel_may_call_itself():
    @routine
    def halvings(x):
        if x < 1.0:
            return 0
        return 1 + halvings(0.5 * x)

    assert halvings(5.0) == 3
    if COMPILED:
        assert len(identity(halvings)) == 64


def test_damaged_cache_is_a_miss(tmp_path):
    run(tmp_path, factor=3.0, shift=0.0)
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    value, missed = run(tmp_path, factor=3.0, shift=0.0)
    assert value == 7.0 and missed >= 1


def test_without_a_writable_directory_it_compiles_all_the_same(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    assert run(tmp_path, cache="file/below", factor=3.0, shift=0.0)[0] == 7.0


def test_same_function_gives_the_same_kernel():
    def f(x):
        return x + 1

    assert kernel(f) is kernel(f)
    assert kernel(f)(1) == 2
    if COMPILED:
        assert len(identity(kernel(f))) == 64


def test_kernels_without_source_are_told_apart_by_their_code():
    found = []
    for factor in (2.0, 3.0):
        space = {}
        exec(f"def nameless(x):\n    return x * {factor}", space)
        compiled = kernel(space["nameless"])
        assert compiled(4.0) == 4.0 * factor
        found.append(identity(compiled))
    assert found[0] != found[1]


def test_a_kernel_that_names_something_without_identity_is_compiled_without_cache():
    thing = object()

    def strange(x):
        return x if thing is None else x + 1.0

    if COMPILED:
        assert identity(kernel(strange)) is None


def test_a_global_that_is_called_like_a_field_is_nothing_to_a_kernel():
    """As in a script that keeps a result under the name of a field."""
    found = []
    for result in ("object()", "1.0"):
        space = {"kernel": kernel}
        exec(f"@kernel\ndef reads(state):\n    return state.total\n\ntotal = {result}", space)
        found.append(identity(space["reads"]))
    if COMPILED:
        assert found[0] == found[1] is not None


def test_editing_a_file_after_its_import_does_not_spoil_the_cache(tmp_path):
    """What is compiled is what was imported; the next process must not find it under the new text."""
    first = textwrap.dedent(SOURCE.format(factor=3.0, shift=0.0))
    module = tmp_path / "edited.py"
    environment = os.environ | {"BELATED_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    edit = f"import pathlib; p = pathlib.Path({str(module)!r}); p.write_text(p.read_text().replace('3.0', '5.0'))"
    steps = [f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import edited; {edit}; print(edited.outer(2.0))"]
    steps.append(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import edited; print(edited.outer(2.0))")
    module.write_text(first)
    said = []
    for step in steps:
        ran = subprocess.run([sys.executable, "-c", step], capture_output=True, text=True, check=True, env=environment)
        said.append(float(ran.stdout))
    assert said == [7.0, 11.0]


@pytest.mark.skipif(not COMPILED, reason="a function stands for its address")
def test_an_address_stays_that_of_its_kernel(monkeypatch, tmp_path):
    """Code goes by the name of its function and a number, which code of another process may have, too: a law whose
    delays had been drawn once was then drawn by the kernel of another."""
    monkeypatch.setenv("BELATED_CACHE_DIR", str(tmp_path))  # nothing is known there

    def law(d):
        def delay(params, k0, k1, round_, action):
            return d

        return kernel(delay)

    fillers = [pointers.law_filler(law(d)) for d in (1001, 1002)]
    found = []
    for filler in fillers:
        monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(10**6))
        found.append(address(filler, pointers.LAW_SIGNATURE))
    assert [address(filler, pointers.LAW_SIGNATURE) for filler in fillers] == found
    assert found[0] != found[1]
