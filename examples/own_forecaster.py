"""A forecaster of your own: a rule in Python, the same rule as kernels, and one line for the catalog.

python examples/own_forecaster.py
"""

from typing import Any

import numpy as np

import belated as bl
from belated import checks
from belated.errors import InvalidArgument, Unsupported
from belated.forecasters.qpmd import append
from belated.forecasters.room import Kernels
from belated.kernels.compile import kernel


@bl.catalog.add
class Batches(bl.Forecaster):
    """Tells its learner of feedback in batches of `size`, as a job does that runs when enough has come in."""

    size: int = 10  # a parameter: it is shown, saved and stored

    # What a forecaster states of itself. What it does not state, it does not get.
    propensity = True  # each decision is a fresh draw of the learner, so one may divide by its probability
    chooses_among = True  # and it may be made among some actions only

    def check(self, learner: Any) -> None:
        if self.size < 1:
            raise InvalidArgument(f"size must be >= 1, got {self.size}")
        if not getattr(learner, "tolerates_delay", True):
            raise Unsupported(f"Batches cannot play {type(learner).__name__}: it cannot be told late")

    # The rule. It keeps everything in the room that it is given: instances, queues of feedback, and notes.

    def layout(self):
        return np.dtype([("waiting", "i8")])

    def choose(self, room, context):
        seat = room.seat()
        if room.notes["waiting"] >= self.size:
            room.notes["waiting"] = 0
            while (found := room.pop(0)) is not None:
                seat.answer(*found)
        return seat, *seat.ask(context)

    def deliver(self, room, letter, feedback):
        room.push(0, letter, feedback)
        room.notes["waiting"] += 1

    def release(self, room, letter):
        room.seat().lost(letter)

    def queues(self):
        return 1

    # The same again for the compiled loop. marks[0] and marks[1]: the first and the last entry that wait; marks[2]: how
    # many. Without this method it is played in Python.

    def params(self):
        return {"size": self.size}

    def marks(self, instances):
        return 3

    def kernels(self, parts):
        ask, answer, lost = parts.ask, parts.answer, parts.lost

        def begin(desk, rule, params, blank, pool, marks, context, k0, k1):
            marks[0] = -1
            marks[1] = -1
            marks[2] = 0

        def choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally):
            if marks[2] >= rule.size:
                marks[2] = 0
                while marks[0] >= 0:
                    entry = marks[0]
                    letter = slab[entry]
                    marks[0] = letter.next
                    answer(params, pool[0], contexts[entry], letter)
                    letter.next = desk.free  # the entry is used up
                    desk.free = entry
            return ask(params, pool[0], context, 0, k0, k1)

        def deliver(desk, rule, params, pool, marks, slab, contexts, context, entry):
            append(slab, marks, 0, entry)
            marks[2] += 1
            return True  # the entry stays in use

        def release(desk, rule, params, pool, marks, slab, contexts, context, entry, action):
            letter = slab[entry]
            lost(params, pool[0], context, letter.number, letter, action)
            return False

        def back(desk, marks):
            pass

        return Kernels(kernel(begin), kernel(choose), kernel(deliver), kernel(release), kernel(back), parts.replace)


if __name__ == "__main__":
    checks.check_forecaster(Batches(bl.UCB1(actions=3), size=7))
    game, law = bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.delays.Geometric(mean=50)
    for size in (1, 10, 100, 1000):
        print(bl.play(Batches(bl.UCB1(actions=3), size=size), game, law, rounds=20_000, replications=10))
