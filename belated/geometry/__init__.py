"""What a finite partial-monitoring game is: cells, neighbours, observability, class.

Bartok, Foster, Pal, Rakhlin, Szepesvari, *Partial monitoring: classification, regret bounds, and algorithms*, 2014;
Lattimore, Szepesvari, *Bandit Algorithms*, 2020, chapter 37.
"""

from belated.geometry.check import check_game
from belated.geometry.structure import Structure, structure, structure_of

__all__ = ["Structure", "check_game", "structure", "structure_of"]
