"""The mailbox against a dictionary of lists: the same feedback in the same order, whatever the delays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belated.engine import mailbox

examples = settings(max_examples=200, derandomize=True, deadline=None, database=None)


class Mail:
    """The mailbox as the loop uses it. `hold` keeps entries after delivery, in a list of their own, as QPM-D does."""

    def __init__(self, room, feedback=1, hold=False):
        self.slab = mailbox.make_slab(room, feedback)
        self.wheel = mailbox.make_wheel(room)
        self.free = int(mailbox.clear(self.slab, self.wheel))
        self.hold = hold
        self.queue = []
        self.grown = 0

    def post(self, round_, delay):
        if self.free < 0:
            self.slab, self.wheel, self.free = mailbox.grow(self.slab, self.wheel)
            self.grown += 1
        entry = self.free
        letter = self.slab[entry]
        self.free = int(letter["next"])
        letter["round"] = round_
        letter["action"] = round_ % 5
        letter["instance"] = round_ % 7
        letter["probability"] = 1.0 / round_
        letter["feedback"][:] = 0.5 * round_
        letter["cancelled"] = round_ % 2
        mailbox.post(self.slab, self.wheel, entry, round_ + delay)

    def deliver(self, now):
        """Take out what is due, and give back the rounds."""
        came = []
        entry = int(mailbox.take(self.slab, self.wheel, now))
        while entry >= 0:
            letter = self.slab[entry]
            following = int(letter["next"])
            assert letter["due"] == now
            came.append(self.read(entry))
            if self.hold:
                letter["next"] = -1
                if self.queue:
                    self.slab[self.queue[-1]]["next"] = entry
                self.queue.append(entry)
            else:
                letter["next"] = self.free
                self.free = entry
            entry = following
        return came

    def read(self, entry):
        """The round of an entry, after a look at everything else in it."""
        letter = self.slab[entry]
        round_ = int(letter["round"])
        assert (letter["action"], letter["instance"]) == (round_ % 5, round_ % 7)
        assert letter["probability"] == 1.0 / round_
        assert (letter["feedback"] == 0.5 * round_).all()
        assert letter["cancelled"] == round_ % 2
        return round_

    def consume(self):
        """Give the held entries back, walking along their links."""
        rounds, entry = [], self.queue[0] if self.queue else -1
        while entry >= 0:
            following = int(self.slab[entry]["next"])
            rounds.append(self.read(entry))
            self.slab[entry]["next"] = self.free
            self.free = entry
            entry = following
        self.queue.clear()
        return rounds

    def places(self):
        """All entries: waiting in the wheel, held, and free."""
        waiting, free = [], []
        for slot in range(len(self.wheel)):
            entry = int(self.wheel[slot])
            while entry >= 0:
                assert int(self.slab[entry]["due"]) & (len(self.wheel) - 1) == slot
                waiting.append(entry)
                entry = int(self.slab[entry]["next"])
        entry = self.free
        while entry >= 0:
            free.append(entry)
            entry = int(self.slab[entry]["next"])
        return waiting, list(self.queue), free


waits = st.one_of(st.integers(0, 2), st.integers(0, 20), st.integers(0, 200), st.just(2**62))


@pytest.mark.parametrize("hold", [False, True])
@examples
@given(room=st.sampled_from([1, 2, 4, 8]), delays=st.lists(waits, max_size=60), pauses=st.sets(st.integers(0, 60)))
def test_every_feedback_comes_once_when_due_in_order_of_rounds(hold, room, delays, pauses):
    mail = Mail(room, hold=hold)
    due = {}
    held = []
    for t, delay in enumerate(delays, start=1):
        mail.post(t, delay)
        due.setdefault(t + delay, []).append(t)
        came = mail.deliver(t)
        assert came == due.pop(t, [])
        held += came
        if hold and t in pauses:
            assert mail.consume() == held
            held = []
        waiting, queue, free = mail.places()
        assert len(waiting) == sum(map(len, due.values()))
        assert sorted(waiting + queue + free) == list(range(len(mail.slab)))
    for t in range(len(delays) + 1, len(delays) + 201):
        assert mail.deliver(t) == due.pop(t, [])
    assert all(time >= 2**62 for time in due)


@examples
@given(st.lists(st.integers(0, 30), min_size=20, max_size=60))
def test_room_doubles_only_when_all_of_it_waits(delays):
    mail = Mail(2)
    most = 0
    for t, delay in enumerate(delays, start=1):
        before = len(mail.places()[0])
        grown = mail.grown
        mail.post(t, delay)
        most = max(most, before + 1)
        if mail.grown > grown:
            assert before == len(mail.slab) // 2
        mail.deliver(t)
    assert len(mail.slab) == len(mail.wheel) < max(2 * most, 3)


@pytest.mark.parametrize("feedback", [1, 4])
def test_growth_keeps_entries_their_numbers_and_the_order_of_rounds(feedback):
    mail = Mail(4, feedback)
    for t in range(1, 5):
        mail.post(t, 20 - t)
    numbers = {mail.read(entry): entry for entry in mail.places()[0]}
    mail.slab, mail.wheel, mail.free = mailbox.grow(mail.slab, mail.wheel)
    assert {mail.read(entry): entry for entry in mail.places()[0]} == numbers
    assert (len(mail.slab), len(mail.wheel), mail.free) == (8, 8, 4)
    for t in range(5, 13):
        mail.post(t, 20 - t)
    assert (mail.grown, len(mail.slab)) == (1, 16)
    assert [mail.deliver(t) for t in range(13, 20)] == [[]] * 7
    assert mail.deliver(20) == list(range(1, 13))


def test_clear_forgets_everything_and_frees_every_entry():
    mail = Mail(8)
    for t in range(1, 6):
        mail.post(t, 3)
    mail.free = int(mailbox.clear(mail.slab, mail.wheel))
    assert mail.places() == ([], [], list(range(8)))
    assert (mail.wheel == -1).all()


def test_one_slot_holds_many_turns_of_the_wheel():
    mail = Mail(4)
    for t, delay in ((1, 8), (2, 3), (3, 2), (4, 1)):
        mail.post(t, delay)
    assert mail.deliver(5) == [2, 3, 4]
    mail.post(5, 8)
    assert mail.deliver(9) == [1]
    assert mail.deliver(13) == [5]
    assert mail.places()[0] == []


def test_an_entry_takes_room_for_its_feedback_and_little_else():
    assert mailbox.entry_dtype(1).itemsize == 48
    assert mailbox.entry_dtype(10).itemsize == 120
    assert np.dtype(mailbox.entry_dtype(3))["feedback"].shape == (3,)
