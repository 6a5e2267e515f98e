"""Rows that wait on this machine's disk, in numbered files, until their turn comes.

In: Arrow tables, and a file for each row. Out: the rows of one file, in the order in which they
came. Memory holds the rows of a few batches. Knows nothing of what the rows are.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Rows in memory until they are written.
_BATCH_ROWS = 1 << 15
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Spill:
    """Tables on disk by number. A context manager, which deletes its folder at the end.

    Attributes:
        folder: temporary; callers may put other files there.
    """

    def __init__(self, schema: pa.Schema, count: int) -> None:
        self._schema = schema
        self._waiting: list[pa.Table] = []
        self._numbers: list[NDArray[np.int64]] = []
        self._stack = contextlib.ExitStack()
        self._writers: dict[int, pa.RecordBatchStreamWriter] = {}
        self._count = count

    def __enter__(self) -> Self:
        """Makes the folder."""
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="starmill-plan-")
        )
        self.folder = Path(folder)
        return self

    def __exit__(self, *_: object) -> None:
        """Deletes the folder."""
        for writer in self._writers.values():
            writer.close()
        self._stack.close()

    def add(self, table: pa.Table, numbers: NDArray[np.int64]) -> None:
        """Adds rows; `numbers` has the file of each."""
        self._waiting.append(table)
        self._numbers.append(numbers)
        if sum(part.num_rows for part in self._waiting) >= _BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        numbers = np.concatenate(self._numbers)
        table = pa.concat_tables(self._waiting)
        order = np.argsort(numbers, kind="stable")
        table = table.take(pa.array(order)).combine_chunks()
        ends = np.searchsorted(numbers[order], np.arange(self._count + 1))
        for number in np.unique(numbers):
            begin, end = int(ends[number]), int(ends[number + 1])
            self._writer(int(number)).write_table(table.slice(begin, end - begin))
        self._waiting, self._numbers = [], []

    def _writer(self, number: int) -> pa.RecordBatchStreamWriter:
        if number not in self._writers:
            path = str(self.folder / f"{number}.arrow")
            self._writers[number] = pa.ipc.new_stream(
                path, self._schema, options=_OPTIONS
            )
        return self._writers[number]

    def tables(self) -> Iterator[pa.Table]:
        """Yields the rows of each file, in the order of their numbers. Nothing is added later."""
        self._flush()
        for number in range(self._count):
            writer = self._writers.pop(number, None)
            if writer is None:
                yield self._schema.empty_table()
                continue
            writer.close()
            path = self.folder / f"{number}.arrow"
            with pa.ipc.open_stream(str(path)) as reader:
                content = reader.read_all()
            path.unlink()
            yield content
