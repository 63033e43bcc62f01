"""Games of partial monitoring: how they are made, drawn, played, described and written."""

import json

import numpy as np
import pytest
from scipy import stats

import belated as bl
from belated import catalog, notation
from belated.errors import InvalidArgument, InvalidFeedback
from belated.games import Monitoring
from belated.games.classical import CLASSICAL
from belated.games.description import cell
from belated.protocols import Learner
from belated.studies import Study
from belated.studies.cells import from_description
from belated.studies.results import labels

TASTING = [[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]]
DIRECT = bl.Direct(bl.RoundRobin(2))


class Listener:
    """A plain learner that keeps what it is told."""

    actions = 2
    heard: list = []

    def predict(self, context):
        return len(self.heard) % 2, 1.0

    def update(self, context, action, probability, feedback):
        self.heard.append((action, feedback))


class Reader(Learner):
    """A learner of symbols that plays in turn and adds the codes up."""

    feedback = "symbol"
    actions = 2
    loss, symbols = Monitoring(*TASTING).loss, Monitoring(*TASTING).symbols

    def layout(self):
        return np.dtype([("seen", "f8", (2,))])

    @staticmethod
    def predict(params, state, context, draw):
        return int(state.predictions - 1) % 2, 1.0

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        state.seen[action] += feedback[0] + 1.0


CLASSES = {
    "apple_tasting": "easy",
    "label_efficient": "hard",
    "spam": "easy",
    "dynamic_pricing": "hard",
    "bandit": "easy",
    "full_information": "easy",
    "bartok": "easy",
    "dueling": "easy",
    "differences": "easy",
    "hopeless": "hopeless",
    "trivial": "trivial",
    "detective": "easy",
}


@pytest.mark.parametrize("name", CLASSES)
def test_classical_games_have_their_classes(name):
    game = getattr(bl.games, name)()
    assert game.structure.klass == CLASSES[name] and game.law is None
    law = np.full(game.outcomes, 1 / game.outcomes)
    played = getattr(bl.games, name)(law=law, trace=[0, 0])
    assert played.law == pytest.approx(law) and played.trace == (0, 0) and name in bl.games.__all__


def test_all_classical_games_are_tested():
    assert set(CLASSES) == set(CLASSICAL)
    for count, klass in ((2, "easy"), (3, "hard"), (4, "hard"), (6, "hard")):
        for cost in (0.5, 1, 2):
            assert bl.games.dynamic_pricing(prices=count, values=count, cost=cost).structure.klass == klass
    assert [bl.games.spam(cost=c).structure.klass for c in (0, 0.3, 0.5, 0.7)] == ["trivial", "easy", "easy", "hard"]
    assert bl.games.bandit(actions=4).actions == 4 and bl.games.full_information(actions=5).structure.klass == "easy"


def test_outcomes_follow_the_law_and_are_shared_by_all_actions():
    law = [0.2, 0.0, 0.5, 0.3]
    loss = np.arange(4) / 3
    game = Monitoring([loss, loss], [list("abcd")] * 2, law=law)
    table = bl.games.deal(game, 5000)
    assert np.array_equal(table[:, 0], table[:, 1])
    counts = np.bincount(np.rint(3 * (1 - table[:, 0])).astype(int), minlength=4)
    assert counts[1] == 0 and stats.chisquare(counts[[0, 2, 3]], 5000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-4


@pytest.mark.parametrize("law", [[1.0, 0.0], [0.0, 1.0], [1 - 1e-12, 0.0]])
def test_what_cannot_happen_does_not(law):
    table = bl.games.deal(Monitoring(*TASTING, law=law), 300)
    assert set(table[:, 0]) == {0.0 if law[0] > 0.5 else 1.0}


def test_regret_with_a_law_is_pseudo_regret_in_units_of_loss():
    game = Monitoring([[30, 0], [0, 10]], TASTING[1], law=[0.25, 0.75])
    result = bl.play(DIRECT, game, bl.delays.Constant(0), rounds=100, replications=2)
    assert game.means == (-7.5, -7.5) and game.scale == 30 and result.regret[:, -1].tolist() == [0.0, 0.0]
    game = Monitoring([[30, 0], [0, 10]], TASTING[1], law=[0.5, 0.5])
    result = bl.play(DIRECT, game, bl.delays.Constant(3), rounds=100, replications=2)
    assert game.stochastic and result.regret[:, -1].tolist() == [500.0, 500.0]


def test_regret_on_a_trace_is_realised_unless_there_is_a_law():
    trace = [0, 0, 0, 1] * 25
    game = bl.games.apple_tasting(trace=trace)
    assert not game.stochastic and game.means is None and game.longest() == 100
    for engine in ("compiled", "python"):
        result = bl.play(DIRECT, game, bl.delays.Constant(2), rounds=100, engine=engine)
        # Rounds in turn: action 0 meets outcomes 0, 0 and action 1 meets 0, 1 in every four.
        assert result.regret[0, -1] == 50 + 25 - 25
    both = bl.games.apple_tasting(law=[0.75, 0.25], trace=trace)
    result = bl.play(DIRECT, both, bl.delays.Constant(2), rounds=100)
    assert not both.stochastic and result.regret[0, -1] == 25
    with pytest.raises(InvalidArgument, match=r"rounds must be <= 100, the length of Monitoring.* 100 in all"):
        bl.play(DIRECT, game, bl.delays.Constant(2), rounds=101)


def test_without_outcomes_a_game_cannot_be_played():
    for call in (
        lambda: bl.play(DIRECT, bl.games.apple_tasting(), bl.delays.Constant(0), rounds=5),
        lambda: bl.games.deal(bl.games.apple_tasting(), 5),
    ):
        with pytest.raises(InvalidArgument, match="can be described, and played with a law= or a trace="):
            call()


def test_plain_learners_are_told_symbols():
    Listener.heard.clear()
    game = bl.games.apple_tasting(trace=[0, 0, 1, 1])
    bl.play(bl.Direct(Listener), game, bl.delays.Constant(0), rounds=4)
    assert Listener.heard == [(0, "-"), (1, "rotten"), (0, "-"), (1, "good")]


def test_learners_of_symbols_see_codes_compiled_and_in_python():
    game = bl.games.apple_tasting(trace=[0, 0, 1, 1, 1, 1])
    for engine in ("compiled", "python"):
        result = bl.play(bl.Direct(Reader()), game, bl.delays.Constant(1), rounds=6, engine=engine)
        assert result.pulls.tolist() == [[3, 3]] and result.regret[0, -1] == 0 + 2 + 1 - 2
    forecaster = bl.Direct(Reader())
    tickets = [forecaster.predict().ticket for _ in range(4)]
    forecaster.update(tickets[1], "good")
    forecaster.update(tickets[0], "-")
    forecaster.update(tickets[3], np.str_("rotten"))
    assert forecaster._instances[0].state["seen"][0].tolist() == [1.0, 3.0]


@pytest.mark.parametrize("wrong", ["good", 0, 1.0, [], np.array([0.0, 1.0]), ("-",), b"-"])
def test_unknown_symbols_are_refused_by_name(wrong):
    forecaster = bl.BOLD(Reader())
    ticket = forecaster.predict().ticket
    with pytest.raises(InvalidFeedback, match=r"action 0 has no symbol .*; it has '-'"):
        forecaster.update(ticket, wrong)
    forecaster.update(ticket, "-")
    with pytest.raises(InvalidFeedback, match=r"action 1 has no symbol 'god'; it has 'rotten', 'good'"):
        forecaster.update(forecaster.predict().ticket, "god")


def test_learners_and_games_that_do_not_fit():
    other = Monitoring([[1, 0], [0, 2]], TASTING[1], law=[0.5, 0.5])
    with pytest.raises(InvalidArgument, match=r"Reader is made for another game than it is to play: loss \[\[1.0, 0"):
        bl.play(bl.Direct(Reader()), other, bl.delays.Constant(0), rounds=5)
    named = Monitoring(TASTING[0], [["-", "-"], ["bad", "good"]], law=[0.5, 0.5])
    with pytest.raises(InvalidArgument, match=r"symbols .*'rotten'.* there, .*'bad'.* here"):
        bl.play(bl.Direct(Reader()), named, bl.delays.Constant(0), rounds=5)
    with pytest.raises(InvalidArgument, match=r"learns from symbol feedback, .* gives bandit feedback"):
        bl.play(bl.Direct(Reader()), bl.games.Bernoulli([0.5, 0.5]), bl.delays.Constant(0), rounds=5)
    with pytest.raises(InvalidArgument, match=r"learns from bandit feedback, .* gives symbol feedback"):
        bl.play(bl.Direct(bl.UCB1(2)), bl.games.apple_tasting(law=[0.5, 0.5]), bl.delays.Constant(0), rounds=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Monitoring([[1, 0], [0]], TASTING[1]), "loss must have rows of one length"),
        (lambda: Monitoring([[1, 0]], [["-", "-"]]), "at least two actions"),
        (lambda: Monitoring(*TASTING, law=[0.5, 0.4]), "law must sum to 1, got 0.9"),
        (lambda: Monitoring(*TASTING, law=[0.5, 0.25, 0.25]), "law must have a probability for each of the 2 outcomes"),
        (lambda: Monitoring(*TASTING, law=[1.5, -0.5]), r"law\[0\] must be <= 1, got 1.5"),
        (lambda: Monitoring(*TASTING, law=0.5), "law must be a sequence, got 0.5"),
        (lambda: Monitoring(*TASTING, trace=[]), "trace must have at least 1 item"),
        (lambda: Monitoring(*TASTING, trace=[0, 2]), r"trace\[1\] must be an outcome, 0 to 1, got 2"),
        (lambda: Monitoring(*TASTING, trace=[0.5, 1]), r"trace\[0\] must be a whole number, got 0.5"),
        (lambda: Monitoring(*TASTING, trace=[[0, 1]]), r"trace must be whole numbers in a row, got shape \(1, 2\)"),
        (lambda: bl.games.spam(cost=-1), "cost must be >= 0, got -1"),
        (lambda: bl.games.dynamic_pricing(prices=1), "prices must be >= 2, got 1"),
        (lambda: bl.games.bandit(actions=99), "actions must be <= 12, got 99"),
        (lambda: bl.games.dueling(items=1), "items must be >= 2, got 1"),
    ],
)
def test_errors_name_the_value(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_arrays_and_lists_make_the_same_game():
    made = Monitoring(np.eye(2), np.array([["a", "a"], ["b", "c"]]), law=np.array([0.5, 0.5]), trace=np.array([0, 1]))
    same = Monitoring([[1, 0], [0, 1]], [["a", "a"], ["b", "c"]], [0.5, 0.5], [0, 1])
    assert made == same and hash(made) == hash(same) and repr(made) == repr(same)
    assert all(type(word) is str for row in made.symbols for word in row) and type(made.trace[0]) is int


SPECS = [
    bl.games.apple_tasting(law=[0.25, 0.75]),
    bl.games.dueling(),
    bl.games.dynamic_pricing(prices=3, values=3, law=[0.2, 0.3, 0.5]),
    Monitoring([[1, 0], [0, 1]], [[1, 2.5], ["never", True]], trace=[0, 1, 1]),
]


@pytest.mark.parametrize("game", SPECS, ids=range(len(SPECS)))
def test_games_travel_as_data_and_as_text(game):
    assert catalog.from_data("game", json.loads(json.dumps(catalog.to_data(game)))) == game
    assert notation.game(notation.text("game", game)) == game


def test_classical_games_have_short_texts():
    assert notation.text("game", bl.games.apple_tasting(law=[0.25, 0.75])) == "apple_tasting(law=[0.25, 0.75])"
    assert notation.game("Label_Efficient(law=[0.5, 0.5])") == bl.games.label_efficient(law=[0.5, 0.5])
    assert notation.text("game", bl.games.dynamic_pricing(3, 3)).startswith("monitoring([[0.0, 1.0, 2.0], ")


def test_descriptions_say_what_there_is():
    text = str(bl.games.label_efficient().describe())
    assert text.startswith("hard: regret grows like n^(2/3)") and "dominated" in text
    assert "1, 2        1, 2  global      0(a: 1, b: -1)" in text
    assert repr(bl.games.trivial().describe()).startswith("trivial: one action is best whatever happens")
    assert "neighbours" not in str(bl.games.trivial().describe())
    twice = Monitoring([[1, 0], [0, 1], [1, 0]], [["a", "b"]] * 3).describe()
    assert "duplicate, the same as 0" in str(twice) and "none" in str(bl.games.hopeless().describe())


@pytest.mark.parametrize(
    "game",
    [
        bl.games.bartok(law=[0.2, 0.3, 0.5]),
        bl.games.spam(cost=0.5),
        bl.games.apple_tasting(law=[0.2, 0.8]),
        bl.games.trivial(),
        Monitoring([[0, 1, 1], [1, 0, 0], [0.5, 0.5, 0.5], [0, 1, 1]], [list("abc")] * 4),
        Monitoring([[1, 1, 0], [0, 1, 1], [1, 0, 1], [2 / 3] * 3], [list("abc")] * 4),
    ],
    ids=range(6),
)
def test_games_of_two_or_three_outcomes_are_drawn(game, tmp_path):
    game.describe().plot(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 5000


def test_what_cannot_be_drawn_says_why(tmp_path):
    with pytest.raises(InvalidArgument, match="two or three outcomes; this one has 4 outcomes"):
        bl.games.differences().describe().plot(tmp_path / "x.png")
    with pytest.raises(InvalidArgument, match=r"two or three outcomes; this one has 1 outcome$"):
        Monitoring([[1], [0]], [["a"], ["b"]]).describe().plot(tmp_path / "x.png")
    with pytest.raises(InvalidArgument, match=r"x.xyz' cannot be drawn"):
        bl.games.bartok().describe().plot(tmp_path / "x.xyz")


def test_cells_share_the_triangle_out():
    rng = np.random.default_rng(3)
    for _ in range(10):
        game = Monitoring(rng.random((5, 3)), [list("abc")] * 5).structure
        areas = []
        for i in game.pareto:
            x, y = cell(game, i)[:, :2].T
            areas.append(abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)))
        assert sum(areas) == pytest.approx(1.0)
    degenerate = Monitoring([[0, 1, 1], [1, 0, 0], [0.5, 0.5, 0.5]], [list("abc")] * 3).structure
    assert degenerate.kinds[2] == "degenerate" and len(cell(degenerate, 2)) >= 2


def test_learners_take_their_matrices_from_the_game():
    study = Study.make(
        forecasters=["qpmd(cbp)", "bold(globalexp3)"],
        games=["apple_tasting(law=[0.3, 0.7])", "label_efficient(law=[0.3, 0.7])"],
        delays=["constant(5)"],
        rounds=100,
    )
    assert [cell.forecaster.learner.loss for cell in study.cells] == [cell.game.loss for cell in study.cells]
    assert [from_description(json.loads(json.dumps(cell.describe()))).key for cell in study.cells] == [
        cell.key for cell in study.cells
    ]
    assert notation.text("forecaster", study.cells[0].forecaster) == "qpmd(cbp)"
    assert labels(study.cells[0])["game"] == "apple_tasting(law=[0.3, 0.7])"
