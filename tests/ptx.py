"""Kernels compiled for a GPU, on a machine that has none: PTX, the assembly that a driver takes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from cuda.pathfinder import find_bitcode_lib
from numba import typeof, types

import belated as bl
from belated.checks.contract import arena
from belated.engine import loop, mailbox
from belated.engine import round as rounds
from belated.engine.workspace import Setting, Tables, Workspace, kernels_of, shape_of
from belated.forecasters.instance import parts_of
from belated.kernels import pointers, states
from belated.kernels.compile import kernel

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5, in numba-cuda
    from numba.cuda import dispatcher
    from numba.cuda.compiler import compile_cuda
    from numba.cuda.cudadrv import nvvm

#: A Hopper GPU; nothing here depends on it.
CAPABILITY = (9, 0)
#: Products are not fused with sums: without this a GPU gives other bits.
OPTIONS = {"arch": "compute_90", "opt": 3, "fma": False}
WORD = types.uint64
#: What may give other bits than a CPU: fused or approximate arithmetic, and anything of single precision.
STRANGE = re.compile(
    r"\bfma\.\S+|\b(?:add|sub|mul|div|sqrt|rcp)\.(?!rn\.f64)(?:\w+\.)*f\d\d|\b\w+\.approx\.\S+|\b\w+\.f32"
)


def ptx(function: Any, *arguments: Any) -> str:
    """The assembly of a function for such arguments (values, or Numba's types)."""
    signature = tuple(a if isinstance(a, types.Type) else typeof(a) for a in arguments)
    known = dispatcher.get_current_device
    # Numba asks the device what it is when one function calls another.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    try:
        made = compile_cuda(function, types.void, signature, cc=CAPABILITY)
    finally:
        dispatcher.get_current_device = known
    unit = nvvm.CompilationUnit(OPTIONS)
    for module in made.library.llvm_strs:
        unit.add_module(nvvm.llvm_replace(module).encode())
    unit.verify()
    unit.lazy_add_module(Path(find_bitcode_lib("device")).read_bytes())
    return str(unit.compile().decode().strip("\0"))


def strange(text: str) -> set[str]:
    """The instructions that may give other bits, and what is left to be linked."""
    return set(STRANGE.findall(text)) | set(re.findall(r"\.extern \.func.*", text))


def pair_ptx(learner: bl.Learner, forecaster: type[bl.Forecaster]) -> str:
    """The assembly of all kernels of a forecaster over a learner, called as the loop calls them."""
    rule = forecaster(learner)
    begin, choose, deliver, release, back, replace = rule.kernels(parts_of(learner, rule.numbers_letters))

    def step(desks, rules, params, blank, pool, marks, slab, contexts, k0, k1, tally, entry, replaced):
        desk = desks[0]
        own = rules[0]
        context = contexts[entry]
        begin(desk, own, params[0], blank, pool, marks, context, k0, k1)
        action, probability = choose(
            desk, own, params[0], blank, pool, marks, slab, contexts, context, k0, k1, entry, tally
        )
        desk.action = action
        desk.probability = probability
        if not deliver(desk, own, params[0], pool, marks, slab, contexts, context, entry):
            release(desk, own, params[0], pool, marks, slab, contexts, context, entry, replaced)
        if replaced >= 0:
            back(desk, marks)
            replace(desk, params[0], pool, replaced)

    memory = (states.records(loop.DESK, 1), states.as_record(rule.params()), states.params(learner))
    pool = states.records(states.state_dtype(learner), 2)
    slab = mailbox.make_slab(2, learner.feedback_size, learner.memo, rule.numbers_letters)
    mail = (np.zeros(8, np.int64), slab, np.zeros((2, learner.context_size)))
    tally = states.records(loop.TALLY, learner.actions)
    return ptx(step, *memory, states.blank(learner), pool, *mail, WORD, WORD, tally, 0, 0)


def round_ptx(learner: bl.Learner, forecaster: type[bl.Forecaster], delays: bl.delays.Delays) -> str:
    """The assembly of a whole round of a lane, which calls its game and its law directly."""
    rule, game = forecaster(learner), arena(learner, 10)
    setting = Setting(rule, game, delays, 10, 0, np.array([10]), record=True)
    made = Workspace(setting, Tables.make(1, game.actions, 1, 10, True, learner.values, game.point_size))
    kernels = kernels_of(rule)
    assert kernels is not None
    choose, settle = rounds.make_round(kernels, shape_of(rule, game), direct(game, delays))

    def play(fixed, lane, asked, played, written, said):
        reason, action, probability = choose(fixed, lane, asked, played, written)
        if reason == rounds.PLAYED:
            reason = settle(action, probability, fixed, lane, asked, played, written)
        said[0] = reason

    _, fixed, asked, played, written = made._shared
    played = played._replace(outcome=0, regret=0, event=0, observe=0, law=0)
    return ptx(play, fixed, made._lanes[0].arrays, asked, played, written, np.zeros(1, np.int64))


def direct(game: Any, delays: Any) -> rounds.Calls:
    """Kernels that call those of a game and a law, and take no notice of the address."""
    outcome, regret = kernel(game.outcome), kernel(game.regret)
    fill = pointers.law_filler(delays.kernel, delays.depends_on_reward)

    def call_outcome(address, params, memory, k0, k1, round_, action, feedback):
        return outcome(params, memory, k0, k1, round_, action, feedback)

    def call_regret(address, params, memory):
        return regret(params, memory)

    def call_law(address, params, k0, k1, first, action, reward, count, delays):
        return fill(params, k0, k1, first, action, reward, count, delays)

    def nothing(address, params, memory, k0, k1, round_):
        return -1

    def unseen(address, params, memory, k0, k1, round_, context):
        return 0

    event = kernel(game.event) if game.announces else None
    observe = pointers.observer(game.observe) if game.context_size else None

    def call_event(address, params, memory, k0, k1, round_):
        return event(params, memory, k0, k1, round_)

    def call_observe(address, params, memory, k0, k1, round_, context):
        return observe(params, memory, k0, k1, round_, context)

    return rounds.Calls(
        kernel(call_outcome),
        kernel(call_regret),
        kernel(call_law),
        kernel(call_event if event is not None else nothing),
        kernel(call_observe if observe is not None else unseen),
    )
