"""Which probability QPM-D divides by: the query's, or the ticket's."""

from __future__ import annotations

from belated.delays import Constant, Geometric
from belated.forecasters import QPMD
from belated.learners import Exp3
from belated.protocols import Delays
from belated.report.page import Block, Drawing, Finding, Formula, Text
from belated.report.stats import number
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
        Text(
            "<h3>Which probability QPM-D divides by</h3><p>Exp3 divides a loss by a probability. Under QPM-D a ticket "
            "was played when the base held an action, with the probability of the query of that time; its feedback "
            "answers a later query for the same action, with another. The estimate is unbiased with that of the query "
            "that is answered. The variant uses the ticket's.</p>"
        ),
        Formula("loss estimate of the query's action: (1 - reward) / p, &nbsp; p = P(the query chose it)"),
        together("QPM-D(Exp3) has less regret with the query's probability than with the ticket's.", pairings),
        Finding(
            "With the ticket's probability, against the bound of QPM-D, which then is no theorem.",
            "shown",
            f"regret / that bound {number(min(shares))} to {number(max(shares))}",
        ),
        exactly("Without delay the ticket is the query: both play the same.", [same_play(*undelayed)]),
        Drawing(
            "beyond-probability",
            ratio_panel("QPM-D(Exp3): ticket over query", "regret, times that of the query's", grid.queries, lines),
            "QPM-D(Exp3): regret with the ticket's probability over that with the query's; 95% bands.",
        ),
        pairing_rows(pairings, "query's", "ticket's"),
    ], pairings
