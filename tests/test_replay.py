"""Replay: lives in a log are plays in the world that made it, and the intervals cover what is true there."""

import copy
import json
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import belated as bl
from belated import notation
from belated.cli import app
from belated.errors import BelatedError, InvalidArgument, InvalidFeedback, Unsupported
from belated.ledger.database import open_store
from belated.ledger.experiment import make
from belated.ledger.export import export
from belated.ledger.items import Create, Decide, Feedback, ticket_of
from belated.ledger.ledger import Ledger
from belated.replay import read_log
from belated.replay.estimate import sure
from belated.replay.follow import follow
from belated.replay.model import Forward
from tests.test_replay_coverage import thompson

MEANS = np.array([0.3, 0.5, 0.7])
LAW = bl.delays.Geometric(mean=10)
LOGGERS = {
    "uniform": bl.Direct(bl.Uniform(actions=3)),
    "greedy": bl.Direct(bl.EpsilonGreedy(actions=3, epsilon=0.5)),
}


def logged(logger="uniform", rounds=1500, seed=0, law=LAW, table=None):
    """What a logger did under delays, as far as it was known when the log ended."""
    if table is None:
        table = (np.random.default_rng(seed).random((rounds, 3)) < MEANS).astype(float)
    game = bl.games.RewardTable(table)
    played = bl.play(LOGGERS[logger], game, law, rounds, seed=seed, record=True, threads=1, progress=False)
    made = np.arange(1, rounds + 1)
    actions, came = played.actions[0], made + played.delays[0]
    columns = {"action": actions, "probability": played.probabilities[0], "decided_at": made, "closed_at": came}
    frame = pl.DataFrame(columns | {"value": table[made - 1, actions]})
    return frame.with_columns(pl.when(pl.col("closed_at") <= rounds).then(pl.col("value", "closed_at")))


@cache
def truth(forecaster, rounds):
    """The expected mean reward of a play."""
    chosen, game = notation.forecaster(forecaster, actions=3), bl.games.Bernoulli(MEANS.tolist())
    played = bl.play(chosen, game, LAW, rounds, replications=10_000, seed=99, progress=False)
    return MEANS.max() - played.mean_regret / rounds


# --- lives are plays ---

FORECASTERS = ["bold(exp3)", "direct(exp3)", "direct(ucb1)", "qpmd(ucb1)", "qpmd(exp3)", "bold(klucb)"]


@pytest.mark.parametrize("forecaster", FORECASTERS)
@pytest.mark.parametrize("logger", LOGGERS)
def test_a_life_is_a_play(forecaster, logger):
    """Where rewards depend on the action alone, a life and a play are the same, action for action."""
    table = np.tile([0.2, 0.5, 0.9], (3000, 1))
    log = read_log(logged(logger, 3000, table=table, law=bl.delays.Constant(7)))
    chosen = notation.forecaster(forecaster, actions=3)
    heads = np.random.default_rng(1).random(len(log)) < log.least / log.probability
    life = follow(chosen.fresh(seed=5, replication=2), log, log.rows, heads, by_rounds=True)
    rounds = len(life.accepted)
    assert rounds > 300 and abs(rounds / len(log) - log.least) < 0.04
    game = bl.games.RewardTable(table[:rounds])
    played = bl.play(chosen, game, bl.delays.Constant(7), rounds, replications=3, seed=5, record=True)
    assert life.proposed[life.accepted].tolist() == played.actions[2].tolist()
    assert life.peak == played.peak[2] == 7


def slowly(forecaster, log, rows, heads, by_rounds):
    """The same life, with a copy of the whole forecaster for each proposal."""
    proposed, accepted, due = [], [], []
    for at, row in enumerate(rows):
        now = len(accepted) if by_rounds else int(row)
        for entry in sorted(e for e in due if e[0] < now):
            due.remove(entry)
            reward = log.reward[entry[1]]
            forecaster.cancel(entry[2]) if np.isnan(reward) else forecaster.update(entry[2], reward)
        trial = copy.deepcopy(forecaster)
        context = log.context[row] if forecaster.learner.context_size else None
        decision = trial.predict(context)
        proposed.append(decision.action)
        if decision.action == log.action[row] and heads[at]:
            forecaster = trial
            due.append((now + int(log.wait[row]), row, decision.ticket))
            accepted.append(at)
    return proposed, accepted


@pytest.mark.parametrize("by_rounds", [True, False])
@pytest.mark.parametrize(
    "forecaster",
    ["bold(exp3)", "direct(ucb1)", "qpmd(exp3)", "direct(linucb(features=2))", "bold(percontext(exp3, contexts=2))"]
    + ["qpmd(percontext(ucb1, contexts=2))", "bold(linearthompson(features=2))"],
)
def test_what_is_not_accepted_did_not_happen(forecaster, by_rounds):
    rounds, draws = 300, np.random.default_rng(3)
    wide = "features" in forecaster
    contexts = draws.random((rounds, 2)) if wide else draws.integers(2, size=(rounds, 1))
    frame = logged(rounds=rounds).with_columns(context=pl.Series(contexts.tolist()))
    frame = frame.with_columns(value=pl.when(pl.col("decided_at") % 7 > 0).then("value"))  # some were cancelled
    log = read_log(frame)
    rows, heads = log.rows[::2], draws.random(150) < 0.8
    made = notation.forecaster(forecaster, actions=3)
    life = follow(made.fresh(seed=1), log, rows, heads, by_rounds)
    proposed, accepted = slowly(made.fresh(seed=1), log, rows, heads, by_rounds)
    assert life.accepted.tolist() == accepted and 25 < len(accepted) < 60
    assert life.proposed.tolist() == proposed


class Mine:
    """Plays what earned most so far, and the other one now and then."""

    actions = 3

    def __init__(self):
        self.sums, self.asked = np.ones(3), 0

    def predict(self, context):
        self.asked += 1
        return (self.asked % 3 if self.asked % 4 == 0 else int(self.sums.argmax())), 1.0

    def update(self, context, action, probability, feedback):
        self.sums[action] += feedback


@pytest.mark.parametrize("kind", [bl.Direct, bl.BOLD, bl.QPMD])
def test_plain_learners_are_replayed(kind):
    for clock in ("rounds", "log"):
        answer = bl.replay(logged(rounds=900), kind(Mine), clock=clock, runs=2).answers[0]
        assert answer.forecaster == f"{kind.__name__}(Mine)" and answer.value.low < 0.7 < answer.value.high + 0.3
        assert answer.rounds == pytest.approx(150, abs=25)
    log = read_log(logged(rounds=600))
    heads = np.random.default_rng(0).random(600) < 0.5
    one, two = (follow(kind(Mine), log, log.rows, heads, by_rounds=False) for _ in range(2))
    slow = slowly_plain(kind(Mine), log, heads)
    assert one.proposed.tolist() == two.proposed.tolist() == slow


def slowly_plain(forecaster, log, heads):
    forecaster.learner.context_size = 0
    try:
        return slowly(forecaster, log, log.rows, heads, by_rounds=False)[0]
    finally:
        del Mine.context_size


# --- what is true is found ---


@pytest.mark.soak
@pytest.mark.parametrize("logger", LOGGERS)
def test_estimates_are_without_bias(logger):
    """And their intervals cover what is true, the luck of lives included; test_replay_coverage.py has worse worlds."""
    names, logs = ["bold(exp3)", "direct(ucb1)", "qpmd(ucb1)", "direct(uniform)", "direct(tsallisinf)"], 600
    found = {name: [] for name in names}
    for seed in range(logs):
        for answer in bl.replay(logged(logger, 3000, seed), names, seed=seed).answers:
            found[answer.forecaster].append(answer)
    for name, answers in found.items():
        expected = truth(name, round(np.mean([a.rounds for a in answers])))
        for estimator in ("dr", "ips", "snips", "replay"):
            values = np.array([a.estimates[estimator].mean for a in answers])
            assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(logs) + 1e-3, (name, estimator)
            assert np.mean([a.estimates[estimator].contains(expected) for a in answers]) >= 0.94, (name, estimator)


def test_with_side_information():
    """LinUCB, replayed and played: rewards are the product of a context with the action's own vector."""
    directions = np.array([[1.0, 0.0], [0.0, 1.0]])
    draws = np.random.default_rng(0)

    def world(rounds):
        contexts = draws.dirichlet([0.3, 0.3], rounds)
        return contexts, (draws.random((rounds, 2)) < contexts @ directions.T).astype(float)

    earned = []
    for seed in range(40):
        contexts, table = world(100)
        f = bl.Direct(bl.LinUCB(actions=2, features=2), seed=seed)
        decided = []
        for t in range(100):
            decided.append(f.predict(contexts[t]))
            if t >= 5:
                f.update(decided[t - 5].ticket, table[t - 5, decided[t - 5].action])
        earned.append(np.mean([table[t, d.action] for t, d in enumerate(decided)]))
    contexts, table = world(4000)
    actions = draws.integers(2, size=4000)
    made = np.arange(4000)
    frame = pl.DataFrame({"a": actions, "p": 0.5, "r": table[made, actions], "t": made, "seen": made + 5})
    frame = frame.with_columns(x=pl.Series(contexts[:, 0]), y=pl.Series(contexts[:, 1]))
    columns = {"action": "a", "probability": "p", "reward": "r", "decided": "t", "observed": "seen"}
    result = bl.replay(frame, ["direct(linucb)", "direct(uniform)"], runs=20, context=["x", "y"], **columns)
    clever, blind = result.answers
    error = np.std(earned) / np.sqrt(len(earned))
    assert clever.value.low - 3 * error < np.mean(earned) < clever.value.high + 3 * error
    assert clever.value.low > 0.75 and blind.value.contains(0.5) and result.logger.contains(0.5)
    # The model knows more than nothing: its estimate is closer.
    widths = {name: found.high - found.low for name, found in clever.lived.items()}
    assert widths["dr"] < 0.75 * widths["ips"]
    with pytest.raises(Unsupported, match="needs a context of 3 numbers, the log has 2"):
        bl.replay(frame, "direct(linucb(features=3))", context=["x", "y"], **columns)


def test_empirical_bernstein_covers_and_shrinks():
    draws = np.random.default_rng(1)
    missed = 0
    for _ in range(300):
        values = 20.0 * (draws.random(400) < 0.02)
        missed += not sure(values, 20.0, 0.9).contains(0.4)
    assert missed <= 30
    wide, narrow = (sure(draws.random(n), 1.0, 0.95) for n in (100, 10_000))
    assert narrow.high - narrow.low < 0.04 < wide.high - wide.low


# --- what is said ---


def test_one_answer_in_full():
    result = bl.replay(logged(rounds=3000), ["qpmd(ucb1)", "bold(exp3)"], seed=4)
    answer = result["qpmd(ucb1)"]
    assert (answer.forecaster, answer.estimator, answer.clipped) == ("qpmd(ucb1)", "dr", 0.0)
    assert answer.accepted == round(answer.share * 3000) and answer.rounds * 10 == answer.accepted
    log = result.log
    matched = (answer.proposed == log.action) & ~np.isnan(log.reward)
    assert answer.effective == pytest.approx(matched.sum())  # all weights are 3
    assert answer.estimates["ips"].mean == pytest.approx(
        3 * np.nansum(log.reward[matched]) / (~np.isnan(log.reward)).sum()
    )
    assert answer.estimates["snips"].mean == pytest.approx(log.reward[matched].mean())
    assert result.logger.mean == pytest.approx(np.nanmean(log.reward))
    assert answer.difference.mean == pytest.approx(answer.value.mean - result.logger.mean)
    assert answer.extremes[0] < answer.value.mean < answer.extremes[1]
    assert len(answer.curve) == 12 and answer.curve[-1][1].mean > answer.curve[0][1].mean
    assert abs(answer.peak - log.outstanding) <= 4 and not result.warnings
    assert answer.weight == pytest.approx(3 * matched.sum() / (~np.isnan(log.reward)).sum())
    assert "qpmd(ucb1) 0." in repr(result)
    again = bl.replay(log, "qpmd(ucb1)", seed=4).answers[0]
    assert again.value == answer.value
    with pytest.raises(InvalidArgument, match="did you mean 'bold"):
        result["bold(exp2)"]


def test_the_log_knows_its_own_peak():
    law = bl.delays.Constant(13)
    assert read_log(logged(rounds=400, law=law)).outstanding == 13
    played = bl.play(LOGGERS["uniform"], bl.games.Bernoulli(MEANS.tolist()), LAW, 1500, seed=0)
    assert read_log(logged()).outstanding == played.peak[0]


def test_the_clock_of_the_log_thins_out_the_delays():
    frame = logged(rounds=3000, law=bl.delays.Constant(60))
    by_rounds, by_log = (bl.replay(frame, "bold(exp3)", clock=c, runs=4).answers[0] for c in ("rounds", "log"))
    assert by_rounds.peak == 60 and by_log.peak < 15


def test_rewards_in_their_own_units():
    frame = logged()
    plain = bl.replay(frame, "direct(ucb1)").answers[0]
    scaled = bl.replay(frame.with_columns(pl.col("value") * 20 - 5), "direct(ucb1)", reward_range=(-5, 15)).answers[0]
    for one, two in ((plain.value, scaled.value), (plain.lived["ips"], scaled.lived["ips"])):
        assert (two.mean, two.low) == pytest.approx((20 * one.mean - 5, 20 * one.low - 5))
    assert scaled.difference.high == pytest.approx(20 * plain.difference.high)


def test_other_columns_kinds_and_files_say_the_same(tmp_path):
    frame = logged(rounds=900)
    expected = bl.replay(frame, "qpmd(ucb1)").answers[0].value
    start = datetime(2024, 1, 1, tzinfo=UTC)
    names = {"action": "what", "probability": "p", "value": "r", "decided_at": "t0", "closed_at": "t1"}
    other = frame.rename(names).with_columns(
        pl.col("what").replace_strict({0: "red", 1: "green", 2: "violet"}),
        pl.col("t0", "t1").map_elements(lambda m: start + timedelta(minutes=m), return_dtype=pl.Datetime("us", "UTC")),
    )
    # The order of rows is not that of time; labels are numbered by name.
    other = other.with_columns(pl.col("what").replace({"red": "a", "green": "b", "violet": "c"})).sample(
        fraction=1, shuffle=True, seed=1
    )
    columns = {"action": "what", "probability": "p", "reward": "r", "decided": "t0", "observed": "t1"}
    other.write_parquet(tmp_path / "x.parquet")
    other.write_ndjson(tmp_path / "x.jsonl")
    other.write_csv(tmp_path / "x.csv")
    for source in (other, tmp_path / "x.parquet", str(tmp_path / "x.csv")):
        assert bl.replay(source, "qpmd(ucb1)", **columns).answers[0].value == expected
    frame.write_ndjson(tmp_path / "y.jsonl")
    assert bl.replay(tmp_path / "y.jsonl", "qpmd(ucb1)").answers[0].value == expected
    assert read_log(other, **columns).labels == ("a", "b", "c")


def test_warnings():
    frame = logged("greedy", 2000)
    small = bl.replay(frame[:200], "direct(ucb1)", runs=1).answers[0]
    assert [w.split(":")[0] for w in small.warnings] == ["thin", "a life had 43 rounds", "one life"]
    assert "clip the weights, which biases" in small.warnings[1] and small.thin
    assert f"that the estimate rests on: {small.rewards} (with" in small.warnings[0]
    lost = bl.replay(frame.with_columns(value=pl.when(pl.col("decided_at") % 5 > 0).then("value")), "direct(ucb1)")
    low, high = lost.answers[0].extremes
    assert "20.4% of the rounds have no reward" in lost.warnings[0] and high - low > 0.15
    bare = read_log(frame.drop("decided_at", "closed_at").drop_nulls())
    assert "taken to have come at once" in bare.warnings[0] and bare.outstanding == 0
    half = pl.when(pl.col("decided_at") > 1000).then(1 - pl.col("value")).otherwise("value")
    assert "the world changed" in read_log(frame.with_columns(value=half)).warnings[0]


def test_cut_weights_are_told():
    frame = logged("greedy", 2000)
    whole, cut = (bl.replay(frame, "direct(uniform)", clip=clip, runs=2) for clip in (None, 3.0))
    assert whole.rate == pytest.approx(1 / 6) and whole.answers[0].clipped == 0.0
    assert abs(whole.answers[0].weight - 1) < 0.1
    assert cut.rate == pytest.approx(1 / 3) and 0.2 < cut.answers[0].clipped < 0.5
    # Two of three proposals have probability 1/6: half the weight that they should have, and twice the time of waiting.
    assert cut.answers[0].accepted == pytest.approx(2000 / 5, rel=0.1)
    assert cut.answers[0].weight == pytest.approx(3 / 5, abs=0.05)
    assert cut.answers[0].lived["ips"].high < 0.5 and cut.answers[0].lived["replay"].contains(0.5)
    assert "weights above 3 are cut, their sum is" in cut.answers[0].warnings[0]


def test_rounds_that_cannot_be_used_are_left_out():
    frame = logged("greedy", 2000)
    certain, some = pl.col("decided_at") < 50, pl.col("decided_at") > 1990
    late = (pl.col("decided_at") % 100 == 0) & pl.col("value").is_not_null()
    marked = frame.with_columns(
        probability=pl.when(certain).then(1.0).otherwise("probability"),
        allowed=pl.when(some).then(pl.lit([0, 1])),
        state=pl.when(late).then(pl.lit("expired")).otherwise(pl.lit("closed")),
    )
    log = read_log(marked)
    assert log.rows.tolist() == list(range(49, 1990))
    assert [w.split()[0] for w in log.warnings] == ["49", "10", str(marked.filter(late).height)]
    assert bl.replay(log, policies="uniform").logger.mean == pytest.approx(frame["value"].mean())
    assert log.wait.tolist() == read_log(frame).wait.tolist()  # they take time all the same


def test_decisions_among_all_actions_can_be_weighed_whether_these_are_listed_or_not():
    frame = pl.DataFrame({"action": [3, 17, 99] * 4, "probability": 1 / 3, "value": [0.0, 1.0, 0.0] * 4})
    every, some = pl.lit([99, 3, 17]), pl.lit([3, 17])
    assert read_log(frame.with_columns(allowed=every)).rows.tolist() == list(range(12))
    assert read_log(frame.with_columns(allowed=pl.lit("[3, 17, 99]"))).rows.tolist() == list(range(12))
    first = frame.with_row_index().with_columns(allowed=pl.when(pl.col("index") < 2).then(some).otherwise(every))
    assert read_log(first).rows.tolist() == list(range(2, 12))


# --- the logger's own mean, and rounds that are selected ---


def half_certain(seed=0, rounds=8000, others=0.8):
    """In 30% of the rounds an action is drawn evenly, in the others action 1 is taken for certain."""
    draws = np.random.default_rng(seed)
    drawn = draws.random(rounds) < 0.3
    actions = np.where(drawn, draws.integers(2, size=rounds), 1)
    means = np.where(drawn, np.where(actions == 1, 0.8, 0.2), others)
    columns = {"action": actions, "probability": np.where(drawn, 0.5, 1.0), "decided_at": np.arange(rounds)}
    return pl.DataFrame(columns | {"value": (draws.random(rounds) < means).astype(float)})


def test_the_logger_earned_what_it_earned():
    frame = half_certain()
    found = bl.replay(frame, policies="uniform")
    assert found.logger.mean == frame["value"].mean() == pytest.approx(0.71, abs=0.02)
    assert found["uniform"].value.contains(0.5) and found["uniform"].difference.contains(0.5 - 0.71)
    assert found["uniform"].difference.high < -0.1 and "count for the logger" in found.warnings[-1]


def test_rounds_that_are_selected_cannot_speak_for_all():
    with pytest.raises(
        Unsupported, match=r"are not like the others.*action '1' earned 0\..* in them and 0\.8.* in the"
    ):
        read_log(half_certain(others=0.5))
    frame = half_certain()
    side = frame.with_columns(premium=(pl.col("probability") == 1).cast(float))
    with pytest.raises(
        Unsupported, match="number 0 of the side information is on average 1 in them and 0 in the others"
    ):
        read_log(side, context="premium")
    # The leader is said to be certain, the other one to have had its chance: what is left is selected by the action.
    draws = np.random.default_rng(1)
    actions = (draws.random(8000) > 0.02).astype(int)
    rounded = pl.DataFrame({"action": actions, "probability": np.where(actions == 1, 1.0, 0.02), "value": 1.0})
    fair = pl.DataFrame({"action": draws.integers(2, size=400), "probability": 0.5, "value": 1.0})
    with pytest.raises(Unsupported, match=r"or which 7\d+ decisions could not be weighed depends on the action"):
        read_log(pl.concat([fair.cast({"action": pl.Int64}), rounded]))


def test_a_log_of_thompson_sampling():
    """Three of four probabilities are exactly 1: there are no lives in it, and a policy hardly learns anything."""
    draws = np.random.default_rng(0)
    law, actions = thompson(draws.random((3000, 2)) < [0.2, 0.6], draws, samples=100)
    rows, means = np.arange(3000), np.array([0.2, 0.6])
    frame = pl.DataFrame({"action": actions, "probability": law[rows, actions], "decided_at": rows})
    frame = frame.with_columns(value=(draws.random(3000) < means[actions]).astype(float))
    assert (frame["probability"] == 1).mean() > 0.7
    with pytest.raises(Unsupported, match=r"1 in 100 is accepted .* as far as the log shows, is 0.01"):
        bl.replay(frame, "direct(ucb1)")
    found = bl.replay(frame, policies=["uniform", {0: 1.0, 1: 0.0}])
    assert found.logger.mean == frame["value"].mean()
    for answer, value in zip(found.answers, (0.4, 0.2), strict=True):
        assert answer.value.contains(value) and answer.difference.contains(value - (law @ means).mean())
        assert answer.thin and answer.value.high - answer.value.low > 0.5


# --- rare rewards ---


def clicks(rounds=10_000, seed=0, actions=40):
    """A logger that has favourites among many actions, which are clicked at once in 250 rounds."""
    draws = np.random.default_rng(seed)
    law = 0.9 * draws.dirichlet(np.full(actions, 0.3)) + 0.1 / actions
    taken = draws.choice(actions, rounds, p=law)
    return pl.DataFrame({"action": taken, "probability": law[taken], "value": (draws.random(rounds) < 0.004) * 1.0})


def test_the_model_starts_from_what_was_paid():
    """It expected 1/2 of what it did not know: 0.08 for a world of 0.004."""
    found = bl.replay(clicks(), policies="uniform", clip=50.0)["uniform"]
    assert abs(found.value.mean - 0.004) < 0.004 and found.value.contains(0.004)
    lived = bl.replay(clicks(rounds=4000), "direct(roundrobin)", clip=50.0, runs=1).answers[0]
    assert lived.value.mean < 0.03 and lived.value.contains(0.004)
    log = read_log(clicks(rounds=500))
    model = Forward(log)
    assert model(log.action)[:10].tolist() == [0.0] * 10  # nothing was paid before
    assert model(log.action).max() < 0.5


def test_few_rewards_are_called_thin(tmp_path):
    frame = clicks(rounds=2000, actions=3)
    found = bl.replay(frame, policies="uniform")
    answer = found["uniform"]
    assert answer.thin and answer.rewards == frame["value"].sum() == found.data()["logger"]["rewards"]
    assert f"thin: {answer.rewards} rewards" in repr(found) and found.data()["forecasters"][0]["thin"]
    assert f"{answer.rewards} thin" in found.report(tmp_path).read_text()


# --- what actions are called ---


@pytest.mark.parametrize("names", [(3, 17, 99), (0, 1, 10**9), (5, 6, 2**62), ("b", "c", "d")])
def test_actions_may_be_called_anything(names):
    frame = logged(rounds=900)
    plain = bl.replay(frame, "direct(ucb1)", policies={"p": {0: 0.5, 2: 0.5}}, runs=2)
    renamed = frame.with_columns(pl.col("action").replace_strict({0: names[0], 1: names[1], 2: names[2]}))
    found = bl.replay(renamed, "direct(ucb1)", policies={"p": {names[0]: 0.5, names[2]: 0.5}}, runs=2)
    assert [a.value for a in found.answers] == [a.value for a in plain.answers]
    assert found.log.labels == tuple(map(str, names))
    assert (f"the actions of the log are {names[0]}, {names[1]}" in " ".join(found.warnings)) == (names[0] != "b")
    with pytest.raises(InvalidArgument, match=f"has 4 actions, the log has 3: {names[0]}"):
        bl.replay(renamed, bl.Direct(bl.UCB1(4)), runs=2)


BASE = {"rounds": 300}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"propensity": pl.lit(False)}, Unsupported, "no propensities"),
        ({"probability": pl.lit(1.0)}, Unsupported, "all probabilities are 1"),
        ({"probability": pl.lit(0.0)}, InvalidArgument, r"must lie in \(0, 1\], got 0"),
        ({"probability": pl.lit(1.5)}, InvalidArgument, r"must lie in \(0, 1\], got 1.5"),
        ({"probability": pl.lit(None, pl.Float64)}, Unsupported, "missing in 300 of 300 rows"),
        ({"probability": pl.lit(0.8)}, Unsupported, "the recorded probabilities cannot be those of the decisions"),
        ({"value": pl.col("value") * 3}, InvalidFeedback, r"must lie in \[0, 1\], got 3"),
        ({"value": pl.lit(None, pl.Float64)}, InvalidArgument, "no reward was recorded"),
        ({"value": pl.lit([1.0, 0.0, 0.0])}, Unsupported, "the rewards of all actions"),
        ({"value": pl.lit("yes")}, Unsupported, "which are numbers"),
        ({"action": pl.lit(0)}, Unsupported, "there is nothing to choose"),
        ({"action": pl.lit(None, pl.Int64)}, InvalidArgument, "action is missing in 300 rows"),
        (
            {"closed_at": pl.col("decided_at") - 1},
            InvalidArgument,
            "'closed_at' is before 'decided_at' in 300 of 300 rows: round 0 and round 1",
        ),
        ({"closed_at": pl.lit(None, pl.Int64)}, InvalidArgument, "a reward and no time"),
        ({"closed_at": pl.lit(datetime(2024, 1, 1))}, InvalidArgument, "both be times or both be numbers"),
        ({"decided_at": pl.lit("now")}, InvalidArgument, "both be times or both be numbers: 'decided_at' holds words"),
        ({"context": pl.int_ranges(pl.col("decided_at") % 3 + 1)}, InvalidArgument, "context must hold a number"),
        ({"context": pl.format("word {}", "decided_at")}, InvalidArgument, "300 words; up to 100 can be side"),
        (
            {"name": pl.format("{}{}", pl.lit("n"), pl.col("decided_at") > 100)},
            Unsupported,
            "replay the rounds before and after",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(change, error, message):
    with pytest.raises(error, match=message):
        read_log(logged(**BASE).with_columns(**change))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"forecasters": "bold(hedge)"}, "learns from full feedback"),
        ({"forecasters": bl.BOLD(bl.Exp3(actions=4))}, "has 4 actions, the log has 3"),
        ({"forecasters": "direct(linucb)"}, "needs a context of 1 numbers, the log has 0"),
        ({"forecasters": []}, "at least one"),
        ({"estimator": "best"}, "estimator must be one of"),
        ({"clock": "wall"}, "clock must be one of"),
        ({"runs": 0}, "runs must be >= 1"),
        ({"runs": 10}, "of 300 usable decisions 1 in 3 is accepted .* each of the 10 runs would have 10 rounds"),
        ({"clip": 0.5}, "clip must be >= 1"),
        ({"level": 1.0}, "level must be < 1"),
        ({"reward": "valeu"}, "no column 'valeu' for reward; did you mean 'value'"),
        ({"context": "z"}, "no column 'z' for the context"),
        ({"reward_range": (1, 0)}, r"reward_range\[1\] must be > 1"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(BelatedError, match=message):
        bl.replay(logged(**BASE), **({"forecasters": "bold(exp3)", "runs": 2} | arguments))


def test_files_that_are_no_logs(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    (tmp_path / "x.csv").write_text("action,probability,value\n")
    for source, message in (
        (tmp_path / "x.parquet", "cannot be read"),
        (tmp_path / "x.csv", "the log is empty"),
        (tmp_path / "y.csv", "there is no file"),
        (tmp_path / "x.txt", "there is no file"),
        (7, "a log is a file, a folder or a frame, got int"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            read_log(source)


def test_the_export_of_the_service(tmp_path):
    ledger = Ledger(open_store(str(tmp_path / "ledger.db"), serve=True))
    draws = np.random.default_rng(2)
    for name, forecaster in (("drawn", "bold(epsilongreedy(epsilon=0.6))"), ("held", "qpmd(exp3)")):
        spec = make(name, ["red", "green"], forecaster, seed=3)
        (experiment,) = ledger.serve([Create(spec, ledger.prepare(spec))])
        waiting = []
        for _ in range(20):
            (decided,) = ledger.serve([Decide(experiment, [None] * 10)])
            waiting += decided
            ready, waiting = waiting[:-5], waiting[-5:]
            entries = [(ticket_of(d.ticket), float(draws.random() < 0.2 + 0.6 * d.action)) for d in ready]
            ledger.serve([Feedback(experiment, entries)])
        export(ledger.store, name, tmp_path / f"{name}.parquet")
    ledger.store.close()
    found = bl.replay(tmp_path / "drawn.parquet", "direct(ucb1)", runs=2)
    assert found.log.labels == ("red", "green") and len(found.log) == 200
    assert np.isnan(found.log.reward).sum() == 5 and found.log.outstanding >= 14
    assert found.answers[0].value.high > 0.5
    with pytest.raises(Unsupported, match="no propensities"):
        bl.replay(tmp_path / "held.parquet", "direct(ucb1)")


# --- the command ---


def test_the_command(tmp_path):
    runner = CliRunner()
    frame = logged(rounds=1500)
    frame.rename({"value": "r"}).write_parquet(tmp_path / "log.parquet")
    start = ["replay", str(tmp_path / "log.parquet"), "--forecaster", "bold(exp3)", "--forecaster", "qpmd(ucb1)"]
    shown = runner.invoke(app, [*start, "--reward", "r", "--out", str(tmp_path / "page"), "--runs", "3"])
    assert shown.exit_code == 0, shown.output
    for words in (
        "1,500 decisions, 3 lives, doubly robust, 95%",
        "minus logger",
        "rewards other than",
        "bold(exp3)",
        "qpmd(ucb1)",
        "the page is",
    ):
        assert words in " ".join(shown.output.split())
    told = runner.invoke(app, [*start, "--reward", "r", "--runs", "3", "--json"])
    data = json.loads(told.output)
    assert data == json.loads((tmp_path / "page" / "replay.json").read_text())
    expected = bl.replay(frame, ["bold(exp3)", "qpmd(ucb1)"], runs=3)
    assert [f["mean"] for f in data["forecasters"]] == [a.value.mean for a in expected.answers]
    assert data["forecasters"][0]["effective_sample_size"] > 300 and len(data["forecasters"][0]["curve"]) == 12
    page = (tmp_path / "page" / "index.html").read_text()
    assert "How it was found" in page and "data:image/svg+xml" in page and "qpmd(ucb1)" in page
    assert {f.name for f in (tmp_path / "page" / "figures").iterdir()} >= {"replay.svg", "learning.svg"}
    wrong = runner.invoke(app, start)
    assert wrong.exit_code == 1 and "error: the log has no column 'value' for reward" in wrong.output
