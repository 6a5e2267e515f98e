"""The episode table of a dataset, read by columns when they are asked for.

In: a dataset's folder and manifest. Out: columns of any rows. The table is a single file, or one for
the base and one for each increment, whose rows follow each other. Must not know what columns are
used for.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from starmill.schema import table
from starmill.schema.loader import episode_file
from starmill.schema.loader.episode_file import EpisodeFile, Rows
from starmill.schema.manifest import Manifest


class LazyTable:
    """The episode table of a dataset. It can be pickled: the copy opens the table again.

    Attributes:
        num_rows: E, the number of episodes.
        names: of the columns.
    """

    def __init__(self, folder: str, manifest: Manifest) -> None:
        self._folder = folder
        self._manifest = manifest
        self.num_rows = manifest.episodes
        self.names: list[str] = table.EPISODE_SCHEMA.names
        self._files = [
            EpisodeFile(folder, manifest, entry, count)
            for entry, count in zip(
                manifest.tables(table.EPISODES),
                manifest.counts("episodes"),
                strict=True,
            )
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves everything out that has been read."""
        return LazyTable, (self._folder, self._manifest)

    def verify(self) -> None:
        """Compares the sha256 of all files with the manifest's; ManifestMismatch if one differs.

        Files of an object store are copied to this machine on the way, because whoever calls
        this is about to read their largest columns.
        """
        for file in self._files:
            file.verify()

    def columns(self, names: Sequence[str], rows: NDArray[np.int64]) -> pyarrow.Table:
        """Returns columns of some rows, in their order; FormatError for impossible values."""
        ordered = ascending(rows)
        parts = [
            part.content.take(ordered[begin:end] - part.first)
            for part, begin, end in self._parts(names, ordered)
        ]
        schema = pyarrow.schema([table.EPISODE_SCHEMA.field(name) for name in names])
        content = pyarrow.concat_tables(parts) if parts else schema.empty_table()
        if len(ordered) == len(rows) and bool((ordered == rows).all()):
            return content
        return content.take(np.searchsorted(ordered, rows))

    def _parts(
        self, names: Sequence[str], ordered: NDArray[np.int64]
    ) -> Iterator[tuple[Rows, int, int]]:
        """Yields pieces of the table that have some of the rows, and which of the rows."""
        for part in self.pieces(names, ordered):
            stop = part.first + part.content.num_rows
            begin, end = np.searchsorted(ordered, [part.first, stop])
            if begin < end:
                yield part, int(begin), int(end)

    def pieces(
        self, names: Sequence[str], ordered: NDArray[np.int64] | None = None
    ) -> Iterator[Rows]:
        """Yields columns of the table piece by piece, checked.

        Args:
            names: of the columns.
            ordered: row numbers, ascending; groups of rows without any of them are left out.
        """
        first = 0
        for file in self._files:
            stop = first + file.num_rows
            if ordered is None or np.diff(np.searchsorted(ordered, [first, stop])):
                own = None if ordered is None else ordered - first
                for part in file.pieces(names, own):
                    yield Rows(first + part.first, part.content)
            first = stop


def ascending(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the row numbers in ascending order, each once."""
    return rows if bool((np.diff(rows) > 0).all()) else np.unique(rows)


def read_episodes(folder: str, manifest: Manifest) -> pyarrow.Table:
    """Returns the whole episode table; FormatError for rows that the shards cannot have."""
    return pyarrow.concat_tables(
        [
            episode_file.read_whole(folder, manifest, entry, count)
            for entry, count in zip(
                manifest.tables(table.EPISODES),
                manifest.counts("episodes"),
                strict=True,
            )
        ]
    )
