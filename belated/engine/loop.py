"""The loop: one forecaster plays one game under one delay law, replication after replication.

The loop is compiled for a learner and a forecaster. It is resumable: all its state lives in the arrays passed in, and
it returns after a budget of rounds or with a reason. Python then grows what is full, shows progress or stops, and
calls again. One round, in the order of the paper's protocol:

    count G_t -> choose an action -> outcome and delay -> post the feedback -> deliver what is due at the end of the round
"""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.engine.mailbox import clear, post, take
from belated.kernels.compile import kernel
from belated.kernels.pointers import call_delay, call_outcome, call_regret
from belated.kernels.random import replication_key
from belated.protocols import NEVER

#: Why the loop returned.
BUDGET, DONE, MAILBOX_FULL, POOL_FULL, BAD_PREDICTION = range(5)

#: The scalars of a replication in progress.
DESK = np.dtype(
    [
        ("replication", "i8"),  # the one in progress
        ("last", "i8"),  # one behind the last to play
        ("round", "i8"),  # rounds finished in it
        ("checkpoint", "i8"),  # the next one
        ("outstanding", "i8"),  # G_t, then G_{t+1}
        ("peak", "i8"),  # max of G_1..G_t
        ("free", "i8"),  # first free entry of the mailbox
        ("instances", "i8"),  # M
        ("hint", "i8"),  # BOLD: no free instance below this word
        ("asked", "i8"),  # QPM-D: the base has a pending query
        ("action", "i8"),  # what was predicted last; QPM-D: the held action
        ("probability", "f8"),
        ("steps", "i8"),  # QPM-D: n', how often the base was asked
        ("due_count", "i8"),  # feedback due by the horizon: how many, and the sum of their rounds
        ("due_sum", "i8"),
        ("came_count", "i8"),  # feedback delivered, likewise
        ("came_sum", "i8"),
        ("instance", "i8"),  # who predicted last
    ],
    align=True,
)

#: What is counted for each action of each replication.
TALLY = np.dtype(
    [("pulls", "i8"), ("observed", "i8"), ("cancelled", "i8"), ("peak", "i8"), ("base", "i8")], align=True
)

#: What is kept of each finished replication.
SUMMARY = np.dtype(
    [
        ("peak", "i8"),
        ("outstanding", "i8"),  # G_{n+1}
        ("instances", "i8"),
        ("steps", "i8"),
        ("due_count", "i8"),
        ("due_sum", "i8"),
        ("came_count", "i8"),
        ("came_sum", "i8"),
    ],
    align=True,
)


def make_loop(predict: Any, update: Any, forecaster: Any) -> Any:
    """Compose the loop from a learner's kernels and a forecaster's `kernels(predict, update)`."""
    choose, deliver, release, pooled = forecaster(predict, update)

    def loop(
        budget,
        horizon,
        expiry,
        by_action,
        seed_low,
        seed_high,
        desk_array,
        tally,
        summary,
        regret,
        checkpoints,
        game,
        game_regret,
        game_params,
        memory,
        law,
        law_params,
        params_array,
        blank,
        pool,
        marks,
        slab,
        wheel,
        feedback,
        context,
        actions,
        delays,
        probabilities,
        record,
    ):
        desk = desk_array[0]
        params = params_array[0]
        count = tally.shape[1]
        while desk.replication < desk.last:
            replication = desk.replication
            k0, k1 = replication_key(seed_low, seed_high, replication)
            if desk.round == 0 and desk.instances == 0:
                desk.free = clear(slab, wheel)
                for i in range(len(marks)):
                    marks[i] = -1
                for i in range(len(memory)):
                    memory[i] = 0.0
                pool[0] = blank[0]
                desk.instances = 1
                desk.hint = 0
                desk.asked = 0
                desk.action = 0
                desk.checkpoint = 0
                desk.outstanding = 0
                desk.peak = 0
                desk.steps = 0
                desk.due_count = 0
                desk.due_sum = 0
                desk.came_count = 0
                desk.came_sum = 0
            first = desk.round + 1
            stop = min(horizon, desk.round + budget)
            budget -= stop - desk.round
            for t in range(first, stop + 1):
                if desk.free < 0:
                    desk.round = t - 1
                    return MAILBOX_FULL
                if pooled and desk.outstanding == desk.instances and desk.instances == len(pool):
                    desk.round = t - 1
                    return POOL_FULL
                # G_{i,t} can only have grown for the action of the round before.
                before = tally[replication, desk.action]
                waiting = before.pulls - before.observed - before.cancelled
                if waiting > before.peak:
                    before.peak = waiting
                if desk.outstanding > desk.peak:
                    desk.peak = desk.outstanding

                action, probability = choose(desk, params, blank, pool, marks, slab, context, k0, k1, count, tally)
                if not (0 <= action < count and 0.0 < probability <= 1.000000001):
                    desk.action = action
                    desk.probability = probability
                    desk.round = t - 1
                    return BAD_PREDICTION
                desk.action = action
                tally[replication, action].pulls += 1
                desk.outstanding += 1

                call_outcome(game, game_params, memory, k0, k1, t, action, feedback)
                delay = call_delay(law, law_params, k0, k1, t, action if by_action else 0)
                if record:
                    actions[replication, t - 1] = action
                    delays[replication, t - 1] = delay
                    probabilities[replication, t - 1] = probability

                wait = min(delay, expiry)
                if wait < NEVER:
                    entry = desk.free
                    letter = slab[entry]
                    desk.free = letter.next
                    letter.round = t
                    letter.action = action
                    letter.probability = probability
                    letter.instance = desk.instance
                    letter.cancelled = delay > expiry
                    for i in range(len(feedback)):
                        letter.feedback[i] = feedback[i]
                    # Beyond the horizon and back without overflow: t + wait may exceed the largest integer.
                    due = t + min(wait, NEVER - horizon)
                    post(slab, wheel, entry, due)
                    if due <= horizon:
                        desk.due_count += 1
                        desk.due_sum += t

                entry, behind = take(slab, wheel, -1, t)
                while entry >= 0:
                    letter = slab[entry]
                    about = tally[replication, letter.action]
                    desk.outstanding -= 1
                    desk.came_count += 1
                    desk.came_sum += letter.round
                    keep = False
                    if letter.cancelled:
                        about.cancelled += 1
                        release(desk, marks, letter.instance)
                    else:
                        about.observed += 1
                        keep = deliver(desk, params, pool, marks, slab, context, entry)
                    if not keep:
                        letter.next = desk.free
                        desk.free = entry
                    entry, behind = take(slab, wheel, behind, t)

                if t == checkpoints[desk.checkpoint]:
                    regret[replication, desk.checkpoint] = call_regret(game_regret, game_params, memory)
                    desk.checkpoint += 1

            desk.round = stop
            if stop < horizon:
                return BUDGET
            done = summary[replication]
            done.peak = desk.peak
            done.outstanding = desk.outstanding
            done.instances = desk.instances
            done.steps = desk.steps
            done.due_count = desk.due_count
            done.due_sum = desk.due_sum
            done.came_count = desk.came_count
            done.came_sum = desk.came_sum
            desk.replication += 1
            desk.round = 0
            desk.instances = 0
            if budget <= 0 and desk.replication < desk.last:
                return BUDGET
        return DONE

    return kernel(loop)
