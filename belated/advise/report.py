"""What was found: a table, and who cannot be told apart from the best."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from belated import notation
from belated.engine.result import Result
from belated.forecasters import Forecaster
from belated.kernels import states
from belated.protocols import Learner
from belated.report.stats import Interval, number
from belated.studies.field import Candidate, tied

if TYPE_CHECKING:
    import polars

#: What the numbers are.
MEANING = (
    "This is a simulation of the world described, not of yours: what it leaves out (contexts, seasons, delays that go "
    "with what was sold) may change the order. Intervals are 95%, approximate, each alone."
)


@dataclass(frozen=True)
class Entry:
    """One forecaster: its regret at the horizon, and what it takes."""

    name: str
    forecaster: Forecaster
    spec: str  #: as the command line and studies take it
    regret: float
    low: float  #: of the approximate 95% interval
    high: float
    replications: int
    states: int  #: of learners, kept at once at most
    bytes: int  #: of these states
    bound: float | None  #: the bound that is stated
    reason: str | None  #: why none is
    vacuous: bool  #: whether nobody's regret can be above it
    expiry: int | None = None
    default: float | None = None

    @classmethod
    def of(cls, name: str, who: Candidate, results: Sequence[Result], found: Interval, count: int) -> Entry:
        learner, game = who.forecaster.learner, results[0].setting.game
        kept = max(int(result.instances.max()) for result in results)
        size = states.state_dtype(learner).itemsize if isinstance(learner, Learner) else 0
        return cls(
            name,
            who.forecaster,
            notation.text("forecaster", who.forecaster, game),
            found.mean,
            found.low,
            found.high,
            count,
            kept,
            kept * size,
            results[0].bound,
            results[0].bound_reason,
            results[0].verdict == "vacuous",
            who.expiry,
            who.default,
        )

    @property
    def interval(self) -> Interval:
        return Interval(self.regret, self.low, self.high)

    def data(self) -> dict[str, Any]:
        """As plain data; an end of the interval that is not known is None."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "forecaster"}
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in found.items()}


@dataclass(frozen=True)
class Advice:
    """Who plays best in a world described, from the least regret to the largest."""

    world: str
    entries: list[Entry]
    missed: list[str]  #: who did not get a turn
    refused: dict[str, str]  #: who cannot play here, and why
    stopped: bool  #: by Ctrl-C
    seconds: float

    @property
    def best(self) -> Entry | None:
        return self.entries[0] if self.entries else None

    @property
    def tied(self) -> list[str]:
        """Who cannot be told apart from the best: their intervals overlap."""
        return tied([(entry.name, entry.interval) for entry in self.entries]) if self.entries else []

    def verdict(self) -> str:
        """One sentence."""
        if self.best is None:
            return "Nobody got a turn: give it more seconds, or fewer rounds."
        if len(self.entries) == 1:
            return f"{self.best.name} alone was simulated."
        if not self.tied:
            return f"{self.best.name} has the least regret, and no other interval overlaps its own."
        listed = ", ".join(self.tied[:6]) + (f" and {len(self.tied) - 6} more" if len(self.tied) > 6 else "")
        return f"{self.best.name} has the least mean regret, and cannot be told apart from it: {listed}."

    def summary(self) -> str:
        """The world, the table and what it says, as text."""
        header = ("rank", "forecaster", "mean regret", "95% interval", "runs", "states", "bound")
        rows = [header, *(self._row(rank, entry) for rank, entry in enumerate(self.entries, start=1))]
        wide = [max(len(row[i]) for row in rows) for i in range(len(header))]
        right = (0, 2, 4)
        lines = [
            "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, wide, strict=True)))
            for row in rows
        ]
        parts = [f"the world: {self.world}", "", *(line.rstrip() for line in lines), "", self.verdict()]
        if self.missed:
            parts.append(f"No turn was left for {', '.join(self.missed)}.")
        parts += [f"Left out: {name}: {why}" for name, why in self.refused.items()]
        if self.stopped:
            parts.append(f"Stopped after {self.seconds:.0f} s: this is what there was by then.")
        return "\n".join([*parts, MEANING])

    def _row(self, rank: int, entry: Entry) -> tuple[str, ...]:
        known = math.isfinite(entry.low) and math.isfinite(entry.high)
        between = f"{number(entry.low)} to {number(entry.high)}" if known else "not known"
        waits = "" if entry.expiry is None else f", expiry={entry.expiry}, default={entry.default:g}"
        kept = f"{entry.states:,} ({_size(entry.bytes)})"
        bound = "none" if entry.bound is None else number(entry.bound) + (", vacuous" if entry.vacuous else "")
        return str(rank), entry.spec + waits, number(entry.regret), between, str(entry.replications), kept, bound

    def data(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "world": self.world,
            "entries": [entry.data() for entry in self.entries],
            "tied": self.tied,
            "missed": self.missed,
            "refused": self.refused,
            "stopped": self.stopped,
            "seconds": self.seconds,
        }

    def to_json(self) -> str:
        return json.dumps(self.data(), indent=2, allow_nan=False)

    def frame(self) -> polars.DataFrame:
        """One row a forecaster."""
        import polars

        return polars.DataFrame([entry.data() for entry in self.entries], infer_schema_length=None)

    def __str__(self) -> str:
        return self.summary()


def _size(count: int) -> str:
    return f"{count:,} B" if count < 10_000 else f"{count / 1000:,.0f} kB"
