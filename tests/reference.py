"""A second implementation of the rules, slow and plain: lists, dictionaries and formulas, nothing shared with ours.

Only the uniform numbers come from the library. Everything else is written from the paper and from the rules:
feedback of round s comes at the end of round s + delay, in order of s; ties go to the action predicted fewest times;
BOLD takes the lowest free instance; QPM-D consumes feedback when the next prediction is made; Paced tells one feedback
before each prediction; SDB plays the second instance's action unless more of its feedback waits or is out than of the
base's; feedback for an action that was replaced since its prediction is dropped.
"""

import math
from types import SimpleNamespace

import numpy as np

from belated.kernels.random import learner_draw, replication_key, seed_words, uniform

NEVER = 2**63 - 1


def key_of(seed, replication=0):
    return tuple(np.uint64(word) for word in replication_key(*seed_words(seed), replication))


# --- learners: predict() -> (action, probability); update(action, probability, feedback, number) ---


class Base:
    """What all learners share: how many predictions were made, and the numbers drawn for each of them."""

    def __init__(self, actions, key, instance):
        self.actions = actions
        self.key = key
        self.instance = instance
        self.t = 0
        self.whole = self  # what counts the predictions that are drawn by: see PerContext
        self.open = 0  # predictions whose feedback is neither told nor lost

    def draw(self, i):
        return float(uniform(learner_draw(*self.key, self.whole.t, self.instance), i))

    def predict(self, context=None):
        self.t += 1
        chosen = self.choose()
        self.open += 1
        return chosen

    def tell(self, context, action, probability, feedback, number):
        self.open -= 1
        self.update(action, probability, feedback, number)

    def lose(self, context):
        self.open -= 1

    def number(self, context):
        """Which of its predictions the last one was."""
        return self.t

    def update(self, action, probability, feedback, number):
        pass

    def replace(self, action):
        pass


class RoundRobin(Base):
    def choose(self):
        return (self.t - 1) % self.actions, 1.0


class Greedy(Base):
    """The largest index; within 1e-9 of it the fewest predictions; then the lowest number."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.rewards = [[] for _ in range(self.actions)]
        self.predicted = [0] * self.actions

    def mean(self, i):
        total = 0.0
        for reward in self.rewards[i]:
            total += reward
        return total / len(self.rewards[i])

    def greedy(self):
        indices = [self.index(i) if self.rewards[i] else math.inf for i in range(self.actions)]
        best = max(indices)
        tied = [i for i in range(self.actions) if indices[i] == best or indices[i] >= best - 1e-9]
        return min(tied, key=lambda i: (self.predicted[i], i))

    def choose(self):
        action = self.greedy()
        self.predicted[action] += 1
        return action, 1.0

    def update(self, action, probability, feedback, number):
        self.rewards[action].append(feedback)

    def replace(self, action):
        self.rewards[action] = []
        self.predicted[action] = 0


class UCB1(Greedy):
    def index(self, i):
        return self.mean(i) + math.sqrt(2 * math.log(self.t) / len(self.rewards[i]))


class ChernoffUCB(Greedy):
    clock = "round"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.before = [0] * self.actions

    def index(self, i):
        mean, m = self.mean(i), len(self.rewards[i])
        t = self.t - self.before[i] if self.clock == "age" else self.t
        spread = -math.log(math.sqrt(1 / t))
        return mean + math.sqrt(2 * mean * spread / m) + 2 * spread / m

    def replace(self, action):
        super().replace(action)
        self.before[action] = self.t


def divergence(p, q):
    first = p * math.log(p / q) if p > 0 else 0.0
    second = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return first + second


class KLUCB(Greedy):
    c = 3.0

    def index(self, i):
        mean, s = self.mean(i), len(self.rewards[i])
        level = math.log(self.t) + self.c * math.log(max(math.log(self.t), 1.0))
        if mean >= 1:
            return 1.0
        low, high = mean, 1.0
        while high - low > 1e-14 and low < (middle := (low + high) / 2) < high:
            if s * divergence(mean, middle) <= level:
                low = middle
            else:
                high = middle
        return low


class EpsilonGreedy(Greedy):
    epsilon = 0.1

    def index(self, i):
        return self.mean(i)

    def choose(self):
        greedy = self.greedy()
        explores = self.draw(0) < self.epsilon
        action = math.floor(self.draw(1) * self.actions) if explores else greedy
        self.predicted[action] += 1
        return action, self.epsilon / self.actions + (1 - self.epsilon) * (action == greedy)


class Sampling(Base):
    """Draws from a distribution p over the actions with its first uniform number."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.losses = [0.0] * self.actions

    def choose(self):
        p = self.distribution()
        u = self.draw(0)
        below = 0.0
        for action in range(self.actions):
            below += p[action]
            if u < below:
                return action, p[action]
        last = max(i for i in range(self.actions) if p[i] > 0)
        return last, p[last]

    def softmin(self, rate):
        least = min(self.losses)
        weights = [math.exp(-rate * (loss - least)) for loss in self.losses]
        return [weight / math.fsum(weights) for weight in weights]


class Exp3(Sampling):
    def distribution(self):
        return self.softmin(math.sqrt(math.log(self.actions) / (self.t * self.actions)))

    def update(self, action, probability, feedback, number):
        self.losses[action] += (1 - feedback) / probability


class Exp3IX(Exp3):
    def update(self, action, probability, feedback, number):
        gamma = math.sqrt(math.log(self.actions) / (self.actions * number)) / 2
        self.losses[action] += (1 - feedback) / (probability + gamma)


class Hedge(Sampling):
    def distribution(self):
        return self.softmin(2 * math.sqrt(math.log(self.actions) / self.t))

    def update(self, action, probability, feedback, number):
        for i in range(self.actions):
            self.losses[i] += 1 - feedback[i]


class DelayedHedge(Hedge):
    """D_t: the sum of what was open at each of its predictions, this one included."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.sum_open = 0

    def distribution(self):
        self.sum_open += self.open
        return self.softmin(2 * math.sqrt(math.log(self.actions) / (self.t + 2 * self.sum_open)))


class DelayedExp3(Exp3):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.sum_open = 0

    def distribution(self):
        self.sum_open += self.open
        return self.softmin(math.sqrt(math.log(self.actions) / (self.t * self.actions + 2 * self.sum_open)))


class TsallisINF(Sampling):
    def distribution(self):
        rate = 2 / math.sqrt(self.t)
        over = [loss - min(self.losses) for loss in self.losses]

        def weights(x):
            return [4 / (rate * (loss - x)) ** 2 for loss in over]

        # The sum of weights grows with x: at least 1 at `high`, at most 1 at `low`.
        low, high = -2 * math.sqrt(self.actions) / rate, -2 / rate
        for _ in range(200):
            middle = (low + high) / 2
            if math.fsum(weights(middle)) < 1:
                low = middle
            else:
                high = middle
        total = math.fsum(weights(low))
        return [weight / total for weight in weights(low)]

    def update(self, action, probability, feedback, number):
        self.losses[action] += (1 - feedback) / probability


INDEX = (UCB1, ChernoffUCB, KLUCB, EpsilonGreedy)
LEARNERS = {kind.__name__: kind for kind in (RoundRobin, *INDEX, Exp3, Exp3IX, Hedge, TsallisINF)}
LATE = LEARNERS | {kind.__name__: kind for kind in (DelayedHedge, DelayedExp3)}


class PerContext:
    """A copy for each value of the side information: each has its clock, and they draw by the count of all."""

    def __init__(self, copies):
        self.copies = copies
        self.actions = copies[0].actions
        self.t = 0
        for copy in copies:
            copy.whole = self

    def predict(self, context):
        self.t += 1
        return self.copies[context].predict()

    def tell(self, context, *told):
        self.copies[context].tell(context, *told)

    def lose(self, context):
        self.copies[context].lose(context)

    def number(self, context):
        return self.copies[context].t


# --- forecasters: predict(context) -> (ticket, action, probability); arrive(ticket, feedback); cancel(ticket) ---


class Waiting:
    """What all forecasters share. `make(i)` makes the i-th instance of the learner."""

    def __init__(self, make):
        self.make = make
        self.bases = [make(0)]
        self.actions = self.bases[0].actions
        self.tickets = 0
        self.open = {}
        self.peak = 0
        self.used = []
        self.stale = set()
        self.dropped = []

    def predict(self, context=None):
        self.peak = max(self.peak, len(self.open))
        instance, action, probability = self.choose(context)
        self.tickets += 1
        number = self.bases[instance].number(context)
        self.open[self.tickets] = SimpleNamespace(
            instance=instance, action=action, probability=probability, number=number, context=context
        )
        self.used.append(instance)
        return self.tickets, action, probability

    def arrive(self, ticket, feedback):
        was = self.open.pop(ticket)
        if ticket in self.stale:
            self.dropped.append(was.action)
            self.bases[was.instance].lose(was.context)
        else:
            self.learn(was, feedback)

    def tell(self, was, feedback):
        """The instance that predicted is told, with all that was known then."""
        self.bases[was.instance].tell(was.context, was.action, was.probability, feedback, was.number)

    def replace(self, action):
        self.stale |= {ticket for ticket, was in self.open.items() if was.action == action}
        for base in self.bases:
            base.replace(action)

    def cancel(self, ticket):
        was = self.open.pop(ticket)
        self.bases[was.instance].lose(was.context)


class Direct(Waiting):
    def choose(self, context):
        return 0, *self.bases[0].predict(context)

    def learn(self, was, feedback):
        self.tell(was, feedback)


class BOLD(Waiting):
    def __init__(self, make, pools="one"):
        super().__init__(make)
        self.pools = pools
        if pools == "value":
            self.bases = []
        self.pool_of = [None] * len(self.bases)  # whose each instance is, in the order in which they were made

    def choose(self, context):
        pool = context if self.pools == "value" else None
        busy = {was.instance for was in self.open.values()}
        free = [i for i in range(len(self.bases)) if i not in busy and self.pool_of[i] == pool]
        if not free:
            free = [len(self.bases)]
            self.bases.append(self.make(len(self.bases)))
            self.pool_of.append(pool)
        return free[0], *self.bases[free[0]].predict(context)

    def learn(self, was, feedback):
        self.tell(was, feedback)


class QPMD(Waiting):
    """With side information all of it once for each value."""

    def __init__(self, make):
        super().__init__(make)
        self.queues = {}  # (context, action): feedback
        self.query = {}  # context: what the base asks for, and its probability
        self.steps = 0
        self.asked = [0] * self.actions

    def ask(self, context):
        self.query[context] = self.bases[0].predict(context)
        self.steps += 1
        self.asked[self.query[context][0]] += 1

    def waiting(self, context, action):
        return self.queues.setdefault((context, action), [])

    def choose(self, context):
        if context not in self.query:
            self.ask(context)
        while queue := self.waiting(context, self.query[context][0]):
            self.bases[0].tell(context, *self.query[context], queue.pop(0), self.bases[0].number(context))
            self.ask(context)
        return 0, *self.query[context]

    def learn(self, was, feedback):
        self.waiting(was.context, was.action).append(feedback)

    def cancel(self, ticket):
        del self.open[ticket]  # the base's query waits on


class Paced(Waiting):
    """One queue, first in, first out; before a prediction at most one of it is told."""

    def __init__(self, make):
        super().__init__(make)
        self.queue = []

    def choose(self, context):
        if self.queue:
            self.tell(*self.queue.pop(0))
        return 0, *self.bases[0].predict(context)

    def learn(self, was, feedback):
        self.queue.append((was, feedback))


class SDB(QPMD):
    """Instance 0 behind the queues of QPM-D asks for I; instance 1, told on arrival, for J."""

    def __init__(self, make, prior=()):
        super().__init__(make)
        self.bases.append(make(1))
        for action, reward in prior:
            self.waiting(None, action).append(reward)
            self.bases[1].update(action, 1.0, reward, 0)

    def supply(self, context, action):
        out = sum((was.context, was.action) == (context, action) for was in self.open.values())
        return len(self.waiting(context, action)) + out

    def choose(self, context):
        _, wanted, probability = super().choose(context)
        action, other = self.bases[1].predict(context)
        if action == wanted or self.supply(context, action) < self.supply(context, wanted):
            return 1, action, other
        return 1, wanted, probability

    def learn(self, was, feedback):
        super().learn(was, feedback)
        self.tell(was, feedback)

    def cancel(self, ticket):
        Waiting.cancel(self, ticket)


FORECASTERS = {kind.__name__: kind for kind in (Direct, BOLD, QPMD)}
RULES = FORECASTERS | {kind.__name__: kind for kind in (Paced, SDB)}


# --- the protocol ---


def simulate(
    forecaster,
    learner,
    table,
    taus,
    *,
    seed=0,
    replication=0,
    expiry=NEVER,
    full=False,
    options=None,
    rule=None,
    contexts=None,
    values=1,
):
    """Play all rows of a table of rewards; `taus` is a vector of delays, or rounds x actions.

    `forecaster` and `learner` are names, or the learner is a class; `options` and `rule` are their parameters.
    `contexts` says which of so many values of the side information comes in each round: then there is a learner for
    each. Counts are taken by their definitions, each from scratch.
    """
    rounds, actions = np.shape(table)
    key = key_of(seed, replication)

    def make_one(instance):
        made = (LATE[learner] if isinstance(learner, str) else learner)(actions, key, instance)
        vars(made).update(options or {})
        return made

    def make(instance):
        return make_one(instance) if contexts is None else PerContext([make_one(instance) for _ in range(values)])

    player = RULES[forecaster](make, **(rule or {}))
    ends = {}  # round -> the round at whose end it is no longer outstanding
    answers = {}  # round -> whether feedback comes then
    arrivals = {}  # round -> what ends with it
    played, probabilities, regret = [], [], []
    totals, earned = [0.0] * actions, 0.0
    for t in range(1, rounds + 1):
        ticket, action, probability = player.predict(None if contexts is None else contexts[t - 1])
        assert ticket == t
        played.append(action)
        probabilities.append(probability)
        rewards = [float(reward) for reward in table[t - 1]]
        tau = int(taus[t - 1][action]) if np.ndim(taus) == 2 else int(taus[t - 1])
        wait = min(tau, expiry)
        ends[t] = t + wait if wait < NEVER else math.inf
        answers[t] = tau <= expiry and tau < NEVER
        arrivals.setdefault(ends[t], []).append((t, rewards if full else rewards[action]))
        for s, feedback in sorted(arrivals.get(t, []), key=lambda arrival: arrival[0]):
            if answers[s]:
                player.arrive(s, feedback)
            else:
                player.cancel(s)
        for i in range(actions):
            totals[i] += rewards[i]
        earned += rewards[action]
        regret.append(max(totals) - earned)

    def outstanding(t, of=range(actions)):
        return sum(ends[s] >= t and played[s - 1] in of for s in range(1, t))

    def outstanding_of(t, value):
        return sum(ends[s] >= t and contexts[s - 1] == value for s in range(1, t))

    def count(i, condition):
        return sum(condition(s) for s in range(1, rounds + 1) if played[s - 1] == i)

    every = range(1, rounds + 1)
    gone = [count(i, lambda s: ends[s] <= rounds) for i in range(actions)]
    observed = [count(i, lambda s: ends[s] <= rounds and answers[s]) for i in range(actions)]
    return SimpleNamespace(
        actions=played,
        probabilities=probabilities,
        used=player.used,
        regret=regret,
        pulls=[played.count(i) for i in range(actions)],
        observed=observed,
        cancelled=[gone[i] - observed[i] for i in range(actions)],
        peak=max(outstanding(t) for t in every),
        peaks=[max(outstanding(t, (i,)) for t in every) for i in range(actions)],
        outstanding=outstanding(rounds + 1),
        instances=len(player.bases),
        steps=getattr(player, "steps", 0),
        base_pulls=getattr(player, "asked", [0] * actions),
        pools=[
            SimpleNamespace(
                rounds=list(contexts).count(value),
                peak=max((outstanding_of(t, value) for t in every if contexts[t - 1] == value), default=0),
                instances=list(getattr(player, "pool_of", ())).count(value),
            )
            for value in range(values if contexts is not None else 0)
        ],
    )
