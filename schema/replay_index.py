"""The index as a Parquet file: one row per replay, columns of `replay.COLUMNS`.

In: rows. Out: Arrow tables; and rows again, a few thousand in memory at a time.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from starmill.schema import errors, storage
from starmill.schema.replay_row import (
    COLUMNS,
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
_BATCH_ROWS = 4096


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

    Raises ConfigError if there is no file at this path or URL, FormatError if it is no index.
    """
    for batch in read_batches(index, list(COLUMNS)):
        for values in batch.to_pylist():
            yield row_from_columns(values)


def read_batches(index: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields some columns of an index, a few thousand rows at a time; raises the same."""
    if not storage.exists(index):
        raise errors.ConfigError(f"{index}: there is no such index")
    try:
        with pq.ParquetFile(_opened(index)) as file:
            missing = sorted(set(COLUMNS) - set(file.schema_arrow.names))
            if missing:
                raise errors.FormatError(
                    f"{index}: expected an index of replays, but columns {missing} "
                    "are missing; make it again with `starmill index`"
                )
            yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise errors.FormatError(f"{index}: expected Parquet: {error}") from error


def _opened(index: str) -> Any:
    if storage.is_local(index):
        return storage.local_path(index)
    return io.BytesIO(storage.read(index))
