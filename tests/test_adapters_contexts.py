"""What a ticket keeps of a context: a copy, whatever becomes of what was given."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import pytest
from scipy import sparse

import belated as bl
from belated.errors import InvalidArgument
from belated.forecasters.keeping import kept


class Recorder:
    """Remembers with which context it was told what."""

    actions = 2

    def __init__(self):
        self.told = []

    def predict(self, context):
        return 0, 1.0

    def update(self, context, action, probability, feedback):
        self.told.append((context, feedback))


@pytest.mark.parametrize("forecaster", [bl.Direct, bl.BOLD, bl.Paced])
def test_a_buffer_may_be_used_again(forecaster):
    made = []
    f = forecaster(lambda: made.append(Recorder()) or made[-1])
    buffer, words, tickets = np.zeros(2), {"user": {"age": 0}, "tags": []}, []
    for t in range(4):
        buffer[:] = t
        words["user"]["age"] = t
        words["tags"].append(t)
        tickets.append(f.predict((buffer, words)).ticket)
    for t, ticket in enumerate(tickets):
        f.update(ticket, float(t))
    for _ in range(4):
        f.predict((buffer, words))  # forecasters that hold feedback back tell it now
    told = [each for learner in made for each in learner.told]
    assert len(told) >= 1
    for (row, seen), feedback in told:
        assert row.tolist() == [feedback, feedback]
        assert seen == {"user": {"age": feedback}, "tags": list(range(int(feedback) + 1))}


def test_feedback_that_waits_is_a_copy_too():
    made = []
    f = bl.QPMD(lambda: made.append(Recorder()) or made[-1])
    feedback, first = [1.0], f.predict()
    f.update(first.ticket, feedback)
    feedback[0] = 0.0
    f.predict()
    assert [told for learner in made for _, told in learner.told] == [[1.0]]


@pytest.mark.parametrize(
    "given",
    [
        {"a": 1, "b": {"c": [1, 2, (3, [4])]}},
        [{"x": 1.0}, ["y"]],
        OrderedDict(a=[1]),
        np.array([[1.0, 2.0]]),
        np.array([1, [2]], dtype=object),
        {"row": np.array([1.0])},
        {1, 2},
        bytearray(b"ab"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_nothing_changeable_is_shared(given):
    mine = kept(given)
    assert type(mine) is type(given) and repr(mine) == repr(given)
    assert not shared(mine, given)


def shared(one, two):
    """Whether a part that can be changed is in both."""
    if isinstance(one, np.ndarray):
        return np.shares_memory(one, two) or (one.dtype.hasobject and any(map(shared, one.ravel(), two.ravel())))
    if isinstance(one, dict):
        return one is two or any(map(shared, one.values(), two.values()))
    if isinstance(one, list | tuple):
        return (one is two and isinstance(one, list)) or any(map(shared, one, two))
    return one is two and isinstance(one, set | bytearray)


def test_what_cannot_change_is_kept_as_it_is():
    for given in ("|Context a:1", b"ab", 3, 2.5, None, True, np.float64(1.5), frozenset((1,))):
        assert kept(given) is given
    row = sparse.csr_matrix(np.eye(3))[1]
    mine = kept(row)
    row.data[:] = 7.0
    assert mine.toarray().tolist() == [[0.0, 1.0, 0.0]]

    class Frozen:
        def __deepcopy__(self, memo):
            return self

    one = Frozen()
    assert kept([one])[0] is one


def test_what_cannot_be_copied_is_refused_and_nothing_happens():
    f = bl.Direct(Recorder)
    with pytest.raises(
        InvalidArgument, match=r"context must be something that can be copied, .* got an object of _thread.lock"
    ):
        f.predict({"lock": threading.Lock()})
    assert f.outstanding == 0 and f.predict({"x": 1}).ticket == 1
