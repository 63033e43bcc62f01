"""The command line as a person meets it."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from belated.cli import app

runner = CliRunner()


def said(*arguments, code=0):
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("words", [[], ["play"], ["serve"], ["token", "create"], ["experiment", "list"]])
def test_help_shows_no_type_of_a_flag(words):
    text = said(*words, "--help")
    assert "--help" in text and "<bool>" not in text


def test_play_calls_things_as_they_were_called():
    given = ("delayeducb1", "bernoulli([.2,.8])", "geometric(5)")
    text = said("play", given[0], "--game", given[1], "--delay", given[2], "--rounds", "20", "--json")
    assert tuple(json.loads(text)[name] for name in ("forecaster", "game", "delays")) == given


def test_play_prints_a_table():
    text = said("play", "bold(exp3)", "--game", "bernoulli([0.2, 0.8])", "--delay", "constant(5)", "--rounds", "2000")
    assert "bold(exp3) on bernoulli([0.2, 0.8]) under constant(5)" in " ".join(text.split())
    assert "measured / bound" in text and "peak G*" in text


def test_play_gives_json_and_a_figure(tmp_path):
    arguments = ["play", "delayeducb1", "--rounds", "1000", "--replications", "3", "--json"]
    data = json.loads(said(*arguments, "--plot", str(tmp_path / "x.png")))
    assert data["replications"] == 3 and data["peak"] == 100.0 and len(data["pulls"]) == 5
    assert (tmp_path / "x.png").stat().st_size > 5000


def test_nothing_can_be_lost_where_actions_are_alike():
    play = ("play", "direct(ucb1)", "--game", "bernoulli([0.5, 0.5])", "--rounds", "50", "--replications", "3")
    data = json.loads(said(*play, "--json"), parse_constant=pytest.fail)
    assert (data["low"], data["high"], data["spread"], data["verdict"]) == (0.0, 0.0, None, "vacuous")
    assert "no ±: all are alike; 99% sure: 0 to 0" in " ".join(said(*play).split())
    assert "1 replication: no interval" in said(*play[:-1], "1")


def test_play_suits_the_game_to_the_learner():
    assert json.loads(said("play", "bold(hedge)", "--game", "randomwalk(3)", "--rounds", "500", "--json"))["bound"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["play", "bold(exp)"], "error: no learner is called 'exp'; did you mean 'exp3'?"),
        (["play", "bold(exp3)", "--delay", "geometric(-1)"], "error: mean must be"),
        (["play", "bold(exp3(4))"], "has 4 actions"),
        (["play", "exp3"], "it is a learner, and plays under a forecaster: bold(exp3)"),
        (["play", "bold(exp3)", "--plot", "x.xyz"], "'x.xyz' must end in one of"),
        (["run", "nothing.toml"], "error: there is no file 'nothing.toml'"),
        (["paper", "--only", "bald"], "error: no part of the paper is called 'bald'; did you mean 'bold'?"),
        (["paper", "--only", "peak,bald"], "error: no part of the paper is called 'bald'; did you mean 'bold'?"),
        (["paper", "--only", "bold", "--engine", "rai"], "error: no engine is called 'rai'; did you mean 'ray'?"),
        (["catalog", "exp33"], "error: the catalog has nothing called 'exp33'; did you mean 'exp3'?"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    assert message in said(*arguments, code=1)


def test_the_package_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["belated", "catalog", "matern"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("belated", run_name="__main__")
    assert not ended.value.code and "matern(points" in capsys.readouterr().out


def test_run_reports_every_problem(tmp_path):
    (tmp_path / "s.toml").write_text('forecasters = ["bold(exp)"]\ngames = "bernouli([1])"\ndelays = 3\n')
    text = said("run", str(tmp_path / "s.toml"), code=1)
    assert "has 4 problems" in text and "did you mean 'exp3'?" in text and "did you mean 'bernoulli'?" in text


def test_run_writes_a_page_and_a_second_run_computes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'title = "Mine"\nforecasters = ["bold(ucb1)", "delayeducb1"]\ngames = ["bernoulli([0.3, 0.7])"]\n'
        'delays = ["constant(3)"]\nrounds = 500\nreplications = 4\n'
    )
    assert "2 cells computed (4,000 decisions); the page is results/mine/index.html" in said("run", "mine.toml")
    assert "nothing to compute, 2 reused" in said("run", "mine.toml")
    assert "<h1>Mine</h1>" in (tmp_path / "results" / "mine" / "index.html").read_text()


def test_the_catalog_shows_bounds():
    text = " ".join(said("catalog").split())
    assert "bound: 2 sqrt(n K ln K), any adversary" in text and "replaced" in text
    assert "959.7" in said("catalog", "Exp3")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("belated pl", {"play"}),
        ("belated play bol", {"bold"}),
        ("belated play bold(exp", {"bold(exp3", "bold(exp3ix"}),
        ("belated paper --only pe", {"peak"}),
        ("belated play bold --delay geo", {"geometric"}),
        ("belated run x.toml --engine r", {"ray"}),
    ],
)
def test_the_shell_completes(words, wanted):
    environment = os.environ | {
        "_BELATED_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    script = "from belated.cli import app; app(prog_name='belated')"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert wanted <= set(done.stdout.split()), done.stderr


def test_a_warning_is_a_line():
    command = [sys.executable, "-m", "belated.cli", "play", "direct(slidingucb(window=5))"]
    command += ["--game", "bernoulli([0.2, 0.8])", "--delay", "constant(9)", "--rounds", "50"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert done.stderr.startswith("warning: SlidingUCB(actions=2, window=5) will learn nothing") and done.stdout
    assert done.stderr.count("\n") == 1 and "UserWarning" not in done.stderr
