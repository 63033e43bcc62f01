"""What a learner is promised, and what it promises: its memo, its counts, its points; and what forecasters owe it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from belated.checks.contract import arena, compare, context_of, demand, extremes, feedback_of, laws, over
from belated.checks.probes import BanditProbe, OrderedProbe, OrderedQuietProbe, Probe, QuietProbe, records
from belated.engine.workspace import kernels_of
from belated.errors import BadPrediction
from belated.forecasters import Forecaster
from belated.forecasters.instance import Instance
from belated.forecasters.process import Process
from belated.kernels.random import key_of
from belated.learners import PerContext
from belated.protocols import Learner

ROUNDS = 120
#: How many predictions are open at most.
LATE = 4


# --- of a learner ---


def writes_its_memo_anew(learner: Learner) -> None:
    """What stood in the memo before does not matter to `predict`: under delay that is another prediction's."""
    if not learner.memo:
        return
    game, before = arena(learner, ROUNDS), _instance(learner)
    for t in range(20):
        context = context_of(game, learner, t)
        action, probability = before.predict(context)
        before.update(context, action, probability, feedback_of(game, learner, t, action))
        said = []
        for number in (0.0, 1e3):
            other = _instance(learner)
            other.state[:] = before.state
            other.state["memo"] = number
            said.append((*other.predict(context_of(game, learner, t + 1)), other.memo.tolist()))
        demand(
            repr(said[0]) == repr(said[1]),
            f"prediction {t + 2} depends on what the memo held before: {said[0]} after zeros, {said[1]} after 1000s; "
            "`predict` must write all of its memo, and not read it",
        )


def spares_only_the_probability(learner: Learner) -> None:
    """Where nobody reads its probabilities (`params.unread`), it chooses what it would choose, and learns the same."""
    if learner.weighs:
        return  # its update reads them
    game, one, two = arena(learner, ROUNDS), _instance(learner), _instance(learner)
    two._params["unread"] = 1
    for t in range(ROUNDS // 2):
        context = context_of(game, learner, t)
        said, spared = one.predict(context), two.predict(context)
        demand(
            said[0] == spared[0] and repr(one.memo) == repr(two.memo),
            f"prediction {t + 1} is another where its probability is not read: {spared[0]} instead of {said[0]}",
        )
        feedback = feedback_of(game, learner, t, said[0])
        one.update(context, *said, feedback)
        two.update(context, *spared, feedback)


def leaves_the_counts_alone(learner: Learner) -> None:
    """`predictions`, `answering` and `open` are belated's: no kernel changes them."""
    game, instance = arena(learner, ROUNDS), _instance(learner)
    waiting: list[tuple[int, int, int, float, Any]] = []

    def look(step: str, **wanted: int) -> None:
        for name, value in wanted.items():
            if name in (instance.state.dtype.names or ()):
                found = int(instance.state[name][0])
                demand(found == value, f"state.{name} is {found} after {step}, it should be {value}: {KEPT}")

    for t in range(ROUNDS):
        context = context_of(game, learner, t)
        action, probability = instance.predict(context)
        waiting.append((t, instance.predictions, action, probability, instance.memo))
        look("predict", predictions=t + 1, open=len(waiting))
        while len(waiting) > (LATE if learner.tolerates_delay else 0):
            s, number, action, probability, memo = waiting.pop(0)
            given = (number, context_of(game, learner, s), action, probability)
            if s % 5 == 3:
                instance.lost(*given, memo)
                look("lost", predictions=t + 1, open=len(waiting))
            else:
                instance.answer(*given, feedback_of(game, learner, s, action), memo)
                look("update", predictions=t + 1, answering=number, open=len(waiting))


KEPT = "it is counted by belated, and kernels only read it"


def forgets_when_it_says(learner: Learner) -> None:
    """Where it says how long it `keeps` what it needs: feedback that comes later teaches nothing."""
    if not learner.keeps:
        return
    game = arena(learner, max(learner.keeps, ROUNDS))
    after: list[list[tuple[int, float]]] = []
    for value in extremes(learner, 0):
        instance = _instance(learner)
        first = context_of(game, learner, 0)
        said, memo = instance.predict(first), instance.memo
        for t in range(learner.keeps):
            instance.predict(context_of(game, learner, t))
        instance.answer(1, first, *said, value, memo)
        after.append([])
        for t in range(ROUNDS):
            context = context_of(game, learner, t)
            after[-1].append(instance.predict(context))
            instance.update(context, *after[-1][t], feedback_of(game, learner, t, after[-1][t][0]))
    demand(after[0] == after[1], f"it keeps {learner.keeps} predictions, and yet learned of an earlier one")


def plays_points(learner: Learner) -> None:
    """Where its actions are points: `predict` returns (0, 1.0), and the point is finite whatever it was told."""
    if not learner.point_size:
        return
    game, instance = arena(learner, ROUNDS), _instance(learner)
    for t in range(ROUNDS):
        context = context_of(game, learner, t)
        try:
            action, probability = instance.predict(context)
        except BadPrediction as error:
            demand(False, str(error))
        demand((action, probability) == (0, 1.0), f"predict of a point returns (0, 1.0), got {(action, probability)}")
        instance.update(context, action, probability, feedback_of(game, learner, t, action))


def bound_under_delay_is_a_bound(learner: Learner) -> None:
    """Where there is one: at least 0, and nondecreasing and concave in the sum of G_t."""
    totals = np.linspace(0.0, 1e5, 200)
    for n in (1, 100, 10_000):
        said = [learner.bound_under_delay(n, float(total)) for total in totals]
        if None in said:
            demand(all(f is None for f in said), "bound_under_delay is None for some totals only")
            continue
        steps = np.diff(np.array(said, float))
        demand(said[0] is not None and said[0] >= 0, f"bound_under_delay({n}, 0) is {said[0]}")
        demand((steps >= -1e-9).all(), f"bound_under_delay({n}, total) falls as total grows")
        demand((np.diff(steps) <= 1e-9).all(), f"bound_under_delay({n}, total) is not concave in total")


def _instance(learner: Learner) -> Instance:
    return Instance(learner, key_of(0, 0), 0)


# --- of a forecaster ---


def gives_back_the_memo(forecaster: Forecaster) -> None:
    """A learner finds in its memo, and in `answering`, those of the prediction that ends; compiled likewise."""
    probed = over(forecaster, Probe(), BanditProbe(), PerContext(Probe(), 2))
    if probed is None:
        return  # it plays no learner with a memo
    for seat in _lived(probed).seats:
        for each in records(seat.learner.state):
            demand(
                each["wrong"] == 0,
                f"{probed!r}: {each['wrong']} times a learner was told of a prediction with the memo of another; "
                "tell it by `seat.answer(letter, feedback)`",
            )
    if kernels_of(probed) is not None:
        game = arena(probed.learner, ROUNDS)
        for law, expiry in laws(ROUNDS):
            if expiry is not None:
                compare(probed, game, law, ROUNDS, expiry)


def ends_every_prediction(forecaster: Forecaster) -> None:
    """When every ticket has ended, an instance knows it of all its predictions, but for those whose feedback waits in
    a queue, and one that is still pending."""
    probed = over(forecaster, Probe(), BanditProbe(), QuietProbe(), PerContext(Probe(), 2), PerContext(QuietProbe(), 2))
    if probed is None:
        return
    room = _lived(probed)
    waiting = Counter(letter.seat for queue in room.queues.values() for letter, _ in queue)
    for seat in room.seats:
        for each in records(seat.learner.state):
            demand(each["below"] >= 0, f"{probed!r} tells an instance of more ends than it made predictions")
            demand(
                each["open"] <= 1 + waiting[seat.number],
                f"{probed!r}: all tickets have ended, but not {each['open']} predictions of instance {seat.number}; "
                "tell it of those without feedback by `seat.lost(letter)`",
            )


def keeps_the_order(forecaster: Forecaster) -> None:
    """A learner that says `in_order` is told in the order of its predictions, or refused; compiled likewise."""
    probed = over(forecaster, OrderedProbe(), OrderedQuietProbe(), PerContext(OrderedProbe(), 2))
    if probed is None:
        return
    for seat in _lived(probed).seats:
        for each in records(seat.learner.state):
            demand(each["late"] == 0, f"{probed!r} tells a learner that says `in_order` out of order")
    if kernels_of(probed) is not None:
        game = arena(probed.learner, ROUNDS)
        for law, expiry in laws(ROUNDS):
            compare(probed, game, law, ROUNDS, expiry)


def _lived(forecaster: Forecaster) -> Process:
    """Its room after many predictions, ends in any order, and then so many cancelled ones that nothing waits."""
    room, learner = forecaster._room, forecaster.learner
    game, rng = arena(learner, 4 * ROUNDS), np.random.default_rng(1)
    for step in rng.choice(["predict", "update", "cancel"], size=3 * ROUNDS, p=[0.5, 0.35, 0.15]):
        if step == "predict" or not room.pending:
            forecaster.predict(context_of(game, learner, room.issued))
            continue
        ticket = sorted(room.pending)[int(rng.integers(len(room.pending)))]
        if step == "update":
            forecaster.update(ticket, feedback_of(game, learner, ticket % ROUNDS, room.pending[ticket].action))
        else:
            forecaster.cancel(ticket)
    for ticket in sorted(room.pending):
        forecaster.cancel(ticket)
    for _ in range(ROUNDS):
        forecaster.cancel(forecaster.predict(context_of(game, learner, room.issued)).ticket)
    return room
