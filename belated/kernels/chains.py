"""Finite Markov chains: their stationary law, and the value of each state."""

from __future__ import annotations

from belated.kernels.compile import routine

#: What leaves a state is no less, where rounding to 0 would divide by it.
LEAST = 1e-300


@routine
def factor(chain):
    """Turn the matrix of an irreducible chain into L and U with L U = I - P on all states but the first, in place.

    Row 0 stays as it is. Pivots are sums of what leaves a state, so that nothing is ever subtracted: every number is
    right to a few roundings, however seldom some states are left (Grassmann, Taksar, Heyman 1985).
    """
    size = len(chain)
    for i in range(1, size):
        for j in range(size):
            chain[i, j] = -chain[i, j]
    for k in range(1, size):
        pivot = -chain[k, 0]
        for j in range(k + 1, size):
            pivot -= chain[k, j]
        pivot = max(pivot, LEAST)
        chain[k, k] = pivot
        for i in range(k + 1, size):
            share = chain[i, k] / pivot
            chain[i, k] = share
            chain[i, 0] -= share * chain[k, 0]
            for j in range(k + 1, size):
                if j != i:
                    chain[i, j] -= share * chain[k, j]


@routine
def stationary(chain, law):
    """Fill `law` with the stationary law of a chain after `factor`.

    >>> import numpy as np
    >>> chain, law = np.array([[0.5, 0.5], [0.25, 0.75]]), np.zeros(2)
    >>> factor(chain)
    >>> stationary(chain, law)
    >>> law.round(12).tolist()
    [0.333333333333, 0.666666666667]
    """
    size = len(chain)
    law[0] = 1.0
    for j in range(1, size):
        law[j] = chain[0, j]
        for k in range(1, j):
            law[j] -= law[k] * chain[k, j]
        law[j] /= chain[j, j]
    total = 1.0
    for j in range(size - 1, 0, -1):
        for k in range(j + 1, size):
            law[j] -= law[k] * chain[k, j]
        total += law[j]
    for j in range(size):
        law[j] /= total


@routine
def values(chain, law, value):
    """Turn the rewards of the states in `value` into their values; return the reward a round in the long run.

    v = r - rho + P v with sum_x law(x) v(x) = 0, for a chain after `factor` and its stationary law.

    >>> import numpy as np
    >>> chain, law, value = np.array([[0.5, 0.5], [0.25, 0.75]]), np.zeros(2), np.array([3.0, 0.0])
    >>> factor(chain)
    >>> stationary(chain, law)
    >>> round(float(values(chain, law, value)), 12), value.round(12).tolist()
    (1.0, [2.666666666667, -1.333333333333])
    """
    size = len(chain)
    rho = 0.0
    for i in range(size):
        rho += law[i] * value[i]
    value[0] = 0.0
    for i in range(1, size):
        value[i] -= rho
        for k in range(1, i):
            value[i] -= chain[i, k] * value[k]
    mean = 0.0
    for i in range(size - 1, 0, -1):
        for j in range(i + 1, size):
            value[i] -= chain[i, j] * value[j]
        value[i] /= chain[i, i]
        mean += law[i] * value[i]
    for i in range(size):
        value[i] -= mean
    return rho
