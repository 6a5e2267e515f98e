"""Packs one episode for the viewer of the report's page: units, planes and actions.

In: an `InMemoryEpisode`. Out: a dict for JSON, with a header and one raw-deflate stream in base64.
`assets/viewer.js` reads it; change the two together.

The inflated stream has two sections, in the order that the header lists:
* "columns": int32 series. Each value is stored as its difference to the previous one
  (wrapping), in zigzag form. The bytes are split into planes, lowest byte first; `planes`
  says how many planes are stored.
* "planes": for each map plane, T frames with `bits` per cell, low bits first. Each frame is
  XORed with the previous one.
Unit rows are sorted by tag, then by step. This puts the values of one unit side by side,
which matters because deflate looks back only 32 kB.
"""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.schema import specs
from starmill.schema.episode import InMemoryEpisode
from starmill.schema.settings import ConverterSettings

_ACTIONS = ("function", "delay", "queued", "repeat", "target_unit_tag", "world")
_PER_STEP = ("game_loop", "mmr")


def payload(episode: InMemoryEpisode, settings: ConverterSettings) -> dict[str, Any]:
    """Returns the header and the packed data of an episode."""
    arrays = episode.arrays
    body = bytearray()
    columns = []

    def add(name: str, values: NDArray[Any]) -> None:
        planes, data = _pack_series(values.astype(np.int32).ravel())
        columns.append({"name": name, "planes": planes, "length": int(values.size)})
        body.extend(data)

    units = _unit_series(arrays["raw_units"], specs.unit_columns(settings))
    for name, values in units.items():
        add(f"unit/{name}", values)
    for name in _PER_STEP:
        add(name, arrays[name])
    for name in _ACTIONS:
        if f"action/{name}" in arrays:
            add(f"action/{name}", arrays[f"action/{name}"])
    add("action/unit_tags", arrays["action/unit_tags"].T)
    add("player", arrays["player"].T)
    if "camera" in arrays:
        add("camera", _corners(arrays["camera"]).T)
    planes = []
    for name in settings.minimap_features:
        frames = arrays[f"minimap_{name}"]
        bits = _bits(int(frames.max()))
        planes.append({"name": name, "bits": bits, "size": list(frames.shape[1:])})
        body.extend(_pack_frames(frames, bits))
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = squeezer.compress(bytes(body)) + squeezer.flush()
    return {
        "id": episode.meta.episode_id,
        "map": episode.meta.map_name,
        "race": episode.meta.race,
        "opponent_race": episode.meta.opponent_race,
        "mmr": episode.meta.mmr,
        "outcome": episode.meta.outcome,
        "steps": episode.meta.steps,
        "columns": columns,
        "planes": planes,
        "data": base64.b64encode(data).decode("ascii"),
    }


def _unit_series(
    units: NDArray[np.int32], names: tuple[str, ...]
) -> dict[str, NDArray[np.int32]]:
    """Returns the columns of all non-empty unit rows, sorted by tag and step."""
    step, row = np.nonzero(units.any(axis=2))
    valid = units[step, row]
    tag = valid[:, names.index("tag")]
    order = np.lexsort((row, step, tag))
    step, row, valid = step[order], row[order], valid[order]
    series = {"step": step.astype(np.int32), "row": row.astype(np.int32)}
    for column, name in enumerate(names):
        series[name] = valid[:, column]
    return series


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


def _bits(largest: int) -> int:
    return next(bits for bits in (1, 2, 4, 8) if largest < 1 << bits)


def _pack_frames(frames: NDArray[np.uint8], bits: int) -> bytes:
    """Returns the frames packed to `bits` per cell, low bits first, XORed along time."""
    flat = frames.reshape(len(frames), -1)
    per_byte = 8 // bits
    pad = -flat.shape[1] % per_byte
    cells = np.pad(flat, ((0, 0), (0, pad))).reshape(len(frames), -1, per_byte)
    packed = np.zeros(cells.shape[:2], np.uint8)
    for index in range(per_byte):
        packed |= cells[:, :, index] << np.uint8(index * bits)
    packed[1:] ^= packed[:-1].copy()
    return packed.tobytes()
