"""The lemma on G*: the peak of outstanding feedback under i.i.d. delays, whatever their tail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from belated import notation
from belated.delays import Batched, Constant, Geometric, Law, Lossy
from belated.engine.result import Result
from belated.forecasters import Direct
from belated.games import Bernoulli
from belated.learners import RoundRobin
from belated.protocols import Floats
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, Section, finding, identity
from belated.report.prose import Prose
from belated.report.stats import Fit, corrected, fits_law, line_fit, matching, number, poisson_binomial
from belated.studies.cells import Cell, Play
from belated.studies.paper.laws import LONGEST, laws, tails
from belated.studies.paper.part import Part, ratios
from belated.studies.results import replication_frame
from belated.studies.run import Done
from belated.theory import bounds
from belated.theory.verdicts import LEVEL, Verdict, certain, judge

WORDS = Prose(__name__)
SEED = 2013
BLACK, GEOMETRIC = 6, 2  #: numbers of colours

Verdicts = dict[tuple[str, int, int], Verdict]


@dataclass(frozen=True)
class Grid:
    """What is played. The peak has nothing to do with who plays what: one action will do, the fastest."""

    means: tuple[int, ...] = (10, 100)
    #: Replications for each number of rounds.
    horizons: Mapping[int, int] = field(
        default_factory=lambda: {10**2: 1000, 10**3: 400, 10**4: 100, 10**5: 32, 10**6: 16, 10**7: 8}
    )
    law_means: tuple[int, ...] = (3, 30)
    law_rounds: int = 300
    law_replications: int = 20_000
    batches: tuple[int, ...] = (10, 100, 1000)
    batch_rounds: int = 100_000
    losses: tuple[float, ...] = (0.01, 0.1, 0.5)
    lossy_rounds: tuple[int, ...] = (10_000, 20_000, 40_000, 80_000)
    lossy_replications: int = 60


def grid(full: bool) -> Grid:
    short = Grid()
    if not full:
        return short
    return replace(
        short,
        means=(3, 30, 300),
        horizons={n: 10 * count for n, count in short.horizons.items()},
        law_replications=2 * short.law_replications,
        lossy_replications=10 * short.lossy_replications,
    )


def _cell(law: Law, rounds: int, replications: int) -> Play:
    return Play(Direct(RoundRobin(1)), Bernoulli((0.5,)), law, rounds, replications, SEED)


def lemma_cells(grid: Grid) -> dict[tuple[str, int, int], Play]:
    """By law, mean and n. Constant delays leave nothing to chance: two replications will do."""
    return {
        (name, mean, n): _cell(law, n, 2 if name == "constant" else count)
        for mean in grid.means
        for name, law in laws(mean).items()
        for n, count in grid.horizons.items()
    }


def law_cells(grid: Grid) -> dict[tuple[str, int], Play]:
    """By law and mean."""
    return {
        (name, mean): _cell(law, grid.law_rounds, grid.law_replications)
        for mean in grid.law_means
        for name, law in laws(mean).items()
    }


def batch_cells(grid: Grid) -> dict[int, Play]:
    return {d: _cell(Batched(d), grid.batch_rounds, 2) for d in grid.batches}


def lossy_cells(grid: Grid) -> dict[float, dict[int, Play]]:
    """By p and n; what does come has geometric delays."""
    return {
        p: {n: _cell(Lossy(Geometric(mean=30), p), n, grid.lossy_replications) for n in grid.lossy_rounds}
        for p in grid.losses
    }


def cells_of(grid: Grid) -> list[Cell]:
    lossy = [cell for cells in lossy_cells(grid).values() for cell in cells.values()]
    return [*lemma_cells(grid).values(), *law_cells(grid).values(), *batch_cells(grid).values(), *lossy]


@dataclass(frozen=True)
class Sample:
    """G after some rounds, once a replication, beside its exact law."""

    seen: Any
    exact: Floats

    @property
    def p_value(self) -> float:
        return fits_law(self.seen, self.exact)

    @property
    def exact_mean(self) -> float:
        return float(self.exact @ np.arange(len(self.exact)))


def samples(done: Done, grid: Grid) -> dict[tuple[str, int], Sample]:
    """By law and mean."""
    return {
        (name, mean): Sample(done[cell].outstanding, poisson_binomial(tails(laws(mean)[name], grid.law_rounds)))
        for (name, mean), cell in law_cells(grid).items()
    }


def section_of(done: Done, grid: Grid) -> Section:
    lemma = lemma_cells(grid)
    verdicts: Verdicts = {key: _verdict(done[cell], *key[1:], family=len(lemma)) for key, cell in lemma.items()}
    sampled = samples(done, grid)
    blocks = [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        WORDS.text("experiment"),
        *_lemma_blocks(done, grid, verdicts),
        *_law_blocks(sampled, grid),
        *_batch_blocks(done, grid),
        *_lossy_blocks(done, grid),
    ]
    frames = {
        "peak-cells": _frame(lemma, verdicts),
        "peak-replications": replication_frame([(cell, done[cell]) for cell in lemma.values()]),
        "peak-law": _law_frame(sampled),
    }
    least, most = ratios(verdicts.values())
    said = WORDS("short", least=least, most=most, rounds=max(grid.horizons))
    return Section(PART.name, PART.title, blocks, frames, finding(said, verdicts.values()), ["peak-growth"])


def _verdict(result: Result, mean: int, n: int, family: int) -> Verdict:
    """The mean peak against the lemma. That G* is at most n - 1 needs no lemma.

    It is at most the longest delay, too. Where that is not above the bound, and under constant delays, nothing is left
    to chance.
    """
    peak, bound, law = result.peak.astype(float), bounds.outstanding(n, mean), result.setting.delays
    longest = LONGEST[type(law)](law) if type(law) in LONGEST else math.inf
    if longest <= bound or isinstance(law, Constant):
        return certain(float(peak.mean()), bound, n - 1.0)
    return judge(peak, bound, 0.0, n - 1.0, family=family)


def _lemma_blocks(done: Done, grid: Grid, verdicts: Verdicts) -> list[Block]:
    middle = grid.means[len(grid.means) // 2]
    cells = lemma_cells(grid)
    rows = [
        [*key, cells[key].replications, v.measured, v.low, v.high, v.bound, v.ratio, v] for key, v in verdicts.items()
    ]
    header = ("delays", "E τ", "n", "replications", "G*", "low", "high", "bound", "measured / bound", "verdict")
    return [
        finding(WORDS("lemma"), verdicts.values(), WORDS("lemma note")),
        Drawing("peak-growth", _growth_panel(done, grid, middle), WORDS("growth caption", mean=middle)),
        *(
            Drawing(f"peak-ratio-{mean}", _ratio_panel(done, grid, mean), WORDS("ratio caption", mean=mean))
            for mean in grid.means
        ),
        _looseness(verdicts),
        Rows(header, rows, WORDS("cells caption", count=len(rows)), folded=True),
    ]


def _looseness(verdicts: Verdicts) -> Block:
    """Where the bound is tight and where it is not, in numbers."""
    told = [
        (mean, v.ratio or 0.0, name, n)
        for (name, mean, n), v in verdicts.items()
        if name != "constant" and v.word != "vacuous"
    ]
    items = []
    for mean in sorted({mean for mean, *_ in told}):
        own = [entry for entry in told if entry[0] == mean]
        (_, least, loose, at), (_, most, tight, there) = min(own), max(own)
        items.append(
            WORDS("looseness item", mean=mean, least=least, loose=loose, at=at, most=most, tight=tight, there=there)
        )
    return WORDS.text("looseness", items="".join(items))


def _growth_panel(done: Done, grid: Grid, mean: int) -> Any:
    cells, horizons = lemma_cells(grid), list(grid.horizons)
    figure, axes = figures.panel(f"peak of outstanding feedback, E τ = {mean}", "rounds n", "G*", xscale="log")
    for at, name in enumerate(laws(mean)):
        figures.means(axes, horizons, [done[cells[name, mean, n]].peak for n in horizons], at, name)
    figures.line(axes, horizons, [bounds.outstanding(n, mean) for n in horizons], BLACK, "the lemma")
    exact = union_bound(tails(Geometric(mean=mean), 40 * (mean + 1)), horizons)
    figures.line(axes, horizons, exact, GEOMETRIC, "union bound, exact law", linestyle=":")
    axes.set_ylim(0, 1.4 * bounds.outstanding(horizons[-1], mean))
    figures.legend(axes, ncols=2, loc="upper left")
    return figure


def union_bound(chances: Floats, horizons: list[int]) -> list[float]:
    """sum_g min(1, n P(G > g)) >= E G*_n, with the exact law of G: the lemma's proof without Bernstein."""
    above = np.cumsum(poisson_binomial(chances)[::-1])[::-1][1:]
    return [float(np.minimum(1.0, n * above).sum()) for n in horizons]


def _ratio_panel(done: Done, grid: Grid, mean: int) -> Any:
    cells, horizons = lemma_cells(grid), list(grid.horizons)
    figure, axes = figures.panel(f"measured / bound, E τ = {mean:,}", "rounds n", "mean of G* / bound", xscale="log")
    for at, name in enumerate(laws(mean)):
        ratios = [done[cells[name, mean, n]].peak / bounds.outstanding(n, mean) for n in horizons]
        figures.means(axes, horizons, ratios, at, name)
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--")
    axes.set_ylim(0.0, 1.05)
    figures.legend(axes, ncols=2)
    return figure


def _law_blocks(sampled: dict[tuple[str, int], Sample], grid: Grid) -> list[Block]:
    single = [sample.p_value for sample in sampled.values()]
    together = corrected(single)
    matching = [p >= 1 - LEVEL for p in together]
    rows = [
        [*key, float(sample.seen.mean()), sample.exact_mean, alone, p, _match(fine)]
        for (key, sample), alone, p, fine in zip(sampled.items(), single, together, matching, strict=True)
    ]
    header = ("delays", "E τ", "mean of G", "exact", "p", "p, all tests together", "verdict")
    shown = [(name, grid.law_means[-1]) for name in ("geometric", "Pareto")]
    return [
        WORDS.text("law", grid=grid),
        identity(
            WORDS("law finding"),
            _match(all(matching)),
            WORDS("law detail", matching=sum(matching), count=len(rows), least=min(together)),
        ),
        *(
            Drawing(
                f"peak-law-{name.lower()}",
                _law_panel(f"{name}, E τ = {mean}", sampled[name, mean]),
                WORDS("law caption", name=name),
            )
            for name, mean in shown
        ),
        Rows(header, rows, WORDS("tests caption")),
    ]


def _match(fine: bool) -> str:
    return "matches" if fine else "fails"


def _law_panel(title: str, sample: Sample) -> Any:
    frequency = np.bincount(sample.seen) / len(sample.seen)
    likely = np.flatnonzero(sample.exact > 1e-5)
    figure, axes = figures.panel(f"outstanding feedback, {title}", "G", "probability")
    axes.bar(np.arange(len(frequency)), frequency, color=figures.COLORS[5], width=0.9, label="simulated")
    axes.plot(likely, sample.exact[likely], color="black", marker=".", linestyle="none", label="exact")
    axes.set_xlim(likely[0] - 1, likely[-1] + 1)
    figures.legend(axes)
    return figure


def _batch_blocks(done: Done, grid: Grid) -> list[Block]:
    cells = batch_cells(grid)
    verdicts = [certain(float(done[cell].peak.max()), d - 1.0) for d, cell in cells.items()]
    peaks = ", ".join(f"{v.measured:g} at d = {d:,}" for d, v in zip(cells, verdicts, strict=True))
    found = finding(WORDS("batches"), verdicts, WORDS("batches detail", rounds=grid.batch_rounds, peaks=peaks))
    return [WORDS.text("beside"), identity(found.statement, found.word, found.detail)]


def _lossy_blocks(done: Done, grid: Grid) -> list[Block]:
    cells = lossy_cells(grid)
    level = 1 - (1 - LEVEL) / len(cells)
    fits = {p: _slope([done[cell].peak for cell in own.values()], list(own), level) for p, own in cells.items()}
    word, _ = matching(list(fits.values()), list(fits))
    first = next(iter(next(iter(cells.values())).values()))
    assert first.delays.mean == np.inf
    listed = "; ".join(
        f"p = {p:g}: slope {number(f.slope)} ({number(f.low)} to {number(f.high)})" for p, f in fits.items()
    )
    law, mean = notation.text("delays", first.delays), first.delays.mean
    return [
        Finding(WORDS("lossy"), "no bound", WORDS("lossy detail", law=law, mean=mean)),
        identity(WORDS("slopes"), word, WORDS("slopes detail", listed=listed, level=LEVEL)),
        Drawing("peak-lossy", _lossy_panel(done, cells), WORDS("lossy caption")),
    ]


def _slope(peaks: list[Any], horizons: list[int], level: float) -> Fit:
    fit = line_fit(horizons, peaks, level)
    assert fit is not None
    return fit


def _lossy_panel(done: Done, cells: dict[float, dict[int, Play]]) -> Any:
    figure, axes = figures.panel("feedback lost with probability p", "rounds n", "G*", xscale="log", yscale="log")
    for at, (p, own) in enumerate(cells.items()):
        figures.means(axes, list(own), [done[cell].peak for cell in own.values()], at, f"p = {p:g}")
        figures.line(axes, list(own), [p * n for n in own], at)
    figures.legend(axes)
    return figure


def _frame(cells: dict[tuple[str, int, int], Play], verdicts: Verdicts) -> Any:
    import polars

    rows = [
        {
            "delays": name,
            "mean_delay": mean,
            "rounds": n,
            "replications": cells[name, mean, n].replications,
            "peak": v.measured,
            "low": v.low,
            "high": v.high,
            "bound": v.bound,
            "ratio": v.ratio,
            "verdict": v.word,
            "key": cells[name, mean, n].key,
        }
        for (name, mean, n), v in verdicts.items()
    ]
    return polars.DataFrame(rows)


def _law_frame(sampled: dict[tuple[str, int], Sample]) -> Any:
    """How often each G was seen, and its exact probability."""
    import polars

    parts = []
    for (name, mean), sample in sampled.items():
        size = max(len(sample.exact), int(sample.seen.max()) + 1)
        columns = {
            "delays": [name] * size,
            "mean_delay": [mean] * size,
            "outstanding": np.arange(size),
            "count": np.bincount(sample.seen, minlength=size),
            "probability": np.pad(sample.exact, (0, size - len(sample.exact))),
        }
        parts.append(polars.DataFrame(columns))
    return polars.concat(parts)


PART = Part(
    "peak",
    "How much feedback is outstanding",
    lambda full: cells_of(grid(full)),
    lambda done, full: section_of(done, grid(full)),
)
