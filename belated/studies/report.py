"""The page of a study: for each game and horizon regret against delay and along the way, and a table of verdicts."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from belated.engine.result import Result
from belated.report import figures
from belated.report.page import MEANING, Drawing, Page, Rows, Section, Text, finding
from belated.studies.cells import Play
from belated.studies.results import Pairs, Results, cell_frame, curve_frame, labels, replication_frame

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
    if len({_delay(cell) for cell, _ in group}) > 1:
        blocks.append(
            Drawing(
                f"regret-by-delay-{number}",
                delay_panel(group),
                "Regret at the horizon against the mean delay, approximate 95% bands.",
            )
        )
    shown = "; thin dashes are bounds" if any(r.bound is not None for _, r in group) else ""
    blocks.append(
        Drawing(f"regret-by-round-{number}", round_panel(group), f"Regret along the way, approximate 95% bands{shown}.")
    )
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


#: One for each family of laws; forecasters differ by colour.
DASHES = ("-", "--", ":", "-.")


def delay_panel(group: Group) -> Any:
    """Regret at the horizon against the mean delay: a colour for each forecaster, a marker for each family of laws."""
    figure, axes = figures.panel("regret at the horizon", "mean delay", "regret", xscale="symlog")
    for (color, shape, name), own in _lines(group):
        known = sorted((c for c in own if _delay(c[0]) is not None), key=lambda c: _delay(c[0]) or 0.0)
        if known:
            x, samples = [_delay(c) or 0.0 for c, _ in known], [r.regret[:, -1] for _, r in known]
            figures.means(axes, x, samples, color, name, marker=shape, linestyle=DASHES[shape % len(DASHES)])
    axes.set_xlim(left=-0.1)
    figures.legend(axes)
    return figure


def round_panel(group: Group) -> Any:
    """Regret against the round; of many delays, the longest of each forecaster and family of laws."""
    figure, axes = figures.panel("regret along the way", "round", "regret", xscale="log")
    lowest = 0.0
    for (color, shape, _), own in _lines(group):
        cell, result = max(own, key=lambda c: _delay(c[0]) or 0.0)
        name = f"{labels(cell)['forecaster']}, {labels(cell)['delays']}"
        figures.band(axes, result.checkpoints, result.regret, color, name, linestyle=DASHES[shape % len(DASHES)])
        lowest = min(lowest, float(result.regret.mean(axis=0).min()))
        curve = result.bound_curve
        if curve is not None and result.verdict != "vacuous" and shape == 0:
            figures.line(axes, result.checkpoints, curve, color, linewidth=0.7, linestyle=(0, (6, 2)))
    axes.set_yscale("symlog", linthresh=max(1.0, -lowest / 10))
    figures.legend(axes)
    return figure


def _lines(group: Group) -> list[tuple[tuple[int, int, str], Group]]:
    """Cells of one forecaster and one family of laws, with a number for each of the two and a name."""
    forecasters = list(dict.fromkeys(labels(cell)["forecaster"] for cell, _ in group))
    families = list(dict.fromkeys(_family(cell) for cell, _ in group))
    found: dict[tuple[int, int, str], Group] = {}
    for cell, result in group:
        forecaster, family = labels(cell)["forecaster"], _family(cell)
        name = forecaster if len(families) == 1 else f"{forecaster}, {family}"
        place = (forecasters.index(forecaster), families.index(family), name)
        found.setdefault(place, []).append((cell, result))
    return list(found.items())


def _family(cell: Play) -> str:
    return type(cell.delays).__name__.lower()


def _delay(cell: Play) -> float | None:
    mean = cell.delays.mean
    return None if mean is None or not np.isfinite(mean) else float(mean)
