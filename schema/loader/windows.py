"""Any steps of any episode, by range reads, into the caller's buffers.

In: where episodes are (the table's columns as arrays). Out: arrays of the wanted steps, each
record checked (crc32c, zstd checksum, which episode and chunk it is). Keeps a few opened
headers and chunks, so memory does not depend on the episodes' lengths.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray

from starmill.schema import codec, errors, shards, storage
from starmill.schema.settings import ConverterSettings

# What `EpisodeIndex.share` writes.
_SHARED = ("ids", "steps", "outcome", "shard", "offsets", "begins")
# Opened headers and chunks that a reader keeps; a header takes some 400 kB, a chunk 100 kB.
HEADERS, CHUNKS = 64, 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EpisodeIndex:
    """Where the episodes are: E of them, in the table's order.

    ids: episode_id [E], ASCII.  steps: T [E].  outcome: [E].
    shard: [E], a number into shard_names.
    offsets: all record offsets; those of episode e are offsets[begins[e] : begins[e + 1]].
    All the ladder's games have a gigabyte of offsets, so `share` lets processes use one copy.
    """

    ids: NDArray[np.bytes_]
    steps: NDArray[np.int64]
    outcome: NDArray[np.int32]
    shard_names: tuple[str, ...]
    shard: NDArray[np.int64]
    offsets: NDArray[np.int64]
    begins: NDArray[np.int64]

    @classmethod
    def from_table(cls, content: pyarrow.Table) -> "EpisodeIndex":
        """Returns the index of an episode table, filtered or not."""
        lists = content.column("offsets").combine_chunks()
        if isinstance(lists, pyarrow.ChunkedArray):
            lists = pyarrow.concat_arrays(lists.chunks)
        encoded = content.column("shard").combine_chunks().dictionary_encode()
        if isinstance(encoded, pyarrow.ChunkedArray):
            encoded = pyarrow.concat_arrays(encoded.chunks)
        begins = np.asarray(lists.offsets, np.int64)
        return cls(
            ids=np.array(content.column("episode_id").to_pylist(), np.bytes_),
            steps=np.asarray(content.column("steps"), np.int64),
            outcome=np.asarray(content.column("outcome"), np.int32),
            shard_names=tuple(encoded.dictionary.to_pylist()),
            shard=np.asarray(encoded.indices, np.int64),
            offsets=np.asarray(lists.values, np.int64),
            begins=begins,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def share(self, folder: Path) -> None:
        """Writes the arrays as files, for `shared` in other processes."""
        for name in _SHARED:
            np.save(folder / f"{name}.npy", getattr(self, name))

    @classmethod
    def shared(cls, folder: Path, shard_names: tuple[str, ...]) -> "EpisodeIndex":
        """Returns the index from `share`'s files, mapped, not read."""
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _SHARED
        }
        return cls(shard_names=shard_names, **arrays)


class WindowReader:
    """Reads steps of episodes. Can be pickled; not to be shared between threads."""

    def __init__(
        self,
        folder: str,
        settings: ConverterSettings,
        index: EpisodeIndex,
    ) -> None:
        self._settings = settings
        self.index = index
        self._files = storage.RangeReader(folder)
        self._headers: collections.OrderedDict[int, codec.Header] = (
            collections.OrderedDict()
        )
        self._chunks: collections.OrderedDict[tuple[int, int], codec.Chunk] = (
            collections.OrderedDict()
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leaves what is opened behind."""
        return {
            **self.__dict__,
            "_headers": collections.OrderedDict(),
            "_chunks": collections.OrderedDict(),
        }

    def chunks(self, episode: int, start: int, stop: int) -> Iterable["Part"]:
        """Yields the chunks that hold steps start:stop, and which of their steps."""
        steps = int(self.index.steps[episode])
        if not 0 <= start < stop <= steps:
            raise ValueError(f"steps {start}:{stop} of an episode of {steps}")
        size = codec.STEPS_PER_CHUNK
        first, last = start // size, (stop - 1) // size
        wanted = range(first, last + 1)
        if not all((episode, number) in self._chunks for number in wanted):
            self._load(episode, first, last)
        for number in wanted:
            self._chunks.move_to_end((episode, number))
            begin = number * size
            yield Part(
                self._chunks[episode, number],
                max(start - begin, 0),
                min(stop - begin, size),
            )
        while len(self._chunks) > CHUNKS:
            self._chunks.popitem(last=False)

    def read(
        self, episode: int, start: int, stop: int, out: Mapping[str, NDArray[Any]]
    ) -> int:
        """Writes steps start:stop into out[key][0 : stop - start].

        Returns `action/delay` of the step before `start`; 0 at the episode's beginning.
        """
        at = 0
        before = 0
        for part in self.chunks(episode, start, stop):
            if at == 0:
                before = self._delay_before(part)
            part.chunk.read(
                part.start, part.stop, {key: array[at:] for key, array in out.items()}
            )
            at += part.stop - part.start
        return before

    def record(self, episode: int, number: int) -> bytes:
        """Returns one record of an episode, checked; 0 is its header."""
        return self._records(episode, number, number)[0]

    def _delay_before(self, part: "Part") -> int:
        if part.start == 0:
            return part.chunk.delay_before
        return part.chunk.delay(part.start - 1)

    def _load(self, episode: int, first: int, last: int) -> None:
        header = self._headers.get(episode)
        if header is None:
            header = self._header(episode)
        else:
            self._headers.move_to_end(episode)
        # Record 0 is the header, so chunk c is record c + 1.
        for number, record in enumerate(
            self._records(episode, first + 1, last + 1), first
        ):
            if (episode, number) in self._chunks:
                continue
            where = self._where(episode, number + 1)
            chunk = codec.Chunk(header, record, where)
            self._check(episode, number, chunk, where)
            self._chunks[episode, number] = chunk

    def _header(self, episode: int) -> codec.Header:
        where = self._where(episode, 0)
        header = codec.Header(self.record(episode, 0), self._settings, where)
        self._headers[episode] = header
        if len(self._headers) > HEADERS:
            self._headers.popitem(last=False)
        return header

    def _check(self, episode: int, number: int, chunk: codec.Chunk, where: str) -> None:
        rest = int(self.index.steps[episode]) - number * codec.STEPS_PER_CHUNK
        steps = min(rest, codec.STEPS_PER_CHUNK)
        if chunk.index != number or chunk.steps != steps:
            raise errors.ShardCorrupt(
                f"{where}: expected chunk {number} of {steps} steps, "
                f"found chunk {chunk.index} of {chunk.steps}"
            )

    def _records(self, episode: int, first: int, last: int) -> list[bytes]:
        """Returns records first to last, inclusive, by one range read."""
        begin = int(self.index.begins[episode])
        offsets = self.index.offsets[begin : int(self.index.begins[episode + 1])]
        if last + 1 >= len(offsets):
            raise errors.ShardCorrupt(
                f"{self._where(episode, last)}: the table lists only "
                f"{len(offsets) - 1} records of it"
            )
        name = self.index.shard_names[int(self.index.shard[episode])]
        data = self._files.read(name, int(offsets[first]), int(offsets[last + 1]))
        base = int(offsets[first])
        return [
            shards.unframe_record(
                data[int(offsets[number]) - base : int(offsets[number + 1]) - base],
                self._where(episode, number),
            )
            for number in range(first, last + 1)
        ]

    def _where(self, episode: int, number: int) -> str:
        name = self.index.shard_names[int(self.index.shard[episode])]
        what = f"chunk {number - 1}" if number else "header"
        return (
            f"{storage.join(self._files.folder, name)}: "
            f"episode {self.index.ids[episode].decode()}: {what}"
        )


class Part(NamedTuple):
    """Steps start:stop of a chunk."""

    chunk: codec.Chunk
    start: int
    stop: int
