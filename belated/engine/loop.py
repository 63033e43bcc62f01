"""The loop: one forecaster plays one game under one delay law, replication after replication.

The loop is compiled for a learner and a forecaster. It is resumable: all its state lives in the arrays passed in, and
it returns after a budget of rounds or with a reason. Python then grows what is full, shows progress or stops, and
calls again. One round, in the order of the paper's protocol:

    count G_t -> choose an action -> outcome and delay -> post the feedback -> deliver what is due by now

A game with side information gives it before the choice; it waits beside the feedback of its round. A game that
announces is asked after that, and before the choice, which action is replaced. Feedback of rounds before
that is dropped.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from belated.engine.mailbox import clear, post, unlink
from belated.forecasters.process import MOST
from belated.forecasters.room import Kernels
from belated.kernels.compile import kernel
from belated.kernels.pointers import call_event, call_law, call_observe, call_outcome, call_regret
from belated.kernels.random import replication_key
from belated.kernels.values import value_of
from belated.protocols import NEEDED, NEVER

#: Why the loop returned.
BUDGET, DONE, MAILBOX_FULL, POOL_FULL, BAD_PREDICTION, BAD_DELAY, BAD_FEEDBACK, BAD_EVENT, SUPPLY, BAD_POINT = range(10)
BAD_CONTEXT = 10
#: As late as any horizon, without overflow when added to a round.
FAR = 2**62

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
        ("probability", "f8"),  # a bad one, for the error
        ("action", "i8"),  # what was predicted last
        ("steps", "i8"),  # QPM-D: n', how often the base was asked
        ("due_count", "i8"),  # feedback due by the horizon: how many, and the sum of their rounds
        ("due_sum", "i8"),
        ("came_sum", "i8"),  # the sum of the rounds whose tickets ended
        ("closed_sum", "i8"),  # and of the rounds in which they ended
        ("instance", "i8"),  # who predicted last
        ("announced", "i8"),  # the last round whose event was asked for
        ("value", "i8"),  # the value of the side information of that round
        ("actions", "i8"),  # K
        ("defaulted", "i8"),  # defaults that were delivered
    ],
    align=True,
)

#: What is counted for each action of each replication.
TALLY = np.dtype(
    [
        ("pulls", "i8"),
        ("observed", "i8"),
        ("cancelled", "i8"),
        ("peak", "i8"),
        ("base", "i8"),
        ("dropped", "i8"),  # feedback that came for a replaced action
        ("since", "i8"),  # the round in which the action was replaced last; 0: never
    ],
    align=True,
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
        ("total", "i8"),  # the sum of G_1..G_n
        ("defaulted", "i8"),  # defaults that were delivered for feedback that had not come
    ],
    align=True,
)

#: What is counted for each value of the side information of each replication.
POOL = np.dtype(
    [
        ("rounds", "i8"),  # n_c
        ("open", "i8"),  # G_c now
        ("peak", "i8"),  # G*_c: the most when one of its own rounds predicted
        ("instances", "i8"),  # M_c: made in its rounds
    ],
    align=True,
)


@kernel
def start_replication(desk, blank, pool, memory, slab, wheel):
    """Everything as it is before round 1."""
    for i in range(len(memory)):
        memory[i] = 0.0
    pool[0] = blank[0]
    desk.free = clear(slab, wheel)
    desk.checkpoint = 0
    desk.outstanding = 0
    desk.peak = 0
    desk.instances = 1
    desk.instance = 0
    desk.hint = 0
    desk.steps = 0
    desk.action = 0
    desk.announced = 0
    desk.due_count = 0
    desk.due_sum = 0
    desk.came_sum = 0
    desk.closed_sum = 0
    desk.defaulted = 0


@kernel
def finish_replication(desk, counts, summary):
    """Keep the counts of the replication, and go on to the next."""
    done = summary[desk.replication]
    done.peak = desk.peak
    done.outstanding = desk.outstanding
    done.instances = desk.instances
    done.steps = desk.steps
    done.due_count = desk.due_count
    done.due_sum = desk.due_sum
    done.came_sum = desk.came_sum
    came = 0
    for action in range(desk.actions):
        came += counts[action].observed + counts[action].cancelled + counts[action].dropped
    done.came_count = came
    # G_t counts the rounds before t less those that had ended by then.
    n = desk.round
    done.total = n * (n - 1) // 2 - (came * n - desk.closed_sum)
    done.defaulted = desk.defaulted
    desk.replication += 1
    desk.round = 0
    desk.instances = 0


@kernel
def reach(count):
    """G_i of an action now, if it is the most so far."""
    count.peak = max(count.peak, count.pulls - count.observed - count.cancelled - count.dropped)


@kernel
def replaced_or(letter, about):
    """The action of a letter; -1 if it was replaced since."""
    return -1 if letter.round < about.since else letter.action


@kernel
def cell(value, action, count):
    """Where the tally of an action under one value of the side information is."""
    return (1 + value) * count + action


class Shape(NamedTuple):
    """What a loop is compiled for, beside the kernels."""

    grows: bool = False  # whether instances are made as they are needed
    informs: bool = False  # whether the game gives side information
    values: int = 0  # how many values of it the learner tells apart
    memo: int = 0  # numbers that wait beside the feedback
    point: int = 0  # those of them that are the action
    maps: bool = False  # whether rewards are mapped to the learner's range
    numbers: bool = False  # whether the number of the prediction waits beside the feedback
    one_hot: bool = False  # whether feedback must name one right action


@cache
def make_loop(kernels: Kernels, shape: Shape) -> Any:
    """Compose the loop from a forecaster's kernels over a learner's.

    What a game without side information does not need is left out of its loop. With several values of side
    information the tally has a row of actions for all and one for each value.
    """
    begin, choose, deliver, release, back, replace_all = kernels
    grows, informs, values, memo, point, maps, numbers, one_hot = shape

    def loop(
        budget,
        horizon,
        expiry,
        default,
        has_default,
        by_action,
        seed_low,
        seed_high,
        smallest,
        largest,
        limit,
        given,
        taken,
        desk_array,
        tally,
        pools,
        summary,
        regret,
        checkpoints,
        game,
        game_regret,
        game_params,
        memory,
        announces,
        event,
        observe,
        law,
        law_params,
        rule_array,
        params_array,
        blank,
        pool,
        marks,
        slab,
        wheel,
        contexts,
        waits,
        feedback,
        context,
        actions,
        points,
        delays,
        probabilities,
        record,
    ):
        desk = desk_array[0]
        params = params_array[0]
        rule = rule_array[0]
        count = desk.actions
        ahead = len(waits)
        while desk.replication < desk.last:
            replication = desk.replication
            k0, k1 = replication_key(seed_low, seed_high, replication)
            if desk.round == 0 and desk.instances == 0:
                start_replication(desk, blank, pool, memory, slab, wheel)
                begin(desk, rule, params, blank, pool, marks, context, k0, k1)
            counts = tally[replication]
            # The scalars that change every round are kept in local variables and written back below.
            outstanding = desk.outstanding
            peak = desk.peak
            action = desk.action
            free = desk.free
            checkpoint = desk.checkpoint
            due_count = desk.due_count
            due_sum = desk.due_sum
            came_sum = desk.came_sum
            closed_sum = desk.closed_sum
            reason = BUDGET
            stop = min(horizon, desk.round + budget)
            budget -= stop - desk.round
            t = desk.round
            if not by_action:
                # Delays that do not look at the action are drawn some rounds ahead, all in one call.
                call_law(law, law_params, k0, k1, t + 1, 0, 0.0, min(ahead, horizon - t), waits)
            drawn = t
            while t < stop:
                if free < 0:
                    reason = MAILBOX_FULL
                    break
                if grows and desk.instances == len(pool):
                    reason = POOL_FULL
                    break
                # G_{i,t} can only have grown for the action of the round before.
                reach(counts[action])
                if values and t > 0:
                    reach(counts[cell(desk.value, action, count)])
                peak = max(peak, outstanding)

                if (announces or informs) and desk.announced <= t:
                    desk.announced = t + 1
                    if informs:
                        call_observe(observe, game_params, memory, k0, k1, t + 1, context)
                        sound = True
                        for i in range(len(context)):
                            sound &= abs(context[i]) <= limit  # no branches: several at a time
                        if not sound:
                            reason = BAD_CONTEXT
                            break
                    if announces:
                        replaced = call_event(event, game_params, memory, k0, k1, t + 1)
                        if replaced >= count:
                            action = replaced
                            reason = BAD_EVENT
                            break
                        if replaced >= 0:
                            replace_all(desk, params, pool, replaced)
                            counts[replaced].since = t + 1
                    if values:
                        desk.value = value_of(context, values)

                desk.outstanding = outstanding
                desk.free = free
                if values:
                    made = desk.instances
                action, probability = choose(
                    desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, t + 1, counts
                )
                free = desk.free
                if not (0 <= action < count and 0.0 < probability <= MOST):
                    desk.probability = probability
                    reason = BAD_PREDICTION
                    if action == NEEDED:
                        # Nothing has happened: the round is played when Python has supplied what is needed.
                        pool[desk.instance].predictions -= 1
                        back(desk, marks)
                        if values:
                            pools[replication, desk.value].instances += desk.instances - made
                        action = 0
                        reason = SUPPLY
                    break
                if point:
                    sound = True
                    for i in range(point):
                        feedback[i] = pool[desk.instance].memo[i]
                        sound = sound and math.isfinite(feedback[i])
                    if not sound:
                        reason = BAD_POINT
                        break
                probability = min(probability, 1.0)
                t += 1
                counts[action].pulls += 1
                if values:
                    counts[cell(desk.value, action, count)].pulls += 1
                    same = pools[replication, desk.value]
                    same.rounds += 1
                    same.peak = max(same.peak, same.open)
                    same.open += 1
                    same.instances += desk.instances - made
                outstanding += 1

                reward = call_outcome(game, game_params, memory, k0, k1, t, action, feedback)
                if by_action:
                    call_law(law, law_params, k0, k1, t, action, reward, 1, waits)
                    drawn = t - 1
                elif t - drawn > ahead:
                    call_law(law, law_params, k0, k1, t, 0, 0.0, min(ahead, horizon - t + 1), waits)
                    drawn = t - 1
                delay = waits[t - drawn - 1]
                if delay < 0:
                    t -= 1
                    reason = BAD_DELAY
                    break
                sound = True
                for i in range(len(slab[0].feedback)):  # known to the compiler, unlike len(feedback)
                    sound = sound and smallest <= feedback[i] <= largest
                if one_hot:
                    right = 0
                    for i in range(count):
                        right += feedback[i] == given[1]
                        sound = sound and (feedback[i] == given[0] or feedback[i] == given[1])
                    sound = sound and right == 1
                if not sound:
                    t -= 1
                    reason = BAD_FEEDBACK
                    break
                if record:
                    if point:
                        for i in range(point):
                            points[replication, t - 1, i] = pool[desk.instance].memo[i]
                    else:
                        actions[replication, t - 1] = action
                    delays[replication, t - 1] = delay
                    probabilities[replication, t - 1] = probability

                wait = min(delay, expiry)
                if wait < NEVER:
                    entry = free
                    letter = slab[entry]
                    free = letter.next
                    letter.round = t
                    letter.action = action
                    letter.probability = probability
                    letter.instance = desk.instance
                    letter.cancelled = delay > expiry
                    for i in range(len(letter.feedback)):
                        letter.feedback[i] = feedback[i]
                    if maps:
                        for i in range(len(letter.feedback)):
                            share = min((letter.feedback[i] - given[0]) / (given[1] - given[0]), 1.0)
                            letter.feedback[i] = taken[0] + share * (taken[1] - taken[0])
                    if numbers:
                        letter.number = pool[desk.instance].predictions
                    if memo:
                        for i in range(memo):
                            letter.memo[i] = pool[desk.instance].memo[i]
                    if informs:
                        for i in range(len(context)):
                            contexts[entry, i] = context[i]
                    due = t + min(wait, FAR)
                    post(slab, wheel, entry, due)
                    if due <= horizon:
                        due_count += 1
                        due_sum += t

                slot = t & (len(wheel) - 1)
                behind = -1
                entry = wheel[slot, 0]
                while entry >= 0:
                    letter = slab[entry]
                    following = letter.next
                    if letter.due != t:
                        behind = entry
                        entry = following
                        continue
                    unlink(slab, wheel, slot, behind, following)
                    about = counts[letter.action]
                    outstanding -= 1
                    closed_sum += t
                    came_sum += letter.round
                    shown = contexts[entry] if informs else context
                    group = counts[cell(value_of(shown, values), letter.action, count)] if values else about
                    if values:
                        pools[replication, value_of(shown, values)].open -= 1
                    if letter.cancelled and has_default:
                        desk.defaulted += letter.round >= about.since
                        letter.cancelled = 0
                        for i in range(len(letter.feedback)):
                            letter.feedback[i] = default
                    keep = False
                    if letter.cancelled:
                        about.cancelled += 1
                        if values:
                            group.cancelled += 1
                        keep = release(
                            desk, rule, params, pool, marks, slab, contexts, shown, entry, replaced_or(letter, about)
                        )
                    elif letter.round < about.since:
                        about.dropped += 1
                        if values:
                            group.dropped += 1
                        keep = release(desk, rule, params, pool, marks, slab, contexts, shown, entry, -1)
                    else:
                        about.observed += 1
                        if values:
                            group.observed += 1
                        keep = deliver(desk, rule, params, pool, marks, slab, contexts, shown, entry)
                    if not keep:
                        letter.next = free
                        free = entry
                    entry = following

                if t == checkpoints[checkpoint]:
                    regret[replication, checkpoint] = call_regret(game_regret, game_params, memory)
                    checkpoint += 1

            desk.round = t
            desk.outstanding = outstanding
            desk.peak = peak
            desk.action = action
            desk.free = free
            desk.checkpoint = checkpoint
            desk.due_count = due_count
            desk.due_sum = due_sum
            desk.came_sum = came_sum
            desk.closed_sum = closed_sum
            if t < horizon:
                return reason
            finish_replication(desk, counts, summary)
            if budget <= 0 and desk.replication < desk.last:
                return BUDGET
        return DONE

    return kernel(loop)
