"""One file of the episode table of a dataset, read by columns when they are asked for.

In: a dataset's folder and manifest, and which of its tables. Out: columns, checked as they are
read. A file of up to `WHOLE_BYTES` is read and checked whole when it is opened. Of a larger one,
opening reads the footer, each column is read in pieces, and the sha256 is compared before the first
record of a shard is read (`verify`). Must not know what columns are used for.
"""

import functools
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from starmill.schema import errors, storage, table
from starmill.schema.loader.temporary_folder import TemporaryFolder
from starmill.schema.manifest import FileEntry, Manifest
from starmill.schema.shards import ShardEntry

# Tables of up to this size, some 100,000 episodes, are read and checked whole.
WHOLE_BYTES = 32 << 20
# Rows that are in memory at a time; their offsets take 10 MB.
_BATCH_ROWS = 1 << 15
_IDS = ("episode_id", "replay_id", "sha256")


class Rows(NamedTuple):
    """Consecutive rows of the table.

    Attributes:
        first: the number of the first.
        content: some of their columns.
    """

    first: int
    content: pyarrow.Table


class EpisodeFile:
    """A file of the episode table of a dataset: that of the base, or of an increment.

    Attributes:
        url: address of the file.
        num_rows: of the file.
    """

    def __init__(
        self, folder: str, manifest: Manifest, entry: FileEntry, num_rows: int
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._entry = entry
        self.url = storage.join(folder, entry.name)
        self.num_rows = num_rows
        self._whole: pyarrow.Table | None = None
        self._is_verified = False
        # What is read instead of the table at `url`, once a copy of it is on this machine.
        self._copy: TemporaryFolder | None = None
        if entry.size_bytes <= WHOLE_BYTES:
            self._whole = read_whole(folder, manifest, entry, num_rows)
            self._is_verified = True
        else:
            self._check_size()
            self._file.close()

    def verify(self) -> None:
        """Compares the table's sha256 with the manifest's; ManifestMismatch if they differ.

        A table of an object store is copied to this machine on the way, because whoever calls
        this is about to read its largest columns.
        """
        if self._is_verified:
            return
        if storage.is_local(self.url):
            _check_written(self.url, self._entry, storage.digest(*self._place))
        else:
            self._copy = self._fetch()
        self._is_verified = True

    def pieces(
        self, names: Sequence[str], ordered: NDArray[np.int64] | None = None
    ) -> Iterator[Rows]:
        """Yields columns of the file piece by piece, checked.

        Args:
            names: of the columns.
            ordered: row numbers, ascending; groups of rows without any of them are left out.
        """
        if self._whole is not None:
            yield Rows(0, self._whole.select(names))
            return
        with self._file as file:
            first = 0
            for group in range(file.num_row_groups):
                stop = first + file.metadata.row_group(group).num_rows
                if ordered is None or np.diff(np.searchsorted(ordered, [first, stop])):
                    yield from self._group(file, group, names, first)
                first = stop

    def _group(
        self,
        file: pyarrow.parquet.ParquetFile,
        group: int,
        names: Sequence[str],
        first: int,
    ) -> Iterator[Rows]:
        try:
            batches = file.iter_batches(
                _BATCH_ROWS, [group], list(names), use_threads=False
            )
            for batch in batches:
                content = pyarrow.Table.from_batches([batch]).select(names)
                content.validate(full=True)
                content = table.plain_texts(content, table.EPISODE_SCHEMA, self.url)
                table.check_episodes(content, self._entries(content))
                yield Rows(first, content)
                first += content.num_rows
        except table.UNREADABLE as error:
            raise errors.FormatError(
                f"{self.url}: not readable Parquet: {error}"
            ) from error

    def _entries(self, content: pyarrow.Table) -> list[ShardEntry]:
        """Returns the manifest's entries of the shards that some rows name."""
        if "shard" not in content.column_names:
            return []
        names = content.column("shard").unique().to_pylist()
        return [self._shards[name] for name in names if name in self._shards]

    @functools.cached_property
    def _shards(self) -> dict[str, ShardEntry]:
        return {entry.name: entry for entry in self._manifest.shards}

    @property
    def _file(self) -> pyarrow.parquet.ParquetFile:
        """Returns the table's file, newly opened."""
        size = self._entry.size_bytes
        try:
            return table.open_parquet(
                self._source(),
                table.EPISODE_SCHEMA,
                self.url,
                size,
                self.num_rows,
                _IDS,
            )
        except table.UNREADABLE as error:
            raise errors.FormatError(
                f"{self.url}: not readable Parquet: {error}"
            ) from error

    def _source(self) -> Any:
        if self._copy is not None:
            return str(self._copy.path / self._entry.name)
        filesystem, path = storage.filesystem_of(self.url)
        if storage.is_local(self.url):
            if storage.is_special(self.url):
                raise errors.FormatError(f"{self.url}: expected a regular file")
            return path
        # Parquet asks for what it needs in large pieces; reading ahead would fetch other columns.
        return filesystem.open(path, "rb", cache_type="none")

    @property
    def _place(self) -> tuple[str, str]:
        return self._folder, self._entry.name

    def _check_size(self) -> None:
        size = storage.size_bytes(self.url)
        if size != self._entry.size_bytes:
            raise _mismatch(self.url, self._entry, storage.Written(size, ""))

    def _fetch(self) -> TemporaryFolder:
        """Copies the table to this machine; returns the folder of the copy."""
        folder = TemporaryFolder()
        content = hashlib.sha256()
        size = 0
        with (folder.path / self._entry.name).open("wb") as file:
            for piece in storage.pieces(*self._place):
                content.update(piece)
                file.write(piece)
                size += len(piece)
        written = storage.Written(size, content.hexdigest())
        _check_written(self.url, self._entry, written)
        return folder


def _check_written(url: str, entry: FileEntry, written: storage.Written) -> None:
    if written != storage.Written(entry.size_bytes, entry.sha256):
        raise _mismatch(url, entry, written)


def read_whole(
    folder: str, manifest: Manifest, entry: FileEntry, num_rows: int
) -> pyarrow.Table:
    """Returns a whole file; FormatError for rows that the shards cannot have."""
    data = checked_file(folder, entry)
    where = storage.join(folder, entry.name)
    rows = table.parse_table(data, table.EPISODE_SCHEMA, where, num_rows)
    table.check_episodes(rows, manifest.shards)
    return rows


def checked_file(folder: str, entry: FileEntry) -> bytes:
    """Returns a file beside the shards; ManifestMismatch unless it is the manifest's."""
    url = storage.join(folder, entry.name)
    size = storage.size_bytes(url)
    # A file of another size is not read: it may be larger than the memory.
    data = storage.read(url) if size == entry.size_bytes else b""
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry.sha256:
        raise _mismatch(url, entry, storage.Written(size, digest if data else ""))
    return data


def _mismatch(
    url: str, entry: FileEntry, written: storage.Written
) -> errors.ManifestMismatch:
    """Returns the error for a file that is not the manifest's.

    Args:
        url: address of the file.
        entry: what the manifest says of it.
        written: what was found; its sha256 is "" if the file was not read.
    """
    digest = f" with {written.sha256}" if written.sha256 else ""
    return errors.ManifestMismatch(
        f"{url}: expected {entry.size_bytes} bytes with sha256 {entry.sha256}, "
        f"found {written.size_bytes}{digest}: damaged, or of another dataset"
    )
