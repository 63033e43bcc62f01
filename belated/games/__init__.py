"""The games: one file a family.

Outcomes depend on (seed, replication, round, action), never on what was played before; but for games that say
`reactive`.

| with a law: pseudo-regret | `Bernoulli`, `Arms` (over `laws`) |
|---|---|
| an adversary: realised regret | `RewardTable`, `RandomWalk`, `Switching`, `Block`; the second and third also dynamic |
| arms that tell of each other | `GaussianProcess` |
| arms that change | `Replaced` |
| partial monitoring | `Monitoring`, `LinearMonitoring` |
| points and their losses | `LinearLosses`, `Quadratic`, `Regression` |
| rows with labels | `Labels` |
| a course that the actions steer | `MDP` (over `grid_world` and the like) |
| side information | `Grouped`, `Linear`, `LinearMonitoring`, `Advice`; `RewardTable` and `Monitoring` with contexts |

The classical games of partial monitoring are functions: `apple_tasting`, `label_efficient`, `spam`, ...

A game is a frozen dataclass. Its fields are numbers, words, other specs, tuples of these, and in
`RewardTable` and its like read-only arrays. So a walk over `dataclasses.fields` (arrays by `tolist()`) gives plain
data, and the constructor takes the plain data back.
"""

from belated.games import laws
from belated.games.advice import Advice
from belated.games.arms import Arms
from belated.games.bernoulli import Bernoulli
from belated.games.block import Block
from belated.games.classical import (
    apple_tasting,
    bandit,
    bartok,
    detective,
    differences,
    dueling,
    dynamic_pricing,
    full_information,
    hopeless,
    label_efficient,
    spam,
    trivial,
)
from belated.games.deal import deal
from belated.games.gaussian_process import GaussianProcess
from belated.games.grouped import Grouped
from belated.games.labels import Labels
from belated.games.linear import Linear
from belated.games.linear_losses import LinearLosses
from belated.games.linear_monitoring import LinearMonitoring
from belated.games.mdp import MDP, grid_world
from belated.games.monitoring import Monitoring
from belated.games.quadratic import Quadratic
from belated.games.random_walk import RandomWalk
from belated.games.regression import Regression
from belated.games.replaced import Replaced
from belated.games.reward_table import RewardTable
from belated.games.switching import Switching

__all__ = [
    "MDP",
    "Advice",
    "Arms",
    "Bernoulli",
    "Block",
    "GaussianProcess",
    "Grouped",
    "Linear",
    "LinearMonitoring",
    "Labels",
    "LinearLosses",
    "Quadratic",
    "Regression",
    "Monitoring",
    "RandomWalk",
    "Replaced",
    "RewardTable",
    "Switching",
    "apple_tasting",
    "bandit",
    "bartok",
    "deal",
    "detective",
    "differences",
    "dueling",
    "dynamic_pricing",
    "full_information",
    "grid_world",
    "hopeless",
    "label_efficient",
    "laws",
    "spam",
    "trivial",
]
