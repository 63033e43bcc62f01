"""The stochastic learners after 2013 a second time, from their texts: lists, sums over all that was told, no state."""

import math

from scipy.stats import beta as beta_law

from belated.kernels.compile import plain
from belated.kernels.random import learner_draw
from belated.kernels.sampling import beta
from tests.reference import Base


class Listed(Base):
    """Keeps every prediction (number: action) and all that was told (number, when, action, reward)."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = []
        self.predictions = {}
        self.told = []
        self.out = set()

    def choose(self):
        action, probability = self.pick()
        self.asked.append(action)
        self.predictions[self.t] = action
        return action, probability

    def update(self, action, probability, feedback, number):
        self.told.append((number, self.t, action, feedback))

    def predicted(self, i):
        return self.asked.count(i)

    def rewards(self, i):
        return [reward for _, _, action, reward in self.told if action == i]

    def largest(self, indices):
        tied = [i for i in range(self.actions) if indices[i] == max(indices) or indices[i] >= max(indices) - 1e-9]
        return min(tied, key=lambda i: (self.predicted(i), i)), 1.0

    def fewest(self, among):
        return min(among, key=lambda i: (self.predicted(i), i)), 1.0

    @property
    def active(self):
        return [i for i in range(self.actions) if i not in self.out]

    def sampled(self, pairs):
        """Thompson: the largest draw, and the chance that it exceeds the others."""
        draw, index, values = learner_draw(*self.key, self.t, self.instance), 0, []
        for a, b in pairs:
            value, index = plain(beta)(draw, index, a, b)
            values.append(value)
        action = values.index(max(values))
        others = [value for i, value in enumerate(values) if i != action]
        return action, float(beta_law.sf(max(others), *pairs[action])) if others else 1.0


class SuccessiveElimination(Listed):
    horizon, c, extra = 200, 2.0, 1.0

    def interval(self, i):
        rewards = self.rewards(i)
        if not rewards:
            return -math.inf, math.inf
        mean, width = sum(rewards) / len(rewards), math.sqrt(self.c * math.log(self.horizon) / len(rewards))
        return mean - width, mean + self.extra * width

    def pick(self):
        best = max(self.interval(i)[0] for i in self.active)
        self.out |= {i for i in self.active if self.interval(i)[1] < best}
        return self.fewest(self.active)


class OptimisticPessimistic(SuccessiveElimination):
    def interval(self, i):
        m = max(self.predicted(i), len(self.rewards(i)))
        if m == 0:
            return -math.inf, math.inf
        width, missing = math.sqrt(2 * math.log(self.horizon) / m), m - len(self.rewards(i))
        return sum(self.rewards(i)) / m - width, (sum(self.rewards(i)) + missing) / m + width


class PhasedElimination(Listed):
    horizon, phase = 200, 1

    def pick(self):
        while True:
            needed = math.ceil(8 * math.log(self.horizon) * 4**self.phase)
            lacking = [i for i in self.active if len(self.rewards(i)) < needed]
            if lacking:
                return self.fewest(lacking)
            means = {i: sum(self.rewards(i)) / len(self.rewards(i)) for i in self.active}
            self.out |= {i for i in means if means[i] + 2**-self.phase < max(means.values())}
            self.phase += 1


class PatientBandits(Listed):
    horizon, alpha = 200, 0.4

    def index(self, i):
        m = self.predicted(i)
        if m == 0:
            return math.inf
        wide = math.sqrt(2 * math.log(2 * self.actions * self.horizon**3) / m)
        return sum(self.rewards(i)) / m + wide + 2 * m ** -min(self.alpha, 0.5)

    def pick(self):
        return self.largest([self.index(i) for i in range(self.actions)])


class SlidingUCB(Listed):
    window = 20

    def index(self, i):
        recent = [reward for number, _, action, reward in self.told if action == i and self.t - number <= self.window]
        if not recent:
            return math.inf
        return sum(recent) / len(recent) + 2 * math.sqrt(0.6 * math.log(min(self.t, self.window)) / len(recent))

    def pick(self):
        return self.largest([self.index(i) for i in range(self.actions)])


class Discounted(Listed):
    discount = 0.95

    def sums(self, i):
        """The weighed sum of an action's rewards, and the sum of its weights. The last prediction has age 0."""
        own = [(self.discount ** (self.t - 1 - number), reward) for number, _, a, reward in self.told if a == i]
        return sum(weight * reward for weight, reward in own), sum(weight for weight, _ in own)


class DiscountedUCB(Discounted):
    def pick(self):
        sums = [self.sums(i) for i in range(self.actions)]
        level = 0.6 * math.log(max(1.0, sum(weight for _, weight in sums)))
        return self.largest([s / n + 2 * math.sqrt(level / n) if n > 0 else math.inf for s, n in sums])


class DiscountedThompson(Discounted):
    def pick(self):
        return self.sampled([(1 + s, max(1 + n - s, 1.0)) for s, n in map(self.sums, range(self.actions))])


class Conversions(Listed):
    window, cdf, rule = 30, None, "ts"

    def update(self, action, probability, feedback, number):
        if self.t - number < self.window:
            self.predictions[number] = action  # what was played
            if feedback > 0:
                super().update(action, probability, feedback, number)

    def law(self):
        """F(0), ..., F(window - 1)."""
        if self.cdf is not None:
            return self.cdf
        delays = [when - number for number, when, _, _ in self.told]
        ages = [self.t - 1 - number for number, _, _, _ in self.told]
        law = [1.0] * self.window
        for d in range(self.window - 1, 0, -1):
            at = delays.count(d)
            below = sum(delay <= d <= age for delay, age in zip(delays, ages, strict=True))
            law[d - 1] = law[d] * (1 - at / (below + 1))
        return law

    def pick(self):
        law, t = self.law(), self.t
        pairs = []
        for i in range(self.actions):
            ages = [t - 1 - s for s, action in self.predictions.items() if action == i]
            here = sum(law[min(age, self.window - 1)] for age in ages)
            pairs.append((sum(self.rewards(i)), here, self.predicted(i)))
        if self.rule == "ts":
            return self.sampled([(1 + s, max(1 + here - s, 1.0)) for s, here, _ in pairs])
        return self.largest([self.index(*pair) for pair in pairs])

    def index(self, s, here, plays):
        if here <= 1e-9:
            return math.inf
        if self.rule == "ucb":
            return s / here + math.sqrt(plays / here * math.log(self.t) / (2 * here))
        return poisson_upper(min(s / here, 1.0), math.log(self.t) / here)


def poisson_upper(mean, budget):
    """The largest q in [mean, 1] with mean ln(mean / q) + q - mean <= budget, by halving."""

    def fits(q):
        return q - mean - (mean * math.log1p((q - mean) / mean) if mean > 0 else 0.0) <= budget

    if fits(1.0):
        return 1.0
    low, high = mean, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
