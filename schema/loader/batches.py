"""Batches: numbers to arrays, in the reader's process or in worker processes.

In: a plan, and which episodes there are. Out: batch n for any n, the same whoever makes it,
so iteration is a counter, and saving it is saving the counter. Arrays lie in buffers that are
used again once nobody refers to them; worker processes fill shared memory.
"""

import dataclasses
import mmap
import weakref
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from starmill.schema import episode, errors, specs
from starmill.schema.loader import compact, samplers, windows
from starmill.schema.settings import ConverterSettings

Batch = dict[str, NDArray[Any]]
FORMS = ("dense", "compact")
# Beyond the arrays of the spec: dtypes of what is worked out, each [B, K].
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
# Offsets of arrays in a buffer: what vector units and JAX's zero-copy want.
_ALIGNMENT = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a batch looks like.

    keys: arrays of the spec that are wanted, sorted.
    first_lane, lanes: which lanes of the plan's batch this host reads.
    """

    plan: samplers.Plan
    form: str
    keys: tuple[str, ...]
    first_lane: int
    lanes: int
    shuffle_unit_tags: bool

    def __post_init__(self) -> None:
        """Checks the form."""
        if self.form not in FORMS:
            raise errors.ConfigError(
                f"form: expected one of {FORMS}, found {self.form!r}"
            )

    def fingerprint(self) -> int:
        """Returns a number that differs where batches would; lanes of hosts do not count."""
        facts = (self.plan, self.keys, self.form, self.shuffle_unit_tags)
        return zlib.crc32(repr(facts).encode())


class Field(NamedTuple):
    """Where an array of a batch lies in its buffer."""

    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int


def fields(options: Options, settings: ConverterSettings) -> tuple[list[Field], int]:
    """Returns the arrays of a batch and the size of a buffer that holds them."""
    found = specs.episode_specs(settings)
    lead = (options.lanes, options.plan.rollout)
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {}
    for key in options.keys:
        spec = found[key]
        shapes[key] = ((*lead, *spec.shape), spec.dtype)
        if options.form == "compact" and key == "raw_units":
            del shapes[key]
            most = compact.padded_rows(lead[0] * lead[1] * spec.shape[0])
            shapes[compact.UNITS] = ((most, spec.shape[1]), np.int32)
            shapes[compact.COUNT] = (lead, np.int32)
        if options.form == "compact" and key == "camera":
            del shapes[key]
            shapes[compact.CORNERS] = ((*lead, 4), np.int32)
    for key, dtype in EXTRAS.items():
        if key != "prev_delay" or _DELAY in found:
            shapes[key] = (lead, dtype)
    out = []
    offset = 0
    for key, (shape, dtype) in shapes.items():
        out.append(Field(key, shape, np.dtype(dtype), offset))
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT
    return out, offset


def views(layout: list[Field], buffer: NDArray[np.uint8]) -> Batch:
    """Returns the arrays of a batch as views of a buffer of bytes."""
    out = {}
    for field in layout:
        size = int(np.prod(field.shape, dtype=np.int64)) * field.dtype.itemsize
        part = buffer[field.offset : field.offset + size]
        out[field.key] = part.view(field.dtype).reshape(field.shape)
    return out


class BatchMaker:
    """Makes batch n into arrays that it is given."""

    def __init__(
        self,
        options: Options,
        settings: ConverterSettings,
        index: windows.EpisodeIndex,
        folder: str,
    ) -> None:
        self.options = options
        self.index = index
        self.settings = settings
        self.folder = folder
        self._keys = tuple(specs.episode_specs(settings))
        self._reader = windows.WindowReader(folder, settings, index)
        self._sampler = samplers.make(options.plan, index.steps)
        self.layout, self.size_bytes = fields(options, settings)
        self.batches = self._sampler.batches

    def make(self, batch: int, out: Batch) -> int:
        """Fills the arrays with a batch; returns the rows of `units`, 0 in dense form."""
        options = self.options
        lanes = self._sampler.lanes(
            batch, options.first_lane, options.first_lane + options.lanes
        )
        delay = out.get(_DELAY)
        if delay is None:
            delay = np.zeros((options.lanes, options.plan.rollout), np.int32)
        before = np.zeros(delay.shape, np.int32)
        for key in ("valid", "episode", "step", "outcome"):
            out[key][:] = 0
        rows = 0
        for number, pieces in enumerate(lanes):
            at = 0
            for piece in pieces:
                end = at + piece.length
                rows = self._piece(piece, out, number, at, rows, delay, before)
                out["valid"][number, at:end] = True
                out["episode"][number, at:end] = piece.episode
                out["step"][number, at:end] = np.arange(
                    piece.start, piece.start + piece.length
                )
                out["outcome"][number, at:end] = self.index.outcome[piece.episode]
                at = end
            self._pad(out, number, at, delay)
        self._derive(out, delay, before)
        if options.shuffle_unit_tags and _TAGS in out:
            self._shuffle(batch, out[_TAGS])
        if compact.UNITS not in out:
            return 0
        padded = compact.padded_rows(rows)
        out[compact.UNITS][rows:padded] = 0
        return padded

    def _piece(
        self,
        piece: samplers.Piece,
        out: Batch,
        lane: int,
        at: int,
        rows: int,
        delay: NDArray[np.int32],
        before: NDArray[np.int32],
    ) -> int:
        """Reads a piece into a lane from slot `at`; returns the rows of `units` used so far."""
        into = {key: out[key][lane, at:] for key in self.options.keys if key in out}
        if _DELAY in self._keys:
            into[_DELAY] = delay[lane, at:]
        stop = piece.start + piece.length
        before[lane, at] = self._reader.read(piece.episode, piece.start, stop, into)
        if compact.UNITS not in out and compact.CORNERS not in out:
            return rows
        for part in self._reader.chunks(piece.episode, piece.start, stop):
            end = at + part.stop - part.start
            if compact.UNITS in out:
                counts = part.chunk.units(
                    part.start, part.stop, out[compact.UNITS], rows, 0
                )
                out[compact.COUNT][lane, at:end] = counts
                rows += int(counts.sum())
            if compact.CORNERS in out:
                out[compact.CORNERS][lane, at:end] = part.chunk.corners(
                    part.start, part.stop
                )
            at = end
        return rows

    def _pad(self, out: Batch, lane: int, at: int, delay: NDArray[np.int32]) -> None:
        if at == self.options.plan.rollout:
            return
        for key in self.options.keys:
            if key in out:
                out[key][lane, at:] = 0
        for key in (compact.COUNT, compact.CORNERS):
            if key in out:
                out[key][lane, at:] = 0
        delay[lane, at:] = 0

    def _derive(
        self, out: Batch, delay: NDArray[np.int32], before: NDArray[np.int32]
    ) -> None:
        """Works out the EXTRAS that follow from the others, as `episode.derived` does."""
        step, valid = out["step"], out["valid"]
        last = valid & (step == self.index.steps[out["episode"]] - 1)
        first = valid & (step == 0)
        out["reward"][:] = np.where(last, out["outcome"], 0)
        out["step_type"][:] = episode.MID
        out["step_type"][first] = episode.FIRST
        # One step is both; the reference's own arrays say LAST there too.
        out["step_type"][last | ~valid] = episode.LAST
        if "prev_delay" in out:
            previous = out["prev_delay"]
            previous[:, 1:] = delay[:, :-1]
            previous[:, 0] = 0
            begins = valid.copy()
            begins[:, 1:] &= (step[:, 1:] != step[:, :-1] + 1) | (
                out["episode"][:, 1:] != out["episode"][:, :-1]
            )
            previous[begins] = before[begins]
            previous[~valid] = 0

    def _shuffle(self, batch: int, tags: NDArray[np.int32]) -> None:
        """Puts the commanded units of each step in a random order, padding last."""
        raw = self.settings.raw_settings
        pad = raw.max_unit_count if raw is not None else 0
        rollout, size = tags.shape[1:]
        for lane in range(len(tags)):
            keys = samplers.shuffle_keys(
                self.options.plan.seed,
                batch,
                self.options.first_lane + lane,
                rollout * size,
            ).reshape(rollout, size)
            # Keys lose their lowest bit to padding, which must stay behind.
            keys = np.where(
                tags[lane] == pad, np.uint64(2**64 - 1), keys >> np.uint64(1)
            )
            order = np.argsort(keys, axis=1, kind="stable")
            tags[lane] = np.take_along_axis(tags[lane], order, axis=1)


class BufferPool:
    """Buffers that come back by themselves when no array refers to them any more."""

    def __init__(self, size_bytes: int) -> None:
        self._size = max(size_bytes, 1)
        self._free: list[mmap.mmap] = []

    def take(self) -> NDArray[np.uint8]:
        """Returns a buffer; its content is whatever it was."""
        held = self._free.pop() if self._free else mmap.mmap(-1, self._size)
        return lend(held, self._free.append)


def lend(held: mmap.mmap, give_back: Callable[[Any], Any]) -> NDArray[np.uint8]:
    """Returns a buffer's bytes; `give_back(held)` runs when the last view of them is gone."""
    # An array, not a memoryview: numpy's views keep their first array alive, but look
    # through a memoryview to what is behind it.
    root = np.frombuffer(held, np.uint8)
    weakref.finalize(root, give_back, held).atexit = False
    return root


def trim(arrays: Batch, rows: int) -> Batch:
    """Cuts `units` of a compact batch to the rows that `make` returned."""
    if compact.UNITS in arrays:
        arrays[compact.UNITS] = arrays[compact.UNITS][:rows]
    return arrays


def check_state(state: Mapping[str, int], options: Options, dataset: int) -> int:
    """Returns the position of a saved state; ConfigError if it is of another iteration."""
    expected = {"options": options.fingerprint(), "dataset": dataset}
    if set(state) != {*expected, "position"}:
        raise errors.ConfigError(
            f"state: expected position, options and dataset, found {sorted(state)}"
        )
    for key, value in expected.items():
        if state[key] != value:
            raise errors.ConfigError(
                f"state: saved with other {key} ({state[key]}, here {value}); "
                f"resume with the same dataset, filters and options"
            )
    return int(state["position"])
