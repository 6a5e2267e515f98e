"""The compact form of a batch, and its conversion to the dense form.

In: a compact batch. Out: the dense batch with the same content. Send compact batches to a
device: the camera is four corners instead of a plane (262 of the 476 kB of a dense step), and
only the unit rows in use are present.

    dense    raw_units [B, K, U, C]   camera [B, K, R, R]
    compact  units [N, C], unit_count [B, K]   camera_corners [B, K, 4]

`units` holds the rows in use of all steps, one step after the other in the order of the batch,
then zero rows up to a multiple of ROWS, so that few shapes occur. Corners are top, bottom, left
and right; bottom and right are the first row and column outside. All other arrays are the same.

`to_dense` takes the array module as an argument: numpy, or `jax.numpy` in a jitted step.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

# Rows of `units` come in multiples of this: a jitted step is compiled once per shape.
ROWS = 4096

UNITS, COUNT, CORNERS = "units", "unit_count", "camera_corners"


def padded_rows(rows: int) -> int:
    """Returns the length of `units` with this many rows in use; at least ROWS."""
    return max(-(-rows // ROWS), 1) * ROWS


def to_dense(
    batch: Mapping[str, Any], *, max_units: int, resolution: int, xp: Any = np
) -> dict[str, Any]:
    """Returns the dense batch; works inside `jax.jit` with xp=jax.numpy.

    Args:
        batch: a compact batch; the result lacks the units or the camera if the batch does.
        max_units: U of the spec.
        resolution: R, the side of the camera plane.
        xp: numpy, or a module with the same functions.
    """
    out = {
        key: value for key, value in batch.items() if key not in (UNITS, COUNT, CORNERS)
    }
    if UNITS in batch:
        count = batch[COUNT]
        ends = xp.cumsum(count.reshape(-1)).reshape(count.shape)
        slots = xp.arange(max_units, dtype=xp.int32)
        used = slots < count[..., None]
        rows = xp.where(used, (ends - count)[..., None] + slots, 0)
        zero = xp.zeros((), batch[UNITS].dtype)
        out["raw_units"] = xp.where(used[..., None], batch[UNITS][rows], zero)
    if CORNERS in batch:
        corners = batch[CORNERS][..., None]
        cells = xp.arange(resolution, dtype=xp.int32)
        rows = (cells >= corners[..., 0, :]) & (cells < corners[..., 1, :])
        columns = (cells >= corners[..., 2, :]) & (cells < corners[..., 3, :])
        out["camera"] = (rows[..., :, None] & columns[..., None, :]).astype(xp.int32)
    return out
