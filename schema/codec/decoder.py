"""Records to arrays: whole episodes, or any steps of a chunk.

In: the records of an episode, and its settings. Out: arrays by key of
`specs.episode_specs(settings)`, written into the caller's buffers. Damage raises
`ShardCorrupt`, which names the record and the array. Knows nothing of files.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors
from starmill.schema.codec import bounds, planes, records, unit_rows, unpacking
from starmill.schema.codec.layout import (
    CAMERA,
    DELAY,
    LISTS,
    UNITS,
    Layout,
    layout,
)
from starmill.schema.codec.records import STEPS_PER_CHUNK
from starmill.schema.codec.unit_rows import UnitRows
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

Bytes = NDArray[np.uint8]


class Header:
    """An episode's first record, opened: what its chunks are read with.

    Attributes:
        layout: which section holds which array.
        payload: the record's content, and the dictionary of its chunks.
        digest: of this header's record; every chunk of the episode repeats it.
        decompressor: zstd's, with the dictionary.
        planes: the reference planes by key, uint8 [P].
    """

    def __init__(
        self, record: bytes, settings: ConverterSettings, where: str = "record"
    ) -> None:
        self.layout = layout(settings)
        self.payload = records.open_header(
            record, self.layout.fingerprint, self.layout.payload_bound(1), where
        )
        self.digest = records.digest(record)
        self.decompressor = records.decompressor(self.payload)
        self.planes: dict[str, Bytes] = {}
        sections = _Sections(self.payload, self.layout, where)
        for key in self.layout.planes:
            nothing = np.zeros(self.layout.plane_size(key), np.uint8)
            plane = np.empty((1, nothing.size), np.uint8)
            sections.read(key, planes.read_plane, 1, 0, 1, nothing, plane)
            self.planes[key] = plane[0]


class Chunk:
    """A chunk, inflated: any of its steps can be written into buffers, again and again.

    Attributes:
        index: which chunk of the episode.
        steps: how many it holds.
        delay_before: `action/delay` of the step before its first; 0 in the first chunk.
        payload: the record's content.
    """

    def __init__(self, header: Header, record: bytes, where: str = "record") -> None:
        position, payload = records.open_chunk(
            record,
            header.digest,
            header.decompressor,
            header.layout.payload_bound,
            where,
        )
        self.index, self.steps, self.delay_before = position
        self._header = header
        self._where = where
        self.replace_payload(payload)

    def replace_payload(self, payload: bytes) -> None:
        """Reads from another payload; for tests of what damage does."""
        self._sections = _Sections(payload, self._header.layout, self._where)
        self.payload = payload

    def read(self, start: int, stop: int, out: Mapping[str, NDArray[Any]]) -> None:
        """Writes steps start:stop into out[key][0 : stop - start], for the keys in out."""
        want = self._header.layout
        if not 0 <= start < stop <= self.steps:
            raise ValueError(f"steps {start}:{stop} of a chunk of {self.steps}")
        count = stop - start
        window = (self.steps, start, stop)
        if any(key in out for key in want.table) or CAMERA in out:
            table = self.table(start, stop)
            for key, begin in zip(want.table, want.groups, strict=False):
                if key in out:
                    target = out[key][:count]
                    size = target[0].size
                    target[...] = table[:, begin : begin + size].reshape(target.shape)
            if CAMERA in out:
                self._read_camera(window, table, out[CAMERA][:count])
        if LISTS in out:
            lists = out[LISTS][:count]
            self._sections.read(LISTS, unpacking.read_lists, *window, want.pad, lists)
        if UNITS in out:
            units = out[UNITS][:count]
            flat = units.reshape(-1, units.shape[-1])
            self.units(start, stop, flat, 0, units.shape[1])
        for key in want.planes:
            if key in out:
                reference = self._header.planes[key]
                frames = out[key][:count].reshape(count, -1)
                self._sections.read(key, planes.read_plane, *window, reference, frames)

    def table(self, start: int, stop: int) -> NDArray[np.int32]:
        """Returns the small arrays of steps start:stop, [count, F]; corners come last."""
        groups = self._header.layout.groups
        table = np.empty((stop - start, int(groups[-1])), np.int32)
        self._sections.read(
            "game_loop", unpacking.read_table, self.steps, start, stop, groups, table
        )
        return table

    def units(
        self, start: int, stop: int, out: NDArray[np.int32], begin: int, stride: int
    ) -> NDArray[np.int64]:
        """Writes unit rows into out [rows, C]; returns the used rows of each step.

        With a stride, step k begins at row begin + k * stride and is zero filled. With 0 the
        steps' used rows follow each other.
        """
        counts = np.zeros(stop - start, np.int64)
        window = (self.steps, start, stop)
        target = UnitRows(begin, stride, self._header.layout.pad)
        self._sections.read(UNITS, unit_rows.read_units, *window, target, out, counts)
        return counts

    def delay(self, step: int) -> int:
        """Returns `action/delay` of one step; 0 where the spec has no such array."""
        want = self._header.layout
        if DELAY not in want.table:
            return 0
        begin = int(want.groups[want.table.index(DELAY)])
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
        want = self._header.layout
        corners = self.table(start, stop)[:, want.corners :]
        shape = want.shapes[CAMERA]
        self._sections.run(CAMERA, planes.check_corners, corners, *shape)
        return corners

    def has_corners(self) -> bool:
        """Returns whether the camera is one rectangle in every step."""
        camera = self._header.layout.camera
        return camera is not None and self._sections.content(camera).size == 0

    def _read_camera(
        self,
        window: tuple[int, int, int],
        table: NDArray[np.int32],
        out: NDArray[np.int32],
    ) -> None:
        want = self._header.layout
        if self.has_corners():
            corners = table[:, want.corners :]
            self._sections.run(CAMERA, planes.paint_rectangles, corners, out)
        else:
            self._sections.read(CAMERA, _read_frames, *window, out)


def _read_frames(
    section: Bytes, steps: int, start: int, stop: int, out: NDArray[np.int32]
) -> int:
    """Writes steps start:stop of a camera that is stored whole into out, [count, H, W]."""
    if section.size != 4 * steps * out[0].size:
        return -bounds.CAMERA
    frames = section.view("<i4").reshape(steps, *out.shape[1:])
    out[...] = frames[start:stop]
    return 0


class _Sections:
    """A payload, cut into its sections."""

    def __init__(self, payload: bytes, payload_layout: Layout, where: str) -> None:
        self._layout = payload_layout
        self._where = where
        self._data = np.frombuffer(payload, np.uint8)
        begin = 4 * payload_layout.sections
        if len(payload) < begin:
            raise errors.ShardCorrupt(
                f"{where}: expected {payload_layout.sections} sections, found a payload of "
                f"{len(payload)} bytes"
            )
        lengths = self._data[:begin].view("<u4").astype(np.int64)
        self._ends = [begin, *(begin + np.cumsum(lengths)).tolist()]
        if self._ends[-1] != len(payload):
            raise errors.ShardCorrupt(f"{where}: sections do not fill the payload")

    def read(self, key: str, kernel: Callable[..., int], *arguments: Any) -> None:
        """Runs a kernel on the section that holds an array, and on the arguments."""
        section = self._layout.section[key]
        content = self._data[self._ends[section] : self._ends[section + 1]]
        status = kernel(
            content, *arguments
        )  # as `run` does; one step makes a dozen calls
        if status < 0:
            raise errors.ShardCorrupt(f"{self._where}: {key}: {bounds.message(status)}")

    def run(self, key: str, kernel: Callable[..., int], *arguments: Any) -> None:
        """Runs a kernel. Raises ShardCorrupt for a bound that does not hold."""
        status = kernel(*arguments)
        if status < 0:
            raise errors.ShardCorrupt(f"{self._where}: {key}: {bounds.message(status)}")

    def content(self, key: str) -> Bytes:
        """Returns the section that holds an array."""
        section = self._layout.section[key]
        return self._data[self._ends[section] : self._ends[section + 1]]


def decode(
    episode: Sequence[bytes],
    settings: ConverterSettings,
    keys: Iterable[str] | None = None,
) -> Arrays:
    """Returns the arrays of a whole episode from its records, or only those of some keys."""
    if not episode:
        raise errors.ShardCorrupt(
            "expected the records of an episode, a header and chunks; found no records"
        )
    header = Header(episode[0], settings, "record 0")
    chunks = [
        Chunk(header, record, f"record {number}")
        for number, record in enumerate(episode[1:], 1)
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
