"""Bounds of learners that are told late and know how much is outstanding: one proof for all of them.

They follow the regularised leader of the estimated losses that are in: x_t minimises <L_in, x> + F_t(x) over the
simplex, F_t a sum over the actions of convex functions of x_i, with weights that never fall, and 1 / F_t'' growing in
x. With estimates l_t >= 0 whose mean is the loss, out_t the sum of those of earlier rounds that are not in at round t,
and F* the conjugate on the simplex, regret is at most max F_n - min F_n and, summed over the rounds,

    <x_t, l_t> + F*(-in - l_t) - F*(-in)                                   what a round costs without delay, and
    F*(-in) - F*(-in - l_t) - F*(-in - out_t) + F*(-in - out_t - l_t)      how far what is out would have moved it.

The first is at most sum_i l_ti^2 / (2 F''(x_ti)). The second is an average over u in [0, 1] of <l_t, x - x'>, x the
leader at in + u l_t, x' that with out_t as well. More losses never lower the multiplier, so x'_i is below x_i by
out_ti / F''(x_i) at most; and x_i <= x_ti where l_t has only the coordinate i. What is out was drawn independently of
x_t, which knows nothing of it: where F'' >= 1 / (eta_t x), the second has a mean of at most eta_t G_t.

Conditions: losses in [0, 1]; losses, advice and delays that look at no action and no reward; nothing cancelled. What
never comes counts as outstanding for good.
"""

from __future__ import annotations

import math

from belated import require


def delayed_exp3(n: float, actions: int, total: float) -> float:
    """DelayedExp3 told directly: E R_n <= 2 sqrt((K n + 2 D) ln K), D the sum of G_1..G_n.

    F = sum x ln x / eta_t, eta_t = sqrt(ln K / S_t), S_t = K t + 2 D_t: ln K / eta_n, and a round costs at most
    eta_t (K / 2 + G_t). Either adds up to sqrt(S_n ln K). See `belated.theory.late` for the proof and its conditions.

    >>> round(delayed_exp3(10_000, 10, 0.0), 1), round(delayed_exp3(10_000, 10, 200_000.0), 1)
    (959.7, 2146.0)
    """
    n, k, total = _checked(n, actions, total)
    return 2.0 * math.sqrt((k * n + 2.0 * total) * math.log(k))


def delayed_exp4(n: float, actions: int, experts: int, total: float) -> float:
    """DelayedExp4 told directly, against the best of N experts: E R_n <= 2 sqrt(2 (K n + D) ln N), D the sum of G_t.

    Estimates have a coordinate for each expert, so both costs of a round are taken together: its weights x_t are above
    those that know what is out and the round itself by eta_t x_t (out_t + l_t) at most, which costs eta_t (K + G_t) in
    the mean. With eta_t = sqrt(ln N / (2 S_t)), S_t = K t + D_t, that and ln N / eta_n add up to sqrt(2 S_n ln N) each.
    See `belated.theory.late`.

    >>> round(delayed_exp4(10_000, 10, 100, 0.0), 1), round(delayed_exp4(10_000, 10, 100, 200_000.0), 1)
    (1919.4, 3324.5)
    """
    n, k, total = _checked(n, actions, total)
    return 2.0 * math.sqrt(2.0 * (k * n + total) * math.log(require.integer("experts", experts, low=1)))


def hybrid_ftrl(n: float, actions: int, total: float, caution: float = 1.0, skipped: float = 0.0) -> float:
    """HybridFTRL told directly: E R_n <= 4 sqrt(K n) + (sqrt c + 1 / sqrt c) sqrt(2 D ln K) + skipped; 0 if K = 1.

    F = -2 sqrt(t) sum sqrt x + sum x ln x / eta_t, 1 / eta_t = sqrt(2 c D_t / ln K), c the caution. Its range is at
    most 2 sqrt(K n) + sqrt(2 c D ln K). F'' is at least that of either part: a round costs sqrt(K / t) as without
    delay, by the first, and eta_t G_t for what is out, by the second; these add up to 2 sqrt(K n) and sqrt(2 D ln K /
    c).

    Rounds that were given up cost 1 each (`skipped`). For the others the proof is the same with D the sum of what was
    outstanding and not given up. See `belated.theory.late`; Zimmert, Seldin, *An optimal algorithm for adversarial
    bandits with arbitrary delays*, 2020, have these constants for c = 1.

    >>> round(hybrid_ftrl(10_000, 10, 0.0), 1), round(hybrid_ftrl(10_000, 10, 200_000.0), 1)
    (1264.9, 3184.3)
    """
    n, k, total = _checked(n, actions, total)
    if k == 1:
        return 0.0
    root = math.sqrt(require.real("caution", caution, above=0))
    late = (root + 1.0 / root) * math.sqrt(2.0 * total * math.log(k))
    return 4.0 * math.sqrt(k * n) + late + require.real("skipped", skipped, low=0)


def hybrid_skipped(actions: int, total: float, window: int) -> float:
    """How many rounds HybridFTRL gives up at most: 2 sqrt(D ln K) by its rule, D / (window - 1) for its window.

    D is the sum of what was outstanding and not given up, or anything above it. A round is given up by the rule at an
    age above sqrt(D_t / ln K), D_t so far, and was counted in D_t so many times: with c_1, c_2, ... these ages and
    C_m = c_1 + ... + c_m <= D_t, there are at most sum_m c_m sqrt(ln K / C_m) <= 2 sqrt(D ln K). For the window it is
    given up at the age window - 1; where D < (window - 1)^2 ln K that never happens, because the rule comes first.

    >>> round(hybrid_skipped(10, 200_000.0, 4096), 1)
    1406.1
    """
    _, k, total = _checked(1, actions, total)
    return 2.0 * math.sqrt(total * math.log(k)) + total / (require.integer("window", window, low=2) - 1.0)


def capped_exp3(n: float, actions: int, capacity: int, longest: int) -> float:
    """CappedExp3 told directly: E R_n <= 2 sqrt((K b + 2 d) n ln K), delays of at most d, blocks of b rounds.

    d is `longest`, b = 1 if the capacity C is at least d + 1, else ceil(d / (C - 1)): d + 1 rounds in a row meet at
    most ceil(d / b) + 1 <= C blocks, so no more than C tracked rounds, that in progress included, are out at a time.

    Every round t of a block has an estimate: b times Exp3's if it is the one that is tracked, else 0. Its mean is the
    loss, because x_t knows nothing of its own block, whose estimate waits for the block's end. Its square costs
    eta_t K b / 2. What is out at t: of its own block nothing counts, because only one of its rounds has an estimate
    above 0; of other blocks only rounds not more than d ago. Given that such a round s is the tracked one, x_t knows
    nothing of the action of s: so each costs eta_t at most, eta_t d in all. With eta_t = sqrt(ln K / ((K b + 2 d) t))
    that and ln K / eta_n add up to sqrt((K b + 2 d) n ln K) each. See `belated.theory.late`.

    >>> round(capped_exp3(10_000, 10, 11, 100), 1), round(capped_exp3(10_000, 10, 101, 100), 1)
    (5256.5, 4397.9)
    """
    n, k, _ = _checked(n, actions, 0.0)
    d = require.integer("longest", longest, low=0)
    c = require.integer("capacity", capacity, low=1 if d == 0 else 2)
    b = 1 if c > d else -(-d // (c - 1))
    return 2.0 * math.sqrt((k * b + 2.0 * d) * n * math.log(k))


def _checked(n: float, actions: int, total: float) -> tuple[float, int, float]:
    rounds, late = require.real("n", n, low=1), require.real("total", total, low=0)
    return rounds, require.integer("actions", actions, low=1), late
