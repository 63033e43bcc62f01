"""Bounds for the other systems of the paper's table 1: bits, points, labels, policies; in `gaussian`, experiments."""

from __future__ import annotations

import math
from functools import lru_cache

from belated import require
from belated.theory.gaussian import gp_information as gp_information
from belated.theory.gaussian import gp_ucb as gp_ucb
from belated.theory.gaussian import gp_ucb_mean as gp_ucb_mean


@lru_cache(maxsize=256)
def coin(m: int) -> float:
    """V(m) = E|S_m| / 2, S_m a sum of m fair signs: what m rounds of guessing bits cost at least, and `Cover` at most.

    With h = ceil(m / 2) it is h C(2h, h) / 4^h, a product of h fractions (2i - 1) / (2i), times h.

    >>> coin(10)
    1.23046875
    """
    half = (require.integer("m", m, low=0) + 1) // 2
    value = float(half)
    for i in range(1, half + 1):
        value *= (2 * i - 1) / (2 * i)
    return value


def subsampling(n: int, d: int) -> float:
    """V_d(n): the least expected regret that any forecaster of n bits can promise when each is told d rounds late.

    The rounds with the same t mod (d + 1) are a game of their own: V_d(n) is the sum of their V. Forecasters cannot do
    better, because bits that are constant in blocks of d + 1 rounds are told too late to be of use within their block.
    `BOLD(Cover(m))` plays so well when the rounds of each instance are m.

    Weinberger, Ordentlich, *On delayed prediction of individual sequences*, 2002; equality for every n: of a sum S of
    whole blocks, S and S + 1 sign never have opposite signs.

    >>> subsampling(8, 3), subsampling(10, 0)
    (2.0, 1.23046875)
    """
    n, d = require.integer("n", n, low=1), require.integer("d", d, low=0)
    whole, rest = divmod(n, d + 1)
    return (d + 1 - rest) * coin(whole) + rest * coin(whole + 1)


def cover(horizon: int, k: int) -> float:
    """What the first k rounds of `Cover(horizon)` cost at most, k <= horizon: V(m) - E(S - k)+, S a sum of m - k signs.

    Whatever bits come, all m = horizon rounds cost V(m). If fair coins decide those after the k-th, each is lost half
    of the time: so the first k cost V(m) + (|s| - E|s + S|) / 2, s the ones less the zeros among them, which is largest
    for the largest |s|, k. From k = m / 2 on that is V(m), more than V(k): playing for too many rounds has its price.

    >>> cover(10, 10), round(cover(10, 2), 9), coin(2)
    (1.23046875, 0.86328125, 0.5)
    """
    m, k = require.integer("horizon", horizon, low=1), require.integer("k", k, low=0, high=horizon)
    left = m - k
    ones = (left + k) // 2 + 1  # the least that take the sum beyond k
    if ones > left:
        return coin(m)
    chance = math.exp(
        math.lgamma(left + 1) - math.lgamma(ones + 1) - math.lgamma(left - ones + 1) - left * math.log(2.0)
    )
    beyond = 0.0
    while ones <= left and chance > 1e-17:
        beyond += chance * (2 * ones - left - k)
        chance *= (left - ones) / (ones + 1.0)
        ones += 1
    return coin(m) - beyond


def delayed_descent(n: float, width: float, lipschitz: float, total: float) -> float:
    """Gradient descent told directly, steps F / (L sqrt(t + 2 D_t)): R_n <= 2 F L sqrt(n + 2 D), D the sum of G_1..G_n.

    Entropic steps on the simplex have the same with F = R sqrt(ln d), and L half the largest difference of two numbers
    of a gradient: in units of 2 L R they are `delayed_hedge`, whose proof takes no more than differences below 1. With
    (1 + 2 tau) t for t + 2 D_t its sum of eta_t (1 + 2 G_t) / 8 gives `slowed_descent` likewise.

    F is the largest distance of two points over sqrt 2, L the longest gradient. With y the point that the m-th gradient
    meets and x the one it was taken at, distances to the best point telescope, as without delay, to
    F^2 / eta_last + L^2 sum eta_m / 2, and x is away from y by at most L times the steps made between. Each such pair
    of gradients is outstanding together at the later of its two rounds, where G counts it, and no step is longer than
    the rule gives at that round: both together are at most F L sqrt(n + 2 D). Gradients that never come count as made
    after the end.

    >>> round(delayed_descent(10_000, 2**0.5, 1.0, 0.0), 1)
    282.8
    """
    rounds = require.real("n", n, low=0) + 2.0 * require.real("total", total, low=0)
    return 2.0 * width * lipschitz * math.sqrt(rounds)


def slowed_descent(n: float, width: float, lipschitz: float, tau: float, peak: float) -> float:
    """Steps F / (L sqrt((1 + 2 tau) m)): F L sqrt n (sqrt(1 + 2 tau) + (1 + 2 G*) / sqrt(1 + 2 tau)).

    As `delayed_descent`, with G* for the number outstanding: 2 F L sqrt((1 + 2 tau) n) if that is at most tau.
    Langford, Smola, Zinkevich 2009 have 4 F L sqrt(tau n), for n >= tau^2 only.

    >>> slowed_descent(100, 1.0, 1.0, 4, 4)
    60.0
    """
    slow = math.sqrt(1.0 + 2.0 * require.real("tau", tau, low=0))
    return width * lipschitz * math.sqrt(n) * (slow + (1.0 + 2.0 * peak) / slow)


def curved_descent(n: float, curvature: float, lipschitz: float, width: float, peak: float, constant: bool) -> float:
    """Steps 1 / (lambda m) on lambda-strongly convex losses: ((1/2 + G*) L^2 / lambda + sqrt 2 F L G*)(1 + ln n).

    The losses' own curvature pays for the distances, up to how far the points predicted are from the points met: these
    sum up to at most L G* times the steps. If all delays are G*, the points predicted are those met but for G* of them,
    and lambda G* F^2 + (1/2 + G*)(L^2 / lambda)(1 + ln n) is a bound as well.

    >>> round(curved_descent(1000, 1.0, 1.0, 1.0, 0.0, True), 3)
    3.954
    """
    logarithm = 1.0 + math.log(max(n, 1.0))
    first = (0.5 + peak) * lipschitz**2 / curvature * logarithm
    if peak == 0.0:
        return first
    moved = math.sqrt(2.0) * width * lipschitz * peak * logarithm
    return first + (min(moved, curvature * peak * width**2) if constant else moved)


def smooth_descent(
    n: float, smoothness: float, distance: float, noise: float, rate: float, peak: float
) -> float | None:
    """Steps of one length on a beta-smooth loss, gradients with variance sigma^2, all delays G*: what it costs in all.

    E sum_t f(x_t) - f* <= 1.6 (R^2 / eta + 1.5 n eta sigma^2), R the distance of the start from the best point, if
    eta beta (G* + 1) <= 1/8; else None. With eta = min(1 / (8 beta (G* + 1)), R / (sigma sqrt(1.5 n))) that is at most
    12.8 beta R^2 (G* + 1) + 3.92 sigma R sqrt n: delay adds a term that does not grow with n, as Agarwal, Duchi 2011
    found.

    With y the point that a gradient meets and x the one it was taken at, d = f(x) - f*: |y - x*|^2 falls by
    2 eta d - eta (|grad|^2 / (2 beta) + 2 beta |y - x|^2) - eta^2 (|grad|^2 + sigma^2) in expectation, |grad|^2 is at
    most 2 beta d, and E|y - x|^2 at most 4 beta eta^2 G* (sum of the d between) + 2 eta^2 G* sigma^2: 5/8 of eta sum d
    are left.

    >>> round(smooth_descent(10_000, 1.0, 0.55**0.5, 0.0, 1 / 8, 0.0), 2)
    7.04
    """
    if rate * smoothness * (peak + 1.0) > 0.125 * (1.0 + 1e-12):
        return None
    return 1.6 * (distance**2 / rate + 1.5 * n * rate * noise**2)


def adagrad(n: float, size: int, radius: float, rate: float, lipschitz: float, initial: float) -> float:
    """Steps of each number by itself in a box of radius R, without delay: (2 R^2 / a + a) sqrt(d (d z + L^2 n)).

    Of one number, with steps a / sqrt(z_m), z_m = z and its g^2 so far: distances telescope to (2R)^2 sqrt(z_n) / (2a),
    and the steps cost sum a g^2 / (2 sqrt(z_m)) <= a sqrt(z_n). The roots of d numbers add up to at most the root of d
    times the sum of their z_n, which is at most d z + L^2 n, L the longest gradient.

    Duchi, Hazan, Singer, *Adaptive subgradient methods*, 2011; McMahan, Streeter 2010.

    >>> round(adagrad(10_000, 1, 1.0, 2**0.5, 1.0, 1.0), 1)
    282.9
    """
    return (2.0 * radius**2 / rate + rate) * math.sqrt(size * (size * initial + lipschitz**2 * n))


def dual_averaging(n: int, start: float, smoothness: float, radius: float, noise: float, tau: int) -> float:
    """Dual averaging in a ball under the constant delay tau, damped by beta (tau + 1)^2.

    min(n, tau + 1)(f(x_1) - f*) + beta R^2 (tau + 1)^2 / 2 + sqrt 2 sigma R sqrt n, `start` being f(x_1) - f*.
    """
    late = tau + 1.0
    return min(n, late) * start + smoothness * (radius * late) ** 2 / 2 + math.sqrt(2.0 * n) * noise * radius


def otf_lin_ucb(n: float, features: int, window: int, share: float, lam: float = 1.0, delta: float = 0.1) -> float:
    """OTFLinUCB (form "paper") with probability 1 - 2 delta: R_n <= 4 f / p sqrt(2 d n L) + 4 m d L / p.

    d features, m the window, p = `share` = P(delay <= m) > 0, L = ln((d lam + n) / (d lam)) and f =
    sqrt(2 ln(1 / delta) + d L). Vectors and theta of length 1 at most; lam at most f^2, because f leaves no room for
    how far more draws theta to 0. As its authors state it (Vernade et al., 2020); not proved here.

    >>> round(otf_lin_ucb(100_000, 5, 100, 0.9))
    124905
    """
    n, d = require.real("n", n, low=1), require.integer("features", features, low=1)
    m = require.integer("window", window, low=1)
    share, lam = require.real("share", share, above=0, high=1), require.real("lam", lam, above=0)
    spread = math.log1p(n / lam / d)
    square = 2 * math.log(1 / require.real("delta", delta, above=0, below=1)) + d * spread
    require.real("lam", lam, high=square)
    width = math.sqrt(square)
    return 4 * width / share * math.sqrt(2 * d * n * spread) + 4 * m * d / share * spread


def policy_elimination(n: float, actions: int, policies: int, delta: float, peak: float = 0.0) -> float:
    """PolicyElimination told directly: G* + 17 sqrt(2 n K L_n), L_m = ln(4 N m^2 / delta), with probability 1 - delta.

    Pseudo-regret against the best of N policies, i.i.d. contexts and rewards; delays that look at neither contexts,
    actions nor rewards, so that the rounds of the first m rewards are given beforehand, whichever m. Their estimates,
    in the order of the rounds, are martingale differences of variance 2 K at most, as long as the policy is not
    dropped, and of range 1 / mu <= sqrt(2 K m / L_m) from m = 2 K L_m on (mu falls with the rewards known, and each was
    predicted with fewer than m): by Freedman's inequality the mean is off by at most (1/3 + sqrt(19) / 3) sqrt(2 K L_m
    / m) < b_m = 2 sqrt(2 K L_m / m), but for a chance of delta / (4 N m^2) on either side: less than delta for all
    policies and all m. Policies are dropped at 2 b_m < 1 only, which is m > 32 K L_m. So the best is never dropped, and
    one that is left is within 4 b_m. Round t knows of at least t - 1 - G* rewards: after the first G* + 1 rounds it
    costs at most 4 b_m + K mu <= 8.5 sqrt(2 K L_n / m), and the sum of m^(-1/2) is at most 2 sqrt(n) - 1.

    Dudik et al. 2011 have 16 sqrt(2 K ln(4 n^2 N / delta)) (tau + sqrt(n)) for a constant delay tau.

    >>> round(policy_elimination(1_000_000, 2, 20, 0.05, peak=100))
    201272
    """
    n, k = require.real("n", n, low=1), require.integer("actions", actions, low=1)
    chance = require.real("delta", delta, above=0, below=1)
    known = math.log(4.0 * require.integer("policies", policies, low=1) * n * n / chance)
    return require.real("peak", peak, low=0) + 17.0 * math.sqrt(2.0 * n * k * known)
