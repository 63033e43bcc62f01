"""Where a log is: files, folders, patterns, addresses, and frames of every kind; scanned, not held in memory.

| given | meaning |
|---|---|
| a file | `.csv`, `.tsv`, `.parquet`, `.pq`, `.jsonl`, `.ndjson`; the text ones also as `.gz` and `.zst` |
| a folder | all such files in it and below, of one kind; `day=2026-01-31` in a path of Parquet files is a column |
| a pattern | `logs/2026-*.csv.gz`; `**` is any folders |
| a list of these | all of them |
| an address | `s3://...`, `https://...`: whatever the installed polars can read |
| a frame | polars (eager or lazy), pandas, Arrow, a DuckDB relation, whatever hands over Arrow; a dictionary; rows |
"""

from __future__ import annotations

import glob
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from belated import require
from belated.errors import InvalidArgument

#: Kinds of file, by the end of the name; after it a text file may say how it is packed.
FORMATS = {"csv": "csv", "tsv": "csv", "parquet": "parquet", "pq": "parquet", "jsonl": "jsonl", "ndjson": "jsonl"}
PACKED = ("gz", "zst")
#: What a person can call a kind of file.
KINDS = ("csv", "parquet", "jsonl")


def collect(frame: pl.LazyFrame) -> pl.DataFrame:
    """Run a query in pieces that fit into memory."""
    return frame.collect(engine="streaming")


@contextmanager
def plain_reading(source: Any) -> Iterator[None]:
    """What polars says about a file that it cannot read, as one of our errors."""
    try:
        yield
    except pl.exceptions.NoDataError:
        raise InvalidArgument(f"{_named(source)} is empty") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidArgument(f"{_named(source)} cannot be read: {said}") from None


def scan(
    source: Any, file_format: str | None = None, text: Collection[str] = (), shelf: Shelf | None = None
) -> pl.LazyFrame:
    """A log as a lazy frame. Columns in `text` stay as they are written in text files, for us to read.

    What comes in pieces, and once, is put on the shelf, or into memory if there is none.
    """
    if file_format is not None:
        require.one_of("format", file_format, KINDS)
    if isinstance(source, pl.LazyFrame):
        return source
    with plain_reading(source):
        if isinstance(source, str | Path):
            return (
                _address(str(source), file_format, text) if _is_address(source) else _read([source], file_format, text)
            )
        if isinstance(source, list | tuple) and source and all(isinstance(each, str | Path) for each in source):
            return _read(source, file_format, text)
        return _frame(source, shelf)


def _named(source: Any) -> str:
    if _is_address(source):
        return f"the address {str(source)!r}"
    return repr(str(source)) if isinstance(source, str | Path) else "the log"


# --- files ---


def _is_address(source: Any) -> bool:
    return isinstance(source, str) and "://" in source


def _kind(name: str) -> str | None:
    """What a file holds, by its name."""
    ends = name.lower().rsplit("/", 1)[-1].split(".")[1:]
    if len(ends) > 1 and ends[-1] in PACKED:
        ends.pop()
    return FORMATS.get(ends[-1]) if ends else None


def _read(sources: Sequence[str | Path], file_format: str | None, text: Collection[str]) -> pl.LazyFrame:
    paths = [path for source in sources for path in _files(source, file_format)]
    unknown = [path for path in paths if _kind(path.name) is None]
    if unknown and file_format is None:
        ends = f".{', .'.join(FORMATS)}"
        raise InvalidArgument(f"{str(unknown[0])!r} must end in one of {ends}, or its format must be given")
    kinds = {_kind(path.name) or str(file_format): path for path in paths}
    if len(kinds) > 1:
        told = ", ".join(f"{path.name!r} is {kind}" for kind, path in kinds.items())
        raise InvalidArgument(f"a log must be of one kind, {told}: choose with a pattern, such as 'folder/*.csv'")
    filled = [path for path in paths if path.stat().st_size]
    if not filled:
        raise InvalidArgument(f"{str(sources[0])!r} is empty")
    single = len(sources) == 1 and Path(sources[0]).is_file()
    return _scanned(filled, next(iter(kinds)), text, single)


def _files(source: str | Path, file_format: str | None) -> list[Path]:
    """The files of one source, in order."""
    path = Path(source).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        below = (each for each in sorted(path.rglob("*")) if each.is_file() and not _hidden(each.relative_to(path)))
        found = [each for each in below if file_format is not None or _kind(each.name) is not None]
        if not found:
            raise InvalidArgument(
                f"the folder {str(source)!r} holds no file that ends in one of .{', .'.join(FORMATS)}"
            )
        return found
    if any(sign in str(source) for sign in "*?["):
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True)) if Path(name).is_file()]
        if not found:
            raise InvalidArgument(f"no file is called {str(source)!r}")
        return found
    raise InvalidArgument(f"there is no file {str(source)!r}")


def _hidden(path: Path) -> bool:
    """What programs leave beside data, such as _SUCCESS and .part-0.crc."""
    return any(part.startswith((".", "_")) and "=" not in part for part in path.parts)


def _scanned(paths: list[Path], kind: str, text: Collection[str], single: bool) -> pl.LazyFrame:
    if kind == "parquet":
        if single:
            return pl.scan_parquet(paths[0], hive_partitioning=False)
        schemas = [pl.read_parquet_schema(path) for path in paths]
        if all(schema == schemas[0] for schema in schemas):
            return pl.scan_parquet(paths, hive_partitioning=True)
        each = [pl.scan_parquet(path, hive_partitioning=True) for path in paths]
    else:
        each = [_lines(path, kind, text) for path in paths]
    return each[0] if len(each) == 1 else pl.concat(each, how="diagonal_relaxed")


def _lines(path: Path | str, kind: str, text: Collection[str]) -> pl.LazyFrame:
    if kind == "jsonl":
        return pl.scan_ndjson(path, infer_schema_length=None)  # a key may be first seen late
    separator = "\t" if ".tsv" in str(path).lower()[-8:] else ","
    # polars would guess which of two numbers is the month, and what a column holds from its first rows
    overrides = dict.fromkeys(text, pl.String)
    return pl.scan_csv(path, separator=separator, schema_overrides=overrides, infer_schema_length=10_000)


def _address(address: str, file_format: str | None, text: Collection[str]) -> pl.LazyFrame:
    """What is elsewhere, read by polars if it can."""
    kind = _kind(address.split("?")[0]) or file_format
    if kind is None:
        raise InvalidArgument(f"the format of the address {address!r} must be given: {', '.join(KINDS)}")
    found = pl.scan_parquet(address) if kind == "parquet" else _lines(address, kind, text)
    found.collect_schema()
    return found


# --- frames ---


class Shelf:
    """A folder for what must be read several times and can be had once; it goes when nobody holds it any more."""

    def __init__(self) -> None:
        self._count = 0
        self._folder: Path | None = None

    def place(self) -> Path:
        """Where to put the next thing."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="belated-log-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._count += 1
        return self._folder / f"{self._count}.parquet"

    def keep(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The rows of a query that takes long, computed once."""
        path = self.place()
        frame.sink_parquet(path, compression="lz4", row_group_size=100_000)
        return pl.scan_parquet(path)


def _frame(source: Any, shelf: Shelf | None) -> pl.LazyFrame:
    try:
        return _known_frame(source, shelf)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else "it is none"
        given = type(source).__name__
        raise InvalidArgument(f"a log is a file, a folder or a frame, got {given}: {said}") from None


def _known_frame(source: Any, shelf: Shelf | None) -> pl.LazyFrame:
    if isinstance(source, pl.DataFrame):
        return source.lazy()
    if hasattr(source, "reset_index") and hasattr(source, "columns"):  # pandas
        named = any(name is not None for name in source.index.names)
        return pl.from_pandas(source.reset_index() if named else source).lazy()
    if hasattr(source, "__arrow_c_stream__"):
        return pl.DataFrame(source).lazy() if shelf is None or hasattr(source, "nbytes") else _stored(source, shelf)
    for way in ("to_arrow_table", "arrow"):  # DuckDB, before it spoke the protocol
        if callable(getattr(source, way, None)):
            return _known_frame(getattr(source, way)(), shelf)
    if not isinstance(source, Mapping | Sequence) or isinstance(source, str | bytes):
        raise TypeError("there is no way to its rows")
    return pl.DataFrame(source, infer_schema_length=None).lazy()


def _stored(stream: Any, shelf: Shelf) -> pl.LazyFrame:
    """What comes in pieces (a DuckDB relation, a reader), piece by piece onto the shelf."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, reader = shelf.place(), pa.RecordBatchReader.from_stream(stream)
    with pq.ParquetWriter(path, reader.schema, compression="lz4") as writer:
        for batch in reader:
            writer.write_batch(batch)
    return pl.scan_parquet(path)
