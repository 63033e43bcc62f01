"""Experiments that state their features, in a real service: decisions on objects, restart, verify, export, replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

import belated as bl  # noqa: E402
from belated.cli import app  # noqa: E402
from belated.errors import InvalidArgument, InvalidState, ServiceError  # noqa: E402
from belated.ledger import contexts  # noqa: E402
from belated.ledger.database import open_store  # noqa: E402
from belated.ledger.experiment import Experiment, make  # noqa: E402
from belated.ledger.export import export  # noqa: E402
from belated.ledger.verify import verify  # noqa: E402
from belated.replay import read_log  # noqa: E402
from tests.serving import Server  # noqa: E402

STATED: list[dict[str, Any]] = [
    {"name": "intercept", "kind": "intercept"},
    {"name": "age", "kind": "number", "low": 0.0, "high": 100.0},
    {"name": "user.plan", "kind": "category", "values": ["free", "pro"], "unknown": "slot"},
    {"name": "user.page", "kind": "hashed", "slots": 3, "missing": "slot"},
    {"name": "trace", "kind": "ignored"},
]
FEATURES = bl.Features(STATED)
FEW: list[dict[str, Any]] = [
    {"name": "plan", "kind": "category", "values": ["free", "pro"], "missing": "slot"},
    {"name": "new", "kind": "boolean"},
]


def context(number: int) -> dict[str, Any]:
    user: dict[str, Any] = {"plan": ("free", "pro", "trial")[number % 3]}
    if number % 2:
        user["page"] = f"/{number}"
    return {"user": user, "age": number % 120, "trace": {"id": number}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(str(tmp_path_factory.mktemp("features") / "a.db"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[bl.Client]:
    with bl.Client(server.url, retries=1) as made:
        yield made


def exported(server: Server, name: str, file: Any) -> pl.DataFrame:
    store = open_store(server.database)
    try:
        export(store, name, file)
    finally:
        store.close()
    return pl.read_parquet(file)


def test_the_learner_sees_what_it_would_see_in_a_process_also_after_a_restart(tmp_path: Any) -> None:
    """The same actions as a forecaster that is given the vectors; and every state comes out of its events."""
    server = Server(str(tmp_path / "a.db"))
    server.start()
    f = bl.Direct(bl.LinUCB(actions=3, features=FEATURES.size), seed=7)
    tickets = []
    try:
        with bl.Client(server.url) as client:
            made = client.create("ads", ["a", "b", "c"], "direct(linucb)", seed=7, features=FEATURES)
            assert made.data["features"] == STATED and made.data["context_size"] == FEATURES.size == 9
            assert made.forecaster["learner"]["features"] == 9
        for part in range(2):
            with bl.Client(server.url) as client:
                for number in range(25 * part, 25 * part + 25):
                    decided = client.decide("ads", context(number))
                    vector = FEATURES.vector(context(number))
                    here = f.predict(vector)
                    assert decided.action == here.action
                    tickets.append((decided.ticket, here.ticket))
                    if number % 4:  # some stay open over the restart
                        old = tickets.pop(0)
                        client.feedback("ads", old[0], number % 3 / 2)
                        f.update(old[1], number % 3 / 2)
                    record = client.decision("ads", decided.ticket)
                    assert record.context == vector.tolist()
            server.stop()
            if not part:
                server.start()
        store = open_store(server.database)
        try:
            assert [report.verdict for report in verify(store)] == ["identical"]
            with store.read() as session:
                (row,) = session.experiments()
                kept = session.decisions_after(row.id, 0, 100)
        finally:
            store.close()
        for number, each in enumerate(kept):
            assert each.context == FEATURES.vector(context(number)).tobytes()
        assert b"trial" not in (tmp_path / "a.db").read_bytes()  # objects are not stored
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()


def test_the_export_names_the_numbers(server: Server, client: bl.Client, tmp_path: Any) -> None:
    client.create("named", ["a", "b"], "direct(linucb)", features=STATED)
    client.decide("named", contexts=[context(number) for number in range(30)])
    frame = exported(server, "named", tmp_path / "named.parquet").sort("round")
    vectors = np.array(frame["context"].to_list())
    assert vectors.tobytes() == np.array([FEATURES.vector(context(number)) for number in range(30)]).tobytes()
    names = ["intercept", "age", "user.plan=free", "user.plan=pro", "user.plan:unknown", "user.page"]
    assert frame.columns[-6:] == [f"context.{name}" for name in names]
    for at, name in enumerate(names[:5]):
        assert frame[f"context.{name}"].to_list() == vectors[:, at].tolist()
    assert frame["context.user.page"].to_list() == vectors[:, 5:].tolist()
    said = pl.read_parquet_metadata(tmp_path / "named.parquet")["belated.features"]
    assert bl.Features(json.loads(said)) == FEATURES


def test_a_learner_of_a_few_contexts_gets_the_number_and_the_export_the_words(
    server: Server, client: bl.Client, tmp_path: Any
) -> None:
    made = client.create("few", ["a", "b"], "bold(percontext(exp3))", features=FEW)
    assert made.forecaster["learner"]["contexts"] == 6 and made.data["context_size"] == 1
    given = [{"plan": "pro", "new": True}, {"new": False}, {"plan": "free", "new": True}]
    for each in given:
        client.feedback("few", client.decide("few", each).ticket, 1.0)
    frame = exported(server, "few", tmp_path / "few.parquet").sort("round")
    assert frame["context"].to_list() == [[3.0], [4.0], [1.0]]
    assert frame["context.plan"].to_list() == ["pro", None, "free"]
    assert frame["context.new"].to_list() == ["true", "false", "true"]


@pytest.mark.parametrize("forecaster", ["direct(linucb)", "bold(percontext(exp3))"])
def test_an_experiment_without_decisions_is_exported(
    server: Server, client: bl.Client, tmp_path: Any, forecaster: str
) -> None:
    name = forecaster.partition("(")[0] + "-empty"
    client.create(name, ["a", "b"], forecaster, features=FEW)
    frame = exported(server, name, tmp_path / "empty.parquet")
    assert len(frame) == 0 and len([each for each in frame.columns if each.startswith("context.")]) >= 2


def test_an_experiment_without_features_is_as_before(server: Server, client: bl.Client, tmp_path: Any) -> None:
    made = client.create("plain", ["a", "b"], "direct(linucb(features=2))")
    assert made.data["features"] is None
    client.decide("plain", [0.5, 1])
    with pytest.raises(ServiceError, match="plain states no features: a context is numbers, got"):
        client.decide("plain", {"age": 3})
    assert not [name for name in exported(server, "plain", tmp_path / "p.parquet").columns if "." in name]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1.0] * 9, "the context must be an object with the features as keys, got [1.0"),
        (3.0, "the context must be an object with the features as keys, got 3.0"),
        (None, "the context must be an object with the features as keys, got None"),
        ({"age": "x", "user": {"plan": "pro"}}, "age must be a finite number, got 'x'"),
        ({"age": True, "user": {"plan": "pro"}}, "age must be a finite number, got True"),
        ({"age": 3, "user": {"plan": "pro"}, "Age": 3}, "the context has the key 'Age', which is no feature"),
        ({"age": 3}, "user.plan is missing, and has no default"),
        ({"age": 3, "user": {"plan": "pro", "page": "y" * 20_000}}, "user.page may have 10000 characters, got 20000"),
    ],
)
def test_contexts_that_do_not_fit_are_refused(client: bl.Client, given: Any, said: str) -> None:
    if not any(each.name == "strict" for each in client.experiments()):
        client.create("strict", ["a", "b"], "direct(linucb)", features=STATED)
    for asked in ({"context": given}, {"contexts": [context(1), given]}):
        if given is None and "contexts" in asked:
            continue
        with pytest.raises(ServiceError) as error:
            client.decide("strict", **asked)
        which = "contexts[1]: " if "contexts" in asked else ""
        assert error.value.status == 422 and str(error.value).startswith(which + said)
    assert client.statistics("strict").decisions == 0


def test_numbers_that_json_cannot_have_are_refused_by_name(server: Server, client: bl.Client) -> None:
    client.create("odd", ["a", "b"], "direct(linucb)", features=[{"name": "x", "kind": "number"}])
    url = f"{server.url}/v1/experiments/odd/decisions"
    for text in ("NaN", "Infinity", "1e999", "9" * 2000):
        answer = httpx.post(url, content=f'{{"context": {{"x": {text}}}}}')
        assert answer.status_code == 422 and answer.json()["error"]["message"].startswith("x must be a finite number")
    answer = httpx.post(url, content='{"context": {"x": 1e12}}')
    assert "x is 1000000000000.0, beyond 1e+10, which the learner takes: scale it" in answer.text
    answer = httpx.post(url, content='{"context": {"x": "\\ud800"}}')
    assert answer.status_code == 400
    answer = httpx.post(url, content='{"context": ' + '{"x": ' * 3000 + "1" + "}" * 3000 + "}")
    assert answer.status_code == 400


def test_a_key_knows_its_context_in_any_order_of_keys(client: bl.Client) -> None:
    client.create("keys", ["a", "b"], "direct(linucb)", features=STATED)
    one, two = {"age": 3, "user": {"plan": "pro"}}, {"user": {"plan": "pro"}, "age": 3}
    assert client.decide("keys", one, key="k") == client.decide("keys", two, key="k")
    with pytest.raises(ServiceError, match="another body") as error:
        client.decide("keys", one | {"age": 4}, key="k")
    assert error.value.kind == "key_reused"


def test_features_cannot_be_changed(client: bl.Client) -> None:
    client.create("fixed", ["a", "b"], "direct(linucb)", features=STATED)
    with pytest.raises(ServiceError, match="'features' cannot be changed: what the learner has learned is about"):
        client.change("fixed", features=STATED)
    assert client.change("fixed", expiry_seconds=60).data["features"] == STATED
    with pytest.raises(InvalidArgument, match="'features' cannot be changed"):
        make("x", ["a"], "direct(linucb)", features=STATED).changed_to({"features": None})


def test_it_grows_and_is_archived_with_its_features(client: bl.Client) -> None:
    client.create("grows", ["a", "b"], "direct(linucb)", features=STATED)
    assert client.add_action("grows", "c").data["features"] == STATED
    assert client.replace("grows", "a", "d").data["features"] == STATED
    assert client.decide("grows", context(1)).round == 1


@pytest.mark.parametrize(
    ("forecaster", "stated", "said"),
    [
        ("direct(linucb(features=3))", STATED, "the features make contexts of 9 numbers, and LinUCB("),
        ("direct(otflinucb(window=5))", STATED, "the features make contexts of 9 numbers, and OTFLinUCB("),
        ("direct(ucb1)", STATED, "UCB1(actions=2) takes no context: leave features out"),
        ("bold(percontext(exp3))", STATED, "PerContext tells a few contexts apart: age must be a category"),
        ("bold(percontext(exp3, contexts=5))", FEW, "the features have 6 combinations, and PerContext("),
        ("bold(percontext(exp3))", [{"name": c, "kind": "hashed", "slots": 200} for c in "ab"], "the features have"),
        ("direct(linucb)", [{"name": "x", "kind": "hashed", "slots": 10_001}], "the features make contexts of 10001"),
        ("direct(linucb)", [{"name": "x", "kind": "hashed", "slots": 10_000}], "LinUCB(actions=2, features=10000, "),
        ("direct(linucb)", [], "features must have at least 1 item"),
        ("direct(linucb)", [{"kind": "number"}], "features[0], a number, needs name"),
    ],
)  # fmt: skip
def test_features_that_do_not_fit_the_learner_are_refused(forecaster: str, stated: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        make("x", ["a", "b"], forecaster, features=stated)
    assert str(error.value).startswith(said) and len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("forecaster", "stated", "size"),
    [
        ("direct(otflinucb(window=5))", [{"name": c, "kind": "number"} for c in "pq"], None),
        ("direct(otflinucb(window=5, features=2))", [{"name": c, "kind": "number"} for c in "pqrs"], 4),
        ("bold(linearthompson)", STATED, 9),
        ("direct(policyelimination([[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0]], [0.1, 0.1, 0.2, 0.2, 0.2, 0.2]))", FEW, 1),
    ],
)
def test_what_learners_take_from_the_features(forecaster: str, stated: Any, size: int | None) -> None:
    if size is None:  # its contexts are those of all actions: the number must be said
        with pytest.raises(InvalidArgument, match="OTFLinUCB"):
            make("x", ["a", "b"], forecaster, features=stated)
        return
    assert make("x", ["a", "b"], forecaster, features=stated).learner.context_size == size


def test_the_row_has_the_features_and_an_earlier_version_would_refuse_it() -> None:
    made = make("x", ["a", "b"], "direct(linucb)", features=STATED)
    row = made.row()
    again = Experiment.from_row(row)
    assert again.features == made.features == FEATURES and again.row() == row
    strange = row._replace(spec=row.spec.replace('"features": [', '"festures": ['))
    with pytest.raises(InvalidState, match="festures"):
        Experiment.from_row(strange)
    assert "features" not in json.loads(make("x", ["a"], "direct(ucb1)").row().spec)  # rows of others stay as they were


def test_replay_and_audit_read_the_export(server: Server, client: bl.Client, tmp_path: Any) -> None:
    """By the vector, or by some of its numbers."""
    client.create("shop", ["a", "b"], "bold(percontext(exp3))", seed=3, features=FEW)
    draws = np.random.default_rng(0)
    open_: list[str] = []
    for _ in range(40):
        given = [{"plan": "pro" if draws.random() < 0.5 else None, "new": bool(draws.integers(2))} for _ in range(20)]
        open_ += [each.ticket for each in client.decide("shop", contexts=given)]
        client.feedback("shop", [(ticket, float(draws.integers(2))) for ticket in open_[:20]])
        del open_[:20]
    frame = exported(server, "shop", tmp_path / "shop.parquet")
    assert {"context", "context.plan", "context.new"} <= set(frame.columns)
    plainly = frame.drop("context.plan", "context.new")
    for forecaster in ("direct(percontext(ucb1))", "direct(ucb1)"):
        named, plain = (bl.replay(each, forecaster, runs=2, seed=1) for each in (frame, plainly))
        assert str(named) == str(plain)
    assert str(bl.audit(frame)) == str(bl.audit(plainly))
    chosen = bl.replay(frame, "direct(percontext(ucb1))", context="context.new", runs=2, seed=1)
    assert "percontext" in str(chosen).lower()


def test_experiments_are_created_from_the_command_line(server: Server, client: bl.Client, tmp_path: Any) -> None:
    file = tmp_path / "features.json"
    file.write_text(json.dumps(STATED))
    ask = ["experiment", "create", "typed", "direct(linucb)", "--action", "a", "--action", "b", "--url", server.url]
    said = CliRunner().invoke(app, [*ask, "--features", str(file)])
    assert said.exit_code == 0 and json.loads(said.output)["features"] == STATED, said.output
    assert client.decide("typed", context(3)).name in "ab"
    more = ["--seed", "7", "--outstanding", "5", "--retention-seconds", "60", "--expiry-seconds", "9"]
    said = CliRunner().invoke(app, [*ask[:2], "more", *ask[3:], "--features", str(file), *more])
    made = json.loads(said.output)
    assert (made["seed"], made["limits"], made["retention_seconds"]) == (7, {"outstanding": 5}, 60.0), said.output
    said = CliRunner().invoke(app, [*ask, "--features", str(tmp_path / "none.json")])
    assert said.exit_code == 1 and "none.json', which cannot be read: No such file" in said.output.replace("\n", "")
    file.write_text("{")
    said = CliRunner().invoke(app, [*ask, "--features", str(file)])
    assert said.exit_code == 1 and "cannot be read: no JSON" in said.output


@pytest.mark.parametrize(("stored", "told"), [(b"1" * 16, 16), (None, 0)])
def test_a_damaged_context_is_said(stored: bytes | None, told: int) -> None:
    made = make("x", ["a", "b"], "direct(linucb)", features=STATED)
    with pytest.raises(ValueError, match=f"a context has {told} bytes, not 72"):
        contexts.values(FEATURES, made.learner, [FEATURES.vector(context(1)).tobytes(), stored])


def test_a_log_is_read_by_features(tmp_path: Any) -> None:
    """Flat columns with dots in their names, or objects in a column; the same numbers as in a process."""
    draws = np.random.default_rng(1)
    rows = [
        {"age": int(draws.integers(120)), "user": {"plan": ["free", "pro", "x"][number % 3], "page": None}}
        for number in range(300)
    ]
    rewards = draws.integers(2, size=300) * 1.0
    log = {"action": draws.integers(2, size=300), "probability": [0.5] * 300, "value": rewards}
    nested = pl.DataFrame({**log, "age": [row["age"] for row in rows], "user": [row["user"] for row in rows]})
    flat = nested.unnest("user").rename({"plan": "user.plan", "page": "user.page"})
    known = np.array([FEATURES.vector(row) for row in rows])
    for frame in (nested, flat):
        read = read_log(frame, context=FEATURES)
        assert read.context.tobytes() == known.tobytes()
    flat.write_csv(tmp_path / "log.csv")
    assert read_log(tmp_path / "log.csv", context=FEATURES).context.tobytes() == known.tobytes()
    few = bl.Features([{"name": "user.plan", "kind": "category", "values": ["free", "pro"], "unknown": "slot"}])
    numbers = read_log(flat, context=few).context_for(1)
    assert numbers is not None and numbers.tolist() == [[0.0], [1.0], [2.0]] * 100
    assert "percontext" in str(bl.replay(flat, "direct(percontext(ucb1))", context=few, runs=2))
    with pytest.raises(InvalidArgument, match=r"no column 'user\.plan' for the feature"):
        bl.replay(flat.drop("user.plan"), "direct(percontext(ucb1))", context=few)
    with pytest.raises(InvalidArgument, match="age must be a finite number, got '3'"):
        bl.replay(flat.with_columns(age=pl.lit("3")), "direct(linucb)", context=FEATURES)
