"""Finite games: kinds of actions, neighbours, observability, class; by hand, by table and by sampling."""

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
from scipy.optimize import linprog

import belated as bl
from belated.errors import InvalidArgument
from belated.geometry import check_game, structure
from belated.geometry.cells import TOLERANCE, slack

DASH = ["-", "-"]


def pricing(prices, values, cost):
    loss = [[j - i if i <= j else cost for j in range(values)] for i in range(prices)]
    return loss, [["y" if i <= j else "n" for j in range(values)] for i in range(prices)]


def bernoulli(actions):
    outcomes = list(product((0, 1), repeat=actions))
    return [[1 - x[i] for x in outcomes] for i in range(actions)], [[x[i] for x in outcomes] for i in range(actions)]


def dueling(items):
    outcomes = list(product((0, 1), repeat=items))
    duels = list(combinations_with_replacement(range(items), 2))
    return (
        [[1 - (x[i] + x[j]) / 2 for x in outcomes] for i, j in duels],
        [["W" if x[i] > x[j] else "L" if x[i] < x[j] else "T" for x in outcomes] for i, j in duels],
    )


def spam(cost):
    return [[0, 1], [1, 0], [cost, cost]], [DASH, DASH, ["a", "b"]]


def identity(actions):
    return (1 - np.eye(actions)).tolist(), [list(range(actions))] * actions


TABLE = {
    "apple tasting": ([[1, 0], [0, 1]], [DASH, ["r", "g"]], "easy"),
    "label-efficient": ([[1, 1], [1, 0], [0, 1]], [["a", "b"], DASH, DASH], "hard"),
    "label-efficient, pmlib": ([[1, 1], [0, 1], [2, 0]], [["a", "b"], DASH, DASH], "hard"),
    "spam 0": (*spam(0), "trivial"),
    "spam 0.3": (*spam(0.3), "easy"),
    "spam 1/2": (*spam(0.5), "easy"),
    "spam 0.7": (*spam(0.7), "hard"),
    "detective": ([[0, 1], [0.5, 0.5]], [["a", "b"], DASH], "easy"),
    "detection": ([[1, 1], [10, 0]], [["a", "b"], DASH], "easy"),
    "pricing 2 x 2": (*pricing(2, 2, 1), "easy"),
    "pricing 2 x 3": (*pricing(2, 3, 1), "easy"),
    **{
        f"pricing {n} x {m}, {c}": (*pricing(n, m, c), "hard")
        for n, m in [(3, 3), (4, 4), (5, 5), (6, 7)]
        for c in (0.5, 1, 2)
    },
    **{f"bandit {k}": (*bernoulli(k), "easy") for k in (2, 3, 4)},
    "matching pennies": ([[0, 1], [1, 0]], [[0, 1], [0, 1]], "easy"),
    "horse race": (*identity(4), "easy"),
    "three states": ([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [list("abb"), list("bab"), list("bba")], "easy"),
    "differences": ([[0, 1, 1, 2], [1, 0, 2, 1]], [[1, 2, 1, 2], [2, 1, 2, 1]], "easy"),
    "dueling": (*dueling(3), "easy"),
    "hopeless": ([[1, 0], [0, 1]], [DASH, DASH], "hopeless"),
    "trivial": ([[0, 0], [1, 1]], [DASH, DASH], "trivial"),
}


def check_observers(game):
    for pair in game.pairs:
        i, j = pair
        total = np.zeros(game.outcomes)
        for k, vector in game.observer[pair].items():
            total += game.signals[k].T @ vector
        if game.globally[pair]:
            np.testing.assert_allclose(total, game.loss[i] - game.loss[j], atol=1e-10 * np.abs(game.loss).max())
            assert tuple(game.observer[pair]) == game.watch[pair]
        else:
            assert game.observer[pair] == {}


def check_differences(game, base):
    weights = game.difference_observer(base)
    for a in range(game.actions):
        if np.isnan(weights[a]).any():
            between = {k for these in game.plus.values() for k in these}
            assert any(game.kinds[k] in ("dominated", "degenerate") and k not in between for k in (a, base))
            continue
        for x in range(game.outcomes):
            told = sum(weights[a, c, game.codes[c, x]] for c in range(game.actions))
            assert told == pytest.approx(game.loss[a, x] - game.loss[base, x], abs=1e-8)


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_games_has_its_classes(name):
    loss, symbols, klass = TABLE[name]
    game = structure(loss, symbols)
    assert game.klass == klass
    assert game.rate == {"trivial": "0", "easy": "n^(1/2)", "hard": "n^(2/3)", "hopeless": "n"}[klass]
    check_observers(game)
    if klass == "hopeless":
        assert game.difference_observer(0) is None
    else:
        check_differences(game, game.pareto[0])


@pytest.mark.parametrize("name", TABLE)
def test_scale_offset_and_names_do_not_matter(name):
    loss, symbols, _ = TABLE[name]
    game = structure(loss, symbols)
    moved = np.array(loss) * 1e-3 + np.linspace(3, 5, len(loss[0]))
    other = structure(moved, [[("other", i, word) for word in row] for i, row in enumerate(symbols)])
    assert (game.klass, game.kinds, game.plus, game.watch) == (other.klass, other.kinds, other.plus, other.watch)


def test_kinds_by_hand():
    assert structure(*TABLE["label-efficient"][:2]).kinds == ("dominated", "pareto", "pareto")
    assert structure(*spam(0.5)).kinds == ("pareto", "pareto", "degenerate")
    assert structure(*spam(0.5)).plus == {(0, 1): (0, 1, 2)}
    assert structure(*spam(0.3)).pairs == ((0, 2), (1, 2))
    twice = structure([[1, 0], [0, 1], [1, 0], [0.5, 0.5], [0.5, 0.5], [2, 2], [2, 2]], [["a", "b"]] * 7)
    assert twice.kinds == ("pareto", "pareto", "duplicate", "degenerate", "degenerate", "dominated", "dominated")
    assert twice.duplicate_of == (0, 1, 0, 3, 3, 5, 5)
    assert twice.plus == {(0, 1): (0, 1, 2, 3, 4)}
    duel = structure(*dueling(3))
    assert duel.pareto == (0, 3, 5) and duel.pairs == ((0, 3), (0, 5), (3, 5))
    assert duel.plus == {(0, 3): (0, 1, 3), (0, 5): (0, 2, 5), (3, 5): (3, 4, 5)}
    assert duel.kinds.count("degenerate") == 3


def test_one_outcome_and_equal_rows_are_trivial():
    assert structure([[1], [0], [0]], [["a"], ["b"], ["c"]]).kinds == ("dominated", "pareto", "duplicate")
    same = structure([[0.1, 0.7], [0.1, 0.7]], [DASH, DASH])
    assert (same.klass, same.kinds, same.pairs) == ("trivial", ("pareto", "duplicate"), ())
    assert same.alive({}) == ((0,), ())


def test_observers_by_hand():
    tasting = structure(*TABLE["apple tasting"][:2])
    assert {k: v.tolist() for k, v in tasting.observer[0, 1].items()} == {0: [0.0], 1: [1.0, -1.0]}
    label = structure(*TABLE["label-efficient"][:2])
    assert label.watch == {(1, 2): (0, 1, 2)} and label.plus == {(1, 2): (1, 2)}
    assert {k: v.tolist() for k, v in label.observer[1, 2].items()} == {0: [1.0, -1.0], 1: [0.0], 2: [0.0]}
    states = structure(*TABLE["three states"][:2])
    assert {k: v.round(9).tolist() for k, v in states.observer[0, 1].items()} == {0: [1.25, -0.75], 1: [-0.25, 0.75]}


def test_difference_observers_minimise_their_largest_entry():
    label = structure(*TABLE["label-efficient"][:2]).difference_observer(1)
    assert np.abs(label).max() == pytest.approx(1.0, abs=1e-9)
    pennies = structure([[0, 1], [1, 0]], [[0, 1], [0, 1]]).difference_observer(0)
    np.testing.assert_allclose(pennies[1], [[0.5, -0.5], [0.5, -0.5]], atol=1e-9)
    # The loss of a dominated action that nothing tells about cannot be compared.
    blind = structure([[1, 0, 0], [0, 1, 1], [2, 2, 3]], [list("abb"), list("abb"), list("---")])
    assert blind.klass == "easy" and np.isnan(blind.difference_observer(0)[2]).any()
    assert not np.isnan(blind.difference_observer(0)[:2]).any()


def test_a_degenerate_action_may_be_past_comparing():
    """Action 2 is as good as 0 where the last outcome never comes, of which no symbol tells; 3 lies between 0 and 1."""
    loss = [[1, 0, 0], [0, 1, 1], [1, 0, 1], [0.5, 0.5, 0.5], [1, 1e-10, 0]]
    game = structure(loss, [list("abb"), list("abb"), list("---"), list("---"), list("---")])
    assert game.kinds == ("pareto", "pareto", "degenerate", "degenerate", "duplicate") and game.klass == "easy"
    for base in (0, 1, 3, 4):
        weights = game.difference_observer(base)
        assert np.isnan(weights).any(axis=(1, 2)).tolist() == [False, False, True, False, False]
        check_differences(game, base)
    assert not game.difference_observer(0)[4].any() and not game.difference_observer(4)[0].any()
    alone = game.difference_observer(2)
    assert np.isnan(alone).any(axis=(1, 2)).tolist() == [True, True, False, True, True]
    learner = bl.GlobalExp3(loss, [list("abb"), list("abb"), list("---"), list("---"), list("---")])
    assert learner.params()["compared"] == [1, 1, 0, 1, 1]


def test_alive_by_hand():
    tasting = structure(*TABLE["apple tasting"][:2])
    assert tasting.alive({}) == ((0, 1), ((0, 1),))
    assert tasting.alive({(0, 1): -1}) == ((0,), ())  # (L_0 - L_1) p < 0: action 0 is better
    assert tasting.alive({(0, 1): 1}) == ((1,), ())
    states = structure(*TABLE["three states"][:2])
    assert states.alive({}) == ((0, 1, 2), ((0, 1), (0, 2), (1, 2)))
    assert states.alive({(0, 1): -1}) == ((0, 2), ((0, 2),))  # 1 is out, and where 1 and 2 meet 0 is worse than both
    assert states.alive({(0, 1): 1, (1, 2): 1}) == ((2,), ())
    assert states.alive({(0, 1): 1, (1, 2): 1, (0, 2): -1}) == ((), ())  # a circle
    with pytest.raises(InvalidArgument, match=r"signs must map neighbours .* got \(1, 0\): 1"):
        states.alive({(1, 0): 1})


def alive_by_programs(game, signs):
    """`alive` by a program for every cell and border, all signs in it, nothing remembered."""
    unit = game.loss - game.loss.min(axis=0)
    unit = unit / unit.max()
    cuts = [sign * (unit[i] - unit[j]) for (i, j), sign in signs.items()]

    def room(i, level, border=None):
        same = {game.duplicate_of[k] for k in level}
        others = [k for k in range(game.actions) if game.duplicate_of[k] not in same]
        return slack(game.outcomes, [unit[k] - unit[i] for k in others] + cuts, border) > TOLERANCE

    borders = tuple((i, j) for i, j in game.pairs if room(i, game.plus[i, j], unit[i] - unit[j]))
    return tuple(i for i in game.pareto if room(i, (i,))), borders


@pytest.mark.parametrize("name", ["pricing 5 x 5, 2", "bandit 3", "dueling", "horse race", "three states", "spam 0.3"])
def test_what_was_learnt_from_earlier_signs_changes_no_answer(name):
    """Signs of a law, some turned round, some not declared: many that agree with a law, many that do not."""
    game = structure(*TABLE[name][:2])
    random = np.random.default_rng(7)
    found = set()
    for turned in [0.0, 0.0, 0.2, 0.5] * 10:
        expected = game.loss @ random.dirichlet(np.ones(game.outcomes))
        declared = [pair for pair in game.pairs if random.random() < 0.7]
        signs = {
            (i, j): int(np.sign(expected[i] - expected[j])) * (-1 if random.random() < turned else 1)
            for i, j in declared
        }
        found.add(game.alive(signs))
        assert game.alive(signs) == alive_by_programs(game, signs)
    assert len(found) > 2


def test_most_signs_need_no_program(monkeypatch):
    from belated.geometry import regions

    asked = []
    monkeypatch.setattr(regions, "widest", lambda *given, real=regions.widest: asked.append(1) or real(*given))
    game = structure(*pricing(5, 5, 1.75))
    for seed in range(1000):
        random = np.random.default_rng(seed)
        expected = game.loss @ random.dirichlet(np.ones(5))
        game.alive({(i, j): 1 if expected[i] > expected[j] else -1 for i, j in game.pairs if random.random() < 0.5})
    assert 0 < len(asked) < 500  # of 15 regions x 1000 patterns


def test_degenerate_actions_do_not_hide_a_border():
    game = structure(*spam(0.5))
    assert game.alive({}) == ((0, 1), ((0, 1),)) and game.alive({(0, 1): -1}) == ((0,), ())


@pytest.mark.parametrize("seed", range(25))
def test_random_games_agree_with_sampling(seed):
    random = np.random.default_rng(seed)
    actions, outcomes = random.integers(2, 6, 2)
    loss = random.random((actions, outcomes))
    symbols = random.integers(0, 3, (actions, outcomes))
    game = structure(loss, symbols)
    check_observers(game)
    laws = random.dirichlet(np.ones(outcomes), 20_000)
    expected = loss @ laws.T
    best = set(np.unique(expected.argmin(axis=0)).tolist())
    assert best <= set(game.pareto)
    assert all(kind in ("pareto", "dominated") for kind in game.kinds)
    missed = set(game.pareto) - best  # cells too small to be hit: their own best point must exist
    assert len(missed) <= 1
    # Whoever is best inside declared half-spaces is alive there, and the halves of a pair share the actions out.
    for pair in game.pairs:
        i, j = pair
        for sign in (-1, 1):
            inside = sign * (expected[i] - expected[j]) > 1e-6
            found = set(np.unique(expected[:, inside].argmin(axis=0)).tolist())
            assert found <= set(game.alive({pair: sign})[0])
            assert pair not in game.alive({pair: sign})[1]
    if game.klass != "hopeless":
        check_differences(game, game.pareto[0])


def dimension(rows, border=()):
    """The dimension of {p in the simplex: a.p <= 0, b.p = 0}: inequalities that are never strict are equations."""
    equal = np.array([np.ones(len(rows[0])), *border])
    right = np.eye(len(equal))[0]

    def least(goal):
        return linprog(goal, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=equal, b_eq=right, bounds=(None, None))

    if least(np.zeros(len(rows[0]))).status != 0:
        return -1
    implied = [row for row in rows if least(row).fun > -1e-7]
    return len(rows[0]) - np.linalg.matrix_rank(np.array([*equal, *implied]))


@pytest.mark.parametrize("seed", range(15))
def test_small_whole_losses_agree_with_dimensions(seed):
    """Few different numbers make many duplicates and degenerate actions."""
    random = np.random.default_rng(seed)
    actions, outcomes = random.integers(2, 6), random.integers(2, 5)
    loss = random.integers(0, 4, (actions, outcomes)) / 3
    game = structure(loss, random.integers(0, 3, (actions, outcomes)))
    cells = [
        np.array([loss[i] - loss[k] for k in range(actions) if k != i] + list(-np.eye(outcomes)))
        for i in range(actions)
    ]
    for i, kind in enumerate(game.kinds):
        found = dimension(cells[i])
        assert (kind == "dominated") == (found < 0) and (kind in ("pareto", "duplicate")) == (found == outcomes - 1)
        assert (kind == "duplicate") <= any(np.array_equal(loss[i], loss[k]) for k in range(i))
    for i, j in combinations(game.pareto, 2):
        assert ((i, j) in game.pairs) == (dimension(cells[i], [loss[i] - loss[j]]) == outcomes - 2)


def test_what_is_given_is_read_only_and_cached():
    game = structure([[1, 0], [0, 1]], [DASH, ["r", "g"]])
    assert structure(np.eye(2), [("-", "-"), ("r", "g")]) is game
    with pytest.raises(ValueError, match="read-only"):
        game.loss[0, 0] = 3.0
    assert game.gaps([0.25, 0.75]).tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("loss", "symbols", "message"),
    [
        ([[1, 0], [0]], [DASH, DASH], "loss must have rows of one length, but row 0 has 2 and row 1 has 1"),
        ([[1, 0], [0, 1]], [DASH, ["-"]], "symbols must have rows of one length"),
        ([[1, 0], [0, 1]], [DASH, DASH, DASH], "must have the same shape .* got 2 x 2 and 3 x 2"),
        ([[1, 0]], [DASH], "at least two actions .*, got 1"),
        ([], [], "at least two actions .*, got 0"),
        ([[], []], [[], []], "at least one outcome"),
        ([[1, float("nan")], [0, 1]], [DASH, DASH], r"loss\[0\]\[1\] must be finite, got nan"),
        ([[1, 0], [0, float("inf")]], [DASH, DASH], r"loss\[1\]\[1\] must be finite, got inf"),
        ([[1, 0], [0, "1"]], [DASH, DASH], r"loss\[1\]\[1\] must be a number, got '1'"),
        ([[1e308, 0], [0, -1e308]], [DASH, DASH], "finite range"),
        ([[1, 0], [0, 1]], [DASH, ["-", []]], r"symbols\[1\]\[1\] must be hashable, got \[\]"),
        ([[1, 0], [0, 1]], [DASH, ["-", None]], r"symbols\[1\]\[1\] must be given, got None"),
        ([[1, 0], [0, 1]], [DASH, ["-", float("nan")]], r"symbols\[1\]\[1\] must equal itself"),
        ([[1, 0], [0, 1]], ["--", "rg"], "symbols must be a list of rows.* row 0 is '--'"),
        (3, [DASH], "loss must be a list of rows, one an action, got 3"),
    ],
)
def test_games_that_are_none_are_refused(loss, symbols, message):
    with pytest.raises(InvalidArgument, match=message):
        check_game(loss, symbols)
