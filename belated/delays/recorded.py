"""Delays that were written down: a sample to draw from, and a trace to replay."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated.delays.law import LONGEST, Law, Sampler, whole
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.random import uniform
from belated.protocols import NEVER, Floats

Whole = NDArray[np.int64]


class Recorded(Law):
    """Delays held as a read-only int64 array; as plain data they are its `tolist()`."""

    @property
    @abstractmethod
    def array(self) -> Whole:
        """The delays."""

    @property
    def maximum(self) -> int:
        return int(np.max(self.array))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recorded):
            return NotImplemented
        return type(self) is type(other) and np.array_equal(self.array, other.array)

    def __hash__(self) -> int:
        return hash((type(self), self.array.shape, self.array.tobytes()))

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.array.shape))
        return f"{type(self).__name__}({size} delays)"


@dataclass(frozen=True, eq=False, repr=False)
class Empirical(Recorded):
    """Delays drawn with replacement from a sample; `NEVER` may be one of them.

    >>> import belated as bl
    >>> bl.delays.Empirical([0, 0, 1, 7]).mean
    2.0
    """

    sample: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample", _checked("sample", self.sample, (1,)))

    @property
    def array(self) -> Whole:
        return cast(Whole, self.sample)

    def params(self) -> Floats:
        return np.concatenate([[float(self.array.size)], _as_floats(self.array)])

    @property
    def sampler(self) -> Sampler:
        return empirical

    @property
    def mean(self) -> float:
        return float(np.mean(_as_floats(self.array)))


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Recorded):
    """Round t has the t-th delay: a vector, or rounds x actions where the delay looks at the action.

    `NEVER` is allowed: that feedback does not come. The trace ends with its last row.

    >>> import belated as bl
    >>> bl.delays.Trace([3, 0, bl.delays.NEVER]).longest()
    3
    """

    iid = False
    taus: ArrayLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "taus", _checked("taus", self.taus, (1, 2)))
        object.__setattr__(self, "depends_on_action", self.array.ndim == 2)

    @property
    def array(self) -> Whole:
        return cast(Whole, self.taus)

    @property
    def actions(self) -> int | None:
        return self.array.shape[1] if self.array.ndim == 2 else None

    def params(self) -> Floats:
        shape = [float(len(self.array)), float(self.actions or 1)]
        return np.concatenate([shape, _as_floats(self.array).ravel()])

    @property
    def sampler(self) -> Sampler:
        return trace

    def longest(self) -> int:
        return len(self.array)


@kernel
def empirical(params, start, draw, layer, round_, action):
    return whole(params[start + 1 + int(params[start] * uniform(draw, 0))])


@kernel
def trace(params, start, draw, layer, round_, action):
    if round_ > params[start]:
        return NEVER
    columns = int(params[start + 1])
    column = action if columns > 1 else 0
    return whole(params[start + 2 + (round_ - 1) * columns + column])


def _as_floats(taus: Whole) -> Floats:
    """As `params` hold them: infinity for NEVER."""
    return np.where(taus == NEVER, np.inf, taus)


def _checked(name: str, values: Any, dimensions: tuple[int, ...]) -> Whole:
    """A read-only copy of the delays."""
    try:
        taus = np.array(values, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} must be whole numbers in rows of one length: {error}") from None
    if taus.ndim not in dimensions or taus.size == 0:
        shape = "a vector" if dimensions == (1,) else "a vector, or rounds x actions"
        raise InvalidArgument(f"{name} must be {shape}, not empty, got shape {taus.shape}")
    if taus.dtype.kind not in "iu":
        raise InvalidArgument(f"{name} must be whole numbers, got {taus.flat[0]!r} of type {taus.dtype}")
    outside = (taus < 0) | ((taus > LONGEST) & (taus != NEVER))
    if outside.any():
        at = np.unravel_index(int(outside.argmax()), taus.shape)
        place = ", ".join(map(str, at))
        raise InvalidArgument(f"{name}[{place}] must be between 0 and 2^53, or NEVER, got {taus[at]}")
    taus = taus.astype(np.int64)
    taus.flags.writeable = False
    return taus
