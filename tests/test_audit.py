"""Audits of logs whose truth is known."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import belated as bl
from belated.audit import delays, drawings, log, outstanding
from belated.audit.drawings import by_action
from belated.audit.page import _outstanding, page
from belated.audit.report import thinned
from belated.cli import app
from belated.errors import InvalidArgument
from belated.logs import times
from belated.report.page import Drawing, Text

RUNNER = CliRunner()


def played(law, rounds=5000, expiry=None, seed=0):
    """A play, and the log that it would have left, rows shuffled."""
    game = bl.games.Bernoulli([0.2, 0.5, 0.6])
    result = bl.play(bl.QPMD(bl.UCB1(actions=3)), game, law, rounds=rounds, record=True, seed=seed, expiry=expiry)
    decided = np.arange(1, rounds + 1)
    came = result.delays[0] <= rounds - decided
    frame = pl.DataFrame(
        {
            "decided": decided,
            "observed": decided + np.where(came, result.delays[0], 0),
            "action": result.actions[0],
        }
    ).with_columns(observed=pl.when(pl.Series(came)).then(pl.col("observed")))
    return result, frame.sample(fraction=1, shuffle=True, seed=1)


def simulated(n=4000, seed=0, by_action=1.0, by_outcome=1.0, by_time=1.0, never=0.1):
    """Times in microseconds, three actions; some delays are longer by action or outcome, or in the later half."""
    rng = np.random.default_rng(seed)
    decided = 1.7e15 + np.cumsum(rng.exponential(30e6, n))
    action, won = rng.integers(0, 3, n), rng.random(n) < 0.4
    delay = rng.lognormal(7, 1, n) * 1e6
    delay *= np.where(action == 2, by_action, 1) * np.where(won, by_outcome, 1)
    delay *= np.where(np.arange(n) < n // 2, 1, by_time)
    came = (rng.random(n) >= never) & (decided + delay <= decided[-1])
    frame = pl.DataFrame(
        {
            "decided_at": decided.astype(np.int64),
            "seen_at": (decided + delay).astype(np.int64),
            "ad": np.array(["red", "green", "blue"])[action],
            "won": won.astype(float),
        }
    )
    seen = pl.when(pl.Series(came)).then(pl.col("seen_at").cast(pl.Datetime("us")))
    return frame.with_columns(pl.col("decided_at").cast(pl.Datetime("us")), seen_at=seen)


AD = {"decided": "decided_at", "observed": "seen_at", "action": "ad", "reward": "won"}


# --- outstanding ---

LAWS = [
    bl.delays.Geometric(mean=50),
    bl.delays.Constant(30),
    bl.delays.Constant(0),
    bl.delays.Lossy(bl.delays.Geometric(mean=20), 0.1),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize(("cells", "slice_"), [(1 << 16, 4_000_000), (97, 500), (1, 4_000_000)])
def test_peaks_are_those_of_the_play(law, cells, slice_, monkeypatch):
    monkeypatch.setattr(outstanding, "CELLS", cells)
    monkeypatch.setattr(outstanding, "SLICE", slice_)
    result, frame = played(law)
    found = outstanding.measure(log.read(frame, "decided", "observed", "action", as_of=5000))
    assert found.peak.low == found.peak.high == result.peak[0]
    assert [peak.low for peak in found.peaks] == result.peaks[0].tolist()
    assert found.level[-1] == result.outstanding[0]


def test_peak_with_expiry_is_that_of_the_play(monkeypatch):
    law = bl.delays.Lossy(bl.delays.Geometric(mean=20), 0.1)
    result, frame = played(law, expiry=40)
    read = log.read(frame, "decided", "observed", as_of=5000)
    lengths = [0, 1, 7, 40, 49, 50, 51, 4999, 100_000]
    exact = [p.low for p in outstanding.with_expiry(read, lengths)]
    assert exact[3] == result.peak[0] and exact == sorted(exact)
    monkeypatch.setattr(outstanding, "SLICE", 100)  # too long a log to be exact
    for cells in (1000, 100, 7, 1):
        monkeypatch.setattr(outstanding, "CELLS", cells)
        found = outstanding.with_expiry(read, lengths)
        assert all(p.low <= peak <= p.high for p, peak in zip(found, exact, strict=True)) and not found[3].exact
    monkeypatch.setattr(outstanding, "CELLS", 5000)  # every round has a cell of its own
    assert all(p.high - p.low <= 1 for p in outstanding.with_expiry(read, lengths))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 2)),
        min_size=1,
        max_size=25,
    ),
    cells=st.sampled_from([1, 3, 5, 1 << 16]),
)
def test_peaks_of_any_log_are_those_of_a_walk_through_it(rows, cells):
    rows = [*rows, (0, 0, 0)]
    frame = pl.DataFrame(rows, schema=["d", "w", "a"], orient="row").with_columns(o=pl.col("d") + pl.col("w"))
    before, outstanding.CELLS = outstanding.CELLS, cells
    try:
        found = outstanding.measure(log.read(frame, "d", "o", "a"))
    finally:
        outstanding.CELLS = before
    labels = sorted({a for _, _, a in rows})
    events = sorted(
        [(2 * d, a, 1) for d, _, a in rows] + [(2 * (d + w) + 1, a, -1) for d, w, a in rows if w is not None]
    )
    level, best, most = dict.fromkeys(labels, 0), dict.fromkeys(labels, 0), 0
    for _, a, step in events:
        if step > 0:
            most = max(most, sum(level.values()))
            best = {b: max(best[b], level[b]) for b in labels}
        level[a] += step
    assert found.peak.low == most
    assert [p.low for p in found.peaks] == [best[b] for b in labels]


def test_a_thinned_curve_keeps_its_peak():
    level = np.random.default_rng(0).integers(0, 10**6, 50_000)
    places = thinned(level)
    assert len(places) <= 2000 and level[places].max() == level.max() and level[places].min() == level.min()


# --- delays ---


def test_a_grid_is_as_near_as_it_says(monkeypatch):
    read = log.read(simulated(), "decided_at", "seen_at")
    exact = delays.measure(read, read.first)
    monkeypatch.setattr(delays, "EXACT", 100)
    grid = delays.measure(read, read.first)
    assert exact.grid == 0 and 0 < grid.grid < 0.02 and len(grid.at) < len(exact.at) / 3
    fine, coarse = exact.curve(), grid.curve()
    assert coarse.grid_error < 0.01
    for delay, share in zip(coarse.delays, coarse.survival, strict=True):
        assert share - coarse.grid_error - 1e-12 <= fine.at(delay) <= share + 1e-12
    for share in (0.1, 0.5, 0.8):
        assert fine.quantile(share) <= coarse.quantile(share) <= fine.quantile(share) * (1 + grid.grid) + 2


def test_intervals_on_a_grid_contain_the_exact_ones(monkeypatch):
    for seed, never in ((0, 0.0), (1, 0.1), (2, 0.5)):
        read = log.read(simulated(seed=seed, never=never), "decided_at", "seen_at")
        with monkeypatch.context() as patch:
            fine = delays.measure(read, read.first).curve()
            patch.setattr(delays, "EXACT", 100)
            grid = delays.measure(read, read.first)
        coarse = grid.curve()
        assert grid.shortest is not None and (grid.shortest <= grid.at).all()
        assert (grid.shortest[1:] > grid.at[:-1]).all()
        for share in np.arange(0.01, 1, 0.01):
            (low, high), (first, last) = fine.quantile_band(share), coarse.quantile_band(share)
            # what is longer than all is given as the next that there is, which is later on a grid
            assert first <= low or low > read.longest
            assert low <= first * (1 + 2 * grid.grid) + 2 or share > 0.8 * (1 - never)  # where the curve is not flat
            assert last is None or (high is not None and high <= last)


def test_delays_of_a_play_come_back():
    law = bl.delays.Lossy(bl.delays.Geometric(mean=20), 0.25)
    _, frame = played(law, rounds=20_000)
    found = bl.audit(frame, decided="decided", observed="observed", as_of=20_000)
    assert found.data()["unit"] == "rounds" and found.data()["delay"]["grid"] == 0
    never = found.data()["delay"]
    assert never["never_low"] <= 0.25 <= never["never_high"]
    for share in (0.1, 0.25, 0.5):  # P(delay <= x) = 0.75 (1 - (20 / 21)^(x + 1))
        truth = math.ceil(math.log(1 - share / 0.75) / math.log(20 / 21)) - 1
        assert abs(found.curve.quantile(share) - truth) <= 1
    lost = {each.length: each.lost for each in found.expiries}
    assert all(abs(share - (20 / 21) ** (length + 1)) < 0.02 for length, share in lost.items())


# --- dependence ---


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({}, ["no sign", "no sign", "no sign", "no sign"]),
        ({"by_action": 1.5}, ["depends", "depends", "no sign", "no sign"]),
        ({"by_outcome": 1.5}, ["no sign", "no sign", "depends", "no sign"]),
        ({"by_time": 1.5}, ["no sign", "no sign", "no sign", "depends"]),
    ],
)
def test_dependence_is_found_where_it_is(settings_, words):
    found = bl.audit(simulated(**settings_, seed=5), **AD)
    assert [test.word for test in found.dependence] == words
    assert [test.on for test in found.dependence] == ["action", "action", "outcome", "time"]
    assert all(test.p_corrected >= test.p_value for test in found.dependence)
    doubts = {cost.forecaster: cost.doubts for cost in found.costs}
    assert bool(doubts["bold(ucb1)"]) == ("depends" in words[:3]) and bool(doubts["qpmd(ucb1)"]) == (
        words[2] == "depends"
    )


def test_a_share_that_never_comes_is_no_speed():
    frame = simulated(8000, seed=2, never=0.0)
    lost = (pl.col("ad") == "red") & (pl.int_range(pl.len()) % 2 == 0)
    found = bl.audit(frame.with_columns(seen_at=pl.when(~lost).then(pl.col("seen_at"))), **AD)
    assert [test.word for test in found.dependence] == ["depends", "no sign", "no sign", "no sign"]
    row = found.frame("actions").filter(pl.col("action") == "red")
    assert abs(row["never"].item() - 0.5) < 0.05


def test_a_small_dependence_in_a_long_log_is_called_so():
    found = bl.audit(simulated(200_000, seed=3, by_outcome=1.05), **AD)
    assert [test.word for test in found.dependence] == ["no sign", "no sign", "depends slightly", "no sign"]
    test = found.dependence[2]
    assert test.difference > 0 and 0 < test.distance_low < test.distance < test.distance_high < 0.05


def rounds(delay, as_of, **columns):
    """A log of one decision in each round."""
    decided = np.arange(len(delay))
    seen = pl.when(pl.col("o") <= as_of).then(pl.col("o"))
    frame = pl.DataFrame({"d": decided, "o": decided + delay, **columns}).with_columns(o=seen)
    named = {"action": "a", "reward": "r"}
    return bl.audit(
        frame, decided="d", observed="o", as_of=as_of, **{k: v for k, v in named.items() if v in frame.columns}
    )


def shown(found):
    """The words and numbers of a page, without drawing it."""
    blocks = [block for section in page(found).sections for block in section.blocks if not isinstance(block, Drawing)]
    return "\n".join(map(str, blocks))


def test_a_short_log_says_what_it_cannot_tell():
    """Mean 200, so 99% within 923 rounds; 300 rounds once said 299, surely."""
    found = rounds(np.random.default_rng(0).geometric(1 / 200, 300), 300)
    quantile = found.data()["delay"]["quantiles"][-1]
    assert quantile["delay"] is quantile["high"] is None and 0 < quantile["low"] < 300
    assert "99% not known, at least" in found.summary() and "'99%', 'not known'" in shown(found)


def test_twenty_of_twenty_is_not_half():
    found = rounds(np.arange(20) % 7, 30)
    delay = found.data()["delay"]
    assert delay["never"] == delay["never_low"] == 0 and delay["never_high"] == pytest.approx(0.168, abs=1e-3)
    assert (
        "0.0% (0.0% to 16.8%) does not come within 7 rounds, for which 20 decisions were watched (few"
        in found.summary()
    )


@pytest.mark.parametrize("n", [40, 400])
def test_delays_of_one_and_nine_hundred_depend_and_not_slightly(n):
    action = np.arange(n) % 2
    found = rounds(np.where(action, 900, 1), 2000, a=action)
    for test in found.dependence[:2]:
        assert test.word == "depends" and test.distance == test.distance_high == 1 and test.distance_low > 0.6
    assert "differs by 100.0% (" in found.summary()
    beyond = replace(found.dependence[0], p_corrected=0.0)
    assert "p < 1e-16" in found.test_said(beyond), "no chance is 0"
    told = found.test_said(replace(beyond, word="no sign"))
    assert "by how much cannot be told" in told and "at most 100" not in told


def test_many_small_actions_are_no_alarm():
    """Sixty actions of five decisions: half of such logs once gave an alarm at 1%."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = rounds(rng.geometric(0.05, 300), 330, a=rng.permutation(np.repeat(np.arange(60), 5)))
        assert [test.word for test in found.dependence] == ["no sign"] * 3
        assert found.dependence[0].groups < 40 and "together" in str(found.dependence[0].sizes)
        assert found.dependence[0].most > 0.5 and found.advice[1].use == "any, if not"


def test_too_few_are_not_compared():
    found = rounds(np.array([1, 2, 3, 1, 2, 3]), 20, a=[0, 1, 0, 1, 0, 1], r=[0, 1, 0, 1, 1, 0])
    assert {test.word for test in found.dependence} == {"too few"} and "too few to tell" in found.summary()
    assert found.advice[3].use == "no expiry, if not", "six decisions tell little about what never comes"
    assert found.data()["dependence"]["tests"][0]["p_corrected"] is None


def test_loss_by_outcome_is_said_to_be_unseen():
    rng = np.random.default_rng(0)
    won, delay = rng.random(3000) < 0.5, rng.geometric(0.1, 3000)
    lost = np.where(won & (rng.random(3000) < 0.5), 10**7, delay)  # half of what was won never comes
    found, whole = rounds(lost, 3100, r=won.astype(int)), rounds(delay, 3100, r=won.astype(int))
    line = found.advice[0]
    assert found.dependence[0].word == "no sign" and line.use == "any, if what is lost does not depend on it"
    for text in (line.why, found.summary(), shown(found)):
        assert "cannot be seen in a log" in text and "Every theorem applies" not in line.why
    assert "cannot be seen in a log" not in whole.summary() and whole.advice[0].use == "any"


def test_drift_is_shown_everywhere():
    found = bl.audit(simulated(by_time=2.0), **AD)
    assert "time: depends (the share that has come" in found.summary() and "early and late in the log alike" in shown(
        found
    )
    (test,) = [test for test in json.loads(found.to_json())["dependence"]["tests"] if test["on"] == "time"]
    assert test["distance_low"] > 0.05 and [name.split()[0] for name in test["medians"]] == ["before", "from"]
    (line,) = [line for line in found.advice if "drift?" in line.question]
    assert line.found == "yes" and line.use == "the later part of the log"


def test_full_information_is_advised_to_be_told_directly():
    """An outage: nothing is late, then a thousand of ten thousand rounds are answered together."""
    at = np.arange(10_000)
    found = rounds(np.where((at >= 4000) & (at < 5000), 4999 - at, 0), 10_000)
    assert found.outstanding.mean == found.data()["outstanding"]["mean"] == pytest.approx(49.95)
    (line,) = [line for line in found.advice if "every action" in line.question]
    assert line.found is None and line.use.startswith("direct(delayedhedge)")
    assert "sqrt(1 + 2 x the mean of G) = 10" in line.why and "sqrt(G* + 1) = 31.6" in line.why
    assert line.question in found.summary()


def test_the_mean_of_what_is_out_is_that_of_the_decisions():
    rng = np.random.default_rng(3)
    decided = np.sort(rng.uniform(0, 1e6, 3000)).round()
    observed = decided + rng.exponential(2e4, 3000).round()
    out = [(observed[:t] >= decided[t]).sum() for t in range(3000)]
    frame = pl.DataFrame({"d": decided.astype(int), "o": observed.astype(int)})
    found = bl.audit(frame, decided="d", observed="o", as_of=2_000_000, unit="rounds")
    assert found.outstanding.mean == pytest.approx(np.mean(out), rel=0.02)


# --- what the theorems say ---


def test_costs_are_those_of_the_bounds():
    result, frame = played(bl.delays.Constant(100), rounds=100_000)
    found = bl.audit(frame, decided="decided", observed="observed", action="action", gap=0.2, as_of=100_000)
    costs = {cost.forecaster: cost for cost in found.costs}
    gaps = np.full(3, 0.2)
    gaps[int(np.argmin(result.peaks[0]))] = 0
    base = bl.bounds.ucb1(100_000, gaps)
    assert costs["qpmd(ucb1)"].with_delay == pytest.approx(bl.bounds.qpmd(base, gaps, result.peaks[0]))
    assert costs["direct(ucb1)"].with_delay == pytest.approx(bl.bounds.delayed_ucb1(100_000, gaps, result.peaks[0]))
    assert costs["qpmd(ucb1)"].factor > 1 and costs["direct(klucb)"].word == "bound"
    pooled = costs["bold(ucb1)"]  # 101 instances of 990 rounds each: no less than n times the gap
    assert pooled.word == "vacuous" and pooled.with_delay == pytest.approx(20_000)
    short = bl.audit(frame.filter(pl.col("decided") <= 300), decided="decided", observed="observed", action="action")
    assert {cost.word for cost in short.costs} == {"vacuous"} and "vacuous" in short.summary()


def test_without_actions_two_are_assumed():
    _, frame = played(bl.delays.Constant(10))
    found = bl.audit(frame, decided="decided", observed="observed", learner="exp3")
    assert found.data()["cost"]["actions"] == 2 and found.data()["cost"]["best"] is None
    assert [c.forecaster for c in found.costs] == [
        "bold(exp3)",
        "qpmd(exp3)",
        "direct(exp3)",
        "direct(ucb1)",
        "direct(klucb)",
    ]
    assert found.costs[2].reason and [test.on for test in found.dependence] == ["time"]


# --- formats ---


def same(left, right):
    first, second = left.data(), right.data()
    for data in (first, second):
        data.pop("seconds")
    assert first == second


def test_all_formats_say_the_same(tmp_path):
    frame = simulated()
    whole = bl.audit(frame, **AD)
    frame.write_parquet(tmp_path / "log.parquet")
    frame.write_csv(tmp_path / "log.csv")
    frame.write_ndjson(tmp_path / "log.jsonl")
    frame.write_csv(tmp_path / "log.txt")
    for name in ("log.parquet", "log.csv", "log.jsonl"):
        same(bl.audit(tmp_path / name, **AD), whole)
    same(bl.audit(str(tmp_path / "log.txt"), **AD, format="csv"), whole)
    same(bl.audit(frame.sample(fraction=1, shuffle=True, seed=3), **AD), whole)
    same(bl.audit(frame.to_arrow(), **AD), whole)


def test_times_may_be_written_in_many_ways():
    frame, moments = simulated(), ["decided_at", "seen_at"]
    whole = bl.audit(frame, **AD)
    ways = {
        "seconds": pl.col(moments).dt.epoch("us") / 1e6,
        "microseconds": pl.col(moments).dt.epoch("us"),
        "nanoseconds": pl.col(moments).dt.epoch("us") * 1000,
        "text": pl.col(moments).dt.to_string("%Y-%m-%d %H:%M:%S%.6f"),
        "text with Z": pl.col(moments).dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ"),
        "text with zone": pl.col(moments).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f+00:00"),
        "zone": pl.col(moments).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Budapest"),
    }
    for way in ways.values():
        same(bl.audit(frame.with_columns(way), **AD), whole)


MOMENT = "2024-03-04 10:00:00"


def test_iso_text_is_read_and_nothing_else_is_guessed(tmp_path):
    ways = {
        "2024-03-04": 0,
        "2024-03-04 10:00": 36_000,
        " 2024-03-04T10:00:00 ": 36_000,
        "2024-03-04 10:00:00.123456789": 36_000.123456,
        "2024-03-04T10:00Z": 36_000,
        "2024-03-04T10:00+02:00": 28_800,
        "2024-03-04 10:00:00.5+0200": 28_800.5,
        "2024-03-04 10:00:00-05": 54_000,
    }
    odd = ["03/04/2024 10:00:00", "04.03.2024", "24-03-04 10:00:00", "2024-02-30", "2024-3-4", "2024-03-04T25:00"]
    read = pl.Series([*ways, *odd]).to_frame("x").select(times.iso(pl.col("x")))["x"].to_list()
    midnight = datetime(2024, 3, 4, tzinfo=UTC).timestamp()
    assert read == [round((midnight + seconds) * 1e6) for seconds in ways.values()] + [None] * len(odd)
    path = tmp_path / "log.csv"
    wanted = "times must be ISO, such as 2026-01-31T12:00 .or say with time_format.*, got '0{}/04/2024 10:00:00'"
    path.write_text("d,o\n" + "03/04/2024 10:00:00,04/04/2024 10:00:00\n" * 3)
    with pytest.raises(InvalidArgument, match=f"'d' holds no time in any of 3 rows; {wanted.format(3)}"):
        bl.audit(path, decided="d", observed="o")
    path.write_text("d,o\n" + "2024-03-04,04/04/2024 10:00:00\n" * 3)
    with pytest.raises(InvalidArgument, match=f"'o' cannot be read in 3 of 3 rows; {wanted.format(4)}"):
        bl.audit(path, decided="d", observed="o")


@pytest.mark.parametrize(
    ("decided", "observed", "later"), [(MOMENT, "soon", MOMENT), ("7", "soon", "8.0"), (7, "inf", "9")]
)
def test_what_cannot_be_read_is_not_what_has_not_come(decided, observed, later):
    missing = ["", "  ", "null", "None", "NaN", "NA", "n/a", "NaT", None]
    frame = pl.DataFrame({"d": [decided] * 300, "o": [observed, *missing, *[later] * 290]})
    found = log.read(frame, "d", "o")
    assert found.excluded == {"observed cannot be read": 1} and (found.decisions, found.came) == (299, 290)
    with pytest.raises(InvalidArgument, match=rf"'o' cannot be read in 1 of 99 rows; .*, got '{observed}'"):
        log.read(frame.head(99), "d", "o")
    turned = log.read(frame.filter(~pl.col("o").is_in(missing)).select(d="o", o=pl.lit(later)), "d", "o")
    assert turned.excluded == {"decided cannot be read": 1}


@pytest.mark.parametrize("row", ["2024-03-04T10:00:00,", "5,", "5,n/a"])
def test_a_csv_without_feedback_says_so(row, tmp_path):
    (tmp_path / "log.csv").write_text(f"d,o\n{row}\n{row}\n")
    with pytest.raises(InvalidArgument, match=r"no feedback had come by .*: 'o' is empty in all 2 rows"):
        bl.audit(tmp_path / "log.csv", decided="d", observed="o")


def test_numbers_with_gaps_are_rounds_and_a_unit_can_be_given():
    frame = pl.DataFrame({"d": [1.0, 2.0, 3.0], "o": [4.0, float("nan"), 3.0]})
    assert bl.audit(frame, decided="d", observed="o").data()["unit"] == "rounds"
    found = bl.audit(frame, decided="d", observed="o", unit="ms")
    assert found.data()["unit"] == "seconds" and found.data()["as_of"] == 0.004
    fractions = frame.with_columns(d=pl.col("d") + 0.5, o=pl.col("o") + 0.5)
    assert bl.audit(fractions, decided="d", observed="o").data()["unit"] == "seconds"


def test_a_log_can_be_looked_at_as_of_before():
    frame = simulated()
    early = frame["decided_at"].sort()[2000]
    cut = frame.filter(pl.col("decided_at") <= early).with_columns(
        seen_at=pl.when(pl.col("seen_at") <= early).then(pl.col("seen_at"))
    )
    found, alone = bl.audit(frame, **AD, as_of=early.isoformat()), bl.audit(cut, **AD, as_of=early)
    assert found.log.excluded == {"decided after the log was taken": 1999}
    assert found.peak == alone.peak and found.curve.survival.tolist() == alone.curve.survival.tolist()
    assert found.log.as_of == round(early.replace(tzinfo=UTC).timestamp() * 1e6)


def test_rows_that_make_no_sense_are_counted_and_left_out():
    frame = simulated(1000)
    odd = pl.int_range(pl.len())
    frame = frame.with_columns(
        seen_at=pl.when(odd < 3).then(pl.col("decided_at") - pl.duration(seconds=1)).otherwise(pl.col("seen_at")),
        decided_at=pl.when(odd != 5).then(pl.col("decided_at")),
        ad=pl.when(odd != 7).then(pl.col("ad")),
    )
    found = bl.audit(frame, **AD)
    assert found.log.excluded == {"decided is missing": 1, "observed before decided": 3, "action is missing": 1}
    assert found.log.decisions == 995 and "left out: 3 rows, observed before decided" in found.summary()


# --- mistakes ---

ROUNDS = pl.DataFrame({"d": [1, 2, 3], "o": [2, 5, None]})


@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        (ROUNDS, {"observed": "oo"}, "the log has no column 'oo' for observed; did you mean 'o'?"),
        (ROUNDS.clear(), {}, "the log is empty"),
        (ROUNDS.with_columns(o=None), {}, "no feedback had come by round 3"),
        (ROUNDS.with_columns(o=pl.lit(0)), {}, "'o' is before 'd' in 3 of 3 rows"),
        (ROUNDS.with_columns(d=pl.lit(None, pl.Int64)), {}, "'d' holds no time in any of 3 rows"),
        (ROUNDS.with_columns(o=pl.lit(datetime(2026, 1, 1))), {}, "both be times or both be numbers: 'd' holds Int64"),
        (ROUNDS.with_columns(d=pl.lit(True)), {}, "'d' must hold times or numbers, it holds Boolean"),
        (ROUNDS.with_columns(d=pl.col("d") + 0.5), {"unit": "rounds"}, "'d' must hold whole numbers of rounds"),
        (
            ROUNDS.with_columns(d=pl.lit("soon")),
            {},
            "both be times or both be numbers: 'd' holds words, 'o' holds Int64",
        ),
        (ROUNDS.with_columns(o=pl.lit("2024-03-04")), {}, "'d' holds Int64, 'o' holds times as text"),
        (ROUNDS.with_columns(d=pl.lit("soon"), o=pl.lit("late")), {}, "'d' holds no time in any of 3 rows"),
        (ROUNDS, {"as_of": "tomorrow"}, "as_of must be a round, got 'tomorrow'"),
        (ROUNDS, {"as_of": 0}, "no decision was made by round 0"),
        (ROUNDS, {"unit": "days"}, "unit must be one of rounds, s"),
        (ROUNDS, {"learner": "ucb"}, "no learner is called 'ucb'; did you mean 'ucb1'?"),
        (ROUNDS, {"learner": "linucb"}, "needs side information"),
        (ROUNDS, {"learner": "qpmd(ucb1)"}, "learner must be a learner, such as ucb1, got the forecaster qpmd(ucb1)"),
        (ROUNDS, {"gap": 0}, "gap must be > 0, got 0"),
        (ROUNDS.with_columns(r=math.inf), {"reward": "r"}, "'r' must be finite"),
        (3, {}, "a log is a file, a folder or a frame, got int"),
        ("nothing.csv", {}, "there is no file 'nothing.csv'"),
    ],
)
def test_mistakes_are_told(frame, arguments, message):
    with pytest.raises(InvalidArgument) as caught:
        bl.audit(frame, **({"decided": "d", "observed": "o"} | arguments))
    assert message in str(caught.value)


def test_identifiers_are_no_actions():
    frame = pl.DataFrame({"d": range(3000), "o": range(3000), "a": range(3000)})
    with pytest.raises(InvalidArgument, match=r"'a' holds about .* actions; at most 1,000"):
        bl.audit(frame, decided="d", observed="o", action="a")


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "bad.parquet").write_text("no parquet")
    (tmp_path / "log.xlsx").write_text("x")
    for name, message in (
        ("empty.csv", "is empty"),
        ("bad.parquet", "cannot be read"),
        ("log.xlsx", "must end in one of"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            bl.audit(tmp_path / name, decided="d", observed="o")


# --- how it is shown ---


def test_page_and_data(tmp_path):
    found = bl.audit(simulated(), **AD)
    text = found.page(tmp_path / "out").read_text()
    for part in ("What to use", "How long feedback takes", "What an expiry would lose", f"{found.peak:,}", "blue"):
        assert part in text
    assert 'src="http' not in text and "<link" not in text
    data = json.loads((tmp_path / "out" / "audit.json").read_text())
    documented = (type(found).__doc__ or "").replace("\n", " ")
    for key, value in data.items():
        assert f"`{key}`" in documented
        rows = value if isinstance(value, list) else [value] if isinstance(value, dict) and key != "excluded" else []
        for row in rows:
            assert all(f"`{inner}`" in documented for inner in row), row
    assert data["outstanding"]["peak"] == found.peak and len(data["actions"]) == 3
    assert {path.stem for path in (tmp_path / "out" / "data").iterdir()} == set(found.frames())
    assert found.frame("expiry")["peak_high"].max() <= found.peak and repr(found).startswith(
        "<Audit of 4,000 decisions"
    )
    with pytest.raises(InvalidArgument, match="name must be one of delays"):
        found.frame("nothing")


@pytest.mark.parametrize(
    "columns",
    [
        {"d": [1], "o": [1]},
        {"d": [1, 1, 1], "o": [1, None, 1], "a": ["x", "x", "x"], "r": [0, 1, 0]},
        {"d": [0, 1, 2, 3], "o": [0, 1, 2, 30], "a": [4, 5, 6, 7], "r": ["win", None, "lose", "win"]},
    ],
)
def test_the_smallest_logs_have_a_page(columns, tmp_path):
    names = {key: key[0] for key in ("action", "reward") if key[0] in columns}
    found = bl.audit(pl.DataFrame(columns), decided="d", observed="o", **names)
    assert found.log.decisions == len(columns["d"]) and found.page(tmp_path).exists()
    json.loads(found.to_json())


def test_one_row_claims_and_draws_nothing(tmp_path):
    found = bl.audit(pl.DataFrame({"d": [1], "o": [1]}), decided="d", observed="o")
    text = found.page(tmp_path).read_text()
    assert found.summary().startswith("1 decision from round 1") and repr(found).startswith("<Audit of 1 decision:")
    assert "Of the feedback 0.0% (0.0% to 97.5%) does not come within 0 rounds" in text and "(few: take it" in text
    assert "1 decision from" in text and "<img" not in text and found.dependence == []
    delay = found.data()["delay"]
    assert delay["median"] is delay["quantiles"][2]["high"] is None and delay["never_watched"] == 1
    assert found.expiries == [] and "None was tried" in text, "that nothing comes later was not seen, but defined"
    assert found.frame("expiry").is_empty() and "lost_high" in found.frame("expiry").columns


def test_each_action_has_both_medians():
    came = [3, 3, 3, 9, None, None, None, None, None, None]
    frame = pl.DataFrame({"d": [0] * 20, "o": [*came, *[5] * 10], "a": ["x"] * 10 + ["y"] * 10})
    found = bl.audit(frame, decided="d", observed="o", action="a", as_of=20)
    medians = [(row["median"], row["median_of_what_came"]) for row in found.data()["actions"]]
    assert medians == [(None, 3), (5, 5)]
    assert "median of what came" in shown(found)


def test_a_legend_covers_no_curve_and_long_names_are_whole():
    names = {"red": "r" * 70, "green": "g" * 70, "blue": "campaign " * 7 + "blue"}
    found = bl.audit(simulated(500).with_columns(pl.col("ad").replace(names)), **AD)
    figure = by_action(found, [0, 1, 2])
    figure.draw_without_rendering()
    (legend,), (axes,) = figure.legends, figure.axes
    assert legend.get_window_extent().y1 < axes.get_window_extent().y0
    shown_ = [text.get_text() for text in legend.get_texts()]
    assert [name.replace("\n", "") for name in shown_[1:]] == [names["green"], names["red"]]
    assert shown_[0].replace("\n", " ") == names["blue"] and all(len(line) <= 40 for line in shown_[0].split("\n"))
    texts = [block.html for block in _outstanding(found).blocks if isinstance(block, Text)]
    assert any('class="names"' in text and "overflow-wrap: anywhere" in text for text in texts)


def ticks(axis):
    axis.figure.draw_without_rendering()
    return [text.get_text() for text in axis.get_ticklabels()]


def test_axes_are_as_people_read_them():
    """No delay has a place on a logarithmic axis, dates are dates, large rounds are whole numbers."""
    n = 3000
    decided = np.arange(n) * 1000
    frame = pl.DataFrame({"d": decided, "o": decided + np.where(np.arange(n) % 2, 0, 40_000)})
    found = bl.audit(frame, decided="d", observed="o")
    axes = drawings.delays(found).axes[0]
    assert axes.get_xlim()[0] == 0 and axes.lines[0].get_xdata()[0] == 0 and ticks(axes.xaxis)[0] == "0"
    axes = drawings.outstanding(found).axes[0]
    assert "1,000,000" in ticks(axes.xaxis) and axes.xaxis.get_offset_text().get_text() == ""
    assert all(float(label).is_integer() for label in ticks(axes.yaxis))
    year = frame.with_columns(((pl.col("d", "o") * 10 + 1_700_000_000) * 10**6).cast(pl.Datetime("us")))
    axes = drawings.outstanding(bl.audit(year, decided="d", observed="o")).axes[0]
    assert axes.get_xlabel() == "time (UTC)" and "2024-04" in ticks(axes.xaxis)


def test_a_page_is_not_written_over_a_file(tmp_path):
    (tmp_path / "log.csv").touch()
    found = bl.audit(ROUNDS, decided="d", observed="o")
    for out in (tmp_path / "log.csv", tmp_path / "log.csv" / "deeper"):
        with pytest.raises(InvalidArgument, match=r"out must be a folder, '.*log\.csv' is a file"):
            found.page(out)


def test_command_line(tmp_path):
    simulated().write_csv(tmp_path / "log.csv")
    arguments = ["audit", str(tmp_path / "log.csv"), "--decided", "decided_at", "--observed", "seen_at"]
    told = RUNNER.invoke(app, [*arguments, "--action", "ad", "--reward", "won", "--out", str(tmp_path / "out")])
    assert told.exit_code == 0, told.output
    assert "outstanding: G* =" in told.output and "the page is" in told.output
    assert (tmp_path / "out" / "index.html").stat().st_size > 50_000
    data = json.loads(RUNNER.invoke(app, [*arguments, "--json"]).output)
    assert data["decisions"] == 4000
    wrong = RUNNER.invoke(app, [*arguments[:-1], "seen"])
    assert wrong.exit_code == 1 and "did you mean 'seen_at'?" in wrong.output
