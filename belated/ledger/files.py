"""Files with what people decided, which are nobody else's business."""

from __future__ import annotations

import os

from belated.errors import InvalidState


def make_private(file: str) -> None:
    """An empty file that only its owner can read, whatever the umask says. What else writes there keeps that."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise InvalidState(f"{file} exists already") from None
