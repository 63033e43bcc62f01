"""What the command line prints: tables of findings, cells and plays."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from belated import notation
from belated.engine.result import Result
from belated.studies.page import Section
from belated.studies.run import State
from belated.studies.stats import number

STYLES = {"holds": "green", "matches": "green", "fails": "bold red", "unclear": "yellow", "shown": "blue"}
#: Rows of a study that are printed; the page has them all.
MOST = 60


def print_findings(sections: list[Section]) -> None:
    """Every verdict of the paper's page."""
    shown = Table("part", "verdict", "statement", title="what the data say", title_justify="left", box=SIMPLE)
    for section in sections:
        for place, found in enumerate(section.findings):
            shown.add_row("" if place else section.name, _word(found.word), _no_tags(found.statement))
    Console().print(shown)


def print_cells(frame: Any) -> None:
    """The cells of a study, a table for each game and horizon."""
    printed = 0
    for (game, rounds, expiry), group in frame.group_by(["game", "rounds", "expiry"], maintain_order=True):
        printed += len(group)
        if printed > MOST and printed > len(group):
            print(f"and {len(frame) - printed + len(group)} cells more, in the page")
            return
        late = "" if expiry is None else f", tickets expire after {expiry:,}"
        shown = Table(title=escape(f"{game}, {rounds:,} rounds{late}"), title_justify="left", box=SIMPLE)
        for name in ("forecaster", "delays"):
            shown.add_column(name, overflow="fold")
        for name in ("regret", "G*", "bound", "ratio"):
            shown.add_column(name, justify="right", no_wrap=True)
        shown.add_column("verdict")
        for row in group.iter_rows(named=True):
            regret = f"{number(row['regret'])} ± {number(1.96 * row['standard_error'])}"
            numbers = (regret, number(row["peak"]), number(row["bound"]), number(row["ratio"]))
            shown.add_row(escape(row["forecaster"]), escape(row["delays"]), *numbers, _word(row["verdict"]))
        Console().print(shown)


def print_end(state: State, page: Path) -> None:
    """What was done, and where it is."""
    new = f"{state.finished} cells computed ({state.played:,} decisions)" if state.finished else "nothing to compute"
    reused = f", {state.reused} reused" if state.reused else ""
    print(f"{new}{reused}; the page is {page}")


def summary(result: Result) -> dict[str, Any]:
    """One play as plain data."""
    verdict = result.judge()
    return {
        "forecaster": notation.text("forecaster", result.setting.forecaster),
        "game": notation.text("game", result.setting.game),
        "delays": notation.text("delays", result.setting.delays),
        "rounds": result.rounds,
        "replications": result.replications,
        "seed": result.setting.seed,
        "regret": result.mean_regret,
        "standard_error": result.standard_error,
        "bound": result.bound,
        "bound_reason": result.bound_reason,
        "ratio": verdict.ratio,
        "verdict": verdict.word,
        "peak": float(result.peak.mean()),
        "instances": float(result.instances.mean()),
        "pulls": result.pulls.mean(axis=0).tolist(),
        "seconds": result.seconds,
    }


def print_play(result: Result) -> None:
    """One play as a table."""
    known = summary(result)
    shown = Table(
        title=escape(f"{known['forecaster']} on {known['game']} under {known['delays']}"), title_justify="left"
    )
    shown.add_column("what", no_wrap=True)
    shown.add_column("value")
    spread = f" ± {number(1.96 * result.standard_error)}" if result.replications > 1 else ""
    shown.add_row("regret", f"{number(result.mean_regret)}{spread} after {result.rounds:,} rounds")
    bound = f"none: {result.bound_reason}" if result.bound is None else number(result.bound)
    shown.add_row("bound", bound)
    if result.bound is not None:
        shown.add_row("verdict", f"{result.judge()}")
    shown.add_row("peak G*", number(known["peak"]))
    shown.add_row("instances", number(known["instances"]))
    pulls = known["pulls"]
    shown.add_row(
        "plays of each action", ", ".join(number(p) for p in pulls[:12]) + (", ..." if len(pulls) > 12 else "")
    )
    decisions = result.rounds * result.replications
    shown.add_row("speed", f"{decisions:,} decisions in {result.seconds:.2f} s")
    Console().print(shown)


def _word(word: str) -> str:
    style = STYLES.get(word, "dim")
    return f"[{style}]{word}[/{style}]"


def _no_tags(text: str) -> str:
    return escape(html.unescape(re.sub(r"<[^>]+>", "", text)))
