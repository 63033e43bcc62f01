"""Learners: one file an algorithm."""

from belated.learners.chernoff_ucb import ChernoffUCB
from belated.learners.epsilon_greedy import EpsilonGreedy
from belated.learners.exp3 import Exp3
from belated.learners.exp3ix import Exp3IX
from belated.learners.hedge import Hedge
from belated.learners.klucb import KLUCB
from belated.learners.round_robin import RoundRobin
from belated.learners.thompson import ThompsonBernoulli
from belated.learners.tsallis_inf import TsallisINF
from belated.learners.ucb1 import UCB1
from belated.learners.uniform import Uniform

__all__ = [
    "KLUCB",
    "UCB1",
    "ChernoffUCB",
    "EpsilonGreedy",
    "Exp3",
    "Exp3IX",
    "Hedge",
    "RoundRobin",
    "ThompsonBernoulli",
    "TsallisINF",
    "Uniform",
]
