"""BOLD against adversaries (Theorem 1 and its corollary): the delay multiplies the regret.

Two adversaries wander, and one, the block adversary, is as hard as any can be under constant delay: there the expected
regret of every forecaster is known exactly, and stands beside the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from belated.delays import Constant, Geometric, Pareto, Uniform
from belated.engine.result import Result
from belated.forecasters import BOLD
from belated.games import Block, RandomWalk, Switching
from belated.learners import Exp3, Hedge, TsallisINF
from belated.protocols import Delays, Feedback, Game, Learner
from belated.report import figures
from belated.report.page import ORDER, Drawing, Finding, Formula, Rows, Section, Text, finding
from belated.report.stats import Fit, Interval, matching, mean_interval, number, power_fit
from belated.studies.cells import Cell, Play
from belated.studies.paper.part import Part
from belated.studies.results import cell_frame, curve_frame, replication_frame
from belated.studies.run import Done
from belated.theory import bounds
from belated.theory.verdicts import LEVEL, Verdict, judge

ACTIONS = 5
SEED = 1
STEP = 0.05  #: of the random walk
SWITCH, GOOD, BAD = 0.001, 0.6, 0.4  #: how often the best action changes, what it pays, what others pay
#: An exponent known less well than this says nothing.
WIDEST = 0.2
GAMES = ("random walk", "switching", "block")
LAWS = ("constant", "uniform", "geometric", "Pareto")


@dataclass(frozen=True)
class Scale:
    """How much is played: mean delays, and for the block adversary the lengths tau + 1 of its blocks."""

    rounds: int
    means: tuple[int, ...]
    replications: dict[str, int]  #: by learner: the smaller the bound, the more it takes to be sure
    block_rounds: int
    lengths: tuple[int, ...]
    block_replications: int


# Blocks are short beside the horizon: with 512 of them and more, the exact law has the exponent 1/2 to three digits.
SHORT = Scale(
    20_000,
    (3, 10, 31, 100),
    {"Hedge": 300, "Exp3": 160, "Tsallis-INF": 96},
    16_384,
    (1, 2, 4, 8, 16, 32),
    400,
)
FULL = Scale(
    100_000,
    (3, 10, 31, 100, 316),
    {"Hedge": 600, "Exp3": 240, "Tsallis-INF": 130},
    65_536,
    (1, 2, 4, 8, 16, 32, 64, 128),
    900,
)


class Point(NamedTuple):
    """A cell and what figures and tables call it."""

    learner: str
    game: str
    law: str
    cell: Play


class Played(NamedTuple):
    """A point with its result and the verdict on Theorem 1."""

    point: Point
    result: Result
    verdict: Verdict

    @property
    def instances(self) -> float:
        """The mean of G* + 1."""
        return float(self.result.peak.mean()) + 1.0

    @property
    def samples(self) -> Any:
        """The regret of each replication at the horizon."""
        return self.result.regret[:, -1]

    @property
    def exact(self) -> float:
        """The expected regret of every forecaster, on the block adversary."""
        game = self.point.cell.game
        assert isinstance(game, Block)
        return bounds.block_adversary(self.result.rounds, game.length - 1, ACTIONS)


def learners() -> dict[str, Learner]:
    return {"Hedge": Hedge(ACTIONS), "Exp3": Exp3(ACTIONS), "Tsallis-INF": TsallisINF(ACTIONS)}


def sight(learner: Learner) -> Feedback:
    """What the learner is to be shown."""
    return "full" if learner.feedback == "full" else "bandit"


def wanderers(learner: Learner) -> dict[str, Game]:
    """Adversaries that wander fast enough for regret to be positive, slowly enough for something to be learnt."""
    seen = sight(learner)
    return {
        "random walk": RandomWalk(ACTIONS, step=STEP, feedback=seen),
        "switching": Switching(ACTIONS, probability=SWITCH, good=GOOD, bad=BAD, feedback=seen),
    }


def laws(means: Sequence[int]) -> list[tuple[str, Delays]]:
    """Laws of the same means; no delay at all is a constant."""
    listed: list[tuple[str, Delays]] = [("constant", Constant(0))]
    for mean in means:
        listed += [
            ("constant", Constant(mean)),
            ("uniform", Uniform(0, 2 * mean)),
            ("geometric", Geometric(mean=mean)),
            ("Pareto", Pareto(mean=mean)),
        ]
    return listed


def grid(scale: Scale) -> list[Point]:
    """All that is played."""
    points = []
    for name, learner in learners().items():
        for game_name, game in wanderers(learner).items():
            for law, delays in laws(scale.means):
                cell = Play(BOLD(learner), game, delays, scale.rounds, scale.replications[name], SEED)
                points.append(Point(name, game_name, law, cell))
        for length in scale.lengths:
            block = Block(ACTIONS, length, feedback=sight(learner))
            delays = Constant(length - 1)
            # Blocks of different lengths would share coins under one seed.
            cell = Play(BOLD(learner), block, delays, scale.block_rounds, scale.block_replications, SEED + length)
            points.append(Point(name, "block", "constant", cell))
    return points


def cells(full: bool) -> list[Cell]:
    return [point.cell for point in grid(FULL if full else SHORT)]


def section(done: Done, full: bool) -> Section:
    return describe(done, FULL if full else SHORT)


def judged(done: Done, scale: Scale) -> list[Played]:
    """All cells with their verdicts, which hold together."""
    points = grid(scale)
    return [Played(point, done[point.cell], done[point.cell].judge(family=len(points))) for point in points]


def describe(done: Done, scale: Scale) -> Section:
    """The section of a grid of any scale."""
    played = judged(done, scale)
    block = [p for p in played if p.point.game == "block"]
    pairs = [(p.point.cell, p.result) for p in played]
    blocks = [
        *_claim(),
        *_experiment(scale),
        *(_theorem(game, [p for p in played if p.point.game == game]) for game in GAMES),
        _corollary(played),
        exactness(block),
        growth(block),
        _tightness(block),
        _tails(played),
        *_wandering(played),
        ratio_panel(played),
        block_panel(block),
        exact_panel(block),
        *_exponents(played),
        _table(played),
    ]
    frames = {
        "bold-cells": cell_frame(pairs),
        "bold-curves": curve_frame(pairs),
        "bold-replications": replication_frame(pairs),
    }
    return Section(PART.name, PART.title, blocks, frames)


# What is claimed and what was done.


def _claim() -> list[Any]:
    return [
        Text(
            "BOLD runs one instance of a base learner for each outstanding feedback. If the base has regret at most "
            "<i>f</i>(<i>n</i>) without delay, against every oblivious adversary, then BOLD's regret under any delays "
            "that do not depend on the actions is at most the following, with <i>G</i>* the peak of outstanding "
            "feedback. For a base with a root, the delay multiplies the bound by √(<i>G</i>* + 1)."
        ),
        Formula(
            "E <i>R<sub>n</sub></i> ≤ E[(<i>G</i>* + 1) <i>f</i>(<i>n</i> / (<i>G</i>* + 1))] "
            "≤ (E <i>G</i>* + 1) <i>f</i>(<i>n</i> / (E <i>G</i>* + 1))"
        ),
        Text("The corollary, for i.i.d. delays with a finite mean and any tail:"),
        Formula(
            "E <i>R<sub>n</sub></i> ≤ (<i>B</i> + 2) <i>f</i>(<i>n</i> / (<i>B</i> + 2)), &nbsp; "
            "<i>B</i> = E<i>τ</i> + 2 ln <i>n</i> + √(4 E<i>τ</i> ln <i>n</i>)"
        ),
    ]


def _experiment(scale: Scale) -> list[Any]:
    return [
        Text(
            f"<p>{ACTIONS} actions. Bases: Hedge, which sees all rewards, <i>f</i> = √(<i>n</i> ln <i>K</i>); Exp3, "
            "which sees its own, <i>f</i> = 2√(<i>nK</i> ln <i>K</i>); Tsallis-INF, the same, "
            "<i>f</i> = 4√(<i>Kn</i>) + 1. Delays: constant, uniform on 0 to twice the mean, geometric, and Pareto "
            "with exponent 1.5 (finite mean, infinite variance), of the means "
            f"0 (constant), {', '.join(map(str, scale.means))}.</p>"
            "<ul><li>Random walk: the reward of each action goes up or down by "
            f"{STEP} a round, reflected at 0 and 1.</li><li>Switching: one action pays with probability {GOOD}, the "
            f"others with {BAD}; which one changes every {1 / SWITCH:,.0f} rounds on average.</li>"
            "<li>Block: in each block of <i>τ</i> + 1 rounds an action's reward is one fair coin, and the delay is "
            "<i>τ</i>. Nothing about a block is known before it ends, so every forecaster expects exactly the same "
            "regret: (<i>τ</i> + 1)(E max<sub>i</sub> <i>X<sub>i</sub></i> - <i>m</i>/2), with <i>m</i> = "
            "<i>n</i>/(<i>τ</i> + 1) and <i>X<sub>i</sub></i> independent Bin(<i>m</i>, 1/2). No algorithm can do "
            "better against it, whatever it sees.</li></ul>"
            f"<p>{scale.rounds:,} rounds, replications a cell: "
            f"{', '.join(f'{count} ({name})' for name, count in scale.replications.items())}; on blocks "
            f"{scale.block_rounds:,} x {scale.block_replications}. Regret is realised, against the best fixed action "
            "in hindsight. It may be negative: on an adversary that wanders slowly a learner can beat every fixed "
            "action.</p>"
        )
    ]


# Verdicts.


def _theorem(game: str, played: Sequence[Played]) -> Finding:
    ratios = {name: [p.verdict.ratio or 0.0 for p in played if p.point.learner == name] for name in learners()}
    listed = ", ".join(f"{name} {number(min(r))} to {number(max(r))}" for name, r in ratios.items() if r)
    return finding(
        f"Theorem 1, {game} adversary: mean regret is at most E[(<i>G</i>* + 1) <i>f</i>(<i>n</i>/(<i>G</i>* + 1))].",
        [p.verdict for p in played],
        f"by base: {listed}",
    )


def corollary_bound(played: Played) -> float:
    """(B + 2) f(n / (B + 2)): the bound that knows only the mean of the delays."""
    learner, mean = played.point.cell.forecaster.learner, played.point.cell.delays.mean
    assert isinstance(learner, Learner) and mean is not None
    return bounds.bold_iid(lambda n: learner.bound(n) or 0.0, played.result.rounds, mean)


def _corollary(played: Sequence[Played]) -> Finding:
    verdicts = [judge(p.samples, corollary_bound(p), *p.result.regret_range, family=len(played)) for p in played]
    return finding("Corollary: the mean of the delays alone bounds the regret, heavy tails included.", verdicts)


def exactness(block: Sequence[Played]) -> Finding:
    """Whether measured regret is the exact expectation: in every cell, and in all of them together."""
    family = len(block) + 1
    together = pooled(block, family)
    intervals = [mean_interval(p.samples, family=family) for p in block]
    word, (_, *agree) = matching([together, *intervals], [1.0, *(p.exact for p in block)])
    return Finding(
        "On the block adversary regret equals the exact lower bound, that of every forecaster.",
        word,
        f"{sum(agree)} of {len(agree)} intervals contain the exact value; measured / exact over all cells "
        f"{together.mean:.3f} ({together.low:.3f} to {together.high:.3f}); approximate confidence {LEVEL:.0%} for all "
        "together",
    )


def pooled(block: Sequence[Played], family: int) -> Interval:
    """Measured / exact, the mean over cells of each replication: bases share coins, replications do not."""
    return mean_interval(np.mean([p.samples / p.exact for p in block], axis=0), family=family)


def growth(block: Sequence[Played]) -> Finding:
    """Whether regret on the block adversary grows like (G* + 1)^(1/2), for all bases together."""
    own = {name: [p for p in block if p.point.learner == name] for name in learners()}
    level = 1 - (1 - LEVEL) / len(own)
    fits = {name: _fit(group, level) for name, group in own.items()}
    listed = "; ".join(f"{name} {fit}" for name, fit in fits.items())
    law = power_fit([p.instances for p in block], [[p.exact] for p in block])
    return Finding(
        "On the block adversary regret grows like (<i>G</i>* + 1)<sup>1/2</sup>: the delay multiplies, as the bound "
        "says, and no algorithm could avoid it.",
        min((growth_word(fit) for fit in fits.values()), key=ORDER.index),
        f"exponents: {listed}; that of the exact lower bound at the same lengths "
        f"{'-' if law is None else format(law.slope, '.4f')}; approximate confidence {LEVEL:.0%} for all together "
        "(bootstrap)",
    )


def growth_word(fit: Fit | None) -> str:
    """Whether the interval contains 1/2; unclear where it is wide."""
    if fit is None or (fit.contains(0.5) and fit.high - fit.low > WIDEST):
        return "unclear"
    return matching([fit], [0.5])[0]


def _fit(group: Sequence[Played], level: float = LEVEL) -> Fit | None:
    return power_fit([p.instances for p in group], [p.samples for p in group], level)


def _tightness(block: Sequence[Played]) -> Finding:
    """How far the bound lies above the exact lower bound, at the longest blocks."""
    last = {p.point.learner: (p.verdict.bound or 0.0) / p.exact for p in block}
    listed = ", ".join(f"{number(times)} for {name}" for name, times in last.items())
    return Finding(
        f"The bound of Theorem 1 is so many times this lower bound: {listed}.",
        "shown",
        "with full information the two differ by a constant; whether the bound is tight for bandits the paper leaves "
        "open, and this adversary cannot tell: against it full information helps nobody",
    )


def _tails(played: Sequence[Played]) -> Finding:
    """Pareto against constant delays of the same mean, on the same outcomes."""
    known = {
        (p.point.learner, p.point.game, p.point.cell.delays.mean, p.point.law): p
        for p in played
        if p.point.game != "block"
    }
    both = [(p, known[*key[:3], "constant"]) for key, p in known.items() if key[3] == "Pareto"]
    extra = [mean_interval(p.samples - other.samples, family=len(both)) for p, other in both]
    less, more = sum(i.high < 0 for i in extra), sum(i.low > 0 for i in extra)
    peaks = [p.instances / other.instances for p, other in both]
    return Finding(
        f"At the same mean, a Pareto delay costs less than a constant one in {less} of {len(extra)} settings and more "
        f"in {more} (no claim of the paper).",
        "shown",
        f"its <i>G</i>* + 1 is {number(min(peaks))} to {number(max(peaks))} times as large; paired differences, no "
        f"difference shown in {len(extra) - less - more}, approximate confidence {LEVEL:.0%} for all together. "
        "Probably because the free instance with the lowest number plays: under a heavy tail a few instances do most "
        "of the work, while the bound supposes that all play equally often (not tested here)",
    )


# Figures and tables.


def _wandering(played: Sequence[Played]) -> list[Drawing]:
    drawings = []
    for game in GAMES[:2]:
        for learner in learners():
            own = [p for p in played if (p.point.game, p.point.learner) == (game, learner)]
            drawings.append(delay_panel(game, learner, own))
    return drawings


def delay_panel(game: str, learner: str, own: Sequence[Played]) -> Drawing:
    """Regret against G* + 1 under all laws, with the bound, which depends on G* only."""
    figure, axes = figures.panel(
        f"BOLD({learner}), {game}", "mean of G* + 1", "regret at the horizon", xscale="log", yscale="log"
    )
    for number_, law in enumerate(LAWS):
        line = sorted((p for p in own if p.point.law == law), key=lambda p: p.instances)
        line = [p for p in line if p.samples.mean() > 0]
        figures.means(axes, [p.instances for p in line], [p.samples for p in line], number_, law)
    _bound_line(axes, own, 6, "bound of Theorem 1")
    shown = [float(p.samples.mean()) for p in own if p.samples.mean() > 0]
    axes.set_ylim(bottom=0.4 * min(shown, default=1.0))
    figures.legend(axes)
    hidden = len(own) - len(shown)
    left_out = f" Not shown: {hidden} of {len(own)} means, which are not positive." if hidden else ""
    name = f"bold-{game.replace(' ', '-')}-{learner.lower()}"
    caption = f"Regret of BOLD({learner}) on the {game} adversary, {own[0].result.rounds:,} rounds, 95% bands."
    return Drawing(name, figure, caption + left_out)


def _bound_line(axes: Any, own: Sequence[Played], number_: int, label: str | None = None) -> None:
    result = own[0].result
    learner = own[0].point.cell.forecaster.learner
    assert isinstance(learner, Learner)
    at = np.geomspace(1.0, max(p.instances for p in own), 40)
    f = learner.bound
    figures.line(axes, at, [bounds.bold(lambda n: f(n) or 0.0, result.rounds, x - 1.0) for x in at], number_, label)


def ratio_panel(played: Sequence[Played]) -> Drawing:
    """Measured over bound in all cells."""
    figure, axes = figures.panel("all cells", "mean of G* + 1", "measured / bound", xscale="log")
    for number_, game in enumerate(GAMES):
        for learner, marker in zip(learners(), figures.MARKERS, strict=False):
            own = [p for p in played if (p.point.game, p.point.learner) == (game, learner)]
            axes.plot(
                [p.instances for p in own],
                [p.verdict.ratio or 0.0 for p in own],
                linestyle="",
                marker=marker,
                alpha=0.7,
                color=figures.COLORS[number_],
                label=f"{learner}, {game}",
            )
    axes.axhline(1.0, color="black", linewidth=1.0, linestyle="--")
    axes.set_ylim(min(0.0, axes.get_ylim()[0]), 1.05)
    figures.legend(axes, ncols=3, loc="upper center", bbox_to_anchor=(0.45, -0.17))
    return Drawing("bold-ratio", figure, "Measured regret over the bound of Theorem 1; above 1 it would be broken.")


def block_panel(block: Sequence[Played]) -> Drawing:
    """Measured, exact lower bound and upper bounds on the block adversary."""
    figure, axes = figures.panel(
        "block adversary", "G* + 1 = length of a block", "regret at the horizon", xscale="log", yscale="log"
    )
    for number_, learner in enumerate(learners()):
        own = [p for p in block if p.point.learner == learner]
        figures.means(axes, [p.instances for p in own], [p.samples for p in own], number_, learner, linestyle="")
        _bound_line(axes, own, number_)
    own = [p for p in block if p.point.learner == block[0].point.learner]
    figures.line(axes, [p.instances for p in own], [p.exact for p in own], 6, "exact expectation", linestyle="-")
    figures.legend(axes)
    caption = (
        f"The block adversary, {block[0].result.rounds:,} rounds: measured regret (95% bands), its exact expectation, "
        "which no forecaster can beat, and the bounds of Theorem 1 (dashed)."
    )
    return Drawing("bold-block", figure, caption)


def exact_panel(block: Sequence[Played]) -> Drawing:
    """Measured over exact on the block adversary, with the intervals of the verdict."""
    figure, axes = figures.panel(
        "block adversary", "G* + 1 = length of a block", "measured / exact expectation", xscale="log"
    )
    for number_, learner in enumerate(learners()):
        own = [p for p in block if p.point.learner == learner]
        intervals = [mean_interval(p.samples / p.exact, family=len(block) + 1) for p in own]
        axes.errorbar(
            [p.instances * 1.06 ** (number_ - 1) for p in own],
            [i.mean for i in intervals],
            [[i.mean - i.low for i in intervals], [i.high - i.mean for i in intervals]],
            linestyle="",
            marker=figures.MARKERS[number_],
            color=figures.COLORS[number_],
            capsize=2,
            label=learner,
        )
    axes.axhline(1.0, color="black", linewidth=1.0)
    figures.legend(axes)
    caption = f"Measured over exact; bars hold for all cells together with about {LEVEL:.0%} confidence (Student)."
    return Drawing("bold-exact", figure, caption)


def _exponents(played: Sequence[Played]) -> list[Any]:
    groups: dict[tuple[str, str, str], list[Played]] = {}
    for p in sorted(played, key=lambda p: GAMES.index(p.point.game)):
        groups.setdefault((p.point.learner, p.point.game, p.point.law), []).append(p)
    rows = []
    for key, group in groups.items():
        fit = _fit(group)
        left_out = sum(float(p.samples.mean()) <= 0 for p in group)
        rows.append([*key, "-" if fit is None else str(fit), len(group) - left_out, left_out])
    header = ("base", "adversary", "delays", "exponent (99% interval, bootstrap)", "points", "left out")
    return [
        Text(
            "The bound has the exponent 1/2 in <i>G</i>* + 1. It limits the size of regret and not its slope: on an "
            "easy adversary regret starts far below the bound and may grow faster, or stop growing once every "
            "instance sees too little to learn anything. So these exponents are told without a verdict; only the "
            "block adversary, where the exact law is known, has one."
        ),
        Rows(header, rows, "Exponents of regret in G* + 1. Means that are not positive have no logarithm: left out."),
    ]


def _table(played: Sequence[Played]) -> Rows:
    rows = []
    for p in played:
        v = p.verdict
        exact = p.exact if p.point.game == "block" else None
        place = [p.point.learner, p.point.game, p.point.law, p.point.cell.delays.mean, p.instances]
        rows.append([*place, v.measured, v.low, v.high, exact, v.bound, corollary_bound(p), v.ratio, v])
    header = (
        *("base", "adversary", "delays", "mean delay", "G* + 1", "regret", "low", "high", "exact"),
        *("Theorem 1", "corollary", "measured / bound", "verdict"),
    )
    return Rows(header, rows, f"All {len(rows)} cells, with intervals that hold together", folded=True)


PART = Part("bold", "BOLD against adversaries: the delay multiplies", cells, section)
