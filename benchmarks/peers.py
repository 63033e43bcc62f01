"""The peers' cells: each plays the same game with the peer's own policy, in the fastest way it offers.

Runs inside an environment that run.py makes: ``python peers.py NAME ROUNDS [REPEATS]`` prints one JSON line.
No peer but BanditLab knows delays, so the waiting feedback sits in a ``collections.deque``; imports, set-up
and the first (warming) calls are never timed. Every loop is written out, because one shared loop would charge
the fast peers for an extra call per round.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any

from setting import ARMS, CHOICES, DELAY, FEATURES, MEANS, best_of, linear, regret

Result = dict[str, float]


def pymab_public(policy: Any, rounds: int, delay: int) -> Result:
    """PyMAB's policy protocol.

    Its ``Experiment`` has no delays, and checks its results element by element in Python, which makes it
    slower than this loop over the compiled policy.
    """
    import numpy as np

    rng, draw, waiting = np.random.default_rng(0), random.Random(0).random, deque()
    select, update, means = policy.select_action, policy.update, MEANS
    start = perf_counter()
    for _ in range(rounds):
        action = select(rng=rng)
        waiting.append((action, 1.0 if draw() < means[action] else 0.0))
        if len(waiting) > delay:
            past, reward = waiting.popleft()
            update(action=past, reward=reward)
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": regret(policy.counts)}


def pymab_private(policy: Any, rounds: int, delay: int) -> Result:
    """The same through PyMAB's private compiled handle: not its API, but what its core could do at best."""
    handle = policy._native_handle
    draw, waiting = random.Random(0).random, deque()
    select, update, means = handle.select_action, handle.update, MEANS
    start = perf_counter()
    for seed in range(rounds):
        action = select(seed, None)
        waiting.append((action, 1.0 if draw() < means[action] else 0.0))
        if len(waiting) > delay:
            past, reward = waiting.popleft()
            update(past, reward, None)
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": regret(policy.counts)}


def pymab_ucb(rounds: int) -> Result:
    """PyMAB's UCB1 (c = 2 is the 2 of 2 ln t) behind a buffer."""
    from pymab.policies import UCBPolicy

    return pymab_public(UCBPolicy(n_arms=ARMS, c=2.0), rounds, DELAY)


def pymab_ucb_private(rounds: int) -> Result:
    """PyMAB's UCB1 behind a buffer, through the private handle."""
    from pymab.policies import UCBPolicy

    return pymab_private(UCBPolicy(n_arms=ARMS, c=2.0), rounds, DELAY)


def pymab_klucb(rounds: int) -> Result:
    """PyMAB's KL-UCB behind a buffer, its default precision."""
    from pymab.policies import KLUCBPolicy

    return pymab_public(KLUCBPolicy(n_arms=ARMS), rounds, DELAY)


def pymab_exp3(rounds: int) -> Result:
    """PyMAB's Exp3 without any delay."""
    from pymab.policies import EXP3Policy

    return pymab_public(EXP3Policy(n_arms=ARMS), rounds, 0)


def pymab_exp3_private(rounds: int) -> Result:
    """PyMAB's compiled experiment loop, without delay and without the checks that ``Experiment.run`` adds."""
    import numpy as np
    from pymab import BanditEnvironment, BernoulliReward
    from pymab._backend import run_native_experiment
    from pymab.policies import EXP3Policy

    world = BanditEnvironment(means=np.array(MEANS), reward_model=BernoulliReward())
    policies = {"exp3": EXP3Policy(n_arms=ARMS)}
    start = perf_counter()
    output = run_native_experiment(
        environment=world,
        policies=policies,
        horizon=rounds,
        n_replicates=1,
        seed=0,
        reward_coupling="common",
        record_contexts=False,
    )
    seconds = perf_counter() - start
    counts = np.bincount(np.asarray(output.actions, dtype=np.int64).ravel(), minlength=ARMS)
    return {"decisions": rounds, "seconds": seconds, "regret": regret(counts)}


def pymab_linucb(rounds: int) -> Result:
    """PyMAB's LinUCB behind a buffer. It wants a row of features for each arm: made beforehand, not timed."""
    import numpy as np
    from pymab.policies import LinUCBPolicy

    policy = LinUCBPolicy(n_arms=CHOICES, n_features=FEATURES, alpha=1.0, l2=1.0)
    contexts, table = linear(rounds)
    shown, rewards = list(np.repeat(contexts[:, None, :], CHOICES, axis=1)), table.tolist()
    rng, waiting, earned = np.random.default_rng(0), deque(), 0.0
    select, update = policy.select_action, policy.update
    start = perf_counter()
    for context, paid in zip(shown, rewards, strict=True):
        action = select(context=context, rng=rng)
        earned += paid[action]
        waiting.append((action, paid[action], context))
        if len(waiting) > DELAY:
            past, reward, known = waiting.popleft()
            update(action=past, reward=reward, context=known)
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": float(table.sum(axis=0).max()) - earned}


def pymab_linucb_private(rounds: int) -> Result:
    """The same through PyMAB's private compiled handle, which takes contexts as flat lists."""
    import numpy as np
    from pymab.policies import LinUCBPolicy

    handle = LinUCBPolicy(n_arms=CHOICES, n_features=FEATURES, alpha=1.0, l2=1.0)._native_handle
    contexts, table = linear(rounds)
    shown, rewards = np.tile(contexts, CHOICES).tolist(), table.tolist()
    waiting, earned = deque(), 0.0
    select, update = handle.select_action, handle.update
    start = perf_counter()
    for seed, (context, paid) in enumerate(zip(shown, rewards, strict=True)):
        action = select(seed, context)
        earned += paid[action]
        waiting.append((action, paid[action], context))
        if len(waiting) > DELAY:
            update(*waiting.popleft())
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": float(table.sum(axis=0).max()) - earned}


def banditlab_ucb(rounds: int) -> Result:
    """BanditLab's own delayed UCB (Joulani et al.).

    Its runner and environments (Gaussian rewards, zero contexts, a dict of waiting dicts) cost more than this
    deque, so the loop drives the algorithm alone.
    """
    import numpy as np
    from mab_framework.algorithms import JoulaniDelayedUCB

    np.random.seed(0)
    algorithm = JoulaniDelayedUCB(n_arms=ARMS)
    draw, waiting = random.Random(0).random, deque()
    select, update, means = algorithm.select_arm, algorithm.update, MEANS
    start = perf_counter()
    for _ in range(rounds):
        action = select()
        waiting.append({"action": action, "reward": 1.0 if draw() < means[action] else 0.0})
        if len(waiting) > DELAY:
            update([waiting.popleft()])
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": regret(algorithm.total_pulls)}


def river_ucb(rounds: int) -> Result:
    """The UCB policy of river; delta = 1 is UCB1."""
    from river import bandit

    policy = bandit.UCB(delta=1, seed=0)
    draw, waiting, arms = random.Random(0).random, deque(), list(range(ARMS))
    pull, update, means = policy.pull, policy.update, MEANS
    start = perf_counter()
    for _ in range(rounds):
        action = pull(arms)
        waiting.append((action, 1.0 if draw() < means[action] else 0.0))
        if len(waiting) > DELAY:
            update(*waiting.popleft())
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": regret(policy._counts)}


def mabwiser_start() -> Any:
    """MABWiser's UCB1 (alpha = 1), fitted once to each arm: it ranks an unseen arm last, not first."""
    import numpy as np
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(arms=list(range(ARMS)), learning_policy=LearningPolicy.UCB1(alpha=1))
    bandit.fit(np.arange(ARMS), np.ones(ARMS))
    return bandit


def mabwiser_ucb(rounds: int) -> Result:
    """MABWiser fed one feedback at a time, as the protocol has it; it takes arrays faster than lists."""
    import numpy as np

    bandit = mabwiser_start()
    draw, waiting = random.Random(0).random, deque()
    predict, fit, means = bandit.predict, bandit.partial_fit, MEANS
    start = perf_counter()
    for _ in range(rounds):
        action = predict()
        waiting.append((action, 1.0 if draw() < means[action] else 0.0))
        if len(waiting) > DELAY:
            past, reward = waiting.popleft()
            fit(np.array([past]), np.array([reward]))
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": regret(bandit._imp.arm_to_count)}


def mabwiser_ucb_batches(rounds: int) -> Result:
    """MABWiser the way it is meant: whole batches predicted and fitted.

    Another, blinder algorithm: all 100 decisions of a batch are alike, and feedback waits for its batch.
    """
    import numpy as np

    bandit = mabwiser_start()
    rng, waiting, means = np.random.default_rng(0), deque(), np.array(MEANS)
    contexts = np.zeros((DELAY, 1))
    batches = max(1, rounds // DELAY)
    start = perf_counter()
    for _ in range(batches):
        actions = np.array(bandit.predict(contexts))
        waiting.append((actions, (rng.random(DELAY) < means[actions]).astype(float)))
        if len(waiting) > 1:
            bandit.partial_fit(*waiting.popleft())
    seconds = perf_counter() - start
    return {"decisions": batches * DELAY, "seconds": seconds, "regret": regret(bandit._imp.arm_to_count)}


def smpybandits_ucb(rounds: int) -> Result:
    """SMPyBandits' vectorised UCB, the index of UCB1."""
    import numpy as np

    with contextlib.redirect_stdout(sys.stderr):  # its import prints warnings to stdout
        from SMPyBandits.Policies import UCB

    np.random.seed(0)
    np.seterr(invalid="ignore")
    policy = UCB(ARMS)
    policy.startGame()
    draw, waiting = random.Random(0).random, deque()
    choose, learn, means = policy.choice, policy.getReward, MEANS
    start = perf_counter()
    for _ in range(rounds):
        action = choose()
        waiting.append((action, 1.0 if draw() < means[action] else 0.0))
        if len(waiting) > DELAY:
            learn(*waiting.popleft())
    seconds = perf_counter() - start
    return {"decisions": rounds, "seconds": seconds, "regret": regret(policy.pulls)}


CELLS: dict[str, Callable[[int], Result]] = {
    "pymab-ucb": pymab_ucb,
    "pymab-ucb-private": pymab_ucb_private,
    "pymab-klucb": pymab_klucb,
    "pymab-exp3": pymab_exp3,
    "pymab-exp3-private": pymab_exp3_private,
    "pymab-linucb": pymab_linucb,
    "pymab-linucb-private": pymab_linucb_private,
    "banditlab-ucb": banditlab_ucb,
    "river-ucb": river_ucb,
    "mabwiser-ucb": mabwiser_ucb,
    "mabwiser-ucb-batches": mabwiser_ucb_batches,
    "smpybandits-ucb": smpybandits_ucb,
}

if __name__ == "__main__":
    name, rounds = sys.argv[1], int(sys.argv[2])
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    CELLS[name](min(rounds, 500))  # warms imports and caches
    print(json.dumps(best_of(repeats, lambda: CELLS[name](rounds))))
