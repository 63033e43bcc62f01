"""The same play in plain Python, for learners of any kind: the readable form of the loop, and its oracle."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from belated.engine.workspace import Setting, Tables, bad_context, check_told
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.random import key_of
from belated.protocols import NEVER, Learner

#: Progress is told about every so many rounds.
TELL = 200


def play_plainly(setting: Setting, tables: Tables, replication: int, tick: Callable[[int], bool]) -> None:
    """Play one replication with the forecaster's Python form, and fill its row of the tables."""
    game, law, rounds = setting.game, setting.delays, setting.rounds
    forecaster = setting.forecaster.fresh(seed=setting.seed, replication=replication)
    object.__setattr__(forecaster, "_translates", False)  # games give what kernels take
    outcome, regret, delay_of = kernel(game.outcome), kernel(game.regret), kernel(law.kernel)
    event = kernel(game.event) if game.announces else None
    observe = kernel(game.observe) if game.context_size else None
    k0, k1 = key_of(setting.seed, replication)
    params, memory, law_params = game.params(), np.zeros(game.memory()), law.params()
    size, point = game.feedback_size, game.point_size
    vector = np.zeros(max(size, point))
    # One row of counts for all, and one for each value of the side information.
    values = getattr(setting.forecaster.learner, "values", 0)
    pulls, observed, cancelled, dropped, peaks = (np.zeros((values + 1, game.actions), np.int64) for _ in range(5))
    pools = {name: np.zeros(values, np.int64) for name in tables.pools.dtype.names}
    due: defaultdict[int, list[tuple[int, Any, Any, bool]]] = defaultdict(list)
    counts = dict.fromkeys(("due_count", "due_sum", "came_count", "came_sum", "total", "defaulted"), 0)
    checkpoint = 0
    for t in range(1, rounds + 1):
        where = f"in round {t} of replication {replication}"
        np.maximum(peaks, pulls - observed - cancelled - dropped, out=peaks)
        context = _seen(setting, observe, params, memory, (k0, k1), t)
        if setting.context_limit < math.inf and not (np.abs(context) <= setting.context_limit).all():
            raise bad_context(setting, context, where)
        if event is not None:
            replaced = int(event(params, memory, k0, k1, t))
            if replaced >= game.actions:
                raise InvalidArgument(f"{game!r} replaced action {replaced}, outside 0..{game.actions - 1}, {where}")
            if replaced >= 0:
                forecaster.replace(replaced)
        before = forecaster.instances
        counts["total"] += forecaster.outstanding
        decision = forecaster.predict(context)
        action = 0 if point else decision.action
        cell = ([0, 1 + int(context[0])] if values else [0], action)
        pulls[cell] += 1
        if values:
            value = int(context[0])
            pools["rounds"][value] += 1
            pools["peak"][value] = max(pools["peak"][value], pools["open"][value])
            pools["open"][value] += 1
            pools["instances"][value] += forecaster.instances - before
        if point:
            vector[:point] = decision.action
        reward = float(outcome(params, memory, k0, k1, t, action, vector))
        told = (reward,) if law.depends_on_reward else ()
        looks = law.depends_on_action or law.depends_on_reward
        delay = int(delay_of(law_params, k0, k1, t, action if looks else 0, *told))
        if delay < 0:
            raise InvalidArgument(f"{law!r} gave a delay below 0, {where}")
        check_told(setting, vector[:size], where)
        if setting.record:
            (tables.points if point else tables.actions)[replication, t - 1] = decision.action
            tables.delays[replication, t - 1] = delay
            tables.probabilities[replication, t - 1] = decision.probability
        wait = min(delay, setting.expiry)
        if wait < NEVER:
            expires = delay > setting.expiry
            given = vector[:size] if not expires else None if setting.default is None else np.array([setting.default])
            feedback = None if given is None else _told(setting, action, given)
            due[t + wait].append((decision.ticket, cell, feedback, expires))
            if t + wait <= rounds:
                counts["due_count"] += 1
                counts["due_sum"] += t
        for ticket, cell, feedback, expired in due.pop(t, []):
            counts["came_count"] += 1
            counts["came_sum"] += ticket
            if values:
                pools["open"][cell[0][1] - 1] -= 1
            if feedback is None:
                forecaster.cancel(ticket)
                cancelled[cell] += 1
            else:
                gone = forecaster.dropped
                forecaster.update(ticket, feedback)
                lost = forecaster.dropped > gone
                (dropped if lost else observed)[cell] += 1
                counts["defaulted"] += expired and not lost
        if t == setting.checkpoints[checkpoint]:
            tables.regret[replication, checkpoint] = regret(params, memory)
            checkpoint += 1
        if t % TELL == 0 and not tick(TELL):
            return
    tick(rounds % TELL)
    row = tables.whole[replication]
    counted = {"pulls": pulls, "observed": observed, "cancelled": cancelled, "dropped": dropped, "peak": peaks}
    for name, counts_of in counted.items():
        row[name] = counts_of.ravel()
    summary = tables.summary[replication]
    summary["peak"], summary["outstanding"] = forecaster.peak, forecaster.outstanding
    summary["instances"] = forecaster.instances
    room = forecaster._room
    if room.asked is not None:
        summary["steps"] = sum(room.asked)
        asked = np.reshape(room.asked, (-1, game.actions))
        row["base"] = np.concatenate([asked.sum(axis=0), *(asked if values else ())])
    for name, numbers in pools.items():
        tables.pools[replication][name] = numbers
    for name, value in counts.items():
        summary[name] = value


def _seen(setting: Setting, observe: Any, params: Any, memory: Any, key: Any, round_: int) -> Any:
    """The side information that the forecaster is given: what the game shows, if the learner looks at it."""
    if observe is None:
        return None
    context = np.zeros(setting.game.context_size)
    observe(params, memory, *key, round_, context)
    learner = setting.forecaster.learner
    return None if isinstance(learner, Learner) and learner.context_size == 0 else context


def _told(setting: Setting, action: int, vector: Any) -> Any:
    """What `update` is given: rewards, or the symbol itself."""
    game, learner = setting.game, setting.forecaster.learner
    ignored = isinstance(learner, Learner) and learner.feedback == "any"
    if game.feedback == "symbol":
        return 0.0 if ignored else game.decode(action, float(vector[0]))
    if ignored and setting.forecaster.reward_range is None:
        return np.clip(vector, learner.smallest, learner.largest)  # it need not fit
    return vector.copy() if isinstance(learner, Learner) or game.feedback == "full" else float(vector[0])
