"""The parts "beyond" and "cost" of the paper's study, in tiny versions; and twins that must not get a good word."""

import dataclasses

import numpy as np
import pytest

import belated as bl
from belated.report.page import ORDER, Page
from belated.report.stats import mean_interval
from belated.studies.cells import Play
from belated.studies.paper import beyond, cost
from belated.studies.paper.beyond import lossy, shared
from belated.studies.paper.beyond.instance import instance_plays
from belated.studies.paper.beyond.probability import probability_plays
from belated.studies.run import run_cells
from belated.studies.store import Store

pytestmark = pytest.mark.minutes  # its variants are long to compile; tests/test_variants.py plays them each time

TINY = beyond.Grid(
    rounds=1600,
    replications=8,
    means=(4, 8),
    waits=(5, 40),
    queries=(5, 40),
    losses=(0.1, 0.3),
    wait=10,
    expiry=60,
    late=(10, 60),
)
SMALL = cost.Cost(delays=(1, 20, 300), rounds=3000, repeats=2)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    return run_cells([*beyond.grid_cells(TINY), SMALL], Store(folder / "cells"))[0]


@pytest.fixture(scope="module")
def section(finished):
    return beyond.grid_section(finished, TINY)


def word_of(section, start):
    return next(f.word for f in section.findings if f.statement.startswith(start))


def test_every_subsection_has_a_figure_findings_and_data(section, tmp_path):
    assert {f.word for f in section.findings} <= set(ORDER)
    assert len(section.findings) >= 15
    names = [d.name for d in section.drawings]
    assert len(set(names)) == len(names) == 8
    assert all(name.startswith("beyond-") for name in names)
    assert set(section.frames) == {"beyond-cells", "beyond-replications", "beyond-pairs"}
    page = Page("t", "l", [section]).write(tmp_path).read_text(encoding="utf-8")
    assert page.count("<h3>") == 5
    assert "nan" not in page.split("</style>")[1].split("base64")[0]
    assert (tmp_path / "data" / "beyond-pairs.parquet").exists()


def test_what_is_exact_is_exact_in_a_tiny_version_too(section):
    for start in (
        "Under constant delays",
        "Delayed-UCB1 knows all actions",
        "QPM-D and Delayed-UCB1 play",
        "Without delay",
    ):
        assert word_of(section, start) == "identity", start
    assert word_of(section, "Without expiry the open tickets") == "identity"


def test_no_bound_is_given_where_no_theorem_applies(section):
    frame = section.frames["beyond-cells"].to_dicts()
    tickets = [row for row in frame if row["forecaster"].startswith("ticketqpmd")]
    assert tickets
    assert all(row["bound"] is None and row["verdict"] == "no bound" for row in tickets)
    assert all("the probability of another prediction" in row["bound_reason"] for row in tickets)
    late = [row for row in frame if "peraction" in row["delays"] and row["forecaster"].startswith("bold")]
    assert late
    assert all(row["bound"] is None and "depend on the action" in row["bound_reason"] for row in late)
    assert any(row["forecaster"] == "randombold(exp3(actions=5))" and row["bound"] for row in frame)


def test_the_two_that_are_compared_met_the_same_draws():
    cells = beyond.grid_cells(TINY)
    assert len({cell.seed for cell in cells}) == 1
    for (*key, choice), cell in instance_plays(TINY).items():
        if choice == "lowest":
            other = instance_plays(TINY)[*key, "random"]
            assert (cell.game, cell.delays, cell.rounds) == (other.game, other.delays, other.rounds)
            assert cell.forecaster.learner == other.forecaster.learner


def test_the_long_version_is_longer():
    short, long = (sum(c.decisions for c in beyond.PART.cells(full)) for full in (False, True))
    assert 5 < long / short < 15
    short, long = (sum(c.decisions for c in cost.PART.cells(full)) for full in (False, True))
    assert 5 < long / short < 15


# --- twins: what must not get a good word ---


def test_bold_against_itself_has_no_less_regret(finished):
    cells = instance_plays(TINY)
    one = finished[cells["Exp3", "geometric", 8, "lowest"]]
    itself = shared.pair("itself", one, one)
    assert itself.word == "unclear"
    assert itself.times.mean == 1.0
    assert shared.together("less", [itself]).word == "unclear"


def test_bold_against_itself_with_other_draws_has_no_less_regret():
    law, game = bl.delays.Geometric(mean=8), bl.games.Bernoulli(shared.MEANS)
    words = []
    for seed in range(0, 20, 2):
        a, b = (
            Play(bl.BOLD(bl.Exp3(5)), game, law, 500, 20, seed=s).play(lambda done, total: None)
            for s in (seed, seed + 1)
        )
        words.append(shared.pair("twin", a, b).word)
    assert sum(word.endswith("holds") for word in words) <= 1


def test_a_statement_the_wrong_way_round_fails(finished):
    cells = probability_plays(TINY)
    query, ticket = (finished[cells["constant", 40, whose]] for whose in ("query", "ticket"))
    assert shared.pair("right", query, ticket).word.endswith("holds")
    assert shared.pair("wrong", ticket, query).word.endswith("fails")


def test_one_that_is_not_the_same_play_fails(finished):
    cells = probability_plays(TINY)
    query, ticket = (finished[cells["constant", 40, whose]] for whose in ("query", "ticket"))
    assert not shared.same_play(query, ticket)
    assert shared.exactly("same", [True, shared.same_play(query, ticket)]).word == "fails"


def test_a_wrong_count_of_open_tickets_fails(finished, monkeypatch):
    right = lossy.expected_open
    monkeypatch.setattr(lossy, "expected_open", lambda *given: right(*given) + 12.0)
    assert lossy.open_finding(finished, TINY).word == "likely fails"


def test_the_worst_word_counts():
    good, unclear = (shared.Pairing("w", 1.0, 1.0, shared.Interval(1.2, 1.1, 1.4), w) for w in ("holds", "unclear"))
    assert shared.together("s", [good, good]).word == "holds"
    assert shared.together("s", [good, unclear]).word == "unclear"


# --- the interval of a ratio ---


def test_the_ratio_s_interval_excludes_one_wherever_the_difference_s_excludes_zero():
    draws = np.random.default_rng(3)
    both = set()
    for shift in np.linspace(-1.5, 1.5, 61):
        base = draws.normal(20, 3, 15)
        other = base + shift + draws.normal(0, 1.5, 15)
        ratio = shared.ratio_interval(other, base)
        agrees = mean_interval(other - base).contains(0.0)
        assert agrees or not ratio.contains(1.0)
        both.add(agrees)
    assert both == {True, False}


def test_the_ratio_s_interval_covers_as_often_as_it_says():
    draws = np.random.default_rng(4)
    covered = 0
    for _ in range(600):
        base = draws.normal(10, 2, 12)
        other = 1.3 * base + draws.normal(0, 2, 12)
        covered += shared.ratio_interval(other, base, level=0.9).contains(1.3)
    assert 0.86 < covered / 600 < 0.94


def test_a_ratio_to_what_may_be_zero_says_nothing():
    draws = np.random.default_rng(5)
    for below in (0.2, -10.0):
        interval = shared.ratio_interval(draws.normal(10, 1, 20), draws.normal(below, 1, 20))
        assert (interval.low, interval.high) == (-np.inf, np.inf)
    assert shared.ratio_interval([1.0], [2.0]).low == -np.inf


# --- cost ---


def test_memory_is_counted_exactly(finished):
    found = cost.cost_section(finished, SMALL)
    assert [f.word for f in found.findings] == ["identity"] * 4 + ["shown"]
    assert len(found.drawings) == 2
    used = finished[SMALL]
    assert [used["BOLD", d].instances for d in SMALL.delays] == [2, 21, 301]
    assert all(used["Delayed-UCB1", d].kept == cost.STATE for d in SMALL.delays)
    assert used["QPM-D", 300].queued > used["QPM-D", 1].queued > 0
    assert found.frames["cost"].height == 9
    assert SMALL.exclusive


def test_a_wrong_count_fails(finished):
    used = dict(finished[SMALL])
    used["BOLD", 20] = dataclasses.replace(used["BOLD", 20], instances=20)
    used["QPM-D", 20] = dataclasses.replace(used["QPM-D", 20], queued=10**6)
    words = [f.word for f in cost._findings(used, SMALL)]
    assert words == ["fails", "identity", "fails", "identity", "shown"]


def test_the_queues_are_seen_as_they_are():
    """With a look each round, the most that was seen is what the Python form has in its queues."""
    rounds, delay = cost.LOOKS, 9
    bench = cost.Bench("QPM-D", delay, rounds, repeats=0)
    bench.run(0)
    rewards = bl.games.deal(cost.GAME, rounds=rounds, seed=cost.SEED)
    forecaster, sent, most = bl.QPMD(cost.LEARNER, seed=cost.SEED), [], 0
    for t in range(rounds):
        decision = forecaster.predict()
        sent.append((decision.ticket, rewards[t, decision.action]))
        if t >= delay:
            forecaster.update(*sent[t - delay])
        most = max(most, sum(forecaster.queued))
    assert bench.queued == most


def test_the_key_knows_what_was_measured():
    assert SMALL.key != dataclasses.replace(SMALL, rounds=3001).key
    assert SMALL.decisions == 3 * 3 * 3000 * 3
