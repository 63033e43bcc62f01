"""What must agree without a second implementation: delay zero, interleaving, threads, replications, online use."""

import numpy as np
import pytest

import belated as bl
from tests.reference import FORECASTERS, key_of
from tests.reference import UCB1 as ReferenceUCB1
from tests.reference import Exp3 as ReferenceExp3
from tests.test_oracle import PAIRS, feedback_of, forecaster, random_case


def alone(learner, table):
    """A learner without delay: predict, update, predict, update."""
    actions = []
    for row in table:
        action, probability = learner.predict()
        learner.update(action, probability, row[action], learner.t)
        actions.append(action)
    return actions


@pytest.mark.parametrize("kind", FORECASTERS)
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_with_delay_zero_every_forecaster_is_its_base_alone(kind, engine):
    table, _, _, _ = random_case(1, 300)
    game = bl.games.RewardTable(table)
    r = bl.play(forecaster(kind, "UCB1", 3), game, bl.delays.Constant(0), rounds=300, record=True, engine=engine)
    assert r.actions[0].tolist() == alone(ReferenceUCB1(3, key_of(0), 0), table)
    assert (r.peak[0], r.instances[0], r.outstanding[0]) == (0, 1, 0)
    assert r.observed.sum() == 300


def test_with_delay_zero_a_randomised_base_draws_as_it_does_alone():
    table, _, _, _ = random_case(2, 300)
    r = bl.play(
        forecaster("QPMD", "Exp3", 3),
        bl.games.RewardTable(table),
        bl.delays.Constant(0),
        rounds=300,
        seed=5,
        record=True,
    )
    assert r.actions[0].tolist() == alone(ReferenceExp3(3, key_of(5), 0), table)
    assert r.steps[0] == 300


@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_bold_at_constant_delay_is_interleaved_runs_of_its_base(d):
    table, _, _, _ = random_case(3, 240)
    r = bl.play(
        forecaster("BOLD", "UCB1", 3),
        bl.games.RewardTable(table),
        bl.delays.Constant(d),
        rounds=240,
        record=True,
    )
    assert (r.peak[0], r.instances[0]) == (d, d + 1)
    for j in range(d + 1):
        part = bl.games.RewardTable(table[j :: d + 1])
        base = bl.play(forecaster("Direct", "UCB1", 3), part, bl.delays.Constant(0), rounds=part.longest(), record=True)
        assert r.actions[0, j :: d + 1].tolist() == base.actions[0].tolist()


@pytest.mark.parametrize("d", [1, 5])
def test_each_instance_of_bold_draws_by_its_own_number_and_count(d):
    table, _, _, _ = random_case(4, 120)
    game = bl.games.RewardTable(table)
    r = bl.play(
        forecaster("BOLD", "Exp3", 3),
        game,
        bl.delays.Constant(d),
        rounds=120,
        seed=9,
        record=True,
        engine="python",
    )
    for j in range(d + 1):
        assert r.actions[0, j :: d + 1].tolist() == alone(ReferenceExp3(3, key_of(9), j), table[j :: d + 1])


FIELDS = ("actions", "delays", "probabilities", "regret", "peak", "peaks", "pulls", "observed")
FIELDS += ("cancelled", "dropped", "outstanding", "instances", "steps", "base_pulls")


def same(one, other, rows=slice(None)):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name)[rows], err_msg=name)


MANY = {
    "game": bl.games.Bernoulli([0.3, 0.5, 0.7]),
    "delays": bl.delays.Geometric(mean=20),
    "rounds": 400,
    "seed": 11,
    "record": True,
}


@pytest.mark.parametrize(("kind", "learner"), [("BOLD", "TsallisINF"), ("QPMD", "Exp3"), ("Direct", "UCB1")])
def test_the_number_of_threads_changes_nothing(kind, learner):
    player = forecaster(kind, learner, 3)
    one = bl.play(player, replications=23, threads=1, **MANY)
    same(one, bl.play(player, replications=23, threads=2, **MANY))
    same(one, bl.play(player, replications=23, threads=5, **MANY))


@pytest.mark.parametrize(("kind", "learner"), [("BOLD", "TsallisINF"), ("QPMD", "Exp3"), ("Direct", "UCB1")])
def test_a_replication_is_the_same_whatever_their_number(kind, learner):
    player = forecaster(kind, learner, 3)
    many = bl.play(player, replications=9, **MANY)
    same(bl.play(player, replications=1, **MANY), many, slice(0, 1))
    same(bl.play(player, replications=4, **MANY), many, slice(0, 4))
    assert len({row.tobytes() for row in many.delays}) == 9


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
def test_both_engines_play_the_same(kind, learner):
    given = {
        **MANY,
        "game": bl.games.Bernoulli([0.3, 0.5, 0.7], feedback=feedback_of(learner)),
        "replications": 2,
    }
    player = forecaster(kind, learner, 3)
    for expiry in (None, 15):
        same(
            bl.play(player, engine="compiled", expiry=expiry, **given),
            bl.play(player, engine="python", expiry=expiry, **given),
        )


def online(player, table, taus):
    """Use a forecaster as an application does, feedback in the order of the rule."""
    actions = []
    for t in range(len(table)):
        decision = player.predict()
        assert decision.ticket == t + 1
        actions.append(decision.action)
        for s in range(t + 1):
            if s + taus[s] == t:
                player.update(s + 1, float(table[s][actions[s]]))
    return actions


@pytest.mark.parametrize(("kind", "learner"), [("QPMD", "Exp3"), ("Direct", "Exp3IX"), ("BOLD", "TsallisINF")])
def test_online_use_draws_what_play_draws(kind, learner):
    rng = np.random.default_rng(8)
    table, taus = rng.random((150, 3)), rng.integers(0, 25, 150)
    r = bl.play(
        forecaster(kind, learner, 3),
        bl.games.RewardTable(table),
        bl.delays.Trace(taus),
        rounds=150,
        replications=3,
        seed=21,
        record=True,
    )
    player = getattr(bl, kind)(getattr(bl, learner)(actions=3), seed=21)
    assert online(player, table, taus) == r.actions[0].tolist()
    for replication in range(3):
        fresh = player.fresh(seed=21, replication=replication)
        assert online(fresh, table, taus) == r.actions[replication].tolist()
    assert player.peak == r.peak[0]
