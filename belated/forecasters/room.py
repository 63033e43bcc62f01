"""What a forecaster's rule works with: a room of instances, queues and notes, and the letters that come in.

The same rule plays in three rooms: the memory of a process, the rows of a database within a transaction, and a log that
is lived through again. So a rule keeps nothing itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Letter(NamedTuple):
    """An open ticket: all that its feedback will need from the time of the prediction."""

    ticket: int
    action: Any
    probability: float
    context: Any
    seat: int  #: which instance predicted
    number: int  #: which of that instance's predictions it was
    memo: Any = None  #: what the learner wrote into `memo` for this prediction
    stale: bool = False  #: whether its action was replaced since


class Seat(Protocol):
    """An instance of the learner."""

    @property
    def number(self) -> int:
        """Its place among the instances, from 0."""

    def ask(self, context: Any) -> tuple[Any, float]:
        """Let it predict: action and probability."""

    def tell(self, context: Any, action: Any, probability: float, feedback: Any) -> None:
        """Feedback for the last prediction that it made."""

    def answer(self, letter: Letter, feedback: Any) -> None:
        """Feedback for any of its predictions: with the number and the memo of that one."""

    def lost(self, letter: Letter) -> None:
        """One of its predictions will have no feedback. Learners that do not ask for it are not told."""


class Room(Protocol):
    """What a rule may touch."""

    #: In `choose`: which prediction this is, from 1: all of the forecaster's are counted. Elsewhere it is 0.
    round: int

    @property
    def notes(self) -> Any:
        """Numbers of the rule's own, as its `layout` describes them: one record, read and written by name in brackets.

        None for a rule without a layout.
        """

    def seat(self, number: int = 0) -> Seat:
        """An instance that exists."""

    def lowest_free(self, pool: int = 0) -> Seat:
        """The lowest-numbered free instance of a pool, else a new one; it is busy from now on."""

    def free(self, seat: int) -> None:
        """An instance is not busy any more."""

    def push(self, queue: int, letter: Letter, feedback: Any) -> None:
        """Put a letter and its feedback at the end of a queue."""

    def pop(self, queue: int) -> tuple[Letter, Any] | None:
        """The oldest letter of a queue and its feedback; None if the queue is empty.

        In a service it has no ticket any more (0), and for a rule that says `queues_feedback_only` no content.
        """


#: What stands for a letter where only its feedback was kept.
NOTHING = Letter(0, -1, 1.0, None, 0, 0)


#: What `choose` of a forecaster's kernels may say for an action: it is to be asked again in the same round.
AGAIN = -3


class Parts(NamedTuple):
    """A learner's kernels as a forecaster's kernels use them, and what is known when they are compiled."""

    ask: Any  # ask(params, state, context, instance, k0, k1) -> action, probability
    tell: Any  # tell(params, state, context, number, action, probability, feedback)
    answer: Any  # answer(params, state, context, letter): tell with all that an entry of the mailbox holds
    lost: Any  # lost(params, state, context, letter.number, letter, action): a prediction will have no feedback
    replace: Any  # replace_all(desk, params, pool, action), for all instances
    values: int  # how many values of side information the learner tells apart; 0: no matter
    in_order: bool  # whether the learner wants its feedback in the order of its predictions


class Kernels(NamedTuple):
    """The compiled form of a forecaster: what the loop calls.

    `desk` holds the scalars of the replication (`desk.instance` says who predicts), `rule` the forecaster's parameters,
    `marks` is a vector of integers for its own use, `slab` the mailbox's entries, `contexts` the side information of
    each, `tally` the counts of each action.
    """

    begin: Any  # begin(desk, rule, params, blank, pool, marks, context, k0, k1): a replication starts
    choose: Any  # choose(desk, rule, params, blank, pool, marks, slab, contexts, context, k0, k1, round_, tally)
    deliver: Any  # deliver(desk, rule, params, pool, marks, slab, contexts, context, entry) -> does it stay in use
    release: Any  # release(desk, rule, params, pool, marks, slab, contexts, context, entry, action), likewise
    back: Any  # back(desk, marks): the choice just made is taken back
    replace: Any  # replace(desk, params, pool, action): a new action takes the number of an old one
