"""Matrices as people write them, made into values that compare and hash."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from belated.errors import InvalidArgument

Loss = tuple[tuple[float, ...], ...]
Symbols = tuple[tuple[Hashable, ...], ...]


def check_game(loss: Any, symbols: Any) -> tuple[Loss, Symbols]:
    """The two matrices (actions x outcomes) as nested tuples, or what is wrong with them.

    >>> check_game([[1, 0], [0, 1]], [["-", "-"], ["r", "g"]])
    (((1.0, 0.0), (0.0, 1.0)), (('-', '-'), ('r', 'g')))
    >>> check_game([[1, 0], [0]], [["-", "-"], ["r", "g"]])
    Traceback (most recent call last):
    belated.errors.InvalidArgument: loss must have rows of one length, but row 0 has 2 and row 1 has 1
    """
    numbers = tuple(
        tuple(_number(value, i, x) for x, value in enumerate(row)) for i, row in enumerate(_rows("loss", loss))
    )
    if len(numbers) < 2:
        raise InvalidArgument(f"loss must have at least two actions (rows), got {len(numbers)}")
    if not numbers[0]:
        raise InvalidArgument("loss must have at least one outcome (columns), got none")
    if not math.isfinite(max(map(max, numbers)) - min(map(min, numbers))):
        raise InvalidArgument("loss must have a finite range")
    words = tuple(
        tuple(_symbol(value, i, x) for x, value in enumerate(row)) for i, row in enumerate(_rows("symbols", symbols))
    )
    wanted, got = (len(numbers), len(numbers[0])), (len(words), len(words[0]) if words else 0)
    if wanted != got:
        raise InvalidArgument(
            f"loss and symbols must have the same shape (actions x outcomes), got {wanted[0]} x {wanted[1]} and "
            f"{got[0]} x {got[1]}"
        )
    return numbers, words


def _rows(name: str, matrix: Any) -> list[list[Any]]:
    """A list of rows of one length."""
    if isinstance(matrix, str | bytes) or not isinstance(matrix, Iterable):
        raise InvalidArgument(f"{name} must be a list of rows, one an action, got {matrix!r}")
    rows = []
    for i, row in enumerate(matrix):
        if isinstance(row, str | bytes) or not isinstance(row, Iterable):
            raise InvalidArgument(f"{name} must be a list of rows, one an action, but row {i} is {row!r}")
        rows.append(list(row))
        if len(rows[i]) != len(rows[0]):
            raise InvalidArgument(
                f"{name} must have rows of one length, but row 0 has {len(rows[0])} and row {i} has {len(rows[i])}"
            )
    return rows


def _number(value: Any, action: int, outcome: int) -> float:
    try:
        number = float("x" if isinstance(value, str) else value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"loss[{action}][{outcome}] must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise InvalidArgument(f"loss[{action}][{outcome}] must be finite, got {number!r}")
    return number + 0.0


def _symbol(value: Any, action: int, outcome: int) -> Hashable:
    """The symbol, as a plain Python value where it comes from NumPy."""
    word = value.item() if isinstance(value, np.generic) else value
    try:
        hash(word)
    except TypeError:
        raise InvalidArgument(f"symbols[{action}][{outcome}] must be hashable, got {value!r}") from None
    if word is None:
        raise InvalidArgument(f"symbols[{action}][{outcome}] must be given, got None")
    if word != word:
        raise InvalidArgument(f"symbols[{action}][{outcome}] must equal itself, got {value!r}")
    symbol: Hashable = word
    return symbol
