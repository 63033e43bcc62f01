"""The theorems as functions: what the regret of a forecaster under delay is proved to be at most.

Letters are the paper's: n rounds, K actions, tau a delay, G*_n the peak of outstanding feedback, G*_{i,n}
that of action i, Delta_i its gap, d(p, q) the Bernoulli Kullback-Leibler divergence. Rewards lie in [0, 1]
unless a docstring says otherwise. A function returns the right-hand side of its theorem; whether the stated
conditions hold is for the caller to know. What is a sum over actions is cut where no play can lose more, at n Delta_i
for an action and at n max_i Delta_i in all, and BOLD's bounds at n: see `is_vacuous`. The other f(n) are not cut.

Paper: Joulani, Gyorgy, Szepesvari, "Online learning under delayed feedback", ICML 2013.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated import require
from belated.errors import InvalidArgument
from belated.theory.arguments import lost as _lost
from belated.theory.arguments import per_action as _per_action
from belated.theory.arguments import vector as _vector
from belated.theory.arguments import whole as _whole
from belated.theory.elimination import (  # noqa: F401
    optimistic_pessimistic,
    phased_elimination,
    successive_elimination,
)
from belated.theory.late import (  # noqa: F401  (what `bl.bounds` has of those that are told late)
    capped_exp3,
    delayed_exp3,
    delayed_exp4,
    hybrid_ftrl,
    hybrid_skipped,
)
from belated.theory.related import (  # noqa: F401  (what `bl.bounds` has of the other systems)
    adagrad,
    cover,
    curved_descent,
    delayed_descent,
    dual_averaging,
    gp_information,
    gp_ucb,
    gp_ucb_mean,
    otf_lin_ucb,
    policy_elimination,
    slowed_descent,
    smooth_descent,
    subsampling,
)

BaseBound = Callable[[float], float]  # f: what a learner's regret without delay is at most, after m rounds

_TIE = 1e-9  # indices this close to the largest are tied, so a suboptimal index need only come this close
_EXACT, _CHUNK = 10_000_000, 1 << 16  # rounds summed one by one, and how many of them at a time


def _kl(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64]:
    """d(p, q), infinite where q is 0 or 1 and p is not; Pinsker's 2 (p - q)^2 where rounding would eat it."""
    p, q = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    gap = q - p
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ones = np.where(p > 0, p * np.log1p(gap / p), 0.0)
        zeros = np.where(p < 1, (1 - p) * np.log1p(-gap / (1 - p)), 0.0)
    divergence: NDArray[np.float64] = np.maximum(-ones - zeros, 2 * gap * gap)
    return divergence


def capped(base_bound: BaseBound) -> BaseBound:
    """f~(m) = min(m, f(max(m, 1))): a base bound made fit for BOLD's theorem.

    The theorem wants f nondecreasing and concave with f(0) = 0. If f is so on [1, inf) and f(1) >= 1, f~ is
    all of it, and y f~(n / y) is nondecreasing in y: an upper bound may stand for E G*_n. With f(1) < 1
    (Hedge, K = 2) this still holds for n / y >= 1, where `bold` looks, provided f(m) / m is nonincreasing.

    >>> capped(lambda m: 2 * math.sqrt(m))(0.0), capped(lambda m: 2 * math.sqrt(m))(100.0)
    (0.0, 20.0)
    """
    if not callable(base_bound):
        raise InvalidArgument(f"base_bound must be a function of the rounds, got {base_bound!r}")

    def bound(rounds: float) -> float:
        at = max(require.real("rounds", rounds, low=0), 1.0)
        return min(float(rounds), require.real(f"base_bound({at:g})", base_bound(at), low=0))

    return bound


def bold(base_bound: BaseBound, n: float, peak: ArrayLike) -> float:
    """BOLD over a base with bound f, with f~ as in `capped` and G*_n + 1 cut at n.

    E R_n <= E[(G*_n + 1) f~(n / (G*_n + 1))] <= (E G*_n + 1) f~(n / (E G*_n + 1)).

    A vector of observed peaks, one a replication, gives the mean in the first inequality; a number, E G*_n or
    an upper bound on it, gives the second. Conditions: f as `capped` says, for every number of rounds
    (anytime tuning); delays, and which free instance plays, independent of the actions.

    >>> round(bold(lambda m: exp3(m, 10), 10_000, 9), 1)
    3034.9
    """
    n = _whole("n", n, 1)
    instances, counts = np.unique(np.minimum(_vector("peak", peak) + 1, n), return_counts=True)
    f = capped(base_bound)
    # y (n / y) may round to less than n, and would then not look vacuous
    terms = [n if (each := f(n / y)) == n / y else y * each for y in instances.tolist()]
    return float(np.dot(terms, counts) / counts.sum())


def bold_pools(base_bound: BaseBound, rounds: ArrayLike, peaks: ArrayLike) -> float:
    """BOLD with a pool for each value c of the side information, against the best map from values to actions.

    E R_n <= E sum_c (G*_c + 1) f~(n_c / (G*_c + 1)) for n_c rounds and peaks G*_c of each value; those that
    never come add nothing. Conditions as in `bold`, with side information that looks at nothing that was played.

    >>> round(bold_pools(lambda m: hedge(m, 4), [600, 400], [9, 4]), 1)
    143.9
    """
    counts, most = _vector("rounds", rounds), _vector("peaks", peaks)
    if counts.shape != most.shape:
        raise InvalidArgument(f"rounds and peaks must have a number for each value, got {counts.size} and {most.size}")
    pairs = zip(counts.tolist(), most.tolist(), strict=True)
    return float(sum(bold(base_bound, count, peak) for count, peak in pairs if count > 0))


def bold_iid(base_bound: BaseBound, n: float, mean_delay: float) -> float:
    """BOLD, i.i.d. delays: E R_n <= (B + 2) f~(n / (B + 2)), B = B(n, E tau); see `bold` and `outstanding`.

    >>> round(bold_iid(lambda m: hedge(m, 10), 1_000_000, 20), 1)
    13814.1
    """
    return bold(base_bound, n, outstanding(n, mean_delay))


def outstanding(n: float, mean_delay: float) -> float:
    """Peak under i.i.d. delays: E G*_n <= B(n, E tau) + 1, B(n, t) = t + 2 ln n + sqrt(4 t ln n).

    Conditions: a finite mean, whatever the tail. It bounds E G*_{i,n} too, with the mean delay of action i.

    >>> round(outstanding(10_000, 100), 2)
    180.12
    """
    mean_delay, log_n = require.real("mean_delay", mean_delay, low=0), math.log(_whole("n", n, 1))
    return mean_delay + 2 * log_n + math.sqrt(4 * mean_delay * log_n) + 1


def outstanding_bounded(n: float, max_delay: float) -> float:
    """Peak under delays of at most tau_max: G*_n <= min(n - 1, tau_max), and equal if all are tau_max.

    >>> outstanding_bounded(10_000, 100)
    100.0
    """
    return float(min(_whole("n", n, 1) - 1, require.real("max_delay", max_delay, low=0)))


def qpmd(base_regret: float, gaps: ArrayLike, peaks: ArrayLike, n: float = math.inf) -> float:
    """QPM-D: E R_n <= E R^Base_n + sum_i Delta_i E G*_{i,n}, and n max_i Delta_i at most where n is given.

    `base_regret` is the base's expected regret without delay, or a bound on it; `peaks` is E G*_{i,n}, one
    for all actions or one each. Conditions: i.i.d. outcomes, independent feedback of different actions,
    delays independent of outcomes (they may depend on the action), no side information; gaps on any scale.

    >>> round(qpmd(ucb1(10_000, [0, 0.2]), [0, 0.2], 100), 1)
    389.3
    """
    gaps = _vector("gaps", gaps)
    return _added(base_regret, gaps, _per_action("peaks", peaks, gaps.size), n)


def _added(base_regret: float, gaps: NDArray[np.float64], plays: NDArray[np.float64], n: float) -> float:
    whole = require.real("base_regret", base_regret, low=0) + float(gaps @ plays)
    return whole if n == math.inf else min(whole, require.real("n", n, low=1) * float(gaps.max()))


def qpmd_iid(base_regret: float, gaps: ArrayLike, n: float, mean_delays: ArrayLike) -> float:
    """QPM-D, delays i.i.d. for each action: G*_{i,n} replaced by `outstanding`, B(n, E tau_i) + 1.

    >>> round(qpmd_iid(ucb1(10_000, [0, 0.2]), [0, 0.2], 10_000, 100), 1)
    405.3
    """
    means = _vector("mean_delays", mean_delays)
    return qpmd(base_regret, gaps, [outstanding(n, mean) for mean in means.tolist()], n)


def sdb(base_regret: float, gaps: ArrayLike, peak: float, n: float = math.inf) -> float:
    """SDB without a prior: E R_n <= E R^Base_n + sum_i Delta_i (E G*_n + 1), and n max_i Delta_i at most.

    An action is never ahead of what the base asks for by more than G* + 1. Conditions as in `qpmd`, with delays
    that do not look at rewards that are not in yet.

    >>> round(sdb(ucb1(10_000, [0, 0.2]), [0, 0.2], 100), 1)
    389.5
    """
    gaps = _vector("gaps", gaps)
    return _added(base_regret, gaps, np.full(gaps.size, require.real("peak", peak, low=0) + 1.0), n)


def ucb1(n: float, gaps: ArrayLike) -> float:
    """UCB1 without delay: E R_n <= sum_{Delta_i > 0} min(n Delta_i, 8 ln n / Delta_i + (1 + pi^2 / 3) Delta_i).

    Auer, Cesa-Bianchi, Fischer, "Finite-time analysis of the multiarmed bandit problem", 2002, theorem 1, which is
    E T_i(n) <= 8 ln n / Delta_i^2 + 1 + pi^2 / 3; T_i(n) <= n besides. At most n max_i Delta_i.

    >>> round(ucb1(10_000, [0, 0.2]), 1), round(ucb1(10_000, [0, 0.4, 1e-6]), 1)
    (369.3, 185.9)
    """
    return _ucb1(n, gaps, 1 + math.pi**2 / 3, 0)


def _ucb1(n: float, gaps: ArrayLike, constant: float, peaks: ArrayLike) -> float:
    n, gaps = require.real("n", n, low=1), _vector("gaps", gaps, most=1)
    peaks, positive = _per_action("peaks", peaks, gaps.size), gaps > 0
    with np.errstate(divide="ignore", over="ignore"):
        samples = 8 * math.log(n) / gaps[positive] ** 2 if n > 1 else 0.0
    return _lost(n, gaps[positive], samples + constant + peaks[positive])


def ucb1_distribution_free(n: float, actions: int) -> float:
    """UCB1 without delay, whatever the gaps: E R_n <= 4 sqrt(2) sqrt(n K ln n) + (1 + pi^2 / 3) K.

    From `ucb1`: gaps up to sqrt(8 K ln n / n) cost n times that together, the others 8 ln n / Delta_i each.

    >>> round(ucb1_distribution_free(100_000, 2), 1)
    8592.4
    """
    n, actions = require.real("n", n, low=1), _whole("actions", actions, 1)
    bound = 4 * math.sqrt(2 * n * actions * math.log(n)) + (1 + math.pi**2 / 3) * actions
    return bound if actions > 1 else 0.0


def delayed_ucb1(n: float, gaps: ArrayLike, peaks: ArrayLike) -> float:
    """Delayed-UCB1: E R_n <= sum_{Delta_i > 0} min(n Delta_i, 8 ln n / Delta_i + (3.5 + E G*_{i,n}) Delta_i).

    At most n max_i Delta_i. Conditions and `peaks`: those of `qpmd`, rewards in [0, 1]. At G* = 0 it is below `ucb1`:
    its proof sums over one count of samples where Auer et al. sum over two, so 3.5 > 1 + 2 zeta(3) does for
    1 + pi^2 / 3.

    >>> round(delayed_ucb1(10_000, [0, 0.2], 100), 1)
    389.1
    """
    return _ucb1(n, gaps, 3.5, peaks)


def delayed_ucb1_iid(n: float, gaps: ArrayLike, mean_delays: ArrayLike) -> float:
    """Delayed-UCB1, delays i.i.d. for each action: G*_{i,n} replaced by `outstanding`, B(n, E tau_i) + 1.

    >>> round(delayed_ucb1_iid(10_000, [0, 0.2], 100), 1)
    405.1
    """
    means = _vector("mean_delays", mean_delays)
    return _ucb1(n, gaps, 3.5, [outstanding(n, mean) for mean in means.tolist()])


def klucb(n: int, means: ArrayLike) -> float:
    """KL-UCB (c = 3) without delay: `delayed_klucb` with G* = 0. Garivier, Cappe, 2011, made explicit.

    >>> round(klucb(20_000, [0.6, 0.4]), 1)
    88.7
    """
    return delayed_klucb(n, means, 0)


def delayed_klucb(n: int, means: ArrayLike, peaks: ArrayLike, c: float = 3) -> float:
    """Delayed-KL-UCB, the theorem corrected: E R_n <= sum_{Delta_i > 0} Delta_i times `delayed_klucb_pulls`.

    At most n max_i Delta_i. Conditions: those of `delayed_ucb1`, n >= 3, c = 3, and `peaks` as `delayed_klucb_pulls`
    says.

    >>> round(delayed_klucb(20_000, [0.6, 0.4], 100), 1)
    152.9
    """
    if c != 3:
        raise InvalidArgument(f"c must be 3, the only value the bound is proved for, got {c}")
    n, means = _whole("n", n, 3), _vector("means", means, most=1)
    peaks, best = _per_action("peaks", peaks, means.size), float(means.max())
    arms = [(mean, peak) for mean, peak in zip(means.tolist(), peaks.tolist(), strict=True) if mean < best]
    missed = _optimum_missed(n)
    plays = np.array([_pulls(n, mean, best, peak, missed) for mean, peak in arms])
    return _lost(n, best - np.array([mean for mean, _ in arms]), plays)


def delayed_klucb_pulls(n: int, mean: float, best: float, peak: float) -> float:
    """Plays of an action of mean mu_i < mu* by Delayed-KL-UCB (c = 3) in n >= 3 rounds: E T_i(n) is at most

    (1 + eps)(ln n + 3 ln ln n) / d + 1 + G + sum_{t<=n} min(1, e ceil(D_t ln t) e^{-D_t})
    + (G + 1) n^{-b} / (1 - e^{-d(r, mu_i)}),    least over eps > 0, and n,

    d = d(mu_i, mu*), D_t = ln t + 3 ln max(ln t, 1), r in (mu_i, mu*) with d(r, mu*) = d / (1 + eps), and
    b = (1 + eps) d(r, mu_i) / d. Two slips of the paper are mended: G + 1 for G in the last term (i may be
    played so often on one count of observations), and the factor (1 + eps) / d of 3 ln ln n.

    `peak` is G >= E G*_{i,n}. The last term multiplies it with a probability about rewards, so it must come
    from delays alone: tau_max, `outstanding`, or E G*_n over all actions if delays ignore the action. mu* is
    taken 1e-9 lower, the margin within which indices tie: it keeps d finite, and the bound true, at mu* = 1.

    >>> round(delayed_klucb_pulls(20_000, 0.4, 0.6, 0))
    444
    """
    n, peak = _whole("n", n, 3), require.real("peak", peak, low=0)
    mean, best = float(_vector("mean", mean, most=1)[0]), float(_vector("best", best, most=1)[0])
    if mean >= best:
        raise InvalidArgument(f"mean must be < best = {best}, got {mean}")
    return _pulls(n, mean, best, peak, _optimum_missed(n))


def _pulls(n: int, mean: float, best: float, peak: float, missed: float) -> float:
    target = best - _TIE
    if mean >= target:
        return float(n)
    fixed = 1 + peak + (missed if best < 1 else 0.0)  # rewards of mean 1 are all 1: the index is never below
    divergence = float(_kl(mean, target))
    samples = (math.log(n) + 3 * math.log(math.log(n))) / divergence
    if mean == 0:
        return min(
            samples + fixed, float(n)
        )  # d(r, 0) is infinite, so the last term is 0 for every eps: let eps go to 0
    slack, away = _slacks(mean, target)
    with np.errstate(divide="ignore"):
        late = np.exp(-(1 + slack) * away / divergence * math.log(n)) / -np.expm1(-away)
    return min(float(((1 + slack) * samples + fixed + (peak + 1) * late).min()), float(n))


@lru_cache(maxsize=256)
def _slacks(mean: float, target: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of eps, and d(r, mu_i) for each; any eps gives a bound, so a grid is on the safe side."""
    slack = np.geomspace(0.01, 5, 4000)
    divergence = float(_kl(mean, target))
    low, high = np.full_like(slack, mean), np.full_like(slack, target)
    for _ in range(60):
        middle = (low + high) / 2
        below = _kl(middle, target) >= divergence / (1 + slack)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return slack, _kl(low, mean)


@lru_cache(maxsize=256)
def _optimum_missed(n: int) -> float:
    """sum_{t<=n} min(1, e ceil(D_t ln t) e^{-D_t}) >= expected rounds with the best index below its mean."""
    last, total = min(n, _EXACT), 0.0
    for first in range(2, last + 1, _CHUNK):  # nothing at t = 1, where ln t = 0
        t = np.arange(first, min(first + _CHUNK, last + 1), dtype=np.float64)
        log_t = np.log(t)
        cut = np.maximum(log_t, 1.0)
        steps = np.ceil((log_t + 3 * np.log(cut)) * log_t)
        total += float(np.minimum(1.0, math.e * steps / (t * cut * cut * cut)).sum())
    if n > last:  # an integral in x = ln t of e (1 / x + 3 ln x / x^2 + 1 / x^3), by ceil(u) <= u + 1
        x = np.log(np.array([last, n], dtype=np.float64))
        total += math.e * float(np.diff(np.log(x) - 3 * (np.log(x) + 1) / x - 1 / (2 * x * x))[0])
    return total


def lai_robbins(n: float, means: ArrayLike) -> float:
    """sum_{Delta_i > 0} Delta_i ln n / d(mu_i, mu*): a reference curve (Bernoulli), asymptotic only.

    liminf E R_n / ln n is at least this over ln n for policies of regret o(n^a), every a > 0, on every game.
    At a finite n it is neither an upper nor a lower bound. Lai, Robbins, 1985.

    >>> round(lai_robbins(20_000, [0.6, 0.4]), 2)
    24.43
    """
    log_n, means = math.log(require.real("n", n, low=1)), _vector("means", means, most=1)
    arms, best = means[means < means.max()], means.max()
    return float(((best - arms) * log_n / _kl(arms, best)).sum())


def hedge(n: float, actions: int) -> float:
    """Hedge, full information, eta_t = 2 sqrt(ln K / t): f(n) = sqrt(n ln K).

    From R_n <= ln K / eta_n + (1/8) sum_t eta_t. Cesa-Bianchi, Lugosi, 2006, chapter 2.

    >>> round(hedge(10_000, 10), 1)
    151.7
    """
    return math.sqrt(require.real("n", n, low=1) * math.log(_whole("actions", actions, 1)))


def delayed_hedge(n: float, actions: int, total: float) -> float:
    """DelayedHedge told directly, full information: R_n <= sqrt((n + 2 D) ln K), D the sum of G_1..G_n.

    Follow the leader of the losses that are in, with rates eta_t = 2 sqrt(ln K / S_t), S_t = t + 2 D_t. A round costs
    eta_t / 8 as without delay, and at most eta_t G_t / 4 for the losses that are out: their sum has a range of at most
    G_t, and moves the weights by tanh(eta_t G_t / 4) or less in total variation. Both add up to at most
    sqrt(S_n ln K) / 2, and so does ln K / eta_n. Conditions: losses in [0, 1]; delays may be anything.

    >>> round(delayed_hedge(10_000, 10, 0.0), 1), round(delayed_hedge(10_000, 10, 200_000.0), 1)
    (151.7, 971.6)
    """
    rounds = _whole("n", n, 1) + 2.0 * require.real("total", total, low=0)
    return math.sqrt(rounds * math.log(_whole("actions", actions, 1)))


def exp3(n: float, actions: int) -> float:
    """Exp3 on losses, no mixing, eta_t = sqrt(ln K / (t K)): f(n) = 2 sqrt(n K ln K), in expectation.

    From R_n <= ln K / eta_n + (K/2) sum_t eta_t. Bubeck, Cesa-Bianchi, 2012, theorem 3.1.

    >>> round(exp3(10_000, 10), 1)
    959.7
    """
    return 2 * hedge(n, actions) * math.sqrt(actions)


def exp3ix(n: float, actions: int) -> float:
    """Exp3-IX, in expectation: f(n) = 4 sqrt(n K ln K) + (2 sqrt(n K / ln K) + 1)(1 + ln 2); 0 if K = 1.

    eta_t = 2 gamma_t = sqrt(ln K / (K t)). Neu, 2015, theorem 1: for each n and delta, with probability 1 - delta, the
    regret is at most the same with ln(2 / delta) for 1 + ln 2, which is its integral over delta in (0, 1).

    Sketch: R_n <= L~_j - L_j + ln K / eta_n + sum_t eta_t sum_i l~_ti for every j, where eta_t / 2 + gamma_t = eta_t.
    With probability 1 - delta / 2 for all j at once L~_j - L_j <= ln(2 K / delta) / (2 gamma_n), and with 1 - delta / 2
    the last sum is at most K sum_t eta_t + ln(2 / delta). That is 2 sqrt(n K ln K) twice and (sqrt(n K / ln K) + 1)
    ln(2 / delta): the printed factor 2 is not needed, and kept.

    >>> round(exp3ix(10_000, 10), 1)
    2626.8
    """
    n, actions = require.real("n", n, low=1), _whole("actions", actions, 1)
    if actions == 1:
        return 0.0
    return 2 * exp3(n, actions) + (2 * math.sqrt(n * actions / math.log(actions)) + 1) * (1 + math.log(2))


def exp4(n: float, actions: int, experts: int) -> float:
    """Exp4 on losses, N experts, eta_t = sqrt(ln N / (t K)): f(n) = 2 sqrt(n K ln N), in expectation.

    Against the best expert. From R_n <= ln N / eta_n + (K/2) sum_t eta_t. Bubeck, Cesa-Bianchi, 2012, theorem 4.2.

    >>> round(exp4(10_000, 10, 100), 1)
    1357.2
    """
    n, actions, experts = require.real("n", n, low=1), _whole("actions", actions, 1), _whole("experts", experts, 1)
    return 2 * math.sqrt(n * actions * math.log(experts))


def tsallis_inf(n: float, actions: int) -> float:
    """Tsallis-INF (importance weights, eta_t = 2 / sqrt t) in expectation: f(n) = 4 sqrt(K n) + 1; 0 if K=1.

    Zimmert, Seldin, "Tsallis-INF: an optimal algorithm for stochastic and adversarial bandits", 2021, thm. 1.

    >>> round(tsallis_inf(10_000, 10), 1)
    1265.9
    """
    n, actions = require.real("n", n, low=1), _whole("actions", actions, 1)
    return 4 * math.sqrt(actions * n) + 1 if actions > 1 else 0.0


def global_exp3(n: float, actions: int, k: float = 1) -> float:
    """GlobalExp3 in expectation, losses in [0, 1], any globally observable game: f(n) = 4 A n^(2/3) + A^3; 0 if K = 1.

    A = (k K)^(2/3) ((e - 2) ln K)^(1/3), k = max(1, max |w|), g_t = min(1, A t^(-1/3)), e_t = ln K / (A t^(2/3)), at
    most g_t / (k K). Sketch: estimates are at most k K / g_t, so e^-x <= 1 - x + (e - 2) x^2 (x >= -1) may be used, and
    their squares at most k^2 K^2 / g_t in the mean. Hence R_n <= sum g_t + ln K / e_n + (e - 2) k^2 K^2 sum e_t / g_t.
    From t = A^3 on the two sums grow by A t^(-1/3) each, before it by 1 and by A^2 t^(-2/3); ln K / e_n = A n^(2/3)
    for n >= A^3. Up to A^3 rounds, n itself is smaller.

    >>> round(global_exp3(10_000, 2))
    2338
    """
    n, a = require.real("n", n, low=1), global_exp3_constant(actions, k)
    return 4 * a * math.pow(n, 2 / 3) + math.pow(a, 3)


def global_exp3_constant(actions: int, k: float = 1) -> float:
    """A of `global_exp3`. Its bound under BOLD says something where n / (G* + 1) > 70 A^3 or so.

    >>> round(global_exp3_constant(3), 3)
    1.922
    """
    actions, k = _whole("actions", actions, 1), require.real("k", k, low=1)
    return math.pow(k * actions, 2 / 3) * math.pow((math.e - 2) * math.log(actions), 1 / 3)


def block_adversary(n: int, delay: int, actions: int) -> float:
    """Exact expected regret of every forecaster on the block adversary: (tau + 1)(E max_i X_i - m / 2).

    X_1..X_K independent Bin(m, 1/2), m = n / (tau + 1) whole. In each block of tau + 1 rounds an action's
    reward is one fair coin; at constant delay tau nothing about a block arrives before it ends, so anybody,
    with full information or bandit feedback, earns n / 2 in expectation. Tight for full information only.

    >>> round(block_adversary(10_000, 9, 10), 1)
    243.2
    """
    n, delay, actions = _whole("n", n, 1), _whole("delay", delay, 0), _whole("actions", actions, 1)
    blocks, rest = divmod(n, delay + 1)
    if rest:
        raise InvalidArgument(f"n must be a multiple of delay + 1 = {delay + 1}, got {n}")
    # P(X = k) from the middle to 40 standard deviations above it, relative to the middle; below by symmetry
    k = np.arange((blocks + 1) // 2, min(blocks, blocks // 2 + math.ceil(20 * math.sqrt(blocks)) + 1))
    weights = np.exp(np.concatenate(([0.0], np.cumsum(np.log((blocks - k) / (k + 1))))))
    whole = 2 * weights.sum() - (0.0 if blocks % 2 else weights[0])
    above = np.cumsum(weights[::-1])[::-1][1:] / whole  # P(X > k) = P(X <= m - 1 - k)
    # E Y = integral of P(Y > y) over y > 0 less that of P(Y <= y) over y < 0, for Y = max_i X_i - m / 2
    middle = 0.5 - 0.5**actions if blocks % 2 else 0.0
    excess = -np.expm1(actions * np.log1p(-above)) - above**actions
    return (delay + 1) * (middle + float(excess.sum()))


def is_vacuous(bound: float, n: float, reward_range: float = 1.0) -> bool:
    """Whether a bound says nothing: R_n <= range * n is true of everybody, so such a bound never "holds".

    >>> is_vacuous(bold(lambda m: exp3(m, 10), 100, 9), 100)
    True
    """
    if math.isnan(bound):
        raise InvalidArgument(f"bound must be a number, got {bound}")
    limit = require.real("reward_range", reward_range, low=0, infinite=True) * require.real("n", n, low=1)
    return bound >= limit * (1 - 1e-12)  # a bound scaled by the range is rounded: equal means equal to 1e-12
