"""The paper's identities, checked on every replication."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from belated.engine.workspace import Setting, Tables
from belated.errors import CertificateError
from belated.forecasters import BOLD, QPMD


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


def certify(setting: Setting, tables: Tables, followed: bool = True) -> Certificate:
    """Check the identities of design rule 10; raise CertificateError with the first that fails.

    Whether feedback came when it was due is known only where each was `followed` on its way: counts do not say it.
    """
    tally, summary, n = tables.tally, tables.summary, setting.rounds
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
    if isinstance(setting.forecaster, BOLD):
        identities["M = G* + 1"] = summary["instances"] == summary["peak"] + 1
    if isinstance(setting.forecaster, QPMD):
        # With side information the procedure is repeated for each value of it, and so is the identity.
        rows = tables.groups if tables.groups.size else tally
        ahead = rows["pulls"] - rows["base"]
        most = rows["peak"] + rows["cancelled"]
        identities["n' <= n"] = (summary["steps"] >= 1) & (summary["steps"] <= n)
        identities["n' = sum of T'_i"] = summary["steps"] == tally["base"].sum(axis=1)
        # A cancelled prediction is never answered, so it adds to what the base has not seen.
        within = (ahead >= 0) & (ahead <= most)
        identities["0 <= T_i - T'_i <= G*_i (+ cancelled)"] = within.reshape(len(pulls), -1).all(axis=1)
    if tables.groups.size:
        identities["the values of the side information add up"] = np.all(
            [(tables.groups[name].sum(axis=1) == tally[name]).all(axis=1) for name in ("pulls", "observed", "base")],
            axis=0,
        )
    if not followed:
        del identities["feedback due by n came exactly once"]
    certificate = Certificate({name: np.asarray(truths, bool) for name, truths in identities.items()})
    for name, truths in certificate.identities.items():
        if not truths.all():
            raise CertificateError(
                f"{setting.forecaster!r}: '{name}' fails in replication {int(np.argmin(truths))}; please report this"
            )
    return certificate
