"""Modules of the user's own: they enter learners, forecasters, games and delay laws in the catalog."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from belated.errors import BelatedError, InvalidArgument

#: The environment variable that names modules, divided and quoted as in a shell: for containers, and for workers.
VARIABLE = "BELATED_IMPORT"
#: What a message says where a name of the catalog may be somebody's own.
HINT = "one of your own is known when its module is: --import MODULE"


def hinted(error: Exception) -> str:
    """What an error says; where it is about a name that the catalog does not have, with the hint."""
    text = str(error) if isinstance(error, BelatedError) else f"{type(error).__name__}: {error}"
    return f"{text}; {HINT}" if " is called " in text and HINT not in text else text


#: What is done with a module that was brought: the catalog enters what it defines.
WELCOME: list[Callable[[ModuleType], None]] = []
#: Modules that were brought, by name, with a digest of the file as it was read.
BROUGHT: dict[str, str] = {}


def bring(names: Iterable[str]) -> None:
    """Import modules by name, or files such as mine.py; the folder one works in is looked at first.

    What they define is known by name then. A file that was changed since is read again. Processes that are started from
    here import them as well, by `bring_named`.
    """
    given = list(names)
    for name in given:
        module = _bring(name)
        for each in WELCOME:
            each(module)
    if given:
        known = shlex.split(os.environ.get(VARIABLE, ""))
        os.environ[VARIABLE] = shlex.join(dict.fromkeys([*known, *given]))


def bring_named() -> None:
    """Import what the environment names."""
    bring(shlex.split(os.environ.get(VARIABLE, "")))


def _bring(name: str) -> ModuleType:
    file = Path(name)
    is_file = file.suffix == ".py"
    folder, module = (file.parent, file.stem) if is_file else (Path(), name)
    if is_file and not file.is_file():
        raise InvalidArgument(f"there is no file {name!r} to import")
    if is_file and not module.isidentifier():
        raise InvalidArgument(f"{name!r} cannot be imported: {module!r} is no name of a module")
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        return _imported(name, module, file.resolve() if is_file else None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise InvalidArgument(f"{name} cannot be imported: {error}") from error
        raise InvalidArgument(f"there is no module {module!r} to import: not in {Path.cwd()}, not installed") from None
    except SyntaxError as error:
        place = f"{error.filename}, line {error.lineno}"
        raise InvalidArgument(f"{name} cannot be imported: {place}: SyntaxError: {error.msg}") from error
    except InvalidArgument:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename}, line {where.lineno}"
        raise InvalidArgument(f"{name} cannot be imported: {place}: {type(error).__name__}: {error}") from error


def _imported(name: str, module: str, file: Path | None) -> ModuleType:
    """The module, read again if its file was changed since; of a file it must be that file."""
    there = sys.modules.get(module)
    if file is not None and there is not None and _file(there) != file:
        raise InvalidArgument(f"{name} cannot be imported: there is another module {module!r} already: rename the file")
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else ""
    if there is not None and digest != BROUGHT.get(module, digest):
        importlib.invalidate_caches()
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)  # it goes by the second
        found = importlib.reload(there)
    else:
        found = importlib.import_module(module)
    if file is not None and _file(found) != file:
        sys.modules.pop(module, None)
        raise InvalidArgument(f"{name} cannot be imported: there is another module {module!r}: rename the file")
    BROUGHT[module] = digest
    return found


def _file(module: ModuleType) -> Path | None:
    known = getattr(module, "__file__", None)
    return None if known is None else Path(known).resolve()
