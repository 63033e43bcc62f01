"""Which forecaster fits: a small table of questions, what the log says, what that points to, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from belated.audit.cost import Case, Cost
from belated.audit.dependence import SMALL, Dependence
from belated.audit.expiry import Expiry
from belated.audit.survival import Curve
from belated.report.stats import number

#: A share of feedback that never comes which is worth an expiry.
NEVER = 0.01
#: Decisions for each action and instance of BOLD below which an instance hardly learns.
LITTLE = 30
#: Where a dependence may go unseen that is larger than that, advice is given for the case that there is none.
MUCH = 0.5
#: What no log can show, where some feedback does not come.
UNSEEN = (
    "Whether what does not come would have had other outcomes than what comes cannot be seen in a log; if so, no "
    "theorem covers it, and what came is no fair picture."
)


@dataclass(frozen=True)
class Advice:
    """One line of the table; `found` is None where only people can know."""

    question: str
    found: str | None
    use: str
    why: str


def advice(
    case: Case,
    mean: float,
    costs: Sequence[Cost],
    dependence: Sequence[Dependence],
    curve: Curve,
    tried: Sequence[Expiry],
    shown: Sequence[str],
) -> list[Advice]:
    """`mean` is that of G, `shown` are the lengths of the expiries as people read them."""
    return [
        _outcome(dependence, curve),
        _action(dependence),
        _time(dependence),
        _never(curve, tried, shown),
        _instances(case),
        _stationary(costs),
        Advice(
            "Do rewards drift, or does somebody work against you?",
            None,
            "bold(exp3) or bold(tsallisinf)",
            "BOLD carries any learner's bound against an adversary over to delays, at a factor of about sqrt(G* + 1). "
            "Where all rewards are told, learners made to be told late have bounds too (direct(delayedhedge)).",
        ),
        _all_told(case, mean),
        Advice(
            "Is there side information (contexts)?",
            None,
            "bold(linucb), or direct(linucb)",
            "BOLD takes any learner with side information. QPM-D takes it only if it is one of a few values. Direct "
            "has no theorem there, but learns from all feedback at once.",
        ),
    ]


def some_never(curve: Curve) -> bool:
    """Whether there is feedback that has not come, and a share that matters may never do."""
    return bool(curve.censored.any()) and curve.never_band[1] >= NEVER


def _outcome(dependence: Sequence[Dependence], curve: Curve) -> Advice:
    more = (
        "What comes fast looks more common than it is. Wait until most feedback of a decision is in before you trust a "
        "mean, and keep an expiry long."
    )
    found = _found("outcome", dependence, "qpmd or direct, with care", "No theorem covers it.", more)
    if not some_never(curve):
        return found
    use = "any, if what is lost does not depend on it" if found.use == "any" else found.use
    why = found.why.removeprefix("Every theorem applies.")
    return Advice(found.question, found.found, use, f"{why} {UNSEEN}".strip())


def _action(dependence: Sequence[Dependence]) -> Advice:
    return _found("action", dependence, "qpmd or direct", "BOLD's theorem excludes it; QPM-D and Direct allow it.")


def _found(on: str, dependence: Sequence[Dependence], use: str, meaning: str, more: str = "") -> Advice:
    """What tests say of one kind of dependence, and what it would mean."""
    question, made = f"Do delays depend on the {on}?", [d for d in dependence if d.on == on]
    words = [d.word for d in made]
    if not made:
        why = f"Name a column of it with at least two different values. {meaning}"
        return Advice(question, "not tested", "any, if not", why)
    if "depends" in words:
        return Advice(question, "yes", use, f"{meaning} {more}".strip())
    if "depends slightly" in words:
        return Advice(question, "yes, slightly", "any", f"Certain, but small. {meaning}")
    if "no sign" not in words:
        return Advice(question, "too few to tell", "any, if not", f"If they do: {meaning}")
    unseen = _unseen(made)
    why = f"{unseen} If they do: {meaning}" if unseen else "Every theorem applies."
    use = "any, if not" if _most(made) > MUCH else "any"
    return Advice(question, "no sign of it", use, why)


def _most(made: Sequence[Dependence]) -> float:
    """How large a dependence may be that tests saw no sign of."""
    return max((d.most for d in made if d.word == "no sign"), default=1.0)


def _unseen(made: Sequence[Dependence]) -> str:
    """What tests without a sign may have missed; nothing if that is small."""
    most = _most(made)
    return "" if most < SMALL else f"In so little, shares that differ by up to {most:.0%} by some delay may go unseen."


def _time(dependence: Sequence[Dependence]) -> Advice:
    question, made = "Does the law of the delays drift?", [d for d in dependence if d.on == "time"]
    meaning = (
        "The theorems care for G* only, but one curve for the whole log fits neither part of it: audit the later part "
        "by itself (filter the log), and do not trust an expiry that was chosen from all of it."
    )
    word = made[0].word if made else "too few"
    if word == "depends":
        return Advice(question, "yes", "the later part of the log", meaning)
    if word == "too few":
        return Advice(question, "too few to tell", "all of the log, if not", meaning)
    enough = "One curve for the whole log describes it well enough."
    if word == "depends slightly":
        return Advice(question, "yes, slightly", "all of the log", enough)
    use = "all of the log, if not" if _most(made) > MUCH else "all of the log"
    return Advice(question, "no sign of it", use, _unseen(made) or enough)


def _never(curve: Curve, tried: Sequence[Expiry], shown: Sequence[str]) -> Advice:
    question, (low, high) = "Does some feedback never come?", curve.never_band
    found = f"{curve.never:.1%} ({low:.1%} to {high:.1%}) does not, as far as the log can show"
    if curve.never < NEVER:
        if high < NEVER:
            return Advice(question, found, "no expiry", "Next to nothing stays out for good.")
        why = f"Nothing says that much stays out for good, but so few decisions cannot exclude {high:.1%}."
        return Advice(question, found, "no expiry, if not", why)
    kept = next(((e, text) for e, text in zip(tried, shown, strict=True) if e.lost <= 0.05), None)
    use = "an expiry" if kept is None else f"an expiry of {kept[1]}"
    why = "What never comes stays outstanding: G* grows with every decision, and with it what the theorems allow."
    if kept is not None:
        expiry = kept[0]
        why += f" With this one G* is {number(expiry.peak.high)}, and {expiry.lost:.1%} "
        why += f"({expiry.lost_low:.1%} to {expiry.lost_high:.1%}) of what comes is lost."
    return Advice(question, found, use, why)


def _instances(case: Case) -> Advice:
    each = case.n / ((case.peak + 1) * len(case.peaks))
    found = f"G* + 1 = {case.peak + 1:,}: {number(each)} decisions for each action and instance"
    question = "Would BOLD's instances have enough to learn from?"
    if each < LITTLE:
        why = "BOLD runs G* + 1 learners side by side, and each of them would see too little. One learner sees all."
        return Advice(question, found, "qpmd or direct", why)
    return Advice(question, found, "any", "Each of the G* + 1 learners that BOLD runs side by side sees enough.")


def _all_told(case: Case, mean: float) -> Advice:
    """Full information: the bounds go by the mean of G told directly, by its peak under BOLD."""
    told, pool = math.sqrt(1 + 2 * mean), math.sqrt(case.peak + 1)
    why = (
        "What comes back is then the same whatever was played, so that one learner can be told of all of it. Told "
        f"directly, its bound is sqrt(1 + 2 x the mean of G) = {number(told)} times that without delay, with the mean "
        f"of G {number(mean)} in this log; under BOLD sqrt(G* + 1) = {number(pool)} times. The first is never more "
        "than sqrt 2 times the second, and far less where most feedback is prompt and some very late: in an outage "
        "BOLD starts a learner that knows nothing for every decision."
    )
    return Advice(
        "Does feedback say what every action would have given (all rewards, the right label, a gradient)?",
        None,
        "direct(delayedhedge), direct(perceptron) or direct(lineardescent)",
        why,
    )


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
