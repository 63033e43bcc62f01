"""One reader of logs, for audit and replay.

`source.py` finds where a log is (files, folders, patterns, addresses, frames of every kind) and scans it without
holding it in memory; `times.py` reads clocks and `numbers.py` numbers, the same way everywhere; `join.py` puts
decisions and feedback together that are in two tables; `table.py` says which column is what; `look.py` looks through a
log once and tells what is wrong with it.
"""

from belated.logs.look import Look, look
from belated.logs.source import collect, plain_reading, scan
from belated.logs.table import EXPORT, Table, columns_of, open_table
from belated.logs.words import many, show_moment

__all__ = [
    "EXPORT",
    "Look",
    "Table",
    "collect",
    "columns_of",
    "look",
    "many",
    "open_table",
    "plain_reading",
    "scan",
    "show_moment",
]
