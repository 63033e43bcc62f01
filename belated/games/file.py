"""Games of partial monitoring as TOML files."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from belated.errors import InvalidArgument

KEYS = ("loss", "reward", "symbols", "law", "trace")


def read_file(file: str | Path) -> dict[str, Any]:
    """The arguments of `Monitoring` from a TOML file: loss (or reward), symbols, and law or trace where there are any.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "game.toml").write_text("reward = [[0, 1], [1, 0]]\\nsymbols = [['a', 'a'], ['b', 'c']]")
    ...     read_file(Path(folder, "game.toml"))
    {'symbols': [['a', 'a'], ['b', 'c']], 'loss': [[1, 0], [0, 1]]}
    """
    where = repr(str(file))
    try:
        data = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidArgument(f"there is no file {where}") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{where} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{where} cannot be read: {error}") from None
    unknown = [key for key in data if key not in KEYS]
    if unknown:
        raise InvalidArgument(f"{where}: there is no setting {unknown[0]!r}; there are {', '.join(KEYS)}")
    if ("loss" in data) == ("reward" in data):
        raise InvalidArgument(f"{where} must have a matrix called loss, or one called reward (actions x outcomes)")
    if "symbols" not in data:
        raise InvalidArgument(f"{where} must have a matrix called symbols, of the same shape as {next(iter(data))}")
    if "reward" in data:
        data["loss"] = _losses(data.pop("reward"), where)
    return data


def _losses(reward: Any, where: str) -> list[list[Any]]:
    """What each reward falls short of the largest."""
    try:
        best = max(max(row) for row in reward if row)
        return [[best - value for value in row] for row in reward]
    except (TypeError, ValueError):
        raise InvalidArgument(f"{where}: reward must be rows of numbers, one an action, got {reward!r}") from None
