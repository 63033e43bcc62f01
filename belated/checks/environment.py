"""The contracts of games and delay laws."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from belated.catalog import build, to_data
from belated.checks.bounds import keeps_to_the_rules, looks_at_actions_only_if_it_says, stays_in_its_arrays
from belated.checks.contract import demand
from belated.engine.play import play
from belated.forecasters import Direct
from belated.games import Bernoulli
from belated.kernels.blame import blamed
from belated.kernels.compile import kernel, plain
from belated.kernels.random import key_of
from belated.learners import RoundRobin, Uniform
from belated.protocols import NEVER, Delays, Game, Learner

ROUNDS = 400
#: A draw so many times the mean shows a heavy tail.
HEAVY = 50

KEY = key_of(0, 0)


def _rounds(game: Game | Delays) -> int:
    longest = game.longest()
    return ROUNDS if longest is None else min(ROUNDS, longest)


def _play_out(
    game: Game, actions: np.ndarray[Any, Any], announced: bool = False, form: Any = kernel
) -> tuple[Any, Any, float]:
    """Rewards, feedback and regret when these actions are played, with or without a game's announcements."""
    event = form(game.event) if announced and game.announces else None
    outcome, regret = form(game.outcome), form(game.regret)
    observe = form(game.observe) if game.context_size else None
    params, memory, context = game.params(), np.zeros(game.memory()), np.zeros(game.context_size)
    vector = np.zeros(max(game.feedback_size, game.point_size))
    rewards, told = [], []
    for t, action in enumerate(actions.tolist(), start=1):
        if observe is not None:
            observe(params, memory, *KEY, t, context)
        if event is not None:
            replaced = int(event(params, memory, *KEY, t))
            demand(replaced < game.actions, f"round {t}: replaced action {replaced} is outside 0..{game.actions - 1}")
        rewards.append(float(outcome(params, memory, *KEY, t, action, vector)))
        told.append(vector.copy())
    return np.array(rewards), np.array(told), float(regret(params, memory))


def rewards_are_in_range(game: Game) -> None:
    """Rewards and feedback lie in [0, 1], and the feedback says what the reward was (or is the number of a symbol)."""
    n = _rounds(game)
    actions = np.arange(n) % game.actions
    rewards, told, regret = _play_out(game, actions)
    demand(((rewards >= 0) & (rewards <= 1)).all(), f"rewards outside [0, 1]: {rewards.min()}..{rewards.max()}")
    own = told[np.arange(n), actions] if game.feedback == "full" else told[:, 0]
    if game.feedback == "symbol":
        known = (own == own.round()) & (own >= 0) & (own <= game.largest)
        demand(known.all(), f"feedback that is not the number of a symbol, 0 to {game.largest:g}: {own[~known][:1]}")
    else:
        demand(np.array_equal(own, rewards), "the feedback for the played action is not its reward")
    demand(np.isfinite(regret), f"regret is {regret}")


def outcomes_ignore_play(game: Game) -> None:
    """The reward of an action in a round is the same whatever was played before: the adversary is oblivious.

    It is also the same whether replaced actions are announced or not.
    """
    n = _rounds(game)
    rng = np.random.default_rng(1)
    for action in range(game.actions):
        steady, _, _ = _play_out(game, np.full(n, action))
        mixed_actions = np.where(rng.random(n) < 0.5, action, rng.integers(game.actions, size=n))
        mixed, _, _ = _play_out(game, mixed_actions, announced=True)
        same = mixed_actions == action
        demand(np.array_equal(steady[same], mixed[same]), f"the rewards of action {action} depend on what was played")


def any_round_stands_alone(game: Game) -> None:
    """Where it says so (`any_round`): what a round pays does not depend on which rounds it was asked for before."""
    if not game.any_round:
        return
    n = _rounds(game)
    outcome, params, observe = kernel(game.outcome), game.params(), kernel(game.observe) if game.context_size else None
    vector, context = np.zeros(game.actions if game.feedback == "full" else 1), np.zeros(game.context_size)
    actions = np.arange(n) % game.actions
    rewards, told, _ = _play_out(game, actions)
    for first in (1, 2, n // 2 + 1):
        memory = np.zeros(game.memory())
        for t in range(first, n + 1, 3):
            if observe is not None:
                observe(params, memory, *KEY, t, context)
            alone = float(outcome(params, memory, *KEY, t, int(actions[t - 1]), vector))
            demand(
                alone == rewards[t - 1] and np.array_equal(vector, told[t - 1]),
                f"round {t} pays {rewards[t - 1]:g} after all rounds before, and {alone:g} where some were left out: "
                "it has no any_round",
            )


def plays_the_same_compiled(game: Game) -> None:
    """Compiled and Python runs of a learner that ignores feedback have the same regret, and so have plain kernels."""
    n = _rounds(game)
    actions = np.arange(n) % game.actions
    for compiled, in_python in zip(_play_out(game, actions), _play_out(game, actions, form=plain), strict=True):
        demand(np.array_equal(compiled, in_python), "compiled kernels and the same in plain Python differ")

    law = _NoDelay()
    one, two = (
        play(Direct(RoundRobin(game.actions)), game, law, rounds=n, replications=2, engine=e)
        for e in ("compiled", "python")
    )
    demand(np.array_equal(one.regret, two.regret), "compiled and Python differ in regret")


class _NoDelay(Delays):
    """Zero, without leaning on any law that might be the one under test."""

    maximum = 0

    def params(self) -> Any:
        return np.zeros(1)

    @property
    def kernel(self) -> Callable[..., Any]:
        return _zero  # type: ignore[no-any-return]


@kernel
def _zero(params, k0, k1, round_, action):
    return 0


def is_plain_data(spec: Game | Delays) -> None:
    """Equal to itself after a trip through JSON, and hashable."""
    kind = "game" if isinstance(spec, Game) else "delays"
    again = build(type(spec), kind, json.loads(json.dumps(to_data(spec))))
    demand(again == spec and hash(again) == hash(spec), f"{spec!r} comes back from JSON as {again!r}")


def delays_are_delays(law: Delays) -> None:
    """Whole numbers, at least 0, at most the stated maximum."""
    drawn = _draw(law)
    demand((drawn >= 0).all(), f"a delay of {drawn.min()}")
    if law.maximum is not None:
        demand(drawn.max() <= law.maximum, f"a delay of {drawn.max()}, above the stated maximum {law.maximum}")


def delays_ignore_actions_unless_they_say(law: Delays) -> None:
    """A law that does not depend on the action gives every action the same delay; one that does is asked for each."""
    if law.depends_on_action:
        return
    learners: tuple[Learner, ...] = (RoundRobin(2), Uniform(2))
    n = _rounds(law)

    def met(who: Learner, engine: str) -> Any:
        return play(Direct(who), Bernoulli([0.5, 0.5]), law, rounds=n, record=True, engine=engine).delays

    first, second = (met(who, "python") for who in learners)
    demand(np.array_equal(first, second), "delays differ with what is played")
    demand(np.array_equal(first, met(learners[0], "compiled")), "compiled and Python differ in delays")


def mean_is_the_mean(law: Delays) -> None:
    """The stated mean is that of the draws, within six standard errors (not for heavy tails).

    An infinite one goes with feedback that may stay away, or with a tail so heavy that one draw outweighs most others.
    """
    if law.depends_on_action or not law.iid or law.mean is None:
        return
    drawn = _draw(law, 20_000)
    values = drawn.astype(float)
    lost = law.maximum == NEVER or (drawn == NEVER).any()
    if not np.isfinite(law.mean):
        demand(law.maximum in (None, NEVER), f"an infinite mean, and yet no delay is above {law.maximum}")
        heavy = values.max() > HEAVY * (1 + values.mean())
        demand(lost or heavy, f"an infinite mean, and yet the largest of {len(values)} delays is {values.max():g}")
        return
    demand((drawn < NEVER).all(), f"mean {law.mean} is stated, and yet some feedback never comes")
    heavy = values.max() > HEAVY * (1 + law.mean)
    error = 6 * values.std() / np.sqrt(len(values)) + 1e-9
    demand(heavy or abs(values.mean() - law.mean) <= error, f"mean {law.mean} is stated, {values.mean():.4g} is drawn")


def _draw(law: Delays, rounds: int = ROUNDS) -> np.ndarray[Any, np.dtype[np.int64]]:
    delay, params = kernel(law.kernel), law.params()
    longest = law.longest()
    n = rounds if longest is None else min(rounds, longest)
    return np.array([delay(params, *KEY, t, 0) for t in range(1, n + 1)], np.int64)


GAME_CHECKS: tuple[Callable[[Game], None], ...] = (
    keeps_to_the_rules,
    stays_in_its_arrays,
    is_plain_data,
    rewards_are_in_range,
    outcomes_ignore_play,
    any_round_stands_alone,
    plays_the_same_compiled,
)
DELAY_CHECKS: tuple[Callable[[Delays], None], ...] = (
    keeps_to_the_rules,
    stays_in_its_arrays,
    looks_at_actions_only_if_it_says,
    is_plain_data,
    delays_are_delays,
    delays_ignore_actions_unless_they_say,
    mean_is_the_mean,
)


def check_game(game: Game) -> None:
    """All checks of a game."""
    with blamed(game):
        for check in GAME_CHECKS:
            check(game)


def check_delays(law: Delays) -> None:
    """All checks of a delay law."""
    with blamed(law):
        for check in DELAY_CHECKS:
            check(law)
