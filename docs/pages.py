"""Pages made when the site is built: one for each learner, one for forecasters, one for games and delay laws, one for
the checks, one for the adapters, and the signatures of everything else; and docstrings as Markdown."""

from __future__ import annotations

import importlib
import inspect
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import belated as bl
from belated import catalog, checks
from belated.adapters import MODULES
from belated.advise.report import Advice
from belated.audit.report import Audit
from belated.client import AsyncClient, Client
from belated.engine.certificate import Certificate
from belated.errors import Unsupported
from belated.features import Boolean, Category, Hashed, Ignored, Intercept, Number
from belated.forecasters.batches import batches
from belated.kernels import matern, squared_exponential
from belated.replay import Answer, Replay, read_log

FEEDBACK = {
    "bandit": "its own reward",
    "full": "the rewards of all actions",
    "symbol": "a symbol",
    "any": "anything",
    "gradient": "the gradient of the loss at its point",
}
#: What the page of signatures has, part after part. Of modules all public functions are shown, of classes all members.
API = {
    "Play": (bl.play, bl.Result, Certificate),
    "Features": (bl.Features, Number, Category, Hashed, Boolean, Intercept, Ignored),
    "Studies": (bl.studies.Study, bl.studies.Results, bl.studies.Local),
    "Bounds": (bl.bounds,),
    "Advice": (bl.advise, Advice),
    "Logs": (bl.audit, Audit, bl.replay, Replay, Answer, read_log),
    "Writing your own": (bl.Learner, bl.Forecaster, bl.Game, bl.Delays, bl.PlainLearner, bl.Decision, bl.kernel),
    "The clients of a service": (Client, AsyncClient),
}
#: Code in a docstring, which stays as it is, and links.
KEPT = re.compile(r"``.+?``|`[^`]+`|\[[^\]\n]+\]\([^)\n]+\)|<https?://[^>\s]+>", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in _pages().items():
        files.append(File.generated(config, name, content=text))
    return files


class Docstrings(griffe.Extension):
    """Docstrings are written to be read in an editor and by doctest; here they become Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(inspect.cleandoc(obj.docstring.value))


def markdown(text: str) -> str:
    """A docstring as Markdown: its examples are code, and the signs of its formulas (G*, R_n, [0, 1]) are signs."""
    parts = []
    for examples, lines in groupby(text.split("\n\n"), key=lambda part: part.startswith(">>> ")):
        for part in lines:
            if examples:
                parts.append(f"```pycon\n{part}\n```")
            elif part.startswith("    "):
                parts.append(part)
            else:
                parts.append(_literal(part))
    return "\n\n".join(parts)


def _literal(text: str) -> str:
    """Text with the signs of its formulas kept from meaning something in Markdown; code and links stay."""
    parts, at = [], 0
    for kept in KEPT.finditer(text):
        parts += [_escaped(text[at : kept.start()]), kept.group()]
        at = kept.end()
    return "".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> str:
    text = re.sub(r"\b([A-Za-z])\*(?!\*)", r"\1\\*", text)
    return re.sub(r"([\[\]_])", r"\\\1", text).replace("<", "&lt;")


def _pages() -> dict[str, str]:
    pages = {"learners.md": _index(), "forecasters.md": _forecasters(), "games.md": _worlds(), "checks.md": _checks()}
    pages |= {"api.md": _api(), "adapters.md": _adapters(), "other-languages.md": _other_languages()}
    for made in catalog.LEARNERS.values():
        pages[f"learners/{made.__name__.lower()}.md"] = _learner(made)
    return pages


def _first(made: Any) -> str:
    """The first line of a docstring, for the cell of a table."""
    return _cell((inspect.getdoc(made) or "").partition("\n")[0])


def _cell(text: str) -> str:
    return _literal(text).replace("|", r"\|")


def _path(made: Any) -> str:
    return f"{made.__module__}.{made.__qualname__}"


def _index() -> str:
    rows = [
        f"| [{made.__name__}](learners/{name}.md) | {_first(made)} | {_cell(made.guarantee)} |"
        for name, made in sorted(catalog.LEARNERS.items())
    ]
    table = "\n".join(["| learner | what it does | bound without delay |", "|---|---|---|", *rows])
    return f"# Learners\n\nEvery learner plays under a forecaster: `bl.BOLD(bl.Exp3(actions=4))`.\n\n{table}\n"


def _learner(made: Any) -> str:
    example = made.example()
    refused = [
        f"{kind.__name__} ({reason})" for kind in catalog.FORECASTERS.values() if (reason := _refusal(kind, example))
    ]
    lines = [
        f"# {made.__name__}",
        f"::: {_path(made)}",
        f"**Bound without delay**: {_literal(made.guarantee)}.  ",
        f"**Learns from**: {FEEDBACK[example.feedback]}.  ",
        f"**Takes a context**: {'yes' if example.context_size else 'no'}.  ",
        f"**Can replace an action**: {'yes' if example.replace is not None else 'no'}.  ",
        f"**Can take one more action**: {'yes' if example.with_actions(example.actions + 1) else 'no'}.  ",
        f"**Refused by**: {'; '.join(refused) or 'no forecaster'}.",
    ]
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:]) + "\n"


def _refusal(kind: Any, learner: Any) -> str:
    """Why a forecaster does not play a learner; empty if it does."""
    try:
        kind(learner)
    except Unsupported as error:
        return str(error).partition(": ")[2] or str(error)
    return ""


def _forecasters() -> str:
    rows = [
        f"| [{made.__name__}](#{_path(made)}) | {_first(made)} | {_cell(made.guarantee)} |"
        for made in catalog.FORECASTERS.values()
    ]
    table = "\n".join(["| forecaster | what it does | bound |", "|---|---|---|", *rows])
    parts = [
        f"::: {_path(made)}\n    options:\n      heading_level: 2" for made in (*catalog.FORECASTERS.values(), batches)
    ]
    return "\n\n".join(["# Forecasters", table, *parts]) + "\n"


def _worlds() -> str:
    parts = ["# Games and delays"]
    for title, table in (("Games", catalog.GAMES), ("Delay laws", catalog.DELAYS)):
        parts.append(f"## {title}")
        parts += [f"::: {_path(made)}\n    options:\n      heading_level: 3" for made in table.values()]
    parts.append("## Covariances\n\nFor `GaussianProcess`, and for the learner `GPUCB`.")
    parts += [f"::: {_path(made)}\n    options:\n      heading_level: 3" for made in (squared_exponential, matern)]
    return "\n\n".join(parts) + "\n"


def _checks() -> str:
    start = (
        "# Checks\n\nThe contracts that everything in belated keeps, for what you write yourself: see "
        "[add your own](extend.md). Each check raises `CheckFailed` with what is wrong."
    )
    parts = [start]
    for name, each in (
        ("check_plain", checks.PLAIN_CHECKS),
        ("check_learner", checks.LEARNER_CHECKS),
        ("check_forecaster", checks.FORECASTER_CHECKS),
        ("check_game", checks.GAME_CHECKS),
        ("check_delays", checks.DELAY_CHECKS),
    ):
        rows = [f"| `{check.__name__}` | {_first(check)} |" for check in each]
        table = "\n".join(["| it looks at | |", "|---|---|", *rows])
        parts += [f"::: {_path(getattr(checks, name))}", table]
    return "\n\n".join(parts) + "\n"


def _other_languages() -> str:
    parts = [
        "# curl and TypeScript\n\nEvery request of the service as a command and as a method. Both files are made from "
        "the service's OpenAPI text (`tools/other_languages.py`), and the tests run them. For retries, deadlines and "
        "fallbacks see [what the Python clients do](service.md#the-clients)."
    ]
    for file, language in (("client.sh", "sh"), ("client.ts", "ts")):
        text = (Path(__file__).parents[1] / "examples" / file).read_text()
        parts.append(f"## examples/{file}\n\n```{language}\n{text}```")
    return "\n\n".join(parts) + "\n"


def _api() -> str:
    start = (
        "# Signatures\n\nEverything in `belated` that people call, with what it takes. Elsewhere: "
        "[learners](learners.md), [forecasters](forecasters.md), [games and delay laws](games.md), "
        "[adapters](adapters.md), [checks](checks.md)."
    )
    parts = [start]
    for title, members in API.items():
        parts += [f"## {title}", *(_whole(inspect.getmodule(each), each) for each in members)]
    return "\n\n".join(parts) + "\n"


def _adapters() -> str:
    parts = ["# Adapters\n\nWhat they do, with examples: [for users of other libraries](wrappers.md)."]
    for name, (package, extra) in MODULES.items():
        module = importlib.import_module(f"belated.adapters.{name}")
        own = [value for key, value in vars(module).items() if not key.startswith("_")]
        public = [each for each in own if callable(each) and getattr(each, "__module__", "") == module.__name__]
        start = f"## {package}\n\n`bl.adapters.{name}`, with the extra `{extra}`."
        parts += [start, markdown(inspect.getdoc(module) or ""), *(_whole(module, each) for each in public)]
    parts += ["## Weights", "::: belated.adapters.copies.Weighted\n    options:\n      heading_level: 3"]
    return "\n\n".join(parts) + "\n"


def _whole(module: Any, made: Any) -> str:
    """The signature and description of something, and of what is in it."""
    path = made.__name__ if inspect.ismodule(made) else f"{module.__name__}.{made.__qualname__}"
    options = ["heading_level: 3", f"members: {_members(made)}"]
    if inspect.ismodule(made):
        options += ["show_root_heading: false", "show_root_toc_entry: false"]
    return "\n      ".join([f"::: {path}\n    options:", *options])


def _members(made: Any) -> list[str]:
    """What people may name in it: the functions of a module, all that a class defines."""
    if not isinstance(made, type) and not inspect.ismodule(made):
        return []
    own = {name: value for name, value in vars(made).items() if not name.startswith("_")}
    if inspect.ismodule(made):
        return [name for name, value in own.items() if inspect.isfunction(value)]
    fields = getattr(made, "__annotations__", {})
    return [name for name in {**fields, **own} if not name.startswith("_")]
