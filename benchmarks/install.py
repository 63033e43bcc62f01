"""Makes what the benchmark runs against: the peers' environments and the compiled C++ loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE / ".venv-peers"


class MissingError(Exception):
    """Something to compare with could not be made; the message is the one line that the table shows."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment of peers, installed one by one: a failure leaves the others alone."""

    name: str
    peers: dict[str, list[str]]
    """Peer to the arguments of the ``pip install`` calls that bring it in, one call per entry."""
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """The interpreter inside."""
        folder = PEERS / self.name
        return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"

    def prepare(self) -> None:
        """Install what is not there yet; what fails is kept in ``failed`` and tried again next time."""
        record = PEERS / self.name / "installed.json"
        installed = json.loads(record.read_text()) if record.exists() and self.python.exists() else {}
        todo = {peer: calls for peer, calls in self.peers.items() if installed.get(peer) != calls}
        if not todo:
            return
        print(
            f"installing into {self.python.parent.parent.relative_to(HERE.parent)}: {', '.join(todo)}",
            flush=True,
        )
        try:
            if not installed:
                check([sys.executable, "-m", "venv", "--clear", str(PEERS / self.name)])
        except MissingError as error:
            self.failed.update(dict.fromkeys(todo, f"no environment: {error}"))
            return
        for peer, calls in todo.items():
            try:
                for call in calls:
                    check([str(self.python), "-m", "pip", "install", "--quiet", *call.split()])
                installed[peer] = calls
            except MissingError as error:
                self.failed[peer] = f"not installed: {error}"
        record.write_text(json.dumps(installed, indent=1))


MAIN = Environment(
    "main",
    {
        "pymab": ["pymab==2.0.1"],
        "river": ["river==0.26.1"],
        "banditlab": ["banditlab==1.1.0"],
        "mabwiser": ["mabwiser==2.7.4"],
    },
)
# SMPyBandits (2019) imports names that newer SciPy dropped; its other dependencies are not used here.
OLDER = Environment(
    "older",
    {
        "smpybandits": [
            "numpy==1.23.5 scipy==1.10.1 matplotlib==3.7.5 seaborn==0.12.2 joblib==1.3.2",
            "--no-deps SMPyBandits==0.9.7",
        ]
    },
)

# What the service is compared with.
SERVICE = Environment("service", {"optuna": ["optuna==5.0.0"]})


def environment_of(peer: str) -> Environment:
    """The environment a peer lives in; raises MissingError where it could not be installed."""
    environment = OLDER if peer in OLDER.peers else MAIN
    if peer in environment.failed:
        raise MissingError(environment.failed[peer])
    return environment


def compile_reference(folder: Path) -> Path:
    """Compile the C++ loops into a folder, for this very machine: one replication, and many side by side."""
    compiler = os.environ.get("CXX", "g++")
    flags = ["-O3", "-march=native", "-std=c++17"]
    check([compiler, *flags, str(HERE / "reference.cpp"), "-o", str(folder / "reference")])
    check([compiler, *flags, "-ffast-math", str(HERE / "lanes.cpp"), "-o", str(folder / "lanes")])
    return folder / "reference"


def compile_by_hand(folder: Path, gpu: bool) -> Path:
    """Compile the CUDA program into a folder: for this machine's GPU, or for its CPU, where it is checked."""
    program = folder / ("by_hand" if gpu else "by_hand_on_cpu")
    compiler = os.environ.get("NVCC", "nvcc") if gpu else os.environ.get("CXX", "g++")
    flags = ["-O3", "-fmad=false", "-arch=native"] if gpu else ["-O2", "-ffp-contract=off", "-x", "c++"]
    check([compiler, "-std=c++17", *flags, str(HERE / "by_hand.cu"), "-o", str(program)])
    return program


def check(command: list[str]) -> None:
    """Run a command quietly; its last line of complaint becomes the MissingError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(str(error)) from error
    if done.returncode != 0:
        raise MissingError(last_line(done.stderr) or f"{command[0]} ended with {done.returncode}")


def last_line(text: str) -> str:
    """The last line that says something: an error where there is one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [""])[-1]
