"""The price of delay and the warnings that statistics tell: right numbers, honest words."""

import math

import pytest

from belated.ledger import advice
from belated.ledger.experiment import make
from belated.ledger.fold import Fold
from belated.ledger.price import Met, price
from belated.ledger.store import Event
from belated.theory import bounds


def experiment(forecaster, learner, actions=3, **more):
    spec = {"name": forecaster, "learner": learner if isinstance(learner, dict) else {"name": learner}}
    return make("test", [f"action {i}" for i in range(actions)], spec, **more)


def met(decisions=100_000, peak=9, means=(0.2, 0.5, 0.6), **more):
    return Met(decisions, peak, (peak // 2,) * 3, means, **more)


def test_bold_is_a_guarantee_in_units_of_reward():
    found = price(experiment("bold", "exp3", reward_range=[-1, 3]), met())
    whole = bounds.bold(lambda n: bounds.exp3(n, 3), 100_000, 9)
    alone = bounds.exp3(100_000, 3)
    assert found.kind == "bound"
    assert (found.with_delay, found.without_delay) == pytest.approx((4 * whole, 4 * alone))
    assert found.price == pytest.approx(4 * (whole - alone))
    assert "10 instances" in found.text


def test_no_delay_has_no_price():
    assert price(experiment("bold", "hedge"), met(peak=0)).price == 0


def test_too_few_decisions_say_nothing_and_when_they_will():
    found = price(experiment("bold", "exp3"), met(decisions=50))
    assert found.kind == "vacuous" and found.price is None
    needed = int(found.text.rsplit("about ", 1)[1].split()[0].replace(",", ""))
    f = experiment("bold", "exp3").learner.bound
    assert bounds.is_vacuous(bounds.bold(f, 50, 9), 50)
    assert not bounds.is_vacuous(bounds.bold(f, math.ceil(1.01 * needed), 9), math.ceil(1.01 * needed))


@pytest.mark.parametrize("forecaster", ["qpmd", "direct", "bold"])
def test_a_bound_that_regret_cannot_break_is_vacuous(forecaster):
    """Below the number of decisions, and above what they can cost: their number times the largest gap."""
    found = price(experiment(forecaster, "ucb1"), met(decisions=12_000, peak=2, means=(0.5, 0.55, 0.6)))
    assert found.with_delay == pytest.approx(1200, rel=1e-3) and found.kind == "vacuous"
    assert "not below 1,200, which everybody has" in found.text


@pytest.mark.parametrize("forecaster", ["qpmd", "direct"])
def test_means_that_are_estimated_make_an_estimate(forecaster):
    found = price(experiment(forecaster, "ucb1"), met())
    assert found.kind == "estimate" and "Estimated means" in found.text
    assert found.price == pytest.approx(4 * (0.4 + 0.1))  # gaps times the peak of each action


def test_what_is_not_covered_is_no_guarantee():
    found = price(experiment("bold", "exp3"), met(uncovered="3 decisions were cancelled"))
    assert found.kind == "guide" and "3 decisions were cancelled" in found.text and "No guarantee" in found.text


@pytest.mark.parametrize(
    ("forecaster", "learner", "given", "said"),
    [
        ("bold", "exp3", {"decisions": 0}, "no decisions yet"),
        (
            "bold",
            "klucb",
            {},
            "KLUCB has no known bound of the form needed: the one with the gaps between the actions is not for every",
        ),
        (
            "bold",
            "ucb1",
            {"means": None},
            "needs the gaps between the actions, and there is one without feedback",
        ),
        ("bold", "epsilongreedy", {}, "EpsilonGreedy has no known bound of the form needed, with the gaps"),
        (
            "bold",
            {"name": "linucb", "features": 2},
            {},
            "LinUCB has no known bound against an adversary",
        ),
        ("direct", "exp3", {}, "no theorem bounds Exp3"),
        ("qpmd", "ucb1", {"means": None}, "without feedback"),
        ("qpmd", "epsilongreedy", {}, "no known bound"),
        ("direct", {"name": "linucb", "features": 2}, {}, "change with the context"),
        ("direct", {"name": "klucb", "c": 1.0}, {}, "c = 3"),
    ],
)
def test_there_is_a_reason_where_there_is_no_bound(forecaster, learner, given, said):
    found = price(experiment(forecaster, learner), met(**given))
    assert found.kind == "none" and said in found.text and found.price is None


def test_whole_numbers_are_written_whole():
    text = price(experiment("bold", "exp3"), met(decisions=20, peak=4)).text
    assert "not below 20, which" in text and "at about 73 decisions." in text
    assert "not below 36, which" in price(experiment("qpmd", "ucb1"), met(decisions=90)).text
    text = price(experiment("direct", "ucb1", actions=2), Met(40, 0, (0, 0), (0.0, 1.0))).text
    assert "after 40 decisions." in text


def test_one_decision_is_not_many():
    assert "At most 1 decision was open" in price(experiment("bold", "exp3"), met(peak=1)).text
    assert (
        "At most 1,200 decisions were open" in price(experiment("bold", "exp3"), met(decisions=10**7, peak=1200)).text
    )


def test_klucb_is_priced_too():
    found = price(experiment("direct", "klucb"), met(decisions=20_000))
    assert found.kind == "estimate" and 0 < found.price < 100


# --- warnings ---


def folded(forecaster, steps, **more):
    """Statistics after decisions and what became of them: (action, kind, value, delay)."""
    made = experiment(forecaster, "ucb1", **more)
    fold = Fold(3)
    for k, (action, kind, value, delay) in enumerate(steps):
        fold.add(Event(1, 2 * k + 1, k, 1, "decide", None, action, 1.0, None, None, float(k)))
        told = None if value is None else repr(value)
        fold.add(Event(1, 2 * k + 2, k, 2, kind, None, action, None, told, delay, k + 0.5))
    return fold.statistics(made, {"late": 4}, {})


def test_all_is_well():
    steps = [(k % 3, "feedback", float(k % 2), 1.0 + k % 5) for k in range(600)]
    for forecaster in ("bold", "qpmd", "direct"):
        numbers = folded(forecaster, steps)
        assert numbers["warnings"] == [] and numbers["notes"]
        assert numbers["price"]["kind"] in ("estimate", "vacuous")


def test_a_share_that_expired_is_a_warning_from_five_percent():
    steps = [(k % 3, "drop" if k % 20 == 0 else "feedback", float(k % 2), 1.0 + k % 5) for k in range(600)]
    assert folded("bold", steps, expiry_seconds=10)["warnings"] == []
    steps += [(0, "drop", None, 10.0)]
    (said,) = folded("bold", steps, expiry_seconds=10)["warnings"]
    assert said.startswith("5% of the decisions") and "late feedback came 4 times" in said


def test_a_default_reward_is_a_warning():
    (said,) = folded("bold", [], expiry_seconds=10, on_expiry=0.25)["warnings"]
    assert "0.25" in said and "bias" in said


def test_delays_that_go_with_the_reward_are_a_warning():
    steps = [(k % 3, "feedback", float(k // 3 % 2), (3.0 if k // 3 % 2 else 1.0) + k % 7) for k in range(600)]
    (said,) = folded("direct", steps)["warnings"]
    assert said.startswith("Larger rewards come later")
    (said,) = folded("direct", [(a, kind, 1 - v, d) for a, kind, v, d in steps])["warnings"]
    assert said.startswith("Larger rewards come sooner")


def test_delays_that_go_with_the_action_are_a_warning_for_bold_only():
    steps = [(k % 3, "feedback", float(k // 3 % 2), (1.0 + k % 3) * (1 + k // 6 % 5)) for k in range(600)]
    (said,) = folded("bold", steps)["warnings"]
    assert "Some actions wait longer" in said
    assert folded("qpmd", steps)["warnings"] == []


def test_few_feedbacks_warn_of_nothing():
    assert advice.by_reward([advice.Waits(50, 0.0, 50.0, 50.0, 0.0, 50.0)]) is None
    assert advice.by_reward([advice.Waits(500, 0.0, 500.0, 500.0, 0.0, 500.0)]) == pytest.approx(1.0)
    assert not advice.by_action([advice.Waits(500, 0.0, 0.0, 0.0, 0.0, 0.0)] * 2)
