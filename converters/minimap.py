"""Minimap planes: the game's images to uint8 arrays.

In: a message's bytes and its `Columns.planes`. Out: one array per plane, [size.y, size.x].
Nothing is scaled or flipped.
"""

import numpy as np
from numpy.typing import NDArray

from starmill.converters import columns as columns_lib
from starmill.converters.columns import BITS_PER_PIXEL, LENGTH, SIZE_X, SIZE_Y, START
from starmill.converters.kernel import compiled
from starmill.schema import errors, vocab

_HEIGHT_MAP = columns_lib.PLANE_ROWS["height_map"]


@compiled
def _fill_bits(data, start, out):  # type: ignore[no-untyped-def]
    """Most significant bit first."""
    for i in range(len(out) // 8):
        byte = data[start + i]
        for bit in range(8):
            out[8 * i + bit] = (byte >> (7 - bit)) & 1


@compiled
def _fill_low_bytes(data, start, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = data[start + 4 * i]


@compiled
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
    return -1


def shape(columns: columns_lib.Columns) -> tuple[int, int]:
    """Returns the shape of every plane of the message: that of its height map."""
    size_x, size_y = (int(v) for v in columns.planes[_HEIGHT_MAP, SIZE_X : SIZE_Y + 1])
    if size_x <= 0 or size_y != size_x:
        raise errors.ConverterError(
            "height_map: expected a square minimap plane in every observation, "
            f"found {size_x} x {size_y}"
        )
    return size_y, size_x


def fill(
    name: str,
    data: NDArray[np.uint8],
    columns: columns_lib.Columns,
    out: NDArray[np.uint8],
) -> None:
    """Writes one plane of the message into out, zeros where the message has none.

    Args:
        name: a key of `specs.PLANES`.
        data: the message's bytes.
        columns: what was read from them.
        out: C-contiguous, of shape `shape(columns)`.
    """
    plane = [int(value) for value in columns.planes[columns_lib.PLANE_ROWS[name]]]
    bits = plane[BITS_PER_PIXEL]
    if name == "unit_type" and bits != 32:
        raise errors.ConverterError(
            f"minimap plane {name}: expected 32 bits per pixel, found {bits}"
        )
    if bits == 0:
        out[:] = 0
        return
    if (plane[SIZE_Y], plane[SIZE_X]) != out.shape:
        raise errors.ConverterError(
            f"minimap plane {name}: expected the height map's size {out.shape}, "
            f"found {plane[SIZE_Y]} x {plane[SIZE_X]}"
        )
    if bits not in (1, 8, 32) or plane[LENGTH] * 8 != bits * out.size:
        raise errors.ConverterError(
            f"minimap plane {name}: expected 1, 8 or 32 bits for each of {out.size} "
            f"pixels, found {bits} bits per pixel in {plane[LENGTH]} bytes"
        )
    start, flat = plane[START], out.reshape(-1)
    if bits == 1:
        _fill_bits(data, start, flat)
    elif bits == 8:
        flat[:] = data[start : start + plane[LENGTH]]
    elif name == "unit_type":
        unknown = _fill_types(data, start, flat, vocab.raw_to_dense("unit_types"))
        if unknown >= 0:
            raise errors.ConverterError(
                f"minimap plane {name}: unit type {unknown} is not in table unit_types"
            )
    else:
        _fill_low_bytes(data, start, flat)
