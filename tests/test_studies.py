"""Studies: what is read, what is computed, what is kept, and what two of them say together."""

import json
import pickle
import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars
import pytest
from scipy.stats import ttest_ind, ttest_rel

import belated as bl
from belated.errors import CertificateError, InvalidArgument
from belated.forecasters import factories
from belated.studies import comparing
from belated.studies.cells import CERTIFIED, Play, Table
from belated.studies.results import Results, labels
from belated.studies.run import CellsFailed, Local, run_cells
from belated.studies.store import Store
from belated.studies.study import Study, StudyProblems
from belated.theory.intervals import sure

SMALL = """
title = "A small one"
rounds = [500, 1000]
replications = 8
seed = 3
forecasters = ["bold(ucb1)", "delayeducb1"]
games = ["bernoulli([0.3, 0.5, 0.7])"]
delays = ["constant(10)", "geometric(mean=20)"]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("small")
    return Study.parse(SMALL).run(out), out


def cell(**changes):
    given = {"rounds": 300, "replications": 3, "seed": 1} | changes
    return Play(bl.BOLD(bl.UCB1(3)), bl.games.Bernoulli([0.3, 0.5, 0.7]), bl.delays.Geometric(mean=9), **given)


# --- cells and their keys ---


def test_a_stored_cell_reads_back_as_the_result_it_was(tmp_path):
    for forecaster in (bl.BOLD(bl.UCB1(3)), bl.QPMD(bl.UCB1(3)), bl.DelayedUCB1(3)):
        for expiry in (None, 12):
            played = Play(
                forecaster, bl.games.Bernoulli([0.3, 0.5, 0.7]), bl.delays.Geometric(mean=9), 700, 5, 2, expiry
            )
            done, _ = run_cells([played], Store(tmp_path))
            direct = bl.play(forecaster, played.game, played.delays, rounds=700, replications=5, seed=2, expiry=expiry)
            read = done[played]
            for name in ("regret", "peak", "peaks", "pulls", "observed", "cancelled", "outstanding", "instances"):
                assert np.array_equal(getattr(read, name), getattr(direct, name)), name
            assert (read.bound, read.bound_reason, read.verdict) == (direct.bound, direct.bound_reason, direct.verdict)
            assert np.array_equal(read.steps, direct.steps) and np.array_equal(read.base_pulls, direct.base_pulls)
            assert list(read.certificate) == list(direct.certificate) and read.certificate.holds
            assert all(np.array_equal(read.certificate[name], direct.certificate[name]) for name in direct.certificate)
            stored = Store(tmp_path).load(played.key)
            assert {name for name in stored.columns if name.startswith(CERTIFIED)} == {
                f"{CERTIFIED}{name}" for name in direct.certificate
            }


ONCE = "feedback due by n came exactly once"


def test_the_certificate_of_a_cell_is_the_one_that_was_stored(tmp_path):
    """It is read, not made up: what the file says of a replication is what the result says."""
    store, played = Store(tmp_path), cell()
    run_cells([played], store)
    table = store.load(played.key)
    table.columns[f"{CERTIFIED}{ONCE}"] = np.array([True, False, True])
    store.save(played.key, table)
    read = run_cells([played], store)[0][played].certificate
    assert read[ONCE].tolist() == [True, False, True] and not read.holds


def test_a_cell_without_a_certificate_is_certified_by_its_counts_and_no_further(tmp_path):
    store, played = Store(tmp_path), cell()
    whole = run_cells([played], store)[0][played]
    table = store.load(played.key)
    columns = {name: each for name, each in table.columns.items() if not name.startswith(CERTIFIED)}
    store.save(played.key, Table(columns, table.about))
    read = run_cells([played], store)[0][played]
    assert read.certificate.holds and set(whole.certificate) - set(read.certificate) == {ONCE}
    assert (read.verdict, read.bound) == (whole.verdict, whole.bound) and np.array_equal(read.regret, whole.regret)
    columns["pulls"] = columns["pulls"] + 1
    store.save(played.key, Table(columns, table.about))
    with pytest.raises(CertificateError, match="sum of pulls"):
        _ = run_cells([played], store)[0][played]


def test_the_key_names_what_is_computed():
    assert cell().key == cell().key == pickle.loads(pickle.dumps(cell())).key
    others = [
        cell(rounds=301),
        cell(replications=4),
        cell(seed=2),
        cell(expiry=5),
        Play(bl.QPMD(bl.UCB1(3)), cell().game, cell().delays, 300, 3, 1),
        Play(bl.BOLD(bl.KLUCB(3)), cell().game, cell().delays, 300, 3, 1),
        Play(cell().forecaster, bl.games.Bernoulli([0.3, 0.5, 0.6]), cell().delays, 300, 3, 1),
        Play(cell().forecaster, cell().game, bl.delays.Geometric(mean=8), 300, 3, 1),
    ]
    assert len({c.key for c in [cell(), *others]}) == 1 + len(others)


def test_a_changed_learner_makes_another_cell(monkeypatch):
    before = cell().key
    monkeypatch.setattr(bl.UCB1, "update", bl.RoundRobin.update)
    assert cell().key != before


def test_a_changed_constant_makes_another_cell(monkeypatch):
    before = Play(bl.BOLD(bl.EpsilonGreedy(3)), cell().game, cell().delays, 300).key
    monkeypatch.setattr(bl.EpsilonGreedy, "params", lambda self: {"epsilon": 0.9})
    assert Play(bl.BOLD(bl.EpsilonGreedy(3)), cell().game, cell().delays, 300).key != before


def turns(room):
    return room.round % 2


class TakesTurns(bl.Forecaster):
    """A rule of somebody's own, in Python, with a method and a function that it calls."""

    seats = 2

    def choose(self, room, context):
        seat = room.seat(self.which(room))
        return seat, *seat.ask(context)

    def which(self, room):
        return turns(room)

    def deliver(self, room, letter, feedback):
        room.seat(letter.seat).answer(letter, feedback)

    def release(self, room, letter):
        room.seat(letter.seat).lost(letter)


@pytest.mark.parametrize(
    ("owner", "name", "other"),
    [
        (bl.UCB1, "predict", bl.RoundRobin.predict),
        (bl.UCB1, "update", bl.RoundRobin.update),
        (TakesTurns, "which", lambda self, room: 0),
        (TakesTurns, "seats", 3),
        (TakesTurns, "identities", lambda self, counts: {}),
        (sys.modules[__name__], "turns", lambda room: 1),
    ],
)
def test_whatever_a_rule_in_python_does_is_part_of_its_key(owner, name, other, monkeypatch):
    """Its learner's kernels too: a study that was run again had kept the results of the learner before."""
    played = Play(TakesTurns(bl.UCB1(3)), cell().game, cell().delays, 300)
    assert replace(played).key == played.key
    monkeypatch.setattr(owner, name, staticmethod(other) if owner is bl.UCB1 else other)
    assert replace(played).key != played.key


def test_a_kernel_without_a_description_is_refused(monkeypatch):
    """A global array could change unseen, and old results would pass for new ones."""
    table = np.array([0.0, 1.0])

    def update(params, state, context, action, probability, feedback):
        state.total[action] += table[0]

    monkeypatch.setattr(bl.UCB1, "update", staticmethod(update))
    with pytest.raises(InvalidArgument, match="the loop cannot be part of a study"):
        _ = cell().key


def plain(answer=0, *, tail=()):
    """A class of plain learners; each call defines it anew."""

    class Plain:
        actions = 3

        def __init__(self, more=0):
            self.more = more

        def predict(self, context):
            return answer, 1.0

        def update(self, context, action, probability, feedback):
            self.seen = tail

    return Plain


def test_plain_learners_can_enter_a_study(tmp_path):
    given = {"games": "bernoulli([0.3, 0.5, 0.7])", "delays": "constant(3)", "rounds": 40, "replications": 2}
    kinds = plain(), partial(plain(2), more=1), lambda: plain(1)()
    study = Study.make(forecasters=[bl.BOLD(kinds[0]), bl.Direct(kinds[1]), bl.QPMD(kinds[2])], **given)
    results = study.run(tmp_path)
    assert [r.pulls[0].argmax() for _, r in results] == [0, 2, 1]
    names = results.frame()["forecaster"].to_list()
    assert names[:2] == ["bold(Plain)", "direct(Plain(more=1))"] and names[2].startswith("qpmd(lambda #")
    assert study.run(tmp_path).state.reused == 3 and results.plot() and results.report(tmp_path / "page").exists()
    with pytest.raises(InvalidArgument, match=r"the learner Plain was given in Python .* run it into the same folder"):
        Results.load(tmp_path)


def test_the_key_of_a_plain_learner_follows_its_code():
    def key(factory):
        return Play(bl.BOLD(factory), cell().game, cell().delays, 300).key

    assert key(plain()) == key(plain())
    changed = [plain(1), plain(tail=(1,)), partial(plain(), 1), partial(plain(), 2), plain(tail=np.arange(3))]
    assert len({key(each) for each in [plain(), *changed]}) == 6
    with pytest.raises(InvalidArgument, match="has no stable description"):
        key(plain(tail=np.random.default_rng(0)))


def test_no_default_is_taken_for_one_seen_before():
    def learner(default):
        class Learner:
            def predict(self, context, first=0):
                return first, 1.0

            def update(self, context, action, probability, feedback, last=default):
                return last

        return Learner

    def digests(default):
        return {factories.digest(learner(default)) for _ in range(20)}

    assert len(digests(1)) == len(digests(2)) == 1
    assert digests(1) != digests(2)


# --- the store ---


def test_what_is_stored_comes_back(tmp_path):
    table = Table({"a": np.arange(6).reshape(2, 3), "b": np.array([0.5, np.inf]), "c": np.zeros((2, 2, 4))}, {"x": [1]})
    store = Store(tmp_path)
    store.save("k", table)
    again = store.load("k")
    assert again.about == {"x": [1]}
    for name, values in table.columns.items():
        assert again.columns[name].dtype == values.dtype and np.array_equal(again.columns[name], values)
    assert polars.read_parquet(tmp_path / "k.parquet").shape == (2, 3)
    assert store.load("other") is None


def test_a_damaged_file_is_not_a_finished_cell(tmp_path):
    store = Store(tmp_path)
    played = cell()
    run_cells([played], store)
    whole = store.path(played.key).read_bytes()
    for damaged in (
        b"",
        whole[: len(whole) // 2],
        whole[:40] + b"\x00" * 20 + whole[60:],
        b"PAR1" + whole[4:-9] + b"PAR1",
    ):
        store.path(played.key).write_bytes(damaged)
        assert not store.has(played.key)
        done, state = run_cells([played], store)
        assert state.finished == 1 and done[played].rounds == 300
    assert store.path(played.key).read_bytes()[:4] == b"PAR1"


def test_half_written_files_of_dead_processes_are_swept(tmp_path):
    import os

    dead, alive = tmp_path / ".k.99999999.0.tmp", tmp_path / f".k.{os.getpid()}.0.tmp"
    dead.write_bytes(b"half")
    alive.write_bytes(b"half")
    Store(tmp_path)
    assert not dead.exists() and alive.exists()


# --- running ---


def test_finished_cells_are_not_computed_again_and_twins_only_once(tmp_path):
    cells = [cell(), cell(), cell(seed=9)]
    _, first = run_cells(cells, Store(tmp_path))
    assert (first.cells, first.finished, first.reused) == (2, 2, 0)
    _, second = run_cells([*cells, cell(seed=10)], Store(tmp_path))
    assert (second.finished, second.reused) == (1, 2)


def test_the_number_of_threads_changes_nothing(tmp_path):
    cells = [cell(seed=s) for s in range(6)]
    one, _ = run_cells(cells, Store(tmp_path / "one"), Local(1))
    many, _ = run_cells(cells, Store(tmp_path / "many"), Local(3))
    assert all(np.array_equal(one[c].regret, many[c].regret) for c in cells)


def test_a_cell_that_fails_is_named_and_the_others_are_kept(tmp_path):
    bad = Play(bl.BOLD(bl.UCB1(3)), bl.games.Bernoulli([0.3, 0.5]), bl.delays.Constant(3), 300)
    with pytest.raises(CellsFailed, match=r"1 of 3 cells failed.*\n.*has 3 actions"):
        run_cells([cell(), bad, cell(seed=8)], Store(tmp_path))
    assert Store(tmp_path).has(cell().key) and Store(tmp_path).has(cell(seed=8).key)


def test_an_interruption_keeps_what_is_finished(tmp_path):
    def interrupt(state):
        if state.finished:
            raise KeyboardInterrupt

    cells = [cell(seed=s, rounds=200_000, replications=20) for s in range(12)]
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, Store(tmp_path), watch=interrupt)
    kept = sum(Store(tmp_path).has(c.key) for c in cells)
    assert 1 <= kept < 12
    _, state = run_cells(cells, Store(tmp_path))
    assert state.reused == kept and state.finished == 12 - kept


def test_progress_tells_of_cells_and_decisions(tmp_path):
    seen = []
    run_cells(
        [cell(seed=s, rounds=3_000_000) for s in range(4)],
        Store(tmp_path),
        Local(1),
        lambda state: seen.append((state.finished, state.done, list(state.running.values()))),
    )
    assert seen[0][1] == 0 and seen[-1][:2] == (4, 4 * 9_000_000)
    assert all(a[1] <= b[1] for a, b in pairwise(seen))
    assert any("BOLD(UCB1(actions=3)) on Bernoulli" in title for _, _, running in seen for title, _ in running)


# --- studies as data ---


def test_a_prior_may_name_any_action_of_the_game():
    given = {"games": ["bernoulli([0.1, 0.2, 0.3, 0.9])"], "delays": ["constant(3)"], "rounds": 50, "replications": 2}
    study = Study.make(forecasters=["sdb(ucb1, prior=[[3, 1.0]])"], **given)
    assert [cell.forecaster.prior for cell in study.cells] == [((3, 1.0),)]
    with pytest.raises(StudyProblems, match=r"prior names action 4, outside 0\.\.3"):
        Study.make(forecasters=["sdb(ucb1, prior=[[4, 1.0]])"], **given)


def test_the_grid_is_a_product():
    study = Study.parse(SMALL)
    assert len(study.cells) == 8 and study.decisions == 2 * 2 * 8 * 1500
    assert {c.forecaster.actions for c in study.cells} == {3} and {c.seed for c in study.cells} == {3}


def test_grids_take_from_the_top_what_they_do_not_say():
    study = Study.parse(SMALL + '[[grid]]\n[[grid]]\nforecasters = "bold(hedge)"\nrounds = 1e3\nexpiry = ["none", 5]\n')
    assert len(study.cells) == 8 + 4
    assert {c.expiry for c in study.cells[8:]} == {None, 5} and {c.game.feedback for c in study.cells[8:]} == {"full"}


def test_specs_may_be_given_as_they_are():
    study = Study.make(
        forecasters=[bl.BOLD(bl.Exp3(2))],
        games=[bl.games.Bernoulli([0.1, 0.9])],
        delays=bl.delays.Constant(3),
        rounds=10,
    )
    assert repr(study.cells[0].forecaster) == "BOLD(Exp3(actions=2))"


def test_every_problem_is_reported_at_once():
    with pytest.raises(StudyProblems) as error:
        Study.parse(
            """
            titel = "x"
            rounds = [0, "many"]
            replications = 1.5
            forecasters = ["bold(exp)", "qpmd(ucb1)", 7]
            games = ["bernoulli([2])"]
            delays = "constat(3)"
            expiry = -1
            """
        )
    said = error.value.problems
    assert len(said) == 9
    for part in (
        "titel: there is no such setting; did you mean 'title'?",
        "rounds[0] must be >= 1, got 0",
        "rounds[1] must be a whole number, got 'many'",
        "replications must be a whole number, got 1.5",
        "forecasters[0]: no learner is called 'exp'; did you mean 'exp3'?",
        "forecasters[2]: a forecaster is text such as",
        "games[0]: means[0] must be <= 1, got 2",
        "delays: no delay law is called 'constat'; did you mean 'constant'?",
        "expiry must be >= 0, got -1",
    ):
        assert any(part in problem for problem in said), part


def test_what_does_not_fit_together_is_a_problem():
    with pytest.raises(StudyProblems, match=r"has 4 actions.*has 2"):
        Study.make(forecasters="bold(exp3(4))", games="bernoulli([0.1, 0.2])", delays="constant(1)", rounds=5)
    with pytest.raises(StudyProblems, match="rounds must be <= 2"):
        Study.make(forecasters="bold(exp3)", games="bernoulli([0.1, 0.2])", delays="trace([1, 2])", rounds=5)
    with pytest.raises(StudyProblems, match="is missing"):
        Study.make(forecasters="bold(exp3)", games="bernoulli([0.1, 0.2])", rounds=5)
    with pytest.raises(StudyProblems, match="must be given as"):
        Study.parse(SMALL + "grid = []")
    with pytest.raises(StudyProblems, match="forecasters is given twice"):
        Study.parse(SMALL + 'forecaster = "bold(exp3)"')
    with pytest.raises(StudyProblems, match="rounds x replications must be <="):
        Study.parse(SMALL.replace("[500, 1000]", "1e12").replace("replications = 8", "replications = 1_000_000"))
    with pytest.raises(StudyProblems, match="seed must be <="):
        Study.parse(SMALL.replace("seed = 3", "seed = 99999999999999999999"))
    with pytest.raises(StudyProblems, match="title: there is no such setting"):
        Study.parse(SMALL + '[[grid]]\ntitle = "x"')
    with pytest.raises(StudyProblems, match="is empty"):
        Study.make(forecasters=[], games="bernoulli([0.1, 0.2])", delays="constant(1)", rounds=5)


def test_a_file_that_is_not_there_or_not_toml(tmp_path):
    with pytest.raises(InvalidArgument, match="there is no file"):
        Study.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("rounds = [1,")
    with pytest.raises(StudyProblems, match="it is not TOML"):
        Study.read(tmp_path / "bad.toml")


# --- results ---


def test_frames(small):
    results, _ = small
    frame = results.frame()
    assert frame.shape[0] == 8 and frame["verdict"].is_in(["holds", "likely holds", "vacuous"]).all()
    for row, (_, r) in zip(frame.to_dicts(), results, strict=True):
        ends = sure(r.regret[:, -1], *r.regret_range, 0.99, family=8)
        assert (row["low"], row["high"]) == ends, "the interval of the regret, without the bound's own error"
        assert row["spread"] == r.spread and row["spread"] > row["standard_error"]
        assert (row["replications_needed"] is None) == (row["verdict"] in ("holds", "vacuous"))
    assert frame["regret"].to_list() == [r.mean_regret for _, r in results]
    assert results.replications().shape[0] == 8 * 8
    curves = results.curves().filter((polars.col("rounds") == 500) & (polars.col("forecaster") == "bold(ucb1)"))
    assert curves["round"].max() == 500


def test_results_are_loaded_from_their_folder(small):
    results, out = small
    again = Results.load(out)
    assert again.study.title == "A small one" and [c.key for c in again.study.cells] == list(results.by_key)
    assert again.frame().drop("seconds").equals(results.frame().drop("seconds"))
    with pytest.raises(InvalidArgument, match="holds no study"):
        Results.load(out / "cells")
    with pytest.raises(InvalidArgument, match=r"study.json in it; a TOML file is read by Study.read"):
        Study.load(next((out / "cells").glob("*.parquet")))
    with pytest.raises(FileNotFoundError, match=r"there is no folder for cells.csv: .*nowhere"):
        results.csv(out / "nowhere" / "cells.csv")
    next((out / "cells").glob("*.parquet")).unlink()
    with pytest.raises(InvalidArgument, match="is not complete"):
        Results.load(out)


def test_labels_tell_cells_apart_and_are_short():
    near = Study.make(
        forecasters="bold(ucb1)",
        games=["bernoulli([0.2, 0.8])", "bernoulli([0.2000001, 0.8])"],
        delays="constant(1)",
        rounds=9,
    )
    assert len({labels(c)["game"] for c in near.cells}) == 2
    table = np.random.default_rng(0).random((500, 2)).tolist()
    long = Study.make(
        forecasters="bold(ucb1)", games=bl.games.RewardTable(table, "bandit"), delays="constant(1)", rounds=9
    )
    assert len(labels(long.cells[0])["game"]) <= 80


def test_learners_of_different_feedback_share_a_game(tmp_path):
    shared = {"games": "bernoulli([0.2, 0.8])", "delays": "constant(1)", "rounds": 99, "replications": 5}
    full, bandit = (Study.make(forecasters=f, **shared).run(tmp_path) for f in ("bold(hedge)", "bold(exp3)"))
    assert full.compare(bandit, on=["game", "delays", "rounds", "expiry"])["paired"].all()


def test_the_same_cell_is_taken_once():
    assert len(Study.parse(SMALL + "[[grid]]\nseed = 1\n[[grid]]\nseed = 2\n[[grid]]\nseed = 2\n").cells) == 16


def test_two_studies_are_compared(small, tmp_path):
    results, _ = small
    other = Study.parse(SMALL.replace('"bold(ucb1)", "delayeducb1"', '"qpmd(ucb1)"')).run(tmp_path)
    same = results.compare(results)
    assert same.shape[0] == 8 and (same["difference"] == 0).all() and same["paired"].all()
    assert (same["low"] < 0).all() and (same["finding"] == "no difference shown").all(), "no interval is a point"
    against = results.compare(other, on=["game", "delays", "rounds"])
    assert against.shape[0] == 8 and against["paired"].all()
    bold = against.filter(polars.col("forecaster") == "bold(ucb1) | qpmd(ucb1)")
    assert bold["finding"].is_in(["higher", "likely higher"]).all()
    assert ((bold["low"] > 0) == (bold["finding"] == "higher")).all()
    unpaired = results.compare(other, on=["game", "delays", "rounds"], paired=False)
    assert not unpaired["paired"].any() and unpaired["difference"].to_list() == against["difference"].to_list()
    with pytest.raises(InvalidArgument, match="share no cell"):
        results.compare(other)
    with pytest.raises(InvalidArgument, match="on must name"):
        results.compare(other, on=["gmae"])
    seeded = Study.parse(SMALL.replace("seed = 3", "seed = 4")).run(tmp_path)
    assert not results.compare(seeded)["paired"].any()
    with pytest.raises(InvalidArgument, match="no pairs"):
        results.compare(seeded, paired=True)


def test_figures_are_drawn(small, tmp_path):
    results, _ = small
    for x in ("delay", "round"):
        results.plot(tmp_path / f"{x}.png", x=x)
        assert (tmp_path / f"{x}.png").stat().st_size > 5000
    assert [axes.get_title() for axes in results.plot().axes] == [
        f"{rounds} rounds, {law}" for rounds in ("500", "1,000") for law in ("constant", "geometric")
    ]
    with pytest.raises(InvalidArgument, match=r"'x\.xyz' must end in one of"):
        results.plot("x.xyz")


def test_a_study_says_what_is_drawn(tmp_path):
    study = Study.parse(
        SMALL.replace("[500, 1000]", "50") + '[[figure]]\nx = "peak"\nby = []\n[[figure]]\nx = "round"\n'
    )
    results = study.run(tmp_path)
    assert len(results.plot().axes) == 1 and len(results.plot(x="round").axes) == 2
    results.report(tmp_path)
    assert (tmp_path / "figures" / "figure-2.svg").exists() and "G*" in (tmp_path / "index.html").read_text()
    assert Results.load(tmp_path).study.figures == study.figures


def test_forecasters_of_a_study_are_tested_against_each_other(small):
    results, _ = small
    all_ = results.tests()
    assert all_.shape[0] == 4 and all_["paired"].all()
    pairs = {(c.rounds, labels(c)["delays"], labels(c)["forecaster"]): r.regret[:, -1] for c, r in results}
    for row in all_.to_dicts():
        one, two = (pairs[int(row["rounds"]), row["delays"], name] for name in row["forecaster"].split(" | "))
        assert row["p_value"] == pytest.approx(ttest_rel(one, two).pvalue, rel=1e-6)
        assert row["p_value"] <= row["p_holm"] <= 1 and 0 < row["p_sure"] <= 1
    against = results.tests("bold(ucb1)")
    assert (against["difference"] == -all_["difference"]).all() and against["p_value"].to_list() == pytest.approx(
        all_["p_value"].to_list()
    )
    with pytest.raises(InvalidArgument, match=r"against must be .* got 'bold\(ucb2\)'; did you mean 'bold\(ucb1\)'"):
        results.tests("bold(ucb2)")
    for same in ("bold(ucb1())", {"name": "bold", "learner": "ucb1"}):
        assert results.tests(same).equals(against), "other spellings of its name"


def test_sure_p_values_agree_with_the_sure_interval():
    a, b = np.tile([0.9, 0.8], 300), np.tile([0.1, 0.3], 300)
    one, two = (SimpleNamespace(regret=x[:, None], regret_range=(0.0, 1.0)) for x in (a, b))
    for count in (3, 10, 40, 600):
        for each, values in ((one, a), (two, b)):
            each.regret = values[:count, None]
        found = comparing._sure(one, two)
        for level in (0.5, 0.9, 0.99, 0.9999):
            low, high = sure(a[:count] - b[:count], -1.0, 1.0, level)
            assert (low > 0 or high < 0) == (found < 1 - level), (count, level)
    assert comparing.student(a, a, True) == 1.0 and comparing.student(a + 1, a, True) is None
    assert comparing.student(a[:9], b[:7], False) == pytest.approx(ttest_ind(a[:9], b[:7], equal_var=False).pvalue)


def test_tables_for_papers_and_other_programs(small, tmp_path):
    results, _ = small
    text = results.latex(tmp_path / "x.tex", columns="delays")
    assert (tmp_path / "x.tex").read_text() == text and text.count(r"\begin{tabular}{lrr}") == 2
    mean = results.pairs[0][1]
    assert "bold(ucb1) & $" in text and f"{mean.mean_regret:.1f}"[:3] in text and r"\pm" in text
    with pytest.raises(InvalidArgument, match="rows and columns must differ"):
        results.latex(rows="delays")
    assert polars.read_csv(results.csv(tmp_path / "x.csv"))["regret"].to_list() == results.frame()["regret"].to_list()
    assert list(results.pandas().columns) == results.frame().columns
    assert (results.frame()["simple_regret"] >= 0).all()


def test_progress_and_threads_of_a_run(tmp_path, capsys):
    study, told = Study.parse(SMALL.replace("[500, 1000]", "50")), []
    study.run(tmp_path, threads=1, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, study.decisions) and told[-1] == (study.decisions, study.decisions)
    study.run(tmp_path, progress=False)
    for wrong, says in ({"threads": 0}, "threads must be >= 1"), ({"progress": "yes"}, "progress must be"):
        with pytest.raises(InvalidArgument, match=says):
            study.run(tmp_path, **wrong)
    with pytest.raises(InvalidArgument, match="threads=2 is for this machine"):
        study.run(tmp_path, Local(1), threads=2)


def test_results_and_studies_have_a_form_in_notebooks(small):
    results, _ = small
    for shown, part in ((results, "direct(ucb1)"), (results.study, "geometric(20)")):
        assert part in shown._repr_html_() and "A small one" in shown._repr_html_()
    assert results._repr_html_().count("<tr>") == 1 + 8
    wrong = replace(results.study, title="<script>")
    assert "<script>" not in wrong._repr_html_()


def test_the_report_is_one_page_that_needs_nothing_else(small, tmp_path):
    results, _ = small
    page = results.report(tmp_path)
    text = page.read_text()
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text
    assert "<script" not in text and "<link" not in text and text.count("data:image/svg+xml;base64,") == 4
    assert {p.suffix for p in (tmp_path / "figures").iterdir()} == {".svg", ".pdf"}
    assert polars.read_parquet(tmp_path / "data" / "cells.parquet").shape[0] == 8
    first = page.read_bytes(), (tmp_path / "figures" / "regret-by-delay-1.pdf").read_bytes()
    results.report(tmp_path)
    assert first == (page.read_bytes(), (tmp_path / "figures" / "regret-by-delay-1.pdf").read_bytes())


def test_text_from_a_study_cannot_become_markup(tmp_path):
    study = Study.parse(SMALL.replace("A small one", "<script>alert(1)</script>").replace("[500, 1000]", "50"))
    text = study.run(tmp_path).report(tmp_path).read_text()
    assert "<script" not in text and "&lt;script&gt;" in text


def test_descriptions_are_plain_data():
    json.dumps(cell().describe())
