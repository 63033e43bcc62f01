"""Finished cells on disk: one Parquet file each, written whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from belated.studies.cells import Table

#: The key of our own data in a file's metadata.
ABOUT = b"belated"


class Store:
    """A folder of finished cells. Several processes may use it at once.

    A file is written under another name and then renamed, so a process that is killed leaves a whole file or none. A
    file that is damaged all the same is not taken for a finished cell.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._count = itertools.count()
        self._sweep()

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.parquet"

    def has(self, key: str) -> bool:
        """Whether a cell is finished (and its file can be read)."""
        return self.path(key).exists() and self.load(key) is not None

    def save(self, key: str, table: Table) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        arrays = {name: _to_arrow(values) for name, values in table.columns.items()}
        made = pa.table(arrays).replace_schema_metadata({ABOUT: json.dumps(table.about).encode()})
        temporary = self.folder / f".{key}.{os.getpid()}.{next(self._count)}.tmp"
        try:
            pq.write_table(made, temporary, compression="zstd", write_page_checksum=True)
            temporary.replace(self.path(key))
        finally:
            temporary.unlink(missing_ok=True)

    def load(self, key: str) -> Table | None:
        """What was saved; None if nothing was, or if the file is damaged."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path(key)
        if not path.exists():
            return None
        try:
            made = pq.ParquetFile(path, page_checksum_verification=True).read()
            about = json.loads((made.schema.metadata or {})[ABOUT])
            columns = {name: _from_arrow(made.column(name)) for name in made.column_names}
        except (pa.ArrowException, OSError, KeyError, ValueError):
            return None
        return Table(columns, about)

    def _sweep(self) -> None:
        """Remove what processes that are gone have left half-written."""
        for path in self.folder.glob(".*.tmp"):
            if not _alive(path.name.split(".")[2]):
                with contextlib.suppress(OSError):
                    path.unlink()


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def _to_arrow(values: np.ndarray[Any, Any]) -> Any:
    """A vector as a column; an array with more axes as lists of fixed size."""
    import pyarrow as pa

    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in values.shape[:0:-1]:
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def _from_arrow(column: Any) -> np.ndarray[Any, Any]:
    import pyarrow as pa

    shape = [len(column)]
    flat = column.combine_chunks()
    while pa.types.is_fixed_size_list(flat.type):
        shape.append(flat.type.list_size)
        flat = flat.flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(shape)
