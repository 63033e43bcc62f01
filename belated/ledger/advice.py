"""Where theory is bent, and what to look at: in words, from what was met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from belated.ledger.experiment import Experiment

#: A share of expired decisions that is not small.
SHARE = 0.05
#: What says that delays depend on something: the share of their variance (of logarithms) that it explains, the number
#: of standard errors by which that is more than chance, and the observations that this takes.
EXPLAINED = 0.04
ERRORS = 4.0
LEAST = 100


class Waits(NamedTuple):
    """Sums over the feedback of one action: x is the logarithm of the delay in seconds, y the reward."""

    number: int
    x: float
    xx: float
    xy: float
    y: float
    yy: float

    @property
    def typical(self) -> float | None:
        """The geometric mean of the delays, in seconds."""
        return math.exp(self.x / self.number) if self.number else None


def by_reward(waits: Sequence[Waits]) -> float | None:
    """The correlation of delay and reward within actions, where it is more than chance."""
    seen = [each for each in waits if each.number > 1]
    total = sum(each.number for each in seen)
    xx = sum(each.xx - each.x * each.x / each.number for each in seen)
    yy = sum(each.yy - each.y * each.y / each.number for each in seen)
    xy = sum(each.xy - each.x * each.y / each.number for each in seen)
    if total < LEAST or xx < 1e-9 * total or yy < 1e-9 * total:
        return None
    found = xy / math.sqrt(xx * yy)
    return found if found * found > max(EXPLAINED, ERRORS * ERRORS / total) else None


def by_action(waits: Sequence[Waits]) -> bool:
    """Whether some actions wait longer than others, by more than chance."""
    seen = [each for each in waits if each.number > 1]
    total = sum(each.number for each in seen)
    if total < LEAST or len(seen) < 2:
        return False
    within = sum(each.xx - each.x * each.x / each.number for each in seen)
    mean = sum(each.x for each in seen) / total
    between = sum(each.number * (each.x / each.number - mean) ** 2 for each in seen)
    chance = (len(seen) - 1 + ERRORS * math.sqrt(2 * (len(seen) - 1))) / total
    return between > max(EXPLAINED, chance) * (within + between) > 0


def warnings(experiment: Experiment, ended: int, expired: int, late: int, waits: Sequence[Waits]) -> list[str]:
    """What bends the theory here and now; `ended` counts decisions with feedback or expired."""
    said = []
    if experiment.on_expiry is not None:
        said.append(
            f"A decision that expires is learned as if its reward had been {experiment.on_expiry:g}. "
            "That biases what is learned, the more the more expire."
        )
    if ended and expired / ended > SHARE:
        text = f"{expired / ended:.0%} of the decisions that ended expired before their feedback came"
        if late:
            text += f"; late feedback came {late:,} times"
        text += ". What is learned leans to what comes fast. Compare the expiry with the delays."
        said.append(text)
    linked = by_reward(waits) if experiment.takes_numbers else None
    if linked is not None:
        better = "later" if linked > 0 else "sooner"
        said.append(
            f"Larger rewards come {better}: delay and reward correlate by {linked:.2f} within actions. No theorem "
            "covers delays that depend on outcomes; until late feedback is in, estimates are biased."
        )
    rule = experiment.forecaster
    if rule.wants and "action" in rule.excludes and by_action(waits):
        said.append(
            f"Some actions wait longer than others, which {type(rule).__name__}'s theorem excludes: compare the delays "
            "in the table of actions. QPM-D and Direct allow it."
        )
    return said


def defaults(experiment: Experiment, outstanding: int, ended: int, counted: Sequence[int] | None) -> list[str]:
    """What to know of mean rewards where some are learned by default."""
    if experiment.on_expiry is None:
        return []
    if counted is None:
        return ["Mean rewards are of feedback alone, without what was learned by default: earlier events are deleted."]
    if outstanding <= SHARE * ended:
        return []
    return [
        f"{outstanding:,} decisions are open and {ended:,} have ended. Feedback counts when it comes, the default of "
        f"{experiment.on_expiry:g} only at expiry: until then mean rewards lean to what was sent. Their intervals "
        "reach to where they would be if all that is open ended by default."
    ]


def notes(experiment: Experiment) -> list[str]:
    """What cannot be known from here, and where to look."""
    said = []
    if experiment.expiry is not None and experiment.on_expiry is None:
        said.append(
            "Decisions that expire are dropped. If delays depend on outcomes, this biases what is learned: look at the "
            "share that expired."
        )
    if experiment.forecaster.wants:
        said.append(experiment.forecaster.wants)
    return said
