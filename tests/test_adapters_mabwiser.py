"""MABWiser under delay, and our learners in its shape."""

import math
import pickle

import numpy as np
import pytest
from mabwiser.mab import MAB, LearningPolicy, NeighborhoodPolicy

import belated as bl
from belated.checks import check_plain
from belated.errors import InvalidArgument, InvalidFeedback, UnknownTicket, Unsupported

ARMS = ["a", "b", "c"]
FREE = [
    LearningPolicy.EpsilonGreedy(epsilon=0.3),
    LearningPolicy.UCB1(alpha=1.0),
    LearningPolicy.ThompsonSampling(),
    LearningPolicy.Softmax(tau=0.5),
    LearningPolicy.Popularity(),
    LearningPolicy.Random(),
]
SEEING = [
    (LearningPolicy.LinUCB(alpha=0.5), None),
    (LearningPolicy.LinTS(alpha=0.5), None),
    (LearningPolicy.LinGreedy(epsilon=0.2), None),
    (LearningPolicy.EpsilonGreedy(epsilon=0.2), NeighborhoodPolicy.Radius(radius=0.4)),
    (LearningPolicy.UCB1(alpha=1.0), NeighborhoodPolicy.KNearest(k=6)),
    (LearningPolicy.UCB1(alpha=1.0), NeighborhoodPolicy.LSHNearest(n_dimensions=3, n_tables=2)),
    (LearningPolicy.EpsilonGreedy(epsilon=0.2), NeighborhoodPolicy.TreeBandit()),
]
#: It clusters all contexts anew with each reward, which takes its time.
SLOW = (LearningPolicy.ThompsonSampling(), NeighborhoodPolicy.Clusters(n_clusters=5))
ALL = [(policy, None) for policy in FREE] + SEEING
CONTEXTS = np.random.default_rng(3).random((20, 2)).tolist()


def name(policies):
    return "-".join(type(policy).__name__ for policy in policies if policy is not None)


def made(policies, seed=11):
    return MAB(ARMS, *policies, seed=seed)


def contexts_of(policies):
    return [None] if policies[0] in FREE and policies[1] is None else CONTEXTS


def reward(t, context, action):
    return float((7 * t + 3 * action) % 10 < 2 + 3 * action)


def unwrapped(policies, rounds):
    """MABWiser by itself: as many arms in turn as it needs, fitted at once; then predicted and partially fitted."""
    mab, seen = made(policies), contexts_of(policies)
    first = max(3, getattr(policies[1], "k", 0), getattr(policies[1], "n_clusters", 0))
    said = [t % 3 for t in range(first)]
    rows = [seen[t % len(seen)] for t in range(first)]
    rewards = [reward(t, None, action) for t, action in enumerate(said)]
    mab.fit([ARMS[action] for action in said], rewards, None if seen == [None] else rows)
    for t in range(first, rounds):
        row = None if seen == [None] else [seen[t % len(seen)]]
        arm = mab.predict(row)
        said.append(ARMS.index(arm))
        mab.partial_fit([arm], [reward(t, None, said[-1])], row)
    return said


@pytest.mark.parametrize("policies", [*ALL, SLOW], ids=name)
def test_without_delay_it_is_mabwiser_itself(policies):
    rounds = 120 if policies[1] is None else 10 if policies is SLOW else 30
    factory, seen, alone = (
        bl.adapters.mabwiser.bandit(made(policies)),
        contexts_of(policies),
        unwrapped(policies, rounds),
    )
    for forecaster in (bl.Direct, bl.BOLD, bl.QPMD) if seen == [None] else (bl.Direct, bl.BOLD):
        f = forecaster(factory)
        said = []
        for t in range(rounds):
            d = f.predict(seen[t % len(seen)])
            assert math.isnan(d.probability)
            f.update(d.ticket, reward(t, None, d.action))
            said.append(d.action)
        assert said == alone, forecaster


@pytest.mark.parametrize("policies", ALL, ids=name)
def test_contract(policies):
    rounds = 60 if policies[1] is None else 25
    check_plain(bl.adapters.mabwiser.bandit(made(policies)), contexts_of(policies), reward, rounds)


def test_before_it_is_fitted():
    """Arms without a reward come first, those played least before others; afterwards MABWiser decides."""
    f = bl.Direct(bl.adapters.mabwiser.bandit(made((LearningPolicy.UCB1(alpha=0.1), None))))
    early = [f.predict() for _ in range(7)]
    assert [d.action for d in early] == [0, 1, 2, 0, 1, 2, 0]
    f.update(early[1].ticket, 0.0)
    assert [f.predict().action for _ in range(3)] == [2, 0, 2]
    f.update(early[0].ticket, 1.0)
    assert f.predict().action == 2
    f.update(early[2].ticket, 0.0)
    assert [f.predict().action for _ in range(3)] == [0, 0, 0]
    f.cancel(early[3].ticket)
    f.update(early[4].ticket, 1.0)
    assert f.outstanding == 9


def test_neighbourhoods_wait_for_what_they_need():
    policies = (LearningPolicy.UCB1(), NeighborhoodPolicy.KNearest(k=6))
    learner = bl.adapters.mabwiser.bandit(made(policies))()
    for t in range(6):
        assert not learner.fitted
        action, _ = learner.predict(CONTEXTS[t])
        assert action == t % 3
        learner.update(CONTEXTS[t], action, math.nan, 1.0)
    assert learner.fitted and learner.told == []


def test_a_reward_that_mabwiser_refuses_leaves_the_ticket_open():
    f = bl.Direct(bl.adapters.mabwiser.bandit(made((LearningPolicy.ThompsonSampling(), None))))
    first = [f.predict() for _ in range(3)]
    for d in first[:2]:
        f.update(d.ticket, 1)
    with pytest.raises(ValueError, match="binary"):
        f.update(first[2].ticket, 0.5)
    f.update(first[2].ticket, 0)
    assert f.outstanding == 0 and f.predict().action in range(3)


def test_copies():
    mab = made((LearningPolicy.Random(), None), seed=4)
    mab.fit(ARMS, [1, 0, 0])
    factory = bl.adapters.mabwiser.bandit(mab, fresh=True)
    assert repr(factory) == "mabwiser.bandit(Random)"
    assert not factory().fitted
    f = bl.BOLD(factory)
    for _ in range(3):
        tickets = [f.predict().ticket for _ in range(12)]
        for ticket in tickets:
            f.update(ticket, 1.0)
    assert len({f.predict().action for _ in range(12)}) == 3
    assert pickle.loads(pickle.dumps(factory))(3).mab.seed == 7
    with pytest.raises(Unsupported, match="cannot be saved"):
        f.to_bytes()
    again = pickle.loads(pickle.dumps(f))
    assert again.outstanding == 12


def test_a_fitted_mab_is_taken_along_by_every_copy():
    mab = made((LearningPolicy.EpsilonGreedy(epsilon=0.0), None))
    mab.fit(ARMS, [0, 0, 1])
    f = bl.BOLD(bl.adapters.mabwiser.bandit(mab))
    mab.partial_fit(["a"] * 5, [1] * 5)  # what it learns afterwards is its own
    assert [f.predict().action for _ in range(4)] == [2] * 4 and f.instances == 4
    drawn = made((LearningPolicy.Random(), None))
    drawn.fit(ARMS, [0, 0, 1])
    factory = bl.adapters.mabwiser.bandit(drawn)
    assert len({factory(number).predict(None)[0] for number in range(12)}) > 1  # copies do not draw alike
    assert [ARMS[factory(0).predict(None)[0]]] == [drawn.predict()]


def test_what_a_policy_cannot_use_is_refused():
    f = bl.Direct(bl.adapters.mabwiser.bandit(made((LearningPolicy.UCB1(), None))))
    with pytest.raises(InvalidArgument, match=r"UCB1 looks at no context, got \[1.0\]"):
        f.predict([1.0])
    d = f.predict()
    with pytest.raises(InvalidFeedback, match="UCB1 takes no weights"):
        f.update(d.ticket, bl.adapters.Weighted(1.0, 2.0))
    f.update(d.ticket, 1.0)


def test_plays_our_games():
    factory = bl.adapters.mabwiser.bandit(made((LearningPolicy.ThompsonSampling(), None)))
    for forecaster in (bl.Direct, bl.BOLD, bl.QPMD):
        r = bl.play(forecaster(factory), bl.games.Bernoulli([0.1, 0.5, 0.9]), bl.delays.Constant(10), 300, record=True)
        assert bool(r.certificate)
        assert np.mean(r.actions[0, -100:] == 2) > 0.5


def test_refused_direct_if_the_user_says_so():
    factory = bl.adapters.mabwiser.bandit(made((LearningPolicy.UCB1(), None)), tolerates_delay=False)
    with pytest.raises(Unsupported, match="use BOLD"):
        bl.Direct(factory)
    check_plain(factory)


@pytest.mark.parametrize("context", [None, [], "ab", [float("nan"), 1.0]])
def test_contexts_that_make_no_sense(context):
    f = bl.BOLD(bl.adapters.mabwiser.bandit(made(SEEING[0])))
    with pytest.raises(InvalidArgument, match="LinUCB needs a row of numbers, got"):
        f.predict(context)


def test_only_a_mab():
    with pytest.raises(InvalidArgument, match="must be a MAB of MABWiser"):
        bl.adapters.mabwiser.bandit(LearningPolicy.UCB1())


# --- our learners in its shape ---


def drive(mab, rounds=60):
    """Code that somebody wrote for MABWiser."""
    said = []
    for t in range(rounds):
        arm = mab.predict()
        mab.partial_fit([arm], [reward(t, None, ARMS.index(arm))])
        said.append(arm)
    return said


@pytest.mark.parametrize("learner", [bl.UCB1(actions=3), bl.Exp3(actions=3), bl.ThompsonBernoulli(actions=3)], ids=repr)
def test_ours_decides_as_without_the_shape(learner):
    f = bl.BOLD(learner, seed=9)
    said = []
    for t in range(60):
        d = f.predict()
        f.update(d.ticket, reward(t, None, d.action))
        said.append(ARMS[d.action])
    mab = bl.adapters.mabwiser.MAB(learner, ARMS, seed=9)
    assert drive(mab) == said
    assert drive(bl.adapters.mabwiser.MAB(bl.BOLD(learner, seed=9), ARMS)) == said
    mab.fit([], [])
    assert drive(mab) == said


def test_the_same_code_runs_with_theirs_and_ours():
    theirs = MAB(ARMS, LearningPolicy.UCB1(), seed=1)
    ours = bl.adapters.mabwiser.MAB(bl.Direct(bl.UCB1(actions=3)), ARMS)
    for mab in (theirs, ours):
        mab.fit(np.array(["a", "b", "c", "c"]), np.array([0, 0, 1, 1]))
        assert mab.predict() == "c"
        mab.partial_fit(["c"], [1.0])
        assert len(drive(mab)) == 60
        assert set(mab.predict_expectations()) == set(ARMS)


def test_fit_replays_a_history():
    """Rows on which the learner would have decided otherwise teach it nothing."""
    mab = bl.adapters.mabwiser.MAB(bl.Direct(bl.UCB1(actions=3)), ARMS)
    mab.fit(["a", "c", "b"], [1.0, 1.0, 0.5])
    assert mab.predict_expectations() == {"a": 1.0}
    assert mab.outstanding == 0
    mab.fit(["a", "b", "c"], [1.0, 1.0, 0.5])
    assert mab.predict_expectations() == {"a": 1.0, "b": 1.0, "c": 0.5}


def test_rewards_come_late_and_in_any_order():
    mab = bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ARMS)
    assert [mab.predict() for _ in range(4)] == ["a"] * 4
    assert mab.outstanding == 4
    mab.partial_fit(["a", "a"], [1.0, 0.0])
    assert mab.outstanding == 2
    assert mab.predict_expectations() == {"a": 0.5}
    with pytest.raises(UnknownTicket, match="arm 'b' has no open prediction"):
        mab.partial_fit(["a", "b"], [1.0, 1.0])
    with pytest.raises(UnknownTicket, match="arm 'a' has no open prediction"):
        mab.partial_fit(["a", "a", "a"], [1.0, 1.0, 1.0])
    with pytest.raises(InvalidFeedback):
        mab.partial_fit(["a"], [2.0])
    assert mab.outstanding == 2
    mab.cancel()
    assert mab.outstanding == 0 and mab.predict() in ARMS


@pytest.mark.parametrize("learner", [bl.UCB1(actions=3), bl.Exp3(actions=3)], ids=repr)
def test_rewards_of_another_scale(learner):
    wide = bl.adapters.mabwiser.MAB(learner, ARMS, seed=5, reward_range=(-10, 30))
    unit = bl.adapters.mabwiser.MAB(learner, ARMS, seed=5)
    for t in range(40):
        arm = wide.predict()
        assert unit.predict() == arm
        paid = (20, 17, 25)[ARMS.index(arm)] - t % 5
        wide.partial_fit([arm], [paid])
        unit.partial_fit([arm], [(paid + 10) / 40])
    for arm, mean in wide.predict_expectations().items():
        assert 13 <= mean <= 25 and unit.predict_expectations()[arm] == pytest.approx((mean + 10) / 40)


def test_rewards_out_of_range_are_refused_before_anything_is_learned():
    mab = bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ARMS, reward_range=(0, 50))
    arms = [mab.predict() for _ in range(2)]
    with pytest.raises(InvalidFeedback, match=r"reward_range, which is \[0, 50\], got 51: give reward_range="):
        mab.partial_fit(arms, [20, 51])
    assert mab.outstanding == 2 and mab.predict_expectations() == {}
    with pytest.raises(InvalidFeedback, match=r"reward_range, which is \[0, 1\], got 20"):
        bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ARMS).fit(["a"], [20])
    for bad in (None, 3, (0,), (0, 1, 2), (1, 1), (2, 0), (0, math.inf), ("a", "b")):
        with pytest.raises(InvalidArgument, match="reward_range"):
            bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ARMS, reward_range=bad)


def test_a_plain_learner_takes_rewards_as_they_are_unless_a_range_is_given():
    free = bl.adapters.mabwiser.bandit(made((LearningPolicy.EpsilonGreedy(epsilon=0), None)))
    mab = bl.adapters.mabwiser.MAB(free, ARMS)
    mab.fit(ARMS, [20, 17, 25])
    assert mab._forecaster._instances[0].mab._imp.arm_to_expectation == {"a": 20, "b": 17, "c": 25}
    mab = bl.adapters.mabwiser.MAB(free, ARMS, reward_range=(0, 50))
    mab.fit(ARMS, [20, 15, 25])
    assert mab._forecaster._instances[0].mab._imp.arm_to_expectation == {"a": 0.4, "b": 0.3, "c": 0.5}
    assert mab.predict_expectations() == {"a": 20.0, "b": 15.0, "c": 25.0}


def test_contexts_in_rows():
    learner = bl.LinUCB(actions=3, features=2)
    mab = bl.adapters.mabwiser.MAB(bl.Direct(learner), ARMS)
    f = bl.Direct(learner)
    for _ in range(5):
        arms = mab.predict(CONTEXTS)
        decisions = [f.predict(row) for row in CONTEXTS]
        assert arms == [ARMS[d.action] for d in decisions]
        rewards = [float(row[ARMS.index(arm) % 2]) for row, arm in zip(CONTEXTS, arms, strict=True)]
        mab.partial_fit(arms[::-1], rewards[::-1], CONTEXTS[::-1])
        for d, paid in list(zip(decisions, rewards, strict=True))[::-1]:
            f.update(d.ticket, paid)
    assert mab.predict(CONTEXTS[:1]) in ARMS
    assert mab.outstanding == 1
    with pytest.raises(UnknownTicket, match="in the context"):
        mab.partial_fit(["a"], [1.0], [[0.0, 0.0]])
    with pytest.raises(Unsupported, match="in a context"):
        mab.predict_expectations(CONTEXTS)


def test_what_ours_refuses():
    mab = bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ARMS)
    with pytest.raises(Unsupported, match=r"'d' cannot be added: .* made for 3 actions"):
        mab.add_arm("d")
    with pytest.raises(Unsupported, match="'a' cannot be removed"):
        mab.remove_arm("a")
    with pytest.raises(InvalidArgument, match="names of 3 actions"):
        bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ["a", "b"])
    with pytest.raises(InvalidArgument, match="names of 3 actions"):
        bl.adapters.mabwiser.MAB(bl.UCB1(actions=3), ["a", "b", "b"])
    with pytest.raises(InvalidArgument, match="learns from more"):
        bl.adapters.mabwiser.MAB(bl.Hedge(actions=3), ARMS)
    with pytest.raises(InvalidArgument, match=r"among .* got 'x'"):
        mab.fit(["x"], [1.0])
    with pytest.raises(InvalidArgument, match="got 2, 1 and 2"):
        mab.fit(["a", "b"], [1.0])
    with pytest.raises(InvalidArgument, match="decisions must be a sequence, got 'a'"):
        mab.partial_fit("a", [1.0])
    for contexts in ([1.0, 2.0], [["a", "b"]]):
        with pytest.raises(InvalidArgument, match="rows of numbers"):
            mab.predict(contexts)
    assert repr(mab) == "MAB(BOLD(UCB1(actions=3)), ['a', 'b', 'c'])"
