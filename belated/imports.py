"""Modules of the user's own: they enter learners, forecasters, games and delay laws in the catalog."""

from __future__ import annotations

import importlib
import os
import shlex
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from belated.errors import BelatedError, InvalidArgument

#: The environment variable that names modules, divided and quoted as in a shell: for containers, and for workers.
VARIABLE = "BELATED_IMPORT"
#: What a message says where a name of the catalog may be somebody's own.
HINT = "one of your own is known when its module is: --import MODULE"


def hinted(error: Exception) -> str:
    """What an error says; where it is about a name that the catalog does not have, with the hint."""
    text = str(error) if isinstance(error, BelatedError) else f"{type(error).__name__}: {error}"
    return f"{text}; {HINT}" if " is called " in text and HINT not in text else text


def bring(names: Iterable[str]) -> None:
    """Import modules by name, or files such as mine.py; the folder one works in is looked at first.

    Processes that are started from here import them as well, by `bring_named`.
    """
    given = list(names)
    for name in given:
        _bring(name)
    if given:
        os.environ[VARIABLE] = shlex.join(given)


def bring_named() -> None:
    """Import what the environment names."""
    bring(shlex.split(os.environ.get(VARIABLE, "")))


def _bring(name: str) -> None:
    file = Path(name)
    is_file = file.suffix == ".py"
    folder, module = (file.parent, file.stem) if is_file else (Path(), name)
    if is_file and not file.is_file():
        raise InvalidArgument(f"there is no file {name!r} to import")
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise InvalidArgument(f"{name} cannot be imported: {error}") from error
        raise InvalidArgument(f"there is no module {module!r} to import: not in {Path.cwd()}, not installed") from None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename}, line {where.lineno}"
        raise InvalidArgument(f"{name} cannot be imported: {place}: {type(error).__name__}: {error}") from error
