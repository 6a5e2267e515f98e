"""Builds batch n of a plan, for any n.

In: a plan, and where the episodes are. Out: the arrays of batch n, the same in every process,
so an iteration is a counter, and saving it means saving the counter. Arrays are views of
buffers, which are reused once nothing refers to them; worker processes fill shared memory.
Must not know in which order batches are asked for.
"""

import mmap
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import episode, specs
from starmill.schema.loader import compact, samplers, windows
from starmill.schema.loader.batch_options import BatchPlan
from starmill.schema.loader.episode_index import EpisodeIndex
from starmill.schema.settings import ConverterSettings

Batch = dict[str, NDArray[Any]]
# Arrays that batches have beyond the stored ones, with their dtypes; each has shape [B, K].
EXTRAS: dict[str, type] = {
    "reward": np.float32,
    "prev_delay": np.int32,
    "step_type": np.int32,
    "outcome": np.int32,
    "valid": np.bool_,
    "episode": np.int32,
    "step": np.int32,
}
_DELAY, _TAGS = "action/delay", "action/unit_tags"
# Arrays begin at multiples of this in a buffer, as vector instructions and JAX's zero-copy
# transfers require.
_ALIGNMENT = 64


class Field(NamedTuple):
    """Where an array of a batch is in its buffer.

    Attributes:
        key: the array's name.
        shape: the array's shape, lanes and steps first.
        dtype: the array's dtype.
        offset: where it begins in the buffer, in bytes.
    """

    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int


def fields(plan: BatchPlan, settings: ConverterSettings) -> tuple[list[Field], int]:
    """Returns the arrays of a batch, and the bytes of a buffer that holds them."""
    stored = specs.episode_specs(settings)
    lead = (plan.lanes, plan.sampling.steps)
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {}
    for key in plan.keys:
        spec = stored[key]
        if plan.form == "compact" and key == "raw_units":
            most = compact.padded_rows(lead[0] * lead[1] * spec.shape[0])
            shapes[compact.UNITS] = ((most, spec.shape[1]), np.int32)
            shapes[compact.COUNT] = (lead, np.int32)
        elif plan.form == "compact" and key == "camera":
            shapes[compact.CORNERS] = ((*lead, 4), np.int32)
        else:
            shapes[key] = ((*lead, *spec.shape), spec.dtype)
    for key, dtype in EXTRAS.items():
        if key != "prev_delay" or _DELAY in stored:
            shapes[key] = (lead, dtype)
    layout = []
    offset = 0
    for key, (shape, dtype) in shapes.items():
        layout.append(Field(key, shape, np.dtype(dtype), offset))
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT
    return layout, offset


def views(layout: list[Field], buffer: NDArray[np.uint8]) -> Batch:
    """Returns the arrays of a batch as views of a buffer of bytes."""
    out = {}
    for field in layout:
        size = int(np.prod(field.shape, dtype=np.int64)) * field.dtype.itemsize
        part = buffer[field.offset : field.offset + size]
        out[field.key] = part.view(field.dtype).reshape(field.shape)
    return out


class BatchMaker:
    """Builds batches of one plan, into arrays that it is given.

    Attributes:
        plan: what batches contain.
        settings: of the dataset.
        index: where the dataset's episodes are.
        folder: path or URL of the dataset.
        layout: the arrays of a batch, and where they are in a buffer.
        size_bytes: of such a buffer.
        batches: how many batches there are; None if there is no end.
    """

    def __init__(
        self,
        plan: BatchPlan,
        settings: ConverterSettings,
        index: EpisodeIndex,
        folder: str,
    ) -> None:
        self.plan = plan
        self.index = index
        self.settings = settings
        self.folder = folder
        self._has_delay = _DELAY in specs.episode_specs(settings)
        is_ordered = plan.sampling.sampler in samplers.ORDERED
        self._reader = windows.WindowReader(
            folder, settings, index, lanes=plan.lanes if is_ordered else 0
        )
        self._sampler = samplers.make(plan.sampling, index.steps)
        self.layout, self.size_bytes = fields(plan, settings)
        draws = self._sampler.batches
        self.batches = None if draws is None else draws * plan.parts

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves out what follows from the rest: a sampler's arrays are as long as the index."""
        return BatchMaker, (self.plan, self.settings, self.index, self.folder)

    def make(self, batch: int, out: Batch) -> int:
        """Builds a batch in `out`; returns the rows of `units` in use, 0 in dense form."""
        plan = self.plan
        draw, first_lane = plan.draw(batch)
        lanes = self._sampler.lanes(draw, first_lane, first_lane + plan.lanes)
        delay = out.get(_DELAY)
        if delay is None:
            delay = np.zeros((plan.lanes, plan.sampling.steps), np.int32)
        before = np.zeros(delay.shape, np.int32)
        for key in ("valid", "episode", "step", "outcome"):
            out[key][:] = 0
        rows = 0
        left = [
            windows.Window(piece.episode, piece.start, piece.start + piece.length)
            for pieces in lanes
            for piece in pieces
        ]
        in_memory = 0
        for lane, pieces in enumerate(lanes):
            begin = 0
            for piece in pieces:
                if in_memory == 0:
                    in_memory = self._reader.fetch_ahead(left)
                    del left[:in_memory]
                in_memory -= 1
                end = begin + piece.length
                target = _Target(lane, begin, rows)
                rows = self._read_piece(piece, target, out, delay, before)
                out["valid"][lane, begin:end] = True
                out["episode"][lane, begin:end] = piece.episode
                out["step"][lane, begin:end] = np.arange(
                    piece.start, piece.start + piece.length
                )
                out["outcome"][lane, begin:end] = self.index.outcome[piece.episode]
                begin = end
            self._pad(out, lane, begin, delay)
        self._derive(out, delay, before)
        if plan.shuffle_unit_tags and _TAGS in out:
            self._shuffle(batch, out[_TAGS])
        if compact.UNITS not in out:
            return 0
        padded = compact.padded_rows(rows)
        out[compact.UNITS][rows:padded] = 0
        return padded

    def _read_piece(
        self,
        piece: samplers.Piece,
        target: "_Target",
        out: Batch,
        delay: NDArray[np.int32],
        before: NDArray[np.int32],
    ) -> int:
        """Reads a piece into its place in a lane; returns the rows of `units` in use then."""
        lane, begin, rows = target
        arrays = {key: out[key][lane, begin:] for key in self.plan.keys if key in out}
        if self._has_delay:
            arrays[_DELAY] = delay[lane, begin:]
        stop = piece.start + piece.length
        before[lane, begin] = self._reader.read(
            piece.episode, piece.start, stop, arrays
        )
        if compact.UNITS not in out and compact.CORNERS not in out:
            return rows
        for part in self._reader.chunks(piece.episode, piece.start, stop):
            end = begin + part.stop - part.start
            if compact.UNITS in out:
                counts = part.chunk.units(
                    part.start, part.stop, out[compact.UNITS], rows, 0
                )
                out[compact.COUNT][lane, begin:end] = counts
                rows += int(counts.sum())
            if compact.CORNERS in out:
                out[compact.CORNERS][lane, begin:end] = part.chunk.corners(
                    part.start, part.stop
                )
            begin = end
        return rows

    def _pad(self, out: Batch, lane: int, begin: int, delay: NDArray[np.int32]) -> None:
        """Zeroes what no piece fills of the stored arrays in a lane."""
        if begin == self.plan.sampling.steps:
            return
        for key in (*self.plan.keys, compact.COUNT, compact.CORNERS):
            if key in out:
                out[key][lane, begin:] = 0
        delay[lane, begin:] = 0

    def _derive(
        self, out: Batch, delay: NDArray[np.int32], before: NDArray[np.int32]
    ) -> None:
        """Writes the arrays that follow from the others."""
        valid = out["valid"]
        derived = episode.derived(
            delay,
            step=out["step"],
            steps=self.index.steps[out["episode"]],
            outcome=out["outcome"],
            before=before,
        )
        for key, array in derived.items():
            if key in out:
                padding = episode.LAST if key == "step_type" else 0
                out[key][:] = np.where(valid, array, padding)

    def _shuffle(self, batch: int, tags: NDArray[np.int32]) -> None:
        """Puts the units of each step's action in a random order, padding last."""
        raw = self.settings.raw_settings
        pad = raw.max_unit_count if raw is not None else 0
        rollout, size = tags.shape[1:]
        draw, first_lane = self.plan.draw(batch)
        for lane in range(len(tags)):
            keys = samplers.shuffle_keys(
                self.plan.sampling.seed,
                draw,
                first_lane + lane,
                rollout * size,
            ).reshape(rollout, size)
            # Without their lowest bit all keys are below that of padding, which stays last.
            keys = np.where(
                tags[lane] == pad, np.uint64(2**64 - 1), keys >> np.uint64(1)
            )
            order = np.argsort(keys, axis=1, kind="stable")
            tags[lane] = np.take_along_axis(tags[lane], order, axis=1)


class _Target(NamedTuple):
    """Where a piece goes.

    Attributes:
        lane: the lane of the batch.
        begin: the first step of the rollout that the piece fills.
        rows: how many rows of `units` earlier pieces use; unused in dense form.
    """

    lane: int
    begin: int
    rows: int


class BufferPool:
    """Buffers that return by themselves when no array refers to them any more."""

    def __init__(self, size_bytes: int) -> None:
        self._size = max(size_bytes, 1)
        self._free: list[mmap.mmap] = []

    def take(self) -> NDArray[np.uint8]:
        """Returns a buffer whose contents are undefined."""
        memory = self._free.pop() if self._free else mmap.mmap(-1, self._size)
        return lend(memory, self._free.append)


def lend(memory: mmap.mmap, give_back: Callable[[Any], Any]) -> NDArray[np.uint8]:
    """Returns the bytes of `memory`; once their last view is gone, runs give_back(memory)."""
    # An array, not a memoryview: numpy's views keep the array alive that they were taken from,
    # but of a memoryview only the object behind it.
    root = np.frombuffer(memory, np.uint8)
    weakref.finalize(root, give_back, memory).atexit = False
    return root


def trim(arrays: Batch, rows: int) -> Batch:
    """Returns the batch with `units`, if it is compact, cut to the rows that `make` returned."""
    if compact.UNITS in arrays:
        arrays[compact.UNITS] = arrays[compact.UNITS][:rows]
    return arrays
