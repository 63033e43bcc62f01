"""How often learners of labels can err at most, from the rows that they will see."""

from __future__ import annotations

import math

import numpy as np

from belated.protocols import Floats

#: A margin that is no more than rounding, against the largest number of the rows.
TINY = 1e-15
#: Rows that are looked at at a time.
FEW = 200


def margin(rows: Floats, labels: Floats) -> float:
    """The largest gamma such that for some w of length 1 and all rows (2 y - 1) w x >= gamma; 0 if no w errs nowhere.

    It is the distance of 0 from the convex hull of the (2 y - 1) x. Least squares without negative coefficients find
    that: of all a >= 0 the one with the least |sum a_i z_i|^2 + (sum a_i - 1)^2 is a multiple of the nearest point's
    weights, because over multiples s p of a point p of the hull the least is |p|^2 / (1 + |p|^2), which rises with |p|.

    >>> import numpy as np
    >>> round(margin(np.array([[3.0, 4.0], [0.0, -2.0]]), np.array([1.0, 0.0])), 6)
    2.0
    """
    signed = (2.0 * labels - 1.0)[:, None] * rows
    scale = float(np.abs(signed).max())
    if scale == 0.0:
        return 0.0
    points = np.unique(signed / scale, axis=0)
    # Of many rows few matter: those that the direction so far does worst on are added until none is far below.
    some = np.argsort(np.abs(points).sum(axis=1))[:FEW]
    while True:
        direction = _nearest(points[some])
        length = float(np.linalg.norm(direction))
        reached = points @ direction / length if length else np.zeros(len(points))
        mine, worst = float(reached[some].min()), np.argsort(reached)[:FEW]
        if mine <= TINY:  # nothing tells these few apart
            return 0.0
        # What this direction does is certain, however well the least squares were solved.
        found = float(reached[worst[0]])
        if found >= mine * (1.0 - 1e-12):
            return scale * found
        some = np.union1d(some, worst)


def _nearest(points: Floats) -> Floats:
    """A multiple of the point of their convex hull that is nearest to 0; 0 if none was found."""
    from scipy.optimize import nnls

    try:
        weights, _ = nnls(np.vstack([points.T, np.ones(len(points))]), np.append(np.zeros(points.shape[1]), 1.0))
    except RuntimeError:  # it gave up
        return np.zeros(points.shape[1])
    found: Floats = weights @ points
    return found


def perceptron(rows: Floats, labels: Floats) -> float | None:
    """(X / gamma)^2; None where no direction tells the labels apart.

    Novikoff: each mistake moves w x* up by gamma at least, and |w|^2 by X^2 at most, so that
    gamma m <= w x* <= |w| <= X sqrt m.
    """
    gap = margin(rows, labels)
    return None if gap == 0.0 else float((rows * rows).sum(axis=1).max()) / gap**2


def relevant(rows: Floats, labels: Floats) -> int | None:
    """How many features say the labels: 1 where one of them is on. Few, but not always the fewest; None if none do.

    >>> import numpy as np
    >>> relevant(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]), np.array([1.0, 1.0, 0.0]))
    2
    """
    on = rows > 0.0
    allowed = on[labels == 1.0] & ~on[labels == 0.0].any(axis=0)
    chosen = 0
    while len(allowed):  # cover the rows greedily
        best = int(allowed.sum(axis=0).argmax())
        if not allowed[:, best].any():
            return None
        allowed = allowed[~allowed[:, best]]
        chosen += 1
    return chosen


def winnow(rows: Floats, labels: Floats, factor: float, threshold: float) -> float | None:
    """a k (log_a theta + 1) + N / theta; None where no choice of features says the labels.

    Littlestone: a weight that matters is never set to 0, and grows only while it is at most theta: so there are at most
    u <= k (log_a theta + 1) promotions (none if theta < 1: a row of label 1 has a weight of at least 1). All weights
    together begin at N, grow by at most (a - 1) theta in a promotion and fall by at least theta in a demotion: of
    these there are at most N / theta + (a - 1) u.
    """
    known = relevant(rows, labels)
    if known is None:
        return None
    promotions = known * (math.log(threshold, factor) + 1.0) if threshold >= 1.0 else 0.0
    return float(factor * promotions + rows.shape[1] / threshold)
