"""Pages made when the site is built: one for each learner, one for forecasters, one for games and delay laws, one for
the checks."""

from __future__ import annotations

import inspect
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from belated import catalog, checks
from belated.errors import Unsupported
from belated.forecasters.batches import batches
from belated.kernels import matern, squared_exponential

FEEDBACK = {
    "bandit": "its own reward",
    "full": "the rewards of all actions",
    "symbol": "a symbol",
    "any": "anything",
    "gradient": "the gradient of the loss at its point",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, text in _pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def _pages() -> dict[str, str]:
    pages = {"learners.md": _index(), "forecasters.md": _forecasters(), "games.md": _worlds(), "checks.md": _checks()}
    for made in catalog.LEARNERS.values():
        pages[f"learners/{made.__name__.lower()}.md"] = _learner(made)
    return pages


def _first(made: Any) -> str:
    return (inspect.getdoc(made) or "").partition("\n")[0]


def _path(made: Any) -> str:
    return f"{made.__module__}.{made.__qualname__}"


def _index() -> str:
    rows = [
        f"| [{made.__name__}](learners/{name}.md) | {_first(made).replace('|', chr(92) + '|')} | {made.guarantee} |"
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
        f"**Bound without delay**: {made.guarantee}.  ",
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
        f"| [{made.__name__}](#{_path(made)}) | {_first(made).replace('|', chr(92) + '|')} | {made.guarantee} |"
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
        ("check_game", checks.GAME_CHECKS),
        ("check_delays", checks.DELAY_CHECKS),
    ):
        rows = [f"| `{check.__name__}` | {_first(check).replace('|', chr(92) + '|')} |" for check in each]
        table = "\n".join(["| it looks at | |", "|---|---|", *rows])
        parts += [f"::: {_path(getattr(checks, name))}", table]
    return "\n\n".join(parts) + "\n"
