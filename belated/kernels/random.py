"""Counter-based randomness: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, *Parallel random numbers*, SC 2011).

A draw is a pure function of a key and a counter, so nothing depends on the order of calls, on threads or on what
other algorithms drew. The key comes from (seed, replication); the counter holds what the draw belongs to:

| stream | counter |
|---|---|
| OUTCOME | round, action |
| DELAY | round, action where the law depends on it |
| LEARNER | that instance's own prediction count, instance |
| EVENT | round: what happens to the game itself (a switch, a replaced arm) |

A *draw* is the tuple (key0, key1, number, lane, stream); `uniform(draw, i)` is its i-th number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.kernels.compile import kernel

MASK = np.uint64(0xFFFFFFFF)
MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)
BITS_32 = np.uint64(32)
BITS_28 = np.uint64(28)
BITS_6 = np.uint64(6)
BITS_5 = np.uint64(5)
ONE = np.uint64(1)

OUTCOME = np.uint64(1)
DELAY = np.uint64(2)
LEARNER = np.uint64(3)
EVENT = np.uint64(4)

#: 2^-53, the spacing of `uniform`.
SPACING = 1.0 / 9007199254740992.0

Draw = tuple[Any, Any, Any, Any, Any]


@kernel
def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds of Philox 4x32: four 32-bit words (as uint64) from a 128-bit counter and a 64-bit key."""
    for _ in range(10):
        p0 = MULTIPLIER_0 * c0
        p1 = MULTIPLIER_1 * c2
        c0 = (p1 >> BITS_32) ^ c1 ^ k0
        c1 = p1 & MASK
        c2 = (p0 >> BITS_32) ^ c3 ^ k1
        c3 = p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


@kernel
def block(draw, index):
    """The index-th block of four 32-bit words of a draw."""
    k0, k1, count, lane, stream = draw
    number = np.uint64(count)
    c3 = (np.uint64(stream) << BITS_28) ^ np.uint64(index)
    return philox(number & MASK, number >> BITS_32, np.uint64(lane), c3, np.uint64(k0), np.uint64(k1))


@kernel
def uniform(draw, index):
    """The index-th number of a draw, uniform on [0, 1) with 53 bits. Two of them share one Philox block."""
    i = np.uint64(index)
    w0, w1, w2, w3 = block(draw, i >> ONE)
    if i & ONE:
        w0 = w2
        w1 = w3
    return float((w0 >> BITS_5) * np.uint64(67108864) + (w1 >> BITS_6)) * SPACING


@kernel
def fill_uniform(out, at, count, k0, k1, number, lane, stream, index):
    """out[at + i] = uniform((k0, k1, number + i, lane, stream), index) for i below count."""
    for i in range(count):
        out[at + i] = uniform((k0, k1, number + i, lane, stream), index)


@kernel
def outcome_draw(k0, k1, round_, action):
    """What decides the outcome of one action in one round."""
    return k0, k1, np.uint64(round_), np.uint64(action), OUTCOME


@kernel
def delay_draw(k0, k1, round_, action):
    """What decides a delay; the loop passes action 0 unless the law depends on it."""
    return k0, k1, np.uint64(round_), np.uint64(action), DELAY


@kernel
def event_draw(k0, k1, round_):
    """What decides the course of the game itself in one round."""
    return k0, k1, np.uint64(round_), np.uint64(0), EVENT


@kernel
def learner_draw(k0, k1, count, instance):
    """What a learner draws from at its count-th prediction."""
    return k0, k1, np.uint64(count), np.uint64(instance), LEARNER


@kernel
def replication_key(seed_low, seed_high, replication):
    """The key of one replication: one Philox block under the seed."""
    r = np.uint64(replication)
    w0, w1, _, _ = philox(r & MASK, r >> BITS_32, np.uint64(0), np.uint64(0), seed_low, seed_high)
    return w0, w1


def key_of(seed: int, replication: int) -> tuple[np.uint64, np.uint64]:
    """The key under which a replication draws everything."""
    low, high = replication_key(*seed_words(seed), replication)
    return np.uint64(low), np.uint64(high)


def seed_words(seed: int) -> tuple[np.uint64, np.uint64]:
    """The two 32-bit words of a 64-bit seed."""
    return np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
