"""What README and the examples show runs as shown."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from belated.studies import Study

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def run(arguments, folder):
    ran = subprocess.run([sys.executable, "-W", "error", *arguments], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_readme_example(number, tmp_path):
    said = run(["-c", BLOCKS[number]], tmp_path)
    assert len(BLOCKS) == 7
    if number == 0:
        assert said.strip() == "0 1 2"
    if number == 1:
        assert "QPMD(UCB1(actions=3))" in said and "True" in said and (tmp_path / "regret.png").exists()
    if number == 2:
        assert "shape: (4, 15)" in said and (tmp_path / "results" / "mine" / "cells").is_dir()
    if number == 3:
        assert "easy" in said and "QPMD(CBP(" in said


PAGES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("block", PAGES)
def test_page(block, tmp_path):
    run(["-c", block], tmp_path)


@pytest.mark.parametrize("study", [*TOML, (ROOT / "examples" / "study.toml").read_text()])
def test_study(study):
    assert len(Study.parse(study).cells) >= 18


def test_notebook(tmp_path):
    """What it prints is what it shows."""
    cells = [
        c for c in json.loads((ROOT / "examples" / "delay.ipynb").read_text())["cells"] if c["cell_type"] == "code"
    ]
    shown = [line for cell in cells for out in cell["outputs"] for line in out.get("text", ())]
    said = run(["-c", "\n".join("".join(cell["source"]) for cell in cells)], tmp_path)
    assert said == "".join(shown) and any("image/png" in out.get("data", ()) for out in cells[3]["outputs"])


def test_docstrings_become_markdown():
    hook = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    pages = importlib.util.module_from_spec(hook)
    hook.loader.exec_module(pages)
    text = "E G*_n of `x_t` in [0, 1], *A title*, [page](a_b.md).\n\n    code_x * 2\n\n>>> f([1])\n[1]"
    said = r"E G\*\_n of `x_t` in \[0, 1\], *A title*, [page](a_b.md)."
    assert pages.markdown(text) == said + "\n\n    code_x * 2\n\n```pycon\n>>> f([1])\n[1]\n```"


# shop.py needs a service: tests/test_client.py runs it.
EXAMPLES = sorted(set((ROOT / "examples").glob("*.py")) - {ROOT / "examples" / "shop.py"})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_example(example, tmp_path):
    assert run([str(example)], tmp_path)
