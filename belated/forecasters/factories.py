"""Plain learners in a study: what makes them, as a name and as a digest of its code.

A plain learner is any object with predict and update; a forecaster is given a function that makes one. The key of a
cell holds a digest of that function and of all that it refers to: functions and classes of the same project (their
code, not their text), numbers, text and arrays; of installed packages the name and version. What has no stable
description is refused, because a change of it could not be seen.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from belated.errors import Unsupported
from belated.kernels.compile import source

#: Where installed packages are.
INSTALLED = tuple(
    {os.path.realpath(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
SIMPLE = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)
#: What Python puts into a class beside what was written there.
HIDDEN = (MemberDescriptorType, GetSetDescriptorType)


def name_of(factory: Any) -> str:
    """What a factory is called.

    >>> name_of(partial(dict, a=1))
    'dict(a=1)'
    """
    if isinstance(factory, partial):
        given = [*map(repr, factory.args), *(f"{key}={value!r}" for key, value in factory.keywords.items())]
        return f"{name_of(factory.func)}({', '.join(given)})"
    name = getattr(factory, "__qualname__", type(factory).__qualname__).rpartition("<locals>.")[2]
    return f"lambda #{digest(factory)[:6]}" if name == "<lambda>" else name


def digest(factory: Any) -> str:
    """A digest of what a factory does; Unsupported if something that it refers to has no stable description."""
    return hashlib.sha256("\0".join(_told(factory, "learner", {})).encode()).hexdigest()


def _told(thing: Any, where: str, seen: dict[int, Any]) -> Iterator[str]:
    """What there is to say of a thing, all that it refers to included, each once.

    What was seen is kept: the number of a thing that is gone may be given to the next.
    """
    thing = source(thing)
    if isinstance(thing, SIMPLE):
        yield f"{where}={thing!r}"
        return
    if id(thing) in seen:
        yield f"{where} again"
        return
    seen[id(thing)] = thing
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        yield f"{where}={thing.dtype}{thing.shape}{hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
    elif isinstance(thing, ModuleType) and not _of_package(thing.__name__):
        yield f"{where}: {hashlib.sha256(Path(str(thing.__file__)).read_bytes()).hexdigest()}"
    elif isinstance(thing, ModuleType) or is_installed(thing):
        yield f"{where}: {_version(thing)}"
    else:
        for name, part in _parts(thing, where):
            yield from _told(part, f"{where}.{name}", seen) if not isinstance(part, CodeType) else (_code(part),)


def _parts(thing: Any, where: str) -> Iterator[tuple[str, Any]]:
    """What a thing is made of, by name."""
    if isinstance(thing, list | tuple):
        yield from ((str(place), part) for place, part in enumerate(thing))
    elif isinstance(thing, dict):
        yield from ((repr(key), thing[key]) for key in thing)
    elif isinstance(thing, set | frozenset):
        yield from (("", part) for part in sorted(map(repr, thing)))
    elif isinstance(thing, partial):
        yield from (("func", thing.func), ("args", thing.args), ("keywords", thing.keywords))
    elif isinstance(thing, MethodType | staticmethod | classmethod):
        yield "function", thing.__func__
        yield "self", getattr(thing, "__self__", None)
    elif isinstance(thing, property):
        yield from (("get", thing.fget), ("set", thing.fset))
    elif isinstance(thing, FunctionType):
        yield from _of_function(thing)
    elif isinstance(thing, type):
        yield from ((base.__name__, base) for base in thing.__bases__)
        yield from ((name, part) for name, part in vars(thing).items() if _written(name, part))
    elif hasattr(thing, "__dict__"):
        yield "class", type(thing)
        yield from vars(thing).items()
    elif callable(thing) and hasattr(thing, "__qualname__"):
        yield "name", f"{thing.__module__}.{thing.__qualname__}"
    else:
        raise Unsupported(
            f"{where} cannot be part of a study: {thing!r} has no stable description, so that a change of it could not "
            "be seen"
        )


def _of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    yield "code", function.__code__
    yield "defaults", (function.__defaults__, function.__kwdefaults__)
    free = inspect.getclosurevars(function)
    yield from sorted({**free.globals, **free.nonlocals}.items())


def _written(name: str, part: Any) -> bool:
    """Whether something in a class says what it does: not what Python or `dataclass` put there."""
    said = not (name.startswith("__") and name.endswith("__")) or isinstance(part, FunctionType)
    return said and name != "_abc_impl" and not isinstance(part, HIDDEN)


def _code(code: CodeType) -> str:
    inner = [_code(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return repr((code.co_code, inner, code.co_names, code.co_varnames, code.co_freevars))


def _constant(value: Any) -> str:
    """A constant as text, the same in every process: sets have no order."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def is_installed(thing: Any) -> bool:
    """Whether a function or class is of an installed package, of Python or of belated."""
    if not isinstance(thing, type | FunctionType) and not inspect.isbuiltin(thing):
        return False
    return _of_package(getattr(thing, "__module__", None) or "builtins")


def _of_package(name: str) -> bool:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name.split(".")[0] == "belated" or (file is None and name != "__main__"):
        return module is not None  # or it is a part of Python
    return file is not None and os.path.realpath(file).startswith(INSTALLED)


def _version(thing: Any) -> str:
    """The name of a thing that is installed, with the version of its package."""
    module = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", None) or "builtins"
    top = sys.modules.get(module.split(".")[0])
    inside = "" if isinstance(thing, ModuleType) else f".{thing.__qualname__}"
    return f"{module}{inside} {getattr(top, '__version__', '')}"
