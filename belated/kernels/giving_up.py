"""Giving up on feedback that is too late: which of the last predictions are answered, and how many others count.

A state that does so has `first` (all before this prediction are answered or given up), `answered` (a bit for each of
the last `window` predictions, 32 a word), `given_up` (given up, and not answered since), `skipped` and `forced` (given
up so far; those of them for the window only).
"""

from __future__ import annotations

from typing import Any

from belated.kernels.compile import kernel

#: Predictions in one word of `answered`.
BITS = 32


def fields(window: int) -> list[Any]:
    """What a state has for it; with a window of 0 it is there, and not used."""
    words = (2 * max(1, -(-window // (2 * BITS))),)  # an even number: what is between fields has no fixed bytes
    return [("answered", "u4", words), *((name, "i8") for name in ("first", "given_up", "skipped", "forced"))]


@kernel
def is_answered(state, number, window):
    """Whether one of the last `window` predictions is answered."""
    place = number % window
    return (int(state.answered[place // BITS]) >> (place % BITS)) & 1 == 1


@kernel
def turn_answered(state, number, window):
    """Mark a prediction as answered, or take the mark away."""
    place = number % window
    state.answered[place // BITS] ^= 1 << (place % BITS)


@kernel
def give_up(state, limit, window):
    """Go past those that are answered, and give up on those whose age is above the limit or fills the window.

    For `predict`: afterwards the prediction in progress has a place, and is not answered.
    """
    state.first = max(state.first, 1)
    while state.first < state.predictions:
        age = state.predictions - state.first
        answered = is_answered(state, state.first, window)
        if not answered:
            if age <= limit and age < window - 1:
                break
            state.given_up += 1
            state.skipped += 1
            if age <= limit:
                state.forced += 1
        else:
            turn_answered(state, state.first, window)
        state.first += 1


@kernel
def still_counts(state, window):
    """For `update` and `lost`: whether the prediction that ends was not given up; it is answered then."""
    if state.answering < state.first:
        state.given_up -= 1
        return False
    turn_answered(state, state.answering, window)
    return True
