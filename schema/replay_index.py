"""The index as a Parquet file: one row per replay, columns of `replay_row.COLUMNS`.

In: rows. Out: Arrow tables; and rows again, a few thousand in memory at a time. An index that is
complete has a digest in its footer, which readers check: Parquet itself would not notice every
damaged byte.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starmill.schema import errors, storage
from starmill.schema.reasons import MmrSource, RejectReason
from starmill.schema.replay_row import (
    COLUMNS,
    NEW_COLUMNS,
    ReplayRow,
    columns_from_row,
    row_from_columns,
)

_ARROW = {
    "string": pa.string(),
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}
SCHEMA = pa.schema([pa.field(name, _ARROW[kind]) for name, kind in COLUMNS.items()])
_BATCH_ROWS = 16_384
# The footer's entry, a few bytes of its encoding, and the digest.
_DIGEST_KEY = "starmill.sha256"
_DIGEST = re.compile(rb"starmill\.sha256.{1,3}([0-9a-f]{64})", re.DOTALL)
_FOOTER_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20


def _one_of(values: Iterable[str]) -> tuple[str, str]:
    names = sorted(values)
    return rf"\A({'|'.join(names)})\z", f"one of {', '.join(names)}"


# Names of parts are made from ids, so an id is nothing but a hash.
_HASH = (r"\A([0-9a-f]{64})?\z", "a sha256 in hex")
_SOURCES = _one_of(MmrSource)
# What values of a column look like, as an expression of Arrow and in words.
_PATTERNS = {
    "replay_id": _HASH,
    "status": _one_of(["ok", *RejectReason]),
    "p1_mmr_source": _SOURCES,
    "p2_mmr_source": _SOURCES,
}
_REQUIRED = frozenset(
    ("replay_id", "file_stem", "source", "size_bytes", "status", "complete")
)


def sealable_schema() -> pa.Schema:
    """Returns the schema of a file that `seal` will give a digest."""
    return SCHEMA.with_metadata({_DIGEST_KEY: "0" * 64})


def seal(file: IO[bytes]) -> None:
    """Writes into a finished index a digest of all its other bytes, which readers check."""
    place = _digest_place(file)
    if place is None:
        raise errors.FormatError("expected an index with room for its digest")
    digest = _digest(file, place)
    file.seek(place)
    file.write(digest.encode())


def _digest_place(file: IO[bytes]) -> int | None:
    """Returns where the digest is in the file; None if it has none."""
    size = file.seek(0, os.SEEK_END)
    begin = max(0, size - _FOOTER_BYTES)
    file.seek(begin)
    # The last one: a text of the data could look like it.
    matches = list(_DIGEST.finditer(file.read()))
    return begin + matches[-1].start(1) if matches else None


def _digest(file: IO[bytes], place: int) -> str:
    """Returns the sha256 of the file, with zeros in place of the digest."""
    digest, at = hashlib.sha256(), 0
    file.seek(0)
    while piece := file.read(_PIECE_BYTES):
        data = bytearray(piece)
        for i in range(max(place, at), min(place + 64, at + len(data))):
            data[i - at] = ord("0")
        digest.update(data)
        at += len(data)
    return digest.hexdigest()


def _check_digest(file: IO[bytes], index: str) -> None:
    place = _digest_place(file)
    if place is None:
        return  # made by an earlier release
    file.seek(place)
    stored = file.read(64).decode()
    actual = _digest(file, place)
    if stored != actual:
        raise errors.FormatError(
            f"{index}: expected sha256 {stored}, found {actual}: it is damaged; make it "
            "again with `starmill index`"
        )


def table_from_rows(rows: Iterable[ReplayRow]) -> pa.Table:
    """Returns rows as an Arrow table with the index's columns."""
    return pa.Table.from_pylist([_encodable(row) for row in rows], SCHEMA)


def _encodable(row: ReplayRow) -> dict[str, Any]:
    # A file name need not be UTF-8; Parquet's strings are.
    return {
        name: value.encode("utf-8", "replace").decode()
        if isinstance(value, str)
        else value
        for name, value in columns_from_row(row).items()
    }


def read_rows(index: str) -> Iterator[ReplayRow]:
    """Yields the rows of an index in order.

    Raises ConfigError if there is no file at this path or URL, FormatError if it is not an index.
    """
    for batch in read_batches(index, list(COLUMNS)):
        for values in batch.to_pylist():
            yield row_from_columns(values)


def read_batches(index: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields some columns of an index, thousands of rows at a time; raises the same."""
    with opened(index) as content:
        yield from content.batches(columns)


class Index:
    """An open index, which can be read several times.

    Attributes:
        url: its path or URL.
    """

    def __init__(self, url: str, file: IO[bytes]) -> None:
        self.url = url
        self._file = file

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields some columns, thousands of rows at a time."""
        try:
            self._file.seek(0)
            file = pq.ParquetFile(self._file)
            names = set(file.schema_arrow.names)
            missing = sorted(set(COLUMNS) - names - set(NEW_COLUMNS))
            if missing:
                raise errors.FormatError(
                    f"{self.url}: expected an index of replays, but columns {missing} "
                    "are missing; make it again with `starmill index`"
                )
            # One row group after another: a reader of all of them holds on to those it has read.
            for group in range(file.num_row_groups):
                stored = [name for name in columns if name in names]
                rows = 0
                # Arrow's threads can wait for each other, for ever, if a page is damaged.
                batches = file.iter_batches(
                    _BATCH_ROWS, [group], stored, use_threads=False
                )
                for batch in batches:
                    rows += batch.num_rows
                    yield _checked(_with_new_columns(batch, columns), self.url)
                stated = file.metadata.row_group(group).num_rows
                if rows != stated:
                    raise errors.FormatError(
                        f"{self.url}: row group {group}: expected {stated} rows as the file "
                        f"states, found {rows} in columns {stored}"
                    )
        except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
            raise errors.FormatError(
                f"{self.url}: expected Parquet: {error}"
            ) from error


def _with_new_columns(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    for name in columns:
        if name in NEW_COLUMNS and name not in batch.schema.names:
            field = SCHEMA.field(name)
            batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return batch


@contextlib.contextmanager
def opened(index: str) -> Iterator[Index]:
    """Opens an index and checks its digest; raises as `read_rows` does."""
    if not storage.exists(index):
        raise errors.ConfigError(f"{index}: there is no such index")
    with contextlib.closing(_opened(index)) as file:
        try:
            _check_digest(file, index)
        except OSError as error:
            raise errors.FormatError(f"{index}: expected Parquet: {error}") from error
        yield Index(index, file)


def _checked(batch: pa.RecordBatch, index: str) -> pa.RecordBatch:
    """Returns the batch in the types of the index; FormatError for values that no index has."""
    batch.validate(full=True)
    batch = batch.cast(pa.schema([SCHEMA.field(name) for name in batch.schema.names]))
    for name in batch.schema.names:
        column = batch.column(name)
        if name in _REQUIRED and column.null_count:
            raise errors.FormatError(f"{index}: {name}: a value is missing")
        pattern, meaning = _PATTERNS.get(name, ("", ""))
        if not pattern:
            continue
        others = column.filter(pc.invert(pc.match_substring_regex(column, pattern)))
        if len(others.drop_null()):
            raise errors.FormatError(
                f"{index}: {name}: expected {meaning}, "
                f"found {others.drop_null()[0].as_py()!r:.100}"
            )
    return batch


def _opened(index: str) -> IO[bytes]:
    if storage.is_special(index):
        raise errors.FormatError(f"{index}: expected a regular file")
    if storage.is_local(index):
        return open(storage.local_path(index), "rb")  # noqa: PTH123  # a plain string
    # An index of five million replays has more than a gigabyte: not in memory.
    return storage.fetched(index)
