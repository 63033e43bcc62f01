"""Elementary functions that give the same bits on every machine.

The system's logarithm, exponential and the like differ in the last bit from one machine to another and from a GPU's.
These are made of + - x /, comparisons and the bits of a number, all of which IEEE 754 fixes, so compiled code, plain
Python and a GPU agree bit for bit (`math.sqrt` is exact by the same standard and needs no twin here). Products must
not be fused with sums: Numba does not on a CPU; on a GPU it must be told.

Each lies within 1 ulp of the true value (`tests/test_elementary.py` measures it), and NaN gives NaN. The polynomials
interpolate at Chebyshev's points. To know a sum or product to twice the digits: Dekker, *A floating-point technique for
extending the available precision*, 1971.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from belated.kernels.compile import kernel, routine
from belated.kernels.target import on_gpu

LOG2_E = 1.4426950408889634
#: ln 2 in two parts: whole multiples of the first are exact.
LN_2_HIGH = 0.6931471804855391
LN_2_LOW = 7.440617110012397e-11
#: Adding this number rounds to a whole one, and its last bits hold it.
SHIFTER = 6755399441055744.0
SHIFTER_BITS = 0x4338000000000000
#: What leaves of a number its first 26 digits; the bits of the least m of logarithms, a little below sqrt(1/2).
FIRST_HALF = -(1 << 27)
LEAST_BITS = 0x3FE6A00000000000
SMALLEST_NORMAL = 2.2250738585072014e-308
TWO_TO_54 = 18014398509481984.0
#: Beyond these exp is infinite, or 0.
EXP_MOST = 709.782712893384
EXP_LEAST = -745.1332191019412
TWO_PI = 6.283185307179586
TWO_PI_LOW = 2.4492935982947064e-16


@kernel
def bits_of(x):
    """The 64 bits of a number.

    >>> hex(bits_of(1.0))
    '0x3ff0000000000000'
    """
    return int(np.float64(x).view(np.int64))


@kernel
def number_of(bits):
    """The number with these bits."""
    return float(np.int64(bits).view(np.float64))


@kernel
def two_to(k):
    """2^k for -1022 <= k <= 1023."""
    return number_of((k + 1023) << 52)


@kernel
def product(a, b):
    """a b as the nearest number and what that leaves out."""
    a_head = number_of(bits_of(a) & FIRST_HALF)
    b_head = number_of(bits_of(b) & FIRST_HALF)
    a_tail = a - a_head
    b_tail = b - b_head
    near = a * b
    return near, ((a_head * b_head - near) + a_head * b_tail + a_tail * b_head) + a_tail * b_tail


# --- logarithms: x = 2^k m, m = (1 + r) / inverse, where m lies around 1 and the inverse has 10 digits: r is exact ---


def _tables() -> Any:
    """1 / m in the middle of each of 128 intervals, and -log of that, in two parts: whole ln 2 + the first is exact."""
    rows = np.zeros((3, 128))
    with localcontext() as digits:
        digits.prec = 50
        for i in range(128):
            bits = LEAST_BITS + (i << 45) + (1 << 44)
            inverse = 1.0 if i in (74, 75) else round(512.0 / float(np.int64(bits).view(np.float64))) / 512.0
            exact = -Decimal(inverse).ln()
            head = math.floor(exact * 2**33) / 2**33
            rows[:, i] = inverse, head, exact - Decimal(head)
    rows.flags.writeable = False
    return rows


INVERSE, LOG, LOG_LOW = _tables()


@kernel
def log_parts(bits, k):
    """The parts of k ln 2 + log(x), given the bits of a normal x > 0: what log(1 + r) is added to, r, and a rest."""
    above = bits - LEAST_BITS
    up = above >> 52
    place = above >> 45 & 127
    bits -= up << 52
    turns = float(k + up)
    inverse = INVERSE[place]
    head = number_of(bits & FIRST_HALF)
    first = head * inverse - 1.0
    second = (number_of(bits) - head) * inverse
    r = first + second
    rest = ((first - r) + second) + (turns * LN_2_LOW + LOG_LOW[place])
    return turns * LN_2_HIGH + LOG[place], r, rest


@kernel
def log_sum(whole, r, rest):
    """whole + log(1 + r) + rest."""
    near = whole + r
    r2 = r * r
    low = (-0.5 + r * 0.3333333333333562) + r2 * (-0.2500000000000206 + r * 0.19999999851793657)
    high = (-0.16666666533280552 + r * 0.14288115137545546) + r2 * -0.1250216077170079
    return near + ((((whole - near) + r) + rest) + r2 * (low + r2 * r2 * high))


@kernel
def log(x):
    """The natural logarithm; -inf at 0, NaN below.

    >>> log(0.0), log(1.0), log(2.0)
    (-inf, 0.0, 0.6931471805599453)
    """
    x = float(x)
    k = 0
    if not SMALLEST_NORMAL <= x < math.inf:
        if x == 0.0:
            return -math.inf
        if not 0.0 < x < math.inf:
            return math.inf if x > 0.0 else math.nan
        x *= TWO_TO_54
        k = -54
    whole, r, rest = log_parts(bits_of(x), k)
    return log_sum(whole, r, rest)


@kernel
def log1p(x):
    """log(1 + x); -inf at -1, NaN below.

    >>> log1p(-1.0), log1p(1e-20), log1p(1.0)
    (-inf, 1e-20, 0.6931471805599453)
    """
    x = float(x)
    if not -1.0 < x < math.inf:
        if x == -1.0:
            return -math.inf
        return math.inf if x > 0.0 else math.nan
    sum_ = 1.0 + x
    lost = 1.0 - (sum_ - x) if x > 1.0 else x - (sum_ - 1.0)
    whole, r, rest = log_parts(bits_of(sum_), 0)
    more = 0.0 if on_gpu() and lost == 0.0 else lost / sum_  # there nothing takes as long to divide as zero
    return log_sum(whole, r, rest + more)


# --- exponentials: x = k ln 2 + r, |r| <= ln 2 / 2, exp(x) = 2^k (1 + r + r^2 series) ---


@kernel
def exp_series(r):
    """exp(r) - 1 - r for |r| <= 0.41."""
    r2 = r * r
    r4 = r2 * r2
    low = (0.16666666666666666 + r * 0.04166666666666673) + r2 * (0.008333333333333337 + r * 0.001388888888884741)
    middle = 0.00019841269841242194 + r * 2.4801587404336914e-05
    middle += r2 * (2.755731929246964e-06 + r * 2.7557204188662964e-07)
    high = (2.5052031711291495e-08 + r * 2.0936103274052496e-09) + r2 * 1.609860176369206e-10
    return 0.5 * r2 + r * r2 * (low + r4 * (middle + r4 * high))


@kernel
def exp_parts(x, more):
    """k, r and the rest of exp(r) - 1 - r, for x + more with `more` far below x."""
    shifted = x * LOG2_E + SHIFTER
    k = bits_of(shifted) - SHIFTER_BITS
    turns = shifted - SHIFTER
    near = x - turns * LN_2_HIGH
    less = turns * LN_2_LOW - more
    r = near - less
    lost = (near - r) - less
    return k, r, lost + exp_series(r)


@kernel
def exp_of(x):
    """exp(x) for x between EXP_LEAST and EXP_MOST."""
    k, r, rest = exp_parts(x, 0.0)
    near = 1.0 + r
    half = k >> 1
    return (near + (((1.0 - near) + r) + rest)) * two_to(half) * two_to(k - half)


@routine
def exp(x):
    """The exponential; 0 below -745.13, infinite above 709.78.

    >>> exp(0.0), exp(1.0), exp(-1e300), exp(1e300)
    (1.0, 2.718281828459045, 0.0, inf)
    """
    x = float(x)
    if not EXP_LEAST <= x <= EXP_MOST:
        if x != x:
            return math.nan
        return math.inf if x > 0.0 else 0.0
    return exp_of(x)


@routine
def expm1(x):
    """exp(x) - 1.

    >>> expm1(1e-20), expm1(-1e300)
    (1e-20, -1.0)
    """
    x = float(x)
    if not -37.5 <= x <= 40.0:
        if x > 0.0:
            return exp_of(x) if x <= EXP_MOST else math.inf
        return math.nan if x != x else -1.0
    if -0.3 < x < 0.41:
        return x + exp_series(x)
    k, r, rest = exp_parts(x, 0.0)
    scale = two_to(k)
    whole = scale - 1.0
    part = scale * r
    near = whole + part
    return near + ((((whole - near) + part) + ((scale - whole) - 1.0)) + scale * rest)


# --- sine and cosine of whole turns ---


@kernel
def quarter_turn(v):
    """v as the nearest whole number of quarters, of which the last two bits, and the sine and cosine of the rest."""
    shifted = 4.0 * v + SHIFTER
    quarter = bits_of(shifted) & 3
    w = v - 0.25 * (shifted - SHIFTER)
    x, rest = product(w, TWO_PI)
    rest += w * TWO_PI_LOW
    z = x * x
    series = 2.7557316093198404e-06 + z * (-2.5051129896450185e-08 + z * 1.5917988979397432e-10)
    series = -0.16666666666666666 + z * (0.008333333333330936 + z * (-0.00019841269836740532 + z * series))
    half = 0.5 * z
    near = 1.0 - half
    sine = x + (rest * near + x * (z * series))
    series = -2.755731726587808e-07 + z * (2.087614504941318e-09 + z * -1.138254464534925e-11)
    series = 0.041666666666666664 + z * (-0.0013888888888887389 + z * (2.48015872987544e-05 + z * series))
    cosine = near + (((1.0 - near) - half) + (z * (z * series) - x * rest))
    return quarter, sine, cosine


@routine
def sin_cos_turns(v):
    """sin(2 pi v) and cos(2 pi v), for |v| < 2^40. Quarters of a turn are exact, so nothing is lost for a large v.

    >>> sin_cos_turns(0.25), sin_cos_turns(0.5)
    ((1.0, 0.0), (0.0, -1.0))
    """
    v = float(v)
    if not -1099511627776.0 < v < 1099511627776.0:
        return math.nan, math.nan
    quarter, sine, cosine = quarter_turn(v)
    if quarter == 0:
        return sine, cosine
    if quarter == 1:
        return cosine, 0.0 - sine
    if quarter == 2:
        return 0.0 - sine, -cosine
    return -cosine, sine


@kernel
def cosine_turns(v):
    """cos(2 pi v), the same number, for loops of vector instructions: |v| < 2^40 is not looked at.

    >>> cosine_turns(0.25), cosine_turns(0.5)
    (0.0, -1.0)
    """
    quarter, sine, cosine = quarter_turn(v)
    other = sine if quarter & 1 else cosine
    return 0.0 - other if quarter == 1 else (-other if quarter == 2 else other)


# --- the error function ---


@kernel
def erf_series(x):
    """erf(x) - x for |x| <= 0.7."""
    z = x * x
    series = 1.6440742369803712e-06 + z * (-1.603479490366179e-07 + z * 1.1851225476250988e-08)
    series = -0.0008548326645776897 + z * (0.00012055310471275967 + z * (-1.4924786704934095e-05 + z * series))
    series = 0.11283791670954366 + z * (-0.026866170644889255 + z * (0.005223977621486079 + z * series))
    return x * (0.1283791670955126 + z * (-0.3761263890318374 + z * series))


@routine
def erfc_tail(x):
    """erfc(x) for 0.6 <= x <= 27.3: exp(-x^2) times a series in (x - 3.75) / (x + 3.75), over 1 + 2 x."""
    t = (x - 3.75) / (x + 3.75)
    series = 3.76984796241695e-08 + t * (-2.8383308728617178e-09 + t * -4.05759175255596e-09)
    series = -5.66317624239415e-08 + t * (-2.5865829566869246e-07 + t * (2.220533793441835e-08 + t * series))
    series = -1.1444700688483344e-05 + t * (-9.736563512069592e-07 + t * (1.7522691957818162e-06 + t * series))
    series = -0.00029015403428894304 + t * (5.164934524694568e-05 + t * (2.238417248857594e-05 + t * series))
    series = -0.009746579547700147 + t * (0.0017556258398461876 + t * (0.00029371360062620814 + t * series))
    series = 0.09230432116022572 + t * (-0.05869339859057993 + t * (0.028362277420907616 + t * series))
    series = 0.0035854154854636396 + t * (0.08227673849015046 + t * (-0.10880393014170504 + t * series))
    series = t * (-0.14024059858554702 + t * series)
    height = 1.2375126308378275 + series
    height_rest = ((1.2375126308378275 - height) + series) + 1.0551347829608458e-16
    square, square_rest = product(x, x)
    k, r, more = exp_parts(-square, -square_rest)
    fall = 1.0 + r
    fall_rest = ((1.0 - fall) + r) + more
    top, top_rest = product(fall, height)
    top_rest += fall * height_rest + fall_rest * height
    bottom = 1.0 + 2.0 * x
    bottom_rest = 1.0 - (bottom - 2.0 * x)
    share = top / bottom
    back, back_rest = product(share, bottom)
    share += (((top - back) - back_rest) + (top_rest - share * bottom_rest)) / bottom
    half = k >> 1
    return share * two_to(half) * two_to(k - half)


@routine
def erf(x):
    """The error function.

    >>> erf(0.0), erf(1.0), erf(-10.0)
    (0.0, 0.8427007929497149, -1.0)
    """
    x = float(x)
    if -0.7 < x < 0.7:
        return x + erf_series(x)
    if x != x:
        return math.nan
    if x > 0.0:
        return 1.0 - erfc_tail(x) if x < 6.0 else 1.0
    return erfc_tail(-x) - 1.0 if x > -6.0 else -1.0


@routine
def erfc(x):
    """1 - erf(x), however small.

    >>> erfc(0.0), erfc(1.0), erfc(30.0)
    (1.0, 0.15729920705028513, 0.0)
    """
    x = float(x)
    if -0.6 < x < 0.6:
        near = 1.0 - x
        return near + (((1.0 - near) - x) - erf_series(x))
    if x != x:
        return math.nan
    if x > 0.0:
        return erfc_tail(x) if x < 27.3 else 0.0
    return 2.0 - erfc_tail(-x) if x > -6.0 else 2.0
