"""A private PostgreSQL server for tests: a cluster in a temporary directory, on a socket of its own.

A test module that wants one imports the fixtures: `from tests.postgres import cluster, database  # noqa: F401`.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MISSING = "PostgreSQL is not installed: `make services` installs it"
_numbers = itertools.count()


def binaries() -> Path | None:
    """Where initdb and pg_ctl are, the newest of Debian's or what is on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    known = shutil.which("initdb")
    return Path(known).parent if known else None


def absent(reason: str) -> None:
    """Skip, or fail where everything must be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Cluster:
    """A server. PostgreSQL refuses to run as root: then it runs as the user `postgres`, or as `nobody`."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="belated-pg-"))
        self._prefix: list[str] = []
        if os.geteuid() == 0:
            names = {user.pw_name for user in pwd.getpwall()}
            user = "postgres" if "postgres" in names else "nobody"
            self._prefix = [
                "setpriv",
                f"--reuid={user}",
                f"--regid={pwd.getpwnam(user).pw_gid}",
                "--clear-groups",
                "--",
            ]
            shutil.chown(self.folder, user)
        self._data = self.folder / "data"
        self._call("initdb", "-D", self._data, "-U", "belated", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.start()

    def _call(self, program: str, *arguments: object) -> None:
        command = [*self._prefix, str(self._programs / program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}\n{self.log}")

    @property
    def log(self) -> str:
        file = self.folder / "log"
        return file.read_text() if file.exists() else ""

    def start(self) -> None:
        """Start it; fsync stays on."""
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c max_connections=100"
        self._call("pg_ctl", "-D", self._data, "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` is a crash."""
        self._call("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    @property
    def pids(self) -> list[int]:
        """Its processes, as they are now."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["ps", "--ppid", str(first), "-o", "pid="], capture_output=True, text=True)
        return [first, *map(int, found.stdout.split())]

    def url(self, name: str) -> str:
        """The address of one of its databases."""
        return f"postgresql://belated@/{name}?host={self.folder}"

    def new(self) -> str:
        """The address of a new, empty schema, which is as good as a database and made in no time."""
        import psycopg

        name = f"test_{next(_numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{self.url('postgres')}&options=-csearch_path%3D{name}"

    def standby(self) -> Cluster:
        """A server that follows this one and can only be read."""
        made = Cluster.__new__(Cluster)
        made._programs, made._prefix = self._programs, self._prefix
        made.folder = Path(tempfile.mkdtemp(prefix="belated-pg-"))
        if self._prefix:
            shutil.chown(made.folder, self.folder.owner())
        made._data = made.folder / "data"
        made._call(
            "pg_basebackup", "-h", self.folder, "-U", "belated", "-D", made._data, "-R", "-c", "fast", "--no-sync"
        )
        made.start()
        return made

    def remove(self) -> None:
        """Stop it for good."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A server for all tests of a process."""
    programs = binaries()
    if programs is None:
        absent(MISSING)
    assert programs is not None
    made = Cluster(programs)
    yield made
    made.remove()


@pytest.fixture
def database(cluster: Cluster) -> str:
    """The address of a new, empty place for tables."""
    return cluster.new()
