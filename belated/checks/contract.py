"""What all checks share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from belated import catalog, delays, forecasters, games
from belated.checks import arenas
from belated.engine.play import play
from belated.errors import BelatedError, Unsupported
from belated.forecasters import Forecaster
from belated.forecasters.instance import Instance
from belated.kernels.blame import blamed
from belated.kernels.sets import set_of
from belated.protocols import Delays, Game, Learner

#: As far as feedback goes in checks where it may be any finite number.
FAR = 1e6


class CheckFailed(BelatedError, AssertionError):
    """A contract check found a fault."""


@contextmanager
def checking(spec: Any) -> Iterator[None]:
    """Whatever belated refuses inside is a fault that the checks of this spec found."""
    try:
        with blamed(spec):
            yield
    except CheckFailed:
        raise
    except BelatedError as error:
        raise CheckFailed(str(error)) from error


def demand(truth: Any, message: str) -> None:
    """Fail with the message unless it is true."""
    if not truth:
        raise CheckFailed(message)


def demand_frozen_data(spec: Any) -> None:
    """A spec is a frozen dataclass, or says itself what it is made of."""
    frozen = hasattr(spec, "to_fields") or getattr(type(spec), "__dataclass_params__", None)
    name = type(spec).__name__
    demand(frozen, f"{name} is not a dataclass: write @dataclass(frozen=True) above its class")
    demand(getattr(frozen, "frozen", True), f"{name} is not frozen: write @dataclass(frozen=True) above its class")


def accepts(forecaster: type[Forecaster], learner: Learner) -> bool:
    """Whether a forecaster plays a learner."""
    try:
        forecaster(learner)
    except Unsupported:
        return False
    return True


def over(forecaster: Forecaster, *learners: Learner) -> Forecaster | None:
    """The forecaster over the first of some learners that it does not refuse."""
    for learner in learners:
        try:
            return forecaster.over(learner, seed=0)
        except Unsupported:
            continue
    return None


def allowed(learner: Learner) -> list[type[Forecaster]]:
    """Those of belated's forecasters that may play a learner.

    Others in the catalog are somebody's own: they need not have kernels, nor play at delay 0 what the learner plays.
    """
    ours = (catalog.FORECASTERS.get(name.lower()) for name in forecasters.__all__)
    return [forecaster for forecaster in ours if forecaster is not None and accepts(forecaster, learner)]


#: What compiled and Python runs must agree in.
COMPARED = (
    *("actions", "probabilities", "delays", "regret", "peak", "peaks", "pulls", "observed", "cancelled"),
    *("dropped", "total", "defaulted", "outstanding", "instances", "steps", "base_pulls"),
)


def compare(
    forecaster: Forecaster, game: Game, law: Delays, rounds: int, expiry: int | None, default: float | None = None
) -> None:
    """The compiled loop and the Python form agree in every action, count and regret."""
    one, two = (
        play(
            forecaster,
            game,
            law,
            rounds=rounds,
            replications=2,
            record=True,
            expiry=expiry,
            default=default,
            engine=engine,
        )
        for engine in ("compiled", "python")
    )
    where = f"{forecaster!r}, {type(game).__name__}, {law!r}, expiry {expiry}"
    for name in COMPARED:
        same = np.array_equal(getattr(one, name), getattr(two, name))
        demand(same, f"{where}: compiled and Python differ in {name}")
    for name in one.pools:
        demand(
            np.array_equal(one.pools[name], two.pools[name]), f"{where}: compiled and Python differ in {name} by value"
        )


def arena(learner: Learner, rounds: int, seed: int = 0) -> Game:
    """A game that suits the learner: a fixed table of rewards, some 0 or 1 and some in between.

    A learner of symbols names the game that it is made for, by its `loss` and `symbols`: outcomes are fixed then. One
    with side information gets a table of it, one of another range than [0, 1] rewards of that range, one that plays
    points linear losses.
    """
    draws = np.random.default_rng(seed + 1)
    contexts = [learner.example_context(draws) for _ in range(rounds)] if learner.context_size else None
    if contexts is not None and learner.values and np.max(contexts) != learner.values - 1:
        contexts[0] = np.array([learner.values - 1.0])  # so that the table has as many values as the learner
    if learner.feedback == "symbol":
        outcomes = np.random.default_rng(seed).choice(len(learner.loss[0]), size=rounds)
        return games.Monitoring(learner.loss, learner.symbols, trace=outcomes, contexts=contexts)
    low, high = arenas.ends(learner)
    if learner.point_size:
        gradients = np.random.default_rng(seed).uniform(low, high, size=(rounds, learner.point_size))
        domain, radius = set_of(learner) or ("ball", 1.0)
        return arenas.RangedLosses(gradients, radius, contexts, domain, low, high)
    table = np.random.default_rng(seed).beta(0.5, 0.5, size=(rounds, learner.actions))
    rewards = np.where(table > 0.8, 1.0, np.where(table < 0.2, 0.0, table))
    if learner.one_hot:
        rewards = np.eye(learner.actions)[table.argmax(axis=1)]
    game = games.RewardTable(rewards, "full" if learner.feedback == "full" else "bandit", contexts=contexts)
    return game if (low, high) == (0.0, 1.0) else arenas.Stretched(game, low, high)


def choice_of(instance: Instance, action: int) -> Any:
    """What an instance has just chosen: the action, or the numbers of its point."""
    size = instance.learner.point_size
    return [float(x) for x in instance.memo[:size]] if size else action


def shown(action: Any) -> Any:
    """The action of a decision, as `choice_of` gives it."""
    return action.tolist() if isinstance(action, np.ndarray) else action


def context_of(game: Game, learner: Learner, round_: int) -> Any:
    """The side information of a round of an arena, if the learner takes any."""
    return np.array(game.contexts[round_], float) if learner.context_size else None


def feedback_of(game: Game, learner: Learner, round_: int, action: int) -> Any:
    """What the learner's kernels are told about a round of an arena."""
    if learner.feedback == "symbol":
        return np.array([learner.encode(action, answer_of(game, learner, round_, action))])
    if learner.point_size:
        return game.table[round_].copy()
    row = game.table[round_].copy()  # a writable one, as all that kernels are compiled for
    return row if learner.feedback == "full" else row[action : action + 1]


def answer_of(game: Game, learner: Learner, round_: int, action: int) -> Any:
    """What a forecaster of the learner is told: the same, or the symbol itself."""
    if learner.feedback == "symbol":
        return learner.symbols[action][game.trace[round_]]
    return feedback_of(game, learner, round_, action)


def extremes(learner: Learner, action: int) -> Iterator[Any]:
    """The least and the largest that the learner can be told of an action."""
    if learner.feedback == "symbol":
        yield from (np.array([float(code)]) for code in (0, len(set(learner.symbols[action])) - 1))
    elif learner.one_hot:
        span = learner.largest - learner.smallest
        yield from (learner.smallest + span * np.eye(learner.actions)[which] for which in (0, -1))
    else:
        ends = (max(learner.smallest, -FAR), min(learner.largest, FAR))
        yield from (np.full(learner.feedback_size, end) for end in ends)


def laws(rounds: int) -> Iterator[tuple[Delays, int | None]]:
    """Delay laws that together reach every path of the engine, each with an expiry or none."""
    rng = np.random.default_rng(5)
    mixed = rng.choice([0, 1, 3, 40, 400, delays.NEVER], size=rounds)
    yield delays.Constant(0), None
    yield delays.Constant(7), None
    yield delays.Geometric(mean=20), None
    yield delays.Trace(mixed), None
    yield delays.Trace(mixed), 30
    yield delays.Batched(10), None
    yield delays.Lossy(delays.Uniform(0, 300), 0.1), 100
