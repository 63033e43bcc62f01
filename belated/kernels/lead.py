"""A leader that is known to stay ahead: index rules need not look at all actions every round.

When all indices are known, a rule may say for how long its choice is sure: while nobody else is observed, up to round
`until`, as long as the leader was seen `most` times or less and the sum of its feedback is `enough` times that. It is
a rule for sums, so a round needs no division, and for feedback, so the choice itself waits for nothing.
"""

from __future__ import annotations

from belated.kernels.compile import kernel
from belated.kernels.natural import natural

#: The fields of a state. `until` is 0 where no leader is followed.
LEAD = [("enough", "f8"), ("leader", "i8"), ("until", "i8"), ("most", "i8")]
#: The part of its lead that a leader may use for each of three things: what others gain as time goes by, what it loses
#: itself as it is seen more often, and (twice) as its mean falls; and how far time may go, in the unit of the rule.
SHARE, AHEAD = 0.25, 1.0 / 64.0
#: What covers the rounding of all that.
SLACK = 1e-12


@kernel
def leads(state):
    """Whether the leader is ahead for sure (up to round `until`)."""
    leader = natural(state.leader)
    seen = state.seen[leader]
    return seen <= state.most and state.total[leader] >= state.enough * float(seen)
