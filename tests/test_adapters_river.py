"""River: its policies and models under delay, and our learners in River's own functions."""

from __future__ import annotations

import math
import pickle
import random
import re
from pathlib import Path

import numpy as np
import pytest
from river import (
    bandit,
    cluster,
    compose,
    datasets,
    evaluate,
    forest,
    imblearn,
    linear_model,
    metrics,
    multiclass,
    naive_bayes,
    neighbors,
    optim,
    preprocessing,
    proba,
    reco,
    stream,
    tree,
)

import belated as bl
from belated import checks
from belated.errors import InvalidArgument, InvalidFeedback, UnknownTicket, Unsupported

river = bl.adapters.river

POLICIES = [
    bandit.EpsilonGreedy(epsilon=0.3, decay=0.01, seed=1),
    bandit.UCB(delta=1, burn_in=1, seed=2),
    bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=3),
    bandit.BayesUCB(seed=4),
    bandit.RandomPolicy(seed=5),
    bandit.Exp3(gamma=0.3, seed=6),
]
MODELS = [
    tree.HoeffdingTreeClassifier(grace_period=20),
    naive_bayes.GaussianNB(),
    preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.1)),
    neighbors.KNNClassifier(n_neighbors=3),
    forest.ARFClassifier(n_models=3, seed=1),
    linear_model.Perceptron(),
]
REGRESSORS = [
    tree.HoeffdingTreeRegressor(grace_period=20),
    preprocessing.StandardScaler() | linear_model.LinearRegression(),
    linear_model.BayesianLinearRegression(),
    neighbors.KNNRegressor(n_neighbors=3),
    preprocessing.StandardScaler() | linear_model.PARegressor(),
]
by_type = {"ids": lambda model: str(model)[:30]}
PHISHING = list(datasets.Phishing().take(250))
TRUMP = list(datasets.TrumpApproval().take(200))


def reward(t, action):
    return float(random.Random(100 * t + action).random() < (0.2, 0.5, 0.8)[action])


def alone(policy, rounds, arms=(0, 1, 2)):
    policy, played = policy.clone(), []
    for t in range(rounds):
        arm = policy.pull(list(arms))
        played.append(arms.index(arm))
        policy.update(arm, reward(t, played[-1]))
    return played


def under(f, rounds, delay=0):
    tickets = []
    for t in range(rounds):
        tickets.append(f.predict())
        if t >= delay:
            d = tickets[t - delay]
            f.update(d.ticket, reward(t - delay, d.action))
    return [d.action for d in tickets]


def forecasters(policy):
    return [bl.BOLD, bl.QPMD] if isinstance(policy, bandit.Exp3) else [bl.Direct, bl.BOLD, bl.QPMD]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_without_delay_a_policy_plays_as_in_river(policy):
    expected = alone(policy, 300)
    for kind in forecasters(policy):
        assert under(kind(river.bandit(policy, actions=3)), 300) == expected
    assert policy._n == 0 and len(set(expected)) == 3


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_policies_keep_the_contract(policy):
    checks.check_plain(river.bandit(policy, actions=3))


@pytest.mark.parametrize("policy", POLICIES[:3], ids=lambda policy: type(policy).__name__)
def test_arms_may_have_names_or_come_with_each_prediction(policy):
    names = ("left", "middle", "right")
    expected = alone(policy, 100, names)
    assert under(bl.Direct(river.bandit(policy, actions=names)), 100) == expected
    f, played = bl.Direct(river.bandit(policy)), []
    for t in range(100):
        d = f.predict(list(names))
        played.append(names.index(d.action))
        f.update(d.ticket, reward(t, played[-1]))
    assert played == expected
    assert f.predict(["left", "new"]).action in ("left", "new")


def test_what_keeps_its_last_pull_cannot_go_direct():
    with pytest.raises(Unsupported, match=r"cannot play river.bandit\(Exp3\): .* last prediction only; use BOLD"):
        bl.Direct(river.bandit(bandit.Exp3(gamma=0.3), actions=3))
    with pytest.raises(Unsupported, match="last prediction only"):
        bl.Direct(river.bandit(bandit.RandomPolicy(), actions=3, tolerates_delay=False))
    with pytest.raises(Unsupported, match="last prediction only"):
        bl.Direct(river.classifier(naive_bayes.GaussianNB(), tolerates_delay=False))
    assert len(under(bl.BOLD(river.bandit(bandit.Exp3(gamma=0.3), actions=3)), 50, delay=7)) == 50


def test_why_exp3_is_refused():
    """Of two policies that pulled alike, the one that pulled again before its update learns something else."""
    first, second = (bandit.Exp3(gamma=0.5, seed=1) for _ in range(2))
    for policy in (first, second):
        for _ in range(20):
            policy.update(policy.pull([0, 1, 2]), 1.0)
    arm, same = first.pull([0, 1, 2]), second.pull([0, 1, 2])
    second.update(second.pull([0, 1, 2]), 1.0)
    second.pull([0, 1, 2])
    assert arm == same
    was, known = second._weights[arm], dict(first._probabilities)
    second.update(arm, 1.0)
    grown = math.log(second._weights[arm] / was)
    assert grown != pytest.approx(0.5 / known[arm] / 3, rel=1e-6)


def test_bold_over_a_policy_is_interleaved_and_each_copy_draws_for_itself():
    policy = bandit.EpsilonGreedy(epsilon=0.5, seed=1)
    f = bl.BOLD(river.bandit(policy, actions=3))
    played = under(f, 200, delay=9)
    assert f.instances == 10
    for number in range(10):
        twin, expected = policy.clone({"seed": 1 + number}), []
        for t in range(number, 200, 10):
            expected.append(twin.pull([0, 1, 2]))
            twin.update(expected[-1], reward(t, expected[-1]))
        assert played[number::10] == expected
    g = pickle.loads(pickle.dumps(f))
    assert [g.predict().action for _ in range(20)] == [f.predict().action for _ in range(20)]


def test_a_policy_plays_our_games():
    f = bl.QPMD(river.bandit(bandit.UCB(delta=1, seed=1), actions=3))
    r = bl.play(f, bl.games.Bernoulli([0.1, 0.5, 0.9]), bl.delays.Geometric(mean=5), rounds=400)
    assert r.certificate and r.pulls[0, 2] > 200


CONTEXTS = [{"x": x, "one": 1.0} for x in (0.1, 0.9, 0.4, 0.7)]


def gain(t, context, action):
    return float(context["x"] > 0.5) if action else 1.0 - float(context["x"] > 0.5)


def test_a_policy_with_contexts():
    policy = bandit.LinUCBDisjoint(alpha=1.0, beta=1.0, seed=1)
    checks.check_plain(river.bandit(policy, actions=2), CONTEXTS, gain, rounds=40)
    twin = policy.clone()
    numbered, named = bl.Direct(river.bandit(policy, actions=2)), bl.Direct(river.bandit(policy))
    for t in range(40):
        context = CONTEXTS[t % 4]
        arm = twin.pull([0, 1], context=context)
        d, e = numbered.predict(context), named.predict(([0, 1], context))
        assert d.action == e.action == arm
        twin.update(arm, context, gain(t, context, arm))
        for f, decision in ((numbered, d), (named, e)):
            f.update(decision.ticket, gain(t, context, arm))
    game = bl.games.Linear([[0.1, 0.5], [0.5, 0.1], [0.3, 0.3]])
    assert bl.play(bl.Direct(river.bandit(policy, actions=3)), game, bl.delays.Constant(2), rounds=30).certificate


@pytest.mark.parametrize("model", MODELS, **by_type)
def test_classifiers_keep_the_contract(model):
    labels = [y for _, y in PHISHING]
    checks.check_plain(river.classifier(model), [x for x, _ in PHISHING[:60]], lambda t, x, a: labels[t])


@pytest.mark.parametrize("model", REGRESSORS, **by_type)
def test_regressors_keep_the_contract(model):
    targets = [y for _, y in TRUMP]
    checks.check_plain(river.regressor(model), [x for x, _ in TRUMP[:40]], lambda t, x, a: targets[t], rounds=40)


def progressive(f, data, metric, delay):
    """As `progressive_val_score`: questions and answers in River's order, through tickets."""
    asked = {}
    for i, x, y in stream.simulate_qa(data, moment=None, delay=delay):
        if y is None:
            asked[i] = f.predict(x)
            continue
        d = asked.pop(i)
        if d.action is not None and d.action != {}:
            metric.update(y, d.action)
        f.update(d.ticket, y)
    return metric.get()


@pytest.mark.parametrize("delay", [None, 1, 20, lambda x, y: 50 if y else 3], ids=["none", "1", "20", "by label"])
@pytest.mark.parametrize("model", MODELS, **by_type)
def test_direct_scores_as_progressive_validation_does(model, delay):
    theirs = evaluate.progressive_val_score(PHISHING, model.clone(), metrics.Accuracy(), delay=delay).get()
    assert progressive(bl.Direct(river.classifier(model)), PHISHING, metrics.Accuracy(), delay) == theirs


@pytest.mark.parametrize("model", REGRESSORS, **by_type)
def test_direct_scores_as_progressive_validation_does_in_regression(model):
    theirs = evaluate.progressive_val_score(TRUMP, model.clone(), metrics.MAE(), delay=15).get()
    assert progressive(bl.Direct(river.regressor(model)), TRUMP, metrics.MAE(), 15) == theirs


def test_probabilities_of_labels_where_asked():
    theirs = evaluate.progressive_val_score(PHISHING, naive_bayes.GaussianNB(), metrics.ROCAUC(), delay=20).get()
    f = bl.Direct(river.classifier(naive_bayes.GaussianNB(), proba=True))
    assert progressive(f, PHISHING, metrics.ROCAUC(), 20) == theirs


def test_bold_over_a_model_has_one_more_copy_than_labels_are_outstanding():
    f = bl.BOLD(river.classifier(naive_bayes.GaussianNB()))
    progressive(f, PHISHING, metrics.Accuracy(), 20)
    assert f.instances == f.peak + 1 == 20  # River's delay of 20 is one of 19 here


def test_the_memory_of_bold_is_proportional_to_its_copies():
    sizes = []
    for peak in (9, 19, 39):
        f = bl.BOLD(river.classifier(naive_bayes.GaussianNB()))
        for x, y in PHISHING[:5]:
            for d in [f.predict(x) for _ in range(peak + 1)]:
                f.update(d.ticket, y)
        assert f.peak == peak
        sizes.append(len(pickle.dumps(f)))
    assert sizes[1] / sizes[0] == pytest.approx(2, rel=0.05) and sizes[2] / sizes[0] == pytest.approx(4, rel=0.05)


def test_the_page_on_late_labels_says_how_it_was_made():
    page = (Path(bl.__file__).parents[1] / "docs" / "delayed-labels.md").read_text()
    [(rows, shuffles)] = re.findall(r"([\d,]+) rows, (\d+) shuffles:", page)
    how = f"--rows {rows.replace(',', '')} --shuffles {shuffles} --out docs"
    assert f"`python examples/delayed_labels.py {how}` makes this page" in page


def test_a_pipeline_may_be_cancelled_and_cannot_be_saved():
    f = bl.BOLD(river.classifier(MODELS[2]))
    d = f.predict(PHISHING[0][0])
    f.cancel(d.ticket)
    with pytest.raises(Unsupported, match="cannot be saved"):
        f.to_bytes()
    assert repr(f) == "BOLD(river.classifier(Pipeline))"


@pytest.mark.parametrize(
    "make",
    [
        lambda: river.bandit(naive_bayes.GaussianNB()),
        lambda: river.bandit(bandit.RandomPolicy, actions=3),
        lambda: river.bandit(bandit.RandomPolicy(), actions=0),
        lambda: river.bandit(bandit.RandomPolicy(), actions="abc"),
        lambda: river.classifier(bandit.RandomPolicy()),
        lambda: river.classifier(naive_bayes.GaussianNB),
        lambda: river.classifier(compose.Select("a")),
        lambda: river.classifier(linear_model.LinearRegression(), proba=True),
        lambda: river.classifier(linear_model.LinearRegression()),
        lambda: river.classifier(REGRESSORS[1]),
        lambda: river.classifier(preprocessing.TargetStandardScaler(linear_model.LinearRegression())),
        lambda: river.regressor(tree.HoeffdingTreeClassifier()),
        lambda: river.regressor(MODELS[2]),
        lambda: river.regressor(None),
        lambda: river.classifier(cluster.KMeans()),
        lambda: river.classifier(preprocessing.StandardScaler() | cluster.KMeans()),
        lambda: river.regressor(reco.Baseline()),
    ],
)
def test_what_is_no_model_is_refused(make):
    with pytest.raises(InvalidArgument):
        make()


class Undecided:
    """A model that does not say what it is."""

    predict_one = learn_one = clone = lambda self, *given: self


def test_wrappers_and_what_does_not_say_its_kind_are_taken():
    river.classifier(multiclass.OneVsRestClassifier(linear_model.LogisticRegression()))
    river.classifier(imblearn.RandomUnderSampler(linear_model.LogisticRegression(), {0: 0.5, 1: 0.5}))
    river.regressor(preprocessing.TargetStandardScaler(linear_model.LinearRegression()))
    for kind in (river.classifier, river.regressor):
        kind(Undecided())


@pytest.mark.parametrize("said", [None, 3, "ab", [], {"x": 1.0, "one": 1.0}], ids=repr)
def test_arms_that_were_forgotten(said):
    with pytest.raises(InvalidArgument, match=r"UCB needs the arms with each prediction, predict\(arms\), or"):
        bl.Direct(river.bandit(bandit.UCB(delta=1))).predict(said)
    with pytest.raises(InvalidArgument, match=r"needs the arms with each prediction, predict\(\(arms, context\)\)"):
        bl.Direct(river.bandit(bandit.LinUCBDisjoint(alpha=1.0))).predict(said)


def test_a_context_that_nobody_looks_at():
    for arms in (3, ["a", "b", "c"]):
        f = bl.Direct(river.bandit(bandit.UCB(delta=1), actions=arms))
        with pytest.raises(InvalidArgument, match=r"UCB looks at no context, got \{'x': 1.0\}"):
            f.predict({"x": 1.0})
        assert f.outstanding == 0
    with pytest.raises(InvalidArgument, match="UCB needs the arms with each prediction"):
        bl.Direct(river.bandit(bandit.UCB(delta=1))).predict((["a", "b"], {"x": 1.0}))


def test_what_a_model_has_learned_is_taken_along_by_every_copy():
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    for x, y in PHISHING[:100]:
        model.learn_one(x, y)
    told = [model.predict_one(x) for x, _ in PHISHING[100:120]]
    f = bl.BOLD(river.classifier(model))
    one, twin = bl.Direct(river.classifier(model)), pickle.loads(pickle.dumps(model))
    for x, y in PHISHING[100:]:
        model.learn_one(x, y)  # what it learns afterwards is its own
    assert [f.predict(x).action for x, _ in PHISHING[100:120]] == told and f.instances == 20
    for x, y in PHISHING[100:]:
        d = one.predict(x)
        assert d.action == twin.predict_one(x)
        one.update(d.ticket, y)
        twin.learn_one(x, y)
    assert bl.Direct(river.classifier(naive_bayes.GaussianNB(), fresh=True)).predict(PHISHING[0][0]).action is None


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_what_a_policy_has_learned_is_taken_along(policy):
    fitted, twin = policy.clone(), policy.clone()
    for each in (fitted, twin):
        for t in range(60):
            arm = each.pull([0, 1, 2])
            each.update(arm, reward(t, arm))
    copies, fresh = river.bandit(fitted, actions=3), river.bandit(fitted, actions=3, fresh=True)
    first = copies(0)
    for t in range(40):
        arm = twin.pull([0, 1, 2])
        assert first.predict(None)[0] == arm
        first.update(None, arm, math.nan, reward(t, arm))
        twin.update(arm, reward(t, arm))
    assert (copies(5).policy._n, fresh(0).policy._n, fitted._n) == (60, 0, 60)
    generators = [copies(number).policy._rng for number in range(4)]
    if isinstance(policy, bandit.ThompsonSampling):  # what it knows of an arm draws for itself
        generators += [copies(number).policy._rewards[2]._rng for number in range(4)]
    assert len({each.random() for each in generators}) == len(generators)  # copies do not draw alike


def test_weights():
    f, twin = bl.Direct(river.regressor(REGRESSORS[1])), REGRESSORS[1].clone()
    for x, y in TRUMP[:20]:
        f.update(f.predict(x).ticket, bl.adapters.Weighted(y, weight=2.0))
        twin.learn_one(x, y, w=2.0)
    assert f.predict(TRUMP[20][0]).action == twin.predict_one(TRUMP[20][0])
    for f, x in (
        (bl.Direct(river.classifier(naive_bayes.GaussianNB())), {"x": 1.0}),
        (bl.Direct(river.bandit(bandit.UCB(delta=1), actions=2)), None),
    ):
        d = f.predict(x)
        with pytest.raises(InvalidFeedback, match="takes no weights, got Weighted"):
            f.update(d.ticket, bl.adapters.Weighted(1, weight=2.0))
        f.update(d.ticket, 1)


def test_a_context_that_was_forgotten():
    with pytest.raises(InvalidArgument, match=r"LinUCBDisjoint needs a context, .* got None"):
        bl.Direct(river.bandit(bandit.LinUCBDisjoint(alpha=1.0), actions=2)).predict()


# --- our learners as River's policies ---

ARMS = ["A", "B", "C"]


def clicks(n):
    draws = random.Random(42)
    return [(ARMS, None, draws.choice(ARMS), draws.random() < 0.5) for _ in range(n)]


@pytest.mark.parametrize("learner", [bl.UCB1(3), bl.ThompsonBernoulli(3), bl.Exp3(3)], ids=repr)
def test_offline_evaluation_of_our_learner_is_predict_and_update_or_cancel(learner):
    f, total, used = bl.BOLD(learner, seed=7), 0.0, 0
    for _, _, chosen, paid in clicks(600):
        d = f.predict()
        if ARMS[d.action] == chosen:
            f.update(d.ticket, paid)
            total, used = total + paid, used + 1
        else:
            f.cancel(d.ticket)
    policy = river.Policy(learner, seed=7)
    found, samples = bandit.evaluate_offline(policy, clicks(600))
    assert (found.get(), samples) == (total, used) and f.instances == 1
    again, _ = bandit.evaluate_offline(policy.clone(), clicks(600))
    assert again.get() == total


def test_rivers_own_evaluation_takes_our_policies_beside_its_own():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("river_bandits/KArmedTestbed-v0", max_episode_steps=50)
    squash = gymnasium.wrappers.TransformReward(env, lambda paid: 1.0 / (1.0 + math.exp(-paid)))
    policies = [river.Policy(bl.UCB1(10)), river.Policy(bl.Direct(bl.UCB1(10))), bandit.UCB(delta=1, seed=1)]
    steps = list(bandit.evaluate(policies, squash, n_episodes=2, seed=3))
    assert len(steps) == 300
    ours, same = ([s["arm"] for s in steps if s["policy_idx"] == i] for i in (0, 1))
    assert ours == same and set(ours) == set(range(10))


def test_a_forecaster_as_a_policy_keeps_open_pulls_and_answers_the_oldest():
    policy = river.Policy(bl.BOLD(bl.UCB1(2), seed=1))
    assert [policy.pull(["a", "b"]) for _ in range(3)] == ["a", "a", "a"]
    policy.update("a", 0.25)
    with pytest.raises(UnknownTicket, match="'b' has no open pull"):
        policy.update("b", 1.0)
    assert policy.pull(["a", "b"]) == "b"  # the instance that was told
    policy.update("b", 1.0)
    assert policy.ranking == ["b", "a"] and policy._n == 2
    strict = river.Policy(bl.BOLD(bl.UCB1(2)), expiry=1)
    for _ in range(10):
        strict.pull(["a", "b"])
    assert strict._forecaster.instances == 2 and strict._forecaster.outstanding == 2


def test_a_contextual_policy_of_ours_in_rivers_evaluation():
    draws = np.random.default_rng(1)
    history = []
    for _ in range(500):
        x = float(draws.random())
        arm = ("low", "high")[draws.integers(2)]
        history.append((["low", "high"], {"x": x, "one": 1.0}, arm, float((x > 0.5) == (arm == "high"))))
    policy = river.ContextualPolicy(bl.LinUCB(actions=2, features=2))
    total, used = bandit.evaluate_offline(policy, history)
    assert isinstance(policy, bandit.base.ContextualPolicy) and used > 200 and total.get() / used > 0.75
    late = river.ContextualPolicy(bl.Direct(bl.LinUCB(actions=2, features=2)), features=["x", "one"])
    first, second = {"x": 0.1, "one": 1.0}, {"x": 0.9, "one": 1.0}
    one, two = late.pull(["low", "high"], context=first), late.pull(["low", "high"], context=second)
    late.update(two, second, 1.0)
    with pytest.raises(UnknownTicket):
        late.update(two, second, 1.0)
    late.update(one, first, 1.0)


def test_a_pull_that_expired_is_told_as_such():
    policy = river.Policy(bl.UCB1(2))
    assert policy.pull(["a", "b"]) == "a" and policy.pull(["a", "b"]) == "b"
    with pytest.raises(UnknownTicket, match="no open pull: 1 pull was cancelled because expiry is 0"):
        policy.update("a", 1.0)
    with pytest.raises(UnknownTicket, match=r"no open pull$"):
        river.Policy(bl.UCB1(2)).update("a", 1.0)


def test_rewards_of_another_scale_are_scaled_for_the_learner():
    paid = {"a": 20.0, "b": 17.0}
    policy, plain = river.Policy(bl.UCB1(2), reward_range=(10, 30)).clone(), river.Policy(bl.UCB1(2))
    for _ in range(50):
        arm = policy.pull(["a", "b"])
        assert plain.pull(["a", "b"]) == arm
        policy.update(arm, paid[arm])
        plain.update(arm, (paid[arm] - 10) / 20)
    assert policy.ranking == ["a", "b"] and policy._rewards["a"].get() == 20.0
    policy.pull(["a", "b"])
    for reward in (9, 31, math.inf):
        with pytest.raises(InvalidFeedback, match=rf"reward_range, which is \[10, 30\], got {reward}"):
            policy.update("a", reward)
    assert policy._forecaster.outstanding == 1
    seen = {"x": 0.5}
    contextual = river.ContextualPolicy(bl.LinUCB(actions=2, features=1), reward_range=(0, 100))
    arm = contextual.pull(["a", "b"], context=seen)
    with pytest.raises(InvalidFeedback, match=r"reward_range, which is \[0, 100\], got 101"):
        contextual.update(arm, seen, 101)
    contextual.update(arm, seen, 99)


def test_arms_of_our_policies_stay_the_same():
    policy = river.Policy(bl.UCB1(2))
    with pytest.raises(InvalidArgument, match="2 arms"):
        policy.pull(["a", "b", "c"])
    policy = river.Policy(bl.UCB1(2))
    policy.pull(["a", "b"])
    assert policy.pull(["b", "a"]) in "ab"
    with pytest.raises(InvalidArgument, match="always the same"):
        policy.pull(["a", "c"])
    with pytest.raises(InvalidArgument, match="number of actions"):
        river.Policy(river.classifier(naive_bayes.GaussianNB()))
