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

from belated.engine.mailbox import post, take
from belated.forecasters.process import MOST
from belated.forecasters.room import AGAIN, Kernels
from belated.kernels.compile import kernel
from belated.kernels.natural import natural
from belated.kernels.pointers import call_event, call_law, call_observe, call_outcome, call_regret
from belated.kernels.values import value_of
from belated.protocols import NEEDED, NEVER

#: What came of a round, or why the loop returned, or what a round waits for, or what is wrong with it.
PLAYED, DONE, BUDGET, MAILBOX_FULL, POOL_FULL, SUPPLY = range(6)
BAD_PREDICTION, BAD_POINT, BAD_DELAY, BAD_FEEDBACK, BAD_EVENT, BAD_CONTEXT, BAD_KEEPING = range(6, 13)
#: The forecaster is to be asked again in this round.
ONCE_MORE = 13
#: As late as any horizon, without overflow when added to a round.
FAR = 2**62


@kernel
def replaced_or(letter, about):
    """The action of a letter; -1 if it was replaced since."""
    return -1 if letter.round < about.since else letter.action


@kernel
def cell(value, action, count):
    """Where the counts of an action under one value of the side information is."""
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
    # What need not be there, where it is known beforehand.
    ends: bool = True  # whether tickets may end without feedback
    announces: bool = True  # whether actions may be replaced
    records: bool = True  # whether actions, delays and probabilities may be kept
    states: bool = True  # whether somebody reads the probability that waits beside feedback
    looks: bool = True  # whether delays may look at the action or the reward
    several: bool = True  # whether there may be several instances
    in_turn: bool = False  # whether all feedback waits as long as any other, and goes at once


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
    fetch: Any = None  # and how it takes a letter out of turn, into `lane.came`
    soon: Any = None  # and how it says that something of an array will be read soon
    far: bool = False  # whether states are so many, and so far away, that this pays for them


@cache
def make_round(kernels: Kernels, shape: Shape, calls: Calls = Calls()) -> Round:  # noqa: B008
    """Compose a round from a forecaster's kernels over a learner's: functions of one lane's arrays.

    `calls`: through addresses, so that a new game compiles nothing else; for a GPU, which has none, directly.

    What a game without side information does not need is left out. With several values of side information the counts
    have a row of actions for all and one for each value.
    """
    _, choose, deliver, release, back, replace_all = kernels
    grows, informs, values, memo, point, maps, numbers, one_hot, _ = shape[:9]
    ends, announces, records, states, looks, several, in_turn = shape[9:]
    outcome_of, regret_of, law_of, event_of, observe_of, fetch, soon, far = calls
    early = soon is not None and not in_turn and not looks
    fetched = in_turn and fetch is not None

    def reach(count):
        out = count.pulls - count.observed
        if ends:
            out -= count.cancelled
        if announces:
            out -= count.dropped
        count.peak = max(count.peak, out)

    reach = kernel(reach)

    def draw(fixed, lane, played, t):
        """Delays that do not look at the action are drawn some rounds ahead, all in one call."""
        desk, waits = lane.desk[0], lane.waits
        if t - desk.drawn > len(waits):
            most = min(len(waits), fixed.horizon - t + 1)
            law_of(played.law, played.law_params, desk.key0, desk.key1, t, 0, 0.0, most, waits)
            desk.drawn = t - 1
        return waits[natural(t - desk.drawn - 1)]

    draw = kernel(draw)

    def expect(fixed, lane, played, t):
        """What the round will look at is on its way while the learner chooses."""
        desk, slab, wheel = lane.desk[0], lane.slab, lane.wheel
        delay = draw(fixed, lane, played, t)
        wait = min(delay, fixed.expiry) if ends else delay
        size = len(wheel)
        soon(wheel, natural((t + min(max(wait, 0), fixed.far)) & (size - 1)))
        soon(wheel, natural((t + 1) & (size - 1)))
        soon(slab, natural(desk.free))
        first = wheel[natural(t & (size - 1))]
        if first >= 0:
            soon(slab, natural(first))

    expect = kernel(expect)

    def choose_step(fixed, lane, asked, played, written):
        desk = lane.desk[0]
        pool, marks, slab, contexts, context = lane.pool, lane.marks, lane.slab, lane.contexts, lane.context
        memory, feedback, limit = lane.memory, lane.feedback, fixed.limit
        params, rule, blank = asked.params[0], asked.rule[0], asked.blank
        game_params = played.params
        pools = written.pools
        replication = natural(desk.replication)
        count = desk.actions
        counts = lane.counts
        k0 = desk.key0
        k1 = desk.key1
        t = desk.round + 1
        if not in_turn and desk.free < 0:
            return MAILBOX_FULL, 0, 0.0
        if fetched:
            # Who will be answered is known now: the letter is fetched while the learner chooses.
            wait = min(fixed.delay, fixed.expiry) if ends else fixed.delay
            if 0 < wait < t:
                fetch(lane.came, 0, slab[natural((t - wait) & (len(slab) - 1))])
        if early and t - desk.drawn > len(lane.waits):
            expect(fixed, lane, played, t)
        if grows and desk.instances == len(pool):
            return POOL_FULL, 0, 0.0
        # G_{i,t} can only have grown for the action of the round before.
        reach(counts[natural(desk.action)])
        if values and t > 1:
            reach(counts[cell(desk.value, desk.action, count)])
        desk.peak = max(desk.peak, desk.outstanding)

        if (informs or announces) and (informs or played.announces) and desk.announced < t:
            desk.announced = t
            if informs:
                observe_of(played.observe, game_params, memory, k0, k1, t, context)
                sound = True
                for i in range(len(context)):
                    sound &= abs(context[i]) <= limit  # no branches: several at a time
                if not sound:
                    return BAD_CONTEXT, 0, 0.0
            if announces and played.announces:
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
            if action == AGAIN:
                desk.action = 0
                return ONCE_MORE, 0, 0.0
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
        if fetched and far and 0 < wait < t:
            soon(pool, natural(lane.came[0].instance))
        return PLAYED, action, min(probability, 1.0)

    def settle_step(action, probability, fixed, lane, asked, played, written):
        desk = lane.desk[0]
        pool, marks, slab, contexts, context = lane.pool, lane.marks, lane.slab, lane.contexts, lane.context
        wheel, memory, waits, feedback = lane.wheel, lane.memory, lane.waits, lane.feedback
        params, rule, pools = asked.params[0], asked.rule[0], written.pools
        horizon, expiry, given, taken = fixed.horizon, fixed.expiry, fixed.given, fixed.taken
        game_params, delay_law, law_params = played.params, played.law, played.law_params
        replication = natural(desk.replication)
        count = desk.actions
        counts = lane.counts
        k0 = desk.key0
        k1 = desk.key1
        t = desk.round + 1
        reward = outcome_of(played.outcome, game_params, memory, k0, k1, t, action, feedback)
        if in_turn:
            delay = fixed.delay
        else:
            if looks and fixed.by_action:
                law_of(delay_law, law_params, k0, k1, t, action, reward, 1, waits)
                desk.drawn = t - 1
                delay = waits[0]
            else:
                delay = draw(fixed, lane, played, t)
        if not in_turn and delay < 0:
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
        if records and fixed.record:
            if point:
                for i in range(point):
                    written.points[replication, t - 1, i] = pool[desk.instance].memo[i]
            else:
                written.actions[replication, t - 1] = action
            written.delays[replication, t - 1] = delay
            written.probabilities[replication, t - 1] = probability

        wait = min(delay, expiry) if ends else delay
        if in_turn or wait < NEVER:
            entry = natural(t & (len(slab) - 1) if in_turn else desk.free)
            letter = slab[entry]
            if not in_turn:
                desk.free = letter.next
            letter.round = t
            letter.action = action
            if several:
                letter.instance = desk.instance
            if states:
                letter.probability = probability
            if ends:
                letter.cancelled = delay > expiry
            elif not in_turn:
                letter.cancelled = 0
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
            due = t + min(wait, fixed.far)
            if not in_turn:
                post(slab, wheel, entry, due)
            if due <= horizon:
                desk.due_count += 1
                desk.due_sum += t

        if in_turn:
            wait = min(delay, expiry) if ends else delay
            following = natural((t - wait) & (len(slab) - 1)) if t > wait else -1
            if fetched and wait == 0:
                fetch(lane.came, 0, slab[following])
        else:
            following = take(slab, wheel, t)
        while following >= 0:
            entry = natural(following)
            letter = lane.came[0] if fetched else slab[entry]
            following = -1 if in_turn else letter.next
            told = natural(letter.action)
            about = counts[told]
            desk.outstanding -= 1
            desk.closed_sum += t
            desk.came_sum += letter.round
            shown = contexts[entry] if informs else context
            letters = slab
            if fetched:
                letters = lane.came
                entry = 0
            group = counts[cell(value_of(shown, values), told, count)] if values else about
            if values:
                pools[replication, value_of(shown, values)].open -= 1
            cancelled = ends and letter.cancelled != 0
            if ends and cancelled and fixed.has_default:
                desk.defaulted += letter.round >= about.since
                letter.cancelled = 0
                cancelled = False
                for i in range(len(letter.feedback)):
                    letter.feedback[i] = fixed.default
            keep = False
            if ends and cancelled:
                about.cancelled += 1
                if values:
                    group.cancelled += 1
                keep = release(
                    desk, rule, params, pool, marks, letters, contexts, shown, entry, replaced_or(letter, about)
                )
            elif announces and letter.round < about.since:
                about.dropped += 1
                if values:
                    group.dropped += 1
                keep = release(desk, rule, params, pool, marks, letters, contexts, shown, entry, -1)
            else:
                about.observed += 1
                if values:
                    group.observed += 1
                keep = deliver(desk, rule, params, pool, marks, letters, contexts, shown, entry)
            if in_turn and keep:
                return BAD_KEEPING
            if not in_turn and not keep:
                letter.next = desk.free
                desk.free = entry

        if t == desk.until:
            if t == written.checkpoints[natural(desk.checkpoint)]:
                written.regret[replication, desk.checkpoint] = regret_of(played.regret, game_params, memory)
                desk.checkpoint += 1
            if desk.checkpoint < len(written.checkpoints):
                desk.until = written.checkpoints[natural(desk.checkpoint)]
        desk.round = t
        return DONE if t == fixed.horizon else PLAYED

    return Round(kernel(choose_step), kernel(settle_step))
