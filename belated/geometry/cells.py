"""Linear programs on the simplex. Vectors are normalised, so a slack needs no scale.

A cell is the set of outcome laws p for which an action is best; all questions about cells are whether some p satisfies
strict inequalities a.p > 0 (and, for the border of two cells, one equation b.p = 0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from belated.protocols import Floats

#: A slack up to this is none.
TOLERANCE = 1e-9
_SOLVER = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def slack(outcomes: int, strict: Sequence[Floats], border: Floats | None = None) -> float:
    """The largest e <= 1 such that some p in the simplex has a.p >= e for all `strict` a (and b.p = 0).

    Positive: the inequalities hold strictly somewhere, so on a set of full dimension. Zero: at best with equality.
    Negative: nowhere (-inf where no p has b.p = 0).

    >>> round(slack(2, [np.array([1.0, -1.0])]), 6), round(slack(2, [np.array([1.0, -1.0]), np.array([-1.0, 1.0])]), 6)
    (1.0, 0.0)
    """
    return widest(outcomes, strict, border)[0]


def widest(outcomes: int, strict: Sequence[Floats], border: Floats | None = None) -> tuple[float, Floats, Floats]:
    """`slack`, a point p that has it, and a weight of each inequality: without those of weight 0 it would be no larger.

    >>> best, point, weights = widest(2, [np.array([1.0, -1.0]), np.array([-1.0, 1.0]), np.array([1.0, 1.0])])
    >>> point.round(6).tolist(), (weights != 0).tolist()
    ([0.5, 0.5], [True, True, False])
    """
    from scipy.optimize import linprog

    if not strict and border is None:
        return 1.0, np.full(outcomes, 1.0 / outcomes), np.zeros(0)
    goal = np.zeros(outcomes + 1)
    goal[-1] = -1.0
    above = np.array([[*(-row / np.abs(row).max()), 1.0] for row in strict]).reshape(len(strict), outcomes + 1)
    equal = np.zeros((1 if border is None else 2, outcomes + 1))
    equal[0, :-1] = 1.0
    if border is not None:
        equal[1, :-1] = border / np.abs(border).max()
    solved = linprog(
        goal,
        A_ub=above,
        b_ub=np.zeros(len(strict)),
        A_eq=equal,
        b_eq=np.eye(2)[0][: len(equal)],
        bounds=[(0, None)] * outcomes + [(None, 1.0)],
        method="highs",
        options=_SOLVER,
    )
    if solved.status != 0:
        return -np.inf, np.full(outcomes, np.nan), np.ones(len(strict))
    inside = np.maximum(solved.x[:-1], 0.0)
    return 0.0 - float(solved.fun), inside / inside.sum(), np.abs(solved.ineqlin.marginals)


def smallest(rows: Floats, target: Floats) -> Floats | None:
    """w with rows^T w = target and the least max |w|; None if there is none.

    >>> smallest(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0])).round(6).tolist()
    [0.5, 0.5, 0.5]
    """
    from scipy.optimize import linprog

    count, outcomes = rows.shape
    size = float(np.abs(target).max())
    if size == 0.0:
        return np.zeros(count)
    if not in_span(rows, target):
        return None
    goal = np.zeros(count + 1)
    goal[-1] = 1.0
    one = np.ones((count, 1))
    solved = linprog(
        goal,
        A_ub=np.block([[np.eye(count), -one], [-np.eye(count), -one]]),
        b_ub=np.zeros(2 * count),
        A_eq=np.hstack([rows.T, np.zeros((outcomes, 1))]),
        b_eq=target / size,
        bounds=[(None, None)] * count + [(0, None)],
        method="highs",
        options=_SOLVER,
    )
    return np.asarray(tidy(solved.x[:-1]) * size) if solved.status == 0 else None


def least_squares(rows: Floats, target: Floats) -> Floats:
    """The w of least 2-norm among those with rows^T w nearest to the target.

    >>> least_squares(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])).tolist()
    [0.0, 1.0, -1.0]
    """
    nearest: Floats = np.linalg.lstsq(rows.T, target, rcond=None)[0].astype(np.float64)
    return tidy(nearest)


def in_span(rows: Floats, target: Floats) -> bool:
    """Whether the target is a combination of the rows.

    >>> in_span(np.array([[1.0, 1.0, 0.0]]), np.array([2.0, 2.0, 0.0]))
    True
    """
    left = np.abs(rows.T @ least_squares(rows, target) - target).max()
    return bool(left <= 1e-8 * np.abs(target).max())


def tidy(vector: Floats) -> Floats:
    """Entries below 1e-9 of the largest become 0; the others lose their last digits (0.9999999999999998 becomes 1).

    >>> tidy(np.array([0.9999999999999998, 1e-16, 1 / 3])).tolist()
    [1.0, 0.0, 0.3333333333333]
    """
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0:
        return np.zeros_like(vector)
    unit = 2.0 ** np.floor(np.log2(largest) + 1e-6)
    kept = np.where(np.abs(vector) < 1e-9 * largest, 0.0, vector)
    clean: Floats = np.round(kept / unit, 13) * unit + 0.0
    return clean
