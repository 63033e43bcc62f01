"""The service as programs meet it: a real server in a process of its own, over HTTP."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from typer.testing import CliRunner

import belated as bl
from belated.cli import app
from belated.errors import InvalidArgument, InvalidState
from belated.ledger.experiment import make
from belated.ledger.ledger import Ledger
from belated.ledger.sqlite import SQLite
from belated.service import batch, cli, openapi
from belated.service.app import Service
from belated.service.auth import Guard
from belated.service.desk import Desk
from belated.service.endpoint import STATUS
from belated.service.server import listen
from belated.service.workers import supervise

ADS = {
    "name": "ads",
    "actions": ["a", "b", "c"],
    "forecaster": {"name": "bold", "learner": {"name": "exp3"}},
    "reward_range": [0, 1],
    "expiry_seconds": 3600,
    "on_expiry": "drop",
}


def python():
    """The interpreter; where coverage is measured, the server's is too."""
    if "coverage" in sys.modules and sys.modules["coverage"].Coverage.current() is not None:
        return [sys.executable, "-m", "coverage", "run", "--parallel-mode"]
    return [sys.executable]


def _script(before):
    """A file with the command, after something else: coverage runs files and modules only."""
    handle, name = tempfile.mkstemp(suffix=".py")
    with os.fdopen(handle, "w") as file:
        file.write(f'{before}\nfrom belated.cli import app\n\nif __name__ == "__main__":\n    app()\n')
    return name


class Server:
    """A running server and a client for it."""

    def __init__(self, file, *options, environment=None, before=""):
        """`before` is Python to be run before the command."""
        program = [_script(before)] if before else ["-m", "belated.cli"]
        command = [*python(), *program, "serve", "--database", str(file), "--port", "0", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        self.file = file
        self.line = self.process.stdout.readline()
        if self.line:
            self.http = httpx.Client(base_url=self.line.split()[-1], timeout=20)

    def create(self, name, **more):
        answer = self.http.post("/v1/experiments", json=ADS | {"name": name} | more)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def decide(self, name, body=None, **more):
        answer = self.http.post(f"/v1/experiments/{name}/decisions", json=body or {}, **more)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def feed(self, name, ticket, value=1.0):
        return self.http.post(f"/v1/experiments/{name}/feedback", json={"ticket": ticket, "value": value})

    def statistics(self, name):
        return self.http.get(f"/v1/experiments/{name}/statistics").json()

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        said = self.process.communicate(timeout=20)
        if self.line:
            self.http.close()
        return said


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("service") / "service.db")
    yield made
    made.end()
    assert made.process.returncode == 0


def said(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


# --- what is fixed ---


def test_the_bodies_that_are_fixed(server):
    made = server.http.post("/v1/experiments", json=ADS)
    assert made.status_code == 201 and made.json()["name"] == "ads"
    first = server.http.post("/v1/experiments/ads/decisions", json={})
    assert first.status_code == 201
    decided = first.json()
    assert len(bytes.fromhex(decided["ticket"])) == 16 and decided["round"] == 1
    assert decided["name"] == "abc"[decided["action"]] and decided["probability"] == pytest.approx(1 / 3)
    several = server.decide("ads", {"count": 3})["decisions"]
    assert [each["round"] for each in several] == [2, 3, 4]
    fed = server.feed("ads", decided["ticket"])
    assert (fed.status_code, fed.json()) == (200, {"ticket": decided["ticket"], "status": "applied"})
    listed = [{"ticket": each["ticket"], "value": 0.5} for each in several[:2]]
    answer = server.http.post("/v1/experiments/ads/feedback", json=listed)
    assert answer.json() == {"results": [{"ticket": each["ticket"], "status": "applied"} for each in listed]}
    now = server.http.get(f"/v1/experiments/ads/decisions/{decided['ticket']}").json()
    assert (now["state"], now["value"], now["action"]) == ("closed", 1.0, decided["action"])
    body = {"ticket": several[2]["ticket"]}
    gone = server.http.post("/v1/experiments/ads/cancellations", json=body)
    assert gone.json() == {**body, "status": "cancelled"}
    told = server.statistics("ads")
    expected = {"decisions": 4, "feedback": 3, "outstanding": 0, "peak": 3, "instances": 4, "late": 0, "expired": 0}
    assert expected.items() <= told.items() and sum(told["pulls"]) == 4
    assert {"conflicts", "duplicates", "cancelled", "unknown"} <= told.keys()
    assert [each["name"] for each in server.http.get("/v1/experiments").json()["experiments"]].count("ads") == 1
    assert server.http.get("/v1/experiments/ads").json()["forecaster"]["learner"] == {"name": "exp3", "actions": 3}


def test_what_feedback_answers(server):
    server.create("meaning")
    server.create("foreign")
    ticket = server.decide("meaning")["ticket"]
    cases = [
        (ticket, 0.5, 200, "applied"),
        (ticket, 0.5, 200, "duplicate"),
        (ticket, 0.25, 409, "conflict"),
        ("0" * 32, 1.0, 404, "unknown_ticket"),
        ("short", 1.0, 404, "unknown_ticket"),
        (17, 1.0, 404, "unknown_ticket"),
        (server.decide("foreign")["ticket"], 1.0, 404, "unknown_ticket"),
        (ticket, 1.5, 422, "invalid"),
        (ticket, True, 422, "invalid"),
        (ticket, "1.0", 422, "invalid"),
        (ticket, None, 422, "invalid"),
        (ticket, [1.0], 422, "invalid"),
        (ticket, {}, 422, "invalid"),
    ]
    for given, value, status, kind in cases:
        answer = server.feed("meaning", given, value)
        body = answer.json()
        assert (answer.status_code, body.get("status") or body["error"]["kind"]) == (status, kind), (given, value)
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        answer = server.http.post(
            "/v1/experiments/meaning/feedback", content=f'{{"ticket": "{ticket}", "value": {number}}}'
        )
        assert answer.status_code == 422
    told = server.statistics("meaning")
    assert (told["feedback"], told["duplicates"], told["conflicts"], told["unknown"]) == (1, 1, 1, 4)


def test_a_list_answers_for_each(server):
    server.create("lists")
    one, two = (each["ticket"] for each in server.decide("lists", {"count": 2})["decisions"])
    content = (
        f'[{{"ticket": "{one}", "value": 1}}, 5, {{"ticket": "{one}"}}, {{"ticket": "{two}", "value": NaN}}, '
        f'{{"ticket": "{one}", "value": 0}}, {{"ticket": "x", "value": 1}}, {{"ticket": "{two}", "value": 0.5}}]'
    )
    answer = server.http.post("/v1/experiments/lists/feedback", content=content)
    results = answer.json()["results"]
    kinds = [each["error"]["kind"] if each["status"] == "error" else each["status"] for each in results]
    assert answer.status_code == 200
    assert kinds == ["applied", "invalid", "invalid", "invalid", "conflict", "unknown_ticket", "applied"]
    assert [each["ticket"] for each in results] == [one, None, one, two, one, "x", two]
    assert server.http.post("/v1/experiments/lists/feedback", json=[]).json() == {"results": []}
    wrong = [{"ticket": one}, 7, two, {"ticket": two, "reason": "x"}, {"ticket": "x"}]
    answer = server.http.post("/v1/experiments/lists/cancellations", json=wrong)
    kinds = [each["error"]["kind"] for each in answer.json()["results"]]
    assert kinds == ["closed", "invalid", "invalid", "invalid", "unknown_ticket"]


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/decisions", b"{", 400),
        ("POST", "/decisions", b"[" * 100_000, 400),
        ("POST", "/decisions", b'{"context": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        ("POST", "/decisions", b"\xff\xfe", 400),
        ("POST", "/decisions", b'{"count": 0}', 422),
        ("POST", "/decisions", b'{"count": 10001}', 422),
        ("POST", "/decisions", b'{"count": true}', 422),
        ("POST", "/decisions", b'{"context": [1.0]}', 422),
        ("POST", "/decisions", b'{"counts": 3}', 422),
        ("POST", "/decisions", b'{"count": 1, "contexts": [[1]]}', 422),
        ("POST", "/decisions", b'{"allowed": ["nothing"]}', 422),
        ("POST", "/decisions", b'{"allowed": []}', 422),
        ("POST", "/decisions", b'"text"', 422),
        ("POST", "/feedback", b"", 400),
        ("POST", "/feedback", b'{"ticket": "\\ud800", "value": NaN}', 422),
        ("POST", "/feedback", b"3", 422),
        ("POST", "/feedback", b" " * 1_000_001, 413),
        ("POST", "/cancellations", b"{}", 422),
        ("POST", "/replacements", b'{"action": "a", "new": "d"}', 422),
        ("POST", "/actions", b'{"name": "d"}', 422),
        ("POST", "/actions", b'{"name": "a"}', 409),
        ("POST", "/actions", b'{"name": 1}', 422),
        ("GET", "/decisions/zz", b"", 404),
        ("GET", "/nothing", b"", 404),
        ("DELETE", "/decisions", b"", 405),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(server, method, path, content, status):
    if server.http.get("/v1/experiments/wrong").status_code == 404:
        server.create("wrong")
    answer = server.http.request(method, f"/v1/experiments/wrong{path}", content=content)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert STATUS[error["kind"]] == status and error["message"]
    assert server.statistics("wrong")["decisions"] == 0


def test_another_method_is_told_which_there_are(server):
    answer = server.http.put("/v1/experiments/ads")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH"
    said = "/v1/experiments/ads takes DELETE, GET, HEAD, PATCH, not PUT: see /docs"
    assert answer.json()["error"] == {"kind": "method_not_allowed", "message": said}
    assert server.http.get("/no/such/path").status_code == 404
    assert server.http.get("/health", headers={"host": "evil.example"}).status_code == 403
    counted = [line for line in server.http.get("/metrics").text.splitlines() if 'route="none"' in line]
    assert sorted(line.partition("status=")[2][1:4] for line in counted if "requests_total" in line) == [
        "403",
        "404",
        "405",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a/b"},
        {"name": ""},
        {"actions": []},
        {"actions": ["a", "a"]},
        {"actions": [1]},
        {"forecaster": {"name": "bald"}},
        {"forecaster": {"name": "bold"}},
        {"forecaster": {"name": "bold", "learner": {"name": "exp3", "speed": 1}}},
        {"forecaster": {"name": "qpmd", "learner": {"name": "linucb", "features": 3}}},
        {"reward_range": [0, 0]},
        {"reward_range": [0]},
        {"expiry_seconds": -1},
        {"on_expiry": 7},
        {"seed": 2**64},
        {"surprise": 1},
    ],
)
def test_an_experiment_that_makes_no_sense_is_refused(server, wrong):
    answer = server.http.post("/v1/experiments", json=ADS | {"name": "nonsense"} | wrong)
    assert answer.status_code == 422 and answer.json()["error"]["kind"] in ("invalid", "unsupported"), answer.text


POLICIES = [[0] * 500] * 400
MANY_POLICIES = {
    "name": "direct",
    "learner": {"name": "randomizeducb", "policies": POLICIES, "shares": None, "actions": 2},
}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"on_expiry": "forget"}, "on_expiry must be 'drop' or a reward, got 'forget'"),
        ({"forecaster": "bold"}, "bold needs a learner, such as bold(exp3)"),
        ({"forecaster": "direct(linucb)"}, "linucb needs features"),
        ({"forecaster": "direct(linucb(features=1000000))"}, "would have a state that"),
        ({"forecaster": "direct(exp4(experts=1000000000000000000000))"}, "would have a state that"),
        ({"forecaster": MANY_POLICIES}, "would have parameters of"),
        ({"forecaster": "x" * 300_000}, "no forecaster is called 'xxx"),
        ({"forecaster": f"bold(klucb(c='{'x' * 300_000}'))"}, "c must be a number, got 'xxx"),
    ],
)
def test_an_experiment_is_told_what_is_wrong_in_short(wrong, said):
    with pytest.raises(InvalidArgument) as error:
        make(**ADS | wrong)
    assert said in str(error.value) and len(str(error.value)) < 600


def test_a_name_is_taken_once(server):
    server.create("twice")
    answer = server.http.post("/v1/experiments", json=ADS | {"name": "twice"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "exists")
    for path in ("", "/decisions/x", "/statistics"):
        answer = server.http.get(f"/v1/experiments/never{path}")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "unknown_experiment")


def test_asking_again_with_a_key(server):
    server.create("keys")
    headers = {"Idempotency-Key": "one"}
    first = server.decide("keys", {"count": 2}, headers=headers)
    assert server.decide("keys", {"count": 2}, headers=headers) == first
    other = server.http.post("/v1/experiments/keys/decisions", json={"count": 3}, headers=headers)
    assert (other.status_code, other.json()["error"]["kind"]) == (422, "key_reused")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.decide("keys", headers={"Idempotency-Key": "two"}), range(8)))
    assert len({answer["ticket"] for answer in answers}) == 1
    assert server.statistics("keys")["decisions"] == 3
    long = server.http.post("/v1/experiments/keys/decisions", json={}, headers={"Idempotency-Key": "x" * 300})
    assert long.status_code == 422


def test_policies_by_segment_and_labels_that_are_labels(server):
    policies = [[0, 1], [2, 0], [1, 1]]
    learner = {"name": "policyelimination", "policies": policies, "shares": [0.5, 0.5]}
    server.create("segments", forecaster={"name": "direct", "learner": learner}, seed=4)
    f = bl.Direct(bl.PolicyElimination(policies, [0.5, 0.5], 3), seed=4)
    for segment in (0, 1, 1, 0):
        made, own = server.decide("segments", {"context": [segment]}), f.predict(segment)
        assert made["probability"] == own.probability
        assert server.feed("segments", made["ticket"], 1.0).json()["status"] == "applied"
        f.update(own.ticket, 1.0)
    wrong = server.http.post("/v1/experiments/segments/decisions", json={"context": [2]})
    assert wrong.status_code == 422 and "one of 0..1, got 2" in wrong.text

    server.create("labels", forecaster="direct(halving(2, labels=3))")
    ticket = server.decide("labels", {"context": [0, 2]})["ticket"]
    for value in ([0.3, 0.9, 0.0], [1, 1, 0], [0, 0, 0], [0, 1], 2):
        refused = server.feed("labels", ticket, value)
        assert refused.status_code == 422 and "1 for the one right action and 0 for all others" in refused.text
    assert server.feed("labels", ticket, [0, 0, 1]).json()["status"] == "applied"


def test_a_covariance_by_name_and_points_that_are_no_actions(server):
    oven = "direct(gpucb(squared_exponential([180, 200, 220], scale=30), noise=0.04))"
    made = server.create("oven", forecaster=oven, reward_range=[-5, 5])
    assert made["forecaster"]["learner"]["covariance"][0][0] == 1.0
    ticket = server.decide("oven")["ticket"]
    refused = server.feed("oven", ticket, 7.0)
    assert refused.status_code == 422 and "[-5, 5], the reward_range of oven, got 7" in refused.text
    assert server.feed("oven", ticket, -3.5).json()["status"] == "applied"
    body = {"name": "points", "actions": ["a", "b", "c"], "forecaster": "direct(gradientdescent(2))"}
    refused = server.http.post("/v1/experiments", json=body)
    assert refused.status_code == 422 and "plays points, which the service does not keep" in refused.text


def test_contexts_and_allowed(server):
    learner = {"name": "linucb", "features": 2}
    server.create("context", forecaster={"name": "direct", "learner": learner})
    one = server.decide("context", {"context": [1.0, 0.0]})
    several = server.decide("context", {"contexts": [[0.0, 1.0], [1.0, 1.0]]})["decisions"]
    assert one["round"] == 1 and [each["round"] for each in several] == [2, 3]
    path = "/v1/experiments/context/decisions"
    assert server.http.get(f"{path}/{several[0]['ticket']}").json()["context"] == [0.0, 1.0]
    for wrong in ({}, {"count": 2}, {"context": [1.0]}, {"contexts": [[1.0, 2.0], [1.0]]}, {"context": ["1", "2"]}):
        assert server.http.post(path, json=wrong).status_code == 422
    refused = server.http.post(path, json={"context": [1.0, 1.0], "allowed": ["a"]})
    assert (refused.status_code, refused.json()["error"]["kind"]) == (422, "unsupported")
    server.create("some", forecaster="direct(ucb1)")
    made = [server.decide("some", {"allowed": ["c", "a"]})["name"] for _ in range(4)]
    assert made == ["a", "c", "a", "c"]


def test_it_decides_as_the_forecaster_does(server):
    for name, f in (("seeded", bl.BOLD(bl.Exp3(3), seed=5)), ("held", bl.QPMD(bl.UCB1(3), seed=5))):
        server.create(name, forecaster=bl.catalog.to_data(f), seed=5, reward_range=[0, 2])
        for step in range(30):
            mine, theirs = server.decide(name), f.predict()
            assert (mine["action"], mine["probability"]) == (theirs.action, theirs.probability)
            if step % 3:
                assert server.feed(name, mine["ticket"], 0.5 * (step % 5)).status_code == 200
                f.update(theirs.ticket, 0.25 * (step % 5))


def test_limits_and_archive_and_replacement(server):
    server.create("limited", limits={"outstanding": 2}, forecaster="bold(ucb1)")
    path = "/v1/experiments/limited"
    server.decide("limited", {"count": 2})
    answer = server.http.post(f"{path}/decisions", json={})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "too_many_outstanding")
    answer = server.http.post(f"{path}/replacements", json={"action": "a", "new": "z"})
    assert answer.status_code == 200 and answer.json()["actions"] == ["z", "b", "c"]
    assert server.http.post(f"{path}/archive").json()["archived_at"] > 0
    answer = server.http.post(f"{path}/decisions", json={})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "archived")


def test_expiry_needs_no_traffic(server):
    made = server.create("short", expiry_seconds=0.3, on_expiry=0.0)
    assert made["warnings"] and made["on_expiry"] == 0.0
    ticket = server.decide("short")["ticket"]
    time.sleep(0.35)
    late = server.feed("short", ticket)
    assert (late.status_code, late.json()["status"]) == (202, "late")
    for _ in range(40):
        told = server.statistics("short")
        if told["expired"]:
            break
        time.sleep(0.1)
    assert (told["expired"], told["outstanding"], told["late"], told["feedback"]) == (1, 0, 1, 0)
    now = server.http.get(f"/v1/experiments/short/decisions/{ticket}").json()
    assert (now["state"], now["value"]) == ("expired", 0.0)


def test_many_at_once(server):
    server.create("busy")
    rounds, lock = [], threading.Lock()

    def client(number):
        with httpx.Client(base_url=server.http.base_url, timeout=20) as http:
            for step in range(15):
                made = http.post("/v1/experiments/busy/decisions", json={}).json()
                with lock:
                    rounds.append(made["round"])
                if (number + step) % 4:
                    body = {"ticket": made["ticket"], "value": 1.0}
                    assert http.post("/v1/experiments/busy/feedback", json=body).json()["status"] == "applied"

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(client, range(12)))
    told = server.statistics("busy")
    assert sorted(rounds) == list(range(1, 181))
    assert told["instances"] == told["peak"] + 1 and told["outstanding"] == 45


def test_about_the_service(server):
    assert server.http.get("/health").json() == {"status": "ok", "version": bl.__version__}
    document = server.http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0" and document == json.loads(openapi.encoded())
    page = server.http.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for path in document["paths"]:
        assert path in page.text
    assert "http://" not in page.text and "https://" not in page.text
    server.create("told")
    server.feed("told", server.decide("told", {"count": 3})["decisions"][1]["ticket"])
    metrics = server.http.get("/metrics").text
    assert 'belated_requests_total{route="GET /health",status="200"}' in metrics
    assert "belated_batch_size_bucket" in metrics and 'belated_outcomes_total{kind="decided"}' in metrics
    for line in ("decisions_total 3", "feedback_total 1", "outstanding 2", "peak 2"):
        name, value = line.split()
        assert f'belated_experiment_{name}{{experiment="told"}} {float(value)}' in metrics
    assert server.http.get("/v1/overview").json()["unopened"] == []


def test_the_file_can_be_read_meanwhile(server, tmp_path):
    if server.http.get("/v1/experiments/read").status_code == 404:
        server.create("read")
        server.decide("read", {"count": 3})
    text = said("verify", "--database", server.file)
    assert "read: identical" in text and "different" not in text
    assert "3 decisions" in said("export", "read", tmp_path / "read.parquet", "--database", server.file)
    said("backup", tmp_path / "copy.db", "--database", server.file)
    assert "read: identical" in said("verify", "--database", tmp_path / "copy.db")
    if server.http.get("/v1/experiments/read1").status_code == 404:
        server.create("read1")
        server.decide("read1", {})
    text = said("export", "read1", tmp_path / "one.parquet", "--database", server.file)
    assert text.startswith("1 decision written to "), text
    assert "another server has" in said("serve", "--database", server.file, code=1)


# --- starting and ending ---


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    file = tmp_path / "kill.db"
    server = Server(file)
    server.create("ads")
    decided, fed = [], []

    def client():
        try:
            with httpx.Client(base_url=server.http.base_url, timeout=20) as http:
                while True:
                    made = http.post("/v1/experiments/ads/decisions", json={}).json()
                    decided.append(made)
                    body = {"ticket": made["ticket"], "value": 0.5}
                    assert http.post("/v1/experiments/ads/feedback", json=body).status_code == 200
                    fed.append(made["ticket"])
        except httpx.HTTPError:
            pass

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(fed) < 40:
        time.sleep(0.01)
    server.end(signal.SIGKILL)
    for thread in threads:
        thread.join()
    server = Server(file)
    states = {}
    for made in decided:
        now = server.http.get(f"/v1/experiments/ads/decisions/{made['ticket']}").json()
        assert {key: now[key] for key in ("action", "probability", "round")}.items() <= made.items()
        states[made["ticket"]] = now["state"]
    assert all(states[ticket] == "closed" for ticket in fed)
    assert server.feed("ads", fed[0], 0.5).json()["status"] == "duplicate"
    server.end()
    assert "ads: identical" in said("verify", "--database", file)


def test_sigterm_drains(tmp_path):
    server = Server(tmp_path / "drain.db")
    server.create("ads")
    answers, together = [], threading.Barrier(4)

    def client():
        with httpx.Client(base_url=server.http.base_url, timeout=20) as http:
            http.get("/health")
            together.wait()
            answers.append(http.post("/v1/experiments/ads/decisions", json={"count": 5000}).status_code)

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    together.wait()
    time.sleep(0.05)
    started = time.monotonic()
    server.end()
    assert time.monotonic() - started < 10
    for thread in threads:
        thread.join()
    assert answers == [201] * 3


def test_tokens_and_scopes(tmp_path):
    file = tmp_path / "tokens.db"
    admin = said("token", "create", "boss", "--scope", "admin", "--database", file).strip()
    app_token = said("token", "create", "app", "--scope", "decide", "--scope", "feedback", "--database", file).strip()
    assert "already" in said("token", "create", "app", "--database", file, code=1)
    assert "scope" in said("token", "create", "x", "--scope", "fly", "--database", file, code=1)
    assert admin.encode() not in file.read_bytes()
    server = Server(file, "--require-token")

    def status(method, path, token=None, **more):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return server.http.request(method, path, headers=headers, **more).status_code

    assert status("POST", "/v1/experiments", json=ADS) == 401
    assert status("POST", "/v1/experiments", "wrong", json=ADS) == 401
    assert status("POST", "/v1/experiments", app_token, json=ADS) == 403
    assert status("POST", "/v1/experiments", admin, json=ADS) == 201
    assert status("POST", "/v1/experiments/ads/decisions", app_token, json={}) == 201
    assert status("GET", "/v1/experiments/ads/statistics", app_token) == 403
    assert status("GET", "/metrics") == 401 and status("GET", "/metrics", admin) == 200
    assert status("GET", "/health") == 200
    said("token", "revoke", "app", "--database", file)
    assert "app\tdecide feedback\trevoked" in said("token", "list", "--database", file)
    for _ in range(50):
        if status("POST", "/v1/experiments/ads/decisions", app_token, json={}) == 401:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("a revoked token goes on")
    server.end()


def test_it_does_not_start_where_it_must_not(tmp_path):
    file = tmp_path / "none.db"
    refused = said("serve", "--database", file, "--host", "0.0.0.0", code=1)
    assert "0.0.0.0 can be reached from elsewhere and there is no token" in refused
    refused = said("serve", "--database", file, "--require-token", code=1)
    assert "--require-token is given and there is no token" in refused
    assert "error: none/x.db: No such file" in said("backup", "none/x.db", "--database", file, code=1)
    assert "--workers must be 1, got 2" in said("serve", "--database", file, "--workers", "2", code=1)
    assert "there is no database" in said("verify", "--database", tmp_path / "missing.db", code=1)


def test_it_says_which_databases_there_are(tmp_path):
    for command in (["serve"], ["verify"], ["token", "create", "x"]):
        text = said(*command, "--database", "mysql://me:secret@x/y", code=1)
        assert text.startswith("error: mysql:// is no database that is supported: a file, or postgresql://")
        assert "secret" not in text
    text = said("serve", "--database", tmp_path / "missing" / "a.db", code=1)
    assert text.startswith(f"error: there is no directory {tmp_path / 'missing'} ") and ".lock" not in text


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = said("serve", "--database", tmp_path / "a.db", "--port", port, code=1)
        with pytest.raises(InvalidState) as several:
            supervise(print, print, "127.0.0.1", port, 2, print, 1.0)
    wanted = f"cannot listen on 127.0.0.1, port {port}: Address already in use"
    assert text.strip() == f"error: {wanted}" and str(several.value) == wanted
    assert not list(tmp_path.iterdir()), "a database that was not needed"
    with pytest.raises(InvalidState, match=r"cannot listen on 192[.]0[.]2[.]1, port 0: Cannot assign"):
        listen("192.0.2.1", 0)
    for each in (made := listen("localhost", 0)):
        each.close()
    assert made


def test_export_writes_parquet_only(tmp_path):
    SQLite(tmp_path / "a.db", serve=True).close()
    text = said("export", "ads", tmp_path / "x.csv", "--database", tmp_path / "a.db", code=1)
    assert "must end in .parquet, got" in text and not (tmp_path / "x.csv").exists()


def test_the_description_lists_what_can_happen():
    operations = [each for path in openapi.document()["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    listed = {each["operationId"]: set(each["responses"]) & {"401", "403", "409", "429"} for each in operations}
    assert listed["get_health"] == listed["get_ready"] == set()
    assert listed["get_metrics"] == listed["get_overview"] == {"401", "403", "429"}
    assert listed["post_experiments"] == {"401", "403", "409", "429"}
    assert all(("429" in statuses) == ("401" in statuses) for statuses in listed.values()), "a token may have a rate"


def test_a_missing_extra_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "NEEDED", ("msgspec", "nothing_of_the_kind"))
    text = said("serve", "--database", tmp_path / "none.db", code=1)
    assert text.strip() == "error: the service needs nothing_of_the_kind: pip install 'belated[service]'"


def test_verify_says_what_is_different(server, tmp_path):
    file = tmp_path / "different.db"
    server.create("different")
    server.decide("different", {"count": 3})
    said("backup", file, "--database", server.file)
    store = SQLite(file, serve=True)
    store._writer.run("UPDATE events SET action = (action + 1) % 3 WHERE instance = 2")
    store.close()
    assert "different: different" in (text := said("verify", "--database", file, code=1)) and "instance 2" in text


def test_creating_compiles_elsewhere(tmp_path):
    environment = {"BELATED_CACHE_DIR": str(tmp_path / "cache")}
    server = Server(tmp_path / "cold.db", environment=environment)
    server.create("ads", forecaster="bold(hedge)", seed=3)
    early = [server.decide("ads")["action"] for _ in range(5)]
    assert not list((tmp_path / "cache").glob("*tell_at*"))  # nobody waited for the compiler
    f = bl.BOLD(bl.Hedge(3), seed=3)
    assert early == [f.predict().action for _ in range(5)]
    while "ads is compiled" not in server.process.stderr.readline():
        assert server.process.poll() is None
    assert list((tmp_path / "cache").glob("*tell_at*"))
    assert [server.decide("ads")["action"] for _ in range(5)] == [f.predict().action for _ in range(5)]
    server.end()
    assert "ads: identical" in said("verify", "--database", tmp_path / "cold.db")


def test_when_too_much_waits_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "WAITING", 5)
    store = SQLite(tmp_path / "full.db", serve=True)
    service = Service(Desk(Ledger(store)), Guard(store, False))

    async def run():
        application = service.application()
        async with service.lifespan():
            transport = httpx.ASGITransport(application)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
                assert (await http.post("/v1/experiments", json=ADS)).status_code == 201
                asked = [http.post("/v1/experiments/ads/decisions", json={"count": 2}) for _ in range(20)]
                return await asyncio.gather(*asked)

    answers = asyncio.run(run())
    store.close()
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {201, 503} and statuses[0] == 201
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert refused.headers["retry-after"] == "1" and refused.json()["error"]["kind"] == "busy"
