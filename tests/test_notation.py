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
            "peraction([constant(1), geometric(50)])",
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
        ("delays", "peraction([constant(1), geometric(50)])"),
        ("delays", repr(bl.delays.Poisson(5)).lower().replace("mean=", "")),
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


@pytest.mark.parametrize(
    ("text", "game", "made"),
    [
        ("lineardescent", bl.games.Regression([[1.0, 0.0]], [1.0]), bl.LinearDescent(2)),
        ("gradientdescent", bl.games.Quadratic([1.0, 1.0, 1.0], [0.0, 0.0, 0.0]), bl.GradientDescent(3)),
        ("gradientdescent(radius=inf, rate=0.1)", None, bl.GradientDescent(2, radius=float("inf"), rate=0.1)),
        ("halving", bl.games.Labels([[1.0, 0.0, 1.0]], [1]), bl.Halving(3)),
        ("gpucb(noise=0.1)", bl.games.GaussianProcess([[2.0]], 0.1), bl.GPUCB([[2.0]], 0.1)),
        ("gpucb(matern([0, 1]), 0.1)", None, bl.GPUCB(bl.kernels.matern([0, 1]), 0.1)),
    ],
)
def test_a_learner_takes_what_the_game_decides_and_nothing_else(text, game, made):
    given = {} if game is None else {"actions": game.actions, "game": game}
    f = notation.forecaster(f"direct({text})", **given)
    assert f.learner == made
    if game is not None:
        assert notation.text("forecaster", f, game) == f"direct({text})"


def test_a_stated_loss_is_no_matrix_of_a_game():
    f = bl.Direct(bl.LinearDescent(2, loss="absolute"))
    assert notation.text("forecaster", f) == "direct(lineardescent(loss='absolute'))"
    assert notation.forecaster(notation.text("forecaster", f)).learner == f.learner


def test_policies_that_nobody_gave_are_missing():
    game = bl.games.Grouped([bl.games.Bernoulli([0.2, 0.8])] * 2)
    with pytest.raises(InvalidArgument, match="policyelimination needs policies"):
        notation.forecaster("direct(policyelimination)", 2, game)
    f = notation.forecaster("direct(policyelimination([[0, 1]]))", 2, game)
    assert notation.text("forecaster", f, game) == "direct(policyelimination([[0, 1]]))"


def test_a_belief_that_is_not_the_games_is_said_and_long_ones_in_short():
    points = [0.0, 0.3, 0.6, 0.9]
    game = bl.games.GaussianProcess(bl.kernels.matern(points), 0.1)
    other = bl.Direct(bl.GPUCB(bl.kernels.matern(points, scale=2.0), 0.1))
    assert notation.brief("forecaster", other, game) == "direct(gpucb(<4 x 4>, 0.1))"
    assert notation.brief("game", game) == "gaussianprocess(<4 x 4>, 0.1)"
    assert notation.game(notation.text("game", game)) == game
    table = {"name": "gaussianprocess", "covariance": bl.kernels.matern(points), "noise": 0.1}
    assert notation.game(table) == game == notation.game(table | {"covariance": f"matern({points})"})


def test_labels_of_a_study_tell_rules_apart():
    from belated.studies.results import labels

    study = bl.studies.Study.make(
        forecasters=["direct(gpucb(noise=0.1))", "direct(gpucb(noise=0.1, rule=plain))"],
        games=[bl.games.GaussianProcess(bl.kernels.matern(range(9)), 0.1)],
        delays="constant(1)",
        rounds=10,
    )
    said = [labels(cell) for cell in study.cells]
    assert [each["forecaster"] for each in said] == [
        "direct(gpucb(noise=0.1))",
        "direct(gpucb(noise=0.1, rule='plain'))",
    ]
    assert said[0]["game"].startswith("gaussianprocess(<9 x 9>, 0.1) #")
