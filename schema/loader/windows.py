"""Reads any steps of any episode, by range reads, into buffers of the caller.

In: where the episodes are (`episode_index`). Out: the arrays of some steps. Each
record is checked: its crc32c, zstd's checksum, and whether it is the expected chunk of the
expected episode. Only a few decoded headers and chunks are kept, so memory does not depend on
the lengths of the episodes. Must not know how steps are chosen.
"""

import collections
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from starmill.schema import codec, errors, shards, storage
from starmill.schema.loader.episode_index import EpisodeIndex
from starmill.schema.settings import ConverterSettings

# How many headers and chunks a reader keeps; a header takes about 400 kB, a chunk 100 kB.
HEADERS, CHUNKS = 64, 64


class WindowReader:
    """Reads steps of episodes. It can be pickled, but threads must not share one.

    Attributes:
        index: where the episodes are; their numbers are its rows.
    """

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
        """Leaves the decoded headers and chunks out."""
        return {
            **self.__dict__,
            "_headers": collections.OrderedDict(),
            "_chunks": collections.OrderedDict(),
        }

    def chunks(self, episode: int, start: int, stop: int) -> Iterable["Part"]:
        """Yields the parts of chunks that together are steps start:stop."""
        steps = int(self.index.steps[episode])
        if not 0 <= start < stop <= steps:
            raise ValueError(f"steps {start}:{stop} of an episode of {steps}")
        size = codec.STEPS_PER_CHUNK
        first, last = start // size, (stop - 1) // size
        numbers = range(first, last + 1)
        if not all((episode, number) in self._chunks for number in numbers):
            self._load(episode, first, last)
        for number in numbers:
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

        Returns the `action/delay` of the step before `start`; 0 if there is none.
        """
        position = 0
        delay_before = 0
        for part in self.chunks(episode, start, stop):
            if position == 0:
                delay_before = self._delay_before(part)
            targets = {key: array[position:] for key, array in out.items()}
            part.chunk.read(part.start, part.stop, targets)
            position += part.stop - part.start
        return delay_before

    def record(self, episode: int, number: int) -> bytes:
        """Returns one record of an episode after checking its crc32c; record 0 is the header."""
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
        """Returns records first to last, the last included, by one range read."""
        begin = int(self.index.begins[episode])
        offsets = self.index.offsets[begin : int(self.index.begins[episode + 1])]
        if last + 1 >= len(offsets):
            raise errors.ShardCorrupt(
                f"{self._where(episode, last)}: expected at least {last + 1} records of the "
                f"episode, the table lists only {len(offsets) - 1} records"
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
        record = f"chunk {number - 1}" if number else "header"
        return (
            f"{storage.join(self._files.folder, name)}: "
            f"episode {self.index.ids[episode].decode()}: {record}"
        )


class Part(NamedTuple):
    """Some steps of a chunk.

    Attributes:
        chunk: the decoded chunk.
        start: the first step, counted from the beginning of the chunk.
        stop: the step after the last one, counted likewise.
    """

    chunk: codec.Chunk
    start: int
    stop: int
