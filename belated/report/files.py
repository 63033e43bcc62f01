"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder for {path.name}", str(path.parent))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
