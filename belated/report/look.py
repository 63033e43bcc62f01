"""What a figure of regret shows, and how: the arguments of `plot`, the table [figure] of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from belated.errors import InvalidArgument
from belated.require import boolean, one_of, real
from belated.spelling import nearest

#: What panels can be made by, and lines can differ in.
PARTS = ("forecaster", "law", "delays", "game", "rounds", "expiry", "seed")
XS = ("round", "delay", "peak", "loss")
LEGENDS = ("below", "right", "inside", "none")
LOGS = ("x", "y", "xy", "none")


@dataclass(frozen=True)
class Look:
    """What a figure shows, and how; the arguments of `plot`, and the table [figure] of a study.

    * `x`: "round"; "delay" (the mean of the law), "peak" (G*, measured), "loss" (the share of feedback that never comes
      or expires), or a number between 0 and 1: that quantile of the delay. All but "round" show regret at the horizon.
    * `by`: a panel for each "law" (family of delay laws), "delays", "forecaster", "game", "rounds", "expiry" or "seed";
      or a list of them. None decides by itself.
    * `log`: "x", "y", "xy" (or True), "none" (or False). None decides by itself.
    * `legend`: "below", "right", "inside" or "none" (or False).
    * `level`: of the bands, Student's, an approximation; None draws none.
    * `bounds`: whether the theorems' bounds are drawn, dashed. None: along the way, of a few lines.
    """

    x: str | float = "round"
    by: str | Sequence[str] | None = None
    log: str | bool | None = None
    legend: str | bool | None = None
    level: float | None = 0.95
    bounds: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.x, str) and self.x not in XS:
            known = ", ".join(XS)
            raise InvalidArgument(f"x must be one of {known}, or a number between 0 and 1 (a quantile), got {self.x!r}")
        if not isinstance(self.x, str):
            object.__setattr__(self, "x", float(real("x", self.x, above=0, below=1)))
        given = tuple(self.by) if isinstance(self.by, list | tuple) else () if self.by is None else (self.by,)
        for name in given:
            one_of("by", name, PARTS)
        if self.by is not None:
            object.__setattr__(self, "by", tuple(dict.fromkeys(given)))
        if isinstance(self.log, bool):
            object.__setattr__(self, "log", "xy" if self.log else "none")
        if self.log is not None:
            one_of("log", self.log, LOGS)
        if self.legend is False:
            object.__setattr__(self, "legend", "none")
        if self.legend is not None:
            one_of("legend", self.legend, LEGENDS)
        if self.level is not None:
            real("level", self.level, above=0, below=1)
        if self.bounds is not None:
            boolean("bounds", self.bounds)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Look:
        """From a table; a name that is none of its own is refused."""
        known = [each.name for each in fields(cls)]
        for name in data:
            if name not in known:
                hint = nearest(str(name), known) or f"there are {', '.join(known)}"
                raise InvalidArgument(f"{name}: a figure has no such setting; {hint}")
        return cls(**data)
