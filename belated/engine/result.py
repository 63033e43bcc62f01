"""What a play gives back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from belated.engine.certificate import Certificate
from belated.engine.workspace import Setting
from belated.protocols import Floats
from belated.theory.intervals import reach
from belated.theory.theorems import Theorem, error_of
from belated.theory.verdicts import LEVEL, Verdict, judge

if TYPE_CHECKING:
    import polars

Integers = NDArray[np.int64]
#: Of what sums of rewards could be, so much is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """Regret and counts of all replications, the theorem's bound beside them, and the certificate.

    Rows are replications. Regret is pseudo-regret where the game has a law, realised regret where it has a trace or
    an adversary.
    """

    setting: Setting
    checkpoints: Integers  #: the rounds at which regret was taken; the last is the horizon
    regret: Floats  #: (replications, checkpoints)
    peak: Integers  #: G*, (replications,)
    peaks: Integers  #: G*_i, (replications, actions)
    pulls: Integers  #: T_i, (replications, actions)
    observed: Integers  #: S_i: feedback that came, (replications, actions)
    cancelled: Integers  #: tickets that expired, (replications, actions)
    dropped: Integers  #: feedback that came for a replaced action, (replications, actions)
    outstanding: Integers  #: G_{n+1}, (replications,)
    instances: Integers  #: M, (replications,)
    steps: Integers  #: n' of QPM-D (0 for others), (replications,)
    base_pulls: Integers  #: T'_i of QPM-D (0 for others), (replications, actions)
    total: Integers  #: the sum of G_1..G_n, (replications,)
    defaulted: Integers  #: defaults that were learned for feedback that had not come, (replications,)
    #: With side information of a few values: pulls, observed, cancelled, dropped, peaks and base_pulls for each of
    #: them, (replications, values, actions).
    groups: dict[str, Integers]
    #: Likewise for each value rounds (n_c), peak (G*_c: when one of its own rounds predicted), open and instances
    #: (M_c), (replications, values).
    pools: dict[str, Integers]
    certificate: Certificate
    theorem: Theorem | str
    seconds: float
    #: With record=True: (replications, rounds), from 0; (replications, rounds, numbers) where actions are points.
    actions: NDArray[Any] | None = None
    delays: Integers | None = None
    probabilities: Floats | None = None  #: of the decisions; under QPM-D not propensities (a held action is certain)

    @property
    def replications(self) -> int:
        return len(self.regret)

    @property
    def rounds(self) -> int:
        return self.setting.rounds

    @cached_property
    def bound(self) -> float | None:
        """The theorem's bound on the mean regret at the horizon; None where none applies (see `bound_reason`)."""
        return None if isinstance(self.theorem, str) else float(self.theorem.bound(self.rounds))

    @property
    def bound_reason(self) -> str | None:
        """Why there is no bound; None where there is one."""
        return self.theorem if isinstance(self.theorem, str) else None

    @cached_property
    def bound_curve(self) -> Floats | None:
        """The bound at every checkpoint."""
        if isinstance(self.theorem, str):
            return None
        return np.array([self.theorem.bound(int(n)) for n in self.checkpoints])

    @property
    def regret_range(self) -> tuple[float, float]:
        """What regret can be at the horizon, whoever plays: 0 to n times the largest gap, or n times the range.

        Below 0 where the comparator need not be the best there is.
        """
        game, means = self.setting.game, self.setting.game.means
        if not game.stochastic or means is None:
            return -self.rounds * game.scale, self.rounds * game.scale
        most = self.rounds * float(np.ptp(np.asarray(means, float), axis=-1).max())
        return 0.0 if game.comparator in ("action", "map") else -most, most

    def judge(self, level: float = LEVEL, family: int = 1) -> Verdict:
        """The mean regret against the bound, with confidence; with `family` verdicts given together, all at once."""
        error = 0.0 if isinstance(self.theorem, str) else self.theorem.error(self.rounds)
        said = judge(self.regret[:, -1], self.bound, *self.regret_range, error=error, level=level, family=family)
        if isinstance(self.theorem, str) or said.word == "vacuous" or not self.theorem.vacuous(self.rounds):
            return said
        return replace(said, word="vacuous", needed=None)  # where regret itself has no largest value

    @property
    def verdict(self) -> str:
        """The word of `judge`, such as "holds", "likely holds", "vacuous", "unclear", "fails" or "no bound"."""
        return self.judge().word

    @property
    def mean_regret(self) -> float:
        """The mean over replications at the horizon."""
        return float(self.regret[:, -1].mean())

    @property
    def standard_error(self) -> float:
        """Of `mean_regret`; 0 with a single replication."""
        return error_of(self.regret[:, -1])

    @property
    def spread(self) -> float:
        """What stands behind +-: how far the 95% interval of `mean_regret` reaches, approximately (Student).

        Infinite with a single replication, or if all are alike but for rounding.
        """
        reached, scale = reach(self.regret[:, -1], 0.95), self.setting.game.scale
        return math.inf if math.isfinite(scale) and reached <= ROUNDING * scale * self.rounds else reached

    def __repr__(self) -> str:
        spread = f" +- {self.spread:.3g} (95%)" if math.isfinite(self.spread) else ""
        bound = f"no bound: {self.bound_reason}" if self.bound is None else f"bound {self.bound:.6g}, {self.verdict}"
        return (
            f"<{self.setting.forecaster!r} after {self.rounds:,} rounds x {self.replications}: "
            f"regret {self.mean_regret:.6g}{spread} ({bound}), mean peak {self.peak.mean():.6g}>"
        )

    def _repr_html_(self) -> str:
        from belated.report.cards import facts, within
        from belated.report.labels import labels

        said = labels(self.setting)
        verdict = self.judge()
        bound = f"none: {self.bound_reason}" if self.bound is None else f"{self.bound:,.6g}: {verdict}"
        spread = " (95% of the mean, approximate)" if math.isfinite(self.spread) else ""
        rows = [
            ("game", said["game"]),
            ("delays", said["delays"]),
            ("played", f"{self.rounds:,} rounds x {self.replications:,} replications, seed {self.setting.seed}"),
            ("regret", within(self.mean_regret, self.spread) + spread),
            ("bound", bound),
            ("G*, mean", f"{self.peak.mean():,.6g}"),
            (
                "certificate",
                f"{len(self.certificate)} identities, {'all hold' if self.certificate else 'not all hold'}",
            ),
        ]
        if said["expiry"] is not None:
            rows.insert(3, ("expiry", f"{said['expiry']:,} rounds"))
        return facts(said["forecaster"], rows)

    @property
    def simple_regret(self) -> Floats:
        """What the action that was played most loses against the best in a round, for each replication.

        Of several the lowest number counts. With side information of a few values it is the mean over them, each with
        its most played action. Only games with a law and known expectations have one.
        """
        from belated.engine.measures import simple_regret

        return simple_regret(self)

    def dynamic_regret(self) -> Floats:
        """Regret against the best action of every single round, (replications, checkpoints); needs record=True.

        Where the game has a law that does not change, that is the regret itself, pseudo-regret. Else rewards are those
        that were realised: max_i r_{i,s} - r_{a_s,s}, summed over s.
        """
        from belated.engine.measures import dynamic_regret

        return dynamic_regret(self)

    def trace(self) -> polars.DataFrame:
        """Every round of every replication: action, probability, reward, delay, when feedback arrived; a polars frame.

        It needs record=True. `delay` is null where feedback never comes, `arrived` (the round at whose end it was
        there) where it had not come by the horizon, or the ticket had expired. With side information there is its
        `context`.
        """
        from belated.engine.measures import trace

        return trace(self)

    def frame(self) -> polars.DataFrame:
        """Regret at each checkpoint of each replication, as a polars frame."""
        import polars

        count = len(self.checkpoints)
        columns: dict[str, Any] = {
            "forecaster": [repr(self.setting.forecaster)] * (self.replications * count),
            "replication": np.repeat(np.arange(self.replications), count),
            "round": np.tile(self.checkpoints, self.replications),
            "regret": self.regret.ravel(),
            "peak": np.repeat(self.peak, count),
            "instances": np.repeat(self.instances, count),
        }
        curve = self.bound_curve
        columns["bound"] = [None] * (self.replications * count) if curve is None else np.tile(curve, self.replications)
        return polars.DataFrame(columns, schema_overrides={"bound": polars.Float64})

    def plot(self, path: str | Path | None = None, *others: Result, axes: Any = None, **look: Any) -> Any:
        """Draw mean regret with a 95% band (Student's, approximate) and the bound; saved to `path` if given.

        More results share the figure. Further arguments are those of `bl.report.Look`: `x` ("round", "delay", "peak",
        "loss" or a quantile), `by`, `log`, `legend`, `level`, `bounds`. Returns a matplotlib figure, which a notebook
        shows; or `axes`, if these are given to be drawn into.
        """
        from belated.report.look import Look
        from belated.report.plots import plot

        return plot([(each.setting, each) for each in (self, *others)], Look.read(look), path, axes)
