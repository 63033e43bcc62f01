"""What a kernel does that kernels may not do, read from its code."""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from belated.kernels.compile import COMPILED, source

#: What kernels may do, as errors say it.
MAY = (
    "kernels may use arithmetic, math, loops, the fields of state and params, and functions decorated with @bl.kernel; "
    "no allocation, no strings, no exceptions, no randomness but that of their draw"
)

ALLOCATING = {
    *("zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "array", "asarray"),
    *("arange", "linspace", "copy", "concatenate", "append", "stack", "vstack", "hstack", "where", "sort", "argsort"),
    *("unique", "eye", "identity", "diag", "outer", "repeat", "tile", "cumsum"),
}
BUILTINS = {"print", "open", "input", "list", "dict", "set", "frozenset", "str", "repr", "format", "sorted", "bytes"}
RAISES = "raises an exception"
MAKING = {
    **dict.fromkeys(("BUILD_LIST", "LIST_EXTEND", "LIST_APPEND"), "makes a list"),
    **dict.fromkeys(("BUILD_MAP", "BUILD_CONST_KEY_MAP", "MAP_ADD"), "makes a dictionary"),
    **dict.fromkeys(("BUILD_SET", "SET_ADD"), "makes a set"),
    **dict.fromkeys(("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BUILD_STRING"), "makes a string"),
    **dict.fromkeys(("RAISE_VARARGS", "LOAD_ASSERTION_ERROR"), RAISES),
    **dict.fromkeys(("CHECK_EXC_MATCH", "POP_EXCEPT"), "catches exceptions"),
    "IMPORT_NAME": "imports",
}
STRING = "uses a string,"
DRAW = "draw with uniform(draw, 0), uniform(draw, 1), ... of belated.kernels.random"


class Offence(NamedTuple):
    """Something that kernels may not do, and where."""

    function: str
    file: str
    line: int
    what: str


def reachable(function: Any) -> list[FunctionType]:
    """A kernel's function and all functions it refers to, directly or not, but for belated's own stand-ins."""
    found: list[FunctionType] = []
    waiting = [source(function)]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, FunctionType) and each not in found and not hasattr(each, "_belated_identity"):
            found.append(each)
            waiting += [source(value) for value in _referred(each).values()]
    return found


def offences(function: Any) -> Iterator[Offence]:
    """What a kernel and the functions it calls do that they may not."""
    for each in reachable(function):
        if not hasattr(each, "_belated_identity"):  # one that has no Python of its own: `behind`
            known = _referred(each)
            found = [offence for code in _codes(each.__code__) for offence in _offences(each, code, known)]
            yield from sorted(found, key=lambda offence: offence.what.startswith(STRING))


@lru_cache(4096)
def attribute_line(function: Any, name: str) -> Offence | None:
    """Where a kernel or one that it calls gets or sets an attribute of that name."""
    for each in reachable(function):
        for code in _codes(each.__code__):
            for step in dis.get_instructions(code):
                if step.argval == name and ("ATTR" in step.opname or step.opname in ("LOAD_METHOD", "LOAD_CONST")):
                    return Offence(each.__name__, code.co_filename, _line(step, code), name)
    return None


def return_line(function: FunctionType) -> int:
    """The line of the first return in a function that gives something else than a pair; else that of its head."""
    code = function.__code__
    before = None
    for step in dis.get_instructions(code):
        last = step if step.opname == "RETURN_CONST" else before
        if step.opname in ("RETURN_VALUE", "RETURN_CONST") and last is not None:
            pair = isinstance(last.argval, tuple) and len(last.argval) == 2
            if not pair and not (last.opname == "BUILD_TUPLE" and last.argval == 2):
                return _line(step, code)
        before = step
    return code.co_firstlineno


def _referred(function: FunctionType) -> dict[str, Any]:
    """The globals and the values of outer functions that a function names."""
    known = inspect.getclosurevars(function)
    return {**known.globals, **known.nonlocals}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _line(step: dis.Instruction, code: CodeType) -> int:
    place = step.positions
    return place.lineno if place is not None and place.lineno is not None else code.co_firstlineno


def _offences(function: FunctionType, code: CodeType, known: dict[str, Any]) -> Iterator[Offence]:
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        what = MAKING.get(step.opname)
        if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            what = _named(str(step.argval), known, after)
        elif step.opname == "LOAD_CONST" and isinstance(step.argval, str):
            by_name = after is not None and "SUBSCR" in after.opname  # state["field"]
            what = None if by_name else f"{STRING} {step.argval!r}"
        if what is not None and step.positions is not None and step.positions.lineno is not None:
            yield Offence(function.__name__, code.co_filename, _line(step, code), what)


def _named(name: str, known: dict[str, Any], after: dis.Instruction | None) -> str | None:
    """What is wrong with a name from outside, if anything is."""
    if name not in known:
        return f"calls {name}" if name in BUILTINS and hasattr(builtins, name) else None
    value = known[name]
    attribute = str(after.argval) if after is not None and "LOAD_" in after.opname else ""
    if isinstance(value, ModuleType):
        if value.__name__ in ("random", "numpy.random") or (value.__name__ == "numpy" and attribute == "random"):
            return f"draws from {name}{'' if value.__name__ != 'numpy' else '.random'}: {DRAW}"
        if value.__name__ == "numpy" and attribute in ALLOCATING:
            return f"allocates with {name}.{attribute}: use a field of the state"
        return None
    module = str(getattr(value, "__module__", None) or "").partition(".")[0]
    if module == "random":
        return f"draws with {name} of the module random: {DRAW}"
    if module == "numpy" and getattr(value, "__name__", "") in ALLOCATING:
        return f"allocates with {name}: use a field of the state"
    if COMPILED and isinstance(value, FunctionType) and not hasattr(value, "_belated_identity"):
        return f"calls {name}, which is not compiled: decorate {name} with @bl.kernel"
    return None
