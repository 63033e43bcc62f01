"""The page of a study: for each game and horizon regret against delay and along the way, and a table of verdicts."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from belated.engine.result import Result
from belated.report.labels import families, labels
from belated.report.look import Look
from belated.report.page import MEANING, Drawing, Page, Rows, Section, Text, finding
from belated.report.plots import plot
from belated.report.positions import title
from belated.studies.cells import Play
from belated.studies.results import Pairs, Results, cell_frame, curve_frame, replication_frame

Group = list[tuple[Play, Result]]


def groups(pairs: Pairs) -> list[Group]:
    """Cells that share a game, a horizon, an expiry and a seed."""
    found: dict[Any, Group] = {}
    for cell, result in pairs:
        found.setdefault((labels(cell)["game"], cell.rounds, cell.expiry, cell.seed), []).append((cell, result))
    return list(found.values())


def study_page(results: Results) -> Page:
    """The report of a study."""
    pairs = results.pairs
    several = len({cell.seed for cell, _ in pairs}) > 1
    sections = [_section(number, group, len(pairs), several) for number, group in enumerate(groups(pairs), start=1)]
    if results.study.figures:
        sections.insert(0, _figures(results))
    sections[0].frames.update(
        {"cells": cell_frame(pairs), "curves": curve_frame(pairs), "replications": replication_frame(pairs)}
    )
    study = results.study
    lead = escape(study.description) or f"{len(study.cells)} cells, {study.decisions:,} simulated decisions."
    notes = [
        f"{len(study.cells)} cells, {study.decisions:,} simulated decisions. {MEANING} Forecasters that share a "
        "section met the same outcomes and delays. The data are in <code>data/*.parquet</code>, the figures in "
        "<code>figures/</code>."
    ]
    return Page(study.title, lead, sections, notes)


def _figures(results: Results) -> Section:
    """Those that the study asks for."""
    blocks: list[Any] = []
    for number, look in enumerate(results.study.figures, start=1):
        told = "Regret along the way." if look.x == "round" else f"Regret at the horizon against the {title(look.x)}."
        blocks += [Drawing(f"figure-{number}", plot(results.pairs, look), told), Text("")]
    return Section("figures", "Figures", blocks)


def _section(number: int, group: Group, family: int, tell_seed: bool) -> Section:
    cell = group[0][0]
    expiry = "" if cell.expiry is None else f", tickets expire after {cell.expiry:,}"
    verdicts = [result.judge(family=family) for _, result in group]
    rows = [
        [
            labels(cell)["forecaster"],
            labels(cell)["delays"],
            verdict,
            result.mean_regret,
            result.spread if result.spread < np.inf else None,
            result.replications,
            verdict.low,
            verdict.high,
            float(result.peak.mean()),
            result.bound,
            verdict.ratio,
        ]
        for (cell, result), verdict in zip(group, verdicts, strict=True)
    ]
    header = (
        *("forecaster", "delays", "verdict", "regret", "± 95%", "replications", "low", "high"),
        *("G*", "bound", "measured / bound"),
    )
    reasons = dict.fromkeys(r.bound_reason for _, r in group if r.bound_reason)
    blocks: list[Any] = [
        finding("Mean regret is at most the theorem's bound.", [v for v in verdicts if v.bound is not None] or verdicts)
    ]
    if len({labels(cell)["delays"] for cell, _ in group}) > 1:
        told = "Regret at the horizon against the mean delay, approximate 95% bands."
        blocks += [Drawing(f"regret-by-delay-{number}", plot(group, Look("delay")), told), Text("")]
    told = "Regret along the way, of several delays the longest, approximate 95% bands; long dashes are bounds."
    blocks.append(Drawing(f"regret-by-round-{number}", along_the_way(group), told))
    caption = (
        "All cells: mean regret at the horizon. ± is approximate, for the cell alone; low and high hold whatever the "
        "law of regret, for all cells of the page together with 99% confidence."
    )
    blocks.append(Rows(header, rows, caption))
    if reasons:
        listed = "".join(f"<li>{escape(str(reason))}</li>" for reason in reasons)
        blocks.append(Text(f"<p>No bound where:</p><ul>{listed}</ul>"))
    seed = f", seed {cell.seed}" if tell_seed else ""
    title = f"{labels(cell)['game']}, {cell.rounds:,} rounds{expiry}{seed}"
    return Section(f"part-{number}", title, blocks)


def along_the_way(group: Group) -> Any:
    """Regret against the round; of many delays, the longest of each forecaster and family of laws."""
    longest: dict[tuple[str, str], tuple[Play, Result]] = {}
    kin = families([cell.delays for cell, _ in group])
    for (cell, result), law in zip(group, kin, strict=True):
        place = labels(cell)["forecaster"], law
        if place not in longest or _delay(cell) > _delay(longest[place][0]):
            longest[place] = cell, result
    return plot(list(longest.values()), Look("round"))


def _delay(cell: Play) -> float:
    return -1.0 if cell.delays.mean is None else float(cell.delays.mean)
