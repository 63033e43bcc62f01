"""What else a result can tell: its rounds one by one, simple and dynamic regret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from belated.errors import InvalidArgument, Unsupported
from belated.games.deal import deal
from belated.kernels.compile import kernel
from belated.kernels.random import key_of
from belated.protocols import NEVER, Floats

if TYPE_CHECKING:
    import polars

    from belated.engine.result import Result


def recorded(result: Result, what: str) -> Any:
    """The actions of all rounds; an error if they were not kept."""
    if result.actions is None:
        raise InvalidArgument(f"{what} needs all actions: play with record=True")
    return result.actions


def trace(result: Result) -> polars.DataFrame:
    """Every round of every replication; see `Result.trace`."""
    import polars

    actions = recorded(result, "a trace")
    setting, rounds = result.setting, result.rounds
    count = result.replications * rounds
    played = [rewards(result, number) for number in range(result.replications)]
    assert result.delays is not None and result.probabilities is not None
    delays, round_ = result.delays.ravel(), np.tile(np.arange(1, rounds + 1), result.replications)
    late = delays > min(setting.expiry, NEVER - 1)
    due = round_ + np.where(late, 0, delays)
    columns: dict[str, Any] = {
        "replication": np.repeat(np.arange(result.replications), rounds),
        "round": round_,
        "action": actions.reshape(count, *actions.shape[2:]),
        "probability": result.probabilities.ravel(),
        "reward": np.concatenate([reward for reward, _ in played]),
        "delay": polars.Series(delays).set(polars.Series(delays == NEVER), None),
        "arrived": polars.Series(due).set(polars.Series(late | (due > rounds)), None),
    }
    if setting.game.context_size:
        columns["context"] = np.concatenate([context for _, context in played])
    return polars.DataFrame(columns)


def rewards(result: Result, replication: int) -> tuple[Floats, Floats]:
    """The rewards and contexts of a replication: the game is played again, with the actions that were recorded.

    Draws depend on (seed, replication, round, action) alone, so that it pays what it paid.
    """
    setting, game = result.setting, result.setting.game
    actions = recorded(result, "a trace")[replication]
    outcome = kernel(game.outcome)
    event = kernel(game.event) if game.announces else None
    observe = kernel(game.observe) if game.context_size else None
    key, params, memory = key_of(setting.seed, replication), game.params(), np.zeros(game.memory())
    vector = np.zeros(max(game.feedback_size, game.point_size))
    paid, contexts = np.zeros(setting.rounds), np.zeros((setting.rounds, game.context_size))
    for t in range(1, setting.rounds + 1):
        if observe is not None:
            observe(params, memory, *key, t, contexts[t - 1])
        if event is not None:
            event(params, memory, *key, t)
        action = actions[t - 1]
        if game.point_size:
            vector[: game.point_size], action = action, 0
        paid[t - 1] = outcome(params, memory, *key, t, int(action), vector)
    return paid, contexts


def simple_regret(result: Result) -> Floats:
    """The gap of the most played action; see `Result.simple_regret`."""
    game = result.setting.game
    means = None if game.means is None else np.asarray(game.means, float)
    if not game.stochastic or means is None:
        raise Unsupported(f"{game!r} has no law with known expectations, and so no simple regret")
    if means.ndim == 1:
        return np.asarray(means.max() - means[result.pulls.argmax(axis=1)], np.float64)
    pulls, chances = result.groups["pulls"], getattr(game, "chances", None)
    if chances is None or pulls.shape[1:] != means.shape:
        raise Unsupported(f"simple regret on {game!r} needs a learner that tells its {len(means)} contexts apart")
    best = means[np.arange(len(means)), pulls.argmax(axis=2)]
    return np.asarray((means.max(axis=1) - best) @ np.asarray(chances), np.float64)


def dynamic_regret(result: Result) -> Floats:
    """Regret against the best action of each round; see `Result.dynamic_regret`."""
    setting, game = result.setting, result.setting.game
    lawful = game.stochastic and game.means is not None and game.comparator in ("action", "map")
    if lawful or game.comparator == "changing":
        return result.regret.copy()
    if game.reactive or game.point_size:
        raise Unsupported(f"{game!r} has no table of rewards, and so no best action of a round")
    actions, curves = recorded(result, "dynamic regret"), []
    for number in range(result.replications):
        table = deal(game, result.rounds, seed=setting.seed, replication=number)
        lost = table.max(axis=1) - table[np.arange(result.rounds), actions[number]]
        curves.append(np.cumsum(lost)[result.checkpoints - 1])
    return np.array(curves)
