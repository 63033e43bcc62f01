"""Side information that is one of a few values, 0 to `values` - 1."""

from __future__ import annotations

from belated.kernels.compile import kernel


@kernel
def value_of(context, values):
    """The value that a context of one number stands for; what is no such value counts as 0.

    >>> import numpy as np
    >>> value_of(np.array([2.0]), 3), value_of(np.array([7.0]), 3)
    (2, 0)
    """
    if values <= 1 or not 0.0 <= context[0] < values:
        return 0
    return int(context[0])
