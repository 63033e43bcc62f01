"""Columns of numbers, which may be written as text."""

from __future__ import annotations

from typing import Any

import polars as pl

from belated.logs.source import collect
from belated.logs.times import SAMPLE, as_number, missing

#: Words that are numbers.
TRUE, FALSE = "true", "false"


def as_text(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String).str.strip_chars()


def holds_numbers(frame: pl.LazyFrame, name: str, dtype: Any) -> bool:
    """Whether a column is of numbers; text is, if most of its first values are."""
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return True
    if dtype != pl.String:
        return False
    some = collect(frame.select(name).filter(~missing(as_text(name))).head(SAMPLE))
    return bool(2 * some.select(number_of(name, dtype)[0].count()).item() >= len(some))


def number_of(name: str, dtype: Any) -> tuple[pl.Expr, pl.Expr]:
    """A column as numbers (null where there is none), and whether what was given is no number."""
    if dtype != pl.String:
        return pl.col(name).cast(pl.Float64).fill_nan(None), pl.lit(False)
    text = as_text(name)
    small = text.str.to_lowercase()
    number = pl.when(small == TRUE).then(1.0).when(small == FALSE).then(0.0).otherwise(as_number(text))
    return number, ~missing(pl.when(number.is_null()).then(text))
