"""The dashboard: a page without a framework that asks the API every other second. The server only hands out its files.

index.html   what is there before anything is known
page.js      routes, polling, the token, what is shown when there is no connection
overview.js  all experiments
detail.js    one experiment
machines.js  who writes to the database, and who did what
settings.js  the rules of an experiment, to change them
features.js  what its contexts are made of
charts.js    uPlot as it is used here, and small drawings
words.js     numbers, times and elements
vendor/      uPlot 1.6.32 as it was published, with its licence
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

KINDS = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
INDEX = "index.html"
NAMES = (
    INDEX,
    *("page.js", "overview.js", "detail.js", "machines.js", "settings.js", "features.js", "charts.js", "words.js"),
    *("page.css", "icon.svg"),
    *("vendor/uPlot.iife.min.js", "vendor/uPlot.min.css"),
)


@cache
def find(name: str) -> tuple[bytes, bytes] | None:
    """A file and what kind it is; None if it is none of ours."""
    if name not in NAMES:
        return None
    return files(__name__).joinpath(name).read_bytes(), KINDS[name[name.rindex(".") :]]
