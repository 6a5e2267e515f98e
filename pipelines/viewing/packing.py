"""Packs one episode for the viewer: units, planes, actions, and what follows from them.

In: an episode's arrays, some steps at a time. Out: a dict for JSON, with a header and one raw-deflate
stream in base64. `assets/viewer.js` reads it; change the two together.

The inflated stream has two sections, in the order that the header lists:
* "columns": int32 series. Each value is stored as its difference to the previous one
  (wrapping), in zigzag form. The bytes are split into planes, lowest byte first; `planes`
  says how many planes are stored.
* "planes": for each map plane, `frames` frames with `bits` per cell, low bits first. Each frame is
  XORed with the one before it. Only steps at which the plane differs from the step before have a
  frame; the column "plane/NAME" lists these steps.
Unit rows are sorted by tag, then by step. This puts the values of one unit side by side,
which matters because deflate looks back only 32 kB.
"""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.pipelines.viewing import events
from starmill.schema import specs
from starmill.schema.episode import Arrays
from starmill.schema.settings import ConverterSettings

_ACTIONS = ("function", "delay", "queued", "repeat", "target_unit_tag", "world")
_PER_STEP = ("game_loop", "mmr")
# Cells of the map's border that stay visible around the playable area.
_BORDER = 2


def keys(settings: ConverterSettings) -> list[str]:
    """Returns the names of the arrays that a packer needs."""
    names = ["raw_units", "player", *_PER_STEP, "action/unit_tags"]
    names += [f"action/{name}" for name in _ACTIONS]
    names += [f"minimap_{name}" for name in settings.minimap_features]
    known = specs.episode_specs(settings)
    return [name for name in [*names, "camera"] if name in known]


class EpisodePacker:
    """Collects the steps of one episode; holds units and changes of the map, no whole arrays."""

    def __init__(self, settings: ConverterSettings) -> None:
        self._settings = settings
        self._steps = 0
        self._units: list[NDArray[np.int32]] = []
        self._series: dict[str, list[NDArray[Any]]] = {}
        self._planes = {name: _Plane(name) for name in settings.minimap_features}

    def add(self, arrays: Arrays) -> None:
        """Adds some steps; each array is [T, *shape]. They may change afterwards."""
        units = arrays["raw_units"]
        step, row = np.nonzero(units.any(axis=2))
        where = np.stack([step + self._steps, row], axis=1)
        self._units.append(
            np.concatenate([where, units[step, row]], axis=1).astype(np.int32)
        )
        for name in _PER_STEP:
            self._note(name, arrays[name])
        for name in (*_ACTIONS, "unit_tags"):
            if f"action/{name}" in arrays:
                self._note(f"action/{name}", arrays[f"action/{name}"])
        self._note("player", arrays["player"])
        if "camera" in arrays:
            self._note("camera", _corners(arrays["camera"]))
        for name, plane in self._planes.items():
            plane.add(self._steps, arrays[f"minimap_{name}"])
        self._steps += len(units)

    def finish(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the header and the packed data; `about` is added to the header."""
        body = bytearray()
        columns = []

        def add(name: str, values: NDArray[Any]) -> None:
            planes, data = _pack_series(values.astype(np.int32).ravel())
            columns.append({"name": name, "planes": planes, "length": int(values.size)})
            body.extend(data)

        units = self._sorted_units()
        for name, values in units.items():
            add(f"unit/{name}", values)
        series = {name: np.concatenate(parts) for name, parts in self._series.items()}
        for name, values in series.items():
            add(name, values.T)
        for name, plane in self._planes.items():
            add(f"plane/{name}", np.asarray(plane.steps, np.int32))
        for plane in self._planes.values():
            body.extend(plane.data)
        squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
        data = squeezer.compress(bytes(body)) + squeezer.flush()
        loops = series["game_loop"]
        supply = series["player"][:, specs.PLAYER_COLUMNS.index("food_used")]
        return {
            **about,
            "steps": self._steps,
            "columns": columns,
            "planes": [plane.header() for plane in self._planes.values()],
            "crop": self._crop(),
            "build_order": events.build_order(units, loops, supply),
            "losses": events.losses(units, loops),
            "data": base64.b64encode(data).decode("ascii"),
        }

    def _note(self, name: str, values: NDArray[Any]) -> None:
        self._series.setdefault(name, []).append(values.astype(np.int32))

    def _sorted_units(self) -> dict[str, NDArray[np.int32]]:
        """Returns the columns of all non-empty unit rows, sorted by tag and step."""
        names = ("step", "row", *specs.unit_columns(self._settings))
        rows = np.concatenate(self._units)
        # From here on the sorted copy is enough.
        self._units = []
        tag = rows[:, names.index("tag")]
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0], tag))]
        return {name: rows[:, column] for column, name in enumerate(names)}

    def _crop(self) -> list[float]:
        """Returns the playable area as left, top, right and bottom, from 0 to 1 each."""
        first = [
            self._planes[name].first
            for name in ("pathable", "buildable")
            if name in self._planes
        ]
        playable = np.any([plane for plane in first if plane is not None], axis=0)
        if not first or not playable.any():
            return [0.0, 0.0, 1.0, 1.0]
        out = []
        for axis in (0, 1):
            cells = np.flatnonzero(playable.any(axis))
            size = playable.shape[1 - axis]
            low = max(int(cells[0]) - _BORDER, 0)
            high = min(int(cells[-1]) + 1 + _BORDER, size)
            out.append((low / size, high / size))
        (left, right), (top, bottom) = out
        return [left, top, right, bottom]


def pack(arrays: Arrays, settings: ConverterSettings, **about: Any) -> dict[str, Any]:
    """Returns the header and the packed data of an episode's arrays."""
    packer = EpisodePacker(settings)
    packer.add(arrays)
    return packer.finish(about)


class _Plane:
    """The frames of one map plane.

    Attributes:
        steps: at which the plane changed; the first step is always among them.
        data: the packed frames of these steps.
        first: the plane at the first step; None before.
    """

    def __init__(self, name: str) -> None:
        largest = specs.PLANES.get(name, 255)
        self._name = name
        self._bits = next(bits for bits in (1, 2, 4, 8) if largest < 1 << bits)
        self._size = [0, 0]
        self._latest: NDArray[np.uint8] | None = None
        self.steps: list[int] = []
        self.data = bytearray()
        self.first: NDArray[np.uint8] | None = None

    def add(self, step: int, frames: NDArray[np.uint8]) -> None:
        """Adds the frames [T, H, W] of the steps from `step` on."""
        if self.first is None:
            self.first = frames[0].copy()
            self._size = list(frames.shape[1:])
        packed = _pack_frames(frames, self._bits)
        if self._latest is None:
            self._latest = np.zeros_like(packed[0])
            changed = np.ones(len(packed), bool)
        else:
            changed = np.zeros(len(packed), bool)
        before = np.concatenate([self._latest[None], packed[:-1]])
        difference = packed ^ before
        changed[1:] = difference[1:].any(1)
        changed[0] |= bool(difference[0].any())
        self.steps += (step + np.flatnonzero(changed)).tolist()
        self.data += difference[changed].tobytes()
        self._latest = packed[-1]

    def header(self) -> dict[str, Any]:
        """Returns what the reader needs to know of the frames."""
        return {
            "name": self._name,
            "bits": self._bits,
            "size": self._size,
            "frames": len(self.steps),
        }


def _pack_series(values: NDArray[np.int32]) -> tuple[int, bytes]:
    """Returns how many byte planes are stored, and their bytes."""
    before = np.zeros_like(values)
    before[1:] = values[:-1]
    delta = values.view(np.uint32) - before.view(np.uint32)
    sign = (delta.view(np.int32) >> 31).view(np.uint32)
    zigzag = (delta << np.uint32(1)) ^ sign
    largest = int(zigzag.max()) if len(zigzag) else 0
    planes = (largest.bit_length() + 7) // 8
    lanes = zigzag.astype("<u4").view(np.uint8).reshape(-1, 4)
    return planes, b"".join(lanes[:, plane].tobytes() for plane in range(planes))


def _corners(camera: NDArray[np.int32]) -> NDArray[np.int32]:
    """Returns each camera's first and last column and row; -1 where it is empty. [T, 4]."""
    out = np.full((len(camera), 4), -1, np.int32)
    for step, plane in enumerate(camera):
        rows, columns = np.flatnonzero(plane.any(1)), np.flatnonzero(plane.any(0))
        if len(rows):
            out[step] = columns[0], columns[-1], rows[0], rows[-1]
    return out


def _pack_frames(frames: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Returns the frames packed to `bits` per cell, low bits first: [T, bytes]."""
    flat = frames.reshape(len(frames), -1)
    per_byte = 8 // bits
    pad = -flat.shape[1] % per_byte
    cells = np.pad(flat, ((0, 0), (0, pad))).reshape(len(frames), -1, per_byte)
    # The game never exceeds a plane's bound; larger values could not be drawn.
    cells = np.minimum(cells, (1 << bits) - 1).astype(np.uint8)
    packed = np.zeros(cells.shape[:2], np.uint8)
    for index in range(per_byte):
        packed |= cells[:, :, index] << np.uint8(index * bits)
    return packed
