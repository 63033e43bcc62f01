"""The page of an audit."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from belated.audit import drawings
from belated.audit.advice import UNSEEN, some_never
from belated.audit.dependence import SMALL, Dependence
from belated.audit.report import QUANTILES, Audit, said, share
from belated.errors import InvalidArgument
from belated.logs import many
from belated.report.files import write_whole
from belated.report.page import Block, Drawing, Finding, Page, Rows, Section, Text
from belated.report.stats import number
from belated.report.tables import sentences

#: Long names of actions break anywhere.
BREAKS = "overflow-wrap: anywhere"


def write(audit: Audit, out: str | Path) -> Path:
    """The page, its figures and tables, and audit.json."""
    folder = Path(out)
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise InvalidArgument(f"out must be a folder, {str(place)!r} is a file")
    path = page(audit).write(out)
    write_whole(path.parent / "audit.json", audit.to_json().encode())
    return path


def page(audit: Audit) -> Page:
    log = audit.log
    lead = (
        f"{many(log.decisions, 'decision')} from {audit.moment(log.first)} to {audit.moment(log.last)}; the log was "
        f"taken at {audit.moment(log.as_of)}, when feedback had come for {log.came:,} of them "
        f"({log.came / log.decisions:.1%}). "
        f"At most <b>{audit.peak:,}</b> were waiting for theirs when another was made."
    )
    sections = [_advice(audit), _delays(audit), _outstanding(audit), _cost(audit), _dependence(audit), _expiry(audit)]
    sections[0].frames.update({name: frame for name, frame in audit.frames().items() if frame.width})
    notes = [
        "All numbers are in <code>audit.json</code>, the tables in <code>data/*.parquet</code>, the figures in "
        "<code>figures/</code>."
    ]
    return Page("What delay costs", lead, sections, notes)


def _advice(audit: Audit) -> Section:
    rows = [[a.question, a.found or "yours to say; if yes:", a.use, a.why] for a in audit.advice]
    blocks: list[Block] = [
        sentences(("question", "the log says", "use", "because"), rows),
    ]
    kept = {"decisions without feedback that were no longer watched when the log was taken": audit.log.ended}
    told = [[f"{count:,}", f"{reason}; left out"] for reason, count in audit.log.excluded.items()]
    told += [[f"{count:,}", reason] for reason, count in kept.items() if count]
    if told:
        blocks.append(sentences(("rows", "what is to be known of them"), told, "To be kept in mind."))
    return Section("advice", "What to use", blocks)


# --- delays ---


def _delays(audit: Audit) -> Section:
    curve = audit.curve
    rows = []
    for wanted in QUANTILES:
        value, low, high = curve.quantile_with_band(wanted)
        ends = (audit.show(value), audit.show(low), audit.show(high))
        rows.append([f"{wanted:.0%}", *(("not known", ends[1], "open") if high is None else ends)])
    counted = "Every delay is counted by itself."
    if audit.delays.grid:
        counted = (
            f"Delays are counted in cells {audit.delays.grid:.1%} wide, and given as the longest of their cell, low "
            f"ends as the shortest; the curve is off by {curve.grid_error:.2g} at most because of that."
        )
    blocks: list[Block] = [
        Text(
            "Recent decisions may still get their feedback. The curve (Kaplan-Meier) takes each decision into account "
            "for as long as it was watched, so that those count neither as answered nor as lost. This asks that the "
            "law of the delays did not change while the log was written. Intervals are 95%, each by itself, and hold "
            "for few decisions too (beta product confidence procedure; without censoring, Clopper and Pearson's)."
        ),
        Finding(f"Of the feedback {escape(audit.never_said)}.", "shown", counted),
        *([Text(UNSEEN)] if some_never(curve) else []),
        *(_finding(audit, test) for test in audit.dependence if test.on == "time"),
    ]
    if len(drawings.drawn(curve)) > 1:
        text = "The share of feedback that has come by a delay, with a 95% band."
        blocks.append(Drawing("delays", drawings.delays(audit), text))
    if len(audit.log.actions) > 1 and (shown := drawings.most_played(audit)):
        counts = sorted(audit.log.counts[i] for i in shown)
        few = len(audit.log.actions) <= drawings.DRAWN
        text = "The same for each action" + ("" if few else f", of the {drawings.DRAWN} most played")
        text += f": estimates alone, of {counts[0]:,} to {many(counts[-1], 'decision')} each."
        blocks.append(Drawing("delays-by-action", drawings.by_action(audit, shown), text))
    blocks.append(
        Rows(
            ("share that has come", "delay", "low", "high"),
            rows,
            "Quantiles with 95% intervals; where one is open, the log is too short, or holds too little, to tell.",
        )
    )
    return Section("delays", "How long feedback takes", blocks)


# --- outstanding ---


def _outstanding(audit: Audit) -> Section:
    out, log = audit.outstanding, audit.log
    blocks: list[Block] = [
        Text(
            "G is the number of decisions without feedback at the moment when another is made; G* is its peak. "
            + (
                "Decisions that were no longer watched for their feedback are no longer counted."
                if log.watched
                else "Feedback that never came stays outstanding for good: where some never comes, G rises without "
                "end, and an expiry is the cure."
            )
        ),
        Finding(
            f"G* = {audit.peak:,}, near {escape(audit.moment(out.peak.at))}; {log.open:,} at the end.",
            "shown",
            "Counted exactly, as the paper does: feedback that comes at the very time of a decision comes after it.",
        ),
    ]
    if audit.peak and len(out.edges) > 1:
        text = "Decisions without feedback over time; the dot is the peak."
        blocks.append(Drawing("outstanding", drawings.outstanding(audit), text))
    if log.actions:
        header = ["action", "decisions", "feedback", "G*", "median delay (95%)", "median of what came", "never (95%)"]
        rows: list[list[Any]] = []
        for i, row in enumerate(audit.data()["actions"]):
            curve = audit.delays.curve(i)
            median = audit.within(curve, 0.5).removeprefix("within ")
            never = share(curve.never, *curve.never_band)
            counts = [row[name] for name in ("action", "decisions", "came", "peak")]
            rows.append([*counts, median, audit.show(curve.median_of_came), never])
            if log.means is not None:
                rows[-1].append(row["mean_reward"])
        if log.means is not None:
            header.append("mean reward of what came")
        folded = len(rows) > 4 * drawings.DRAWN
        caption = (
            "Each action, with 95% intervals; a median delay is not known where less than half of its decisions get "
            "feedback, or too few were made. Medians and means of what came are estimates alone"
        )
        style = f"td:first-child {{ white-space: normal; min-width: 9rem; {BREAKS}; }}"
        blocks += [
            Text(f'<div class="names"><style>.names {style} .names th {{ white-space: normal; }}</style>'),
            Rows(header, rows, caption if folded else f"{caption}.", folded),
            Text("</div>"),
        ]
    return Section("outstanding", "How much was out at once", blocks)


# --- theorems ---


def _cost(audit: Audit) -> Section:
    case, log = audit.case, audit.log
    known = (
        f"the best action is taken to be {_name(log.actions[case.best])}"
        + (" (the largest mean reward)" if log.means is not None else " (the lowest peak, which is the worst case)")
        if audit.peaks_known
        else f"the log does not tell actions apart, so {len(case.peaks)} are assumed, each with the peak G*"
    )
    blocks: list[Block] = [
        Text(
            f"Regret is what is lost against always taking the best action, in units of the range of rewards, after "
            f"{many(case.n, 'decision')}. Every other action is taken to be worse by {case.gap:g}; {known}. The peaks "
            "are those of the log: another forecaster would have chosen other actions, and so have had other peaks."
        )
    ]
    for each in audit.costs:
        word = "doubtful" if each.doubts and each.word == "bound" else each.word
        blocks.append(Finding(f"<b>{escape(each.forecaster)}</b>: {escape(said(each))}.", word))
    rows = [
        [c.forecaster, c.word, *map(number, (c.with_delay, c.without_delay, c.added, c.factor))] for c in audit.costs
    ]
    blocks.append(
        Rows(("forecaster", "word", "bound", "without delay", "added", "factor"), rows, "What each theorem says.", True)
    )
    return Section("cost", "What the theorems say that it costs", blocks)


# --- dependence ---


def _dependence(audit: Audit) -> Section:
    blocks: list[Block] = [
        Text(
            "BOLD's theorem wants delays that depend neither on the action nor on the outcome; QPM-D and Direct allow "
            f"the action. The tests of this page, that of drift above among them, share the level {audit.level:.3g} by "
            "Holm's rule: if nothing depends on anything, one of them says otherwise with at most this probability. "
            "Groups of which too little is expected are put together. A long log makes the smallest dependence "
            "certain, so the word follows its size: the largest difference between groups of the share that has come "
            f"by some delay, whose 95% interval must be below {SMALL:.0%} for it to be called slight."
        )
    ]
    tests = [test for test in audit.dependence if test.on != "time"]
    if not tests:
        blocks.append(Text("No test could be made: name the columns of actions and rewards to have them."))
    blocks += [_finding(audit, test) for test in tests]
    if audit.log.classes:
        blocks.append(
            Text(
                "Outcomes are known only where feedback came, so they are compared by when, of what came, it came. "
                f"They are told apart as: {escape(', '.join(audit.log.classes))}."
            )
        )
    if some_never(audit.curve):
        blocks.append(Text(UNSEEN))
    return Section("dependence", "Whether the theorems apply", blocks)


def _finding(audit: Audit, test: Dependence) -> Finding:
    text = audit.test_said(test)
    if test.statistic is not None:
        text += f". Chi-square {number(test.statistic)} with {many(test.freedom or 0, 'degree')} of freedom"
        text += f". Medians of what came {_spread(audit, test)}"
    return Finding(test.question, test.word, f'<span style="{BREAKS}">{escape(text[0].upper() + text[1:])}.</span>')


def _name(action: str) -> str:
    return f'<span style="{BREAKS}">{escape(action)}</span>'


def _spread(audit: Audit, test: Dependence) -> str:
    known = sorted((m, name) for name, m in test.medians.items() if m is not None)
    if not known:
        return "are not known"
    low, high = (f"{audit.show(m)} ({name}; {test.sizes[name]:,} came)" for m, name in (known[0], known[-1]))
    return f"are from {low} to {high}"


# --- expiry ---


def _expiry(audit: Audit) -> Section:
    rows = [
        [
            audit.show(e.length),
            share(e.lost, e.lost_low, e.lost_high),
            f"{e.peak.low:,}" if e.peak.exact else f"{e.peak.low:,} to {e.peak.high:,}",
            e.peak.high / audit.peak if audit.peak else None,
        ]
        for e in audit.expiries
    ]
    blocks: list[Block] = [
        Text(
            "An expiry gives a decision up after so long. What comes later is lost, and with it, if delays depend on "
            "outcomes, a fair picture of them; what never comes stops being outstanding."
        ),
    ]
    if len(drawings.drawn(audit.curve)) > 1:
        text = "Feedback that would be lost, of what comes within the log's span."
        blocks.append(Drawing("expiry-lost", drawings.expiry(audit), text))
    left = [e for e in audit.expiries if e.peak.high]
    if len(left) > 1:
        text = "The peak that would be left; the line is the peak without expiry."
        blocks.append(Drawing("expiry-peak", drawings.peaks(audit, left), text))
    text = (
        f"Expiries that were tried; of what comes within {audit.show(audit.watched)}, what is lost, with 95% intervals."
    )
    if rows:
        blocks.append(Rows(("expiry", "lost (95%)", "G* with it", "of G* without"), rows, text))
    else:
        blocks.append(Text(f"None was tried: the log tells nothing of longer delays than {audit.show(audit.watched)}."))
    return Section("expiry", "What an expiry would lose", blocks)
