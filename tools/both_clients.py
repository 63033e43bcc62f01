"""Makes `belated/client/awaited.py` from `belated/client/waiting.py`: the same client, whose calls are awaited."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "belated" / "client"
#: What is written otherwise where calls are awaited, in this order.
RULES = (
    (r'"""The client whose calls wait.*?"""', '"""The client whose calls are awaited, `bl.AsyncClient`.\n\n'
     'Made from waiting.py by tools/both_clients.py: do not change this one."""'),
    (r"\bclass Client\b", "class AsyncClient"),
    (r"Threads may share a client;", "Tasks of one event loop may share a client;"),
    (r"\n    def (?!__init__|__repr__)", "\n    async def "),
    (r"__enter__", "__aenter__"),
    (r"__exit__", "__aexit__"),
    (r"limited\(httpx\.Client\((.*?)\)\)", r"httpx.AsyncClient(\1)"),
    (r"(?<!await )self\.(_call|_send|close|_http\.request)\(", r"await self.\1("),
    (r"self\._http\.close\(", "await self._http.aclose("),
    (r"with within\(", "async with asyncio.timeout("),
    (r"time\.sleep\(", "await asyncio.sleep("),
    (r"from belated\.client\.network import .*?\n", ""),
    (r"import secrets\nimport time\n", "import asyncio\nimport secrets\n"),
)  # fmt: skip


def made() -> str:
    """The text of the other client."""
    text = (FOLDER / "waiting.py").read_text()
    for pattern, new in RULES:
        text, count = re.subn(pattern, new, text, flags=re.DOTALL)
        assert count, f"{pattern} is nowhere in waiting.py"
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FOLDER / "awaited.py"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    (FOLDER / "awaited.py").write_text(made())
