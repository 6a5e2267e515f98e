"""Episodes to records: a header, then chunks of 32 steps, lossless.

In: arrays by key of `specs.episode_specs(settings)`. Out: records, the same for the same
arrays, settings and zstd library. The header holds step 0, and every chunk refers to it: its
planes are the chunks' reference planes, and its payload is their zstd dictionary. Therefore what
does not change in an episode is stored once, and reading a chunk needs only the header.
Knows nothing of files.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import errors, specs
from starmill.schema.codec import packing, planes, records
from starmill.schema.codec.layout import CORNERS, DELAY, UNITS, Layout, layout
from starmill.schema.codec.records import STEPS_PER_CHUNK, Position
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

Bytes = NDArray[np.uint8]


class EpisodeEncoder:
    """Turns steps into records as they come, and holds at most one chunk of steps.

    `add` each step, `take` the complete records whenever convenient, and `finish` once.
    Records are in order, the header first. An array of a step may have the reference
    converter's shape (1,) where the episode's spec says ().
    """

    def __init__(
        self, settings: ConverterSettings, *, level: int = records.LEVEL
    ) -> None:
        self._settings = settings
        self._layout = layout(settings)
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
        matches = step.keys() == self._chunk.keys()
        for key in step.keys() & self._chunk.keys():
            array, shape = np.asarray(step[key]), self._layout.shapes[key]
            if array.dtype == self._layout.dtypes[key] and (
                array.shape == shape or (shape == () and array.shape == (1,))
            ):
                self._chunk[key][self._filled] = array.reshape(shape)
            else:
                matches = False
        if not matches:
            raise errors.SpecError(f"step {self._steps}: {self._problems(step)}")
        self._filled += 1
        self._steps += 1
        if self._filled == STEPS_PER_CHUNK:
            self._flush()

    def take(self) -> list[bytes]:
        """Returns the records completed since the last call, and forgets them."""
        ready, self._ready = self._ready, []
        return ready

    def finish(self) -> list[bytes]:
        """Ends the episode and returns the records that were not taken yet."""
        if self._steps == 0:
            raise errors.SpecError("an episode has at least one step, found none")
        if self._filled:
            self._flush()
        return self.take()

    def _problems(self, step: Mapping[str, Any]) -> str:
        arrays = {key: np.asarray(value) for key, value in step.items()}
        scalars = {
            key: array.reshape(()) if array.shape == (1,) else array
            for key, array in arrays.items()
        }
        return "; ".join(specs.problems(scalars, specs.episode_specs(self._settings)))

    def _flush(self) -> None:
        arrays = {key: array[: self._filled] for key, array in self._chunk.items()}
        if self._chunks == 0:
            self._start(arrays)
        payload = self._packer.pack(arrays, self._reference)
        position = Position(self._chunks, self._filled, self._delay_before)
        self._ready.append(
            records.chunk_record(self._digest, position, payload, self._compressor)
        )
        if DELAY in arrays:
            self._delay_before = int(arrays[DELAY][-1])
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
        record = records.header_record(self._layout.fingerprint, payload, self._level)
        self._digest = records.digest(record)
        self._compressor = records.compressor(self._level, payload)
        self._ready.append(record)


class _Packer:
    """Packs chunks into payloads, and reuses one buffer."""

    def __init__(self, payload_layout: Layout) -> None:
        self._layout = payload_layout
        self._buffer: Bytes = np.empty(0, np.uint8)

    def pack(self, arrays: Arrays, reference: Mapping[str, Bytes]) -> bytes:
        """Returns the payload: section lengths (uint32 each), then the sections."""
        want = self._layout
        steps = len(arrays[UNITS])
        table, camera_fits = self._table(arrays, steps)
        camera = None if camera_fits or want.camera is None else arrays[want.camera]
        rows, bound = packing.units_bound(arrays[UNITS])
        self._reserve(arrays, steps, table, bound)
        buffer = self._buffer
        ends = [4 * want.sections]
        ends.append(packing.put_table(buffer, ends[-1], table, want.groups))
        if want.lists is None:
            ends.append(ends[-1])
        else:
            lists = arrays[want.lists]
            ends.append(packing.put_lists(buffer, ends[-1], lists, want.pad))
        ends.append(
            packing.put_units(buffer, ends[-1], arrays[UNITS], rows, want.tag_column)
        )
        ends.append(ends[-1])
        if camera is not None:
            raw = camera.astype("<i4").view(np.uint8).reshape(-1)
            ends[-1] += len(raw)
            buffer[ends[-2] : ends[-1]] = raw
        for key in want.planes:
            frames = arrays[key].reshape(steps, -1)
            ends.append(planes.put_plane(buffer, ends[-1], frames, reference[key]))
        buffer[: ends[0]] = np.diff(ends).astype("<u4").view(np.uint8)
        return buffer[: ends[-1]].tobytes()

    def _reserve(
        self, arrays: Arrays, steps: int, table: NDArray[np.int32], units_bound: int
    ) -> None:
        """Makes the buffer large enough for any content of these arrays."""
        want = self._layout
        bound = 4 * want.sections + units_bound
        bound += packing.table_bound(table, want.groups)
        if want.lists is not None:
            bound += packing.lists_bound(arrays[want.lists])
        if want.camera is not None:
            bound += arrays[want.camera].nbytes
        bound += sum(
            planes.plane_bound(want.plane_size(key), steps) for key in want.planes
        )
        if len(self._buffer) < bound:
            self._buffer = np.empty(bound, np.uint8)

    def _table(self, arrays: Arrays, steps: int) -> tuple[NDArray[np.int32], bool]:
        """Returns the small arrays as series [F, steps], and whether they hold the camera."""
        want = self._layout
        table = np.zeros((int(want.groups[-1]), steps), np.int32)
        for key, begin in zip(want.table, want.groups, strict=False):
            values = arrays[key].reshape(steps, -1).T
            table[begin : begin + len(values)] = values
        if want.camera is None:
            return table, True
        corners = np.zeros((steps, CORNERS), np.int32)
        fits = all(
            planes.find_rectangle(plane, corners[t])
            for t, plane in enumerate(arrays[want.camera])
        )
        if fits:
            table[want.corners :] = corners.T
        return table, fits


def encode(arrays: Arrays, settings: ConverterSettings) -> list[bytes]:
    """Returns the records of a whole episode. Arrays have shapes [T, *shape]."""
    encoder = EpisodeEncoder(settings)
    for t in range(len(next(iter(arrays.values()), ()))):
        encoder.add({key: array[t] for key, array in arrays.items()})
    return encoder.finish()
