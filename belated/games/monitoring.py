"""Finite partial monitoring: a matrix of losses, a matrix of symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from belated import require
from belated.errors import InvalidArgument
from belated.games.description import Description
from belated.games.file import read_file
from belated.games.finite import Finite, checked_law
from belated.games.reward_table import checked_contexts, values_of
from belated.kernels.compile import kernel
from belated.kernels.random import outcome_draw, uniform
from belated.protocols import Floats

#: Numbers at the head of `params`.
HEAD = 6


@dataclass(frozen=True, repr=False)
class Monitoring(Finite):
    """In a round with outcome x, action i costs loss[i][x], and all that is seen is symbols[i][x].

    * `law`: outcomes are i.i.d. with these probabilities; regret is the pseudo-regret sum_t (L_{a_t} - L_best) law.
    * `trace`: the outcomes themselves, one a round; the game ends with the last. Regret is realised, against the best
      fixed action: sum_t L[a_t][x_t] - min_i sum_t L[i][x_t].
    * Both: the trace drives, and the law gives the pseudo-regret. Neither: the game can be described, not played.

    With `contexts`, one row a round of the trace, the forecaster is shown row t of them before round t.

    Regret is in units of loss. Feedback is the number of the symbol among those of its row, by first appearance;
    `update` of a forecaster is given the symbol itself.

    Bartok, Foster, Pal, Rakhlin, Szepesvari, *Partial monitoring: classification, regret bounds, and algorithms*, 2014.

    >>> import belated as bl
    >>> game = bl.games.Monitoring([[1, 0], [0, 1]], [["-", "-"], ["rotten", "good"]], law=[0.25, 0.75])
    >>> game.structure.klass, game.means
    ('easy', (-0.25, -0.75))
    """

    comparator = "action"
    any_round = True
    law: Sequence[float] | Floats | None = None
    trace: Sequence[int] | NDArray[np.integer] | None = None
    contexts: ArrayLike | None = None  #: side information, one row a round

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.law is not None:
            object.__setattr__(self, "law", checked_law("law", self.law, self.outcomes))
        if self.trace is not None:
            object.__setattr__(self, "trace", _checked_trace(self.trace, self.outcomes))
        if self.contexts is not None:
            if self.trace is None:
                raise InvalidArgument("contexts go with a trace, one row a round, and there is none")
            rows = checked_contexts(self.contexts, len(self.trace)).tolist()
            object.__setattr__(self, "contexts", tuple(map(tuple, rows)))

    @classmethod
    def read(cls, file: str | Path) -> Monitoring:
        """A game from a TOML file with `loss` (or `reward`) and `symbols`, and `law` or `trace` where it has any."""
        try:
            return cls(**read_file(file))
        except InvalidArgument as error:
            where = repr(str(file))
            raise InvalidArgument(str(error) if where in str(error) else f"{where}: {error}") from None

    @property
    def context_size(self) -> int:  # type: ignore[override]
        return 0 if self.contexts is None else len(self.contexts[0])  # type: ignore[index, arg-type]

    @property
    def values(self) -> int:  # type: ignore[override]
        return values_of(self.contexts)

    def describe(self) -> Description:
        return Description(self.structure, self.law)

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.law is not None and self.trace is None

    @property
    def means(self) -> tuple[float, ...] | None:
        """Minus the expected loss of each action, where there is a law."""
        return None if self.law is None else tuple((-np.array(self.loss) @ np.array(self.law)).tolist())

    def longest(self) -> int | None:
        return None if self.trace is None else len(self.trace)

    def check_playable(self) -> None:
        if self.law is None and self.trace is None:
            raise InvalidArgument(
                f"{self!r} says nothing about its outcomes: it can be described, and played with a law= or a trace="
            )

    def params(self) -> Floats:
        """K, M, whether there is a law, least loss and range, d; gaps, limits of the law, losses, codes; the trace.

        A round of the trace is its outcome and the d numbers of its context.
        """
        self.check_playable()
        law = np.zeros(self.outcomes) if self.law is None else np.array(self.law)
        loss = np.array(self.loss)
        head = [self.actions, self.outcomes, self.law is not None, loss.min(), self.scale, self.context_size]
        gaps = loss @ law - (loss @ law).min()
        # The last outcome that can happen takes what rounding leaves.
        limits = np.where(np.arange(self.outcomes) < law.nonzero()[0].max(initial=0), law.cumsum(), 2.0)
        if self.trace is not None:
            limits[0] = -1.0
        trace = np.zeros((0, 1)) if self.trace is None else np.reshape(self.trace, (-1, 1))
        rows = trace if self.contexts is None else np.hstack([trace, self.contexts])
        parts = (head, gaps, limits, loss, self.codes(), rows)
        return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])

    def memory(self) -> int:
        """Plays of each action, how often each outcome came, the loss suffered."""
        return self.actions + self.outcomes + 1

    @staticmethod
    def observe(params, memory, k0, k1, round_, context):
        at = row_of(params, round_) + 1
        for i in range(int(params[5])):
            context[i] = params[at + i]

    @staticmethod
    def outcome(params, memory, k0, k1, round_, action, feedback):
        actions = int(params[0])
        outcomes = int(params[1])
        limits = HEAD + actions
        losses = limits + outcomes
        codes = losses + actions * outcomes
        if params[limits] < 0.0:
            x = int(params[row_of(params, round_)])
        else:
            u = uniform(outcome_draw(k0, k1, round_, 0), 0)
            x = 0
            while u >= params[limits + x]:
                x += 1
        lost = params[losses + action * outcomes + x]
        memory[action] += 1.0
        memory[actions + x] += 1.0
        memory[actions + outcomes] += lost
        feedback[0] = params[codes + action * outcomes + x]
        return 1.0 - (lost - params[3]) / params[4] if params[4] > 0.0 else 1.0

    @staticmethod
    def regret(params, memory):
        actions = int(params[0])
        outcomes = int(params[1])
        if params[2] > 0.0:
            total = 0.0
            for i in range(actions):
                total += params[HEAD + i] * memory[i]
            return total
        losses = HEAD + actions + outcomes
        best = math.inf
        for i in range(actions):
            total = 0.0
            for x in range(outcomes):
                total += params[losses + i * outcomes + x] * memory[actions + x]
            best = min(best, total)
        return memory[actions + outcomes] - best

    def __repr__(self) -> str:
        parts = [str([list(row) for row in self.loss]), str([list(row) for row in self.symbols])]
        if self.law is not None:
            parts.append(f"law={list(self.law)}")
        if self.trace is not None:
            few = self.trace if len(self.trace) <= 8 else [*self.trace[:8], ...]
            parts.append(f"trace={list(few)}".replace("Ellipsis", f"... {len(self.trace)} in all"))
        if self.contexts is not None:
            parts.append(f"contexts of {self.context_size}")
        return f"Monitoring({', '.join(parts)})"


@kernel
def row_of(params, round_):
    """Where a round of the trace begins."""
    actions = int(params[0])
    outcomes = int(params[1])
    return HEAD + actions + outcomes + 2 * actions * outcomes + (round_ - 1) * (1 + int(params[5]))


def _checked_trace(trace: Any, outcomes: int) -> tuple[int, ...]:
    """The outcomes of all rounds; checked all at once, since there may be many."""
    given = np.asarray(require.sequence("trace", trace))
    if given.ndim != 1 or given.dtype.kind not in "iu":
        require.integer("trace[0]", given.ravel()[0].item())
        raise InvalidArgument(f"trace must be whole numbers in a row, got shape {given.shape} of {given.dtype}")
    wrong = (given < 0) | (given >= outcomes)
    if wrong.any():
        place = int(wrong.argmax())
        raise InvalidArgument(f"trace[{place}] must be an outcome, 0 to {outcomes - 1}, got {given[place]}")
    return tuple(given.tolist())
