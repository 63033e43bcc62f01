"""One round of one lane, in the lane's own arrays, in the order of the paper's protocol:

    count G_t -> choose an action -> outcome and delay -> post the feedback -> deliver what is due by now

A game with side information gives it before the choice; it waits beside the feedback of its round. A game that
announces is asked after that, and before the choice, which action is replaced. Feedback of rounds before
that is dropped.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

from belated.engine.mailbox import post, unlink
from belated.forecasters.process import MOST
from belated.forecasters.room import Kernels
from belated.kernels.compile import kernel
from belated.kernels.natural import natural
from belated.kernels.pointers import call_event, call_law, call_observe, call_outcome, call_regret
from belated.kernels.values import value_of
from belated.protocols import NEEDED, NEVER

#: What came of a round, or why the loop returned, or what a round waits for, or what is wrong with it.
PLAYED, DONE, BUDGET, MAILBOX_FULL, POOL_FULL, SUPPLY = range(6)
BAD_PREDICTION, BAD_POINT, BAD_DELAY, BAD_FEEDBACK, BAD_EVENT, BAD_CONTEXT = range(6, 12)
#: As late as any horizon, without overflow when added to a round.
FAR = 2**62


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
    apart: bool = False  # whether all lanes choose before one settles


class Round(NamedTuple):
    """A round of one lane, in two steps. Between them other lanes may take theirs."""

    choose: Any  # count G_t, choose -> PLAYED, action, probability; or why that cannot be, and nothing has happened
    settle: Any  # outcome and delay, post the feedback, deliver what is due -> PLAYED, DONE, or what is wrong


class Calls(NamedTuple):
    """How a round calls the game and the law: the first argument of each is what `Played` holds for it."""

    outcome: Any = call_outcome
    regret: Any = call_regret
    law: Any = call_law
    event: Any = call_event
    observe: Any = call_observe


@cache
def make_round(kernels: Kernels, shape: Shape, calls: Calls = Calls()) -> Round:  # noqa: B008
    """Compose a round from a forecaster's kernels over a learner's: functions of one lane's arrays.

    `calls`: through addresses, so that a new game compiles nothing else; for a GPU, which has none, directly.

    What a game without side information does not need is left out. With several values of side information the tally
    has a row of actions for all and one for each value.
    """
    _, choose, deliver, release, back, replace_all = kernels
    grows, informs, values, memo, point, maps, numbers, one_hot, _ = shape
    outcome_of, regret_of, law_of, event_of, observe_of = calls

    def choose_step(fixed, lane, asked, played, written):
        desk = lane.desk[0]
        pool, marks, slab, contexts, context = lane.pool, lane.marks, lane.slab, lane.contexts, lane.context
        memory, feedback, limit = lane.memory, lane.feedback, fixed.limit
        params, rule, blank = asked.params[0], asked.rule[0], asked.blank
        game_params, announces = played.params, played.announces
        pools = written.pools
        replication = natural(desk.replication)
        count = desk.actions
        counts = written.tally[replication]
        k0 = desk.key0
        k1 = desk.key1
        t = desk.round + 1
        if desk.free < 0:
            return MAILBOX_FULL, 0, 0.0
        if grows and desk.instances == len(pool):
            return POOL_FULL, 0, 0.0
        # G_{i,t} can only have grown for the action of the round before.
        reach(counts[natural(desk.action)])
        if values and t > 1:
            reach(counts[cell(desk.value, desk.action, count)])
        desk.peak = max(desk.peak, desk.outstanding)

        if (announces or informs) and desk.announced < t:
            desk.announced = t
            if informs:
                observe_of(played.observe, game_params, memory, k0, k1, t, context)
                sound = True
                for i in range(len(context)):
                    sound &= abs(context[i]) <= limit  # no branches: several at a time
                if not sound:
                    return BAD_CONTEXT, 0, 0.0
            if announces:
                replaced = event_of(played.event, game_params, memory, k0, k1, t)
                if replaced >= count:
                    desk.action = replaced
                    return BAD_EVENT, 0, 0.0
                if replaced >= 0:
                    replace_all(desk, params, pool, replaced)
                    counts[replaced].since = t
            if values:
                desk.value = value_of(context, values)

        if values:
            made = desk.instances
        action, probability = choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, t, counts)
        desk.action = action
        if not (0 <= action < count and 0.0 < probability <= MOST):
            desk.probability = probability
            if action != NEEDED:
                return BAD_PREDICTION, 0, 0.0
            # Nothing has happened: the round is played when Python has supplied what is needed.
            pool[desk.instance].predictions -= 1
            back(desk, marks)
            if values:
                pools[replication, desk.value].instances += desk.instances - made
            desk.action = 0
            return SUPPLY, 0, 0.0
        if point:
            sound = True
            for i in range(point):
                feedback[i] = pool[desk.instance].memo[i]
                sound = sound and math.isfinite(feedback[i])
            if not sound:
                return BAD_POINT, 0, 0.0
        counts[action].pulls += 1
        if values:
            counts[cell(desk.value, action, count)].pulls += 1
            same = pools[replication, desk.value]
            same.rounds += 1
            same.peak = max(same.peak, same.open)
            same.open += 1
            same.instances += desk.instances - made
        desk.outstanding += 1
        return PLAYED, action, min(probability, 1.0)

    def settle_step(action, probability, fixed, lane, asked, played, written):
        desk = lane.desk[0]
        pool, marks, slab, contexts, context = lane.pool, lane.marks, lane.slab, lane.contexts, lane.context
        wheel, memory, waits, feedback = lane.wheel, lane.memory, lane.waits, lane.feedback
        horizon, expiry, given, taken = fixed.horizon, fixed.expiry, fixed.given, fixed.taken
        params, rule = asked.params[0], asked.rule[0]
        game_params, delay_law, law_params = played.params, played.law, played.law_params
        pools = written.pools
        replication = natural(desk.replication)
        count = desk.actions
        counts = written.tally[replication]
        k0 = desk.key0
        k1 = desk.key1
        t = desk.round + 1
        reward = outcome_of(played.outcome, game_params, memory, k0, k1, t, action, feedback)
        if fixed.by_action:
            law_of(delay_law, law_params, k0, k1, t, action, reward, 1, waits)
            desk.drawn = t - 1
        elif t - desk.drawn > len(waits):
            # Delays that do not look at the action are drawn some rounds ahead, all in one call.
            law_of(delay_law, law_params, k0, k1, t, 0, 0.0, min(len(waits), horizon - t + 1), waits)
            desk.drawn = t - 1
        delay = waits[natural(t - desk.drawn - 1)]
        if delay < 0:
            return BAD_DELAY
        sound = True
        for i in range(len(slab[0].feedback)):  # known to the compiler, unlike len(feedback)
            sound = sound and fixed.smallest <= feedback[i] <= fixed.largest
        if one_hot:
            right = 0
            for i in range(count):
                right += feedback[i] == given[1]
                sound = sound and (feedback[i] == given[0] or feedback[i] == given[1])
            sound = sound and right == 1
        if not sound:
            return BAD_FEEDBACK
        if fixed.record:
            if point:
                for i in range(point):
                    written.points[replication, t - 1, i] = pool[desk.instance].memo[i]
            else:
                written.actions[replication, t - 1] = action
            written.delays[replication, t - 1] = delay
            written.probabilities[replication, t - 1] = probability

        wait = min(delay, expiry)
        if wait < NEVER:
            entry = natural(desk.free)
            letter = slab[entry]
            desk.free = letter.next
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
                desk.due_count += 1
                desk.due_sum += t

        slot = natural(t & (len(wheel) - 1))
        behind = -1
        following = wheel[slot, 0]
        while following >= 0:
            entry = natural(following)
            letter = slab[entry]
            following = letter.next
            if letter.due != t:
                behind = entry
                continue
            unlink(slab, wheel, slot, behind, following)
            about = counts[natural(letter.action)]
            desk.outstanding -= 1
            desk.closed_sum += t
            desk.came_sum += letter.round
            shown = contexts[entry] if informs else context
            group = counts[cell(value_of(shown, values), letter.action, count)] if values else about
            if values:
                pools[replication, value_of(shown, values)].open -= 1
            cancelled = letter.cancelled != 0
            if cancelled and fixed.has_default:
                desk.defaulted += letter.round >= about.since
                letter.cancelled = 0
                cancelled = False
                for i in range(len(letter.feedback)):
                    letter.feedback[i] = fixed.default
            keep = False
            if cancelled:
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
                letter.next = desk.free
                desk.free = entry

        if t == written.checkpoints[natural(desk.checkpoint)]:
            written.regret[replication, desk.checkpoint] = regret_of(played.regret, game_params, memory)
            desk.checkpoint += 1
        desk.round = t
        return DONE if t == horizon else PLAYED

    return Round(kernel(choose_step), kernel(settle_step))
