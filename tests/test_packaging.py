"""Wheel and sdist build, install and work; `import belated` is light; the command line does what it says."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import belated as bl
from belated.cli import app

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", out, ROOT], check=True, capture_output=True)
    return out


def test_wheel_holds_the_package_and_its_types(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "belated/py.typed" in names and "belated/forecasters/bold.py" in names
    prose = {path.relative_to(ROOT).as_posix() for path in (ROOT / "belated" / "studies").rglob("*.html")}
    assert len(prose) > 20 and prose | {"belated/report/page.css"} <= set(names)
    assert not any(name.startswith(("tests", "benchmarks")) for name in names)


def test_sdist_holds_what_is_needed_to_test(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"belated/__init__.py", "tests/broken.py", "Makefile", "LICENSE", "README.md"} <= names
    assert not any(".venv" in name for name in names)


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_installed_package_works_outside_the_checkout(built, tmp_path, kind):
    (package,) = built.glob(kind)
    # The dependencies come from this environment; only belated itself is installed anew.
    venv.create(tmp_path / "env", with_pip=False)
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, package]
    subprocess.run(install, check=True, capture_output=True)
    program = (
        "import belated as bl; f = bl.BOLD(bl.Exp3(actions=4), seed=7); d = f.predict(); f.update(d.ticket, 1.0);"
        "print(bl.__file__, bl.from_bytes(f.to_bytes()).instances)"
    )
    environment = os.environ | {"PYTHONPATH": str(site)}
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert str(site) in ran.stdout and ran.stdout.split()[-1] == "1"


def test_import_is_light():
    heavy = ("matplotlib", "polars", "typer", "rich", "scipy.special", "scipy.optimize")
    program = f"import belated, sys; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "[]"


def test_an_unwritable_place_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    ran = CliRunner().invoke(app, ["paper", "--out", str(tmp_path / "file" / "below")])
    assert ran.exit_code == 1 and "file" in ran.output


def test_catalog_lists_everything_with_a_line_each():
    ran = CliRunner().invoke(app, ["catalog"])
    assert ran.exit_code == 0
    for name in ("bold", "qpmd", "direct", "ucb1", "hedge", "delayeducb1", "geometric", "rewardtable"):
        assert name in ran.output


def test_version_is_told():
    assert CliRunner().invoke(app, ["--version"]).output.strip() == f"belated {bl.__version__}"


def test_a_mistyped_command_is_a_clear_error():
    ran = CliRunner().invoke(app, ["papper"])
    assert ran.exit_code == 2 and "papper" in ran.output
