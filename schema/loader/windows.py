"""Reads any steps of any episode, by range reads, into buffers of the caller.

In: where the episodes are (`episode_index`). Out: the arrays of some steps. Each
record is checked: its crc32c, zstd's checksum, and whether it is the expected chunk of the
expected episode. Only a few decoded headers and chunks are kept, so memory does not depend on
the lengths of the episodes. Must not know how steps are chosen.
"""

import collections
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from starmill.schema import codec, errors, shards, storage
from starmill.schema.loader import ranges
from starmill.schema.loader.episode_index import EpisodeIndex
from starmill.schema.loader.ranges import Range
from starmill.schema.settings import ConverterSettings

# How many headers and chunks a reader keeps; a header takes about 400 kB, a chunk 100 kB.
HEADERS, CHUNKS = 64, 64
# Windows are added to one read until it has this many encoded bytes.
MOST_AHEAD_BYTES = 128 << 20


class WindowReader:
    """Reads steps of episodes. It can be pickled, and threads may share one.

    Args:
        folder: path or URL of the dataset.
        settings: of the dataset.
        index: where the episodes are.
        lanes: how many episodes are read in turns, a little of each: so many more headers and
            chunks are kept.

    Attributes:
        index: where the episodes are; their numbers are its rows.
    """

    def __init__(
        self,
        folder: str,
        settings: ConverterSettings,
        index: EpisodeIndex,
        lanes: int = 0,
    ) -> None:
        self._settings = settings
        self._lanes = lanes
        self.index = index
        self._files = storage.RangeReader(folder)
        self._memory = _Memory()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves the decoded headers and chunks out."""
        state = dict(self.__dict__)
        del state["_memory"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begins with empty memory."""
        self.__dict__.update(state)
        self._memory = _Memory()

    def fetch_ahead(self, windows: Sequence["Window"]) -> int:
        """Reads the records of windows at once; returns the number of windows read, at least one.

        `read` and `chunks` then need no request for these windows. They should follow soon:
        the records stay in memory until the next call.
        """
        ahead = _Ahead({}, {}, {})
        # A dict for its order: the records to read, each once.
        records: dict[tuple[int, int], Range] = {}
        size = count = 0
        for window in windows:
            for record in self._missing(window, ahead):
                if record not in records:
                    records[record] = self._range(*record)
                    size += records[record].end - records[record].begin
            count += 1
            if size > MOST_AHEAD_BYTES:
                break
        # Before the request, so that what is no longer needed does not take memory meanwhile.
        self._memory.ahead = ahead
        if records:
            data = ranges.read_many(self._files, list(records.values()))
            ahead.records.update(zip(records, data, strict=True))
        return count

    def _missing(self, window: "Window", ahead: "_Ahead") -> Iterator[tuple[int, int]]:
        """Yields the records of a window that are not in memory; holds on to those that are."""
        episode, start, stop = window
        size = codec.STEPS_PER_CHUNK
        numbers = range(start // size, (stop - 1) // size + 1)
        for number in numbers:
            chunk = self._memory.chunks.get((episode, number))
            if chunk is not None:
                ahead.chunks[episode, number] = chunk
        missing = [n for n in numbers if (episode, n) not in ahead.chunks]
        header = self._memory.headers.get(episode)
        if header is not None:
            ahead.headers[episode] = header
        elif missing:
            yield episode, 0
        for number in missing:
            # Record 0 is the header, so chunk c is record c + 1.
            yield episode, number + 1

    def chunks(self, episode: int, start: int, stop: int) -> Iterable["Part"]:
        """Yields the parts of chunks that together are steps start:stop."""
        steps = int(self.index.steps[episode])
        if not 0 <= start < stop <= steps:
            raise ValueError(f"steps {start}:{stop} of an episode of {steps}")
        size = codec.STEPS_PER_CHUNK
        first, last = start // size, (stop - 1) // size
        numbers = range(first, last + 1)
        if not all((episode, number) in self._memory.chunks for number in numbers):
            self._load(episode, first, last)
        for number in numbers:
            self._memory.chunks.move_to_end((episode, number))
            begin = number * size
            yield Part(
                self._memory.chunks[episode, number],
                max(start - begin, 0),
                min(stop - begin, size),
            )
        while len(self._memory.chunks) > CHUNKS + self._lanes:
            self._memory.chunks.popitem(last=False)

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
        framed = self._files.read(*self._range(episode, number))
        return shards.unframe_record(framed, self._where(episode, number))

    def _delay_before(self, part: "Part") -> int:
        if part.start == 0:
            return part.chunk.delay_before
        return part.chunk.delay(part.start - 1)

    def _load(self, episode: int, first: int, last: int) -> None:
        window = Window(
            episode, first * codec.STEPS_PER_CHUNK, self._end(episode, last)
        )
        if not self._is_ahead(episode, first, last):
            self.fetch_ahead([window])
        for number in range(first, last + 1):
            if (episode, number) in self._memory.chunks:
                continue
            chunk = self._memory.ahead.chunks.get((episode, number))
            if chunk is None:
                where = self._where(episode, number + 1)
                framed = self._memory.ahead.records[episode, number + 1]
                data = shards.unframe_record(framed, where)
                chunk = codec.Chunk(self._header(episode), data, where)
                self._check(episode, number, chunk, where)
            self._memory.chunks[episode, number] = chunk

    def _end(self, episode: int, chunk: int) -> int:
        """Returns the step after the last one of a chunk."""
        end = (chunk + 1) * codec.STEPS_PER_CHUNK
        return min(end, int(self.index.steps[episode]))

    def _is_ahead(self, episode: int, first: int, last: int) -> bool:
        """Returns whether everything that `_load` needs of chunks first to last is in memory."""
        ahead = self._memory.ahead
        has_header = (
            episode in self._memory.headers
            or episode in ahead.headers
            or (episode, 0) in ahead.records
        )
        return all(
            (episode, number) in self._memory.chunks
            or (episode, number) in ahead.chunks
            or (has_header and (episode, number + 1) in ahead.records)
            for number in range(first, last + 1)
        )

    def _header(self, episode: int) -> codec.Header:
        header = self._memory.headers.get(episode) or self._memory.ahead.headers.get(
            episode
        )
        if header is None:
            where = self._where(episode, 0)
            record = shards.unframe_record(
                self._memory.ahead.records[episode, 0], where
            )
            header = codec.Header(record, self._settings, where)
        self._memory.headers[episode] = header
        self._memory.headers.move_to_end(episode)
        if len(self._memory.headers) > HEADERS + self._lanes:
            self._memory.headers.popitem(last=False)
        return header

    def _check(self, episode: int, number: int, chunk: codec.Chunk, where: str) -> None:
        rest = int(self.index.steps[episode]) - number * codec.STEPS_PER_CHUNK
        steps = min(rest, codec.STEPS_PER_CHUNK)
        if chunk.index != number or chunk.steps != steps:
            raise errors.ShardCorrupt(
                f"{where}: expected chunk {number} of {steps} steps, "
                f"found chunk {chunk.index} of {chunk.steps}"
            )

    def _range(self, episode: int, number: int) -> Range:
        """Returns where a record is, framed."""
        begin = int(self.index.begins[episode])
        offsets = self.index.offsets[begin : int(self.index.begins[episode + 1])]
        if number + 1 >= len(offsets):
            raise errors.ShardCorrupt(
                f"{self._where(episode, number)}: expected at least {number + 1} records of "
                f"the episode, the table lists only {len(offsets) - 1} records"
            )
        name = self.index.shard_names[int(self.index.shard[episode])]
        return Range(name, int(offsets[number]), int(offsets[number + 1]))

    def _where(self, episode: int, number: int) -> str:
        name = self.index.shard_names[int(self.index.shard[episode])]
        record = f"chunk {number - 1}" if number else "header"
        return (
            f"{storage.join(self._files.folder, name)}: "
            f"episode {self.index.ids[episode].decode()}: {record}"
        )


class Window(NamedTuple):
    """Steps of an episode.

    Attributes:
        episode: the episode's number.
        start: the first step.
        stop: the step after the last one.
    """

    episode: int
    start: int
    stop: int


class _Ahead(NamedTuple):
    """What `fetch_ahead` has brought into memory, or found there.

    Attributes:
        records: framed records by episode and number; record 0 is the header.
        headers: decoded headers by episode.
        chunks: decoded chunks by episode and number.
    """

    records: dict[tuple[int, int], bytes]
    headers: dict[int, codec.Header]
    chunks: dict[tuple[int, int], codec.Chunk]


class _Memory(threading.local):
    """What a reader has in memory. Each thread has its own, so that none drops another's.

    Attributes:
        headers: decoded headers by episode, the latest used last.
        chunks: decoded chunks by episode and number, the latest used last.
        ahead: what `fetch_ahead` has read.
    """

    def __init__(self) -> None:
        self.headers: collections.OrderedDict[int, codec.Header] = (
            collections.OrderedDict()
        )
        self.chunks: collections.OrderedDict[tuple[int, int], codec.Chunk] = (
            collections.OrderedDict()
        )
        self.ahead = _Ahead({}, {}, {})


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
