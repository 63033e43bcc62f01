"""The prose of a page: pieces of HTML in a file beside the code that computes its numbers.

A piece begins with its name in brackets on a line of its own, and goes on to the next. What stands in braces is filled
in: `{rounds:,}` as `str.format` does it, `{regret!n}` as a number that people read.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib import resources
from string import Formatter
from typing import Any

from belated.report.page import Formula, Text
from belated.report.stats import number

NAME = re.compile(r"\[([\w -]+)\]")


class _Format(Formatter):
    """`str.format`, and `!n` for numbers that people read."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return number(value) if conversion == "n" else super().convert_field(value, conversion)


class Prose:
    """The pieces of the file that has the name of a module and stands beside it: `Prose(__name__)`.

    >>> words = Prose("belated.report.prose", "[many]\\n{count:,} cells,\\n{ratio!n} of the bound\\n")
    >>> words("many", count=1200, ratio=0.12345)
    '1,200 cells, 0.123 of the bound'
    """

    def __init__(self, module: str, given: str | None = None) -> None:
        self.module, self._given = module, given

    @cached_property
    def pieces(self) -> dict[str, str]:
        """The pieces as they stand in the file, each as one line."""
        found: dict[str, list[str]] = {}
        for line in self._text().splitlines():
            named = NAME.fullmatch(line)
            if named:
                found[named[1]] = own = []
            elif line.strip():
                own.append(line.strip())
        return {name: " ".join(lines) for name, lines in found.items()}

    def _text(self) -> str:
        package, _, name = self.module.rpartition(".")
        if self._given is not None:
            return self._given
        return resources.files(package).joinpath(f"{name}.html").read_text(encoding="utf-8")

    def __call__(self, piece: str, **filled: Any) -> str:
        return _Format().vformat(self.pieces[piece], (), filled)

    def text(self, piece: str, **filled: Any) -> Text:
        return Text(self(piece, **filled))

    def formula(self, piece: str) -> Formula:
        """A formula; braces in it are braces."""
        return Formula(self.pieces[piece])
