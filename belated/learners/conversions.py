"""Conversions: only what is bought is reported, and late."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel, routine
from belated.kernels.elementary import log
from belated.kernels.kl import poisson_limit, poisson_upper, poisson_within
from belated.kernels.scratch import local
from belated.kernels.ties import MARGIN, largest_among, largest_index
from belated.learners.thompson import drawn
from belated.protocols import Learner

RULES = ("ts", "kl", "ucb")
#: How many parts of the window are gone through side by side, and what is left over.
LANES = 8
PARTS = LANES + 1
#: An action of which less should be here is as one that was never played.
LEAST = 1e-9
#: What covers the rounding of an index.
SLACK = 1e-11


@dataclass(frozen=True)
class Conversions(Learner):
    """For sales: a feedback above 0 comes late or never, and nobody says that there will be none.

    What has not come is weighed by how much of it should be here. A prediction of age a (0: the last one) counts
    F(a), the share of sales that come with a delay of at most a; N~ is the sum over an action's predictions, S that of
    its feedback, and S / N~ estimates its rate of sales. A sale that comes `window` predictions late, or later, is not
    counted, and F(a) = F(window - 1) from there on. Feedback 0 changes nothing, so it may be left out.

    | `rule` | plays the largest |
    |---|---|
    | `"ts"` | number drawn from Beta(1 + S, 1 + max(N~ - S, 0)), with the probability of `ThompsonBernoulli` |
    | `"kl"` | q in [S / N~, 1] with N~ (m ln(m / q) + q - m) <= ln t, m = S / N~ |
    | `"ucb"` | S / N~ + sqrt((N / N~) ln t / (2 N~)), N the predictions of the action |

    By the last two an action is played next of which less than 1e-9 should be here. `cdf` is F(0), ..., F(window - 1)
    if it is known. Else F is learned from the delays of all sales, relative to the window: from F(window - 1) = 1
    down, F(d - 1) = F(d) (1 - at_d / (below_d + 1)). There at_d is the number of sales with delay d, and below_d the
    number with a delay of at most d of predictions that are at least d old. That takes delays that do not depend on
    the action.

    Vernade, Cappe, Perchet, *Stochastic bandit models for delayed conversions*, 2017, for a known F; no bound here.

    >>> import belated as bl
    >>> f = bl.Direct(bl.Conversions(actions=2, window=100), seed=1)
    >>> shown = [f.predict() for _ in range(50)]
    >>> for d in shown:
    ...     if d.action == 1:
    ...         f.update(d.ticket, 1.0)
    >>> sum(f.predict().action for _ in range(20))
    20
    """

    guarantee = "none stated"
    version = 2  # products of the window are on the stack, not in the state; what it plays is the same
    lets_go = True
    actions: int
    window: int
    cdf: tuple[float, ...] | None = None
    rule: Literal["ts", "kl", "ucb"] = "ts"

    def __post_init__(self) -> None:
        require.integer("actions", self.actions, low=1)
        require.integer("window", self.window, low=1)
        require.one_of("rule", self.rule, RULES)
        if self.cdf is not None:
            object.__setattr__(self, "cdf", self._checked(require.reals("cdf", self.cdf, low=0, high=1)))

    def _checked(self, cdf: tuple[float, ...]) -> tuple[float, ...]:
        if len(cdf) != self.window:
            raise InvalidArgument(f"cdf must have {self.window} numbers, F(0) to F(window - 1), got {len(cdf)}")
        for age in range(1, self.window):
            if cdf[age] < cdf[age - 1]:
                raise InvalidArgument(f"cdf must not fall, but F({age}) is {cdf[age]}, after {cdf[age - 1]}")
        return cdf

    @classmethod
    def example(cls) -> Conversions:
        """Three actions, a window of 30."""
        return cls(3, 30)

    @property
    def keeps(self) -> int:  # type: ignore[override]
        return self.window

    def layout(self) -> np.dtype[Any]:
        k, learned = (self.actions,), (self.window if self.cdf is None else 1,)
        return np.dtype(
            [
                ("total", "f8", k),  # S
                ("mass", "f8", k),  # N~
                ("index", "f8", k),
                ("old", "f8", k),  # predictions that are older than the window
                ("predicted", "i8", k),
                ("part", "f8", (PARTS, self.actions + 1)),
                ("action", "u4", (2 * self.window,)),  # of the last predictions, from 1: see `enter`
                ("ratio", "f8", (self.window,)),  # F(d - 1) / F(d)
                ("sales", "i8"),  # how many sales there were of the predictions in the window
                ("sold", "i8", learned),  # and of which predictions
                ("at", "f8", learned),
                ("below", "f8", learned),
            ]
        )

    def params(self) -> dict[str, Any]:
        top = 1.0 if self.cdf is None else self.cdf[-1]
        return {"learns": int(self.cdf is None), "top": top, "rule": RULES.index(self.rule)}

    def start(self, state: Any) -> None:
        cdf = np.ones(self.window) if self.cdf is None else np.array(self.cdf)
        above = cdf[1:] > 0
        state["ratio"][:] = 1.0
        state["ratio"][1:][above] = cdf[:-1][above] / cdf[1:][above]

    @staticmethod
    def migrate(version: int, old: Any, state: Any) -> None:
        for name in state.dtype.names:
            state[name] = old[name]

    @staticmethod
    def predict(params, state, context, draw):
        actions = range(len(state.total))
        weigh(params, state, actions)
        if params.rule == 0:
            action, probability = drawn(params, state.total, state.index, draw, actions)
        else:
            action, probability = largest_index(state.index, state.predicted), 1.0
        go_on(state, action)
        return action, probability

    @staticmethod
    def predict_among(params, state, context, allowed, draw):
        weigh(params, state, allowed)
        if params.rule == 0:
            action, probability = drawn(params, state.total, state.index, draw, allowed)
        else:
            action, probability = largest_among(state.index, state.predicted, allowed), 1.0
        go_on(state, action)
        return action, probability

    @staticmethod
    def update(params, state, context, action, probability, feedback):
        delay = state.predictions - state.answering
        if delay >= len(state.ratio):
            return
        enter(state, state.answering, action)  # a forecaster may have played another than was predicted here
        if feedback[0] > 0.0:
            state.total[action] += feedback[0]
            if params.learns == 1 and state.sales < len(state.sold):
                state.at[delay] += 1.0
                state.sold[state.sales] = state.answering
                state.sales += 1


@kernel
def enter(state, number, action):
    """Enter the action of a prediction, twice, so that ages run on without a break; return which it had before.

    The prediction before stands behind it: age runs upwards.
    """
    window = len(state.ratio)
    place = (window - number % window) % window
    before = state.action[place]
    state.action[place] = action + 1
    state.action[window + place] = action + 1
    return before


@kernel
def go_on(state, action):
    """The action is predicted, in the place of what is a window old."""
    state.predicted[action] += 1
    before = enter(state, state.predictions, action)
    if before > 0:
        state.old[before - 1] += 1.0


@kernel
def weigh(params, state, actions):
    """N~ of every action, and the index of those that may be played (by "ts": as many tries as its draw takes)."""
    if params.learns == 1:
        learn(state)
    add_up(params, state)
    level = log(float(state.predictions))
    for i in actions:
        if params.rule == 0:
            state.index[i] = max(state.mass[i], state.total[i])
        elif state.mass[i] <= LEAST:
            state.index[i] = math.inf
        elif params.rule == 1:
            state.index[i] = poisson_limit(rate(state, i), level / state.mass[i])
        else:
            spread = float(state.predicted[i]) / state.mass[i] * level / (2.0 * state.mass[i])
            state.index[i] = state.total[i] / state.mass[i] + math.sqrt(spread)
    if params.rule == 1:
        solve(state, level, actions)


@kernel
def rate(state, i):
    """The estimate of an action's rate of sales."""
    return min(state.total[i] / state.mass[i], 1.0)


@kernel
def solve(state, level, actions):
    """From bounds of the indices by "kl" the indices; where a bound says that an action is not played, it stays.

    The one with the largest bound is solved first. Which others come near it one logarithm tells, where solving takes
    several.
    """
    first = -1
    for i in actions:
        if first < 0 or state.index[i] > state.index[first]:
            first = i
    if state.index[first] < math.inf:
        state.index[first] = poisson_upper(rate(state, first), level / state.mass[first])
    best = state.index[first]
    for i in actions:
        near = best - MARGIN - SLACK
        if i != first and near <= state.index[i] < math.inf:
            mean, budget = rate(state, i), level / state.mass[i]
            state.index[i] = near
            if near <= mean or poisson_within(mean, near, budget):
                state.index[i] = poisson_upper(mean, budget)
                best = max(best, state.index[i])


@kernel
def learn(state):
    """All sales are one prediction older: count each at its age, where the ratio is another now."""
    last = len(state.ratio) - 1
    i = 0
    while i < state.sales:
        age = state.predictions - 1 - state.sold[i]
        state.below[age] += 1.0
        state.ratio[age] = 1.0 - state.at[age] / (state.below[age] + 1.0)
        if age < last:
            i += 1
        else:  # it has come to the end of the window
            state.sales -= 1
            state.sold[i] = state.sold[state.sales]


@routine
def add_up(params, state):
    """N~ of every action: the predictions of each age times F of the age, from the oldest to the youngest.

    F is a product from the top down. The window is cut into parts whose products are taken side by side, each from 1,
    and put together at the end: alone each step would wait for the one before.
    """
    window = len(state.ratio)
    size = window // LANES
    start = (window - (state.predictions - 1) % window) % window
    start = max(start, 0)  # so that compiled code need not look whether an index is below 0
    product = local(PARTS)
    for lane in range(PARTS):
        product[lane] = 1.0
        for i in range(len(state.mass) + 1):
            state.part[lane, i] = 0.0
    for age in range(window - 1, LANES * size - 1, -1):  # what is left over
        state.part[LANES, state.action[start + age]] += product[LANES]
        product[LANES] *= state.ratio[age]
    for step in range(size - 1, -1, -1):
        for lane in range(LANES):
            age = lane * size + step
            state.part[lane, state.action[start + age]] += product[lane]
            product[lane] *= state.ratio[age]
    whole = params.top
    for i in range(len(state.mass)):
        state.mass[i] = whole * state.old[i]
    for lane in range(LANES, -1, -1):
        for i in range(len(state.mass)):
            state.mass[i] += whole * state.part[lane, i + 1]
        whole *= product[lane]
