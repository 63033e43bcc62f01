"""Vowpal Wabbit under delay."""

import pickle

import numpy as np
import pytest
from vowpalwabbit import Workspace

import belated as bl
from belated.checks import check_plain
from belated.checks.plain import PLAIN_CHECKS, Trial, predicts_honestly
from belated.errors import BadPrediction, InvalidArgument, InvalidFeedback, Unsupported

ROUNDS = 120
SMALL = "-b 10"
PLAIN = [
    "--cb_explore 3 --epsilon 0.2",
    "--cb_explore 3 --first 10",
    "--cb_explore 3 --bag 4",
    "--cb_explore 3 --cover 3",
    "--cb_explore 3 --softmax --lambda 4",
    "--cb_explore 3 --squarecb",
    "--cb_explore 3 --epsilon 0.3 --cb_type ips",
]
ADF = [
    "--cb_explore_adf --epsilon 0.2",
    "--cb_explore_adf --first 10",
    "--cb_explore_adf --bag 4",
    "--cb_explore_adf --cover 3",
    "--cb_explore_adf --softmax --lambda 4",
    "--cb_explore_adf --squarecb",
    "--cb_explore_adf --rnd 3 --epsilon 0.1",
    "--cb_explore_adf --regcb",
    "--cb_explore_adf --regcbopt",
    "--cb_explore_adf --synthcover",
]
CONTEXTS = [{"x": 0.25, "word": "a"}, {"x": 1.0, "user": {"new": True}}, {"x": -2.0, "word": "b"}]
LINES = ["|Context x:0.25 word=a", "|Context x:1.0 |user new:1.0", "|Context x:-2.0 word=b"]


def explore(arguments, *args, **kwargs):
    return bl.adapters.vowpal_wabbit.explore(f"{arguments} {SMALL}", *args, **{"seed": 5, **kwargs})


def reward(t, context, action):
    return float((7 * t + 3 * action) % 10 < 2 + 3 * action)


def unwrapped(arguments, rounds=ROUNDS):
    """Vowpal Wabbit by itself, as its users drive it: what it chose, with which probability."""
    vw = Workspace(f"{arguments} {SMALL} --quiet --random_seed 5")
    draws = np.random.default_rng((5, 0))
    adf = "_adf" in arguments
    said = []
    for t in range(rounds):
        line = LINES[t % len(LINES)]
        lines = [f"shared {line}", *(f"|Action {i}" for i in range(3))]
        pmf = np.array(vw.predict(lines if adf else line))
        at = draws.random() * pmf.sum()
        action = int(np.searchsorted(pmf.cumsum(), at, side="right"))
        probability = pmf[action] / pmf.sum()
        label = f"{1.0 - reward(t, None, action)}:{float(probability)!r}"
        if adf:
            lines[1 + action] = f"0:{label} {lines[1 + action]}"
            vw.learn(lines)
        else:
            vw.learn(f"{action + 1}:{label} {line}")
        said.append((action, pytest.approx(probability, rel=1e-9)))
    return said


def wrapped(forecaster, rounds=ROUNDS):
    said = []
    for t in range(rounds):
        d = forecaster.predict(CONTEXTS[t % len(CONTEXTS)])
        forecaster.update(d.ticket, reward(t, None, d.action))
        said.append((d.action, d.probability))
    return said


@pytest.mark.parametrize("arguments", PLAIN + ADF)
def test_without_delay_it_is_vowpal_wabbit_itself(arguments):
    actions = 3 if "_adf" in arguments else None
    alone = unwrapped(arguments)
    assert len({action for action, _ in alone}) > 1
    for forecaster in (bl.Direct, bl.BOLD):
        assert wrapped(forecaster(explore(arguments, actions))) == alone


@pytest.mark.parametrize("arguments", [*PLAIN[1::2], *ADF[::2]])
def test_contract(arguments):
    """All but the honesty of probabilities, for which six hundred copies are made: that takes seconds for each."""
    trial = Trial(explore(arguments, 3 if "_adf" in arguments else None), CONTEXTS, reward, 40)
    for check in set(PLAIN_CHECKS) - {predicts_honestly}:
        check(trial)


def test_contract_in_full():
    check_plain(explore("--cb_explore 3 --epsilon 0.3 --ring_size 2"))


def test_probabilities_are_those_of_the_draws():
    learner = explore("--cb_explore_adf --softmax --lambda 2", 3)()
    for action in (0, 1, 2, 2, 2):
        learner.update(None, action, 0.3, 0.3 * action)
    said = [learner.predict(None) for _ in range(4000)]
    assert len(set(said)) == 3
    for action, probability in set(said):
        share = sum(other == action for other, _ in said) / len(said)
        assert abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / len(said))


def test_update_is_told_the_probability_of_its_own_prediction():
    """Twenty predictions before any answer: what is learned is what Vowpal Wabbit learns from those labels."""
    arguments = "--cb_explore 3 --epsilon 0.4 --cb_type ips"
    f = bl.Direct(explore(arguments))
    vw = Workspace(f"{arguments} {SMALL} --quiet --random_seed 5")
    waiting = []
    for t in range(60):
        pmf = vw.predict(LINES[t % 3])
        d = f.predict(CONTEXTS[t % 3])
        assert d.probability == pytest.approx(pmf[d.action] / sum(pmf))
        waiting.append((t, d))
        if len(waiting) > 20:
            s, late = waiting.pop(0)
            f.update(late.ticket, reward(s, None, late.action))
            cost = 1.0 - reward(s, None, late.action)
            vw.learn(f"{late.action + 1}:{cost}:{late.probability!r} {LINES[s % 3]}")
    assert len({round(d.probability, 6) for _, d in waiting}) > 1


def test_it_learns_under_delay():
    """The best action is decided by the context: most choices are right in the end, two hundred rounds late."""
    factories = [
        explore("--cb_explore 3 --epsilon 0.1"),
        explore("--cb_explore_adf --squarecb -q CA", actions=3),
    ]
    for factory in factories:
        f = bl.Direct(factory)
        waiting, right = [], 0
        for t in range(2000):
            d = f.predict({f"kind{t % 3}": 1.0})
            right += t >= 1000 and d.action == t % 3
            waiting.append((d.ticket, float(d.action == t % 3)))
            if len(waiting) > 200:
                f.update(*waiting.pop(0))
        assert right > 800
        assert f.peak == 200


@pytest.mark.parametrize("arguments", PLAIN + ADF)
def test_predicting_changes_nothing(arguments):
    """So nothing is kept from a prediction for its answer."""
    factory = explore(arguments, 3 if "_adf" in arguments else None)
    once, often = factory().workspace, factory().workspace
    learner = factory()
    for t in range(20):
        example = learner._example(CONTEXTS[t % 3])
        expected = once.predict(example)
        for _ in range(3):
            assert often.predict(learner._example(CONTEXTS[0])) and often.predict(example) == expected
        for workspace in (once, often):
            learner.workspace = workspace
            learner.update(CONTEXTS[t % 3], t % 3, 0.4, reward(t, None, t % 3))


def test_first_counts_answers():
    f = bl.Direct(explore("--cb_explore 3 --first 4"))
    early = [f.predict() for _ in range(10)]
    assert {d.probability for d in early} == {1 / 3}
    for d in early[:4]:
        f.update(d.ticket, 0.5)
    assert f.predict().probability == 1.0


def test_ways_to_write_the_same():
    """Dictionaries, numbers and text give the same decisions."""
    runs = []
    for contexts in ([[0.5, 2.0], np.array([0.5, 2.0])], [{0: 0.5, 1: 2}] * 2, ["|Context 0:0.5 1:2.0"] * 2):
        f = bl.Direct(explore("--cb_explore 3 --softmax"))
        run = []
        for t in range(40):
            d = f.predict(contexts[t % 2])
            f.update(d.ticket, reward(t, None, d.action))
            run.append(d)
        runs.append(run)
    assert runs[0] == runs[1] == runs[2]


def test_actions_that_come_with_each_prediction():
    factory = explore("--cb_explore_adf --softmax")
    ways = [
        lambda n: ({"x": 0.5}, [{"price": 1.0 + i} for i in range(n)]),
        lambda n: ["shared |Context x:0.5", *(f"|Action price:{1.0 + i}" for i in range(n))],
        lambda n: "\n".join(["shared |Context x:0.5", *(f"|Action price:{1.0 + i}" for i in range(n))]),
    ]
    runs = []
    for way in ways:
        f = bl.BOLD(factory)
        run = []
        for t in range(30):
            d = f.predict(way(2 + t % 4))
            assert 0 <= d.action < 2 + t % 4
            f.update(d.ticket, 1.0 / (1 + d.action))
            run.append(d)
        runs.append(run)
    assert runs[0] == runs[1] == runs[2]
    assert {d.action for d in runs[0]} >= {0, 1, 2}
    with pytest.raises(Unsupported):
        bl.QPMD(factory)


def test_actions_with_features_of_their_own():
    given = explore("--cb_explore_adf --epsilon 0.2", actions=[{"red": 1}, [0.5, 0.1], "|Action blue", None])
    f = bl.BOLD(given)
    assert f.actions == 4
    assert f.predict().probability == pytest.approx(0.25)
    r = bl.play(
        bl.QPMD(explore("--cb_explore_adf", actions=3)), bl.games.Bernoulli([0.1, 0.5, 0.9]), bl.delays.Constant(5), 80
    )
    assert r.pulls.sum() == 80 and bool(r.certificate)


def test_copies_draw_differently_and_seeds_are_kept():
    factory = explore("--cb_explore 5 --epsilon 1.0")
    f = bl.BOLD(factory)
    assert len({f.predict().action for _ in range(30)}) == 5
    again = pickle.loads(pickle.dumps(factory))
    assert [again(i).predict(None) for i in range(20)] == [factory(i).predict(None) for i in range(20)]
    fresh = [explore("--cb_explore 50 --epsilon 1.0", seed=None)(0) for _ in range(4)]
    assert len({tuple(made.predict(None)[0] for _ in range(5)) for made in fresh}) > 1


def test_refused_direct_if_the_user_says_so():
    factory = explore("--cb_explore 3", tolerates_delay=False)
    with pytest.raises(Unsupported, match="keeps for its last prediction only; use BOLD"):
        bl.Direct(factory)
    f = bl.BOLD(factory)
    tickets = [f.predict().ticket for _ in range(3)]
    for ticket in reversed(tickets):
        f.update(ticket, 1.0)
    assert f.instances == 3


LEFT_OUT = [each for each in ADF if any(word in each for word in ("--bag", "--cover", "--rnd"))]


@pytest.mark.parametrize("arguments", [each for each in PLAIN + ADF if each not in LEFT_OUT])
def test_what_is_pickled_goes_on_as_if_nothing_had_been(arguments):
    f = bl.BOLD(explore(arguments, 3 if "_adf" in arguments else None))
    early = [f.predict(CONTEXTS[0]) for _ in range(2)]
    wrapped(f, 20)
    again = pickle.loads(pickle.dumps(f))
    for d in early:
        f.update(d.ticket, 0.5)
        again.update(d.ticket, 0.5)
    assert wrapped(again, 20) == wrapped(f, 20)
    assert again.instances == f.instances == 3


@pytest.mark.parametrize("arguments", LEFT_OUT)
def test_what_a_file_of_vowpal_wabbit_leaves_out_is_not_pickled(arguments):
    f = bl.Direct(explore(arguments, 3))
    with pytest.raises(Unsupported, match="cannot be pickled: its file leaves out"):
        pickle.dumps(f)
    with pytest.raises(Unsupported, match="cannot be saved"):
        f.to_bytes()


@pytest.mark.parametrize("arguments", ["--cb_explore 3 --softmax --lambda 4", "--cb_explore 3 --bag 4"])
def test_a_saved_model_is_taken_along_by_every_copy(arguments, tmp_path):
    f, path = bl.Direct(explore(arguments)), tmp_path / "model.vw"
    wrapped(f, 40)
    bl.adapters.vowpal_wabbit.save(f, path)
    told = f._instances[0].workspace.predict(LINES[0])
    copies = explore(f"{arguments} -i {path}")
    path.unlink()  # it was read
    for number in range(2):
        assert copies(number).workspace.predict(LINES[0]) == told
    with pytest.raises(InvalidArgument, match=r"cannot be read, got .*model.vw': No such file"):
        explore(f"{arguments} -i {path}")
    with pytest.raises(InvalidArgument, match="one file to start from"):
        explore(f"{arguments} -i a -i b")
    with pytest.raises(InvalidArgument, match="forecaster must play Vowpal Wabbit"):
        bl.adapters.vowpal_wabbit.save(bl.Direct(bl.UCB1(actions=2)), path)


def test_a_context_is_learned_as_it_was_when_it_was_predicted():
    f, twin = (bl.Direct(explore("--cb_explore 3 --softmax")) for _ in range(2))
    context = {"user": {"x": 0.0}}
    for t in range(20):
        context["user"]["x"] = float(t)
        d, e = f.predict(context), twin.predict({"user": {"x": float(t)}})
        context["user"]["x"] = -1.0
        assert d == e
        f.update(d.ticket, reward(t, None, d.action))
        twin.update(e.ticket, reward(t, None, e.action))


@pytest.mark.parametrize(
    ("arguments", "actions", "message"),
    [
        ("--cb_explore 3 --nonsense", None, "unrecognised option '--nonsense'"),
        ("--oaa 3", None, "must have --cb_explore K or --cb_explore_adf"),
        ("--cb_explore 3", 4, "actions must be 3, as in '--cb_explore 3 -b 10', got 4"),
        ("--cb_explore 3 -f model", None, "without -f, .*: all copies would write the same file"),
        ("--cb_explore 3 --data=file", None, "without --data, .*: examples come from predict"),
        ("--cb_explore 3 --random_seed 4", None, "say seed= instead"),
        ("--cb_explore_adf", 0, "actions must be >= 1, got 0"),
        ("--cb_explore_adf", [], "at least 1 item"),
        ("--cb_explore_adf", ["shared |Action a"], "without a label"),
    ],
)
def test_what_cannot_be_explored(arguments, actions, message):
    with pytest.raises(InvalidArgument, match=message):
        explore(arguments, actions)


def test_arguments_are_a_line():
    with pytest.raises(InvalidArgument, match=r"got \['--cb_explore', '3'\]"):
        bl.adapters.vowpal_wabbit.explore(["--cb_explore", "3"])


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"a b": 1.0}, "a word without space, colon or bar, got 'a b'"),
        ({"a": "x|y"}, "got 'x|y'"),
        ({"a": float("nan")}, "the feature 'a' must be finite"),
        ({"a": None}, "the feature 'a' must be a number"),
        ("1:0.5:0.3 | a", "without a label"),
        ("no bar", "without a label"),
        ("| a\n| b", "one line"),
        ("shared | a", "without a label"),
        ([[1.0, 2.0]], "numbers in a row"),
        (3.0, "numbers in a row"),
    ],
)
def test_contexts_that_make_no_sense(context, message):
    f = bl.BOLD(explore("--cb_explore 3"))
    with pytest.raises(InvalidArgument, match=message):
        f.predict(context)
    assert f.outstanding == 0 and f.predict({"a": 1.0}).ticket == 1


@pytest.mark.parametrize(
    "context",
    [
        None,
        {"x": 1},
        ({"x": 1}, []),
        (None, None),
        "shared |Context x",
        ["|Action a", "shared |Context x"],
        (None, ["shared |a"]),
    ],
)
def test_actions_that_do_not_come(context):
    f = bl.BOLD(explore("--cb_explore_adf"))
    with pytest.raises(InvalidArgument):
        f.predict(context)


@pytest.mark.parametrize("feedback", ["1", float("inf"), [1.0, 2.0], True])
def test_feedback_must_be_a_number(feedback):
    f = bl.Direct(explore("--cb_explore 3"))
    d = f.predict()
    with pytest.raises(InvalidFeedback):
        f.update(d.ticket, feedback)
    f.update(d.ticket, 3.5)
    assert f.outstanding == 0


@pytest.mark.parametrize("weights", [[0.0, 0.0, 0.0], [float("nan"), 0.5, 0.5], [-0.5, 1.0, 0.5]])
def test_probabilities_that_are_none(weights, monkeypatch):
    f = bl.Direct(explore("--cb_explore 3"))
    monkeypatch.setattr(Workspace, "predict", lambda workspace, example: weights)
    with pytest.raises(BadPrediction, match="as probabilities"):
        f.predict()
    assert f.outstanding == 0
