"""Policies with known probabilities are weighed by their whole distribution, as Open Bandit Pipeline does it."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import belated as bl
from belated.cli import app
from belated.errors import InvalidArgument
from belated.replay import read_log
from belated.replay.model import Forward
from belated.replay.report import print_replay, table

PEER = Path(__file__).with_name("obp_peer.py")


def sample():
    """A small log in the form of the Open Bandit data, whose draws are the same in all versions of NumPy."""
    draws = np.random.RandomState(13)
    law = draws.dirichlet(np.ones(4), 400) * 0.8 + 0.05
    actions = (draws.rand(400, 1) < law.cumsum(axis=1)).argmax(axis=1)
    frame = pl.DataFrame({"item_id": actions, "propensity_score": law[np.arange(400), actions]})
    frame = frame.with_columns(click=(draws.rand(400) < 0.03 + 0.05 * actions).astype(int), position=actions % 3)
    wanted = draws.dirichlet(np.ones(4), 400)
    return frame.with_columns(wanted=pl.Series(wanted.tolist())), wanted


COLUMNS = {"action": "item_id", "probability": "propensity_score", "reward": "click"}
#: What obp 0.5.7 says of the sample (tests/obp_peer.py), with the model of belated.
SAID = {
    "uniform": {"ips": 0.08625817839404473, "snips": 0.08773639105237122, "dr": 0.08621195579468457},
    "wanted": {"ips": 0.09103904804606819, "snips": 0.09145476247479327, "dr": 0.09077100432856915},
}


def asked(log, law):
    """The arrays that the peer is asked about."""
    model = Forward(log)
    expected = np.stack([model(np.full(len(log), action)) for action in range(log.actions)], axis=1)
    return {"reward": log.reward, "action": log.action, "chance": log.probability, "law": law, "model": expected}


def peer(arrays, folder):
    np.savez(folder / "log.npz", **arrays)
    ran = [os.environ["BELATED_OBP_PYTHON"], str(PEER), str(folder / "log.npz")]
    return json.loads(subprocess.run(ran, check=True, capture_output=True, text=True).stdout)


def test_the_numbers_are_those_of_open_bandit_pipeline():
    frame, wanted = sample()
    for name, law in (("uniform", "uniform"), ("wanted", "wanted"), ("wanted", wanted)):
        found = bl.replay(frame, policies=[law], **COLUMNS).answers[0]
        assert {name: interval.mean for name, interval in found.estimates.items()} == pytest.approx(
            SAID[name], rel=1e-12
        )
    weights = 0.25 / frame["propensity_score"].to_numpy()
    uniform = bl.replay(frame, policies="uniform", **COLUMNS)["uniform"]
    assert uniform.effective == pytest.approx(weights.sum() ** 2 / (weights**2).sum()) and uniform.weighed == 400


@pytest.mark.soak
@pytest.mark.skipif("BELATED_OBP_PYTHON" not in os.environ, reason="names no Python that has obp (tests/obp_peer.py)")
@pytest.mark.parametrize("campaign", ["all", "men", "women"])
@pytest.mark.parametrize("logger", ["random", "bts"])
def test_on_the_log_that_open_bandit_pipeline_ships(logger, campaign, tmp_path):
    """Ten digits, for a uniform policy and one that goes by what the log has. The data are CC BY 4.0 (ZOZO, Inc.)."""
    where = subprocess.run(
        [os.environ["BELATED_OBP_PYTHON"], str(PEER), "data"], check=True, capture_output=True, text=True
    )
    frame = pl.read_csv(Path(where.stdout.strip()) / logger / campaign / f"{campaign}.csv")
    log = read_log(frame, **COLUMNS)
    uniform = np.full((len(log), log.actions), 1 / log.actions)
    other = np.random.RandomState(1).dirichlet(np.ones(log.actions), len(log))
    for law, given in ((uniform, "uniform"), (other, other)):
        said = peer(asked(log, law), tmp_path)
        found = bl.replay(log, policies=[given]).answers[0]
        for name, value in said.items():
            assert found.estimates[name].mean == pytest.approx(value, rel=1e-10, abs=1e-14), name


def test_whatever_says_the_same_gives_the_same(tmp_path):
    frame, _ = sample()
    law = {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}
    table = pl.DataFrame({"action": list(law), "probability": list(law.values())})
    by_position = table.join(pl.DataFrame({"position": [0, 1, 2]}), how="cross")
    by_position.write_csv(tmp_path / "law.csv")
    frame = frame.with_columns(
        all=pl.Series([list(law.values())] * 400), one=pl.col("item_id").replace_strict(law, return_dtype=pl.Float64)
    )
    same = {"law": law, "table": table, "keys": by_position, "file": tmp_path / "law.csv", "column": "all"}
    same["array"] = np.tile(list(law.values()), (400, 1))
    found = bl.replay(frame.sample(fraction=1.0, shuffle=True, seed=1), policies={**same, "array": law}, **COLUMNS)
    assert [a.forecaster for a in found.answers] == list(same)
    assert len({(a.value, a.difference, a.effective) for a in found.answers}) == 1
    plain = bl.replay(frame, policies=same, **COLUMNS)
    assert len({(a.value, a.difference) for a in plain.answers}) == 1
    # With the probability of the logged action alone there is no expectation of a model.
    less = bl.replay(frame, policies="one", **COLUMNS)["one"]
    assert (
        less.estimator == "ips" and set(less.estimates) == {"ips", "snips"} and "instead of doubly" in less.warnings[-1]
    )
    assert less.value == plain["law"].estimates["ips"]


def test_a_policy_may_go_by_columns_of_the_log():
    frame, _ = sample()
    rows = [(p, a, float(a == (p + 1) % 4)) for p in range(3) for a in range(4)]
    table = pl.DataFrame(rows, schema=["position", "action", "probability"], orient="row")
    found = bl.replay(frame, policies=table, estimator="ips", **COLUMNS)["given"]
    taken = frame.filter(pl.col("item_id") == (pl.col("position") + 1) % 4)
    assert found.value.mean == pytest.approx((taken["click"] / taken["propensity_score"]).sum() / 400)
    assert found.weighed == len(taken) and found.curve == () and found.peak is None


def test_the_order_of_an_array_is_that_of_the_log_as_given():
    frame, wanted = sample()
    times = np.random.RandomState(5).permutation(400)
    late = frame.with_columns(decided_at=times)
    found = bl.replay(late, policies=[wanted, "wanted"], **COLUMNS)
    assert found.answers[0].value == found.answers[1].value


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("unifrom", "no policy 'unifrom': did you mean 'uniform'"),
        ("law.csv", "there is no file 'law.csv'"),
        (7, "a column, a table, its file or an array, got 7"),
        ({0: 0.5, 1: 0.6}, "must add up to 1, got 1.1"),
        ({0: 1.5, 1: -0.5}, r"must lie in \[0, 1\], got"),
        ({0: 0.5, 9: 0.5}, "plays 9; the log has 0, 1, 2, 3"),
        (np.ones((3, 4)), "must be 400 decisions x 4 actions, got 3 x 4"),
        ("position", "must lie in"),
        ("short", "one for each of the 4 actions"),
        (pl.DataFrame({"action": [0], "chance": [1.0]}), "has no column 'probability', but action, chance"),
        (pl.DataFrame({"action": [0], "probability": [1.0], "positoin": [0]}), "no column of the log; did you mean"),
        (pl.DataFrame({"action": [0], "probability": [1.0], "position": [0]}), "what to do where position = "),
    ],
)
def test_mistakes_are_named(policy, message):
    frame, _ = sample()
    with pytest.raises(InvalidArgument, match=message):
        bl.replay(frame.with_columns(short=pl.Series([[0.5, 0.5]] * 400)), policies=[policy], **COLUMNS)


def test_each_estimate_is_said_to_be_what_it_is_and_no_number_is_cut(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    log = pl.DataFrame(
        {"action": [0, 1] * 600, "probability": 0.5, "value": [0.0] * 1199 + [1.0], "new": [0.1, 0.9] * 600}
    )
    found = bl.replay(log, policies=["new", "uniform"])
    assert [answer.estimator for answer in found.answers] == ["ips", "dr"]
    print_replay(found)
    said = capsys.readouterr().out
    words = " ".join(said.split())
    assert "new: inverse propensity; uniform: doubly robust" in words
    for row in table(found):
        for cell in row:
            assert all(part in said for part in cell.split(" (")), f"{cell} was cut"


def test_policies_do_not_live():
    frame, _ = sample()
    with pytest.raises(InvalidArgument, match="estimator must be dr, ips or snips, got 'replay'"):
        bl.replay(frame, policies="uniform", estimator="replay", **COLUMNS)
    with pytest.raises(InvalidArgument, match="forecasters or policies must name at least one"):
        bl.replay(frame, **COLUMNS)


def test_cut_weights_are_told():
    frame, _ = sample()
    cut = bl.replay(frame, policies="uniform", clip=2.0, **COLUMNS)["uniform"]
    assert 0.05 < cut.clipped < 0.6 and any("dr and ips are biased" in warning for warning in cut.warnings)


def test_the_command(tmp_path):
    frame, _ = sample()
    frame.write_parquet(tmp_path / "log.parquet")
    start = ["replay", str(tmp_path / "log.parquet"), "--policy", "uniform", "--policy", "wanted"]
    start += ["--action", "item_id", "--probability", "propensity_score", "--reward", "click"]
    told = json.loads(CliRunner().invoke(app, [*start, "--json"]).output)
    assert [each["mean"] for each in told["forecasters"]] == pytest.approx(
        [SAID["uniform"]["dr"], SAID["wanted"]["dr"]]
    )
    assert told["forecasters"][0]["rewards"] == frame["click"].sum() and told["logger"]["weighed"] == 400
    shown = CliRunner().invoke(app, [*start, "--out", str(tmp_path / "page")])
    assert shown.exit_code == 0 and "uniform" in shown.output, shown.output
    page = (tmp_path / "page" / "index.html").read_text()
    assert "wanted" in page and "rewards other than 0" in page and "live through" not in page
