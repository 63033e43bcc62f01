"""What a decision costs: the paper's remark that black-box methods need more memory than the white-box rule."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import catalog
from belated.delays import Constant
from belated.engine.mailbox import entry_dtype
from belated.engine.play import checkpoints_of, gather
from belated.engine.workspace import Setting, Tables, Workspace
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Bernoulli
from belated.kernels.states import state_dtype
from belated.learners import UCB1
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, Section, identity
from belated.report.prose import Prose
from belated.report.stats import number
from belated.studies.cells import Cell, Table, Tell, code_of
from belated.studies.paper.part import Part
from belated.studies.run import Done

if TYPE_CHECKING:
    import polars

WORDS = Prose(__name__)
GAME = Bernoulli((0.3, 0.4, 0.5, 0.6, 0.7))
LEARNER = UCB1(5)
PLAYERS: dict[str, Forecaster] = {"Delayed-UCB1": Direct(LEARNER), "QPM-D": QPMD(LEARNER), "BOLD": BOLD(LEARNER)}
#: Bytes of one learner's state, of one feedback with its address, and of the marks that say which instances are free.
STATE, ENTRY, MARK = state_dtype(LEARNER).itemsize, entry_dtype(1).itemsize, 8 / 32
#: How often the queues of QPM-D are looked at in a run.
LOOKS = 200
#: What a cell keeps beside times, players by number; in the order of the fields of `Usage`.
COUNTS = ("player", "delay", "instances", "peak", "peaks", "queued")
SEED = 7


@dataclass(frozen=True, eq=False)
class Cost(Cell):
    """Time and memory of all players under all these constant delays, measured in turn on one core."""

    exclusive = True
    delays: tuple[int, ...]
    rounds: int
    repeats: int

    @property
    def title(self) -> str:
        return f"time and memory a decision, delays up to {max(self.delays):,}"

    @property
    def decisions(self) -> int:
        return len(PLAYERS) * len(self.delays) * self.rounds * (1 + self.repeats)

    def describe(self) -> dict[str, Any]:
        return {
            "players": [catalog.to_data(player) for player in PLAYERS.values()],
            "game": catalog.to_data(GAME),
            "delays": list(self.delays),
            "rounds": self.rounds,
            "repeats": self.repeats,
            "seed": SEED,
        }

    def code(self) -> list[Any]:
        return [STATE, ENTRY, LOOKS, *(code_of(player, GAME, Constant(0)) for player in PLAYERS.values())]

    def compute(self, tell: Tell) -> Table:
        benches = [Bench(name, delay, self.rounds, self.repeats) for delay in self.delays for name in PLAYERS]
        times = np.zeros((len(benches), self.repeats))
        turns = [(bench, turn) for turn in range(1 + self.repeats) for bench in range(len(benches))]
        for count, (bench, turn) in enumerate(turns, start=1):
            seconds = benches[bench].run(turn)
            if turn:
                times[bench, turn - 1] = seconds
            tell(count * self.rounds, self.decisions)
        counts = np.array([bench.counts() for bench in benches])
        return Table({name: counts[:, at] for at, name in enumerate(COUNTS)} | {"times": times / self.rounds})

    def read(self, table: Table) -> Used:
        names, columns = list(PLAYERS), [table.columns[name].tolist() for name in (*COUNTS, "times")]
        found = [Usage(names[at], tuple(times), *counts) for at, *counts, times in zip(*columns, strict=True)]
        return {(usage.name, usage.delay): usage for usage in found}


@dataclass(frozen=True)
class Usage:
    """What one player used under one delay."""

    name: str
    times: tuple[float, ...]  #: seconds of processor time a decision, one for each repeat
    delay: int
    instances: int  #: M
    peak: int  #: G*
    peaks: int  #: the sum of G*_i
    queued: int  #: feedback in QPM-D's queues, the most that was seen

    @property
    def best(self) -> float:
        return min(self.times)

    @property
    def states(self) -> int:
        """Bytes of the learner's states."""
        return self.instances * STATE

    @property
    def kept(self) -> float:
        """Bytes that the algorithm keeps: states, the marks of free instances, queued feedback."""
        marks = self.instances * MARK if self.name == "BOLD" else 0.0
        return self.states + marks + self.queued * ENTRY

    @property
    def in_flight(self) -> int:
        """Bytes of feedback on its way, which exists whoever plays."""
        return self.peak * ENTRY


Used = dict[tuple[str, int], Usage]


class Bench:
    """One player under one delay: memory that is kept from run to run, so that only the first one grows it."""

    def __init__(self, name: str, delay: int, rounds: int, repeats: int) -> None:
        self.name, self.delay, self.queued = name, delay, 0
        spread = checkpoints_of(rounds)
        self._setting = Setting(PLAYERS[name], GAME, Constant(delay), rounds, SEED, spread)
        self._tables = Tables.make(1 + repeats, GAME.actions, len(spread), rounds, False)
        self._workspace = Workspace(self._setting, self._tables)

    def run(self, turn: int) -> float:
        """Play a replication; return the processor time it took. The first is not for timing: it looks at queues."""
        if turn == 0 and self.name == "QPM-D":
            return self._watched()
        began = time.thread_time()
        self._workspace.run(turn, turn + 1, lambda rounds: True)
        return time.thread_time() - began

    def _watched(self) -> float:
        """Stop every so many rounds to see how much feedback came and was not consumed yet: n' = 1 + what was."""
        workspace, usual = self._workspace, self._workspace._budget
        step = max(1, self._setting.rounds // LOOKS)

        def look(rounds: int) -> bool:
            consumed = int(workspace._lanes[0].desk["steps"]) - 1
            self.queued = max(self.queued, int(workspace._lanes[0].arrays.counts["observed"].sum()) - consumed)
            workspace._budget = step
            return True

        workspace._budget = step
        workspace.run(0, 1, look)
        workspace._budget = usual
        return 0.0

    def counts(self) -> list[int]:
        """The values of COUNTS."""
        found = gather(self._setting, self._tables, 0.0)
        most = [int(each.max()) for each in (found.instances, found.peak, found.peaks.sum(axis=1))]
        return [list(PLAYERS).index(self.name), self.delay, *most, self.queued]


SHORT = Cost(delays=(1, 10, 100, 1000, 10_000, 100_000), rounds=400_000, repeats=5)
LONG = replace(SHORT, rounds=2_000_000, repeats=9)


def cost_section(done: Done, cell: Cost) -> Section:
    """The section of a measurement."""
    used: Used = done[cell]
    unit = used["Delayed-UCB1", cell.delays[0]].best
    rows = [_row(usage, unit) for usage in used.values()]
    timed = {
        "shortest": cell.delays[0],
        "repeats": cell.repeats,
        "share": max(cell.delays) / cell.rounds,
    }
    blocks: list[Block] = [
        WORDS.text("claim", rounds=cell.rounds),
        *_findings(used, cell),
        Drawing("cost-memory", _memory_panel(used, cell), WORDS("memory caption")),
        Drawing("cost-time", _time_panel(used, cell, unit), WORDS("time caption", **timed)),
        Rows(tuple(rows[0]), [list(row.values()) for row in rows], WORDS("cells caption"), folded=True),
    ]
    longest = {name: used[name, cell.delays[-1]].kept for name in PLAYERS}
    kept = {"bold": longest["BOLD"], "queue": longest["QPM-D"], "white": longest["Delayed-UCB1"]}
    short = Finding(WORDS("short", delay=cell.delays[-1], **kept), "shown")
    return Section(PART.name, PART.title, blocks, {"cost": _frame(used, unit)}, short)


def _row(usage: Usage, unit: float) -> dict[str, Any]:
    return {
        "player": usage.name,
        "delay": usage.delay,
        "instances": usage.instances,
        "G*": usage.peak,
        "most queued": usage.queued,
        "bytes of states": usage.states,
        "bytes of queues": usage.queued * ENTRY,
        "bytes kept": usage.kept,
        "bytes on their way": usage.in_flight,
        "time (relative)": usage.best / unit,
    }


def _findings(used: Used, cell: Cost) -> list[Finding]:
    bold, queue, white = ([used[name, d] for d in cell.delays] for name in ("BOLD", "QPM-D", "Delayed-UCB1"))
    grows = [u.instances == u.peak + 1 == min(u.delay, cell.rounds - 1) + 1 for u in bold]
    listed = ", ".join(f"{u.queued:,} at delay {u.delay:,}" for u in queue)
    return [
        _exactly(WORDS("bold"), grows, WORDS("bold detail", state=STATE, first=bold[0], last=bold[-1])),
        _exactly(WORDS("white"), [u.kept == STATE for u in white], WORDS("white detail", state=STATE)),
        _exactly(
            WORDS("queue"),
            [u.instances == 1 and u.queued <= u.peaks for u in queue],
            WORDS("queue detail", looks=LOOKS, listed=listed),
        ),
        _exactly(WORDS("flight"), [len({used[name, d].peak for name in PLAYERS}) == 1 for d in cell.delays]),
        Finding(WORDS("times"), "shown", WORDS("times detail", spans=_times(used, cell))),
    ]


def _exactly(statement: str, truths: list[bool], note: str = "") -> Finding:
    """What must be so at every delay, counted and not estimated."""
    detail = f"at {sum(truths)} of {len(truths)} delays"
    return identity(statement, "holds" if all(truths) else "fails", f"{detail}; {note}" if note else detail)


def _times(used: Used, cell: Cost) -> str:
    unit = used["Delayed-UCB1", cell.delays[0]].best
    spans = []
    for name in PLAYERS:
        first, last = (used[name, d].best / unit for d in (cell.delays[0], cell.delays[-1]))
        spans.append(f"{name} {number(first)} at delay {cell.delays[0]:,}, {number(last)} at {cell.delays[-1]:,}")
    return "; ".join(spans)


def _lines(axes: Any, used: Used, cell: Cost, value: Callable[[Usage], float]) -> None:
    for at, name in enumerate(PLAYERS):
        shown = [value(used[name, d]) for d in cell.delays]
        axes.plot(cell.delays, shown, color=figures.COLORS[at], marker=figures.MARKERS[at], label=name)


def _memory_panel(used: Used, cell: Cost) -> Any:
    figure, axes = figures.panel("memory", "constant delay", "bytes", xscale="log", yscale="log")
    _lines(axes, used, cell, lambda usage: usage.kept)
    flying = [used["Delayed-UCB1", d].in_flight for d in cell.delays]
    figures.line(axes, cell.delays, flying, 7, "feedback on its way, for all")
    figures.legend(axes)
    return figure


def _time_panel(used: Used, cell: Cost, unit: float) -> Any:
    figure, axes = figures.panel("time a decision", "constant delay", "relative time", xscale="log")
    _lines(axes, used, cell, lambda usage: usage.best / unit)
    for at, name in enumerate(PLAYERS):
        found = [used[name, d] for d in cell.delays]
        low, high = [u.best / unit for u in found], [max(u.times) / unit for u in found]
        axes.vlines(cell.delays, low, high, color=figures.COLORS[at], alpha=0.4)
    axes.set_ylim(bottom=0.0)
    figures.legend(axes)
    return figure


def _frame(used: Used, unit: float) -> polars.DataFrame:
    import polars

    rows = [
        {
            "player": u.name,
            "delay": u.delay,
            "instances": u.instances,
            "peak": u.peak,
            "sum_of_peaks": u.peaks,
            "most_queued": u.queued,
            "state_bytes": u.states,
            "kept_bytes": u.kept,
            "in_flight_bytes": u.in_flight,
            "relative_time": u.best / unit,
            "seconds": list(u.times),
        }
        for u in used.values()
    ]
    return polars.DataFrame(rows)


PART = Part(
    "cost",
    "Memory and time a decision",
    lambda full: [LONG if full else SHORT],
    lambda done, full: cost_section(done, LONG if full else SHORT),
)
