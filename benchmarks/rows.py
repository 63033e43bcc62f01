"""What is measured: the cells and their sizes, the rows of the table and what each has to reach."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

Results = dict[str, dict[str, Any]]
"""Cell to its best result, or to ``{"error": one line}``."""

ROUNDS: dict[str, tuple[int, int]] = {
    "ours:ucb": (2_000_000, 500_000),
    "ours:klucb": (1_000_000, 200_000),
    "ours:exp3": (1_000_000, 200_000),
    "ours:exp3-many": (20_000, 10_000),
    "ours:qpmd-many": (20_000, 10_000),
    "ours:qpmd": (1_000_000, 200_000),
    "ours:linucb": (50_000, 10_000),
    "ours:features": (100_000, 50_000),
    "ours:geometric-10": (2_000_000, 500_000),
    "ours:geometric-10000": (2_000_000, 500_000),
    "ours:threads-1": (200_000, 50_000),
    "ours:threads-2": (200_000, 50_000),
    "ours:start": (10_000, 10_000),
    "ours:memory": (1_000_000, 1_000_000),
    "ours:memory-long": (100_000_000, 100_000_000),
    "cpp:xoshiro": (3_000_000, 1_000_000),
    "cpp:philox": (3_000_000, 1_000_000),
    "cpp:lanes-32": (9_600_000, 3_200_000),
    "peer:pymab-ucb": (100_000, 30_000),
    "peer:pymab-ucb-private": (300_000, 100_000),
    "peer:pymab-klucb": (50_000, 20_000),
    "peer:pymab-exp3": (100_000, 30_000),
    "peer:pymab-exp3-private": (300_000, 100_000),
    "peer:pymab-linucb": (50_000, 10_000),
    "peer:pymab-linucb-private": (50_000, 10_000),
    "peer:banditlab-ucb": (15_000, 6_000),
    "peer:river-ucb": (60_000, 20_000),
    "peer:mabwiser-ucb": (6_000, 3_000),
    "peer:mabwiser-ucb-batches": (100_000, 30_000),
    "peer:smpybandits-ucb": (20_000, 8_000),
}
"""Rounds of a cell in a full and in a quick run: each a fraction of a second, the slow ones get fewer."""


class Kind(Enum):
    """How a row reads its two cells."""

    FASTER = "times as fast"
    SLOWER = "times slower"
    SECONDS = "seconds"
    GROWTH = "MB more"
    POWER = "power of the size"


@dataclass(frozen=True)
class Row:
    """One line of the table. A row without ``least`` is there to be read only."""

    what: str
    ours: str
    other: str | None = None
    least: float | None = None
    aim: float | None = None
    kind: Kind = Kind.FASTER

    def value(self, results: Results) -> float | None:
        """The figure that is held against ``least`` and ``aim``; None where a cell has no result."""
        ours, other = results.get(self.ours, {}), results.get(self.other or self.ours, {})
        if "seconds" not in ours or "seconds" not in other:
            return None
        if self.kind is Kind.SECONDS:
            return float(ours["seconds"])
        if self.kind is Kind.GROWTH:
            return float(ours["peak_mb"] - other["peak_mb"])
        if self.kind is Kind.POWER:
            return float(ours["power"])
        ratio = rate(ours) / rate(other)
        return ratio if self.kind is Kind.FASTER else 1 / ratio

    def verdict(self, value: float | None) -> str:
        """Whether the figure reaches the aim, at least what it must, or neither."""
        if value is None:
            return "no result"
        if self.least is None or self.aim is None:
            return "for reading"
        if self.kind is Kind.FASTER:
            return "aim" if value >= self.aim else "ok" if value >= self.least else "MISSED"
        return "aim" if value <= self.aim else "ok" if value <= self.least else "MISSED"

    def line(self, results: Results) -> list[str]:
        """The row as text, column by column."""
        value = self.value(results)
        sides = [side(results.get(cell), self.kind) if cell else "-" for cell in (self.ours, self.other)]
        figures = [figure(number, self.kind, target=True) for number in (self.least, self.aim)]
        return [self.what, *sides, figure(value, self.kind), *figures, self.verdict(value)]

    def record(self, results: Results) -> dict[str, Any]:
        """The row as it goes into the JSON file."""
        value = self.value(results)
        return {**asdict(self), "kind": self.kind.value, "value": value, "verdict": self.verdict(value)}


UCB1 = "UCB1, K = 10, constant delay 100"
LINUCB = "LinUCB, K = 5, d = 10, constant delay 100"

ROWS = [
    Row(f"{UCB1}: plain C++ loop", "ours:ucb", "cpp:xoshiro", 0.3, 0.7),
    Row(f"{UCB1}: C++ loop drawing with Philox", "ours:ucb", "cpp:philox"),
    Row(f"{UCB1}: PyMAB with a buffer", "ours:ucb", "peer:pymab-ucb", 60, 200),
    Row(f"{UCB1}: PyMAB, private compiled handle", "ours:ucb", "peer:pymab-ucb-private"),
    Row(f"{UCB1}: BanditLab's delayed UCB", "ours:ucb", "peer:banditlab-ucb", 300, 1000),
    Row(f"{UCB1}: river with a buffer", "ours:ucb", "peer:river-ucb"),
    Row(f"{UCB1}: MABWiser with a buffer", "ours:ucb", "peer:mabwiser-ucb"),
    Row(f"{UCB1}: MABWiser in batches of 100", "ours:ucb", "peer:mabwiser-ucb-batches"),
    Row(f"{UCB1}: SMPyBandits with a buffer", "ours:ucb", "peer:smpybandits-ucb"),
    Row("KL-UCB, K = 10, constant delay 100: PyMAB with a buffer", "ours:klucb", "peer:pymab-klucb", 15, 100),
    Row("Exp3 in BOLD, geometric delay 100: PyMAB without delay", "ours:exp3", "peer:pymab-exp3", 30, 100),
    Row("Exp3 in BOLD, geometric delay 100: PyMAB, private engine", "ours:exp3", "peer:pymab-exp3-private"),
    Row(f"{LINUCB}: PyMAB with a buffer", "ours:linucb", "peer:pymab-linucb", 20, 20),
    Row(f"{LINUCB}: PyMAB, private compiled handle", "ours:linucb", "peer:pymab-linucb-private"),
    Row("LinUCB: how the time of a decision grows, d = 10, 20, 40, 80", "ours:features", None, 2.2, 2.0, Kind.POWER),
    Row(
        "geometric delay 10,000 (ours) and 10 (other)",
        "ours:geometric-10000",
        "ours:geometric-10",
        2.0,
        1.3,
        Kind.SLOWER,
    ),
    Row(f"{UCB1}, 64 replications: C++ by hand, 32 side by side", "ours:threads-1", "cpp:lanes-32", 0.5, 0.6),
    Row(f"{UCB1}: 64 replications (ours) and one (other)", "ours:threads-1", "ours:ucb"),
    Row("Exp3 in BOLD, geometric delay 100: 64 replications (ours) and one (other)", "ours:exp3-many", "ours:exp3"),
    Row("UCB1 in QPM-D, geometric delay 100: 64 replications (ours) and one (other)", "ours:qpmd-many", "ours:qpmd"),
    Row("64 replications: two threads (ours) and one (other)", "ours:threads-2", "ours:threads-1", 1.6, 1.95),
    Row("fresh process: import to first result, 10,000 rounds", "ours:start", None, 2.5, 1.5, Kind.SECONDS),
    Row(
        "peak memory: 10^8 rounds (ours) and 10^6 (other)",
        "ours:memory-long",
        "ours:memory",
        20,
        0,
        Kind.GROWTH,
    ),
]

HEADER = ["what", "ours (decisions/s)", "other (decisions/s)", "ratio", "at least", "aim", "verdict"]


def rate(result: dict[str, Any]) -> float:
    """Decisions per second."""
    return float(result["decisions"] / result["seconds"])


def side(result: dict[str, Any] | None, kind: Kind) -> str:
    """One side of a row as text."""
    if result is None or "seconds" not in result:
        return "missing"
    if kind is Kind.SECONDS:
        return f"{result['seconds']:.2f} s"
    if kind is Kind.POWER:
        return ", ".join(f"{value:.3g}" for key, value in result.items() if key.startswith("us ")) + " us"
    return f"{result['peak_mb']:.1f} MB" if kind is Kind.GROWTH else f"{rate(result):,.0f}"


def figure(value: float | None, kind: Kind, *, target: bool = False) -> str:
    """A figure with its unit; a target of the kinds where less is better says so."""
    if value is None:
        return "-"
    if kind is Kind.FASTER:
        return f"{value:,.2f}x" if value < 10 else f"{value:,.0f}x"
    text = {
        Kind.SLOWER: f"{value:.2f}x",
        Kind.SECONDS: f"{value:.2f} s",
        Kind.GROWTH: f"{value:.1f} MB",
        Kind.POWER: f"d^{value:.2f}",
    }[kind]
    return f"<= {text}" if target else f"{text} slower" if kind is Kind.SLOWER else text


def table(lines: list[list[str]], header: list[str] = HEADER) -> str:
    """A markdown table, padded so that it reads well as plain text too."""
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    rule = ["-" * width for width in widths]

    def shape(line: list[str]) -> str:
        cells = [line[0].ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]
        return f"| {' | '.join(cells)} |"

    return "\n".join(shape(line) for line in [header, rule, *lines])
