"""What the command line prints: tables of findings, cells and plays."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from belated.engine.result import Result
from belated.games.description import Description
from belated.protocols import NEVER
from belated.report.page import Section
from belated.report.stats import number
from belated.studies.run import State

STYLES = {
    "holds": "green",
    "matches": "green",
    "likely holds": "cyan",
    "unclear": "yellow",
    "likely fails": "red",
    "fails": "bold red",
    "identity": "blue",
    "shown": "blue",
}
#: What the numbers behind a mean are; printed below every table that has them.
MEANING = '± 95% (Student\'s, approximate), each cell alone; verdicts hold together with 99%, "likely" is approximate'
#: Rows of a study that are printed; the page has them all.
MOST = 60


def print_findings(sections: list[Section]) -> None:
    """Every verdict of the paper's page."""
    shown = Table("part", "verdict", "statement", title="what the data say", title_justify="left", box=SIMPLE)
    for section in sections:
        for place, found in enumerate(section.findings):
            said = _no_tags(found.statement)
            if found.detail:
                said += f"\n[dim]{_no_tags(found.detail)}[/dim]"
            shown.add_row("" if place else section.name, _word(found.word), said)
    Console().print(shown)


def print_cells(frame: Any) -> None:
    """The cells of a study, a table for each game and horizon."""
    printed = 0
    for (game, rounds, expiry), group in frame.group_by(["game", "rounds", "expiry"], maintain_order=True):
        printed += len(group)
        if printed > MOST and printed > len(group):
            print(f"and {len(frame) - printed + len(group)} cells more, in the page")
            break
        late = "" if expiry is None else f", tickets expire after {expiry:,}"
        shown = Table(title=escape(f"{game}, {rounds:,} rounds{late}"), title_justify="left", box=SIMPLE)
        for name in ("forecaster", "delays"):
            shown.add_column(name, overflow="fold")
        for name in ("regret", "G*", "bound", "ratio"):
            shown.add_column(name, justify="right", no_wrap=True)
        shown.add_column("verdict")
        for row in group.iter_rows(named=True):
            regret = _spread(row["regret"], row["spread"])
            numbers = (regret, number(row["peak"]), number(row["bound"]), number(row["ratio"]))
            shown.add_row(escape(row["forecaster"]), escape(row["delays"]), *numbers, _word(row["verdict"]))
        Console().print(shown)
    print(MEANING)


def print_end(state: State, page: Path) -> None:
    """What was done, and where it is."""
    cells = "1 cell" if state.finished == 1 else f"{state.finished} cells"
    new = f"{cells} computed ({state.played:,} decisions)" if state.finished else "nothing to compute"
    reused = f", {state.reused} reused" if state.reused else ""
    print(f"{new}{reused}; the page is {page}")


def summary(result: Result, names: tuple[str, str, str]) -> dict[str, Any]:
    """One play as plain data; forecaster, game and delays have the names that they were given by."""
    verdict = result.judge()
    forecaster, game, delays = names
    return {
        "forecaster": forecaster,
        "game": game,
        "delays": delays,
        "rounds": result.rounds,
        "replications": result.replications,
        "seed": result.setting.seed,
        "expiry": None if result.setting.expiry == NEVER else result.setting.expiry,
        "regret": result.mean_regret,
        "standard_error": result.standard_error if result.replications > 1 else None,
        "spread": _finite(result.spread),
        "low": _finite(verdict.low) if result.replications > 1 else None,
        "high": _finite(verdict.high) if result.replications > 1 else None,
        "bound": result.bound,
        "bound_reason": result.bound_reason,
        "ratio": verdict.ratio,
        "verdict": verdict.word,
        "peak": float(result.peak.mean()),
        "instances": float(result.instances.mean()),
        "pulls": result.pulls.mean(axis=0).tolist(),
        "seconds": result.seconds,
    }


def print_play(result: Result, names: tuple[str, str, str]) -> None:
    """One play as a table, under the names that were given of the forecaster, the game and the delays."""
    known = summary(result, names)
    forecaster, game, delays = names
    shown = Table(title=escape(f"{forecaster} on {game} under {delays}"), title_justify="left")
    shown.add_column("what", no_wrap=True)
    shown.add_column("value")
    shown.add_row("regret", f"{_spread(result.mean_regret, result.spread)} after {result.rounds:,} rounds")
    once = "1 replication: no interval"
    shown.add_row(
        "", once if result.replications == 1 else f"{_certainty(known)}; {result.replications:,} replications"
    )
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


def _certainty(known: dict[str, Any]) -> str:
    """What is said of the regret of a play: what ± is, and the interval that holds."""
    near = "no ±: all are alike" if known["spread"] is None else "± 95%, approximate (Student)"
    if known["low"] is None or known["high"] is None:
        return f"{near}; no sure interval: what regret can be is not known"
    return f"{near}; 99% sure: {number(known['low'])} to {number(known['high'])}"


def print_game(described: Description) -> None:
    """What a finite game is."""
    console = Console()
    style = {"trivial": "green", "easy": "green", "hard": "yellow", "hopeless": "red"}[described.structure.klass]
    word, _, meaning = described.headline.partition(":")
    console.print(f"[bold {style}]{word}[/]:{meaning}")
    for columns, rows in (
        (("action", "kind", "losses", "symbols"), described.actions()),
        (("neighbours", "N+", "observable", "observer"), described.neighbours()),
    ):
        if rows:
            shown = Table(*columns, box=SIMPLE)
            for row in rows:
                shown.add_row(*map(escape, row))
            console.print(shown)


def _finite(value: float) -> float | None:
    """What JSON can say."""
    return value if math.isfinite(value) else None


def _spread(mean: float, spread: float | None) -> str:
    """A mean with its approximate 95% interval, where there is one."""
    return number(mean) if spread is None or math.isinf(spread) else f"{number(mean)} ± {number(spread)}"


def _word(word: str) -> str:
    style = STYLES.get(word.removesuffix(", uninformative") if word.startswith("likely") else word, "dim")
    return f"[{style}]{word}[/{style}]"


def _no_tags(text: str) -> str:
    return escape(html.unescape(re.sub(r"<[^>]+>", "", text)))
