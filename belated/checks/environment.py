"""The contracts of games and delay laws."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from belated.catalog import build, to_data
from belated.checks.arenas import Wanders
from belated.checks.bounds import actions_of, keeps_to_the_rules, looks_at_actions_only_if_it_says, stays_in_its_arrays
from belated.checks.contract import CheckFailed, checking, demand, demand_frozen_data
from belated.engine.play import play
from belated.errors import InvalidArgument
from belated.forecasters import Direct
from belated.games import Bernoulli
from belated.kernels.compile import kernel, plain
from belated.kernels.random import key_of
from belated.kernels.stated import check_stated
from belated.learners import RoundRobin, Uniform
from belated.protocols import NEVER, Delays, Game, Learner

ROUNDS = 400
#: Rounds from which stated means are judged.
DRAWS = 2000
#: A draw so many times the mean shows a heavy tail.
HEAVY = 50

KEY = key_of(0, 0)


def _rounds(game: Game | Delays) -> int:
    longest = game.longest()
    return ROUNDS if longest is None else min(ROUNDS, longest)


class Course(NamedTuple):
    """What a game gave, round after round, and its regret at the end."""

    rewards: Any
    told: Any  # feedback
    shown: Any  # side information
    regret: float


def _play_out(game: Game, actions: Any, announced: bool = False, form: Any = kernel) -> Course:
    """What comes when these actions (or points) are played, with or without a game's announcements."""
    event = form(game.event) if announced and game.announces else None
    observe = form(game.observe) if game.context_size else None
    outcome, regret = form(game.outcome), form(game.regret)
    params, memory = game.params(), np.zeros(game.memory())
    vector, context = np.zeros(max(game.feedback_size, game.point_size)), np.zeros(game.context_size)
    rewards, told, shown = [], [], []
    for t, action in enumerate(actions, start=1):
        if observe is not None:
            observe(params, memory, *KEY, t, context)
        if event is not None:
            replaced = int(event(params, memory, *KEY, t))
            demand(replaced < game.actions, f"round {t}: replaced action {replaced} is outside 0..{game.actions - 1}")
        if game.point_size:
            vector[: game.point_size] = action
        rewards.append(float(outcome(params, memory, *KEY, t, 0 if game.point_size else int(action), vector)))
        told.append(vector[: game.feedback_size].copy())
        shown.append(context.copy())
    return Course(np.array(rewards), np.array(told), np.array(shown), float(regret(params, memory)))


def _points(game: Game, count: int, seed: int) -> Any:
    """Points to play, such as `Wanders` plays: in the unit ball, and their numbers add up to at most 1."""
    return np.random.default_rng(seed).random((count, game.point_size)) / game.point_size


def rewards_are_in_range(game: Game) -> None:
    """Rewards and feedback are finite and lie in the game's range, and the feedback says what the reward was (or is the
    number of a symbol, or a gradient)."""
    n = _rounds(game)
    actions = np.arange(n) % game.actions
    rewards, told, _, regret = _play_out(game, _points(game, n, 0) if game.point_size else actions)
    low, high = (0.0, 1.0) if game.feedback == "symbol" else (game.smallest, game.largest)
    if not game.point_size:  # else rewards are losses, of any range
        inside = ((rewards >= low) & (rewards <= high)).all()
        demand(inside, f"rewards outside [{low:g}, {high:g}]: {rewards.min()}..{rewards.max()}")
    demand(np.isfinite(rewards).all(), f"rewards of {rewards.min()}..{rewards.max()}")
    inside = ((told >= game.smallest) & (told <= game.largest) & np.isfinite(told)).all()
    demand(inside, f"feedback outside [{game.smallest:g}, {game.largest:g}]: {told.min()}..{told.max()}")
    own = told[np.arange(n), actions] if game.feedback == "full" else told[:, 0]
    if game.feedback == "symbol":
        known = own == own.round()
        demand(known.all(), f"feedback that is not the number of a symbol, 0 to {game.largest:g}: {own[~known][:1]}")
    elif not game.point_size:
        demand(np.array_equal(own, rewards), "the feedback for the played action is not its reward")
    demand(np.isfinite(regret), f"regret is {regret}")
    most = n * game.scale
    demand(
        abs(regret) <= most * (1.0 + 1e-9),
        f"regret is {regret:g} after {n} rounds, which cost at most {most:g} by `scale`, {game.scale:g}",
    )


def outcomes_ignore_play(game: Game) -> None:
    """What an action gets in a round, and the side information, are the same whatever was played before: the adversary
    is oblivious. Games that say `reactive` need not be.

    It is also the same whether replaced actions are announced or not.
    """
    if game.reactive:
        return
    n = _rounds(game)
    rng = np.random.default_rng(1)
    for action in range(game.actions):
        same = rng.random(n) < 0.5
        if game.point_size:
            steady_actions, others = _points(game, n, 2), _points(game, n, 3)
            mixed_actions = np.where(same[:, None], steady_actions, others)
        else:
            steady_actions = np.full(n, action)
            mixed_actions = np.where(same, action, rng.integers(game.actions, size=n))
            same = mixed_actions == action
        steady, mixed = _play_out(game, steady_actions), _play_out(game, mixed_actions, announced=True)
        what = "points" if game.point_size else f"action {action}"
        for name, one, two in (
            (f"the rewards of {what}", steady.rewards[same], mixed.rewards[same]),
            (f"the feedback for {what}", steady.told[same], mixed.told[same]),
            ("the side information", steady.shown, mixed.shown),
        ):
            demand(
                np.array_equal(one, two), f"{name}: what comes depends on what was played before; say reactive = True"
            )


def states_what_it_is(spec: Game | Delays) -> None:
    """What it says of itself makes sense: actions, feedback, comparator, ranges, the sizes of its vectors."""
    try:
        check_stated(spec)
    except InvalidArgument as error:
        raise CheckFailed(str(error)) from None
    if isinstance(spec, Game):
        name = type(spec).__name__
        demand(not spec.stochastic or spec.means is not None, f"{name} says stochastic = True: state its means too")


def means_are_the_means(game: Game) -> None:
    """Where it says `stochastic`: each action is paid its stated mean, and the regret of playing it all the time is
    that of its gap; within six standard errors."""
    n = game.longest() or DRAWS
    plain = game.scale in (1.0, game.largest - game.smallest)  # else rewards are of another unit than the means
    if not (game.stochastic and plain) or game.feedback not in ("bandit", "full") or game.context_size or n < ROUNDS:
        return
    n, means = min(n, DRAWS), np.asarray(game.means, float)
    courses = [_play_out(game, np.full(n, action)) for action in range(game.actions)]
    least = (game.largest - game.smallest) / n
    errors = [6.0 * max(float(each.rewards.std()) / np.sqrt(n), least) for each in courses]
    for action, (course, error) in enumerate(zip(courses, errors, strict=True)):
        paid, who = float(course.rewards.mean()), f"{type(game).__name__}, action {action}"
        demand(
            abs(paid - means[action]) <= error,
            f"{who}: mean {means[action]:g} is stated, {paid:.4g} is paid in {n} rounds",
        )
        gap, regret = float(means.max() - means[action]), course.regret / n
        off = game.comparator == "action" and abs(regret - gap) > error + max(errors)
        demand(not off, f"{who}: its gap is {gap:g} by the means, its regret {regret:.4g} a round, in {n} rounds")


def any_round_stands_alone(game: Game) -> None:
    """Where it says so (`any_round`): what a round pays does not depend on which rounds it was asked for before."""
    if not game.any_round or game.point_size:
        return
    n = _rounds(game)
    outcome, params, observe = kernel(game.outcome), game.params(), kernel(game.observe) if game.context_size else None
    vector, context = np.zeros(game.feedback_size), np.zeros(game.context_size)
    actions = np.arange(n) % game.actions
    rewards, told, *_ = _play_out(game, actions)
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
    actions = _points(game, n, 1) if game.point_size else np.arange(n) % game.actions
    for compiled, in_python in zip(_play_out(game, actions), _play_out(game, actions, form=plain), strict=True):
        demand(np.array_equal(compiled, in_python), "compiled kernels and the same in plain Python differ")

    law = _NoDelay()
    learner = Wanders(game.point_size) if game.point_size else RoundRobin(game.actions)
    one, two = (
        play(Direct(learner), game, law, rounds=n, replications=2, engine=e, record=True)
        for e in ("compiled", "python")
    )
    demand(np.array_equal(one.regret, two.regret), "compiled and Python differ in regret")
    demand(np.array_equal(np.asarray(one.actions), np.asarray(two.actions)), "compiled and Python differ in actions")


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
    demand_frozen_data(spec)
    kind = "game" if isinstance(spec, Game) else "delays"
    again = build(type(spec), kind, json.loads(json.dumps(to_data(spec))))
    demand(again == spec and hash(again) == hash(spec), f"{spec!r} comes back from JSON as {again!r}")


def delays_are_delays(law: Delays) -> None:
    """Whole numbers, at least 0, at most the stated maximum; whatever the reward, where the law depends on it."""
    for reward in (0.0, 0.5, 1.0) if law.depends_on_reward else (0.0,):
        drawn = _draw(law, reward=reward)
        demand((drawn >= 0).all(), f"a delay of {drawn.min()}")
        if law.maximum is not None:
            demand(drawn.max() <= law.maximum, f"a delay of {drawn.max()}, above the stated maximum {law.maximum}")


def delays_ignore_actions_unless_they_say(law: Delays) -> None:
    """A law that depends neither on the action nor on the reward gives every action the same delay; one that does is
    asked for each. Compiled and Python runs meet the same."""
    learners: tuple[Learner, ...] = (RoundRobin(actions_of(law)), Uniform(actions_of(law)))
    n = _rounds(law)

    def met(who: Learner, engine: str) -> Any:
        game = Bernoulli([0.5] * who.actions)
        return play(Direct(who), game, law, rounds=n, record=True, engine=engine).delays

    first, second = (met(who, "python") for who in learners)
    looks = law.depends_on_action or law.depends_on_reward
    demand(looks or np.array_equal(first, second), "delays differ with what is played")
    demand(np.array_equal(first, met(learners[0], "compiled")), "compiled and Python differ in delays")


def mean_is_the_mean(law: Delays) -> None:
    """The stated mean is that of the draws, within six standard errors (not for heavy tails).

    An infinite one goes with feedback that may stay away, or with a tail so heavy that one draw outweighs most others.
    """
    if law.depends_on_action or law.depends_on_reward or not law.iid or law.mean is None:
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


def _draw(law: Delays, rounds: int = ROUNDS, reward: float = 0.0) -> np.ndarray[Any, np.dtype[np.int64]]:
    delay, params = kernel(law.kernel), law.params()
    longest = law.longest()
    n = rounds if longest is None else min(rounds, longest)
    told = (reward,) if law.depends_on_reward else ()
    return np.array([delay(params, *KEY, t, 0, *told) for t in range(1, n + 1)], np.int64)


GAME_CHECKS: tuple[Callable[[Game], None], ...] = (
    states_what_it_is,
    keeps_to_the_rules,
    stays_in_its_arrays,
    is_plain_data,
    rewards_are_in_range,
    outcomes_ignore_play,
    means_are_the_means,
    any_round_stands_alone,
    plays_the_same_compiled,
)
DELAY_CHECKS: tuple[Callable[[Delays], None], ...] = (
    states_what_it_is,
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
    with checking(game):
        for check in GAME_CHECKS:
            check(game)


def check_delays(law: Delays) -> None:
    """All checks of a delay law."""
    with checking(law):
        for check in DELAY_CHECKS:
            check(law)
