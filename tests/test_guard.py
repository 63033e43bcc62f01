# ruff: noqa: F811  (fixtures are imported)
"""Nobody gets in: foreign pages, rebound names, proxies, tokens; what is on record of them; files and passwords."""

import importlib.util
import logging
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from belated.client import Client
from belated.errors import InvalidArgument, ServiceError
from belated.ledger.database import open_store, secrets_in, shown
from belated.ledger.sqlite import SQLite
from belated.service import auth, logs
from belated.service.auth import Guard
from belated.service.guard import trouble
from belated.service.server import _look_at
from tests.postgres import cluster, database  # noqa: F401
from tests.test_service import ADS, Server, said

CHROMIUM = shutil.which("chromium")
PLAYWRIGHT = importlib.util.find_spec("playwright") is not None


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("guard") / "guard.db")
    made.create("ads")
    yield made
    made.end()


# --- who may come in without a token ---


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"host": "localhost:8000"}, None),
        ({"host": "LOCALHOST"}, None),
        ({"host": "127.0.0.1:8000"}, None),
        ({"host": "127.0.0.2"}, None),
        ({"host": "[::1]:8000"}, None),
        ({}, "no name of loopback"),
        ({"host": "evil.example:8000"}, "no name of loopback"),
        ({"host": "localhost.evil.example"}, "no name of loopback"),
        ({"host": "127.0.0.1.evil.example"}, "no name of loopback"),
        ({"host": "192.168.0.3:8000"}, "no name of loopback"),
        ({"host": "0.0.0.0:8000"}, "no name of loopback"),
        ({"host": "a:1", "origin": "http://a:1"}, "no name of loopback"),
        ({"host": "a:1", "origin": "http://a:1"}, "no name of loopback"),
        ({"host": "[::1]evil.example"}, "no name of loopback"),
        ({"host": "localhost:80@evil.example"}, "no name of loopback"),
        ({"host": "localhost:8000", "origin": "http://localhost:8000"}, None),
        ({"host": "localhost:8000", "origin": "http://localhost:3000"}, "another origin"),
        ({"host": "localhost:8000", "origin": "http://127.0.0.1:8000"}, "another origin"),
        ({"host": "localhost:8000", "origin": "https://evil.example"}, "another origin"),
        ({"host": "localhost:8000", "origin": "null"}, "another origin"),
        ({"host": "localhost:8000", "sec-fetch-site": "same-origin"}, None),
        ({"host": "localhost:8000", "sec-fetch-site": "none"}, None),
        ({"host": "localhost:8000", "sec-fetch-site": "same-site"}, "another site"),
        ({"host": "localhost:8000", "sec-fetch-site": "cross-site"}, "another site"),
        ({"host": "localhost:8000", "x-forwarded-for": "10.0.0.1"}, "came through a proxy"),
        ({"host": "localhost:8000", "x-forwarded-host": "ads.example"}, "came through a proxy"),
        ({"host": "localhost:8000", "forwarded": "for=10.0.0.1"}, "came through a proxy"),
        ({"host": "localhost:8000", "via": "1.1 proxy"}, "came through a proxy"),
        ({"host": "localhost:8000", "x-real-ip": "10.0.0.1"}, "came through a proxy"),
    ],
)
def test_who_is_turned_away(headers, said):
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    why = trouble("POST", "/v1/experiments", given)
    assert why is None if said is None else said in why


def test_two_hosts_are_one_too_many():
    assert trouble("GET", "/", [(b"host", b"localhost"), (b"host", b"evil.example")]) is not None


def test_a_link_may_lead_to_the_page_and_to_nothing_else():
    linked = [(b"host", b"localhost"), (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-mode", b"navigate")]
    assert trouble("GET", "/", linked) is trouble("GET", "/docs", linked) is None
    for method, path in (("POST", "/"), ("GET", "/v1/experiments"), ("GET", "/metrics")):
        assert "another site" in trouble(method, path, linked)


def test_every_path_is_guarded_and_nothing_happens(server):
    for headers in ({"host": "evil.example"}, {"origin": "null"}, {"x-forwarded-for": "1.2.3.4"}):
        for method, path in (
            ("GET", "/"), ("GET", "/health"), ("GET", "/v1/experiments"), ("POST", "/v1/experiments/ads/decisions"),
            ("POST", "/v1/experiments/ads/archive"), ("DELETE", "/v1/experiments/ads"), ("GET", "/nothing"),
        ):  # fmt: skip
            answer = server.http.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["kind"]) == (403, "forbidden"), (headers, path)
    assert server.statistics("ads")["decisions"] == 0
    assert server.http.get("/v1/experiments/ads").json()["archived_at"] is None


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_as_in_the_readme_goes_on_working(server):
    url = f"localhost:{server.http.base_url.port}/v1/experiments"
    body = '{"name": "curl", "actions": ["a", "b"], "forecaster": "bold(exp3)"}'

    def curl(*arguments):
        return subprocess.run(["curl", "-s", *arguments], capture_output=True, text=True, check=True).stdout

    assert '"name":"curl"' in curl(url, "-d", body)
    assert '"ticket"' in curl(f"{url}/curl/decisions", "-d", "{}")


class Foreign(BaseHTTPRequestHandler):
    """Another site, with an empty page."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title>")

    def log_message(self, *given):
        pass


ATTACK = """async (url) => {
  const said = [];
  const headers = { "content-type": "text/plain" };
  const send = (path, more) => fetch(url + path, { mode: "no-cors", headers, ...more })
    .then((answer) => said.push(answer.type), (error) => said.push(String(error)));
  const body = JSON.stringify({ name: "stolen", actions: ["a", "b"], forecaster: "bold(exp3)" });
  await send("/v1/experiments", { method: "POST", body });
  await send("/v1/experiments/ads/decisions", { method: "POST", body: "{}" });
  await send("/v1/experiments/ads/archive", { method: "POST" });
  await send("/v1/overview", {});
  await fetch(url + "/v1/experiments/ads", { method: "DELETE" }).catch(() => null);
  return said;
}"""
READ = """async () => {
  const answers = [];
  for (const path of ["/v1/experiments", "/v1/overview", "/health"]) answers.push((await fetch(path)).status);
  answers.push((await fetch("/v1/experiments/ads/archive", { method: "POST" })).status);
  return answers;
}"""


def test_a_foreign_page_does_nothing_and_reads_nothing(server):
    if CHROMIUM is None or not PLAYWRIGHT:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs chromium and playwright")
    from playwright.sync_api import sync_playwright

    port = server.http.base_url.port
    foreign = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    threading.Thread(target=foreign.serve_forever, daemon=True).start()
    arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP evil.example 127.0.0.1"]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
            page = browser.new_page()
            for host in ("127.0.0.1", "localhost", "evil.example"):
                page.goto(f"http://{host}:{foreign.server_port}/")
                page.evaluate(ATTACK, f"http://127.0.0.1:{port}")
            assert server.http.get("/v1/experiments/stolen").status_code == 404
            assert server.statistics("ads")["decisions"] == 0
            assert server.http.get("/v1/experiments/ads").json()["archived_at"] is None
            # a name that the attacker lets point to loopback, so that the browser takes it for one site
            rebound = page.goto(f"http://evil.example:{port}/")
            assert rebound.status == 403 and page.evaluate(READ) == [403] * 4
            # the page of the service itself may do everything, and links may lead to it
            page.goto(f"http://127.0.0.1:{port}/")
            assert page.evaluate(READ) == [200] * 4
            page.goto(f"http://localhost:{foreign.server_port}/")
            page.evaluate("(url) => { location.href = url; }", f"http://127.0.0.1:{port}/")
            page.locator("h1", has_text="Experiments").wait_for()
            browser.close()
    finally:
        foreign.shutdown()
        foreign.server_close()
        server.http.post("/v1/experiments/ads/unarchive")


# --- tokens ---


TOKENS = {
    "boss": ["--scope", "admin"],
    "ads": ["--scope", "admin", "--experiment", "ads"],
    "old": ["--scope", "read", "--days", "1e-9"],
    "slow": ["--rate", "5"],
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that wants tokens; `ask` asks it with one of them."""
    file = tmp_path_factory.mktemp("tokens") / "tokens.db"
    shown = {name: said("token", "create", name, *more, "--database", file) for name, more in TOKENS.items()}
    assert {name for name, text in shown.items() if "warning: there is no experiment called 'ads' yet" in text} == {
        "ads"
    }
    tokens = {name: text.splitlines()[-1] for name, text in shown.items()}
    tokens["wrong"] = "belated_wrong"
    made = Server(file, "--require-token", before="import belated.service.auth as auth; auth.PAUSE = 0.1")

    def ask(token, method, path, **more):
        headers = {"Authorization": f"Bearer {tokens[token]}"} | more.pop("headers", {})
        return made.http.request(method, path, headers=headers, **more)

    made.ask = ask
    for name in ("ads", "other"):
        assert ask("boss", "POST", "/v1/experiments", json=ADS | {"name": name}).status_code == 201
    assert ask("wrong", "GET", "/v1/experiments").status_code == 401
    yield made
    assert not any(token in said("log", "--database", file) for token in tokens.values())
    errors = made.end()[1]
    assert "login failed" in errors and not any(token in errors for token in tokens.values())


def test_a_token_for_one_experiment_for_a_while(guarded):
    ask = guarded.ask
    assert ask("ads", "POST", "/v1/experiments", json=ADS | {"name": "mine"}).status_code == 403
    for path in ("/decisions", "/archive", "/unarchive"):
        assert ask("ads", "POST", f"/v1/experiments/ads{path}").status_code in (200, 201)
        refused = ask("ads", "POST", f"/v1/experiments/other{path}")
        assert refused.status_code == 403 and "not for the experiment 'other'" in refused.text
    assert ask("ads", "DELETE", "/v1/experiments/nothing").status_code == 403  # not even whether it is there
    assert ask("ads", "GET", "/metrics").status_code == 403
    for path in ("/v1/experiments", "/v1/overview"):
        assert [each["name"] for each in ask("ads", "GET", path).json()["experiments"]] == ["ads"]
    assert ask("old", "GET", "/v1/experiments").status_code == 401
    # behind a proxy: another name, and forwarded headers
    proxied = {"host": "ads.example", "x-forwarded-for": "10.0.0.1"}
    assert ask("ads", "GET", "/v1/experiments/ads", headers=proxied).status_code == 200


def test_uses_changes_and_failures_are_on_record(guarded):
    for _ in range(3):
        assert guarded.ask("wrong", "GET", "/v1/experiments").status_code == 401
    for path in ("/archive", "/unarchive"):
        assert guarded.ask("ads", "POST", f"/v1/experiments/ads{path}").status_code == 200
    for _ in range(100):
        lines = dict(line.split("\t", 1) for line in said("token", "list", "--database", guarded.file).splitlines())
        if "used 2" in lines["ads"] and "login failed" in said("log", "--database", guarded.file):
            break
        time.sleep(0.1)
    assert lines["ads"].startswith("admin\tin use\tads\tany rate\tno end\tused 20")
    assert lines["old"].startswith("read\texpired\tall\tany rate\tuntil 20") and lines["old"].endswith("never used")
    log = [line.split("\t")[1:] for line in said("log", "--database", guarded.file).splitlines()]
    assert ["the command line", "-", "token created", "-", "token 'ads' with admin for ads"] in log
    assert ["boss", "127.0.0.1", "created", "other", "BOLD(Exp3(actions=3))"] in log
    assert ["ads", "127.0.0.1", "archived", "ads", ""] in log
    assert ["ads", "127.0.0.1", "un-archived", "ads", ""] in log
    assert any(line[:3] == ["nobody", "127.0.0.1", "login failed"] for line in log)
    shown = guarded.ask("boss", "GET", "/v1/log").json()["lines"]
    told = [
        [each["who"], each["address"] or "-", each["what"], each["experiment"] or "-", each["detail"]] for each in shown
    ]
    assert [line for line in reversed(told) if line in log] == [line for line in log if line in told]  # newest first
    assert ["ads", "127.0.0.1", "archived", "ads", ""] in told and all(each["at"] > 1e9 for each in shown)
    assert guarded.ask("ads", "GET", "/v1/log").status_code == 403  # for some experiments only


def test_a_rate_of_a_token(guarded):
    path = "/v1/experiments/ads/decisions"
    answers = [guarded.ask("slow", "POST", path) for _ in range(20)]
    refused = [answer for answer in answers if answer.status_code != 201]
    assert 5 <= len(answers) - len(refused) < 20 and {answer.status_code for answer in refused} == {429}
    assert refused[0].json()["error"]["kind"] == "too_fast" and refused[0].headers["retry-after"] == "1"
    assert all(guarded.ask("boss", "POST", path).status_code == 201 for _ in range(10))
    time.sleep(0.3)
    assert guarded.ask("slow", "POST", path, json={"count": 50}).status_code == 201  # ten seconds' worth
    assert int(guarded.ask("slow", "POST", path).headers["retry-after"]) >= 8
    told = said("token", "create", "x", "--rate", "0", "--database", guarded.file, code=1)
    assert "rate must be > 0" in told


def test_what_a_token_may_be_called(tmp_path):
    store = SQLite(tmp_path / "a.db", serve=True)
    with pytest.raises(InvalidArgument, match=r"U[+]202E, which cannot be seen"):
        auth.create(store, "web\u202ebew", ["read"])
    with pytest.raises(InvalidArgument, match="good for must be <= 1e\\+10"):
        auth.create(store, "web", ["read"], None, 1e300)  # no calendar has such an end
    with pytest.raises(InvalidArgument, match="no experiment can be called 'a/b'"):
        auth.create(store, "web", ["read"], ["a/b"])
    token = auth.create(store, "web", ["read"], None, 3600.0)
    guard = Guard(store, True)
    assert guard.bearer(f"Bearer {token}".encode()).name == "web"
    assert guard.bearer(token.encode()) is guard.bearer(b"") is guard.bearer(b"Bearer ") is None
    store.close()


# --- PATCH and DELETE over HTTP, with the client and the command line ---


def test_an_experiment_is_changed_and_deleted_over_http(server):
    url = str(server.http.base_url).rstrip("/")
    server.create("rules")
    answer = server.http.patch("/v1/experiments/rules", json={"expiry_seconds": 60, "limits": {"outstanding": 3}})
    assert answer.status_code == 200 and answer.json()["limits"] == {"outstanding": 3}
    for wrong in (
        {"expiry_seconds": -1},
        {"on_expiry": None},
        {"limits": None},
        {"name": "x"},
        [],
        {"limits": {"a": 1}},
    ):
        assert server.http.patch("/v1/experiments/rules", json=wrong).status_code == 422, wrong
    assert server.http.patch("/v1/experiments/never", json={}).status_code == 404
    assert server.http.patch("/v1/experiments/rules", json={}).json()["expiry_seconds"] == 60.0
    assert server.http.patch("/v1/experiments/rules", json={"limits": {}}).json()["limits"] == {"outstanding": 3}
    with Client(url) as client:
        changed = client.change("rules", expiry_seconds=None, on_expiry=0.5, retention_seconds=100)
        assert {"expiry_seconds": None, "on_expiry": 0.5, "retention_seconds": 100.0}.items() <= changed.data.items()
        assert client.archive("rules").archived_at is not None and client.unarchive("rules").archived_at is None
        with pytest.raises(InvalidArgument, match="confirm must be that name, got 'rule'"):
            client.delete("rules", confirm="rule")
        with pytest.raises(ServiceError, match="on_expiry must be <= 1, got 3"):
            client.change("rules", on_expiry=3)
        given = ("rules", "--expiry-seconds", "90", "--outstanding", "7", "--url", url)
        assert '"expiry_seconds": 90.0, "on_expiry": 0.5, "limits": {"outstanding": 7}' in said(
            "experiment", "change", *given
        )
        assert '"retention_seconds": null' in said(
            "experiment", "change", "rules", "--retention-seconds", "never", "--on-expiry", "drop", "--url", url
        )
        assert "on_expiry must be" in said("experiment", "change", "rules", "--on-expiry", "no", "--url", url, code=1)
        assert "is archived" in said("experiment", "archive", "rules", "--url", url)
        assert "rules\tarchived\tbold\t3 actions" in said("experiment", "list", "--url", url)
        assert "is active" in said("experiment", "unarchive", "rules", "--url", url)
        assert "rules: identical" in said("verify", "--database", server.file)
        assert "Aborted" in said("experiment", "delete", "rules", "--url", url, code=1)
        assert "is deleted" in said("experiment", "delete", "rules", "--yes", "--url", url)
        with pytest.raises(ServiceError, match="there is no experiment called 'rules'"):
            client.delete("rules", confirm="rules")
    server.create("rules")
    assert server.statistics("rules")["decisions"] == 0
    gone = server.http.delete("/v1/experiments/rules")
    assert (gone.status_code, gone.json()) == (200, {"name": "rules", "status": "deleted"})
    assert server.http.get("/v1/experiments/rules").status_code == 404


def test_the_dashboard_changes_archives_and_deletes(server):
    if CHROMIUM is None or not PLAYWRIGHT:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs chromium and playwright")
    from playwright.sync_api import expect, sync_playwright

    server.create("page", forecaster="bold(ucb1)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(10_000)
        page.goto(f"{server.http.base_url}#/page")
        page.get_by_role("button", name="Change").click()
        page.get_by_label("A decision expires after").fill("")
        page.get_by_label("Open decisions at most").fill("12")
        page.get_by_label("What is learned then").fill("0.25")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".rules [role=status]")).to_have_text("Done.")
        now = server.http.get("/v1/experiments/page").json()
        assert (now["expiry_seconds"], now["on_expiry"], now["limits"]) == (None, 0.25, {"outstanding": 12})
        page.get_by_label("Open decisions at most").fill("none")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".rules [role=status]")).to_contain_text(
            "Not done: limits.outstanding must be a whole number"
        )
        page.get_by_role("button", name="Archive", exact=True).click()
        expect(page.locator(".title .badge")).to_have_text("archived", timeout=10_000)
        page.get_by_role("button", name="Un-archive").click()
        expect(page.locator(".title .badge")).to_have_text("active", timeout=10_000)
        assert page.get_by_role("button", name="Delete with all data").is_disabled()
        page.get_by_label("To delete it, its name").fill("page")
        page.get_by_role("button", name="Delete with all data").click()
        expect(page.locator("h1")).to_have_text("Experiments", timeout=10_000)
        assert page.evaluate(
            """async () => (await import("/dashboard/words.js")).visible("a\\u202eb\\u001bc\\n")"""
        ) == ("a\\u202eb\\u001bc\n")
        browser.close()
    assert server.http.get("/v1/experiments/page").status_code == 404


# --- files and passwords ---


def test_files_are_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        store = SQLite(tmp_path / "a.db", serve=True)
        auth.create(store, "web", ["read"])
        store.backup(str(tmp_path / "copy.db"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert set(modes) >= {"a.db", "a.db-wal", "a.db.lock", "copy.db"} and set(modes.values()) == {0o600}
    open_store(str(tmp_path / "copy.db")).close()


def test_a_backup_of_postgresql_is_private(database, tmp_path):
    before = os.umask(0)
    try:
        store = open_store(database, serve=True)
        store.backup(str(tmp_path / "copy.dump"))
        store.close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "copy.dump").stat().st_mode) == 0o600
    assert (tmp_path / "copy.dump").stat().st_size > 1000


def test_a_password_is_printed_nowhere(database, tmp_path):
    with_password = database.replace("belated@", "belated:hunter2@")
    assert with_password != database
    server = Server(with_password)
    try:
        told = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        assert b"belated:xxxxxxx@" in told and b"hunter2" not in told
        assert "hunter2" not in server.line and server.http.get("/health").status_code == 200
    finally:
        errors = server.end()[1]
    assert "hunter2" not in errors
    for address in (
        "postgresql://u:hunter2@127.0.0.1:1/x",
        "postgresql://u@127.0.0.1:1/x?password=hunter2",
        "postgresql://u:hunter2#/x@127.0.0.1/x",  # which libpq quotes as a port
        "postgresql://u:hunter2@[::1/x",
        "postgresql://u@127.0.0.1:1/x?pasword=hunter2",
        "host=127.0.0.1 port=1 password=hunter2",
        "mysql://u:hunter2@x/y",
    ):
        for command in (["verify"], ["serve"], ["token", "create", "x"]):
            text = said(*command, "--database", address, code=1)
            assert "hunter2" not in text and text.startswith("error: "), text
    assert secrets_in("postgresql://a:b@c/d?password=e&x=f") == ["b", "e"]
    assert shown("postgres://a:b:c@d:1/e?sslpassword=f&application_name=g") == "postgres://a@d:1/e?application_name=g"


def test_the_address_comes_from_the_environment(tmp_path):
    SQLite(tmp_path / "env.db", serve=True).close()
    environment = os.environ | {"BELATED_DATABASE": str(tmp_path / "env.db")}
    command = [sys.executable, "-m", "belated.cli", "token", "create", "web"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert "web\t" in said("token", "list", "--database", tmp_path / "env.db")


def test_a_traceback_on_a_terminal_shows_no_variables(monkeypatch):
    root = logging.getLogger()
    before = root.handlers, root.level
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    address = "postgresql://u:hunter" + str(2) + "@db/x"
    try:
        logs.start()
        try:
            address.nothing  # noqa: B018
        except AttributeError:
            record = logging.LogRecord("belated", logging.ERROR, "", 1, "failed", (), sys.exc_info())
        told = root.handlers[0].format(record)
    finally:
        root.handlers, root.level = before
    assert "AttributeError" in told and address not in told


def test_an_open_file_is_said(tmp_path, caplog):
    SQLite(tmp_path / "open.db", serve=True).close()
    _look_at(str(tmp_path / "open.db"))
    assert not caplog.messages
    (tmp_path / "open.db").chmod(0o644)
    _look_at(str(tmp_path / "open.db"))
    assert "can be read by others: chmod 600" in caplog.text
