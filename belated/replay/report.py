"""The page of a replay, and what the terminal shows of it."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.studies.figures import COLORS, MARKERS, legend, panel
from belated.studies.page import Block, Drawing, Page, Rows, Section, Text
from belated.studies.stats import Interval, number
from belated.studies.store import write_whole

if TYPE_CHECKING:
    from belated.replay.replay import Answer, Replay

NAMES = {
    "dr": "doubly robust",
    "ips": "inverse propensity",
    "snips": "inverse propensity, normalised",
    "replay": "accepted rounds only",
}
METHOD = """
<p>A forecaster learns from what it does, so its reward cannot be had by weighting the log: it must live through
rounds. The log was dealt out, round by round, to {runs}. A life starts with a fresh forecaster, which is asked what it
would do in every round of its share. It lives through a round if it proposes the logged action and a coin agrees; the
coin shows heads with probability c / p, where p is the recorded probability and c = {rate}. So a round is accepted
with probability c whatever is proposed, and the accepted rounds are a play of the forecaster in the same world (Li et
al. 2011; Dudík et al. 2012). In rounds that are not accepted the forecaster stays as it was.</p>
<p>{clock}</p>
<p>The estimate uses all rounds, not only accepted ones: in each it asks what the proposed action was worth. With
w = 1/p where the proposal is the logged action and 0 elsewhere, inverse propensity averages w r; normalised weights
divide by the mean of w; the doubly robust estimate averages m(proposed) + w (r - m(logged)) with a ridge regression m
of rewards on the rounds before. All but the normalised one are unbiased for the expected mean reward of a play from
scratch of {rounds} rounds, give or take the chance in how many are accepted{clipped}.</p>
<p>{interval} It is assumed that rewards, contexts and delays are drawn in the same way in all rounds, independently;
that the logger never gave an action a smaller probability than the smallest recorded one; and that whether a reward
was recorded does not depend on it. A world that decisions change cannot be replayed.</p>
"""
CLOCKS = {
    "rounds": "Feedback came to a forecaster after as many of its own rounds as decisions were logged while it was "
    "outstanding: it met the recorded delays, and about as many outstanding feedbacks as the logger had.",
    "log": "Feedback came to a forecaster when the log had passed its observation: a life is a forecaster that decides "
    "for a small random share of the traffic, to which delays are that much shorter in its own rounds.",
}
INTERVALS = {
    True: "Lives are independent; the intervals are Student's over them, and have the luck of a life in them.",
    False: "With one life the intervals are normal ones of a martingale: they hold for this life, without its luck.",
}
#: Effective sample size, accepted rounds of a life, accepted share of the log, peak of outstanding feedback.
HEADER = ("forecaster", "mean reward", "minus logger", "n eff.", "rounds", "share", "G*")


def table(found: Replay) -> list[tuple[str, ...]]:
    """One row for the logger and one for each forecaster, under `HEADER`."""
    logger = ("logger", _spread(found.logger), "", "", f"{len(found.log.rows):,}", "", f"{found.log.outstanding:,}")
    return [logger, *(_row(answer) for answer in found.answers)]


def _row(answer: Answer) -> tuple[str, ...]:
    return (
        answer.forecaster,
        _spread(answer.value),
        _spread(answer.difference, "+"),
        number(answer.effective),
        number(answer.rounds),
        f"{answer.share:.1%}",
        f"{answer.peak:,}",
    )


def _spread(found: Interval, sign: str = "") -> str:
    return f"{found.mean:{sign}.3g} ± {found.high - found.mean:.2g}"


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
    title = (
        f"{len(found.log):,} decisions, {_lives(found.runs)}, {NAMES[found.answers[0].estimator]}, {found.level:.0%}"
    )
    shown = Table(title=title, title_justify="left", box=SIMPLE, padding=(0, 1, 0, 0))
    for name in HEADER:
        first = name == "forecaster"
        shown.add_column(name, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    for row in table(found):
        shown.add_row(*map(plain, row))
    console.print(shown)
    for warning in said(found):
        console.print(f"[yellow]warning:[/yellow] {plain(warning)}")


def write_report(found: Replay, out: Path) -> Path:
    """index.html with its figures and data, and replay.json; the path of the page."""
    import polars

    first = found.answers[0]
    blocks: list[Block] = [Rows(HEADER, table(found), _caption(found))]
    if said(found):
        listed = "".join(f"<li>{escape(warning)}</li>" for warning in said(found))
        blocks.append(Text(f"<p>To be kept in mind:</p><ul>{listed}</ul>"))
    blocks += [
        Drawing("replay", _values(found), f"Mean reward with {found.level:.0%} intervals; the line is the logger"),
        Drawing("learning", _curves(found), "Mean reward in stretches of rounds of a life, with bands"),
    ]
    rows = [
        (
            a.forecaster,
            NAMES[name],
            str(a.estimates[name]),
            str(a.lived[name]),
            str(a.sure[name]) if name in a.sure else "-",
        )
        for a in found.answers
        for name in NAMES
    ]
    header = ("forecaster", "estimator", "interval", "lives as they were: normal", "the same: empirical Bernstein")
    blocks.append(Rows(header, rows, "All estimates", folded=True))
    if np.isnan(found.log.reward[found.log.rows]).any():
        ends = [(a.forecaster, *a.extremes) for a in found.answers]
        blocks.append(
            Rows(("forecaster", "all lowest", "all highest"), ends, "If the missing rewards were", folded=True)
        )
    method = METHOD.format(
        runs=_lives(found.runs),
        rate=number(found.rate),
        clock=CLOCKS[found.clock],
        rounds=number(first.rounds),
        clipped=", but for weights that were cut" if first.clipped else "",
        interval=INTERVALS[found.runs > 1],
    )
    points = [
        {"forecaster": a.forecaster, "round": at, "mean": f.mean, "low": f.low, "high": f.high}
        for a in found.answers
        for at, f in a.curve
    ]
    answer = Section("answer", "What they would have earned", blocks, {"learning": polars.DataFrame(points)})
    lead = (
        f"{len(found.log):,} logged decisions among {found.log.actions} actions earned {found.logger} a round. What "
        "would other forecasters have earned, starting from scratch under the recorded delays?"
    )
    page = Page("Replay of a log", lead, [answer, Section("method", "How it was found", [Text(method)])])
    path = page.write(out)
    write_whole(out / "replay.json", json.dumps(found.data(), indent=2).encode())
    return path


def _lives(runs: int) -> str:
    return "one life" if runs == 1 else f"{runs} lives"


def _caption(found: Replay) -> str:
    return (
        f"Mean reward ({NAMES[found.answers[0].estimator]}, {found.level:.0%} intervals), difference paired by round, "
        "effective sample size, rounds of a life, accepted share of the log, and peak of outstanding feedback"
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
    axes.set_yticks(range(len(found.answers)), [a.forecaster for a in found.answers])
    axes.set_ylim(len(found.answers) - 0.5, -0.5)
    return figure


def _curves(found: Replay) -> Any:
    figure, axes = panel("learning", "round of a life", "mean reward")
    for place, answer in enumerate(found.answers):
        at = [point for point, _ in answer.curve]
        low, high = ([getattr(f, end) for _, f in answer.curve] for end in ("low", "high"))
        color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
        axes.plot(at, [f.mean for _, f in answer.curve], color=color, marker=marker, label=answer.forecaster)
        if np.isfinite(low).all():
            axes.fill_between(at, low, high, color=color, alpha=0.15, linewidth=0)
    axes.axhline(found.logger.mean, color=COLORS[7], linewidth=1, label="logger")
    legend(axes)
    return figure
