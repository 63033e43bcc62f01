"""Markov decision processes whose rewards change: the game, MDP-Exp3, and a course that actions steer."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated import delays, games, notation
from belated.checks import contract
from belated.engine.play import too_late
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels.random import event_draw, key_of, uniform
from belated.studies import Study
from belated.theory.markov import best_frequencies, least_lag, transitions_of

GRID = games.grid_world(2, 3, slip=0.2)
GOLDEN = (math.sqrt(5) - 1) / 2


def corners(rounds: int) -> games.MDP:
    """Cell 0 pays in three rounds of five, cell 5 in the others."""
    rewards = np.zeros((2, 6, 4))
    rewards[0, 0] = rewards[1, 5] = 1.0
    return games.MDP(GRID, rewards, (np.arange(1, rounds + 1) * GOLDEN % 1.0 >= 0.6).astype(int))


def learner(**other: Any) -> bl.MDPExp3:
    return bl.MDPExp3(**{"transitions": GRID, "lag": 5, "rate": 0.05, "mixing": 0.1, "window": 60} | other)


def drawn(states: int, actions: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).dirichlet(np.full(states, 0.5), size=(states, actions))


# --- the game ---


def test_a_walk_on_a_grid():
    assert GRID.shape == (6, 4, 6) and np.allclose(GRID.sum(axis=2), 1.0)
    assert np.allclose(GRID[4, 0], [0, 0.85, 0, 0.05, 0.05, 0.05])  # up from the middle below; down is a wall
    assert np.allclose(GRID[2, 1], [0, 0.05, 0.9, 0, 0, 0.05])  # right, into the wall; up is one, too
    assert np.array_equal(games.grid_world(1, 1, 0.0), np.ones((1, 4, 1)))
    assert np.allclose(GRID.mean(axis=1).sum(axis=0), 1.0)  # at random, every cell is as likely


def test_the_course_is_that_of_the_chances():
    """Played out again by hand, from the same random numbers."""
    game = corners(300)
    result = bl.play(bl.Direct(bl.Uniform(4)), game, delays.Constant(3), 300, record=True, engine="python")
    state, earned, key = 0, 0.0, key_of(0, 0)
    for t, action in enumerate(result.actions[0], start=1):
        earned += game.rewards[game.which[t - 1], state, action]
        place, reached = uniform(event_draw(*key, t), 0), np.cumsum(GRID[state, action])
        state = int(np.searchsorted(reached, place, side="right"))
    assert result.regret[0, -1] == pytest.approx(300 * game.best - earned, abs=1e-9)


def long_run(transitions: Any, rewards: Any, policy: Any) -> float:
    """What a policy earns a round from state 0, by stepping on for very long."""
    states = range(len(transitions))
    chain = np.array([transitions[x][policy[x]] for x in states])
    paid = np.array([rewards[x][policy[x]] for x in states])
    lazy = np.linalg.matrix_power((np.eye(len(chain)) + chain) / 2, 2**14)  # the same long run, without periods
    return float(lazy[0] @ paid)


@pytest.mark.parametrize("seed", range(5))
def test_regret_is_against_the_best_stationary_policy(seed):
    transitions, rewards = drawn(3, 3, seed), np.random.default_rng(seed).random((2, 3, 3))
    game = games.MDP(transitions, rewards, [0, 1, 1])
    mean = (rewards[0] + 2 * rewards[1]) / 3
    best = max(long_run(transitions, mean, policy) for policy in itertools.product(range(3), repeat=3))
    assert game.best == pytest.approx(best, abs=1e-9)
    assert game.gains[[0, 1, 1]].sum() == pytest.approx(3 * best, abs=1e-9)


def test_the_best_policy_begins_in_state_0():
    apart = np.zeros((4, 2, 4))  # 0 leads to 1 or, by half, to 2; nothing leads to 3
    apart[0, 0, 1] = 1.0
    apart[0, 1, [1, 2]] = 0.5
    for state in (1, 2, 3):
        apart[state, :, state] = 1.0
    paid = np.array([[1.0, 1.0], [0.4, 0.3], [0.5, 0.7], [1.0, 1.0]])
    assert (best_frequencies(apart, paid) * paid).sum() == pytest.approx(0.55, abs=1e-9)
    assert games.MDP(apart, [paid], [0] * 9).best == pytest.approx(0.55, abs=1e-9)


def test_the_best_policy_where_states_are_left_for_good():
    draws = np.random.default_rng(1)
    for _ in range(40):
        transitions, rewards = np.zeros((4, 2, 4)), draws.random((4, 2))
        for x, a in itertools.product(range(4), range(2)):
            reached = draws.choice(4, draws.integers(1, 3), replace=False)
            transitions[x, a, reached] = draws.dirichlet(np.ones(len(reached)))
        best = max(long_run(transitions, rewards, policy) for policy in itertools.product(range(2), repeat=4))
        assert (best_frequencies(transitions, rewards) * rewards).sum() == pytest.approx(best, abs=1e-8)


def test_chances_may_be_rounded():
    thirds = np.full((3, 2, 3), 0.3333333333)
    assert games.MDP(thirds, [[[1.0, 0.0]] * 3], [0]).best == pytest.approx(1.0, abs=1e-9)
    assert bl.MDPExp3(thirds, lag=1, rate=0.1, mixing=0.1, window=1).values == 3


def test_the_measured_game():
    game = corners(20_000)
    assert game.best == pytest.approx(0.532063, abs=1e-6)
    uniform_play = (game.rewards[game.which].mean(axis=(0, 2)) / 6).sum()
    assert uniform_play == pytest.approx(1 / 6, abs=1e-6)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"transitions": GRID * 0.9}, r"transitions\[0, 0\] must sum to 1, got 0.9"),
        ({"transitions": GRID - 0.01}, r"transitions\[0, 0, 2\] must lie in \[0, 1\], got -0.01"),
        ({"transitions": GRID[:, :, 0]}, "transitions must be states x actions x states, got shape"),
        ({"transitions": GRID[:4]}, r"transitions must be states x actions x states, got shape \(4, 4, 6\)"),
        ({"transitions": [[[1.0], [0.5, 0.5]]]}, "transitions must be numbers, states x actions x states"),
        ({"transitions": GRID * np.nan}, r"transitions\[0, 0, 0\] must lie in"),
        ({"rewards": np.full((1, 6, 4), 1.5)}, r"rewards\[0, 0, 0\] must lie in \[0, 1\], got 1.5"),
        (
            {"rewards": np.zeros((1, 6, 3))},
            r"rewards must be tables of 6 states x 4 actions, as transitions, got shape",
        ),
        ({"rewards": np.zeros((6, 4))}, "rewards must be tables x states x actions, got shape"),
        ({"which": [0, 1]}, r"which\[1\] must be a table from 0 to 0, got 1"),
        ({"which": [0, 0.5]}, r"which\[1\] must be a table from 0 to 0, got 0.5"),
        ({"which": [-1]}, r"which\[0\] must be a table from 0 to 0, got -1"),
        ({"which": []}, "which must be rounds, got shape"),
    ],
)
def test_what_is_no_process_is_refused(changed, said):
    with pytest.raises(InvalidArgument, match=said):
        games.MDP(**{"transitions": GRID, "rewards": np.zeros((1, 6, 4)), "which": [0]} | changed)


@pytest.mark.parametrize("given", [(0, 3, 0.1), (2, 2.5, 0.1), (2, 3, 1.1), (2, 3, -0.1), (40, 40, 0.1)])
def test_what_is_no_grid_is_refused(given):
    with pytest.raises(InvalidArgument, match="must be"):
        games.grid_world(*given)


# --- the learner ---


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"transitions": GRID * 1.1}, r"transitions\[0, 0\] must sum to 1, got 1.1"),
        ({"transitions": np.full((31, 1, 31), 1 / 31)}, "transitions must have at most 30 states, got 31"),
        ({"lag": 2}, "lag must be >= 3, got 2: after so few rounds some state cannot be reached"),
        ({"lag": 1}, "lag must be >= 3, got 1"),
        ({"lag": 0}, "lag must be >= 1, got 0"),
        ({"transitions": np.eye(2)[:, None]}, "never reach every state from everywhere"),
        ({"transitions": np.eye(2)[::-1][:, None]}, "never reach every state from everywhere"),
        ({"rate": 0.0}, "rate must be > 0, got 0"),
        ({"rate": math.inf}, "rate must be finite"),
        ({"mixing": 0.0}, "mixing must be > 0, got 0"),
        ({"mixing": 1.5}, "mixing must be <= 1, got 1.5"),
        ({"window": 0}, "window must be >= 1, got 0"),
    ],
)
def test_what_is_no_learner_is_refused(changed, said):
    with pytest.raises(InvalidArgument, match=said):
        learner(**changed)


def test_the_least_lag():
    assert least_lag(GRID) == 3 and learner(lag=3).lag == 3
    assert least_lag(transitions_of(np.full((4, 2, 4), 0.25))) == 1
    for seed in range(20):
        random = drawn(4, 2, seed)
        random[random < 0.25] = 0.0
        random = transitions_of(random / random.sum(axis=2, keepdims=True))
        steps, uniform_play = random > 0, random.mean(axis=1)
        least = [n for n in range(1, 20) if (steps @ np.linalg.matrix_power(uniform_play, n - 1) > 0).all()]
        assert least_lag(random) == min(least, default=None)


def values_of(transitions: Any, policy: Any, rewards: Any) -> Any:
    """q of a policy, by a solver: q = r - rho + P v, v 0 on average."""
    size = len(policy)
    chain = np.einsum("xa,xay->xy", policy, transitions)
    wide = np.vstack([(np.eye(size) - chain).T, np.ones(size)])
    law = np.linalg.lstsq(wide, np.r_[np.zeros(size), 1.0], rcond=None)[0]
    paid = (policy * rewards).sum(axis=1)
    v = np.linalg.solve(np.eye(size) - chain + np.outer(np.ones(size), law), paid - law @ paid)
    return rewards - law @ paid + transitions @ v


def alone(spec: bl.MDPExp3, seed: int = 0) -> Instance:
    return Instance(spec, key_of(seed, 0), 0, plain=True)


def learned(instance: Instance, number: int, reward: float) -> Any:
    """q^ of a round, if its feedback came now and nothing had to wait; the state stays as it was."""
    kept = instance.state.copy()
    instance.state["predictions"] += instance.learner.lag
    instance.answer(number, np.zeros(1), 0, 1.0, np.array([reward]))
    estimate = kept["loss"][0] - instance.state["loss"][0]
    instance.state[:] = kept
    return estimate


@pytest.mark.parametrize("states", [1, 2, 5, 30])
def test_values_are_those_of_a_solver(states):
    transitions = 0.9 * drawn(states, 3, 1) + 0.1 / states
    policy = np.random.default_rng(2).dirichlet(np.ones(3), size=states)
    instance = alone(bl.MDPExp3(transitions, lag=1, rate=0.1, mixing=0.1, window=2))
    for name, value in {"policy": policy, "shown": states - 1, "played": 2, "likely": 0.25}.items():
        instance.state[name][0, 1] = value
    instance.state["predictions"] = 1
    estimate = np.zeros((states, 3))
    estimate[-1, 2] = 0.5 / (policy[-1, 2] * 0.25)
    expected = values_of(transitions, policy, estimate)
    assert np.allclose(learned(instance, 1, 0.5), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("delay", [0, 2])
def test_estimates_are_right_on_average(delay):
    """Over all courses of six rounds: given what was known `lag` rounds before, E q^ is q of the policy played."""
    lag, last, transitions = 2, 6, drawn(2, 2, 3)
    paid = np.random.default_rng(4).random((last + 1, 2, 2))
    instance = alone(bl.MDPExp3(transitions, lag=lag, rate=0.7, mixing=0.2, window=4))
    found: dict[Any, Any] = {}

    def go_on(past: tuple[tuple[int, int], ...], x: int, chance: float) -> None:
        t = len(past) + 1
        instance.predict(np.array([float(x)]))
        slot = t % (lag + 4)
        policy, kept = instance.state["policy"][0, slot].copy(), instance.state.copy()
        for action in range(2):
            instance.state[:] = kept
            instance.state["played"][0, slot] = action
            weight, course = chance * policy[x, action], (*past, (x, action))
            if t == last:
                q = learned(instance, t, paid[t, x, action])
                sums = found.setdefault(course[: last - lag], [0.0, 0.0, values_of(transitions, policy, paid[t])])
                sums[0], sums[1] = sums[0] + weight, sums[1] + weight * q
                continue
            if t > delay:
                then = course[t - delay - 1]
                instance.answer(
                    t - delay, np.array([float(then[0])]), then[1], 1.0, np.array([paid[(t - delay, *then)]])
                )
            after = instance.state.copy()
            for y in range(2):
                instance.state[:] = after
                go_on(course, y, weight * transitions[x, action, y])

    go_on((), 0, 1.0)
    assert sum(sums[0] for sums in found.values()) == pytest.approx(1.0, abs=1e-14)
    assert len({sums[2].tobytes() for sums in found.values()}) > 1  # something had been learned
    for chance, total, truth in found.values():
        assert np.allclose(total / chance, truth, rtol=0, atol=1e-14)


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_with_one_state_it_is_exp3_told_later(delay):
    rate, mixing, rounds = 0.2, 0.1, 120
    instance = alone(bl.MDPExp3([[[1.0]] * 3], lag=1, rate=rate, mixing=mixing, window=5))
    rewards = np.random.default_rng(5).random((rounds + 1, 3))
    gains, played = np.zeros(3), []
    for t in range(1, rounds + 1):
        if t - delay - 1 >= 2:  # round 1 teaches nothing
            action, chance = played[t - delay - 2]
            gains[action] += rewards[t - delay - 1, action] / chance
        weights = np.exp(rate * (gains - gains.max()))
        chances = (1 - mixing) * weights / weights.sum() + mixing / 3
        action, probability = instance.predict(np.zeros(1))
        assert probability == pytest.approx(chances[action], rel=1e-12)
        played.append((action, chances[action]))
        if t > delay:
            action, chance = played[t - delay - 1]
            instance.answer(t - delay, np.zeros(1), action, chance, rewards[t - delay, action : action + 1])


def test_it_plays_what_the_slow_form_plays():
    """Everything from the formulas, each round anew, with delays up to the longest that is learned, and beyond."""
    spec, rounds, draws = learner(lag=3, rate=0.4, mixing=0.15, window=6), 50, np.random.default_rng(7)
    instance, rewards, taus = alone(spec), draws.random(rounds + 1), draws.integers(0, 12, rounds + 1)
    seen, policies, estimates = {}, {}, {}
    for t in range(1, rounds + 1):
        q = sum(
            (each for s, each in estimates.items() if s <= t - 3 and s + taus[s] < t and taus[s] < 9), np.zeros((6, 4))
        )
        weights = np.exp(0.4 * (q - q.max(axis=1, keepdims=True)))
        policies[t] = 0.85 * weights / weights.sum(axis=1, keepdims=True) + 0.15 / 4
        x = int(draws.integers(6))
        action, probability = instance.predict(np.array([float(x)]))
        assert probability == pytest.approx(policies[t][x, action], rel=1e-9)
        seen[t] = x, action
        if t > 3:
            law = GRID[seen[t - 3]]
            for s in (t - 2, t - 1):
                law = np.einsum("x,xa,xay->y", law, policies[s], GRID)
            estimate = np.zeros((6, 4))
            estimate[x, action] = rewards[t] / (policies[t][x, action] * law[x])
            estimates[t] = values_of(GRID, policies[t], estimate)
        for s in range(1, t + 1):
            if s + taus[s] == t:
                instance.answer(s, np.array([float(seen[s][0])]), seen[s][1], 1.0, rewards[s : s + 1])
    assert instance.state["dropped"][0] == sum(taus[s] >= 9 and s + taus[s] <= rounds for s in range(1, rounds + 1)) > 0


def follow(spec: bl.MDPExp3, taus: Any) -> list[int]:
    """The actions on a grid, with these delays."""
    instance, game, x, key = alone(spec), corners(len(taus)), 0, key_of(1, 0)
    due: dict[int, list[Any]] = {}
    actions = []
    for t, tau in enumerate(taus, start=1):
        context = np.array([float(x)])
        action, probability = instance.predict(context)
        actions.append(action)
        reward = game.rewards[game.which[t - 1], x, action]
        due.setdefault(t + int(tau), []).append((t, context, action, probability, np.array([reward])))
        for told in due.pop(t, []):
            instance.answer(*told)
        x = int(np.searchsorted(np.cumsum(GRID[x, action]), uniform(event_draw(*key, t), 0), side="right"))
    return actions


def test_delays_below_the_lag_change_no_action():
    rounds, draws = 60, np.random.default_rng(6)
    spec = learner(rate=2.0, window=1)
    at_once = follow(spec, np.zeros(rounds))
    for taus in (np.full(rounds, 4), draws.integers(0, 5, rounds)):
        assert follow(spec, taus) == at_once
    assert follow(spec, np.full(rounds, 5)) != at_once


def test_what_comes_too_late_is_dropped_and_counted():
    spec = bl.MDPExp3.example()
    f, known = bl.Direct(spec, seed=1), spec.lag + spec.window
    tickets = [f.predict(t % 3).ticket for t in range(known + 3)]
    for ticket in tickets:
        f.update(ticket, 1.0)
    assert spec.dropped_by(f) == 3 and f.outstanding == 0
    never = bl.Direct(spec, seed=1)
    for t in range(known + 3):
        never.predict(t % 3)
    for ticket in tickets[:3]:
        never.update(ticket, 1.0)
    assert spec.dropped_by(never) == 3 and not never._room.seats[0].learner.state["loss"].any()


def test_delays_that_are_known_to_be_too_long_are_refused():
    game = corners(200)
    with pytest.raises(InvalidArgument, match=r"may be 65 rounds late by Constant\(d=65\), .* drops .* expiry=64$"):
        bl.play(bl.Direct(learner()), game, delays.Constant(65), 100)
    with pytest.raises(InvalidArgument, match="may be 80 rounds late"):
        bl.play(bl.Direct(learner()), game, delays.Uniform(0, 100), 100, expiry=80)
    for law, expiry in ((delays.Uniform(0, 100), 64), (delays.Geometric(mean=5), 80), (delays.Trace([bl.NEVER]), None)):
        assert too_late(learner(), law, bl.NEVER if expiry is None else expiry) == 0


@pytest.mark.parametrize("context", [6, -1, 0.5, None, [0, 1], "a", math.nan])
def test_what_is_no_state_is_refused(context):
    f = bl.Direct(learner())
    with pytest.raises(InvalidArgument, match="context"):
        f.predict(context)
    assert f.outstanding == 0


# --- who plays ---


@pytest.mark.parametrize("kind", [bl.BOLD, bl.QPMD, bl.Paced, bl.SDB])
def test_only_direct_follows_a_course(kind):
    said = rf"^{kind.__name__} cannot play MDPExp3, which must be asked in every round of the course that it steers"
    with pytest.raises(Unsupported, match=said):
        kind(learner())
    other = bl.PerContext(bl.UCB1(4) if kind is not bl.Paced else bl.Hedge(4), 6)
    with pytest.raises(
        Unsupported, match=r" cannot play MDP\(.*whose course depends on what was played.*: use Direct$"
    ):
        bl.play(kind(other), corners(50), delays.Constant(2), 50)


def test_it_is_not_replayed():
    polars = pytest.importorskip("polars")
    log = polars.DataFrame(
        {"action": [0, 1, 2, 3] * 300, "probability": 0.25, "value": 1.0, "decided_at": range(1200), "cell": 0}
    )
    with pytest.raises(Unsupported, match="steers what comes next"):
        bl.replay(log, bl.Direct(learner()), runs=1, context=["cell"])


def test_no_table_and_no_bound():
    with pytest.raises(InvalidArgument, match="answers to what was played"):
        games.deal(corners(10), 10)
    result = bl.play(bl.Direct(bl.Uniform(4)), corners(30), delays.Constant(2), 30, engine="python")
    assert result.bound is None and "depends on what was played" in result.bound_reason
    assert learner().bound(100) is None
    assert "no constant is proved" in learner().facing(corners(30))


@pytest.mark.parametrize("law", [delays.Constant(7), delays.Geometric(mean=20)])
def test_both_forms_play_the_same_course(law):
    contract.compare(bl.Direct(learner()), corners(120), law, 120, None)
    result = bl.play(bl.Direct(learner()), corners(120), law, 120)
    assert result.bound is None and "no constant is proved" in result.bound_reason
    assert result.groups["pulls"].shape == (1, 6, 4) and result.groups["pulls"].sum() == 120


# --- as text and as data ---


TABLE = [[[1, 1, 1, 1], *[[0, 0, 0, 0]] * 5]]
STUDY = f"""
title = "grid"
rounds = 40
replications = 2
forecasters = ["direct(mdpexp3(lag=3, rate=0.1, mixing=0.1, window=30))", "direct(percontext(ucb1))"]
delays = ["constant(3)"]
games = [{{name = "mdp", transitions = "grid_world(2, 3, 0.2)", rewards = {TABLE}, which = {[0] * 40}}}]
"""


def test_processes_as_text():
    game = notation.game(f"mdp(grid_world(2, 3, 0.2), rewards={TABLE}, which={[0] * 40})")
    assert game == games.MDP(GRID, TABLE, [0] * 40) and hash(game) == hash(games.MDP(GRID, TABLE, [0] * 40))
    assert notation.game(notation.text("game", game)) == game
    text = "direct(mdpexp3(lag=3, rate=0.1, mixing=0.1, window=30))"
    made = notation.forecaster(text, game.actions, game)
    assert made.learner == learner(lag=3, rate=0.1, window=30)
    assert notation.forecaster(notation.text("forecaster", made), game.actions, game).learner == made.learner
    whole = notation.forecaster("direct(mdpexp3(grid_world(2, 3, 0.2), 3, 0.1, 0.1, 30))", 4)
    assert whole.learner == made.learner
    with pytest.raises(InvalidArgument, match="no transitions is called 'grid'"):
        notation.game(f"mdp(grid(2, 3, 0.2), rewards={TABLE}, which=[0])")
    with pytest.raises(InvalidArgument, match="grid_world needs slip"):
        notation.game(f"mdp(grid_world(2, 3), rewards={TABLE}, which=[0])")


def test_processes_in_a_study():
    one, two = Study.parse(STUDY).cells
    assert one.game == two.game == games.MDP(GRID, TABLE, [0] * 40)
    assert one.forecaster.learner == learner(lag=3, rate=0.1, window=30)
    assert two.forecaster.learner == bl.PerContext(bl.UCB1(4), 6)


# --- the measured figures ---


@pytest.mark.soak
@pytest.mark.parametrize(
    ("delay", "mean", "error"),
    [(0, 705.7, 59.3), (4, 705.7, 59.3), (5, 703.9, 59.5), (50, 717.4, 57.4), (200, 658.3, 9.5), (1000, 997.6, 11.3)],
)
def test_regret_is_as_in_another_program(delay, mean, error):
    """100 runs there and here, so the errors of both add up; a few runs lock in, so medians would lie lower."""
    spec = learner(rate=0.003, mixing=0.05, window=1000)
    result = bl.play(bl.Direct(spec), corners(20_000), delays.Constant(delay), 20_000, replications=100)
    found = result.regret[:, -1]
    here = found.std(ddof=1) / 10
    assert abs(found.mean() - mean) < 4 * math.hypot(here, error)
