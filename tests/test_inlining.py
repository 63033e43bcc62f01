"""Our inlining gives Numba's program, and analyses each kernel once."""

import re

import pytest
from numba.core import bytecode, compiler, registry
from numba.core.compiler_machinery import PassManager
from numba.core.inline_closurecall import InlineWorker
from numba.core.untyped_passes import (
    DeadBranchPrune,
    ExtractByteCode,
    FixupArgs,
    InlineInlinables,
    IRProcessing,
    TranslateByteCode,
)

from belated.kernels import inlining
from belated.kernels.compile import COMPILED, kernel, source
from belated.kernels.kl import kl_upper
from belated.kernels.ties import largest_index
from belated.learners.exp3 import Exp3
from belated.learners.klucb import KLUCB

pytestmark = pytest.mark.skipif(not COMPILED, reason="nothing is put anywhere in plain Python")


OURS = inlining.inlining_pass("numba.core")


@kernel
def twice(x):
    return x + x


@kernel
def fourfold(x):
    return twice(twice(x))


def branches(x, y):
    total = 0.0
    for i in range(3):
        total += fourfold(x) if i < y else twice(y)
    return total


def program(function, how):
    """The program after inlining, with the numbers of names and labels told by their order."""

    class Only(compiler.CompilerBase):
        def define_pipelines(self):
            passes = PassManager("only")
            for each in (TranslateByteCode, FixupArgs, IRProcessing, how, DeadBranchPrune):
                passes.add_pass(each, "")
            passes.finalize()
            return [passes]

    target = registry.cpu_target
    flags = compiler.Flags()
    made = Only(target.typing_context, target.target_context, None, (), None, flags, {})
    made.state.func_id = bytecode.FunctionIdentity.from_function(source(function))
    made.state.func_ir = None
    ExtractByteCode().run_pass(made.state)
    made.state.args = (None,) * len(made.state.func_id.pysig.parameters)
    made.define_pipelines()[0].run(made.state)
    blocks = made.state.func_ir.blocks
    lines = [f"{label}: {line}" for label in sorted(blocks) for line in map(str, blocks[label].body)]
    known = {}
    lines = [re.sub(r" at 0x\w+", "", line) for line in lines]
    return [re.sub(r"\w*\d\w*", lambda found: known.setdefault(found[0], f"#{len(known)}"), line) for line in lines]


@pytest.mark.parametrize("function", [branches, kl_upper, largest_index, KLUCB.predict, Exp3.predict, Exp3.update])
def test_the_program_is_numbas(function):
    ours = program(function, OURS)
    assert ours == program(function, InlineInlinables) == program(function, OURS)
    assert len(ours) > 5


def test_a_kernel_is_analysed_once(monkeypatch):
    analysed = []
    whole = InlineWorker.run_untyped_passes
    monkeypatch.setattr(
        InlineWorker,
        "run_untyped_passes",
        lambda self, func, enable_ssa=False: analysed.append(func.__name__) or whole(self, func, enable_ssa),
    )
    monkeypatch.setattr(inlining, "_kept", type(inlining._kept)())
    program(branches, OURS)
    program(branches, OURS)
    assert sorted(analysed) == ["fourfold", "twice"] and len(inlining._kept) == 2


def test_what_was_not_used_for_long_is_forgotten(monkeypatch):
    monkeypatch.setattr(inlining, "_kept", type(inlining._kept)())
    monkeypatch.setattr(inlining, "KEPT", 1)
    program(branches, OURS)
    assert len(inlining._kept) == 1
