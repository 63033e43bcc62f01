"""Forecasters are rules: nothing outside belated/forecasters asks which one it is."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import belated as bl

PACKAGE = Path(bl.__file__).parent
NAMES = {kind.__name__ for kind in bl.catalog.FORECASTERS.values() if kind.__module__.startswith("belated.")}
#: Where they are named because somebody chooses them: the paper's studies, variants of two, and what is made of them by
#: name; a shorthand of the catalog; what an adapter wraps by default; contracts about them.
CHOOSE = (
    "studies/paper/",
    "studies/field.py",
    "studies/variants.py",
    "catalog.py",
    "adapters/",
    "checks/",
    "forecasters/",
    "__init__.py",
)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))


def named(tree: ast.AST) -> set[str]:
    """Forecasters that code names: not in text."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= {node.name.rpartition(".")[2], node.asname or ""}
    return found & NAMES


def asks(tree: ast.AST) -> Iterator[str]:
    """Where an object is asked whether it is one of them: isinstance, issubclass, or its type compared."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            if any(named(argument) for argument in node.args[1:]):
                yield f"line {node.lineno}"
        elif isinstance(node, ast.Compare | ast.MatchClass) and named(node):
            yield f"line {node.lineno}"


def test_the_names_are_known() -> None:
    assert {"BOLD", "QPMD", "Direct", "Paced", "SDB"} <= NAMES


def test_nobody_asks_a_forecaster_which_one_it_is() -> None:
    found = {path: list(asks(tree)) for path, tree in trees() if not path.startswith("forecasters/")}
    assert not {path: places for path, places in found.items() if places}


def test_nothing_else_names_them() -> None:
    found = {path: named(tree) for path, tree in trees() if not path.startswith(CHOOSE)}
    assert not {path: names for path, names in found.items() if names}


def test_the_pages_do_not_ask_either() -> None:
    names = [name.lower() for name in NAMES]
    for file in [*(PACKAGE / "service").rglob("*.js"), *(PACKAGE / "service").rglob("*.html")]:
        text = file.read_text(encoding="utf-8")
        assert not [name for name in names if f'=== "{name}"' in text or f"\n  {name}:" in text], file


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(f, BOLD)",
        "issubclass(kind, (Direct, Paced))",
        "isinstance(f, forecasters.SDB | QPMD)",
        "type(f) is bl.QPMD",
        "match f:\n    case BOLD():\n        pass",
    ],
)
def test_asking_is_found(code: str) -> None:
    assert list(asks(ast.parse(code)))


def test_imports_go_one_way_without_exceptions() -> None:
    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert settings["contracts"]
    assert not [each["name"] for each in settings["contracts"] if each.get("ignore_imports")]
    assert "ignore_imports" not in settings
