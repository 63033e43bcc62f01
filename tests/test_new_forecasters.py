"""Paced, SDB and BOLD with a pool for each value: what they promise, and what they refuse."""

import re

import numpy as np
import pytest

import belated as bl
from belated.errors import InvalidArgument, Unsupported
from tests.test_oracle import in_plain_python

GAME = bl.games.Bernoulli([0.3, 0.5, 0.7])
LAWS = [
    bl.delays.Constant(0),
    bl.delays.Constant(9),
    bl.delays.Geometric(mean=15),
    bl.delays.PerAction([bl.delays.Constant(1), bl.delays.Geometric(mean=30), bl.delays.Constant(40)]),
]


class Same:
    """Plays one action for ever."""

    actions = 3

    def predict(self, context):
        return 1, 1.0

    def update(self, context, action, probability, feedback):
        pass


# --- SDB ---


@pytest.mark.parametrize("law", LAWS[:3], ids=repr)
def test_sdb_is_qpmd_where_the_second_instance_always_agrees(law):
    pairs = [(bl.UCB1(actions=1), bl.games.Bernoulli([0.4])), (Same, GAME)]
    if law == bl.delays.Constant(0):
        pairs += [(bl.UCB1(actions=3), GAME), (bl.KLUCB(actions=3), GAME)]
    for learner, game in pairs:
        one, two = (
            bl.play(kind(learner), game, law, rounds=150, expiry=20, record=True, engine="python")
            for kind in (bl.SDB, bl.QPMD)
        )
        assert (one.actions == two.actions).all()
        assert (one.steps == two.steps).all() and (one.base_pulls == two.base_pulls).all()


def test_sdb_differs_from_qpmd_where_it_does_not_agree():
    law = bl.delays.Constant(20)
    one, two = (bl.play(kind(bl.UCB1(3)), GAME, law, rounds=200, record=True) for kind in (bl.SDB, bl.QPMD))
    assert (one.actions != two.actions).any()


@in_plain_python
@pytest.mark.parametrize("learner", [bl.Uniform, bl.RoundRobin, bl.UCB1, bl.EpsilonGreedy], ids=lambda x: x.__name__)
def test_in_plain_python_the_identities_of_sdb_stand_any_delays_cancellations_and_priors(learner):
    rng = np.random.default_rng(7)
    reached = set()
    for _ in range(60):
        actions, rounds = int(rng.integers(1, 5)), int(rng.integers(1, 60))
        taus = rng.choice([0, 0, 1, 5, 30, bl.NEVER], size=(rounds, actions) if rng.random() < 0.5 else rounds)
        known = int(rng.integers(0, 7)) * int(rng.integers(0, 2))
        prior = [(int(rng.integers(actions)), float(rng.integers(2))) for _ in range(known)]
        expiry = None if rng.random() < 0.5 else int(rng.integers(0, 20))
        default = 0.5 if expiry is not None and rng.random() < 0.5 else None
        r = bl.play(
            bl.SDB(learner(actions), prior=prior),
            bl.games.RewardTable(rng.random((rounds, actions))),
            bl.delays.Trace(taus),
            rounds=rounds,
            expiry=expiry,
            default=default,
            seed=int(rng.integers(2**32)),
            engine="python",
        )
        assert r.certificate.holds
        ahead = r.pulls[0] - r.base_pulls[0]
        counts = np.bincount([action for action, _ in prior], minlength=actions)
        most = np.maximum(r.peak[0] - counts, 0) + r.cancelled[0]
        ends = {"least": ahead == -counts, "most": ahead == most, "beyond G*_i": ahead > r.peaks[0] + r.cancelled[0]}
        reached |= {(name, bool(prior)) for name, truths in ends.items() if truths.any()}
    # None of it can be said more sharply, and QPM-D's identity does not hold: its upper end is G*_i.
    assert reached >= {("least", False), ("least", True), ("most", False), ("most", True), ("beyond G*_i", False)}


def test_the_identity_of_sdb_finds_an_action_that_gets_too_far_ahead():
    from belated.engine.certificate import certify, counts_of
    from belated.engine.workspace import Setting, Tables, Workspace
    from belated.errors import CertificateError

    for prior, over in (((), 11), (((0, 1.0), (0, 0.0)), 9)):
        forecaster = bl.SDB(bl.UCB1(3), prior=prior)
        setting = Setting(forecaster, GAME, bl.delays.Constant(10), 300, 0, np.array([300]))
        tables = Tables.make(1, 3, 1, 300, False, 0)
        Workspace(setting, tables).run(0, 1, lambda rounds: True)
        counts = counts_of(setting, tables)
        assert certify(setting, counts)
        base = counts.tally["base"][0]
        off = int(counts.tally["pulls"][0, 0] - base[0])
        base[0], base[1] = base[0] + off - over, base[1] - off + over  # now action 0 is ahead by `over`
        with pytest.raises(CertificateError, match=r"T_i - T'_i <= "):
            certify(setting, counts)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_bound_of_sdb_is_its_formula_and_holds(law):
    r = bl.play(bl.SDB(bl.UCB1(3)), GAME, law, rounds=3000, replications=8, seed=2)
    base = bl.UCB1(3).stochastic_bound(3000, np.array(GAME.means))
    assert r.bound == pytest.approx(bl.bounds.sdb(base, [0.4, 0.2, 0.0], r.peak.mean()))
    assert r.regret[:, -1].mean() < r.bound and not bl.bounds.is_vacuous(r.bound, 3000)
    assert len(r.certificate) == 9


def test_the_bound_of_sdb_with_side_information_is_the_sum_over_values():
    game = bl.games.Grouped([bl.games.Bernoulli([0.1, 0.9]), bl.games.Bernoulli([0.8, 0.3])])
    r = bl.play(bl.SDB(bl.PerContext(bl.UCB1(2), 2)), game, bl.delays.Constant(20), rounds=4000, replications=4)
    base = sum(bl.UCB1(2).stochastic_bound(4000, np.array(row)) for row in game.means)
    assert r.bound == pytest.approx(bl.bounds.sdb(base, [0.8, 0.0, 0.0, 0.5], r.peak.mean()))
    assert r.regret[:, -1].mean() < r.bound


@pytest.mark.parametrize(
    ("forecaster", "game", "options", "reason"),
    [
        (bl.SDB(bl.UCB1(3), prior=[(0, 1.0)]), GAME, {}, "with a prior"),
        (bl.SDB(bl.UCB1(3)), bl.games.Block(3, 5, feedback="bandit"), {}, "i.i.d. rewards only"),
        (bl.SDB(bl.EpsilonGreedy(3)), GAME, {}, "no known bound without delay"),
        (bl.SDB(bl.UCB1(3)), GAME, {"expiry": 3}, "cancelled"),
        (bl.SDB(bl.UCB1(3)), GAME, {"expiry": 3, "default": 0.0}, "default"),
        (bl.Paced(bl.Hedge(3)), bl.games.Block(3, 5), {}, "no theorem is stated for Paced"),
        (bl.Paced(bl.DelayedHedge(3)), bl.games.Block(3, 5), {}, "no theorem is stated for Paced"),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_where_there_is_no_bound_the_reason_is_given(forecaster, game, options, reason):
    r = bl.play(forecaster, game, bl.delays.Constant(5), rounds=100, **options)
    assert r.bound is None and reason in r.bound_reason


def test_what_sdb_refuses():
    for learner, word in [
        (bl.Exp3(3), "probability of a prediction"),
        (bl.TsallisINF(3), "probability of a prediction"),
        (bl.PerContext(bl.Exp3(3), 2), "probability of a prediction"),
        (bl.LinUCB(3, 2), "endlessly many contexts"),
        (bl.NeighborhoodWatch2.example(), "last prediction only"),
    ]:
        with pytest.raises(Unsupported, match=word):
            bl.SDB(learner)
    for learner in (bl.Hedge(3), bl.PerContext(bl.UCB1(3), 2), bl.PerContext(bl.UCB1(3), 1), bl.DelayedHedge(3)):
        with pytest.raises(Unsupported, match="prior"):
            bl.SDB(learner, prior=[(0, 1.0)])
    for prior, word in [
        ([(3, 1.0)], "action 3"),
        ([(-1, 1.0)], "action -1"),
        ([(0, 1.5)], "1.5"),
        ([(0, float("nan"))], "nan"),
        ([(0,)], r"prior\[0\]"),
        ([(0, 1.0), 5], r"prior\[1\]"),
        ([(0.5, 1.0)], "0.5"),
    ]:
        with pytest.raises(InvalidArgument, match=word):
            bl.SDB(bl.UCB1(3), prior=prior)


def test_a_prior_is_what_feedback_before_the_first_prediction_would_be():
    f = bl.SDB(bl.UCB1(2), prior=[(0, 0.0), (1, 1.0), (1, 1.0)])
    assert f.queued == [1, 2]
    second = f._instances[1]
    assert second.predictions == 0 and second.state["seen"][0].tolist() == [1, 2]
    assert f.predict().action == 1  # the second instance knows which is better
    assert f.asked == [1, 3] and f.queued == [0, 0]  # all of it was consumed


# --- a pool for each value ---

FULL = bl.games.Grouped([bl.games.Block(3, 40), bl.games.Block(3, 7), bl.games.Block(3, 150)], [0.6, 0.3, 0.1])
WALKS = bl.games.Grouped([bl.games.RandomWalk(3, step=0.05, feedback="bandit")] * 4)
POOLED = [
    (bl.BOLD(bl.PerContext(bl.Hedge(3), 3), pools="value"), FULL),
    (bl.BOLD(bl.PerContext(bl.Exp3(3), 4), pools="value"), WALKS),
]


@pytest.mark.parametrize(("forecaster", "game"), POOLED, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("law", [*LAWS[:3], bl.delays.Batched(30)], ids=repr)
def test_the_bound_of_a_pool_for_each_value_is_its_formula_and_holds(forecaster, game, law):
    r = bl.play(forecaster, game, law, rounds=4000, replications=4, seed=3)
    f = forecaster.learner.learner.bound
    rows = zip(r.pools["rounds"], r.pools["peak"], strict=True)
    assert r.bound == pytest.approx(np.mean([bl.bounds.bold_pools(f, *row) for row in rows]), rel=1e-12)
    assert r.regret[:, -1].mean() < r.bound
    assert (r.pools["instances"] == r.pools["peak"] + 1).all() and (r.instances == r.pools["instances"].sum(1)).all()
    assert {"M_c = G*_c + 1 for each value", "M = sum of M_c"} <= set(r.certificate)


def test_where_a_pool_for_each_value_has_no_bound_the_reason_is_given():
    by_action = bl.delays.PerAction([bl.delays.Constant(1), bl.delays.Constant(9), bl.delays.Constant(5)])
    by_reward = bl.delays.Constant(3)
    pooled = bl.BOLD(bl.PerContext(bl.Hedge(3), 3), pools="value")
    game = bl.games.Grouped([GAME, bl.games.Bernoulli([0.9, 0.1, 0.5])])
    two = bl.BOLD(bl.PerContext(bl.UCB1(3), 2), pools="value")
    for forecaster, its, law, options, reason in [
        (pooled, FULL, by_action, {}, "depend on the action"),
        (two, game, by_reward, {}, "against an adversary"),
        (pooled, FULL, by_reward, {"expiry": 1}, "cancelled"),
    ]:
        r = bl.play(forecaster, its, law, rounds=200, **options)
        assert r.bound is None and reason in r.bound_reason, r.bound_reason


def test_pools_are_for_values_only():
    for learner in (bl.UCB1(3), bl.LinUCB(3, 2), Same):
        with pytest.raises(Unsupported, match="PerContext"):
            bl.BOLD(learner, pools="value")
    with pytest.raises(InvalidArgument, match="pools"):
        bl.BOLD(bl.UCB1(3), pools="all")
    assert repr(bl.BOLD(bl.UCB1(3), pools="one")) == "BOLD(UCB1(actions=3))"
    f = bl.BOLD(bl.PerContext(bl.UCB1(3), 2), pools="value", seed=1)
    assert f.instances == 0
    for value in (1, 0, 1):
        f.predict(value)
    assert [(seat.number, seat.pool) for seat in f._room.seats] == [(0, 1), (1, 0), (2, 1)]
    assert "pools='value'" in repr(f)


def test_under_delay_many_values_learn_faster_from_pools_of_their_own():
    """16 contexts, delay 63, a good action in each: with one pool every context waits for all the others."""
    contexts, actions = 16, 4
    means = [[0.6 if i == c % actions else 0.5 for i in range(actions)] for c in range(contexts)]
    game = bl.games.Grouped([bl.games.Bernoulli(row, "full") for row in means])
    learner = bl.PerContext(bl.Hedge(actions), contexts)
    one, own = (
        bl.play(bl.BOLD(learner, pools=pools), game, bl.delays.Constant(63), rounds=20_000, replications=4)
        for pools in ("one", "value")
    )
    assert own.regret[:, -1].max() < 0.8 * one.regret[:, -1].min()
    assert own.bound < one.bound


# --- Paced ---


def test_what_paced_refuses():
    for learner, word in [
        (bl.UCB1(3), "bandit"),
        (bl.PerContext(bl.Exp3(3), 2), "bandit"),
        (bl.CBP.example(), "symbol"),
    ]:
        with pytest.raises(Unsupported, match=word):
            bl.Paced(learner)
    assert bl.Paced(bl.RoundRobin(3)).predict().action == 0  # it learns nothing, and takes any feedback


def test_paced_tells_one_feedback_a_prediction_in_the_order_of_arrival():
    told = []

    class Listens(Same):
        def update(self, context, action, probability, feedback):
            told.append((context, feedback))

    f = bl.Paced(Listens)
    tickets = [f.predict(f"c{i}").ticket for i in range(4)]
    for ticket in (tickets[2], tickets[0], tickets[3]):
        f.update(ticket, ticket)
    assert told == [] and f.queued == 3
    for count in range(1, 5):
        f.predict("later")
        assert told == [("c2", 3), ("c0", 1), ("c3", 4)][:count]
    f.cancel(tickets[1])
    f.predict("later")
    assert len(told) == 3


def test_without_bursts_paced_is_direct():
    law = bl.delays.Constant(6)
    one, two = (
        bl.play(kind(bl.DelayedHedge(3)), bl.games.Block(3, 5), law, rounds=300, record=True)
        for kind in (bl.Paced, bl.Direct)
    )
    assert (one.actions == two.actions).all() and (one.regret == two.regret).all()


@pytest.mark.parametrize("name", sorted(bl.catalog.LEARNERS))
def test_who_is_refused_is_told_what_takes_it(name):
    learner = bl.catalog.LEARNERS[name].example()
    try:
        bl.Paced(learner)
    except Unsupported as error:
        advice = re.findall(r"\b(Direct|BOLD|QPMD)\b", str(error).rpartition("use ")[2])
        assert advice and all(getattr(bl, each)(learner) for each in advice), error
