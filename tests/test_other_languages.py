"""The examples for other languages are those of today's API, and run against a service."""

import json
import re
import shutil
import subprocess

import pytest

from belated.ledger.experiment import make
from belated.service import api, openapi
from tests.test_service import Server
from tools import other_languages

NODE = shutil.which("node")
SCRIPT = """
import { Belated, BelatedError } from "./client.mjs";
const service = new Belated(process.argv[2] + "/");
await service.postExperiments({ name: "shop é", actions: ["a"], forecaster: "bold(exp3)" }).catch((error) => {
  if (!(error instanceof BelatedError) || error.status !== 422) throw error;
});
await service.postExperiments({ name: "shop", actions: ["a", "b"], forecaster: "bold(exp3)" });
const key = { "Idempotency-Key": crypto.randomUUID() };
const one = await service.postDecisions("shop", {}, key);
const again = await service.postDecisions("shop", {}, key);
const many = await service.postDecisions("shop", { count: 3 });
const told = await service.postFeedback("shop", { ticket: one.ticket, value: 1.0 });
const list = await service.postFeedback("shop", many.decisions.map(({ ticket }) => ({ ticket, value: 0.0 })));
const record = await service.getDecision("shop", one.ticket);
const metrics = await service.getMetrics();
const refused = await service.getExperiment("nothing").catch((error) => [error.kind, error.status]);
const gone = await service.deleteExperiment("shop");
console.log(JSON.stringify({ same: one.ticket === again.ticket, told: told.status, state: record.state, refused,
  list: list.results.map(({ status }) => status), metrics: metrics.includes("belated_requests_total"), gone }));
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("languages") / "x.db")
    yield made
    made.end()


@pytest.mark.parametrize("file", other_languages.MADE)
def test_the_files_are_made_from_the_description(file):
    made = other_languages.MADE[file]()
    assert made == (other_languages.ROOT / file).read_text(), "run tools/other_languages.py"


def test_every_operation_has_a_method_of_its_own():
    names = [other_languages.called(method, path) for method, path, _ in other_languages.operations()]
    assert len(set(names)) == len(names) == len(other_languages.openapi.ENTRIES)
    for text in (other_languages.typescript(), other_languages.typescript(typed=False)):
        assert re.findall(r"^  (\w+)\(.*\{$", text, re.M)[2:] == names


def test_the_shell_runs(server):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = ["sh", other_languages.ROOT / "examples/client.sh"]
    environment = {"URL": str(server.http.base_url).rstrip("/"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    statuses = [line for line in ran.stdout.splitlines() if re.fullmatch(r"\d{3}", line)]
    assert (ran.returncode, ran.stderr) == (0, "") and len(statuses) == len(other_languages.operations())
    # The description says of two that not every learner can do it, and its example has one that cannot.
    cannot = ran.stdout.count('"kind":"unsupported"')
    assert cannot <= 2 and statuses.count("422") == cannot and set(statuses) <= {"200", "201", "422"}, ran.stdout


def test_typescript_runs_without_its_types(server, tmp_path):
    if NODE is None:
        pytest.skip("node is not installed")
    text = other_languages.typescript(typed=False)
    (tmp_path / "client.mjs").write_text(text)
    (tmp_path / "script.mjs").write_text(SCRIPT)
    ran = subprocess.run([NODE, tmp_path / "script.mjs", str(server.http.base_url)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "same": True,
        "told": "applied",
        "state": "closed",
        "refused": ["unknown_experiment", 404],
        "list": ["applied"] * 3,
        "metrics": True,
        "gone": {"name": "shop", "status": "deleted"},
    }


def test_the_description_has_every_field_of_an_experiment() -> None:
    made = make("ads", ["a", "b"], "bold(exp3)", expiry_seconds=60)
    assert set(api.described(made)) == set(openapi.SCHEMAS["Experiment"]["properties"])
