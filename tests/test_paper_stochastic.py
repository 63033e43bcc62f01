"""The part of the paper's study about i.i.d. rewards: small versions, and what makes its verdicts turn."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from belated import play
from belated.delays import NEVER, Geometric, Pareto
from belated.forecasters import QPMD
from belated.games import Bernoulli
from belated.games.deal import deal
from belated.learners import UCB1, RoundRobin
from belated.studies.paper import part, reordering, stochastic
from belated.studies.paper.reordering import MEANS, Setup
from belated.studies.run import CellsFailed, Done, run_cells
from belated.studies.store import Store
from belated.theory import bounds

SMALL = reordering.Grid(
    {
        "UCB1, geometric": Setup(UCB1(5), Geometric(mean=30), 10, 300),
        "round robin, Pareto": Setup(RoundRobin(5), Pareto(mean=30), 20, 300),
    },
    parts=2,
    replications=400,
)
GRID = stochastic.Grid(
    learners={"UCB1": UCB1(5)},
    delays=(100, 300),
    rounds=3000,
    replications=120,
    long_delay=100,
    long_rounds=3000,
    long_replications=5,
    reordering=SMALL,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    kept = Store(tmp_path_factory.mktemp("stochastic"))
    run_cells(stochastic.cells_of(GRID), kept)
    return kept


def words(store: Store, grid: stochastic.Grid = GRID) -> list[str]:
    return [finding.word for finding in stochastic.section_of(Done(store), grid).findings]


def test_findings(store: Store):
    exact, by_action, white, slope, iid, power, bias, counting = words(store)
    assert (exact, by_action, white, iid, counting) == ("likely holds", "likely holds", "holds", "matches", "identity")
    assert (slope, power, bias) == ("likely holds", "shown", "shown")


def test_section_is_whole(store: Store):
    section = stochastic.section_of(Done(store), GRID)
    assert section.name == "stochastic"
    assert set(section.frames) == {"stochastic-cells", "stochastic-replications", "stochastic-reordering"}
    assert len({drawing.name for drawing in section.drawings}) == len(section.drawings)


def test_a_smaller_penalty_fails(store: Store, monkeypatch: pytest.MonkeyPatch):
    right = part.penalty
    monkeypatch.setattr(part, "penalty", lambda result: right(result) / 4)
    assert words(store)[0] == "likely fails"


def test_a_smaller_bound_fails(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounds, "delayed_ucb1", lambda n, gaps, peaks: float(gaps @ peaks))
    assert words(store)[2] == "fails"


@dataclass(frozen=True)
class Restless(RoundRobin):
    """Explores for ever, and claims to be UCB1."""

    feedback = "bandit"

    def stochastic_bound(self, n, means):
        return UCB1(self.actions).stochastic_bound(n, means)

    def delayed_bound(self, n, means, peaks, peak):
        return UCB1(self.actions).delayed_bound(n, means, peaks, peak)


def test_a_learner_that_does_not_learn_fails(store: Store):
    grid = replace(GRID, learners={"UCB1": Restless(5)}, rounds=20_000, replications=30)
    run_cells(stochastic.cells_of(grid), store)
    assert words(store, grid)[2] == "fails"


def test_counting_can_fail(store: Store):
    done = Done(store)
    cell = next(iter(stochastic.delay_cells(GRID).values()))
    result = done[cell]
    (_, fine) = stochastic._counting_blocks([result])
    (_, short) = stochastic._counting_blocks([replace(result, peaks=result.peaks - 1)])
    assert (fine.word, short.word) == ("identity", "fails")


def test_feedback_in_order():
    actions = np.array([[0, 1, 0, 0, 1, 0]])
    delays = np.array([[3, 0, 1, 0, NEVER, 1]])
    rewards = np.array([[1, 0, 0, 1, 1, 1]], np.int8)
    found = reordering.in_order(actions, delays, rewards, 2, 1)
    # due: 4, 2, 4, 4, never, 7 (after the end): action 0 gets those of rounds 1, 3 and 4, in this order
    assert found["count"].tolist() == [[3, 1]]
    assert found["total"].tolist() == [[2, 0]]
    assert found["first"].tolist() == [[[1], [0]]]
    assert found["last"].tolist() == [[[1], [0]]]


class Diary:
    """A plain learner that plays in turn and writes down what it is told."""

    actions = 5
    told: list[tuple[int, float]] = []

    def __init__(self):
        self.count = 0

    def predict(self, context):
        self.count += 1
        return (self.count - 1) % 5, 1.0

    def update(self, context, action, probability, feedback):
        Diary.told.append((action, float(np.ravel(feedback)[0])))


def test_it_is_what_the_base_is_told():
    game, law, rounds, m = Bernoulli(MEANS), Geometric(mean=10), 300, 30
    Diary.told.clear()
    result = play(QPMD(Diary), game, law, rounds=rounds, seed=3, record=True, progress=False)
    rewards = reordering.rewards_of(game, 3, result.actions)
    found = reordering.in_order(result.actions, result.delays, rewards, 5, m)
    for action in range(5):
        told = [feedback for who, feedback in Diary.told if who == action]
        assert len(told) >= m
        assert told[:m] == found["first"][0, action].tolist()


def test_rewards_are_those_of_the_game():
    game = Bernoulli(MEANS)
    actions = np.random.default_rng(0).integers(0, 5, (2, 200)).astype(np.int32)
    for replication in range(2):
        table = deal(game, 200, seed=7, replication=replication)
        dealt = table[np.arange(200), actions[replication]]
        assert (reordering.rewards_of(game, 7, actions)[replication] == dealt).all()


def test_a_longer_start_changes_nothing(store: Store):
    """The first feedbacks are the same whether the play was long enough at once or was made longer."""
    short, long = (reordering._cell(Setup(UCB1(5), Geometric(mean=30), 10, rounds), 50, 0) for rounds in (50, 1600))
    done, _ = run_cells([short, long], store)
    assert done[short].rounds < done[long].rounds
    assert (done[short].first == done[long].first).all()


def test_it_gives_up(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reordering, "MOST_ROUNDS", 200)
    cell = reordering._cell(Setup(UCB1(5), Geometric(mean=30), 100, 100), 10, 0)
    with pytest.raises(CellsFailed, match="fewer than 100 feedbacks"):
        run_cells([cell], store)


def coins(seed: int = 0):
    draws = np.random.default_rng(seed).random((800, 5, 20))
    return (draws < np.array(MEANS)[:, None]).astype(np.int8)


def judged(sequences) -> str:
    return reordering.word([("test", *test) for test in reordering.p_values(sequences)])


def test_fair_coins_hold():
    assert [judged(coins(seed)) for seed in range(5)] == ["matches"] * 5


def ones_first(sequences):
    """Ones first: the order depends on the outcomes."""
    return np.sort(sequences, axis=2)[:, :, ::-1]


def greedy(sequences):
    """Of two feedbacks always the better one."""
    return np.maximum(sequences[:, :, ::2], sequences[:, :, 1::2])


def sticky(sequences):
    """Each feedback is the one before, three times in ten."""
    again = np.random.default_rng(1).random(sequences.shape) < 0.3
    held = sequences.copy()
    for k in range(1, held.shape[2]):
        held[:, :, k] = np.where(again[:, :, k], held[:, :, k - 1], held[:, :, k])
    return held


def unlucky_start(sequences):
    """The first feedback is too low."""
    kept = sequences.copy()
    kept[:, :, 0] &= sequences[:, :, 1]
    return kept


def copied(sequences):
    """All actions share their luck."""
    luck = np.random.default_rng(2).random((*sequences.shape[:1], 1, sequences.shape[2]))
    return (luck < np.array(MEANS)[:, None]).astype(np.int8)


@pytest.mark.parametrize("bias", [ones_first, greedy, sticky, unlucky_start, copied])
def test_biased_selections_fail(bias):
    assert judged(bias(coins())) == "fails"


def test_the_whole_part_can_be_listed():
    cells = stochastic.PART.cells(False)
    assert 1e8 < sum(cell.decisions for cell in cells) < 3e8
    assert all(cell.title and cell.key for cell in cells)
