"""A forecaster of one's own (examples/own_forecaster.py), entered in the catalog, wherever ours work."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import belated as bl
from belated import notation
from belated.errors import InvalidArgument, Unsupported
from belated.ledger.database import open_store
from belated.ledger.errors import Refused
from belated.ledger.experiment import make
from belated.ledger.export import export
from belated.ledger.items import Create, Decide, Feedback
from belated.ledger.ledger import Ledger
from belated.ledger.verify import verify
from belated.studies.study import Study
from belated.studies.variants import RandomBOLD, TicketQPMD

ROOT = Path(bl.__file__).parents[1]
EXAMPLES = ROOT / "examples"
GAME, LAW = bl.games.Bernoulli([0.2, 0.5, 0.9]), bl.delays.Geometric(mean=12)
SHARED = 6  # identities that all certificates have


@pytest.fixture(scope="module", autouse=True)
def own() -> Iterator[Any]:
    """The example as a module that can be imported; the catalog is as before afterwards."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import own_forecaster  # type: ignore[import-not-found]

        bl.catalog.add(own_forecaster.Batches)
        yield own_forecaster.Batches
    finally:
        sys.path.remove(str(EXAMPLES))
        for name in ("batches", "silent"):
            bl.catalog.FORECASTERS.pop(name, None)
        sys.modules.pop("own_forecaster", None)


class Silent(bl.Forecaster):
    """States nothing of itself, and has no kernels."""

    pause: int = 1

    def choose(self, room: Any, context: Any) -> Any:
        return room.seat(), *room.seat().ask(context)

    def deliver(self, room: Any, letter: Any, feedback: Any) -> None:
        if letter.number % (self.pause + 1) == 0:
            room.seat().answer(letter, feedback)


# --- in a process ---


def lived(f: Any, seed: int = 0, steps: int = 300, rewards: Any = None) -> list[Any]:
    """Any order of predictions, feedback and cancellations."""
    rng, said = np.random.default_rng(seed), []
    waiting: list[int] = []
    for _ in range(steps):
        if not waiting or rng.random() < 0.52:
            made = f.predict()
            said.append((made.action, made.probability))
            waiting.append(made.ticket)
        elif rng.random() < 0.1:
            f.cancel(waiting.pop(int(rng.integers(len(waiting)))))
        else:
            f.update(waiting.pop(int(rng.integers(len(waiting)))), float(rng.random()))
    return said


def test_parameters_are_kept_wherever_it_goes(own: Any) -> None:
    f = own(bl.UCB1(3), size=7, seed=3)
    assert repr(f) == "Batches(UCB1(actions=3), size=7)" and f.parameters() == {"reward_range": None, "size": 7}
    lived(f)
    for made in (
        f.fresh(seed=1),
        f.over(bl.Exp3(2)),
        bl.from_bytes(f.to_bytes()),
        copy.deepcopy(f),
        pickle.loads(pickle.dumps(f)),
        bl.catalog.from_data("forecaster", json.loads(json.dumps(bl.catalog.to_data(f)))),
        notation.forecaster("batches(ucb1, size=7)", actions=3),
        notation.forecaster({"name": "batches", "learner": "ucb1", "size": 7}, actions=3),
    ):
        assert type(made) is own and made.size == 7
    assert bl.catalog.to_data(f) == {"name": "batches", "learner": {"name": "ucb1", "actions": 3}, "size": 7}
    assert notation.text("forecaster", f) == "batches(ucb1, size=7)"
    assert notation.text("forecaster", own(bl.UCB1(3))) == "batches(ucb1)"


def test_saved_bytes_continue(own: Any) -> None:
    f = own(bl.Exp3(3), size=7, seed=3)
    lived(f)
    g = bl.from_bytes(f.to_bytes())
    assert lived(f, 1) == lived(g, 1)


def test_a_bad_parameter_is_named(own: Any) -> None:
    with pytest.raises(InvalidArgument, match="size must be >= 1, got 0"):
        own(bl.UCB1(3), size=0)
    with pytest.raises(InvalidArgument, match="batches"):
        notation.forecaster("batches(ucb1, width=7)", actions=3)
    with pytest.raises(Unsupported, match="Batches cannot play NeighborhoodWatch2"):
        own(bl.NeighborhoodWatch2.example())


def test_the_catalog_keeps_its_own_and_takes_forecasters() -> None:
    assert bl.catalog.add(Silent) is Silent and bl.catalog.find("forecaster", "silent") is Silent
    with pytest.raises(InvalidArgument, match="has a forecaster called 'bold' already"):
        bl.catalog.add(type("BOLD", (bl.Direct,), {}))
    with pytest.raises(InvalidArgument, match="did you mean 'batches'"):
        bl.catalog.find("forecaster", "batch")


# --- in play ---


def test_both_forms_play_the_same(own: Any) -> None:
    given = {"rounds": 400, "replications": 2, "seed": 2, "expiry": 40, "record": True}
    one, two = (
        bl.play(own(bl.UCB1(3), size=7), GAME, LAW, engine=engine, **given) for engine in ("compiled", "python")
    )
    direct = bl.play(bl.Direct(bl.UCB1(3)), GAME, LAW, **given)
    assert (one.actions == two.actions).all() and (one.actions != direct.actions).any()


def test_it_gets_no_theorem_that_it_does_not_state(own: Any) -> None:
    for f, named in ((own(bl.UCB1(3), size=7), "Batches"), (Silent(bl.UCB1(3)), "Silent")):
        r = bl.play(f, GAME, bl.delays.Constant(5), rounds=200)
        assert r.bound is None and r.bound_reason == f"no theorem is stated for {named}"
        assert len(r.certificate) == SHARED and r.certificate.holds
    assert bl.play(bl.Direct(bl.UCB1(3)), GAME, bl.delays.Constant(5), rounds=200).bound is not None


def test_a_theorem_that_it_states_is_given() -> None:
    class Stated(bl.Direct):
        def theorem(self, case: Any) -> Any:
            return "it rains" if case.n > 150 else super().theorem(case)

    assert bl.play(Stated(bl.UCB1(3)), GAME, LAW, rounds=200).bound_reason == "it rains"
    assert bl.play(Stated(bl.UCB1(3)), GAME, LAW, rounds=100).bound is not None


def test_variants_speak_for_themselves() -> None:
    r = bl.play(TicketQPMD(bl.UCB1(3)), GAME, LAW, rounds=200)
    assert r.bound is None and "probability of another prediction" in r.bound_reason
    assert bl.play(bl.QPMD(bl.UCB1(3)), GAME, LAW, rounds=200).bound is not None
    assert bl.play(RandomBOLD(bl.Exp3(3)), GAME, LAW, rounds=200).bound is not None
    pages = (ROOT / "belated" / "studies").rglob("*.py")
    assert not [page for page in pages if '"ticketqpmd' in page.read_text(encoding="utf-8")]


# --- in a study ---

STUDY = """
title = "Batches"
rounds = [300]
replications = 3
forecasters = ["batches(ucb1, size=7)", "batches(ucb1, size=70)", "direct(ucb1)"]
games = ["bernoulli([0.2, 0.5, 0.9])"]
delays = ["geometric(mean=12)"]
"""


def test_a_study_names_it_in_text_and_its_page_shows_it(own: Any, tmp_path: Path) -> None:
    results = Study.parse(STUDY).run(tmp_path)
    rows = {row["forecaster"]: row for row in results.frame().to_dicts()}
    assert set(rows) == {"batches(ucb1, size=7)", "batches(ucb1, size=70)", "direct(ucb1)"}
    for size in (7, 70):
        row = rows[f"batches(ucb1, size={size})"]
        played = bl.play(own(bl.UCB1(3), size=size), GAME, LAW, rounds=300, replications=3)
        assert row["regret"] == pytest.approx(played.mean_regret)
        assert row["bound"] is None and row["bound_reason"] == "no theorem is stated for Batches"
    assert rows["direct(ucb1)"]["bound"] is not None
    page = results.report(tmp_path / "report").read_text(encoding="utf-8")
    assert "batches(ucb1, size=7)" in page and "batches(ucb1, size=70)" in page
    again = Study.load(tmp_path).run(tmp_path)  # from what is stored
    assert again.frame().to_dicts() == results.frame().to_dicts()


# --- in the service ---

#: The command line of somebody who has a forecaster of their own.
BELATED = "import sys, own_forecaster; from belated.cli import app; app(sys.argv[1:])"


def command(*words: str) -> dict[str, Any]:
    """How to run it, for subprocess."""
    path = os.pathsep.join([str(EXAMPLES), str(ROOT)])
    return {"args": [sys.executable, "-c", BELATED, *words], "env": {**os.environ, "PYTHONPATH": path}, "text": True}


class Served:
    """An experiment over HTTP, in the shape of a forecaster."""

    def __init__(self, url: str, forecaster: Any, seed: int) -> None:
        self.http = httpx.Client(base_url=f"{url}/v1", timeout=30)
        body = {"name": "own", "actions": ["a", "b", "c"], "forecaster": forecaster, "seed": seed}
        made = self.http.post("/experiments", json=body)
        assert made.status_code == 201, made.text
        self.made = made.json()

    def predict(self) -> Any:
        said = self.http.post("/experiments/own/decisions", json={})
        assert said.status_code == 201, said.text
        said = said.json()
        return bl.Decision(said["ticket"], said["action"], said["probability"])

    def update(self, ticket: str, value: float) -> None:
        assert self.http.post("/experiments/own/feedback", json={"ticket": ticket, "value": value}).status_code == 200

    def cancel(self, ticket: str) -> None:
        assert self.http.post("/experiments/own/cancellations", json={"ticket": ticket}).status_code == 200


@pytest.mark.parametrize("text", ["batches(ucb1, size=7)", "batches(exp3, size=3)"])
def test_the_service_serves_it_as_what_it_is(own: Any, text: str, tmp_path: Path) -> None:
    file = str(tmp_path / "own.db")
    process = subprocess.Popen(
        **command("serve", "--database", file, "--port", "0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        served = Served(url, text, 5)
        f = notation.forecaster(text, actions=3).fresh(seed=5)
        assert served.made["forecaster"] == bl.catalog.to_data(f)
        said = lived(served, 4, 200)
        assert said == lived(f, 4, 200) and said != lived(bl.Direct(f.learner, seed=5), 4, 200)
        told = served.http.get("/experiments/own/statistics").json()
        assert told["plays"] == f"Batches(size={f.size}) over {type(f.learner).__name__}" and told["instances"] == 1
        assert told["queues"] is not None and "no theorem is stated for Batches" in told["price"]["text"]
        served.http.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    checked = subprocess.run(**command("verify", "--database", file), capture_output=True, timeout=120)
    assert checked.returncode == 0 and "identical" in checked.stdout, checked.stdout + checked.stderr


def stored(file: Path, forecaster: Any, rounds: int = 0) -> Any:
    """An experiment in a file, with so many decisions that were answered one later."""
    store = open_store(str(file), serve=True)
    ledger = Ledger(store)
    new = make("own", ["a", "b", "c"], forecaster, seed=5)
    (made,) = ledger.serve([Create(new, ledger.prepare(new))])
    rng, last = np.random.default_rng(1), None
    for _ in range(rounds):
        ((decided,),) = ledger.serve([Decide(made, [None])])
        if last is not None:
            value = float(rng.random() < (0.2, 0.5, 0.9)[last.action])
            ledger.serve([Feedback(made, [(bytes.fromhex(last.ticket), value)])])
        last = decided
    return store


def test_a_stored_experiment_keeps_its_parameters(own: Any, tmp_path: Path) -> None:
    stored(tmp_path / "own.db", "batches(ucb1, size=7)", 20).close()
    store = open_store(str(tmp_path / "own.db"), serve=True)
    try:
        found = Ledger(store).find("own")
        assert type(found.forecaster) is own and found.forecaster.size == 7
        assert [report.verdict for report in verify(store)] == ["identical"]
    finally:
        store.close()


def test_a_forecaster_that_is_not_known_is_not_served_as_another(own: Any, tmp_path: Path) -> None:
    stored(tmp_path / "own.db", "batches(ucb1, size=7)", 5).close()
    bl.catalog.FORECASTERS.pop("batches")
    try:
        store = open_store(str(tmp_path / "own.db"), serve=True)
        try:
            with pytest.raises(Refused, match="no forecaster is called 'batches'"):
                Ledger(store).find("own")
        finally:
            store.close()
    finally:
        bl.catalog.add(own)


# --- in replay ---


def test_its_log_is_replayed_and_it_is_replayed(own: Any, tmp_path: Path) -> None:
    store = stored(tmp_path / "own.db", "batches(epsilongreedy(epsilon=0.9), size=7)", 500)
    try:
        file = tmp_path / "own.parquet"
        assert export(store, "own", file) == 500
    finally:
        store.close()
    report = bl.replay(file, ["batches(ucb1, size=7)", own(bl.UCB1(3), size=40), "direct(ucb1)"], runs=2)
    few, many, direct = report.answers
    assert few.forecaster == "batches(ucb1, size=7)" and many.forecaster == "batches(ucb1, size=40)"
    assert few.value != many.value and few.value != direct.value
    assert "batches(ucb1, size=40)" in report.report(tmp_path / "report").read_text(encoding="utf-8")


def test_who_states_no_propensity_leaves_no_log_to_divide_by(tmp_path: Path) -> None:
    bl.catalog.add(Silent)
    store = stored(tmp_path / "own.db", "silent(epsilongreedy(epsilon=0.9), pause=2)", 300)
    try:
        file = tmp_path / "own.parquet"
        export(store, "own", file)
        assert [report.verdict for report in verify(store)] == ["identical"]
    finally:
        store.close()
    with pytest.raises(Unsupported, match="propensit"):
        bl.replay(file, "direct(ucb1)", runs=2)
