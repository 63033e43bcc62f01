"""Specs as short text: what is read, what is filled in, and what is said about mistakes."""

import pytest

import belated as bl
from belated import catalog, notation
from belated.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("bold(exp3)", bl.BOLD(bl.Exp3(3))),
        ("BOLD(Exp3(actions=3))", bl.BOLD(bl.Exp3(3))),
        ("qpmd(klucb(c=0))", bl.QPMD(bl.KLUCB(3, 0))),
        ("delayeducb1", bl.DelayedUCB1(3)),
        ("direct(epsilongreedy(3, 0.2))", bl.Direct(bl.EpsilonGreedy(3, 0.2))),
        ({"name": "bold", "learner": {"name": "hedge"}}, bl.BOLD(bl.Hedge(3))),
        ({"name": "bold", "learner": "hedge"}, bl.BOLD(bl.Hedge(3))),
    ],
)
def test_forecasters(text, made):
    assert repr(notation.forecaster(text, actions=3)) == repr(made)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("bernoulli([0.2, 0.5])", bl.games.Bernoulli([0.2, 0.5])),
        ("randomwalk(3, feedback=bandit)", bl.games.RandomWalk(3, feedback="bandit")),
        ("arms([beta(1, 2), bernoulli(0.3)])", bl.games.Arms([bl.games.laws.Beta(1, 2), bl.games.laws.Bernoulli(0.3)])),
        ("rewardtable([[0, 1], [1, 0]], 'full')", bl.games.RewardTable([[0, 1], [1, 0]], "full")),
    ],
)
def test_games(text, made):
    assert catalog.to_data(notation.game(text)) == catalog.to_data(made)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("constant(5)", bl.delays.Constant(5)),
        ("lossy(constant(5), p=0.1)", bl.delays.Lossy(bl.delays.Constant(5), 0.1)),
        (
            "peraction([constant(1), geometric(mean=50)])",
            bl.delays.PerAction([bl.delays.Constant(1), bl.delays.Geometric(mean=50)]),
        ),
        ("trace([0, 2, never])", bl.delays.Trace([0, 2, bl.NEVER])),
        ({"name": "lossy", "law": "constant(5)", "p": 0.1}, bl.delays.Lossy(bl.delays.Constant(5), 0.1)),
    ],
)
def test_delays(text, made):
    assert catalog.to_data(notation.delays(text)) == catalog.to_data(made)


def test_a_game_gives_the_feedback_that_is_wanted_unless_it_says_itself():
    assert notation.game("randomwalk(3)", "bandit").feedback == "bandit"
    assert notation.game("randomwalk(3)", "full").feedback == "full"
    assert notation.game("randomwalk(3, feedback='full')", "bandit").feedback == "full"
    assert notation.game("replaced(3)", "full").feedback == "bandit"


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("forecaster", "bold(exp)", "no learner is called 'exp'; did you mean 'exp3'?"),
        ("forecaster", "bld(exp3)", "no forecaster is called 'bld'; did you mean 'bold'?"),
        ("delays", "geometric(men=3)", "geometric has no argument 'men'; did you mean 'mean'?"),
        ("delays", "geometric(3, 4)", "geometric takes mean, got 2 arguments"),
        ("delays", "geometric(3, mean=4)", "got 'mean' twice"),
        ("delays", "constant(", "cannot be read"),
        ("delays", "3 + 4", "a delay law is a name with arguments"),
        ("delays", "constant(__import__('os').system('false'))", "is not a number, a word or a list"),
        ("delays", "constant(open('x'))", "is not a number, a word or a list"),
        ("game", 7, "a game is text such as"),
        ("game", {"means": [0.1]}, "needs a name"),
        ("game", {"name": "bernoulli", "meens": [0.1]}, "did you mean 'means'?"),
        ("forecaster", "a.b(c)", "starts with a name"),
    ],
)
def test_mistakes_are_named(kind, given, said):
    with pytest.raises(InvalidArgument) as error:
        notation.read(kind, given)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (notation.forecaster, "bold", "bold needs a learner, such as bold(exp3)"),
        (notation.forecaster, {"name": "qpmd"}, "qpmd needs a learner, such as qpmd(exp3)"),
        (notation.forecaster, "bold(percontext)", "percontext needs a learner"),
        (notation.delays, "lossy(p=0.1)", "lossy needs law"),
    ],
)
def test_what_is_missing_is_named(make, given, said):
    with pytest.raises(InvalidArgument) as error:
        make(given)
    assert str(error.value) == said


@pytest.mark.parametrize(
    "given",
    [
        "x" * 10_000,
        "x" * 10_000 + "(",
        f"bold({'x' * 10_000})",
        f"bold(exp3({'x' * 10_000}=1))",
        f"bold(ucb1({'1, ' * 10_000}))",
        f"bold(klucb({'1 + ' * 100}1))",
        {"name": "bold", "learner": {"name": "exp3", "x" * 10_000: 1}},
        [0] * 10_000,
    ],
)
def test_long_mistakes_are_cut(given):
    with pytest.raises(InvalidArgument) as error:
        notation.read("forecaster", given)
    assert len(str(error.value)) < 500 and "..." in str(error.value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("forecaster", "bold(exp3)"),
        ("forecaster", "qpmd(klucb(c=1))"),
        ("game", "bernoulli([0.2, 0.5])"),
        ("game", "randomwalk(3, feedback='bandit')"),
        ("delays", "lossy(constant(5), 0.1)"),
        ("delays", "peraction([constant(1), geometric(mean=50)])"),
    ],
)
def test_text_is_what_was_read(kind, text):
    make = {"forecaster": lambda t: notation.forecaster(t, 4), "game": notation.game, "delays": notation.delays}[kind]
    assert notation.text(kind, make(text)) == text


def test_everything_in_the_catalog_has_a_text_that_gives_it_back():
    from tests.test_checks import DELAYS, GAMES

    for kind, specs in (("game", GAMES), ("delays", DELAYS)):
        for spec in specs:
            text = notation.text(kind, spec)
            again = (notation.game if kind == "game" else notation.delays)(text)
            assert catalog.to_data(again).keys() == catalog.to_data(spec).keys(), text
            assert repr(again) == repr(spec) or notation.text(kind, again) == text
