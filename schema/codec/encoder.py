"""Episodes as records of bytes and back, lossless: a header, then chunks of 32 steps.

In: arrays by key of `specs.episode_specs(settings)`. Out: records, the same for the same
arrays, settings and zstd library. The header holds step 0 and is what every chunk refers to:
its planes are the chunks' reference planes and its payload is their zstd dictionary, so what
does not change in an episode is stored once, and a chunk needs nothing but the header.
Knows nothing of files; `docs/format.md` describes the bytes.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from starmill.schema import episode, errors
from starmill.schema.codec import layout as layouts
from starmill.schema.codec import packing, unpacking
from starmill.schema.settings import ConverterSettings

VERSION = 1
# W: more compresses better and reads slower; presence masks have a bit per step.
STEPS_PER_CHUNK = 32
LEVEL = 15
ZSTD_VERSION = ".".join(str(part) for part in zstandard.ZSTD_VERSION)

_MAGIC = b"SM"
_HEADER, _CHUNK = 0, 1
_PREFIX = struct.Struct("<2sBB8s")
# Number of the chunk, its steps, and the delay before its first step.
_POSITION = struct.Struct("<IBi")
_DELAY = "action/delay"

Arrays = episode.Arrays
Bytes = NDArray[np.uint8]


class EpisodeEncoder:
    """Turns steps into records as they come, holding one chunk of steps at most.

    `add` each step; `take` what is complete, whenever convenient; `finish` once. Records are
    in order, the header first. The array of a step may have the reference's shape (1,)
    where the episode's spec says ().
    """

    def __init__(self, settings: ConverterSettings, *, level: int = LEVEL) -> None:
        self._layout = layouts.layout(settings)
        self._level = level
        self._steps = 0
        self._chunks = 0
        self._filled = 0
        self._delay_before = 0
        self._ready: list[bytes] = []
        self._packer = _Packer(self._layout)
        self._chunk = {
            key: np.zeros((STEPS_PER_CHUNK, *shape), self._layout.dtypes[key])
            for key, shape in self._layout.shapes.items()
        }

    @property
    def steps(self) -> int:
        """Returns the number of steps added."""
        return self._steps

    def add(self, step: Mapping[str, Any]) -> None:
        """Adds one step: every array of the episode's spec, without the time axis."""
        problems = []
        if step.keys() != self._chunk.keys():
            missing = sorted(self._chunk.keys() - step.keys())
            extra = sorted(step.keys() - self._chunk.keys())
            problems.append(f"missing arrays {missing}, unexpected {extra}")
        for key in step.keys() & self._chunk.keys():
            array, shape = np.asarray(step[key]), self._layout.shapes[key]
            if array.dtype != self._layout.dtypes[key] or (
                array.shape != shape and not (shape == () and array.shape == (1,))
            ):
                problems.append(
                    f"{key}: expected {self._layout.dtypes[key]} {shape}, "
                    f"found {array.dtype} {array.shape}"
                )
                continue
            self._chunk[key][self._filled] = array.reshape(shape)
        if problems:
            raise errors.SpecError(
                f"step {self._steps}: " + "; ".join(sorted(problems))
            )
        self._filled += 1
        self._steps += 1
        if self._filled == STEPS_PER_CHUNK:
            self._flush()

    def take(self) -> list[bytes]:
        """Returns the records completed since the last call, and forgets them."""
        ready, self._ready = self._ready, []
        return ready

    def finish(self) -> list[bytes]:
        """Ends the episode and returns the records not taken yet."""
        if self._steps == 0:
            raise errors.SpecError("an episode has at least one step, found none")
        if self._filled:
            self._flush()
        return self.take()

    def _flush(self) -> None:
        arrays = {key: array[: self._filled] for key, array in self._chunk.items()}
        if self._chunks == 0:
            self._start(arrays)
        payload = self._packer.pack(arrays, self._reference)
        self._ready.append(
            _PREFIX.pack(_MAGIC, VERSION, _CHUNK, self._check)
            + _POSITION.pack(self._chunks, self._filled, self._delay_before)
            + self._compressor.compress(payload)
        )
        if _DELAY in arrays:
            self._delay_before = int(arrays[_DELAY][-1])
        self._chunks += 1
        self._filled = 0

    def _start(self, arrays: Arrays) -> None:
        first = {key: array[:1] for key, array in arrays.items()}
        nothing = {
            key: np.zeros(first[key].size, np.uint8) for key in self._layout.planes
        }
        payload = self._packer.pack(first, nothing)
        self._reference = {
            key: first[key].reshape(-1).copy() for key in self._layout.planes
        }
        record = _PREFIX.pack(_MAGIC, VERSION, _HEADER, self._layout.fingerprint)
        record += _compressor(self._level, None).compress(payload)
        self._check = _check_of(record)
        self._compressor = _compressor(self._level, payload)
        self._ready.append(record)


class _Packer:
    """Packs chunks into payloads, reusing one buffer."""

    def __init__(self, layout: layouts.Layout) -> None:
        self._layout = layout
        self._buffer: Bytes = np.empty(0, np.uint8)

    def pack(self, arrays: Arrays, reference: Mapping[str, Bytes]) -> bytes:
        """Returns the payload: section lengths (uint32 each), then the sections."""
        want = self._layout
        steps = len(arrays[layouts.UNITS])
        table, camera_fits = self._table(arrays, steps)
        rows, units_bound = packing.units_bound(arrays[layouts.UNITS])
        sections = 4 + len(want.planes)
        bound = 4 * sections + 64 + 16 * len(want.groups) + table.size * 14
        bound += units_bound + 64
        if want.lists is not None:
            bound += arrays[want.lists].size * 4 + steps * 4
        if want.camera is not None and not camera_fits:
            bound += arrays[want.camera].nbytes
        bound += sum(
            packing.plane_bound(arrays[key][0].size, steps) for key in want.planes
        )
        if len(self._buffer) < bound:
            self._buffer = np.empty(bound, np.uint8)
        buffer = self._buffer
        ends = [packing.put_table(buffer, 4 * sections, table, want.groups)]
        ends.append(ends[-1])
        if want.lists is not None:
            ends[-1] = packing.put_lists(buffer, ends[0], arrays[want.lists], want.pad)
        ends.append(
            packing.put_units(
                buffer, ends[-1], arrays[layouts.UNITS], rows, want.tag_column
            )
        )
        ends.append(ends[-1])
        if want.camera is not None and not camera_fits:
            raw = arrays[want.camera].astype("<i4").view(np.uint8).reshape(-1)
            ends[-1] += len(raw)
            buffer[ends[-2] : ends[-1]] = raw
        for key in want.planes:
            frames = arrays[key].reshape(steps, -1)
            ends.append(packing.put_plane(buffer, ends[-1], frames, reference[key]))
        lengths = np.diff([4 * sections, *ends]).astype("<u4")
        buffer[: 4 * sections] = lengths.view(np.uint8)
        return buffer[: ends[-1]].tobytes()

    def _table(self, arrays: Arrays, steps: int) -> tuple[NDArray[np.int32], bool]:
        """Returns the small arrays as rows over time, and whether the camera fits in."""
        want = self._layout
        table = np.zeros((int(want.groups[-1]), steps), np.int32)
        for key, begin in zip(want.table, want.groups, strict=False):
            values = arrays[key].reshape(steps, -1).T
            table[begin : begin + len(values)] = values
        if want.camera is None:
            return table, True
        corners = np.zeros((steps, 4), np.int32)
        fits = all(
            packing.rectangle(plane, corners[t])
            for t, plane in enumerate(arrays[want.camera])
        )
        if fits:
            table[want.corners :] = corners.T
        return table, fits


class Header:
    """An episode's first record, opened: what its chunks are read with."""

    def __init__(
        self, record: bytes, settings: ConverterSettings, where: str = ""
    ) -> None:
        self.layout = layouts.layout(settings)
        fingerprint = _parse(record, _HEADER, where)
        if fingerprint != self.layout.fingerprint:
            raise errors.ManifestMismatch(
                f"{where or 'record'}: was encoded for the spec "
                f"{fingerprint.hex()}..., these settings have "
                f"{self.layout.fingerprint.hex()}..."
            )
        payload = _inflate(_decompressor(None), record[_PREFIX.size :], where)
        self.payload = payload
        self.check = _check_of(record)
        self.decompressor = _decompressor(payload)
        self.planes: dict[str, Bytes] = {}
        view = _Sections(payload, self.layout, where)
        for key in self.layout.planes:
            size = int(np.prod(self.layout.shapes[key], dtype=np.int64))
            plane = np.empty((1, size), np.uint8)
            nothing = np.zeros(size, np.uint8)
            view.call(unpacking.get_plane, key, nothing, 1, 0, 1, plane)
            self.planes[key] = plane[0]


class Chunk:
    """A chunk, inflated: any of its steps can be written into buffers, again and again.

    index: which chunk of the episode.  steps: how many it holds.
    delay_before: `action/delay` of the step before its first; 0 in the first chunk.
    """

    def __init__(self, header: Header, record: bytes, where: str = "") -> None:
        check = _parse(record, _CHUNK, where)
        if check != header.check:
            raise errors.ShardCorrupt(
                f"{where or 'record'}: a chunk of another episode: it refers to the "
                f"header {check.hex()}, this episode's is {header.check.hex()}"
            )
        begin = _PREFIX.size + _POSITION.size
        self.index, self.steps, self.delay_before = _POSITION.unpack_from(
            record, _PREFIX.size
        )
        if not 1 <= self.steps <= STEPS_PER_CHUNK:
            raise errors.ShardCorrupt(
                f"{where or 'record'}: expected 1 to {STEPS_PER_CHUNK} steps, "
                f"found {self.steps}"
            )
        self._header = header
        self._where = where
        self.replace_payload(_inflate(header.decompressor, record[begin:], where))

    def replace_payload(self, payload: bytes) -> None:
        """Reads from another payload; for tests of what damage does."""
        self.payload = payload
        self._view = _Sections(payload, self._header.layout, self._where)

    def read(self, start: int, stop: int, out: Mapping[str, NDArray[Any]]) -> None:
        """Writes steps start:stop into out[key][0 : stop - start], for the keys in out."""
        want = self._header.layout
        if not 0 <= start < stop <= self.steps:
            raise ValueError(f"steps {start}:{stop} of a chunk of {self.steps}")
        count = stop - start
        if any(key in out for key in want.table) or layouts.CAMERA in out:
            table = self.table(start, stop)
            for key, begin in zip(want.table, want.groups, strict=False):
                if key in out:
                    target = out[key][:count]
                    size = target[0].size
                    target[...] = table[:, begin : begin + size].reshape(target.shape)
            if layouts.CAMERA in out:
                self._camera(start, stop, table, out[layouts.CAMERA][:count])
        if layouts.LISTS in out:
            self._view.call(
                unpacking.get_lists,
                layouts.LISTS,
                self.steps,
                start,
                stop,
                want.pad,
                out[layouts.LISTS][:count],
            )
        if layouts.UNITS in out:
            units = out[layouts.UNITS][:count]
            flat = units.reshape(-1, units.shape[-1])
            self.units(start, stop, flat, 0, units.shape[1])
        for key in want.planes:
            if key in out:
                self._view.call(
                    unpacking.get_plane,
                    key,
                    self._header.planes[key],
                    self.steps,
                    start,
                    stop,
                    out[key][:count].reshape(count, -1),
                )

    def table(self, start: int, stop: int) -> NDArray[np.int32]:
        """Returns the small arrays of steps start:stop, [count, F]; corners come last."""
        groups = self._header.layout.groups
        table = np.empty((stop - start, int(groups[-1])), np.int32)
        self._view.call(
            unpacking.get_table, "game_loop", self.steps, start, stop, groups, table
        )
        return table

    def units(
        self, start: int, stop: int, out: NDArray[np.int32], begin: int, stride: int
    ) -> NDArray[np.int64]:
        """Writes unit rows into out [rows, C]; returns the used rows of each step.

        With a stride, step k begins at row begin + k * stride and is zero filled; with 0 the
        steps' used rows follow each other.
        """
        counts = np.zeros(stop - start, np.int64)
        self._view.call(
            unpacking.get_units,
            layouts.UNITS,
            self.steps,
            start,
            stop,
            out,
            begin,
            stride,
            counts,
        )
        return counts

    def delay(self, step: int) -> int:
        """Returns `action/delay` of one step; 0 where the spec has no such array."""
        want = self._header.layout
        if _DELAY not in want.table:
            return 0
        begin = int(want.groups[want.table.index(_DELAY)])
        return int(self.table(step, step + 1)[0, begin])

    def corners(self, start: int, stop: int) -> NDArray[np.int32]:
        """Returns the camera's corners of steps start:stop, [count, 4].

        Top, bottom, left, right; bottom and right are the first outside.
        """
        if not self.has_corners():
            raise errors.ConfigError(
                "the camera of some step is not one rectangle, so it has no compact "
                'form; read it with form="dense", or without the key "camera"'
            )
        return self.table(start, stop)[:, self._header.layout.corners :]

    def has_corners(self) -> bool:
        """Returns whether the camera is one rectangle in every step."""
        camera = self._header.layout.camera
        return camera is not None and self._view.is_empty(camera)

    def _camera(
        self, start: int, stop: int, table: NDArray[np.int32], out: NDArray[np.int32]
    ) -> None:
        want = self._header.layout
        if self.has_corners():
            for k in range(stop - start):
                unpacking.fill_rectangle(out[k], table[k, want.corners :])
            return
        shape = (self.steps, *want.shapes[layouts.CAMERA])
        out[...] = (
            self._view.bytes_of(layouts.CAMERA).view("<i4").reshape(shape)[start:stop]
        )


class _Sections:
    """A payload and where its sections are."""

    def __init__(self, payload: bytes, layout: layouts.Layout, where: str) -> None:
        self._layout = layout
        self._where = where
        self._data = np.frombuffer(payload, np.uint8)
        count = 4 + len(layout.planes)
        self._ends = 4 * count + np.concatenate(
            [[0], np.cumsum(self._data[: 4 * count].view("<u4").astype(np.int64))]
        )
        if len(self._ends) != count + 1 or self._ends[-1] != len(payload):
            raise errors.ShardCorrupt(
                f"{where or 'record'}: sections do not fill the payload"
            )

    def call(self, kernel: Any, key: str, *arguments: Any) -> None:
        """Runs a kernel on the section of a key; damage is named."""
        section = self._layout.section(key)
        begin, end = self._ends[section], self._ends[section + 1]
        try:
            kernel(self._data[begin:end], 0, *arguments)
        except ValueError as error:
            raise errors.ShardCorrupt(
                f"{self._where or 'record'}: {key}: {error}"
            ) from error

    def is_empty(self, key: str) -> bool:
        section = self._layout.section(key)
        return bool(self._ends[section] == self._ends[section + 1])

    def bytes_of(self, key: str) -> Bytes:
        section = self._layout.section(key)
        return self._data[self._ends[section] : self._ends[section + 1]]


def encode(arrays: Arrays, settings: ConverterSettings) -> list[bytes]:
    """Returns the records of a whole episode, arrays being [T, *shape]."""
    encoder = EpisodeEncoder(settings)
    for t in range(len(next(iter(arrays.values()), ()))):
        encoder.add({key: array[t] for key, array in arrays.items()})
    return encoder.finish()


def decode(
    records: Sequence[bytes],
    settings: ConverterSettings,
    keys: Iterable[str] | None = None,
) -> Arrays:
    """Returns the arrays of a whole episode from its records, all keys unless some are named."""
    if not records:
        raise errors.ShardCorrupt(
            "an episode has a header and chunks, found no records"
        )
    header = Header(records[0], settings, "record 0")
    chunks = [
        Chunk(header, record, f"record {number}")
        for number, record in enumerate(records[1:], 1)
    ]
    check_sequence(chunks)
    want = header.layout
    steps = sum(chunk.steps for chunk in chunks)
    out = {
        key: np.empty((steps, *want.shapes[key]), want.dtypes[key])
        for key in (want.shapes if keys is None else keys)
    }
    at = 0
    for chunk in chunks:
        chunk.read(0, chunk.steps, {key: array[at:] for key, array in out.items()})
        at += chunk.steps
    return out


def payloads(records: Sequence[bytes], settings: ConverterSettings) -> list[bytes]:
    """Returns what records hold before compression: the part no zstd release can change."""
    header = Header(records[0], settings, "record 0")
    return [header.payload] + [
        Chunk(header, record, f"record {number}").payload
        for number, record in enumerate(records[1:], 1)
    ]


def check_sequence(chunks: Sequence[Chunk], where: str = "episode") -> None:
    """Raises ShardCorrupt unless these are all chunks of an episode, in order."""
    for number, chunk in enumerate(chunks):
        last = number == len(chunks) - 1
        if chunk.index != number or (chunk.steps != STEPS_PER_CHUNK and not last):
            raise errors.ShardCorrupt(
                f"{where}: expected chunk {number}, found chunk {chunk.index} "
                f"of {chunk.steps} steps"
            )
    if not chunks:
        raise errors.ShardCorrupt(f"{where}: expected at least one chunk, found none")


def _parse(record: bytes, kind: int, where: str) -> bytes:
    """Checks a record's prefix and returns the eight bytes that it ends with."""
    where = where or "record"
    if len(record) < _PREFIX.size + _POSITION.size:
        raise errors.ShardCorrupt(f"{where}: only {len(record)} bytes")
    magic, version, found, tail = _PREFIX.unpack_from(record)
    if magic != _MAGIC:
        raise errors.ShardCorrupt(f"{where}: not a record of a starmill shard")
    if version != VERSION:
        raise errors.FormatError(
            f"{where}: codec version {version}; this release reads version {VERSION}. "
            f"Read it with the release that the manifest names"
        )
    if found != kind:
        names = {_HEADER: "header", _CHUNK: "chunk"}
        raise errors.ShardCorrupt(
            f"{where}: expected a {names[kind]}, found {names.get(found, found)!r}"
        )
    return bytes(tail)


def _check_of(record: bytes) -> bytes:
    return hashlib.sha256(record).digest()[:8]


def _compressor(level: int, dictionary: bytes | None) -> Any:
    return zstandard.ZstdCompressor(
        level=level,
        dict_data=_dictionary(dictionary),
        write_checksum=True,
        write_content_size=True,
    )


def _decompressor(dictionary: bytes | None) -> Any:
    return zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary))


def _dictionary(content: bytes | None) -> Any:
    if content is None:
        return None
    return zstandard.ZstdCompressionDict(
        content, dict_type=zstandard.DICT_TYPE_RAWCONTENT
    )


def _inflate(decompressor: Any, frame: bytes, where: str) -> bytes:
    try:
        return bytes(decompressor.decompress(frame))
    except zstandard.ZstdError as error:
        raise errors.ShardCorrupt(f"{where or 'record'}: {error}") from error
