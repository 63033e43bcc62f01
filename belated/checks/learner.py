"""The contract of a learner."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan
from typing import Any

import numpy as np

from belated import catalog, delays
from belated.catalog import to_data
from belated.checks.bounds import keeps_to_the_rules, stays_in_its_arrays
from belated.checks.contract import (
    CheckFailed,
    allowed,
    answer_of,
    arena,
    checking,
    choice_of,
    compare,
    context_of,
    demand,
    demand_frozen_data,
    extremes,
    feedback_of,
    laws,
    shown,
)
from belated.checks.promises import (
    bound_under_delay_is_a_bound,
    forgets_when_it_says,
    leaves_the_counts_alone,
    plays_points,
    spares_only_the_probability,
    writes_its_memo_anew,
)
from belated.engine.play import play, too_late
from belated.errors import Unsupported
from belated.forecasters import BOLD, QPMD, SDB, Direct, Forecaster, Paced
from belated.forecasters.instance import Instance
from belated.games import Replaced
from belated.kernels.random import key_of
from belated.protocols import NEVER, Delays, Game, Learner

ROUNDS = 300


def _instance(learner: Learner, number: int = 0, seed: int = 0) -> Instance:
    return Instance(learner, key_of(seed, 0), number)


def _drive(instance: Instance, learner: Learner, game: Any, rounds: Iterable[int]) -> list[Any]:
    """Predict and update in turn on the given rounds; return the actions, or the points."""
    actions = []
    for t in rounds:
        context = context_of(game, learner, t)
        action, probability = instance.predict(context)
        demand(0 <= action < learner.actions, f"round {t}: action {action} is outside 0..{learner.actions - 1}")
        actions.append(choice_of(instance, action))
        instance.update(context, action, probability, feedback_of(game, learner, t, action))
    return actions


def is_a_spec(learner: Learner) -> None:
    """Equal, hashable, frozen, and the same after a trip through JSON."""
    demand_frozen_data(learner)
    again = catalog.build(type(learner), "learner", json.loads(json.dumps(to_data(learner))))
    demand(again == learner, f"{learner!r} comes back from JSON as {again!r}")
    try:
        demand(hash(again) == hash(learner), f"{learner!r} and its equal have different hashes")
    except TypeError as error:
        raise CheckFailed(f"{learner!r} cannot be hashed: {error}") from None
    try:
        learner.actions = 1
    except AttributeError:
        return
    raise CheckFailed(f"{type(learner).__name__} can be changed after it was made")


def predicts_honestly(
    learner: Learner, after: Iterable[int] = (0, 40), tries: int = 4000, among: Sequence[int] | None = None
) -> None:
    """Actions in range, probabilities in (0, 1], and 1{a} / p averages to one for every action that is played.

    A learner that does not state its probabilities states none, and does not weigh by them.
    """
    demand(learner.states_probability or not learner.weighs, "it weighs by a probability that it does not state")
    game = arena(learner, ROUNDS)
    for rounds in after:
        before = _instance(learner)
        _drive(before, learner, game, range(rounds))
        weight = np.zeros((2, learner.actions))
        instance = _instance(learner)
        for number in range(tries):
            instance.become(number, before.state.tobytes())
            context = context_of(game, learner, rounds)
            action, probability = instance.predict(context) if among is None else instance.predict_among(context, among)
            demand(0 <= action < learner.actions, f"action {action} is outside 0..{learner.actions - 1}")
            _check_probability(learner, probability)
            weight[:, action] += 1.0 / probability, 1.0 / probability**2
        if not learner.states_probability:
            continue
        mean = weight[0] / tries
        error = np.sqrt(np.maximum(weight[1] / tries - mean**2, 0.0) / tries)
        off = (weight[0] > 0) & (np.abs(mean - 1.0) > 6.0 * error + 0.02)
        demand(
            not off.any(),
            f"after {rounds} rounds the stated probabilities do not fit the choices: "
            f"1{{a}} / p averages to {mean.round(3).tolist()}, not 1",
        )


def _check_probability(learner: Learner, probability: float, when: str = "") -> None:
    fits = 0.0 < probability <= 1.0 + 1e-9 if learner.states_probability else isnan(probability)
    demand(fits, f"{when}probability {probability} is outside (0, 1]")


def keeps_all_in_its_state(learner: Learner) -> None:
    """A copy of the state continues identically: nothing is kept elsewhere, nothing is drawn from elsewhere."""
    game = arena(learner, ROUNDS)
    first = _instance(learner)
    _drive(first, learner, game, range(100))
    second = _instance(learner)
    second.state[:] = first.state
    one, two = (_drive(i, learner, game, range(100, ROUNDS)) for i in (first, second))
    demand(one == two, f"two copies of one state part ways in round {_first(one, two)}")
    demand(first.state.tobytes() == second.state.tobytes(), "two copies of one state end in different states")


def accepts_skipped_rounds(learner: Learner) -> None:
    """Predict after predict is a cancelled round: still in range, still learning afterwards."""
    game = arena(learner, ROUNDS)
    instance = _instance(learner)
    for t in range(ROUNDS):
        _drive(instance, learner, game, [t] if t % 3 else [])
        action, probability = instance.predict(context_of(game, learner, t))
        demand(0 <= action < learner.actions, f"after a skipped round it predicts action {action}")
        _check_probability(learner, probability, "after a skipped round: ")


def answers_to_any_number(learner: Learner) -> None:
    """Where it says that it does not read `answering`: it learns the same, whatever number stands there."""
    if learner.reads_answering:
        return
    game = arena(learner, ROUNDS)
    one, two = _instance(learner), _instance(learner)
    for t in range(ROUNDS):
        context = context_of(game, learner, t)
        said = one.predict(context)
        demand(two.predict(context) == said, f"round {t}: it predicts by `answering`, and says reads_answering = False")
        feedback = feedback_of(game, learner, t, said[0])
        one.update(context, *said, feedback)
        two.answer(1 + (7 * t) % 11, context, *said, feedback)
    one.state["answering"] = two.state["answering"] = 0
    same = one.state.tobytes() == two.state.tobytes()
    demand(same, "its update reads `answering`, and it says reads_answering = False")


def stays_finite(learner: Learner) -> None:
    """No NaN in the state after extreme feedback."""
    game = arena(learner, ROUNDS)
    for extreme, word in enumerate(("least", "largest")):
        instance = _instance(learner)
        told = [list(extremes(learner, action))[extreme] for action in range(learner.actions)]
        for t in range(ROUNDS):
            context = context_of(game, learner, t)
            action, probability = instance.predict(context)
            instance.update(context, action, probability, told[action])
        for name, numbers in _fields(instance.state):
            demand(not np.isnan(numbers).any(), f"state.{name} is NaN after {ROUNDS} times the {word} feedback")


def _fields(records: Any, within: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers in records, by name; records within records likewise."""
    for name in records.dtype.names or ():
        found = np.asarray(records)[name]
        yield from _fields(found, f"{within}{name}.") if found.dtype.names else [(within + name, found)]


def no_delay_is_the_base(learner: Learner, forecasters: list[type[Forecaster]] | None = None) -> None:
    """At delay 0 every forecaster plays what the learner plays alone."""
    game = arena(learner, ROUNDS)
    alone = _drive(_instance(learner), learner, game, range(ROUNDS))
    for forecaster in forecasters or allowed(learner):
        played = play(forecaster(learner), game, delays.Constant(0), rounds=ROUNDS, record=True, engine="python")
        assert played.actions is not None
        under = played.actions[0].tolist()
        demand(under == alone, f"{forecaster.__name__} at delay 0 leaves the base in round {_first(under, alone)}")


def bold_interleaves(learner: Learner, bold: type[Forecaster] = BOLD, delay: int = 4) -> None:
    """BOLD at constant delay d is d + 1 runs of the learner, taking turns."""
    if learner.steers:  # refused
        return
    game = arena(learner, ROUNDS)
    turns = delay + 1
    expected: list[Any] = [None] * ROUNDS
    for number in range(turns):
        rounds = range(number, ROUNDS, turns)
        expected[number::turns] = _drive(_instance(learner, number), learner, game, rounds)
    played = play(bold(learner), game, delays.Constant(delay), rounds=ROUNDS, record=True, engine="python")
    assert played.actions is not None
    got = played.actions[0].tolist()
    demand(got == expected, f"BOLD is not {turns} interleaved runs: round {_first(got, expected)}")


def compiled_is_python(learner: Learner, forecasters: list[type[Forecaster]] | None = None) -> None:
    """The compiled loop and the Python form agree in every action, count and regret."""
    for forecaster in forecasters or allowed(learner):
        for game, law, expiry in _plays(learner, forecaster):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one that learns nothing there must agree all the same
                compare(forecaster(learner), game, law, ROUNDS, expiry)


def _plays(learner: Learner, forecaster: type[Forecaster]) -> Iterator[tuple[Game, Delays, int | None]]:
    """Plays that together reach every path of the engine."""
    game = arena(learner, ROUNDS)
    known = [(law, expiry) for law, expiry in laws(ROUNDS) if not too_late(learner, law, NEVER)]  # else refused
    yield from ((game, law, expiry) for law, expiry in known)
    if learner.context_size:
        return
    try:
        forecaster(learner).check_replace()
    except Unsupported:
        return
    game = Replaced(learner.actions, 0.05, announced=True)
    yield from ((game, law, None) for law in (delays.Constant(7), delays.Batched(10)))
    yield game, delays.Geometric(mean=20), 30


def forgets_what_is_replaced(learner: Learner) -> None:
    """Where it has `replace`: what was told of the action before does not matter after, and its clock goes on."""
    if learner.replace is None:
        return
    game = arena(learner, ROUNDS)
    for action in range(learner.actions):
        after = []
        for value in extremes(learner, action):
            instance = _instance(learner)
            _drive(instance, learner, game, range(100))
            for t in range(5):
                instance.update(context_of(game, learner, t), action, 1.0, value)
            instance.replace(action)
            demand(instance.predictions == 100, "replace changes the count of predictions")
            after.append(_drive(instance, learner, game, range(100, ROUNDS)))
        demand(after[0] == after[1], f"after replace({action}) it still plays by what it was told of the old action")


def grows_as_it_replaces(learner: Learner) -> None:
    """Where it can grow: it plays on as one that always had the new action, which was replaced just now."""
    larger = learner.with_actions(learner.actions + 1)
    if larger is None:
        return
    for name in ("context_size", "feedback", "values", "version"):
        demand(getattr(larger, name) == getattr(learner, name), f"{larger!r} has another {name} than {learner!r}")
    demand(larger.actions == learner.actions + 1, f"{larger!r} has not one action more than {learner!r}")
    again = larger.with_actions(learner.actions)
    demand(again == learner, f"{learner!r} with one action more and one less is {again!r}")
    game = arena(larger, ROUNDS)
    whole, small, grown = (Instance(each, key_of(0, 0), 0, plain=True) for each in (larger, learner, larger))
    told = 0.1 + 0.8 * np.random.default_rng(2).random((ROUNDS, 1))  # no two alike, so that nothing is tied
    for t in range(100):
        context = context_of(game, larger, t)
        action, probability = whole.predict(context)
        whole.update(context, action, probability, told[t])
        small.predict(context)
        if action < learner.actions:
            small.update(context, action, probability, told[t])
    whole.replace(learner.actions)
    grown.grow_from(0, small.state.tobytes(), small.state.dtype)
    demand(grown.predictions == 100, "a new action changes the count of predictions")
    for t in range(100, ROUNDS):
        context = context_of(game, larger, t)
        one, two = grown.predict(context), whole.predict(context)
        demand(
            one[0] == two[0] and abs(one[1] - two[1]) < 1e-9,
            f"with a new action it plays {one} in prediction {t + 1}; had it always been there, and replaced: {two}",
        )
        grown.update(context, *one, told[t])
        whole.update(context, *two, told[t])


def saved_continues(learner: Learner) -> None:
    """A forecaster saved in the middle of things and restored continues identically."""
    known = catalog.LEARNERS.get(type(learner).__name__.lower())
    if known is None or catalog.newest(known) is not type(learner):
        return  # bytes can be read back only for learners that are entered in the catalog
    game = arena(learner, ROUNDS)
    for forecaster in allowed(learner):
        one = forecaster(learner, seed=3)
        _mix(one, learner, game, 0)
        two = catalog.from_bytes(one.to_bytes())
        demand(repr(two) == repr(one), f"{one!r} comes back as {two!r}")
        same = _mix(one, learner, game, 1) == _mix(two, learner, game, 1)
        demand(same and one.to_bytes() == two.to_bytes(), f"{one!r} does not continue identically after from_bytes")


def _mix(forecaster: Forecaster, learner: Learner, game: Any, seed: int) -> list[tuple[int, Any]]:
    """Some predictions, updates and cancellations in a random order; returns tickets and actions."""
    rng = np.random.default_rng(seed)
    seen: list[tuple[int, Any]] = []
    waiting = [(letter.ticket, letter.action) for letter in forecaster._room.pending.values()]
    for _ in range(120):
        chance = rng.random()
        if chance < 0.5 or not waiting:
            decision = forecaster.predict(context_of(game, learner, len(seen)))
            seen.append((decision.ticket, shown(decision.action)))
            waiting.append((decision.ticket, forecaster._room.pending[decision.ticket].action))
            continue
        ticket, action = waiting.pop(int(rng.integers(len(waiting))))
        if chance < 0.9:
            forecaster.update(ticket, answer_of(game, learner, ticket % ROUNDS, action))
        else:
            forecaster.cancel(ticket)
    return seen


def is_refused_where_it_must(learner: Learner) -> None:
    """Forecasters refuse what is outside their conditions, and nothing else."""
    finite = (learner.context_size == 0 or learner.values > 0) and not learner.point_size
    late = learner.tolerates_delay
    plain = not (learner.memo or learner.in_order)
    alone = not learner.steers
    conditions = {
        Direct: late,
        BOLD: alone,
        QPMD: finite and alone,
        Paced: alone and late and learner.feedback not in ("bandit", "symbol") and not learner.in_order,
        SDB: finite and alone and late and plain and not learner.weighs,
    }
    for forecaster, fits in conditions.items():
        try:
            forecaster(learner)
        except Unsupported as error:
            demand(not fits, f"{forecaster.__name__} refuses {learner!r}: {error}")
        else:
            demand(fits, f"{forecaster.__name__} accepts {learner!r}, which is outside its conditions")


def says_whether_it_weighs(learner: Learner) -> None:
    """A learner whose update depends on the probability that it is given says so."""
    if learner.weighs:
        return
    game, instance = arena(learner, ROUNDS), _instance(learner)
    for t in range(ROUNDS):
        context = context_of(game, learner, t)
        action, probability = instance.predict(context)
        told, before = feedback_of(game, learner, t, action), instance.state.tobytes()
        states = set()
        for factor in (0.5, 1.0):
            instance.become(0, before)
            instance.update(context, action, factor * probability, told)
            states.add(instance.state.tobytes())
        demand(len(states) == 1, "its update uses the probability, and it does not say `weighs`")


def bound_is_a_bound(learner: Learner) -> None:
    """f is nonnegative, nondecreasing and concave in n, where there is one."""
    values = [learner.bound(n) for n in (1.0, 2.0, 3.0, 4.0)]
    if None in values:
        demand(all(v is None for v in values), "bound(n) is None for some n only")
        return
    f = np.array([learner.bound(float(n)) for n in range(1, 2000)], float)
    steps = np.diff(f)
    demand(f[0] >= 0 and (steps >= -1e-9).all(), "bound(n) is negative or falls")
    demand((np.diff(steps) <= 1e-9).all(), "bound(n) is not concave")


def _first(one: list[Any], two: list[Any]) -> int:
    return next((t for t, (a, b) in enumerate(zip(one, two, strict=True), start=1) if a != b), 0)


LEARNER_CHECKS: tuple[Callable[[Learner], None], ...] = (
    keeps_to_the_rules,
    stays_in_its_arrays,
    is_a_spec,
    predicts_honestly,
    keeps_all_in_its_state,
    accepts_skipped_rounds,
    stays_finite,
    answers_to_any_number,
    no_delay_is_the_base,
    bold_interleaves,
    compiled_is_python,
    forgets_what_is_replaced,
    grows_as_it_replaces,
    saved_continues,
    says_whether_it_weighs,
    spares_only_the_probability,
    is_refused_where_it_must,
    bound_is_a_bound,
    writes_its_memo_anew,
    leaves_the_counts_alone,
    forgets_when_it_says,
    plays_points,
    bound_under_delay_is_a_bound,
)


def check_learner(learner: Learner) -> None:
    """All of them."""
    with checking(learner):
        for check in LEARNER_CHECKS:
            check(learner)
