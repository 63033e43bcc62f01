"""The page of a replay, and what the terminal shows of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.replay.answer import RARE
from belated.report.axes import legend_below, plain_numbers, wrapped
from belated.report.figures import COLORS, MARKERS, panel
from belated.report.files import write_whole
from belated.report.page import Block, Drawing, Page, Rows, Section, Text
from belated.report.stats import number
from belated.report.tables import sentences

if TYPE_CHECKING:
    from belated.replay.answer import Answer, Replay

NAMES = {
    "dr": "doubly robust",
    "ips": "inverse propensity",
    "snips": "inverse propensity, normalised",
    "replay": "accepted rounds only",
}
LIVES = """
<p>A forecaster learns from what it does, so its reward cannot be had by weighting the log: it must live through
rounds. The log was dealt out, round by round, to {runs}. A life starts with a fresh forecaster, which is asked what it
would do in every round of its share. It lives through a round if it proposes the logged action and a coin agrees; the
coin shows heads with probability c / p, where p is the recorded probability and c = {rate}. So a round is accepted
with probability c whatever is proposed, and the accepted rounds are a play of the forecaster in the same world (Li et
al. 2011; Dudík et al. 2012). In rounds that are not accepted the forecaster stays as it was.</p>
<p>{clock}</p>
"""
METHOD = """
<p>The estimate uses all rounds that can be weighed: in each it asks what the proposed action was worth. With w = 1/p
where the proposal is the logged action and 0 elsewhere (for a policy with known probabilities q, w = q/p), inverse
propensity averages w r; normalised weights divide by the mean of w; the doubly robust estimate averages
m(proposed) + w (r - m(logged)) with a ridge regression m of rewards on the rounds before, which starts from what they
paid on average. All but the normalised one are unbiased for the expected mean reward of {expected}{clipped}.</p>
<p>The intervals are empirical Bernstein ones: they need no normal approximation, hold for rare rewards too, and cover
more often than they say. {luck} Rewards are counted if they are not the most common one: on them an estimate rests.
The logger's mean is over all its decisions with a reward, those too that were certain or among some of the actions;
others are estimated from the rest.</p>
<p>It is assumed that rewards, contexts and delays are drawn in the same way in all rounds, independently; that the
logger never gave an action a smaller probability than the log shows; and that whether a reward was recorded, or a
decision can be weighed, does not depend on the reward. A world that decisions change cannot be replayed.</p>
"""
CLOCKS = {
    "rounds": "Feedback came to a forecaster after as many of its own rounds as decisions were logged while it was "
    "outstanding: it met the recorded delays, and about as many outstanding feedbacks as the logger had.",
    "log": "Feedback came to a forecaster when the log had passed its observation: a life is a forecaster that decides "
    "for a small random share of the traffic, to which delays are that much shorter in its own rounds.",
}
LUCK = {
    True: "Where Student's interval over lives, which has their luck in it, is wider, it counts: an approximation, "
    "which does not see what befalls fewer lives than were lived.",
    False: "With one life they are for this life, without its luck.",
}
HEADER = ("forecaster", "mean reward", "minus logger", "rewards", "n eff.", "rounds", "G*")


def table(found: Replay) -> list[tuple[str, ...]]:
    """One row for the logger and one for each forecaster and policy, under `HEADER`."""
    log = found.log
    many = f"{log.rewards:,}{' thin' if log.rewards < RARE else ''}"
    logger = ("logger", str(found.logger), "", many, "", f"{len(log):,}", f"{log.outstanding:,}")
    return [logger, *(_row(answer) for answer in found.answers)]


def _row(answer: Answer) -> tuple[str, ...]:
    return (
        answer.forecaster,
        str(answer.value),
        str(answer.difference),
        f"{answer.rewards:,}{' thin' if answer.thin else ''}",
        number(answer.effective),
        number(answer.rounds),
        "-" if answer.peak is None else f"{answer.peak:,}",
    )


def said(found: Replay) -> list[str]:
    """All warnings, with the forecaster that they are about."""
    return [*found.warnings, *(f"{a.forecaster}: {w}" for a in found.answers for w in a.warnings)]


def print_replay(found: Replay) -> None:
    """The answers as a table in the terminal."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape as plain
    from rich.table import Table

    console = Console()
    lived = [_lives(found.runs)] if any(a.curve for a in found.answers) else []
    parts = [f"{len(found.log):,} decisions", *lived, _estimators(found), f"{found.level:.0%}"]
    shown = Table(title=", ".join(parts), title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    rows = [tuple(cell.replace(" (", "\n(") for cell in row) for row in table(found)]
    for name, *cells in zip(HEADER, *rows, strict=True):
        first = name == "forecaster"
        wide = 10 if first else max(len(line) for cell in (name, *cells) for line in cell.split("\n"))
        shown.add_column(name, justify="left" if first else "right", no_wrap=not first, overflow="fold", min_width=wide)
    for row in rows:
        shown.add_row(*map(plain, row))
    # A number that is cut is another number: where the terminal is too narrow, lines go on in the next.
    needed = sum(2 + (column.min_width or 0) for column in shown.columns)
    Console(width=max(console.width, needed)).print(shown)
    console.print(f"[dim]{plain(_caption(found))}.[/dim]")
    for warning in said(found):
        console.print(f"[yellow]warning:[/yellow] {plain(warning)}")


def write_report(found: Replay, out: Path) -> Path:
    """index.html with its figures and data, and replay.json; the path of the page."""
    import polars

    blocks: list[Block] = [Rows(HEADER, table(found), _caption(found))]
    warned = [("the log", w) for w in found.warnings] + [(a.forecaster, w) for a in found.answers for w in a.warnings]
    if warned:
        blocks.append(sentences(("about", "warning"), warned, "To be kept in mind."))
    blocks.append(
        Drawing("replay", _values(found), f"Mean reward with {found.level:.0%} intervals; the line is the logger")
    )
    lived = [a for a in found.answers if a.curve]
    if lived:
        words = (
            f"Mean reward in stretches of rounds of a life, from its first round on; {found.level:.0%} bands, each "
            "stretch for itself; a stretch without rewards is left out"
        )
        blocks.append(Drawing("learning", _curves(found, lived), words))
    rows = [
        (a.forecaster, NAMES[name], str(a.estimates[name]), str(a.lived[name]))
        for a in found.answers
        for name in a.estimates
    ]
    header = ("forecaster", "estimator", "expected", "in the rounds as they were")
    blocks.append(Rows(header, rows, f"All estimates, with {found.level:.0%} intervals", folded=True))
    if np.isnan(found.log.reward[found.log.rows]).any():
        ends = [(a.forecaster, *a.extremes) for a in found.answers]
        blocks.append(
            Rows(("forecaster", "all lowest", "all highest"), ends, "If the missing rewards were", folded=True)
        )
    clipped, late = any(a.clipped for a in found.answers), bool(found.log.wait.any())
    method = (LIVES if lived else "") + METHOD
    method = method.format(
        runs=_lives(found.runs),
        rate=number(found.rate),
        clock=CLOCKS[found.clock] if late else "Feedback came to a forecaster at once, as it did in the log.",
        expected=f"a play from scratch of {number(lived[0].rounds)} rounds, give or take the chance in how many are "
        "accepted"
        if lived
        else "the policy",
        clipped="; but weights were cut, so that they are biased, which no interval has in it" if clipped else "",
        luck=LUCK[found.runs > 1] if lived else "",
    )
    points = [
        {"forecaster": a.forecaster, "round": at, "mean": f.mean, "low": f.low, "high": f.high}
        for a in found.answers
        for at, f in a.curve
    ]
    frames = {"learning": polars.DataFrame(points)} if lived else {}
    answer = Section("answer", "What they would have earned", blocks, frames)
    lead = (
        f"{len(found.log):,} logged decisions among {found.log.actions} actions earned {found.logger} a round. What "
        f"would others have earned{', starting from scratch' if lived else ''}"
        f"{' under the recorded delays' if lived and late else ''}?"
    )
    page = Page("Replay of a log", lead, [answer, Section("method", "How it was found", [Text(method)])])
    path = page.write(out)
    write_whole(out / "replay.json", json.dumps(found.data(), indent=2).encode())
    return path


def _lives(runs: int) -> str:
    return "one life" if runs == 1 else f"{runs} lives"


def _estimators(found: Replay) -> str:
    """By what the answers were found; where not all by the same, which by what."""
    names: dict[str, list[str]] = {}
    for answer in found.answers:
        names.setdefault(answer.estimator, []).append(answer.forecaster)
    if len(names) == 1:
        return NAMES[found.answers[0].estimator]
    return "; ".join(f"{', '.join(who)}: {NAMES[name]}" for name, who in names.items())


def _caption(found: Replay) -> str:
    return (
        f"Mean reward ({_estimators(found)}, {found.level:.0%} intervals), difference paired by round, "
        f"rewards other than {number(found.log.usual_reward)} that it rests on, effective sample size, rounds of a "
        "life, and peak of outstanding feedback"
    )


def _values(found: Replay) -> Any:
    figure, axes = panel("what they would have earned", "mean reward")
    axes.axvspan(found.logger.low, found.logger.high, color=COLORS[7], alpha=0.25, linewidth=0)
    axes.axvline(found.logger.mean, color=COLORS[7], linewidth=1)
    for place, answer in enumerate(found.answers):
        v = answer.value
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        axes.plot([v.low, v.high], [place, place], color=color)
        axes.plot([v.mean], [place], color=color, marker=marker)
    names = wrapped([a.forecaster for a in found.answers], 28)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    plain_numbers(axes.xaxis)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, max(height, 1.2 + 0.2 * sum(name.count("\n") + 2 for name in names)))
    return figure


def _curves(found: Replay, lived: list[Answer]) -> Any:
    figure, axes = panel("learning", "round of a life", "mean reward")
    for place, answer in enumerate(lived):
        edges = _edges(answer)
        mean, low, high = (np.array([getattr(f, end) for _, f in answer.curve]) for end in ("mean", "low", "high"))
        color = COLORS[place % len(COLORS)]
        known = np.isfinite(low) & np.isfinite(high)
        for at in np.flatnonzero(known):
            axes.fill_between(edges[at : at + 2], low[at], high[at], color=color, alpha=0.15, linewidth=0)
        axes.stairs(mean, edges, baseline=None, color=color)
        middles, marker = [point for point, _ in answer.curve], MARKERS[place % len(MARKERS)]
        axes.plot(middles, mean, color=color, marker=marker, linestyle="none")
        axes.plot([], [], color=color, marker=marker, label=answer.forecaster)
    axes.axhline(found.logger.mean, color=COLORS[7], linewidth=1, label="logger")
    axes.set_xlim(left=0)
    plain_numbers(axes.xaxis, whole=True)
    plain_numbers(axes.yaxis)
    legend_below(figure, axes)
    return figure


def _edges(answer: Answer) -> Any:
    """Where the stretches of a curve begin and end, from their middles: one has the rounds after its first edge."""
    edges = [0.0]
    for middle, _ in answer.curve:
        edges.append(2 * middle - 1 - edges[-1])
    return np.array(edges)
