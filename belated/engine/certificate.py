"""The paper's identities, checked on every replication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.engine.workspace import Setting, Tables
from belated.errors import CertificateError
from belated.theory.case import Counts


@dataclass(frozen=True)
class Certificate:
    """Which identities hold, for each replication. `play` raises CertificateError if one does not.

    Indexed by name: `certificate["M = G* + 1"]` is a vector of truths, one a replication.
    """

    identities: dict[str, NDArray[np.bool_]]

    def __getitem__(self, name: str) -> NDArray[np.bool_]:
        return self.identities[name]

    def __iter__(self) -> Any:
        return iter(self.identities)

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def holds(self) -> bool:
        """Whether all identities hold in all replications."""
        return all(bool(truths.all()) for truths in self.identities.values())

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        failed = [name for name, truths in self.identities.items() if not truths.all()]
        count = max((len(truths) for truths in self.identities.values()), default=0)
        said = f"fails: {', '.join(failed)}" if failed else "all hold"
        return f"<certificate of {len(self)} identities in {count:,} replications: {said}>"

    def _repr_html_(self) -> str:
        from belated.report.cards import table

        rows = [(name, int(truths.sum()), len(truths)) for name, truths in self.identities.items()]
        word = "all hold" if self.holds else "some do not hold"
        return table(f"Certificate: {word}", ("identity", "holds in", "of replications"), rows)


def counts_of(setting: Setting, tables: Tables) -> Counts:
    """What was counted, as certificates and theorems read it."""
    cells = tables.groups if tables.groups.size else tables.tally
    return Counts(setting.rounds, tables.tally, cells, tables.pools, tables.summary)


def certify(setting: Setting, counts: Counts, followed: bool = True) -> Certificate:
    """Check the identities of design rule 10, and the forecaster's own; CertificateError with the first that fails.

    Whether feedback came when it was due is known only where each was `followed` on its way: counts do not say it.
    """
    tally, summary, n = counts.tally, counts.summary, counts.n
    pulls, cancelled = tally["pulls"], tally["cancelled"]
    closed = tally["observed"] + cancelled + tally["dropped"]
    came = closed.sum(axis=1)
    due_once = (summary["due_count"] == summary["came_count"]) & (summary["due_sum"] == summary["came_sum"])
    identities = {
        "sum of pulls = n": pulls.sum(axis=1) == n,
        "pulled - observed - cancelled - dropped = G_{n+1}": n - came == summary["outstanding"],
        "feedback due by n came exactly once": due_once & (came == summary["came_count"]),
        "G*_i <= G* <= n - 1": (tally["peak"].max(axis=1) <= summary["peak"]) & (summary["peak"] <= n - 1),
        "G* <= sum of G*_i": summary["peak"] <= tally["peak"].sum(axis=1),
        "no action has more feedback than pulls": (pulls - closed >= 0).all(axis=1),
    }
    identities |= setting.forecaster.identities(counts)
    if counts.pools.size:
        rows, added = counts.cells, ("pulls", "observed", "base")
        sums = [(rows[name].sum(axis=1) == tally[name]).all(axis=1) for name in added]
        identities["the values of the side information add up"] = np.all(
            [*sums, counts.pools["rounds"].sum(axis=1) == n], axis=0
        )
    if not followed:
        del identities["feedback due by n came exactly once"]
    certificate = Certificate({name: np.asarray(truths, bool) for name, truths in identities.items()})
    for name, truths in certificate.identities.items():
        if not truths.all():
            ours = type(setting.forecaster).__module__.startswith("belated.")
            hint = "please report this" if ours else "its identities, its rule or its kernels are not as it states"
            raise CertificateError(
                f"{setting.forecaster!r}: '{name}' fails in replication {int(np.argmin(truths))}; {hint}"
            )
    return certificate
