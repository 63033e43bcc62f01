"""Which probability QPM-D divides by: the query's, or the ticket's."""

from __future__ import annotations

from belated.delays import Constant, Geometric
from belated.forecasters import QPMD
from belated.learners import Exp3
from belated.protocols import Delays
from belated.report.page import Block, Drawing, Finding
from belated.report.prose import Prose
from belated.studies.paper.beyond.shared import (
    ARMS,
    Grid,
    Pairing,
    Plays,
    exactly,
    pair,
    paired,
    pairing_rows,
    ratio_panel,
    same_play,
    together,
)
from belated.studies.run import Done
from belated.studies.variants import TicketQPMD

WORDS = Prose(__name__)
KINDS: dict[str, type[QPMD]] = {"query": QPMD, "ticket": TicketQPMD}


def laws(mean: int) -> dict[str, Delays]:
    return {"constant": Constant(mean), "geometric": Geometric(mean=mean)}


def probability_plays(grid: Grid) -> Plays:
    """(law, mean delay, whose probability); and delay 0."""
    plays: Plays = {}
    for whose, kind in KINDS.items():
        for mean in grid.queries:
            for law, delays in laws(mean).items():
                plays[law, mean, whose] = grid.play(kind(Exp3(5)), ARMS, delays)
        plays["constant", 0, whose] = grid.play(kind(Exp3(5)), ARMS, Constant(0))
    return plays


def probability_blocks(done: Done, grid: Grid) -> tuple[list[Block], list[Pairing]]:
    pairs = paired(done, probability_plays(grid), *KINDS)
    undelayed = pairs.pop(("constant", 0))
    lines = [(law, "-", [pairs[law, mean] for mean in grid.queries]) for law in laws(1)]
    pairings = [
        pair(f"{law}, mean delay {mean}", *pairs[law, mean], len(pairs)) for law in laws(1) for mean in grid.queries
    ]
    shares = [ticket.mean_regret / query.bound for query, ticket in pairs.values() if query.bound]
    return [
        WORDS.text("claim"),
        WORDS.formula("formula"),
        together(WORDS("query"), pairings),
        Finding(WORDS("ticket"), "shown", WORDS("ticket detail", least=min(shares), most=max(shares))),
        exactly(WORDS("same"), [same_play(*undelayed)]),
        Drawing(
            "beyond-probability",
            ratio_panel("QPM-D(Exp3): ticket over query", "regret, times that of the query's", grid.queries, lines),
            WORDS("caption"),
        ),
        pairing_rows(pairings, "query's", "ticket's"),
    ], pairings
