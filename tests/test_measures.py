"""What else a result tells: its rounds, simple and dynamic regret, its forms in a notebook, progress there."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import polars
import pytest

import belated as bl
from belated.engine.progress import Progress
from belated.errors import InvalidArgument, Unsupported
from belated.studies.display import shown
from belated.studies.run import State


def played(game=None, delays=None, learner=None, **options):
    given = {"rounds": 60, "replications": 2, "seed": 5, "record": True, "engine": "python"} | options
    game = game or bl.games.RandomWalk(3, feedback="bandit")
    return bl.play(bl.BOLD(learner or bl.Exp3(game.actions)), game, delays or bl.delays.Constant(4), **given)


def test_a_trace_has_the_rewards_that_were_paid():
    r = played()
    trace = r.trace()
    assert trace.columns == ["replication", "round", "action", "probability", "reward", "delay", "arrived"]
    for number in range(2):
        own = trace.filter(polars.col("replication") == number)
        table = bl.games.deal(r.setting.game, 60, seed=5, replication=number)
        assert (own["reward"].to_numpy() == table[np.arange(60), r.actions[number]]).all()
        assert r.regret[number, -1] == pytest.approx(table.sum(axis=0).max() - own["reward"].sum())
        assert own["arrived"].to_list() == [t + 4 if t + 4 <= 60 else None for t in range(1, 61)]
    with pytest.raises(InvalidArgument, match="a trace needs all actions: play with record=True"):
        played(record=False).trace()


def test_lost_and_expired_feedback_did_not_arrive():
    trace = played(delays=bl.delays.Trace([2, bl.NEVER, 9, 0]), rounds=4, replications=1, expiry=5).trace()
    assert trace["delay"].to_list() == [2, None, 9, 0] and trace["arrived"].to_list() == [3, None, None, 4]


def test_traces_of_contexts_and_points():
    games = [bl.games.Bernoulli([0.1, 0.9]), bl.games.Bernoulli([0.9, 0.1])]
    r = played(bl.games.Grouped(games), learner=bl.PerContext(bl.UCB1(2), 2))
    assert set(r.trace()["context"].explode().to_list()) == {0.0, 1.0}
    line = bl.play(
        bl.Direct(bl.GradientDescent(2)),
        bl.games.Quadratic([1.0, 0.5], [0.5, -0.5]),
        bl.delays.Constant(1),
        rounds=9,
        record=True,
        engine="python",
    ).trace()
    assert np.shape(line["action"].to_list()) == (9, 2) and (line["reward"] <= 0).all()


def test_simple_regret_is_the_gap_of_what_was_played_most():
    r = played(bl.games.Bernoulli([0.2, 0.5, 0.9]))
    assert r.simple_regret.tolist() == [0.9 - (0.2, 0.5, 0.9)[row.argmax()] for row in r.pulls]
    games = [bl.games.Bernoulli([0.1, 0.9]), bl.games.Bernoulli([0.9, 0.1])]
    told = played(bl.games.Grouped(games), learner=bl.PerContext(bl.UCB1(2), 2), rounds=300)
    assert told.simple_regret.tolist() == [0.0, 0.0]
    with pytest.raises(Unsupported, match="has no law with known expectations"):
        _ = played().simple_regret


def test_dynamic_regret_is_against_the_best_action_of_every_round():
    table = [[0.0, 1.0], [1.0, 0.5], [0.25, 0.0]] * 5
    r = played(bl.games.RewardTable(table), learner=bl.RoundRobin(2), rounds=15, delays=bl.delays.Constant(0))
    lost = [max(row) - row[t % 2] for t, row in enumerate(table)]
    assert r.dynamic_regret()[:, -1].tolist() == [sum(lost)] * 2 and r.dynamic_regret().shape == r.regret.shape
    assert (r.dynamic_regret() >= r.regret - 1e-12).all()
    lawful = played(bl.games.Bernoulli([0.2, 0.9]), record=False)
    assert (lawful.dynamic_regret() == lawful.regret).all()
    with pytest.raises(InvalidArgument, match="dynamic regret needs all actions"):
        played(record=False).dynamic_regret()


def test_results_and_certificates_have_a_form_in_notebooks():
    r = played(expiry=7)
    for part in ("bold(exp3)", "randomwalk(3)", "constant(4)", "60 rounds x 2 replications, seed 5", "7 rounds", "95%"):
        assert part in r._repr_html_(), part
    table = r.certificate._repr_html_()
    assert "Certificate: all hold" in table and "G*_i &lt;= G* &lt;= n - 1" in table
    assert table.count("<td>2</td><td>2</td>") == len(r.certificate)


@pytest.fixture
def notebook(monkeypatch):
    """IPython as far as progress needs it: what is displayed, and what it becomes."""
    lines = []

    class Handle:
        def update(self, shown):
            lines.append(shown)

    def display(shown, display_id):
        lines.append(shown)
        return Handle()

    shell, displays = ModuleType("IPython"), ModuleType("IPython.display")
    shell.get_ipython = lambda: SimpleNamespace(kernel=object())
    displays.HTML, displays.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    monkeypatch.setattr("belated.report.live.PAUSE", 0.0)
    return lines


def test_progress_is_a_line_in_a_notebook(notebook):
    with Progress(True, 100, "BOLD") as progress:
        progress.add(40)
        progress.show()
    assert notebook[0] == '<progress value="40" max="100"></progress> BOLD 40%' and notebook[-1] == ""
    with Progress(None, 100, "quick") as progress:
        progress.show()
    assert "quick" not in "".join(notebook), "what is done at once shows nothing"


def test_so_is_that_of_a_study(notebook):
    with shown("<mine>", None) as watch:
        watch(State(cells=4, decisions=100, finished=1, played=25))
    assert notebook == ['<progress value="25" max="100"></progress> &lt;mine&gt; 25%, 1/4 cells', ""]
