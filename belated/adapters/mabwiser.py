"""MABWiser: its bandits under delay, and our learners in the shape of its `MAB`.

    f = bl.BOLD(bl.adapters.mabwiser.bandit(MAB([1, 2, 3], LearningPolicy.UCB1())))

**A fitted `MAB` is taken along**: every copy (under BOLD each instance, however late it is made) starts from what it
knew when it was given, and goes by its policy from the first prediction. `fresh=True`: from nothing.

What cannot hold:

* A `MAB` predicts nothing before it is fitted, and most policies never try an arm of which they know nothing (UCB1
  among them: its index is 0 then). So a copy plays the arms in order first: as long as one has no reward, the arm
  without a reward that was played least, then the first of those. Neighbourhoods need more: `KNearest` k rewards,
  `Clusters` one a cluster. What came until then is fitted at once, all later rewards one by one.
* MABWiser does not tell with which probability an arm was chosen: decisions say NaN, and are of no use for off-policy
  estimates. (Nor can it be told from `predict_expectations`, which draws again.)
* None of its policies keeps anything from `predict` for `partial_fit`, so Direct takes them all. Of a policy of your
  own that does, say so with `tolerates_delay=False`: Direct refuses it then, BOLD plays it.
* Neighbourhoods keep all rewards and look through them each time; `Clusters` starts over with each reward.
* Nothing takes weights here.
* The `MAB` here is no subclass of MABWiser's: its `Simulator`, which looks inside, does not take it.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np
from mabwiser import mab as mabwiser

from belated import require
from belated.adapters.copies import Copies, copied, seed_of, weighed
from belated.adapters.rewards import UNIT, limits_of, scaled
from belated.errors import InvalidArgument, UnknownTicket, Unsupported
from belated.forecasters import BOLD, Forecaster
from belated.protocols import Learner, PlainLearner


def bandit(mab: mabwiser.MAB, *, fresh: bool = False, tolerates_delay: bool = True) -> Copies:
    """A `MAB` as a learner: `predict` to predict, `partial_fit` to learn. Actions are the numbers of its arms, from 0.

    Contexts are rows of numbers where its policies look at them; others are refused one. What the `MAB` has learned is
    taken along, by every copy, unless `fresh`.

    >>> import belated as bl
    >>> from mabwiser.mab import MAB, LearningPolicy
    >>> f = bl.BOLD(bl.adapters.mabwiser.bandit(MAB(["left", "right"], LearningPolicy.UCB1(alpha=1.25), seed=1)))
    >>> for _ in range(10):
    ...     d = f.predict()
    ...     f.update(d.ticket, float(d.action == 1))
    >>> f, d.action
    (BOLD(mabwiser.bandit(UCB1)), 1)
    """
    if not isinstance(mab, mabwiser.MAB):
        raise InvalidArgument(f"mab must be a MAB of MABWiser, got {mab!r}")
    policies = [
        type(policy).__name__ for policy in (mab.learning_policy, mab.neighborhood_policy) if policy is not None
    ]
    if require.boolean("fresh", fresh):
        given = (mab.arms.copy(), mab.learning_policy, mab.neighborhood_policy, mab.seed, mab.n_jobs, mab.backend)
        mab = mabwiser.MAB(*given)
    make = partial(_Bandit, copied(mab), require.boolean("tolerates_delay", tolerates_delay))
    return Copies(f"mabwiser.bandit({', '.join(policies)})", make)


class _Bandit:
    """A copy of a `MAB` as a plain learner. Until it can be fitted it keeps what it was told."""

    states_probability = False

    def __init__(self, mab: Any, tolerates_delay: bool, number: int) -> None:
        self.mab: Any = copied(mab, number, mab._rng)
        self.mab.seed = seed_of(mab.seed, number)
        arms, neighborhood = mab.arms.copy(), mab.neighborhood_policy
        self.arms: list[Any] = arms
        self.actions: int | None = len(arms)
        self.tolerates_delay = tolerates_delay
        self.numbers = {arm: number for number, arm in enumerate(arms)}
        self.needed = max(getattr(neighborhood, "k", 1), getattr(neighborhood, "n_clusters", 1))
        self.fitted = bool(mab._is_initial_fit)
        self.told: list[tuple[int, Any, Any]] = []
        self.rewards = [0] * len(arms)
        self.plays = [0] * len(arms)

    def predict(self, context: Any) -> tuple[int, float]:
        row = self._row(context)
        if self.fitted:
            return self.numbers[self.mab.predict(row)], math.nan
        every = range(len(self.arms))
        lacking = [action for action in every if not self.rewards[action]] or every
        action = min(lacking, key=self.plays.__getitem__)
        self.plays[action] += 1
        return action, math.nan

    def update(self, context: Any, action: int, probability: float, feedback: Any) -> None:
        row = self._row(context)
        weighed(type(self.mab.learning_policy).__name__, feedback, takes=False)
        if self.fitted:
            self.mab.partial_fit([self.arms[action]], [feedback], row)
            return
        told = [*self.told, (action, feedback, row)]
        if len(told) >= self.needed and all(n or i == action for i, n in enumerate(self.rewards)):
            actions, rewards, rows = zip(*told, strict=True)
            decisions = [self.arms[number] for number in actions]
            self.mab.fit(decisions, list(rewards), None if row is None else np.concatenate(rows))
            self.fitted, told = True, []
        self.rewards[action] += 1
        self.told = told

    def _row(self, context: Any) -> Any:
        """A context as MABWiser takes it."""
        if not self.mab.is_contextual:
            if context is not None:
                raise InvalidArgument(f"{type(self.mab.learning_policy).__name__} looks at no context, got {context!r}")
            return None
        try:
            row = np.asarray(context, dtype=np.float64).reshape(1, -1)
        except (TypeError, ValueError):
            row = np.zeros((1, 0))
        if context is None or row.size == 0 or not np.isfinite(row).all():
            raise InvalidArgument(f"{type(self.mab.learning_policy).__name__} needs a row of numbers, got {context!r}")
        return row


class MAB:
    """Our learner, or a forecaster over one, in the shape of MABWiser's `MAB`: for code that fits and predicts.

    `arms` names the learner's actions. Over a learner it is BOLD that plays.

    * `predict(contexts)` gives an arm, or for several contexts a list of arms. It need not be fitted before.
    * `partial_fit(decisions, rewards, contexts)` hands in rewards, in any order and as late as you like. MABWiser has
      no tickets: each answers the oldest open prediction of that arm, in that context.
    * `fit(decisions, rewards, contexts)` starts afresh and replays a history: for each row a prediction is made; where
      it is what was decided then, the reward is learned from, else the prediction is cancelled. Learners learn from
      their own choices only. `fit([], [])` only starts afresh. With a seed it draws the same again.
    * `predict_expectations()` gives the mean reward so far of each arm that has one, as it was handed in. In a context
      there is none: our learners do not say what they expect there.

    `reward_range`: the least and the greatest reward that can come. Our learners take rewards in [0, 1], and are told
    where in that range a reward lies.

    Predictions that are never answered stay open, and under BOLD keep an instance each: `cancel()` ends all of them.

    >>> import belated as bl
    >>> mab = bl.adapters.mabwiser.MAB(bl.UCB1(actions=2), arms=["left", "right"])
    >>> mab.fit(["left", "right", "right", "left"], [0, 1, 1, 0])
    >>> mab.predict()
    'right'
    >>> mab.partial_fit(["right"], [1])
    >>> mab = bl.adapters.mabwiser.MAB(bl.UCB1(actions=2), arms=["left", "right"], reward_range=(0, 50))
    >>> mab.fit(["left", "right"], [20, 17])
    >>> mab.predict_expectations()
    {'left': 20.0, 'right': 17.0}
    """

    def __init__(
        self,
        forecaster: Forecaster | Learner | Callable[..., PlainLearner],
        arms: Sequence[Any],
        seed: int | None = None,
        reward_range: tuple[float, float] = UNIT,
    ) -> None:
        given = forecaster if isinstance(forecaster, Forecaster) else BOLD(forecaster, seed=seed)
        self.arms: list[Any] = list(require.sequence("arms", arms))
        if given.actions != len(self.arms) or len(set(self.arms)) != len(self.arms):
            raise InvalidArgument(f"arms must be the names of {given.actions} actions, got {self.arms!r}")
        if getattr(given.learner, "feedback", "bandit") not in ("bandit", "any"):
            raise InvalidArgument(f"a MAB is told one reward a decision, got {given!r}, which learns from more")
        self.seed = given.seed if seed is None else seed
        self.reward_range = limits_of(reward_range)
        self._given = given
        self._numbers = {arm: number for number, arm in enumerate(self.arms)}
        self._begin()

    def fit(self, decisions: Sequence[Any], rewards: Sequence[Any], contexts: Any = None) -> None:
        """Start afresh and replay a history."""
        rows = self._rows(decisions, rewards, contexts)
        self._begin()
        for action, reward, context in rows:
            ticket, chosen, _ = self._forecaster.predict(context)
            if chosen == action:
                self._learn(ticket, action, reward)
            else:
                self._forecaster.cancel(ticket)

    def partial_fit(self, decisions: Sequence[Any], rewards: Sequence[Any], contexts: Any = None) -> None:
        """Hand in rewards; nothing is learned if one of them answers no open prediction."""
        rows = self._rows(decisions, rewards, contexts)
        wanted: defaultdict[Any, int] = defaultdict(int)
        for action, _, context in rows:
            wanted[action, _key(context)] += 1
            if wanted[action, _key(context)] > len(self._open.get((action, _key(context)), ())):
                where = "" if context is None else f" in the context {context!r}"
                raise UnknownTicket(f"arm {self.arms[action]!r} has no open prediction{where}")
        for action, reward, context in rows:
            key = action, _key(context)
            self._learn(self._open[key][0], action, reward)
            self._open[key].popleft()
            if not self._open[key]:
                del self._open[key]

    def predict(self, contexts: Any = None) -> Any:
        """An arm, or a list of arms for several contexts."""
        chosen = []
        for context in self._contexts(contexts, 1):
            ticket, action, _ = self._forecaster.predict(context)
            self._open[action, _key(context)].append(ticket)
            chosen.append(self.arms[action])
        return chosen[0] if len(chosen) == 1 else chosen

    def predict_expectations(self, contexts: Any = None) -> dict[Any, float]:
        """The mean reward so far, of each arm that has one."""
        if contexts is not None or self._contextual:
            raise Unsupported(f"{self._forecaster!r} does not say what it expects in a context")
        return {self.arms[action]: total / count for action, (total, count) in sorted(self._sums.items())}

    def cancel(self) -> None:
        """End all open predictions without rewards."""
        for tickets in self._open.values():
            for ticket in tickets:
                self._forecaster.cancel(ticket)
        self._open.clear()

    @property
    def outstanding(self) -> int:
        """How many predictions are open."""
        return self._forecaster.outstanding

    def add_arm(self, arm: Any, *args: Any) -> NoReturn:
        """Refused: a learner is made for a number of actions."""
        raise Unsupported(
            f"arm {arm!r} cannot be added: {self._forecaster!r} is made for {len(self.arms)} actions, and its state "
            "has room for no more; make one for as many as there may be"
        )

    def remove_arm(self, arm: Any) -> NoReturn:
        """Refused, for the same reason."""
        raise Unsupported(f"arm {arm!r} cannot be removed: {self._forecaster!r} is made for {len(self.arms)} actions")

    def __repr__(self) -> str:
        return f"MAB({self._forecaster!r}, {self.arms!r})"

    def _begin(self) -> None:
        self._forecaster = self._given.fresh(seed=self.seed)
        self._contextual = False
        self._open: defaultdict[Any, deque[int]] = defaultdict(deque)
        self._sums: dict[int, tuple[float, int]] = {}

    def _learn(self, ticket: int, action: int, reward: Any) -> None:
        self._forecaster.update(ticket, scaled(self._forecaster, reward, self.reward_range))
        total, count = self._sums.get(action, (0.0, 0))
        self._sums[action] = total + float(reward), count + 1

    def _rows(self, decisions: Any, rewards: Any, contexts: Any) -> list[tuple[int, Any, Any]]:
        """Actions, rewards and contexts, one of each a row."""
        require.sequence("decisions", decisions, least=0)
        require.sequence("rewards", rewards, least=0)
        rows = self._contexts(contexts, len(decisions))
        if not len(decisions) == len(rewards) == len(rows):
            counts = f"{len(decisions)}, {len(rewards)} and {len(rows)}"
            raise InvalidArgument(f"decisions, rewards and contexts must be as many, got {counts}")
        for arm in decisions:
            if arm not in self._numbers:
                raise InvalidArgument(f"decisions must be among {self.arms!r}, got {arm!r}")
        for reward in rewards:
            scaled(self._given, reward, self.reward_range)
        return [(self._numbers[arm], reward, row) for arm, reward, row in zip(decisions, rewards, rows, strict=True)]

    def _contexts(self, contexts: Any, count: int) -> list[Any]:
        """One context a row; if there are none, so many times none."""
        if contexts is None:
            return [None] * count
        try:
            rows = np.asarray(contexts, dtype=np.float64)
        except (TypeError, ValueError):
            rows = np.zeros(0)
        if rows.ndim != 2:
            raise InvalidArgument(f"contexts must be rows of numbers, got {contexts!r}")
        self._contextual = True
        return list(rows)


def _key(context: Any) -> Any:
    """What says that two contexts are the same."""
    return None if context is None else context.tobytes()
