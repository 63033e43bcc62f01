"""The reordering lemma: what QPM-D hands to its base is i.i.d., whatever the delays did to the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.delays import Geometric, Law, Pareto, PerAction
from belated.errors import BelatedError
from belated.forecasters import QPMD
from belated.games import Bernoulli
from belated.kernels.compile import identity, kernel
from belated.kernels.random import replication_key, seed_words
from belated.learners import KLUCB, UCB1, RoundRobin
from belated.protocols import Floats, Game, Learner
from belated.report import figures
from belated.report.page import Block, Drawing, Finding, Rows
from belated.report.prose import Prose
from belated.report.stats import corrected, mean_interval
from belated.studies.cells import Cell, Play, Table, Tell
from belated.studies.run import Done
from belated.theory.verdicts import LEVEL

WORDS = Prose(__name__)
MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
SEED = 2013
#: A cell that has waited for so many rounds gives up.
MOST_ROUNDS = 1 << 15

COLUMNS = ("first", "last", "count", "total")

Coins = NDArray[np.int8]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Feedback:
    """The feedback of each action in the order in which it came, of many replications."""

    rounds: int  #: how long it took until every action had enough
    first: Coins  #: the first m, (replications, actions, m)
    last: Coins  #: the last m that came by then
    count: Integers  #: how many came by then, (replications, actions)
    total: Integers  #: their sum


@dataclass(frozen=True, eq=False)
class FirstFeedback(Cell):
    """The first m feedbacks of each action in each replication of a play.

    The play is made twice as long until all are there. A longer play repeats the shorter one, so that nothing about
    the feedback decides whether it is looked at.
    """

    play: Play
    m: int

    @property
    def title(self) -> str:
        return f"first {self.m} feedbacks, {self.play.title}"

    @property
    def decisions(self) -> int:
        return self.play.decisions

    def describe(self) -> dict[str, Any]:
        return {"play": self.play.describe(), "m": self.m}

    def code(self) -> list[Any]:
        return [*self.play.code(), identity(make_rewards(kernel(self.play.game.outcome)))]

    def compute(self, tell: Tell) -> Table:
        played = self.play
        while played.rounds <= MOST_ROUNDS:
            result = played.play(tell, record=True)
            if (result.observed >= self.m).all():
                assert result.actions is not None and result.delays is not None
                rewards = rewards_of(played.game, played.seed, result.actions)
                columns = in_order(result.actions, result.delays, rewards, played.game.actions, self.m)
                return Table(columns, {"rounds": played.rounds})
            played = replace(played, rounds=2 * played.rounds)
        raise BelatedError(f"some action had fewer than {self.m} feedbacks after {MOST_ROUNDS:,} rounds")

    def read(self, table: Table) -> Feedback:
        return Feedback(int(table.about["rounds"]), **table.columns)


def in_order(actions: Any, delays: Any, rewards: Any, count: int, m: int) -> dict[str, Any]:
    """Feedback of round s comes at the end of round s + delay; what comes at once, in order of s."""
    rounds = actions.shape[1]
    due = np.arange(1, rounds + 1) + np.minimum(delays, rounds)
    order = np.argsort(due, axis=1, kind="stable")
    came = np.take_along_axis(due, order, axis=1) <= rounds
    who, what = np.take_along_axis(actions, order, axis=1), np.take_along_axis(rewards, order, axis=1)
    kept: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for action in range(count):
        mine = came & (who == action)
        rank = np.cumsum(mine, axis=1)
        number_of = rank[:, -1:]
        kept["first"].append(what[mine & (rank <= m)].reshape(-1, m))
        kept["last"].append(what[mine & (rank > number_of - m)].reshape(-1, m))
        kept["count"].append(number_of[:, 0])
        kept["total"].append((what * mine).sum(axis=1, dtype=np.int64))
    return {name: np.stack(columns, axis=1) for name, columns in kept.items()}


def rewards_of(game: Game, seed: int, actions: Any) -> Coins:
    """The rewards of recorded actions, 0 or 1: the game is played again."""
    out = np.zeros(actions.shape, np.int8)
    again = make_rewards(kernel(game.outcome))
    again(game.params(), np.zeros(game.memory()), np.zeros(1), *seed_words(seed), actions, out)
    return out


@cache
def make_rewards(outcome: Any) -> Any:
    """The kernel that plays a game again."""

    def rewards(params, memory, feedback, seed_low, seed_high, actions, out):
        for replication in range(actions.shape[0]):
            k0, k1 = replication_key(seed_low, seed_high, replication)
            for i in range(len(memory)):
                memory[i] = 0.0
            for t in range(actions.shape[1]):
                out[replication, t] = outcome(params, memory, k0, k1, t + 1, actions[replication, t], feedback)

    return kernel(rewards)


@dataclass(frozen=True)
class Setup:
    """A base under a law, how many feedbacks are tested, and how long is tried first."""

    learner: Learner
    law: Law
    m: int
    rounds: int


def setups() -> dict[str, Setup]:
    """KL-UCB leaves an action that never paid alone for very long: fewer feedbacks are tested there."""
    late = PerAction([Pareto(mean=mean) for mean in (10, 200, 20, 100, 50)])
    return {
        "UCB1, geometric": Setup(UCB1(5), Geometric(mean=50), 20, 1000),
        "UCB1, Pareto": Setup(UCB1(5), Pareto(mean=50), 20, 1000),
        "UCB1, Pareto per action": Setup(UCB1(5), late, 20, 1000),
        "KL-UCB, geometric": Setup(KLUCB(5), Geometric(mean=50), 10, 2000),
        "KL-UCB, Pareto": Setup(KLUCB(5), Pareto(mean=50), 10, 2000),
        "round robin, Pareto": Setup(RoundRobin(5), Pareto(mean=50), 50, 1000),
    }


@dataclass(frozen=True)
class Grid:
    """What is played: replications in parts with a seed each, so that no cell must remember too much."""

    setups: Mapping[str, Setup] = field(default_factory=setups)
    parts: int = 2
    replications: int = 1000

    @property
    def all_replications(self) -> int:
        return self.parts * self.replications


def cells_of(grid: Grid) -> dict[str, list[FirstFeedback]]:
    return {
        name: [_cell(setup, grid.replications, part) for part in range(grid.parts)]
        for name, setup in grid.setups.items()
    }


def _cell(setup: Setup, replications: int, part: int) -> FirstFeedback:
    play = Play(QPMD(setup.learner), Bernoulli(MEANS), setup.law, setup.rounds, replications, SEED + part)
    return FirstFeedback(play, setup.m)


def joined(parts: list[Feedback]) -> Feedback:
    """The replications of all parts."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return Feedback(max(part.rounds for part in parts), **columns)


def p_values(sequences: Coins, means: tuple[float, ...] = MEANS) -> list[tuple[str, str, float]]:
    """Tests of (replications, actions, m) coins: test, action, p-value. All are exact or have exact variances."""
    found = []
    for action, p in enumerate(means):
        coins = sequences[:, action].astype(float)
        for test in (_mean_test, _neighbour_test, _position_test):
            found.append((TEST_NAMES[test], f"{action}", test(coins, p)))
    return [*found, ("between actions", "all", _cross_test(sequences.astype(float), np.array(means)))]


def _mean_test(coins: Floats, p: float) -> float:
    """Are there as many ones as there should be? Exact."""
    return binomial_test(int(coins.sum()), coins.size, p)


def binomial_test(ones: int, count: int, p: float) -> float:
    from scipy.stats import binomtest

    return float(binomtest(ones, count, p).pvalue)


def _neighbour_test(coins: Floats, p: float) -> float:
    """Is each independent of the one before? The products of neighbours are uncorrelated with variance (p q)^2."""
    centred = coins - p
    return _normal(float((centred[:, 1:] * centred[:, :-1]).sum()) / (p * (1 - p)), centred[:, 1:].size)


def _position_test(coins: Floats, p: float) -> float:
    """Is the law the same at each position?"""
    from scipy.special import chdtrc

    ones, count = coins.sum(axis=0), len(coins)
    return float(chdtrc(len(ones), ((ones - count * p) ** 2 / (count * p * (1 - p))).sum()))


def _cross_test(sequences: Floats, means: Floats) -> float:
    """Are the sums of two actions uncorrelated? All pairs in one chi-square test."""
    from scipy.special import chdtrc

    sums = (sequences - means[:, None]).sum(axis=2) / np.sqrt(sequences.shape[2] * means * (1 - means))
    pairs = list(combinations(range(len(means)), 2))
    scores = np.array([(sums[:, i] * sums[:, j]).sum() / np.sqrt(len(sums)) for i, j in pairs])
    return float(chdtrc(len(pairs), (scores**2).sum()))


def _normal(total: float, count: int) -> float:
    from scipy.special import ndtr

    return float(2 * ndtr(-abs(total) / np.sqrt(count)))


TEST_NAMES = {_mean_test: "mean", _neighbour_test: "neighbours", _position_test: "positions"}


def refused(tests: list[tuple[str, str, str, float]]) -> list[bool]:
    """Which of the tests are refused when all are held to the level together."""
    return [p < 1 - LEVEL for p in corrected([test[-1] for test in tests])]


def word(tests: list[tuple[str, str, str, float]]) -> str:
    """Whether no test is refused."""
    return "fails" if any(refused(tests)) else "matches"


def blocks(done: Done, grid: Grid) -> tuple[list[Block], dict[str, Any]]:
    """The part of the section about the lemma, and its frame."""
    found = {name: joined([done[cell] for cell in cells]) for name, cells in cells_of(grid).items()}
    chosen = grid.setups
    tests = [(name, *test) for name, feedback in found.items() for test in p_values(feedback.first)]
    tests += [test for name, feedback in found.items() if _deaf(chosen[name]) for test in _pooled(name, feedback)]
    hindsight = [(name, *test) for name in found if not _deaf(chosen[name]) for test in p_values(found[name].last)]
    shown = next(iter(found))
    made: list[Block] = [
        _introduction(found, grid.all_replications),
        Finding(WORDS("lemma"), word(tests), _detail(tests, sum(f.first.size for f in found.values()))),
        _hindsight(hindsight),
        _bias(shown, found[shown]),
        Drawing("reordering-positions", _positions_panel(shown, found[shown]), WORDS("positions caption")),
        Drawing("reordering-bias", _bias_panel(shown, found[shown]), WORDS("bias caption")),
        _table(tests),
    ]
    return made, {"stochastic-reordering": _frame(tests)}


def _deaf(setup: Setup) -> bool:
    """Whether the base ignores feedback: then how much it gets does not depend on it, and all may be pooled."""
    return isinstance(setup.learner, RoundRobin)


def _pooled(name: str, feedback: Feedback) -> list[tuple[str, str, str, float]]:
    ones, counts = feedback.total.sum(axis=0), feedback.count.sum(axis=0)
    return [
        (name, "mean of all", f"{action}", binomial_test(int(ones[action]), int(counts[action]), p))
        for action, p in enumerate(MEANS)
    ]


def _introduction(found: Mapping[str, Feedback], replications: int) -> Block:
    rounds = ", ".join(f"{feedback.rounds:,} ({name})" for name, feedback in found.items())
    return WORDS.text("opening", replications=replications, rounds=rounds)


def _detail(tests: list[tuple[str, str, str, float]], feedbacks: int) -> str:
    together = corrected([test[-1] for test in tests])
    counts = {"refused": sum(refused(tests)), "count": len(tests), "least": min(together)}
    return WORDS("lemma detail", feedbacks=feedbacks, **counts)


def _hindsight(tests: list[tuple[str, str, str, float]]) -> Finding:
    """The tests must be able to fail: the last m that came were chosen by what they were."""
    return Finding(
        WORDS("power"),
        "shown" if word(tests) == "fails" else "unclear",
        WORDS("power detail", refused=sum(refused(tests)), count=len(tests)),
    )


def _averages(feedback: Feedback) -> Floats:
    """What came for each action minus its mean, on average over each replication."""
    averages: Floats = feedback.total / feedback.count - np.array(MEANS)
    return averages


def _bias(name: str, feedback: Feedback) -> Finding:
    """Averages over all that came are biased; totals minus count times mean are not (Wald)."""
    worse = range(len(MEANS) - 1)
    averages, surplus = _averages(feedback), feedback.total - feedback.count * np.array(MEANS)
    low = [mean_interval(averages[:, i], family=len(worse)) for i in worse]
    wald = [mean_interval(surplus[:, i], family=len(MEANS)) for i in range(len(MEANS))]
    lowest = min(low, key=lambda interval: interval.mean)
    fair = sum(interval.contains(0.0) for interval in wald)
    return Finding(
        WORDS("bias"),
        "shown" if all(interval.high < 0 for interval in low) else "unclear",
        WORDS("bias detail", name=name, lowest=lowest, fair=fair, count=len(wald)),
    )


def _positions_panel(name: str, feedback: Feedback) -> Any:
    from scipy.special import ndtri

    at = np.arange(1, feedback.first.shape[2] + 1)
    figure, axes = figures.panel(f"the first feedbacks, {name}", "k-th feedback of the action", "mean")
    reach = ndtri(1 - (1 - LEVEL) / (2 * len(at) * len(MEANS)))
    for action, p in enumerate(MEANS):
        width = reach * np.sqrt(p * (1 - p) / len(feedback.first))
        axes.axhspan(p - width, p + width, color=figures.COLORS[action], alpha=0.15, linewidth=0)
        axes.plot(
            at, feedback.first[:, action].mean(axis=0), color=figures.COLORS[action], marker=".", linestyle="none"
        )
    axes.set_xticks(at[::2])
    axes.set_xlim(0, len(at) + 1)
    return figure


def _bias_panel(name: str, feedback: Feedback) -> Any:
    figure, axes = figures.panel(f"average feedback less the mean, {name}", "mean of the action", "bias")
    first = feedback.first.mean(axis=2) - np.array(MEANS)
    figures.means(axes, MEANS, list(first.T), 0, f"the first {feedback.first.shape[2]}")
    figures.means(axes, MEANS, list(_averages(feedback).T), 1, "all that came")
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_xticks(MEANS)
    figures.legend(axes)
    return figure


def _table(tests: list[tuple[str, str, str, float]]) -> Rows:
    """The least p-value of each test in each setting."""
    together = corrected([test[-1] for test in tests])
    kinds = list(dict.fromkeys((name, test) for name, test, _, _ in tests))
    rows = []
    for kind in kinds:
        own = [(p, joint) for (name, test, _, p), joint in zip(tests, together, strict=True) if (name, test) == kind]
        rows.append([*kind, len(own), min(p for p, _ in own), min(joint for _, joint in own)])
    return Rows(
        ("setting", "test", "tests", "least p", "all tests together"), rows, WORDS("tests caption"), folded=True
    )


def _frame(tests: list[tuple[str, str, str, float]]) -> Any:
    import polars

    frame = polars.DataFrame(tests, schema=["setting", "test", "action", "p"], orient="row")
    return frame.with_columns(polars.Series("p_together", corrected([test[-1] for test in tests])))
