"""Families of learners made for late feedback: the theorem, where there is one, cells, verdict and figure of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from belated.delays import Constant, Geometric, Lossy, PerReward
from belated.engine.result import Result
from belated.forecasters import BOLD, Direct, Forecaster
from belated.games import Advice, Bernoulli, RandomWalk, RewardTable
from belated.learners import (
    DORM,
    AdaHedgeD,
    CappedExp3,
    Conversions,
    DelayedExp4,
    DelayedHedge,
    DORMPlus,
    Exp4,
    Hedge,
    OTFLinUCB,
    PatientBandits,
    ThompsonBernoulli,
)
from belated.protocols import Game
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows, finding
from belated.report.prose import Prose
from belated.studies.cells import Play
from belated.studies.field import ACTIONS, CAPACITY, MEANS, STEP, TAIL, candidates, only_sales, wave, window_of
from belated.studies.paper.later import chart
from belated.studies.paper.later.shared import SEED, Size
from belated.studies.paper.related.shared import late_panel
from belated.studies.run import Done

WORDS = Prose(__name__)
Plays = dict[tuple[str, int], Play]  #: by label and delay
#: Advice: every expert names one action, or two.
EXPERTS = (
    *np.eye(ACTIONS).tolist(),
    *((np.eye(ACTIONS)[i] + np.eye(ACTIONS)[i - 1]) / 2 for i in range(ACTIONS)),
)
#: Gaps so large that bounds for i.i.d. rewards are below what regret can be, and how much is lost where some is.
CLEAR, LOST = (0.1, 0.1, 0.1, 0.1, 0.9), 0.02
#: Rates of sales, and the features of the actions, of which they are a linear function.
RATES = (0.1, 0.15, 0.2, 0.25, 0.3)
FEATURES = tuple((1.0, rate) for rate in RATES)
#: The longest window of sales: what is later is lost.
LONGEST_SALE = 1000


@dataclass(frozen=True)
class Family:
    """What is played, by label and delay, and the names of its pieces of prose; `name` is that of the claim."""

    name: str
    title: str
    formula: str
    bound: str  #: nothing where no bound is stated
    plays: Callable[[Size], Plays]
    delay: str = "mean delay"


def _mapped(world: str, *names: str) -> Callable[[Size], Plays]:
    """Cells of the map."""

    def chosen(size: Size) -> Plays:
        found = chart.plays(size)
        return {(name, d): found[world, d, name] for name in names for d in size.delays if (world, d, name) in found}

    return chosen


def _made(game: Callable[[Size, int], Game], law: Any, who: Callable[[Size, int], Mapping[str, Forecaster]]) -> Any:
    """Cells of the family's own."""

    @cache
    def made(size: Size) -> Plays:
        return {
            (name, delay): Play(forecaster, played, law(delay), size.rounds, size.replications, SEED)
            for delay in size.delays
            for played in [game(size, delay)]
            for name, forecaster in who(size, delay).items()
        }

    return made


def _of(*names: str) -> Callable[[Size, int], Mapping[str, Forecaster]]:
    """Some of the candidates of the field."""
    return lambda size, delay: {
        name: each.forecaster
        for name, each in candidates("bandit", ACTIONS, size.rounds, 5 * delay).items()
        if name in names
    }


def _clear(size: Size, delay: int) -> Game:
    return Bernoulli(CLEAR)


def _full_wave(size: Size, delay: int) -> Game:
    return RewardTable(np.asarray(wave(size.rounds, delay).table), "full")


def _hedges(size: Size, delay: int) -> dict[str, Forecaster]:
    return {
        "DelayedHedge": Direct(DelayedHedge(ACTIONS)),
        "BOLD(Hedge)": BOLD(Hedge(ACTIONS)),
        "Direct(Hedge)": Direct(Hedge(ACTIONS)),
    }


def _advised(size: Size, delay: int) -> dict[str, Forecaster]:
    count = len(EXPERTS)
    return {
        "DelayedExp4": Direct(DelayedExp4(count, ACTIONS)),
        "BOLD(Exp4)": BOLD(Exp4(ACTIONS, count)),
        "Direct(Exp4)": Direct(Exp4(ACTIONS, count)),
    }


def _hinted(size: Size, delay: int) -> Mapping[str, Forecaster]:
    kinds = {"DORM": DORM, "DORM+": DORMPlus, "AdaHedgeD": AdaHedgeD}
    made: dict[str, Forecaster] = {}
    made |= {
        f"{name}, {hint}": Direct(kind(ACTIONS, hint)) for name, kind in kinds.items() for hint in ("none", "mean")
    }
    return made | {"DelayedHedge": Direct(DelayedHedge(ACTIONS))}


def _capped(size: Size, delay: int) -> Mapping[str, Forecaster]:
    return {f"capacity {c}": Direct(CappedExp3(ACTIONS, c, delay)) for c in (4, CAPACITY)}


def _sellers(size: Size, delay: int) -> dict[str, Forecaster]:
    window = min(window_of(5 * max(size.delays)), LONGEST_SALE)
    return {
        "Conversions": Direct(Conversions(ACTIONS, window)),
        "Conversions, ucb": Direct(Conversions(ACTIONS, window, rule="ucb")),
        "OTFLinUCB, paper": Direct(OTFLinUCB(ACTIONS, 2, window)),
        "OTFLinUCB, released": Direct(OTFLinUCB(ACTIONS, 2, window, form="released")),
        "PatientBandits": Direct(PatientBandits(ACTIONS, size.rounds, TAIL)),
        "Thompson, told of sales": Direct(ThompsonBernoulli(ACTIONS)),
    }


@cache
def _shop(rounds: int) -> RewardTable:
    """Sales with the features of the actions beside, written down once."""
    sold = np.random.default_rng(SEED).random((rounds, ACTIONS)) < np.array(RATES)
    return RewardTable(sold.astype(float), contexts=np.tile(np.ravel(FEATURES), (rounds, 1)))


FAMILIES = (
    Family("hedge", "hedge title", "hedge formula", "hedge bound", _made(_full_wave, Constant, _hedges), "delay"),
    Family(
        "exp3",
        "exp3 title",
        "exp3 formula",
        "exp3 bound",
        _mapped("wave", "DelayedExp3", "HybridFTRL", "BOLD(Exp3)", "Direct(Exp3)", "Direct(Tsallis-INF)"),
        "delay",
    ),
    Family(
        "exp4",
        "exp4 title",
        "exp4 formula",
        "exp4 bound",
        _made(lambda size, d: Advice(MEANS, EXPERTS), lambda d: Geometric(mean=d), _advised),
    ),
    Family(
        "skipping",
        "skipping title",
        "skipping formula",
        "skipping bound",
        _made(
            _clear, lambda d: Lossy(Geometric(mean=d), LOST), _of("HybridFTRL", "HybridFTRL, skipping", "BOLD(Exp3)")
        ),
    ),
    Family(
        "capped",
        "capped title",
        "capped formula",
        "capped bound",
        _made(lambda size, d: wave(size.rounds, d), Constant, _capped),
        "delay",
    ),
    Family(
        "hints",
        "hints title",
        "hints formula",
        "hints bound",
        _made(lambda size, d: RandomWalk(ACTIONS, STEP), lambda d: Geometric(mean=d), _hinted),
    ),
    Family(
        "elimination",
        "elimination title",
        "elimination formula",
        "elimination bound",
        _made(_clear, lambda d: Geometric(mean=d), _of("SuccessiveElimination", "PhasedElimination", "Delayed-UCB1")),
    ),
    Family(
        "optimistic",
        "optimistic title",
        "optimistic formula",
        "optimistic bound",
        _made(
            _clear,
            lambda d: PerReward([Constant(0), Geometric(mean=d)]),
            _of("OptimisticPessimistic", "SuccessiveElimination", "Delayed-UCB1"),
        ),
    ),
    Family(
        "conversions",
        "conversions title",
        "conversions formula",
        "",
        _made(lambda size, d: _shop(size.rounds), lambda d: only_sales(Geometric(mean=d)), _sellers),
        "mean delay of a sale",
    ),
    Family(
        "drifting",
        "drifting title",
        "drifting formula",
        "",
        _mapped("walk", "SlidingUCB", "DiscountedUCB", "DiscountedThompson", "Direct(Thompson)", "Delayed-UCB1"),
    ),
)


def family_blocks(done: Done, size: Size, family: Family) -> list[Block]:
    found: dict[tuple[str, int], Result] = {key: done[play] for key, play in family.plays(size).items()}
    stated = {key: result for key, result in found.items() if result.bound is not None}
    verdicts = {key: result.judge(family=max(1, len(stated))) for key, result in found.items()}
    title = WORDS(family.title)
    if stated:
        said = finding(WORDS(family.bound), [verdicts[key] for key in stated])
    else:
        reasons = sorted({str(result.bound_reason) for result in found.values()})
        said = Finding(WORDS("no bound", name=title), "no bound", "; ".join(reasons))
    return [
        WORDS.text("claim", title=title, html=WORDS(family.name)),
        WORDS.formula(family.formula),
        said,
        Drawing(
            f"later-{family.name}",
            _panel(found, size, family),
            WORDS("caption", title=title, size=size),
        ),
        Rows(
            ("algorithm", "delay", "regret", "± 95%", "bound", "verdict"),
            [[name, d, r.mean_regret, r.spread, r.bound, verdicts[name, d]] for (name, d), r in found.items()],
            WORDS("cells", size=size),
            folded=True,
        ),
    ]


def _panel(found: dict[tuple[str, int], Result], size: Size, family: Family) -> Any:
    figure, axes = late_panel("", "mean regret at the horizon", size.delays, yscale="linear")
    axes.set_xlabel(f"{family.delay} (delay + 1 on a log scale)")
    x = [delay + 1 for delay in size.delays]
    most = max(r.mean_regret for r in found.values())
    for at, name in enumerate(dict.fromkeys(label for label, _ in found)):
        results = [found[name, d] for d in size.delays]
        figures.means(axes, x, [r.regret[:, -1] for r in results], at, name)
        if all(r.bound is not None for r in results):
            figures.line(axes, x, [r.bound for r in results], at)
    low = min(0.0, *(r.mean_regret for r in found.values()))
    axes.set_ylim(1.3 * low, 1.6 * max(most, 1.0))
    figures.legend(axes, ncols=2)
    return figure
