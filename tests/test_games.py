"""The games: what they deal, that they do not look, what they owe, and that every way of running agrees."""

import ctypes
import dataclasses
import json
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from belated import games
from belated.errors import InvalidArgument
from belated.games import Arms, Bernoulli, Block, Monitoring, RandomWalk, Replaced, RewardTable, Switching, deal, laws
from belated.kernels.compile import COMPILED, kernel, pointer
from belated.kernels.pointers import OUTCOME_SIGNATURE, REGRET_SIGNATURE
from belated.theory import bounds

LEVEL = 1e-4
KEY = np.uint64(23), np.uint64(8)
FOUR = [laws.Bernoulli(0.3), laws.Uniform(0.2, 0.6), laws.Beta(0.5, 2), laws.TruncatedNormal(0.9, 0.2)]
TABLE = np.random.default_rng(1).random((200, 3))
PRICING = games.dynamic_pricing(prices=3, values=4)
PRICES = PRICING.loss, PRICING.symbols
TRACE = np.random.default_rng(2).integers(0, 4, 200)

GAMES = [
    Bernoulli([0.2, 0.5, 0.9]),
    Bernoulli([0.2, 0.5, 0.9], feedback="full"),
    Arms([*FOUR, laws.TruncatedNormal(0.4, 2)]),
    Arms(FOUR, feedback="full"),
    RewardTable(TABLE),
    RewardTable(TABLE, feedback="full"),
    RandomWalk(3, step=0.2),
    RandomWalk(70, feedback="bandit", start=0.5),
    Switching(5, probability=0.1),
    Switching(2, probability=0.1, feedback="full"),
    Block(3, length=4),
    Block(70, length=1, feedback="bandit"),
    Replaced(4, probability=0.1, a=0.5, b=2),
    Replaced(4, probability=0.1, announced=True),
    Monitoring(*PRICES, law=[0.4, 0.0, 0.35, 0.25]),
    Monitoring(*PRICES, trace=TRACE),
    Monitoring(*PRICES, law=[0.1, 0.2, 0.3, 0.4], trace=TRACE),
]
ROUNDS = 60


class Run:
    """One replication, call by call."""

    def __init__(self, game, outcome=None):
        self.game, self.params, self.memory = game, game.params(), np.zeros(game.memory())
        self.feedback = np.full(game.actions if game.feedback == "full" else 1, np.nan)
        self.outcome = outcome or kernel(type(game).outcome)

    def play(self, actions, key=KEY):
        for t, action in enumerate(actions, start=1):
            reward = self.outcome(self.params, self.memory, *key, t, action, self.feedback)
            yield reward, self.feedback.copy()

    @property
    def regret(self):
        return kernel(type(self.game).regret)(self.params, self.memory)


def dealt(game, rounds):
    """The rewards of all actions, each played throughout."""
    columns = [[reward for reward, _ in Run(game).play([a] * rounds)] for a in range(game.actions)]
    return np.transpose(columns)


def some_actions(game, rounds=ROUNDS, seed=0):
    return np.random.default_rng(seed).integers(0, game.actions, rounds).tolist()


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_outcomes_do_not_look_at_what_is_played(game):
    table = dealt(game, ROUNDS)
    assert np.all((table >= 0) & (table <= 1))
    for seed in (0, 1):
        actions = some_actions(game, seed=seed)
        for t, (reward, feedback) in enumerate(Run(game).play(actions)):
            assert reward == table[t, actions[t]]
            if game.feedback != "symbol":
                assert feedback.tolist() == (table[t].tolist() if game.feedback == "full" else [reward])


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_regret_is_the_sum_in_the_docstring(game):
    table, actions = dealt(game, ROUNDS), some_actions(game)
    run = Run(game)
    assert run.regret == 0
    counts, earned, owed = np.zeros(game.actions), 0.0, 0.0
    for t, (reward, _) in enumerate(run.play(actions)):
        counts[actions[t]] += 1
        earned += reward
        if isinstance(game, Replaced):
            owed += run.memory[3:].max() - run.memory[3 + actions[t]]
        elif game.means is not None:
            owed = float(np.sum((np.max(game.means) - np.array(game.means)) * counts))
        else:
            owed = game.scale * (np.cumsum(table[: t + 1], axis=0)[-1].max() - earned)
        assert run.regret == pytest.approx(owed, abs=1e-12)


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_deal_is_what_is_played(game):
    assert deal(game, 20, seed=5).shape == (20, game.actions)
    if game.longest() is None:
        assert not np.array_equal(deal(game, 20, seed=5), deal(game, 20, seed=6))
        assert not np.array_equal(deal(game, 20, seed=5), deal(game, 20, seed=5, replication=1))


def test_bernoulli_pays_its_means_alike_under_both_feedbacks():
    means = [0.0, 0.1, 0.5, 0.9, 1.0]
    table = dealt(Bernoulli(means), 4000)
    assert np.array_equal(table, dealt(Bernoulli(means, feedback="full"), 4000))
    for i, mean in enumerate(means):
        assert stats.binomtest(int(table[:, i].sum()), 4000, mean).pvalue > LEVEL
    assert np.abs(np.corrcoef(table[:, 1:4].T) - np.eye(3)).max() < 4 / math.sqrt(4000)
    assert Bernoulli(means).means == tuple(means)


@pytest.mark.parametrize(
    "law, reference",
    [
        (laws.Uniform(0.2, 0.6), stats.uniform(0.2, 0.4)),
        (laws.Beta(0.5, 2), stats.beta(0.5, 2)),
        (laws.TruncatedNormal(0.9, 0.2), stats.truncnorm(-4.5, 0.5, 0.9, 0.2)),
        (laws.TruncatedNormal(0.4, 2), stats.truncnorm(-0.2, 0.3, 0.4, 2)),
    ],
)
def test_arms_follow_their_laws(law, reference):
    values = dealt(Arms([law]), 5000)[:, 0]
    assert stats.kstest(values, reference.cdf).pvalue > LEVEL
    assert law.mean == pytest.approx(reference.mean(), rel=1e-12)


def test_arms_of_coins():
    values = dealt(Arms([laws.Bernoulli(0.3)]), 5000)
    assert set(values.ravel()) == {0, 1} and stats.binomtest(int(values.sum()), 5000, 0.3).pvalue > LEVEL
    assert Arms(FOUR).means == tuple(law.mean for law in FOUR)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sigma", [1e-6, 0.05, 0.49, 0.5, 3.0, 1e8])
def test_the_mean_of_a_truncated_normal(mu, sigma):
    def density(x):
        return math.exp(-0.5 * ((x - mu) / sigma) ** 2)

    low, high = max(0.0, mu - 12 * sigma), min(1.0, mu + 12 * sigma)
    mass = integrate.quad(density, low, high, epsabs=0, epsrel=1e-13)[0]
    moment = integrate.quad(lambda x: x * density(x), low, high, epsabs=0, epsrel=1e-13)[0]
    assert laws.TruncatedNormal(mu, sigma).mean == pytest.approx(moment / mass, rel=1e-11)


def test_table_is_dealt_as_written():
    assert np.array_equal(deal(RewardTable(TABLE), 200), TABLE)
    game = RandomWalk(3, step=0.2)
    assert np.array_equal(deal(RewardTable(deal(game, 30, seed=4)), 30), deal(game, 30, seed=4))
    assert RewardTable(TABLE).longest() == 200 and Bernoulli([0.5]).longest() is None
    with pytest.raises(InvalidArgument, match="rounds must be <= 200, got 201"):
        deal(RewardTable(TABLE), 201)


@given(st.lists(st.tuples(*[st.integers(0, 8)] * 3), min_size=1, max_size=20), st.data())
def test_realised_regret_of_any_table(rows, data):
    table = np.array(rows) / 8
    actions = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    run = Run(RewardTable(table))
    earned = sum(reward for reward, _ in run.play(actions))
    assert run.regret == table.sum(axis=0).max() - earned


def test_a_big_table_cannot_be_changed():
    rows = np.random.default_rng(0).random((1_000_000, 10))
    game = RewardTable(rows)
    assert game.params().size == rows.size + 4 and hash(game) == hash(RewardTable(rows)) and game == RewardTable(rows)
    rows[0, 0] = 0.5
    assert game != RewardTable(rows) and repr(game) == "RewardTable(1000000 x 10, feedback='bandit')"
    with pytest.raises(ValueError):
        game.table[0, 0] = 1
    assert RewardTable([[0.0]]) == RewardTable([[-0.0]]) and hash(RewardTable([[0.0]])) == hash(RewardTable([[-0.0]]))
    assert RewardTable([[0.0]]) != RewardTable([[0.0]], feedback="full") and RewardTable([[0.0]]) != 0


@pytest.mark.parametrize("step", [0.01, 0.3, 1.0])
def test_random_walks_step_and_are_reflected(step):
    walk = dealt(RandomWalk(3, step=step), 1500)
    up = np.where(walk[:-1] + step > 1, 2 - walk[:-1] - step, walk[:-1] + step)
    down = np.abs(walk[:-1] - step)
    rose, fell = np.abs(walk[1:] - up) < 1e-12, np.abs(walk[1:] - down) < 1e-12
    assert np.all(rose | fell) and np.all((walk >= 0) & (walk <= 1))
    if step < 1:
        assert stats.binomtest(int((rose & ~fell).sum()), int((rose ^ fell).sum()), 0.5).pvalue > LEVEL
    assert len(set(walk[0])) == 3 and set(dealt(RandomWalk(2, start=0.25), 1)[0]) == {0.25}


@pytest.mark.parametrize("game", [RandomWalk(130, step=0.1, start=0.5), Block(130, length=1)], ids=repr)
def test_coins_of_many_actions_are_independent(game):
    run = Run(game)
    table = np.array([feedback for _, feedback in run.play([0] * 400)])
    coins = np.diff(table, axis=0) > 0 if isinstance(game, RandomWalk) else table > 0.5
    worst = np.abs(np.corrcoef(coins.T.astype(float)) - np.eye(130)).max()
    assert worst < 5.5 / math.sqrt(len(coins))


def test_switching_changes_its_best_action():
    game = Switching(4, probability=0.05, good=1, bad=0)
    table = np.array([feedback for _, feedback in Run(dataclasses.replace(game, feedback="full")).play([0] * 20_000)])
    assert np.all(table.sum(axis=1) == 1)
    best = table.argmax(axis=1)
    switched = np.flatnonzero(np.diff(best))
    assert stats.binomtest(len(switched), 19_999, 0.05).pvalue > LEVEL
    jumps = (best[switched + 1] - best[switched]) % 4
    assert stats.chisquare(np.bincount(jumps, minlength=4)[1:]).pvalue > LEVEL
    waits = np.diff(switched)
    assert waits.mean() == pytest.approx(20, rel=0.15) and waits.min() == 1
    firsts = [deal(game, 1, seed=seed)[0].argmax() for seed in range(400)]
    assert stats.chisquare(np.bincount(firsts, minlength=4)).pvalue > LEVEL


def test_switching_pays_good_and_bad():
    game = Switching(6, probability=0, good=0.8, bad=0.3, feedback="full")
    table = np.array([feedback for _, feedback in Run(game).play([0] * 8000)])
    assert np.sort(table.mean(axis=0)) == pytest.approx([0.3] * 5 + [0.8], abs=0.03)
    assert np.abs(np.corrcoef(table.T) - np.eye(6)).max() < 4 / math.sqrt(8000)
    always = Switching(2, probability=1, good=1, bad=0, feedback="full")
    best = [int(feedback[1]) for _, feedback in Run(always).play([0] * 50)]
    assert np.all(np.diff(best) != 0)


def test_blocks_hold_one_coin_each():
    table = dealt(Block(5, length=7), 7 * 300).reshape(300, 7, 5)
    assert np.all(table == table[:, :1]) and set(table.ravel()) == {0, 1}
    assert stats.binomtest(int(table[:, 0].sum()), 1500, 0.5).pvalue > LEVEL


def test_nobody_escapes_the_block_adversary():
    game, rounds = Block(3, length=5), 40
    regrets = []
    for replication in range(600):
        run = Run(game)
        key = np.uint64(replication), np.uint64(99)
        assert len(list(run.play([replication % 3] * rounds, key))) == rounds
        regrets.append(run.regret)
    error = np.std(regrets) / math.sqrt(600)
    assert np.mean(regrets) == pytest.approx(bounds.block_adversary(rounds, 4, 3), abs=4 * error)


def test_arms_are_replaced_one_at_a_time():
    run = Run(Replaced(5, probability=0.2, a=2, b=3))
    states = np.array([run.memory.copy() for _ in run.play([0] * 8000)])
    means = states[:, 3:]
    assert np.array_equal(states[:, 2], means.max(axis=1))
    assert np.diff(states[:, 0]) == pytest.approx((means.max(axis=1) - means[:, 0])[1:])
    changed = np.diff(means, axis=0) != 0
    assert np.all(changed.sum(axis=1) <= 1)
    assert stats.binomtest(int(changed.sum()), 7999, 0.2).pvalue > LEVEL
    assert stats.chisquare(changed.sum(axis=0)).pvalue > LEVEL
    assert stats.kstest(means[1:][changed], stats.beta(2, 3).cdf).pvalue > LEVEL
    paid = [reward for reward, _ in run.play([2] * 8000)]
    assert np.mean(paid) == pytest.approx(means[:, 2].mean(), abs=0.03)
    still = Run(Replaced(5, probability=0))
    assert len({tuple(still.memory[3:]) for _ in still.play([0] * 100)}) == 1


def test_first_means_follow_the_law():
    firsts = []
    for seed in range(400):
        run = Run(Replaced(5, probability=0.5, a=2, b=3))
        next(run.play([0], key=(np.uint64(seed), np.uint64(1))))
        firsts.extend(run.memory[3:])
    assert stats.kstest(firsts, stats.beta(2, 3).cdf).pvalue > LEVEL


@pytest.mark.skipif(not COMPILED, reason="addresses exist only where kernels are compiled")
@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_through_an_address(game):
    number, integer, word, vector = ctypes.c_double, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(number, vector, vector, word, word, integer, integer, vector)
    call = kind(pointer(type(game).outcome, OUTCOME_SIGNATURE))

    def outcome(params, memory, k0, k1, t, action, feedback):
        return call(params.ctypes.data, memory.ctypes.data, int(k0), int(k1), t, action, feedback.ctypes.data)

    actions, run, through = some_actions(game), Run(game), Run(game, outcome)
    for (reward, feedback), (other, same) in zip(run.play(actions), through.play(actions), strict=True):
        assert reward == other and feedback.tolist() == same.tolist()
    assert run.memory.tolist() == through.memory.tolist()
    regret = ctypes.CFUNCTYPE(number, vector, vector)(pointer(type(game).regret, REGRET_SIGNATURE))
    assert regret(run.params.ctypes.data, run.memory.ctypes.data) == run.regret


def fingerprint():
    """Numbers that must not depend on how kernels are run."""
    seen = []
    for game in GAMES:
        run = Run(game)
        seen.append([[float(reward), feedback.tolist()] for reward, feedback in run.play(some_actions(game, 30))])
        seen.append([*run.memory.tolist(), float(run.regret)])
    return seen


def test_plain_python_gives_the_same_outcomes():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-W", "error", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == fingerprint()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Bernoulli([]), "means must have at least 1 item, got 0"),
        (lambda: Bernoulli([0.5, 1.5]), r"means\[1\] must be <= 1, got 1.5"),
        (lambda: Bernoulli([0.5, math.nan]), r"means\[1\] must be finite, got nan"),
        (lambda: Bernoulli(0.5), "means must be a sequence, got 0.5"),
        (lambda: Bernoulli([0.5], feedback="some"), "feedback must be one of bandit, full, got 'some'"),
        (lambda: Arms([0.5]), r"laws\[0\] must be a law of belated.games.laws, got 0.5"),
        (lambda: Arms([]), "laws must have at least 1 item"),
        (lambda: laws.Bernoulli(-0.1), "p must be >= 0, got -0.1"),
        (lambda: laws.Uniform(0.5, 0.4), "high must be >= 0.5, got 0.4"),
        (lambda: laws.Uniform(0.5, 1.4), "high must be <= 1, got 1.4"),
        (lambda: laws.Beta(0, 1), "a must be > 0, got 0"),
        (lambda: laws.Beta(1, -1), "b must be > 0, got -1"),
        (lambda: laws.TruncatedNormal(1.2, 1), "mu must be <= 1, got 1.2"),
        (lambda: laws.TruncatedNormal(0.2, 0), "sigma must be > 0, got 0"),
        (lambda: RewardTable([0.5]), r"table must be rounds x actions, got shape \(1,\)"),
        (lambda: RewardTable([]), r"got shape \(0,\)"),
        (lambda: RewardTable([[0.5, 2.0]]), r"table\[0, 1\] must lie in \[0, 1\], got 2.0"),
        (lambda: RewardTable([[0.5], [math.nan]]), r"table\[1, 0\] must lie in \[0, 1\], got nan"),
        (lambda: RewardTable([[0.5], [0.5, 0.5]]), "table must be rows of numbers, all of one length"),
        (lambda: RewardTable([["a"]]), "table must be rows of numbers"),
        (lambda: RandomWalk(0), "actions must be >= 1, got 0"),
        (lambda: RandomWalk(2, step=0), "step must be > 0, got 0"),
        (lambda: RandomWalk(2, start=1.5), "start must be <= 1, got 1.5"),
        (lambda: Switching(1), "actions must be >= 2, got 1"),
        (lambda: Switching(2, probability=1.1), "probability must be <= 1, got 1.1"),
        (lambda: Switching(2, good=0.5, bad=0.6), "bad must be <= 0.5, got 0.6"),
        (lambda: Block(2, length=0), "length must be >= 1, got 0"),
        (lambda: Block(2.5, length=1), "actions must be a whole number, got 2.5"),
        (lambda: Replaced(3, probability=-1), "probability must be >= 0, got -1"),
        (lambda: Replaced(3, a=0), "a must be > 0, got 0"),
        (lambda: Replaced(3, announced="yes"), "announced must be True or False, got 'yes'"),
        (lambda: Replaced(3, feedback="full"), "feedback must be one of bandit, got 'full'"),
    ],
)
def test_errors_name_the_value(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def plain(value):
    """A spec as plain data: a walk over its fields."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        return {"name": type(value).__name__, "place": "laws" if isinstance(value, laws.Law) else "games", **fields}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def rebuilt(data):
    if isinstance(data, dict):
        place = {"laws": laws, "games": games}[data.pop("place")]
        return getattr(place, data.pop("name"))(**{key: rebuilt(value) for key, value in data.items()})
    return [rebuilt(item) for item in data] if isinstance(data, list) else data


@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_specs_are_data(game):
    again = rebuilt(json.loads(json.dumps(plain(game))))
    assert again == game and hash(again) == hash(game) and repr(again) == repr(game)
    assert np.array_equal(again.params(), game.params()) and again.memory() == game.memory()
    assert pickle.loads(pickle.dumps(game)) == game
    assert sum(other == game for other in GAMES) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        game.feedback = "full"


if __name__ == "__main__":
    print(json.dumps(fingerprint()))
