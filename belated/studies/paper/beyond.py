"""Beyond the paper: what rules that it leaves open are worth, and what happens where its theorems stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import bounds
from belated.delays import Constant, Geometric, Lossy, Pareto, PerAction, Uniform
from belated.engine.result import Result
from belated.engine.verdict import LEVEL
from belated.forecasters import BOLD, QPMD, Direct, Forecaster
from belated.games import Bernoulli, Switching
from belated.learners import UCB1, Exp3
from belated.protocols import Delays, Game
from belated.studies import figures
from belated.studies.cells import Cell, Play
from belated.studies.page import ORDER, Block, Drawing, Finding, Formula, Rows, Section, Text, finding
from belated.studies.paper.part import Part
from belated.studies.results import cell_frame, replication_frame
from belated.studies.run import Done
from belated.studies.stats import Interval, mean_interval, number
from belated.studies.variants import LowestUCB1, RandomBOLD, TicketQPMD

if TYPE_CHECKING:
    import polars

MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
ARMS = Bernoulli(MEANS)
BEST, WORST = 4, 0
#: Two games of ten actions for the rule of ties: means far apart, and close together.
FAR = Bernoulli(tuple(np.linspace(0.1, 0.9, 10).round(2).tolist()))
CLOSE = Bernoulli(tuple(np.linspace(0.25, 0.7, 10).round(2).tolist()))
TIES = {"0.1 to 0.9": FAR, "0.25 to 0.7": CLOSE}
SEED = 7


@dataclass(frozen=True)
class Grid:
    """How much of everything is played."""

    rounds: int = 20_000
    replications: int = 80
    means: tuple[int, ...] = (10, 30, 100)  #: mean delays, for the choice of an instance
    waits: tuple[int, ...] = (30, 100, 300, 500, 1000, 2000)  #: constant delays, for ties
    queries: tuple[int, ...] = (10, 30, 100, 300)  #: mean delays, for probabilities
    losses: tuple[float, ...] = (0.01, 0.1, 0.3)
    wait: int = 50  #: the delay of what is not lost
    expiry: int = 200
    soon: int = 10  #: the delay of all actions but one
    late: tuple[int, ...] = (10, 100, 500, 2500)  #: the delay of that one

    @property
    def horizons(self) -> tuple[int, ...]:
        """Where instances are counted under lossy feedback."""
        return tuple(self.rounds // part for part in (8, 4, 2, 1))

    def play(self, forecaster: Forecaster, game: Game, delays: Delays, **changes: Any) -> Play:
        sizes = {"rounds": self.rounds, "replications": self.replications, "seed": SEED}
        return Play(forecaster, game, delays, **(sizes | changes))


SHORT, LONG = Grid(), Grid(rounds=50_000, replications=320)
Cells = dict[Any, Play]


# --- comparing two that met the same draws ---


@dataclass(frozen=True)
class Pairing:
    """How many times the regret of one is that of another; the statement is that it is more than once."""

    where: str
    one: float
    other: float
    times: Interval

    @property
    def word(self) -> str:
        if self.times.low > 1.0:
            return "holds"
        return "fails" if self.times.high < 1.0 else "unclear"


def pair(where: str, one: Result, other: Result, family: int = 1) -> Pairing:
    """The regret of `other` over that of `one`, replication by replication."""
    a, b = one.regret[:, -1], other.regret[:, -1]
    return Pairing(where, float(a.mean()), float(b.mean()), ratio_interval(b, a, family=family))


def ratio_interval(above: Any, below: Any, level: float = LEVEL, family: int = 1) -> Interval:
    """mean(above) / mean(below) of paired values, with Fieller's interval.

    It holds all r for which mean(above - r below) may be 0. So it contains 1 exactly if Student's interval of the mean
    difference contains 0. Where mean(below) may itself be 0 or less, it is everything.
    """
    from scipy.special import stdtrit

    a, b = np.asarray(above, float), np.asarray(below, float)
    top, bottom = float(a.mean()), float(b.mean())
    middle = top / bottom if bottom else math.nan
    if len(a) < 2:
        return Interval(middle, -math.inf, math.inf)
    quantile = float(stdtrit(len(a) - 1, 1 - (1 - level) / (2 * family)))
    (aa, ab), (_, bb) = np.cov(a, b) * quantile**2 / len(a)
    square = bottom**2 - bb
    if bottom <= 0 or square <= 0:
        return Interval(middle, -math.inf, math.inf)
    centre = (top * bottom - ab) / square
    width = math.sqrt(max(0.0, centre**2 - (top**2 - aa) / square))
    return Interval(middle, float(centre - width), float(centre + width))


def together(statement: str, pairings: Sequence[Pairing], note: str = "") -> Finding:
    """One finding from many pairings: the worst word, and the range of the ratio."""
    words = [p.word for p in pairings]
    counts = ", ".join(f"{words.count(w)} x {w}" for w in ORDER if w in words)
    times = [p.times.mean for p in pairings]
    span = str(pairings[0].times) if len(pairings) == 1 else f"{number(min(times))} to {number(max(times))}"
    parts = [f"regret larger by a factor of {span}", f"{counts}, confidence {LEVEL:.0%} for all together", note]
    return Finding(statement, min(words, key=ORDER.index), "; ".join(part for part in parts if part))


def exactly(statement: str, truths: Sequence[bool], note: str = "") -> Finding:
    """A statement that must hold to the last digit everywhere."""
    detail = f"exact in {sum(truths)} of {len(truths)} cells"
    return Finding(statement, "matches" if all(truths) else "fails", f"{detail}; {note}" if note else detail)


def same_play(a: Result, b: Result) -> bool:
    """Whether two runs played the same, as far as regret along the way and plays of each action tell."""
    return np.array_equal(a.regret, b.regret) and np.array_equal(a.pulls, b.pulls)


def pairing_rows(pairings: Sequence[Pairing], one: str, other: str, caption: str) -> Rows:
    header = ("where", one, other, "times", "low", "high", "verdict")
    rows = [[p.where, p.one, p.other, p.times.mean, p.times.low, p.times.high, p.word] for p in pairings]
    return Rows(header, rows, caption, folded=True)


def draw_times(
    axes: Any, x: Sequence[float], pairs: Sequence[tuple[Result, Result]], at: int, label: str, **line: Any
) -> None:
    """The ratio of the regrets of pairs (one, other) against x, with 95% intervals."""
    found = [ratio_interval(other.regret[:, -1], one.regret[:, -1], 0.95) for one, other in pairs]
    color = figures.COLORS[at]
    axes.plot(x, [i.mean for i in found], color=color, marker=figures.MARKERS[at], label=label, **line)
    axes.fill_between(x, [i.low for i in found], [i.high for i in found], color=color, alpha=0.18, linewidth=0)


def ticks(axes: Any, x: Sequence[float]) -> None:
    """A log axis that names just these values."""
    axes.set_xscale("log")
    axes.set_xticks(list(x), labels=[f"{value:,}" for value in x])
    axes.minorticks_off()


# --- a: which free instance ---


def laws(mean: int) -> dict[str, Delays]:
    return {"geometric": Geometric(mean=mean), "uniform": Uniform(0, 2 * mean), "Pareto": Pareto(mean=mean)}


LEARNERS = {"Exp3": Exp3(5), "UCB1": UCB1(5)}
CHOICES: dict[str, type[BOLD]] = {"lowest": BOLD, "random": RandomBOLD}


def instance_cells(grid: Grid) -> Cells:
    """(learner, law, mean delay, choice) on Bernoulli arms; and Exp3 against an adversary, under its law's name."""
    middle = grid.means[len(grid.means) // 2]
    switching = Switching(5, probability=20 / grid.rounds)
    cells: Cells = {}
    for choice, kind in CHOICES.items():
        for name, learner in LEARNERS.items():
            for mean in grid.means:
                for law, delays in laws(mean).items():
                    cells[name, law, mean, choice] = grid.play(kind(learner), ARMS, delays)
        for law, delays in laws(middle).items():
            cells["switching", law, middle, choice] = grid.play(kind(Exp3(5)), switching, delays)
        cells["Exp3", "constant", middle, choice] = grid.play(kind(Exp3(5)), ARMS, Constant(middle))
    return cells


def instance_pairs(done: Done, grid: Grid) -> dict[Any, tuple[Result, Result]]:
    """(learner, law, mean delay) -> lowest, random."""
    cells = instance_cells(grid)
    return {key[:3]: (done[cell], done[cells[*key[:3], "random"]]) for key, cell in cells.items() if key[3] == "lowest"}


def instance_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    pairs = instance_pairs(done, grid)
    control = [key for key in pairs if key[1] == "constant"]
    tested = [key for key in pairs if key[1] != "constant"]
    pairings = [pair(f"{a}, {law}, mean delay {mean}", *pairs[a, law, mean], len(tested)) for a, law, mean in tested]
    blocks: list[Block] = [
        Text(
            "<h3>Which free instance BOLD hands out</h3><p>The paper allows any choice that ignores past predictions. "
            "BOLD here takes the free instance with the lowest number, so that a few instances do most of the work and "
            "learn most. The variant takes a uniformly random one. Both need G* + 1 instances and both are covered by "
            f"the theorem. Five Bernoulli arms, {grid.rounds:,} rounds, {grid.replications} replications; and an "
            "adversary whose best action switches some twenty times.</p>"
        ),
        together("Handing out the lowest free instance has less regret than handing out a random one.", pairings),
        exactly(
            "Under constant delays the choice does not matter: at most one instance is free.",
            [same_play(*pairs[key]) for key in control],
        ),
        Drawing(
            "beyond-instance",
            _instance_panel(pairs, grid),
            "BOLD: regret with a random free instance over that with the lowest one; 95% bands.",
        ),
        pairing_rows(pairings, "lowest", "random", "All pairs: mean regret, and how many times it is."),
    ]
    return blocks, pairings


def _instance_panel(pairs: dict[Any, tuple[Result, Result]], grid: Grid) -> Any:
    figure, axes = figures.panel("BOLD: random over lowest", "mean delay", "regret, times that of the lowest")
    for at, (name, law) in enumerate((name, law) for name in LEARNERS for law in laws(1)):
        found = [pairs[name, law, mean] for mean in grid.means]
        draw_times(axes, grid.means, found, at, f"{name}, {law}", linestyle="-" if name == "Exp3" else ":")
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--")
    ticks(axes, grid.means)
    figures.legend(axes, ncols=2)
    return figure


# --- b: ties ---

RULES = {"fewest predictions": UCB1(10), "lowest number": LowestUCB1(10)}


def tie_cells(grid: Grid) -> Cells:
    """(game, delay, rule)."""
    return {
        (name, wait, rule): grid.play(Direct(learner), game, Constant(wait))
        for name, game in TIES.items()
        for wait in grid.waits
        for rule, learner in RULES.items()
    }


def first_phase_cells(grid: Grid) -> Cells:
    """(delay, rule): so many rounds as the first phase is said to take."""
    rounds = {"fewest predictions": lambda wait: wait + 10, "lowest number": lambda wait: 10 * (wait + 1)}
    return {
        (wait, rule): Play(Direct(learner), FAR, Constant(wait), rounds[rule](wait), 2, SEED)
        for wait in grid.waits
        for rule, learner in RULES.items()
    }


def tie_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    cells = tie_cells(grid)
    keys = [(name, wait) for name in TIES for wait in grid.waits]
    fewest, lowest = RULES
    pairings = [
        pair(
            f"means {name}, delay {wait:,}", done[cells[name, wait, fewest]], done[cells[name, wait, lowest]], len(keys)
        )
        for name, wait in keys
    ]
    longest = [p for p, (_, wait) in zip(pairings, keys, strict=True) if wait == max(grid.waits)]
    ends = [bool((done[cell].observed.min(axis=1) == 1).all()) for cell in first_phase_cells(grid).values()]
    words = [p.word for p in pairings if p not in longest]
    counts = f"less at {words.count('holds')}, more at {words.count('fails')}, unclear at {words.count('unclear')}"
    blocks: list[Block] = [
        Text(
            "<h3>How Delayed-UCB1 breaks ties</h3><p>Under delay many actions have no observation yet, all with an "
            "infinite index. The paper does not say which of them to play. Here ties go to the action predicted fewest "
            "times; the variant takes the lowest number, and so plays one action until its first feedback comes, then "
            "the next. Ten Bernoulli arms with evenly spaced means, constant delays.</p>"
        ),
        Formula("all K actions are known after d + K rounds &nbsp; against &nbsp; K (d + 1) rounds"),
        exactly("The first phase ends in just that round.", ends, "the last action has exactly one observation"),
        together(f"At the longest delay, {max(grid.waits):,}, ties by fewest predictions have less regret.", longest),
        Finding(
            "At shorter delays a longer first phase is not all lost: what it observes must be observed at some time.",
            "shown",
            f"regret with fewest predictions: {counts} of {len(words)} cells; confidence {LEVEL:.0%} for all together",
        ),
        *(
            Drawing(f"beyond-ties-{at}", _tie_panel(done, grid, name), f"Delayed-UCB1, means {name}: {TIE}")
            for at, name in enumerate(TIES, start=1)
        ),
        pairing_rows(pairings, fewest, lowest, "All pairs: mean regret, and how many times it is."),
    ]
    return blocks, pairings


TIE = "regret at the horizon against the delay; 95% bands."


def _tie_panel(done: Done, grid: Grid, name: str) -> Any:
    figure, axes = figures.panel(f"ten arms, means {name}", "constant delay", "regret at the horizon")
    cells = tie_cells(grid)
    for at, rule in enumerate(RULES):
        samples = [done[cells[name, wait, rule]].regret[:, -1] for wait in grid.waits]
        figures.means(axes, grid.waits, samples, at, f"ties: {rule}")
    axes.set_ylim(bottom=0.0)
    figures.legend(axes)
    return figure


# --- c: feedback that never comes ---

PLAYERS = {"BOLD(Exp3)": BOLD(Exp3(5)), "QPM-D(UCB1)": QPMD(UCB1(5)), "Delayed-UCB1": Direct(UCB1(5))}


def lossy_cells(grid: Grid) -> Cells:
    """(player, p, expiry, horizon); only BOLD at all horizons."""
    return {
        (name, p, expiry, n): grid.play(player, ARMS, Lossy(Constant(grid.wait), p), rounds=n, expiry=expiry)
        for name, player in PLAYERS.items()
        for p in grid.losses
        for expiry in (None, grid.expiry)
        for n in (grid.horizons if name.startswith("BOLD") else grid.horizons[-1:])
    }


def expected_open(grid: Grid, p: float, expiry: int | None, n: int) -> float:
    """E G_{n+1} for n > expiry > wait: a lost ticket is open until it expires, any other for as long as it waits."""
    return (1 - p) * grid.wait + p * (n if expiry is None else expiry)


def lossy_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    cells, n, bold = lossy_cells(grid), grid.rounds, "BOLD(Exp3)"
    pairings = [
        pair(f"p = {p}", done[cells[bold, p, grid.expiry, n]], done[cells[bold, p, None, n]], len(grid.losses))
        for p in grid.losses
    ]
    others = [name for name in PLAYERS if name != bold]
    alike = [
        same_play(done[cells[name, p, None, n]], done[cells[name, p, grid.expiry, n]])
        for name in others
        for p in grid.losses
    ]
    unexpired = [done[cell] for key, cell in cells.items() if key[2] is None and key[3] == n]
    blocks: list[Block] = [
        Text(
            "<h3>Feedback that never comes</h3><p>Each feedback is lost with probability p; what is not lost takes "
            f"{grid.wait} rounds. A ticket may expire: after {grid.expiry} rounds it is cancelled, its instance is "
            "free again, and nothing is learned. No theorem of the paper speaks of cancelled tickets.</p>"
        ),
        Formula(
            "E G<sub>n+1</sub> = p n + (1 - p) d without expiry, &nbsp; p e + (1 - p) d with expiry after e rounds"
        ),
        _open_finding(done, grid),
        together("Expiry gives BOLD less regret: its lost instances come back.", pairings),
        exactly(
            "QPM-D and Delayed-UCB1 play the same with expiry and without: they keep one instance, and learn from what "
            "comes.",
            alike,
        ),
        finding(
            "Without expiry, where the theorems count lost feedback in G*, they hold.",
            [result.judge(family=len(unexpired)) for result in unexpired],
        ),
        Drawing(
            "beyond-lossy-instances",
            _instances_panel(done, grid),
            "BOLD(Exp3): instances, which are 1 + the peak of G, against the horizon; dashed: 1 + E G at the end.",
        ),
        Drawing(
            "beyond-lossy-regret",
            _lossy_panel(done, grid),
            f"Regret after {n:,} rounds against the share that is lost; 95% bands.",
        ),
        Rows(
            ("player", "p", "expiry", "regret", "instances", "open at the end", "bound"),
            [
                [
                    name,
                    p,
                    "none" if e is None else f"{e}",
                    r.mean_regret,
                    r.instances.mean(),
                    r.outstanding.mean(),
                    r.bound,
                ]
                for (name, p, e, m), cell in cells.items()
                if m == n
                for r in [done[cell]]
            ],
            f"All players after {n:,} rounds.",
            folded=True,
        ),
    ]
    return blocks, pairings


def _open_finding(done: Done, grid: Grid) -> Finding:
    """Whether as many tickets are open as expected."""
    cells = {key: cell for key, cell in lossy_cells(grid).items() if key[0].startswith("BOLD")}
    inside = [
        mean_interval(done[cell].outstanding, family=len(cells)).contains(expected_open(grid, p, expiry, n))
        for (_, p, expiry, n), cell in cells.items()
    ]
    last = [
        number(done[cells["BOLD(Exp3)", max(grid.losses), e, grid.rounds]].instances.mean())
        for e in (None, grid.expiry)
    ]
    detail = (
        f"E G is inside the interval in {sum(inside)} of {len(inside)} cells, confidence {LEVEL:.0%} for all together; "
        f"at p = {max(grid.losses)} and {grid.rounds:,} rounds BOLD has {last[0]} instances without expiry and "
        f"{last[1]} with it"
    )
    return Finding(
        "Without expiry the open tickets, and with them BOLD's instances, grow like p n; with expiry they do not grow.",
        "matches" if all(inside) else "fails",
        detail,
    )


def _instances_panel(done: Done, grid: Grid) -> Any:
    figure, axes = figures.panel("BOLD(Exp3) under loss", "rounds", "instances", yscale="log")
    cells = lossy_cells(grid)
    for at, p in enumerate(grid.losses):
        for expiry, style in ((None, "-"), (grid.expiry, ":")):
            counts = [done[cells["BOLD(Exp3)", p, expiry, n]].instances for n in grid.horizons]
            name = f"p = {p}, {'no expiry' if expiry is None else f'expiry {expiry}'}"
            figures.means(axes, grid.horizons, counts, at, name, linestyle=style)
            expected = [1 + expected_open(grid, p, expiry, n) for n in grid.horizons]
            figures.line(axes, grid.horizons, expected, at, color="black", linewidth=0.8)
    ticks(axes, grid.horizons)
    axes.set_ylim(top=10 * max(grid.losses) * grid.rounds)
    figures.legend(axes, ncols=2)
    return figure


def _lossy_panel(done: Done, grid: Grid) -> Any:
    figure, axes = figures.panel("regret under loss", "share of feedback that is lost", "regret at the horizon")
    cells, n = lossy_cells(grid), grid.rounds
    lines = [("BOLD(Exp3)", None, "BOLD(Exp3), no expiry"), ("BOLD(Exp3)", grid.expiry, "BOLD(Exp3), expiry")]
    lines += [(name, None, f"{name}, either") for name in PLAYERS if not name.startswith("BOLD")]
    for at, (name, expiry, label) in enumerate(lines):
        samples = [done[cells[name, p, expiry, n]].regret[:, -1] for p in grid.losses]
        figures.means(axes, grid.losses, samples, at, label)
    ticks(axes, grid.losses)
    axes.set_yscale("log")
    figures.legend(axes)
    return figure


# --- d: delays that depend on the action ---

SIDES = {"best": BEST, "worst": WORST}


def late_cells(grid: Grid) -> Cells:
    """(player, which action is late, its delay)."""
    return {
        (name, side, late): grid.play(
            player, ARMS, PerAction([Constant(late if i == action else grid.soon) for i in range(5)])
        )
        for name, player in PLAYERS.items()
        for side, action in SIDES.items()
        for late in grid.late
    }


def late_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    cells = late_cells(grid)
    longer = [late for late in grid.late if late > grid.soon]
    pairings = {
        name: [
            pair(f"{name}, delay {late:,}", *_sides(done, cells, name, late), family=len(PLAYERS) * len(longer))
            for late in longer
        ]
        for name in PLAYERS
    }
    # Where no action is late, both sides are the same cell.
    own = {cell.key: done[cell] for (name, _, _), cell in cells.items() if not name.startswith("BOLD")}
    covered = list(own.values())
    bold = {key: done[cell] for key, cell in cells.items() if key[0].startswith("BOLD")}
    shares = [r.mean_regret / would_be(r) for (_, _, late), r in bold.items() if late > grid.soon]
    reason = next(iter(bold.values())).bound_reason
    blocks: list[Block] = [
        Text(
            "<h3>Delays that depend on the action</h3><p>Four actions answer after "
            f"{grid.soon} rounds, one is later: the best or the worst of five Bernoulli arms. The theorems of QPM-D "
            "and Delayed-UCB1 allow this; BOLD's does not, because an instance that plays a quick action is free "
            "sooner and so predicts more often.</p>"
        ),
        finding(
            "QPM-D and Delayed-UCB1 keep their bounds, which charge a late action by its gap.",
            [result.judge(family=len(covered)) for result in covered],
        ),
        Finding(
            f"BOLD has no bound here: {reason}. For comparison only, what the theorem would give if it applied.",
            "shown",
            f"regret / that number {number(min(shares))} to {number(max(shares))}; not a verdict on the theorem",
        ),
        together("BOLD suffers more from a late best action than from a late worst one.", pairings["BOLD(Exp3)"]),
        *(
            together(f"{name} suffers more from a late worst action than from a late best one.", pairings[name])
            for name in PLAYERS
            if not name.startswith("BOLD")
        ),
        *(
            Drawing(f"beyond-late-{side}", _late_panel(done, grid, side), f"The {side} action is late: {LATE}")
            for side in SIDES
        ),
        Rows(
            ("player", "late action", "its delay", "regret", "G*", "instances", "bound", "BOLD's, not applicable"),
            [
                [name, side, late, r.mean_regret, r.peak.mean(), r.instances.mean(), r.bound, _told(name, r)]
                for (name, side, late), cell in cells.items()
                for r in [done[cell]]
            ],
            "All players.",
            folded=True,
        ),
    ]
    return blocks, [p for found in pairings.values() for p in found]


LATE = "regret against its delay; 95% bands. Dashed: BOLD's bound as if it applied, which it does not."


def _sides(done: Done, cells: Cells, name: str, late: int) -> tuple[Result, Result]:
    """The side that is said to hurt less, then the one that is said to hurt more."""
    best, worst = (done[cells[name, side, late]] for side in SIDES)
    return (worst, best) if name.startswith("BOLD") else (best, worst)


def would_be(result: Result) -> float:
    """BOLD's bound with the measured peaks, though its condition on delays does not hold."""
    return bounds.bold(Exp3(5).bound, result.rounds, result.peak)


def _told(name: str, result: Result) -> float | None:
    return would_be(result) if name.startswith("BOLD") else None


def _late_panel(done: Done, grid: Grid, side: str) -> Any:
    figure, axes = figures.panel(
        f"the {side} of five actions is late", f"its delay (the others: {grid.soon})", "regret", yscale="log"
    )
    cells = late_cells(grid)
    for at, name in enumerate(PLAYERS):
        figures.means(axes, grid.late, [done[cells[name, side, late]].regret[:, -1] for late in grid.late], at, name)
    bound = [would_be(done[cells["BOLD(Exp3)", side, late]]) for late in grid.late]
    figures.line(axes, grid.late, bound, 0, "BOLD's bound, not applicable")
    ticks(axes, grid.late)
    axes.set_ylim(top=4 * grid.rounds)
    figures.legend(axes, ncols=2)
    return figure


# --- e: which probability ---

QUERIES: dict[str, type[QPMD]] = {"query": QPMD, "ticket": TicketQPMD}


def probability_laws(mean: int) -> dict[str, Delays]:
    return {"constant": Constant(mean), "geometric": Geometric(mean=mean)}


def probability_cells(grid: Grid) -> Cells:
    """(law, mean delay, whose probability); and delay 0."""
    cells: Cells = {}
    for whose, kind in QUERIES.items():
        for mean in grid.queries:
            for law, delays in probability_laws(mean).items():
                cells[law, mean, whose] = grid.play(kind(Exp3(5)), ARMS, delays)
        cells["constant", 0, whose] = grid.play(kind(Exp3(5)), ARMS, Constant(0))
    return cells


def probability_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    cells = probability_cells(grid)
    keys = [(law, mean) for law in probability_laws(1) for mean in grid.queries]
    pairs = {key: (done[cells[*key, "query"]], done[cells[*key, "ticket"]]) for key in keys}
    pairings = [pair(f"{law}, mean delay {mean}", *pairs[law, mean], len(keys)) for law, mean in keys]
    shares = [ticket.mean_regret / query.bound for query, ticket in pairs.values() if query.bound]
    blocks: list[Block] = [
        Text(
            "<h3>Which probability QPM-D divides by</h3><p>Exp3 divides a loss by a probability. Under QPM-D a ticket "
            "was played when the base held an action, with the probability of the query of that time; its feedback "
            "answers a later query for the same action, with another. The estimate is unbiased with that of the query "
            "that is answered. The variant uses the ticket's.</p>"
        ),
        Formula("loss estimate of the query's action: (1 - reward) / p, &nbsp; p = P(the query chose it)"),
        together("QPM-D(Exp3) has less regret with the query's probability than with the ticket's.", pairings),
        Finding(
            "With the ticket's probability, against the bound of QPM-D, which then is no theorem.",
            "shown",
            f"regret / that bound {number(min(shares))} to {number(max(shares))}",
        ),
        exactly(
            "Without delay the ticket is the query: both play the same.",
            [same_play(done[cells["constant", 0, "query"]], done[cells["constant", 0, "ticket"]])],
        ),
        Drawing(
            "beyond-probability",
            _probability_panel(pairs, grid),
            "QPM-D(Exp3): regret with the ticket's probability over that with the query's; 95% bands.",
        ),
        pairing_rows(pairings, "query's", "ticket's", "All pairs: mean regret, and how many times it is."),
    ]
    return blocks, pairings


def _probability_panel(pairs: dict[Any, tuple[Result, Result]], grid: Grid) -> Any:
    figure, axes = figures.panel("QPM-D(Exp3): ticket over query", "mean delay", "regret, times that of the query's")
    for at, law in enumerate(probability_laws(1)):
        draw_times(axes, grid.queries, [pairs[law, mean] for mean in grid.queries], at, law)
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--")
    ticks(axes, grid.queries)
    figures.legend(axes)
    return figure


# --- the part ---

BLOCKS = {
    "instance": instance_blocks,
    "ties": tie_blocks,
    "lossy": lossy_blocks,
    "late": late_blocks,
    "probability": probability_blocks,
}


def grid_cells(grid: Grid) -> list[Play]:
    """All cells of a grid."""
    parts = (instance_cells, tie_cells, first_phase_cells, lossy_cells, late_cells, probability_cells)
    return [cell for part in parts for cell in part(grid).values()]


def grid_section(done: Done, grid: Grid) -> Section:
    """The section of a grid."""
    opening = Text(
        "Choices that the paper leaves open, and cases that its theorems leave out. Two that are compared met the same "
        "outcomes and delays, so replications are paired, and the interval of the ratio of regrets is short."
    )
    blocks: list[Block] = [opening]
    rows = []
    for name, make in BLOCKS.items():
        made, pairings = make(done, grid)
        blocks += made
        rows += [(name, p.where, p.one, p.other, p.times.mean, p.times.low, p.times.high, p.word) for p in pairings]
    return Section(PART.name, PART.title, blocks, _frames(done, grid, rows))


def _frames(done: Done, grid: Grid, rows: list[Any]) -> dict[str, polars.DataFrame]:
    import polars

    unique = {cell.key: cell for cell in grid_cells(grid)}
    played = [(cell, done[cell]) for cell in unique.values()]
    wrong = polars.col("forecaster").str.starts_with("ticketqpmd")
    changes = {"bound": None, "ratio": None, "verdict": "no bound", "bound_reason": "no theorem covers this variant"}
    cells = cell_frame(played).with_columns(
        polars.when(wrong).then(polars.lit(value)).otherwise(polars.col(name)).alias(name)
        for name, value in changes.items()
    )
    header = ["comparison", "where", "one", "other", "times", "low", "high", "verdict"]
    return {
        "beyond-cells": cells,
        "beyond-replications": replication_frame(played),
        "beyond-pairs": polars.DataFrame(rows, schema=header, orient="row"),
    }


def _grid(full: bool) -> Grid:
    return LONG if full else SHORT


PART = Part(
    "beyond",
    "Beyond the paper",
    lambda full: list[Cell](grid_cells(_grid(full))),
    lambda done, full: grid_section(done, _grid(full)),
)
