"""What deploy/ and the Dockerfile say is so: variables and options exist, commands run, the proxies' settings work."""

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from belated.client import Client
from belated.service.helping import SECRETS
from tests.postgres import absent
from tests.test_options import COMMANDS, SHARED
from tests.test_service import Server, said

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
#: Variables that are no option.
OTHERS = {"BELATED_CACHE_DIR", "BELATED_TOKEN", *(f"{name}_FILE" for name in SECRETS)}
NGINX = "/usr/sbin/nginx"


def variables():
    """Every variable that some command looks at."""
    known = OTHERS | set(SHARED.values())
    for words, command in COMMANDS.items():
        for option in command.params:
            known.add("_".join(["BELATED", *words, max(option.opts, key=len).strip("-")]).replace("-", "_").upper())
    return known


@pytest.mark.parametrize(
    "file",
    [
        "Dockerfile",
        "deploy/compose.yaml",
        "deploy/belated.service",
        "docs/deploy.md",
        "docs/service.md",
        "docs/security.md",
    ],
)
def test_variables_that_are_named_exist(file):
    text = (ROOT / file).read_text().replace("Not `BELATED_PORT`", "")  # the page says why not
    named = set(re.findall(r"\b(?:BELATED|PGPASSWORD)_[A-Z_]*[A-Z]\b", text))
    assert named and named <= variables(), named - variables()


@pytest.mark.parametrize("file", ["deploy/nginx.conf", "deploy/Caddyfile", "docs/deploy.md"])
def test_options_that_are_named_exist(file):
    known = {option for command in COMMANDS.values() for each in command.params for option in each.opts}
    for line in re.findall(r"belated serve ([^`\n]*)", (ROOT / file).read_text()):
        given = {word for word in line.split() if word.startswith("--")}
        assert given <= known, given - known


# --- the image ---


def instructions(name):
    return [line.split(None, 1)[1] for line in DOCKERFILE.splitlines() if line.startswith(f"{name} ")]


def test_the_image_is_nobodys(tmp_path):
    last = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]
    (user,) = re.findall(r"^USER (\S+)", last, re.M)
    uid = user.partition(":")[0]
    assert int(uid) > 0 and f"--uid {uid} " in last
    assert "pip wheel" not in last and len(instructions("FROM")) == 2
    shown = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]]
    assert sorted(copied) == sorted(shown) and all((ROOT / name).exists() for name in copied)


def test_the_command_and_the_health_check_of_the_image_run(tmp_path):
    """With the image's variables, except where they name its folders and its port."""
    given = dict(pair.split("=", 1) for pair in shlex.split(instructions("ENV")[0]))
    assert given["BELATED_SERVE_HOST"] == "0.0.0.0"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = {name: value for name, value in given.items() if name != "PATH"}
    environment |= {"BELATED_DATABASE": str(tmp_path / "x.db"), "BELATED_SERVE_PORT": port}
    environment |= {"BELATED_CACHE_DIR": os.environ.get("BELATED_CACHE_DIR", str(tmp_path))}
    environment = os.environ | environment
    words = json.loads(instructions("ENTRYPOINT")[0]) + json.loads(instructions("CMD")[0])
    assert words == ["belated", "serve"]
    serve = [sys.executable, "-m", "belated.cli", *words[1:]]
    refused = subprocess.run(serve, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1 and "there is no token" in refused.stderr
    said("token", "create", "me", "--scope", "admin", "--database", tmp_path / "x.db")
    (check,) = re.findall(r"CMD (\[.*\])", instructions("HEALTHCHECK")[0])
    health = [sys.executable, *json.loads(check)[1:]]
    assert subprocess.run(health, env=environment, capture_output=True).returncode == 1  # nobody there yet
    process = subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert f":{port}" in process.stdout.readline()
        proxied = environment | {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
        assert subprocess.run(health, env=proxied).returncode == 0
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_the_composition_fits_together():
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        for name, value in service["environment"].items():
            if name.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"]
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"} and "healthcheck" in services[other]
    ours = services["service"]
    assert (DEPLOY / ours["build"]["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert ours["environment"]["BELATED_DATABASE"] == "postgresql://belated@database/belated"
    assert ours["volumes"] == [f"service:{instructions('VOLUME')[0]}"]
    assert all(port.startswith("127.0.0.1:") for port in ours["ports"])
    ignored = (ROOT / ".gitignore").read_text()
    assert "/deploy/" + Path(COMPOSE["secrets"]["database_password"]["file"]).name in ignored


# --- systemd ---


def test_the_unit_is_one(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "belated.service").read_text()
    assert "ExecStart=/opt/belated/bin/belated serve\n" in text
    unit = tmp_path / "belated.service"
    unit.write_text(text.replace("/opt/belated/bin/belated", sys.executable))
    ran = subprocess.run([analyze, "verify", unit], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


# --- nginx ---


@pytest.fixture
def proxied(tmp_path):
    """The service behind nginx with the settings that we recommend, for both kinds of paths."""
    if not Path(NGINX).exists():
        absent("nginx is not installed: `make services` installs it")
    made = []

    def start(keep):
        token = said("token", "create", "me", "--scope", "admin", "--database", tmp_path / "x.db").strip()
        text = (DEPLOY / "nginx.conf").read_text()
        (options,) = re.findall(r"belated serve (.*)", text)
        server = Server(tmp_path / "x.db", *options.split(), "--access-log")
        made.append(server)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        text = text.replace("server 127.0.0.1:8000;", f"server 127.0.0.1:{server.http.base_url.port};")
        text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;")
        text = text.replace("/etc/ssl/decisions.example.pem", str(certificate))
        text = text.replace("/etc/ssl/decisions.example.key", str(key))
        if keep:
            text = text.replace("proxy_pass http://belated/;", "proxy_pass http://belated;")
        paths = "".join(
            f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        whole = (
            f"daemon off; pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {paths}\n{text} }}"
        )
        (tmp_path / "nginx.conf").write_text(whole)
        nginx = [NGINX, "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
        made.append(subprocess.Popen(nginx, stderr=subprocess.DEVNULL))
        context = ssl.create_default_context(cafile=str(certificate))
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert time.monotonic() < until and made[-1].poll() is None
                time.sleep(0.05)
        return server, f"https://localhost:{port}/belated", token, context

    yield start
    for each in reversed(made):
        if isinstance(each, Server):
            if each.process.poll() is None:
                each.end()
        else:
            each.terminate()
            each.wait(10)


@pytest.mark.minutes
@pytest.mark.parametrize("keep", [False, True])
def test_behind_nginx(proxied, keep, monkeypatch):
    server, url, token, context = proxied(keep)
    with httpx.Client(verify=context, headers={"authorization": f"Bearer {token}"}) as http:
        assert http.get(f"{url}/ready").json()["status"] == "ok"
        assert http.get(url).status_code in (301, 308)
        page = http.get(f"{url}/")
        for link in re.findall(r"(?:href|src)=['\"]([^'\"#]+)['\"]", page.text):
            assert http.get(page.url.join(link)).status_code == 200, link
        document = http.get(f"{url}/openapi.json").json()
        assert document["servers"] == [{"url": "/belated"}]
        one = http.get(
            f"{url}/v1/experiments", headers={"X-Forwarded-For": "198.51.100.1"}
        )  # a client's own counts not
        assert one.status_code == 200 and re.fullmatch("[0-9a-f]{32}", one.headers["x-request-id"])
        assert http.post(f"{url}/v1/experiments", content=b"x" * 2_000_000).status_code == 413
    monkeypatch.setenv("SSL_CERT_FILE", str(server.file.parent / "certificate.pem"))
    with Client(url, token) as client:
        client.create("ads", ["a", "b"], "bold(exp3)")
        made = client.decide("ads", count=5)
        assert {each.status for each in client.feedback("ads", [(each, 1.0) for each in made])} == {"applied"}
    lines = [json.loads(line) for line in server.end()[1].splitlines()]
    (line,) = [line for line in lines if line.get("request") == one.headers["x-request-id"]]
    assert line["address"] == "127.0.0.1" and line["token"] == "me"
    assert line["path"] == ("/belated/v1/experiments" if keep else "/v1/experiments")
