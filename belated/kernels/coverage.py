"""Laws over policies that play what each of them would often enough to judge it.

A policy i says an action i(x) for each context x; contexts come by a known law. Under a law P over policies action a is
played in x with W'(x, a) = (1 - K mu) W(x, a) + mu, W the weight under P of the policies that say a, and what policy i
earns is estimated with a variance of at most v_i = E_x[1 / W'(x, i(x))].

The P that maximises E_x sum_a ln W'(x, a) has v_i <= K for all i. With a price kappa Delta_i >= 0 on each policy taken
off, Delta = 0 for one of them at least, the best P has v_i <= K + kappa Delta_i / (1 - K mu), and kappa sum_i P_i
Delta_i <= K. (The derivative in P_i is (1 - K mu) v_i - kappa Delta_i, at the best P at most its mean under P, which is
K - mu E_x sum_a 1 / W' - kappa sum_j P_j Delta_j, and E_x sum_a 1 / W' >= K^2.) A step multiplies P_i by h_i / (lambda
+ kappa Delta_i), h_i = (1 - K mu) v_i + mu E_x sum_a 1 / W', with the lambda for which the sum is 1 (for kappa = 0 it
is K): it never makes P worse (Cover, *An algorithm for maximizing expected log investment return*, 1984).

Kernels find in `params`: `choice`, the actions of the policies (policies x contexts), and `share`, the law of the
contexts; in `state` the fields of `fields`. A policy with P_i = 0 is out, and stays out.
"""

from __future__ import annotations

from typing import Any

from belated.kernels.compile import kernel, routine

#: What a policy that is not out has at least after a step: with less it would take too long to come back.
LEAST = 1e-6
#: Steps that one call may take. It takes 0 to 2, but for the first of those to nearly the best P: these take hundreds.
STEPS = 10_000
#: Conditions hold up to this share: what rounding may spoil.
ROUNDING = 1e-9


def fields(policies: int, contexts: int, actions: int) -> list[Any]:
    """What the state has: P, W, mu, the prices Delta, and room for share / W' and for v."""
    of_each, table = (policies,), (contexts, actions)
    return [
        ("law", "f8", of_each),
        ("weight", "f8", table),
        ("mixed", "f8"),
        ("gap", "f8", of_each),
        ("inverse", "f8", table),
        ("variance", "f8", of_each),
    ]


@kernel
def weigh(params, state):
    """W from P, whose sum is made 1."""
    policies, contexts = params.choice.shape
    total = 0.0
    for i in range(policies):
        total += state.law[i]
    for x in range(contexts):
        for a in range(state.weight.shape[1]):
            state.weight[x, a] = 0.0
    for i in range(policies):
        state.law[i] /= total
        if state.law[i] > 0.0:
            for x in range(contexts):
                state.weight[x, params.choice[i, x]] += state.law[i]


@kernel
def look(params, state):
    """Fill `variance` with v_i; return E_x sum_a 1 / W'."""
    policies, contexts = params.choice.shape
    actions = state.weight.shape[1]
    kept = 1.0 - actions * state.mixed
    total = 0.0
    for x in range(contexts):
        for a in range(actions):
            state.inverse[x, a] = params.share[x] / (kept * state.weight[x, a] + state.mixed)
            total += state.inverse[x, a]
    for i in range(policies):
        found = 0.0
        for x in range(contexts):
            found += state.inverse[x, params.choice[i, x]]
        state.variance[i] = found
    return total


@kernel
def holds(state, price, allowed):
    """Whether v_i <= allowed K + 2 kappa Delta_i for all that are not out, and kappa sum_i P_i Delta_i <= K."""
    actions = float(state.weight.shape[1])
    paid = 0.0
    fits = True
    for i in range(len(state.law)):
        cost = price * state.gap[i]
        paid += state.law[i] * cost
        most = (allowed * actions + 2.0 * cost) * (1.0 + ROUNDING)
        fits &= state.law[i] == 0.0 or state.variance[i] <= most
    return fits and paid <= actions * (1.0 + ROUNDING)


@kernel
def multiplier(state, price, rest, kept):
    """lambda, by Newton's method from below: the sum is convex and falls, so it never goes too far."""
    actions = float(state.weight.shape[1])
    if price == 0.0:
        return actions
    mean = 0.0
    least = 0.0
    for i in range(len(state.law)):
        mass = state.law[i] * (kept * state.variance[i] + rest)
        mean += mass * price * state.gap[i] / actions
        least = max(least, mass - price * state.gap[i])
    found = max(actions - mean, least)
    for _ in range(60):
        total = -1.0
        slope = 0.0
        for i in range(len(state.law)):
            if state.law[i] > 0.0:
                below = found + price * state.gap[i]
                part = state.law[i] * (kept * state.variance[i] + rest) / below
                total += part
                slope += part / below
        if total <= 1e-12:
            break
        found += total / slope
    return found


@kernel
def climb(params, state, price, total):
    """A step of P."""
    kept = 1.0 - state.weight.shape[1] * state.mixed
    rest = state.mixed * total
    factor = multiplier(state, price, rest, kept)
    for i in range(len(state.law)):
        if state.law[i] > 0.0:
            gain = kept * state.variance[i] + rest
            state.law[i] = max(state.law[i] * gain / (factor + price * state.gap[i]), LEAST)
    weigh(params, state)


@routine
def settle(params, state, price, allowed, least):
    """Step until all `holds`, and at least `least` times; return how often."""
    steps = 0
    while steps < STEPS:
        total = look(params, state)
        if steps >= least and holds(state, price, allowed):
            break
        climb(params, state, price, total)
        steps += 1
    return steps
