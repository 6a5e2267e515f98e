"""Minimap planes: the game's images to uint8 arrays.

In: a message's bytes and its `Columns.planes`. Out: one array of all planes asked for, each
as large as the message's height map. Nothing is scaled or flipped.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from starmill.converters.columns import Columns
from starmill.converters.message_fields import (
    BITS_PER_PIXEL,
    LENGTH,
    PLANE_ROWS,
    SIZE_X,
    SIZE_Y,
    START,
)
from starmill.schema import errors, vocab
from starmill.schema.compilation import bare_compiled, bare_kernel

_TYPES = PLANE_ROWS["unit_type"]
_HEIGHT_MAP = PLANE_ROWS["height_map"]


# A byte's eight pixels, as the uint64 that they are in memory.
_EIGHT_PIXELS = np.unpackbits(np.arange(256, dtype=np.uint8)).view(np.uint64)
# A message of a few bytes can state any size for a plane. The game's largest
# minimap has 256 pixels.
MOST_PIXELS = 1024
# Why `_fill` stopped.
_DONE, _SIZE_DIFFERS, _ENCODING, _TYPES_ENCODING, _UNKNOWN_TYPE = range(5)


@bare_kernel
def _fill_bits(data, start, out):  # type: ignore[no-untyped-def]
    """Most significant bit first; there are eight times as many pixels as bytes."""
    eights = out.view(np.uint64)
    bits = data[start : start + len(eights)]
    for i in range(len(eights)):
        eights[i] = _EIGHT_PIXELS[bits[i]]


@bare_kernel
def _fill_types(data, start, out, dense):  # type: ignore[no-untyped-def]
    """Translates little-endian raw unit types; returns the first unknown one, or -1."""
    for i in range(len(out)):
        at = start + 4 * i
        raw = (
            np.int64(data[at])
            | np.int64(data[at + 1]) << 8
            | np.int64(data[at + 2]) << 16
            | np.int64(data[at + 3]) << 24
        )
        if raw >= len(dense) or dense[raw] < 0:
            return raw
        out[i] = dense[raw]
    return np.int64(-1)


@bare_kernel
def _fill_pixels(data, start, bits, out):  # type: ignore[no-untyped-def]
    if bits == 0:
        out[:] = 0
    elif bits == 1:
        _fill_bits(data, start, out)
    elif bits == 8:
        pixels = data[start : start + len(out)]
        for i in range(len(pixels)):
            out[i] = pixels[i]
    else:
        for i in range(len(out)):
            out[i] = data[start + 4 * i]


@bare_kernel
def _refusal(plane, side, types):  # type: ignore[no-untyped-def]
    """Why a plane cannot be read; _DONE if it can."""
    bits = plane[BITS_PER_PIXEL]
    if types and bits != 32:
        return _TYPES_ENCODING
    if bits == 0:
        return _DONE
    if plane[SIZE_X] != side or plane[SIZE_Y] != side:
        return _SIZE_DIFFERS
    if bits not in (1, 8, 32) or plane[LENGTH] * 8 != bits * side * side:
        return _ENCODING
    return _DONE


@bare_compiled
def _fill(data, planes, rows, types_row, dense, side, out):  # type: ignore[no-untyped-def]
    """Fills all planes; returns (why it stopped, at which plane, unknown type)."""
    for k in range(len(rows)):
        plane = planes[rows[k]]
        refusal = _refusal(plane, side, rows[k] == types_row)
        if refusal != _DONE:
            return refusal, k, np.int64(0)
        if rows[k] == types_row:
            unknown = _fill_types(data, plane[START], out[k], dense)
            if unknown >= 0:
                return _UNKNOWN_TYPE, k, unknown
        else:
            _fill_pixels(data, plane[START], plane[BITS_PER_PIXEL], out[k])
    return _DONE, 0, np.int64(0)


def side(columns: Columns) -> int:
    """Returns the side of every plane of the message: that of its height map."""
    size_x = int(columns.planes[_HEIGHT_MAP, SIZE_X])
    size_y = int(columns.planes[_HEIGHT_MAP, SIZE_Y])
    if size_x <= 0 or size_y != size_x:
        raise errors.ConverterError(
            "height_map: expected a square minimap plane in every observation, "
            f"found {size_x} x {size_y}"
        )
    if size_x > MOST_PIXELS:
        raise errors.ConverterError(
            f"height_map: expected a side of at most {MOST_PIXELS} pixels, found {size_x}"
        )
    return size_x


def rows_of(names: Sequence[str]) -> NDArray[np.int64]:
    """Returns the rows of `Columns.planes` for planes by name, as `fill` takes them."""
    return np.array([PLANE_ROWS[name] for name in names], np.int64)


def fill(
    data: NDArray[np.uint8],
    columns: Columns,
    rows: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Writes planes of the message, zeros for those that it does not have.

    Args:
        data: the message's bytes.
        columns: what was read from them.
        rows: from `rows_of`.
        out: uint8 [P, side, side], C-contiguous.
    """
    dense = vocab.raw_to_dense("unit_types")
    length = out.shape[-1]
    flat = out.reshape(len(rows), length * length)
    why, k, unknown = _fill(data, columns.planes, rows, _TYPES, dense, length, flat)
    if why == _DONE:
        return
    plane = columns.planes[rows[k]]
    bits, size = int(plane[BITS_PER_PIXEL]), int(plane[LENGTH])
    problems = {
        _SIZE_DIFFERS: f"expected the height map's {length} x {length} pixels, "
        f"found {plane[SIZE_X]} x {plane[SIZE_Y]}",
        _ENCODING: f"expected 1, 8 or 32 bits for each of {length * length} pixels, "
        f"found {bits} bits per pixel in {size} bytes",
        _TYPES_ENCODING: f"expected 32 bits per pixel, found {bits}",
        _UNKNOWN_TYPE: f"unit type {unknown} is not in table unit_types",
    }
    name = next(n for n, row in PLANE_ROWS.items() if row == rows[k])
    raise errors.ConverterError(f"minimap plane {name}: {problems[why]}")
