"""The laws of delay: one file a family.

Delays depend on (seed, replication, round), on the action where the law looks at it, and in `PerReward` on the reward.

| i.i.d. | `Constant`, `Uniform`, `Geometric`, `Poisson`, `Pareto`, `Empirical` |
|---|---|
| fixed beforehand | `Trace`, `Batched` |
| made of others | `PerAction`, `Lossy`, `PerReward` |

A law is a frozen dataclass. Its fields are numbers, other laws, tuples of these, and in `Trace` and
`Empirical` a read-only array. So a walk over `dataclasses.fields` (arrays by `tolist()`) gives plain data,
and the constructor takes the plain data back. (`Pareto`, given by one of two numbers, has `to_fields` for it.)
"""

from belated.delays.constant import Batched, Constant
from belated.delays.geometric import Geometric
from belated.delays.law import Law
from belated.delays.lossy import Lossy
from belated.delays.pareto import Pareto
from belated.delays.per_action import PerAction
from belated.delays.per_reward import PerReward
from belated.delays.poisson import Poisson
from belated.delays.recorded import Empirical, Trace
from belated.delays.uniform import Uniform
from belated.protocols import NEVER

__all__ = [
    "NEVER",
    "Batched",
    "Constant",
    "Empirical",
    "Geometric",
    "Law",
    "Lossy",
    "Pareto",
    "PerAction",
    "PerReward",
    "Poisson",
    "Trace",
    "Uniform",
]
