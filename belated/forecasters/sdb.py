"""SDB: the base behind its queues, and a second instance that is told at once, as far as the first can follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from belated import require
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.direct import check_told_late
from belated.forecasters.process import MOST
from belated.forecasters.qpmd import QPMD, append
from belated.forecasters.room import Kernels, Letter, Parts, Room, Seat
from belated.kernels.compile import kernel
from belated.kernels.values import value_of
from belated.theory.theorems import SdbTheorem

if TYPE_CHECKING:
    from belated.theory.case import Case, Counts
    from belated.theory.theorems import Theorem


class SDB(QPMD):
    """Stochastic delayed bandits: QPM-D's base is kept supplied, and a heuristic plays.

    Instance 0 stands behind QPM-D's queues and asks for an action I whose queue is empty. Instance 1, of the same
    learner, is told of all feedback at once and would play J. J is played if it is I, or if less of its feedback waits
    or is out than of I's; else I. So no action gets ahead of what the base asks for by more than G* + 1, and for i.i.d.
    rewards E R_n <= E R^base_n + sum_i Delta_i (E G*_n + 1).

    `prior`: rewards known before, as pairs (action, reward), in the same range as the feedback to come (`reward_range`,
    if that is given). They are put into the queues and told to instance 1; with them no bound is stated.

    The probability of a decision is that of the query that is played; it is not a propensity.

    After Mandel, Liu, Brunskill, Popovic, *The Queue Method: Handling Delay, Heuristics, Prior Data, and Evaluation in
    Bandits*, AAAI 2015; the rule and the bound as stated here are belated's.

    >>> import belated as bl
    >>> f = bl.SDB(bl.UCB1(actions=2), prior=[(0, 1.0), (1, 0.0)])
    >>> f.predict().action, f.instances, f.steps
    (0, 2, 3)
    """

    prior: Sequence[tuple[int, float]] = ()

    guarantee = "R_base(n) + sum_i gap_i (E G* + 1), i.i.d. rewards, without prior"
    seats = 2
    keeps_order = False
    numbers_letters = reads_probability = False
    wants = (
        "SDB's theorem allows delays that depend on the action, but not on rewards that are not in yet, and whether "
        "they do cannot be known while feedback is out."
    )
    formula = "regret ≤ f(n) + Σ gap · (G* + 1), where f(n) is the learner's bound without delay"
    about = (
        "SDB keeps feedback in a queue for each action until its first learner asks for that action. Its second "
        "learner is told at once, and plays as long as the first can follow."
    )

    def __post_init__(self) -> None:
        pairs = [_pair(place, each) for place, each in enumerate(require.sequence("prior", self.prior, least=0))]
        object.__setattr__(self, "prior", tuple(pairs))
        super().__post_init__()

    def _title(self) -> str:
        return "SDB"

    def check(self, learner: Any) -> None:
        super().check(learner)
        called = self._called()
        check_told_late("SDB", called, learner)
        if getattr(learner, "weighs", False):
            raise Unsupported(
                f"SDB cannot play {called}: its update uses the probability of a prediction, and actions are played "
                "that were not predicted"
            )
        if getattr(learner, "memo", 0):
            raise Unsupported(f"SDB cannot play {called}: it writes a memo for each prediction; use Direct or BOLD")
        if self.prior and getattr(learner, "counts_open", False):
            raise Unsupported(f"prior is for learners that do not count their open predictions, got {called}")
        for action, reward in self.prior:
            if not 0 <= action < learner.actions:
                raise InvalidArgument(f"prior names action {action}, outside 0..{learner.actions - 1}")
            if self._spec is None:
                continue
            if self._spec.feedback not in ("bandit", "any") or self._spec.context_size:
                raise Unsupported(f"prior is for learners of one reward without side information, got {called}")
            low, high = self.reward_range or (self._spec.smallest, self._spec.largest)
            if not low <= reward <= high:
                raise InvalidArgument(f"prior has a reward of {reward:g}, outside [{low:g}, {high:g}]")

    def layout(self) -> np.dtype[Any] | None:
        """As QPM-D's; and for each value and action how much of its feedback waits or is out."""
        held = [("action", "<i8"), ("probability", "<f8")]
        return np.dtype([("held", held, (self._values,)), ("ahead", "<i8", (self.queues(),))])

    def begin(self, room: Room) -> None:
        for action, reward in self.prior:
            feedback = reward if self._spec is None else np.array([self.scaled(reward)])
            letter = Letter(0, action, 1.0, None, 1, 0)
            room.push(action, letter, feedback)
            room.notes["ahead"][action] += 1
            room.seat(1).answer(letter, feedback)

    def choose(self, room: Room, context: Any) -> tuple[Seat, Any, float]:
        wanted, probability = self.query(room, context)
        second = room.seat(1)
        action, other = second.ask(context)
        first = self.value(context) * (self.actions or 0)
        ahead = room.notes["ahead"]
        if action != wanted and ahead[first + action] >= ahead[first + wanted]:
            action, other = wanted, probability
        ahead[first + action] += 1
        return second, action, other

    def consume(self, room: Room, queue: int) -> None:
        room.notes["ahead"][queue] -= 1

    def deliver(self, room: Room, letter: Letter, feedback: Any) -> None:
        room.seat(1).answer(letter, feedback)  # first: if a plain learner fails, nothing may be queued
        super().deliver(room, letter, feedback)

    def release(self, room: Room, letter: Letter) -> None:
        room.notes["ahead"][self.value(letter.context) * (self.actions or 0) + letter.action] -= 1
        room.seat(1).lost(letter)

    def identities(self, counts: Counts) -> dict[str, Any]:
        rows, steps = counts.cells, counts.summary["steps"]
        known = self._known()  # P_i
        # T_i - T'_i = S_i - P_i + what was lost - [i is asked for], where S_i is what waits or is out, P_i at first.
        # What is asked for is played or out, so S_i >= 1 then; a play of it makes S_i at most G* + 1, any other G*.
        ahead = rows["pulls"] - rows["base"]
        most = np.maximum(counts.summary["peak"].reshape(-1, *[1] * (ahead.ndim - 1)) - known, 0)
        within = (ahead >= -known) & (ahead <= most + rows["cancelled"])
        name = "0 <= T_i - T'_i <= G* (+ cancelled)"
        if self.prior:
            name = "-P_i <= T_i - T'_i <= max(G* - P_i, 0) (+ cancelled)"
        return {
            "n' <= n (+ prior)": (steps >= 1) & (steps <= counts.n + len(self.prior)),
            "n' = sum of T'_i": steps == counts.tally["base"].sum(axis=1),
            name: within.reshape(len(steps), -1).all(axis=1),
        }

    def _known(self) -> Any:
        """P_i: how much the prior has of each action."""
        return np.bincount(np.array([action for action, _ in self.prior], np.int64), minlength=self.actions or 0)

    def theorem(self, case: Case) -> Theorem | str:
        if self.prior:
            return "no bound is stated for SDB with a prior"
        if case.by_reward:
            return "the delays depend on the reward, which SDB's theorem excludes"
        if case.means is None:
            return "SDB has a bound for i.i.d. rewards only, of which the game states the means"
        if not case.has_base:
            return f"{type(case.learner).__name__} has no known bound without delay"
        return SdbTheorem(case.learner, case.means, case.peak, scale=case.scale)

    def params(self) -> dict[str, Any]:
        """The prior as it was given; and its rewards action after action, with where those of each begin."""
        given = [action for action, _ in self.prior]
        told = [(action, float(self.scaled(reward))) for action, reward in self.prior]
        sorted_ = sorted(told, key=lambda pair: pair[0])  # of each action in the order given
        return {
            "given": np.array([*given, 0]),
            "rewards": np.array([*(reward for _, reward in told), 0.0]),
            "first": np.concatenate([[0], np.cumsum(self._known())]),
            "queued": np.array([*(reward for _, reward in sorted_), 0.0]),
            "count": len(given),
        }

    def kernels(self, parts: Parts) -> Kernels:
        ask, tell, answer, lost, values = parts.ask, parts.tell, parts.answer, parts.lost, parts.values

        # One block of marks for each value of the side information: the action held, the bits of its probability, then
        # for each action the first and the last entry of its queue, how much waits or is out, the next of its prior.
        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            pool[1] = blank[0]
            desk.instances = 2
            for i in range(len(marks)):
                marks[i] = -1
            size = 2 + 4 * desk.actions
            for value in range(max(1, values)):
                for action in range(desk.actions):
                    at = value * size + 2 + 4 * action
                    marks[at + 2] = rule.first[action + 1] - rule.first[action]
                    marks[at + 3] = rule.first[action]
            for i in range(rule.count):
                tell(params, pool[1], context, 0, rule.given[i], 1.0, rule.rewards[i : i + 1])

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            state = pool[0]
            value = value_of(context, values)
            block = value * (2 + 4 * desk.actions)
            held = marks[block]
            probability = np.int64(marks[block + 1]).view(np.float64)
            desk.instance = 0
            while True:
                if held >= 0:
                    at = block + 2 + 4 * held
                    entry = marks[at]
                    known = marks[at + 3]
                    if known < rule.first[held + 1]:
                        marks[at + 3] += 1
                        feedback = rule.queued[known : known + 1]
                        tell(params, state, context, state.predictions, held, probability, feedback)
                    elif entry >= 0:
                        letter = slab[entry]
                        marks[at] = letter.next
                        tell(params, state, context, state.predictions, held, probability, letter.feedback)
                        letter.next = desk.free
                        desk.free = entry
                    else:
                        break
                    marks[at + 2] -= 1
                    marks[block] = -1
                held, probability = ask(params, state, context, 0, k0, k1)
                if not (0 <= held < desk.actions and 0.0 < probability <= MOST):
                    return held, probability
                probability = min(probability, 1.0)
                marks[block] = held
                marks[block + 1] = np.float64(probability).view(np.int64)
                desk.steps += 1
                tally[held].base += 1
                if values:
                    tally[(1 + value) * desk.actions + held].base += 1
            desk.instance = 1
            action, other = ask(params, pool[1], context, 1, k0, k1)
            if not (0 <= action < desk.actions and 0.0 < other <= MOST):
                return action, other
            ahead = block + 4
            if action != held and marks[ahead + 4 * action] >= marks[ahead + 4 * held]:
                action, other = held, probability
            marks[ahead + 4 * action] += 1
            return action, other

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            letter = slab[entry]
            answer(params, pool[1], context, letter)
            block = value_of(context, values) * (2 + 4 * desk.actions)
            append(slab, marks, block + 2 + 4 * letter.action, entry)
            return True

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            letter = slab[entry]
            block = value_of(context, values) * (2 + 4 * desk.actions)
            marks[block + 4 + 4 * letter.action] -= 1
            lost(params, pool[1], context, letter.round, letter, action)
            return False

        def back(desk, marks):
            pass

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), kernel(back), parts.replace)

    def marks(self, instances: int) -> int:
        return (2 + 4 * (self.actions or 0)) * self._values


def _pair(place: int, given: Any) -> tuple[int, float]:
    pair = require.sequence(f"prior[{place}]", given, least=2)
    if len(pair) != 2:
        raise InvalidArgument(f"prior[{place}] must be (action, reward), got {given!r}")
    return require.integer(f"the action of prior[{place}]", pair[0]), require.real(
        f"the reward of prior[{place}]", pair[1]
    )
