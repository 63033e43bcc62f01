"""What people expect of a service: options by the environment, logs with ids, paths, proxies, timeouts, traces."""

import json
import logging
import os
import re
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from belated.cli import app
from belated.service import helping, tracing
from belated.service.requests import Seen, Watched
from belated.service.tracing import Tracer
from tests.test_service import ADS, Server

runner = CliRunner()
ROOT = typer.main.get_command(app)


def commands(group=ROOT, words=()):
    """Every command of the service, with its words."""
    context = group.make_context("belated", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands(command, (*words, name))
        elif isinstance(command, helping.Command):
            yield (*words, name), command


COMMANDS = dict(commands())
#: Those whose variables all commands share.
SHARED = {"database": "BELATED_DATABASE", "url": "BELATED_URL", "import": "BELATED_IMPORT"}


def parsed(words, command, environment, monkeypatch):
    """What a command is told by the environment."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    above = typer.Context(ROOT, info_name="belated")
    for word in words[:-1]:
        above = typer.Context(ROOT, info_name=word, parent=above)
    needed = ["--action=a"] if any(each.name == "action" for each in command.params) else []
    needed = needed * ("BELATED_EXPERIMENT_CREATE_ACTION" not in os.environ)
    needed += ["x.parquet" for each in command.params if each.param_type_name == "argument" and each.required]
    return command.make_context(words[-1], needed, above).params


#: Texts, and what a command is told by one of them.
SAMPLES = {
    "root": [("/belated/", "/belated")],
    "forwarded": [("10.0.0.0/8 ::1", ("10.0.0.0/8", "::1"))],
    "reward_range": [("0 2", (0.0, 2.0))],
}
FLAG, SEVERAL = [("true", True)], [("one two", ["one", "two"])]
ONE = [("3", 3), ("3", "3"), ("warning", "warning"), ("json", "json"), ("3", Path("3"))]


def samples(option):
    return SAMPLES.get(option.name) or (FLAG if option.is_flag else SEVERAL if option.multiple else ONE)


def test_the_commands_of_the_service_are_these():
    names = {" ".join(words) for words in COMMANDS}
    assert {"serve", "migrate", "verify", "export", "backup", "log", "token create", "token list"} <= names
    assert {"token revoke", "experiment list", "experiment change", "experiment delete", "experiment create"} <= names
    assert "play" not in names  # what a study is told stands in its command


@pytest.mark.parametrize("words", COMMANDS, ids="-".join)
def test_every_option_comes_by_its_variable(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    for name in list(os.environ):
        if name.startswith("BELATED_") and name != "BELATED_CACHE_DIR":
            monkeypatch.delenv(name)
    shown = runner.invoke(app, [*words, "--help"]).output
    command = COMMANDS[words]
    parsed(words, command, {}, monkeypatch)  # names are given when it is used
    options = [each for each in command.params if each.param_type_name == "option" and "--help" not in each.opts]
    for option in options:
        long = max(option.opts, key=len).strip("-")
        name = SHARED.get(long) or "_".join(["BELATED", *words, long]).replace("-", "_").upper()
        assert name in shown, (name, shown)
        if long == "import":  # it is divided as in a shell: tests/test_imports.py
            continue
        assert option.envvar == name
        got = []
        for text, value in samples(option):
            with suppress(typer.BadParameter):
                told = parsed(words, command, {name: text}, monkeypatch)[option.name]
                got.append(told == (list(value) if isinstance(told, list) else value))
        assert any(got), name
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BELATED_SERVE_REQUIRE_TOKNE", "; did you mean 'BELATED_SERVE_REQUIRE_TOKEN'?"),
        ("BELATED_REQUIRE_TOKEN", "; did you mean 'BELATED_SERVE_REQUIRE_TOKEN'?"),
        ("BELATED_SERVE_DATABASE", ""),
    ],
)
def test_a_misspelt_variable_is_named(name, hint):
    result = runner.invoke(app, ["serve", "--port", "-1"], env={name: "1", "BELATED_PORT": "tcp://10.0.0.1:8000"})
    said = [line for line in result.output.splitlines() if line.startswith("warning")]
    assert len(said) == 1 and said[0].startswith(f"warning: the variable {name} sets nothing here{hint}"), result.output
    result = runner.invoke(app, ["token", "list", "--database", "/nowhere/x.db"], env={name: "1"})
    assert "warning" not in result.output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BELATED_SERVE_PORT", "http"),
        ("BELATED_SERVE_WORKERS", "0"),
        ("BELATED_SERVE_REQUIRE_TOKEN", "perhaps"),
        ("BELATED_SERVE_LOG_LEVEL", "loud"),
        ("BELATED_SERVE_ROOT_PATH", "a b"),
        ("BELATED_SERVE_FORWARDED_ALLOW_IPS", "proxy.example"),
        ("BELATED_SERVE_KEEP_ALIVE", "-1"),
    ],
)
def test_a_wrong_value_names_its_variable(name, value):
    result = runner.invoke(app, ["serve"], env={name: value, "COLUMNS": "400"})
    assert result.exit_code == 2 and name in result.output and repr(value) in result.output, result.output


def test_secrets_come_in_files(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSWORD_FILE", str(secret))
    helping.take_secrets()
    assert os.environ["PGPASSWORD"] == "hunter2" and "PGPASSWORD_FILE" not in os.environ
    both = runner.invoke(app, ["log"], env={"PGPASSWORD_FILE": str(secret), "COLUMNS": "400"})
    assert both.exit_code == 2 and "PGPASSWORD_FILE are both set" in both.output and "hunter2" not in both.output
    monkeypatch.delenv("PGPASSWORD")
    none = runner.invoke(app, ["log"], env={"BELATED_DATABASE_FILE": str(tmp_path / "no"), "COLUMNS": "400"})
    assert none.exit_code == 2 and "BELATED_DATABASE_FILE names" in none.output and "No such file" in none.output


# --- a service that is told much ---


TOLD = ("--require-token", "--access-log", "--root-path", "/belated", "--forwarded-allow-ips", "127.0.0.1,::1")
IDENTITY = re.compile(r"[0-9a-f]{32}")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A service behind what could be a proxy; what it logs is read at the end."""
    file = tmp_path_factory.mktemp("told") / "told.db"
    made = runner.invoke(app, ["token", "create", "me", "--scope", "admin", "--database", str(file)])
    server = Server(file, *TOLD, "--keep-alive", "0.4", "--read-timeout", "0.6", "--connections", "8")
    server.http.headers["authorization"] = f"Bearer {made.output.strip()}"
    server.create("ads")
    yield server
    if server.process.poll() is None:
        server.end()


def test_both_kinds_of_proxies_and_paths(told):
    for root in ("", "/belated"):  # taken away, and left in place
        assert told.http.get(f"{root}/health").status_code == 200
        assert told.http.post(f"{root}/v1/experiments/ads/decisions", json={}).status_code == 201
        document = told.http.get(f"{root}/openapi.json").json()
        assert document["servers"] == [{"url": "/belated"}]
    there = told.http.get("/belated")
    assert there.status_code == 308 and there.headers["location"] == "/belated/"
    assert told.http.get("/belated/belated/health").status_code == 404
    assert told.http.get("/belatedly/health").status_code == 404


def test_pages_lead_nowhere_but_below_themselves(told):
    for page in ("/belated/", "/belated/docs"):
        answer = told.http.get(page)
        for link in re.findall(r"(?:href|src)=['\"]([^'\"#]+)['\"]", answer.text):
            assert told.http.get(answer.url.join(link)).status_code == 200, link
            assert str(answer.url.join(link).path).startswith("/belated/"), link


def test_ids(told):
    kept = told.http.get("/health", headers={"X-Request-ID": "order-17:3"})
    assert kept.headers["x-request-id"] == "order-17:3"
    for strange in ("a b", "x" * 129, "a\tb", "<b>"):
        answer = told.http.get("/nothing", headers={"X-Request-ID": strange.encode()})
        assert answer.status_code == 404 and IDENTITY.fullmatch(answer.headers["x-request-id"])
    assert IDENTITY.fullmatch(told.http.get("/health").headers["x-request-id"])


def test_times_and_limits_are_options(told):
    port = told.http.base_url.port
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.settimeout(10)
        slow.sendall(b"GET /hea")
        assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.settimeout(10)
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        heard = b"".join(iter(lambda: idle.recv(1000), b""))
        assert heard.startswith(b"HTTP/1.1 200 ") and heard.endswith(b"}")
    many = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
    try:
        many[-1].settimeout(10)
        many[-1].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"too many connections" in many[-1].recv(1000)
    finally:
        for each in many:
            each.close()
    time.sleep(0.1)


def test_what_is_logged(told):
    """The last of these: it ends the service."""
    for _ in range(4):
        assert told.http.get("/nothing").status_code == 404
    headers = {"X-Forwarded-For": "203.0.113.9", "X-Request-ID": "last"}
    assert told.http.get("/belated/v1/experiments/ads", headers=headers).status_code == 200
    lines = [json.loads(line) for line in told.end()[1].splitlines()]
    (last,) = [line for line in lines if line.get("request") == "last"]
    assert last["event"] == "GET /belated/v1/experiments/ads 200" and last["level"] == "info"
    assert (last["status"], last["token"], last["address"]) == (200, "me", "203.0.113.9")
    assert last["method"] == "GET" and last["seconds"] > 0 and last["bytes"] > 0
    missed = [line for line in lines if line.get("path") == "/nothing"]
    assert len(missed) >= 4 and {line["status"] for line in missed} == {404}
    assert {line["address"] for line in lines if "request" in line} == {"127.0.0.1", "203.0.113.9"}


def test_a_quiet_service(tmp_path):
    """Without the options: no access log, no ids but those that are brought, and no proxy is believed."""
    server = Server(tmp_path / "quiet.db", "--log-level", "warning", "--log-format", "console")
    try:
        server.create("ads")
        assert "x-request-id" not in server.http.get("/health").headers
        assert server.http.get("/health", headers={"X-Request-ID": "a"}).headers["x-request-id"] == "a"
        assert server.http.get("/belated/health").status_code == 404
        assert "servers" not in server.http.get("/openapi.json").json()
        assert server.http.get("/health", headers={"X-Forwarded-For": "::1"}).status_code == 403
    finally:
        said = server.end()[1]
    assert "is created" not in said
    (line,) = said.splitlines()
    assert line.startswith("20") and "[warning  ]" in line and "came through a proxy" in line and "{" not in line


def test_an_address_is_believed_from_known_proxies_only(tmp_path):
    file = tmp_path / "doubt.db"
    made = runner.invoke(app, ["token", "create", "me", "--scope", "admin", "--database", str(file)])
    server = Server(
        file, "--require-token", "--access-log", "--log-level", "error", "--forwarded-allow-ips", "10.0.0.0/8"
    )
    token = {"authorization": f"Bearer {made.output.strip()}"}
    assert server.http.get("/v1/experiments", headers=token | {"X-Forwarded-For": "203.0.113.9"}).status_code == 200
    (line,) = server.end()[1].splitlines()
    assert json.loads(line)["address"] == "127.0.0.1"


def test_a_failure_has_an_id_in_the_answer_and_in_the_log(tmp_path):
    broken = "from belated.service import api\napi.decided = None\n"
    server = Server(tmp_path / "broken.db", before=broken)
    server.create("ads")
    answer = server.http.post("/v1/experiments/ads/decisions", json={})
    line = json.loads(server.end()[1].splitlines()[-1])
    assert answer.status_code == 500 and IDENTITY.fullmatch(answer.headers["x-request-id"])
    assert line["request"] == answer.headers["x-request-id"] and "TypeError" in line["exception"]


# --- traces ---


@pytest.fixture
def tracer():
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    made = Tracer(exporter)
    made.exporter = exporter
    yield made
    made.close()


def spans(tracer):
    tracer._provider.force_flush()
    return tracer.exporter.get_finished_spans()


def test_spans_of_requests_and_batches(tracer, tmp_path):
    """The application itself, asked through httpx without a network."""
    import anyio
    import httpx

    from belated.ledger.ledger import Ledger
    from belated.ledger.sqlite import SQLite
    from belated.service.app import Service
    from belated.service.auth import Guard
    from belated.service.desk import Desk

    parent = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def ask():
        store = SQLite(str(tmp_path / "traced.db"), serve=True)
        service = Service(Desk(Ledger(store), tracer=tracer), Guard(store, False), tracer=tracer)
        router = service.application()
        async with (
            service.lifespan(),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(Watched(router, None, tracer)), base_url="http://localhost"
            ) as http,
        ):
            assert (await http.post("/v1/experiments", json=ADS)).status_code == 201
            headers = {"traceparent": f"00-{parent}-00f067aa0ba902b7-01", "X-Request-ID": "mine"}
            assert (await http.post("/v1/experiments/ads/decisions", json={}, headers=headers)).status_code == 201
            assert (await http.get("/nothing")).status_code == 404
            found = spans(tracer)
            await anyio.sleep(0)
        store.close()
        return found

    found = anyio.run(ask)
    (decide,) = [each for each in found if each.name == "POST /v1/experiments/{name}/decisions"]
    assert f"{decide.context.trace_id:032x}" == parent and f"{decide.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert decide.attributes["http.route"] == "/v1/experiments/{name}/decisions"
    assert decide.attributes["http.response.status_code"] == 201 and decide.attributes["belated.request"] == "mine"
    inner = [each for each in found if each.parent and each.parent.span_id == decide.context.span_id]
    assert [each.name for each in inner] == ["belated.ledger"]
    batches = [each for each in found if each.name == "belated.batch"]
    assert len(batches) >= 2 and all(each.attributes["belated.requests"] >= 1 for each in batches)
    assert all(each.end_time > each.start_time and each.parent is None for each in batches)
    (missed,) = [each for each in found if each.name == "GET"]
    assert missed.attributes["http.response.status_code"] == 404 and missed.status.is_unset
    assert decide.resource.attributes["service.name"] == "belated"


def test_a_failed_request_is_an_error(tracer):
    seen = Seen()
    seen.status = 503
    scope = {"method": "GET", "path": "/x", "scheme": "http"}
    with tracer.request(scope, {}, "a", seen):
        pass
    (span,) = spans(tracer)
    assert not span.status.is_ok and not span.status.is_unset


@pytest.mark.parametrize("workers", ["1", "2"])
def test_traces_without_the_extra_say_so(monkeypatch, tmp_path, workers):
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    database = f"{tmp_path}/x.db" if workers == "1" else "postgresql://nobody@127.0.0.1:1/none"
    for asked, more in ((["--traces"], {}), ([], {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})):
        result = runner.invoke(app, ["serve", "--workers", workers, "--database", database, *asked], env=more)
        assert result.exit_code == 1 and result.output.count("\n") == 1, result.output
        assert result.output.startswith(f"error: {tracing.MISSING}")
    assert not (tmp_path / "x.db").exists()


def test_traces_are_sent(tmp_path):
    """To a collector that is no more than a socket: what comes is OTLP over HTTP, also after SIGTERM."""
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    with socket.create_server(("127.0.0.1", 0)) as collector:
        collector.settimeout(20)
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.getsockname()[1]}"}
        server = Server(tmp_path / "sent.db", environment=where)
        server.create("ads")
        server.process.terminate()
        with collector.accept()[0] as connection:
            head = connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        assert head.startswith(b"POST /v1/traces ") and b"application/x-protobuf" in head
    server.end()
    assert server.process.returncode == 0


def test_a_collector_that_is_silent_holds_nobody_up(tmp_path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    with socket.create_server(("127.0.0.1", 0)) as collector:
        where = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.getsockname()[1]}"}
        server = Server(tmp_path / "silent.db", environment=where)
        server.create("ads")
        server.end()
    assert server.process.returncode == 0


def test_a_level_hides_what_is_below(capsys):
    from belated.service import logs
    from belated.service.options import Format, Level

    names = ("", "belated", "belated.access", "uvicorn.error", "psycopg")
    before = [(logging.getLogger(name).handlers, logging.getLogger(name).level) for name in names]
    try:
        logs.start(Level.error, Format.json)
        logging.getLogger("belated").warning("no")
        logging.getLogger("belated").error("yes")
        logs.access(Format.console)({"event": "asked for by its own option", "status": 200})
    finally:
        for name, (handlers, level) in zip(names, before, strict=True):
            logging.getLogger(name).handlers, logging.getLogger(name).level = handlers, level
    said = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert said == ["yes", "asked for by its own option"]
