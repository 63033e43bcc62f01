"""The scripts of tools/ as they are, among programs that are not what they seem."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def test_pre_commit_runs_the_linters_of_make_lint() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    commands = [line.partition("$(BIN)/")[2].partition(" #")[0] for line in lint.splitlines()[1:]]
    assert [hook["entry"].removeprefix(".venv/bin/") for hook in hooks] == commands


SHELL = ["bash", "sh", "ls", "id", "mkdir", "tee", "dirname", "sed", "grep", "cat", "env"]


class Machine:
    """A folder of programs that a script finds, and another root: what is not in there is not installed."""

    def __init__(self, folder: Path) -> None:
        self.root, self.programs, self.calls = folder / "root", folder / "bin", folder / "calls"
        self.root.mkdir()
        self.programs.mkdir()
        for name in SHELL:
            known = shutil.which(name)
            assert known is not None
            (self.programs / name).symlink_to(known)
        self.program("sudo", 'exec "$@"')

    def program(self, name: str, script: str = "") -> Path:
        file = self.programs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        known = {
            "PATH": str(self.programs),
            "DESTDIR": str(self.root),
            "HOME": str(self.root),
            "CALLS": str(self.calls),
        }
        command = ["bash", str(ROOT / "tools" / script), *arguments]
        return subprocess.run(command, env=known, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# --- services.sh ---

INSTALL = "install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold"
NOTE = 'echo "$@" >> "$CALLS"'


@pytest.mark.parametrize("postgresql", ["absent", "debian", "path"])
@pytest.mark.parametrize("chromium", [False, True])
@pytest.mark.parametrize("nginx", [False, True])
def test_just_what_is_missing_is_installed(machine, postgresql, chromium, nginx):
    machine.program("apt-get", NOTE)
    if postgresql == "debian":
        initdb = machine.root / "usr/lib/postgresql/15/bin/initdb"
        initdb.parent.mkdir(parents=True)
        initdb.touch()
    elif postgresql == "path":
        machine.program("initdb")
    if chromium:
        machine.program("chromium")
    if nginx:
        machine.program(str(machine.root / "usr/sbin/nginx"))
    missing = " postgresql" * (postgresql == "absent") + " chromium" * (not chromium) + " nginx-light" * (not nginx)
    ran = machine.run("services.sh")
    settings = machine.root / "etc/postgresql-common/createcluster.conf"
    assert (ran.returncode, ran.stderr) == (0, "")
    if missing:
        assert machine.calls.read_text() == f"update -qq\n{INSTALL}{missing}\n"
        assert ran.stdout == f"services: installed{missing}\n"
    else:
        assert not machine.calls.exists() and ran.stdout == "services: PostgreSQL, chromium and nginx are installed\n"
    # No cluster of Debian's own beside those of the tests.
    if postgresql == "absent":
        assert settings.read_text() == "create_main_cluster = false\n"
    else:
        assert not settings.exists()


def test_settings_that_are_there_are_kept(machine):
    machine.program("apt-get")
    settings = machine.root / "etc/postgresql-common/createcluster.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("# mine\n")
    assert machine.run("services.sh").returncode == 0 and settings.read_text() == "# mine\n"


def test_elsewhere_than_on_debian_what_is_missing_is_named(machine):
    ran = machine.run("services.sh")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "services: install postgresql chromium nginx-light by hand: this is not Debian\n"


def test_what_cannot_be_installed_fails(machine):
    machine.program("apt-get", '[ "$1" = update ] || exit 100')
    ran = machine.run("services.sh")
    assert ran.returncode == 100 and "installed" not in ran.stdout


# --- pythons.sh ---


def python(version: str, why: str = "", name: str = "") -> str:
    """A Python that says this of itself."""
    return f"printf '{version}\\t/opt/{name or version}\\t/opt/{name or version}\\t{why}\\n'"


def test_one_python_of_each_version_is_found(machine):
    machine.program("python3", python("3.12"))
    machine.program("python3.11", "exit 127")
    machine.program("python3.12", python("3.12"))
    machine.program("python3.14", python("3.14"))
    machine.program("uv", f"echo {machine.root}")
    for folder, says in (
        ("pyenv/3.10.1", python("3.10")),
        ("pyenv/3.12.7", python("3.12", name="older")),
        ("pyenv/3.13.0t", python("3.13", "it is free-threaded", "free")),
        ("uv/cpython-3.13.2-linux", python("3.13")),
    ):
        kind, name = folder.split("/")
        place = machine.root / (f".pyenv/versions/{name}" if kind == "pyenv" else name) / "bin"
        place.mkdir(parents=True)
        machine.program(str(place / "python"), says)
    ran = machine.run("pythons.sh")
    assert (ran.returncode, ran.stdout) == (0, "3.12 /opt/3.12\n3.13 /opt/3.13\n")
    assert ran.stderr.splitlines() == [
        "pythons: 3.12 is /opt/3.12",
        "pythons: python3.11 left out: it does not run",
        "pythons: /opt/3.14 left out: pyproject.toml does not name 3.14",
        "pythons: /opt/3.10 left out: pyproject.toml does not name 3.10",
        "pythons: /opt/older left out: there is another 3.12",
        "pythons: /opt/free left out: it is free-threaded",
        "pythons: 3.13 is /opt/3.13",
        "pythons: 3.11 is named in pyproject.toml and was not found",
    ]


def test_this_python_says_what_it_is(machine):
    machine.program("python3", f'exec {sys.executable} "$@"')
    ran = machine.run("pythons.sh")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert ran.stdout == f"{version} {sys.executable}\n", ran.stderr


# --- fresh.sh ---

LOOK = "echo home: $(ls -A ~) $(ls ~/.config); ls -A /tmp | xargs echo tmp:; pwd; ls pyproject.toml; env; touch /tmp/{}"


@pytest.fixture
def home(tmp_path):
    for name in (".config/pip/pip.conf", ".cache/belated/compiled", ".pyenv/shims/python"):
        file = tmp_path / "home" / name
        file.parent.mkdir(parents=True)
        file.touch()
    return tmp_path / "home"


def look(home, mark, path=os.environ["PATH"]):
    known = {"HOME": str(home), "PATH": path, "RAY_TMPDIR": "/r", "TMPDIR": str(home), "PIP_NO_INPUT": "1"}
    command = ["bash", "tools/fresh.sh", "sh", "-c", LOOK.format(mark) + "; exit 3"]
    return subprocess.run(command, env=known, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def check(ran, home):
    """What holds with a namespace and without."""
    inside, tmp, folder, file, *rest = ran.stdout.splitlines()
    known = dict(line.split("=", 1) for line in rest if "=" in line)
    assert ran.returncode == 3
    assert inside == "home: .config pip" and folder == str(ROOT.resolve()) and file == "pyproject.toml"
    assert (known["PIP_CACHE_DIR"], known["PYENV_ROOT"]) == (str(home / ".cache/pip"), str(home / ".pyenv"))
    assert known["PIP_NO_INPUT"] == "1" and not {"RAY_TMPDIR", "TMPDIR", "BELATED_CACHE_DIR"} & set(known)
    return tmp.split()[1:]


def test_a_fresh_machine_has_nothing_but_the_checkout(home):
    left = Path("/tmp", f"left-{uuid4().hex}")
    ran = look(home, left.name)
    kept = [ROOT.resolve().parts[2]] if ROOT.resolve().is_relative_to("/tmp") else []
    tmp = check(ran, home)
    if "no mount namespace here" in ran.stderr:
        left.unlink()
    else:
        assert tmp == kept and not left.exists() and "with empty temporary folders" in ran.stderr


def test_without_a_namespace_the_log_says_so(home, machine):
    left = Path("/tmp", f"left-{uuid4().hex}")
    machine.program("unshare", "echo unshare: Operation not permitted >&2; exit 1")
    ran = look(home, left.name, f"{machine.programs}:{os.environ['PATH']}")
    check(ran, home)
    assert "an empty home folder only: no mount namespace here (unshare: Operation not permitted)" in ran.stderr
    left.unlink()
