"""Which forecaster fits: a small table of questions, what the log says, what that points to, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from belated.audit.cost import Case, Cost
from belated.audit.dependence import Dependence
from belated.audit.expiry import Expiry
from belated.studies.stats import number

#: A share of feedback that never comes which is worth an expiry.
NEVER = 0.01
#: Decisions for each action and instance of BOLD below which an instance hardly learns.
LITTLE = 30


@dataclass(frozen=True)
class Advice:
    """One line of the table; `found` is None where only people can know."""

    question: str
    found: str | None
    use: str
    why: str


def advice(
    case: Case,
    costs: Sequence[Cost],
    dependence: Sequence[Dependence],
    never: float,
    tried: Sequence[Expiry],
    shown: Sequence[str],
) -> list[Advice]:
    """`shown` are the lengths of the expiries as people read them."""
    return [
        *_dependence(dependence),
        _never(never, tried, shown),
        _instances(case),
        _stationary(costs),
        Advice(
            "Do rewards drift, or does somebody work against you?",
            None,
            "bold(exp3) or bold(tsallisinf)",
            "Only BOLD carries a bound against an adversary over to delays. It costs a factor of about sqrt(G* + 1).",
        ),
        Advice(
            "Is there side information (contexts)?",
            None,
            "bold(linucb), or direct(linucb)",
            "BOLD takes any learner with side information. QPM-D takes it only if it is one of a few values. Direct "
            "has no theorem there, but learns from all feedback at once.",
        ),
    ]


def _dependence(dependence: Sequence[Dependence]) -> list[Advice]:
    lines = []
    for on, meaning, free in (
        (
            "outcome",
            "No theorem covers it: what comes fast looks more common than it is. Wait until most feedback of a "
            "decision is in before you trust a mean, and keep an expiry long.",
            "Every theorem allows it.",
        ),
        ("action", "BOLD's theorem excludes it; QPM-D and Direct allow it.", "Every theorem allows it."),
    ):
        words = [d.word for d in dependence if d.on == on]
        if not words:
            found, use, why = (
                "not tested",
                "any, if not",
                f"Name a column of it with at least two different values. {meaning}",
            )
        elif "depends" in words:
            found, use, why = "yes", "qpmd or direct" + (", with care" if on == "outcome" else ""), meaning
        elif "depends slightly" in words:
            found, use, why = "yes, slightly", "any", f"Certain, but small. {meaning}"
        else:
            found, use, why = "no sign of it", "any", free
        lines.append(Advice(f"Do delays depend on the {on}?", found, use, why))
    return lines


def _never(never: float, tried: Sequence[Expiry], shown: Sequence[str]) -> Advice:
    question = "Does some feedback never come?"
    found = f"{never:.1%} within the span of the log"
    if never < NEVER:
        return Advice(question, found, "no expiry", "Next to nothing stays out for good.")
    kept = next(((e, text) for e, text in zip(tried, shown, strict=True) if e.lost <= 0.05), None)
    use = "an expiry" if kept is None else f"an expiry of {kept[1]}"
    why = "What never comes stays outstanding: G* grows with every decision, and with it what the theorems allow."
    if kept is not None:
        why += f" With this one G* is {number(kept[0].peak.high)}, and {kept[0].lost:.1%} of what comes is lost."
    return Advice(question, found, use, why)


def _instances(case: Case) -> Advice:
    each = case.n / ((case.peak + 1) * len(case.peaks))
    found = f"G* + 1 = {case.peak + 1:,}: {number(each)} decisions for each action and instance"
    question = "Would BOLD's instances have enough to learn from?"
    if each < LITTLE:
        why = "BOLD runs G* + 1 learners side by side, and each of them would see too little. One learner sees all."
        return Advice(question, found, "qpmd or direct", why)
    return Advice(question, found, "any", "Each of the G* + 1 learners that BOLD runs side by side sees enough.")


def _stationary(costs: Sequence[Cost]) -> Advice:
    question = "Are rewards of each action alike over time (i.i.d.)?"
    sound = [cost for cost in costs if cost.word == "bound" and not cost.doubts and cost.with_delay is not None]
    if sound:
        best = min(sound, key=lambda cost: cost.with_delay or 0.0)
        why = f"Of the theorems that say something here, its bound is the lowest: {number(best.with_delay)}."
        return Advice(question, None, best.forecaster, why)
    why = (
        "No theorem both applies and says something here. A single learner that sees all feedback wastes none: "
        "QPM-D or Direct is what to try, and to measure."
    )
    return Advice(question, None, "direct(ucb1) or qpmd(ucb1)", why)
