"""World positions and the square grid that the arrays speak of.

In: world coordinates in float32, y up. Out: grid columns and rows, y down, as the reference
rounds them: float32 throughout, and conversions to integers that never overflow.
"""

from typing import NamedTuple

import numpy as np

from starmill.schema.compilation import compiled

# The result for a float that is not an int32: out of range, infinite, or not a number.
NO_INTEGER = -(2**31)


class Grid(NamedTuple):
    """The grid over one map.

    Attributes:
        resolution: cells along each side.
        scale: cells per world unit, float32; the longer side of the map fills the grid.
        height: of the map, in world units.
        side: the longer side of the map, in world units.
    """

    resolution: int
    scale: np.float32
    height: np.float32
    side: int


def make_grid(resolution: int, width: int, height: int) -> Grid:
    """Returns the grid of a map of that size in world units."""
    side = max(width, height)
    return Grid(
        resolution, np.float32(resolution) / np.float32(side), np.float32(height), side
    )


@compiled
def trunc(value):  # type: ignore[no-untyped-def]
    """Returns the float as an int32 cut towards zero; NO_INTEGER where there is none."""
    if value > -2147483649.0 and value < 2147483648.0:
        return np.int64(value)
    return np.int64(NO_INTEGER)


@compiled
def column(grid, x):  # type: ignore[no-untyped-def]
    """Returns the grid column of a world x; not clipped."""
    return trunc(np.floor(x * grid.scale))


@compiled
def row(grid, y):  # type: ignore[no-untyped-def]
    """Returns the grid row of a world y; not clipped."""
    return trunc(np.floor((grid.height - y) * grid.scale))


@compiled
def world_index(grid, x, y):  # type: ignore[no-untyped-def]
    """Returns the cell of an action's point; may lie outside of the grid.

    It truncates, whereas `column` and `row` round down; a point just left of
    the map is in column 0.
    """
    low = max(np.float32(0.5), y)
    down = trunc(grid.scale * (grid.height - low))
    # 32-bit arithmetic wraps, in the reference too: a point far off may land on the grid.
    return np.int64(np.int32(down * grid.resolution + trunc(grid.scale * x)))


def world_point(grid: Grid, world: int) -> tuple[float, float]:
    """Returns the middle of a cell, in world units; the numbers are float32's."""
    half = np.float32(0.5)
    # Rounds towards zero, as C++ does, where an agent asks for a cell before the first.
    down = int(world / grid.resolution)
    x = (np.float32(world - down * grid.resolution) + half) / grid.scale
    y = grid.height - (np.float32(down) + half) / grid.scale
    return float(x), float(y)
