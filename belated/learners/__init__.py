"""Learners: one file an algorithm."""

from belated.learners.adahedge_d import AdaHedgeD
from belated.learners.adaptive_revision import AdaptiveRevision
from belated.learners.bobw22 import BoBW22
from belated.learners.bobw24 import BoBW24
from belated.learners.capped_exp3 import CappedExp3
from belated.learners.cbp import CBP
from belated.learners.cbp_side import CBPside
from belated.learners.chernoff_ucb import ChernoffUCB
from belated.learners.conversions import Conversions
from belated.learners.cover import Cover
from belated.learners.delayed_exp3 import DelayedExp3
from belated.learners.delayed_exp4 import DelayedExp4
from belated.learners.delayed_hedge import DelayedHedge
from belated.learners.delayed_sapo import DelayedSAPO
from belated.learners.discounted_thompson import DiscountedThompson
from belated.learners.discounted_ucb import DiscountedUCB
from belated.learners.dorm import DORM
from belated.learners.dorm_plus import DORMPlus
from belated.learners.dual_averaging import DualAveraging
from belated.learners.epsilon_greedy import EpsilonGreedy
from belated.learners.exp3 import Exp3
from belated.learners.exp3ix import Exp3IX
from belated.learners.exp4 import Exp4
from belated.learners.global_exp3 import GlobalExp3
from belated.learners.gp_ucb import GPUCB
from belated.learners.gradient_descent import GradientDescent
from belated.learners.halving import Halving
from belated.learners.hedge import Hedge
from belated.learners.hybrid_ftrl import HybridFTRL
from belated.learners.klucb import KLUCB
from belated.learners.lin_ucb import LinUCB
from belated.learners.linear_descent import LinearDescent
from belated.learners.linear_thompson import LinearThompson
from belated.learners.mdp_exp3 import MDPExp3
from belated.learners.neighborhood_watch2 import NeighborhoodWatch2
from belated.learners.optimistic_pessimistic import OptimisticPessimistic
from belated.learners.otf_lin_ucb import OTFLinUCB
from belated.learners.patient_bandits import PatientBandits
from belated.learners.per_context import PerContext
from belated.learners.perceptron import Perceptron
from belated.learners.phased_elimination import PhasedElimination
from belated.learners.policy_elimination import PolicyElimination
from belated.learners.rand_cbp import RandCBP
from belated.learners.rand_cbp_side import RandCBPside
from belated.learners.randomized_ucb import RandomizedUCB
from belated.learners.round_robin import RoundRobin
from belated.learners.sliding_ucb import SlidingUCB
from belated.learners.successive_elimination import SuccessiveElimination
from belated.learners.thompson import ThompsonBernoulli
from belated.learners.tsallis_inf import TsallisINF
from belated.learners.tspm import TSPM
from belated.learners.ucb1 import UCB1
from belated.learners.uniform import Uniform
from belated.learners.winnow import Winnow

__all__ = [
    "CBP",
    "DORM",
    "GPUCB",
    "KLUCB",
    "TSPM",
    "UCB1",
    "AdaHedgeD",
    "AdaptiveRevision",
    "BoBW22",
    "BoBW24",
    "CBPside",
    "CappedExp3",
    "ChernoffUCB",
    "Conversions",
    "Cover",
    "DORMPlus",
    "DelayedExp3",
    "DelayedExp4",
    "DelayedHedge",
    "DelayedSAPO",
    "DualAveraging",
    "EpsilonGreedy",
    "Exp3",
    "Exp3IX",
    "Exp4",
    "GlobalExp3",
    "GradientDescent",
    "Halving",
    "Hedge",
    "HybridFTRL",
    "LinUCB",
    "LinearDescent",
    "LinearThompson",
    "MDPExp3",
    "NeighborhoodWatch2",
    "OTFLinUCB",
    "PatientBandits",
    "PerContext",
    "Perceptron",
    "PolicyElimination",
    "RandCBP",
    "RandCBPside",
    "RandomizedUCB",
    "RoundRobin",
    "ThompsonBernoulli",
    "TsallisINF",
    "Uniform",
    "Winnow",
    "DiscountedThompson",
    "DiscountedUCB",
    "OptimisticPessimistic",
    "PhasedElimination",
    "SlidingUCB",
    "SuccessiveElimination",
]
