"""The map of the field: in each world every algorithm's regret against the delay, and who is best where."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from belated.engine.result import Result
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
from belated.report.stats import number
from belated.report.style import COLORS, DASHES
from belated.studies.cells import Play
from belated.studies.field import ACTIONS, LEVEL, WORLDS, World, ranked, tied
from belated.studies.paper.later.shared import SEED, Size
from belated.studies.paper.related.shared import late_panel
from belated.studies.run import Done

if TYPE_CHECKING:
    import polars

WORDS = Prose(__name__)
#: What is alike has one colour: who is told at once and knows nothing of delay, who does, ...
GROUPS = (
    ("Direct(Thompson)", "Delayed-UCB1", "Delayed-KL-UCB", "PatientBandits"),
    ("Direct(Exp3)", "Direct(Tsallis-INF)"),
    ("DelayedExp3", "HybridFTRL", "HybridFTRL, skipping", "CappedExp3", "BoBW24"),
    ("SlidingUCB", "DiscountedUCB", "DiscountedThompson"),
    ("SuccessiveElimination", "PhasedElimination", "OptimisticPessimistic"),
    ("SDB(Thompson)", "QPM-D(Thompson)", "QPM-D(UCB1)"),
    ("BOLD(Exp3)", "BOLD(Tsallis-INF)"),
    ("DelayedSAPO",),
)
Key = tuple[str, int, str]  #: world, delay, candidate


@cache
def plays(size: Size) -> dict[Key, Play]:
    """All cells of the map."""
    return {
        (world.name, delay, name): Play(
            each.forecaster, game, world.law(delay), size.rounds, size.replications, SEED, each.expiry
        )
        for world in worlds(size)
        for delay in size.delays
        for game in [world.game(size.rounds, delay)]
        for name, each in world.candidates(size.rounds, delay).items()
    }


def worlds(size: Size) -> list[World]:
    return [world for world in WORLDS if world.name in size.worlds]


def regrets(done: Done, size: Size, world: str, delay: int) -> dict[str, Any]:
    """The regrets at the horizon of all who met the same world and delay."""
    return {
        name: done[play].regret[:, -1]
        for (where, late, name), play in plays(size).items()
        if (where, late) == (world, delay)
    }


def standings(done: Done, size: Size) -> dict[tuple[str, int], list[Any]]:
    """In each world and at each delay, from the best to the worst."""
    return {(w.name, d): ranked(regrets(done, size, w.name, d)) for w in worlds(size) for d in size.delays}


def chart_blocks(done: Done, size: Size) -> list[Block]:
    found = standings(done, size)
    told = {"rounds": size.rounds, "replications": size.replications, "actions": ACTIONS, "level": LEVEL}
    blocks: list[Block] = [WORDS.text("opening", count=len(next(iter(found.values()))), **told)]
    for world in worlds(size):
        blocks += [
            Finding(WORDS("best", world=world.title), "shown", _often(found, size, world)),
            Drawing(f"later-map-{world.name}", _panel(done, size, world), WORDS("caption", world=world, **told)),
        ]
    stated = {key: done[play] for key, play in plays(size).items() if done[play].bound is not None}
    return [
        *blocks,
        Rows(("world", "delay", "best", "regret", "tied with it", "first that is worse"), _wins(found, size)),
        WORDS.text("wins", **told),
        Rows(("algorithm", *(w.title for w in worlds(size)), "all"), _places(found, size), WORDS("places")),
        finding(WORDS("bounds"), [result.judge(family=len(stated)) for result in stated.values()]),
    ]


def _often(found: dict[tuple[str, int], list[Any]], size: Size, world: World) -> str:
    """Who is best, or tied with the best, at how many delays: the most frequent."""
    counts: dict[str, int] = {}
    for delay in size.delays:
        standing = found[world.name, delay]
        for name in (standing[0][0], *tied(standing)):
            counts[name] = counts.get(name, 0) + 1
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:4]
    listed = ", ".join(f"{name} {count}" for name, count in most)
    return WORDS("often", listed=listed, delays=len(size.delays), level=LEVEL)


def _wins(found: dict[tuple[str, int], list[Any]], size: Size) -> list[list[Any]]:
    rows = []
    for world in worlds(size):
        for delay in size.delays:
            standing = found[world.name, delay]
            (name, best), equal = standing[0], tied(standing)
            worse = next((f"{n}, {number(i.mean)}" for n, i in standing[1:] if n not in equal), "")
            rows.append([world.title, delay, name, str(best), "\n".join([f"{len(equal)}", *equal]), worse])
    return rows


def _places(found: dict[tuple[str, int], list[Any]], size: Size) -> list[list[Any]]:
    """The mean place of every algorithm over the delays, in each world and over all."""
    names = [name for name, _ in next(iter(found.values()))]
    place = {
        name: [
            np.mean([[n for n, _ in found[world.name, delay]].index(name) + 1 for delay in size.delays])
            for world in worlds(size)
        ]
        for name in names
    }
    rows = [[name, *(f"{p:.1f}" for p in each), f"{np.mean(each):.1f}"] for name, each in place.items()]
    return sorted(rows, key=lambda row: float(row[-1]))


def _panel(done: Done, size: Size, world: World) -> Any:
    lines = {name: [done[plays(size)[world.name, d, name]] for d in size.delays] for name in _names(size, world)}
    lowest = min(r.mean_regret for results in lines.values() for r in results)
    scale = "log" if lowest > 0 else "linear"
    figure, axes = late_panel(world.title, "mean regret at the horizon", size.delays, yscale=scale)
    axes.set_xlabel(f"{world.delay} (delay + 1 on a log scale)")
    figure.set_size_inches(7.2, 6.4)
    x = [delay + 1 for delay in size.delays]
    for group, members in enumerate(GROUPS):
        for place, name in enumerate(each for each in members if each in lines):
            style = DASHES[place % len(DASHES)]
            _draw(axes, x, lines[name], group, style, place, name)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    return figure


def _draw(axes: Any, x: list[int], results: list[Result], group: int, style: str, place: int, name: str) -> None:
    look = {"color": COLORS[group], "linestyle": style, "marker": figures.MARKERS[place], "linewidth": 1.2}
    axes.plot(x, [r.mean_regret for r in results], label=name, **look)


def _names(size: Size, world: World) -> list[str]:
    return list(world.candidates(size.rounds, size.delays[0]))


def frame(done: Done, size: Size) -> polars.DataFrame:
    """One row for each cell of the map."""
    import polars

    rows = [
        {"world": world, "delay": delay, "algorithm": name}
        | {"regret": each.mean, "low": each.low, "high": each.high, "replications": size.replications}
        | {"place": place, "tied": place == 1 or name in tied(standing)}
        for (world, delay), standing in standings(done, size).items()
        for place, (name, each) in enumerate(standing, start=1)
    ]
    return polars.DataFrame(rows)
