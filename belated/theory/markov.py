"""Markov decision processes whose transitions are known."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from belated.errors import InvalidArgument
from belated.protocols import Floats


def transitions_of(given: Any) -> Floats:
    """P(y | x, a) as a read-only array, states x actions x states.

    >>> transitions_of([[[0.5, 0.5]], [[0.5, 0.6]]])
    Traceback (most recent call last):
    belated.errors.InvalidArgument: transitions[1, 0] must sum to 1, got 1.1
    """
    chances = array_of("transitions", given, "states x actions x states")
    if chances.shape[0] != chances.shape[2]:
        raise InvalidArgument(f"transitions must be states x actions x states, got shape {chances.shape}")
    inside("transitions", chances)
    sums = chances.sum(axis=2)
    wrong = np.abs(sums - 1.0) > 1e-9
    if wrong.any():
        x, a = np.unravel_index(int(wrong.argmax()), sums.shape)
        raise InvalidArgument(f"transitions[{x}, {a}] must sum to 1, got {float(sums[x, a]):g}")
    return chances


def array_of(name: str, given: Any, shape: str) -> Floats:
    """A read-only array with as many axes as the words say, none of them empty."""
    try:
        numbers = np.array(given, dtype=np.float64, order="C") + 0.0
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} must be numbers, {shape}: {error}") from None
    if numbers.ndim != shape.count(" x ") + 1 or 0 in numbers.shape:
        raise InvalidArgument(f"{name} must be {shape}, got shape {numbers.shape}")
    numbers.flags.writeable = False
    return numbers


def inside(name: str, numbers: Floats) -> None:
    """Refuse numbers outside [0, 1]."""
    outside = ~((numbers >= 0.0) & (numbers <= 1.0))
    if outside.any():
        place = np.unravel_index(int(outside.argmax()), numbers.shape)
        where = ", ".join(str(i) for i in place)
        raise InvalidArgument(f"{name}[{where}] must lie in [0, 1], got {float(numbers[place])!r}")


def least_lag(transitions: Floats) -> int | None:
    """The least N so that N steps lead from any state, by any first action and then any at random, to any state.

    It stays so for every larger N. None if there is no such N: some state is not reached, or at some times only.

    >>> least_lag(transitions_of([[[0, 1, 0]], [[0, 0, 1]], [[0.5, 0.5, 0]]])), least_lag(transitions_of([[[1.0]]]))
    (5, 1)
    """
    first: Any = transitions > 0.0
    step = first.any(axis=1)
    most = (len(step) - 1) ** 2 + 2  # (X - 1)^2 + 1 steps do after the first, if any number does (Wielandt 1950)
    after: list[Any] = [np.eye(len(step), dtype=bool)]
    for _ in range(most - 1):
        after.append(after[-1] @ step)
    lag = 1 + bisect_left(range(most), True, key=lambda steps: bool((first @ after[steps]).all()))
    return lag if lag <= most else None


def best_frequencies(transitions: Floats, rewards: Floats) -> Floats:
    """How often the best stationary policy, started in state 0, is in each state and plays each action in the long run.

    `rewards` are those of each state and action. A linear program (Kallenberg 1983): m(x, a) are the frequencies, and
    what the second variables carry is the way from state 0 to where m is. It holds for every process, also where
    policies have several closed classes of states.

    >>> cycle_or_stay = transitions_of([[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    >>> best_frequencies(cycle_or_stay, np.array([[0.1, 0.2], [0.6, 0.9]])).round(9).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    from scipy.optimize import linprog

    states, actions, _ = transitions.shape
    here = np.repeat(np.eye(states), actions, axis=1)
    leads = (transitions / transitions.sum(axis=2, keepdims=True)).reshape(states * actions, states)
    flow = here - leads.T
    balance = np.block([[flow, np.zeros_like(flow)], [here, flow]])
    start = np.zeros(2 * states)
    start[states] = 1.0
    worth = np.concatenate([-rewards.ravel(), np.zeros(flow.shape[1])])
    exact = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(worth, A_eq=balance, b_eq=start, options=exact)
    if not found.success:
        raise InvalidArgument(f"the best stationary policy cannot be found: {found.message}")
    frequencies = np.maximum(found.x[: flow.shape[1]], 0.0)
    best: Floats = (frequencies / frequencies.sum()).reshape(states, actions)
    return best
