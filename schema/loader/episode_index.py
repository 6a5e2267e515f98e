"""Where the episodes of a dataset are: what reading needs of the episode table, as arrays.

In: the table, and which of its rows. Out: `EpisodeIndex`. A large index is kept in files, which
all processes of this machine map into memory, so a pickle of it is the files' address. Must not
know what episodes contain.
"""

import contextlib
import dataclasses
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow
from numpy.typing import NDArray

from starmill.schema import errors
from starmill.schema.loader.lazy_table import LazyTable
from starmill.schema.loader.temporary_folder import TemporaryFolder

# Of more episodes than these, whose index takes about 40 MB, the arrays are kept in files.
MOST_IN_MEMORY = 100_000
# The most that a pickle of an index, or of what makes it again, may take.
MOST_PICKLED_BYTES = 1 << 15
_COLUMNS = ("episode_id", "steps", "outcome", "shard", "offsets")
# The arrays in files, with their dtypes. An id is 64 hex digits, "-" and the player.
_DTYPES: dict[str, Any] = {
    "ids": np.dtype("S66"),
    "steps": np.dtype(np.int64),
    "outcome": np.dtype(np.int32),
    "shard": np.dtype(np.int64),
    "offsets": np.dtype(np.int64),
    "begins": np.dtype(np.int64),
}
_SHARD_NAMES = "shard_names.json"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeIndex:
    """Where the E episodes of a dataset are, in the order of its rows.

    The index of all ladder games has a gigabyte of offsets, so processes share one copy.

    Attributes:
        ids: episode_id, ASCII, shape [E].
        steps: T of each episode, shape [E].
        outcome: of each episode, shape [E].
        shard_names: the file names of the shards.
        shard: the shard of each episode, a number into `shard_names`, shape [E].
        offsets: where the records of all episodes begin and end in their shards, in bytes. The R
            records of episode e have the R + 1 offsets[begins[e] : begins[e + 1]].
        begins: where each episode's offsets begin, shape [E + 1].
        remake: makes the index again where its files are not; None if nothing can.
        home: the folder of the files that this process wrote them to; None if there are none.
    """

    ids: NDArray[np.bytes_]
    steps: NDArray[np.int64]
    outcome: NDArray[np.int32]
    shard_names: tuple[str, ...]
    shard: NDArray[np.int64]
    offsets: NDArray[np.int64]
    begins: NDArray[np.int64]
    remake: "Callable[[], EpisodeIndex] | None" = None
    home: TemporaryFolder | None = None

    @classmethod
    def build(
        cls,
        content: LazyTable,
        rows: NDArray[np.int64],
        remake: "Callable[[], EpisodeIndex] | None" = None,
    ) -> "EpisodeIndex":
        """Returns the index of some rows of a table, in their order."""
        content.verify()
        is_ascending = bool((np.diff(rows) > 0).all())
        if len(rows) <= MOST_IN_MEMORY or not is_ascending:
            index = cls.from_table(content.columns(_COLUMNS, rows))
            return dataclasses.replace(index, remake=remake)
        home = TemporaryFolder()
        with contextlib.ExitStack() as stack:
            files = {
                name: stack.enter_context((home.path / name).open("wb"))
                for name in _DTYPES
            }
            names = _write_pieces(content, rows, files)
        (home.path / _SHARD_NAMES).write_text(json.dumps(names))
        return dataclasses.replace(cls.shared(home.path), remake=remake, home=home)

    @classmethod
    def from_table(cls, content: pyarrow.Table) -> "EpisodeIndex":
        """Returns the index of an episode table, which may be filtered."""
        lists = content.column("offsets").combine_chunks()
        if isinstance(lists, pyarrow.ChunkedArray):
            lists = pyarrow.concat_arrays(lists.chunks)
        encoded = content.column("shard").combine_chunks().dictionary_encode()
        if isinstance(encoded, pyarrow.ChunkedArray):
            encoded = pyarrow.concat_arrays(encoded.chunks)
        begins = np.asarray(lists.offsets, np.int64)
        return cls(
            ids=np.array(content.column("episode_id").to_pylist(), _DTYPES["ids"]),
            steps=np.asarray(content.column("steps"), np.int64),
            outcome=np.asarray(content.column("outcome"), np.int32),
            shard_names=tuple(encoded.dictionary.to_pylist()),
            shard=np.asarray(encoded.indices, np.int64),
            # A slice of a table refers to the lists of the whole.
            offsets=np.asarray(lists.values, np.int64)[begins[0] : begins[-1]],
            begins=begins - begins[0],
        )

    def __len__(self) -> int:
        return len(self.ids)

    @contextlib.contextmanager
    def in_files(self) -> Iterator[Path]:
        """Yields a folder with the arrays, for `shared` in other processes.

        Once they have mapped the files, the folder may go.
        """
        if self.home is not None:
            yield self.home.path
            return
        with tempfile.TemporaryDirectory(prefix="starmill-index-") as folder:
            self._write(Path(folder))
            yield Path(folder)

    @classmethod
    def shared(cls, folder: Path) -> "EpisodeIndex":
        """Returns the index whose arrays are in a folder, mapped into memory."""
        arrays: dict[str, Any] = {}
        for name, dtype in _DTYPES.items():
            path = folder / name
            arrays[name] = (
                np.memmap(path, dtype, "r")
                if path.stat().st_size
                else np.empty(0, dtype)
            )
        names = json.loads((folder / _SHARD_NAMES).read_text())
        return cls(shard_names=tuple(names), **arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles a small index as it is, and the address of the files of others."""
        arrays = {name: np.asarray(getattr(self, name)) for name in _DTYPES}
        if sum(array.nbytes for array in arrays.values()) < MOST_PICKLED_BYTES:
            return _from_arrays, (self.shard_names, arrays)
        if self.home is None:
            home = TemporaryFolder()
            self._write(home.path)
            object.__setattr__(self, "home", home)
            return self.__reduce__()
        remake = self.remake
        if remake is not None and len(pickle.dumps(remake)) > MOST_PICKLED_BYTES:
            remake = None
        return _from_files, (str(self.home.path), remake)

    def _write(self, folder: Path) -> None:
        for name, dtype in _DTYPES.items():
            np.asarray(getattr(self, name), dtype).tofile(folder / name)
        (folder / _SHARD_NAMES).write_text(json.dumps(self.shard_names))


def _write_pieces(
    content: LazyTable, rows: NDArray[np.int64], files: Mapping[str, BinaryIO]
) -> list[str]:
    """Writes the arrays of ascending rows piece by piece; returns the names of the shards."""
    numbers: dict[str, int] = {}
    files["begins"].write(np.zeros(1, np.int64).tobytes())
    end = 0
    for part in content.pieces(_COLUMNS, rows):
        stop = part.first + part.content.num_rows
        begin_row, end_row = np.searchsorted(rows, [part.first, stop])
        rows_of_part = part.content.take(rows[begin_row:end_row] - part.first)
        if rows_of_part.num_rows == 0:
            continue
        index = EpisodeIndex.from_table(rows_of_part)
        of_all = [numbers.setdefault(n, len(numbers)) for n in index.shard_names]
        arrays = {
            "ids": index.ids,
            "steps": index.steps,
            "outcome": index.outcome,
            "shard": np.array(of_all, np.int64)[index.shard],
            "offsets": index.offsets,
            "begins": index.begins[1:] + end,
        }
        end += len(index.offsets)
        for name, array in arrays.items():
            files[name].write(np.ascontiguousarray(array, _DTYPES[name]).tobytes())
    return list(numbers)


def _from_arrays(shard_names: tuple[str, ...], arrays: dict[str, Any]) -> EpisodeIndex:
    return EpisodeIndex(shard_names=shard_names, **arrays)


def _from_files(folder: str, remake: Callable[[], EpisodeIndex] | None) -> EpisodeIndex:
    """Returns a pickled index: from its files, or made again on another machine."""
    try:
        index = EpisodeIndex.shared(Path(folder))
    except FileNotFoundError as error:
        if remake is not None:
            return remake()
        raise errors.ConfigError(
            f"{folder}: the files of the pickled dataset are gone: the process that made "
            "them has ended, or is on another machine. Open the dataset here instead"
        ) from error
    return dataclasses.replace(index, remake=remake)
